"""Plays the best there is, by looking behind the curtain."""

from __future__ import annotations

from collections.abc import Sequence

from ftw_agents.agent import History, Reply
from ftw_agents.scripted.bandit import plan_bandit
from ftw_envs.bandit.machines import MachinesEnv
from ftw_envs.incident.env import IncidentEnv
from ftw_envs.incident.instance import truth
from ftw_envs.incident.score import report_of
from ftw_envs.sokoban.env import SokobanEnv
from ftw_envs.sokoban.solve import GaveUpError, solve
from ftw_envs.text_env import EpisodeEnv

Plan = list[str]
_MAX_POSITIONS = 500_000


def _plan_sokoban(env: SokobanEnv) -> Plan:
    try:
        solution = solve(env.board.level, "moves", _MAX_POSITIONS)
    except GaveUpError:  # a level from a file may be too large to be solved in fewest moves
        solution = solve(env.board.level, "any")
    return [] if solution is None else list(solution.actions)


def _plan_incident(env: IncidentEnv) -> Plan:
    """The right report, after the attacker was put out where he has to be."""
    attack, orders = env.world.attack, []
    if attack is not None and env.level.reacts:
        orders = [f"clean h{h + 1}" for h in sorted(env.world.implants)]
        orders += [f"rotate u{u + 1}" for u in dict.fromkeys(attack.accounts)]
    known = truth(env.incident)
    return [*orders, "set " + report_of(known, env.level.slots), "report"]


def plan(env: EpisodeEnv) -> Plan:
    """The best replies: of a whole Sokoban level or incident, of a bandit's next choice.

    Raises:
        ValueError: there is no known best for this environment.
    """
    if isinstance(env, SokobanEnv):
        return _plan_sokoban(env)
    if isinstance(env, MachinesEnv):
        return plan_bandit(env)
    if isinstance(env, IncidentEnv):
        return _plan_incident(env)
    raise ValueError(f"there is no solver for {type(env).__name__}")


class SolverAgent:
    """The ceiling: a shortest solution, the arm with the higher mean, the right report."""

    def __init__(self) -> None:
        self._plans: dict[History, Plan] = {}

    def act(self, histories: Sequence[History]) -> list[Reply]:
        plans = {h: self._plans.get(h) or plan(h.env) for h in histories}
        self._plans = plans
        # Where there is nothing left to do an empty reply is unusable, and says so.
        return [Reply(plan.pop(0) if plan else "") for plan in plans.values()]
