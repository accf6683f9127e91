"""Plays the same answer over and over."""

from __future__ import annotations

from collections.abc import Sequence

from ftw_agents.agent import History, Reply


class ConstantAgent:
    """Always the first answer an environment names, or always the second.

    Args:
        position: 0 for the first, 1 for the second.

    Raises:
        ValueError: another position.
    """

    def __init__(self, position: int = 0) -> None:
        if position not in (0, 1):
            raise ValueError(f"position must be 0 or 1, got {position!r}")
        self.position = position

    def act(self, histories: Sequence[History]) -> list[Reply]:
        return [Reply(h.env.grammar.actions[self.position]) for h in histories]
