"""A filter's strength in nats and its taste for risk, against formulas and drawn scores."""

from __future__ import annotations

from math import log
from statistics import NormalDist
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftw_agents.algorithms.ftw import check, choose
from ftw_agents.config import FTWConfig, TrainConfig
from ftw_agents.filters import expected_weights
from ftw_agents.theory import (
    MOST_CANDIDATES,
    NEAR,
    Risk,
    choose_filter,
    describe_filter,
    filter_strength,
    kept_pull,
    mean_field,
    quantile_weight,
    risk_of,
    risk_premium,
    strengths,
    suggest_filter,
    winners_share,
)
from ftw_envs.episode import Episode, Instance
from ftw_envs.registry import make
from ftw_envs.streams import Stream

# Strength in nats


@pytest.mark.parametrize("c", [2, 4, 32, 400])
def test_strength_of_one_winner_has_a_closed_form(c: int) -> None:
    """KL = E[w log w] with w = C u^(C - 1); E[w^2] = C^2 / (2 C - 1)."""
    want = (log(c) - (c - 1) / c, (2 * c - 1) / c**2)
    assert filter_strength(c, 1) == pytest.approx(want, rel=1e-3)


def test_weights_of_a_large_draw_are_finite() -> None:
    u = np.array([0.0, 0.5, 0.74, 0.76, 1.0])
    assert quantile_weight(u, 4000, 1000) == pytest.approx([0, 0, 0.29, 3.72, 4], abs=0.02)


pairs = [(c, k) for c in range(2, MOST_CANDIDATES + 1) for k in range(1, c)]


@settings(max_examples=100, deadline=None)
@given(st.floats(0.012, 2.4), st.sampled_from(get_args(Risk)))
def test_chosen_filter_is_the_nearest_with_few_candidates(strength: float, risk: Risk) -> None:
    table = strengths(risk)
    assert set(table) == {(c, k) for c, k in pairs if risk_of(c, k) == risk}
    if not min(table.values()) - NEAR / 2 <= strength <= max(table.values()) + NEAR / 2:
        with pytest.raises(ValueError, match=r"strength must be from 0\.\d+ to"):
            choose_filter(strength, risk)
        return
    c, k = choose_filter(strength, risk)
    best = min(abs(nats - strength) for nats in table.values())
    assert abs(filter_strength(c, k)[0] - strength) <= best + NEAR + 1e-4
    fewer = [abs(nats - strength) for pair, nats in table.items() if pair[0] < c]
    assert all(off > best + NEAR for off in fewer)


@pytest.mark.parametrize("pair", [(4, 1), (2, 1), (8, 4), (8, 1), (4, 3)])
def test_a_filter_is_found_by_its_own_strength(pair: tuple[int, int]) -> None:
    assert choose_filter(filter_strength(*pair)[0], risk_of(*pair)) == pair


def test_risk_classes() -> None:
    assert [risk_of(5, k) for k in range(1, 6)] == ["seeking"] * 2 + ["averse"] * 3
    assert [risk_of(4, k) for k in range(1, 4)] == ["seeking", "neutral", "averse"]


@pytest.mark.parametrize("strength", [0.0, -1.0, 3.0, float("nan"), float("inf")])
def test_strengths_out_of_reach_are_refused(strength: float) -> None:
    with pytest.raises(
        ValueError, match=r"from 0\.193 to 0\.536 nats for risk 'neutral' \(K = C/2"
    ):
        choose_filter(strength, "neutral")


def test_unknown_risk_is_refused() -> None:
    with pytest.raises(ValueError, match="seeking, neutral, averse, got 'bold'"):
        choose_filter(0.3, "bold")  # type: ignore[arg-type]


def test_description_of_a_filter() -> None:
    assert describe_filter(4, 1) == (
        "FTW-K1-C4: 0.64 nats, effective sample share 44%, seeks risk (K < C/2)"
    )
    assert "neutral to risk" in describe_filter(8, 4)
    assert "shuns risk" in describe_filter(8, 6)
    assert "0.00 nats, effective sample share 100%, chooses nothing" in describe_filter(3, 3)
    assert describe_filter(3000, 1500).startswith("FTW-K1500-C3000: 0.6")


