"""Sokoban: rules, one level as text, canonical form, shipped levels, drawing, options."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftw_envs.registry import make
from ftw_envs.sokoban.draw import draw_cells, draw_grid
from ftw_envs.sokoban.generate import new_level
from ftw_envs.sokoban.levels import LevelError, canonical, content_hash, parse_level, split_of
from ftw_envs.sokoban.recipes import RECIPES
from ftw_envs.sokoban.rules import ACTIONS, BOX, GOAL, PLAYER, Board
from ftw_envs.sokoban.solve import solve
from ftw_envs.sokoban.sources import BANDS, PackedLevel, load_pack, open_levels, pack_names

STANDARD = "ftw/Sokoban-v0"
SIMPLE = """\
######
#@$.-#
#----#
######"""
LIMITS = {"mini": 15, "standard": 60, "hard": 150}
packs = pytest.mark.parametrize("name", list(RECIPES))


def _turn(rows: list[str]) -> list[str]:
    return ["".join(c) for c in zip(*rows[::-1], strict=True)]


def test_rules() -> None:
    board = Board(parse_level("#######\n#-@$$.#\n#--.--#\n#######"))
    board.move("right")
    assert not board.moved  # two boxes in a row are stuck
    board.move("up")
    assert not board.moved
    board.move("left")
    assert board.moved
    assert board.pushed is None
    board = Board(parse_level(SIMPLE))
    board.move("right")
    assert board.pushed == 9
    assert board.solved


@given(st.integers(0, 999), st.lists(st.sampled_from([*ACTIONS, "undo"]), max_size=80))
def test_positions_hold_together(index: int, moves: list[str]) -> None:
    """One player, all boxes, walls and goals in place, and undo leads back to the start."""
    level = load_pack("standard").get("valid", index).level
    board = Board(level)
    for move in moves:
        if move == "undo":
            board.undo()
        else:
            board.move(move)
        cells = bytes(board.cells)
        assert [i for i, c in enumerate(cells) if c & PLAYER] == [board.player]
        assert sum(c & BOX > 0 for c in cells) == 2
        assert all((a ^ b) & ~(BOX | PLAYER) == 0 for a, b in zip(cells, level.cells, strict=True))
        assert board.solved == (not any(c & BOX and not c & GOAL for c in cells))
    for _ in moves:
        board.undo()
    assert board.cells == level.cells
    board.undo()
    assert not board.moved


def test_reader_accepts_ragged_rows_and_floor_signs() -> None:
    plain = parse_level("#####\n#@$.#\n#####")
    assert parse_level("\n  #####\n  #@$.#\n  #####\n") != plain
    assert canonical(parse_level("  #####\n  #@$.#\n  #####")) == canonical(plain)
    signs = [parse_level(f"#####\n#@$.#\n#{c * 3}#\n#####") for c in " -_"]
    assert signs[0] == signs[1] == signs[2]
    assert parse_level("#####\n#+$-#\n#*--#\n#####").having(GOAL) == [6, 11]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "at least one row"),
        ("#####\n#$.-#\n#####", "one player"),
        ("#####\n#@@$.#\n#####", "this one has 2"),
        ("#####\n#@--#\n#####", "as many boxes as goals, this one 0 and 0"),
        ("######\n#@$$.#\n######", "this one 2 and 1"),
        ("#####\n#@$.x\n#####", "row 2 holds 'x'"),
        ("#####\n#@$.-\n#####", "open at row 2, column 5"),
        ("#--##\n#@$.#\n#####", "open at row 1"),
    ],
)
def test_reader_names_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(LevelError, match=why):
        parse_level(text)


def test_canonical_form_knows_all_symmetries() -> None:
    rows = ["#######", "#@-#--#", "#-$---#", "#--#.-#", "#######"]
    forms = set()
    for _ in range(4):
        rows = _turn(rows)
        forms |= {canonical(parse_level("\n".join(r))) for r in (rows, [x[::-1] for x in rows])}
    assert len(forms) == 1


