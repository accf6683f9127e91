"""One level as text, and its canonical form.

Text is plain XSB: `#` wall, `@` player, `+` player on goal, `$` box, `*` box on goal,
`.` goal, and a space, `-` or `_` for floor. Files of many levels are read in `files.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

from ftw_envs.sokoban.rules import BOX, GOAL, PLAYER, WALL, XSB, Level, offsets

_FLAGS = {char: flags for flags, char in XSB.items()} | {" ": 0, "_": 0}


class LevelError(ValueError):
    """A level that cannot be played; the message says why.

    Attributes:
        row: index of the row that is at fault, None where it is the whole level.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


def parse_level(text: str) -> Level:
    """Reads one level in XSB. Rows may be ragged; what lies outside the walls is decoration.

    Raises:
        LevelError: unknown characters, no or several players, no box, unequal numbers of
            boxes and goals, or a border that is open.
    """
    rows = [row.rstrip() for row in text.strip("\r\n").splitlines()]
    if not rows or not any(rows):
        raise LevelError("a level needs at least one row")
    width = max(map(len, rows))
    for y, row in enumerate(rows):
        for char in row:
            if char not in _FLAGS:
                why = f"row {y + 1} holds {char!r}; use # @ + $ * . and - for floor"
                raise LevelError(why, y)
    level = Level(width, bytes(_FLAGS[c] for row in rows for c in row.ljust(width)))
    players, boxes, goals = (len(level.having(f)) for f in (PLAYER, BOX, GOAL))
    if players != 1:
        raise LevelError(f"a level has one player (@ or +), this one has {players}")
    if not boxes or boxes != goals:
        raise LevelError(f"a level has as many boxes as goals, this one {boxes} and {goals}")
    enclosed(level)
    return level


def enclosed(level: Level) -> set[int]:
    """Cells the player could ever enter if there were no boxes.

    Raises:
        LevelError: the flood reaches the edge of the board, so the wall is open.
    """
    w, h = level.width, level.height
    seen, todo = {level.player}, [level.player]
    while todo:
        cell = todo.pop()
        y, x = divmod(cell, w)
        if x in (0, w - 1) or y in (0, h - 1):
            raise LevelError(f"the wall is open at row {y + 1}, column {x + 1}", y)
        for d in offsets(w):
            if cell + d not in seen and not level.cells[cell + d] & WALL:
                seen.add(cell + d)
                todo.append(cell + d)
    return seen


def _symmetries(rows: Sequence[bytes]) -> Iterator[bytes]:
    """The 8 rotations and reflections, each as one string that keeps the shape."""
    for _ in range(4):
        yield b"|".join(rows)
        yield b"|".join(row[::-1] for row in rows)
        rows = [bytes(column) for column in zip(*rows[::-1], strict=True)]


def canonical(level: Level, *, player: bool = True) -> bytes:
    """One string for all levels that are the same puzzle.

    Equal under the 8 board symmetries, under translation, and whatever lies where the
    player can never get: everything unreachable counts as wall and is cut off. With
    `player=False` also equal wherever the player starts.
    """
    inside, w = enclosed(level), level.width
    keep = 0xFF if player else 0xFF ^ PLAYER
    cells = bytes(c & keep if i in inside else WALL for i, c in enumerate(level.cells))
    ys, xs = [c // w for c in inside], [c % w for c in inside]
    left, right = min(xs), max(xs) + 1
    return min(
        _symmetries([cells[y * w + left : y * w + right] for y in range(min(ys), max(ys) + 1)])
    )


def content_hash(level: Level) -> str:
    """First 16 hex digits of the SHA-256 of a level: its width and its flags."""
    return sha256(b"%d:" % level.width + level.cells).hexdigest()[:16]


def split_of(level: Level) -> str:
    """The one split a puzzle may stand in, told by its content alone.

    Levels that differ only by symmetry, translation or where the player starts fall in
    one split, so nothing in test was nearly seen in train, whoever generates it.
    1 in 8 is test, 1 in 8 valid.
    """
    bucket = sha256(b"split:" + canonical(level, player=False)).digest()[0] % 8
    return {0: "test", 1: "valid"}.get(bucket, "train")
