"""Sokoban by hand in a terminal: single keys, and a board in colour."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ftw_agents.console import console
from ftw_agents.play_command import Game, counted
from ftw_envs.sokoban.env import SokobanEnv
from ftw_envs.sokoban.rules import BOX, GOAL, PLAYER, WALL

ESCAPE = "\x1b"
ESCAPE_WAIT = 0.05
"""Seconds in which the rest of an arrow key comes; after that it was the Esc key."""

_MOVES = {
    **dict(zip("wsad", ("up", "down", "left", "right"), strict=True)),
    **dict(zip("kjhl", ("up", "down", "left", "right"), strict=True)),
    **dict(zip("ABDC", ("up", "down", "left", "right"), strict=True)),  # ends of the arrow keys
}
# Two characters a cell, so that squares look square; they tell all without colour too.
_CELLS = {
    0: ("  ", ""),
    WALL: ("##", "#5c6370 on #5c6370"),
    GOAL: ("()", "bold #d65a50"),
    BOX: ("[]", "bold #402a14 on #c48e54"),
    BOX | GOAL: ("**", "bold #143018 on #609e67"),
    PLAYER: ("@@", "bold white on #4276b5"),
    PLAYER | GOAL: ("++", "bold white on #4276b5"),
}
_LEGEND = {PLAYER: "you", BOX: "box", GOAL: "goal", BOX | GOAL: "box on goal"}
_LEGEND |= {PLAYER | GOAL: "you on goal"}
_KEYS = "arrows, WASD, hjkl: move   u: undo   r: restart   n: next   q: quit"
_LINES_BESIDE_BOARD = 10


@contextmanager
def single_keys(fd: int) -> Iterator[None]:
    """Keys come one by one and are not echoed; afterwards all is as before, whatever happens."""
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd, termios.TCSANOW)
        mode = termios.tcgetattr(fd)
        # Ctrl-Z would leave the shell with the game's screen and keys.
        mode[6][termios.VSUSP] = bytes([os.fpathconf(fd, "PC_VDISABLE")])
        termios.tcsetattr(fd, termios.TCSANOW, mode)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)


def read_key(fd: int) -> str:
    """The next key: a move, a small letter, `ESCAPE`, or "" when there are no more keys.

    Other keys come as something that means nothing.
    """
    key = os.read(fd, 1).decode("latin-1")
    if key != ESCAPE or not _more(fd):
        return _MOVES.get(key.lower(), key.lower())
    # A control sequence: ESC, "[" or "O", numbers, and a letter that tells which.
    kind, end = os.read(fd, 1).decode("latin-1"), "0"
    while kind in ("[", "O") and end and end in "0123456789;" and _more(fd):
        end = os.read(fd, 1).decode("latin-1")
    return _MOVES.get(end, "other") if end.isupper() else "other"


def _more(fd: int) -> bool:
    return bool(select.select([fd], [], [], ESCAPE_WAIT)[0])


def play_keys(game: Game, env_id: str) -> None:
    """Plays until the player quits; then tells how the last game went."""
    fd = sys.stdin.fileno()
    report: list[str] = []
    try:
        # The other screen of the terminal: what stood there before comes back.
        with single_keys(fd), Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                wait = game.ended and not report
                lines = [game.outcome, "working out the optimum ..."] if wait else report
                live.update(draw(game, env_id, lines), refresh=True)
                if wait:
                    report = game.report()
                    continue
                if not act(game, read_key(fd)):
                    break
                report = report if game.ended else []
    except KeyboardInterrupt:
        pass
    lines = report or [game.count()]
    console.print(f"{env_id} {game.split} {game.index}", highlight=False)
    console.print("\n".join(lines), highlight=False)


def act(game: Game, key: str) -> bool:
    """Does what a key says; False if it says to stop."""
    if key in ("q", ESCAPE, "\x03", "\x04", ""):
        return False
    if key == "u":
        game.undo()
    elif key == "r":
        game.restart()
    elif key == "n":
        game.next()
    elif key in _MOVES.values() and not game.ended:
        game.send(key)
    return True


def draw(game: Game, env_id: str, report: list[str]) -> RenderableType:
    """The whole screen.

    Args:
        report: what stands below the board instead of how the game stands.
    """
    assert isinstance(game.env, SokobanEnv)
    board = game.env.board
    blocked = bool(game.replies) and not board.moved
    note = game.outcome or ("blocked" if blocked else "")
    first, second, third, *_ = [*(report or [note]), "", ""]
    undone = f", {game.undone} taken back" if game.undone else ""
    legend = Text()
    for flags, name in _LEGEND.items():
        legend.append(*_CELLS[flags]).append(f" {name}   ")
    return Group(
        Text(f"{env_id}  {game.split} {game.index}", "bold"),
        Text(),
        _board(board.cells, board.level.width, board.player),
        Text(),
        Text(f"{game.count()}, {counted(game.pushes, 'push')}{undone}"),
        Text(first, "bold green" if game.info["solved"] else "bold yellow"),
        Text(f"{second}\n{third}"),
        Text(),
        legend,
        Text(_KEYS, "dim"),
    )


def _board(cells: bytes | bytearray, width: int, player: int) -> Text:
    """The board, or as much of it around the player as there is room for."""
    y, x = divmod(player, width)
    rows = _window(len(cells) // width, max(console.height - _LINES_BESIDE_BOARD, 3), y)
    columns = _window(width, max(console.width // 2, 3), x)
    text = Text(no_wrap=True)
    for row in rows:
        for column in columns:
            text.append(*_CELLS[cells[row * width + column]])
        text.append("\n")
    text.right_crop(1)
    return text


def _window(size: int, room: int, at: int) -> range:
    """`room` of `size` cells, with `at` as near to the middle as can be."""
    start = min(max(at - room // 2, 0), max(size - room, 0))
    return range(start, min(start + room, size))
