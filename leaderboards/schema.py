"""What an entry says, and what the verifier says of it: strict JSON, read with pydantic.

All files of an entry are read by `strict.py` first. Whole numbers, text and truth values
only, except where a figure is claimed or found: nothing that is hashed is a float.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

FORMAT: Literal[2] = 2
MAX_COUNT = 2**53

Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,40}$")]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9](?:[a-z0-9._-]{1,61}[a-z0-9])$")]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Positive = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Share = Annotated[float, Field(ge=0, le=1)]


def _plain(text: str) -> str:
    """Text for people: printable, and no characters that hide or turn what stands there."""
    from leaderboards.strict import plain_text

    return plain_text(text)


def _day(text: str) -> str:
    """A day that the calendar has."""
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text} is no day") from None
    return text


# [0-9] and not \d: that takes the digits of all scripts.
Date = Annotated[
    str, StringConstraints(pattern=r"^20[0-9]{2}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_day)
]
Line = Annotated[str, StringConstraints(min_length=1, max_length=120), AfterValidator(_plain)]
Text = Annotated[str, StringConstraints(max_length=2000), AfterValidator(_plain)]
Url = Annotated[
    str,
    StringConstraints(
        max_length=300, pattern=r"^https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9._~/%#?=&+-]*)?$"
    ),
]


class EntryError(ValueError):
    """What is wrong with an entry: a line for each thing, with what would have been right."""


class Strict(BaseModel):
    """Base of all that is read from outside: nothing is converted, nothing unknown passes."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class Method(Strict):
    """How the agent came about."""

    name: Line
    family: Literal[
        "ftw", "ftw-expected", "ftw-exp", "raft", "grpo", "ppo", "reinforce++", "bc",
        "base", "prompt", "planner", "scripted", "other",
    ]  # fmt: skip
    code_url: Url | None = None
    commit: Commit | None = None


class Model(Strict):
    """The language model, where there is one."""

    name: Line
    revision: Line | None = None
    parameters: Positive
    open_weights: bool
    temperature_percent: Annotated[int, Field(ge=0, le=1000)] | None = None
    max_reply_tokens: Positive | None = None


class Submitter(Strict):
    """Who submits."""

    name: Line
    organisation: Line | None = None
    contact: Line | None = None
    relationship: Literal["first_party", "third_party"]


class Budget(Strict):
    """What one training run cost, the most of all runs. As told: re-play cannot prove it."""

    episodes: Count
    env_steps: Count | None = None
    tokens: Count
    wall_seconds: Count
    peak_memory_mb: Count | None = None
    device: Line


class Search(Strict):
    """How settings were chosen."""

    trials: Count
    tuned_on: Literal["nothing", "train", "valid"]


class Training(Strict):
    """How the runs were trained."""

    budget: Budget
    search: Search
    checkpoint: Literal["last", "best-on-valid"]


class Selection(Strict):
    """What was tried before this was submitted."""

    attempts_per_instance: Literal[1]
    prior_submissions: Count


class Contamination(Strict):
    """Whether the agent may have seen the instances."""

    trained_on_eval: bool
    statement: Text


class FileFacts(Strict):
    """A file of the entry."""

    path: Annotated[
        str,
        StringConstraints(
            pattern=r"^(env\.lock\.json|runs/(0|[1-9][0-9]{0,9})/(episodes|curve)\.jsonl)$"
        ),
    ]
    sha256: Hex64
    bytes: Positive
    lines: Positive


class Figures(Strict):
    """Figures of one run on the board's instances; the interval is Wilson's, 95 %."""

    episodes: Positive
    solved: Count
    solve_rate: Share
    low: Share
    high: Share
    invalid_rate: Share
    mean_turns: Annotated[float, Field(ge=0)]
    mean_score: float
    tokens_in: Count
    tokens_out: Count


class RunClaim(Strict):
    """What the submitter says a run achieved; shown only where the verifier found otherwise."""

    run: Count
    figures: Figures


