"""What the tables say about solve rates: intervals, comparisons and ranks.

Outcomes are truth values of shape (runs, instances): training seeds by instances, all runs on
the same instances. Both are samples: other seeds and other instances would have given another
figure, so both count (two-level resampling, Owen, 2007: "The pigeonhole bootstrap").

Few seeds are the difficulty: percentiles of that bootstrap are far too narrow where seeds
differ. For means the bootstrap's variance has a closed form, so nothing needs to be drawn, and
what is left is to make an interval of it: Wilson's, at the sample size that has this variance
(of seven the best in Franco et al., 2019), with Student's t for what few seeds tell. For one
run that is exactly Wilson's interval, it stays within 0 and 1, and is never of zero width.

Measured: share of 95 % intervals that hold the truth, in 1000 boards each; worst and best over
solve rates of 2, 50 and 90 %. Instances differ by 1.5 logits (standard deviation), seeds by:

                      not or little (0-0.15)    much (0.5)     very much (1)
    3 runs x 200      0.99-1.00                 0.96-0.99      0.94-0.98
    3 runs x 1000     0.96-0.99                 0.95-0.97      0.93-0.94
    5 runs x 1000     0.97-0.99                 0.95-0.96      0.92-0.96
    10 runs x 1000    0.96-0.99                 0.94-0.97      0.92-0.96
    all, percentiles  0.92-0.99                 0.78-0.96      0.73-0.90

The 0.92 are at a solve rate of 2 %, where 1 logit of seeds makes few runs very skewed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, inf, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ftw_agents.results import wilson_interval
from ftw_envs.streams import Stream
from leaderboards.spread import ALPHA, Part, Spread, t_quantile, welch, wilson_at

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

SEEDS = 3
"""Fewer runs say nothing of how much training seeds matter: their outcomes count as given."""

DRAWS = 10_000
_BATCH = 1000
_Z95 = NormalDist().inv_cdf(1 - ALPHA / 2)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


# One entry.


def seeds_part(rates: Floats) -> Part | None:
    """What training seeds add to the variance of the mean; None for fewer than `SEEDS`."""
    n = len(rates)
    return Part(float(rates.var(ddof=1)) / n, n - 1) if n >= SEEDS else None


def rate_estimate(outcomes: Bools) -> Estimate:
    """The solve rate over runs and instances.

    Fewer than `SEEDS` runs, and outcomes that are all equal: Wilson's interval for as many
    attempts as there are instances, for more runs may have solved the same ones.

    Args:
        outcomes: shape (runs, instances).
    """
    n = outcomes.shape[1]
    rate = int(outcomes.sum()) / outcomes.size
    seeds = seeds_part(outcomes.mean(axis=1))
    if seeds is None or rate in (0.0, 1.0) or n == 1:
        return Estimate(rate, *wilson_interval(rate * n, n))
    instances = Part(float(outcomes.mean(axis=0).var(ddof=1)) / n, n - 1)
    return Estimate(rate, *wilson_at(rate, Spread(seeds, instances), outcomes.size))


def mean_estimate(means: Floats, deviations: Floats, n: int) -> Estimate:
    """The mean of a score that is no proportion.

    The score's variance within a run counts as if all runs had the same luck, and seeds beside
    it: at least as wide as it has to be.

    Args:
        means, deviations: mean and standard deviation of each run's scores, shape (runs,).
        n: instances, at least 2.
    """
    instances = Part(float((deviations**2).mean()) / (n - 1), n - 1)
    spread = Spread(seeds_part(means), instances)
    value, half = float(means.mean()), spread.quantile() * sqrt(spread.variance)
    return Estimate(value, value - half, value + half)


def iqm(values: Floats) -> Floats:
    """Interquartile mean: of what is left without the lowest and highest quarter.

    A quarter is rounded down to whole values, as in rliable (Agarwal et al., 2021).

    Args:
        values: shape (..., n); the mean is over the last axis.
    """
    cut = values.shape[-1] // 4
    return np.asarray(np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut].mean(axis=-1))


def iqm_estimate(outcomes: Mapping[str, Bools], draws: int = DRAWS) -> Estimate:
    """The interquartile mean over the runs of one board, or over runs x boards of a suite.

    Two-level bootstrap within each board: runs, then instances, the same instances for all
    entries of the board. What the draws of runs move the figure by is made larger by
    sqrt(r / (r - 1)) * t / z, so that few runs do not make it too narrow (Hesterberg, 2015, says
    why; he widens the percentiles instead, which cannot help beyond the outermost run).
    Measured for 4, 5 and 10 runs of 1000 instances, seeds as above or exponential: 0.965-1.00
    hold the truth, 0.905-1.00 without.

    Never narrower than Wilson's interval for that many independent attempts, or for as many as
    there are instances where the figure is 0 or 1.

    Args:
        outcomes: by board, shape (runs, instances) each.
    """
    rates = [x.mean(axis=1) for x in outcomes.values()]
    value = float(iqm(np.concatenate(rates)))
    again = [run_draws(board, x, draws) for board, x in outcomes.items()]
    runs = [
        rate[_picks(board, len(rate), draws)]
        if len(rate) >= SEEDS
        else np.broadcast_to(rate, (draws, len(rate)))
        for board, rate in zip(outcomes, rates, strict=True)
    ]
    r = min((len(rate) for rate in rates if len(rate) >= SEEDS), default=0)
    wider = sqrt(r / (r - 1)) * t_quantile(r - 1) / _Z95 if r else 0.0
    moved = wider * (iqm(np.concatenate(runs, axis=1)) - value)
    moved += iqm(np.concatenate(again, axis=1)) - value
    low, high = (value + np.quantile(moved, [ALPHA / 2, 1 - ALPHA / 2])).tolist()
    if value in (0.0, 1.0):  # as in `rate_estimate`
        n = min(x.shape[1] for x in outcomes.values())
    else:
        n = sum(x.size for x in outcomes.values())
    least = wilson_interval(value * n, n)
    return Estimate(value, max(0.0, min(low, least[0])), min(1.0, max(high, least[1])))


def run_draws(board: str, outcomes: Bools, draws: int = DRAWS) -> Floats:
    """Solve rates of each run when instances are drawn again, shape (draws, runs)."""
    weights = instance_weights(board, outcomes.shape[1], draws)
    columns = outcomes.T.astype(np.float32)
    out = np.empty((draws, len(outcomes)))
    for i in range(0, draws, _BATCH):
        # Whole numbers below 2**24: exact in single precision, in any order of adding up.
        out[i : i + _BATCH] = weights[i : i + _BATCH].astype(np.float32) @ columns
    out /= outcomes.shape[1]
    return out


@lru_cache(maxsize=2)
def instance_weights(board: str, n: int, draws: int = DRAWS) -> npt.NDArray[np.uint8]:
    """How often each draw of `n` instances takes each, shape (draws, n).

    The stream is named by the board: all its entries meet the same draws, today and anywhere.
    """
    stream = Stream("bootstrap-instances", board, n)
    out = np.empty((draws, n), np.uint8)  # more than 255 times the same does not happen
    for i in range(0, draws, _BATCH):
        rows = min(_BATCH, draws - i)
        picks = (stream.uniforms(rows * n) * n).astype(np.int64).reshape(rows, n)
        picks += n * np.arange(rows)[:, None]
        out[i : i + rows] = np.bincount(picks.ravel(), minlength=rows * n).reshape(rows, n)
    return out


def _picks(board: str, runs: int, draws: int) -> npt.NDArray[np.int64]:
    uniforms = Stream("bootstrap-runs", board, runs).uniforms(draws * runs)
    picks: npt.NDArray[np.int64] = (uniforms * runs).astype(np.int64)
    return np.asarray(picks.reshape(draws, runs))


# Two entries.


def difference_estimate(a: Bools, b: Bools) -> Estimate:
    """Solve rate of one entry minus that of another on the same instances.

    The variance is what seeds add on either side, and the spread over instances of the
    difference of the two means: what both find hard cancels out. Two attempts are added as
    Agresti and Min (2005) do, so that no discordant instance does not mean no doubt.

    Args:
        a, b: shape (runs, instances), equal instances.
    """
    center, spread = _paired(a, b)
    half = spread.quantile() * sqrt(spread.variance)
    value = int(a.sum()) / a.size - int(b.sum()) / b.size
    return Estimate(value, max(-1.0, center - half), min(1.0, center + half))


def p_value(a: Bools, b: Bools) -> float:
    """Two-sided p of no difference between two entries on the same instances.

    For one run each it is McNemar's exact one, else that of `difference_estimate`: below 0.05
    exactly where its interval leaves 0 out. Permuting signs over instances would be exact for
    these very runs, but it takes the training seeds for given, and a method is not its luckiest
    checkpoint.

    Measured where methods are equal, seeds as above, 1000 instances: below 0.05 in 0.1 to 6 %
    of cases for 3 to 10 runs each, and in 1 to 6 % for these against a single player, but up to
    10 % where seeds differ by 1 logit at 2 or 95 %.

    Args:
        a, b: shape (runs, instances), equal instances.
    """
    if len(a) == len(b) == 1:
        return mcnemar(int((a & ~b).sum()), int((~a & b).sum()))
    center, spread = _paired(a, b)
    return spread.tail(center / sqrt(spread.variance))


def _paired(a: Bools, b: Bools) -> tuple[float, Spread]:
    n = a.shape[1]
    gap = a.mean(axis=0) - b.mean(axis=0)
    center = float(gap.sum()) / (n + 2)
    square = (float((gap**2).sum()) + 1) / (n + 2)
    instances = Part((square - center**2) / (n + 2), max(1, n - 1))
    seeds = welch(*(seeds_part(x.mean(axis=1)) for x in (a, b)))
    return center, Spread(seeds, instances)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided McNemar test (1947): the sign test on what only one of two solved."""
    n, few = only_a + only_b, min(only_a, only_b)
    return min(1.0, sum(comb(n, k) for k in range(few + 1)) / (1 << max(n - 1, 0)))


