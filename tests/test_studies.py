"""The studies: pieces that are done once, resumed where cut off, and reported as they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ftw_agents.algorithms import KINDS
from ftw_agents.config import TrainConfig
from ftw_agents.lm.base import BASES, BaseConfig
from ftw_agents.train import Trainer, check_settings
from studies import filter as filter_study
from studies import incident, offline, report, sigma_board, sigma_trap, sokoban, tuned
from studies.pieces import Piece, run_piece, write_result

SMALL = BaseConfig(games=40, steps=3)


@pytest.fixture
def piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Piece:
    monkeypatch.setenv("FTW_CACHE", str(tmp_path / "cache"))
    config = TrainConfig(
        env_args=("obs=coords",),
        out=tmp_path / "run",
        iterations=3,
        episodes=8,
        eval_every=3,
        eval_episodes=4,
        checkpoint_every=1,
        max_reply_tokens=2,
    )
    return Piece(config, {"algo": "ftw", "seed": 0}, base=SMALL, test=6)


def told(row: dict) -> dict:
    return {k: v for k, v in row.items() if k not in ("seconds_an_iteration", "peak_memory_mb")}


def test_a_piece_that_was_cut_off_ends_as_if_it_had_not(
    piece: Piece, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_piece(piece)
    assert whole["test_episodes"] == 6
    assert whole["curve"]["iteration"] == [0, 1, 2, 3]
    monkeypatch.setattr(Trainer, "start", None)
    assert run_piece(piece) == whole  # done: nothing is started again
    monkeypatch.undo()
    monkeypatch.setenv("FTW_CACHE", str(tmp_path / "cache"))

    again = replace(piece, config=replace(piece.config, out=tmp_path / "again"))
    run = Trainer.run
    monkeypatch.setattr(Trainer, "run", lambda self: run(self, stop_at=2) or exit())
    with pytest.raises(SystemExit):
        run_piece(again)
    monkeypatch.setattr(Trainer, "run", run)
    assert not (again.config.out / "row.json").exists()
    assert told(run_piece(again)) == told(whole)


def test_a_result_says_what_made_it(tmp_path: Path) -> None:
    rows = [{"a": 1}, {"a": 2}]
    write_result(tmp_path / "r.json", "python -m x", {"lr": 0.5}, rows)
    data = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert data["command"] == "python -m x"
    assert data["settings"] == {"lr": 0.5}
    assert data["rows"] == rows
    assert data["commit"]


@pytest.mark.parametrize("study", [sokoban.STUDY, sigma_board.STUDY])
def test_every_algorithm_gets_the_same_trials_and_budget(
    study: tuned.Comparison, tmp_path: Path
) -> None:
    algorithms = study.algorithms
    trials = tuned.tuning_pieces(study, tmp_path, 8)
    final = tuned.final_pieces(study, tmp_path, 8, 5, dict.fromkeys(algorithms, 1e-3))
    for algo in algorithms:
        assert [p.config.lr for p in trials if p.about["algo"] == algo] == list(study.step_sizes)
        assert sorted(p.config.seed for p in final if p.about["algo"] == algo) == [0, 1, 2, 3, 4]
        assert algo in report.NAMES
    assert len({(p.config.episodes, p.config.iterations) for p in trials + final}) == 1
    assert {p.base for p in trials + final} == {BASES[trials[0].config.env]}
    assert not {p.config.seed for p in trials} & {p.config.seed for p in final}
    assert len({p.config.out for p in trials + final}) == len(trials + final)


def test_the_best_step_size_is_that_of_the_most_solved_at_the_end() -> None:
    rows = [
        {"algo": a, "lr": lr, "curve": {"solve_rate": [None, 0.9, *[rate] * tuned.LAST]}}
        for a, best in (("ftw", 0.5), ("grpo", 0.2))
        for lr, rate in ((1e-4, 0.3), (1e-3, best), (1e-2, 0.4))
    ]
    assert tuned.best_step_sizes(rows) == {"ftw": 1e-3, "grpo": 1e-2}


def test_all_pieces_have_settings_that_work(tmp_path: Path) -> None:
    pieces = [
        *filter_study.pieces(tmp_path, 2, 4),
        *offline.pieces(tmp_path, 2, 4),
        *incident.pieces(tmp_path / "incident", 0, 2, 4),
        *tuned.tuning_pieces(sokoban.STUDY, tmp_path / "sokoban", 4),
        *tuned.tuning_pieces(sigma_board.STUDY, tmp_path / "board", 4),
    ]
    for p in pieces:
        check_settings(p.config)
    assert len({p.config.out for p in pieces}) == len(pieces)
    for config in sigma_trap.variants(0.1).values():
        check_settings(replace(config, env_args=("instances=1", "sigma=2")))
    assert {c.algo for c in sigma_trap.variants(0.1).values()} == set(KINDS) - {"bc"}


def test_intervals_are_students() -> None:
    x = [0.1, 0.2, 0.25, 0.4, 0.3]
    mean, half = report.mean_and_half(x)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(x), scale=stats.sem(x))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    assert np.isnan(report.mean_and_half([0.5])[1])


def test_documents_show_the_results_they_name() -> None:
    """The tables in docs/studies.md are those that the results give today."""
    docs = Path(__file__).parents[1] / "docs"
    text = (docs / "studies.md").read_text("utf-8")
    for name in report.STUDIES:
        assert f"<!-- {name} -->" in text
        if (docs / "studies" / f"{name}.json").exists():
            assert report.section(name, docs)[0] in text, f"run python -m studies.report ({name})"
