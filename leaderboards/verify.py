"""Plays every reply of an entry again, in a fresh environment, and recomputes every figure.

That proves that these replies do what the rows say, on exactly the board's instances, and that
the figures follow from them. It cannot prove who wrote the replies, nor that they were the
first try, nor what training cost.

What the submitter claims is never shown as a result. A claim that is not what was found is a
`Difference`: the entry stands, with the recomputed figures, and the difference beside them.
(`submit` refuses to make such an entry.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isclose
from pathlib import Path
from typing import Literal

import ftw_envs
from ftw_agents.starts import Start, evaluation_starts
from ftw_envs.text_env import EpisodeEnv
from leaderboards.boards import PUBLIC_SEED, board_of, open_env
from leaderboards.folder import (
    ENTRY,
    EPISODES,
    LOCK,
    MAX_BYTES,
    EntryFolder,
    parse,
    read_folder,
    refuse,
    run_file,
)
from leaderboards.identity import skeleton
from leaderboards.replays import MAX_LINE, RunTally, Workers, chunks_of, misplaced
from leaderboards.rows import TOLERANCE, watch
from leaderboards.schema import (
    Difference,
    Entry,
    EntryError,
    EpisodeRow,
    Figures,
    Replay,
    RunFound,
    Verified,
)
from leaderboards.strict import StrictError, lines

MAX_PROBLEMS = 20
"""Problems of one run that are told; the others are counted."""

FEW_SEEDS = 3
REPLAYS = 6
MAX_REPLAY_BYTES = 200_000

Tier = Literal["T1", "T2", "T3"]
Progress = Callable[[int, int], None]
"""Told how many rows of an entry have been played again, and of how many."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a verification found.

    Attributes:
        problems: what is wrong, a line each; empty if the entry holds.
        verified: what pages show; None if something is wrong.
    """

    folder: Path
    problems: tuple[str, ...]
    verified: Verified | None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed and yet worth knowing, a line each."""
        if self.verified is None:
            return ()
        told = (
            f"run {d.run}: claims {d.figure} {d.claimed:g}, found is {d.found:g}"
            for d in self.verified.differences
        )
        return (*told, *self.verified.warnings)


def entries_in(path: Path, depth: int = 2) -> list[Path]:
    """The folders of entries: `path` itself, or all below it, as in entries/VERSION/NAME.

    Args:
        depth: how many folders below `path` an entry may lie.

    Raises:
        EntryError: there are none, or something else lies among them.
    """
    if (path / ENTRY).exists() or (path / LOCK).exists():
        return [path]
    if not path.is_dir():
        raise EntryError(f"{path}: no such folder")
    found = []
    for child in sorted(path.iterdir()):
        if child.is_dir() and not child.is_symlink() and depth:
            found += entries_in(child, depth - 1)
        elif child.name not in ("README.md", ".gitkeep"):
            raise EntryError(f"{child}: does not belong among entries")
    if not found:
        raise EntryError(f"{path}: no entry there; one is a folder with {ENTRY}")
    return found


def verify(
    folder: Path,
    *,
    workers: Workers | None = None,
    rounds: Path = Path("leaderboards/rounds"),
    known: Sequence[Verified] = (),
    slug: str | None = None,
    progress: Progress = lambda done, total: None,
) -> Report:
    """Verifies an entry's folder.

    Args:
        workers: who plays; this process if None.
        rounds: folder of the sealed rounds.
        known: other entries, to compare names and replies with.
        slug: what the folder will be called, if not as it is now.
    """
    try:
        read = read_folder(folder, slug)
        env, starts, tier = _opened(read, rounds)
        entry = read.entry
        found = _runs(read, starts, workers or Workers(), progress)
        if tier == "T3":
            from leaderboards.sealed import check_traces

            check_traces(entry, rounds, {run.run: run.trace or "" for run in found})
        verified = Verified(
            format=2,
            entry=entry,
            slug=read.slug,
            tier=tier,
            verifier=f"ftw {ftw_envs.__version__}",
            runs=found,
            differences=list(_differences(entry, found)),
            warnings=[*_doubts(entry), *_resemblances(entry, found, known)],
            replays=_replays(read, env, starts),
        )
    except (EntryError, StrictError) as e:
        problems = [p.removeprefix(f"{folder}/") for p in str(e).split("\n")]
        return Report(folder, tuple(p.removeprefix(f"{folder}: ") for p in problems), None)
    return Report(folder, (), verified)


def _opened(folder: EntryFolder, rounds: Path) -> tuple[EpisodeEnv, list[Start], Tier]:
    """The environment of an entry's board and view, and the starts it had to play, in order."""
    entry = folder.entry
    try:
        board = board_of(entry.board)
        env = open_env(board, entry.view)
    except ValueError as e:
        raise EntryError(f"{ENTRY}: {e}") from None
    refuse(
        f"{where} is {told!a}, must be {right!a} on {board.name}"
        for where, told, right in (
            (f"{ENTRY}: env_version", entry.env_version, env.env_version),
            (f"{LOCK}: max_steps", folder.lock.max_steps, env.max_steps),
        )
        if told != right
    )
    if entry.round is None:
        return env, evaluation_starts(env, board.split, board.episodes, PUBLIC_SEED), "T1"
    from leaderboards.sealed import played_in

    return env, *played_in(entry, rounds, env)


