"""Makes an entry from runs: the rows, the curves, and `entry.json` with the submitter's words.

What can be measured is taken from the run folders; the rest is said in the about file
(`about.py`). The entry is written beside its place, verified there, and renamed.

Run it where the episodes were played: `env.lock.json` tells the packages that are there.
"""

from __future__ import annotations

import json
import math
import platform
import shutil
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import ftw_envs
from ftw_agents.results import Tally
from ftw_agents.starts import Start, evaluation_starts
from ftw_envs.episode import EpisodeError, read_episodes
from ftw_envs.files import partial_path, write_bytes, write_json
from ftw_envs.text_env import EpisodeEnv
from leaderboards.about import About
from leaderboards.boards import PUBLIC_SEED, Board, board_of, open_env, view_of
from leaderboards.folder import CURVE, ENTRY, EPISODES, LOCK, file_facts, parse, run_file
from leaderboards.identity import check_slug, entry_id, slug_of
from leaderboards.replays import Workers
from leaderboards.rows import ReplayError, row_of
from leaderboards.runs import Run, Source, check_alike, command_of, read_run
from leaderboards.schema import (
    FORMAT,
    Entry,
    EntryError,
    EpisodeRow,
    Figures,
    Lock,
    Model,
    Verified,
)
from leaderboards.verify import Progress, verify

PACKAGES = ("gymnasium", "numba", "numpy", "peft", "tokenizers", "torch", "transformers")
"""Packages whose versions an entry tells, where they are installed."""


def submit(
    sources: Sequence[Source],
    board: str,
    about: About,
    out: Path,
    *,
    date: str,
    slug: str | None = None,
    workers: Workers | None = None,
    rounds: Path = Path("leaderboards/rounds"),
    progress: Progress = lambda done, total: None,
) -> tuple[Path, Verified]:
    """Makes the entry `out/<suite version>/<slug>`, and verifies it.

    The same runs, about file and date give the same bytes.

    Args:
        sources: one for each training seed.
        board: name of the board.
        date: of the submission, YYYY-MM-DD.
        slug: name of the entry's folder; made of names and date if None.
        rounds: folder of the sealed rounds.

    Returns:
        The entry's folder, and what was found of it.

    Raises:
        ValueError: the runs do not make an entry, or it would not verify; says why.
    """
    if not sources:
        raise EntryError("an entry needs at least one run")
    on = board_of(board)
    runs = sorted((read_run(s) for s in sources), key=lambda r: r.seed)
    check_alike(runs)
    env = _env_of(runs[0], on)
    starts = _starts_of(runs[0], on, env, rounds)
    model = _model(about, runs)
    name = model.name if model else None
    slug = check_slug(slug or slug_of(board, about.method.name, name, date))
    target = out / ftw_envs.__version__ / slug
    if target.exists():
        raise EntryError(f"{target} exists already; choose another --slug")
    partial = partial_path(target)
    try:
        claims = [_write_run(partial, run, starts, on, env) for run in runs]
        lock = _lock(about, runs[0], model, env)
        write_json(partial / LOCK, lock.model_dump())
        files = [file_facts(partial, name) for name in _names(partial, runs)]
        entry = {
            "format": FORMAT,
            "entry_id": "0" * 64,
            "suite_version": ftw_envs.__version__,
            "board": board,
            "env_version": env.env_version,
            "view": view_of(runs[0].result.env_kwargs),
            "round": runs[0].result.round,
            **about.model_dump(include={"division", "method"}),
            "model": model and model.model_dump(),
            "submitter": about.submitter.model_dump(),
            "submitted": date,
            "runs": [run.seed for run in runs],
            "training": _training(about, runs),
            **about.model_dump(include={"selection", "contamination", "notes"}),
            "files": [f.model_dump() for f in files],
            "claims": [
                {"run": run.seed, "figures": figures.model_dump()}
                for run, figures in zip(runs, claims, strict=True)
            ],
        }
        entry["entry_id"] = entry_id(parse(Entry, entry, ENTRY))
        write_json(partial / ENTRY, entry)
        report = verify(partial, workers=workers, rounds=rounds, slug=slug, progress=progress)
        if report.verified is None:
            raise EntryError(f"would not verify: {'; '.join(report.problems)}")
        if report.verified.differences:
            raise EntryError(f"would not verify: {report.warnings[0]}")
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target, report.verified


def _env_of(run: Run, board: Board) -> EpisodeEnv:
    """The environment that a run was evaluated in, if it is the board's."""
    result, where = run.result, run.source.evaluation
    for key, right in (
        ("suite_version", ftw_envs.__version__),
        ("env_id", board.env_id),
        ("seed", PUBLIC_SEED),
    ):
        if (told := getattr(result, key)) != right:
            raise EntryError(f"{where}: {key} is {told}, on the board {board.name} it is {right}")
    env = open_env(board, view_of(result.env_kwargs))
    if result.env_version != env.env_version:
        raise EntryError(
            f"{where}: env_version is {result.env_version}, now it is {env.env_version}; "
            "evaluate again"
        )
    return env


