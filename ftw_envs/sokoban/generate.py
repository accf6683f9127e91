"""Level generation, addressed by index: level `i` of a split of a recipe is always the same.

Every level is solved with fewest pushes before it is accepted; packs know the fewest moves
too. `python -m ftw_envs.sokoban.generate NAME` rebuilds the shipped pack of that name.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

import numpy as np

from ftw_envs.episode import SPLITS
from ftw_envs.files import write_bytes
from ftw_envs.sokoban import kernels
from ftw_envs.sokoban.levels import canonical, split_of
from ftw_envs.sokoban.recipes import RECIPES, Recipe
from ftw_envs.sokoban.rules import BOX, GOAL, PLAYER, WALL, Level
from ftw_envs.sokoban.solve import GaveUpError, solve
from ftw_envs.sokoban.sources import PackedLevel
from ftw_envs.streams import Stream

_MAX_POSITIONS = 20_000
"""A draw that needs more is dropped: a level has to be proved, and soon."""


@kernels.jit
def _pick(word, count):  # type: ignore[no-untyped-def]
    return np.int64(((word >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))


@kernels.jit
def _draw(words, size, boxes, least, most):  # type: ignore[no-untyped-def]
    """Cells of a random board, shape (size * size,), uint8; of shape (0,) if it came to nothing."""
    none = np.empty(0, np.uint8)
    used = 0

    chance = least + _pick(words[used], most - least + 1)
    cells = np.full(size * size, WALL, np.uint8)
    for y in range(1, size - 1):
        for x in range(1, size - 1):
            used += 1
            if _pick(words[used], 1000) >= chance:
                cells[y * size + x] = 0
    floor = np.flatnonzero(cells == 0)
    if floor.size == 0:
        return none
    used += 1
    cells[floor[_pick(words[used], floor.size)]] = PLAYER
    inside, nb, _ = kernels.number_floor(cells, size)
    cells[:] = WALL
    cells[inside] = 0
    n = inside.size
    if n < (size - 2) ** 2 // 2:
        return none
    taken = np.zeros(n, np.uint8)
    goals = np.empty(boxes, np.int16)
    for i in range(boxes):
        used += 1
        free = np.flatnonzero(taken == 0)
        goals[i] = free[_pick(words[used], free.size)]
        taken[goals[i]] = GOAL
    distance = kernels.push_distances(nb, goals)
    for flag in [BOX] * boxes + [PLAYER]:
        good = taken == 0
        if flag == BOX:
            for c in range(n):
                good[c] &= distance[:, c].min() < kernels.FAR
        free = np.flatnonzero(good)
        if free.size == 0:
            return none
        used += 1
        taken[free[_pick(words[used], free.size)]] = flag
    cells[inside] = taken
    return cells


def draw(recipe: Recipe, stream: Stream) -> Level | None:
    """A random board, not yet known to be solvable; None where the draw came to nothing.

    Walls fall at random; the part of the floor that one random cell belongs to is kept and
    the rest is filled, so that nothing on a board is out of reach. Goals take random cells
    of it, boxes random cells off the goals from which a goal can be reached, the player
    any other.
    """
    n, k = recipe.size, recipe.boxes
    cells = _draw(stream.raw(n * n + 2 * k), n, k, *recipe.walls)
    return Level(n, cells.tobytes()) if cells.size else None


def prove(recipe: Recipe, level: Level) -> int | None:
    """The fewest pushes that solve a level, or None if the recipe does not want it."""
    try:
        solution = solve(level, "pushes", _MAX_POSITIONS)
    except GaveUpError:
        return None
    if solution is None or solution.pushes < recipe.pushes:
        return None
    return solution.pushes if recipe.moves[0] <= solution.moves <= recipe.moves[1] else None


def new_level(name: str, split: str, index: int) -> tuple[Level, int]:
    """Level `index` of the endless stream of a recipe's split, and its fewest pushes.

    The split "sealed" is a stream of its own, of levels that may stand in test.

    Raises:
        KeyError: there is no recipe of that name.
    """
    recipe = RECIPES[name]
    stream = Stream("sokoban", name, split, index)
    like = "test" if split == "sealed" else split
    while True:
        level = draw(recipe, stream)
        if level is not None and split_of(level) == like:
            pushes = prove(recipe, level)
            if pushes is not None:
                return level, pushes


def build_pack(name: str) -> bytes:
    """The text of a pack: the first distinct levels of each split's stream."""
    lines = []
    for split, count in zip(SPLITS, RECIPES[name].counts, strict=True):
        seen: set[bytes] = set()
        lines.append(f"[{split}]")
        index = 0
        while len(seen) < count:
            level, pushes = new_level(name, split, index)
            index += 1
            key = canonical(level)
            if key not in seen:
                seen.add(key)
                fewest = solve(level)
                assert fewest is not None
                lines.append(PackedLevel(level, fewest.moves, pushes).line)
    return ("\n".join(lines) + "\n").encode()


def main() -> None:
    """Writes `packs/<name>.txt.xz` for each name given (all recipes if none)."""
    for name in sys.argv[1:] or RECIPES:
        if name not in RECIPES:
            raise SystemExit(f"unknown recipe {name!r}; there are {', '.join(RECIPES)}")
        path = Path(__file__).parent / "packs" / f"{name}.txt.xz"
        write_bytes(path, lzma.compress(build_pack(name), preset=9 | lzma.PRESET_EXTREME))
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
