"""GRPO: an attempt is as good as it is better than others from the same start.

Source: Shao et al., "DeepSeekMath" (2024, arXiv 2402.03300), outcome supervision. Each
instance is attempted `group` times with the same noise; the advantage of an attempt, and of
all its action tokens, is

    A_i = (R_i - mean of its group) / (standard deviation of its group)

without the division with `divide_by_std=False` (Dr. GRPO, Liu et al., 2025, arXiv 2503.20783).
The loss is the clipped ratio of PPO, averaged as `clip.aggregation` says, plus `clip.kl`
times the KL divergence to the model the run started from. It needs an environment in which
a start can be had again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ftw_agents.algorithms.advantages import group_advantages
from ftw_agents.algorithms.base import Algorithm, LearningBatch, scores_of, spread
from ftw_agents.config import TrainConfig
from ftw_agents.lm.learner import Learner
from ftw_agents.starts import Start, training_starts
from ftw_envs.episode import Episode
from ftw_envs.text_env import EpisodeEnv


def check(config: TrainConfig, env: EpisodeEnv) -> None:
    """Raises ValueError for settings that cannot work."""
    group = config.grpo.group
    if group < 2:
        raise ValueError(
            f"grpo.group must be at least 2, got {group}: one attempt has nothing to be compared to"
        )
    if config.episodes % group:
        raise ValueError(
            f"episodes must be a multiple of grpo.group = {group}, got {config.episodes}"
        )
    if not env.repeatable:
        raise ValueError(
            f"GRPO needs several attempts from one start, and {config.env} cannot repeat a start; "
            "take ftw, ppo or reinforce++"
        )


class GRPO(Algorithm):
    """Group-relative policy optimisation."""

    def starts(self, version: int) -> list[Start]:
        group = self.config.grpo.group
        firsts = training_starts(self.env, self.config.seed, version, self.config.episodes // group)
        return [replace(s, attempt=i) for s in firsts for i in range(group)]

    def batch(self, played: Sequence[Episode], version: int, learner: Learner) -> LearningBatch:
        config = self.config.grpo
        scores = scores_of(played)
        each = group_advantages(scores, config.group, divide_by_std=config.divide_by_std)
        batch = self.policy_gradient(played, spread(played, each))
        groups = scores.reshape(-1, config.group)
        batch.stats["flat_groups"] = float((groups.min(axis=1) == groups.max(axis=1)).mean())
        return batch
