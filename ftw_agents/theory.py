"""What the filter does, in closed form: its strength, its taste for risk, the sigma-trap.

A filter is C candidates and K winners. Against a buffer with score distribution F an
action is worth E[w(F(score))], the expected utility of its score. So a filter likes risk
where w(F(.)) is convex and shuns it where it is concave; K < C/2, = C/2 and > C/2 are the
seeking, the neutral and the averse class.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import erf, exp, hypot, isfinite, lgamma
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ftw_agents.filters import check_filter, exponential_weights, sampled_counts
from ftw_envs.streams import Stream

Floats = npt.NDArray[np.float64]
Normal = tuple[float, float]
"""Mean and standard deviation of an action's score."""
Risk = Literal["seeking", "neutral", "averse"]

MOST_CANDIDATES = 32
"""The largest C that `choose_filter` takes."""
PAPER_FILTER = (4, 1)
"""FTW-K1-C4, as (C, K): no stronger one is suggested."""
NEAR = 0.01
"""Strengths this close, in nats, count as the same."""

_GRID = 20_001
_QUANTILES = (np.arange(401) + 0.5) / 401
_STANDARD = np.array([NormalDist().inv_cdf(u) for u in _QUANTILES.tolist()])


def quantile_weight(u: Floats, c: int, k: int) -> Floats:
    """Weight of an episode at quantile `u` of the scores, relative to uniform, for large N.

    w(u; C, K) = (C / K) P[Binomial(C - 1, 1 - u) <= K - 1]; the limit of Eq. 5.
    """
    check_filter(c, k)
    # In logarithms, for binomial coefficients of large C do not fit into a float.
    above, below = np.log1p(-np.minimum(u, 1 - 1e-16)), np.log(np.maximum(u, 1e-300))
    tail = np.zeros_like(below)
    for j in range(k):
        log_binom = lgamma(c) - lgamma(j + 1) - lgamma(c - j)
        tail += np.exp(log_binom + j * above + (c - 1 - j) * below)
    return np.asarray(c / k * tail)


@lru_cache(maxsize=1024)
def filter_strength(c: int, k: int, *, grid: int = _GRID) -> tuple[float, float]:
    """KL(batch || buffer) in nats, and the effective share of the buffer 1 / E[w^2]."""
    u = (np.arange(grid) + 0.5) / grid
    w = quantile_weight(u, c, k)
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(w > 0, w * np.log(w), 0.0)
    return float(kl.mean()), float(1 / (w**2).mean())


def risk_of(c: int, k: int) -> Risk:
    """The class of a filter; K = C, which takes everything, counts as averse."""
    check_filter(c, k)
    return "neutral" if 2 * k == c else "seeking" if 2 * k < c else "averse"


def filter_name(c: int, k: int) -> str:
    """What papers call it: FTW-K1-C4."""
    return f"FTW-K{k}-C{c}"


def describe_filter(c: int, k: int) -> str:
    """A filter in a line: name, strength, effective share of the buffer, taste for risk."""
    nats, share = filter_strength(c, k)
    taste = {
        "seeking": "seeks risk (K < C/2)",
        "neutral": "is neutral to risk (K = C/2)",
        "averse": "shuns risk (K > C/2)",
    }[risk_of(c, k)]
    if k == c:
        taste = "chooses nothing (K = C)"
    return f"{filter_name(c, k)}: {nats:.2f} nats, effective sample share {share:.0%}, {taste}"


@lru_cache(maxsize=3)
def strengths(risk: Risk) -> dict[tuple[int, int], float]:
    """Strength in nats of every (C, K) of a class up to `MOST_CANDIDATES`, without K = C."""
    pairs = [(c, k) for c in range(2, MOST_CANDIDATES + 1) for k in range(1, c)]
    # For so few candidates a coarse grid is exact to 1e-5 nats.
    return {p: filter_strength(*p, grid=2001)[0] for p in pairs if risk_of(*p) == risk}


