"""Level generation, addressed by index: level `i` of a recipe is always the same.

Every level is solved before it is accepted. `python -m ftw_envs.sokoban.generate NAME`
rebuilds the shipped pack of that name from nothing.
"""

from __future__ import annotations

import lzma
import sys
from dataclasses import dataclass
from pathlib import Path

from ftw_envs.episode import SPLITS
from ftw_envs.files import write_bytes
from ftw_envs.sokoban.levels import PackedLevel, canonical, pack_line, split_of
from ftw_envs.sokoban.rules import Level, reachable
from ftw_envs.sokoban.solve import solve
from ftw_envs.streams import Stream


@dataclass(frozen=True, slots=True)
class Recipe:
    """What levels a pack holds.

    Attributes:
        size: rows and columns, the border of walls included.
        boxes: boxes (and goals).
        wall_chance: chance of a wall for each cell inside the border, in 1/1000.
        min_moves, max_moves: bounds of the optimal solution; the upper one leaves every
            level solvable within the step limit of its id.
        counts: levels per split, (train, valid, test).
    """

    size: int
    boxes: int
    wall_chance: int
    min_moves: int
    max_moves: int
    counts: tuple[int, int, int]


RECIPES = {
    "mini": Recipe(6, 1, wall_chance=280, min_moves=4, max_moves=14, counts=(20_000, 1_000, 1_000)),
}


def candidate(name: str, index: int) -> PackedLevel | None:
    """Level `index` of recipe `name`, or None where that draw gave no level to accept."""
    recipe = RECIPES[name]
    stream = Stream("sokoban", name, index)
    n = recipe.size
    inner = [y * n + x for y in range(1, n - 1) for x in range(1, n - 1)]
    border = frozenset(range(n * n)) - frozenset(inner)
    floor = [cell for cell in inner if stream.integer(1000) >= recipe.wall_chance]
    stream.shuffle(floor)
    walls = border | (frozenset(inner) - frozenset(floor))
    k = recipe.boxes
    if len(floor) < 2 * k + 1:
        return None
    level = Level(n, n, walls, frozenset(floor[:k]), frozenset(floor[k : 2 * k]), floor[2 * k])
    if not level.goals | level.boxes <= reachable(level):
        return None
    solution = solve(level)
    if solution is None or not recipe.min_moves <= len(solution.actions) <= recipe.max_moves:
        return None
    return PackedLevel(level, len(solution.actions), solution.pushes)


def build_pack(name: str) -> bytes:
    """The text of a pack: the first distinct levels of the recipe, split by content."""
    recipe = RECIPES[name]
    want = dict(zip(SPLITS, recipe.counts, strict=True))
    lines: dict[str, list[str]] = {s: [] for s in SPLITS}
    seen: set[str] = set()
    index = 0
    while any(len(lines[s]) < want[s] for s in SPLITS):
        made = candidate(name, index)
        index += 1
        if made is None:
            continue
        split = split_of(made.level)
        key = canonical(made.level)
        if len(lines[split]) < want[split] and key not in seen:
            seen.add(key)
            lines[split].append(pack_line(made.level, made.moves, made.pushes))
    return "".join(f"[{s}]\n" + "".join(f"{x}\n" for x in lines[s]) for s in SPLITS).encode()


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
