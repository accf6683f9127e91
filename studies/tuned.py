"""Compares algorithms fairly: one base, one budget, the same trials for all.

First every algorithm is tried with each step size of one grid, on a seed of its own; then it is
run with the best one on every seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro

from ftw_agents.config import TrainConfig
from ftw_agents.lm.base import BASES
from studies.pieces import Piece, Row, console, run_pieces, write_result

TUNING_SEED = 1000
LAST = 8
"""Iterations at the end whose played episodes say which step size is best."""


@dataclass(frozen=True)
class Comparison:
    """What is compared.

    Attributes:
        name: of the module that runs it, of its result and of its folder.
        algorithms: settings by name; step sizes, seeds and folders are put in later.
        step_sizes: the grid of the trials.
        iterations, tuning_iterations: of each run and of each trial, where the command says no
            other.
    """

    name: str
    algorithms: Mapping[str, TrainConfig]
    step_sizes: Sequence[float]
    iterations: int
    tuning_iterations: int


def tuning_pieces(study: Comparison, out: Path, iterations: int) -> list[Piece]:
    """One trial for each algorithm and step size."""
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
        for algo, config in study.algorithms.items()
        for lr in study.step_sizes
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
    study: Comparison,
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
        for algo, config in study.algorithms.items()
    ]


def run(study: Comparison) -> None:
    """The command of a comparison: the trials, then all seeds with the step sizes they name."""

    def main(
        out: Path = Path("runs/studies") / study.name,
        result: Path = Path(f"docs/studies/{study.name}.json"),
        jobs: int = 2,
        seeds: int = 5,
        iterations: int = study.iterations,
        tuning_iterations: int = study.tuning_iterations,
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
        tuning = run_pieces(tuning_pieces(study, out, tuning_iterations), jobs)
        chosen = best_step_sizes(tuning)
        console.print(chosen)
        final = run_pieces(final_pieces(study, out, iterations, seeds, chosen), jobs)
        write_result(
            result,
            f"python -m studies.{study.name}",
            {"iterations": iterations, "tuning_iterations": tuning_iterations, "lr": chosen},
            [*tuning, *final],
        )

    tyro.cli(main)
