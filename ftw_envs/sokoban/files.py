"""Files of many levels: XSB, .sok, Boxoban and run-length text.

How a file is read:

- A line of board characters only, at least one of them a wall, is a row. `-`, `_` and
  space are floor; `p P b B` are the `.sok` names of `@ + $ *`; digits and (groups) are run
  lengths, `|` ends a row; a line that uses them holds no space. Consecutive rows are a level.
- Between two rows, a line of board characters without a wall is a row as well. Three or
  more `-` alone divide levels, unless what is above or below is decoration: walls and
  boxes on goals. A line with `|` that can be played by itself is a level of its own.
- All else is text: comments, titles, notes, solutions. What looks like a row that went
  wrong is an error: text that touches a row and begins with a wall (between two rows: or
  ends with one), or that holds `#|`. Headings such as `# 12` and `## Level 12` are text.
- What is between `Comment:` and `Comment-End:` is text.

Where a title is looked for, first one first: a line `Title: ...`, 'quoted', after `;`, or
plain. The file as a whole tells whether titles stand above or below their boards; a plain
one above is the last line of text before the board, with no text right above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal, get_args

from ftw_envs.files import write_bytes
from ftw_envs.sokoban.levels import LevelError, parse_level
from ftw_envs.sokoban.lines import BOARD, MAX_CELLS, expand, find_rows, holds, kind_of, noted_lines
from ftw_envs.sokoban.rules import BOX, GOAL, LURD, Board, Level

Style = Literal["xsb", "sok", "boxoban", "rle"]

MAX_BYTES = 64 * 2**20
"""Larger files are not read."""
MAX_MOVES = 1_000_000
"""Longer solutions are not read."""

_DECORATION = frozenset(" -_#*B")
_FROM_SOK = str.maketrans("pPbB", "@+$*")
_LINE_END = re.compile(r"\r\n|\r|\n")
_WORDS = {letter: action for action, letter in LURD.items()}

_Row = tuple[int, str]  # index of its line, and its text


@dataclass(frozen=True, slots=True)
class FileLevel:
    """A level of a file.

    Attributes:
        title: as the file has it, else its number in the file, from 1.
        line: number of the line of its first row, from 1.
    """

    level: Level
    title: str
    line: int


def read_text(path: Path) -> str:
    """The text of a file, in UTF-8 or else Latin-1.

    Raises:
        LevelError: it cannot be read, is larger than `MAX_BYTES`, or is not text.
    """
    try:
        with open(path, "rb") as f:
            data = f.read(MAX_BYTES + 1)
    except OSError as e:
        raise LevelError(f"{path}: cannot be read: {e.strerror}") from None
    if len(data) > MAX_BYTES:
        raise LevelError(f"{path}: is larger than {MAX_BYTES // 2**20} MB; split it")
    if b"\0" in data:
        raise LevelError(f"{path}: is not text; UTF-8 and Latin-1 can be read")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def read_levels(path: Path) -> list[FileLevel]:
    """Reads the levels of a file; see the top of this module for what is a level.

    Raises:
        LevelError: as `read_text` and `read_levels_text`.
    """
    return read_levels_text(read_text(path), str(path))


def read_levels_text(text: str, where: str) -> list[FileLevel]:
    """Reads the levels of a text.

    Args:
        where: name of the file, for messages.

    Raises:
        LevelError: "FILE:LINE: reason" for a malformed row or level, "FILE: reason" where
            there is no level at all.
    """
    lines = _LINE_END.split(text.removeprefix("\ufeff"))
    noted = noted_lines(lines)
    rows = find_rows(lines, noted, where)
    boards = [board for run in _runs(rows) for board in _boards(run)]
    if not boards:
        raise LevelError(f"{where}: holds no level; rows are made of # @ + $ * . and - for floor")
    levels = [_level(board, where) for board in boards]
    ends = [-1, *(board[-1][0] for board in boards)]
    starts = [*(board[0][0] for board in boards), len(lines)]
    texts = [range(end + 1, start) for end, start in zip(ends, starts, strict=True)]
    titles = _titles(
        [[("other", "") if i in noted else kind_of(lines[i]) for i in text] for text in texts]
    )
    return [
        FileLevel(level, title, board[0][0] + 1)
        for level, title, board in zip(levels, titles, boards, strict=True)
    ]


def _runs(rows: list[list[str] | None]) -> Iterator[list[list[_Row]]]:
    """Consecutive lines of rows."""
    for is_board, lines in groupby(enumerate(rows), lambda x: x[1] is not None):
        if is_board:
            yield [[(i, row) for row in some or []] for i, some in lines]


def _boards(run: list[list[_Row]]) -> Iterator[list[_Row]]:
    """Divides consecutive lines of rows into boards."""
    for part in _parts(run):
        board: list[_Row] = []
        for line in part:
            if len(line) > 1 and _playable(line):
                if board:
                    yield board
                yield line
                board = []
            else:
                board += line
        if board:
            yield board


def _parts(run: list[list[_Row]]) -> list[list[list[_Row]]]:
    """Divides consecutive lines of rows at lines of `---`."""
    parts: list[list[list[_Row]]] = []
    divider: list[list[_Row]] = []
    was_bare = False
    for is_divider, group in groupby(run, _is_divider):
        lines = list(group)
        if is_divider:
            divider = lines
            continue
        is_bare = all(set(row) <= _DECORATION for line in lines for _, row in line)
        if parts and (is_bare or was_bare):
            parts[-1] += divider + lines
            was_bare = was_bare and is_bare
        else:
            parts.append(lines)
            was_bare = is_bare
    return parts


def _is_divider(line: list[_Row]) -> bool:
    return len(line) == 1 and re.fullmatch(r" *-{3,}", line[0][1]) is not None


def _playable(rows: list[_Row]) -> bool:
    try:
        _level(rows, "")
    except LevelError:
        return False
    return True


def _level(rows: list[_Row], where: str) -> Level:
    """Reads one board; errors name its file and line."""
    width, height = max(len(row) for _, row in rows), len(rows)
    if width * height > MAX_CELLS:
        reason = f"a board has up to {MAX_CELLS} cells, this one {width} x {height}"
        raise LevelError(f"{where}:{rows[0][0] + 1}: {reason}")
    for y, (line, row) in enumerate(rows):
        for char in row.lstrip(BOARD)[:1]:  # such as a tab in front of the walls
            raise LevelError(f"{where}:{line + 1}: {holds(char)}", y)
    try:
        return parse_level("\n".join(row for _, row in rows).translate(_FROM_SOK))
    except LevelError as e:
        raise LevelError(f"{where}:{rows[e.row or 0][0] + 1}: {e}", e.row) from None


def _above(block: list[tuple[str, str]], kind: str) -> str:
    """The title of that kind that `block` gives to the board below it, "" for none."""
    if kind != "plain":
        return next((title for k, title in reversed(block) if k == kind), "")
    last = next((i for i in reversed(range(len(block))) if block[i][0] != "blank"), 0)
    alone = last == 0 or block[last - 1][0] == "blank"
    return block[last][1] if block and alone and block[last][0] == "plain" else ""


def _below(block: list[tuple[str, str]], kind: str) -> str:
    """The title of that kind that `block` gives to the board above it, "" for none."""
    if kind != "plain":
        return next((title for k, title in block if k == kind), "")
    return block[0][1] if block and block[0][0] == "plain" else ""


def _titles(blocks: list[list[tuple[str, str]]]) -> list[str]:
    """Titles of boards from the text before, between and after them."""
    titles = [str(i) for i in range(1, len(blocks))]
    for kind in ("plain", "comment", "quoted", "title"):  # a later one wins
        first, last = _above(blocks[0], kind), _below(blocks[-1], kind)
        if kind == "title":  # .sok has it below; above the first it may name the collection
            below = bool(last) or not first
        elif first and last:  # one of them is about the file
            below = blocks[-1][0][0] == kind and blocks[0][-1][0] != kind
        else:
            below = bool(last)
        for i in range(len(titles)):
            title = _below(blocks[i + 1], kind) if below else _above(blocks[i], kind)
            titles[i] = title or titles[i]
    return titles


def format_level(level: Level, *, rle: bool = False) -> str:
    """Writes a level, without its title, so that it reads back the same.

    Floor is a space, or `-` and `_` where spaces would be lost. Empty rows above and below
    the board are left out.

    Args:
        rle: run-length encoded on one line, rows ended by `|`.

    Raises:
        LevelError: the first or last row has no wall and would be taken for text.
    """
    rows = level.rows
    if rle:
        return "|".join("".join(_run(c, len(list(x))) for c, x in groupby(row)) for row in rows)
    used = [y for y, row in enumerate(rows) if row.strip("-")]
    rows = rows[used[0] : used[-1] + 1]
    for y in (0, len(rows) - 1):
        if "#" not in rows[y]:
            raise LevelError(f"row {used[0] + y + 1} has no wall; write it run-length encoded", y)
    spaced = [row.replace("-", " ").rstrip() for row in rows]
    if all(spaced) and max(map(len, spaced)) == level.width:
        return "\n".join(spaced)
    return "\n".join(row if row.strip("-") else "_" * level.width for row in rows)


def _run(char: str, times: int) -> str:
    return char if times == 1 else f"{times}{char}"


def write_levels(path: Path, levels: Sequence[FileLevel], style: Style) -> None:
    """Writes a file that `read_levels` reads back, all or nothing.

    Args:
        style: "xsb" with titles after `;`, "sok" with `Title:` below the boards,
            "boxoban" with numbers from 0 in place of titles, or "rle" with a level a line.

    Raises:
        LevelError: no levels, or as `format_level`.
        ValueError: an unknown style.
    """
    if style not in get_args(Style):
        raise ValueError(f"style must be one of {', '.join(get_args(Style))}, got {style!r}")
    if not levels:
        raise LevelError("there are no levels to write")
    parts = []
    for i, x in enumerate(levels):
        try:
            board = format_level(x.level, rle=style == "rle")
        except LevelError as e:
            raise LevelError(f"level {i + 1}: {e}", e.row) from None
        title = " ".join(x.title.split()) or str(i + 1)
        if style == "sok":
            parts.append(f"{board}\nTitle: {title}\n")
        elif style == "boxoban":
            parts.append(f"; {i}\n{board}\n")
        else:
            parts.append(f"; {title}\n\n{board}\n")
    write_bytes(path, "\n".join(parts).encode("utf-8"))


def check_lurd(level: Level, lurd: str) -> Board:
    """Replays a solution and gives the solved board.

    Args:
        lurd: letters `l u r d`, upper case for a push, or all in lower case; spaces and run
            lengths such as `3r` and `2(rU)` may be used.

    Raises:
        LevelError: the first move, counted from 1, that goes wrong, or what is left at the end.
    """
    moves = expand("".join(lurd.split()), MAX_MOVES)
    if moves is None:
        raise LevelError(f"the run lengths cannot be read, or make over {MAX_MOVES} moves")
    board, any_case = Board(level), moves.islower()
    for i, letter in enumerate(moves, 1):
        if letter.lower() not in _WORDS:
            raise LevelError(f"move {i} is {letter!r}; use l u r d, upper case for a push")
        board.move(_WORDS[letter.lower()])
        if not board.moved:
            raise LevelError(f"move {i} ({letter}) is blocked")
        if letter.isupper() and board.pushed is None:
            raise LevelError(f"move {i} ({letter}) pushes nothing; a walk is in lower case")
        if letter.islower() and board.pushed is not None and not any_case:
            raise LevelError(f"move {i} ({letter}) pushes a box; a push is in upper case")
    if not board.solved:
        boxes = len(level.having(BOX))
        off = boxes - board.cells.count(BOX | GOAL)
        left = f"{off} of {boxes} boxes off the goals"
        raise LevelError(f"the level is not solved after {len(moves)} moves: {left}")
    return board
