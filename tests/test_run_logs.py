"""What a run tells while it goes on: logs, warnings, the progress bar."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from test_run_folder import copy, tiny

from ftw_agents import console as terminal
from ftw_agents import logs
from ftw_agents.cli import run_training
from ftw_agents.console import bar, training_note
from ftw_agents.health import COLLAPSED, FAILING, new_warnings
from ftw_agents.lm.model import LanguageModel
from ftw_agents.run_folder import newest_checkpoint
from ftw_agents.train import Trainer

# Logs.


def events(run: Path) -> dict[int, float]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(run / "tensorboard"))
    read.Reload()
    scalars = read.Scalars("episodes")
    assert len({e.step for e in scalars}) == len(scalars)
    return {e.step: e.value for e in scalars}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_has_each_iteration_once(lm: LanguageModel, folder: Path) -> None:
    pytest.importorskip("tensorboard")
    config = tiny(folder, log=("tensorboard",), iterations=4, checkpoint_every=9, eval_every=9)
    # Stopped after iteration 2, but the newest checkpoint is the start: 1 and 2 are done again.
    Trainer.start(config, lm).run(stop_at=2)
    assert newest_checkpoint(folder).name == "000000"
    assert list(events(folder)) == [0, 1, 2]
    Trainer.resume(folder).run()
    assert events(folder) == {0: 0, 1: 8, 2: 16, 3: 24, 4: 32}


class FakeTrackio:
    """The part of trackio that is used, keeping runs as (name, steps)."""

    def __init__(self) -> None:
        self.runs: list[SimpleNamespace] | None = None

    def Api(self) -> SimpleNamespace:
        def runs(project: str) -> list[SimpleNamespace]:
            if self.runs is None:
                raise ValueError("does not exist")
            return self.runs

        return SimpleNamespace(runs=runs)

    def finish(self) -> None:
        assert self.runs is not None
        self.runs[-1].open = False

    def init(self, project: str, *, name: str, config: dict, **kw) -> SimpleNamespace:
        run = SimpleNamespace(name=name, steps=[], config=config, open=True, numbers=True)
        run.delete = lambda: self.runs.remove(run)

        def log(metrics: dict, step: int) -> None:
            run.steps.append(step)
            run.numbers &= all(isinstance(v, int | float) for v in metrics.values())

        run.log = log
        self.runs = [*(self.runs or []), run]
        return run


def test_trackio_has_each_iteration_once(
    lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeTrackio()
    monkeypatch.setitem(sys.modules, "trackio", fake)
    monkeypatch.setattr("ftw_agents.config.find_spec", lambda name: object())
    settings = {"log": ("trackio",), "checkpoint_every": 9, "eval_every": 9}
    Trainer.start(tiny(tmp_path / "a" / "run", **settings), copy(lm)).run()
    Trainer.start(tiny(tmp_path / "b" / "run", **settings), copy(lm)).run(stop_at=2)
    Trainer.resume(tmp_path / "b" / "run").run()
    assert fake.runs is not None
    assert [r.steps for r in fake.runs] == [[0, 1, 2, 3]] * 2  # two runs, whole, apart
    assert len({r.name for r in fake.runs}) == 2
    assert not any(r.open for r in fake.runs)
    assert all(r.numbers for r in fake.runs)
    assert fake.runs[1].config["out"] == str(tmp_path / "b" / "run")


@pytest.mark.parametrize("name", ["tensorboard", "trackio"])
def test_a_missing_logger_is_told_at_the_start(
    lm: LanguageModel, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(
        "ftw_agents.config.find_spec", lambda n: None if n == name else find_spec(n)
    )
    with pytest.raises(ValueError, match=rf"pip install 'ftw-suite\[{name}\]'"):
        Trainer.start(tiny(folder, log=(name,)), lm)
    assert not folder.exists()


def test_logs_are_closed_after_an_error(
    lm: LanguageModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []
    log = SimpleNamespace(write=lambda metrics: None, close=lambda: closed.append(1))
    monkeypatch.setattr("ftw_agents.train.open_log", lambda *args: log)
    monkeypatch.setattr("ftw_agents.config.find_spec", lambda name: object())
    trainer = Trainer.start(tiny(folder, log=("tensorboard",)), lm)
    monkeypatch.setattr(trainer, "_iterate", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trainer.run()
    assert closed == [1]
    assert logs._numbers({"iteration": 3, "a": 1, "warnings": ["x"]}) == {"a": 1}


# Warnings.


def history(n: int, **last) -> list[dict]:
    """A healthy run of `n` iterations after the start, with the last figures changed."""
    fine = {"winners_solved": 0.9, "batch_episodes": 64, "entropy": 0.5, "solve_rate": 0.4}
    first = {"iteration": 0, "valid_solve_rate": 0.3}
    rows = [{"iteration": i, "skipped_steps": 0, **fine} for i in range(1, n + 1)]
    for name, values in last.items():
        for row, value in zip(rows[-len(values) :], values, strict=True):
            row[name] = value
    return [first, *rows]


def kinds(metrics: list[dict]) -> list[list[str]]:
    """The kinds of warnings each iteration brings."""
    told = [new_warnings(metrics[: i + 1]) for i in range(len(metrics))]
    return [[w.partition(":")[0] for w in found] for found in told]


def test_a_healthy_run_has_no_warnings() -> None:
    assert kinds(history(20)) == [[]] * 21
    assert new_warnings([]) == []


def test_warning_of_failing_winners() -> None:
    failing = ["most winners are failures"]
    told = kinds(history(8, winners_solved=[0.49] * (FAILING + 2)))
    assert told == [[]] * 6 + [failing] + [[]] * 2  # when it begins, not again
    assert kinds(history(8, winners_solved=[0.1] * (FAILING - 1))) == [[]] * 9
    assert kinds(history(9, winners_solved=[0.1, 0.1, 0.5, 0.1, 0.1, 0.1])) == [[]] * 10
    flat = history(8, winners_solved=[0.0] * 8, batch_episodes=[0] * 8)
    assert kinds(flat) == [[]] * 9  # no winners at all
    text = new_warnings(history(FAILING, winners_solved=[0.25] * FAILING))[0]
    assert "now 25%" in text
    assert "\n" not in text


def test_warning_of_collapsed_entropy() -> None:
    collapsed = ["entropy has collapsed"]
    assert kinds(history(9, entropy=[0.02] * COLLAPSED))[-1] == collapsed  # below 5 % of 0.5
    assert kinds(history(9, entropy=[0.02] * (COLLAPSED - 1))) == [[]] * 10
    assert kinds(history(9, entropy=[0.026] * 4)) == [[]] * 10
    low = history(9, entropy=[0.05, *[0.02] * 8])
    assert kinds(low) == [[]] * 10  # it began low
    assert kinds(history(9, entropy=[0.05, *[0.009] * 8]))[1 + COLLAPSED] == collapsed
    solved = history(9, entropy=[0.001] * 9, solve_rate=[0.97] * 9)
    assert kinds(solved) == [[]] * 10  # nothing is left to be tried
    given = [{k: v for k, v in m.items() if k != "solve_rate"} for m in low]
    assert kinds([*given[:1], *({**m, "entropy": 0.001} for m in given[1:])]) == [[]] * 10


def test_warning_of_skipped_steps() -> None:
    told = kinds(history(5, skipped_steps=[0, 2, 1, 0, 1]))
    skipped = ["gradient steps were skipped"]
    assert told == [[], [], skipped, [], [], skipped]
    assert "2 had a gradient" in new_warnings(history(5, skipped_steps=[2]))[0]


def test_warnings_are_recorded_and_shown_once(
    lm: LanguageModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(terminal, "console", Console(file=out, width=80))
    monkeypatch.setattr("ftw_agents.cli.console", terminal.console)
    alternate: Iterator[list[str]] = iter([[], ["a: 1 [b]"], ["a: 2"], ["c: 3"]])
    monkeypatch.setattr("ftw_agents.train.new_warnings", lambda metrics: next(alternate))
    run_training(Trainer.start(tiny(folder, eval_every=9), lm))
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [m.get("warnings") for m in lines] == [None, ["a: 1 [b]"], ["a: 2"], ["c: 3"]]
    assert [x for x in out.getvalue().splitlines() if x.startswith("iteration")] == [
        "iteration 1: a: 1 [b]",
        "iteration 3: c: 3",
    ]


# The progress bar.


def test_the_bar_fits_and_counts_this_session_only(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    clock = [0.0]
    screen = Console(file=out, width=80, get_time=lambda: clock[0], force_terminal=True)
    monkeypatch.setattr(terminal, "console", screen)
    metrics = {
        "solve_rate": 1.0,
        "winners_solved": 1.0,
        "effective_sample_size": 512.0,
        "tokens_per_second": 120_000.0,
    }
    with bar("train", 1000, 900) as tell:
        clock[0] = 60.0  # longer than any window of recent steps
        tell(901, training_note(metrics, 1.0))
        clock[0] = 110.0
    shown = [x for x in out.getvalue().splitlines() if "901/1000" in x][-1]
    assert "1h38m" in shown  # 99 more at 60 s each, 50 s of the next are over
    assert shown.endswith("ESS 512 120k t/s")
    assert "…" not in shown  # nothing is cut off