class Entry(Strict):
    """`entry.json`: one method on one board, with all its training runs.

    Attributes:
        entry_id: hash of what the entry is, see `identity.py`.
        division: closed (bundled observations, limits and answer form) or open.
        view: keyword arguments the agent saw the board with, as key=value.
        round: sealed round it was played in; None for the public instances.
        runs: training seeds, in ascending order; [0] for what is not trained.
    """

    format: Literal[2]
    entry_id: Hex64
    suite_version: Line
    board: Slug
    env_version: Line
    view: Annotated[list[Line], Field(max_length=8)]
    round: Slug | None = None
    division: Literal["closed", "open"]
    method: Method
    model: Model | None = None
    submitter: Submitter
    submitted: Date
    runs: Annotated[list[Count], Field(min_length=1, max_length=100)]
    training: Training | None = None
    selection: Selection
    contamination: Contamination
    notes: Text = ""
    files: Annotated[list[FileFacts], Field(min_length=2, max_length=201)]
    claims: Annotated[list[RunClaim], Field(min_length=1, max_length=100)]


class Lock(Strict):
    """`env.lock.json`: where and with what the episodes were played."""

    format: Literal[2]
    suite_version: Line
    commit: Commit | None
    command: Text
    python: Line
    packages: dict[Line, Line]
    device: Line
    max_steps: Positive


class EpisodeRow(Strict):
    """A line of `episodes.jsonl`: what the agent replied, and what has to follow from it.

    Attributes:
        index: instance of the board's split.
        instance: hash of its content.
        seed: noise seed, in decimal.
        replies: what the agent wrote, a reply a turn.
        actions: what each reply was taken for; null where it was unusable.
        checks: 16 hex digits a turn and 16 for the end: the first 8 of the SHA-256 of what the
            agent saw, the first 8 of that of the world's state.
    """

    index: Count
    instance: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,64}$")]
    seed: Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,77})$")]
    replies: Annotated[list[str], Field(min_length=1, max_length=1000)]
    actions: Annotated[list[str | None], Field(min_length=1, max_length=1000)]
    checks: Annotated[
        list[Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]],
        Field(min_length=2, max_length=1001),
    ]
    score: float
    solved: bool
    end: Literal["solved", "failed", "time_limit"]
    tokens_in: Count
    tokens_out: Count


class CurveRow(Strict):
    """A line of `curve.jsonl`: an examination on valid during training. As told."""

    episodes: Count
    env_steps: Count | None = None
    tokens: Count
    wall_seconds: Annotated[float, Field(ge=0)]
    peak_memory_mb: Count | None = None
    solved: Count
    n: Positive


class RunFound(Strict):
    """What the verifier found of a run.

    Attributes:
        score_sd: standard deviation of the episodes' scores (divided by n): without it a score
            that is not 0 or 1 has no interval.
        outcomes: a digit for each instance in order, 1 if it was solved.
        curve: as told by the submitter.
        trace: hash of all replies, equal for two runs that said the same.
    """

    run: Count
    figures: Figures
    score_sd: Annotated[float, Field(ge=0)]
    outcomes: Annotated[str, StringConstraints(pattern=r"^[01]+$")]
    curve: list[CurveRow]
    trace: Hex64 | None = None


class Difference(Strict):
    """A claim that is not what was found."""

    run: Count
    figure: Line
    claimed: float
    found: float


class ReplayStep(Strict):
    """What the agent saw, what it replied, and the world after it, as text."""

    saw: str
    reply: str
    action: str | None
    world: str


class Replay(Strict):
    """An attempt to be looked at; `start` is the world at its start."""

    run: Count
    index: Count
    start: str
    steps: list[ReplayStep]
    last: str
    score: float
    solved: bool
    end: str


class Verified(Strict):
    """`verified/<entry id>.json`: written by the verifier alone, and all that a page shows.

    Attributes:
        tier: T1 replayed on public instances, T2 sealed round, T3 played on the organiser's
            server.
        warnings: what is allowed and yet worth knowing.
        replays: of the first instances, from the first run.
    """

    format: Literal[2]
    entry: Entry
    slug: Slug
    tier: Literal["T1", "T2", "T3"]
    verifier: Line
    runs: list[RunFound]
    differences: list[Difference]
    warnings: list[str]
    replays: list[Replay]


class Decision(Strict):
    """A line of `decisions.jsonl`: what became of an entry; the newest of an entry counts."""

    entry_id: Hex64
    date: Date
    state: Literal["accepted", "pending", "disputed", "retracted", "invalid"]
    reason: Line
    url: Url | None = None
