"""Follow the Winners: draw a few episodes from the buffer, imitate the best, gently.

Source: de Vries, Lawrence, Dai, "Follow the Winners" (arXiv 2610.03361), Algorithm 2 and
Eq. 5, as quoted by others; the update's sizes are ours. The learning batch is the buffer
tilted towards high scores,

    loss = mean over the batch's action tokens of [ -log p_theta(token) ]
           + kl * mean KL(p_theta || p_k),

started at the policy p_k that just played, with few, small steps. No critic, no repeated
attempts from one start, no importance ratio: episodes only need to be ranked.

Variants: `ftw` draws (C, K, J); `ftw-expected` uses each episode's exact chance to win
(ours: the same target, without the noise of drawing); `ftw-exp` weights by
exp(score / temperature), which one lucky score can own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ftw_agents.buffer import Buffer
from ftw_agents.config import FTWConfig
from ftw_agents.filters import (
    check_filter,
    effective_sample_size,
    expected_weights,
    exponential_weights,
    sampled_counts,
)
from ftw_envs.episode import Episode
from ftw_envs.streams import Stream


@dataclass(frozen=True, slots=True)
class LearningBatch:
    """Episodes to imitate and how much each counts, with figures about the choice."""

    episodes: list[Episode]
    weights: list[float]
    stats: dict[str, float]


def check_config(config: FTWConfig, episodes_per_iteration: int) -> None:
    """Refuses settings that cannot work, before anything is played.

    Raises:
        ValueError: says which setting, and what would be right.
    """
    if config.filter != "exp":
        check_filter(config.candidates, config.winners, episodes_per_iteration)
    if config.filter == "sampled" and config.batch_episodes % config.winners:
        raise ValueError(
            f"batch_episodes must be a multiple of the winners K = {config.winners} "
            f"(it is J * K), got {config.batch_episodes}"
        )
    if config.filter == "exp" and not config.temperature > 0:
        raise ValueError(f"temperature must be above 0, got {config.temperature}")


def choose(buffer: Buffer, config: FTWConfig, stream: Stream) -> LearningBatch:
    """The learning batch of one iteration. It is empty where no draw told anything."""
    episodes, scores = buffer.episodes, buffer.scores
    weights = _weights(scores, config, stream)
    kept = np.flatnonzero(weights)
    solved = np.array([e.solved for e in episodes], dtype=np.float64)
    age = buffer.versions[-1] - np.array([e.policy_version for e in episodes])
    total = weights.sum()
    stats = {
        "winners_solved": float(weights @ solved / total) if total else 0.0,
        "buffer_solved": float(solved.mean()),
        "effective_sample_size": effective_sample_size(weights),
        "winners_age": float(weights @ age / total) if total else 0.0,
        "batch_episodes": float(total),
    }
    return LearningBatch([episodes[i] for i in kept], weights[kept].tolist(), stats)


def _weights(
    scores: npt.NDArray[np.float64], config: FTWConfig, stream: Stream
) -> npt.NDArray[np.float64]:
    c, k = config.candidates, config.winners
    if config.filter == "expected":
        return expected_weights(scores, c, k) * config.batch_episodes
    if config.filter == "exp":
        return exponential_weights(scores, config.temperature) * config.batch_episodes
    counts = sampled_counts(
        scores, c, k, config.batch_episodes // k, stream, skip_flat=config.skip_flat_draws
    )
    return counts.astype(np.float64)
