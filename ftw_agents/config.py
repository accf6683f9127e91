"""Every setting of a run. One definition serves the command line, Python and config.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class FTWConfig:
    """Settings of Follow the Winners."""

    candidates: int = 4
    """C: episodes drawn from the buffer at a time."""
    winners: int = 1
    """K: the best of each draw that are kept. K = C/2 is noise-neutral, fewer seek risk."""
    batch_episodes: int = 512
    """Episodes imitated in an iteration, repeats counted: J * K."""
    versions: int = 8
    """Policy versions whose episodes the buffer holds."""
    skip_flat_draws: bool = True
    """Leave out draws in which all scores are equal, for they tell nothing."""
    temperature: float = 1.0
    """Temperature of ftw-exp, in units of the score."""
    kl: float = 0.0
    """Weight of the KL term to the policy that played the newest episodes."""
    offline_iterations: int = 20
    """Iterations in which the episodes of `offline` are candidates beside the buffer."""


@dataclass(frozen=True)
class ClipConfig:
    """Settings of the clipped policy gradient: grpo, ppo, reinforce++."""

    low: float = 0.2
    """The ratio of new to old probability counts from 1 - low ..."""
    high: float = 0.2
    """... to 1 + high."""
    epochs: int = 1
    """How often a batch is gone through."""
    kl: float = 0.0
    """Weight of the KL term to the model the run started from."""
    aggregation: Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"] = (
        "token-mean"
    )
    """How tokens are averaged: over all (DAPO), over episodes' means (GRPO), or summed and
    divided by the longest an episode can be (Dr. GRPO)."""


@dataclass(frozen=True)
class GRPOConfig:
    """Settings of GRPO."""

    group: int = 8
    """Attempts from one start; `episodes` must be a multiple of it."""
    divide_by_std: bool = True
    """Divide by the group's standard deviation; without it as in Dr. GRPO."""


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO's critic."""

    level: Literal["token", "turn"] = "token"
    """What a step is: an action token, or a whole reply."""
    gamma: float = 1.0
    """Discount of a step."""
    lam: float = 0.95
    """Lambda of the generalised advantage estimates."""
    value_coef: float = 0.1
    """Weight of the critic's loss."""
    value_clip: float = 0.2
    """How far a value counts as moved from what it was."""


@dataclass(frozen=True)
class RAFTConfig:
    """Settings of RAFT."""

    keep: float = 0.25
    """Share of the newest episodes that is imitated, the best ones."""


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run."""

    env: str = "ftw/SokobanMini-v0"
    """Environment id."""
    env_args: tuple[str, ...] = ()
    """The environment's keyword arguments as key=value, for example obs=coords."""
    base: str = "tiny"
    """The model to fine-tune: "tiny" for the bundled base (which plays obs=coords unless
    env_args say otherwise), else a folder or hub name."""
    algo: Literal["ftw", "ftw-expected", "ftw-exp", "raft", "grpo", "ppo", "reinforce++", "bc"] = (
        "ftw"
    )
    """The algorithm; each has a file in ftw_agents/algorithms that says what it does."""
    offline: Path | None = None
    """Recorded training episodes (JSONL): candidates for ftw, what bc imitates."""
    out: Path = Path("runs/ftw")
    """The run's folder; it must not exist yet."""
    iterations: int = 100
    """Rounds of collecting, choosing and imitating."""
    episodes: int = 256
    """Episodes played in an iteration."""
    lr: float = 5e-4
    """The optimiser's step size."""
    optimizer: Literal["adam", "sgd"] = "adam"
    """What takes the steps; plain gradient descent keeps their size, Adam evens it out."""
    max_grad_norm: float = 1.0
    """Longer gradients are shortened to this norm."""
    minibatch: int = 32
    """Different episodes in one gradient step."""
    max_reply_tokens: int = 8
    """A reply without an end token is cut here."""
    eval_every: int = 10
    """Iterations between evaluations on the valid split."""
    eval_episodes: int = 512
    """Valid instances played in an evaluation."""
    checkpoint_every: int = 10
    """Iterations between checkpoints; a killed run loses at most what came after the last."""
    seed: int = 0
    """Names all randomness of the run."""
    ftw: FTWConfig = field(default_factory=FTWConfig)
    raft: RAFTConfig = field(default_factory=RAFTConfig)
    grpo: GRPOConfig = field(default_factory=GRPOConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    clip: ClipConfig = field(default_factory=ClipConfig)

    def check(self) -> None:
        """Refuses numbers that cannot work.

        Raises:
            ValueError: names the setting and what would be right.
        """
        for name in (
            "iterations",
            "episodes",
            "minibatch",
            "max_reply_tokens",
            "eval_every",
            "eval_episodes",
            "checkpoint_every",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")
        if self.clip.epochs < 1:
            raise ValueError(f"clip.epochs must be at least 1, got {self.clip.epochs}")
        if self.offline is not None and self.algo not in OFFLINE:
            raise ValueError(f"--offline goes with {', '.join(OFFLINE)}, not with {self.algo}")

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        data = asdict(self)
        data["out"] = str(self.out)
        data["offline"] = None if self.offline is None else str(self.offline)
        data["env_args"] = list(self.env_args)
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TrainConfig:
        """Reads what `to_json` wrote.

        Raises:
            ValueError: a key is unknown.
        """
        unknown = data.keys() - {f.name for f in fields(cls)}
        if unknown:
            raise ValueError(f"unknown setting {min(unknown)!r}")
        return cls(
            **{
                **data,
                "out": Path(data["out"]),
                "offline": None if data["offline"] is None else Path(data["offline"]),
                "env_args": tuple(data["env_args"]),
                "ftw": FTWConfig(**data["ftw"]),
                "raft": RAFTConfig(**data["raft"]),
                "grpo": GRPOConfig(**data["grpo"]),
                "ppo": PPOConfig(**data["ppo"]),
                "clip": ClipConfig(**data["clip"]),
            }
        )


OFFLINE = ("ftw", "ftw-expected", "ftw-exp", "bc")
"""Algorithms that can learn from recorded episodes."""


def parse_env_args(args: tuple[str, ...] | list[str]) -> dict[str, Any]:
    """Keyword arguments from `key=value` words; values are JSON where they can be, else text.

    Raises:
        ValueError: a word without "=", or a key given twice.
    """
    kwargs: dict[str, Any] = {}
    for arg in args:
        key, equals, value = arg.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"an environment argument is key=value (obs=coords), got {arg!r}")
        if key in kwargs:
            raise ValueError(f"environment argument {key!r} is given twice")
        try:
            kwargs[key] = json.loads(value)
        except ValueError:
            kwargs[key] = value
    return kwargs
