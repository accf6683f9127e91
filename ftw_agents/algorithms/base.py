"""What an algorithm is to the loop: which attempts are played, and what is learned from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from ftw_agents.config import TrainConfig
from ftw_agents.lm.learner import Critic, Floats, Learner, Sample
from ftw_agents.starts import Start, training_starts
from ftw_envs.episode import Episode
from ftw_envs.text_env import EpisodeEnv


@dataclass(frozen=True, slots=True)
class LearningBatch:
    """What the learner gets in one iteration.

    Attributes:
        samples: what to learn from; empty where there is nothing to be learned.
        norm: what the weighted sum over all action tokens of `samples` is divided by.
        stats: figures about the choice, for the metrics.
    """

    samples: list[Sample]
    norm: float
    stats: dict[str, float] = field(default_factory=dict)


class Algorithm(Protocol):
    """One per run; its state is what it keeps from iteration to iteration."""

    def starts(self, version: int) -> list[Start]:
        """The attempts to be played by policy `version`."""
        ...

    def batch(self, played: Sequence[Episode], version: int, learner: Learner) -> LearningBatch:
        """What to learn from the episodes just played."""
        ...

    def save(self, folder: Path) -> None:
        """Writes what has to survive a restart."""
        ...

    def load(self, folder: Path) -> None:
        """Reads what `save` wrote."""
        ...


class OnPolicy:
    """Algorithms that learn from the newest episodes alone and keep nothing.

    Args:
        config: of the run.
        env: for questions about instances and limits.
    """

    def __init__(self, config: TrainConfig, env: EpisodeEnv) -> None:
        self.config = config
        self.env = env
        self.longest = config.max_reply_tokens * env.max_steps
        """Action tokens an episode can have at most."""

    def starts(self, version: int) -> list[Start]:
        return training_starts(self.env, self.config.seed, version, self.config.episodes)

    def save(self, folder: Path) -> None:
        return

    def load(self, folder: Path) -> None:
        return


def action_tokens(episode: Episode) -> int:
    """How many tokens the agent wrote. Raises ValueError for an episode without its tokens."""
    if episode.tokens is None:
        raise ValueError("a policy gradient needs episodes with the tokens that were sampled")
    return len(episode.tokens.logprobs)


def scores_of(played: Sequence[Episode]) -> Floats:
    """Scores, shape (n,)."""
    return np.array([e.score for e in played], dtype=np.float64)


def policy_gradient(
    played: Sequence[Episode],
    advantages: Sequence[Floats],
    aggregation: str,
    longest: int,
    critics: Sequence[Critic | None] | None = None,
) -> LearningBatch:
    """A batch of clipped policy gradient from an advantage for every action token.

    Args:
        advantages: of each episode, shape (its action tokens,).
        aggregation: how tokens are averaged, by the names of public trainers:
            "token-mean" (DAPO: over all tokens), "seq-mean-token-mean" (GRPO: over the
            tokens of an episode, then over episodes), "seq-mean-token-sum-norm" (Dr. GRPO:
            summed, divided by episodes times `longest`).
        longest: action tokens an episode can have at most.
        critics: of each episode, for a value head.
    """
    lengths = [action_tokens(e) for e in played]
    weights = [1.0] * len(played)
    norm = float(sum(lengths))
    if aggregation == "seq-mean-token-mean":
        weights, norm = [1 / max(1, n) for n in lengths], float(len(played))
    elif aggregation == "seq-mean-token-sum-norm":
        norm = float(len(played) * longest)
    samples = [
        Sample(e.tokens, w, a, c)
        for e, w, a, c in zip(
            played, weights, advantages, critics or [None] * len(played), strict=True
        )
        # Without an advantage there is no gradient, but a critic learns from all.
        if e.tokens is not None and (a.any() or c is not None)
    ]
    told = np.concatenate(list(advantages)) if played else np.zeros(1)
    stats = {
        "advantage_std": float(told.std()),
        "useful_share": len(samples) / max(1, len(played)),
    }
    return LearningBatch(samples, norm, stats)
