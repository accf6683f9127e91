"""The Sokoban solver: optimal, complete, honest, on our levels and on the field's own."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from ftw_envs.registry import make
from ftw_envs.sokoban.levels import parse_level
from ftw_envs.sokoban.rules import ACTIONS, BOX, GOAL, WALL, Board, Level, offsets
from ftw_envs.sokoban.solve import MODES, GaveUpError, Solution, solve
from ftw_envs.sokoban.sources import load_pack

DATA = Path(__file__).parents[2] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="no level files beside the project")


def brute(level: Level, by_moves: bool) -> int | None:
    """Fewest moves or pushes by plain search over all positions, which cannot be wrong."""
    goals = frozenset(level.having(GOAL))
    start = (level.player, frozenset(level.having(BOX)))
    best = {start: 0}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        player, boxes = state
        if boxes == goals:
            return best[state]
        for d in offsets(level.width):
            to = player + d
            pushed = to in boxes
            if level.cells[to] & WALL:
                continue
            if pushed and (level.cells[to + d] & WALL or to + d in boxes):
                continue
            nxt = (to, boxes ^ {to, to + d} if pushed else boxes)
            cost = best[state] + (1 if by_moves else pushed)
            if nxt not in best or cost < best[nxt]:
                best[nxt] = cost
                # Walking is free when pushes are counted: those come first.
                (queue.append if by_moves or pushed else queue.appendleft)(nxt)
    return None


def replay(level: Level, solution: Solution) -> None:
    board = Board(level)
    for action, letter in zip(solution.actions, solution.lurd, strict=True):
        board.move(action)
        assert board.moved
        assert (board.pushed is not None) == letter.isupper()
    assert board.solved


@pytest.mark.parametrize(("pack", "count"), [("mini", 300), ("standard", 60)])
def test_optimal_against_plain_search(pack: str, count: int) -> None:
    for index in range(count):
        level = load_pack(pack).get("valid", index).level
        moves, pushes = solve(level, "moves"), solve(level, "pushes")
        assert moves.moves == brute(level, by_moves=True)
        assert pushes.pushes == brute(level, by_moves=False)
        assert moves.pushes >= pushes.pushes
        assert pushes.moves >= moves.moves
        for solution in (moves, pushes, solve(level, "any")):
            replay(level, solution)


def test_unsolvable_against_plain_search() -> None:
    """Positions reached by careless play: solvable or not, both searches say the same."""
    import numpy as np

    verdicts = []
    for index in range(200):
        level = load_pack("standard").get("valid", index).level
        board = Board(level)
        rng = np.random.default_rng(index)
        for _ in range(30):
            board.move(ACTIONS[rng.integers(4)])
        here = Level(level.width, bytes(board.cells))
        verdicts.append(solve(here) is None)
        assert verdicts[-1] == (brute(here, by_moves=True) is None)
    assert 20 < sum(verdicts) < 180


def test_edge_cases() -> None:
    assert solve(parse_level("#####\n#$-.#\n#-@-#\n#####")) is None
    for mode in MODES:
        assert solve(parse_level("#####\n#@-*#\n#####"), mode).lurd == ""
    # A box out of reach: fine on a goal, hopeless off it.
    assert solve(parse_level("#########\n#@$.#--*#\n#########")).lurd == "R"
    assert solve(parse_level("##########\n#@$.#-$.-#\n##########")) is None
    assert solve(parse_level("######\n#@-#*#\n######")).lurd == ""
    with pytest.raises(GaveUpError, match="gave up after 5 positions"):
        solve(parse_level("#######\n#@----#\n#-$---#\n#----.#\n#######"), max_positions=5)
    with pytest.raises(ValueError, match="mode must be one of moves, pushes, any"):
        solve(parse_level("#####\n#@$.#\n#####"), "fast")


def test_lurd() -> None:
    solution = solve(parse_level("#######\n#--@$-#\n#---.-#\n#-----#\n#######"), "pushes")
    assert solution is None  # along the wall, away from the goal
    solution = solve(parse_level("#######\n#-----#\n#-@$--#\n#---.-#\n#######"), "moves")
    assert solution.lurd == "RurD"
    assert solution.actions == ("right", "up", "right", "down")
    assert (solution.moves, solution.pushes) == (4, 2)


def read(name: str) -> list[Level]:
    from ftw_envs.sokoban.files import read_levels

    return [x.level for x in read_levels(DATA / name)]


@needs_data
@pytest.mark.parametrize("name", ["unfiltered-test-000.txt", "hard-000.txt"])
def test_all_boxoban_levels_are_solved(name: str) -> None:
    levels = read(f"boxoban/{name}")
    assert len(levels) == 1000
    for level in levels:
        replay(level, solve(level, "pushes"))
    for level in levels[:200]:
        assert solve(level, "moves").moves <= solve(level, "pushes").moves


@needs_data
def test_solutions_replay_in_the_environment() -> None:
    file = DATA / "boxoban" / "hard-000.txt"
    env = make("ftw/SokobanHard-v0", levels=str(file), max_steps=1000)
    for index in range(0, 1000, 40):
        env.reset(seed=0, options={"index": index})
        for action in solve(env.board.level).actions:
            *_, info = env.step(action)
        assert info["solved"]


@needs_data
def test_microban() -> None:
    """With few positions, to be quick; `benchmarks/solver.py` solves more with more."""
    solved = 0
    for level in read("classic/microban.txt"):
        try:
            solution = solve(level, "pushes", 150_000)
        except GaveUpError:
            continue
        replay(level, solution)
        solved += 1
    assert solved >= 140
