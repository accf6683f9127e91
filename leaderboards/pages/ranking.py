"""Tables as the pages show them: columns, filters, reference lines and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from leaderboards.boards import Board
from leaderboards.pages import svg
from leaderboards.pages.entries import PERCENT, Reference, Shown, name_of, shown
from leaderboards.pages.text import file_name
from leaderboards.pages.words import TIERS
from leaderboards.tables import Table

_PROFILED = 6
"""As many lines as can be told apart."""


class SiteError(ValueError):
    """Pages that must not be written; the message says why."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a ranking.

    Attributes:
        key: of the address and of `Shown.order`.
        css: classes of its cells.
        first: the order that the first click gives.
    """

    key: str
    label: str
    css: str = "number"
    first: str = "ascending"


@dataclass(frozen=True, slots=True)
class Facet:
    """A group of filter chips; `values` are what rows hold, and what a reader sees."""

    key: str
    name: str
    values: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Profile:
    """The performance profile of the first entries, see `Table.profile`."""

    picture: Markup
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Page:
    """A table as its page shows it.

    Attributes:
        frozen: whether there is a table of a newer version.
        level: percent of the columns "to solve so much".
        href: its page, seen from the root; its downloads have the same stem.
    """

    table: Table
    frozen: bool
    href: str
    level: int
    columns: Sequence[Column]
    rows: Sequence[Shown]
    facets: Sequence[Facet]
    references: Sequence[Reference]

    @property
    def board(self) -> Board:
        """The board."""
        return self.table.board

    @property
    def title(self) -> str:
        """What the table is called."""
        return self.board.title + (f", round {self.table.round}" if self.table.round else "")

    @property
    def stem(self) -> str:
        """Name of its files without an ending."""
        return self.href.rpartition("/")[2].removesuffix(".html")

    @property
    def pair_folder(self) -> str:
        """Folder of its comparisons, seen from the root, with a slash."""
        return f"compare/{self.board.name}/{self.stem}/"

    @property
    def pairs(self) -> list[tuple[Shown, Shown]]:
        """Entries that are compared, two by two."""
        rows = [e for e in self.rows if e.comparable]
        return [(a, b) for i, a in enumerate(rows) for b in rows[i + 1 :]]

    @property
    def best(self) -> Shown | None:
        """The first that is ranked and no reference."""
        return next((e for e in self.rows if e.row.rank and not e.row.reference), None)

    @property
    def reasons(self) -> list[Shown]:
        """Those that are not ranked for a reason of their own."""
        return [e for e in self.rows if e.why]

    @property
    def profile(self) -> Profile | None:
        """The profile of the first entries that have one."""
        told = [e for e in self.rows if e.row.verified.slug in self.table.profile][:_PROFILED]
        if not told:
            return None
        series = []
        for e in told:
            taus, shares = zip(*self.table.profile[e.row.verified.slug], strict=True)
            series.append(svg.Series(e.name, [100 * tau for tau in taus], shares))
        picture = svg.chart(series, "solved, %", "share of runs above, %", "Performance profile")
        return Profile(picture, [e.name for e in told])

    @property
    def axis(self) -> Markup:
        """The scale above the whiskers."""
        marks = [0, 0.25, 0.5, 0.75, 1]
        return svg.axis(PERCENT, marks, [f"{100 * m:.0f}" for m in marks])


def pair_href(page: Page, a: Shown, b: Shown) -> str:
    """The page that compares two entries, seen from the root; it has one name for both orders."""
    return f"{page.pair_folder}{'-'.join(sorted((a.id, b.id)))}.html"


def pages_of(tables: Sequence[Table]) -> list[Page]:
    """All tables as pages; of a board's tables the first is the present one.

    Raises:
        SiteError: there is none, one is empty, a row has no verified episodes, or two would
            have one page.
    """
    if not tables:
        raise SiteError("there are no verified entries, so there is no page to write")
    pages: list[Page] = []
    for table in tables:
        frozen = any((p.board.name, p.table.round) == (table.board.name, table.round)
                     for p in pages)  # fmt: skip
        pages.append(_page(table, frozen))
    hrefs = [h for page in pages for h in (page.href, *(e.href for e in page.rows))]
    twice = sorted({h for h in hrefs if hrefs.count(h) > 1})
    if twice:
        raise SiteError(f"two entries or tables would have the page {twice[0]}: rename one")
    return pages


def _page(table: Table, frozen: bool) -> Page:
    name = f"{table.board.name} ({table.round or table.env_version})"
    if not table.rows:
        raise SiteError(f"the table of {name} would be empty")
    for row in table.rows:
        if not sum(run.figures.episodes for run in row.verified.runs):
            raise SiteError(f"{row.verified.slug} on {name} has no verified episodes")
    level = 80 if any(r.episodes_to[80].at is not None for r in table.rows
                      if 80 in r.episodes_to) else 50  # fmt: skip
    own_score = any(abs(r.score.value - r.solve_rate.value) > 1e-9 for r in table.rows)
    references = [
        Reference(name_of(row), row.solve_rate.value)
        for row in table.rows
        if row.reference and row.ranked
    ]
    rows = [shown(row, place, level, references) for place, row in enumerate(table.rows)]
    names = sorted({(e.name.casefold(), e.id) for e in rows})
    rows = [
        replace(e, order={**e.order, "entry": names.index((e.name.casefold(), e.id))}) for e in rows
    ]
    groups = [e.row.group for e in rows]
    rows = [
        replace(e, first_of_group=groups[i] != before)
        for i, (e, before) in enumerate(zip(rows, [None, *groups], strict=False))
    ]
    stem = file_name(table.env_version) + (f"-{table.round}" if table.round else "")
    return Page(
        table=table,
        frozen=frozen,
        href=f"boards/{table.board.name}/{stem}.html",
        level=level,
        columns=_columns(level, own_score),
        rows=rows,
        facets=_facets(rows),
        references=references,
    )


def _columns(level: int, own_score: bool) -> list[Column]:
    columns = [
        Column("rank", "Rank", "rank"),
        Column("entry", "Entry", "entry"),
        Column("score", "Solved, %", "score", "descending"),
        Column("paid", "Mean score", "number", "descending"),
        Column("tier", "Tier", "state", "descending"),
        Column("runs", "Seeds", "number", "descending"),
        Column("curve", "Learning", "curve", "descending"),
        Column("episodes", f"Episodes to {level}\N{NO-BREAK SPACE}%"),
        Column("tokens", f"Tokens to {level}\N{NO-BREAK SPACE}%"),
        Column("memory", "Peak MB"),
        Column("date", "Date", "nowrap", "descending"),
    ]
    return [column for column in columns if own_score or column.key != "paid"]


_FACETS = {
    "family": "Method",
    "kind": "Kind",
    "tier": "Tier",
    "weights": "Weights",
    "division": "Division",
    "view": "View",
    "state": "State",
}


def _facets(rows: Sequence[Shown]) -> list[Facet]:
    """The filters that tell rows apart: a group with one value has nothing to choose."""
    facets = []
    for key, name in _FACETS.items():
        values = sorted({e.facets[key] for e in rows})
        if len(values) > 1:
            named = [(v, f"{v} {TIERS[v].name}" if key == "tier" else v) for v in values]
            facets.append(Facet(key, name, named))
    return facets
