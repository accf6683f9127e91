"""TextArena: its 6x6 text Sokoban with three boxes, without wrappers."""

from __future__ import annotations

import random
import sys
from copy import deepcopy

import textarena
from measure import Row, dump, playing, rates


def main(seconds: float, repeats: int) -> None:
    env = textarena.make("Sokoban-v0-raw")
    draw = random.Random(0)
    started = []
    for seed in range(20):  # made beforehand: a new level takes as long as thousands of steps
        env.reset(num_players=1, seed=seed)
        env.get_observation()
        started.append(deepcopy(env))

    def step() -> bool:
        done, _ = env.step(f"[{draw.choice(('up', 'down', 'left', 'right'))}]")
        if not done:
            env.get_observation()
        return bool(done)

    def reset() -> None:
        nonlocal env
        env = deepcopy(draw.choice(started))

    print(dump([Row("text", "steps/s", rates(playing(step, reset), seconds, repeats))]))


main(float(sys.argv[1]), int(sys.argv[2]))
