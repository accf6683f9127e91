"""Plays a uniformly random known action."""

from __future__ import annotations

from collections.abc import Sequence

from ftw_agents.agent import History, Reply


class RandomAgent:
    """The floor: what happens without looking."""

    def act(self, histories: Sequence[History]) -> list[Reply]:
        return [Reply(h.stream.choice(h.env.grammar.actions)) for h in histories]
