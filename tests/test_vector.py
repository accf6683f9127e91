"""Batched Sokoban: the same as Gymnasium's own vector environments, to the last bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

import ftw_envs  # noqa: F401 - registers the ids
from ftw_envs.registry import TABLE

MINI, STANDARD = "ftw/SokobanMini-v0", "ftw/Sokoban-v0"
VIEWS: list[dict] = [
    {"obs": obs, "actions": actions, **({"tile_size": 8} if obs == "image" else {})}
    for obs in ("text", "coords", "image", "grid")
    for actions in ("text", "discrete")
]
REPLIES = ("up", "down", "left", "right", "go up", "nonsense", "[up] [down]")


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Equal values, types, shapes and dtypes, through dicts, tuples and object arrays."""
    assert type(a) is type(b), where
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), where
        if a.dtype == object:
            for x, y in zip(a, b, strict=True):
                assert_same(x, y, where)
        else:
            assert (a == b).all(), where
    elif isinstance(a, tuple):
        assert len(a) == len(b), where
        for x, y in zip(a, b, strict=True):
            assert_same(x, y, where)
    else:
        assert a == b, where


def actions_for(view: dict, n: int, rng: np.random.Generator) -> Any:
    if view["actions"] == "discrete":
        return rng.integers(0, 4, n)
    return tuple(str(x) for x in rng.choice(REPLIES, n))


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("view", VIEWS, ids=lambda v: f"{v['obs']}-{v['actions']}")
def test_same_as_sync(view: dict, mode: AutoresetMode) -> None:
    n, rng = 5, np.random.default_rng(0)
    sync = gym.make_vec(
        MINI, n, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **view
    )
    batched = gym.make_vec(MINI, n, autoreset_mode=mode, **view)
    assert type(batched.unwrapped).__name__ == "SokobanVectorEnv"
    assert sync.observation_space == batched.observation_space
    assert sync.action_space == batched.action_space
    assert sync.metadata == batched.metadata
    assert_same(sync.reset(seed=3), batched.reset(seed=3))
    seen_ends = 0
    for t in range(110):
        actions = actions_for(view, n, rng)
        a, b = sync.step(actions), batched.step(actions)
        assert_same(a, b)
        assert b[0] in batched.observation_space
        ended = b[2] | b[3]
        seen_ends += int(ended.sum())
        if mode is AutoresetMode.DISABLED and ended.any():
            options = [{"reset_mask": ended} for _ in range(2)]
            assert_same(sync.reset(options=options[0]), batched.reset(options=options[1]))
        for when, kwargs in {
            50: {},
            60: {"options": {"split": "test"}},
            70: {"options": {"split": "valid", "index": 7}},
            80: {"seed": [5, None, 5, 8, 9]},
        }.items():
            if t == when:
                assert_same(sync.reset(**kwargs), batched.reset(**kwargs))
    assert seen_ends > 10


def test_solved_games_are_told_alike() -> None:
    """Random play hardly ever solves: here solutions are played."""
    from ftw_envs.sokoban.rules import ACTIONS
    from ftw_envs.sokoban.solve import solve

    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        sync = gym.make_vec(
            STANDARD, 3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
        )
        batched = gym.make_vec(STANDARD, 3, autoreset_mode=mode)
        assert_same(sync.reset(seed=0), batched.reset(seed=0))
        plans: list[list[str]] = [[], [], []]
        solved = 0
        for _ in range(80):
            for plan, env in zip(plans, sync.envs, strict=True):
                if not plan and not env.unwrapped._end:
                    plan.extend(solve(env.unwrapped.board.level).actions)
            replies = tuple(plan.pop(0) if plan else ACTIONS[0] for plan in plans)
            a, b = sync.step(replies), batched.step(replies)
            assert_same(a, b)
            solved += int(b[2].sum())
            assert (b[1] == b[2]).all()
        assert solved >= 5


def test_levels_of_several_sizes(tmp_path: Path) -> None:
    file = tmp_path / "some.xsb"
    file.write_text("#####\n#@$.#\n#####\n\n########\n#--@---#\n#-$--.-#\n########\n")
    for view in VIEWS:
        kwargs = {**view, "levels": str(file), "max_steps": 4}
        sync = gym.make_vec(STANDARD, 4, vectorization_mode="sync", **kwargs)
        batched = gym.make_vec(STANDARD, 4, **kwargs)
        rng = np.random.default_rng(1)
        assert_same(sync.reset(seed=0), batched.reset(seed=0))
        for _ in range(30):
            actions = actions_for(view, 4, rng)
            assert_same(sync.step(actions), batched.step(actions))


