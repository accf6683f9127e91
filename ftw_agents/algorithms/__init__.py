"""Algorithms by name: what they refuse, what they are, and what the learner minimises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ftw_agents.algorithms import ftw, grpo, imitation, ppo
from ftw_agents.algorithms.base import Algorithm
from ftw_agents.algorithms.reinforce_pp import ReinforcePP
from ftw_agents.config import TrainConfig
from ftw_agents.lm.learner import LossConfig
from ftw_envs.text_env import EpisodeEnv


def _nothing(config: TrainConfig, env: EpisodeEnv) -> None:
    return


def _imitation(config: TrainConfig) -> LossConfig:
    return LossConfig()


def _winners(config: TrainConfig) -> LossConfig:
    return LossConfig(kl=config.ftw.kl)


def _clipped(config: TrainConfig) -> LossConfig:
    clip = config.clip
    return LossConfig(kl=clip.kl, clip_low=clip.low, clip_high=clip.high)


def _with_critic(config: TrainConfig) -> LossConfig:
    ppo = config.ppo
    return replace(_clipped(config), value_coef=ppo.value_coef, value_clip=ppo.value_clip)


@dataclass(frozen=True, slots=True)
class Kind:
    """One algorithm.

    Attributes:
        make: makes it for a run.
        check: raises ValueError for settings that cannot work.
        loss: what the learner minimises.
        policy_gradient: learns by the clipped ratio, `clip.epochs` times over, with the KL
            term to the model the run started from; else imitates once, with the KL term
            to the policy that just played.
    """

    make: Callable[[TrainConfig, EpisodeEnv], Algorithm]
    check: Callable[[TrainConfig, EpisodeEnv], None]
    loss: Callable[[TrainConfig], LossConfig]
    policy_gradient: bool = False


KINDS = {
    "ftw": Kind(ftw.FTW, ftw.check, _winners),
    "ftw-expected": Kind(ftw.FTW, ftw.check, _winners),
    "ftw-exp": Kind(ftw.FTW, ftw.check, _winners),
    "raft": Kind(imitation.RAFT, imitation.check_raft, _imitation),
    "bc": Kind(imitation.BC, imitation.check_bc, _imitation),
    "grpo": Kind(grpo.GRPO, grpo.check, _clipped, policy_gradient=True),
    "reinforce++": Kind(ReinforcePP, _nothing, _clipped, policy_gradient=True),
    "ppo": Kind(ppo.PPO, ppo.check, _with_critic, policy_gradient=True),
}
"""By the name in `TrainConfig.algo`."""
