"""The filter: what is drawn follows Eq. 5, what is expected equals it."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftw_agents.filters import (
    check_filter,
    effective_sample_size,
    expected_weights,
    exponential_weights,
    rank_probabilities,
    sampled_counts,
)
from ftw_agents.theory import filter_strength, mean_field, quantile_weight, simulate_bandit
from ftw_envs.streams import Stream

sizes = st.integers(1, 9).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(1, n)).flatmap(
        lambda nc: st.tuples(st.just(nc[0]), st.just(nc[1]), st.integers(1, nc[1]))
    )
)


def _eq5(r: int, n: int, c: int, k: int) -> Fraction:
    total = sum(comb(r - 1, j - 1) * comb(n - r, c - j) for j in range(1, k + 1))
    return Fraction(total, k * comb(n, c))


@given(sizes)
def test_rank_probabilities_are_eq5(nck: tuple[int, int, int]) -> None:
    n, c, k = nck
    exact = [float(_eq5(r, n, c, k)) for r in range(1, n + 1)]
    assert rank_probabilities(n, c, k) == pytest.approx(exact, abs=1e-12)


def test_rank_probabilities_at_size() -> None:
    p = rank_probabilities(5000, 8, 4)
    assert p.sum() == pytest.approx(1, abs=1e-9)
    assert p.max() <= 8 / 4 / 5000 * (1 + 1e-9)
    assert float(_eq5(1234, 5000, 8, 4)) == pytest.approx(p[1233], rel=1e-9)


def _by_enumeration(scores: list[int], c: int, k: int) -> list[Fraction]:
    """Winners over all draws and all orders of ties, counted."""
    n = len(scores)
    share = [Fraction(0)] * n
    draws = list(combinations(range(n), c))
    for draw in draws:
        orders = list(permutations(draw))
        for order in orders:
            for i in sorted(order, key=lambda i: -scores[i])[:k]:
                share[i] += Fraction(1, k * len(draws) * len(orders))
    return share


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=6).flatmap(
        lambda s: st.tuples(st.just(s), st.integers(1, min(4, len(s)))).flatmap(
            lambda sc: st.tuples(st.just(sc[0]), st.just(sc[1]), st.integers(1, sc[1]))
        )
    )
)
def test_expected_weights_are_exact_with_ties(case: tuple[list[int], int, int]) -> None:
    scores, c, k = case
    want = [float(x) for x in _by_enumeration(scores, c, k)]
    got = expected_weights(np.array(scores, dtype=float), c, k)
    assert got == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize(("c", "k"), [(4, 1), (5, 3), (8, 2), (12, 12), (12, 5)])
@pytest.mark.parametrize("ties", [False, True])
def test_drawn_frequencies_match(c: int, k: int, ties: bool) -> None:
    """Within five standard errors, in 40,000 draws."""
    scores = np.array([0, 1, 0, 1, 1, 0, 2, 0, 0, 1, 2, 0] if ties else range(12), dtype=float)
    draws = 40_000
    counts = sampled_counts(scores, c, k, draws, Stream("test", c, k, int(ties)))
    assert counts.sum() == draws * k
    p = expected_weights(scores, c, k) * k  # chance to be kept in a draw
    assert np.all(np.abs(counts / draws - p) <= 5 * np.sqrt(p * (1 - p) / draws) + 1e-12)


def test_ties_are_not_broken_by_position() -> None:
    counts = sampled_counts(np.zeros(50), 10, 2, 20_000, Stream("ties"))
    mean = 20_000 * 2 / 50
    assert np.abs(counts - mean).max() < 5.5 * np.sqrt(mean)


def test_flat_draws_are_skipped_and_made_up_for() -> None:
    scores = np.array([1.0] + [0.0] * 19)
    counts = sampled_counts(scores, 4, 1, 500, Stream("flat"), skip_flat=True)
    assert counts[0] == counts.sum() == 500
    assert sampled_counts(scores, 4, 1, 500, Stream("flat"))[0] < 200


def test_nothing_is_chosen_where_all_scores_are_equal() -> None:
    assert not sampled_counts(np.ones(9), 4, 2, 100, Stream("x"), skip_flat=True).any()
    assert sampled_counts(np.ones(9), 4, 2, 100, Stream("x")).sum() == 200


@pytest.mark.parametrize(("c", "k"), [(4, 1), (4, 2), (3, 2), (5, 4)])
@pytest.mark.parametrize("scores", [[0, 0, 0, 1, 1, 0, 2, 0, 1], [1, 0, 0, 0, 0], [3, 2, 1, 0, 9]])
def test_expected_weights_without_flat_draws_match_drawing(
    c: int, k: int, scores: list[int]
) -> None:
    s = np.array(scores, dtype=np.float64)
    expected = expected_weights(s, c, k, skip_flat=True)
    drawn = sampled_counts(s, c, k, 20_000, Stream("uneven", c, k), skip_flat=True)
    assert expected.sum() == pytest.approx(1)
    assert drawn / drawn.sum() == pytest.approx(expected, abs=0.012)


def test_without_flat_draws_the_best_one_wins_them_all() -> None:
    s = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    assert expected_weights(s, 4, 1, skip_flat=True) == pytest.approx([0, 0.5, 0, 0.5, 0, 0])
    assert expected_weights(s, 4, 1)[0] > 0
    assert not expected_weights(np.ones(6), 4, 1, skip_flat=True).any()


def test_drawing_is_reproducible() -> None:
    a, b = (sampled_counts(np.arange(30.0), 4, 1, 64, Stream("same")) for _ in range(2))
    assert (a == b).all()


@pytest.mark.parametrize(("c", "k", "n"), [(4, 0, None), (4, 5, None), (4, 1, 3)])
def test_filters_that_cannot_work_are_refused(c: int, k: int, n: int | None) -> None:
    with pytest.raises(ValueError, match=r"winners K must be from 1|cannot draw C = 4"):
        check_filter(c, k, n)


def test_exponential_weights() -> None:
    assert exponential_weights(np.array([0.0, 1.0]), 1.0)[1] == pytest.approx(np.e / (1 + np.e))
    assert exponential_weights(np.array([1e9, 0.0]), 1.0).tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="temperature must be above 0"):
        exponential_weights(np.zeros(2), 0.0)


def test_effective_sample_size() -> None:
    assert effective_sample_size(np.array([2, 2, 0, 2])) == pytest.approx(3)
    assert effective_sample_size(np.zeros(3)) == 0


@pytest.mark.parametrize(
    ("c", "k", "kl", "share"),
    [(8, 6, 0.133, 0.841), (2, 1, 0.193, 0.750), (4, 2, 0.297, 0.673), (8, 4, 0.395, 0.618),
     (8, 1, 1.204, 0.234)],
)  # fmt: skip
def test_strength_matches_the_published_table(c: int, k: int, kl: float, share: float) -> None:
    assert filter_strength(c, k) == pytest.approx((kl, share), abs=6e-4)


def test_large_buffers_approach_the_limit() -> None:
    n = 20_000
    u = 1 - (np.arange(1, n + 1) - 0.5) / n
    assert rank_probabilities(n, 5, 3) * n == pytest.approx(quantile_weight(u, 5, 3), abs=2e-3)


SIGMAS = (0.1, 0.5, 1, 2, 4, 8, 16, 32, 64, 128)


@pytest.mark.parametrize(
    ("c", "k", "want"),
    [
        (8, 4, (0.995, 0.995, 0.993, 0.987, 0.973, 0.947, 0.896, 0.812, 0.709, 0.621)),
        (8, 6, (0.995, 0.995, 0.993, 0.991, 0.988, 0.987, 0.985, 0.985, 0.984, 0.984)),
        (4, 1, (0.995, 0.995, 0.988, 0.550, 0.031, 0.015, 0.012, 0.011, 0.011, 0.010)),
    ],
)
def test_mean_field_matches_reference_values(c: int, k: int, want: tuple[float, ...]) -> None:
    assert [mean_field(s, c, k) for s in SIGMAS] == pytest.approx(want, abs=1e-3)


@pytest.mark.parametrize(
    ("algo", "c", "k", "sigma", "low", "high"),
    [
        ("ftw", 8, 4, 0.5, 0.97, 1.0),
        ("ftw", 8, 4, 8.0, 0.88, 0.98),
        ("ftw", 4, 1, 0.5, 0.97, 1.0),
        ("ftw", 4, 1, 8.0, 0.0, 0.05),
        ("ftw-exp", 8, 4, 0.5, 0.97, 1.0),
        ("ftw-exp", 8, 4, 4.0, 0.0, 0.05),
    ],
)
def test_played_bandit_ends_where_it_should(
    algo: str, c: int, k: int, sigma: float, low: float, high: float
) -> None:
    ends = [simulate_bandit(algo, sigma, seed, c=c, k=k) for seed in range(2)]
    assert low <= np.mean(ends) <= high


def test_unknown_bandit_algorithm_is_refused() -> None:
    with pytest.raises(ValueError, match="ftw or ftw-exp"):
        simulate_bandit("grpo", 1.0, 0)
