"""What the organiser of a sealed round keeps: files that nobody else can read."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ftw_envs.files import partial_path
from leaderboards.rounds import RoundError, Secret
from leaderboards.strict import read_json

_MAX_BYTES = 1 << 20


def new_secret() -> Secret:
    """A salt and a master key, 256 bits each, from the system's generator."""
    return Secret(secrets.token_bytes(32), secrets.token_bytes(32))


def save_secret(path: Path, name: str, secret: Secret) -> None:
    """Writes the secret of the round `name`; raises RoundError, see `write_private`."""
    facts = {"salt": secret.salt.hex(), "master_key": secret.master_key.hex()}
    write_private(path, {"round": name, **facts})


def load_secret(path: Path, name: str) -> Secret:
    """The secret of the round `name`.

    Raises:
        RoundError: the file is no secret, of another round, or others can read it.
        StrictError: it cannot be read.
    """
    data = read_private(path)
    try:
        if data["round"] == name:
            salt, key = (bytes.fromhex(data[k]) for k in ("salt", "master_key"))
            if len(salt) == len(key) == 32:
                return Secret(salt, key)
    except (KeyError, TypeError, ValueError):
        pass
    raise RoundError(f"{path}: not the secret of round {name}") from None


def tokens_for(path: Path, name: str, slugs: Iterable[str]) -> dict[str, str]:
    """A token for each participant of the round `name`: 256 bits, made if the file is not there.

    Raises:
        RoundError, StrictError: as `load_secret`, or a participant has none.
    """
    slugs = sorted(slugs)
    if not path.exists():
        made = {slug: secrets.token_urlsafe(32) for slug in slugs}
        write_private(path, {"round": name, "tokens": made})
    data = read_private(path)
    tokens = data.get("tokens") if isinstance(data, dict) and data.get("round") == name else None
    if not isinstance(tokens, dict) or sorted(tokens) != slugs:
        raise RoundError(f"{path}: not the tokens of round {name} and its participants")
    good = all(isinstance(t, str) and len(t) >= 32 for t in tokens.values())
    if not good or len(set(tokens.values())) < len(tokens):
        raise RoundError(f"{path}: each token is a string of its own, of at least 32 characters")
    return tokens


def write_private(path: Path, data: dict[str, Any]) -> None:
    """Writes a new JSON file that only its owner can read.

    Raises:
        RoundError: it exists, or lies in a git repository, from where it would get out one day.
    """
    folder = path.absolute().parent
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            raise RoundError(f"{path}: lies in the repository {parent}; keep secrets outside of it")
    folder.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)  # unlike a rename, never over another file
    except FileExistsError:
        raise RoundError(f"{path}: exists already") from None
    finally:
        partial.unlink()


def read_private(path: Path) -> Any:
    """What such a file says. Raises RoundError if others can read it; StrictError."""
    data = read_json(path, _MAX_BYTES)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise RoundError(f"{path}: others can read it; set its mode to 600")
    return data