def _runs(
    folder: EntryFolder, starts: list[Start], workers: Workers, progress: Progress
) -> list[RunFound]:
    """What was found of all runs.

    Raises:
        EntryError: what is wrong with any of them.
    """
    entry, found = folder.entry, []
    problems: list[str] = []
    for number, run in enumerate(entry.runs):
        tally, name = RunTally(), run_file(run, EPISODES)
        told = []
        for line, problem in _checked(folder, run, starts, workers, tally):
            progress(len(starts) * number + line, len(starts) * len(entry.runs))
            told += [problem] if problem else []
        if not told:
            found.append(_found(folder, run, tally))
            if entry.model is not None and not found[-1].figures.tokens_out:
                told.append(f"{name}: tokens_out is 0 in all; a language model tells its tokens")
        problems += told[:MAX_PROBLEMS]
        if len(told) > MAX_PROBLEMS:
            problems.append(f"{name}: {len(told) - MAX_PROBLEMS} more problems")
    refuse(problems)
    return found


def _found(folder: EntryFolder, run: int, tally: RunTally) -> RunFound:
    return RunFound(
        run=run,
        figures=tally.figures(),
        score_sd=tally.score_sd,
        outcomes=tally.outcomes,
        curve=folder.curves.get(run, []),
        trace=tally.trace,
    )


def _checked(
    folder: EntryFolder, run: int, starts: list[Start], workers: Workers, tally: RunTally
) -> Iterator[tuple[int, str | None]]:
    """Plays a run's rows again and counts them: how many so far, and what is wrong, if it is."""
    entry, name = folder.entry, run_file(run, EPISODES)
    chunks = chunks_of(folder.episodes(run), entry.board, tuple(entry.view), starts)
    placed: list[tuple[int, int | None]] = []
    try:
        for checked in workers.check(chunks):
            placed.append((checked.line, checked.index))
            if checked.outcome is not None:
                tally.add(checked.outcome, checked.trace)
            problem = checked.problem
            yield checked.line, problem and f"{name}:{checked.line}: {problem}"
    except StrictError as e:  # what comes after it cannot be read
        yield len(placed), str(e)
        return
    whole = [(line, index) for line, index in placed if index is not None]
    if len(whole) < len(placed):
        return  # what is no row may be any
    for line, problem in misplaced(whole, [s.index for s in starts]):
        yield len(placed), f"{name}: {problem}" if line is None else f"{name}:{line}: {problem}"


def _differences(entry: Entry, found: list[RunFound]) -> Iterator[Difference]:
    for claim, run in zip(entry.claims, found, strict=True):
        yield from differences(run.run, claim.figures, run.figures)


def differences(run: int, claimed: Figures, found: Figures) -> Iterator[Difference]:
    """The figures that were claimed and are not what was found, but for rounding."""
    right = found.model_dump()
    for name, told in claimed.model_dump().items():
        if not isclose(told, right[name], rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield Difference(run=run, figure=name, claimed=told, found=right[name])


def _doubts(entry: Entry) -> Iterator[str]:
    """What an entry says of itself that makes it weaker."""
    if entry.training is not None and len(entry.runs) < FEW_SEEDS:
        yield f"{len(entry.runs)} of at least {FEW_SEEDS} training seeds"
    if entry.contamination.trained_on_eval:
        yield "trained on the instances that it is ranked on, as it says"


def _resemblances(entry: Entry, found: list[RunFound], known: Iterable[Verified]) -> Iterator[str]:
    """Runs that said the very same as others, and names that are nearly those of others."""
    mine: dict[str | None, int] = {}
    for run in found:
        if run.trace in mine:
            yield f"run {run.run} replied exactly as run {mine[run.trace]}"
        mine[run.trace] = run.run
    name = entry.method.name
    for other in known:
        theirs = other.entry
        if theirs.entry_id == entry.entry_id:
            continue
        if theirs.method.name != name and skeleton(theirs.method.name) == skeleton(name):
            yield f"method {name} is called nearly as {theirs.method.name} in {other.slug}"
        # The same people may submit the same again, with another statement.
        if theirs.board != entry.board or _who(theirs) == _who(entry):
            continue
        for run in other.runs:
            if run.trace is not None and run.trace in mine:
                yield f"run {mine[run.trace]} replied exactly as run {run.run} of {other.slug}"


def _who(entry: Entry) -> tuple[str, str | None, str]:
    model = entry.model.name if entry.model else None
    return entry.method.name, model, entry.submitter.name


def _replays(folder: EntryFolder, env: EpisodeEnv, starts: list[Start]) -> list[Replay]:
    """The first attempts of the first run, as many as there is room for."""
    run, room = folder.entry.runs[0], MAX_REPLAY_BYTES
    env.render_mode = "ansi"
    rows = lines(folder.episodes(run), MAX_BYTES[EPISODES], MAX_LINE)
    shown: list[Replay] = []
    for (_, data), start in zip(islice(rows, REPLAYS), starts, strict=False):
        replay = watch(env, run, parse(EpisodeRow, data, "the row"), start)
        room -= len(replay.model_dump_json().encode())
        if room < 0:
            break
        shown.append(replay)
    return shown
