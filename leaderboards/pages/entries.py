"""Entries as the pages show them: texts, sort keys, filters and small pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leaderboards.pages import svg
from leaderboards.pages.text import DASH, count, file_name, percent, short
from leaderboards.pages.words import STATES, TIERS
from leaderboards.schema import RunFound
from leaderboards.tables import Estimate, Reached, Row

PERCENT = svg.Scale(0, 1)
"""Of all whiskers of solve rates."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference line."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Run:
    """A training seed of an entry page."""

    found: RunFound
    whisker: Markup


@dataclass(frozen=True, slots=True)
class Shown:
    """An entry.

    Attributes:
        id: the start of its identity.
        name: method and model.
        subtitle: everything else that tells it from others, on one line.
        href: its page, seen from the root of the site.
        order: for each column what it is sorted by; None goes last.
        facets: for each filter the value it is found under.
        why: why it is not ranked, empty if it is.
        references: solve rates of the table's reference lines.
        first_of_group: whether a class of rows begins that cannot be told from this one.
    """

    row: Row
    id: str
    name: str
    subtitle: str
    href: str
    rank: str
    order: Mapping[str, float | None]
    texts: Mapping[str, str]
    facets: Mapping[str, str]
    why: str
    references: Sequence[float]
    first_of_group: bool = False

    @property
    def kind(self) -> str:
        """The shape of its marker."""
        return "reference" if self.row.reference else (
            "provisional" if self.row.provisional else "trained"
        )  # fmt: skip

    @property
    def css(self) -> str:
        """Classes of its table row."""
        return " ".join(
            name
            for name, on in (
                ("provisional", self.row.provisional),
                ("unranked", self.row.rank is None),
                ("first-of-group", self.first_of_group),
                ("struck", self.row.state in ("retracted", "invalid")),
            )
            if on
        )

    @property
    def comparable(self) -> bool:
        """Whether pages compare it with others."""
        return self.row.state not in ("retracted", "invalid")

    @property
    def whisker(self) -> Markup:
        """Its solve rate on the scale of the table."""
        return _whisker(self.row.solve_rate, self.references, self.kind)

    @property
    def spark(self) -> Markup:
        """Its learning curve in a few pixels."""
        line = self.row.curves.get("episodes")
        return Markup(DASH) if line is None else svg.sparkline(line.x, line.mean)

    @property
    def runs(self) -> list[Run]:
        """Its training seeds, each with its own whisker."""
        return [
            Run(found, _whisker(
                Estimate(found.figures.solve_rate, found.figures.low, found.figures.high),
                self.references, self.kind,
            ))
            for found in self.row.verified.runs
        ]  # fmt: skip


def _whisker(estimate: Estimate, references: Sequence[float], kind: str) -> Markup:
    return svg.whisker(PERCENT, estimate.value, estimate.low, estimate.high, references, kind)


def name_of(row: Row) -> str:
    """Method and model of an entry."""
    entry = row.verified.entry
    return f"{entry.method.name} ({entry.model.name})" if entry.model else entry.method.name


def rank_text(row: Row) -> str:
    """A rank, or the ranks that an entry may have: 1–3."""
    if row.rank is None:
        return DASH
    first, last = row.rank
    return str(first) if first == last else f"{first}–{last}"


def shown(row: Row, place: int, level: int, references: Sequence[Reference]) -> Shown:
    """A row as pages show it.

    Args:
        place: in its table, from 0.
        level: percent of the columns "to solve so much".
        references: the table's reference lines.
    """
    verified, entry = row.verified, row.verified.entry
    training = entry.training
    view = ", ".join(entry.view) or "default"
    memory = training.budget.peak_memory_mb if training else None
    line = row.curves.get("episodes")
    model = entry.model.name if entry.model else "no model"
    return Shown(
        row=row,
        id=entry.entry_id[:12],
        name=name_of(row),
        subtitle=" · ".join([model, entry.method.family, *entry.view]),
        href=f"entries/{file_name(entry.suite_version)}/{verified.slug}.html",
        rank=rank_text(row),
        order={
            # The table is in the order of ranks, and where they overlap of solve rates.
            "rank": None if row.rank is None else place,
            "tier": 10 * list(TIERS).index(verified.tier) - list(STATES).index(row.state),
            "score": row.solve_rate.value,
            "paid": row.score.value,
            "runs": row.runs,
            "curve": line.mean[-1] if line else None,
            "episodes": _reached_order(row.episodes_to.get(level)),
            "tokens": _reached_order(row.tokens_to.get(level)),
            "memory": memory,
            "date": int(entry.submitted.replace("-", "")),
        },
        texts={
            "paid": f"{row.score.value:.2f} [{row.score.low:.2f}, {row.score.high:.2f}]",
            "runs": str(row.runs),
            "episodes": _reached(row.episodes_to.get(level)),
            "tokens": _reached(row.tokens_to.get(level)),
            "memory": count(memory),
            "date": entry.submitted,
        },
        facets={
            "family": entry.method.family,
            "tier": verified.tier,
            "kind": "reference" if row.reference else "trained" if training else "untrained",
            "weights": _weights(row),
            "division": entry.division,
            "view": view,
            "state": row.state,
        },
        why=_why(row),
        references=[reference.value for reference in references],
    )


def _weights(row: Row) -> str:
    model = row.verified.entry.model
    return "none" if model is None else "open" if model.open_weights else "closed"


def _why(row: Row) -> str:
    if row.rank is not None:
        return ""
    if row.state in ("retracted", "invalid"):
        return f"{row.state}: {row.reason}"
    provisional = ["provisional: fewer than three training seeds"] if row.provisional else []
    return "; ".join([*filter(None, [row.reason]), *provisional])


def _reached(reached: Reached | None) -> str:
    if reached is None:
        return DASH
    return f"> {short(reached.budget)}" if reached.at is None else short(reached.at)


def _reached_order(reached: Reached | None) -> float | None:
    """What was not reached comes after all that was, in the order of what was spent."""
    if reached is None:
        return None
    return 1e15 + reached.budget if reached.at is None else reached.at


def figures(row: Row) -> list[tuple[str, str]]:
    """The other figures of an entry, as label and text."""
    i, s = row.iqm, row.score
    told = [
        (
            "Middle half of the runs (IQM)",
            f"{percent(i.value)} % [{percent(i.low)}, {percent(i.high)}]",
        ),
        ("Mean score", f"{s.value:.3f} [{s.low:.3f}, {s.high:.3f}]"),
    ]
    for level in (50, 80):
        for name, of in (("Episodes", row.episodes_to), ("Tokens", row.tokens_to)):
            if level in of:
                r = of[level]
                text = f"{_reached(r)}, {r.reached} of {r.runs} runs"
                told.append((f"{name} to {level} %", text))
    if row.area is not None:
        told.append(("Mean over training", f"{percent(row.area)} % of valid instances"))
    if row.beats is not None:
        told.append(("Better than the untrained model", f"{percent(row.beats)} % of pairs of runs"))
    return told
