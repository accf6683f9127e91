"""The folder of verified entries: written once each, by the verifier alone."""

from __future__ import annotations

import json
from pathlib import Path

from ftw_envs.files import write_bytes
from leaderboards.folder import parse
from leaderboards.schema import EntryError, Verified
from leaderboards.strict import read_json

MAX_BYTES = 64 << 20


def read_verified(folder: Path) -> list[Verified]:
    """All verified entries of a folder, by their ids; none if there is no folder.

    Raises:
        StrictError, EntryError: a file that the verifier cannot have written.
    """
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> Verified:
    verified = parse(Verified, read_json(path, MAX_BYTES), str(path))
    if path.stem != verified.entry.entry_id:
        raise EntryError(f"{path}: must be called {verified.entry.entry_id}.json")
    return verified


def write_verified(folder: Path, verified: Verified) -> Path:
    """Writes an entry as it was verified; what is there already stays.

    Warnings may come with later entries that are alike: they are kept as they were at first. Only
    the tier may go up, when the round of the entry is revealed.

    Raises:
        EntryError: the entry was verified before, and something else was found.
    """
    path = folder / f"{verified.entry.entry_id}.json"
    if path.exists():
        before = _read(path)
        kept = verified.model_copy(update={"warnings": before.warnings})
        if kept.model_copy(update={"tier": before.tier}) != before or kept.tier < before.tier:
            raise EntryError(f"{path} says something else; what was verified is never changed")
        if kept == before:
            return path
        verified = kept
    text = json.dumps(verified.model_dump(), indent=1, allow_nan=False)
    write_bytes(path, f"{text}\n".encode())
    return path
