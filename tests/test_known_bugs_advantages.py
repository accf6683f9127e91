"""Bugs that users of public trainers have met, as properties of advantages and choices.

The rows are numbered as in `test_known_bugs_loop.py`, which has the whole list.

1. Returns that end at observation tokens: an observation's length changes no advantage.
2. What is left out of the KL term.
Also: equal scores teach nothing, and no tie is broken by place or age.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_known_bugs_loss import AGGREGATIONS, GAMES, Path, batch_of, episode, step

from ftw_agents.algorithms.advantages import batch_advantages, group_advantages
from ftw_agents.algorithms.ftw import choose
from ftw_agents.algorithms.grpo import GRPO
from ftw_agents.algorithms.imitation import RAFT
from ftw_agents.algorithms.ppo import PPO
from ftw_agents.algorithms.reinforce_pp import ReinforcePP
from ftw_agents.config import ClipConfig, FTWConfig, GRPOConfig, PPOConfig, TrainConfig
from ftw_agents.lm.learner import Floats
from ftw_envs.bandit.sigma_trap import SigmaTrapEnv
from ftw_envs.episode import Tokens
from ftw_envs.streams import Stream


class Said:
    """A learner whose critic says the same of an action token whatever stands around it."""

    def values(self, tokens: list[Tokens]) -> list[Floats]:
        rngs = [np.random.default_rng(i) for i in range(len(tokens))]
        return [r.normal(size=len(t.logprobs)) for r, t in zip(rngs, tokens, strict=True)]


def ppo(level: Any) -> Callable[..., PPO]:
    config = TrainConfig(algo="ppo", ppo=PPOConfig(level=level, gamma=0.9, lam=0.7))
    return lambda env: PPO(config, env)


def grpo(**clip: Any) -> Callable[..., GRPO]:
    config = TrainConfig(algo="grpo", grpo=GRPOConfig(group=2), clip=ClipConfig(**clip))
    return lambda env: GRPO(config, env)


ESTIMATORS: dict[str, Callable[..., Any]] = {
    "grpo": grpo(),
    "reinforce++": lambda env: ReinforcePP(TrainConfig(algo="reinforce++"), env),
    "ppo-token": ppo("token"),
    "ppo-turn": ppo("turn"),
}
turns = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3)), min_size=1, max_size=4)


def sequence(lengths: list[tuple[int, int]], longer: list[int]) -> Tokens:
    """Turns of (observation, reply) tokens, with longer observations, and one at the end."""
    extra = [*longer, *[0] * 4]
    spans = [[0] * (o + e) + [1] * r for (o, r), e in zip(lengths, extra, strict=False)]
    action = [a for span in spans for a in span] + [0] * sum(longer)
    return Tokens((7,) * len(action), tuple(action), (0.0,) * sum(action))


@pytest.mark.parametrize("name", list(ESTIMATORS))
@settings(max_examples=25, deadline=None)
@given(
    st.lists(turns, min_size=4, max_size=4),
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.permutations([0.0, 0.3, 1.0, 2.0]),
)
def test_observations_change_no_advantage(
    name: str, lengths: list[list[tuple[int, int]]], longer: list[int], scores: list[float]
) -> None:
    """Row 1: with discount and lambda below 1 too, nothing is carried through observations."""
    algorithm = ESTIMATORS[name](SigmaTrapEnv())
    batches = []
    for more in ([], longer):
        tokens = [sequence(x, more) for x in lengths]
        played = [episode(t, s) for t, s in zip(tokens, scores, strict=True)]
        batches.append(algorithm.batch(played, 1, Said()))
    short, long = batches
    assert short.norm == long.norm
    assert len(short.samples) == len(long.samples) == 4
    for a, b in zip(short.samples, long.samples, strict=True):
        assert np.array_equal(a.advantages, b.advantages)
        assert len(a.advantages) == sum(a.tokens.action)
        if a.critic is not None:
            for part in ("places", "values", "returns"):
                assert np.array_equal(getattr(a.critic, part), getattr(b.critic, part))


def test_returns_reach_the_first_turn() -> None:
    """Row 1: a score is the return of every action token before it, undiscounted."""
    config = TrainConfig(algo="ppo", ppo=PPOConfig(gamma=1.0, lam=1.0))
    played = [episode(sequence([(3, 2), (20, 1), (5, 2)], []), s) for s in (1.0, -2.0)]
    batch = PPO(config, SigmaTrapEnv()).batch(played, 1, Said())
    for sample, score in zip(batch.samples, (1.0, -2.0), strict=True):
        assert sample.critic.returns == pytest.approx(np.full(5, score))
    for name in ("grpo", "reinforce++"):
        for sample in ESTIMATORS[name](SigmaTrapEnv()).batch(played, 1, Said()).samples:
            assert len(sample.advantages) == 5
            assert len(set(sample.advantages.tolist())) == 1


@settings(max_examples=60, deadline=None)
@given(st.floats(-1e6, 1e6), st.integers(2, 9), st.integers(1, 3), st.booleans())
def test_equal_scores_give_no_advantage(
    score: float, size: int, groups: int, divide_by_std: bool
) -> None:
    """Exactly none: an episode with any is trained on."""
    scores = np.full(size * groups, score)
    assert not group_advantages(scores, size, divide_by_std=divide_by_std).any()
    assert not batch_advantages(scores).any()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_kl_term_holds_where_there_is_no_advantage(aggregation: str) -> None:
    """Row 2: it is of all action tokens, those of groups of equal scores too."""
    played = [episode(t, s) for t, s in zip(GAMES, (0.0, 1.0, 1.0, 1.0, 0.0, 0.0), strict=True)]
    batch = grpo(kl=0.3, aggregation=aggregation)(SigmaTrapEnv()).batch(played, 1, Said())
    path = Path(aggregation, kl=0.3)
    _, stats = step(path, batch.samples, batch.norm)
    _, whole = step(path, batch_of(path, GAMES).samples, batch.norm)
    assert stats.kl == pytest.approx(whole.kl)


def tied(versions: int, each: int) -> list[Any]:
    """Episodes of several policy versions; in each, one in three is better and all those tie."""
    return [
        replace(episode(GAMES[0], float(i % 3 == 0)), policy_version=v, seed=i)
        for v in range(1, versions + 1)
        for i in range(each)
    ]


def assert_even(counts: np.ndarray, draws: int, p: float) -> None:
    """Within five and a half standard errors of `p` each."""
    assert np.abs(counts - draws * p).max() <= 5.5 * np.sqrt(draws * p * (1 - p))


def test_ftw_breaks_ties_by_neither_place_nor_age() -> None:
    episodes, draws = tied(4, 12), 40_000
    config = FTWConfig(candidates=4, winners=1, batch_episodes=draws)
    kept, weights, _ = choose(episodes, 4, "ftw", config, Stream("ties"))
    assert [e.score for e in kept] == [1.0] * 16
    assert_even(np.array(weights), draws, 1 / 16)
    ages = np.bincount([e.policy_version for e in kept], weights)[1:]
    assert_even(ages, draws, 1 / 4)


def test_raft_breaks_ties_by_no_place() -> None:
    episodes, draws = tied(1, 24), 1500  # 8 tie for 6 places
    raft = RAFT(TrainConfig(algo="raft"), SigmaTrapEnv())
    played = [
        replace(e, tokens=replace(e.tokens, ids=(i, *e.tokens.ids[1:])))
        for i, e in enumerate(episodes)
    ]
    counts = np.zeros(24)
    for version in range(1, draws + 1):
        for sample in raft.batch(played, version, Said()).samples:
            counts[sample.tokens.ids[0]] += sample.weight
    assert not counts[[i for i in range(24) if i % 3]].any()
    assert_even(counts[::3], draws, 6 / 8)
