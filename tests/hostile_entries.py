"""A good small entry, and every way we know to spoil one: each is a function on a copy of it.

The names in brackets are those of the design's tables: "C" and a number is a complaint about
another leaderboard, "T" and some words a threat.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import ftw_envs
from ftw_agents.collect import Collector
from ftw_agents.evaluate import load_player, play_to_file
from ftw_agents.results import Tally
from ftw_agents.starts import evaluation_starts
from ftw_envs.episode import read_episodes
from leaderboards.boards import BOARDS, PUBLIC_SEED, Board, open_env
from leaderboards.identity import entry_id
from leaderboards.rows import row_of
from leaderboards.schema import Entry, Figures

N = 10
"""Instances of the small board."""

SMALL = replace(BOARDS["sokoban-mini"], episodes=N)
SLUG = "ftw-mini"
RUNS = (3, 7, 11)
Row = dict[str, Any]


class Kit:
    """An entry's folder, and what a careful cheat needs to change it.

    Attributes:
        about: what entry.json says; `save` writes it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.about: dict[str, Any] = json.loads((folder / "entry.json").read_text("utf-8"))

    def path(self, name: str = "episodes.jsonl", run: int = RUNS[0]) -> Path:
        return self.folder / "runs" / str(run) / name

    def rows(self, run: int = RUNS[0], name: str = "episodes.jsonl") -> list[Row]:
        return [json.loads(line) for line in self.path(name, run).read_bytes().splitlines()]

    def put(self, rows: list[Row], run: int = RUNS[0], name: str = "episodes.jsonl") -> None:
        """Writes rows, and puts right all that entry.json says of them."""
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
        self.raw("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"), run, name)

    def raw(self, data: bytes, run: int = RUNS[0], name: str = "episodes.jsonl") -> None:
        """Writes bytes, and puts right all that entry.json says of them."""
        self.path(name, run).write_bytes(data)
        self.save()

    def change(self, number: int, **values: Any) -> None:
        """Changes a row of the first run, by its place."""
        rows = self.rows()
        rows[number] |= values
        self.put(rows)

    def say(self, where: str, value: Any) -> None:
        """Changes what entry.json says: `where` is keys with dots."""
        *keys, last = where.split(".")
        inner = self.about
        for key in keys:
            inner = inner[key]
        inner[last] = value
        self.save()

    def save(self) -> None:
        """Writes entry.json with the files' facts, the claims and the id put right."""
        for file in self.about["files"]:
            path = self.folder / file["path"]
            if path.is_file() and ".." not in file["path"]:
                data = path.read_bytes()
                file["sha256"] = sha256(data).hexdigest()
                file["bytes"], file["lines"] = len(data), data.count(b"\n")
        for claim in self.about["claims"]:
            with suppress(ValueError, TypeError, KeyError, OSError, RecursionError):
                # what is spoilt has no figures
                found = figures(self.rows(claim["run"]))
                Figures.model_validate(found)
                claim["figures"] = found
        with suppress(ValueError):  # nor has what is no entry an id
            self.about["entry_id"] = entry_id(Entry.model_validate(self.about))
        self.write()

    def write(self) -> None:
        """Writes entry.json as `about` says, right or wrong."""
        (self.folder / "entry.json").write_text(json.dumps(self.about), "utf-8")


def figures(rows: list[Row]) -> dict[str, Any]:
    """What follows from rows, if they are believed."""
    tally = Tally()
    for row in rows:
        tally.count(
            solved=row["solved"],
            score=row["score"],
            turns=len(row["replies"]),
            invalid=row["actions"].count(None),
            tokens_in=row["tokens_in"],
            tokens_out=row["tokens_out"],
        )
    return tally.summary().to_json()


