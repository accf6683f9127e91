"""FTW on incidents: from a tiny base, alone and seeded with the expert's episodes.

    python -m studies.incident --level 0 --jobs 2

Attempts are live: none can be repeated, so GRPO has no place here. The base imitates the expert
for so long only that it solves a part of valid. It, and every run at its end, is evaluated on
unseen incidents (test), on names that no other split uses (test_names), and on kinds of attack
that training does not have (test_family). For comparison the expert's episodes are also imitated
alone (`bc`), with as many gradient steps.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import tyro

from ftw_agents.config import Algo, FTWConfig, TrainConfig
from ftw_agents.lm.base import BASES
from studies.pieces import Piece, Row, evaluated, run_pieces, write_result

TEST = 500
SPLITS = ("test", "test_names", "test_family")
KINDS: tuple[tuple[Algo, int], ...] = (("ftw", 0), ("ftw", 500), ("bc", 500))
CURVE = ("episodes", "solve_rate", "valid_solve_rate", "winners_given", "winners_solved", "entropy")


def record_expert(path: Path, env: str, env_args: tuple[str, ...], episodes: int) -> None:
    """Writes the expert's games on training instances that neither base nor run draws first."""
    from ftw_agents.collect import Collector
    from ftw_agents.config import parse_env_args
    from ftw_agents.scripted.players import SCRIPTED
    from ftw_agents.starts import training_starts
    from ftw_envs.episode import write_episodes

    collector = Collector(env, parse_env_args(env_args))
    starts = training_starts(collector.env, 10_000, 0, episodes)
    write_episodes(path, collector.play(SCRIPTED[BASES[env].player](), starts))


def settings(level: int, iterations: int) -> TrainConfig:
    """What all runs have in common."""
    env = f"ftw/IncidentL{level}-v0"
    base = BASES[env]
    return TrainConfig(
        env=env,
        env_args=base.env_args,
        iterations=iterations,
        episodes=128,
        minibatch=16,
        max_reply_tokens=base.max_reply_tokens,
        eval_every=10,
        eval_episodes=250,
        checkpoint_every=10,
        ftw=FTWConfig(batch_episodes=128),
    )


def pieces(out: Path, level: int, seeds: int, iterations: int) -> list[Piece]:
    """All runs: seeds outside, so that what is done is balanced."""
    run = settings(level, iterations)
    found = []
    for seed in range(seeds):
        for algo, given in KINDS:
            config = replace(
                run,
                algo=algo,
                seed=seed,
                offline=out / f"expert-{given}.jsonl" if given else None,
                out=out / f"{algo}-{given}-{seed}",
            )
            about = {"algo": algo, "given": given, "seed": seed}
            piece = Piece(config, about, BASES[run.env], test=TEST, splits=SPLITS, curve=CURVE)
            found.append(piece)
    return found


def base_row(out: Path, level: int) -> Row:
    """How the base does, where nothing was trained."""
    from ftw_agents.evaluate import load_player

    config = replace(settings(level, 1), out=out / "base")
    if (config.out / "row.json").exists():
        found: Row = json.loads((config.out / "row.json").read_text("utf-8"))
        return found
    row = {"algo": "base", "given": 0, "seed": 0}
    return evaluated(row, load_player("base", config.env), config, TEST, SPLITS)


def main(
    level: int = 0,
    out: Path = Path("runs/studies/incident"),
    result: Path | None = None,
    jobs: int = 2,
    seeds: int = 5,
    iterations: int = 30,
) -> None:
    """Runs the study.

    Args:
        level: 0 or 1.
        out: folder of the runs; those of a level are in a folder of its number.
        result: where the figures go; docs/studies/incident_l0.json for level 0.
        jobs: runs at a time, one thread each.
        seeds: runs of each kind.
        iterations: of 128 episodes each.
    """
    env = f"ftw/IncidentL{level}-v0"
    if env not in BASES:
        raise ValueError(f"level must be one with a tiny base, got {level}")
    out = out / str(level)
    for given in {n for _, n in KINDS if n}:
        if not (out / f"expert-{given}.jsonl").exists():
            record_expert(out / f"expert-{given}.jsonl", env, BASES[env].env_args, given)
    rows = [base_row(out, level), *run_pieces(pieces(out, level, seeds, iterations), jobs)]
    command = f"python -m studies.incident --level {level}"
    path = result or Path(f"docs/studies/incident_l{level}.json")
    write_result(path, command, {"iterations": iterations, "level": level}, rows)


if __name__ == "__main__":
    tyro.cli(main)
