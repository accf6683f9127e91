"""What an entry is called: by machines a hash of what it says, by people a slug.

The hash is SHA-256 over `DOMAIN` and the entry as canonical JSON (RFC 8785), so that any
language can work it out; `schemas/entry_id_vectors.json` holds examples.
"""

from __future__ import annotations

import json
import re
import unicodedata
from hashlib import sha256
from typing import Any

from leaderboards.changes import slug_problem
from leaderboards.schema import Entry, EntryError

DOMAIN = b"ftw-entry-2\n"
"""Stands before the JSON, so that no other hash of the suite can be taken for an entry's."""

_MAX_SLUG = 63

# Letters of other scripts that look like Latin ones.
_LOOKS_LIKE = str.maketrans(
    "авеёкмнорстухіјѕԁԛԝһ" "αβεικνορτυχϲ" "ıɑɡ",
    "abeekmhopctyxijsdqwh" "abeikvoptuxc" "iag",
)  # fmt: skip
_WORD = re.compile(r"[0-9]+|[^\W\d_]+|\++")


def canonical(value: Any) -> bytes:
    """The one way to write a JSON value in RFC 8785, for values without fractions.

    Raises:
        ValueError: a number that is not whole or beyond 2**53, a lone surrogate, or what is no
            JSON at all.
    """
    return _written(value).encode("utf-8")


def _written(value: Any) -> str:
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        if abs(value) > 2**53:
            raise ValueError(f"{value} is beyond 2**53")
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return f"{{{','.join(f'{_written(k)}:{_written(value[k])}' for k in keys)}}}"
    raise ValueError(f"a {type(value).__name__} has no place in what is hashed, got {value!r}")


def identity_of(entry: Entry) -> dict[str, Any]:
    """The part of an entry that makes it this one.

    All of it, with every optional key (null or "" where nothing is said), except: the id
    itself; claims, which are fractions and count for nothing; and how many lines a file has,
    which its hash says already.
    """
    data = entry.model_dump(exclude={"entry_id", "claims"})
    for file in data["files"]:
        del file["lines"]
    return data


def entry_id(entry: Entry) -> str:
    """The id that an entry has to have, 64 hex digits."""
    return sha256(DOMAIN + canonical(identity_of(entry))).hexdigest()


def check_slug(slug: str) -> str:
    """A slug as it is, if every system can have a folder of that name.

    Raises:
        EntryError: it cannot be one.
    """
    if problem := slug_problem(slug):
        raise EntryError(f"the folder's name {slug!a} {problem}")
    return slug


def slug_of(board: str, method: str, model: str | None, date: str) -> str:
    """A slug for an entry: what was played by whom and when; long names are cut.

    Raises:
        EntryError: the names hold nothing that a slug can be made of.
    """
    names = (board, method, *([model] if model else []))
    words = [re.sub(r"[^a-z0-9]+", "-", _latin(name)).strip("-") for name in names]
    head = "-".join(w for w in words if w)[: _MAX_SLUG - 1 - len(date)].strip("-")
    return check_slug(f"{head}-{date}")


def skeleton(name: str) -> str:
    """What is left of a name if looks count: equal for "GPT 5.2", "GPT-5-2" and "gpt5.2".

    Accents, case, look-alikes of other scripts and everything but letters, digits and "+" go;
    runs of letters and of digits stay apart, so that "1-18" is not "11-8".
    """
    return "-".join(_WORD.findall(_latin(name)))


def _latin(text: str) -> str:
    parts = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(c for c in parts if not unicodedata.combining(c))
    return bare.translate(_LOOKS_LIKE)
