"""The commands `ftw levels ...`: list, check, solve and convert files of levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table
from tyro.conf import Positional

from ftw_agents.console import bar, console
from ftw_envs.files import write_bytes
from ftw_envs.sokoban.files import (
    FileLevel,
    Style,
    check_lurd,
    read_levels,
    read_text,
    write_levels,
)
from ftw_envs.sokoban.levels import LevelError, canonical
from ftw_envs.sokoban.rules import BOX
from ftw_envs.sokoban.solve import GaveUpError, Mode, Solution
from ftw_envs.sokoban.solve import solve as solve_level

# Lines of solutions are matched to levels by order, so one without a letter needs a sign.
_NO_MOVES = "-"


def list_levels(file: Positional[Path]) -> None:
    """Lists the levels of a file.

    Args:
        file: levels in XSB, .sok, Boxoban or run-length text.
    """
    table = Table("number", "title", "size", "boxes", "line")
    for number, x in enumerate(read_levels(file), 1):
        size = f"{x.level.width} x {x.level.height}"
        boxes = len(x.level.having(BOX))
        table.add_row(str(number), escape(x.title), size, str(boxes), str(x.line))
    console.print(table)


def check(
    file: Positional[Path],
    *,
    solve: bool = True,
    max_positions: int = 2_000_000,
    lurd: Path | None = None,
) -> None:
    """Checks that levels are well formed, all different and solvable, and that solutions hold.

    What does not hold, or was given up, is named line by line, and the exit code is 1.

    Args:
        file: levels in XSB, .sok, Boxoban or run-length text.
        solve: solve every level for which `lurd` has no solution that holds.
        max_positions: positions after which a level is given up; a million take about 100 MB.
        lurd: file of solutions to replay, one a line, in the order of the levels.
    """
    _check_limit(max_positions)
    levels = read_levels(file)
    faults = list(_duplicates(file, levels))
    counts = Counter({"levels": len(levels), "duplicates": len(faults)})
    held: set[int] = set()
    if lurd is not None:
        faults += _replay(lurd, levels, held)
        counts["solutions that hold"] = len(held)
    if solve:
        counts["solvable"] = len(held)
        with bar("solve", len(levels)) as tell:
            for i, x in enumerate(levels):
                answer = None if i in held else _solve(x, "pushes", max_positions)
                if isinstance(answer, str):
                    counts[answer.split(" after ")[0]] += 1
                    faults.append(f"{file}:{x.line}: {_name(i, x)}: {answer}")
                elif answer is not None:
                    counts["solvable"] += 1
                tell(i + 1, "")
    for fault in faults:
        print(fault)
    print(" · ".join(f"{what} {count}" for what, count in counts.items()))
    if faults:
        raise SystemExit(1)


def solve(
    file: Positional[Path],
    *,
    mode: Mode = "moves",
    index: int | None = None,
    max_positions: int = 2_000_000,
    out: Path | None = None,
) -> None:
    """Solves levels; prints a line of moves (LURD) for each, `-` where there are none.

    Args:
        file: levels in XSB, .sok, Boxoban or run-length text.
        mode: fewest moves, fewest pushes, or any solution, found soon.
        index: number of the only level to solve, from 1; all of them if not given.
        max_positions: positions after which a level is given up; a million take about 100 MB.
        out: file to write instead, as `ftw levels check --lurd` reads it.
    """
    _check_limit(max_positions)
    levels = read_levels(file)
    if index is not None:
        if not 1 <= index <= len(levels):
            raise ValueError(f"--index must be from 1 to {len(levels)}, got {index}")
        levels = levels[index - 1 : index]
    if out is None:
        for x in levels:
            print("\n".join(_report(x, _solve(x, mode, max_positions))), flush=True)
        return
    _check_new(out)
    lines, solved = list[str](), 0
    with bar("solve", len(levels)) as tell:
        for done, x in enumerate(levels, 1):
            answer = _solve(x, mode, max_positions)
            lines += _report(x, answer)
            solved += isinstance(answer, Solution)
            tell(done, f"solved {solved}")
    write_bytes(out, "".join(f"{line}\n" for line in lines).encode("utf-8"))
    print(f"solved {solved} of {len(levels)}: {out}")


def convert(file: Positional[Path], out: Positional[Path], *, style: Style = "xsb") -> None:
    """Writes the levels of a file in another style.

    Args:
        file: levels in XSB, .sok, Boxoban or run-length text.
        out: file to write; it must not exist.
        style: titles after `;` (xsb), below the boards (sok), numbers from 0 (boxoban), or
            run-length text with a level a line (rle).
    """
    levels = read_levels(file)
    _check_new(out)
    write_levels(out, levels, style)
    print(f"levels {len(levels)}: {out}")


LEVELS_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_levels,
    "check": check,
    "solve": solve,
    "convert": convert,
}


def _check_limit(max_positions: int) -> None:
    if max_positions < 1:
        raise ValueError(f"--max-positions must be at least 1, got {max_positions}")


def _check_new(out: Path) -> None:
    if out.exists():
        raise ValueError(f"{out}: exists already")


def _name(i: int, x: FileLevel) -> str:
    number = str(i + 1)
    return f"level {number}" if x.title == number else f"level {number} ({x.title})"


def _duplicates(file: Path, levels: Sequence[FileLevel]) -> Iterator[str]:
    """A line for each level that is an earlier one, maybe turned or mirrored."""
    seen: dict[bytes, int] = {}
    for i, x in enumerate(levels):
        first = seen.setdefault(canonical(x.level), i)
        if first != i:
            yield f"{file}:{x.line}: {_name(i, x)}: is {_name(first, levels[first])} again"


def _replay(file: Path, levels: Sequence[FileLevel], held: set[int]) -> Iterator[str]:
    """A line for each solution that fails; indices of those that do not go into `held`."""
    lines = enumerate(read_text(file).replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1)
    solutions = [(n, text.strip()) for n, text in lines if text.strip() and text.strip()[0] != ";"]
    if len(solutions) != len(levels):
        yield f"{file}: {len(solutions)} solutions, there are {len(levels)} levels"
    for (i, x), (line, text) in zip(enumerate(levels), solutions, strict=False):
        try:
            check_lurd(x.level, "" if text == _NO_MOVES else text)
            held.add(i)
        except LevelError as e:
            why = "no solution" if text == _NO_MOVES else e
            yield f"{file}:{line}: {_name(i, x)}: {why}"


def _solve(x: FileLevel, mode: Mode, max_positions: int) -> Solution | str:
    """The solution, or in words why there is none."""
    try:
        return solve_level(x.level, mode, max_positions) or "unsolvable"
    except GaveUpError as e:
        return str(e)


def _report(x: FileLevel, answer: Solution | str) -> tuple[str, str]:
    """A comment and a line of moves."""
    title = " ".join(x.title.split())
    if isinstance(answer, str):
        return f"; {title}: {answer}", _NO_MOVES
    words = f"{answer.moves} moves, {answer.pushes} pushes"
    return f"; {title}: {words}", answer.lurd or _NO_MOVES
