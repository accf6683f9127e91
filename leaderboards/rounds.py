"""The files of a sealed round, and the hashes that tie them together; see `sealed.py`."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ftw_agents.starts import Start
from ftw_envs.text_env import EpisodeEnv
from leaderboards.boards import Board, board_of
from leaderboards.identity import canonical
from leaderboards.schema import Count, Date, EntryError, Hex64, Line, Positive, Slug, Strict

MAX_EPISODES = 10_000
_DOMAIN = b"ftw-round-1\n"


class RoundError(EntryError):
    """What is wrong with a round or with what was handed in for it, one line a problem."""


class Round(Strict):
    """`round.json`: what is going to be played, and the promise not to choose it.

    Attributes:
        episodes: attempts a run, each at an instance of its own.
        per_submitter: commitments that one submitter may make.
        beacon: which public draw will be added, and when it is made.
        opened, commit_by, run_by: days; the last two are included.
        commitment: see `commitment_of`.
    """

    format: Literal[1]
    name: Slug
    board: Slug
    tier: Literal["T2", "T3"]
    suite_version: Line
    env_version: Line
    episodes: Annotated[int, Field(ge=1, le=MAX_EPISODES)]
    per_submitter: Annotated[int, Field(ge=1, le=100)]
    beacon: Line
    opened: Date
    commit_by: Date
    run_by: Date
    commitment: Hex64


class Agent(Strict):
    """The agent of one training run: the hash of its files, see `folder_digest`."""

    run: Count
    sha256: Hex64


class Commitment(Strict):
    """`commitments/<slug>.json`: who will play, with what, fixed before anything is drawn.

    Attributes:
        view: as in `Entry`.
        temperature_percent, max_reply_tokens: of a language model, as in `Entry.model`.
        agents: by training run, in ascending order.
    """

    format: Literal[1]
    round: Slug
    slug: Slug
    submitter: Line
    method: Line
    view: Annotated[list[Line], Field(max_length=8)]
    temperature_percent: Annotated[int, Field(ge=0, le=1000)] | None
    max_reply_tokens: Positive | None
    agents: Annotated[list[Agent], Field(min_length=1, max_length=100)]
    committed: Date


class Committed(Strict):
    """A commitment that came in time: SHA-256 of its file."""

    slug: Slug
    sha256: Hex64


class Draw(Strict):
    """`draw.json`: the beacon, and all commitments that came in time.

    Attributes:
        starts: hash of the starts, see `starts_digest`: they can be no others later.
    """

    format: Literal[1]
    round: Slug
    beacon: Line
    drawn: Date
    commitments: Annotated[list[Committed], Field(min_length=1, max_length=1000)]
    starts: Hex64


class StartRow(Strict):
    """Instance and noise seed (in decimal) of an attempt."""

    index: Count
    seed: Annotated[str, Field(pattern=r"^(0|[1-9]\d{0,18})$")]


class Starts(Strict):
    """`starts.json`: what is played, on tier T2, for all participants alike."""

    format: Literal[1]
    round: Slug
    split: Line
    starts: Annotated[list[StartRow], Field(min_length=1, max_length=MAX_EPISODES)]


class Played(Strict):
    """What the organiser's log holds of a run: hash of its replies, as `RunFound.trace`."""

    slug: Slug
    run: Count
    trace: Hex64


class Log(Strict):
    """The server's log: its lines, and the hash of the last one, which fixes all of them."""

    lines: Positive
    head: Hex64
    played: Annotated[list[Played], Field(max_length=100_000)]


class Reveal(Strict):
    """`reveal.json`: what was kept secret; `log` on tier T3 only."""

    format: Literal[1]
    round: Slug
    revealed: Date
    salt: Hex64
    master_key: Hex64
    log: Log | None


