"""`ftw levels`, as a user types it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ftw_agents.cli import main
from ftw_envs.sokoban.files import read_levels
from ftw_envs.sokoban.levels import parse_level

ONE = "#####\n#@$.#\n#####\n"
TWO = "######\n#@ $.#\n######\n"
LEVELS = [parse_level(ONE), parse_level(TWO)]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("levels.txt")
    path.write_text(f"; A [b]\n{ONE}\n; 2\n{TWO}")
    return path


def fails(args: list[str]) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        main(args)
    return stop.value.code


def test_list(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["levels", "list", "levels.txt"])
    words = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    assert ["1", "A", "[b]", "5", "x", "3", "1", "2"] in words
    assert ["2", "2", "6", "x", "3", "1", "7"] in words


def test_solve_then_check(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["levels", "solve", "levels.txt"])
    text = "; A [b]: 1 moves, 1 pushes\nR\n; 2: 2 moves, 1 pushes\nrR\n"
    assert capsys.readouterr().out == text
    main(["levels", "solve", "levels.txt", "--mode", "pushes", "--index", "2"])
    assert capsys.readouterr().out == "; 2: 2 moves, 1 pushes\nrR\n"
    main(["levels", "solve", "levels.txt", "--mode", "any", "--out", "a.lurd"])
    assert "solved 2 of 2: a.lurd" in capsys.readouterr().out
    assert Path("a.lurd").read_text() == text
    main(["levels", "check", "levels.txt", "--lurd", "a.lurd"])
    line = "levels 2 · duplicates 0 · solutions that hold 2 · solvable 2"
    assert capsys.readouterr().out.splitlines()[-1] == line
    main(["levels", "check", "levels.txt"])
    assert capsys.readouterr().out.splitlines()[-1] == "levels 2 · duplicates 0 · solvable 2"
    assert fails(["levels", "solve", "levels.txt", "--out", "a.lurd"]) == 2
    assert capsys.readouterr().err == "ftw: a.lurd: exists already\n"


def test_check_names_what_does_not_hold(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stuck = "######\n#@   #\n# $  #\n#   .#\n######\n".replace("# $  #", "#$   #")
    hard = "#######\n#@    #\n# $ $ #\n#.   .#\n#######\n"
    done = "####\n#@*#\n####\n"
    mirrored = "######\n#.$ @#\n######\n"
    file.write_text(f"{TWO}\n{mirrored}\n{stuck}\n{hard}\n{done}")
    main(["levels", "solve", "levels.txt", "--max-positions", "1", "--out", "a.lurd"])
    assert Path("a.lurd").read_text().splitlines()[-1] == "-"  # solved, and without moves
    capsys.readouterr()
    assert fails(["levels", "check", "levels.txt", "--max-positions", "1"]) == 1
    out = capsys.readouterr().out
    assert "levels.txt:5: level 2: is level 1 again\n" in out
    assert "levels.txt:9: level 3: unsolvable\n" in out
    assert "levels.txt:15: level 4: gave up after 1 positions\n" in out
    Path("a.lurd").write_text("; none\nrRr\n\nlL\n-\nrD\n-\n")
    assert fails(["levels", "check", "levels.txt", "--no-solve", "--lurd", "a.lurd"]) == 1
    out = capsys.readouterr().out
    assert "a.lurd:2: level 1: move 3 (r) is blocked\n" in out
    assert "a.lurd:5: level 3: no solution\n" in out
    assert "a.lurd:6: level 4: the level is not solved after 2 moves" in out
    assert "levels 5 · duplicates 1 · solutions that hold 2\n" in out
    Path("a.lurd").write_text("rR\n")
    assert fails(["levels", "check", "levels.txt", "--no-solve", "--lurd", "a.lurd"]) == 1
    assert "a.lurd: 1 solutions, there are 5 levels\n" in capsys.readouterr().out


def test_convert(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for style in ("xsb", "sok", "boxoban", "rle"):
        main(["levels", "convert", "levels.txt", f"new/{style}.txt", "--style", style])
        assert f"levels 2: new/{style}.txt\n" in capsys.readouterr().out
        assert [x.level for x in read_levels(Path("new") / f"{style}.txt")] == LEVELS
    before = file.read_bytes()
    assert fails(["levels", "convert", "new/rle.txt", "levels.txt", "--style", "rle"]) == 2
    assert capsys.readouterr().err == "ftw: levels.txt: exists already\n"
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["list", "nowhere.txt"], "nowhere.txt: cannot be read: No such file or directory"),
        (["check", "."], ".: cannot be read: Is a directory"),
        (["check", "levels.txt", "--lurd", "nowhere"], "nowhere: cannot be read: No such file"),
        (["check", "levels.txt", "--max-positions", "0"], "--max-positions must be at least 1"),
        (["solve", "levels.txt", "--index", "3"], "--index must be from 1 to 2, got 3"),
        (["convert", "bad.txt", "new.txt"], "bad.txt:2: this row holds 'x'; use # @ + $ * . and"),
    ],
)
def test_errors_are_one_line(
    args: list[str], why: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.txt").write_text("#####\n#@$x#\n#####")
    assert fails(["levels", *args]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"ftw: {why}")
    assert error.count("\n") == 1


def test_the_command_line_waits_for_no_heavy_import() -> None:
    probe = "import sys, ftw_agents.cli; print({'numba', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
