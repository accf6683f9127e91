"""Plays by a simple rule, without looking ahead: what a hasty player would do."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ftw_agents.agent import History, Reply
from ftw_agents.scripted.bandit import greedy_bandit
from ftw_agents.scripted.investigators import ScriptAgent, greedy
from ftw_envs.bandit.machines import MachinesEnv
from ftw_envs.incident.commands import CommandGrammar
from ftw_envs.sokoban.deadlock import is_lost, push_distances
from ftw_envs.sokoban.env import SokobanEnv
from ftw_envs.sokoban.rules import ACTIONS, BOX, WALL, offsets
from ftw_envs.text_env import EpisodeEnv

Plan = list[str]


def walks(cells: Sequence[int], width: int, player: int) -> dict[int, Plan]:
    """Shortest walks from `player` to every cell it can reach without pushing."""
    ways: dict[int, Plan] = {player: []}
    todo = deque([player])
    while todo:
        cell = todo.popleft()
        for action, d in zip(ACTIONS, offsets(width), strict=True):
            if cell + d not in ways and not cells[cell + d] & (WALL | BOX):
                ways[cell + d] = [*ways[cell], action]
                todo.append(cell + d)
    return ways


def plan_push(env: SokobanEnv) -> Plan:
    """Moves up to the next push: the one that brings a box nearest to its nearest goal.

    Pushes that are seen to lose are left out; of equally good ones the one with the
    shortest walk is taken. Empty if there is none.
    """
    board = env.board
    cells, width = bytearray(board.cells), board.level.width
    distance = push_distances(board.level)
    ways = walks(cells, width, board.player)
    best: tuple[int, int, Plan] | None = None
    for action, d in zip(ACTIONS, offsets(width), strict=True):
        for box in (i for i, c in enumerate(cells) if c & BOX):
            to = box + d
            if box - d not in ways or cells[to] & (WALL | BOX):
                continue
            before, after = distance[box], distance[to]
            cells[box] ^= BOX
            cells[to] ^= BOX
            lost = is_lost(cells, width, distance, to)
            cells[box] ^= BOX
            cells[to] ^= BOX
            if lost or before is None or after is None:
                continue
            plan = [*ways[box - d], action]
            if best is None or (after - before, len(plan)) < best[:2]:
                best = (after - before, len(plan), plan)
    return [] if best is None else best[2]


class GreedyAgent:
    """A heuristic between the floor and the ceiling.

    Sokoban: always the push that gains most right now (`plan_push`). Bandits: the machine
    that pays more in one trial pull of each (`greedy_bandit`). Incidents: what is most frequent
    on the alerted host (`investigators.greedy`).

    Raises:
        ValueError: from `act`, for an environment without a heuristic.
    """

    def __init__(self) -> None:
        self._plans: dict[History, Plan] = {}
        self._investigator = ScriptAgent(greedy)

    def act(self, histories: Sequence[History]) -> list[Reply]:
        if histories and isinstance(histories[0].env.grammar, CommandGrammar):
            return self._investigator.act(histories)
        self._plans = {h: self._plans.get(h) or self._plan(h.env) for h in histories}
        return [Reply(plan.pop(0)) for plan in self._plans.values()]

    def _plan(self, env: EpisodeEnv) -> Plan:
        if isinstance(env, SokobanEnv):
            return plan_push(env) or ["up"]  # with no push left that is not a loss, anything
        if isinstance(env, MachinesEnv):
            return [greedy_bandit(env)]
        raise ValueError(f"there is no heuristic for {type(env).__name__}")
