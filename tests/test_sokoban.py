"""Sokoban: rules, reader, canonical form, solver, shipped levels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from conftest import MINI

from ftw_envs.registry import make
from ftw_envs.sokoban.draw import draw_board
from ftw_envs.sokoban.generate import RECIPES, candidate
from ftw_envs.sokoban.levels import (
    LevelError,
    canonical,
    content_hash,
    level_rows,
    load_pack,
    parse_level,
    split_of,
)
from ftw_envs.sokoban.rules import Board
from ftw_envs.sokoban.solve import GaveUpError, solve

SIMPLE = """\
######
#@$.-#
#----#
######"""
GOLDEN_HASH = "113800a16ddab6b4"
DATA = Path(__file__).parents[2] / "shared" / "data"


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
    assert not board.pushed
    board = Board(parse_level(SIMPLE))
    board.move("right")
    assert board.pushed
    assert board.solved


def test_reader_accepts_ragged_rows_and_floor_signs() -> None:
    plain = parse_level("#####\n#@$.#\n#####")
    assert parse_level("\n  #####\n  #@$.#\n  #####\n") != plain
    assert canonical(parse_level("  #####\n  #@$.#\n  #####")) == canonical(plain)
    signs = [parse_level(f"#####\n#@$.#\n#{c * 3}#\n#####") for c in " -_"]
    assert signs[0] == signs[1] == signs[2]
    assert parse_level("#####\n#+$-#\n#*--#\n#####").goals == {6, 11}


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


def test_solver_is_move_optimal() -> None:
    """Against iterative deepening over all move sequences, which cannot be wrong."""
    pack = load_pack("mini")
    for line in range(12):
        packed = pack.get("valid", line)
        if packed.moves > 6:
            continue
        shortest = next(n for n in range(1, 7) if _some_sequence_solves(packed.level, n))
        assert shortest == packed.moves


def _some_sequence_solves(level, n: int) -> bool:
    frontier = [(level.player, level.boxes)]
    for _ in range(n):
        nxt = set()
        for player, boxes in frontier:
            for action in ("up", "down", "left", "right"):
                board = Board(level)
                board.player, board.boxes = player, set(boxes)
                board.move(action)
                nxt.add((board.player, frozenset(board.boxes)))
        frontier = list(nxt)
    return any(boxes <= level.goals for _, boxes in frontier)


def test_solver_says_unsolvable_and_gave_up() -> None:
    corner = parse_level("#####\n#$-.#\n#-@-#\n#####")
    assert solve(corner) is None
    assert solve(parse_level("#####\n#@-*#\n#####")).actions == ()
    with pytest.raises(GaveUpError, match="gave up after 5 positions"):
        solve(parse_level("#######\n#@----#\n#-$---#\n#----.#\n#######"), max_positions=5)


def test_two_boxes() -> None:
    level = parse_level("#######\n#-----#\n#-$.$-#\n#-.@--#\n#-----#\n#######")
    solution = solve(level)
    assert solution is not None
    board = Board(level)
    pushes = 0
    for action in solution.actions:
        board.move(action)
        assert board.moved
        pushes += board.pushed
    assert board.solved
    assert pushes == solution.pushes
    assert len(solution.lurd) == len(solution.actions)


@pytest.fixture(scope="module")
def shipped() -> dict[str, list]:
    pack = load_pack("mini")
    return {s: [pack.get(s, i) for i in range(len(x))] for s, x in pack.lines.items()}


def test_every_shipped_level_is_solved_optimally_within_the_limit(shipped: dict) -> None:
    limit = make(MINI).max_steps
    for levels in shipped.values():
        for packed in levels:
            solution = solve(packed.level)
            assert solution is not None
            assert 4 <= packed.moves == len(solution.actions) < limit


def test_splits_are_disjoint_by_content(shipped: dict) -> None:
    """No puzzle twice, not up to symmetry; across splits not even from another start."""
    whole = [canonical(p.level) for levels in shipped.values() for p in levels]
    assert len(whole) == len(set(whole))
    layouts = [{canonical(p.level, player=False) for p in x} for x in shipped.values()]
    assert sum(map(len, layouts)) == len(set().union(*layouts))
    assert [len(x) for x in shipped.values()] == [20_000, 1_000, 1_000]
    for split, levels in shipped.items():
        assert all(split_of(p.level) == split for p in levels[:200])


def test_shipped_levels_are_those_of_the_generator(shipped: dict) -> None:
    """The pack can be rebuilt: its first levels are the recipe's first ones."""
    made = [m for i in range(300) if (m := candidate("mini", i)) is not None]
    train = [m for m in made if split_of(m.level) == "train"]
    seen: set[str] = set()
    train = [m for m in train if not (canonical(m.level) in seen or seen.add(canonical(m.level)))]
    assert train == shipped["train"][: len(train)]
    assert len(train) > 10
    assert all(m.level.width == RECIPES["mini"].size for m in made)


def test_published_distribution_is_true(shipped: dict) -> None:
    """The table in the docs is what is shipped."""
    docs = (Path(__file__).parents[1] / "docs" / "environments.md").read_text("utf-8")
    for split, levels in shipped.items():
        counts = Counter(p.moves for p in levels)
        row = " | ".join(str(counts[n]) for n in range(4, 15))
        assert f"| {split} | {row} |" in docs
    assert load_pack("mini").hash in docs


def test_drawing() -> None:
    board = Board(parse_level("########\n#@$.-*-#\n########"))
    frame = draw_board(board, tile_size=16)
    assert frame.shape == (48, 128, 3)
    tiles = {frame[16:32, x : x + 16].tobytes() for x in range(0, 128, 16)}
    assert len(tiles) == 6  # wall, player, box, goal, floor, box on goal
    with pytest.raises(ValueError, match="at least 4"):
        draw_board(board, tile_size=3)


def test_hash_is_stable() -> None:
    assert content_hash(parse_level(SIMPLE)) == GOLDEN_HASH


@pytest.mark.skipif(not DATA.exists(), reason="no level files beside the project")
def test_real_levels_are_read() -> None:
    text = (DATA / "boxoban" / "unfiltered-test-000.txt").read_text()
    blocks = [b.split("\n", 1)[1] for b in text.split("; ")[1:]]
    levels = [parse_level(b.strip("\n")) for b in blocks]
    assert len(levels) == len({"\n".join(level_rows(x)) for x in levels}) == 1000
    assert all(len(x.boxes) == 4 and x.width == 10 for x in levels)
