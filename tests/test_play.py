"""The command `ftw play`."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ftw_agents import play_command, play_screen
from ftw_agents.cli import main
from ftw_agents.play_command import Game
from ftw_envs.bandit.machines import MachinesEnv
from ftw_envs.registry import TABLE, make
from ftw_envs.sokoban.env import SokobanEnv
from ftw_envs.sokoban.rules import BOX
from ftw_envs.sokoban.solve import solve

MINI = "ftw/SokobanMini-v0"
IDS = [row.id for row in TABLE]
ARROWS = {"up": "\x1b[A", "down": "\x1bOB", "left": "\x1b[1;2D", "right": "l"}
"""One key for each move: plain, application and shifted arrows, and a letter."""

LEVELS = """
#####
#@$.#
#####

######
#.$ @#
#    #
######

#####
#@*$#
#. ##
#####
"""


def solution(env_id: str, split: str, index: int) -> tuple[list[str], SokobanEnv]:
    env = make(env_id)
    assert isinstance(env, SokobanEnv)
    env.reset(seed=0, options={"split": split, "index": index})
    found = solve(env.board.level)
    assert found is not None
    return list(found.actions), env


# With words


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{x}\n" for x in lines)))


def test_play_in_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    moves, env = solution(MINI, "test", 17)
    type_lines(monkeypatch, *moves, "up", "/next", "/quit", "up")
    main(["play", MINI, "--split", "test", "--index", "17", "--seed", "5"])
    out = capsys.readouterr().out
    best = env.packed()
    assert out.startswith(f"{MINI} test 17, seed 5 (")
    assert f"\nsolved: {best.moves} moves, " in out
    assert f"\nfewest moves: {best.moves}, fewest pushes: {best.pushes}\n" in out
    assert "\nthe game is over" in out
    assert f"\n{MINI} test 18, seed 6 (" in out
    assert out.count("Sokoban.") == 2  # what came after /quit was not read


def test_play_commands_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moves, _ = solution(MINI, "test", 17)
    type_lines(monkeypatch, "/undo", "/up", "what?", "/undo", *moves)
    main(["play", MINI, "--split", "test", "--index", "17", "--text"])
    out = capsys.readouterr().out
    assert "nothing that can be taken back" in out
    assert "there is no /up; there are /undo" in out
    assert "The reply holds no known action." in out
    assert "taken back; move 0 of 15" in out
    assert f"solved: {len(moves)} moves" in out
    assert "not a clean game: 1 reply taken back" in out


@pytest.mark.parametrize("env_id", IDS)
def test_every_environment_can_be_played(
    env_id: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = make(env_id).max_steps
    type_lines(monkeypatch, *["?"] * limit, "/next")
    main(["play", env_id, "--seed", "1"])
    out = capsys.readouterr().out
    assert "\ntime is up: " in out
    assert out.count(f"{env_id} train ") == 2


def test_pictures_and_numbers_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, "9", "0", "up")
    main(["play", "ftw/SokobanMiniVisual-v0", "--index", "3", "--env-args", "actions=discrete"])
    out = capsys.readouterr().out
    assert "a number from 0 to 3 here, got '9'" in out
    assert out.count("######\n#") == 3  # the board is shown, at first and after each move


@pytest.mark.parametrize("env_id", [r.id for r in TABLE if ".bandit." in r.entry_point])
def test_machines_tell_which_was_better(env_id: str) -> None:
    env = make(env_id)
    assert isinstance(env, MachinesEnv)
    game = Game(env, "valid", 3, 0)
    while not game.ended:
        good = env.good_name()
        game.send(good)
    first, *others = game.report()
    assert first == f"solved: score {game.info['score']:g}"
    assert others[-1].endswith(f"{good} was the better machine, and you chose it")
    assert not game.undo()
    game.restart()
    bad = next(name for name in env.names if name != env.good_name())
    good = env.good_name()
    while not game.ended:
        game.send(bad)
        bad = env.names[0]
    assert f"{good} was the better machine, you chose" in "\n".join(game.report())


def test_a_file_of_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "levels.txt"
    file.write_text(LEVELS)
    type_lines(monkeypatch, "right", "/next", "down, left", "left left", "/next", "down", "right")
    extra = ["--env-args", f"levels={file}", "max_moves=4", "max_steps=4"]
    main(["play", MINI, "--index", "0", *extra])
    out = capsys.readouterr().out
    assert "solved: 1 move, 1 push\nfewest moves: 1, fewest pushes: 1" in out
    assert "time is up: 4 moves, 0 pushes\nfewest moves: 2, fewest pushes: 1" in out


def test_optimal_lengths_that_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "levels.txt"
    file.write_text(LEVELS)
    env = make(MINI, levels=str(file), max_steps=1)
    monkeypatch.setattr(play_command, "MAX_POSITIONS", 1)
    for index, said in ((1, "not known"), (2, "none, it cannot be solved")):
        game = Game(env, "test", index)
        game.send("up")
        assert game.report()[0].startswith("time is up: 1 move, 0 pushes")
        assert game.report()[1] == f"fewest moves: {said}, fewest pushes: {said}"


def test_only_moves_that_were_played_count() -> None:
    moves, env = solution(MINI, "test", 17)
    pushes = env.packed().pushes
    game = Game(make(MINI, max_moves=50, undo=True), "test", 17, 0)
    game.send(" ".join([*moves, "up", "down"]))
    assert game.info["solved"]
    assert game.info["steps"] == len(moves)
    game.undo()
    assert (game.pushes, game.info["steps"]) == (0, 0)
    game.send(" ".join([*moves[:-1], "undo", *moves[-2:]]))
    assert game.info["solved"]
    found = solve(env.board.level)
    assert found is not None
    assert game.pushes == found.pushes >= (pushes or 0)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["ftw/Chess-v0"], "unknown environment 'ftw/Chess-v0'; there are ftw/"),
        ([MINI, "--index", "20000"], "index must be from 0 to 19999"),
        ([MINI, "--seed", "-1"], "seed must be at least 0"),
        ([MINI, "--env-args", "levels=nowhere"], "nowhere cannot be read"),
        ([MINI, "--env-args", "obs"], "key=value"),
    ],
)
def test_errors_are_one_line(args: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["play", *args])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1


# With keys


class Terminal:
    """A pseudo terminal that stands for standard input and the console."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keyboard, self.fd = pty.openpty()
        self.screen = io.StringIO()
        monkeypatch.setattr(sys, "stdin", os.fdopen(self.fd, closefd=False))
        console = Console(file=self.screen, force_terminal=True, width=80, height=24)
        monkeypatch.setattr(play_screen, "console", console)
        self.before = termios.tcgetattr(self.fd)

    def press(self, *keys: str) -> None:
        os.write(self.keyboard, "".join(keys).encode())

    def as_before(self) -> bool:
        shown = self.screen.getvalue()
        whole = shown.count("\x1b[?1049h") == shown.count("\x1b[?1049l") == 1
        return whole and termios.tcgetattr(self.fd) == self.before


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Any:
    it = Terminal(monkeypatch)
    yield it
    os.close(it.keyboard)
    os.close(it.fd)


