"""Two entries side by side, in words and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leaderboards.pages import svg
from leaderboards.pages.entries import Shown
from leaderboards.pages.text import DASH, count, percent
from leaderboards.pages.words import TIERS
from leaderboards.schema import Replay
from leaderboards.tables import Pair


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the bar of agreement."""

    css: str
    name: str
    count: int

    @property
    def key(self) -> Markup:
        """Its colour, for the legend."""
        return svg.element("span", class_=f"key {self.css}", aria_hidden="true")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the page of a pair shows; differences are the first minus the second.

    Attributes:
        big: the difference in percentage points.
        short, short_reverse: the same seen from either, for lists.
        facts: label and what holds for each.
        attempts: of both at the same instance, where both pages show one.
    """

    pair: Pair
    big: str
    low: str
    high: str
    short: str
    short_reverse: str
    says: str
    p_value: str
    instances: int
    axis: Markup
    whisker: Markup
    parts: Sequence[Part]
    bar: Markup
    facts: Sequence[tuple[str, str, str]]
    attempts: Sequence[tuple[Replay, Replay]]


def comparison(pair: Pair, a: Shown, b: Shown) -> Comparison:
    """The comparison of the entries `a` and `b`."""
    d = pair.difference
    parts = [
        Part("both", "both solve", pair.both),
        Part("only-a", f"only {a.name}", pair.only_a),
        Part("only-b", f"only {b.name}", pair.only_b),
        Part("neither", "neither", pair.neither),
    ]
    most = max(abs(d.low), abs(d.high))
    end = next(end for end in (0.1, 0.2, 0.4, 1) if end >= most or end == 1)
    scale, marks = svg.Scale(-end, end), [-end, -end / 2, 0, end / 2, end]
    others = {replay.index: replay for replay in b.row.verified.replays}
    return Comparison(
        pair=pair,
        big=f"{signed(d.value)} points",
        low=signed(d.low),
        high=signed(d.high),
        short=f"{signed(d.value)} points",
        short_reverse=f"{signed(-d.value)} points",
        says=_says(pair, a, b),
        p_value=f"= {pair.p_value:.3f}" if pair.p_value >= 0.001 else "< 0.001",
        instances=sum(part.count for part in parts),
        axis=svg.axis(scale, marks, [_side(m, b, a) for m in marks]),
        whisker=svg.whisker(scale, d.value, d.low, d.high, [0]),
        parts=parts,
        bar=svg.shares([(part.css, part.count) for part in parts]),
        facts=[(label, one, other) for (label, one), (_, other) in
               zip(_facts(a), _facts(b), strict=True)],
        attempts=[(one, others[one.index]) for one in a.row.verified.replays
                  if one.index in others],
    )  # fmt: skip


def signed(share: float) -> str:
    """Percentage points with a sign; the minus is a real one."""
    text = f"{100 * share:+.1f}".replace("-", "−")
    return "0.0" if text in ("+0.0", "−0.0") else text


def _side(mark: float, left: Shown, right: Shown) -> str:
    return "equal" if mark == 0 else signed(mark).replace(".0", "")


def _says(pair: Pair, a: Shown, b: Shown) -> str:
    d = pair.difference
    if d.low <= 0 <= d.high:
        return "The interval holds 0: on these instances and seeds they cannot be told apart."
    better, worse = (a, b) if d.value > 0 else (b, a)
    return f"{better.name} solves {percent(abs(d.value))} percentage points more than {worse.name}."


def _facts(e: Shown) -> list[tuple[str, str]]:
    entry = e.row.verified.entry
    model, training = entry.model, entry.training
    return [
        ("Rank", e.rank),
        ("Method", f"{entry.method.name} ({entry.method.family})"),
        ("Model", model.name if model else "none"),
        ("Parameters", count(model.parameters) if model else DASH),
        ("Tier", f"{e.row.verified.tier} {TIERS[e.row.verified.tier].name}"),
        ("Division, view", f"{entry.division}, {e.facets['view']}"),
        ("Training seeds", ", ".join(map(str, entry.runs)) if training else "not trained"),
        ("Training episodes", count(training.budget.episodes) if training else DASH),
        ("Training tokens", count(training.budget.tokens) if training else DASH),
        ("Peak memory, MB", count(training.budget.peak_memory_mb) if training else DASH),
        ("Trials of settings", count(training.search.trials) if training else DASH),
        ("Submitted", entry.submitted),
    ]
