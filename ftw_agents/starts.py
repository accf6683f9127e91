"""Which attempts are played: instances and noise seeds, fixed by names and numbers."""

from __future__ import annotations

from dataclasses import dataclass

from ftw_envs.streams import Stream
from ftw_envs.text_env import EpisodeEnv


@dataclass(frozen=True, slots=True)
class Start:
    """One attempt to be played.

    Attributes:
        split, index: the instance.
        seed: noise of the environment.
        attempt: which attempt at this very start; the player throws other dice in each.
    """

    split: str
    index: int
    seed: int
    attempt: int = 0


def training_starts(env: EpisodeEnv, seed: int, version: int, n: int) -> list[Start]:
    """`n` training instances with fresh noise, fixed by the run's seed and policy version."""
    stream = Stream("train-starts", seed, version)
    count = env.instance_count("train")
    return [Start("train", stream.integer(count), stream.word() >> 1) for _ in range(n)]


def evaluation_starts(env: EpisodeEnv, split: str, n: int, seed: int) -> list[Start]:
    """The first `n` instances of a split, each once, with noise fixed by `seed`.

    Raises:
        ValueError: there is no such split, it has fewer instances, or n < 1.
    """
    count = env.instance_count(env.known_split(split))
    if not 1 <= n <= count:
        raise ValueError(f"episodes must be from 1 to {count} (instances in {split!r}), got {n}")
    return [Start(split, i, Stream("evaluation", seed, i).word() >> 1) for i in range(n)]
