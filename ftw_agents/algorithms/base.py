"""What an algorithm is to the loop: which attempts are played, and what is learned from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ftw_agents.config import TrainConfig
from ftw_agents.lm.learner import Critic, Floats, Learner, Sample
from ftw_agents.starts import Start, training_starts
from ftw_envs.episode import Episode, Tokens
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


class Algorithm(ABC):
    """One per run. What it keeps from iteration to iteration it saves and loads.

    Args:
        config: of the run.
        env: for questions about instances and limits.
    """

    def __init__(self, config: TrainConfig, env: EpisodeEnv) -> None:
        self.config = config
        self.env = env

    def starts(self, version: int) -> list[Start]:
        """The attempts to be played by policy `version`: as many training instances."""
        return training_starts(self.env, self.config.seed, version, self.config.episodes)

    @abstractmethod
    def batch(self, played: Sequence[Episode], version: int, learner: Learner) -> LearningBatch:
        """What to learn from the episodes just played."""

    def save(self, folder: Path) -> None:  # noqa: B027 - most keep nothing
        """Writes what has to survive a restart."""

    def load(self, folder: Path) -> None:  # noqa: B027
        """Reads what `save` wrote."""

    def policy_gradient(
        self,
        played: Sequence[Episode],
        advantages: Sequence[Floats],
        critics: Sequence[Critic] | None = None,
    ) -> LearningBatch:
        """A batch of clipped policy gradient, averaged as `clip.aggregation` says.

        Args:
            advantages: of every action token of each episode.
            critics: of each episode, for a value head.
        """
        clip, longest = self.config.clip, self.config.max_reply_tokens * self.env.max_steps
        return policy_gradient(
            played, advantages, clip.aggregation, longest, critics, keep_all=clip.kl > 0
        )


def tokens_of(episode: Episode) -> Tokens:
    """The tokens of an episode. Raises ValueError for one without the sampled ones."""
    if episode.tokens is None:
        raise ValueError("a policy gradient needs episodes with the tokens that were sampled")
    return episode.tokens


def spread(played: Sequence[Episode], each: Floats) -> list[Floats]:
    """An episode's number, for each of its action tokens."""
    return [
        np.full(len(tokens_of(e).logprobs), a) for e, a in zip(played, each.tolist(), strict=True)
    ]


def scores_of(played: Sequence[Episode]) -> Floats:
    """Scores, shape (n,)."""
    return np.array([e.score for e in played], dtype=np.float64)


def policy_gradient(
    played: Sequence[Episode],
    advantages: Sequence[Floats],
    aggregation: str,
    longest: int,
    critics: Sequence[Critic] | None = None,
    *,
    keep_all: bool = False,
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
        keep_all: keep episodes without any advantage, for a term of the loss beside it.
    """
    lengths = [len(tokens_of(e).logprobs) for e in played]
    weights = [1.0] * len(played)
    norm = float(sum(lengths))
    if aggregation == "seq-mean-token-mean":
        weights, norm = [1 / max(1, n) for n in lengths], float(len(played))
    elif aggregation == "seq-mean-token-sum-norm":
        norm = float(len(played) * longest)
    samples = [
        Sample(tokens_of(e), w, a, critics[i] if critics else None)
        for i, (e, w, a) in enumerate(zip(played, weights, advantages, strict=True))
        if keep_all or critics or a.any()  # alone, no advantage is no gradient
    ]
    told = np.concatenate(list(advantages)) if played else np.zeros(1)
    stats = {
        "advantage_std": float(told.std()),
        "useful_share": sum(bool(a.any()) for a in advantages) / max(1, len(played)),
    }
    return LearningBatch(samples, norm, stats)
