"""The attempts of a sealed round on tier T3: worlds that only the organiser holds.

An agent is shown observations and answers them; every event is on the disk before its answer
is given. Worlds follow from the round's key and the replies, so that after a stop, a kill or a
power cut everything goes on from the log where it was.

Each run has one attempt at each start. Answering the newest turn again with the same words is
the same request, asked again because its answer was lost; nothing is played twice.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from ftw_agents.starts import Start
from ftw_envs.actions import MAX_REPLY_CHARS
from ftw_envs.text_env import EpisodeEnv
from leaderboards.boards import open_env
from leaderboards.chain import Chain, ChainError, read_chain
from leaderboards.rounds import (
    RoundError,
    RoundFolder,
    order_of,
    sealed_split,
    starts_digest,
    starts_of,
)

Answer = dict[str, Any]
_Key = tuple[str, int, int]
"""Participant, run, place."""

MAX_LOGGED_REFUSALS = 1_000
"""Of each participant, and of all strangers together, since the start: the log must not fill."""


class RefusedError(ValueError):
    """A request that changes nothing; `status` is HTTP's word for why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server bears.

    Attributes:
        seconds: that an attempt may take; then it counts as given up.
        open_each: attempts of a participant that are open at a time; a world takes up to 1 MB.
        open_all: the same of all participants together.
        run_bytes: of all replies of a run; no entry has room for as many.
    """

    seconds: int = 4 * 3600
    open_each: int = 256
    open_all: int = 2048
    run_bytes: int = 16 << 20


@dataclass(slots=True)
class _Attempt:
    """An attempt; once it has ended, only what a repeated request needs is kept."""

    began: int
    key: str
    env: EpisodeEnv | None
    observation: str
    receipt: str
    turns: int = 0
    last: bytes = b""
    end: str = ""
    solved: bool = False
    score: float = 0.0

    def answer(self) -> Answer:
        told = {
            "observation": self.observation,
            "turn": self.turns,
            "end": self.end,
            "receipt": self.receipt,
        }
        return {**told, "solved": self.solved, "score": self.score} if self.end else told


GIVEN_UP = "given up"
"""The end of an attempt that took too long: it counts as if all other replies were empty."""


def day_of(seconds: float) -> str:
    """The day in UTC, as "2026-01-31"."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


