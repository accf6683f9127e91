"""Levels as text, their canonical form, and the packs that ship with the suite.

Text is plain XSB: `#` wall, `@` player, `+` player on goal, `$` box, `*` box on goal,
`.` goal, and a space, `-` or `_` for floor. We write `-`, which no tokenizer swallows.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files

from ftw_envs.sokoban.rules import Level, reachable

_FLOOR = " -_"


class LevelError(ValueError):
    """A level that cannot be played; the message says why."""


def parse_level(text: str) -> Level:
    """Reads one level in XSB. Rows may be ragged; what lies outside the walls is decoration.

    Raises:
        LevelError: unknown characters, no or several players, no box, unequal numbers of
            boxes and goals, or a border that is open.
    """
    rows = [row.rstrip() for row in text.strip("\r\n").splitlines()]
    if not rows or not any(rows):
        raise LevelError("a level needs at least one row")
    width, height = max(map(len, rows)), len(rows)
    cells: dict[str, list[int]] = {c: [] for c in "#@+$*."}
    for y, row in enumerate(rows):
        for x, char in enumerate(row):
            if char in cells:
                cells[char].append(y * width + x)
            elif char not in _FLOOR:
                raise LevelError(f"row {y + 1} holds {char!r}; use # @ + $ * . and - for floor")
    players = cells["@"] + cells["+"]
    if len(players) != 1:
        raise LevelError(f"a level has one player (@ or +), this one has {len(players)}")
    boxes = frozenset(cells["$"] + cells["*"])
    goals = frozenset(cells["."] + cells["*"] + cells["+"])
    if not boxes or len(boxes) != len(goals):
        raise LevelError(
            f"a level has as many boxes as goals, this one {len(boxes)} and {len(goals)}"
        )
    level = Level(width, height, frozenset(cells["#"]), goals, boxes, players[0])
    _check_closed(level)
    return level


def _check_closed(level: Level) -> None:
    """Flood from the player, stopping at the edge: reaching it means an open border."""
    w, h = level.width, level.height
    seen, todo = {level.player}, [level.player]
    while todo:
        cell = todo.pop()
        if cell % w in (0, w - 1) or cell // w in (0, h - 1):
            raise LevelError(f"the wall is open at row {cell // w + 1}, column {cell % w + 1}")
        for nxt in (cell - w, cell + w, cell - 1, cell + 1):
            if nxt not in seen and nxt not in level.walls:
                seen.add(nxt)
                todo.append(nxt)


def board_rows(level: Level, boxes: frozenset[int] | set[int], player: int) -> list[str]:
    """The rows of a position in XSB, each `level.width` characters."""
    chars = ["-"] * (level.width * level.height)
    for cell in level.walls:
        chars[cell] = "#"
    for cell in level.goals:
        chars[cell] = "."
    for cell in boxes:
        chars[cell] = "*" if cell in level.goals else "$"
    chars[player] = "+" if player in level.goals else "@"
    text = "".join(chars)
    return [text[i : i + level.width] for i in range(0, len(text), level.width)]


def level_rows(level: Level) -> list[str]:
    """The rows of a level's start in XSB."""
    return board_rows(level, level.boxes, level.player)


def _symmetries(rows: Sequence[str]) -> Iterator[str]:
    """The 8 rotations and reflections, each as one string that keeps the shape."""
    for _ in range(4):
        yield "|".join(rows)
        yield "|".join(row[::-1] for row in rows)
        rows = ["".join(column) for column in zip(*rows[::-1], strict=True)]


def canonical(level: Level, *, player: bool = True) -> str:
    """One string for all levels that are the same puzzle.

    Equal under the 8 board symmetries, under translation, and whatever lies where the
    player can never get: everything unreachable counts as wall and is cut off. With
    `player=False` also equal wherever the player starts.
    """
    inside = reachable(level)
    w = level.width
    walls = frozenset(range(w * level.height)) - inside
    inner = Level(w, level.height, walls, level.goals & inside, level.boxes & inside, level.player)
    rows = level_rows(inner)
    if not player:
        rows = [row.replace("@", "-").replace("+", ".") for row in rows]
    ys, xs = [c // w for c in inside], [c % w for c in inside]
    rows = [row[min(xs) : max(xs) + 1] for row in rows[min(ys) : max(ys) + 1]]
    return min(_symmetries(rows))


def content_hash(level: Level) -> str:
    """First 16 hex digits of the SHA-256 of the canonical form."""
    return sha256(canonical(level).encode()).hexdigest()[:16]


def split_of(level: Level) -> str:
    """The one split a puzzle may stand in, told by its content alone.

    Levels that differ only by symmetry, translation or where the player starts fall in
    one split, so nothing in test was nearly seen in train, whoever generates it.
    1 in 8 is test, 1 in 8 valid.
    """
    bucket = sha256(b"split:" + canonical(level, player=False).encode()).digest()[0] % 8
    return {0: "test", 1: "valid"}.get(bucket, "train")


@dataclass(frozen=True, slots=True)
class PackedLevel:
    """A shipped level and the fewest moves that solve it, with the pushes among them."""

    level: Level
    moves: int
    pushes: int


@dataclass(frozen=True, slots=True)
class Pack:
    """The shipped levels of one id. `lines` are kept as text and parsed when asked for."""

    hash: str
    lines: dict[str, list[str]]

    def get(self, split: str, index: int) -> PackedLevel:
        """Level `index` of `split`."""
        return parse_pack_line(self.lines[split][index])


def pack_line(level: Level, moves: int, pushes: int) -> str:
    """One line of a pack: rows joined by `|`, fewest moves, pushes."""
    return f"{'|'.join(level_rows(level))} {moves} {pushes}"


def parse_pack_line(line: str) -> PackedLevel:
    """Reads what `pack_line` wrote."""
    rows, moves, pushes = line.split(" ")
    return PackedLevel(parse_level(rows.replace("|", "\n")), int(moves), int(pushes))


@lru_cache(maxsize=8)
def load_pack(name: str) -> Pack:
    """The pack `packs/<name>.txt.xz`: sections `[split]`, a level a line."""
    data = lzma.decompress((files("ftw_envs.sokoban") / "packs" / f"{name}.txt.xz").read_bytes())
    lines: dict[str, list[str]] = {}
    for line in data.decode("ascii").splitlines():
        if line.startswith("["):
            section = lines.setdefault(line[1:-1], [])
        else:
            section.append(line)
    return Pack(sha256(data).hexdigest()[:16], lines)