def good_entry(folder: Path, board: Board = SMALL) -> Path:
    """Makes an entry of a language model's three training runs (played by scripted players)."""
    env = open_env(board, [])
    starts = evaluation_starts(env, board.split, board.episodes, PUBLIC_SEED)
    entry = folder / "entries" / ftw_envs.__version__ / SLUG
    names = ["env.lock.json"]
    for number, (run, player) in enumerate(zip(RUNS, ("random", "greedy", "solver"), strict=True)):
        played = folder / f"{run}.jsonl"
        agent = load_player(player, board.env_id)
        collector = Collector(board.env_id, {})
        play_to_file(collector, agent, starts, 7 + number, played, lambda done, solved: None)
        rows = []
        for episode, start in zip(read_episodes(played), starts, strict=True):
            row = row_of(env, episode, start).model_dump()
            rows.append(row | {"tokens_in": 300, "tokens_out": 5 * len(row["replies"])})
        curve = [
            {
                "episodes": 100 * i,
                "env_steps": 700 * i,
                "tokens": 5_000 * i,
                "wall_seconds": 10.5 * i,
                "peak_memory_mb": 500,
                "solved": 2 * i + number,
                "n": 20,
            }
            for i in range(6)
        ]
        (entry / f"runs/{run}").mkdir(parents=True)
        for name, lines in (("episodes.jsonl", rows), ("curve.jsonl", curve)):
            text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
            (entry / f"runs/{run}/{name}").write_text(text, "utf-8")
            names.append(f"runs/{run}/{name}")
    lock = {
        "format": 2,
        "suite_version": ftw_envs.__version__,
        "commit": None,
        "command": "ftw evaluate RUN --env ftw/SokobanMini-v0 --out RUN/test",
        "python": "3.11.7",
        "packages": {"numpy": "2.4.6"},
        "device": "2 CPU cores",
        "max_steps": env.max_steps,
    }
    (entry / "env.lock.json").write_text(json.dumps(lock), "utf-8")
    about = {
        "format": 2,
        "entry_id": "0" * 64,
        "suite_version": ftw_envs.__version__,
        "board": board.name,
        "env_version": env.env_version,
        "view": [],
        "round": None,
        "division": "closed",
        "method": {
            "name": "FTW-1-4", "family": "ftw", "commit": None,
            "code_url": "https://example.org/code",
        },
        "model": {
            "name": "ftw-tiny", "revision": None, "parameters": 396_000, "open_weights": True,
            "temperature_percent": 100, "max_reply_tokens": 8,
        },
        "submitter": {
            "name": "A. Nyone", "organisation": None, "contact": None,
            "relationship": "first_party",
        },
        "submitted": "2026-12-01",
        "runs": list(RUNS),
        "training": {
            "budget": {
                "episodes": 500, "env_steps": 3_500, "tokens": 25_000, "wall_seconds": 53,
                "peak_memory_mb": 500, "device": "2 CPU cores",
            },
            "search": {"trials": 3, "tuned_on": "valid"},
            "checkpoint": "last",
        },
        "selection": {"attempts_per_instance": 1, "prior_submissions": 0},
        "contamination": {"trained_on_eval": False, "statement": "Trained on train only."},
        "notes": "",
        "files": [{"path": n, "sha256": "0" * 64, "bytes": 1, "lines": 1} for n in names],
        "claims": [{"run": run, "figures": None} for run in RUNS],
    }  # fmt: skip
    (entry / "env.lock.json").write_text(json.dumps(lock) + "\n", "utf-8")
    (entry / "entry.json").write_text(json.dumps(about), "utf-8")
    Kit(entry).save()
    return entry


@dataclass(frozen=True, slots=True)
class Case:
    """A way to spoil an entry.

    Attributes:
        row: what of the design's tables it stands for.
        said: words of the one line that refuses it, which no other case's line has.
    """

    name: str
    row: str
    said: str
    spoil: Callable[[Kit], Any]


CASES: list[Case] = []


def case(row: str, said: str) -> Callable[[Callable[[Kit], Any]], Callable[[Kit], Any]]:
    """Adds a function to the cases."""

    def add(spoil: Callable[[Kit], Any]) -> Callable[[Kit], Any]:
        CASES.append(Case(spoil.__name__, row, said, spoil))
        return spoil

    return add


JSON = "T NaN, duplicate keys, lone surrogates, BOM"
BOMBS = "T deep nesting, huge ints"
SIZES = "T compression and size bombs"
LINKS = "T symlinks, submodules, odd names; C36"
PATHS = "T path traversal; C35"
NAMES = "T homoglyph, zero-width, bidi names"
ESCAPES = "T terminal escapes in replays"
ROWS = "C3 wrong, missing or double rows"
SHAPE = "C30 an error says where, what was expected and what was got"
EXTRA = "T pickle, YAML, archives: an entry holds nothing else"


# What is not strict JSON.


def _in_entry(kit: Kit, old: str, new: str) -> None:
    path = kit.folder / "entry.json"
    text = path.read_text("utf-8")
    assert old in text
    path.write_bytes(text.replace(old, new, 1).encode("utf-8", "surrogatepass"))


