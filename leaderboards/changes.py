"""What a pull request may change if it brings an entry, checked on git objects alone.

    python -m leaderboards.changes BASE HEAD --extract DIR

No file of the pull request is checked out, sizes are known before any content is read, and
only the standard library is used, so that this runs from the base commit before anything
is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

ENTRIES = "leaderboards/entries"
VERIFIED = "leaderboards/verified"

FILE_CAPS = {
    "entry.json": 2**16,
    "env.lock.json": 2**16,
    "curve.jsonl": 2 * 2**20,
    "episodes.jsonl": 10 * 2**20,
}
"""Bytes of a file, by its name."""

MAX_FILES = 2 + 2 * 100
MAX_ENTRY_BYTES = 100 * 2**20

SLUG = r"[a-z0-9](?:[a-z0-9._-]{1,61}[a-z0-9])"
_VERSION = r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(?:[a-z0-9.]{0,16})"
_FILE = r"(?:entry\.json|env\.lock\.json|runs/(?:0|[1-9][0-9]{0,9})/(?:episodes|curve)\.jsonl)"
_PATH = re.compile(rf"{ENTRIES}/({_VERSION})/({SLUG})/({_FILE})")
_WINDOWS = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)")
_PLAIN_MODE = "100644"
_MODES = {
    "120000": "a symbolic link",
    "160000": "a submodule",
    "100755": "an executable",
}
_STATUS = {"M": "changed", "D": "deleted", "T": "changed in type"}
_MAX_LINES = 20


class ChangesError(ValueError):
    """The comparison itself cannot be made; one line."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of the entry: path in the repository, object name, bytes."""

    path: str
    sha: str
    size: int


@dataclass(slots=True)
class Check:
    """What a pull request does to entries.

    Attributes:
        entry: folder of the entry it brings; None if it touches none.
        blobs: the files of that entry.
        problems: why it cannot be taken, a line each; none if it can.
    """

    entry: str | None = None
    blobs: list[Blob] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Change:
    mode: str
    sha: str
    status: str
    path: bytes


def slug_problem(slug: str) -> str | None:
    """Why no entry's folder can have this name, to be read after it; None if one can."""
    if not re.fullmatch(SLUG, slug):
        return "must be 3 to 63 of a-z, 0-9, '.', '_', '-', with a letter or digit at both ends"
    if _WINDOWS.match(slug):
        return "is one that Windows keeps for itself"
    return None


def check(repo: Path, base: str, head: str) -> Check:
    """Checks what `head` changes against where it left `base`.

    A change that touches no entry is none of this check's business and passes with no entry.

    Raises:
        ChangesError: a commit is not there, or the two have no single common ancestor.
    """
    base, head = (_commit(repo, name) for name in (base, head))
    changes = _changes(repo, _ancestor(repo, base, head), head)
    ours = (f"{ENTRIES}/".encode(), f"{VERIFIED}/".encode())
    # Also "Leaderboards/Entries" and a link in place of a folder: these hit our folders too.
    if not any((c.path.lower() + b"/").startswith(ours) for c in changes):
        return Check()
    found = Check(problems=[line for c in changes if (line := _refusal(c))])
    paths = [c.path.decode() for c in changes if not _refusal(c)]
    entries = sorted({"/".join(path.split("/")[:4]) for path in paths})
    if len(entries) > 1:
        found.problems.append(f"{len(entries)} entries; a pull request brings one")
    for entry in entries:
        found.problems += _clashes(repo, base, entry)
    for name in ("entry.json", "env.lock.json"):
        if len(entries) == 1 and f"{entries[0]}/{name}" not in paths:
            found.problems.append(f"{entries[0]} lacks {name}")
    if len(set(paths)) < len(paths):
        found.problems.append("a path stands twice in one tree")
    if len(paths) > MAX_FILES:
        found.problems.append(f"{len(paths)} files; an entry has at most {MAX_FILES}")
    if not found.problems:
        found.entry = entries[0]
        found.blobs, found.problems = _sizes(repo, changes, _left_out(repo, base, head))
    return found


def _refusal(change: _Change) -> str | None:
    """Why this one change cannot be part of a pull request with an entry."""
    text = change.path.decode("utf-8", "backslashreplace")
    shown = ascii(text if len(text) <= 200 else text[:197] + "...")
    if change.path != unicodedata.normalize("NFC", text).encode():
        return f"{shown}: the path is not UTF-8 in Unicode form NFC"
    if not re.fullmatch(r"[!-~]+", text):
        return f"{shown}: a path here has no spaces, control or other than ASCII characters"
    if text.startswith(f"{VERIFIED}/"):
        return f"{shown}: only the verifier writes there"
    if not text.startswith(f"{ENTRIES}/"):
        return f"{shown}: a pull request with an entry touches nothing else"
    if change.status != "A":
        done = _STATUS.get(change.status, "changed")
        return f"{shown}: {done}; entries stay as they are, submit a new one or object to one"
    if change.mode != _PLAIN_MODE:
        kind = _MODES.get(change.mode, f"of mode {change.mode}")
        return f"{shown}: {kind}; an entry has plain files only"
    match = _PATH.fullmatch(text)
    if not match:
        return f"{shown}: not {ENTRIES}/VERSION/NAME/ and a file that an entry has"
    problem = slug_problem(match[2])
    return f"{shown}: {match[2]!a} {problem}" if problem else None


