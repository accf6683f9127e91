"""A site of the sample entries, for the tests of pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from verified_samples import write_samples

from leaderboards.pages.build import Counts, write_site
from leaderboards.pages.history import read_history
from leaderboards.pages.ranking import Page, pages_of
from leaderboards.tables import read_decisions, read_verified, tables


@dataclass(frozen=True, slots=True)
class Site:
    """A site, and what it was made of.

    Attributes:
        data: folder of verified/ and decisions.jsonl.
        pages: as its tables were shown, in their order.
    """

    folder: Path
    data: Path
    counts: Counts
    pages: list[Page]

    @property
    def mini(self) -> Page:
        """The table with an entry of every kind."""
        return next(page for page in self.pages if page.board.name == "sokoban-mini")

    def entry(self, method: str) -> str:
        """Where the page of an entry on any board is, by its method's name."""
        rows = (e for page in self.pages for e in page.rows)
        return next(e.href for e in rows if e.row.verified.entry.method.name == method)

    def files(self, ending: str) -> list[Path]:
        """All its files with that ending."""
        return sorted(self.folder.rglob(f"*{ending}"))


def build_samples(folder: Path) -> Site:
    """Writes the sample entries to folder/data and their site to folder/site."""
    data = folder / "data"
    write_samples(data)
    decided = data / "decisions.jsonl"
    made = tables(read_verified(data / "verified"), read_decisions(decided))
    counts = write_site(made, read_history(decided), folder / "site")
    return Site(folder / "site", data, counts, pages_of(made))