def _starts_of(run: Run, board: Board, env: EpisodeEnv, rounds: Path) -> Sequence[Start]:
    """What a run had to play, in order: the board's instances, or those of its sealed round."""
    if run.result.round is None:
        starts = evaluation_starts(env, board.split, board.episodes, PUBLIC_SEED)
    else:
        from leaderboards.sealed import read_round, starts_for

        starts = starts_for(read_round(rounds, run.result.round), env)
    told, right = run.result.split, starts[0].split
    if told != right:
        raise EntryError(
            f"{run.source.evaluation}: split is {told}, on the board {board.name} it is {right}"
        )
    return starts


def _write_run(
    folder: Path, run: Run, starts: Sequence[Start], board: Board, env: EpisodeEnv
) -> Figures:
    """Writes the files of a run; returns the figures that its evaluation claims."""
    path = run.source.evaluation / "episodes.jsonl"
    tally = Tally()

    def rows() -> Iterator[EpisodeRow]:
        for number, episode in enumerate(islice(read_episodes(path), len(starts)), 1):
            try:
                row = row_of(env, episode, starts[number - 1])
            except ReplayError as e:
                raise EntryError(f"{path}:{number}: {e}") from None
            tally.add(episode)
            yield row

    try:
        _write_lines(folder / run_file(run.seed, EPISODES), rows())
    except EpisodeError as e:
        raise EntryError(str(e)) from None
    if tally.episodes < len(starts):
        raise EntryError(
            f"{path}: {tally.episodes} episodes, the board {board.name} has {len(starts)}"
        )
    if run.trained and run.trained.curve and run.trained.config.env == board.env_id:
        _write_lines(folder / run_file(run.seed, CURVE), run.trained.curve)
    summary = run.result.summary
    return summary if summary.episodes == len(starts) else Figures(**tally.summary().to_json())


def _write_lines(path: Path, rows: Iterable[BaseModel]) -> None:
    text = (
        json.dumps(r.model_dump(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        for r in rows
    )
    write_bytes(path, "".join(f"{line}\n" for line in text).encode())


def _names(folder: Path, runs: Sequence[Run]) -> list[str]:
    """The files of an entry, in the order in which it lists them."""
    names = [run_file(run.seed, name) for run in runs for name in (EPISODES, CURVE)]
    return [LOCK, *(name for name in names if (folder / name).exists())]


def _model(about: About, runs: Sequence[Run]) -> Model | None:
    """The model, with what the evaluations tell of it."""
    agents = [run.result.agent for run in runs]
    if about.model is None or any(agent.kind == "scripted" for agent in agents):
        if about.model is not None:
            raise EntryError("model: the player is scripted, so it must be null")
        if any(agent.kind == "language-model" for agent in agents):
            raise EntryError("model: the player is a language model; say which")
        return None
    told = about.model.model_dump()
    measured: dict[str, set[int]] = {
        "parameters": {a.parameters for a in agents if a.parameters is not None},
        "temperature_percent": {
            round(100 * a.temperature) for a in agents if a.temperature is not None
        },
        "max_reply_tokens": {a.max_reply_tokens for a in agents if a.max_reply_tokens is not None}
        or {r.trained.config.max_reply_tokens for r in runs if r.trained},
    }
    for key, values in measured.items():
        if len(values) > 1:
            raise EntryError(f"the runs were evaluated with other {key}: {sorted(values)}")
        if values and told[key] is not None and told[key] not in values:
            raise EntryError(f"model.{key} is {told[key]}, the evaluations say {min(values)}")
        told[key] = min(values, default=told[key])
    if told["parameters"] is None:
        raise EntryError("model.parameters: say how many, the evaluations do not")
    return parse(Model, told, "model")


def _training(about: About, runs: Sequence[Run]) -> dict[str, Any] | None:
    trained = [run.trained for run in runs if run.trained]
    if not trained:
        if about.training is not None:
            raise EntryError("training: the runs were not trained, so it must be null")
        return None
    if about.training is None:
        raise EntryError("training: the runs were trained; say how their settings were chosen")
    peaks = [t.peak_memory_mb for t in trained]
    return {
        "budget": {
            "episodes": max(t.episodes for t in trained),
            "env_steps": max(t.env_steps for t in trained),
            "tokens": max(t.tokens for t in trained),
            "wall_seconds": math.ceil(max(t.wall_seconds for t in trained)),
            "peak_memory_mb": None if None in peaks else max(p for p in peaks if p is not None),
            "device": about.device,
        },
        **about.training.model_dump(),
    }


def _lock(about: About, run: Run, model: Model | None, env: EpisodeEnv) -> Lock:
    agent = model.name if model else run.result.agent.name
    if about.training is not None:
        agent = "RUN/best" if about.training.checkpoint == "best-on-valid" else "RUN"
    percent = model.temperature_percent if model else None
    data = {
        "format": FORMAT,
        "suite_version": ftw_envs.__version__,
        "commit": about.commit,
        "command": command_of(run, agent, percent),
        "python": platform.python_version(),
        "packages": _packages(),
        "device": about.device,
        "max_steps": env.max_steps,
    }
    return parse(Lock, data, LOCK)


def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
