"""Small pictures as SVG: written by numbers and classes, so that they need no inline style.

Pictures in table cells have no viewBox: places are percentages, so that they fill a cell of
any size while strokes and markers keep theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from leaderboards.pages.text import finalize, short, visible


def element(name: str, *children: Markup | str, **attributes: str | float) -> Markup:
    """An element; attribute names have _ for -, and `class_` is class."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
    )
    inner = "".join(escape(finalize(child)) for child in children)
    return Markup(f"<{name}{written}>{inner}</{name}>")


def _number(value: str | float) -> str:
    if isinstance(value, str):
        return visible(value)
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@dataclass(frozen=True, slots=True)
class Scale:
    """Where values stand: `low` at the left, `high` at the right."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """The place of a value, 0 to 1; values outside stand at the end."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def percent(self, value: float) -> str:
        """The place of a value in percent of the width."""
        return f"{_number(100 * self.at(value))}%"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round values from `low` to `high`, about `most` steps."""
    raw = (high - low) / most
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= 0.8 * raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def whisker(
    scale: Scale,
    value: float,
    low: float,
    high: float,
    references: Sequence[float] = (),
    kind: str = "trained",
) -> Markup:
    """A value and its interval; `kind` is the shape: trained, provisional or reference."""
    y = "50%"
    lines = [
        element("line", class_="ref", x1=scale.percent(r), x2=scale.percent(r), y1="0", y2="100%")
        for r in references
    ]
    x1, x2 = scale.percent(low), scale.percent(high)
    return element(
        "svg",
        *lines,
        element("line", class_="interval", x1=x1, x2=x2, y1=y, y2=y),
        *(
            element("svg", element("path", d="M0-4V4", class_="interval"), x=x, y=y)
            for x in (x1, x2)
        ),
        element("svg", _marker(kind), x=scale.percent(value), y=y),
        class_=f"whisker {kind}",
        aria_hidden="true",
    )


def _marker(kind: str) -> Markup:
    if kind == "reference":
        return element("path", d="M-4.5 0 0-4.5 4.5 0 0 4.5z", class_="marker")
    return element("circle", r=3.5, class_="marker")


def axis(scale: Scale, marks: Sequence[float], labels: Sequence[str]) -> Markup:
    """The ticks above a column of whiskers."""
    parts = []
    for mark, label in zip(marks, labels, strict=True):
        x = scale.percent(mark)
        parts.append(element("line", class_="tick", x1=x, x2=x, y1="78%", y2="100%"))
        parts.append(element("text", label, x=x, y="62%"))
    return element("svg", *parts, class_="axis", aria_hidden="true")


def sparkline(x: Sequence[float], y: Sequence[float], width: int = 72, height: int = 22) -> Markup:
    """A curve of shares (0 to 1) as a stepped line with a dot at its end."""
    across, up = Scale(x[0], max(x[-1], x[0] + 1e-9)), Scale(0, 1)
    place = [(3 + (width - 6) * across.at(a), height - 3 - (height - 6) * up.at(b))
             for a, b in zip(x, y, strict=True)]  # fmt: skip
    return element(
        "svg",
        element("line", class_="tick", x1=0, x2=width, y1=height - 3, y2=height - 3),
        element("path", class_="line", d=_stepped(place)),
        element("circle", class_="dot", cx=place[-1][0], cy=place[-1][1], r=2.5),
        class_="spark",
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        aria_hidden="true",
    )


def _stepped(place: Sequence[tuple[float, float]]) -> str:
    """A path that goes level to the next point, then up or down to it."""
    (x, y), *rest = place
    return f"M{_number(x)} {_number(y)}" + "".join(f"H{_number(a)}V{_number(b)}" for a, b in rest)


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a chart: shares `mean` (0 to 1) at `x`, all of one length.

    Attributes:
        low, high: the band; empty for none.
        runs: thin lines, one a run.
    """

    name: str
    x: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    runs: Sequence[Sequence[float]] = ()


_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 480, 260, 42, 12, 12, 40


def chart(series: Sequence[Series], x_label: str, y_label: str, title: str) -> Markup:
    """Stepped lines of shares over `x`; the second has another dash than the first, and so on."""
    right = max(s.x[-1] for s in series) or 1
    across, up = Scale(min(0, *(s.x[0] for s in series)), right), Scale(0, 1)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + (_WIDTH - _LEFT - _RIGHT) * across.at(x),
            _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * up.at(y),
        )

    parts = [element("title", title)]
    for y in (0, 0.25, 0.5, 0.75, 1):
        _, at = place(0, y)
        parts.append(element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=at, y2=at))
        parts.append(element("text", f"{100 * y:.0f}", class_="y", x=_LEFT - 7, y=at + 4))
    for x in ticks(across.low, across.high):
        at, bottom = place(x, 0)
        parts.append(element("line", class_="tick", x1=at, x2=at, y1=bottom, y2=bottom + 4))
        parts.append(element("text", short(x), class_="x", x=at, y=bottom + 17))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(element("text", x_label, class_="x label", x=middle, y=_HEIGHT - 5))
    parts.append(element("text", y_label, class_="y-label label",
                         transform=f"translate(11 {_number((_HEIGHT - _BOTTOM + _TOP) / 2)}) "
                                   "rotate(-90)"))  # fmt: skip
    for i, s in enumerate(series):
        lines = []
        if s.low:
            above = [place(*p) for p in zip(s.x, s.high, strict=True)]
            below = [place(*p) for p in zip(s.x, s.low, strict=True)]
            lines.append(element("path", class_="band", d=_between(above, below)))
        for run in s.runs:
            at_run = [place(*p) for p in zip(s.x, run, strict=True)]
            lines.append(element("path", class_="run", d=_stepped(at_run)))
        mean = [place(*p) for p in zip(s.x, s.mean, strict=True)]
        lines.append(element("path", class_="line", d=_stepped(mean)))
        parts.append(element("g", *lines, class_=f"series s{i + 1}"))
    return element("svg", *parts, class_="chart", role="img", viewBox=f"0 0 {_WIDTH} {_HEIGHT}")


def _between(above: Sequence[tuple[float, float]], below: Sequence[tuple[float, float]]) -> str:
    """The area between two stepped lines that go over the same x."""
    x, y = below[-1]
    back = f"L{_number(x)} {_number(y)}"
    # Backwards a step first goes to the height of the point before, then level.
    for a, b in reversed(below[:-1]):
        back += f"V{_number(b)}H{_number(a)}"
    return _stepped(above) + back + "z"


def swatch(i: int) -> Markup:
    """The line of series `i` (from 1), for a legend."""
    return element(
        "svg",
        element("g", element("path", class_="line", d="M0 6H28"), class_=f"series s{i}"),
        class_="swatch",
        width=28,
        height=12,
        aria_hidden="true",
    )


def shares(parts: Sequence[tuple[str, int]]) -> Markup:
    """A bar whose parts are as wide as their counts; `parts` are class and count."""
    total, at, drawn = sum(n for _, n in parts), 0.0, []
    for kind, n in parts:
        width = 100 * n / total
        drawn.append(
            element("rect", class_=kind, x=f"{_number(at)}%", y="0", height="100%",
                    width=f"{_number(width)}%")
        )  # fmt: skip
        if width >= 8:
            middle = f"{_number(at + width / 2)}%"
            drawn.append(element("text", f"{n:,}", class_=kind, x=middle, y="50%"))
        at += width
    return element("svg", *drawn, class_="shares", aria_hidden="true")
