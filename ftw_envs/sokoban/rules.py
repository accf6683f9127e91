"""The rules of Sokoban on a flat board.

A cell is an index into the rows laid end to end, so a direction is an offset and a
move is two look-ups. Boards have a closed border of walls around everything the
player can reach (`levels.py` checks it), so no move can leave the board.
"""

from __future__ import annotations

from dataclasses import dataclass

ACTIONS = ("up", "down", "left", "right")
LURD = dict(zip(ACTIONS, "udlr", strict=True))
"""Standard solution letters; a push is written in upper case."""


@dataclass(frozen=True, slots=True)
class Level:
    """A puzzle: `width` x `height` cells, row by row.

    Attributes:
        walls, goals, boxes: cell indices.
        player: cell index of the player.
    """

    width: int
    height: int
    walls: frozenset[int]
    goals: frozenset[int]
    boxes: frozenset[int]
    player: int


def offsets(width: int) -> tuple[int, int, int, int]:
    """Offsets of `ACTIONS` on a board `width` cells wide."""
    return (-width, width, -1, 1)


def reachable(level: Level) -> frozenset[int]:
    """Cells the player could ever enter: the floor connected to the player, boxes removed."""
    seen = {level.player}
    todo = [level.player]
    steps = offsets(level.width)
    while todo:
        cell = todo.pop()
        for d in steps:
            nxt = cell + d
            if nxt not in seen and nxt not in level.walls:
                seen.add(nxt)
                todo.append(nxt)
    return frozenset(seen)


class Board:
    """A level being played. `moved` and `pushed` tell what the last move did."""

    __slots__ = ("_offset", "boxes", "goals", "level", "moved", "player", "pushed", "walls")

    def __init__(self, level: Level) -> None:
        self.level = level
        self.walls = level.walls
        self.goals = level.goals
        self.boxes = set(level.boxes)
        self.player = level.player
        self.moved = self.pushed = False
        self._offset = dict(zip(ACTIONS, offsets(level.width), strict=True))

    @property
    def solved(self) -> bool:
        """Whether every box is on a goal."""
        return self.boxes <= self.goals

    def move(self, action: str) -> None:
        """Moves one cell, pushing a box if one is in the way; does nothing if blocked."""
        d = self._offset[action]
        to = self.player + d
        self.moved = self.pushed = False
        if to in self.walls:
            return
        if to in self.boxes:
            beyond = to + d
            if beyond in self.walls or beyond in self.boxes:
                return
            self.boxes.remove(to)
            self.boxes.add(beyond)
            self.pushed = True
        self.player = to
        self.moved = True
