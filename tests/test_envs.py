"""The contract, for every registered id and view."""

from __future__ import annotations

import copy
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from conftest import COORDS, MINI, TRAP
from digest import digest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

import ftw_envs
from ftw_agents.collect import Collector
from ftw_agents.results import summarise
from ftw_agents.scripted.random import RandomAgent
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import evaluation_starts
from ftw_envs.bandit.sigma_trap import NAMES, instances
from ftw_envs.episode import SPLITS
from ftw_envs.registry import TABLE, make
from ftw_envs.sokoban.env import SokobanEnv
from ftw_envs.sokoban.solve import solve

VIEWS = [(row.id, {}) for row in TABLE] + [(MINI, COORDS)]
HEADINGS = (
    "Description", "Observation", "Actions", "Score", "End of episode", "Instances",
    "Arguments", "Versions",
)  # fmt: skip
GOLDEN = {
    "ftw/SokobanMini-v0 {}": "78a460032f8f09a2",
    "ftw/SigmaTrap-v0 {}": "52bc4091893b30da",
    "ftw/SokobanMini-v0 {'obs': 'coords'}": "f5af7fb7e2e77990",
}
views = pytest.mark.parametrize(("env_id", "kwargs"), VIEWS)


@views
@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
@pytest.mark.filterwarnings("error")
def test_gymnasium_checker(env_id: str, kwargs: dict, render_mode: str | None) -> None:
    check_env(gym.make(env_id, render_mode=render_mode, **kwargs).unwrapped)


@views
def test_docstring_headings(env_id: str, kwargs: dict) -> None:
    doc = type(make(env_id, **kwargs)).__doc__ or ""
    found = [line.strip()[3:] for line in doc.splitlines() if line.strip().startswith("## ")]
    assert tuple(found) == HEADINGS


@views
def test_same_bytes_in_other_processes(env_id: str, kwargs: dict) -> None:
    here = digest(env_id, kwargs)
    code = f"from digest import digest; print(digest({env_id!r}, {kwargs!r}))"
    for hash_seed in ("0", "12345"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.path.dirname(__file__)}
        out = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert out.stdout.strip() == here


def test_golden_transcripts() -> None:
    """A change of rules, texts or levels shows here; then the id needs a new version."""
    assert {f"{i} {k}": digest(i, k)[:16] for i, k in VIEWS} == GOLDEN


@views
def test_views_share_the_episode(env_id: str, kwargs: dict) -> None:
    """Rules, rewards and instances do not depend on the view."""
    a, b = make(env_id), make(env_id, **kwargs)
    for seed in range(30):
        (_, ia), (_, ib) = a.reset(seed=seed), b.reset(seed=seed)
        assert ia == ib
        done = False
        while not done:
            reply = random.Random(seed).choice(a.grammar.actions)
            sa, sb = a.step(reply), b.step(reply)
            assert sa[1:] == sb[1:]
            done = sa[2] or sa[3]


@views
def test_info_has_the_same_keys_always(env_id: str, kwargs: dict) -> None:
    env = make(env_id, **kwargs)
    _, first = env.reset(seed=0)
    env.action_space.seed(0)
    done = False
    while not done:
        _, _, terminated, truncated, info = env.step("nonsense")
        done = terminated or truncated
        assert info.keys() == first.keys()
        assert info is not first
    assert truncated
    assert info["end"] == "time_limit"
    assert info["invalid_actions"] == info["steps"] == env.max_steps


@views
def test_unusable_replies_leave_the_world_alone(env_id: str, kwargs: dict) -> None:
    env = make(env_id, **kwargs)
    env.reset(seed=3)
    before = pickle.dumps((getattr(env, "board", None) and env.board.player, env._text()))
    text, reward, terminated, _, info = env.step("[one] [two]")
    after = pickle.dumps((getattr(env, "board", None) and env.board.player, env._text()))
    assert before == after
    assert reward == 0
    assert not terminated
    assert info["invalid_actions"] == 1
    assert "Answer with one of: " + ", ".join(env.grammar.actions) in text


