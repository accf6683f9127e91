"""The contract, for every registered id and view."""

from __future__ import annotations

import copy
import os
import pickle
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from conftest import COORDS, MINI, TRAP
from digest import digest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from hypothesis import given
from hypothesis import strategies as st

import ftw_envs
from ftw_agents.collect import Collector
from ftw_agents.results import summarise
from ftw_agents.scripted.random import RandomAgent
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import evaluation_starts
from ftw_envs.incident.env import OVER, IncidentEnv
from ftw_envs.registry import TABLE, make
from ftw_envs.sokoban.env import SokobanEnv
from ftw_envs.sokoban.solve import solve
from ftw_envs.text_env import EpisodeEnv

# Every id, and every view of the mid-sized Sokoban; sizes differ in nothing else.
STANDARD = "ftw/Sokoban-v0"
INCIDENT = "ftw/IncidentL2-v0"
SMALL = {"tile_size": 8}
SOKOBAN_VIEWS: list[dict] = [
    {"obs": obs, "actions": actions, **(SMALL if obs == "image" else {})}
    for obs in ("text", "coords", "image", "grid")
    for actions in ("text", "discrete")
]
VIEWS: list[tuple[str, dict]] = [
    *((row.id, SMALL if row.kwargs.get("obs") == "image" else {}) for row in TABLE),
    (MINI, COORDS),
    *((STANDARD, view) for view in SOKOBAN_VIEWS),
    (INCIDENT, {"freeze": True}),
    (INCIDENT, {"obs": "image"}),
    (INCIDENT, {"noise": 3, "reward": "partial"}),
]
TEXT_VIEWS = [(i, k) for i, k in VIEWS if k.get("actions") != "discrete"]
HEADINGS = (
    "Description", "Observation", "Actions", "Score", "End of episode", "Instances",
    "Arguments", "Versions",
)  # fmt: skip
GOLDEN = {
    "ftw/SokobanMini-v0 {}": "8568862ac5052708",
    "ftw/Sokoban-v0 {}": "cebeed106bfe16b1",
    "ftw/SokobanHard-v0 {}": "e0f49c13a345e494",
    "ftw/SigmaTrap-v0 {}": "a978fd2b74d87a77",
    "ftw/SigmaTrapChain-v0 {}": "e13992f08e941364",
    "ftw/SigmaTrapContext-v0 {}": "9ca959f2a759906f",
    "ftw/SokobanMini-v0 {'obs': 'coords'}": "a00ffd7bb5b7694e",
    "ftw/Sokoban-v0 {'obs': 'text', 'actions': 'text'}": "cebeed106bfe16b1",
    "ftw/Sokoban-v0 {'obs': 'text', 'actions': 'discrete'}": "f016ebd24452cbdd",
    "ftw/Sokoban-v0 {'obs': 'coords', 'actions': 'text'}": "5d70b0005cf0670e",
    "ftw/Sokoban-v0 {'obs': 'coords', 'actions': 'discrete'}": "23f361bf52b05a30",
    "ftw/Sokoban-v0 {'obs': 'grid', 'actions': 'text'}": "e0a571e79a0d300e",
    "ftw/Sokoban-v0 {'obs': 'grid', 'actions': 'discrete'}": "21d5ddb44a8926ad",
    "ftw/IncidentL0-v0 {}": "56b3bb3d9748b31f",
    "ftw/IncidentL1-v0 {}": "333bf93d609d5051",
    "ftw/IncidentL2-v0 {}": "2692c19ede2dd235",
    "ftw/IncidentL3-v0 {}": "31ac59a25d449d78",
    "ftw/IncidentL4-v0 {}": "b7af7412fcaae920",
    "ftw/IncidentL2-v0 {'freeze': True}": "9c7b688b55f69243",
    "ftw/IncidentL2-v0 {'noise': 3, 'reward': 'partial'}": "a9eb6326efca9d59",
}
views = pytest.mark.parametrize(("env_id", "kwargs"), VIEWS)
text_views = pytest.mark.parametrize(("env_id", "kwargs"), TEXT_VIEWS)


def reply_to(env: EpisodeEnv, number: int) -> str | int:
    """Action `number` of an environment, in the form that its view takes."""
    actions = env.grammar.actions
    number %= len(actions)
    return number if isinstance(env.action_space, spaces.Discrete) else actions[number]


def same(a: Any, b: Any) -> bool:
    """Whether two observations or step results are equal, arrays included."""
    return bool(data_equivalence(a, b, exact=True))


# The checker is quick, so it gets every view of the other sizes too.
OTHER_VIEWS = [
    (i, v) for i in (MINI, "ftw/SokobanHard-v0") for v in SOKOBAN_VIEWS if (i, v) not in VIEWS
]


@pytest.mark.parametrize(("env_id", "kwargs"), VIEWS + OTHER_VIEWS)
@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
@pytest.mark.filterwarnings("error")
def test_gymnasium_checker(env_id: str, kwargs: dict, render_mode: str | None) -> None:
    check_env(gym.make(env_id, render_mode=render_mode, **kwargs).unwrapped)


