"""Environments for agents that act over many steps. Importing this registers them all."""

from ftw_envs.episode import Episode, EpisodeError, Instance, Turn, read_episodes, write_episodes
from ftw_envs.registry import make, register_all
from ftw_envs.text_env import EpisodeEnv

__version__ = "0.1.0"

__all__ = [
    "Episode",
    "EpisodeEnv",
    "EpisodeError",
    "Instance",
    "Turn",
    "make",
    "read_episodes",
    "write_episodes",
]

register_all()