@given(st.lists(st.text(), max_size=5), st.integers(0, 2**63 - 1))
def test_no_reply_raises(replies: list[str], seed: int) -> None:
    for env_id, kwargs in VIEWS:
        env = make(env_id, **kwargs)
        env.reset(seed=seed)
        for reply in replies:
            text, *_ = env.step(reply)
            assert text in env.observation_space
            if env._end:
                break


@views
def test_bad_resets_are_refused(env_id: str, kwargs: dict) -> None:
    env = make(env_id, **kwargs)
    for options, why in (
        ({"split": "exam"}, "train, valid, test"),
        ({"index": -1}, "index must be from 0 to"),
        ({"split": "test", "index": 10**9}, "index must be from 0 to"),
        ({"index": 1.5}, "index must be an integer"),
        ({"index": True}, "index must be an integer"),
        ({"level": 3}, "split and index, got 'level'"),
    ):
        with pytest.raises(ValueError, match=why):
            env.reset(options=options)


@views
def test_order_is_enforced(env_id: str, kwargs: dict) -> None:
    env = make(env_id, **kwargs)
    with pytest.raises(ResetNeeded, match="before step"):
        env.step("up")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="string here, got int"):
        env.step(3)
    for _ in range(env.max_steps):
        env.step("")
    with pytest.raises(ResetNeeded, match="time_limit"):
        env.step("")


@pytest.mark.parametrize(
    ("env_id", "kwargs", "why"),
    [
        (MINI, {"obs": "smell"}, "obs must be one of text, coords"),
        (MINI, {"max_steps": 0}, "max_steps must be an integer of at least 1"),
        (MINI, {"colour": 1}, "colour"),
        (TRAP, {"sigma": -1}, "sigma must be a finite number of at least 0"),
        (TRAP, {"good_mean": float("nan")}, "good_mean must be a finite number"),
        ("ftw/Sokobann-v0", {}, "there are ftw/SokobanMini-v0"),
    ],
)
def test_bad_arguments_are_refused(env_id: str, kwargs: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make(env_id, **kwargs)


def test_unknown_render_modes_are_refused() -> None:
    with pytest.raises(ValueError, match="None or one of ansi, rgb_array, got 'film'"):
        SokobanEnv(render_mode="film")


@views
def test_seeds(env_id: str, kwargs: dict) -> None:
    env = make(env_id, **kwargs)
    fresh = {env.reset()[0] for _ in range(20)}
    assert len(fresh) > 5  # no seed: fresh instances
    assert env.reset(seed=0) == env.reset(seed=0)
    other = make(env_id, **kwargs)
    env.reset(seed=5)
    other.reset(seed=5)
    assert [env.reset()[0] for _ in range(3)] == [other.reset()[0] for _ in range(3)]
    for split in SPLITS:
        assert env.reset(options={"split": split, "index": 7})[1]["instance"]["split"] == split


@views
def test_copies_go_on_alike(env_id: str, kwargs: dict) -> None:
    env = make(env_id, **kwargs)
    env.reset(seed=11)
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    reply = env.grammar.actions[0]
    assert [c.step(reply) for c in copies] == [env.step(reply)] * 2


@views
def test_spec_survives_json(env_id: str, kwargs: dict) -> None:
    env = gym.make(env_id, **kwargs)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=1)[0] == env.reset(seed=1)[0]


def test_one_step_import_and_spawned_workers(tmp_path: Path) -> None:
    code = (
        "import gymnasium as gym\n"
        "def main():\n"
        "    e = gym.make('ftw_envs:ftw/SokobanMini-v0')\n"
        "    kw = dict(context='spawn', shared_memory=False)\n"
        "    v = gym.make_vec('ftw_envs:ftw/SokobanMini-v0', num_envs=2,\n"
        "                     vectorization_mode='async', vector_kwargs=kw)\n"
        "    s = gym.make_vec('ftw_envs:ftw/SokobanMini-v0', num_envs=2)\n"
        "    assert v.reset(seed=1)[0] == s.reset(seed=1)[0]\n"
        "    for _ in range(20):\n"
        "        a, b = v.step(('up', 'left')), s.step(('up', 'left'))\n"
        "        assert a[0] == b[0] and (a[1] == b[1]).all() and (a[2] == b[2]).all()\n"
        "    v.close()\n"
        "    print(e.reset(seed=1)[0])\n"
        "if __name__ == '__main__':\n"
        "    main()\n"
    )
    script = tmp_path / "script.py"  # spawned workers import the main file
    script.write_text(code)
    out = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    assert "Sokoban" in out.stdout


