"""The entries in the repository hold, and what is shown of them is what is found today."""

from __future__ import annotations

from pathlib import Path

from leaderboards.boards import BOARDS
from leaderboards.replays import Workers
from leaderboards.tables import read_decisions, tables
from leaderboards.verified import read_verified
from leaderboards.verify import entries_in, verify

ROOT = Path(__file__).parents[1] / "leaderboards"


def test_every_entry_is_verified_as_it_is_shown() -> None:
    shown = {v.slug: v for v in read_verified(ROOT / "verified")}
    folders = entries_in(ROOT / "entries")
    assert {f.name for f in folders} == shown.keys()
    with Workers(2) as workers:
        for folder in folders:
            report = verify(folder, workers=workers, rounds=ROOT / "rounds")
            assert report.problems == ()
            assert report.verified == shown[folder.name]


def test_boards_have_players_to_compare_with() -> None:
    """Nothing, anything, and the best there is stand on every board that has entries."""
    found = tables(read_verified(ROOT / "verified"), read_decisions(ROOT / "decisions.jsonl"))
    assert found
    for table in found:
        assert table.board == BOARDS[table.board.name]
        names = {row.verified.entry.method.name for row in table.rows}
        assert {"idle", "random"} <= names
        assert names & {"solver", "expert"}
