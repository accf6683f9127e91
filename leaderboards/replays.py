"""Plays the rows of a run again, in as many processes as wanted, a few rows in memory at a time."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ftw_agents.results import Tally
from ftw_agents.starts import Start
from ftw_envs.text_env import EpisodeEnv
from leaderboards.boards import board_of, open_env
from leaderboards.folder import EPISODES, MAX_BYTES, parse
from leaderboards.identity import canonical
from leaderboards.rows import Outcome, ReplayError, replay_row
from leaderboards.schema import EntryError, EpisodeRow, Figures
from leaderboards.strict import lines

MAX_LINE = 4_000_000
_CHUNK = 50
_WAITING = 3
"""Chunks a process that are read ahead."""

_ALONE = 2.0
"""Seconds of work before other processes are started, which takes about as long."""

View = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a file as they were read, with their line numbers, and the starts they must be of."""

    board: str
    view: View
    rows: list[tuple[int, Any]]
    starts: Sequence[Start]


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of a row.

    Attributes:
        index: the instance it says it is of; None if it is no row.
        trace: hash of its replies.
        outcome: None if it was not played to its end, or not at all, being out of its place.
        problem: what is wrong with it, but for its place.
    """

    line: int
    index: int | None
    trace: bytes = b""
    outcome: Outcome | None = None
    problem: str | None = None


@lru_cache(maxsize=4)
def _env(board: str, view: View) -> EpisodeEnv:
    return open_env(board_of(board), list(view))


def check(chunk: Chunk) -> list[Checked]:
    """Plays the rows of a chunk that stand where they belong."""
    env, checked = _env(chunk.board, chunk.view), []
    for i, (line, data) in enumerate(chunk.rows):
        try:
            row = parse(EpisodeRow, data, "the row")
        except EntryError as e:
            checked.append(Checked(line, None, problem=str(e)))
            continue
        trace = sha256(canonical([row.index, row.replies])).digest()
        outcome = problem = None
        if i < len(chunk.starts) and row.index == chunk.starts[i].index:
            try:
                outcome = replay_row(env, row, chunk.starts[i])
            except ReplayError as e:
                problem = str(e)
            except Exception as e:  # one hostile row must not stop the others
                problem = f"playing it again failed ({type(e).__name__}: {ascii(str(e))[:200]})"
        checked.append(Checked(line, row.index, trace, outcome, problem))
    return checked


class Workers:
    """Processes that check chunks; with one job, or little to do, this process does it itself.

    Args:
        jobs: how many, at least 1.

    Raises:
        ValueError: jobs is below 1.
    """

    def __init__(self, jobs: int = 1) -> None:
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {jobs}")
        self.jobs = jobs
        self._spent = 0.0
        # Not forked: a process that has loaded torch must not be copied with its threads.
        self._pool = ProcessPoolExecutor(jobs, get_context("spawn")) if jobs > 1 else None

    def check(self, chunks: Iterable[Chunk]) -> Iterator[Checked]:
        """What became of each row, in order."""
        waiting: deque[Future[list[Checked]]] = deque()
        for chunk in chunks:
            if self._pool is None or self._spent < _ALONE:
                begin = time.perf_counter()
                yield from check(chunk)
                self._spent += time.perf_counter() - begin
                continue
            waiting.append(self._pool.submit(check, chunk))
            if len(waiting) >= _WAITING * self.jobs:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def chunks_of(path: Path, board: str, view: View, starts: Sequence[Start]) -> Iterator[Chunk]:
    """The rows of a file, some at a time. Raises StrictError for what is no strict JSONL."""
    rows, at = lines(path, MAX_BYTES[EPISODES], MAX_LINE), 0
    while some := list(islice(rows, _CHUNK)):
        yield Chunk(board, view, some, starts[at : at + _CHUNK])
        at += _CHUNK


class RunTally:
    """Counts the rows of a run as they are checked."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._scores: list[float] = []
        self._trace = sha256()
        self._outcomes: list[str] = []

    def add(self, outcome: Outcome, trace: bytes) -> None:
        """Counts one row."""
        self._tally.count(
            solved=outcome.solved,
            score=outcome.score,
            turns=outcome.turns,
            invalid=outcome.invalid,
            tokens_in=outcome.tokens_in,
            tokens_out=outcome.tokens_out,
        )
        self._scores.append(outcome.score)
        self._outcomes.append("1" if outcome.solved else "0")
        self._trace.update(trace)

    def figures(self) -> Figures:
        """The figures so far. Raises ValueError if nothing was counted."""
        return Figures(**self._tally.summary().to_json())

    @property
    def score_sd(self) -> float:
        """Standard deviation of the scores (divided by n); exact sums, so equal everywhere."""
        n = len(self._scores)
        mean = math.fsum(self._scores) / n
        return math.sqrt(math.fsum((x - mean) ** 2 for x in self._scores) / n)

    @property
    def outcomes(self) -> str:
        """A digit for each row, 1 if it was solved."""
        return "".join(self._outcomes)

    @property
    def trace(self) -> str:
        """Hash (hex) of all replies."""
        return self._trace.hexdigest()


def misplaced(
    found: Sequence[tuple[int, int]], wanted: Sequence[int]
) -> Iterator[tuple[int | None, str]]:
    """What is wrong with which instances a file holds, and in which order, and in which line.

    Args:
        found: (line, instance) of each row.
        wanted: the instances of the board, in order.
    """
    place = {index: i for i, index in enumerate(wanted)}
    first: dict[int, int] = {}
    last: int | None = None
    for line, index in found:
        if index not in place:
            span = f"{len(wanted)} from {min(wanted)} to {max(wanted)}"
            yield line, f"instance {index} is not one of the board's ({span})"
        elif index in first:
            yield line, f"instance {index} stands here again, it is in line {first[index]} too"
        else:
            first[index] = line
            if last is not None and place[index] < place[last]:
                yield line, f"instance {index} is out of its place, it comes before {last}"
            else:
                last = index
    missing = [index for index in wanted if index not in first]
    if missing:
        rest = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield None, f"missing: instance {missing[0]}{rest} of {len(wanted)}"