def test_importing_environments_needs_no_torch() -> None:
    heavy = ("torch", "transformers", "PIL", "matplotlib")
    code = f"import sys, ftw_envs; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@views
def test_floor_and_ceiling(env_id: str, kwargs: dict) -> None:
    collector = Collector(env_id, kwargs)
    starts = evaluation_starts(collector.env, "test", 300, seed=0)
    assert summarise(collector.play(SolverAgent(), starts)).solve_rate == 1.0
    floor = summarise(collector.play(RandomAgent(), starts)).solve_rate
    assert floor < (0.1 if env_id == MINI else 0.6)


def test_splits_have_enough_distinct_instances() -> None:
    for row in TABLE:
        env = make(row.id)
        hashes: dict[str, set[str]] = {}
        for split in SPLITS:
            n = env.instance_count(split)
            assert n >= (1000 if split == "test" else 1)
            hashes[split] = {
                env.reset(seed=0, options={"split": split, "index": i})[1]["instance"]["hash"]
                for i in range(min(n, 2000))
            }
            assert len(hashes[split]) == min(n, 2000)
        assert not hashes["train"] & hashes["test"]
        assert not hashes["valid"] & hashes["test"]


def test_sokoban_says_when_nothing_moved() -> None:
    env = make(MINI, obs="coords")
    env.reset(seed=1)
    texts = [env.step("up")[0] for _ in range(5)]
    assert texts[-1].startswith("blocked")
    assert env.step("left or up")[0].startswith("The reply holds")


def test_episode_is_recorded_solved_on_the_last_allowed_step() -> None:
    env = make(MINI)
    _, _info = env.reset(seed=0)
    n = env.optimal_moves()
    env = make(MINI, max_steps=n)
    env.reset(seed=0)
    for action in solve(env.board.level).actions:
        _, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated, info["end"]) == (1.0, True, False, "solved")


def test_sigma_trap_pays_what_it_says() -> None:
    assert len(set(NAMES)) == len(NAMES) == 64
    env = make(TRAP, sigma=4.0)
    paid: dict[str, list[float]] = {"round": [], "square": []}
    for seed in range(4000):
        env.reset(seed=seed)
        for kind in paid:
            paid[kind].append(env.payout(kind))
    assert np.mean(paid["round"]) == pytest.approx(1, abs=0.01)
    assert np.std(paid["round"]) == pytest.approx(0.1, rel=0.05)
    assert np.mean(paid["square"]) == pytest.approx(0, abs=0.25)
    assert np.std(paid["square"]) == pytest.approx(4, rel=0.05)


def test_sigma_trap_noise_is_of_the_attempt_not_the_instance() -> None:
    env = make(TRAP)
    start = {"split": "test", "index": 4}
    text, _ = env.reset(seed=1, options=start)
    first = env.step(env.good_name())
    assert first[4]["solved"]
    assert first[2]
    assert env.reset(seed=2, options=start)[0] == text
    assert env.step(env.good_name())[1] != first[1]
    env.reset(seed=1, options=start)
    env.step("none of them")  # a wasted reply does not change what the arm pays
    assert env.step(env.good_name())[1] == first[1]
    env.reset(seed=1, options=start)
    other = next(n for n in env.names if n != env.good_name())
    assert env.step(other)[4]["end"] == "failed"


def test_sigma_trap_pairs_stay_in_one_split() -> None:
    pairs = {s: {frozenset(p) for p in x} for s, x in instances().items()}
    assert not pairs["train"] & pairs["test"]
    assert not pairs["train"] & pairs["valid"]
    assert not pairs["valid"] & pairs["test"]


def test_version() -> None:
    assert ftw_envs.__version__.count(".") == 2
