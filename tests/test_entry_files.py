"""What can be seen of an entry without playing it: its files, and what it says of itself."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import entries
import pytest
from entries import change, problem, problems, rows_of, write_rows


@pytest.fixture(scope="module", autouse=True)
def _boards() -> Iterator[None]:
    with entries.small_boards():
        yield


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good entry."""
    return entries.trained_entry(tmp_path_factory.mktemp("good"), "small-sokoban")


@pytest.fixture
def one(good: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(good, tmp_path / "one"))


def test_a_changed_byte_is_found(one: Path) -> None:
    path = one / "runs" / "5" / "episodes.jsonl"
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"tokens_in":4', b'"tokens_in":3', 1))
    assert problem(one).startswith("runs/5/episodes.jsonl: sha256 is")
    path.write_bytes(data[:-5])
    found = problems(one)
    assert [line.split(" is ")[0] for line in found] == [
        f"runs/5/episodes.jsonl: {what}" for what in ("sha256", "bytes", "lines")
    ]
    change(one)
    assert problem(one) == "runs/5/episodes.jsonl:12: cut off: the line has no end"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda e: (e / "README.md").write_text("x"), "'README.md' is not listed in entry.json"),
        (lambda e: (e / "runs/0/.x").write_text("x"), "'runs/0/.x' is not listed in entry.json"),
        (lambda e: (e / "runs/7").mkdir(), "an empty folder"),
        (lambda e: (e / "runs/1/episodes.jsonl").unlink(), "runs/1/episodes.jsonl: missing"),
        (lambda e: (e / "env.lock.json").unlink(), "env.lock.json: missing, entry.json lists it"),
        (lambda e: (e / "entry.json").unlink(), "entry.json: missing"),
        (lambda e: _link(e / "runs/0/curve.jsonl"), "'runs/0/curve.jsonl' is a link"),
        (lambda e: _link(e / "runs/1"), "'runs/1' is a link"),
        (lambda e: os.mkfifo(e / "runs/0/pipe"), "'runs/0/pipe' is not a regular file"),
        (lambda e: (e / "entry.json").write_bytes(b" " * 70_000), "entry.json: 70000 bytes, at"),
        (lambda e: _large(e / "runs/0/curve.jsonl", 3 << 20), "curve.jsonl: 3145728 bytes, at"),
        (lambda e: _large(e / "runs/0/episodes.jsonl", 11 << 20), "episodes.jsonl: 11534336 bytes"),
        (lambda e: (e / "env.lock.json").write_bytes(b"{}\n"), "env.lock.json: sha256 is"),
    ],
)  # fmt: skip
def test_other_files_than_listed_are_found(
    one: Path, spoil: Callable[[Path], object], says: str
) -> None:
    spoil(one)
    assert any(says in p for p in problems(one)), problems(one)


def _link(path: Path) -> None:
    other = path.rename(path.parents[3] / "elsewhere")
    path.symlink_to(other)


def _large(path: Path, size: int) -> None:
    with open(path, "ab") as file:
        file.truncate(size)


def test_a_link_to_an_entry_is_none(one: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(one)
    assert "a link; an entry is a folder" in problem(tmp_path / "link")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "not valid JSON"),
        (b"\xff", "not UTF-8"),
        (b"[" * 60_000, "nested deeper than 8 levels"),
        (b'{"format": 2, "format": 2}', "stands twice"),
        (b'{"format": NaN}', "NaN"),
        (b'{"format": 1e999}', "out of range"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"[]", "the whole: Input should be a valid dictionary or instance of Entry, got []"),
        (b'{"format": 1}', "format: Input should be 2, got 1"),
    ],
)
def test_hostile_entry_files(one: Path, data: bytes, says: str) -> None:
    (one / "entry.json").write_bytes(data)
    assert says in problem(one)


# What an entry says of itself.


def _set(**changes: object) -> Callable[[dict], None]:
    return lambda data: data.update(changes)


SCRIPTED = {"name": "x", "family": "scripted", "code_url": None, "commit": None}


