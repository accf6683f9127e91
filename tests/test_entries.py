"""Verification of entries: every kind of tampering is found, and named in one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import entries
import pytest
from entries import N, change, problem, problems, rows_of, write_rows

from leaderboards import replays
from leaderboards.boards import BOARDS, Board, open_env
from leaderboards.replays import Workers
from leaderboards.verified import read_verified, write_verified
from leaderboards.verify import MAX_REPLAY_BYTES, Report, entries_in, verify

BOARD_NAMES = sorted(entries.SMALL)


@pytest.fixture(scope="module", autouse=True)
def _boards() -> Iterator[None]:
    with entries.small_boards():
        yield


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good entry on each board, of three trained runs."""
    folder = tmp_path_factory.mktemp("good")
    return {name: entries.trained_entry(folder / name, name) for name in BOARD_NAMES}


@pytest.fixture(params=BOARD_NAMES)
def entry(good: dict[str, Path], request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(good[request.param], tmp_path / "entry"))


@pytest.fixture
def one(good: dict[str, Path], tmp_path: Path) -> Path:
    """A copy to spoil, of one board."""
    return Path(shutil.copytree(good["small-sokoban"], tmp_path / "one"))


def test_a_good_entry_verifies(entry: Path) -> None:
    report = verify(entry)
    assert report.problems == ()
    assert report.warnings == ()
    found = report.verified
    assert found is not None
    assert (found.slug, found.tier, found.differences) == ("entry", "T1", [])
    assert [run.run for run in found.runs] == [0, 1, 5]
    for run, claim in zip(found.runs, found.entry.claims, strict=True):
        assert run.figures == claim.figures
        assert run.figures.episodes == len(run.outcomes) == N
        assert run.outcomes.count("1") == run.figures.solved
        assert [(row.episodes, row.solved) for row in run.curve] == list(entries.CURVE)
    assert len({run.trace for run in found.runs}) == 3
    write_rows(entry, rows_of(entry))  # other white space, same content
    again = verify(entry).verified
    assert again is not None
    assert again.entry.entry_id != found.entry.entry_id
    assert again.runs == found.runs


def test_a_scripted_player_verifies_and_its_attempts_can_be_watched(tmp_path: Path) -> None:
    found = verify(entries.scripted_entry(tmp_path, "small-incident", "expert")).verified
    assert found is not None
    assert found.entry.runs == [0]
    assert [r.index for r in found.replays] == [0, 1, 2, 3, 4, 5]
    assert len(json.dumps([r.model_dump() for r in found.replays])) < 2 * MAX_REPLAY_BYTES
    for replay, solved in zip(found.replays, found.runs[0].outcomes, strict=False):
        assert replay.solved == (solved == "1")
        assert replay.steps[0].saw.startswith("ALERT t+0: ")
        assert replay.steps[-1].world in replay.last
    rate = found.runs[0].figures.solve_rate
    assert found.runs[0].score_sd == pytest.approx((rate * (1 - rate)) ** 0.5)


# One row is not what it says.


def test_a_changed_action_is_found(entry: Path) -> None:
    rows = rows_of(entry, 1)
    rows[3]["actions"][0] = "up" if rows[3]["actions"][0] != "up" else "down"
    write_rows(entry, rows, 1)
    said = problem(entry)
    assert said.startswith("runs/1/episodes.jsonl:4: turn 1: the action is recorded as")


def test_a_changed_reply_is_found(entry: Path) -> None:
    rows = rows_of(entry)
    at = next(i for i, row in enumerate(rows) if row["actions"][0] is not None)
    rows[at]["replies"][0] = "nonsense"
    write_rows(entry, rows)
    assert f"episodes.jsonl:{at + 1}: turn 1: the action is recorded as" in problem(entry)
    rows[at]["actions"][0] = None
    write_rows(entry, rows)
    said = problem(entry)
    assert f"episodes.jsonl:{at + 1}: " in said
    assert "what the agent saw and the state of the world is recorded as" in said or "the e" in said


