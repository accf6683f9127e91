"""Timing that our own measures and those of the peers share. Needs numpy only."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Block = Callable[[], tuple[int, float]]
"""Does some of a thing; returns how many, and the seconds of them that do not count."""


@dataclass
class Row:
    """One measure: a rate, once a repeat, or single times in ms."""

    key: str
    unit: str
    values: list[float]

    def figure(self, statistic: str = "") -> float:
        """The median of a rate, the mean (or "p99") of times."""
        if statistic == "p99":
            return float(np.percentile(self.values, 99))
        return float(np.mean(self.values) if self.unit == "ms" else np.median(self.values))

    def __str__(self) -> str:
        low, high = min(self.values), max(self.values)
        if self.unit == "ms":
            p50, p99 = np.percentile(self.values, (50, 99))
            return (
                f"{self.key:32} mean {self.figure():.3f} ms, p50 {p50:.3f}, p99 {p99:.3f}, "
                f"max {high:.3f} (n = {len(self.values)})"
            )
        return f"{self.key:32} {self.figure():,.0f} {self.unit} [{low:,.0f}..{high:,.0f}]"


def rates(block: Block, seconds: float, repeats: int) -> list[float]:
    """Things done per second, once a repeat; the first block is a warm-up."""
    block()
    found = []
    for _ in range(repeats):
        done, away, start = 0, 0.0, time.perf_counter()
        while (spent := time.perf_counter() - start - away) < seconds:
            more, out = block()
            done += more
            away += out
        found.append(done / spent)
    return found


def times(do: Callable[[int], Any], n: int, warm_up: int) -> list[float]:
    """ms of each of `n` calls."""
    found = []
    for i in range(warm_up + n):
        start = time.perf_counter()
        do(i)
        found.append(1e3 * (time.perf_counter() - start))
    return found[warm_up:]


def playing(step: Callable[[], bool], reset: Callable[[], Any]) -> Block:
    """A block of 200 steps that does not count resets. `step` says whether a game is over."""
    reset()

    def block() -> tuple[int, float]:
        away = 0.0
        for _ in range(200):
            if step():
                start = time.perf_counter()
                reset()
                away += time.perf_counter() - start
        return 200, away

    return block


def dump(rows: Iterable[Row]) -> str:
    """The rows as one line of JSON."""
    return json.dumps([asdict(row) for row in rows])


def load(line: str) -> list[Row]:
    """What `dump` wrote."""
    return [Row(**row) for row in json.loads(line)]
