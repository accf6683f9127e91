"""Submission: what can be measured is measured, and what would not hold is refused in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import entries
import pytest
from entries import DATE, about, play, rows_of, train, typist

from ftw_agents.cli import main
from ftw_agents.evaluate import load_player
from ftw_envs.files import write_json
from leaderboards.about import EXAMPLE, About, read_about
from leaderboards.runs import Source, source_of
from leaderboards.submit import submit
from leaderboards.verify import verify

BOARD = "small-sokoban"


@pytest.fixture(scope="module", autouse=True)
def _boards() -> Iterator[None]:
    with entries.small_boards():
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs 0, 1 and 5."""
    folder = tmp_path_factory.mktemp("trained")
    for seed in (0, 1, 5):
        train(BOARD, folder / str(seed), seed)
    return folder


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> list[Path]:
    """Copies to spoil."""
    folder = Path(shutil.copytree(trained, tmp_path / "runs"))
    return [folder / "5", folder / "0", folder / "1"]


def pack(runs: list[Path], out: Path, said: About | None = None, **kwargs: Any) -> Path:
    sources = [source_of(run) for run in runs]
    return submit(sources, BOARD, said or about(), out, date=DATE, **kwargs)[0]


def read(entry: Path, name: str = "entry.json") -> dict:
    return json.loads((entry / name).read_text("utf-8"))


def test_what_can_be_measured_is_measured(runs: list[Path], tmp_path: Path) -> None:
    entry = pack(runs, tmp_path / "out")
    assert entry == tmp_path / "out" / "0.1.0" / "small-sokoban-ftw-1-4-ftw-tiny-2026-12-01"
    data = read(entry)
    assert data["runs"] == [0, 1, 5]
    assert data["view"] == ["obs=coords"]
    assert data["training"]["budget"] == {
        "episodes": 192,
        "env_steps": 6 * 80,  # 32 episodes of 2.5 turns in each of 6 iterations
        "tokens": 5405,  # the most of all runs
        "wall_seconds": 2,  # 1.5, rounded up
        "peak_memory_mb": 705,
        "device": "2 CPU cores",
    }
    assert rows_of(entry, 1, "curve")[1:3] == [
        {"episodes": 64, "env_steps": 160, "tokens": 1801, "wall_seconds": 0.5,
         "peak_memory_mb": None, "solved": 130, "n": 512},
        {"episodes": 128, "env_steps": 320, "tokens": 3601, "wall_seconds": 1.0,
         "peak_memory_mb": None, "solved": 170, "n": 512},
    ]  # fmt: skip
    for claim, run in zip(data["claims"], (0, 1, 5), strict=True):
        summary = read(runs[0].parent / str(run), "test/result.json")["summary"]
        assert claim == {"run": run, "figures": summary}
    lock = read(entry, "env.lock.json")
    assert lock["max_steps"] == 15
    assert lock["packages"].keys() >= {"numpy", "gymnasium"}
    assert lock["command"] == (
        "ftw train --env-args obs=coords --seed SEED --out RUN && ftw evaluate --agent RUN --env "
        "ftw/SokobanMini-v0 --env-args obs=coords --split test --episodes 12 --seed 0 "
        "--temperature 1 --out RUN/test"
    )
    everything = "".join(p.read_text() for p in entry.rglob("*") if p.is_file())
    assert str(tmp_path) not in everything  # where it was made is nobody's business


def test_the_same_input_gives_the_same_bytes(runs: list[Path], tmp_path: Path) -> None:
    a = pack(runs, tmp_path / "a")
    b = pack(runs[::-1], tmp_path / "b")
    files = [p.relative_to(a) for p in sorted(a.rglob("*")) if p.is_file()]
    assert len(files) == 2 + 2 * 3
    assert files == [p.relative_to(b) for p in sorted(b.rglob("*")) if p.is_file()]
    assert all((a / f).read_bytes() == (b / f).read_bytes() for f in files)
    with pytest.raises(ValueError, match="exists already; choose another --slug"):
        pack(runs, tmp_path / "a")
    other = pack(runs, tmp_path / "a", slug="another")
    assert read(other) == read(a)
    assert verify(other).problems == ()


def test_untrained_players_are_run_0(tmp_path: Path) -> None:
    source = Source(play(BOARD, tmp_path / "solver", load_player("solver", "ftw/SokobanMini-v0")))
    said = about(False, method={"name": "Solver", "family": "scripted"})
    entry, found = submit([source], BOARD, said, tmp_path / "out", date=DATE)
    assert entry.name == "small-sokoban-solver-2026-12-01"
    assert [r.figures.solve_rate for r in found.runs] == [1.0]
    assert sorted(p.name for p in entry.rglob("*") if p.is_file()) == [
        "entry.json", "env.lock.json", "episodes.jsonl",
    ]  # fmt: skip
    assert "--agent solver" in read(entry, "env.lock.json")["command"]


