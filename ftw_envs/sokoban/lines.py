"""What a line of a level file is: rows of a board, a row that went wrong, or some kind of text.

The rules are told in `files.py`.
"""

from __future__ import annotations

import re

from ftw_envs.sokoban.levels import LevelError

MAX_CELLS = 32_767
"""Larger boards are not read: the solver numbers cells in 16 bits."""
BOARD = " -_#@+$*.pPbB"
"""What a board is written with. `p P b B` are the names of `@ + $ *` in .sok files."""

_MAX_GROWTH = 2**24  # a few run lengths can make more cells than fit in memory
_DIGITS = "0123456789"
_BOARD = frozenset(BOARD)
_NO_WALL = frozenset(" -_@+$*.")
_RUN_LENGTH = _BOARD - {" "} | frozenset(_DIGITS + "()|")
_MOVES = frozenset("lurdLURD()[]{}* \t" + _DIGITS)
_HEADING = re.compile(r"#+ [^\s#@+$*][^#@+$*]*|#\d+")
_KEY = re.compile(r"([A-Za-z-]+)\s*:(?!:)\s*(.*)")


def find_rows(lines: list[str], noted: set[int], where: str) -> list[list[str] | None]:
    """The rows that each line holds, None for text.

    Raises:
        LevelError: a row that went wrong.
    """
    rows: list[list[str] | None] = []
    growth = 0
    for i, line in enumerate(lines):
        some = None if i in noted else _rows_in(line)
        rows.append(some)
        growth += sum(len(row) + 1 for row in some) - len(line) if some else 0
        if growth > _MAX_GROWTH:
            why = f"run lengths make over {_MAX_GROWTH} cells more than are written"
            raise LevelError(f"{where}:{i + 1}: {why}; split the file")
    _add_rows_without_wall(lines, rows)
    for i, line in enumerate(lines):
        if rows[i] is None and i not in noted:
            reason = _malformed(line, i > 0 and rows[i - 1], i + 1 < len(rows) and rows[i + 1])
            if reason:
                raise LevelError(f"{where}:{i + 1}: {reason}")
    return rows


def expand(text: str, limit: int) -> str | None:
    """Writes run lengths out: `3#2(-.)` is `###-.-.`.

    Returns:
        None if a number is 0 or stands before nothing, a bracket has no partner, brackets
        are nested deeper than 16, or there would be more than `limit` characters.
    """
    outer: list[tuple[str, int]] = []  # what stands before each open bracket, and its number
    out, digits = "", ""
    for char in text:
        if char in _DIGITS:
            digits += char
            if len(digits) > 7:
                return None
            continue
        if char == ")":
            if digits or not outer:
                return None
            inner, (out, times) = out, outer.pop()
        else:
            inner, times = char, int(digits or 1)
        if not times or len(outer) > 16 or len(out) + times * len(inner) > limit:
            return None
        if char == "(":
            outer.append((out, times))
            out = ""
        else:
            out += inner * times
        digits = ""
    return None if digits or outer else out


def _rows_in(line: str) -> list[str] | None:
    """The rows that a line holds, None if it is text."""
    line = line.rstrip()
    body = line.lstrip()
    if "#" not in body:
        return None
    characters = set(body)
    if characters <= _BOARD:
        return [line]
    if not characters <= _RUN_LENGTH:
        return None
    written_out = expand(line, 2 * MAX_CELLS)  # room for the `|`; boards are measured later
    if written_out is None:
        return None
    return [row or "-" for row in written_out.removesuffix("|").split("|")]


def _add_rows_without_wall(lines: list[str], rows: list[list[str] | None]) -> None:
    """Makes lines of board characters rows where rows stand above and below."""
    above, pending = False, list[int]()
    for i, line in enumerate(lines):
        if rows[i]:
            for j in pending:
                rows[j] = [lines[j].rstrip()]
            above, pending = True, []
        elif above and line.strip() and set(line.rstrip()) <= _NO_WALL:
            pending.append(i)
        else:
            above, pending = False, []


def _malformed(line: str, above: object, below: object) -> str | None:
    """What is wrong with a line of text that looks like a row, None if it does not."""
    body = line.strip()
    bare = body.strip(" -_")
    begins = bare.lstrip(_DIGITS + "(").startswith("#") and not _HEADING.fullmatch(bare)
    ends = bare.endswith("#") and kind_of(line)[0] in ("plain", "blank")
    if not (begins and (above or below or "#|" in body)) and not (ends and above and below):
        return None
    if set(body) <= _RUN_LENGTH:
        return (
            "run lengths cannot be read; write a number before a character or a (group), "
            f"up to {MAX_CELLS} cells in all"
        )
    wrong = next((c for c in body if c not in _RUN_LENGTH | _BOARD), None)
    return holds(wrong or next(c for c in body if c not in _BOARD))  # run lengths with a space


def holds(char: str) -> str:
    """The message for a character that no board has."""
    return f"this row holds {char!r}; use # @ + $ * . and - for floor"


def noted_lines(lines: list[str]) -> set[int]:
    """Lines from `Comment:` to `Comment-End:`. A `Comment:` that no end follows is one line."""
    noted: set[int] = set()
    end = None
    for i in reversed(range(len(lines))):
        word = lines[i].strip()[:12].lower()
        if word.startswith("comment-end"):
            end = i
        elif word.startswith("comment:"):
            noted.update(range(i, (i if end is None else end) + 1))
            end = None
    return noted


def kind_of(line: str) -> tuple[str, str]:
    """What a line of text is, and the title it gives if it is one."""
    body = line.strip()
    key = _KEY.match(body)
    if key:
        return ("title", key[2]) if key[1].lower() == "title" else ("other", "")
    if body.startswith("::") or not any(map(str.isalnum, body)):
        return "blank", ""
    if body[0] == ";":
        return "comment", body[1:].strip()
    if len(body) > 2 and body[0] == body[-1] and body[0] in "'\"":
        return "quoted", body[1:-1].strip()
    if set(body) <= _MOVES:
        return "other", ""
    return "plain", body.strip("-=~*_ \t").lstrip("# \t")
