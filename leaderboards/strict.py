"""Reads what strangers submit: one meaning, bounded size, one line on what is wrong.

Python's `json` takes duplicate keys, NaN, 1e999 and numbers of any length, and runs out of
stack on deep nesting. Nothing of that passes here, and a file is read line by line.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ftw_envs.episode import EpisodeError, loads_strict

MAX_DEPTH = 8
MAX_INT = 2**53
"""Above it not every JSON reader keeps a whole number."""

MAX_STRING = 100_000
"""Characters of one string."""

_MAX_REASON = 300
# The closing quote may lack: then the string goes to the end, and the search stays linear.
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)


class StrictError(ValueError):
    """Something that may not be read; the message says where, why, and what would be right."""

    def __init__(self, where: str, reason: str) -> None:
        short = reason if len(reason) <= _MAX_REASON else reason[: _MAX_REASON - 3] + "..."
        super().__init__(f"{where}: {' '.join(short.split())}")


# Text for people.

_HIDDEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    + "".join(map(chr, [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
)
"""Characters that show nothing and are printable all the same, by the Unicode tables."""

_ONE_SCRIPT = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "HANGUL": "CJK", "BOPOMOFO": "CJK"}
_MAX_MARKS = 2


def plain_text(text: str) -> str:
    """The text as it is, if all of it can be seen and it cannot pass for another one.

    Refused are control characters and line ends, what hides or turns text (zero-width,
    bidi), unassigned and private characters, spaces other than the plain one, letters and
    digits that stand for plain ones (full width, mathematical), and a word that mixes
    scripts, as a Latin word with a Cyrillic "a".

    Raises:
        ValueError: the first thing that is wrong, on one line that is safe to print.
    """
    if text != text.strip(" "):
        raise ValueError("text must not begin or end with a space")
    if text.isascii() and text.isprintable():
        return text
    marks = 0
    for character in text:
        kind = unicodedata.category(character)
        if not character.isprintable() or character in _HIDDEN or kind == "Me":
            raise ValueError(f"text holds U+{ord(character):04X}, which cannot be seen as it is")
        marks = marks + 1 if kind == "Mn" else 0
        if marks > _MAX_MARKS:
            raise ValueError(f"text has more than {_MAX_MARKS} marks on one letter")
        simple = unicodedata.normalize("NFKC", character)
        if kind in ("Lu", "Ll", "Lt", "Lo", "Nl") and simple != character:
            raise ValueError(f"text holds U+{ord(character):04X}: write {simple!a} for it")
        if kind == "Nd" and not character.isascii():
            raise ValueError(f"text holds U+{ord(character):04X}: write digits as 0 to 9")
    if unicodedata.normalize("NFC", text) != text:
        raise ValueError("text must be in Unicode form NFC: a letter with its accent is one")
    for word in re.findall(r"[^\W\d_]+", text):
        scripts = {_script(letter) for letter in word} - {""}
        if len(scripts) > 1:
            names = " and ".join(sorted(script.capitalize() for script in scripts))
            raise ValueError(f"the word {word!a} mixes {names} letters")
    return text


def _script(letter: str) -> str:
    """The script of a letter by its Unicode name; "" for what goes with any."""
    if unicodedata.category(letter) in ("Lm", "Mn", "Mc"):
        return ""
    script = unicodedata.name(letter, "").partition(" ")[0]
    return _ONE_SCRIPT.get(script, script)


# JSON.


def loads(data: bytes, where: str, max_bytes: int) -> Any:
    """What strict JSON says: an object, list, string, finite number, truth value or null.

    UTF-8 without a byte order mark, no key twice in an object, no NaN, Infinity or number
    out of range, whole numbers within +-2**53, at most `MAX_DEPTH` levels, strings of at
    most `MAX_STRING` characters without lone surrogates.

    Args:
        where: what the message calls it.

    Raises:
        StrictError: it is not that.
    """
    if len(data) > max_bytes:
        raise StrictError(where, f"longer than {max_bytes} bytes")
    if data.startswith(b"\xef\xbb\xbf"):
        raise StrictError(where, "begins with a byte order mark; write plain UTF-8")
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _too_deep(data):
        raise StrictError(where, f"nested deeper than {MAX_DEPTH} levels")
    try:
        value = loads_strict(data.decode("utf-8"), parse_int=_whole)
    except UnicodeDecodeError as e:
        raise StrictError(where, f"not UTF-8 at byte {e.start}") from None
    except EpisodeError as e:
        raise StrictError(where, str(e)) from None
    if len(data) > MAX_STRING and _longest(value) > MAX_STRING:
        raise StrictError(where, f"a string is longer than {MAX_STRING} characters")
    return value


def _whole(text: str) -> int:
    # The length first: to read a very long number takes long.
    if len(text) > 17 or abs(value := int(text)) > MAX_INT:
        raise EpisodeError(f"{text[:20]} is out of range: whole numbers go to 2**53")
    return value


def _too_deep(data: bytes) -> bool:
    """Whether brackets outside strings are nested deeper than `MAX_DEPTH`, closed or not."""
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(data):
        token = match[0]
        if token in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif token in b"]}":
            depth -= 1
    return False


def _longest(value: Any) -> int:
    """Characters of the longest string, keys included; `value` is at most `MAX_DEPTH` deep."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return max(map(_longest, [*value, *value.values()]), default=0)
    return max(map(_longest, value), default=0) if isinstance(value, list) else 0


