"""A move-optimal Sokoban solver: breadth-first search over (player, boxes)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ftw_envs.sokoban.rules import ACTIONS, LURD, Level, offsets


@dataclass(frozen=True, slots=True)
class Solution:
    """A shortest solution: its actions, in order, and how many of them push."""

    actions: tuple[str, ...]
    pushes: int

    @property
    def lurd(self) -> str:
        """The actions as LURD letters. Pushes are not marked (all lower case is valid)."""
        return "".join(LURD[a] for a in self.actions)


class GaveUpError(RuntimeError):
    """The search hit its limit before it knew whether the level can be solved."""


def live_cells(level: Level) -> frozenset[int]:
    """Cells from which a lone box can still be pushed to some goal (pulling from the goals).

    A box anywhere else is lost for good, whatever the other boxes do.
    """
    live = set(level.goals)
    todo = list(level.goals)
    while todo:
        cell = todo.pop()
        for d in offsets(level.width):
            before = cell - d  # the box came from here, pushed by a player at `before - d`
            if before in live or before in level.walls or before - d in level.walls:
                continue
            live.add(before)
            todo.append(before)
    return frozenset(live)


def solve(level: Level, max_positions: int = 2_000_000) -> Solution | None:
    """A solution with the fewest moves, or None where there is none.

    Among equally short ones the choice is fixed: the first in the order of `ACTIONS`.

    Raises:
        GaveUpError: more than `max_positions` positions were seen.
    """
    walls, goals, live = level.walls, level.goals, live_cells(level)
    steps = tuple(zip(ACTIONS, offsets(level.width), strict=True))
    start = (level.player, level.boxes)
    if level.boxes <= goals:
        return Solution((), 0)
    if not level.boxes <= live:
        return None
    came: dict[tuple[int, frozenset[int]], tuple[tuple[int, frozenset[int]], str, bool] | None]
    came = {start: None}
    queue = deque([start])
    while queue:
        position = queue.popleft()
        player, boxes = position
        for action, d in steps:
            to = player + d
            if to in walls:
                continue
            pushed = to in boxes
            if pushed:
                beyond = to + d
                if beyond not in live or beyond in walls or beyond in boxes:
                    continue
                nxt = (to, (boxes - {to}) | {beyond})
            else:
                nxt = (to, boxes)
            if nxt in came:
                continue
            came[nxt] = (position, action, pushed)
            if pushed and nxt[1] <= goals:
                return _trace(came, nxt)
            if len(came) > max_positions:
                raise GaveUpError(f"gave up after {max_positions} positions")
            queue.append(nxt)
    return None


def _trace(came: dict, position: tuple[int, frozenset[int]]) -> Solution:  # type: ignore[type-arg]
    actions, pushes = [], 0
    while (link := came[position]) is not None:
        position, action, pushed = link
        actions.append(action)
        pushes += pushed
    return Solution(tuple(reversed(actions)), pushes)
