"""The chain of bandits: credit over a whole episode."""

from __future__ import annotations

import re
from collections import Counter
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bandit import start

from ftw_envs.bandit.chain import SigmaTrapChainEnv
from ftw_envs.bandit.machines import KINDS, name_pairs


def test_names_come_once_and_pairs_stay_in_one_split() -> None:
    env = SigmaTrapChainEnv()
    for split, known in name_pairs().items():
        for i in range(200):
            start(env, i, split=split)
            names: list[str] = []
            while not env._end:
                assert env.names in known
                names += env.names
                env.step(env.good_name())
            assert len(set(names)) == len(names) == 10


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([*KINDS, ""]), min_size=5, max_size=8),
    st.integers(0, 999),
    st.integers(0, 2**63 - 1),
)
def test_chain_pays_at_the_end_the_exact_sum(plan: list[str], index: int, seed: int) -> None:
    """Whatever was chosen before, and however often nothing was, a machine pays the same."""
    env = SigmaTrapChainEnv()
    start(env, index, seed)
    table = []
    while not env._end:  # what each machine pays, seen along one path
        table.append({kind: env.payout(kind) for kind in KINDS})
        env.step(env.good_name())
    start(env, index, seed)
    chosen: list[str] = []
    for kind in plan:
        if env._end:
            break
        reply = env.names[env.kinds.index(kind)] if kind else "neither"
        chosen += [kind] if kind else []
        text, reward, terminated, truncated, info = env.step(reply)
        assert env.decision == len(chosen)
        if not terminated:
            assert (reward, info["score"]) == (0, 0)
            assert not re.search(r"\d\.\d", text)
    if len(chosen) == 5:
        assert reward == round(sum(table[d][kind] for d, kind in enumerate(chosen)), 6)
        assert info["solved"] == (chosen == ["round"] * 5)
        assert text == f"Paid {reward:.6f} in all."
    else:
        assert truncated == (len(plan) == env.max_steps)


def test_chain_payouts_are_as_said() -> None:
    env = SigmaTrapChainEnv(gain=0.5)
    paid: dict[str, list[float]] = {"round": [], "sure": [], "trap": []}
    for i in range(1000):
        start(env, i, seed=i)
        while not env._end:
            paid["round"].append(env.payout("round"))
            paid["trap" if env.decision == env.noisy else "sure"].append(env.payout("square"))
            env.step(env.good_name())
    for name, mean, sigma in (("round", 1, 0.1), ("sure", 0.5, 0.1), ("trap", 0, 4)):
        error = 4 * sigma / sqrt(len(paid[name]))
        assert np.mean(paid[name]) == pytest.approx(mean, abs=error)
        assert np.std(paid[name]) == pytest.approx(sigma, rel=0.1)
    # Decisions and arms have noise of their own.
    assert len({x for rows in paid.values() for x in rows}) > 9900
    rounds = np.reshape(paid["round"], (1000, 5))
    assert np.abs(np.corrcoef(rounds.T) - np.eye(5)).max() < 0.15


def test_chain_does_not_tell_the_noisy_decision() -> None:
    def said(i: int, seed: int, noisy: int | None) -> list[str]:
        texts = [start(env, i, seed)]
        env.noisy = env.noisy if noisy is None else noisy
        while env.decision < 4:
            texts.append(env.step(env.names[i % 2])[0])
        return texts

    env = SigmaTrapChainEnv()
    for i in range(50):
        assert said(i, 0, None) == said(i, 1, None) == said(i, 0, 0) == said(i, 0, 4)
    noisy: Counter[int] = Counter()
    for i in range(1000):
        start(env, i)
        noisy[env.noisy] += 1
    assert sorted(noisy) == [0, 1, 2, 3, 4]
    assert min(noisy.values()) > 200 - 4 * sqrt(1000 * 0.2 * 0.8)


@pytest.mark.parametrize("decisions", [2, 16])
def test_chain_length(decisions: int) -> None:
    env = SigmaTrapChainEnv(decisions=decisions)
    assert env.max_steps == decisions + 3
    for i in range(100):
        start(env, i)
        while not env._end:
            *_, info = env.step(env.good_name())
        assert info["solved"]
        assert info["steps"] == decisions


@pytest.mark.parametrize(
    ("kwargs", "why"),
    [
        ({"decisions": 1}, "decisions must be an integer from 2 to 16, got 1"),
        ({"decisions": 17}, "decisions must be an integer from 2 to 16, got 17"),
        ({"decisions": 2.5}, "decisions must be an integer from 2 to 16, got 2.5"),
        ({"gain": 0}, "gain must be a finite number above 0"),
        ({"max_steps": 4}, r"max_steps must be at least decisions \(5\), got 4"),
        ({"max_steps": 0}, "max_steps must be an integer of at least 1"),
    ],
)
def test_bad_chains_are_refused(kwargs: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SigmaTrapChainEnv(**kwargs)
