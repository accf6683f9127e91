"""Runs the pieces of a study: each a training run of its own, in a process of its own.

A piece that is done is not done again, and one that was cut off goes on from its newest
checkpoint, so a study may be stopped at any time and started again with the same command.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console

from ftw_agents.config import TrainConfig, parse_env_args
from ftw_envs.files import write_bytes, write_json

console = Console()
Row = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """One training run of a study.

    Attributes:
        config: its settings; `config.out` is its folder.
        about: what the result says about it, for example {"algo": "ftw", "seed": 0}.
        base: the tiny base it starts from.
        test: instances of each of `splits` it is evaluated on at the end; 0 for none.
        splits: the splits; the row says NAME_solved and NAME_episodes.
        curve: metrics that the result keeps of every iteration that has them.
    """

    config: TrainConfig
    about: Row
    base: Any = None
    test: int = 1000
    splits: tuple[str, ...] = ("test",)
    curve: tuple[str, ...] = ("iteration", "episodes", "tokens", "solve_rate", "valid_solve_rate")


def run_piece(piece: Piece) -> Row:
    """Trains, or goes on training, and evaluates; gives the piece's row of the result."""
    from ftw_agents.evaluate import Player
    from ftw_agents.lm.base import BaseConfig, load_base
    from ftw_agents.lm.sampler import LMAgent
    from ftw_agents.train import Trainer

    out = piece.config.out
    if (out / "row.json").exists():
        row: Row = json.loads((out / "row.json").read_text("utf-8"))
        return row
    if (out / "checkpoints").exists():
        trainer = Trainer.resume(out)
    else:
        if out.exists():  # cut off before its first checkpoint
            shutil.rmtree(out)
        base = load_base(piece.base or BaseConfig(), lambda step, steps, loss: None)
        trainer = Trainer.start(piece.config, base)
    trainer.run()
    metrics = trainer.metrics
    seconds = sorted(m["seconds"] for m in metrics if "seconds" in m)
    row = {
        **piece.about,
        "seconds_an_iteration": seconds[len(seconds) // 2],
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "curve": {k: [m.get(k) for m in metrics] for k in piece.curve},
    }
    agent = LMAgent(trainer.lm, max_reply_tokens=piece.config.max_reply_tokens)
    player = Player(agent, {"name": out.name, "kind": "language-model"})
    return evaluated(row, player, piece.config, piece.test, piece.splits)


def evaluated(
    row: Row, player: Any, config: TrainConfig, episodes: int, splits: Sequence[str]
) -> Row:
    """Adds to `row` what a player solves of the first instances of splits, and writes it.

    A run's folder gets `row.json` and a folder for each split, named after it.
    """
    from ftw_agents.evaluate import evaluate

    kwargs = parse_env_args(config.env_args)
    for split in splits if episodes else ():
        out = config.out / split
        shutil.rmtree(out, ignore_errors=True)  # one that was written before a kill
        summary = evaluate(
            player, config.env, kwargs, split=split, episodes=episodes, seed=0, out=out
        )
        row[f"{split}_solved"], row[f"{split}_episodes"] = summary.solved, summary.episodes
    write_json(config.out / "row.json", row)
    return row


def run_pieces(pieces: Sequence[Piece], jobs: int, *, fresh: bool = True) -> list[Row]:
    """Runs all pieces, `jobs` at a time with one thread each; rows in the order of `pieces`.

    Args:
        fresh: a process for each piece, so that its peak memory is its own.
    """
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the workers when they import torch
    rows: dict[int, Row] = {}
    each = 1 if fresh else None
    with ProcessPoolExecutor(jobs, get_context("spawn"), max_tasks_per_child=each) as pool:
        running = {pool.submit(run_piece, p): i for i, p in enumerate(pieces)}
        for future in as_completed(running):
            i = running[future]
            rows[i] = future.result()
            console.print(f"{len(rows)}/{len(pieces)} {pieces[i].config.out}", soft_wrap=True)
    return [rows[i] for i in range(len(pieces))]


def commit() -> str:
    """The commit of the working tree, marked where files differ from it."""
    git = ["git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    told = subprocess.run(git, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


def write_result(path: Path, command: str, settings: Row, rows: Sequence[Row]) -> None:
    """Writes a study's result: the command and commit that made it, its settings, its rows."""
    head = {"command": command, "commit": commit(), "settings": settings}
    lines = ",\n  ".join(json.dumps(r, sort_keys=True) for r in rows)
    text = f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n  {lines}\n ]\n}}\n'
    json.loads(text)
    write_bytes(path, text.encode())