def test_canonical_form_ignores_what_cannot_be_reached() -> None:
    a = parse_level("########\n#@$.#--#\n#---#--#\n########")
    b = parse_level("#####\n#@$.#\n#---#\n#####")
    assert canonical(a) == canonical(b)
    moved = parse_level("#####\n#-$.#\n#@--#\n#####")
    assert canonical(moved) != canonical(b)
    assert canonical(moved, player=False) == canonical(b, player=False)
    assert split_of(moved) == split_of(b)


@pytest.fixture(scope="module")
def shipped() -> dict[str, dict[str, list[PackedLevel]]]:
    return {
        name: {s: [load_pack(name).get(s, i) for i in range(len(x))] for s, x in pack.lines.items()}
        for name in RECIPES
        if (pack := load_pack(name))
    }


def test_packs_are_those_of_the_recipes() -> None:
    assert pack_names() == sorted(RECIPES)


@packs
def test_every_shipped_level_can_be_solved_within_the_limit(shipped: dict, name: str) -> None:
    recipe = RECIPES[name]
    for levels in shipped[name].values():
        for packed in levels:
            solution = solve(packed.level, "pushes")
            assert solution is not None
            assert recipe.pushes <= packed.pushes == solution.pushes
            assert packed.pushes <= packed.moves <= solution.moves < LIMITS[name]
            board = Board(packed.level)
            for action in solution.actions:
                board.move(action)
            assert board.solved


@packs
def test_fewest_moves_are_right(shipped: dict, name: str) -> None:
    for levels in shipped[name].values():
        for packed in levels[: 20 if name == "hard" else 1000]:
            assert solve(packed.level, "moves").moves == packed.moves


@packs
def test_splits_are_disjoint_by_content(shipped: dict, name: str) -> None:
    """No puzzle twice, not up to symmetry; across splits not even from another start."""
    splits = shipped[name]
    assert [len(x) for x in splits.values()] == [20_000, 1_000, 1_000]
    whole: set[bytes] = set()
    layouts: dict[bytes, str] = {}
    for split, levels in splits.items():
        for packed in levels:
            level = packed.level
            assert split_of(level) == split
            whole.add(canonical(level))
            assert layouts.setdefault(canonical(level, player=False), split) == split
    assert len(whole) == 22_000


@packs
def test_shipped_levels_are_those_of_the_generator(shipped: dict, name: str) -> None:
    """The pack can be rebuilt: its first levels are the first of each stream."""
    for split in ("train", "test"):
        for i in range(4):
            level, pushes = new_level(name, split, i)
            packed = shipped[name][split][i]
            assert (level, pushes) == (packed.level, packed.pushes)


def test_endless_levels_go_on_where_the_pack_ends() -> None:
    env = make(STANDARD, levels="endless")
    assert env.instance_count("train") == 2**31
    assert env.instance_count("test") == 1000
    for index in (0, 30_000, 2**31 - 1):
        text, info = env.reset(seed=0, options={"index": index})
        assert split_of(env.board.level) == "train"
        assert env.reset(seed=1, options={"index": index})[0] == text
        assert env.packed().moves is None
        assert solve(env.board.level, "pushes").pushes == env.packed().pushes
    assert info["env_version"].endswith("-endless")
    shipped = make(STANDARD).reset(seed=0, options={"split": "test", "index": 5})
    assert env.reset(seed=0, options={"split": "test", "index": 5})[0] == shipped[0]


@packs
def test_published_distribution_is_true(shipped: dict, name: str) -> None:
    """The tables in the docs are what is shipped."""
    docs = (Path(__file__).parents[1] / "docs" / "environments.md").read_text("utf-8")
    assert load_pack(name).version in docs
    for split, levels in shipped[name].items():
        for what in ("moves", "pushes"):
            values = [getattr(p, what) for p in levels]
            points = np.percentile(values, [0, 10, 25, 50, 75, 90, 100], method="lower")
            row = " | ".join(str(int(v)) for v in points)
            assert f"| {name} | {split} | {what} | {row} |" in docs