def _in_row(kit: Kit, old: bytes, new: bytes, name: str = "episodes.jsonl") -> None:
    lines = kit.path(name).read_bytes().split(b"\n")
    assert old in lines[2]
    lines[2] = lines[2].replace(old, new, 1)
    kit.raw(b"\n".join(lines), name=name)


@case(JSON, "entry.json: key 'board' stands twice in one object")
def key_twice(kit: Kit) -> None:
    _in_entry(kit, '"board"', '"board": "sokoban", "board"')


@case(JSON, "episodes.jsonl:3: key 'solved' stands twice in one object")
def key_twice_in_a_row(kit: Kit) -> None:
    _in_row(kit, b'"solved":', b'"solved":true,"solved":')


@case(JSON + "; C31; C38", "episodes.jsonl:3: NaN is not a JSON number")
def score_nan(kit: Kit) -> None:
    _in_row(kit, b'"score":0.0', b'"score":NaN')


@case(JSON + "; C31", "entry.json: Infinity is not a JSON number")
def claim_infinite(kit: Kit) -> None:
    _in_entry(kit, '"mean_score": ', '"mean_score": Infinity, "x": ')


@case(JSON, "episodes.jsonl:3: 1e999 is out of range")
def score_overflows(kit: Kit) -> None:
    _in_row(kit, b'"score":0.0', b'"score":1e999')


@case(JSON, "entry.json: begins with a byte order mark")
def byte_order_mark(kit: Kit) -> None:
    path = kit.folder / "entry.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


@case(JSON, "episodes.jsonl:3: not valid JSON (a lone surrogate)")
def lone_surrogate(kit: Kit) -> None:
    _in_row(kit, b'"replies":["', b'"replies":["\\ud800')


@case(JSON, "episodes.jsonl:3: not UTF-8 at byte")
def not_utf_8(kit: Kit) -> None:
    _in_row(kit, b'"replies":["', b'"replies":["\xff')


