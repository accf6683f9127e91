"""An entry's folder: which files it holds, what they say, and whether they agree.

Nothing is played here; what can be seen without that is checked first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

import ftw_envs
from leaderboards.changes import FILE_CAPS, MAX_ENTRY_BYTES, MAX_FILES
from leaderboards.identity import check_slug, entry_id
from leaderboards.schema import CurveRow, Entry, EntryError, FileFacts, Lock
from leaderboards.strict import inventory, lines, open_plain, read_json

ENTRY, LOCK, EPISODES, CURVE = "entry.json", "env.lock.json", "episodes.jsonl", "curve.jsonl"
MAX_BYTES, MAX_TOTAL = FILE_CAPS, MAX_ENTRY_BYTES
"""Largest size of each kind of file, and of an entry."""

MAX_CURVE_LINE = 10_000

TRAINED = ("ftw", "ftw-expected", "ftw-exp", "raft", "grpo", "ppo", "reinforce++", "bc")
"""Method families that cannot be without training."""

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class EntryFolder:
    """What the files of an entry say, but for its episodes.

    Attributes:
        curves: rows by training seed, of the runs that have a curve.
    """

    path: Path
    slug: str
    entry: Entry
    lock: Lock
    curves: dict[int, list[CurveRow]] = field(default_factory=dict)

    def episodes(self, run: int) -> Path:
        """The file of a run's episodes."""
        return self.path / run_file(run, EPISODES)


def run_file(run: int, name: str) -> str:
    """Path of a run's file in an entry."""
    return f"runs/{run}/{name}"


def parse(model: type[M], data: Any, where: str) -> M:
    """`data` as `model`.

    Raises:
        EntryError: it is not that; says where in the file, what it should be and what it is.
    """
    try:
        return model.model_validate(data)
    except ValidationError as e:
        first, *more = e.errors(include_url=False)
        path = ".".join(str(part) for part in first["loc"]) or "the whole"
        got = ascii(first["input"])
        rest = f" (and {len(more)} more)" if more else ""
        raise EntryError(
            f"{where}: {path[:100]}: {first['msg']}, got "
            f"{got if len(got) <= 80 else got[:77] + '...'}{rest}"
        ) from None


def read_folder(path: Path, slug: str | None = None) -> EntryFolder:
    """Reads all files of an entry but its episodes, and refuses what can be seen to be wrong.

    Args:
        slug: what the folder will be called, if not as it is now.

    Raises:
        EntryError: everything that is wrong, as far as it can be read.
        StrictError: a file that cannot be read, or is no strict JSON.
    """
    slug = check_slug(path.resolve().name if slug is None else slug)
    if path.is_symlink():
        raise EntryError(f"{path}: a link; an entry is a folder")
    sizes = inventory(path, MAX_FILES)
    refuse(_sizes(sizes))
    if ENTRY not in sizes:
        raise EntryError(f"{ENTRY}: missing")
    entry = parse(Entry, read_json(path / ENTRY, MAX_BYTES[ENTRY]), ENTRY)
    refuse(_statements(entry))
    refuse(_listed(entry, sizes))
    refuse(_facts(path, entry.files))
    lock = parse(Lock, read_json(path / LOCK, MAX_BYTES[LOCK]), LOCK)
    if lock.suite_version != entry.suite_version:
        raise EntryError(
            f"{LOCK}: suite_version is {lock.suite_version}, the entry's is {entry.suite_version}"
        )
    curves = {}
    for run in entry.runs:
        name = run_file(run, CURVE)
        if name in sizes:
            curves[run] = _read_curve(path, name)
            refuse(_curve(entry, name, curves[run]))
    return EntryFolder(path, slug, entry, lock, curves)


def refuse(problems: Iterable[str]) -> None:
    """Raises EntryError with all `problems`, a line each, if there are any."""
    found = list(problems)
    if found:
        raise EntryError("\n".join(found))


def _sizes(sizes: dict[str, int]) -> Iterator[str]:
    for name, size in sizes.items():
        most = MAX_BYTES.get(name.rpartition("/")[2])
        if most is not None and size > most:
            yield f"{name}: {size} bytes, at most {most} are allowed"
    if sum(sizes.values()) > MAX_TOTAL:
        yield f"the entry has {sum(sizes.values())} bytes, at most {MAX_TOTAL} are allowed"