def test_more_instances_than_the_board_has_are_left_out(tmp_path: Path) -> None:
    folder = play(BOARD, tmp_path / "more", typist(3, parameters=5), episodes=20)
    said = about(method={"name": "Base", "family": "base"}, training=None)
    said = said.model_copy(update={"model": said.model.model_copy(update={"parameters": None})})
    entry, found = submit([Source(folder)], BOARD, said, tmp_path / "out", date=DATE)
    assert len(rows_of(entry)) == found.runs[0].figures.episodes == 12
    assert read(entry)["model"]["parameters"] == 5  # as the evaluation tells


def test_settings_that_a_command_needs_are_told_without_paths(tmp_path: Path) -> None:
    run = train(
        BOARD, tmp_path / "r", 2, offline=tmp_path / "secret place" / "solver.jsonl", lr=0.001,
        log=("tensorboard",), sample_episodes=1,
    )  # fmt: skip
    config = read(run, "config.json")
    config["ftw"] |= {"skip_flat_draws": False, "winners": 2}
    write_json(run / "config.json", config)
    command = read(pack([run], tmp_path / "out"), "env.lock.json")["command"]
    assert command.startswith(
        "ftw train --env-args obs=coords --offline solver.jsonl --lr 0.001 "
        "--ftw.winners 2 --ftw.no-skip-flat-draws --seed SEED"
    )
    taken = [a for a in command.split(" && ")[0].split()[2:] if a not in ("SEED", "RUN")]
    assert "secret" not in command
    assert "--log" not in taken


def _edit(path: str, alter: Callable[[dict], object]) -> Callable[[list[Path]], None]:
    """Alters a JSON file of the last run."""

    def spoil(runs: list[Path]) -> None:
        data = json.loads((runs[-1] / path).read_text())
        alter(data)
        write_json(runs[-1] / path, data)

    return spoil


def _temperatures(runs: list[Path]) -> None:
    for t in range(len(runs)):
        _edit("test/result.json", lambda r, t=t: r["agent"].update(temperature=t))(runs[: t + 1])


def _episode(alter: Callable[[dict], object]) -> Callable[[list[Path]], None]:
    def spoil(runs: list[Path]) -> None:
        path = runs[-1] / "test" / "episodes.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        alter(rows[4])
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_edit("config.json", lambda c: c.update(lr=0.1)), "lr is 0.1, that of 0 is 0.0005; runs"),
        (_edit("config.json", lambda c: c["ftw"].update(winners=2)), "ftw.winners is 2, that of"),
        (_edit("config.json", lambda c: c.update(seed=0)), "training seed 0 is that of"),
        (_edit("config.json", lambda c: c.update(colour=1)), "unknown setting 'colour'"),
        (_edit("test/result.json", lambda r: r.update(suite_version="0.0.1")), "suite_version is"),
        (_edit("test/result.json", lambda r: r.update(env_version="x")), "env_version is x, that"),
        (_edit("test/result.json", lambda r: r.update(seed=7)), "seed is 7, that of"),
        (_edit("test/result.json", lambda r: r.update(split="valid")), "split is valid, that of"),
        (_edit("test/result.json", lambda r: r.update(env_kwargs={})), "env_kwargs is {}, that of"),
        (_edit("test/result.json", lambda r: r["agent"].update(temperature=0.5)), "ent is 100,"),
        (_temperatures, "the runs were evaluated with other temperature_percent: [0, 100, 200]"),
        (_edit("test/result.json", lambda r: r["agent"].update(kind="scripted")), "must be null"),
        (_edit("test/result.json", lambda r: r["summary"].update(solved=11)), "claims solved 11,"),
        (_edit("test/result.json", lambda r: r.update(format=9)), "not a result of format 1"),
        (_edit("test/result.json", lambda r: r.pop("summary")), "result.json: summary: Field req"),
        (_edit("test/result.json", lambda r: r.update(env_kwargs=3)), "env_kwargs: Input should"),
        (_edit("test/result.json", lambda r: r["agent"].update(temperature="1")), "agent.temperat"),
        (_episode(lambda e: e["turns"][0].update(observation="x")), ":5: turn 1: the observation"),
        (_episode(lambda e: e["turns"][0].update(reward=3.0)), ":5: turn 1: the reward is rec"),
        (_episode(lambda e: e["instance"].update(index=3)), ":5: the instance is recorded as"),
        (_episode(lambda e: e.update(seed=3)), ":5: the seed is recorded as 3"),
        (_episode(lambda e: e.update(final_observation="x")), ":5: the last observation"),
        (_episode(lambda e: e.update(colour=1)), "unknown key 'colour'"),
        (lambda runs: (runs[-1] / "config.json").unlink(), "config.json: cannot be read"),
        (lambda runs: (runs[-1] / "metrics.jsonl").write_text("{}\n"), "not what `ftw train` wri"),
        (lambda runs: (runs[-1] / "metrics.jsonl").write_text("{"), "cut off"),
        (lambda runs: shutil.rmtree(runs[-1] / "test"), "no evaluation there; `ftw evaluate"),
        (lambda runs: runs.append(runs[0]), "training seed 5 is that of"),
    ],
)  # fmt: skip
def test_runs_that_make_no_entry_are_refused(
    runs: list[Path], tmp_path: Path, spoil: Callable[[list[Path]], object], says: str
) -> None:
    spoil(runs)
    with pytest.raises(ValueError, match=r".") as error:
        pack(runs, tmp_path / "out")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "out").rglob("*.json*"))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"episodes": 11}, "11 episodes, the board small-sokoban has 12"),
        ({"seed": 1}, "seed is 1, on the board small-sokoban it is 0"),
        ({"obs": "grid"}, "view: obs must be one of text, coords, got 'grid'"),
        ({"obs": "text", "max_steps": 30}, "view: max_steps is part of the task"),
    ],
)
def test_evaluations_of_something_else_are_refused(tmp_path: Path, how: dict, says: str) -> None:
    folder = play(BOARD, tmp_path / "e", load_player("random", "ftw/SokobanMini-v0"), **how)
    with pytest.raises(ValueError, match=r".") as error:
        submit([Source(folder)], BOARD, about(False), tmp_path / "out", date=DATE)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"training": None}, "training: the runs were trained; say how"),
        ({"model": None}, "model: the player is a language model; say which"),
        ({"model": {"name": "m", "open_weights": True}}, "model.parameters: say how many"),
        (
            {"model": {"name": "m", "open_weights": True, "parameters": 1, "max_reply_tokens": 9}},
            "model.max_reply_tokens is 9, the evaluations say 8",
        ),
    ],
)
def test_what_is_said_must_go_with_the_runs(
    runs: list[Path], tmp_path: Path, changes: dict, says: str
) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        pack(runs, tmp_path / "out", about(**changes))
    assert says in str(error.value)


