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
    filter: Literal["sampled", "expected", "exp"] = "sampled"
    """How winners are chosen: drawn, by their exact chance, or by exp(score / temperature)."""
    skip_flat_draws: bool = True
    """Repeat draws in which all scores are equal; only the sampled filter draws."""
    temperature: float = 1.0
    """Temperature of the exp filter, in units of the score."""
    kl: float = 0.0
    """Weight of the KL term to the policy that played the newest episodes."""


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
    algo: Literal["ftw"] = "ftw"
    """The algorithm."""
    out: Path = Path("runs/ftw")
    """The run's folder; it must not exist yet."""
    iterations: int = 100
    """Rounds of collecting, choosing and imitating."""
    episodes: int = 256
    """Episodes played in an iteration."""
    lr: float = 5e-4
    """Adam's step size."""
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

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        data = asdict(self)
        data["out"] = str(self.out)
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
                "env_args": tuple(data["env_args"]),
                "ftw": FTWConfig(**data["ftw"]),
            }
        )


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
