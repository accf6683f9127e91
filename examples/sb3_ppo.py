"""PPO from stable-baselines3 learns SokobanMini; solve rates are those of unseen puzzles.

pip install -e '.[examples]'
python examples/sb3_ppo.py
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

ENV = "ftw_envs:ftw/SokobanMini-v0"
FLAGS = np.array([1, 2, 4, 8], np.uint8).reshape(4, 1, 1)  # wall, goal, box, player
PUZZLES = 500


class Planes(gym.ObservationWrapper[npt.NDArray[np.float32], Any, Any]):
    """A plane of zeros and ones for each flag, in place of sums of flags."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        height, width = env.observation_space.shape or ()
        self.observation_space = gym.spaces.Box(0, 1, (len(FLAGS), height, width), np.float32)

    def observation(self, observation: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        return ((observation & FLAGS) > 0).astype(np.float32)


class Features(BaseFeaturesExtractor):
    """Two small convolutions: what holds in one corner of a board holds in the others."""

    def __init__(self, space: gym.spaces.Box, size: int = 256) -> None:
        super().__init__(space, size)
        planes, height, width = space.shape
        self.net = nn.Sequential(
            nn.Conv2d(planes, 32, 3),  # the border is always wall, so none is added
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * (height - 2) * (width - 2), size),
            nn.ReLU(),
        )

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.net(observations)


def make_env(reward: str = "shaped") -> gym.Env[Any, Any]:
    """One game. Random play solves few, so each step is paid for bringing boxes nearer."""
    return Planes(gym.make(ENV, obs="grid", actions="discrete", reward=reward))


def solve_rate(model: PPO, greedy: bool) -> float:
    """Share of the first valid puzzles solved; all of them are played at the same time."""
    envs = [make_env("score") for _ in range(PUZZLES)]
    seen = [env.reset(options={"split": "valid", "index": i})[0] for i, env in enumerate(envs)]
    playing, solved = list(range(PUZZLES)), 0
    while playing:
        actions, _ = model.predict(np.stack([seen[i] for i in playing]), deterministic=greedy)
        still = []
        for i, action in zip(playing, actions, strict=True):
            seen[i], _, terminated, truncated, info = envs[i].step(int(action))
            solved += info["solved"]
            if not terminated and not truncated:
                still.append(i)
        playing = still
    return solved / PUZZLES


def evaluate(model: PPO) -> tuple[float, float]:
    """Solve rates: (greedy, sampled)."""
    return solve_rate(model, True), solve_rate(model, False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=800_000, help="environment steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--envs", type=int, default=32, help="games played side by side")
    parser.add_argument("--out", type=Path, help="where to save the model (a .zip file)")
    args = parser.parse_args()

    envs = DummyVecEnv([lambda: Monitor(make_env())] * args.envs)
    model = PPO(
        "MlpPolicy",
        envs,
        learning_rate=lambda left: 1e-3 * left,  # down to 0 at the end
        n_steps=128,
        batch_size=1024,
        n_epochs=4,
        gamma=0.97,
        ent_coef=0.01,
        policy_kwargs={"features_extractor_class": Features, "net_arch": [128]},
        seed=args.seed,
        verbose=1,
        device="cpu",
    )
    before = evaluate(model)
    start = time.perf_counter()
    model.learn(args.steps, log_interval=25)
    seconds = time.perf_counter() - start
    after = evaluate(model)
    if args.out:
        model.save(args.out)

    print(f"{args.steps:,} steps in {seconds:.0f} s; {PUZZLES} valid puzzles")
    print(f"{'':10}{'greedy':>8}{'sampled':>9}")
    for name, (greedy, sampled) in (("before", before), ("after", after)):
        print(f"{name:10}{greedy:8.1%}{sampled:9.1%}")


if __name__ == "__main__":
    main()
