"""Figures about a set of episodes. The verifier recomputes them with the same code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

from ftw_envs.episode import Episode

_Z95 = 1.959963984540054


def wilson_interval(successes: float, n: float, z: float = _Z95) -> tuple[float, float]:
    """Wilson score interval of a proportion (Wilson, 1927), 95 % by default.

    Raises:
        ValueError: not 0 <= successes <= n, or n < 1.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"needs 0 <= successes <= n and n >= 1, got {successes} of {n}")
    p = successes / n
    scale = 1 + z * z / n
    center = (p + z * z / (2 * n)) / scale
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    # At the ends rounding can cross 0 or 1, and p itself.
    return max(0.0, min(p, center - half)), min(1.0, max(p, center + half))


@dataclass(frozen=True, slots=True)
class Summary:
    """What a set of episodes shows.

    Attributes:
        episodes, solved: counts.
        solve_rate: share solved; `low` and `high` are its 95 % Wilson interval.
        invalid_rate: share of replies that were unusable.
        mean_turns: turns an episode.
        mean_score: score an episode.
        tokens_in, tokens_out: tokens read and written in all.
    """

    episodes: int
    solved: int
    solve_rate: float
    low: float
    high: float
    invalid_rate: float
    mean_turns: float
    mean_score: float
    tokens_in: int
    tokens_out: int

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.solve_rate:.1%} [{self.low:.1%}, {self.high:.1%}]"


class Tally:
    """Counts episodes as they come, so that any number fits in memory."""

    def __init__(self) -> None:
        self.episodes = self.solved = self.turns = self.invalid = 0
        self.tokens_in = self.tokens_out = 0
        self.score = 0.0

    def add(self, episode: Episode) -> None:
        """Counts one episode."""
        self.count(
            solved=episode.solved,
            score=episode.score,
            turns=len(episode.turns),
            invalid=episode.invalid_actions,
            tokens_in=episode.tokens_in,
            tokens_out=episode.tokens_out,
        )

    def count(
        self, *, solved: bool, score: float, turns: int, invalid: int, tokens_in: int,
        tokens_out: int,
    ) -> None:  # fmt: skip
        """Counts one episode, told by its numbers."""
        self.episodes += 1
        self.solved += solved
        self.score += score
        self.turns += turns
        self.invalid += invalid
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out

    def summary(self) -> Summary:
        """The figures so far. Raises ValueError if nothing was counted."""
        n = self.episodes
        low, high = wilson_interval(self.solved, n)
        return Summary(
            episodes=n,
            solved=self.solved,
            solve_rate=self.solved / n,
            low=low,
            high=high,
            invalid_rate=self.invalid / self.turns if self.turns else 0.0,
            mean_turns=self.turns / n,
            mean_score=self.score / n,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
        )


def summarise(episodes: Iterable[Episode]) -> Summary:
    """The figures of all `episodes`."""
    tally = Tally()
    for episode in episodes:
        tally.add(episode)
    return tally.summary()