def test_settings_name_a_filter() -> None:
    assert FTWConfig().filter == (4, 1)
    assert FTWConfig(candidates=9, winners=2).filter == (9, 2)
    assert FTWConfig(strength=0.3, risk="neutral").filter == (4, 2)
    assert FTWConfig(strength=0.3, risk="averse").filter == (7, 4)


@pytest.mark.parametrize(
    ("ftw", "algo", "why"),
    [
        (FTWConfig(strength=0.5, candidates=8), "ftw", "either strength, or candidates"),
        (FTWConfig(strength=0.5, winners=2), "ftw-expected", "either strength, or candidates"),
        (FTWConfig(risk="averse"), "ftw", "give strength too"),
        (FTWConfig(strength=0.1), "ftw", "must be from 0.432 to 2.497 nats"),
        (FTWConfig(strength=0.5), "ftw-exp", "ftw-exp has none: set temperature"),
        (FTWConfig(strength=2.4), "ftw", "cannot draw C = 29 candidates from 20"),
        (FTWConfig(strength=0.3, risk="averse", batch_episodes=3), "ftw", "at least the winners"),
        (FTWConfig(batch_episodes=0), "ftw", "a multiple of the winners K = 1"),
    ],
)
def test_settings_that_name_no_filter_are_refused(ftw: FTWConfig, algo: str, why: str) -> None:
    config = TrainConfig(ftw=ftw, algo=algo, episodes=20)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=why):
        check(config, make(config.env))


def _episode(score: float) -> Episode:
    instance = Instance("train", 0, "0")
    return Episode("ftw/SigmaTrap-v0", "0", {}, instance, 0, (), "", score, False, "failed", 1)


def test_a_strength_is_drawn_with_the_filter_it_names() -> None:
    """K = 4 of C = 7, in as many whole draws as fit into the batch."""
    episodes = [_episode(float(i)) for i in range(20)]
    by_strength = FTWConfig(strength=0.3, risk="averse", batch_episodes=510)
    check(TrainConfig(ftw=by_strength, episodes=20), make("ftw/SigmaTrap-v0"))
    same = FTWConfig(candidates=7, winners=4, batch_episodes=508)
    for algo in ("ftw", "ftw-expected"):
        kept, weights, stats = choose(episodes, 1, algo, by_strength, Stream("x"))
        other = choose(episodes, 1, algo, same, Stream("x"))
        assert [e.score for e in kept] == [e.score for e in other[0]]
        assert np.array(weights) / sum(weights) == pytest.approx(np.array(other[1]) / sum(other[1]))
        assert stats["batch_episodes"] == (508 if algo == "ftw" else pytest.approx(510))


# The taste for risk


@pytest.mark.parametrize(("c", "k"), [(4, 1), (8, 4), (8, 6)])
@pytest.mark.parametrize("background", [0.0, 0.7])
@pytest.mark.parametrize("p", [0.2, 0.5])
def test_winners_share_is_that_of_a_large_buffer(c: int, k: int, background: float, p: float):
    """Within five standard errors: a weight is at most C / K."""
    n, rng = 20_000, np.random.default_rng(c * 10 + k)
    first = np.arange(n) < p * n
    noisy = rng.normal(-0.3, np.hypot(background, 1.5), n)
    scores = np.where(first, rng.normal(0.1, background, n), noisy)
    got = expected_weights(scores, c, k)[first].sum()
    want = winners_share(p, (0.1, background), (-0.3, float(np.hypot(background, 1.5))), c, k)
    assert got == pytest.approx(want, abs=5 * c / k * np.sqrt(p * (1 - p) / n))


@pytest.mark.parametrize("background", [0.0, 1.0])
def test_premium_has_the_sign_of_the_class(background: float) -> None:
    for c, k in ((c, k) for c, k in pairs if c <= 8):
        premium = risk_premium(c, k, background=background)
        want = {"seeking": 1, "neutral": 0, "averse": -1}[risk_of(c, k)]
        assert np.sign(premium) == want, (c, k)
        # Keeping the K best of C is leaving the C - K worst: the mirror image.
        assert risk_premium(c, c - k, background=background) == pytest.approx(-premium, abs=1e-6)


