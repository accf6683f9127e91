"""PPO: a critic beside the policy says what was to be expected.

Source: Schulman et al., "Proximal Policy Optimization" (2017, arXiv 1707.06347) with
generalised advantage estimates (arXiv 1506.02438). The score is the reward of the last
action. With `ppo.level="token"` a step is an action token; observation tokens are no steps,
so nothing is carried through them or discounted by them. With "turn" a step is a reply:
it has one value, that before its first token, and one advantage for all its tokens.
Advantages are whitened over the batch. The critic is a linear head on the policy's last
hidden states; its loss is

    0.5 max((V - G)^2, (clip(V, V_old - c, V_old + c) - G)^2),  G = A + V_old,

times `ppo.value_coef`, and flows into the policy's trunk too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ftw_agents.algorithms.advantages import gae, turn_starts, whitened
from ftw_agents.algorithms.base import Algorithm, LearningBatch, tokens_of
from ftw_agents.config import TrainConfig
from ftw_agents.lm.learner import Critic, Learner
from ftw_envs.episode import Episode
from ftw_envs.text_env import EpisodeEnv


def check(config: TrainConfig, env: EpisodeEnv) -> None:
    """Raises ValueError for settings that cannot work."""
    for name in ("gamma", "lam"):
        if not 0 <= getattr(config.ppo, name) <= 1:
            raise ValueError(f"ppo.{name} must be from 0 to 1, got {getattr(config.ppo, name)}")
    for name in ("value_coef", "value_clip"):
        if not getattr(config.ppo, name) > 0:
            raise ValueError(f"ppo.{name} must be above 0, got {getattr(config.ppo, name)}")


class PPO(Algorithm):
    """Proximal policy optimisation."""

    def batch(self, played: Sequence[Episode], version: int, learner: Learner) -> LearningBatch:
        config = self.config.ppo
        tokens = [tokens_of(e) for e in played]
        values = learner.values(tokens)
        advantages, critics = [], []
        for episode, t, v in zip(played, tokens, values, strict=True):
            places = np.arange(len(v)) if config.level == "token" else turn_starts(t)
            rewards = np.zeros(len(places))
            rewards[-1] = episode.score
            a, g = gae(rewards, v[places], config.gamma, config.lam)
            spans = np.diff([*places, len(v)])
            advantages.append(np.repeat(a, spans))
            critics.append(Critic(places, v[places], g))
        told = np.concatenate([c.returns for c in critics])
        error = told - np.concatenate([c.values for c in critics])
        batch = self.policy_gradient(played, whitened(advantages), critics)
        batch.stats["explained_variance"] = float(1 - error.var() / (told.var() + 1e-8))
        return batch
