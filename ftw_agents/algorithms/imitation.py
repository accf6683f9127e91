"""Imitation of whole episodes: RAFT of one's own best ones, BC of given ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ftw_agents.algorithms.base import Algorithm, LearningBatch, scores_of
from ftw_agents.config import TrainConfig
from ftw_agents.lm.learner import Learner, Sample
from ftw_agents.starts import Start
from ftw_envs.episode import Episode, Tokens, read_episodes
from ftw_envs.streams import Stream
from ftw_envs.text_env import EpisodeEnv


def imitate(
    episodes: Sequence[Episode], learner: Learner, weights: Sequence[float] | None = None
) -> LearningBatch:
    """Mean negative log-likelihood of all action tokens of `episodes`, weighted.

    Episodes of the same tokens are read once, with the sum of their weights.
    """
    total: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Tokens, float]] = {}
    for episode, weight in zip(episodes, weights or [1.0] * len(episodes), strict=True):
        tokens = episode.tokens or learner.lm.tokenize(episode)
        key = tokens.ids, tokens.action
        first, before = total.get(key, (tokens, 0.0))
        total[key] = first, before + weight
    samples = [Sample(tokens, weight) for tokens, weight in total.values()]
    norm = float(sum(s.weight * sum(s.tokens.action) for s in samples))
    return LearningBatch(samples, norm, {"batch_episodes": sum(s.weight for s in samples)})


class RAFT(Algorithm):
    """The best share of the newest episodes, imitated; ties are broken at random.

    Source: Dong et al., "RAFT" (2023, arXiv 2304.06767), with one ranking over all starts
    in place of one for each. Beside FTW it shows what the buffer and the soft filter do.
    """

    def batch(self, played: Sequence[Episode], version: int, learner: Learner) -> LearningBatch:
        scores = scores_of(played)
        if scores.min() == scores.max():  # nothing is better than anything else
            return LearningBatch([], 1.0, {"winners_solved": 0.0, "batch_episodes": 0.0})
        ties = Stream("raft", self.config.seed, version).uniforms(len(played))
        keep = max(1, round(self.config.raft.keep * len(played)))
        best = np.lexsort((ties, -scores))[:keep]
        batch = imitate([played[i] for i in best], learner)
        batch.stats["winners_solved"] = float(np.mean([played[i].solved for i in best]))
        return batch


def check_raft(config: TrainConfig, env: EpisodeEnv) -> None:
    """Raises ValueError for settings that cannot work."""
    if not 0 < config.raft.keep < 1:
        raise ValueError(f"raft.keep must be between 0 and 1, got {config.raft.keep}")


def read_offline(path: Path, env_id: str) -> list[Episode]:
    """Recorded episodes of an environment, for imitation.

    Raises:
        ValueError: there are none, one is of another environment or not of the train split.
    """
    episodes = list(read_episodes(path))
    if not episodes:
        raise ValueError(f"{path}: no episodes there")
    for i, e in enumerate(episodes, 1):
        if e.env_id != env_id:
            raise ValueError(f"{path}:{i}: an episode of {e.env_id}, not of {env_id}")
        if e.instance.split != "train":
            raise ValueError(f"{path}:{i}: an episode of the {e.instance.split} split, not train")
    return episodes


class BC(Algorithm):
    """Imitation of the episodes in `offline`; nothing is played but evaluations."""

    def __init__(self, config: TrainConfig, env: EpisodeEnv) -> None:
        super().__init__(config, env)
        assert config.offline is not None
        self.given = read_offline(config.offline, config.env)

    def starts(self, version: int) -> list[Start]:
        return []

    def batch(self, played: Sequence[Episode], version: int, learner: Learner) -> LearningBatch:
        stream = Stream("bc", self.config.seed, version)
        return imitate([stream.choice(self.given) for _ in range(self.config.episodes)], learner)


def check_bc(config: TrainConfig, env: EpisodeEnv) -> None:
    """Raises ValueError for settings that cannot work."""
    if config.offline is None:
        raise ValueError("bc imitates given episodes: name a file with --offline")
