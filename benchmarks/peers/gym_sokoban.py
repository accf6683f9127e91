"""gym-sokoban: pictures of 160x160, and resets, which make a new 10x10 level with 4 boxes."""

from __future__ import annotations

import random
import sys
import warnings

warnings.filterwarnings("ignore")  # gym tells of its own end with every import

import numpy as np  # noqa: E402
from gym_sokoban.envs import SokobanEnv  # noqa: E402
from measure import Row, dump, rates, times  # noqa: E402

LEVELS = 5  # about 10 s each


def main(seconds: float, repeats: int) -> None:
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the generator draws from there
    env = SokobanEnv(dim_room=(10, 10), num_boxes=4, reset=False)
    resets = times(lambda i: env.reset(), LEVELS, warm_up=0)
    room, player = env.room_state.copy(), env.player_position.copy()
    actions = np.random.default_rng(0).integers(1, 9, env.max_steps - 1).tolist()

    def block() -> tuple[int, float]:
        # The same level again: with its 9 s a level, resets would be all there is to time.
        env.room_state, env.player_position, env.num_env_steps = room.copy(), player.copy(), 0
        for action in actions:
            env.step(action)
        return len(actions), 0.0

    frames = rates(block, seconds, repeats)
    print(dump([Row("rgb", "frames/s", frames), Row("reset", "ms", resets)]))


main(float(sys.argv[1]), int(sys.argv[2]))
