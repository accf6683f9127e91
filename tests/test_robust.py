"""What wears out or leaks: memory, hidden answers, other people's checkers."""

from __future__ import annotations

import gc
import random
import tracemalloc

import gymnasium as gym
import pytest
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics, TimeLimit

from ftw_envs.registry import TABLE, make

ids = pytest.mark.parametrize("env_id", [row.id for row in TABLE])
ARRAYS = [
    (f"ftw/{name}-v0", {"obs": obs, "actions": "discrete"})
    for name in ("SokobanMini", "Sokoban", "SokobanHard")
    for obs in ("grid", "image")
]


@ids
def test_many_resets_take_no_memory(env_id: str) -> None:
    """Ten thousand, but for incidents, which take milliseconds: some hundred."""
    incident = "Incident" in env_id
    env = make(env_id, **({"tile_size": 4} if "Visual" in env_id else {}))
    for i in range(300):
        env.reset(seed=i)
    tracemalloc.start()
    try:
        sizes = []
        for _ in range(3):
            for i in range(120 if incident else 3_300):
                env.reset(seed=i)
                env.step("up")
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # The newest 256 incidents are kept; they are the same after each round.
    assert sizes[2] - sizes[1] < 50_000


@ids
def test_making_and_closing_takes_no_memory(env_id: str) -> None:
    def cycle() -> None:
        env = gym.make(env_id, render_mode="rgb_array")
        env.reset(seed=1)
        env.render()
        env.close()

    cycle()
    tracemalloc.start()
    try:
        for _ in range(20):
            cycle()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            cycle()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 50_000
    finally:
        tracemalloc.stop()


@ids
def test_info_before_the_end_tells_no_answer(env_id: str) -> None:
    """The same info whichever way the puzzle lies: it names the instance and counts."""
    env = make(env_id)
    for seed in range(20):
        _, info = env.reset(seed=seed)
        later = {"truth", "slots", "partial", "grounded", "attacker_out", "tipped_off", "lucky"}
        own = {"minutes", "cost", *later} if "Incident" in env_id else set()
        assert set(info) == own | {
            "instance", "env_version", "steps", "invalid_actions", "score", "solved", "end",
        }  # fmt: skip
        assert not any(info[key] for key in own)
        assert set(info["instance"]) == {"split", "index", "hash"}
        assert (info["score"], info["solved"], info["end"]) == (0.0, False, "")
        pick = random.Random(seed)
        while True:
            _, reward, terminated, truncated, info = env.step(pick.choice(env.grammar.actions))
            if terminated or truncated:
                break
            assert (reward, info["score"], info["solved"], info["end"]) == (0.0, 0.0, False, "")


@ids
def test_a_thousand_resets_never_raise(env_id: str) -> None:
    env = make(env_id)
    for seed in range(1000):
        assert env.reset(seed=seed * 7919)[1]["steps"] == 0


def test_wrappers_go_on_top() -> None:
    env = RecordEpisodeStatistics(TimeLimit(gym.make("ftw/Sokoban-v0"), 5))
    env.reset(seed=0)
    for _ in range(5):
        *_, terminated, truncated, info = env.step("up")
    assert truncated
    assert not terminated
    assert info["episode"]["l"] == 5
    assert info["end"] == ""  # the game itself had not ended


@pytest.mark.parametrize(("env_id", "kwargs"), ARRAYS)
@pytest.mark.filterwarnings("error")
def test_stable_baselines_checker(env_id: str, kwargs: dict) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    env: gym.Env = make(env_id, **kwargs)
    # It takes flat vectors and pictures only; a grid is neither.
    checker.check_env(FlattenObservation(env) if kwargs["obs"] == "grid" else env)