def probability_of_improvement(x: Floats, y: Floats) -> Estimate:
    """How often a run of one method beats a run of another; ties count half.

    The figure is rliable's (Agarwal et al., 2021), the Mann-Whitney statistic over all pairs.
    The interval is method 5 of Newcombe (2006, part 2): percentiles of a bootstrap give zero
    width as soon as all runs of one side win.

    Args:
        x, y: a figure for each run, shapes (m,) and (n,).
    """
    m, n = len(x), len(y)
    wins = (x[:, None] > y).sum() + 0.5 * (x[:, None] == y).sum()
    value = float(wins) / (m * n)
    others = (m + n) / 2 - 1

    def inside(theta: float) -> bool:
        pairs = 1 + others * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return (value - theta) ** 2 <= _Z95**2 * theta * (1 - theta) * pairs / (m * n)

    def edge(outside: float) -> float:
        near, far = value, outside
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (middle, far) if inside(middle) else (near, middle)
        return near

    return Estimate(value, edge(0.0), edge(1.0))


def performance_profile(rates: Floats, levels: Floats) -> Floats:
    """Share of runs above each level, shape of `levels` (Agarwal et al., 2021)."""
    return np.asarray((rates[:, None] > levels).mean(axis=0))


# A board.


def competition_ranks(values: Sequence[float | None]) -> list[int]:
    """Ranks as in sports, 1 2 2 4, the highest first; None comes last, whatever the order."""
    known = [-inf if v is None else v for v in values]
    return [1 + sum(other > mine for other in known) for mine in known]


