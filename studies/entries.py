"""The suite's own entries on the leaderboards, from the studies' runs and the bundled players.

    python -m studies.entries --studies runs/studies --date 2026-12-02

Players that are not trained are evaluated first, into `runs/entries`. An entry that exists
already is left as it is. Verify them all afterwards: `ftw verify leaderboards/entries --write`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import tyro

from leaderboards.about import About
from leaderboards.boards import PUBLIC_SEED, Board, board_of
from leaderboards.replays import Workers
from leaderboards.runs import Source, source_of
from leaderboards.schema import EntryError
from leaderboards.submit import submit
from studies import incident, sigma_board, sokoban
from studies.pieces import console
from studies.report import NAMES

PLAYERS = {
    "sokoban-mini": ("idle", "random", "greedy", "solver", "base"),
    "sokoban": ("idle", "random", "solver"),
    "sigma-trap": ("idle", "random", "first", "greedy", "solver", "base"),
    "incident-l0": ("idle", "random", "constant", "greedy", "expert", "base"),
    "incident-l1": (
        "idle",
        "random",
        "constant",
        "greedy",
        "loud",
        "expert_late",
        "expert",
        "base",
    ),
}
"""Boards, and who plays on them without training."""

TUNED = {"sokoban-mini": sokoban.STUDY, "sigma-trap": sigma_board.STUDY}
"""Boards, and the studies that compare the algorithms on them after trials of step sizes."""

BOARD_TEST = "board"
"""Name of a run's evaluation on a board's instances."""

SEEDS = 5
"""Runs of each trained method."""


@dataclass(frozen=True)
class Planned:
    """An entry to be made.

    Attributes:
        slug: name of its folder.
        sources: its runs.
    """

    board: str
    slug: str
    about: About
    sources: list[Source]


def about(name: str, family: str, model: dict[str, Any] | None, trials: int | None) -> About:
    """What no folder tells of an entry of ours.

    Args:
        trials: settings tried before the runs; None for what is not trained.
    """
    training = None
    if trials is not None:
        search = {"trials": trials, "tuned_on": "train" if trials else "nothing"}
        training = {"search": search, "checkpoint": "last"}
    return About.model_validate(
        {
            "division": "closed",
            "method": {"name": name, "family": family},
            "model": model,
            "submitter": {"name": "FTW suite", "relationship": "first_party"},
            "training": training,
            "selection": {"attempts_per_instance": 1, "prior_submissions": 0},
            "contamination": {
                "trained_on_eval": False,
                "statement": "Nothing but the split train was trained on.",
            },
            "device": "CPU, one thread",
        }
    )


def tiny(env: str) -> dict[str, Any]:
    """The bundled base for an environment, as an entry tells of it."""
    from ftw_agents.evaluate import load_player

    told = load_player("base", env).about
    return {
        "name": "ftw-tiny",
        "parameters": told["parameters"],
        "open_weights": True,
        "temperature_percent": 100,
        "max_reply_tokens": told["max_reply_tokens"],
    }


def untrained(runs: Path) -> Iterator[Planned]:
    """Players without training; evaluates those that have not been."""
    from ftw_agents.config import parse_env_args
    from ftw_agents.evaluate import evaluate, load_player
    from ftw_agents.lm.base import base_view

    for name, players in PLAYERS.items():
        board = board_of(name)
        for spec in players:
            out = runs / name / spec
            if not (out / "result.json").exists():
                view = parse_env_args(base_view(board.env_id)) if spec == "base" else {}
                evaluate(
                    load_player(spec, board.env_id), board.env_id, view, split=board.split,
                    episodes=board.episodes, seed=PUBLIC_SEED, out=out,
                )  # fmt: skip
            model = tiny(board.env_id) if spec == "base" else None
            told = about(spec, "base" if model else "scripted", model, None)
            yield Planned(name, f"{name}-{spec.replace('_', '-')}", told, [source_of(out)])


def played(run: Path, board: Board) -> None:
    """Sees that a run has an evaluation on all instances of a board; studies may play fewer."""
    from ftw_agents.config import parse_env_args
    from ftw_agents.evaluate import evaluate, load_player, read_result, settings_of

    done = run / board.split
    out = run / BOARD_TEST
    if out.exists():
        return
    if done.exists() and read_result(done)["summary"]["episodes"] == board.episodes:
        out.symlink_to(board.split)
        return
    view = parse_env_args(settings_of(str(run))["env_args"])
    evaluate(
        load_player(str(run), board.env_id), board.env_id, view, split=board.split,
        episodes=board.episodes, seed=PUBLIC_SEED, out=out,
    )  # fmt: skip


def _done(folder: Path, pattern: str) -> Iterator[Path]:
    """A study's runs that have come to their end."""
    yield from (row.parent for row in sorted(folder.glob(f"{pattern}/row.json")))


def trained(studies: Path) -> Iterator[Planned]:
    """What the studies trained, as far as their runs are there."""
    from ftw_agents.evaluate import settings_of

    found: dict[tuple[str, str], list[Path]] = {}
    for board, study in TUNED.items():
        for run in _done(studies / study.name / "final", "*-[0-9]"):
            algo = json.loads((run / "row.json").read_text("utf-8"))["algo"]
            found.setdefault((board, NAMES[algo]), []).append(run)
    for level, (algo, given) in product((0, 1), incident.KINDS):
        name = f"{NAMES[algo]}, {given} expert episodes" if given else NAMES[algo]
        for run in _done(studies / "incident" / f"{level}", f"{algo}-{given}-[0-9]"):
            found.setdefault((f"incident-l{level}", name), []).append(run)
    for (board, name), runs in found.items():
        if len(runs) < SEEDS:  # not done yet
            continue
        for run in runs:
            played(run, board_of(board))
        model = tiny(board_of(board).env_id)
        trials = len(TUNED[board].step_sizes) if board in TUNED else 0
        slug = f"{board}-{name.lower().replace(', ', '-').replace(' ', '-').replace('+', 'p')}"
        told = about(name, settings_of(str(runs[0]))["algo"], model, trials)
        yield Planned(board, slug, told, [source_of(run, BOARD_TEST) for run in runs])


def main(
    studies: Path = Path("runs/studies"),
    runs: Path = Path("runs/entries"),
    out: Path = Path("leaderboards/entries"),
    date: str = "2026-12-02",
    jobs: int = 2,
) -> None:
    """Makes all entries that are not there yet.

    Args:
        studies: folder of the studies' runs.
        runs: where players without training are evaluated.
        out: folder of the entries.
        date: of the submission.
        jobs: processes that play the episodes again.
    """
    with Workers(jobs) as workers:
        for planned in (*untrained(runs), *trained(studies)):
            if any(out.glob(f"*/{planned.slug}")):
                continue
            try:
                folder, verified = submit(
                    planned.sources, planned.board, planned.about, out,
                    date=date, slug=planned.slug, workers=workers,
                )  # fmt: skip
            except EntryError as e:
                raise EntryError(f"{planned.slug}: {e}") from None
            solved = sum(r.figures.solved for r in verified.runs)
            count = sum(r.figures.episodes for r in verified.runs)
            console.print(f"{folder}: solved {solved} of {count}", soft_wrap=True)


if __name__ == "__main__":
    tyro.cli(main)