def _clashes(repo: Path, base: str, entry: str) -> list[str]:
    """Entries of the base that this one would change, or could be mistaken for."""
    parent, _, slug = entry.rpartition("/")
    listing = _git(repo, "ls-tree", "-z", "--name-only", base, f"{parent}/")
    there = [PurePosixPath(n.decode("utf-8", "replace")).name for n in listing.split(b"\0") if n]
    if slug in there:
        return [f"{entry} is there already: entries stay as they are, choose another name"]
    return [
        f"{entry} can be mistaken for {parent}/{other!a}: choose another name"
        for other in there
        if _key(other) == _key(slug)
    ]


def _key(slug: str) -> str:
    return re.sub(r"[._-]", "", unicodedata.normalize("NFKC", slug).casefold())


def _left_out(repo: Path, base: str, head: str) -> set[str]:
    """Objects of the pull request that the fetch left out: larger than any file may be."""
    listing = _git(repo, "rev-list", "--objects", "--missing=print", head, f"^{base}").decode(
        "utf-8", "replace"
    )
    return {line[1:] for line in listing.split("\n") if line.startswith("?")}


def _sizes(
    repo: Path, changes: Sequence[_Change], left_out: set[str]
) -> tuple[list[Blob], list[str]]:
    """The blobs and what is too large; reads no content."""
    problems = []
    asked = [change for change in changes if change.sha not in left_out]
    for change in changes:
        if change.sha in left_out:
            path = change.path.decode()
            problems.append(f"{path}: larger than {FILE_CAPS[PurePosixPath(path).name]} bytes")
    stdin = "".join(f"{change.sha}\n" for change in asked).encode()
    answers = _git(repo, "cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin=stdin)
    blobs = []
    for change, answer in zip(asked, answers.decode().splitlines(), strict=True):
        path = change.path.decode()
        cap = FILE_CAPS[PurePosixPath(path).name]
        kind, size = answer.split()[0], int(answer.split()[1])
        if kind != "blob":
            problems.append(f"{path}: not a file but a {kind}")
        elif not 0 < size <= cap:
            problems.append(f"{path}: {size} bytes, allowed are 1 to {cap}")
        blobs.append(Blob(path, change.sha, size))
    total = sum(blob.size for blob in blobs)
    if total > MAX_ENTRY_BYTES:
        problems.append(f"{total} bytes in all, at most {MAX_ENTRY_BYTES} are allowed")
    return blobs, problems


def extract(repo: Path, found: Check, out: Path) -> Path:
    """Writes the files of a checked entry below `out`; returns its folder there.

    Raises:
        ChangesError: `out` exists, there is no entry, or it has problems.
    """
    if found.entry is None or found.problems:
        raise ChangesError("there is no entry without problems to extract")
    if out.exists():
        raise ChangesError(f"{out} exists already")
    for blob in found.blobs:
        path = out / PurePosixPath(blob.path).relative_to(ENTRIES)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            file.write(_git(repo, "cat-file", "blob", blob.sha))
    return out / PurePosixPath(found.entry).relative_to(ENTRIES)


# Git.


def _git(repo: Path, *args: str, stdin: bytes = b"") -> bytes:
    # Neither may git fetch objects that were left out, nor show others in their place.
    env = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
    done = subprocess.run(
        ["git", "-C", str(repo), *args], input=stdin, capture_output=True, env=env, check=False
    )
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
        raise ChangesError(f"git {args[0]} failed: {said!a}")
    return done.stdout


def _commit(repo: Path, name: str) -> str:
    if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z._/~^-]*", name):
        raise ChangesError(f"{name!a} does not name a commit")
    try:
        return _git(repo, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()
    except ChangesError:
        raise ChangesError(f"{name!a} is not a commit of this repository") from None


def _ancestor(repo: Path, base: str, head: str) -> str:
    try:
        common = _git(repo, "merge-base", "--all", base, head).decode().split()
    except ChangesError:
        common = []
    if len(common) != 1:
        raise ChangesError(
            f"the pull request shares {len(common)} newest commits with the base, it must be one: "
            "put the entry as a commit on the newest base"
        )
    return common[0]


def _changes(repo: Path, old: str, new: str) -> list[_Change]:
    raw = _git(repo, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
    parts = raw.split(b"\0")[:-1]
    changes = []
    for facts, path in zip(parts[::2], parts[1::2], strict=True):
        _, mode, _, sha, status = facts.decode().split(" ")
        changes.append(_Change(mode, sha, status, path))
    return changes


def main(args: Sequence[str] | None = None) -> int:
    """The command; returns 0 if the pull request can be taken, 1 if not, 2 if asked wrongly."""
    parser = argparse.ArgumentParser(prog="leaderboards.changes", description=__doc__)
    parser.add_argument("base", help="commit that the pull request is to be merged into")
    parser.add_argument("head", help="its newest commit")
    parser.add_argument("--repo", type=Path, default=Path(), help="the repository")
    parser.add_argument("--extract", type=Path, help="folder to be made for the entry")
    options = parser.parse_args(args)
    try:
        found = check(options.repo, options.base, options.head)
        for line in found.problems[:_MAX_LINES]:
            print(line)
        if len(found.problems) > _MAX_LINES:
            print(f"and {len(found.problems) - _MAX_LINES} problems more")
        if found.entry is None and not found.problems:
            print("no entry is touched")
        elif not found.problems:
            print(f"{found.entry}: {len(found.blobs)} files, only new ones")
            if options.extract:
                extract(options.repo, found, options.extract)
    except (ChangesError, OSError) as e:
        print(e, file=sys.stderr)
        return 2
    return 1 if found.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