@views
def test_docstring_headings(env_id: str, kwargs: dict) -> None:
    doc = type(make(env_id, **kwargs)).__doc__ or ""
    found = [line.strip()[3:] for line in doc.splitlines() if line.strip().startswith("## ")]
    assert tuple(found) == HEADINGS


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_same_bytes_in_other_processes(hash_seed: str) -> None:
    code = f"from digest import digest; print([digest(i, k) for i, k in {VIEWS!r}])"
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.path.dirname(__file__)}
    out = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == repr([digest(i, k) for i, k in VIEWS])


def test_same_bytes_in_threads() -> None:
    """Resets and steps share no state between threads (a global generator would)."""
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(digest, MINI, {}, range(i, i + 10)) for i in range(32)]
        assert [j.result() for j in jobs] == [digest(MINI, {}, range(i, i + 10)) for i in range(32)]


def test_global_random_state_is_left_alone() -> None:
    for env_id, kwargs in VIEWS:
        before = (random.getstate(), pickle.dumps(np.random.get_state()))  # noqa: NPY002
        env = make(env_id, **kwargs)
        env.reset(seed=1)
        env.reset()
        env.step(reply_to(env, 0))
        assert before == (random.getstate(), pickle.dumps(np.random.get_state()))  # noqa: NPY002


def test_golden_transcripts() -> None:
    """A change of rules, texts or levels shows here; then the id needs a new version.

    Pictures are left out: how shapes are smoothed is Pillow's, and may differ by version.
    """
    views = [(i, k) for i, k in VIEWS if getattr(make(i, **k), "obs", "") != "image"]
    assert {f"{i} {k}": digest(i, k)[:16] for i, k in views} == GOLDEN


@views
def test_views_share_the_episode(env_id: str, kwargs: dict) -> None:
    """Rules, rewards and instances do not depend on the view."""
    a, b = make(env_id), make(env_id, **kwargs)
    for seed in range(30):
        (_, ia), (_, ib) = a.reset(seed=seed), b.reset(seed=seed)
        assert ia == ib
        pick = random.Random(seed)
        done = False
        while not done:
            number = pick.randrange(4)
            sa, sb = a.step(reply_to(a, number)), b.step(reply_to(b, number))
            assert sa[1:] == sb[1:]
            done = sa[2] or sa[3]


@text_views
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


def words_of(observation: Any) -> str:
    """The words of an observation, with or without a picture."""
    return observation if isinstance(observation, str) else observation["text"]


@text_views
def test_unusable_replies_leave_the_world_alone(env_id: str, kwargs: dict) -> None:
    env = make(env_id, **kwargs)
    env.reset(seed=3)
    before = pickle.dumps((getattr(env, "board", None) and env.board.cells, env._text()))
    observation, reward, terminated, _, info = env.step("[one] [two]")
    after = pickle.dumps((getattr(env, "board", None) and env.board.cells, env._text()))
    assert before == after
    assert reward == 0
    assert not terminated
    assert info["invalid_actions"] == 1
    answers = env.grammar.verbs if isinstance(env, IncidentEnv) else env.grammar.actions
    assert ", ".join(answers) in words_of(observation)


FUZZED = [
    *TEXT_VIEWS,
    (STANDARD, {"max_moves": 3, "undo": True, "changes_only": True, "deadlock_ends": True}),
    (STANDARD, {"obs": "coords", "changes_only": True, "max_moves": 60, "reward": "shaped"}),
]
_replies = st.one_of(
    st.text(),
    st.lists(st.sampled_from(["up", "down", "left", "right", "undo", ",", " ", "\n"])).map("".join),
)


@given(st.lists(_replies, max_size=5), st.integers(0, 2**63 - 1))
def test_no_reply_raises(replies: list[str], seed: int) -> None:
    for env_id, kwargs in FUZZED:
        env = make(env_id, **kwargs)
        env.reset(seed=seed)
        for reply in replies:
            observation, *_ = env.step(reply)
            assert observation in env.observation_space
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
    discrete = isinstance(env.action_space, spaces.Discrete)
    for bad in ("up", 4, -1, None) if discrete else (3, None, b"up"):
        with pytest.raises((TypeError, ValueError), match="an action is a"):
            env.step(bad)
    assert env.steps == 0  # a call that raised has changed nothing
    while not env._end:
        env.step(0 if discrete else "")
    if isinstance(env, IncidentEnv):  # a person or model that goes on gets a line, no more
        before = env._info()
        observation, reward, terminated, truncated, info = env.step("hosts")
        assert (words_of(observation), reward, info) == (OVER, 0, before)
        assert terminated != truncated
        return
    with pytest.raises(ResetNeeded, match="has ended"):
        env.step(0 if discrete else "")


@views
def test_what_was_returned_stays_as_it_was(env_id: str, kwargs: dict) -> None:
    """A buffer that is used again would make later steps change earlier observations."""
    env = make(env_id, **kwargs)
    returned = [env.reset(seed=2)]
    kept = copy.deepcopy(returned)
    while not env._end:
        returned.append(env.step(reply_to(env, len(returned))))
        kept.append(copy.deepcopy(returned[-1]))
    assert same(tuple(returned), tuple(kept))