def choose_filter(strength: float, risk: Risk) -> tuple[int, int]:
    """The (C, K) of a class whose strength is nearest; of near-equals that of smallest C.

    Args:
        strength: KL(batch || buffer) in nats, for scores without ties.

    Raises:
        ValueError: no filter of the class is as weak, or as strong; says what there is.
    """
    if risk not in get_args(Risk):
        raise ValueError(f"risk must be one of {', '.join(get_args(Risk))}, got {risk!r}")
    table = strengths(risk)
    low, high = min(table.values()), max(table.values())
    if not low - NEAR / 2 <= strength <= high + NEAR / 2:
        name = {"seeking": "K < C/2", "neutral": "K = C/2", "averse": "K > C/2"}[risk]
        raise ValueError(
            f"strength must be from {low:.3f} to {high:.3f} nats for risk {risk!r} "
            f"({name}, C up to {MOST_CANDIDATES}), got {strength}"
        )
    off = {pair: abs(nats - strength) for pair, nats in table.items()}
    near = [pair for pair in off if off[pair] <= min(off.values()) + NEAR]
    return min(near, key=lambda pair: (pair[0], off[pair]))


def _cdf(x: Floats, of: Normal) -> Floats:
    mean, std = of
    if std == 0:
        return np.where(x == mean, 0.5, x > mean).astype(np.float64)
    return np.array([0.5 * (1 + erf(v)) for v in ((x - mean) / (std * 2**0.5)).tolist()])


def winners_share(p: float, first: Normal, second: Normal, c: int, k: int) -> float:
    """The winners' share q of the first of two actions that holds share `p` of the buffer.

    q = p E[w(F(R_first))], with F = p F_first + (1 - p) F_second and an endless buffer.
    The gradual update is logit(p) += eta (q - p), so the first gains ground where q > p.
    """
    scores = first[0] + first[1] * _STANDARD
    u = p * _QUANTILES + (1 - p) * _cdf(scores, second)
    return float(p * quantile_weight(u, c, k).mean())


def mean_field(
    sigma: float,
    c: int,
    k: int,
    *,
    updates: int = 400,
    eta: float = 0.5,
    good: Normal = (1.0, 0.1),
    trap_mean: float = 0.0,
) -> float:
    """P(good arm) after `updates` of FTW with an endless buffer, from 1/2.

    Args:
        sigma: standard deviation of the trap.
        good: mean and standard deviation of the good arm.
    """
    logit = 0.0
    for _ in range(updates):
        p = 1 / (1 + exp(-logit))
        logit += eta * (winners_share(p, good, (trap_mean, sigma), c, k) - p)
    return 1 / (1 + exp(-logit))


def risk_premium(c: int, k: int, *, background: float = 0.0, p: float = 0.5) -> float:
    """How far below a sure action's mean a noisy one's may lie and still hold its ground.

    In units of the noise. Both actions have normal scores, spread by `background` too (how
    much instances differ); the noisy one has noise on top. The premium is where q = p in
    `winners_share`. It is 0 for K = C/2 (by symmetry), above 0 for K < C/2, and below 0
    for K > C/2, where the noisy action has to pay more than the sure one. Without
    background it tends to `NormalDist().inv_cdf(1 - k / c)` as p -> 1: an action that is
    hardly tried gains ground if its chance to beat the sure one is above K / C.

    Args:
        background: standard deviation that both share, in units of the noise.
        p: the sure action's share of the buffer, from 0.001 to 0.999.

    Raises:
        ValueError: an argument out of range, or K = C, which favours nothing.
    """
    check_filter(c, k)
    if k == c:
        raise ValueError(f"K = C = {c} takes everything and favours nothing; take K below C")
    if not 0.001 <= p <= 0.999 or not 0 <= background < float("inf"):
        raise ValueError(
            f"needs p from 0.001 to 0.999 and background of at least 0, got {p}, {background}"
        )
    low, high = -20.0, 20.0
    for _ in range(60):  # q grows with the premium, so halving finds the only root
        middle = (low + high) / 2
        noisy = (-middle, hypot(1, background))
        if winners_share(p, (0.0, background), noisy, c, k) < p:
            low = middle
        else:
            high = middle
    return round((low + high) / 2, 9) + 0.0  # not -0.0


def pull(c: int, k: int, gap: float, noise: float, background: float = 0.0) -> float:
    """How fast, at p = 1/2, a better sure action gains on a worse noisy one: q - p.

    Args:
        gap: by how much its mean is higher, above 0.
        noise: standard deviation of the worse one on top of the background.
        background: standard deviation that both share.
    """
    worse = (-gap / 2, hypot(background, noise))
    return winners_share(0.5, (gap / 2, background), worse, c, k) - 0.5


