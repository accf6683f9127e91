"""How C and K set speed and bias: a grid of filters where success is rare and where it is not.

    python -m studies.filter --jobs 2

FTW on SokobanMini from two bases: the usual one, and one that was trained so briefly that it
hardly ever solves a puzzle. Flat draws (all scores equal) are left out, as is the default here;
from the second base three filters are run with all draws as well, as in the source: K3-C5 is
reported to collapse on sparse success, and which draws count decides what a filter imitates there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tyro

from ftw_agents.config import FTWConfig, TrainConfig
from ftw_agents.lm.base import BaseConfig
from studies.pieces import Piece, run_pieces, write_result

FILTERS = {
    "usual": ((4, 1), (8, 1), (5, 3), (8, 4), (8, 6)),
    "sparse": ((4, 1), (8, 1), (8, 2), (5, 3), (8, 4), (8, 6)),
}
WITH_ALL_DRAWS = ((4, 1), (8, 1), (5, 3))
BASES = {"usual": BaseConfig(), "sparse": BaseConfig(steps=100)}
TEST = 500
CURVE = ("episodes", "solve_rate", "valid_solve_rate", "winners_solved", "entropy")


def pieces(out: Path, seeds: int, iterations: int) -> list[Piece]:
    """All runs: seeds outside, so that what is done is balanced."""
    run = TrainConfig(
        env_args=("obs=coords",),
        iterations=iterations,
        eval_every=iterations,
        checkpoint_every=iterations,
    )
    found = []
    for seed in range(seeds):
        for base, (c, k), skip in (
            *((b, f, True) for b in BASES for f in FILTERS[b]),
            *(("sparse", f, False) for f in WITH_ALL_DRAWS),
        ):
            ftw = FTWConfig(candidates=c, winners=k, batch_episodes=480, skip_flat_draws=skip)
            name = f"{base}-K{k}-C{c}-{'uneven' if skip else 'all'}-{seed}"
            about = {"base": base, "c": c, "k": k, "skip_flat_draws": skip, "seed": seed}
            config = replace(run, ftw=ftw, seed=seed, out=out / name)
            found.append(Piece(config, about, base=BASES[base], test=TEST, curve=CURVE))
    return found


def before() -> dict[str, float]:
    """What each base solves of the test puzzles."""
    from ftw_agents.collect import Collector
    from ftw_agents.lm.base import load_base
    from ftw_agents.lm.sampler import LMAgent
    from ftw_agents.results import summarise
    from ftw_agents.starts import evaluation_starts

    found = {}
    for name, config in BASES.items():
        collector = Collector(config.env, {"obs": "coords"})
        starts = evaluation_starts(collector.env, "test", TEST, 0)
        agent = LMAgent(load_base(config, lambda step, steps, loss: None))
        found[name] = summarise(collector.play(agent, starts)).solve_rate
    return found


def main(
    out: Path = Path("runs/studies/filter"),
    result: Path = Path("docs/studies/filter.json"),
    jobs: int = 2,
    seeds: int = 5,
    iterations: int = 20,
) -> None:
    """Runs the grid.

    Args:
        out: folder of the runs.
        result: where the figures go.
        jobs: runs at a time, one thread each.
        seeds: runs of each filter.
        iterations: of 256 episodes each.
    """
    rows = run_pieces(pieces(out, seeds, iterations), jobs)
    settings = {"iterations": iterations, "before": before()}
    write_result(result, "python -m studies.filter", settings, rows)


if __name__ == "__main__":
    tyro.cli(main)