# Files.


def open_plain(path: str | os.PathLike[str], max_bytes: int) -> BinaryIO:
    """Opens a regular file of at most `max_bytes` for reading; never a link or a pipe.

    Raises:
        StrictError: it is not there, not a regular file, or too large.
    """
    where = os.fspath(path)
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        handle = os.open(where, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as e:
        raise StrictError(where, _why_closed(where, e)) from None
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode):
        os.close(handle)
        raise StrictError(where, "not a regular file")
    if facts.st_size > max_bytes:
        os.close(handle)
        raise StrictError(where, f"{facts.st_size} bytes, at most {max_bytes} are allowed")
    return os.fdopen(handle, "rb")


def _why_closed(where: str, error: OSError | ValueError) -> str:
    if "\0" not in where and os.path.islink(where):
        return "a link; entries hold regular files only"
    return f"cannot be read ({getattr(error, 'strerror', None) or error})"


def read_json(path: str | os.PathLike[str], max_bytes: int) -> Any:
    """What a strict JSON file says. Raises StrictError, see `loads` and `open_plain`."""
    with open_plain(path, max_bytes) as file:
        return loads(file.read(max_bytes + 1), os.fspath(path), max_bytes)


def lines(
    path: str | os.PathLike[str], max_bytes: int, max_line_bytes: int
) -> Iterator[tuple[int, Any]]:
    r"""Streams a strict JSONL file: the number of each line, from 1, and what it says.

    Every line ends with \n alone, the last one too (else it was cut off), and none is empty.
    Memory is that of one line.

    Raises:
        StrictError: names the file and the line.
    """
    where = os.fspath(path)
    with open_plain(path, max_bytes) as file:
        number = read = 0
        while line := file.readline(max_line_bytes + 1):
            number += 1
            read += len(line)
            place = f"{where}:{number}"
            if read > max_bytes:
                raise StrictError(place, f"the file is longer than {max_bytes} bytes")
            if not line.endswith(b"\n"):
                long = len(line) > max_line_bytes
                raise StrictError(
                    place,
                    f"longer than {max_line_bytes} bytes"
                    if long
                    else "cut off: the line has no end",
                )
            if b"\r" in line:
                raise StrictError(place, r"a line ends with \n alone, here is a \r")
            if line == b"\n":
                raise StrictError(place, "an empty line")
            yield number, loads(line, place, max_line_bytes)


def inventory(folder: str | os.PathLike[str], max_files: int) -> dict[str, int]:
    """All files below `folder`: path relative to it, with "/", and bytes; in order of paths.

    Raises:
        StrictError: a link, something that is neither file nor folder, an empty folder, more
            than `max_files` files, or more than `MAX_DEPTH` folders deep.
    """
    top = Path(folder)
    found: dict[str, int] = {}
    waiting = [top]
    while waiting:
        here = waiting.pop()
        try:
            items = list(os.scandir(here))
        except OSError as e:
            raise StrictError(str(here), f"cannot be read ({e.strerror})") from None
        if not items:
            raise StrictError(str(here), "an empty folder")
        for item in items:
            path = Path(item.path).relative_to(top)
            if item.is_symlink():
                raise StrictError(str(folder), f"{path.as_posix()!a} is a link")
            if item.is_dir(follow_symlinks=False) and len(path.parts) <= MAX_DEPTH:
                waiting.append(Path(item.path))
            elif item.is_file(follow_symlinks=False):
                found[path.as_posix()] = item.stat(follow_symlinks=False).st_size
            else:
                raise StrictError(str(folder), f"{path.as_posix()!a} is not a regular file")
            if len(found) + len(waiting) > max_files:
                raise StrictError(str(folder), f"more than {max_files} files")
    return dict(sorted(found.items()))
