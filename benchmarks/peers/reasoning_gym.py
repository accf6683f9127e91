"""reasoning-gym: new 10x10 levels with 4 boxes, by index."""

from __future__ import annotations

import reasoning_gym
from measure import Row, dump, times

LEVELS = 200


def main() -> None:
    size = {"min_w": 10, "max_w": 10, "min_h": 10, "max_h": 10}
    data = reasoning_gym.create_dataset(
        "sokoban", seed=0, size=LEVELS + 5, min_boxes=4, max_boxes=4, **size
    )
    print(dump([Row("new level", "ms", times(lambda i: data[i], LEVELS, warm_up=5))]))


main()
