"""Does nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ftw_agents.agent import History, Reply


class IdleAgent:
    """Answers nothing: an empty reply is unusable, so the world never changes."""

    def act(self, histories: Sequence[History]) -> list[Reply]:
        return [Reply("") for _ in histories]
