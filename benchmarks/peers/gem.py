"""gem: its 6x6 text Sokoban with two boxes, the fastest of its Sokobans."""

from __future__ import annotations

import random
import sys
from copy import deepcopy

import gem
import gem.envs  # registers them
from measure import Row, dump, playing, rates


def main(seconds: float, repeats: int) -> None:
    env = gem.make("game:Sokoban-v0-easy")
    draw = random.Random(0)
    started = []
    for seed in range(20):  # made beforehand: a new level takes as long as hundreds of steps
        env.reset(seed=seed)
        started.append(deepcopy(env))

    def step() -> bool:
        word = draw.choice(("up", "down", "left", "right"))
        _, _, terminated, truncated, _ = env.step(f"\\boxed{{{word}}}")
        return terminated or truncated

    def reset() -> None:
        nonlocal env
        env = deepcopy(draw.choice(started))

    print(dump([Row("text", "steps/s", rates(playing(step, reset), seconds, repeats))]))


main(float(sys.argv[1]), int(sys.argv[2]))