def new_game(index: int = 17) -> Game:
    return Game(make(MINI, render_mode="ansi"), "test", index, 0)


def test_play_with_keys(terminal: Terminal) -> None:
    moves, _ = solution(MINI, "test", 17)
    keys = [ARROWS[m] for m in moves]
    game = new_game()
    terminal.press(*keys, "w", "u", keys[-1], "\x1b")
    play_screen.play_keys(game, MINI)
    assert terminal.as_before()
    assert game.replies == moves  # "w" came after the end, and was no move
    assert game.undone == 1
    screen = terminal.screen.getvalue()
    assert f"move {len(moves) - 1} of 15" in screen
    last = screen.split("\x1b[?1049l")[1]  # what stays in the terminal
    assert f"solved: {len(moves)} moves" in last
    assert f"fewest moves: {len(moves)}" in last
    assert "not a clean game: 1 reply taken back" in last


def test_keys_for_other_games(terminal: Terminal) -> None:
    game = new_game(999)
    terminal.press("\x1a", "W", "k", "\x1b[A", "\x1b[15~", "é", "r", "n", "a", "q")
    play_screen.play_keys(game, MINI)
    assert (game.index, game.replies) == (0, ["left"])  # the next one after the last
    assert "blocked" in terminal.screen.getvalue()
    assert terminal.as_before()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_terminal_is_restored_after_an_error(
    error: type[BaseException], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = new_game()

    def fail(reply: str) -> None:
        assert termios.tcgetattr(terminal.fd) != terminal.before
        raise error("no")

    monkeypatch.setattr(game, "send", fail)
    terminal.press("u", "w")
    if error is KeyboardInterrupt:  # this is how Ctrl-C says quit
        play_screen.play_keys(game, MINI)
    else:
        with pytest.raises(error, match="no"):
            play_screen.play_keys(game, MINI)
    assert terminal.as_before()


def test_time_is_up_and_large_boards(tmp_path: Path, terminal: Terminal) -> None:
    rows = [["#", *" " * 58, "#"] for _ in range(32)]
    rows[0] = rows[-1] = ["#"] * 60
    rows[16][30], rows[17][30], rows[30][57] = "@", "$", "."
    file = tmp_path / "large.txt"
    file.write_text("\n".join(map("".join, rows)))
    game = Game(make(MINI, levels=str(file), max_steps=2, render_mode="ansi"), "train", 0)
    terminal.press("s", "s")
    terminal.press("q")
    play_screen.play_keys(game, MINI)
    screen = terminal.screen.getvalue()
    assert "time is up: 2 moves, 2 pushes" in screen
    assert "@@" in screen
    assert "q: quit" in screen
    assert game.env.board.cells[19 * 60 + 30] & BOX  # type: ignore[attr-defined]


def test_the_command_in_a_terminal() -> None:
    keyboard, fd = pty.openpty()
    termios.tcsetwinsize(fd, (24, 80))
    before = termios.tcgetattr(fd)
    command = [sys.executable, "-m", "ftw_agents.cli", "play", MINI, "--split", "test"]
    env = {**os.environ, "TERM": "xterm-256color"}
    run = subprocess.Popen(
        [*command, "--index", "17"], stdin=fd, stdout=fd, stderr=subprocess.PIPE, env=env
    )
    shown, pressed = b"", False
    end = time.monotonic() + 30
    try:
        while run.poll() is None and time.monotonic() < end:
            if select.select([keyboard], [], [], 0.05)[0]:
                shown += os.read(keyboard, 65536)
            if not pressed and b"q: quit" in shown:
                os.write(keyboard, b"wq")
                pressed = True
        assert run.returncode == 0, run.stderr and run.stderr.read()
        assert termios.tcgetattr(fd) == before
    finally:
        run.kill()
        run.communicate()
        os.close(keyboard)
        os.close(fd)
    assert b"move 1 of 15" in shown
