"""The Sokoban solver: fewest moves, fewest pushes, or any solution, fast."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ftw_envs.sokoban.rules import ACTIONS, BOX, GOAL, LURD, Level

Mode = Literal["moves", "pushes", "any"]
MODES: tuple[Mode, ...] = ("moves", "pushes", "any")
_WORDS = {letter: action for action, letter in LURD.items()}
_LETTERS = "".join(LURD[a] for a in ACTIONS) + "".join(LURD[a].upper() for a in ACTIONS)
_ANY_WEIGHT = 5  # on the estimate: finds a way soon, at the price of a longer one


class GaveUpError(RuntimeError):
    """The search hit its limit before it knew whether the level can be solved."""


@dataclass(frozen=True, slots=True)
class Solution:
    """How to solve a level.

    Attributes:
        lurd: its moves in the standard notation, lower case for a walk, upper case for a push.
        positions: how many positions the search saw; says nothing of the solution.
    """

    lurd: str
    positions: int = field(default=0, compare=False)

    @property
    def actions(self) -> tuple[str, ...]:
        """The moves as words of `ACTIONS`."""
        return tuple(_WORDS[letter] for letter in self.lurd.lower())

    @property
    def moves(self) -> int:
        """How many moves it has, pushes included."""
        return len(self.lurd)

    @property
    def pushes(self) -> int:
        """How many of the moves push a box."""
        return sum(letter.isupper() for letter in self.lurd)


def solve(level: Level, mode: Mode = "moves", max_positions: int = 2_000_000) -> Solution | None:
    """A solution, or None where there is none. Which of several is found is fixed.

    Args:
        mode: "moves" for the fewest moves, "pushes" for the fewest pushes (walks between
            them as short as can be), "any" for one that is found soon.
        max_positions: positions after which to give up; one takes about 100 bytes.

    Raises:
        GaveUpError: `max_positions` positions were seen and the answer is not known.
        ValueError: an unknown mode.
    """
    # numba only where something is solved
    from ftw_envs.sokoban import kernels, search

    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    cell_of, nb, player = kernels.number_floor(np.frombuffer(level.cells, np.uint8), level.width)
    kinds = np.frombuffer(level.cells, np.uint8)[cell_of]
    boxes, goals = (np.flatnonzero(kinds & flag).astype(np.int16) for flag in (BOX, GOAL))
    outside = set(level.having(BOX) + level.having(GOAL)) - set(cell_of.tolist())
    if len(boxes) != len(goals) or any(level.cells[c] != BOX | GOAL for c in outside):
        return None  # a box or a goal stands where the player never gets
    status, path, seen = search.search(
        nb,
        goals,
        boxes,
        player,
        mode == "moves",
        _ANY_WEIGHT if mode == "any" else 1,
        max_positions,
    )
    if status == search.GAVE_UP:
        raise GaveUpError(f"gave up after {seen} positions")
    if status == search.UNSOLVABLE:
        return None
    moves = kernels.spell(nb, boxes, player, path)
    return Solution("".join(_LETTERS[m] for m in moves), seen)
