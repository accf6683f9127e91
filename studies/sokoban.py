"""Compares the algorithms on SokobanMini from one base, with one budget and equal tuning.

    python -m studies.sokoban --jobs 2

First every algorithm is tried with each step size of one grid, on a seed of its own; then
it is run with the best one on every seed. All other settings are the defaults of `ftw train`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import tyro

from ftw_agents.config import TrainConfig
from studies.pieces import Piece, Row, console, run_pieces, write_result

ALGORITHMS = ("ftw", "grpo", "ppo", "reinforce++", "raft", "ftw-expected")
STEP_SIZES = (2.5e-4, 5e-4, 1e-3, 2e-3)
TUNING_SEED = 1000
LAST = 8
"""Iterations at the end whose played episodes say which step size is best."""

_BASE = TrainConfig(env_args=("obs=coords",), eval_every=20, eval_episodes=512, checkpoint_every=20)


def tuning_pieces(out: Path, iterations: int) -> list[Piece]:
    """One trial for each algorithm and step size."""
    return [
        Piece(
            replace(
                _BASE,
                algo=algo,
                lr=lr,
                seed=TUNING_SEED,
                iterations=iterations,
                eval_every=iterations,
                out=out / "tuning" / f"{algo}-{lr:g}",
            ),
            {"algo": algo, "lr": lr, "stage": "tuning", "seed": TUNING_SEED},
            test=0,
        )
        for algo in ALGORITHMS
        for lr in STEP_SIZES
    ]


def best_step_sizes(rows: Sequence[Row]) -> dict[str, float]:
    """The step size of each algorithm whose last episodes were solved most often."""

    def solved(row: Row) -> float:
        return float(np.mean(row["curve"]["solve_rate"][-LAST:]))

    return {
        algo: max((r for r in rows if r["algo"] == algo), key=solved)["lr"] for algo in ALGORITHMS
    }


def final_pieces(
    out: Path, iterations: int, seeds: int, step_sizes: dict[str, float]
) -> list[Piece]:
    """Every algorithm on every seed; seeds outside, so that what is done is balanced."""
    return [
        Piece(
            replace(
                _BASE,
                algo=algo,
                lr=step_sizes[algo],
                seed=seed,
                iterations=iterations,
                out=out / "final" / f"{algo}-{seed}",
            ),
            {"algo": algo, "lr": step_sizes[algo], "stage": "final", "seed": seed},
        )
        for seed in range(seeds)
        for algo in ALGORITHMS
    ]


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
    tuning = run_pieces(tuning_pieces(out, tuning_iterations), jobs)
    chosen = best_step_sizes(tuning)
    console.print(chosen)
    final = run_pieces(final_pieces(out, iterations, seeds, chosen), jobs)
    write_result(
        result,
        "python -m studies.sokoban",
        {"iterations": iterations, "tuning_iterations": tuning_iterations, "lr": chosen},
        [*tuning, *final],
    )


if __name__ == "__main__":
    tyro.cli(main)