@dataclass(frozen=True, slots=True)
class Secret:
    """What the organiser keeps until the reveal: 32 bytes each. Never shown, not even by repr."""

    salt: bytes = field(repr=False)
    master_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RoundFolder:
    """A round as far as it has come; its parts agree with each other.

    Attributes:
        commitments: those that count, by slug: after the draw, those that it lists.
    """

    path: Path
    round: Round
    commitments: dict[str, Commitment]
    draw: Draw | None
    starts: Starts | None
    reveal: Reveal | None

    @property
    def board(self) -> Board:
        """The board that is played."""
        return board_of(self.round.board)


# The cryptography.


def commitment_of(round_: Round, secret: Secret) -> str:
    """SHA-256 (hex) of the salt, the key and all that the round says but for this hash.

    With 256 bits of salt nobody can find out a key by trying.
    """
    spec = canonical(round_.model_dump(exclude={"commitment"}))
    return sha256(_DOMAIN + secret.salt + secret.master_key + spec).hexdigest()


def _mac(key: bytes, *name: str | int) -> bytes:
    return hmac.digest(key, _DOMAIN + canonical(list(name)), "sha256")


def starts_of(round_: Round, key: bytes, beacon: str, split: str) -> list[Start]:
    """The attempts of a round: 53 bits of instance and 63 of noise each, from one HMAC each.

    Each depends on its number only, not on how many there are or in which order they are asked
    for, and they are the same for all participants.
    """
    starts = []
    for i in range(round_.episodes):
        mac = _mac(key, "start", round_.name, round_.board, beacon, i)
        index, seed = int.from_bytes(mac[:8]) >> 11, int.from_bytes(mac[8:16]) >> 1
        starts.append(Start(split, index, seed))
    return starts


def order_of(round_: Round, key: bytes, slug: str, run: int) -> list[int]:
    """In which order a run meets the starts on the server: place -> number of the start.

    Every run has an order of its own, so that what one run saw at a place tells another nothing.
    """
    return sorted(
        range(round_.episodes), key=lambda i: _mac(key, "order", round_.name, slug, run, i)
    )


def starts_digest(starts: Iterable[Start]) -> str:
    """SHA-256 (hex) of starts in order."""
    return sha256(canonical([[s.split, s.index, str(s.seed)] for s in starts])).hexdigest()


def folder_digest(folder: Path) -> str:
    """SHA-256 (hex) of an agent's files: their paths below `folder`, sizes and contents.

    Raises:
        RoundError: there is no such folder, it is empty, or holds links.
    """
    if not folder.is_dir():
        raise RoundError(f"{folder}: no folder; an agent is a folder with its weights and settings")
    facts = []
    for path in sorted(folder.rglob("*"), key=lambda p: p.relative_to(folder).as_posix()):
        if path.is_symlink():
            raise RoundError(f"{path}: a link; copy what it leads to, so that it cannot change")
        if path.is_file():
            with open(path, "rb") as file:
                digest, size = sha256(), 0
                while piece := file.read(1 << 20):
                    digest.update(piece)
                    size += len(piece)
            facts.append([path.relative_to(folder).as_posix(), size, digest.hexdigest()])
    if not facts:
        raise RoundError(f"{folder}: holds no files")
    return sha256(canonical(facts)).hexdigest()


def published_starts(file: Starts) -> list[Start]:
    """The starts that a `starts.json` lists."""
    return [Start(file.split, row.index, int(row.seed)) for row in file.starts]


def secret_of(reveal: Reveal) -> Secret:
    """The secret that was revealed."""
    return Secret(bytes.fromhex(reveal.salt), bytes.fromhex(reveal.master_key))


# What can be sealed.

_WHY_NOT = {
    "sokoban-mini": "there are a few thousand mini levels in all, so that everybody can try them",
    "sigma-trap": "its instances are two names each, of few, and tell which machine is better",
}


def sealed_split(board: Board, env: EpisodeEnv) -> str:
    """The split that sealed rounds of a board play: like the board's, and too large to be tried.

    Raises:
        RoundError: the board has none; says why.
    """
    split = board.split.replace("test", "sealed", 1)
    if split not in env.sealed_splits:
        why = _WHY_NOT.get(board.name, f"its environment has no split {split!r}")
        raise RoundError(f"{board.name} cannot be sealed: {why}")
    return split
