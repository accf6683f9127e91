"""Learning curves of one entry or two: the data of the large plot, and pictures without scripts."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from leaderboards.pages import svg
from leaderboards.pages.text import visible
from leaderboards.pages.words import AXES
from leaderboards.tables import Line, Row

_Y = "solved on valid, %"


@dataclass(frozen=True, slots=True)
class Curves:
    """What a page shows of learning curves.

    Attributes:
        names: of the lines, for the legend.
        axes: key and label of what they are drawn against.
        pictures: one for each axis.
        data: the same for the plot, JSON that is safe within a script element.
    """

    title: str
    names: Sequence[str]
    axes: Sequence[dict[str, str]]
    pictures: Sequence[Markup]
    data: Markup


def curves(rows: Sequence[Row], names: Sequence[str]) -> Curves | None:
    """The curves of `rows` against everything that all of them have; None if that is nothing.

    There are many pairs of entries, so a pair has no lines of single runs, and one picture.
    """
    keys = [key for key in AXES if all(key in row.curves for row in rows)]
    if not keys:
        return None
    title = f"Learning curves of {' and '.join(names)}"
    alone = len(rows) == 1
    axes, data = [], []
    pictures: list[Markup] = []
    for key in keys:
        lines = [row.curves[key] for row in rows]
        if not alone:
            lines = [replace(line, runs=[]) for line in lines]
        unit, size = _unit(key, lines)
        label = f"{AXES[key]}, {unit}" if unit else AXES[key]
        scaled = [[x / size if size != 1 else x for x in line.x] for line in lines]
        axes.append({"key": key, "label": AXES[key]})
        if alone or not pictures:
            pictures.append(svg.chart(
                [svg.Series(name, x, line.mean, line.low, line.high, [run for _, run in line.runs])
                 for name, x, line in zip(names, scaled, lines, strict=True)],
                label.lower(), _Y, f"{title} against {AXES[key].lower()}",
            ))  # fmt: skip
        data.append(_data(key, label, names, scaled, lines))
    return Curves(title, names, axes, pictures, json_in_html({"axes": data}))


def _unit(key: str, lines: Sequence[Line]) -> tuple[str, int]:
    """What wall time is told in, and how many seconds that is."""
    if key != "wall_seconds":
        return "", 1
    most = max(line.x[-1] for line in lines)
    return ("hours", 3600) if most >= 7200 else ("minutes", 60) if most >= 300 else ("seconds", 1)


def _data(
    key: str,
    label: str,
    names: Sequence[str],
    scaled: Sequence[Sequence[float]],
    lines: Sequence[Line],
) -> dict[str, Any]:
    """Lines on one grid: what is held between examinations stays so, past the end is nothing."""
    grid = sorted({x for xs in scaled for x in xs})
    return {
        "key": key,
        "label": label.lower(),
        "x": [round(x, 4) for x in grid],
        "lines": [
            {
                "name": visible(name),
                "mean": _held(grid, xs, line.mean),
                "low": _held(grid, xs, line.low),
                "high": _held(grid, xs, line.high),
                "runs": [_held(grid, xs, run) for _, run in line.runs],
            }
            for name, xs, line in zip(names, scaled, lines, strict=True)
        ],
    }


def _held(grid: Sequence[float], x: Sequence[float], y: Sequence[float]) -> list[float | None]:
    return [round(y[bisect_right(x, at) - 1], 4) if x[0] <= at <= x[-1] else None for at in grid]


def json_in_html(value: Any) -> Markup:
    """JSON for a script element of type application/json: nothing in it can end the element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
