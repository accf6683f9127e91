"""What the bandits share: machines with names, and arms that pay out."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from ftw_envs.actions import ActionGrammar
from ftw_envs.streams import Name, Stream
from ftw_envs.text_env import EpisodeEnv

KINDS = ("round", "square")
"""The two kinds of machine: the first pays more on average, the second is the trap."""

_ONSETS, _RIMES = "bdfgklmnprstvz", "aeiou"
# 64 names of four letters that no sentence of a task uses.
NAMES = tuple(
    f"{_ONSETS[i % 14]}{_RIMES[i % 5]}{_ONSETS[(3 * i + 5) % 14]}{_RIMES[(2 * i + i // 5) % 5]}"
    for i in range(64)
)


@lru_cache(maxsize=1)
def name_pairs() -> dict[str, list[tuple[str, str]]]:
    """Ordered name pairs per split: (first shown, second shown).

    The split is told by the unordered pair, so no two names meet in two splits.
    """
    splits: dict[str, list[tuple[str, str]]] = {"train": [], "valid": [], "test": []}
    for i, a in enumerate(NAMES):
        for b in NAMES[i + 1 :]:
            bucket = sha256(f"sigma-trap:{a}:{b}".encode()).digest()[0] % 4
            split = {0: "test", 1: "valid"}.get(bucket, "train")
            splits[split] += [(a, b), (b, a)]
    return splits


@dataclass(frozen=True, slots=True)
class Arm:
    """A normal distribution of payouts: its mean and its standard deviation."""

    mean: float
    sigma: float

    def pay(self, stream: Stream) -> float:
        """One payout, rounded to six decimals."""
        return round(self.mean + self.sigma * stream.normal(), 6)


class MachinesEnv(EpisodeEnv):
    """Base class of the bandits: a choice between two named machines, once or more often.

    A subclass sets `names` and `kinds` of the choice at hand with `_offer`.

    Args:
        sigma: standard deviation of the trap, at least 0.
        good_sigma: standard deviation of the good arm, at least 0.
        good_mean, trap_mean: mean payouts, the first above the second.
        max_steps: replies until truncation.
        render_mode: None, "ansi" or "rgb_array".

    Raises:
        ValueError: an argument that cannot work, with what would be right.
    """

    def __init__(
        self,
        sigma: float = 4.0,
        *,
        good_sigma: float = 0.1,
        good_mean: float = 1.0,
        trap_mean: float = 0.0,
        max_steps: int = 3,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(max_steps=max_steps, render_mode=render_mode)
        for name, value in (("sigma", sigma), ("good_sigma", good_sigma)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
        for name, value in (("good_mean", good_mean), ("trap_mean", trap_mean)):
            if not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, got {value!r}")
        if good_mean <= trap_mean:
            raise ValueError(
                f"good_mean must be above trap_mean ({trap_mean!r}), got {good_mean!r}"
            )
        self.good = Arm(float(good_mean), float(good_sigma))
        self.trap = Arm(float(trap_mean), float(sigma))
        self.names = ("", "")
        self.kinds = ("", "")
        self._grammar = ActionGrammar(("none",))

    def _offer(self, names: tuple[str, str], kinds: tuple[str, str]) -> None:
        """Puts two machines up for choice, in the order in which they are told."""
        self.names, self.kinds = names, kinds
        self._grammar = ActionGrammar(names)

    @property
    def grammar(self) -> ActionGrammar:
        return self._grammar

    def _looks(self) -> str:
        """What the two machines of the choice at hand look like, by name."""
        (k1, k2), (n1, n2) = self.kinds, self.names
        return f"The {k1} one is {n1}. The {k2} one is {n2}."

    @abstractmethod
    def _noise(self) -> tuple[Name, ...]:
        """Name of the noise of this attempt and choice; the kind of machine joins it."""

    def kind_of(self, name: str) -> str:
        """The kind of a machine that is up for choice. Raises ValueError for another."""
        return self.kinds[self.names.index(name)]

    def _world(self) -> str:
        return f"{self.names} {self.kinds} {self._noise()}"

    # What follows is for scripted players and tests, never for an agent.

    def arm(self, kind: str) -> Arm:
        """What the machine of this kind pays in the choice at hand, as a distribution."""
        return self.good if kind == KINDS[0] else self.trap

    def payout(self, kind: str) -> float:
        """What the machine of this kind pays in this attempt and choice.

        It depends on nothing that was drawn before.
        """
        return self.arm(kind).pay(Stream(*self._noise(), kind))

    def good_name(self) -> str:
        """Name of the machine with the higher mean in the choice at hand."""
        return self.names[self.kinds.index(KINDS[0])]

    def choices(self) -> list[tuple[Arm, Arm]]:
        """The good and the other arm of every choice in an episode, in any order."""
        return [(self.good, self.trap)]