def test_an_untrained_player_has_no_training(tmp_path: Path) -> None:
    source = Source(play(BOARD, tmp_path / "e", load_player("random", "ftw/SokobanMini-v0")))
    said = about(False, training=EXAMPLE["training"])
    with pytest.raises(ValueError, match="training: the runs were not trained"):
        submit([source], BOARD, said, tmp_path / "out", date=DATE)
    with pytest.raises(ValueError, match="at least one run"):
        submit([], BOARD, said, tmp_path / "out", date=DATE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "about.json: division: Field required"),
        ('{"division": "half"}', "division: Input should be 'closed' or 'open', got 'half'"),
        ("", "not valid JSON"),
        (json.dumps({**EXAMPLE, "device": "a\u200bb"}), "device: Value error, text holds U+200B"),
    ],
)
def test_about_files_that_say_too_little(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "about.json").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"about\.json") as error:
        read_about(tmp_path / "about.json")
    assert says in str(error.value)


# The commands.


def test_submit_and_verify_as_commands(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["submit", "--example"])
    said = tmp_path / "about.json"
    said.write_text(capsys.readouterr().out)
    assert read_about(said) == about()
    out, verified = str(tmp_path / "out"), str(tmp_path / "verified")
    main(["submit", *map(str, runs), "--board", BOARD, "--about", str(said), "--out", out,
          "--date", DATE, "--slug", "mine"])  # fmt: skip
    assert "VERIFIED T1 FTW-1-4 with ftw-tiny on small-sokoban: 3 runs of 12" in (
        capsys.readouterr().out
    )
    args = ["verify", out, "--jobs", "1", "--verified", verified]
    main([*args, "--write"])
    assert "VERIFIED T1" in capsys.readouterr().out
    assert len(list(Path(verified).iterdir())) == 1
    main([*args, "--format", "json"])
    [report] = json.loads(capsys.readouterr().out)
    assert report["problems"] == report["warnings"] == []
    assert [run["run"] for run in report["runs"]] == [0, 1, 5]

    entry = tmp_path / "out" / "0.1.0" / "mine"
    entries.change(entry, lambda e: e["claims"][0]["figures"].update(solved=11))
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2
    assert "warning: run 0: claims solved 11, found is" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main([*args, "--write"])
    assert stop.value.code == 1
    assert "what was verified is never changed" in capsys.readouterr().out

    entries.write_rows(entry, rows_of(entry)[1:])
    for form, start in (("rich", "FAILED"), ("github", "::error title=mine::"), ("json", "[")):
        with pytest.raises(SystemExit) as stop:
            main([*args, "--format", form])
        assert stop.value.code == 1
        told = capsys.readouterr().out
        assert start in told
        assert "runs/0/episodes.jsonl: missing: instance 0 of 12" in told


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["submit"], 2, "which runs? Give their folders"),
        (["submit", "x"], 2, "which --board? There are sokoban-mini"),
        (["submit", "x", "--board", "sokoban"], 2, "--about FILE is needed; ftw submit --example"),
        (["submit", "x", "--board", "sokoban", "--about", "y"], 2, "x: no evaluation there"),
        (["verify", "x"], 1, "x: no such folder"),
        (["verify", "."], 1, ".: no entry there; one is a folder with entry.json"),
    ],
)
def test_wrong_commands_are_told_in_one_line(
    args: list[str],
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2 of `verify` says that all is well but for warnings, so it is not used here."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == code
    error = capsys.readouterr().err
    assert error.startswith("ftw: ")
    assert says in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