@pytest.mark.parametrize(
    ("says", "spoil"),
    [
        ("the score is recorded as", lambda r: r.update(score=r["score"] + 0.5)),
        ("solved is recorded as", lambda r: r.update(solved=not r["solved"])),
        ("the end is recorded as", lambda r: r.update(end="solved", solved=True)),
        ("the instance's hash is recorded as", lambda r: r.update(instance="0" * 16)),
        ("the seed is recorded as", lambda r: r.update(seed=str(int(r["seed"]) + 1))),
        ("turn 1: what the agent saw is rec", lambda r: _flip(r["checks"], 0, 3)),
        ("turn 1: the state of the world is", lambda r: _flip(r["checks"], 0, 12)),
        ("the end: what the agent saw and t", lambda r: r["checks"].__setitem__(-1, "0" * 16)),
        ("replies go with as many actions", lambda r: r["checks"].pop()),
        ("replies go with as many actions", lambda r: r["actions"].append(None)),
        ("turns", lambda r: _longer(r)),
        ("the row: replies: List should have", lambda r: r.update(replies=[])),
        ("the row: score: Input should be a", lambda r: r.update(score="0.5")),
        ("the row: solved: Input should be a", lambda r: r.update(solved=1)),
        ("the row: tokens_out: Input should", lambda r: r.update(tokens_out=-1)),
        ("the row: seed: String should match", lambda r: r.update(seed="01")),
        ("the row: colour: Extra inputs are", lambda r: r.update(colour=1)),
    ],
)
def test_a_changed_row_is_found(entry: Path, says: str, spoil: Callable[[dict], object]) -> None:
    rows = rows_of(entry)
    at = next(i for i, row in enumerate(rows) if i > 2 and not row["solved"])
    spoil(rows[at])
    write_rows(entry, rows)
    said = problem(entry)
    assert said.startswith(f"runs/0/episodes.jsonl:{at + 1}: ")
    assert says.replace("turns", "comes after the end") in said


def _flip(checks: list[str], turn: int, digit: int) -> None:
    old = checks[turn]
    checks[turn] = old[:digit] + ("0" if old[digit] != "0" else "1") + old[digit + 1 :]


def _longer(row: dict) -> None:
    for key in ("replies", "actions", "checks"):
        row[key].append(row[key][-1])


def test_a_shortened_attempt_is_found(one: Path) -> None:
    rows = rows_of(one)
    for key in ("replies", "actions", "checks"):
        rows[2][key].pop()
    write_rows(one, rows)
    assert problem(one).startswith("runs/0/episodes.jsonl:3: the episode goes on after its 14")


def test_scores_may_be_rounded_where_nothing_is_lost(entry: Path) -> None:
    rows = rows_of(entry)
    for row in rows:
        row["score"] += 1e-12
    write_rows(entry, rows)
    assert problems(entry) == ()


# Attempts are missing, doubled, unknown, misplaced.


@pytest.mark.parametrize(
    ("alter", "says"),
    [
        (lambda x: x[:-1], ["missing: instance 11 of 12"]),
        (lambda x: x[:4] + x[5:], ["missing: instance 4 of 12"]),
        (lambda x: x[2:3], ["missing: instance 0 and 10 more of 12"]),
        (lambda x: [*x, x[3]], [":13: instance 3 stands here again, it is in line 4 too"]),
        (
            lambda x: [*x[:5], x[3], *x[6:]],
            [":6: instance 3 stands here again, it is in line 4", "missing: instance 5 of 12"],
        ),
        (lambda x: [*x[:4], x[5], x[4], *x[6:]], [":6: instance 4 is out of its place, it comes"]),
        (
            lambda x: [*x, {**x[0], "index": 12}],
            [":13: instance 12 is not one of the board's (12 from 0 to 11)"],
        ),
    ],
)
def test_wrong_sets_of_attempts_are_told_apart(
    entry: Path, alter: Callable[[list], list], says: list[str]
) -> None:
    write_rows(entry, alter(rows_of(entry)))
    found = problems(entry)
    assert len(found) == len(says), found
    for line, part in zip(found, says, strict=True):
        assert line.startswith("runs/0/episodes.jsonl:")
        assert part in line


def test_many_problems_are_counted(one: Path) -> None:
    rows = rows_of(one)
    write_rows(one, [*rows, *rows, *rows])
    found = problems(one)
    assert len(found) == 21
    assert found[-1] == "runs/0/episodes.jsonl: 4 more problems"


def test_another_split_is_no_way_out(one: Path, good: dict[str, Path]) -> None:
    """Attempts at the same instances of another split, or on another board."""
    write_rows(one, rows_of(good["small-incident"]))
    assert all("the instance's hash is recorded as" in p for p in problems(one))


# Claims.


