"""Plays every recorded reply again, in a fresh environment, and recomputes every figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from math import isclose
from pathlib import Path

from gymnasium import spaces

import ftw_envs
from ftw_agents.results import Summary, Tally
from ftw_agents.starts import Start, evaluation_starts
from ftw_envs.episode import Episode, EpisodeError, read_episodes
from ftw_envs.registry import make
from ftw_envs.text_env import EpisodeEnv, record
from leaderboards.schema import EPISODES_FILE, Entry, EntryError, read_entry

TOLERANCE = 1e-9
"""How far a recomputed number may lie from the recorded one, relative or absolute."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a verification found.

    Attributes:
        entry: what was submitted.
        summary: the recomputed figures; None if the episodes did not hold.
        problem: the first thing that is wrong, with its place; None if nothing is.
    """

    entry: Entry
    summary: Summary | None
    problem: str | None


class _ProblemError(Exception):
    """Something that does not hold; the message says what, and where if the caller does not."""


def _same(where: str, recorded: object, replayed: object) -> None:
    equal = (
        isclose(recorded, replayed, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        if isinstance(recorded, float) and isinstance(replayed, float)
        else recorded == replayed
    )
    if not equal:
        raise _ProblemError(
            f"{where} is recorded as {_short(recorded)}, played again it is {_short(replayed)}"
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def replay(env: EpisodeEnv, episode: Episode, start: Start) -> None:
    """Plays `episode` again and compares everything that was recorded.

    Args:
        env: an environment of the entry's id and view.
        start: the instance and noise seed that this episode must be of.

    Raises:
        _ProblemError: the first difference.
    """
    instance = episode.instance
    _same("instance", f"{instance.split}/{instance.index}", f"{start.split}/{start.index}")
    _same("seed", episode.seed, start.seed)
    observation, info = env.reset(
        seed=start.seed, options={"split": start.split, "index": start.index}
    )
    _same("instance.hash", instance.hash, info["instance"]["hash"])
    if not episode.turns:
        raise _ProblemError("the episode has no turns")
    for i, turn in enumerate(episode.turns):
        where = f"turns[{i}]"
        if info["end"]:
            raise _ProblemError(f"{where} comes after the end ({info['end']}, {i} turns)")
        _same(f"{where}.observation", turn.observation, record(observation))
        observation, reward, _, _, info = env.step(turn.reply)
        _same(f"{where}.action", turn.action, env.last_action)
        _same(f"{where}.reward", turn.reward, float(reward))
    if not info["end"]:
        raise _ProblemError(f"the episode goes on after its {len(episode.turns)} turns")
    _same("end", episode.end, info["end"])
    _same("solved", episode.solved, info["solved"])
    _same("score", episode.score, float(info["score"]))
    _same("final_observation", episode.final_observation, record(observation))


def _checked_episodes(folder: Path, entry: Entry, env: EpisodeEnv) -> Iterator[Episode]:
    """The episodes in order, each proved by replay."""
    starts = evaluation_starts(env, entry.split, entry.claims.episodes, entry.seed)
    path = folder / EPISODES_FILE
    number = 0
    for number, episode in enumerate(read_episodes(path), 1):
        try:
            if number > len(starts):
                raise _ProblemError(f"one episode too many, the entry says {len(starts)}")
            _same("env_id", episode.env_id, entry.env_id)
            _same("env_version", episode.env_version, env.env_version)
            _same("env_kwargs", episode.env_kwargs, entry.env_kwargs)
            replay(env, episode, starts[number - 1])
        except _ProblemError as e:
            raise _ProblemError(f"{EPISODES_FILE}:{number}: {e}") from None
        yield episode
    if number < len(starts):
        missing = starts[number]
        raise _ProblemError(
            f"{EPISODES_FILE}: {number} episodes, the entry says {len(starts)} "
            f"(instance {missing.split}/{missing.index} is missing)"
        )


def _check_file(folder: Path, entry: Entry) -> None:
    path, file = folder / EPISODES_FILE, entry.file
    digest, size, lines = file_facts(path)
    for name, claimed, found in (
        ("sha256", file.sha256, digest),
        ("bytes", file.bytes, size),
        ("lines", file.lines, lines),
    ):
        if claimed != found:
            raise _ProblemError(f"entry.json: file.{name} is {claimed}, the file's is {found}")


def file_facts(path: Path) -> tuple[str, int, int]:
    """SHA-256 in hex, bytes, and lines of a file, read in pieces."""
    digest, size, lines = sha256(), 0, 0
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            digest.update(piece)
            size += len(piece)
            lines += piece.count(b"\n")
    return digest.hexdigest(), size, lines


def _check_claims(entry: Entry, summary: Summary) -> None:
    claims = entry.claims.model_dump()
    for name, value in summary.to_json().items():
        try:
            _same(name, claims[name], value)
        except _ProblemError:
            raise _ProblemError(
                f"entry.json: claims.{name} is {claims[name]}, recomputed it is {value}"
            ) from None


def verify(folder: Path, progress: Callable[[int], None] = lambda done: None) -> Report:
    """Verifies an entry's folder.

    Proves that these replies do what the record says, on exactly these instances, and
    that every figure follows from them. It cannot prove who wrote the replies, nor that
    they were the first try.

    Args:
        progress: called with the number of episodes played again so far.

    Raises:
        EntryError: `entry.json` or the environment it names cannot be read at all.
    """
    entry = read_entry(folder)
    if entry.suite_version != ftw_envs.__version__:
        raise EntryError(
            f"{folder}: made with suite {entry.suite_version}, this is {ftw_envs.__version__}; "
            "verify it with the version it was made with"
        )
    if "levels" in entry.env_kwargs:
        raise EntryError(f"{folder}/entry.json: env_kwargs: an entry plays the shipped levels only")
    try:
        env = make(entry.env_id, **entry.env_kwargs)
        if not isinstance(env.action_space, spaces.Text):
            raise ValueError("env_kwargs: an entry is played with text actions")
        evaluation_starts(env, entry.split, entry.claims.episodes, entry.seed)
    except ValueError as e:
        raise EntryError(f"{folder}/entry.json: {e}") from None
    tally = Tally()
    try:
        _same("env_version", entry.env_version, env.env_version)
        for episode in _checked_episodes(folder, entry, env):
            tally.add(episode)
            progress(tally.episodes)
        _check_file(folder, entry)
        summary = tally.summary()
        _check_claims(entry, summary)
    except (_ProblemError, EpisodeError) as e:
        return Report(entry, None, str(e))
    return Report(entry, summary, None)
