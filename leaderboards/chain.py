"""An append-only log in which every line holds the hash of the line before it.

Whoever knows the hash of a line can tell whether any line up to it was changed, removed or put
in later. What comes after it is only fixed by a later hash.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from leaderboards.strict import StrictError, loads

MAX_LINE = 1 << 18
"""Bytes of a line: room for the longest reply, however it is written."""

_BEGIN = "0" * 64


class ChainError(ValueError):
    """A log that is not as it was written; the message names the line."""


def read_chain(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log, in order.

    Raises:
        ChainError: a line was changed, removed or put in, or the last one is cut off.
        OSError: the file cannot be read.
    """
    for line, whole in _lines(path):
        if not whole:
            raise ChainError(f"{path}:{line['n'] + 1}: cut off: the line has no end")
        yield line


def _lines(path: Path) -> Iterator[tuple[dict[str, Any], bool]]:
    """Lines with their `hash` and `at`, the byte where they begin; at the end what is cut off."""
    previous, at = _BEGIN, 0
    with open(path, "rb") as file:
        for n, raw in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b"")):
            if not raw.endswith(b"\n") and len(raw) <= MAX_LINE:
                yield {"n": n, "at": at}, False
                return
            where = f"{path}:{n + 1}"
            try:
                line = loads(raw, where, MAX_LINE)
            except StrictError as e:
                raise ChainError(str(e)) from None
            if not isinstance(line, dict) or line.get("n") != n:
                raise ChainError(f"{where}: must be line {n} of the log; lines were taken or put")
            if line.get("previous") != previous:
                raise ChainError(f"{where}: does not follow from the line before it")
            previous = sha256(raw).hexdigest()
            yield {**line, "hash": previous, "at": at}, True
            at += len(raw)


class Chain:
    """A log that is open for writing. What was appended is on the disk when `append` returns.

    A last line that was cut off, because the writer was killed, is taken away: nobody was told
    of it.

    Attributes:
        lines: how many there are.
        head: hash of the last one; zeros while there is none.

    Raises:
        ChainError: the log is not as it was written, or another process writes it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by `close`
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise ChainError(f"{path}: another process is writing it") from None
        self.lines, self.head = 0, _BEGIN
        try:
            for line, whole in _lines(path):
                if not whole:
                    self._file.truncate(line["at"])
                    break
                self.lines, self.head = line["n"] + 1, line["hash"]
        except ChainError:
            self._file.close()
            raise

    def append(self, event: dict[str, Any]) -> str:
        """Adds a line; returns its hash, which is a receipt for all lines up to it.

        Raises:
            OSError: it could not be written. The log must not be written on then: it may end
                with half a line, which the next `Chain` takes away.
        """
        line = {"n": self.lines, "previous": self.head, **event}
        raw = json.dumps(line, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        if len(raw) > MAX_LINE:
            raise ValueError(f"{self.path}: a line has at most {MAX_LINE} bytes")
        if self._file.write(raw) != len(raw):
            raise OSError(f"{self.path}: only a part of a line could be written")
        os.fsync(self._file.fileno())
        self.lines, self.head = self.lines + 1, sha256(raw).hexdigest()
        return self.head

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
