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

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ftw_agents.algorithms.base import Algorithm, LearningBatch
from ftw_agents.algorithms.imitation import imitate, read_offline
from ftw_agents.buffer import Buffer
from ftw_agents.config import FTWConfig, TrainConfig
from ftw_agents.filters import (
    check_filter,
    effective_sample_size,
    expected_weights,
    exponential_weights,
    sampled_counts,
)
from ftw_agents.lm.learner import Learner
from ftw_envs.episode import Episode
from ftw_envs.streams import Stream
from ftw_envs.text_env import EpisodeEnv


def check(config: TrainConfig, env: EpisodeEnv) -> None:
    """Refuses settings that cannot work, before anything is played.

    Raises:
        ValueError: says which setting, and what would be right.
    """
    ftw = config.ftw
    if config.algo != "ftw-exp":
        check_filter(ftw.candidates, ftw.winners, config.episodes)
    if config.algo == "ftw" and ftw.batch_episodes % ftw.winners:
        raise ValueError(
            f"batch_episodes must be a multiple of the winners K = {ftw.winners} "
            f"(it is J * K), got {ftw.batch_episodes}"
        )
    if config.algo == "ftw-exp" and not ftw.temperature > 0:
        raise ValueError(f"temperature must be above 0, got {ftw.temperature}")
    if ftw.offline_iterations < 0:
        raise ValueError(f"offline_iterations must be at least 0, got {ftw.offline_iterations}")


class FTW(Algorithm):
    """Follow the Winners. Raises ValueError for a file of `offline` that cannot be used."""

    def __init__(self, config: TrainConfig, env: EpisodeEnv) -> None:
        super().__init__(config, env)
        self.buffer = Buffer(config.ftw.versions)
        self.given = [] if config.offline is None else read_offline(config.offline, config.env)

    def batch(self, played: Sequence[Episode], version: int, learner: Learner) -> LearningBatch:
        self.buffer.add(version, played)
        given = self.given if version <= self.config.ftw.offline_iterations else []
        stream = Stream("filter", self.config.seed, version)
        kept, weights, stats = choose(
            [*self.buffer.episodes, *given], version, self.config.algo, self.config.ftw, stream
        )
        batch = imitate(kept, learner, weights)
        batch.stats.update(stats)
        return batch

    def save(self, folder: Path) -> None:
        self.buffer.save(folder / "buffer.jsonl")

    def load(self, folder: Path) -> None:
        self.buffer.load(folder / "buffer.jsonl")


def choose(
    episodes: Sequence[Episode], version: int, algo: str, config: FTWConfig, stream: Stream
) -> tuple[list[Episode], list[float], dict[str, float]]:
    """The winners of one iteration, how often each counts, and figures about the choice.

    There are none where no draw told anything. Episodes of version 0 were given, not played.
    """
    scores = np.array([e.score for e in episodes], dtype=np.float64)
    weights = _weights(scores, algo, config, stream)
    kept = np.flatnonzero(weights)
    solved = np.array([e.solved for e in episodes], dtype=np.float64)
    given = np.array([e.policy_version == 0 for e in episodes])
    age = np.where(given, 0, version - np.array([e.policy_version for e in episodes]))
    total = weights.sum()
    stats = {
        "winners_solved": float(weights @ solved / total) if total else 0.0,
        "buffer_solved": float(solved.mean()),
        "effective_sample_size": effective_sample_size(weights),
        "winners_age": float(weights @ age / total) if total else 0.0,
        "winners_given": float(weights @ given / total) if total else 0.0,
        "batch_episodes": float(total),
    }
    return [episodes[i] for i in kept.tolist()], weights[kept].tolist(), stats


def _weights(
    scores: npt.NDArray[np.float64], algo: str, config: FTWConfig, stream: Stream
) -> npt.NDArray[np.float64]:
    c, k = config.candidates, config.winners
    if algo == "ftw-expected":
        weights = expected_weights(scores, c, k, skip_flat=config.skip_flat_draws)
        return weights * config.batch_episodes
    if algo == "ftw-exp":
        return exponential_weights(scores, config.temperature) * config.batch_episodes
    counts = sampled_counts(
        scores, c, k, config.batch_episodes // k, stream, skip_flat=config.skip_flat_draws
    )
    return counts.astype(np.float64)