@pytest.mark.parametrize(
    ("alter", "says"),
    [
        (_set(colour=1), "entry.json: colour: Extra inputs are not permitted, got 1"),
        (_set(suite_version="0.0.1"), "suite_version: made with 0.0.1, this is"),
        (_set(board="chess"), "there is no board 'chess'; there are sokoban-mini"),
        (_set(env_version="sokoban0"), "env_version is 'sokoban0', must be 'sokoban1-"),
        (_set(view=[]), ":1: turn 1: what the agent saw is recorded as"),
        (_set(view=["obs=image"]), "view: obs must be one of text, coords, got 'image'"),
        (_set(view=["max_steps=99"]), "view: max_steps is part of the task on small-sokoban"),
        (_set(view=["actions=discrete"]), "view: actions is part of the task"),
        (_set(view=['obs="coords"']), "view: must be written as obs=coords, got"),
        (_set(view=["obs"]), "an environment argument is key=value"),
        (_set(runs=[0, 5, 1]), "runs must be training seeds in ascending order, each once"),
        (_set(runs=[0, 0, 1]), "runs must be training seeds in ascending order, each once"),
        (_set(runs=[0, 1]), "claims must be of the runs in order, [0, 1]"),
        (_set(training=None), "a method of the family ftw says how it was trained"),
        (_set(method=SCRIPTED), "a scripted player has neither training nor model"),
        (_set(submitted="2026-02-30x"), "submitted: String should match pattern"),
        (lambda e: e["files"].pop(1), "files: runs/0/episodes.jsonl must be listed"),
        (lambda e: e["files"].append(e["files"][1]), "runs/0/episodes.jsonl is listed twice"),
        (lambda e: e["claims"].pop(), "claims must be of the runs in order, [0, 1, 5]"),
        (lambda e: e["method"].update(name="a\nb"), "method.name: Value error"),
        (lambda e: e["method"].update(name="a\u202eb"), "method.name: Value error"),
        (lambda e: e["method"].update(code_url="javascript:alert(1)"), "method.code_url: String"),
        (lambda e: e["training"]["budget"].update(episodes=100), "ends after 192 episodes, the b"),
        (lambda e: e["training"]["budget"].update(wall_seconds=1.5), "wall_seconds: Input should"),
        (lambda e: e["selection"].update(attempts_per_instance=8), "attempts_per_instance: Input"),
    ],
)  # fmt: skip
def test_statements_that_do_not_agree_are_found(
    one: Path, alter: Callable[[dict], object], says: str
) -> None:
    change(one, alter)
    found = problems(one)
    assert any(says in p for p in found), found


def test_an_id_that_is_not_the_entrys_is_found(one: Path) -> None:
    data = json.loads((one / "entry.json").read_text())
    (one / "entry.json").write_text(json.dumps({**data, "notes": "not said before"}))
    said = problem(one)
    assert said.startswith("entry.json: entry_id must be ")
    assert said.endswith(f"got {data['entry_id']}")


@pytest.mark.parametrize("name", ["Entry", "con", "e", "entry one"])
def test_folders_have_names_that_work_everywhere(one: Path, name: str) -> None:
    assert "the folder's name" in problem(one.rename(one.with_name(name)))


@pytest.mark.parametrize(
    ("alter", "says"),
    [
        (lambda rows: rows[2].update(episodes=64), ":3: episodes must be more than in the line"),
        (lambda rows: rows[2].update(tokens=1), ":3: tokens must not be less than in the line"),
        (lambda rows: rows[2].update(wall_seconds=0.25), ":3: wall_seconds must not be less"),
        (lambda rows: rows[2].update(env_steps=None), ":3: env_steps must be told in every line"),
        (lambda rows: rows[2].update(solved=513), ":3: solved is 513, of only 512"),
        (lambda rows: rows[2].update(wall_seconds=-1.0), ":3: wall_seconds: Input should be"),
        (lambda rows: rows[3].update(tokens=10**9), ": ends after 1000000000 tokens, the budget"),
    ],
)
def test_impossible_curves_are_found(
    one: Path, alter: Callable[[list[dict]], object], says: str
) -> None:
    rows = rows_of(one, 1, "curve")
    alter(rows)
    write_rows(one, rows, 1, "curve")
    assert any(f"runs/1/curve.jsonl{says}" in p for p in problems(one)), problems(one)


def test_the_curve_of_a_method_that_plays_nothing_goes_on_in_time(one: Path) -> None:
    rows = rows_of(one, 1, "curve")
    for row in rows:
        row.update(episodes=0, tokens=0, env_steps=0)
    write_rows(one, rows, 1, "curve")
    assert problems(one) == ()