@case("T pickle", "entry.json: not UTF-8 at byte 0")
def a_pickle(kit: Kit) -> None:
    (kit.folder / "entry.json").write_bytes(b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93.")


@case("T YAML", "entry.json: not valid JSON (Expecting value")
def yaml_for_json(kit: Kit) -> None:
    (kit.folder / "entry.json").write_text("a: &a [x, x]\nb: &b [*a, *a]\n", "utf-8")


@case(BOMBS, "entry.json: nested deeper than 8 levels")
def nested(kit: Kit) -> None:
    (kit.folder / "entry.json").write_bytes(b"[" * 60_000)


@case(BOMBS, "episodes.jsonl:3: nested deeper than 8 levels")
def nested_row(kit: Kit) -> None:
    _in_row(kit, b'"score":0.0', b'"score":' + b"[" * 1_000_000 + b"]" * 1_000_000)


@case(BOMBS, "episodes.jsonl:3: 9007199254740993 is out of range")
def beyond_2_to_53(kit: Kit) -> None:
    _in_row(kit, b'"tokens_in":300', b'"tokens_in":9007199254740993')


@case(BOMBS, "entry.json: 11111111111111111111 is out of range")
def thousands_of_digits(kit: Kit) -> None:
    _in_entry(kit, '"parameters": 396000', f'"parameters": {"1" * 4_000}')


@case(BOMBS, "a string is longer than 100000 characters")
def long_reply(kit: Kit) -> None:
    _in_row(kit, b'"replies":["', b'"replies":["' + b"x" * 100_001)


@case("T stale or partial writes", "episodes.jsonl:10: cut off: the line has no end")
def cut_off(kit: Kit) -> None:
    kit.raw(kit.path().read_bytes()[:-40])


@case("T stale or partial writes", r"episodes.jsonl:1: a line ends with \n alone")
def windows_lines(kit: Kit) -> None:
    kit.raw(kit.path().read_bytes().replace(b"\n", b"\r\n"))


@case("T stale or partial writes", "episodes.jsonl:4: an empty line")
def empty_line(kit: Kit) -> None:
    _in_row(kit, b"}", b"}\n")


# Sizes.


@case(SIZES, "entry.json: 70000 bytes, at most 65536 are allowed")
def large_entry(kit: Kit) -> None:
    (kit.folder / "entry.json").write_bytes(b" " * 70_000)


@case(SIZES + "; C32", "episodes.jsonl: 1073741824 bytes, at most")
def large_episodes(kit: Kit) -> None:
    os.truncate(kit.path(), 1 << 30)  # a hole: no bytes on the disk


@case(SIZES, "episodes.jsonl:1: longer than")
def long_line(kit: Kit) -> None:
    kit.raw(b'"' + b"x" * 9_000_000 + b'"\n')


@case(SIZES, "the entry has 1048")
def large_in_all(kit: Kit) -> None:
    for run in range(100, 112):
        kit.path(run=run).parent.mkdir()
        kit.path(run=run).touch()
        os.truncate(kit.path(run=run), (100 << 20) // 12)


@case(SIZES, "more than 202 files")
def many_files(kit: Kit) -> None:
    for number in range(300):
        kit.path(f"{number}.txt").touch()


# Files.


@case(LINKS, "'runs/3/episodes.jsonl' is a link")
def link(kit: Kit) -> None:
    kit.path().rename(kit.folder.parent / "away.jsonl")
    kit.path().symlink_to("../../../away.jsonl")


@case(LINKS, "'runs/7' is a link")
def linked_folder(kit: Kit) -> None:
    kit.path(run=7).parent.rename(kit.folder.parent.parent / "7")
    kit.path(run=7).parent.symlink_to("../../../7")


@case(LINKS, "'runs/3/curve.jsonl' is not a regular file")
def pipe(kit: Kit) -> None:
    kit.path("curve.jsonl").unlink()
    os.mkfifo(kit.path("curve.jsonl"))


@case(LINKS, r"'\x1b[2J\n::error::' is not listed")
def escape_in_a_file_name(kit: Kit) -> None:
    (kit.folder / "\x1b[2J\n::error::").touch()


@case(LINKS, "an empty folder")
def empty_folder(kit: Kit) -> None:
    (kit.folder / "runs/5").mkdir()


@case(EXTRA, "'runs/3/weights.pt' is not listed in entry.json")
def weights(kit: Kit) -> None:
    kit.path("weights.pt").write_bytes(b"\x80\x04.")


@case(ROWS + "; C16 no backing run", "runs/7/episodes.jsonl: missing, entry.json lists it")
def file_missing(kit: Kit) -> None:
    kit.path(run=7).unlink()


@case(ROWS, "entry.json: missing")
def no_entry_file(kit: Kit) -> None:
    (kit.folder / "entry.json").unlink()


@case(PATHS, "files.0.path: String should match pattern")
def path_upwards(kit: Kit) -> None:
    kit.say("files", [dict(kit.about["files"][0], path="../../../../etc/passwd")] * 2)


@case(ROWS, "files: runs/3/curve.jsonl is listed twice")
def listed_twice(kit: Kit) -> None:
    kit.say("files", [*kit.about["files"], kit.about["files"][2]])


@case(EXTRA, "runs/8/episodes.jsonl belongs to no run")
def run_that_is_not_told(kit: Kit) -> None:
    kit.path(run=8).parent.mkdir()
    kit.path(run=8).write_bytes(kit.path().read_bytes())
    facts = dict(kit.about["files"][1], path="runs/8/episodes.jsonl")
    kit.say("files", [*kit.about["files"], facts])


@case("T PR edits others' entries", "runs/3/episodes.jsonl: sha256 is")
def changed_after_the_hash(kit: Kit) -> None:
    data = kit.path().read_bytes()
    kit.path().write_bytes(data.replace(b'"tokens_in":300', b'"tokens_in":200', 1))


@case("T PR edits others' entries", "entry.json says 99")
def told_other_lines(kit: Kit) -> None:
    kit.about["files"][1]["lines"] = 99
    kit.about["entry_id"] = entry_id(Entry.model_validate(kit.about))
    kit.write()


# What an entry says of itself.


@case("T homoglyph: the ASCII slug is the identity", "the folder's name 'Ftw-Mini' must be")
def slug_with_capitals(kit: Kit) -> None:
    kit.folder = kit.folder.rename(kit.folder.with_name("Ftw-Mini"))


@case("T symlinks, odd names", "'aux.mini' is one that Windows keeps")
def slug_of_a_device(kit: Kit) -> None:
    kit.folder = kit.folder.rename(kit.folder.with_name("aux.mini"))


@case("T PR edits others' entries", "entry.json: entry_id must be")
def wrong_id(kit: Kit) -> None:
    kit.about["entry_id"] = "a" * 64
    kit.write()


@case("C29", "entry.json: format: Input should be 2, got 1")
def old_format(kit: Kit) -> None:
    kit.say("format", 1)


@case(SHAPE, "entry.json: rank: Extra inputs are not permitted")
def unknown_key(kit: Kit) -> None:
    kit.say("rank", 1)


@case(SHAPE, "entry.json: the whole: Input should be a valid dictionary")
def a_list(kit: Kit) -> None:
    (kit.folder / "entry.json").write_text("[]", "utf-8")


@case("C25; C26", "entry.json: suite_version: made with 0.0.1")
def other_suite_version(kit: Kit) -> None:
    kit.say("suite_version", "0.0.1")


@case("C25; C26", "entry.json: env_version is 'sokoban-0', must be")
def other_env_version(kit: Kit) -> None:
    kit.say("env_version", "sokoban-0")


@case("C26", "env.lock.json: suite_version is 0.0.1")
def lock_of_another_version(kit: Kit) -> None:
    _in_lock(kit, "suite_version", "0.0.1")


@case("C21", "env.lock.json: max_steps is 500, must be")
def more_steps_in_the_lock(kit: Kit) -> None:
    _in_lock(kit, "max_steps", 500)


def _in_lock(kit: Kit, key: str, value: Any) -> None:
    path = kit.folder / "env.lock.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {key: value}) + "\n", "utf-8")
    kit.save()


@case("C21 limits are part of the task", "view: max_steps is part of the task on sokoban-mini")
def more_steps_by_the_view(kit: Kit) -> None:
    kit.say("view", ["max_steps=500"])


@case("C9", "view: levels is part of the task")
def own_levels(kit: Kit) -> None:
    kit.say("view", ["levels=/etc/passwd"])


@case("C9", "view: obs must be one of text, coords, got 'solution'")
def view_that_tells_more(kit: Kit) -> None:
    kit.say("view", ["obs=solution"])


@case("C26", "entry.json: there is no board 'sokoban-easy'")
def no_such_board(kit: Kit) -> None:
    kit.say("board", "sokoban-easy")


@case("C39", "nowhere-2027")
def no_such_round(kit: Kit) -> None:
    kit.say("round", "nowhere-2027")


@case("C13", "attempts_per_instance: Input should be 1, got 8")
def best_of_eight(kit: Kit) -> None:
    kit.say("selection.attempts_per_instance", 8)


@case("C13", "entry.json: runs must be training seeds in ascending order, each once")
def seed_twice(kit: Kit) -> None:
    kit.about["claims"].insert(1, kit.about["claims"][0])
    kit.say("runs", [3, 3, 7, 11])


@case("C16", "files: runs/13/episodes.jsonl must be listed")
def run_without_files(kit: Kit) -> None:
    kit.about["claims"].append(dict(kit.about["claims"][0], run=13))
    kit.say("runs", [3, 7, 11, 13])


@case("C33", "entry.json: claims must be of the runs in order")
def claim_missing(kit: Kit) -> None:
    kit.say("claims", kit.about["claims"][1:])


@case("C4 rates above 1", "claims.0.figures.solve_rate: Input should be less than or equal to 1")
def claims_more_than_all(kit: Kit) -> None:
    kit.about["claims"][0]["figures"]["solve_rate"] = 1.2
    kit.write()


@case("C14", "a scripted player has neither training nor model")
def scripted_and_trained(kit: Kit) -> None:
    kit.say("method.family", "scripted")


@case("C14", "training: a method of the family ftw says how it was trained")
def trained_without_training(kit: Kit) -> None:
    kit.say("training", None)


@case("C13", "runs must be [0] without training, got [3, 7, 11]")
def best_of_three_prompts(kit: Kit) -> None:
    kit.about["method"]["family"] = "prompt"
    kit.say("training", None)


@case("T HTML/JS injection", "method.code_url: String should match pattern")
def url_of_a_script(kit: Kit) -> None:
    kit.say("method.code_url", "javascript:alert(document.domain)")


@case(SHAPE, "submitted: String should match pattern")
def date_in_other_digits(kit: Kit) -> None:
    kit.say("submitted", "20\u0662\u0666-12-01")


@case(SHAPE, "submitted: Value error, 2026-02-30 is no day")
def no_such_day(kit: Kit) -> None:
    kit.say("submitted", "2026-02-30")


@case(NAMES, "method.name: Value error, the word 'F\\u0422W' mixes Cyrillic and Latin letters")
def look_alike(kit: Kit) -> None:
    kit.say("method.name", "F\N{CYRILLIC CAPITAL LETTER TE}W-1-4")


@case(NAMES, "submitter.name: Value error, text holds U+200B")
def zero_width(kit: Kit) -> None:
    kit.say("submitter.name", "A. Ny\u200bone")


@case(NAMES, "submitter.name: Value error, text holds U+202E")
def turned(kit: Kit) -> None:
    kit.say("submitter.name", "\u202eenoyN .A")


@case(ESCAPES, "notes: Value error, text holds U+001B")
def escape_in_the_notes(kit: Kit) -> None:
    kit.say("notes", "fine \x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\")


@case(ESCAPES, "model.name: Value error, text holds U+009B")
def c1_escape(kit: Kit) -> None:
    kit.say("model.name", "tiny\x9b31m")


@case("T homoglyph", "submitter.name: Value error, text must not begin or end with a space")
def space_at_the_end(kit: Kit) -> None:
    kit.say("submitter.name", "A. Nyone ")


@case(SHAPE, "device: String should have at most 120 characters")
def long_name(kit: Kit) -> None:
    kit.say("training.budget.device", "x" * 121)


@case(SHAPE, "parameters: Input should be a valid integer, got True")
def truth_as_a_number(kit: Kit) -> None:
    kit.say("model.parameters", True)


@case(SHAPE, "trained_on_eval: Input should be a valid boolean, got 'no'")
def text_as_a_truth(kit: Kit) -> None:
    kit.say("contamination.trained_on_eval", "no")


# Curves.


@case("T curves", "curve.jsonl:4: episodes must be more than in the line before")
def curve_goes_back(kit: Kit) -> None:
    rows = kit.rows(name="curve.jsonl")
    rows[3]["episodes"] = 150
    kit.put(rows, name="curve.jsonl")


@case("T curves", "curve.jsonl:4: wall_seconds must not be less than in the line before")
def time_goes_back(kit: Kit) -> None:
    rows = kit.rows(name="curve.jsonl")
    rows[3]["wall_seconds"] = 1.0
    kit.put(rows, name="curve.jsonl")


@case("C4", "curve.jsonl:3: solved is 21, of only 20")
def curve_solves_more_than_all(kit: Kit) -> None:
    _in_row(kit, b'"solved":4', b'"solved":21', "curve.jsonl")


@case("C20", "curve.jsonl: ends after 500 episodes, the budget says 400")
def curve_beyond_the_budget(kit: Kit) -> None:
    kit.say("training.budget.episodes", 400)


@case("C25", "curve.jsonl:3: wall_seconds: Input should be greater than or equal to 0")
def negative_time(kit: Kit) -> None:
    _in_row(kit, b'"wall_seconds":21.0', b'"wall_seconds":-21.0', "curve.jsonl")


@case("C19", "curve.jsonl:4: tokens: Field required")
def no_tokens_in_a_line(kit: Kit) -> None:
    rows = kit.rows(name="curve.jsonl")
    del rows[3]["tokens"]
    kit.put(rows, name="curve.jsonl")


# Rows.


def _first(kit: Kit, solved: bool) -> tuple[int, Row]:
    return next((i, row) for i, row in enumerate(kit.rows()) if row["solved"] == solved)


@case("C1; C8", "the end is recorded as 'solved', played again it is 'time_limit'")
def made_a_win(kit: Kit) -> None:
    number, _ = _first(kit, solved=False)
    kit.change(number, solved=True, end="solved", score=1.0)


@case("C1; C2 one flipped episode", "solved is recorded as True, played again it is False")
def flipped(kit: Kit) -> None:
    kit.change(_first(kit, solved=False)[0], solved=True)


@case("C1", "the score is recorded as 0.9, played again it is 0.0")
def better_score(kit: Kit) -> None:
    kit.change(_first(kit, solved=False)[0], score=0.9)


@case(ROWS, "episodes.jsonl: missing: instance 4 of 10")
def row_left_out(kit: Kit) -> None:
    rows = kit.rows()
    del rows[4]
    kit.put(rows)


@case(ROWS + "; C11 many attempts", "instance 4 stands here again, it is in line 5 too")
def row_twice(kit: Kit) -> None:
    rows = kit.rows()
    kit.put([*rows, rows[4]])


@case(ROWS + "; cherry-picked instances", "instance 4321 is not one of the board's")
def other_instance(kit: Kit) -> None:
    kit.change(4, index=4321)


@case("exact set of instances: 2,236 rows for 500", "instance 10 is not one of the board's")
def more_than_the_board(kit: Kit) -> None:
    rows = kit.rows()
    kit.put([*rows, rows[-1] | {"index": N}])


@case(ROWS, "instance 2 is out of its place, it comes before 5")
def out_of_place(kit: Kit) -> None:
    rows = kit.rows()
    rows[2], rows[5] = rows[5], rows[2]
    kit.put(rows)


@case(ROWS, "at least 1 item after validation")
def no_replies(kit: Kit) -> None:
    kit.change(4, replies=[])


@case("C10; C12 seeds are fixed", "the seed is recorded as '1', played again it is")
def other_seed(kit: Kit) -> None:
    kit.change(4, seed="1")


@case("C26", "the instance's hash is recorded as 'abcdef', played again it is")
def other_content(kit: Kit) -> None:
    kit.change(4, instance="abcdef")


@case("C8", "played again it is None")
def other_reply(kit: Kit) -> None:
    kit.change(4, replies=["Trust me, I pushed it.", *kit.rows()[4]["replies"][1:]])


@case("C8", "the action is recorded as None, played again it is")
def action_denied(kit: Kit) -> None:
    row = kit.rows()[4]
    kit.change(4, actions=[None, *row["actions"][1:]])


@case("transcript check", "turn 1: what the agent saw is recorded as")
def saw_something_else(kit: Kit) -> None:
    checks = kit.rows()[4]["checks"]
    kit.change(4, checks=["0" * 8 + checks[0][8:], *checks[1:]])


@case("transcript check", "the end: the state of the world is recorded as")
def world_is_another(kit: Kit) -> None:
    checks = kit.rows()[4]["checks"]
    kit.change(4, checks=[*checks[:-1], checks[-1][:8] + "0" * 8])


@case("C21", "comes after the end (solved)")
def plays_on_after_the_end(kit: Kit) -> None:
    number, row = _first(kit, solved=True)
    kit.change(
        number,
        replies=[*row["replies"], row["replies"][0]],
        actions=[*row["actions"], row["actions"][0]],
        checks=[*row["checks"], row["checks"][0]],
    )


@case("C6 no end is a failure", "the episode goes on after its")
def stops_before_the_end(kit: Kit) -> None:
    number, row = _first(kit, solved=False)
    kit.change(
        number,
        replies=row["replies"][:-1],
        actions=row["actions"][:-1],
        checks=row["checks"][:-1],
    )


@case("transcript check", "replies go with as many actions and one check more")
def a_check_is_missing(kit: Kit) -> None:
    kit.change(4, checks=kit.rows()[4]["checks"][1:])


@case("C4", "solved: Input should be a valid boolean, got 0.5")
def half_solved(kit: Kit) -> None:
    kit.change(4, solved=0.5)


@case("C4", "solved: Input should be a valid boolean, got 1")
def solved_as_a_number(kit: Kit) -> None:
    kit.change(4, solved=1)


@case(SHAPE, "tokens_in: Input should be a valid integer, got False")
def truth_for_tokens(kit: Kit) -> None:
    kit.change(4, tokens_in=False)


@case(SHAPE, "index: Input should be a valid integer, got '4'")
def index_as_text(kit: Kit) -> None:
    kit.change(4, index="4")


@case("C6", "end: Input should be 'solved', 'failed' or 'time_limit', got 'crashed'")
def crashed(kit: Kit) -> None:
    kit.change(4, end="crashed")


@case("C20", "runs/3/episodes.jsonl: tokens_out is 0 in all; a language model tells its tokens")
def no_tokens(kit: Kit) -> None:
    kit.put([row | {"tokens_out": 0} for row in kit.rows()])


@case("T replay as an attack", "replies: List should have at most 1000 items")
def thousands_of_turns(kit: Kit) -> None:
    kit.change(4, replies=["x"] * 1_001)


@case("C26 episodes of another board", "runs/11/episodes.jsonl:10: the instance's hash is")
def of_another_board(kit: Kit) -> None:
    env = open_env(BOARDS["sokoban"], [])
    kit.about["env_version"] = env.env_version
    _in_lock(kit, "max_steps", env.max_steps)
    kit.say("board", "sokoban")
