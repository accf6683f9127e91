"""How sure an estimate is: its variance, in parts, and Student's t for what is known of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, lgamma, log
from statistics import NormalDist

from ftw_agents.results import wilson_interval

ALPHA = 0.05
"""What is shown holds with 95 %."""


def t_tail(t: float, df: float) -> float:
    """Probability that Student's t is at least `t` away from 0.

    It is the regularised incomplete beta function of df / (df + t**2) at (df / 2, 1 / 2), here
    by its continued fraction (Abramowitz and Stegun 26.5.8 and 26.7.1).

    Args:
        df: degrees of freedom, above 0; infinite for the normal distribution.
    """
    if t * t == 0:
        return 1.0
    if df > 1e8:
        return 2 * NormalDist().cdf(-abs(t))
    x, y, a, b = df / (df + t * t), t * t / (df + t * t), df / 2, 0.5
    if x > (a + 1) / (a + b + 2):  # where the fraction for the other side is the quick one
        return 1 - _beta(y, x, b, a)
    return _beta(x, y, a, b)


def _beta(x: float, y: float, a: float, b: float) -> float:
    """At x, where y is 1 - x without what rounding would lose."""
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y)) / a
    # Evaluated forwards, numerators and denominators kept as ratios (Lentz).
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 10_000):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + factor * d)
            c = 1 + factor / c
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the variance of an estimate, and degrees of freedom of what is known of it."""

    variance: float
    df: float


class Spread:
    """The variance of an estimate with independent parts, and what is known of it.

    A standardised error is judged by the mean of the t distributions of the parts, weighted by
    their variances, in the manner of Cochran (1964). Satterthwaite's single t is narrower, but
    takes for many degrees of freedom what is the luck of three seeds that happen to agree: his
    95 % were 90 to 93 % for 3 runs.
    """

    def __init__(self, *parts: Part | None) -> None:
        self._parts = [part for part in parts if part]
        self.variance = sum(part.variance for part in self._parts)

    def tail(self, t: float) -> float:
        """Probability of an error of at least `t` standard errors, either way."""
        if not self.variance:
            return t_tail(t, inf)
        tails = sum(part.variance * t_tail(t, part.df) for part in self._parts)
        return tails / self.variance

    def quantile(self) -> float:
        """Standard errors that 95 % of errors stay within."""
        if len(self._parts) == 1:
            return t_quantile(self._parts[0].df)
        return _within(self.tail)


@lru_cache(maxsize=256)
def t_quantile(df: float) -> float:
    """Where 95 % of Student's t lie within plus and minus; `df` at least 1."""
    return _within(lambda t: t_tail(t, df))


def _within(tail: Callable[[float], float]) -> float:
    low, high = 1.9, 12.8
    for _ in range(48):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > ALPHA else (low, middle)
    return high


def wilson_at(rate: float, spread: Spread, most: float) -> tuple[float, float]:
    """Wilson's 95 % interval at the sample size that a proportion of this variance has.

    Args:
        rate: the proportion.
        most: the sample size is at most that.
    """
    size = rate * (1 - rate)
    n = size / spread.variance if size < most * spread.variance else most
    n = max(1.0, n)  # rounding can make it less
    return wilson_interval(rate * n, n, spread.quantile())


def welch(*parts: Part | None) -> Part | None:
    """Parts of one kind as one, with degrees of freedom by Welch (1947); None if there is none."""
    known = [part for part in parts if part]
    total = sum(part.variance for part in known)
    if not total:
        return known[0] if known else None
    return Part(total, total**2 / sum(part.variance**2 / part.df for part in known))
