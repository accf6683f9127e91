"""The ordinal filter of Follow the Winners, drawn and in closed form.

Draw C episodes uniformly without replacement, keep the K with the best scores, repeat J
times; an episode's weight is how often it was kept. For N episodes the chance that a
kept one is that of rank r (1 = best) is, with P as in arXiv 2610.03361, Eq. 5,

    P(r | N, C, K) = 1 / (K binom(N, C)) sum_{k=1..K} binom(r-1, k-1) binom(N-r, C-k).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ftw_envs.streams import Stream

Floats = npt.NDArray[np.float64]

_MAX_TRIES = 100
"""Draws are repeated at most this many times in search of one with a spread of scores."""


def check_filter(c: int, k: int, n: int | None = None) -> None:
    """Refuses a filter that cannot work.

    Raises:
        ValueError: not 1 <= K <= C, or fewer than C episodes to draw from.
    """
    if not 1 <= k <= c:
        raise ValueError(f"winners K must be from 1 to the candidates C = {c}, got K = {k}")
    if n is not None and n < c:
        raise ValueError(f"cannot draw C = {c} candidates from {n} episodes")


def rank_probabilities(n: int, c: int, k: int) -> Floats:
    """Eq. 5: chance that a winner has rank 1 ... n, shape (n,), summing to 1."""
    check_filter(c, k, n)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])

    def log_binom(a: npt.NDArray[np.int64], b: int) -> Floats:
        ok = (b >= 0) & (b <= a)
        safe = np.where(ok, a, max(b, 0))
        value = log_factorial[safe] - log_factorial[b] - log_factorial[safe - b]
        return np.where(ok, value, -np.inf)

    rank = np.arange(1, n + 1)
    whole = log_binom(np.array([n]), c)
    terms = [log_binom(rank - 1, j - 1) + log_binom(n - rank, c - j) for j in range(1, k + 1)]
    return np.asarray(np.exp(terms - whole).sum(axis=0) / k)


def expected_weights(scores: Floats, c: int, k: int, *, skip_flat: bool = False) -> Floats:
    """Each episode's exact chance to be a winner, shape (n,), summing to 1.

    Episodes with equal scores share the mean of their ranks' chances, which is what
    random tie-breaking gives. Our own extension: the same target as drawing, no noise.

    Args:
        scores: shape (n,).
        c, k: candidates drawn and winners kept in each draw.
        skip_flat: the chance in draws whose scores are not all equal; 0 throughout where
            there are no others. A draw is flat in a group of g equal scores with chance
            binom(g, C) / binom(N, C), and then each of the g is as likely a winner.
    """
    n = len(scores)
    if skip_flat and scores.min() == scores.max():
        check_filter(c, k, n)
        return np.zeros(n)
    order = np.argsort(-scores, kind="stable")
    p = rank_probabilities(n, c, k)
    _, group, size = np.unique(-scores[order], return_inverse=True, return_counts=True)
    share = np.bincount(group, weights=p)
    if skip_flat:
        flat = np.array([_flat_chance(int(g), n, c) for g in size])
        # Differences of nearly equal numbers: what is not clearly above 0 is 0.
        share = np.where(share - flat > 1e-12, share - flat, 0.0)
        share /= share.sum()
    weights = np.empty_like(p)
    weights[order] = (share / size)[group]
    return weights


def _flat_chance(g: int, n: int, c: int) -> float:
    """Chance that all of `c` drawn without replacement from `n` are among `g` of them."""
    return float(np.prod([(g - i) / (n - i) for i in range(c)])) if g >= c else 0.0


def exponential_weights(scores: Floats, temperature: float) -> Floats:
    """FTW-exp: exp((score - max) / temperature), normalised, shape (n,).

    Raises:
        ValueError: temperature is not above 0.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    weights = np.exp((scores - scores.max()) / temperature)
    return np.asarray(weights / weights.sum())


def sampled_counts(
    scores: Floats, c: int, k: int, draws: int, stream: Stream, *, skip_flat: bool = False
) -> npt.NDArray[np.int64]:
    """How often each episode wins in `draws` draws, shape (n,).

    Args:
        scores: shape (n,).
        c, k: candidates drawn and winners kept in each draw.
        draws: J.
        stream: randomness of the draws and of breaking ties.
        skip_flat: repeat draws whose scores are all equal, for they tell nothing; if
            too few others turn up, the counts sum to less than draws * k (to 0 where all
            scores are equal).
    """
    n = len(scores)
    check_filter(c, k, n)
    counts = np.zeros(n, dtype=np.int64)
    if skip_flat and scores.min() == scores.max():
        return counts
    left = draws
    for _ in range(_MAX_TRIES if skip_flat else 1):
        keys = stream.uniforms(draws * n).reshape(draws, n)
        drawn = np.argpartition(keys, c - 1, axis=1)[:, :c] if c < n else np.argsort(keys, axis=1)
        drawn_scores = scores[drawn]
        if skip_flat:
            uneven = np.flatnonzero(drawn_scores.min(axis=1) < drawn_scores.max(axis=1))[:left]
            keys, drawn, drawn_scores = keys[uneven], drawn[uneven], drawn_scores[uneven]
        # Equal scores are ordered by the random keys, never by position in the buffer.
        order = np.lexsort((np.take_along_axis(keys, drawn, axis=1), -drawn_scores), axis=1)
        winners = np.take_along_axis(drawn, order[:, :k], axis=1)
        counts += np.bincount(winners.ravel(), minlength=n)
        left -= len(winners)
        if not left:
            break
    return counts


def effective_sample_size(weights: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> float:
    """(sum w)^2 / sum w^2: how many equally weighted episodes carry the same noise; 0 if none."""
    w = np.asarray(weights, dtype=np.float64)
    return float(w.sum() ** 2 / (w**2).sum()) if w.any() else 0.0
