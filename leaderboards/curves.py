"""Learning curves: on one grid, by steps and without smoothing, and what is read off them.

A run's curve is a step function: what was last examined holds until the next examination, and
after the last one the run's agent stays what it is. So nothing is told that was not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ftw_agents.results import wilson_interval
from leaderboards.schema import CurveRow, RunFound
from leaderboards.spread import Spread, wilson_at
from leaderboards.statistics import Floats, seeds_part

AXES = ("episodes", "env_steps", "tokens", "wall_seconds")
"""What a curve may be drawn over: keys of `CurveRow`."""

LEVELS = (50, 80)
"""Solve rates to be reached, percent."""

_POINTS = 200


@dataclass(frozen=True, slots=True)
class Line:
    """Solve rate on the valid instances over one axis.

    Attributes:
        x: grid, ascending; it starts where all runs have been examined.
        mean: over runs, at each x.
        low, high: 95 % band of the mean: where it would be with other training seeds, on the
            same instances. For fewer than `SEEDS` runs, where one run would be with other
            instances.
        runs: training seed and solve rate at each x.
    """

    x: list[int | float]
    mean: list[float]
    low: list[float]
    high: list[float]
    runs: list[tuple[int, list[float]]]


@dataclass(frozen=True, slots=True)
class Reached:
    """How much it took to solve a share of the valid instances.

    Attributes:
        at: the least after which at least half of the runs had reached it; None if fewer ever
            did: then it takes more than `budget`, as far as is known.
        reached, runs: runs that did, of how many.
        budget: the most that any run used.
    """

    at: int | None
    reached: int
    runs: int
    budget: int


def lines(runs: Sequence[RunFound]) -> dict[str, Line]:
    """The curves of an entry over each axis that all its examinations tell, by axis."""
    found = ((axis, line(runs, axis)) for axis in AXES)
    return {axis: found_line for axis, found_line in found if found_line}


def line(runs: Sequence[RunFound], axis: str) -> Line | None:
    """The curves of an entry over one axis.

    None if a run has none, or several examinations at one place: imitation plays no episodes, so
    that its curve has no width over them.

    The band is Wilson's interval with what seeds add to the variance and Student's t, as for
    solve rates: percentiles of a bootstrap over 3 or 5 seeds are too narrow by far, and of zero
    width where all runs solve equally many.
    """
    steps = [_steps(run.curve, axis) for run in runs]
    if not steps or not all(steps):
        return None
    if any(len(run) > 1 and run[0][0] == run[-1][0] for run in steps):
        return None
    start = max(x[0][0] for x in steps)
    points = sorted({x for run in steps for x, _, _ in run if x >= start})
    if len(points) > _POINTS:
        chosen = np.linspace(0, len(points) - 1, _POINTS).round().astype(int)
        points = [points[i] for i in chosen]
    rates = np.array([_at(run, points) for run in steps])
    n = max(row.n for run in runs for row in run.curve)
    bands = [_band(column, n) for column in rates.T]
    return Line(
        x=points,
        mean=rates.mean(axis=0).tolist(),
        low=[low for low, _ in bands],
        high=[high for _, high in bands],
        runs=[(run.run, rate.tolist()) for run, rate in zip(runs, rates, strict=True)],
    )


def _steps(curve: Sequence[CurveRow], axis: str) -> list[tuple[int | float, int, int]]:
    """Place, solved and instances of each examination, in order; empty if some have no place."""
    steps = [(getattr(row, axis), row.solved, row.n) for row in curve]
    return [] if any(x is None for x, _, _ in steps) else sorted(steps, key=lambda step: step[0])


def _at(steps: Sequence[tuple[int | float, int, int]], points: Sequence[float]) -> list[float]:
    last = np.searchsorted([x for x, _, _ in steps], points, side="right") - 1
    return [steps[i][1] / steps[i][2] for i in last]


def _band(rates: Floats, n: int) -> tuple[float, float]:
    rate = min(1.0, float(rates.mean()))
    seeds = seeds_part(rates)
    if seeds is None:
        return wilson_interval(rate * n, n)
    return wilson_at(rate, Spread(seeds), n * len(rates))


def reached(runs: Sequence[RunFound], axis: str) -> dict[int, Reached]:
    """What it took to reach each of `LEVELS`, percent; empty if no run has a curve, or took any.

    Runs that never did are not left out: they come after all that did.
    """
    curves = [steps for run in runs if (steps := _steps(run.curve, axis))]
    if not curves:
        return {}
    budget = int(max(steps[-1][0] for steps in curves))
    if not budget:
        return {}
    out = {}
    for level in LEVELS:
        firsts = (
            next((x for x, solved, n in steps if 100 * solved >= level * n), None)
            for steps in curves
        )
        times = sorted(x for x in firsts if x is not None)
        half = (len(curves) + 1) // 2
        at = int(times[half - 1]) if len(times) >= half else None
        out[level] = Reached(at, len(times), len(curves), budget)
    return out


def area(runs: Sequence[RunFound]) -> float | None:
    """Mean solve rate over training, by episodes: the area under the mean curve over its width.

    None if a run has no curve, or all its examinations were at one time.
    """
    found = line(runs, "episodes")
    if found is None or found.x[0] == found.x[-1]:
        return None
    return float(np.average(found.mean[:-1], weights=np.diff(found.x)))
