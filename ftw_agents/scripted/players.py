"""The players that are programs, by the names that commands take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ftw_agents.agent import Agent
from ftw_agents.scripted.constant import ConstantAgent
from ftw_agents.scripted.greedy import GreedyAgent
from ftw_agents.scripted.idle import IdleAgent
from ftw_agents.scripted.investigators import PLAYERS, ScriptAgent
from ftw_agents.scripted.random import RandomAgent
from ftw_agents.scripted.solver import SolverAgent

SCRIPTED: dict[str, Callable[[], Agent]] = {
    "idle": IdleAgent,
    "random": RandomAgent,
    "first": ConstantAgent,
    "greedy": GreedyAgent,
    "solver": SolverAgent,
    **{name: partial(ScriptAgent, script) for name, script in PLAYERS.items()},
}
"""Players that are programs, by name: nothing, anything, always the first, a rule, the best.

Those after `solver` play incidents only.
"""