def _listed(entry: Entry, sizes: dict[str, int]) -> Iterator[str]:
    """The folder holds what the entry lists, and the entry lists what its runs need."""
    listed = [f.path for f in entry.files]
    for name in sorted({n for n in listed if listed.count(n) > 1}):
        yield f"{ENTRY}: files: {name} is listed twice"
    for name in sorted(sizes.keys() - {*listed, ENTRY}):
        yield f"{name!a} is not listed in {ENTRY}; an entry holds nothing else"
    for name in sorted(set(listed) - sizes.keys()):
        yield f"{name}: missing, {ENTRY} lists it"
    needed = {LOCK, *(run_file(run, EPISODES) for run in entry.runs)}
    curves = {run_file(run, CURVE) for run in entry.runs if entry.training is not None}
    for name in sorted(needed - set(listed)):
        yield f"{ENTRY}: files: {name} must be listed"
    for name in sorted(set(listed) - needed - curves):
        why = "without training there is no curve" if name.endswith(CURVE) else "runs lacks it"
        yield f"{ENTRY}: files: {name} belongs to no run ({why})"


def _statements(entry: Entry) -> Iterator[str]:
    """What an entry says of itself has to agree."""
    if entry.entry_id != (right := entry_id(entry)):
        yield f"{ENTRY}: entry_id must be {right}, got {entry.entry_id}"
    if entry.suite_version != ftw_envs.__version__:
        yield (
            f"{ENTRY}: suite_version: made with {entry.suite_version}, this is "
            f"{ftw_envs.__version__}; verify it with the version it was made with"
        )
    if any(a >= b for a, b in pairwise(entry.runs)):
        yield f"{ENTRY}: runs must be training seeds in ascending order, each once"
    if [c.run for c in entry.claims] != entry.runs:
        yield f"{ENTRY}: claims must be of the runs in order, {entry.runs}"
    family, trained = entry.method.family, entry.training is not None
    if family == "scripted" and (trained or entry.model):
        yield f"{ENTRY}: a scripted player has neither training nor model; both must be null"
    if family in TRAINED and not trained:
        yield f"{ENTRY}: training: a method of the family {family} says how it was trained"
    if not trained and entry.runs != [0]:
        yield f"{ENTRY}: runs must be [0] without training, got {entry.runs}"


def _facts(path: Path, files: list[FileFacts]) -> Iterator[str]:
    for file in files:
        found = file_facts(path, file.path)
        for name, told in file.model_dump().items():
            if told != (is_ := getattr(found, name)):
                yield f"{file.path}: {name} is {is_}, {ENTRY} says {told}"


def file_facts(folder: Path, name: str) -> FileFacts:
    """What an entry says of one of its files, which is read in pieces."""
    digest, size, ends = sha256(), 0, 0
    with open_plain(folder / name, MAX_BYTES[name.rpartition("/")[2]]) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            size += len(piece)
            ends += piece.count(b"\n")
    facts = {"path": name, "sha256": digest.hexdigest(), "bytes": size, "lines": ends}
    return parse(FileFacts, facts, name)


def _read_curve(path: Path, name: str) -> list[CurveRow]:
    rows = lines(path / name, MAX_BYTES[CURVE], MAX_CURVE_LINE)
    return [parse(CurveRow, data, f"{name}:{number}") for number, data in rows]


def _curve(entry: Entry, name: str, rows: list[CurveRow]) -> Iterator[str]:
    """A curve goes on with every row, and ends within what the training is said to have cost."""
    for number, row in enumerate(rows, 1):
        if row.solved > row.n:
            yield f"{name}:{number}: solved is {row.solved}, of only {row.n}"
    # Methods that only imitate play nothing: their episodes stay 0, and time goes on.
    axis = "episodes" if any(row.episodes for row in rows) else "wall_seconds"
    for number, (a, b) in enumerate(pairwise(rows), 2):
        if getattr(a, axis) >= getattr(b, axis):
            yield f"{name}:{number}: {axis} must be more than in the line before"
        for key in ("episodes", "env_steps", "tokens", "wall_seconds", "peak_memory_mb"):
            before, after = getattr(a, key), getattr(b, key)
            if (before is None) != (after is None):
                yield f"{name}:{number}: {key} must be told in every line or in none"
            elif before is not None and before > after:
                yield f"{name}:{number}: {key} must not be less than in the line before"
    assert entry.training is not None
    for key in ("episodes", "tokens"):
        most = getattr(entry.training.budget, key)
        if rows and getattr(rows[-1], key) > most:
            yield f"{name}: ends after {getattr(rows[-1], key)} {key}, the budget says {most}"
