"""Helpers of the incident tests: an attempt from its start to its end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ftw_envs.incident.env import IncidentEnv
from ftw_envs.registry import make

Script = Callable[[str], Generator[str, str, None]]


def incident(level: int, **kwargs: Any) -> IncidentEnv:
    env = make(f"ftw/IncidentL{level}-v0", **kwargs)
    assert isinstance(env, IncidentEnv)
    return env


def begin(
    env: IncidentEnv, index: int = 0, seed: int | None = 0, split: str = "test"
) -> tuple[str, dict]:
    return env.reset(seed=seed, options={"split": split, "index": index})


def attempt(
    env: IncidentEnv, script: Script, index: int, seed: int | None = 0, split: str = "test"
) -> tuple[dict, list[tuple[str, str]]]:
    """The last info, and every command with what was answered."""
    text, info = begin(env, index, seed, split)
    play = script(text)
    told: list[tuple[str, str]] = []
    command = next(play)
    while True:
        text, _, terminated, truncated, info = env.step(command)
        told.append((command, text))
        if terminated or truncated:
            return info, told
        command = play.send(text)


def solve_rate(
    env: IncidentEnv, script: Script, episodes: range, split: str = "test", seed: int = 0
) -> float:
    solved = [attempt(env, script, i, seed + i, split)[0]["solved"] for i in episodes]
    return sum(solved) / len(solved)