def test_endless_levels() -> None:
    kwargs = {"levels": "endless", "max_steps": 3}
    sync = gym.make_vec(MINI, 3, vectorization_mode="sync", **kwargs)
    batched = gym.make_vec(MINI, 3, **kwargs)
    assert_same(sync.reset(seed=0), batched.reset(seed=0))
    for _ in range(30):
        assert_same(sync.step(("up",) * 3), batched.step(("up",) * 3))
    assert_same(sync.reset(seed=4), batched.reset(seed=4))
    assert_same(sync.reset(options={"split": "test"}), batched.reset(options={"split": "test"}))


def test_band_and_test_split() -> None:
    batched = gym.make_vec(STANDARD, 3, band="hard")
    _, infos = batched.reset(seed=0, options={"split": "test", "index": 2})
    assert infos["instance"]["index"].tolist() == [2, 2, 2]
    assert infos["env_version"][0].endswith("-hard")


@pytest.mark.parametrize("env_id", [row.id for row in TABLE])
def test_async_equals_sync(env_id: str) -> None:
    """Gymnasium's shared memory corrupts text silently; without it async is right."""
    rows = {row.id: row for row in TABLE}
    made = gym.make_vec(
        env_id, 2, vectorization_mode="async", vector_kwargs={"shared_memory": False}
    )
    sync = gym.make_vec(env_id, 2, vectorization_mode="sync")
    vectors = [sync, made]
    if rows[env_id].vector_entry_point:
        vectors.append(gym.make_vec(env_id, 2))
    first = [v.reset(seed=1) for v in vectors]
    for other in first[1:]:
        assert_same(first[0], other)
    for _ in range(20):
        steps = [v.step(("up", "nonsense")) for v in vectors]
        for other in steps[1:]:
            assert_same(steps[0], other)
    made.close()


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


def test_bad_use_is_refused() -> None:
    with pytest.raises(ValueError, match="num_envs must be at least 1"):
        gym.make_vec(MINI, 0)
    for option in ({"undo": True}, {"max_moves": 2}, {"reward": "shaped"}, {"deadlock_ends": True}):
        with pytest.raises(ValueError, match="vectorization_mode='sync'"):
            gym.make_vec(MINI, 2, **option)
    env = gym.make_vec(MINI, 2, obs="grid", actions="discrete")
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        env.step(np.zeros(2, int))
    with pytest.raises(ResetNeeded, match="without a reset_mask"):
        env.reset(options={"reset_mask": np.array([True, False])})
    env.reset(seed=0)
    for bad in (np.array([0, 4]), np.array([-1, 0]), np.array([0]), np.array([0.0, 1.0])):
        with pytest.raises(ValueError, match=r"integers|number from 0 to 3"):
            env.step(bad)
    for mask in (np.array([0, 1]), np.zeros(2, bool), np.ones(3, bool), [True, True]):
        with pytest.raises(ValueError, match="reset_mask must be a bool array"):
            env.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="seed must have 2 entries"):
        env.reset(seed=[1, 2, 3])
    text = gym.make_vec(MINI, 2)
    text.reset(seed=0)
    with pytest.raises(ValueError, match="must be 2 strings"):
        text.step("up")
    with pytest.raises(TypeError, match="string here, got int"):
        text.step((1, 2))
    off = gym.make_vec(MINI, 2, autoreset_mode="Disabled", max_steps=1)
    off.reset(seed=0)
    off.step(("up", "up"))
    with pytest.raises(ResetNeeded, match="reset_mask"):
        off.step(("up", "up"))


def test_returned_arrays_are_not_reused() -> None:
    env = gym.make_vec(MINI, 4, obs="grid", actions="discrete")
    grid, infos = env.reset(seed=0)
    kept = grid.copy(), infos["steps"].copy(), infos["instance"]["hash"].copy()
    for _ in range(40):
        env.step(np.zeros(4, int))
    assert (grid == kept[0]).all()
    assert (infos["steps"] == kept[1]).all()
    assert (infos["instance"]["hash"] == kept[2]).all()


def test_pictures_of_all_games() -> None:
    env = gym.make_vec(MINI, 3, render_mode="rgb_array")
    env.reset(seed=0)
    frames = env.render()
    assert [f.shape for f in frames] == [(192, 192, 3)] * 3
    ansi = gym.make_vec(MINI, 2, render_mode="ansi")
    ansi.reset(seed=0)
    assert all(text.count("\n") == 5 for text in ansi.render())