def separated(entries: Sequence[Bools]) -> Bools:
    """Who is better than whom beyond doubt: [i, j] is true where i beats j.

    All pairs are tested, and p-values are taken as Holm (1979) does: with 95 % no pair of the
    board is wrong (measured on 400 boards of six entries with ties: 99 %).

    Args:
        entries: shape (runs, instances) each, equal instances.
    """
    size = len(entries)
    pairs = [(i, j) for i in range(size) for j in range(i)]
    tested = sorted((p_value(entries[i], entries[j]), i, j) for i, j in pairs)
    better = np.zeros((size, size), np.bool_)
    for left, (p, i, j) in zip(range(len(pairs), 0, -1), tested, strict=True):
        if p * left > ALPHA:
            break
        above = entries[i].mean() > entries[j].mean()
        better[(i, j) if above else (j, i)] = True
    return better


def rank_intervals(better: Bools) -> list[tuple[int, int]]:
    """Best and worst rank that each entry may have (Mogstad et al., 2024).

    Args:
        better: of `separated`, shape (entries, entries).
    """
    size = len(better)
    return [(1 + int(better[:, i].sum()), size - int(better[i].sum())) for i in range(size)]


def rank_classes(better: Bools) -> list[int]:
    """Classes of entries that cannot be told from the best of their class, from 1.

    The first entry that is in no class yet is the anchor of the next one, and all entries that
    it does not beat belong to that. Nothing else moves a class, so entries that only resemble
    their neighbours do not chain up to one.

    Args:
        better: of `separated`, shape (entries, entries), best entry first.
    """
    classes, number = [0] * len(better), 0
    for anchor, beaten in enumerate(better):
        if not classes[anchor]:
            number += 1
            for i in range(anchor, len(better)):
                if not classes[i] and not beaten[i]:
                    classes[i] = number
    return classes
