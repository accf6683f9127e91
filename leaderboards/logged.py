"""From the log of an evaluation server to the episodes that were played on it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from ftw_agents.agent import History, Reply
from ftw_agents.collect import Collector
from ftw_agents.config import parse_env_args
from ftw_envs.episode import Episode
from leaderboards.chain import read_chain
from leaderboards.exam import log_of, secret_starts
from leaderboards.identity import canonical
from leaderboards.rounds import Log, Played, RoundFolder, order_of

_Run = tuple[str, int]


@dataclass(slots=True)
class _Told:
    """What a log tells of an attempt."""

    replies: list[str] = field(default_factory=list)
    tokens: tuple[int, int] = (0, 0)


class _Repeats:
    """Says again what was said, and nothing where no more was said."""

    def __init__(self, attempts: Sequence[_Told]) -> None:
        self._waiting = iter(attempts)
        self._replies: list[str] = []

    def act(self, histories: Sequence[History]) -> list[Reply]:
        [history] = histories
        if not history.replies:
            self._replies = next(self._waiting).replies
        turn = len(history.replies)
        return [Reply(self._replies[turn] if turn < len(self._replies) else "")]


def runs_in(folder: RoundFolder, log: Path) -> list[_Run]:
    """The runs that began at least one attempt, as (slug, run), in order."""
    events = log_of(folder, log)
    return sorted({(e["slug"], e["run"]) for e in events if e["event"] == "reset"})


def episodes_of(
    folder: RoundFolder, key: bytes, log: Path, slug: str, run: int
) -> Iterator[Episode]:
    """The episodes of a run in the order of the round's starts, played again from the log.

    An attempt that was not begun, or not brought to its end, counts as if all replies that it
    lacks were empty.

    Args:
        key: the round's master key.

    Raises:
        RoundError, ChainError: the log or the key is not the round's.
    """
    starts, order = secret_starts(folder, key), order_of(folder.round, key, slug, run)
    told: dict[int, _Told] = defaultdict(_Told)
    for event in log_of(folder, log):
        if (event["slug"], event["run"]) == (slug, run):
            attempt = told[order[event["place"]]]
            if event["event"] == "step":
                attempt.replies.append(event["reply"])
            elif event["event"] == "tokens":
                attempt.tokens = event["tokens_in"], event["tokens_out"]
    attempts = [told[i] for i in range(len(starts))]
    view = parse_env_args(folder.commitments[slug].view)
    collector = Collector(folder.board.env_id, view, batch=1)
    played = collector.play(_Repeats(attempts), starts)
    for attempt, episode in zip(attempts, played, strict=True):
        tokens_in, tokens_out = attempt.tokens
        yield replace(episode, tokens_in=tokens_in, tokens_out=tokens_out)


def log_facts(folder: RoundFolder, key: bytes, log: Path) -> Log:
    """What a reveal says of the log: its length, its last hash, and what every run replied.

    Raises:
        RoundError, ChainError: as `episodes_of`.
    """
    [last] = deque(read_chain(log), maxlen=1)
    played = [
        Played(slug=slug, run=run, trace=trace_of(episodes_of(folder, key, log, slug, run)))
        for slug, run in runs_in(folder, log)
    ]
    return Log(lines=last["n"] + 1, head=last["hash"], played=played)


def trace_of(episodes: Iterator[Episode]) -> str:
    """Hash (hex) of what was replied in all episodes, as `RunFound.trace`."""
    trace = sha256()
    for episode in episodes:
        said = [episode.instance.index, [turn.reply for turn in episode.turns]]
        trace.update(sha256(canonical(said)).digest())
    return trace.hexdigest()
