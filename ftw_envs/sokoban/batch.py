"""The compiled loop behind `SokobanVectorEnv`, and the arrays it works on."""

from __future__ import annotations

import numpy as np

from ftw_envs.sokoban.kernels import jit

RUNNING, SOLVED, TIME_LIMIT = 0, 1, 2
"""How a game stands; places in ("", "solved", "time_limit")."""


class Games:
    """The state of n games on boards of `size` cells, one entry a game.

    Attributes:
        grid: flags of each cell, uint8 of shape (n, size).
        player, left: the player's cell, and boxes that are on no goal, int32.
        steps, invalid: steps taken, and unusable replies among them, int64.
        status: RUNNING, SOLVED or TIME_LIMIT, uint8.
        moved: whether the last step changed the board, bool.
        loaded: whether a new level was loaded in the last step, bool.
        queue, at: levels to be loaded next (n, k) and how many of them were, int32.
    """

    def __init__(self, n: int, size: int, ahead: int) -> None:
        self.grid = np.zeros((n, size), np.uint8)
        self.player, self.left = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self.steps, self.invalid = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.status = np.zeros(n, np.uint8)
        self.moved, self.loaded = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self.queue, self.at = np.zeros((n, ahead), np.int32), np.zeros(n, np.int32)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All of them, in the order in which `advance` takes them."""
        return (self.grid, self.player, self.left, self.steps, self.invalid, self.status,
                self.moved, self.loaded, self.queue, self.at)  # fmt: skip


@jit
def load(i, slot, games, levels):  # type: ignore[no-untyped-def]
    """Puts the level in `slot` on the board of game `i`."""
    grid, player, left, steps, invalid, status, moved, loaded, _, _ = games
    cells, players, boxes = levels
    grid[i] = cells[slot]
    player[i], left[i] = players[slot], boxes[slot]
    steps[i] = invalid[i] = 0
    status[i] = RUNNING
    moved[i], loaded[i] = False, True


@jit
def load_next(games, levels):  # type: ignore[no-untyped-def]
    """Puts the next level of the queue on every board whose game has ended."""
    status, queue, at = games[5], games[8], games[9]
    for i in range(status.size):
        if status[i] != RUNNING:
            load(i, queue[i, at[i]], games, levels)
            at[i] += 1


@jit
def advance(actions, step, max_steps, next_step, games, levels):  # type: ignore[no-untyped-def]
    """One step of every game.

    Args:
        actions: up, down, left, right as 0 to 3, -1 for an unusable reply; int64.
        step: offset of each direction, shape (4,).
        next_step: whether games that have ended get their next level instead of a step.
        games, levels: `Games.arrays`, and (cells, player, boxes off the goals) by slot.
    """
    grid, player, left, steps, invalid, status, moved, loaded, queue, at = games
    for i in range(actions.size):
        if next_step and status[i] != RUNNING:
            load(i, queue[i, at[i]], games, levels)
            at[i] += 1
            continue
        loaded[i] = moved[i] = False
        steps[i] += 1
        a = actions[i]
        if a < 0:
            invalid[i] += 1
        else:
            here = player[i]
            to = here + step[a]
            there = grid[i, to]
            if not there & 1:
                free = True
                if there & 4:
                    beyond = to + step[a]
                    free = not grid[i, beyond] & 5
                    if free:
                        left[i] += (there >> 1 & 1) - np.int32(grid[i, beyond] >> 1 & 1)
                        grid[i, to] ^= 4
                        grid[i, beyond] ^= 4
                if free:
                    grid[i, here] ^= 8
                    grid[i, to] ^= 8
                    player[i] = to
                    moved[i] = True
                    if left[i] == 0:
                        status[i] = SOLVED
        if status[i] == RUNNING and steps[i] >= max_steps:
            status[i] = TIME_LIMIT
