"""The rules of Sokoban on a flat board.

A cell is an index into the rows laid end to end, so a direction is an offset and a
move is two look-ups. What stands on a cell is a sum of flags: this is also what
`obs="grid"` shows. Boards have a closed border of walls around everything the player
can reach (`levels.py` checks it), so no move can leave the board.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

ACTIONS = ("up", "down", "left", "right")
LURD = dict(zip(ACTIONS, "udlr", strict=True))
"""Standard solution letters; a push is written in upper case."""

WALL, GOAL, BOX, PLAYER = 1, 2, 4, 8
XSB = {0: "-", WALL: "#", GOAL: ".", BOX: "$", BOX | GOAL: "*", PLAYER: "@", PLAYER | GOAL: "+"}
"""What is written for each sum of flags. We write `-` for floor, which no tokenizer swallows."""

_TO_XSB = bytes(ord(XSB.get(i, "?")) for i in range(256))


@lru_cache(maxsize=64)
def _offset_of(width: int) -> dict[str, int]:
    return dict(zip(ACTIONS, offsets(width), strict=True))


def offsets(width: int) -> tuple[int, int, int, int]:
    """Offsets of `ACTIONS` on a board `width` cells wide."""
    return (-width, width, -1, 1)


@lru_cache(maxsize=64)
def _rows_of(width: int, height: int) -> Struct:
    return Struct(f"{width}s" * height)


def xsb(cells: bytes | bytearray, width: int) -> str:
    """A position in XSB: rows of `width` characters, parted by line ends."""
    rows = _rows_of(width, len(cells) // width).unpack(cells.translate(_TO_XSB))
    return b"\n".join(rows).decode("ascii")


@dataclass(frozen=True, slots=True)
class Level:
    """A puzzle.

    Attributes:
        width: cells in a row.
        cells: a sum of flags (`WALL`, `GOAL`, `BOX`, `PLAYER`) for each cell, row by row.
    """

    width: int
    cells: bytes

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(self.cells) // self.width

    @property
    def rows(self) -> list[str]:
        """The rows in XSB."""
        return xsb(self.cells, self.width).split("\n")

    def having(self, flag: int) -> list[int]:
        """The cells that have `flag`, in order."""
        return [i for i, c in enumerate(self.cells) if c & flag]

    @property
    def player(self) -> int:
        """Where the player starts."""
        cell = self.cells.find(PLAYER)
        return cell if cell >= 0 else self.cells.find(PLAYER | GOAL)


class Board:
    """A level being played.

    Attributes:
        cells: a sum of flags for each cell, as in `Level`.
        player: the player's cell.
        moved: whether the last move or undo changed anything.
        pushed: cell to which the last move pushed a box, None if it pushed none.
    """

    __slots__ = ("_left", "_offset", "_past", "cells", "level", "moved", "player", "pushed")

    def __init__(self, level: Level) -> None:
        self.level = level
        self.cells = bytearray(level.cells)
        self.player = level.player
        self.moved = False
        self.pushed: int | None = None
        self._left = level.cells.count(BOX)  # boxes that stand on no goal
        self._offset = _offset_of(level.width)
        self._past: list[tuple[int, bool]] = []

    @property
    def solved(self) -> bool:
        """Whether every box is on a goal."""
        return not self._left

    @property
    def past(self) -> bytes:
        """The moves that `undo` can take back."""
        return repr(self._past).encode()

    def move(self, action: str) -> None:
        """Moves one cell, pushing a box if one is in the way; does nothing if blocked."""
        cells, d = self.cells, self._offset[action]
        to = self.player + d
        there = cells[to]
        self.moved, self.pushed = False, None
        if there & WALL:
            return
        if there & BOX:
            beyond = to + d
            if cells[beyond] & (WALL | BOX):
                return
            self._carry(to, beyond)
            self.pushed = beyond
        cells[self.player] ^= PLAYER
        cells[to] ^= PLAYER
        self.player = to
        self.moved = True
        self._past.append((d, bool(there & BOX)))

    def undo(self) -> None:
        """Takes the last move back; does nothing at the start."""
        self.moved, self.pushed = bool(self._past), None
        if not self._past:
            return
        d, pushed = self._past.pop()
        self.cells[self.player] ^= PLAYER
        self.cells[self.player - d] ^= PLAYER
        if pushed:
            self._carry(self.player + d, self.player)
        self.player -= d

    def _carry(self, start: int, end: int) -> None:
        cells = self.cells
        self._left += bool(cells[start] & GOAL) - bool(cells[end] & GOAL)
        cells[start] ^= BOX
        cells[end] ^= BOX
