"""Plays the best there is, by looking behind the curtain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftw_agents.agent import History, Reply
from ftw_envs.bandit.sigma_trap import SigmaTrapEnv
from ftw_envs.sokoban.env import SokobanEnv
from ftw_envs.sokoban.solve import solve
from ftw_envs.text_env import EpisodeEnv

Plan = list[str]


def _plan_sokoban(env: EpisodeEnv) -> Plan:
    assert isinstance(env, SokobanEnv)
    solution = solve(env.board.level)
    return [] if solution is None else list(solution.actions)


def _plan_sigma_trap(env: EpisodeEnv) -> Plan:
    assert isinstance(env, SigmaTrapEnv)
    return [env.good_name()]


_PLANNERS: dict[type[EpisodeEnv], Callable[[EpisodeEnv], Plan]] = {
    SokobanEnv: _plan_sokoban,
    SigmaTrapEnv: _plan_sigma_trap,
}


class SolverAgent:
    """The ceiling: a shortest solution, or the arm with the higher mean."""

    def __init__(self) -> None:
        self._plans: dict[History, Plan] = {}

    def act(self, histories: Sequence[History]) -> list[Reply]:
        plans = {h: self._plans.get(h) or _PLANNERS[type(h.env)](h.env) for h in histories}
        self._plans = plans
        # Where there is nothing left to do an empty reply is unusable, and says so.
        return [Reply(plan.pop(0) if plan else "") for plan in plans.values()]