def test_step_never_resets() -> None:
    """An environment that starts anew in step() would skip every second start state."""
    env = make(MINI)
    _, info = env.reset(seed=0)
    while not env._end:
        *_, after = env.step("up")
        assert after["instance"] == info["instance"]


def test_the_constructor_draws_nothing() -> None:
    """make + reset(seed) is the same whatever was made or reset before."""
    first = make(MINI).reset(seed=9)
    env = make(MINI)
    make(MINI)
    env.reset()
    assert env.reset(seed=9) == first


def test_close_can_be_called_twice() -> None:
    env = gym.make(MINI)
    env.close()
    assert env.close() is None


@pytest.mark.parametrize(
    ("env_id", "kwargs", "why"),
    [
        (MINI, {"obs": "smell"}, "obs must be one of text, coords, image, grid"),
        (MINI, {"actions": "joystick"}, "actions must be one of text, discrete"),
        (MINI, {"reward": "dense"}, "reward must be one of score, shaped"),
        (MINI, {"tile_size": 3}, "tile_size must be at least 4"),
        (MINI, {"max_moves": 0}, "max_moves must be an integer of at least 1"),
        (MINI, {"max_moves": 2, "actions": "discrete"}, "needs actions='text'"),
        (MINI, {"obs": "grid", "changes_only": True}, "needs obs='text' or 'coords'"),
        (MINI, {"pack": "maxi"}, "pack must be one of hard, mini, standard"),
        (MINI, {"band": "absurd"}, "band must be one of easy, medium, hard"),
        (MINI, {"band": "easy", "levels": "endless"}, "goes with shipped levels only"),
        (MINI, {"levels": "no/such/file.xsb"}, "no/such/file.xsb"),
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
    fresh = {env.reset()[1]["instance"]["hash"] for _ in range(20)}
    assert len(fresh) > 5  # no seed: fresh instances
    seeded = {env.reset(seed=s)[1]["instance"]["hash"] for s in range(20)}
    assert len(seeded) > 5  # seeds matter
    assert same(env.reset(seed=0), env.reset(seed=0))
    other = make(env_id, **kwargs)
    env.reset(seed=5)
    other.reset(seed=5)
    assert same([env.reset()[0] for _ in range(3)], [other.reset()[0] for _ in range(3)])
    for split in env.splits:
        assert env.reset(options={"split": split, "index": 7})[1]["instance"]["split"] == split


@views
def test_copies_go_on_alike(env_id: str, kwargs: dict) -> None:
    env = make(env_id, **kwargs)
    env.reset(seed=11)
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    reply = reply_to(env, 0)
    assert same([c.step(reply) for c in copies], [env.step(reply)] * 2)


@views
def test_spec_survives_json(env_id: str, kwargs: dict) -> None:
    env = gym.make(env_id, **kwargs)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert same(again.reset(seed=1)[0], env.reset(seed=1)[0])


def test_importing_environments_needs_no_torch() -> None:
    heavy = ("torch", "transformers", "PIL", "matplotlib", "numba")
    code = f"import sys, ftw_envs; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@text_views
def test_floor_and_ceiling(env_id: str, kwargs: dict) -> None:
    collector = Collector(env_id, kwargs)
    few = "Hard" in env_id or "Incident" in env_id
    starts = evaluation_starts(collector.env, "test", 40 if few else 100, seed=0)
    assert summarise(collector.play(SolverAgent(), starts)).solve_rate == 1.0
    floor = summarise(collector.play(RandomAgent(), starts)).solve_rate
    assert floor < (0.65 if "Trap" in env_id else 0.1)


def test_splits_have_enough_distinct_instances() -> None:
    for row in TABLE:
        env = make(row.id)
        hashes: dict[str, set[str]] = {}
        most = 60 if isinstance(env, IncidentEnv) else 2000
        for split in env.splits:
            n = env.instance_count(split)
            assert n >= (1000 if split.startswith("test") else 1)
            hashes[split] = {
                env.reset(seed=0, options={"split": split, "index": i})[1]["instance"]["hash"]
                for i in range(min(n, most))
            }
            assert len(hashes[split]) == min(n, most)
        assert len(set().union(*hashes.values())) == sum(map(len, hashes.values()))


def test_sokoban_says_when_nothing_moved() -> None:
    env = make(MINI, obs="coords")
    env.reset(seed=1)
    texts = [env.step("up")[0] for _ in range(5)]
    assert texts[-1].startswith("blocked")
    assert env.step("left or up")[0].startswith("The reply holds")


def test_episode_is_recorded_solved_on_the_last_allowed_step() -> None:
    env = make(MINI)
    _, _info = env.reset(seed=0)
    n = env.packed().moves
    env = make(MINI, max_steps=n)
    env.reset(seed=0)
    for action in solve(env.board.level).actions:
        _, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated, info["end"]) == (1.0, True, False, "solved")


def test_version() -> None:
    assert ftw_envs.__version__.count(".") == 2
