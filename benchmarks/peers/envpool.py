"""envpool: its C++ Sokoban, a thread a core, autoreset, actions drawn beforehand."""

from __future__ import annotations

import os
import sys

import envpool
import numpy as np
from measure import Row, dump, rates

GAMES = 1024


def main(seconds: float, repeats: int) -> None:
    env = envpool.make(
        "Sokoban-v0", env_type="gymnasium", num_envs=GAMES, num_threads=os.cpu_count(), seed=0
    )
    env.reset()
    actions = np.random.default_rng(0).integers(0, 4, (8, GAMES)).astype(np.int32)

    def block() -> tuple[int, float]:
        for numbers in actions:
            env.step(numbers)
        return actions.size, 0.0

    print(dump([Row("batched 1024", "steps/s", rates(block, seconds, repeats))]))


main(float(sys.argv[1]), int(sys.argv[2]))
