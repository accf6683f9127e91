"""The one table of environments. A new id is a new row here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import gymnasium as gym

from ftw_envs.text_env import EpisodeEnv


@dataclass(frozen=True, slots=True)
class Row:
    """One environment id.

    Attributes:
        id: Gymnasium id, `ftw/Name-vN`.
        entry_point: "module:Class" of an `EpisodeEnv`.
        kwargs: what the id fixes; a user's keyword arguments come on top.
        vector_entry_point: "module:Class" of its batched form, if it has one.
    """

    id: str
    entry_point: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    vector_entry_point: str | None = None


def _sokoban(name: str, pack: str, max_steps: int, **view: Any) -> Row:
    kwargs = {"pack": pack, "max_steps": max_steps, **view}
    module = "ftw_envs.sokoban"
    return Row(
        f"ftw/{name}-v0",
        f"{module}.env:SokobanEnv",
        kwargs,
        f"{module}.vector:SokobanVectorEnv",
    )


TABLE = (
    _sokoban("SokobanMini", "mini", 15),
    _sokoban("Sokoban", "standard", 60),
    _sokoban("SokobanHard", "hard", 150),
    _sokoban("SokobanMiniVisual", "mini", 15, obs="image"),
    _sokoban("SokobanVisual", "standard", 60, obs="image"),
    Row("ftw/SigmaTrap-v0", "ftw_envs.bandit.sigma_trap:SigmaTrapEnv", {"sigma": 4.0}),
    Row("ftw/SigmaTrapChain-v0", "ftw_envs.bandit.chain:SigmaTrapChainEnv", {"sigma": 4.0}),
    Row("ftw/SigmaTrapContext-v0", "ftw_envs.bandit.context:SigmaTrapContextEnv", {"sigma": 4.0}),
    *(
        Row(f"ftw/IncidentL{level}-v0", "ftw_envs.incident.env:IncidentEnv", {"level": level})
        for level in range(5)
    ),
)


def register_all() -> None:
    """Registers every row with Gymnasium; a second call changes nothing."""
    for row in TABLE:
        if row.id not in gym.registry:
            # The environment counts its own steps, so that its limit is part of the task
            # text and holds without wrappers too; Gymnasium's TimeLimit is not needed.
            gym.register(
                row.id,
                row.entry_point,
                kwargs=dict(row.kwargs),
                vector_entry_point=row.vector_entry_point,
            )


def make(env_id: str, **kwargs: Any) -> EpisodeEnv:
    """The bare environment behind an id, without Gymnasium's wrappers.

    Raises:
        ValueError: the id is not one of ours, or an argument is wrong; says what would be right.
    """
    if env_id not in {row.id for row in TABLE}:
        known = ", ".join(row.id for row in TABLE)
        raise ValueError(f"unknown environment {env_id!r}; there are {known}")
    try:
        env = gym.make(env_id, disable_env_checker=True, **kwargs)
    except TypeError as e:
        raise ValueError(f"{env_id}: {e}") from None
    return cast(EpisodeEnv, env.unwrapped)