@pytest.mark.parametrize(
    "figure",
    ["solved", "solve_rate", "low", "high", "invalid_rate", "mean_turns", "mean_score",
     "tokens_in", "tokens_out", "episodes"],
)  # fmt: skip
def test_a_wrong_claim_is_named_and_never_shown(entry: Path, figure: str) -> None:
    true = verify(entry).verified
    assert true is not None
    value = true.runs[1].figures.model_dump()[figure]
    wrong = value + 1 if isinstance(value, int) else value / 2 + 0.01
    change(entry, lambda e: e["claims"][1]["figures"].update({figure: wrong}))
    report = verify(entry)
    assert report.verified is not None
    assert report.verified.runs == true.runs
    [difference] = report.verified.differences
    assert (difference.run, difference.figure) == (1, figure)
    assert (difference.claimed, difference.found) == (wrong, value)
    assert report.warnings[0] == f"run 1: claims {figure} {wrong:g}, found is {value:g}"
    assert (
        report.verified.entry.entry_id == true.entry.entry_id
    )  # what is claimed counts for nothing


def test_a_rounded_claim_is_no_difference(one: Path) -> None:
    change(
        one,
        lambda e: e["claims"][0]["figures"].update(low=e["claims"][0]["figures"]["low"] + 1e-12),
    )
    assert verify(one).warnings == ()


def test_one_flipped_attempt_changes_the_claims(one: Path) -> None:
    """Told as a failure what was solved: found in the row, not only in the sum."""
    rows = rows_of(one)
    at = next((i for i, row in enumerate(rows) if row["solved"]), None)
    if at is None:
        rows[0].update(solved=True, end="solved", score=1.0)
    else:
        rows[at].update(solved=False, end="failed", score=0.0)
    write_rows(one, rows)
    assert "the end is recorded as" in problem(one)


def test_language_models_write_tokens(one: Path) -> None:
    write_rows(one, [{**row, "tokens_out": 0} for row in rows_of(one)])
    assert problem(one).startswith("runs/0/episodes.jsonl: tokens_out is 0 in all")


# What is allowed and yet worth knowing.


def test_few_seeds_and_contamination_are_told(tmp_path: Path) -> None:
    entry = entries.trained_entry(tmp_path, "small-trap", (3, 4))
    change(entry, lambda e: e["contamination"].update(trained_on_eval=True))
    assert verify(entry).warnings == (
        "2 of at least 3 training seeds",
        "trained on the instances that it is ranked on, as it says",
    )


def test_runs_that_said_the_same_are_told(one: Path) -> None:
    write_rows(one, rows_of(one, 1), 5)
    assert verify(one).warnings[-1] == "run 5 replied exactly as run 1"


def _copy(entry: Path, folder: str, method: str = "FTW-1-4") -> Path:
    copy = Path(shutil.copytree(entry, entry.with_name(folder)))
    change(copy, lambda e: e["method"].update(name=method))
    return copy


def test_copies_and_names_that_look_alike_are_told(one: Path) -> None:
    first = verify(one).verified
    assert first is not None
    copied = verify(_copy(one, "copy", "Something new"), known=[first])
    assert copied.warnings == tuple(
        f"run {run} replied exactly as run {run} of one" for run in (0, 1, 5)
    )
    alike = verify(_copy(one, "alike", "ftw 1.4"), known=[first]).warnings
    assert alike[0] == "method ftw 1.4 is called nearly as FTW-1-4 in one"
    again = _copy(one, "again")
    change(again, lambda e: e.update(notes="Said better."))
    assert verify(again, known=[first]).warnings == ()
    assert verify(one, known=[first]).warnings == ()


# What the verifier writes.


def test_what_was_verified_is_never_changed(one: Path, tmp_path: Path) -> None:
    folder = tmp_path / "verified"
    assert read_verified(folder) == []
    found = verify(one).verified
    assert found is not None
    path = write_verified(folder, found)
    assert path.name == f"{found.entry.entry_id}.json"
    assert read_verified(folder) == [found]
    before = path.read_bytes()
    assert write_verified(folder, found) == path
    write_verified(folder, found.model_copy(update={"warnings": ["a copy came later"]}))
    change(one, lambda e: e["claims"][0]["figures"].update(solved=12))
    other = verify(one).verified
    assert other is not None
    with pytest.raises(ValueError, match="what was verified is never changed"):
        write_verified(folder, other)
    assert path.read_bytes() == before
    assert before.isascii()
    sealed = found.model_copy(update={"tier": "T2"})  # once the round is revealed
    write_verified(folder, sealed)
    assert read_verified(folder) == [sealed]
    with pytest.raises(ValueError, match="what was verified is never changed"):
        write_verified(folder, found)
    path.rename(path.with_name("0" * 64 + ".json"))
    with pytest.raises(ValueError, match="must be called"):
        read_verified(folder)


