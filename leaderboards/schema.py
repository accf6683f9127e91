"""What an entry says: strict JSON, read with pydantic. A claim counts for nothing by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ftw_envs.episode import EpisodeError, loads_strict

FORMAT: Literal[1] = 1
EPISODES_FILE = "episodes.jsonl"
MAX_ENTRY_BYTES = 65_536

Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_PRINTABLE = r"^[^\x00-\x1f\x7f]*$"
Line = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_PRINTABLE)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Share = Annotated[float, Field(ge=0, le=1)]


class EntryError(ValueError):
    """An entry that cannot be read; the message names the file and what would be right."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class AgentInfo(_Strict):
    """Who played, as the submitter says."""

    name: Line
    kind: Literal["scripted", "language-model", "other"]
    parameters: Count | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    max_reply_tokens: Count | None = None


class Claims(_Strict):
    """The submitter's figures, shown only beside the recomputed ones."""

    episodes: Annotated[int, Field(ge=1, le=2**53)]
    solved: Count
    solve_rate: Share
    low: Share
    high: Share
    invalid_rate: Share
    mean_turns: Annotated[float, Field(ge=0)]
    mean_score: float
    tokens_in: Count
    tokens_out: Count


class EpisodesFile(_Strict):
    """The episodes of the entry."""

    path: Literal["episodes.jsonl"] = "episodes.jsonl"
    sha256: Hex64
    bytes: Count
    lines: Annotated[int, Field(ge=1, le=2**53)]


class Entry(_Strict):
    """`entry.json`: one agent on one environment, on the first instances of a split."""

    format: Literal[1]
    suite_version: Line
    agent: AgentInfo
    env_id: Line
    env_version: Line
    env_kwargs: dict[str, bool | int | float | str | None]
    split: Literal["valid", "test", "test_names", "test_topo", "test_family", "test_drift"]
    seed: Count
    claims: Claims
    file: EpisodesFile


def parse_entry(data: Any, where: str) -> Entry:
    """Validates a JSON object.

    Raises:
        EntryError: names the place in the object, what was expected and what was there.
    """
    try:
        return Entry.model_validate(data)
    except ValidationError as e:
        first = e.errors()[0]
        path = ".".join(map(str, first["loc"])) or "the whole"
        raise EntryError(f"{where}: {path}: {first['msg']}") from None


def read_entry(folder: Path) -> Entry:
    """Reads `entry.json` of an entry's folder.

    Raises:
        EntryError: it is missing, too large, not strict JSON, or does not follow the schema.
    """
    path = folder / "entry.json"
    try:
        with open(path, "rb") as f:
            raw = f.read(MAX_ENTRY_BYTES + 1)
    except OSError as e:
        raise EntryError(f"{path}: cannot be read ({e.strerror})") from None
    if len(raw) > MAX_ENTRY_BYTES:
        raise EntryError(f"{path}: larger than {MAX_ENTRY_BYTES} bytes")
    try:
        data = loads_strict(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise EntryError(f"{path}: not UTF-8") from None
    except EpisodeError as e:
        raise EntryError(f"{path}: {e}") from None
    return parse_entry(data, str(path))
