"""Sealed rounds: instances and noise that nobody can know or choose before agents are fixed.

1. The organiser draws a salt and a master key of 256 bits each, keeps both, and publishes the
   round with the SHA-256 of salt, key and everything the round says of itself (`open_round`).
2. Participants publish the SHA-256 of their agents' files (`commit`).
3. After the deadline a public draw that was named beforehand, the beacon, is added. Instance and
   noise of attempt i are HMAC-SHA256(key, round, board, beacon, i): the organiser could not
   choose them, for the beacon came after the key, nor a participant, who has no key
   (`draw_round`). The list of commitments is closed in the same file.
4. On tier T2 the starts are published then, and participants play by themselves: from there on
   look-ahead is possible. On tier T3 they stay on the organiser's server (`exam.py`).
5. After the run window key and salt are published (`reveal_round`), and anybody can check
   everything again (`read_round`, `played_in`).

Dates are days in UTC. Files carry them as told; what proves them is the public history of the
repository that the files are in.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

import ftw_envs
from ftw_agents.starts import Start
from ftw_envs.files import write_json
from ftw_envs.text_env import EpisodeEnv
from leaderboards.boards import BOARDS, board_of, open_env
from leaderboards.folder import parse
from leaderboards.identity import check_slug, skeleton
from leaderboards.rounds import (
    Commitment,
    Draw,
    Log,
    Reveal,
    Round,
    RoundError,
    RoundFolder,
    Secret,
    Starts,
    commitment_of,
    published_starts,
    sealed_split,
    secret_of,
    starts_digest,
    starts_of,
)
from leaderboards.schema import Entry
from leaderboards.strict import open_plain, read_json

ROUND, DRAW, STARTS, REVEAL, COMMITMENTS = (
    "round.json", "draw.json", "starts.json", "reveal.json", "commitments",
)  # fmt: skip
_MAX_BYTES = 4 << 20

Tier = Literal["T1", "T2", "T3"]
M = TypeVar("M", bound=BaseModel)


# Reading a round.


def _read(model: type[M], path: Path) -> M:
    return parse(model, read_json(path, _MAX_BYTES), str(path))


def _file_hash(path: Path) -> str:
    with open_plain(path, _MAX_BYTES) as file:
        return sha256(file.read()).hexdigest()


def _demand(problems: Iterable[str]) -> None:
    """Raises RoundError with all `problems`, a line each, if there are any."""
    if found := list(problems):
        raise RoundError("\n".join(found))


def read_round(rounds: Path, name: str) -> RoundFolder:
    """A round from its files, and everything checked that they allow to check.

    Raises:
        RoundError: what does not hold.
        EntryError, StrictError: a file that cannot be read.
    """
    path = rounds / check_slug(name)
    if not (path / ROUND).exists():
        raise RoundError(f"{path}: there is no round {name!a} in {rounds}")
    round_ = _read(Round, path / ROUND)
    draw = _read(Draw, path / DRAW) if (path / DRAW).exists() else None
    starts = _read(Starts, path / STARTS) if (path / STARTS).exists() else None
    reveal = _read(Reveal, path / REVEAL) if (path / REVEAL).exists() else None
    if draw is None:
        slugs = sorted(p.stem for p in (path / COMMITMENTS).glob("*.json"))
    else:
        slugs = [c.slug for c in draw.commitments]
    commitments = {s: _read(Commitment, path / COMMITMENTS / f"{s}.json") for s in slugs}
    folder = RoundFolder(path, round_, commitments, draw, starts, reveal)
    _demand(f"{path}: {p}" for p in _disagreements(folder))
    return folder


def _disagreements(folder: RoundFolder) -> Iterator[str]:
    """What does not hold within a round."""
    round_, path = folder.round, folder.path
    if round_.board not in BOARDS:
        yield f"{ROUND}: there is no board {round_.board}"
        return
    if round_.name != path.name:
        yield f"{ROUND}: name is {round_.name}, the folder's is {path.name}"
    if not round_.opened <= round_.commit_by < round_.run_by:
        yield f"{ROUND}: opened, commit_by and run_by must follow each other"
    for file in (folder.draw, folder.starts, folder.reveal, *folder.commitments.values()):
        if file is not None and file.round != round_.name:
            yield f"a {type(file).__name__} of round {file.round} lies here"
    for slug, commitment in folder.commitments.items():
        yield from (f"{COMMITMENTS}/{slug}.json: {p}" for p in _faults(round_, slug, commitment))
    yield from _rivals(round_, folder.commitments.values())
    if folder.draw is None:
        if folder.starts is not None or folder.reveal is not None:
            yield f"there is no {DRAW}, but what comes after it"
        return
    if not round_.commit_by < folder.draw.drawn <= round_.run_by:
        span = f"after {round_.commit_by} and not after {round_.run_by}"
        yield f"{DRAW}: drawn on {folder.draw.drawn}, must be {span}"
    for told in folder.draw.commitments:
        if told.sha256 != _file_hash(path / COMMITMENTS / f"{told.slug}.json"):
            yield f"{COMMITMENTS}/{told.slug}.json is not the file that {DRAW} lists"
    if len(folder.commitments) != len(folder.draw.commitments):
        yield f"{DRAW}: a commitment is listed twice"
    if folder.starts is not None:
        published = published_starts(folder.starts)
        if len(published) != round_.episodes or starts_digest(published) != folder.draw.starts:
            yield f"{STARTS}: these are not the starts that {DRAW} fixes"
    if folder.reveal is not None:
        yield from _faults_of_reveal(folder, folder.draw, folder.reveal)


def _faults(round_: Round, slug: str, commitment: Commitment) -> Iterator[str]:
    if commitment.slug != slug:
        yield f"slug is {commitment.slug}, the file's name says {slug}"
    if not round_.opened <= commitment.committed <= round_.commit_by:
        span = f"from {round_.opened} to {round_.commit_by}"
        yield f"committed on {commitment.committed}, must be {span}"
    runs = [agent.run for agent in commitment.agents]
    if runs != sorted(set(runs)):
        yield f"agents: runs must ascend, got {runs}"


def _rivals(round_: Round, commitments: Iterable[Commitment]) -> Iterator[str]:
    """Submitters that commit to more than they may, or twice to one method."""
    commitments = list(commitments)
    for name, n in Counter(skeleton(c.submitter) for c in commitments).items():
        if n > round_.per_submitter:
            yield f"{n} commitments by {name!a}, at most {round_.per_submitter} are allowed"
    for (name, method), n in Counter((c.submitter, c.method) for c in commitments).items():
        if n > 1:
            yield f"{n} commitments to the method {method!a} by {name!a}, one is allowed"


def _faults_of_reveal(folder: RoundFolder, draw: Draw, reveal: Reveal) -> Iterator[str]:
    round_ = folder.round
    secret = secret_of(reveal)
    if reveal.revealed <= round_.run_by:
        yield f"{REVEAL}: revealed on {reveal.revealed}, must be after {round_.run_by}"
    if not hmac.compare_digest(commitment_of(round_, secret), round_.commitment):
        yield f"{REVEAL}: salt and key are not those that {ROUND} commits to"
    elif starts_digest(_derived(folder, draw, secret.master_key)) != draw.starts:
        yield f"{DRAW}: its starts do not follow from the key and the beacon"
    if (reveal.log is None) != (round_.tier == "T2"):
        yield f"{REVEAL}: a log belongs to tier T3, and only there; this round is {round_.tier}"


def _derived(folder: RoundFolder, draw: Draw, key: bytes) -> list[Start]:
    split = sealed_split(folder.board, open_env(folder.board, []))
    return starts_of(folder.round, key, draw.beacon, split)


# What organisers and participants do. `today` is a day as "2026-01-31", in UTC.


def open_round(rounds: Path, facts: dict[str, Any], secret: Secret) -> Round:
    """Writes `round.json`.

    Args:
        facts: of `Round`, but for format, versions and commitment.

    Raises:
        RoundError, ValueError: the round is there, its board cannot be sealed, or a fact is wrong.
    """
    board = board_of(facts["board"])
    env = open_env(board, [])
    sealed_split(board, env)
    versions = {"suite_version": ftw_envs.__version__, "env_version": env.env_version}
    draft = {"format": 1, **facts, **versions, "commitment": "0" * 64}
    round_ = parse(Round, draft, "the round")
    round_ = round_.model_copy(update={"commitment": commitment_of(round_, secret)})
    path = rounds / check_slug(round_.name)
    if path.exists():
        raise RoundError(f"{path}: exists already")
    _demand(_disagreements(RoundFolder(path, round_, {}, None, None, None)))
    write_json(path / ROUND, round_.model_dump())
    return round_


def commit(folder: RoundFolder, commitment: Commitment, today: str) -> Path:
    """Writes a commitment; it cannot be changed, only taken back by removing the file in time.

    Raises:
        RoundError: it is too late or too early, the slug is taken, or a fact is wrong.
    """
    round_, slug = folder.round, check_slug(commitment.slug)
    if folder.draw is not None or not round_.opened <= today <= round_.commit_by:
        raise RoundError(
            f"{round_.name} takes commitments from {round_.opened} to {round_.commit_by}, "
            f"today is {today}"
        )
    path = folder.path / COMMITMENTS / f"{slug}.json"
    if path.exists():
        raise RoundError(f"{path}: exists already")
    try:
        open_env(folder.board, commitment.view)
    except ValueError as e:
        raise RoundError(str(e)) from None
    others = folder.commitments.values()
    _demand([*_faults(round_, slug, commitment), *_rivals(round_, [*others, commitment])])
    write_json(path, commitment.model_dump())
    return path


def draw_round(folder: RoundFolder, beacon: str, secret: Secret, today: str) -> Draw:
    """Closes the list of commitments and adds the beacon: `draw.json`, and on T2 `starts.json`.

    Raises:
        RoundError: it is too early or done already, nobody committed, or the secret is another's.
    """
    round_ = folder.round
    if folder.draw is not None:
        raise RoundError(f"{folder.path}: drawn already, on {folder.draw.drawn}")
    if not round_.commit_by < today <= round_.run_by:
        raise RoundError(
            f"{round_.name} is drawn after {round_.commit_by} and not after {round_.run_by}, "
            f"today is {today}"
        )
    if not folder.commitments:
        raise RoundError(f"{folder.path}: nobody has committed, there is nothing to draw for")
    _own(round_, secret)
    board = folder.board
    split = sealed_split(board, open_env(board, []))
    starts = starts_of(round_, secret.master_key, beacon, split)
    hashes = [
        {"slug": slug, "sha256": _file_hash(folder.path / COMMITMENTS / f"{slug}.json")}
        for slug in sorted(folder.commitments)
    ]
    facts = {"format": 1, "round": round_.name, "beacon": beacon, "drawn": today}
    digest = starts_digest(starts)
    draw = parse(Draw, {**facts, "commitments": hashes, "starts": digest}, "the draw")
    if round_.tier == "T2":
        rows = [{"index": s.index, "seed": str(s.seed)} for s in starts]
        file = {"format": 1, "round": round_.name, "split": split, "starts": rows}
        write_json(folder.path / STARTS, file)
    write_json(folder.path / DRAW, draw.model_dump())
    return draw


def reveal_round(folder: RoundFolder, secret: Secret, today: str, log: Log | None = None) -> Reveal:
    """Writes `reveal.json`: the salt, the key, and on T3 what the server's log holds.

    Raises:
        RoundError: it is too early or done already, or something would not hold.
    """
    round_ = folder.round
    if folder.draw is None:
        raise RoundError(f"{folder.path}: not drawn yet")
    if folder.reveal is not None:
        raise RoundError(f"{folder.path}: revealed already, on {folder.reveal.revealed}")
    _own(round_, secret)
    reveal = Reveal(
        format=1,
        round=round_.name,
        revealed=today,
        salt=secret.salt.hex(),
        master_key=secret.master_key.hex(),
        log=log,
    )
    _demand(_faults_of_reveal(folder, folder.draw, reveal))
    write_json(folder.path / REVEAL, reveal.model_dump())
    return reveal


def _own(round_: Round, secret: Secret) -> None:
    if not hmac.compare_digest(commitment_of(round_, secret), round_.commitment):
        raise RoundError(f"this secret is not the one that {round_.name} commits to")


# What the verifier asks.


def starts_for(folder: RoundFolder, env: EpisodeEnv) -> list[Start]:
    """The starts of a round, in order, from the key if it is revealed, else as published.

    Args:
        env: an environment of the round's board.

    Raises:
        RoundError: they are not known yet.
    """
    if folder.draw is not None and folder.reveal is not None:
        key, split = bytes.fromhex(folder.reveal.master_key), sealed_split(folder.board, env)
        return starts_of(folder.round, key, folder.draw.beacon, split)
    if folder.draw is not None and folder.starts is not None:
        return published_starts(folder.starts)
    when = "the reveal" if folder.round.tier == "T3" else "the draw"
    raise RoundError(f"the starts of round {folder.round.name} are not known before {when}")


def played_in(entry: Entry, rounds: Path, env: EpisodeEnv) -> tuple[list[Start], Tier]:
    """The starts that an entry of a sealed round had to play, in order, and what that proves.

    Before the reveal, an entry of a round on T2 is replayed only (T1): nobody can see yet that
    its starts were not chosen. On T3 its replies must also be those in the organiser's log, see
    `check_traces`.

    Args:
        env: the environment of the entry's board and view.

    Raises:
        RoundError: the round does not hold or has not come so far, or the entry was not
            committed to in time, as it is.
        EntryError, StrictError: a file of the round cannot be read.
    """
    folder = _round_of(entry, rounds)
    round_ = folder.round
    starts = starts_for(folder, env)
    assert folder.draw is not None
    facts = (
        ("board", entry.board, round_.board),
        ("suite_version", entry.suite_version, round_.suite_version),
        ("env_version", env.env_version, round_.env_version),
    )
    _demand(
        f"{name} is {told}, round {round_.name} is of {right}"
        for name, told, right in facts
        if told != right
    )
    last = round_.run_by if round_.tier == "T2" else "9999-12-31"
    if not folder.draw.drawn <= entry.submitted <= last:
        span = f"from {folder.draw.drawn}" + (f" to {last}" if round_.tier == "T2" else "")
        raise RoundError(f"submitted on {entry.submitted}, must be {span} in round {round_.name}")
    _demand(_broken_promises(entry, _commitment_of(entry, folder)))
    return starts, "T1" if folder.reveal is None else round_.tier


def check_traces(entry: Entry, rounds: Path, traces: dict[int, str]) -> None:
    """Checks that what was replied on tier T3 is what the organiser's log holds.

    Args:
        traces: hash of the replies of each run, as `RunFound.trace`.

    Raises:
        RoundError: it is not.
    """
    folder = _round_of(entry, rounds)
    log = folder.reveal and folder.reveal.log
    slug = _commitment_of(entry, folder).slug
    logged = {p.run: p.trace for p in log.played if p.slug == slug} if log else {}
    _demand(
        f"run {run}: its replies are not those in the log of round {folder.round.name}"
        for run, trace in traces.items()
        if logged.get(run) != trace
    )


def _round_of(entry: Entry, rounds: Path) -> RoundFolder:
    if entry.round is None:
        raise RoundError("the entry was played on public instances, in no round")
    return read_round(rounds, entry.round)


def _commitment_of(entry: Entry, folder: RoundFolder) -> Commitment:
    """The commitment to an entry's method by its submitter."""
    for commitment in folder.commitments.values():
        if (commitment.submitter, commitment.method) == (entry.submitter.name, entry.method.name):
            return commitment
    raise RoundError(
        f"{entry.submitter.name} did not commit to {entry.method.name} in round "
        f"{folder.round.name} by {folder.round.commit_by}"
    )


def _broken_promises(entry: Entry, commitment: Commitment) -> Iterator[str]:
    """What an entry says otherwise than its commitment."""
    model = entry.model
    facts = (
        ("runs", entry.runs, [agent.run for agent in commitment.agents]),
        ("view", entry.view, commitment.view),
        (
            "model.temperature_percent",
            model and model.temperature_percent,
            commitment.temperature_percent,
        ),
        ("model.max_reply_tokens", model and model.max_reply_tokens, commitment.max_reply_tokens),
    )
    for name, told, right in facts:
        if told != right:
            yield f"{name} is {told}, committed to was {right}"