@packs
def test_bands(shipped: dict, name: str) -> None:
    low, high = RECIPES[name].bands
    moves = Counter(p.moves for p in shipped[name]["train"])
    counts = {band: open_levels(name, None, band).count("train") for band in BANDS}
    assert counts["easy"] == sum(n for m, n in moves.items() if m <= low)
    assert counts["hard"] == sum(n for m, n in moves.items() if m > high)
    assert sum(counts.values()) == 20_000
    assert min(counts.values()) > 4_000
    env = make(STANDARD, pack=name, band="hard", max_steps=200)
    env.reset(seed=1)
    assert env.packed().moves > high


def test_copies_do_not_carry_the_levels() -> None:
    for kwargs in ({}, {"band": "easy"}, {"levels": "endless"}):
        env = make(STANDARD, **kwargs)
        assert len(pickle.dumps(env)) < 20_000
        assert copy.deepcopy(env).levels.version == env.levels.version


def test_level_files_are_played(tmp_path: Path) -> None:
    file = tmp_path / "two.xsb"
    file.write_text("; one\n#####\n#@$.#\n#####\n\n; two\n#######\n#.$@--#\n#######\n")
    env = make(STANDARD, levels=str(file))
    assert [env.instance_count(s) for s in ("train", "valid", "test")] == [2, 2, 2]
    text, _ = env.reset(seed=0, options={"index": 1})
    assert text.endswith("#.$@--#\n#######")
    assert env.step("left")[4]["solved"]
    assert "-file-" in env.env_version
    file.write_text("#####\n#@$.#\n#####\n")  # a changed file is read again
    assert make(STANDARD, levels=str(file)).instance_count("test") == 1
    file.write_text("#####\n#@$.x\n#####\n")
    with pytest.raises(ValueError, match=r"two\.xsb:2: "):
        make(STANDARD, levels=str(file))


def test_views_fill_small_boards_up(tmp_path: Path) -> None:
    file = tmp_path / "sizes.xsb"
    file.write_text("#####\n#@$.#\n#####\n\n########\n#--@---#\n#-$--.-#\n########\n")
    env = make(STANDARD, levels=str(file), obs="grid", actions="discrete")
    assert env.observation_space.shape == (4, 8)
    grid, _ = env.reset(seed=0, options={"index": 0})
    assert grid in env.observation_space
    assert (grid[3] == 1).all()
    assert (grid[:, 5:] == 1).all()
    assert grid[1].tolist() == [1, 8, 4, 2, 1, 1, 1, 1]
    text = make(STANDARD, levels=str(file)).reset(seed=0, options={"index": 0})[0]
    assert text.endswith("#####\n#@$.#\n#####")


def test_drawing() -> None:
    board = Board(parse_level("########\n#@$.-*-#\n########"))
    for size in (4, 7, 16, 50):
        frame = draw_cells(board.cells, 8, size)
        assert frame.shape == (3 * size, 8 * size, 3)
    frame = draw_cells(board.cells, 8, 16)
    tiles = {frame[16:32, x : x + 16].tobytes() for x in range(0, 128, 16)}
    assert len(tiles) == 6  # wall, player, box, goal, floor, box on goal
    tall = draw_cells(bytes(board.cells), 4, 16)  # 6 rows of 4: not scrambled
    assert (tall[16:32, :64] == frame[:16, 64:]).all()
    with pytest.raises(ValueError, match="at least 4"):
        draw_cells(board.cells, 8, 3)
    both = draw_grid(np.zeros((5, 2, 3), np.uint8), 8)
    assert both.shape == (5, 16, 24, 3)


def test_first_frame_obeys_the_tile_size() -> None:
    env = make(STANDARD, obs="image", actions="discrete", tile_size=10, render_mode="rgb_array")
    for _ in range(3):
        frame, _ = env.reset()
        assert frame.shape == (80, 80, 3)
        assert (env.render() == frame).all()


def test_hash_is_stable() -> None:
    assert content_hash(parse_level(SIMPLE)) == "20ffe6de80caa7b2"
