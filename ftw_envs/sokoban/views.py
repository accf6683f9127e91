"""What an agent gets to see of a position, and the spaces that hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ftw_envs.sokoban.rules import BOX, GOAL, PLAYER, WALL, xsb
from ftw_envs.text_env import CHARSET

OBSERVATIONS = ("text", "coords", "image", "grid")
MIN_TILE = 4
"""Pixels of a cell below which its shapes cannot be told apart."""

_TASK = "Sokoban. Push every box onto a goal; boxes cannot be pulled."
_LEGEND = "# wall, @ player, $ box, . goal, * box on goal, + player on goal, - floor"
_TASK_CHARS = 1_000
"""Room for the words around a board: task, answer form, an error line."""


@dataclass(frozen=True, slots=True)
class View:
    """One way to show positions.

    Attributes:
        obs: one of `OBSERVATIONS`.
        words: pictures and grids come with words (task, errors); for agents that answer
            in words.
        changes_only: later texts tell only what changed.
        width, height: cells of the largest board shown; smaller ones are filled up with
            walls on the right and below in pictures and grids.
        tile_size: pixels of a cell in pictures.
        form: what can be answered.
        max_steps: moves of an episode.
    """

    obs: str
    words: bool
    changes_only: bool
    width: int
    height: int
    tile_size: int
    form: str
    max_steps: int

    @property
    def is_text(self) -> bool:
        """Whether observations are text and nothing else."""
        return self.obs in ("text", "coords")

    def space(self) -> spaces.Space[Any]:
        """The observation space."""
        w, h, t = self.width, self.height, self.tile_size
        # A line of coords names each box and goal, with at most 10 characters for a cell.
        room = _TASK_CHARS + 11 * w * h if self.obs == "coords" else _TASK_CHARS + (w + 4) * h
        text = spaces.Text(room, min_length=0, charset=CHARSET)
        if self.is_text:
            return text
        if self.obs == "image":
            array = spaces.Box(0, 255, (h * t, w * t, 3), np.uint8)
        else:
            array = spaces.Box(0, WALL | GOAL | BOX | PLAYER, (h, w), np.uint8)
        return spaces.Dict({self.obs: array, "text": text}) if self.words else array

    @property
    def task(self) -> str:
        """What is told at the beginning, whatever the board."""
        return f"{_TASK} {self.form} You have {self.max_steps} moves."

    def first(self, cells: bytes | bytearray, width: int) -> Any:
        """The first observation of an episode: everything there is to know."""
        task = self.task
        if not self.is_text:
            return self._with(cells, width, task)
        if self.obs == "text":
            return f"{task}\n{_LEGEND}\n{xsb(cells, width)}"
        h = len(cells) // width
        walls = [
            i
            for i, c in enumerate(cells)
            if c & WALL and 0 < i % width < width - 1 and 0 < i // width < h - 1
        ]
        inner = " ".join(_cell(i, width) for i in walls) or "none"
        return f"{task}\n{h} rows, {width} columns, walled all around\nwalls {inner}\n" + coords(
            cells, width
        )

    def later(
        self, cells: bytes | bytearray, width: int, note: str, before: bytes | bytearray = b""
    ) -> Any:
        """A later observation.

        Args:
            note: what else there is to say: an error, "blocked", "solved", or nothing.
            before: the cells that the agent saw last; needed with `changes_only`.
        """
        if not self.is_text:
            return self._with(cells, width, note)
        if self.changes_only:
            state = changes(before, cells, width, self.obs)
        elif self.obs == "text":
            state = xsb(cells, width)
        else:
            state = coords(cells, width)
        if not note or not state:
            return note or state
        return f"{state}\n{note}" if note in ENDINGS else f"{note}\n{state}"

    def array(self, cells: bytes | bytearray, width: int) -> npt.NDArray[np.uint8]:
        """The grid (height, width) or picture (height * tile, width * tile, 3), uint8."""
        grid = np.frombuffer(bytes(cells), np.uint8).reshape(-1, width)
        if grid.shape != (self.height, self.width):
            down, right = self.height - grid.shape[0], self.width - width
            grid = np.pad(grid, ((0, down), (0, right)), constant_values=WALL)
        if self.obs == "grid":
            return grid.copy()
        from ftw_envs.sokoban.draw import draw_grid  # Pillow only where a picture is wanted

        return draw_grid(grid, self.tile_size)

    def _with(self, cells: bytes | bytearray, width: int, words: str) -> Any:
        array = self.array(cells, width)
        return {self.obs: array, "text": words} if self.words else array


ENDINGS = ("solved", "lost")
"""Notes that stand below the last state; others stand above it."""


def _cell(cell: int, width: int) -> str:
    y, x = divmod(cell, width)
    return f"r{y + 1}c{x + 1}"


def coords(cells: bytes | bytearray, width: int) -> str:
    """Goals, boxes and player as row and column numbers, from 1."""
    goals, boxes, player = [], [], 0
    for i, c in enumerate(cells):
        if c > WALL:
            if c & GOAL:
                goals.append(_cell(i, width))
            if c & BOX:
                boxes.append(_cell(i, width))
            if c & PLAYER:
                player = i
    return f"goal {' '.join(goals)} box {' '.join(boxes)} player {_cell(player, width)}"


def changes(before: bytes | bytearray, after: bytes | bytearray, width: int, obs: str) -> str:
    """What changed between two positions: the rows (text), or boxes and player (coords).

    Empty if nothing did.
    """
    if obs == "text":
        lines = (xsb(cells, width).split("\n") for cells in (before, after))
        rows = enumerate(zip(*lines, strict=True), 1)
        return "\n".join(f"row {y} {new}" for y, (old, new) in rows if old != new)
    parts = []
    pairs = list(enumerate(zip(before, after, strict=True)))
    gone = [i for i, (old, new) in pairs if old & BOX and not new & BOX]
    come = [i for i, (old, new) in pairs if new & BOX and not old & BOX]
    parts += [
        f"box {_cell(a, width)} to {_cell(b, width)}" for a, b in zip(gone, come, strict=True)
    ]
    player = [i for i, (old, new) in pairs if new & PLAYER and not old & PLAYER]
    parts += [f"player {_cell(i, width)}" for i in player]
    return " ".join(parts)
