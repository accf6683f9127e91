"""Positions that are lost, and how far a position is from solved; for options and heuristics."""

from __future__ import annotations

from collections.abc import Sequence

from ftw_envs.sokoban.rules import BOX, GOAL, WALL, Level, offsets


def push_distances(level: Level) -> list[int | None]:
    """For each cell, fewest pushes that bring a lone box from it to some goal; None for never."""
    cells, w = level.cells, level.width
    distance: list[int | None] = [None] * len(cells)
    todo = level.having(GOAL)
    for cell in todo:
        distance[cell] = 0
    for cell in todo:  # breadth first, pulling boxes away from the goals
        near = distance[cell]
        assert near is not None
        for d in offsets(w):
            box, player = cell - d, cell - 2 * d
            if not 0 <= player < len(cells) or (d in (-1, 1) and player // w != cell // w):
                continue
            if not (cells[box] | cells[player]) & WALL and distance[box] is None:
                distance[box] = near + 1
                todo.append(box)
    return distance


def is_lost(cells: Sequence[int], width: int, distance: Sequence[int | None], pushed: int) -> bool:
    """Whether the box just pushed to `pushed` makes the position unsolvable for certain.

    It does if no goal can be reached from there, or if it is frozen together with a box
    that is off the goals. False says nothing: most lost positions are lost in other ways.
    """
    if distance[pushed] is None:
        return True
    held = _frozen(cells, width, pushed, set())
    return any(not cells[box] & GOAL for box in held)


def _frozen(cells: Sequence[int], width: int, box: int, walls: set[int]) -> set[int]:
    """The boxes that can never move again because `box` cannot; empty if it can.

    Boxes in `walls` are being looked at and count as walls.
    """
    walls = walls | {box}
    held = {box}
    for d in (1, width):
        sides = (box - d, box + d)
        if any(cells[s] & WALL or s in walls for s in sides):
            continue
        stuck = [_frozen(cells, width, s, walls) for s in sides if cells[s] & BOX]
        if not any(stuck):
            return set()
        held = held.union(*stuck)
    return held
