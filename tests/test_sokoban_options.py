"""Sokoban: what its options do, and that none of them can be gamed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import MINI
from hypothesis import given
from hypothesis import strategies as st

from ftw_envs.registry import make
from ftw_envs.sokoban.deadlock import is_lost, push_distances
from ftw_envs.sokoban.draw import draw_cells
from ftw_envs.sokoban.levels import parse_level
from ftw_envs.sokoban.rules import ACTIONS, Board, Level
from ftw_envs.sokoban.solve import solve
from ftw_envs.sokoban.sources import load_pack

STANDARD = "ftw/Sokoban-v0"


def test_says_when_nothing_moved() -> None:
    env = make(MINI, obs="coords")
    env.reset(seed=1)
    texts = [env.step("up")[0] for _ in range(5)]
    assert texts[-1].startswith("blocked")
    assert env.step("left or up")[0].startswith("The reply holds")


def _env_on(rows: str, tmp_path: Path, **kwargs: object):
    file = tmp_path / "level.xsb"
    file.write_text(rows)
    env = make(STANDARD, levels=str(file), **kwargs)
    env.reset(seed=0)
    return env


def test_goal_is_seen_under_the_player(tmp_path: Path) -> None:
    """Peers let the goal vanish while the player stands on it."""
    env = _env_on("######\n#@.$.#\n#---$#\n######", tmp_path)
    text, *_ = env.step("right")
    assert "+" in text
    assert "." in text
    pictures = {draw_cells(bytes([c]), 1, 16).tobytes() for c in (0, 1, 2, 4, 6, 8, 10)}
    assert len(pictures) == 7


def test_several_moves_in_a_reply(tmp_path: Path) -> None:
    env = _env_on("########\n#@--$-.#\n########", tmp_path, max_moves=4, max_steps=6)
    assert "Answer with up to 4 of" in env._first_text()
    text, reward, *_, info = env.step("right, right")
    assert (info["steps"], reward) == (2, 0.0)
    _, _, _, _, info = env.step("right right right up right")  # five: too many, as a whole
    assert (info["steps"], info["invalid_actions"]) == (3, 1)
    assert env.board.player == 8 + 3
    _, _, _, _, info = env.step("right, sideways")
    assert info["invalid_actions"] == 2
    assert env.board.player == 8 + 3
    text, reward, terminated, _, info = env.step("<answer>right | right</answer>")
    assert (reward, terminated, info["steps"]) == (1.0, True, 6)
    assert text.endswith("solved")
    env.reset(seed=0)
    *_, truncated, info = env.step("left left left left")
    assert not truncated
    *_, truncated, info = env.step("left left left left")
    assert truncated
    assert info["steps"] == 6  # never over the limit
    env.reset(seed=0)
    env.step("right right right")
    *_, terminated, _, info = env.step("right right right")
    assert terminated
    assert info["steps"] == 4  # what comes after the solution is not played


def test_undo(tmp_path: Path) -> None:
    env = _env_on("######\n#@$-.#\n######", tmp_path, undo=True)
    start = env._text()
    env.step("right")
    text, *_, info = env.step("undo")
    assert text == start
    assert info["steps"] == 2
    assert env.step("undo")[0].startswith("blocked")
    assert make(STANDARD, undo=True, actions="discrete").action_space.n == 5
    env = make(STANDARD)
    env.reset(seed=0)
    assert env.step("undo")[4]["invalid_actions"] == 1


def test_changes_only(tmp_path: Path) -> None:
    env = _env_on("######\n#@$-.#\n#----#\n######", tmp_path, changes_only=True)
    assert env.step("right")[0] == "row 2 #-@$.#"
    assert env.step("down")[0] == "row 2 #--$.#\nrow 3 #-@--#"
    assert env.step("down")[0] == "blocked"
    assert env.step("nothing")[0].startswith("The reply holds no known action")
    env = _env_on(
        "######\n#@$-.#\n#----#\n######", tmp_path, changes_only=True, obs="coords", max_moves=9
    )
    assert env.step("right, down, down")[0] == "box r2c3 to r2c4 player r3c3"
    assert env.step("up left right right")[0] == "box r2c4 to r2c5 player r2c4\nsolved"


def test_deadlock_ends_the_episode_only_if_asked(tmp_path: Path) -> None:
    rows = "#######\n#-----#\n#-.@$-#\n#-----#\n#######"
    env = _env_on(rows, tmp_path, deadlock_ends=True)
    text, reward, terminated, truncated, info = env.step("right")  # to the right wall: lost
    assert (reward, terminated, truncated, info["end"]) == (0.0, True, False, "failed")
    assert not info["solved"]
    assert text.endswith("lost")
    env = _env_on(rows, tmp_path)
    text, _, terminated, *_ = env.step("right")
    assert not terminated
    assert "lost" not in text


def test_lost_positions() -> None:
    """Never says lost of a position that can be solved: against the solver."""
    checked = lost = 0
    for index in range(150):
        level = load_pack("standard").get("valid", index).level
        distance = push_distances(level)
        board = Board(level)
        rng = np.random.default_rng(index)
        for _ in range(25):
            board.move(ACTIONS[rng.integers(4)])
            if board.pushed is None:
                continue
            checked += 1
            if is_lost(board.cells, level.width, distance, board.pushed):
                lost += 1
                here = Level(level.width, bytes(board.cells))
                assert solve(here, "any") is None
                break
    assert checked > 100
    assert lost > 20


def test_frozen_boxes_are_seen() -> None:
    two = parse_level("#######\n#-$$--#\n#-..--#\n#--@--#\n#######")
    distance = push_distances(two)
    assert is_lost(two.cells, two.width, distance, 7 + 2)
    on_goals = parse_level("#######\n#-**--#\n#--@--#\n#######")
    assert not is_lost(on_goals.cells, 7, push_distances(on_goals), 7 + 2)


def _shaped_return(moves: list[str], index: int, **kwargs: object) -> tuple[float, float, list]:
    env = make(STANDARD, reward="shaped", max_steps=len(moves), undo=True, **kwargs)
    env.reset(seed=0, options={"split": "test", "index": index})
    rewards = []
    for move in moves:
        _, reward, terminated, truncated, info = env.step(move)
        rewards.append(reward)
        if terminated or truncated:
            break
    return sum(rewards), info["score"], rewards


@given(
    st.integers(0, 999),
    st.lists(st.sampled_from([*ACTIONS, "undo", "nonsense"]), min_size=1, max_size=60),
)
def test_shaped_reward_is_bounded(index: int, moves: list[str]) -> None:
    total, score, _ = _shaped_return(moves, index)
    assert abs(total - score) <= 0.5 + 1e-9


@pytest.mark.parametrize("index", range(12))
def test_no_adversary_gains_from_shaping(index: int) -> None:
    """Waiting, circling, pushing back and forth, and undoing pay nothing at all."""
    level = load_pack("standard").get("test", index).level
    solution = list(solve(level).actions)
    total, score, rewards = _shaped_return(solution, index)
    assert score == 1
    assert 1 < total <= 1.5
    part = solution[: len(solution) // 2]
    once = _shaped_return(part, index)[0]
    for more in (
        ["nonsense"] * 50,
        ["undo", part[-1]] * 25,
        ["undo"] * len(part) + part,
        (["undo"] * len(part) + part) * 5,
    ):
        assert _shaped_return(part + more, index)[0] == pytest.approx(once, abs=1e-9)
    assert sum(r > 0 for r in rewards) > 0
    # Pushing a box back to where it was, around it and again, gains nothing either.
    env = make(STANDARD, reward="shaped", max_steps=10_000)
    env.reset(seed=0, options={"split": "test", "index": index})
    rng = np.random.default_rng(index)
    paid: dict[bytes, float] = {bytes(env.board.cells): 0.0}
    total = 0.0
    for _ in range(3_000):
        total += env.step(ACTIONS[rng.integers(4)])[1]
        if env._end:
            break
        # Coming back to a position finds the sum as it was left.
        assert paid.setdefault(bytes(env.board.cells), total) == pytest.approx(total, abs=1e-9)


def test_shaping_changes_neither_score_nor_solved() -> None:
    plain, shaped = make(STANDARD), make(STANDARD, reward="shaped")
    for seed in range(20):
        plain.reset(seed=seed)
        shaped.reset(seed=seed)
        for action in solve(plain.board.level).actions:
            a, b = plain.step(action), shaped.step(action)
            assert a[0] == b[0]
            assert a[2:] == b[2:]
