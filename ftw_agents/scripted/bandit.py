"""Players of the bandits, and what they score on average, exactly."""

from __future__ import annotations

from collections.abc import Callable
from math import hypot, prod
from statistics import NormalDist
from typing import NamedTuple

from ftw_envs.bandit.machines import Arm, MachinesEnv
from ftw_envs.streams import Stream


def plan_bandit(env: MachinesEnv) -> list[str]:
    """The optimum for the choice at hand: the machine with the higher mean."""
    return [env.good_name()]


def greedy_bandit(env: MachinesEnv) -> str:
    """The machine that paid more when each was tried once: a player who trusts luck.

    The trial pulls are its own; they tell nothing about what the attempt will pay.
    """

    def trial(name: str) -> float:
        return env.arm(env.kind_of(name)).pay(Stream("trial-pull", env.noise_seed, name))

    return max(env.names, key=trial)


class Expected(NamedTuple):
    """Means over instances and noise."""

    solve_rate: float
    score: float


def _luck(good: Arm, other: Arm) -> float:
    """Chance that one pull of the good arm pays more than one of the other."""
    spread = hypot(good.sigma, other.sigma)
    return NormalDist().cdf((good.mean - other.mean) / spread) if spread else 1.0


# Chance that a player takes the good machine of a choice. Which of the two is told first
# is even odds, so always the first is as good as a coin.
_CHANCES: dict[str, Callable[[Arm, Arm], float]] = {
    "optimal": lambda good, other: 1.0,
    "trapped": lambda good, other: 0.0,
    "constant": lambda good, other: 0.5,
    "random": lambda good, other: 0.5,
    "greedy": _luck,
}


def expected(env: MachinesEnv, player: str) -> Expected:
    """What a player solves and scores on average, in closed form.

    Args:
        player: "optimal" (always the good machine), "trapped" (always the other one),
            "constant" (always the first told, or always the second), "random", "greedy",
            or "idle" (no usable reply).

    Raises:
        ValueError: another player.
    """
    if player == "idle":
        return Expected(0.0, 0.0)
    if player not in _CHANCES:
        raise ValueError(f"player must be one of {', '.join(_CHANCES)}, idle, got {player!r}")
    choices = [(good, other, _CHANCES[player](good, other)) for good, other in env.choices()]
    score = sum(p * good.mean + (1 - p) * other.mean for good, other, p in choices)
    return Expected(prod(p for *_, p in choices), score)
