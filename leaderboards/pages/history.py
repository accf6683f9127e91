"""What became of entries over time: all lines of the decisions, not only the newest."""

from __future__ import annotations

from pathlib import Path

from leaderboards.folder import parse
from leaderboards.schema import Decision
from leaderboards.strict import lines

_MAX_BYTES, _MAX_LINE = 10_000_000, 4_000


def read_history(path: Path) -> dict[str, list[Decision]]:
    """The decisions on each entry, in the order of the file; none if there is no file.

    Raises:
        StrictError, EntryError: names the line that is not a decision.
    """
    found: dict[str, list[Decision]] = {}
    if not path.exists():
        return found
    for number, value in lines(path, _MAX_BYTES, _MAX_LINE):
        decision = parse(Decision, value, f"{path}:{number}")
        found.setdefault(decision.entry_id, []).append(decision)
    return found
