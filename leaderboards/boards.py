"""The boards: which task is ranked on which instances. A new board is a new row here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ftw_agents.config import parse_env_args
from ftw_envs.registry import make
from ftw_envs.text_env import EpisodeEnv

PUBLIC_SEED = 0
"""Names the noise of every public board: all entries meet the same noise on an instance."""


@dataclass(frozen=True, slots=True)
class Board:
    """One table.

    Attributes:
        name: what entries and pages call it.
        title: for people.
        env_id: the environment, always with its own settings of the task.
        split: whose instances are played, each once, in order.
        episodes: how many instances, the first of the split.
        views: keyword arguments that an entry may choose, and their values: what the agent sees
            and never what the task is.
        replay: how pages show an attempt.
    """

    name: str
    title: str
    env_id: str
    split: str
    episodes: int
    views: dict[str, tuple[Any, ...]]
    replay: str


_SOKOBAN_VIEWS = {"obs": ("text", "coords")}
_INCIDENT_VIEWS = {"guide": ("full", "brief")}

BOARDS = {
    board.name: board
    for board in (
        Board("sokoban-mini", "Sokoban Mini", "ftw/SokobanMini-v0", "test", 1000,
              _SOKOBAN_VIEWS, "sokoban"),
        Board("sokoban", "Sokoban", "ftw/Sokoban-v0", "test", 1000, _SOKOBAN_VIEWS, "sokoban"),
        Board("sigma-trap", "σ-trap (σ = 4)", "ftw/SigmaTrap-v0", "test", 1000, {}, "bandit"),
        *(
            Board(f"incident-l{level}{name}", f"Incident L{level}{title}",
                  f"ftw/IncidentL{level}-v0", split, 1000, _INCIDENT_VIEWS, "incident")
            for level in range(5)
            for split, name, title in (
                ("test", "", ""),
                ("test_names", "-names", ", new names"),
                ("test_family", "-family", ", new families"),
            )
        ),
    )
}  # fmt: skip


def board_of(name: str) -> Board:
    """The board of that name.

    Raises:
        ValueError: there is none; says which there are.
    """
    if name not in BOARDS:
        raise ValueError(f"there is no board {name!r}; there are {', '.join(BOARDS)}")
    return BOARDS[name]


def view_of(kwargs: dict[str, Any]) -> list[str]:
    """Keyword arguments as an entry's view: key=value, in the order of their names."""
    told = ((k, v if isinstance(v, str) else json.dumps(v)) for k, v in sorted(kwargs.items()))
    return [f"{key}={value}" for key, value in told]


def open_env(board: Board, view: list[str]) -> EpisodeEnv:
    """The board's environment as an entry sees it.

    Args:
        view: chosen arguments, as `view_of` writes them.

    Raises:
        ValueError: an argument is not one that entries of this board may choose.
    """
    kwargs = parse_env_args(view)
    if view != (right := view_of(kwargs)):
        raise ValueError(f"view: must be written as {' '.join(right)}, got {' '.join(view)}")
    for key, value in kwargs.items():
        if key not in board.views:
            free = ", ".join(board.views) or "nothing"
            raise ValueError(f"view: {key} is part of the task on {board.name}; free is {free}")
        if value not in board.views[key]:
            known = ", ".join(map(str, board.views[key]))
            raise ValueError(f"view: {key} must be one of {known}, got {value!r}")
    return make(board.env_id, **kwargs)
