"""Compares the algorithms on SokobanMini from one base, with one budget and equal tuning.

    python -m studies.sokoban --jobs 2

All settings but the step size (see `studies.tuned`) are the defaults of `ftw train`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tyro

from ftw_agents.config import Algo, TrainConfig
from studies.tuned import compare

_RUN = TrainConfig(env_args=("obs=coords",), eval_every=20, eval_episodes=512, checkpoint_every=20)
_ALGORITHMS: tuple[Algo, ...] = ("ftw", "grpo", "ppo", "reinforce++", "raft", "ftw-expected")
ALGORITHMS: dict[str, TrainConfig] = {algo: replace(_RUN, algo=algo) for algo in _ALGORITHMS}

STEP_SIZES = (6.25e-5, 1.25e-4, 2.5e-4, 5e-4, 1e-3, 2e-3)


def main(
    out: Path = Path("runs/studies/sokoban"),
    result: Path = Path("docs/studies/sokoban.json"),
    jobs: int = 2,
    seeds: int = 5,
    iterations: int = 80,
    tuning_iterations: int = 24,
) -> None:
    """Runs the comparison.

    Args:
        out: folder of the runs.
        result: where the figures go.
        jobs: runs at a time, one thread each.
        seeds: runs of each algorithm.
        iterations: of 256 episodes each.
        tuning_iterations: of each of the trials that choose the step size.
    """
    compare(
        ALGORITHMS, STEP_SIZES, "python -m studies.sokoban", out, result,
        jobs=jobs, seeds=seeds, iterations=iterations, tuning_iterations=tuning_iterations,
    )  # fmt: skip


if __name__ == "__main__":
    tyro.cli(main)
