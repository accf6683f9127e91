"""What 0, 50 or 500 solver episodes buy at the start of FTW, from a base that hardly ever wins.

    python -m studies.offline --jobs 2

The episodes are candidates beside the buffer for the first iterations (`ftw.offline_iterations`).
For comparison the same episodes are also imitated alone (`bc`), with as many gradient steps.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tyro

from ftw_agents.config import Algo, TrainConfig
from studies.filter import BASES
from studies.pieces import Piece, run_pieces, write_result

AMOUNTS = (0, 50, 500)
KINDS: list[tuple[Algo, int]] = [*(("ftw", n) for n in AMOUNTS), ("bc", 50), ("bc", 500)]
CURVE = ("episodes", "solve_rate", "valid_solve_rate", "winners_given")


def record_solver(path: Path, episodes: int) -> None:
    """Writes solver games on training instances that no run of the study draws first."""
    from ftw_agents.collect import Collector
    from ftw_agents.scripted.solver import SolverAgent
    from ftw_agents.starts import training_starts
    from ftw_envs.episode import write_episodes

    collector = Collector(TrainConfig().env, {"obs": "coords"})
    starts = training_starts(collector.env, 10_000, 0, episodes)
    write_episodes(path, list(collector.play(SolverAgent(), starts)))


def pieces(out: Path, seeds: int, iterations: int) -> list[Piece]:
    """All runs: seeds outside, so that what is done is balanced."""
    run = TrainConfig(
        env_args=("obs=coords",),
        iterations=iterations,
        eval_every=10,
        checkpoint_every=10,
    )
    found = []
    for seed in range(seeds):
        for algo, amount in KINDS:
            config = replace(
                run,
                algo=algo,
                seed=seed,
                offline=out / f"solver-{amount}.jsonl" if amount else None,
                out=out / f"{algo}-{amount}-{seed}",
            )
            about = {"algo": algo, "given": amount, "seed": seed}
            found.append(Piece(config, about, base=BASES["sparse"], curve=CURVE))
    return found


def main(
    out: Path = Path("runs/studies/offline"),
    result: Path = Path("docs/studies/offline.json"),
    jobs: int = 2,
    seeds: int = 5,
    iterations: int = 40,
) -> None:
    """Runs the study.

    Args:
        out: folder of the runs.
        result: where the figures go.
        jobs: runs at a time, one thread each.
        seeds: runs of each kind.
        iterations: of 256 episodes each.
    """
    for amount in AMOUNTS[1:]:
        if not (out / f"solver-{amount}.jsonl").exists():
            record_solver(out / f"solver-{amount}.jsonl", amount)
    rows = run_pieces(pieces(out, seeds, iterations), jobs)
    write_result(result, "python -m studies.offline", {"iterations": iterations}, rows)


if __name__ == "__main__":
    tyro.cli(main)
