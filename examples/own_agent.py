"""An agent of one's own over the text view: walk at random, but never where it was blocked."""

from __future__ import annotations

import random

import gymnasium as gym

MOVES = ("up", "down", "left", "right")
PUZZLES = 200


def main() -> None:
    env = gym.make("ftw_envs:ftw/SokobanMini-v0")
    draw = random.Random(0)
    solved = 0
    for index in range(PUZZLES):
        env.reset(options={"split": "valid", "index": index})
        blocked: set[str] = set()
        over = False
        while not over:
            move = draw.choice([m for m in MOVES if m not in blocked] or MOVES)
            text, _, terminated, truncated, info = env.step(f"I go {move}.")
            # The reply says so where nothing moved; after a move all ways may be open again.
            blocked = blocked | {move} if text.startswith("blocked") else set()
            over = terminated or truncated
        solved += info["solved"]
    print(f"solved {solved} of {PUZZLES} valid puzzles")


if __name__ == "__main__":
    main()