def test_entries_are_found_below_folders(good: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(good["small-trap"], tmp_path / "all" / "0.1.0" / "b-entry")
    shutil.copytree(good["small-trap"], tmp_path / "all" / "0.1.0" / "a-entry")
    found = entries_in(tmp_path / "all")
    assert [p.name for p in found] == ["a-entry", "b-entry"]
    (tmp_path / "all" / "0.1.0" / "notes.txt").write_text("x")
    for path, why in (
        (tmp_path / "all", "does not belong among entries"),
        (tmp_path / "nowhere", "no such folder"),
    ):
        with pytest.raises(ValueError, match=why):
            entries_in(path)


# Hostile replies.

_SLOW = ["search" + " " * 19_990 + "x", "search" + " \t" * 9_990 + "=", "<think>" * 2_800,
         "[" * 20_000, "answer:" * 2_800, "> " * 10_000, "*_" * 10_000, "i will " * 2_800,
         "set path=" + "h1," * 6_000, "=" * 20_000, "\\boxed{" * 2_800]  # fmt: skip


@pytest.mark.parametrize("board", BOARD_NAMES)
def test_no_reply_takes_long_to_read(board: str) -> None:
    """A file may hold hundreds of them; one took six seconds when spaces were searched twice."""
    env = open_env(BOARDS[board], [])
    env.reset(seed=0, options={"split": "test", "index": 0})
    for reply in _SLOW:
        begin = time.process_time()
        assert env.grammar.parse(reply[:20_000]).action is None
        assert time.process_time() - begin < 0.5, reply[:20]


# Processes.


def test_more_processes_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "_ALONE", 0.0)
    entry = entries.scripted_entry(tmp_path, "sokoban-mini")
    rows = rows_of(entry)
    alone = verify(entry)
    with Workers(2) as workers:
        assert verify(entry, workers=workers) == alone
        rows[700]["actions"][0] = "left" if rows[700]["actions"][0] != "left" else "up"
        write_rows(entry, [*rows[:300], *rows[301:800], rows[3], *rows[800:]])
        both = [verify(entry, workers=workers), verify(entry)]
    assert both[0] == both[1]
    assert both[0].problems[0].startswith("runs/0/episodes.jsonl:800: instance 3 stands here again")
    assert alone.verified is not None
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        Workers(0)


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_other_processes_find_the_same(good: dict[str, Path], hash_seed: str) -> None:
    """A fresh process with another hash seed plays everything to the same checks."""
    code = (
        "import sys; from pathlib import Path; import entries; from leaderboards.verify import *\n"
        "with entries.small_boards():\n"
        "    reports = [verify(Path(p)) for p in sys.argv[1:]]\n"
        "print([(r.problems, r.verified and r.verified.runs) for r in reports])\n"
        "assert 'torch' not in sys.modules, 'verification must not wait for torch'"
    )
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.path.dirname(__file__)}
    paths = [str(good[name]) for name in BOARD_NAMES]
    out = subprocess.run(
        [sys.executable, "-c", code, *paths], env=env, capture_output=True, text=True, check=True
    )
    here: list[Report] = [verify(Path(p)) for p in paths]
    assert out.stdout.strip() == repr([(r.problems, r.verified and r.verified.runs) for r in here])


def test_memory_stays_flat(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rows are read a chunk ahead for each process, however many there are."""
    monkeypatch.setitem(
        BOARDS, "long", Board("long", "", "ftw/SigmaTrap-v0", "test", 1000, {}, "bandit")
    )
    entry = entries.scripted_entry(tmp_path, "long")
    alive: list[int] = []
    read = replays.lines

    def counted(*args: object) -> Iterator[tuple[int, object]]:
        for number, data in read(*args):  # type: ignore[arg-type]
            alive.append(number)
            yield number, data

    def checked(chunk: replays.Chunk) -> list[replays.Checked]:
        assert len(alive) <= chunk.rows[-1][0]  # nothing beyond this chunk has been read
        return check(chunk)

    check = replays.check
    monkeypatch.setattr(replays, "lines", counted)
    monkeypatch.setattr(replays, "check", checked)
    assert verify(entry).problems == ()
    assert len(alive) == 1000