@pytest.mark.parametrize(("c", "k"), [(4, 1), (8, 2), (8, 6), (5, 3)])
def test_rare_noisy_action_gains_if_it_wins_more_often_than_k_of_c(c: int, k: int) -> None:
    limit = NormalDist().inv_cdf(1 - k / c)
    assert risk_premium(c, k, p=0.999) == pytest.approx(limit, abs=4e-3)


@pytest.mark.parametrize(("c", "k"), [(4, 1), (8, 3), (8, 6)])
def test_at_the_premium_a_noisy_action_holds_its_ground(c: int, k: int) -> None:
    """In a buffer of drawn scores, half of them of each action, sigma = 3."""
    n, rng = 100_000, np.random.default_rng(c + k)
    sure = np.arange(n) < n // 2
    mean = -3 * risk_premium(c, k)
    noise = rng.normal(0, 3, n)
    for shift, gains in ((0.0, 0), (0.3, 1), (-0.3, -1)):
        scores = np.where(sure, 0.0, mean + shift + noise)
        gain = 0.5 - expected_weights(scores, c, k)[sure].sum()
        assert gain == pytest.approx(0, abs=0.005) if gains == 0 else gain * gains > 0.005


def test_background_dilutes_the_premium() -> None:
    premiums = [risk_premium(4, 1, background=b) for b in (0, 0.5, 1, 2, 8)]
    assert premiums == sorted(premiums, reverse=True)
    assert premiums[-1] < 0.05


def test_more_than_the_premium_decides_the_sigma_trap() -> None:
    """A trap that is worse by less than the premium wins, one that is worse by more loses."""
    edge = 1 - 4 * risk_premium(4, 1, background=0.0)
    sure = (1.0, 1e-6)
    assert mean_field(4, 4, 1, good=sure, trap_mean=edge + 0.3) < 0.3
    assert mean_field(4, 4, 1, good=sure, trap_mean=edge - 0.3) > 0.7


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((3, 3), {}, "K = C = 3 takes everything"),
        ((3, 1), {"p": 1.0}, "p from 0.001 to 0.999"),
        ((3, 1), {"background": -1.0}, "background of at least 0"),
        ((3, 4), {}, "winners K must be from 1"),
    ],
)
def test_premiums_that_do_not_exist_are_refused(args, kwargs, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        risk_premium(*args, **kwargs)


def test_suggested_filters_go_from_seeking_to_averse_with_noise() -> None:
    found = [suggest_filter(1.0, noise) for noise in (0, 0.5, 1, 1.5, 2, 4, 10, 100, 1e4)]
    assert found[0] == found[1] == (4, 1)
    assert found[-1] == (8, 6)
    nats = [filter_strength(*pair)[0] for pair in found]
    assert nats == sorted(nats, reverse=True)
    assert (8, 4) in found
    assert suggest_filter(0.0, 1.0) == (8, 6)


def test_suggested_filter_is_the_strongest_that_keeps_its_pull() -> None:
    pair = suggest_filter(0.7, 1.0, 0.2, keep=0.6)
    assert kept_pull(*pair, 0.7, 1.0, 0.2) >= 0.6
    stronger = [
        (c, k)
        for c, k in pairs
        if c <= 8 and filter_strength(*pair)[0] < filter_strength(c, k)[0] <= 0.637
    ]
    assert stronger
    assert all(kept_pull(*other, 0.7, 1.0, 0.2) < 0.6 for other in stronger)


@pytest.mark.parametrize("args", [(-1.0, 1.0), (1.0, float("nan")), (1.0, 1.0, float("inf"))])
def test_suggestions_want_numbers_of_at_least_0(args) -> None:
    with pytest.raises(ValueError, match="of at least 0"):
        suggest_filter(*args)
    with pytest.raises(ValueError, match="0 < keep < 1"):
        suggest_filter(1.0, 1.0, keep=1.0)
