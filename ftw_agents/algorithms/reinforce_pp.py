"""REINFORCE++: the score against the mean of the whole batch; no groups, no critic.

Source: Hu, "REINFORCE++" (2025, arXiv 2501.03262). The advantage of an episode, and of all
its action tokens, is its score normalised over the batch of distinct instances,

    A_i = (R_i - mean of all) / (standard deviation of all),

with the mean over episodes, so that long ones do not set the baseline (public trainers
take it over tokens). Without a discount an episode's score is the return of each of its
tokens, whatever was observed in between. The loss is PPO's clipped ratio plus `clip.kl`
times the KL divergence to the model the run started from (where the paper takes the
divergence off the reward).
"""

from __future__ import annotations

from collections.abc import Sequence

from ftw_agents.algorithms.advantages import batch_advantages
from ftw_agents.algorithms.base import Algorithm, LearningBatch, scores_of, spread
from ftw_agents.lm.learner import Learner
from ftw_envs.episode import Episode


class ReinforcePP(Algorithm):
    """REINFORCE++."""

    def batch(self, played: Sequence[Episode], version: int, learner: Learner) -> LearningBatch:
        return self.policy_gradient(played, spread(played, batch_advantages(scores_of(played))))