class Exam:
    """All attempts of a round. Safe to be used by many threads.

    Args:
        folder: of a round on tier T3, drawn and not revealed.
        key: the round's master key.
        log: path of the log; an existing one is gone on with.
        clock: seconds since 1970.

    Raises:
        RoundError, ChainError: the round is not so far, or the log is not this round's.
    """

    def __init__(
        self,
        folder: RoundFolder,
        key: bytes,
        log: Path,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder, self.round = folder, folder.round
        self.limits, self._clock = limits or Limits(), clock
        if folder.reveal is not None:
            raise RoundError(f"{folder.path}: revealed already, nothing can be played any more")
        self._starts = secret_starts(folder, key)
        self._orders = {
            (slug, agent.run): order_of(self.round, key, slug, agent.run)
            for slug, commitment in folder.commitments.items()
            for agent in commitment.agents
        }
        self._said = dict.fromkeys(self._orders, 0)
        self._attempts: dict[_Key, _Attempt] = {}
        self._open: OrderedDict[_Key, _Attempt] = OrderedDict()
        self._tokens: dict[_Key, tuple[int, int]] = {}
        self._refused: dict[str, int] = {}
        self._lock, self._broken = Lock(), False
        self._chain = Chain(log)
        try:
            self._recover(log)
        except BaseException:
            self._chain.close()
            raise

    # What participants may ask.

    def reset(self, slug: str, run: int, place: int, key: str) -> Answer:
        """Begins the attempt at a place; asked again with the same `key` it answers the same.

        Raises:
            RefusedError: it was begun before, too many are open, or there is no such place.
        """
        with self._lock:
            self._check_time(slug, run)
            where = self._where(slug, run, place)
            known = self._attempts.get(where)
            if known is not None:
                if known.key == key and not known.turns and not known.end:
                    return known.answer()
                raise RefusedError(409, f"place {place} was begun already; there is one attempt")
            mine = sum(k[0] == slug for k in self._open)
            if mine >= self.limits.open_each:
                raise RefusedError(429, f"{mine} attempts are open; end one first")
            if len(self._open) >= self.limits.open_all:
                raise RefusedError(503, "too many attempts are open; try again later")
            env, observation = self._begin(where)
            receipt = self._log("reset", where, key=key, check=_hash(observation))
            attempt = _Attempt(int(self._clock()), key, env, observation, receipt)
            self._attempts[where] = self._open[where] = attempt
            return attempt.answer()

    def step(self, slug: str, run: int, place: int, turn: int, reply: str) -> Answer:
        """Takes the reply of a turn, counted from 0, and tells what the agent sees then.

        What goes beyond `MAX_REPLY_CHARS` is cut off, one character later: such a reply is
        unusable whatever it says.

        Raises:
            RefusedError: the attempt was not begun or has ended, or it is not that turn.
        """
        with self._lock:
            self._check_time(slug, run)
            where = self._where(slug, run, place)
            attempt = self._attempts.get(where)
            if attempt is None:
                raise RefusedError(409, f"place {place} was not begun yet")
            reply = reply[: MAX_REPLY_CHARS + 1]
            said = sha256(reply.encode()).digest()
            if turn == attempt.turns - 1 and said == attempt.last:
                return attempt.answer()
            if attempt.env is None:
                raise RefusedError(410, f"the attempt at place {place} has ended ({attempt.end})")
            if turn != attempt.turns:
                raise RefusedError(409, f"place {place} is at turn {attempt.turns}, not {turn}")
            size = len(reply.encode())
            if self._said[slug, run] + size > self.limits.run_bytes:
                raise RefusedError(413, f"a run has {self.limits.run_bytes} bytes for its replies")
            observation, *_, info = attempt.env.step(reply)
            attempt.receipt = self._log(
                "step", where, turn=turn, reply=reply, check=_hash(observation),
                end=info["end"], score=float(info["score"]),
            )  # fmt: skip
            attempt.observation, attempt.last, attempt.turns = observation, said, turn + 1
            self._said[slug, run] += size
            if info["end"]:
                self._end(where, info["end"], float(info["score"]))
            return {**attempt.answer(), "observation": observation}

    def tokens(self, slug: str, run: int, place: int, tokens_in: int, tokens_out: int) -> Answer:
        """Takes down, once, how many tokens an attempt took that has ended. As told."""
        with self._lock:
            self._check_time(slug, run)
            where = self._where(slug, run, place)
            attempt = self._attempts.get(where)
            told = tokens_in, tokens_out
            if attempt is None or not attempt.end or self._tokens.get(where, told) != told:
                raise RefusedError(409, f"tokens of place {place} are told once, after its end")
            if where not in self._tokens:
                self._log("tokens", where, tokens_in=tokens_in, tokens_out=tokens_out)
                self._tokens[where] = told
            return {}

    def status(self, slug: str, run: int) -> Answer:
        """How far a run has come: `open` maps places to their turns, `ended` places to ends."""
        with self._lock:
            self._check_time(slug, run)
            mine = {k[2]: a for k, a in self._attempts.items() if k[:2] == (slug, run)}
            return {
                "round": self.round.name,
                "board": self.round.board,
                "view": self.folder.commitments[slug].view,
                "episodes": self.round.episodes,
                "open": {str(place): a.turns for place, a in mine.items() if not a.end},
                "ended": {str(place): a.end for place, a in mine.items() if a.end},
            }

    def refuse(self, slug: str | None, why: str) -> None:
        """Takes down that a request was refused; `slug` is None for a stranger."""
        with self._lock:
            name = slug or ""
            n = self._refused[name] = self._refused.get(name, 0) + 1
            if n <= MAX_LOGGED_REFUSALS and not self._broken:
                more = "; later ones are not logged" if n == MAX_LOGGED_REFUSALS else ""
                self._log("refused", (name, -1, -1), why=(why + more)[:500])

    @property
    def head(self) -> tuple[int, str]:
        """Lines of the log and hash of the last one."""
        with self._lock:
            return self._chain.lines, self._chain.head

    def close(self) -> None:
        """Closes the log."""
        with self._lock:
            self._broken = True
            self._chain.close()

    # How it is done.

    def _where(self, slug: str, run: int, place: int) -> _Key:
        if not 0 <= place < self.round.episodes:
            last = self.round.episodes - 1
            raise RefusedError(404, f"places go from 0 to {last}, got {place}")
        return slug, run, place

    def _check_time(self, slug: str, run: int) -> None:
        """Ends what took too long, and refuses what comes too late or is of no run."""
        if self._broken:
            raise RefusedError(503, "the log cannot be written; the organiser has to look")
        now = self._clock()
        while self._open:
            where, oldest = next(iter(self._open.items()))
            if now - oldest.began <= self.limits.seconds:
                break
            self._log("timeout", where)
            self._end(where, GIVEN_UP, 0.0)
        if (slug, run) not in self._orders:
            raise RefusedError(404, f"{slug} did not commit to a run {run}")
        if day_of(now) > self.round.run_by:
            raise RefusedError(403, f"the run window closed with {self.round.run_by}")

    def _begin(self, where: _Key) -> tuple[EpisodeEnv, str]:
        slug, run, place = where
        start = self._starts[self._orders[slug, run][place]]
        env = open_env(self.folder.board, self.folder.commitments[slug].view)
        options = {"split": start.split, "index": start.index}
        observation, _ = env.reset(seed=start.seed, options=options)
        return env, observation

    def _end(self, where: _Key, end: str, score: float) -> None:
        attempt = self._open.pop(where)
        attempt.env, attempt.observation = None, ""
        attempt.end, attempt.solved, attempt.score = end, end == "solved", score

    def _log(self, event: str, where: _Key, **facts: Any) -> str:
        slug, run, place = where
        line = {"time": int(self._clock()), "event": event, "slug": slug, "run": run}
        try:
            return self._chain.append({**line, "place": place, **facts})
        except BaseException:
            self._broken = True  # what was played is not on the disk: only a restart can mend it
            raise

    def _recover(self, log: Path) -> None:
        """Puts everything in the state that the log tells, and begins an empty one."""
        facts = opening(self.folder)
        if not self._chain.lines:
            self._chain.append({"time": int(self._clock()), "event": "open", **facts})
            return
        replies: dict[_Key, list[str]] = {}
        checks: dict[_Key, str] = {}
        for line in log_of(self.folder, log):
            where = line["slug"], line["run"], line["place"]
            if line["event"] == "reset":
                attempt = _Attempt(line["time"], line["key"], None, "", line["hash"])
                self._attempts[where] = self._open[where] = attempt
                replies[where], checks[where] = [], line["check"]
            elif line["event"] == "step":
                attempt = self._attempts[where]
                attempt.turns, attempt.receipt = line["turn"] + 1, line["hash"]
                attempt.last = sha256(line["reply"].encode()).digest()
                replies[where].append(line["reply"])
                self._said[where[:2]] += len(line["reply"].encode())
                checks[where] = line["check"]
                if line["end"]:
                    self._end(where, line["end"], line["score"])
            elif line["event"] == "timeout":
                self._end(where, GIVEN_UP, 0.0)
            elif line["event"] == "tokens":
                self._tokens[where] = line["tokens_in"], line["tokens_out"]
            if where in replies and where not in self._open:
                del replies[where], checks[where]
        for where, attempt in self._open.items():
            attempt.env, attempt.observation = self._begin(where)
            for reply in replies[where]:
                attempt.observation = attempt.env.step(reply)[0]
            if _hash(attempt.observation) != checks[where]:
                raise ChainError(f"{log}: the attempt at {where} does not go as it went before")


def _hash(observation: str) -> str:
    return sha256(observation.encode()).hexdigest()[:16]


def opening(folder: RoundFolder) -> dict[str, Any]:
    """What the first line of a round's log says: which round it is of."""
    assert folder.draw is not None
    round_ = folder.round
    return {
        "round": round_.name, "commitment": round_.commitment, "beacon": folder.draw.beacon,
        "starts": folder.draw.starts, "env_version": round_.env_version,
    }  # fmt: skip


def log_of(folder: RoundFolder, log: Path) -> Iterator[dict[str, Any]]:
    """The events of a round's log after the first line.

    Raises:
        ChainError: it is not as it was written, or of another round.
    """
    events = read_chain(log)
    first = next(events, {})
    if any(first.get(name) != value for name, value in opening(folder).items()):
        raise ChainError(f"{log}: not a log of round {folder.round.name}")
    yield from events


def secret_starts(folder: RoundFolder, key: bytes) -> list[Start]:
    """The starts of a drawn round on tier T3, from its key.

    Raises:
        RoundError: it is on another tier, not drawn, or the key is another's.
    """
    if folder.round.tier != "T3" or folder.draw is None:
        raise RoundError(f"{folder.path}: only a round on tier T3 that is drawn has a server")
    split = sealed_split(folder.board, open_env(folder.board, []))
    starts = starts_of(folder.round, key, folder.draw.beacon, split)
    if starts_digest(starts) != folder.draw.starts:
        raise RoundError(f"{folder.path}: this key is not the one that was drawn with")
    return starts