def kept_pull(c: int, k: int, gap: float, noise: float, background: float = 0.0) -> float:
    """`pull` as a share of what it is without noise; below 0 the noisy action wins."""
    return pull(c, k, gap, noise, background) / pull(c, k, gap, 0.0, background)


def suggest_filter(
    gap: float, noise: float, background: float = 0.0, *, keep: float = 0.5
) -> tuple[int, int]:
    """The strongest (C, K) with C <= 8 that noise does not mislead.

    That is: against a false winner (an action that is worse by `gap` and carries all the
    noise, while the better one has none) it keeps at least the share `keep` of its pull. No
    filter stronger than `PAPER_FILTER` is suggested. As noise grows over the gap this goes
    from K1-C4 over K = C/2 to K > C/2; a bound on the risk premium alone would stop at
    K = C/2, which is unbiased but loses all its pull.

    Args:
        gap: a typical difference between two actions' means, at least 0.
        noise, background: as for `pull`.

    Raises:
        ValueError: an argument out of range.
    """
    if not all(isfinite(x) and x >= 0 for x in (gap, noise, background)) or not 0 < keep < 1:
        raise ValueError(
            "needs gap, noise and background of at least 0 and 0 < keep < 1, "
            f"got {gap}, {noise}, {background}, {keep}"
        )
    cap = filter_strength(*PAPER_FILTER)[0]
    pairs = [(c, k) for c in range(2, 9) for k in range(1, c)]
    pairs = [pair for pair in pairs if filter_strength(*pair)[0] <= cap]
    pairs.sort(key=lambda pair: -filter_strength(*pair)[0])
    if noise == 0:
        return pairs[0]
    # Where actions do not differ at all, the limit of a small gap decides.
    gap = max(gap, 1e-3 * noise)
    return next(
        (pair for pair in pairs if kept_pull(*pair, gap, noise, background) >= keep), pairs[-1]
    )


def _normals(stream: Stream, n: int) -> Floats:
    """Box-Muller on the stream's uniforms, shape (n,)."""
    u = stream.uniforms(2 * n)
    return np.sqrt(-2 * np.log1p(-u[:n])) * np.cos(2 * np.pi * u[n:])


def simulate_bandit(
    algo: str,
    sigma: float,
    seed: int,
    *,
    c: int = 8,
    k: int = 4,
    updates: int = 400,
    eta: float = 0.5,
    episodes: int = 64,
    versions: int = 4,
    temperature: float = 1.0,
) -> float:
    """P(good arm) at the end for a softmax policy over two logits, filtered as in training.

    Args:
        algo: "ftw" (drawn filter) or "ftw-exp".
        sigma: standard deviation of the trap; the good arm pays 1 with deviation 0.1.
        seed: names the randomness.
        episodes: played in each update; as many winners are imitated.
        versions: policy versions the buffer holds.
    """
    if algo not in ("ftw", "ftw-exp"):
        raise ValueError(f"algo must be ftw or ftw-exp, got {algo!r}")
    stream = Stream("bandit", algo, f"{sigma:g}", seed)
    logit = 0.0
    buffer: list[tuple[npt.NDArray[np.bool_], Floats]] = []
    for _ in range(updates):
        p = 1 / (1 + np.exp(-logit))
        good = stream.uniforms(episodes) < p
        noise = _normals(stream, episodes)
        buffer = [*buffer, (good, np.where(good, 1 + 0.1 * noise, sigma * noise))][-versions:]
        scores = np.concatenate([s for _, s in buffer])
        if algo == "ftw":
            counts = sampled_counts(scores, c, k, episodes // k, stream)
            weights = counts / counts.sum()
        else:
            weights = exponential_weights(scores, temperature)
        q = float(weights[np.concatenate([g for g, _ in buffer])].sum())
        logit += eta * (q - p)
    return float(1 / (1 + np.exp(-logit)))


def sigma_trap_curve(
    algo: str, sigmas: Sequence[float], seeds: int, *, c: int = 8, k: int = 4
) -> Floats:
    """`simulate_bandit` for all sigmas and seeds, shape (len(sigmas), seeds)."""
    return np.array([[simulate_bandit(algo, s, i, c=c, k=k) for i in range(seeds)] for s in sigmas])
