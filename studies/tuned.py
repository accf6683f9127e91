"""Compares algorithms fairly: one base, one budget, the same trials for all.

First every algorithm is tried with each step size of one grid, on a seed of its own; then it is
run with the best one on every seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ftw_agents.config import TrainConfig
from ftw_agents.lm.base import BASES
from studies.pieces import Piece, Row, console, run_pieces, write_result

TUNING_SEED = 1000
LAST = 8
"""Iterations at the end whose played episodes say which step size is best."""


def tuning_pieces(
    algorithms: Mapping[str, TrainConfig], step_sizes: Sequence[float], out: Path, iterations: int
) -> list[Piece]:
    """One trial for each algorithm and step size.

    Args:
        algorithms: settings by name; step sizes, seeds and folders are put in here.
    """
    return [
        Piece(
            replace(
                config,
                lr=lr,
                seed=TUNING_SEED,
                iterations=iterations,
                eval_every=iterations,
                out=out / "tuning" / f"{algo}-{lr:g}",
            ),
            {"algo": algo, "lr": lr, "stage": "tuning", "seed": TUNING_SEED},
            base=BASES[config.env],
            test=0,
        )
        for algo, config in algorithms.items()
        for lr in step_sizes
    ]


def best_step_sizes(rows: Sequence[Row]) -> dict[str, float]:
    """The step size of each algorithm whose last episodes were solved most often."""
    best: dict[str, tuple[float, float]] = {}
    for row in rows:
        solved = float(np.mean(row["curve"]["solve_rate"][-LAST:]))
        if row["algo"] not in best or solved > best[row["algo"]][0]:
            best[row["algo"]] = solved, row["lr"]
    return {algo: lr for algo, (_, lr) in best.items()}


def final_pieces(
    algorithms: Mapping[str, TrainConfig],
    out: Path,
    iterations: int,
    seeds: int,
    step_sizes: Mapping[str, float],
) -> list[Piece]:
    """Every algorithm on every seed; seeds outside, so that what is done is balanced."""
    return [
        Piece(
            replace(
                config,
                lr=step_sizes[algo],
                seed=seed,
                iterations=iterations,
                out=out / "final" / f"{algo}-{step_sizes[algo]:g}-{seed}",
            ),
            {"algo": algo, "lr": step_sizes[algo], "stage": "final", "seed": seed},
            base=BASES[config.env],
        )
        for seed in range(seeds)
        for algo, config in algorithms.items()
    ]


def compare(
    algorithms: Mapping[str, TrainConfig],
    step_sizes: Sequence[float],
    command: str,
    out: Path,
    result: Path,
    *,
    jobs: int,
    seeds: int,
    iterations: int,
    tuning_iterations: int,
) -> None:
    """Runs the trials, then all seeds with the step sizes they name, and writes the result.

    Args:
        algorithms: settings by name.
        step_sizes: the grid.
        command: what runs the study, for the result.
        out: folder of the runs.
        result: where the figures go.
        jobs: runs at a time, one thread each.
        seeds: runs of each algorithm.
        iterations: of each run.
        tuning_iterations: of each trial.
    """
    tuning = run_pieces(tuning_pieces(algorithms, step_sizes, out, tuning_iterations), jobs)
    chosen = best_step_sizes(tuning)
    console.print(chosen)
    final = run_pieces(final_pieces(algorithms, out, iterations, seeds, chosen), jobs)
    write_result(
        result,
        command,
        {"iterations": iterations, "tuning_iterations": tuning_iterations, "lr": chosen},
        [*tuning, *final],
    )
