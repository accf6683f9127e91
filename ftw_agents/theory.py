"""What the filter does, in closed form, and on the sigma-trap."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, erf
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ftw_agents.filters import check_filter, exponential_weights, sampled_counts
from ftw_envs.streams import Stream

Floats = npt.NDArray[np.float64]

_GRID = 20_001


def quantile_weight(u: Floats, c: int, k: int) -> Floats:
    """Weight of an episode at quantile `u` of the scores, relative to uniform, for large N.

    w(u; C, K) = (C / K) P[Binomial(C - 1, 1 - u) <= K - 1]; the limit of Eq. 5.
    """
    check_filter(c, k)
    tail = [comb(c - 1, j) * (1 - u) ** j * u ** (c - 1 - j) for j in range(k)]
    return np.asarray(c / k * np.sum(tail, axis=0))


def filter_strength(c: int, k: int) -> tuple[float, float]:
    """KL(batch || buffer) in nats, and the effective share of the buffer 1 / E[w^2]."""
    u = (np.arange(_GRID) + 0.5) / _GRID
    w = quantile_weight(u, c, k)
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(w > 0, w * np.log(w), 0.0)
    return float(kl.mean()), float(1 / (w**2).mean())


def _normal_cdf(x: Floats) -> Floats:
    return np.array([0.5 * (1 + erf(v / 2**0.5)) for v in np.atleast_1d(x)])


def mean_field(
    sigma: float,
    c: int,
    k: int,
    *,
    updates: int = 400,
    eta: float = 0.5,
    good: tuple[float, float] = (1.0, 0.1),
    trap_mean: float = 0.0,
) -> float:
    """P(good arm) after `updates` of FTW with an endless buffer, from 1/2.

    With F the score distribution of the current mixture and q = p E[w(F(R_good))] the
    winners' share of the good arm, logit(p) += eta (q - p).

    Args:
        sigma: standard deviation of the trap.
        good: mean and standard deviation of the good arm.
    """
    # Rewards of the good arm at evenly spaced quantiles.
    z = np.array([NormalDist().inv_cdf((i + 0.5) / 401) for i in range(401)])
    reward = good[0] + good[1] * z
    good_cdf = (np.arange(401) + 0.5) / 401
    trap_cdf = _normal_cdf((reward - trap_mean) / sigma)
    logit = 0.0
    for _ in range(updates):
        p = 1 / (1 + np.exp(-logit))
        q = p * quantile_weight(p * good_cdf + (1 - p) * trap_cdf, c, k).mean()
        logit += eta * (q - p)
    return float(1 / (1 + np.exp(-logit)))


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
