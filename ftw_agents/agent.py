"""What an agent is: a batch of histories in, a batch of replies out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ftw_envs.streams import Stream
from ftw_envs.text_env import EpisodeEnv


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answers in one turn.

    Attributes:
        text: the reply, any string.
        prompt_ids: tokens read since its last reply; empty for agents without tokens.
        ids: tokens of the reply as they were sampled, the end token included.
        logprobs: log-probability of each of `ids`, nats.
    """

    text: str
    prompt_ids: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


@dataclass(eq=False, slots=True)
class History:
    """An episode so far, as its player knows it; compared and hashed by identity.

    Attributes:
        observations: what the environment showed, one more than there are replies: text, or
            {"image" or "grid": array, "text": str} in views with pictures.
        replies: what the agent answered.
        stream: the randomness of this attempt's player; draws from it depend on nothing else.
        env: the environment itself. Only scripted players that are meant to know the
            answer (solver, optimum) may look at it.
    """

    observations: list[Any]
    stream: Stream
    env: EpisodeEnv
    replies: list[Reply] = field(default_factory=list)


class Agent(Protocol):
    """Anything that plays."""

    def act(self, histories: Sequence[History]) -> list[Reply]:
        """One reply for each history, in order."""
        ...
