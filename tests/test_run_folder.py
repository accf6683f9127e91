"""What a run writes: checkpoints, the best model, samples."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from conftest import COORDS, MINI
from test_training import small

from ftw_agents.cli import view_of
from ftw_agents.collect import Collector
from ftw_agents.config import FTWConfig, TrainConfig
from ftw_agents.evaluate import evaluate, load_player
from ftw_agents.lm.model import LanguageModel
from ftw_agents.run_folder import RunFolder, best_exam, checkpoints, episode_text, newest_checkpoint
from ftw_agents.scripted.random import RandomAgent
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import evaluation_starts
from ftw_agents.train import TIMES, Trainer
from ftw_envs.files import write_bytes


def tiny(out: Path, **kw) -> TrainConfig:
    settings = {
        "iterations": 3,
        "episodes": 8,
        "minibatch": 4,
        "eval_every": 1,
        "eval_episodes": 6,
        "sample_episodes": 2,
        "checkpoint_every": 2,
        # The model solves nothing; so that it learns something all the same.
        "ftw": FTWConfig(batch_episodes=8, versions=2, skip_flat_draws=False),
    }
    return small(out, **{**settings, **kw})


def copy(lm: LanguageModel) -> LanguageModel:
    return LanguageModel(deepcopy(lm.model), lm.tokenizer)


def contents(run: Path) -> dict[str, object]:
    """All files of a run, as far as they have to be the same when it is repeated."""
    found: dict[str, object] = {}
    for path in sorted(p for p in run.rglob("*") if p.is_file()):
        name = str(path.relative_to(run))
        if path.name == "metrics.jsonl":
            lines = [json.loads(x) for x in path.read_text().splitlines()]
            found[name] = [{k: v for k, v in m.items() if k not in TIMES} for m in lines]
        elif path.suffix == ".pt":
            found[name] = repr(torch.load(path, weights_only=True))
        elif name == "config.json":
            found[name] = {**json.loads(path.read_text()), "out": ""}
        else:
            found[name] = path.read_bytes()
    return found


class Killed(BaseException):
    """Nothing in the suite catches this."""


def scores(monkeypatch: pytest.MonkeyPatch, rates: list[float]) -> None:
    """Evaluations that say what is wanted: the rate of each iteration."""
    whole = Trainer._examine

    def said(trainer: Trainer) -> dict:
        rate = rates[trainer.iteration]
        return {**whole(trainer), "valid_solve_rate": rate, "valid_low": 0.0, "valid_high": 1.0}

    monkeypatch.setattr(Trainer, "_examine", said)


# Checkpoints and the best model.


def test_a_kill_at_any_write_changes_nothing(
    lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each rename and removal of a run in turn: stop, resume, compare all files."""
    scores(monkeypatch, [0.2, 0.5, 0.4])
    draw = "ftw_agents.train.plot_run"  # a real picture takes longer than the run
    monkeypatch.setattr(draw, lambda metrics, path: write_bytes(path, str(len(metrics)).encode()))
    settings = {"iterations": 2, "eval_episodes": 3}
    whole = tmp_path / "whole"
    lm.save(tmp_path / "model")  # a tokenizer keeps a note that it was loaded from a folder
    lm = LanguageModel.load(tmp_path / "model")
    left = {"ops": 10**9}

    def counted(real):
        def call(*args, **kw):
            if "tmp" in str(args[0]) or str(tmp_path) in str(args[0]):
                left["ops"] -= 1
                if left["ops"] < 0:
                    raise Killed
            return real(*args, **kw)

        return call

    for owner, name in ((Path, "rename"), (Path, "replace"), (shutil, "rmtree")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    Trainer.start(tiny(whole, **settings), copy(lm)).run()
    count = 10**9 - left["ops"]
    want = contents(whole)
    assert count > 20
    for kill in range(count):
        run = tmp_path / f"killed-{kill}"
        left["ops"] = kill
        with pytest.raises(Killed):
            Trainer.start(tiny(run, **settings), copy(lm)).run()
        left["ops"] = 10**9
        if not checkpoints(run):  # before the first one there is nothing to go on with
            assert not (run / "best").exists()
            assert kill < 8
            continue
        Trainer.resume(run).run()
        got = contents(run)
        assert got.keys() == want.keys(), kill
        assert [n for n in want if got[n] != want[n]] == [], kill
        shutil.rmtree(run)


def test_newest_checkpoints_stay(lm: LanguageModel, folder: Path) -> None:
    config = tiny(folder, iterations=4, eval_every=9, checkpoint_every=1, keep_checkpoints=2)
    Trainer.start(config, lm).run()
    assert [p.name for p in checkpoints(folder)] == ["000003", "000004"]
    assert newest_checkpoint(folder).name == "000004"
    assert all((p / "optimizer.pt").exists() for p in checkpoints(folder))


def test_checkpoints_are_ordered_by_number(tmp_path: Path) -> None:
    for name in ("999999", "1000000", ".1000001.partial", "notes"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert newest_checkpoint(tmp_path).name == "1000000"


def test_the_same_checkpoint_again_does_not_risk_the_first(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_checkpoint(3, lambda p: (p / "a").touch())

    def fails(path: Path) -> None:
        raise Killed

    folder.write_checkpoint(3, fails)
    assert (newest_checkpoint(tmp_path) / "a").exists()
    with pytest.raises(Killed):
        folder.write_checkpoint(4, fails)
    assert newest_checkpoint(tmp_path).name == "000003"


def test_best_is_the_highest_and_of_equals_the_oldest(
    lm: LanguageModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores(monkeypatch, [0.3, 0.7, 0.7, 0.1])
    trainer = Trainer.start(tiny(folder, checkpoint_every=3), lm)
    assert json.loads((folder / "best" / "best.json").read_text())["iteration"] == 0
    trainer.run(stop_at=1)
    at_one = {k: v.clone() for k, v in lm.model.state_dict().items()}
    # A new best comes with a checkpoint of its own, so that a kill cannot part them.
    assert newest_checkpoint(folder).name == "000001"
    trainer.run()
    about = json.loads((folder / "best" / "best.json").read_text())
    assert about.keys() == {
        "iteration", "valid_solve_rate", "valid_low", "valid_high", "valid_episodes"
    }  # fmt: skip
    assert (about["iteration"], about["valid_solve_rate"]) == (1, 0.7)
    best = LanguageModel.load(folder / "best").model.state_dict()
    newest = LanguageModel.load(newest_checkpoint(folder)).model.state_dict()
    assert all(torch.equal(best[k], v) for k, v in at_one.items() if k in best)
    assert any(not torch.equal(best[k], newest[k]) for k in best)


def test_best_exam() -> None:
    exams = [{"iteration": i, "valid_solve_rate": r} for i, r in enumerate((0.1, 0.4, 0.4))]
    assert best_exam([*exams, {"iteration": 3}]) is exams[1]
    assert best_exam([{"iteration": 0}]) is None


def test_best_works_as_a_model_folder(lm: LanguageModel, tmp_path: Path) -> None:
    run = tmp_path / "run"
    Trainer.start(tiny(run, iterations=1), lm).run()
    best = str(run / "best")
    assert view_of(best, MINI, ()) == view_of(str(run), MINI, ()) == COORDS
    player = load_player(best, MINI)
    summary = evaluate(
        player, MINI, COORDS, split="valid", episodes=6, seed=0, out=tmp_path / "eval"
    )
    # The very evaluation that made it the best.
    told = json.loads((run / "best" / "best.json").read_text())
    assert summary.solve_rate == told["valid_solve_rate"]


def test_a_folder_whose_metrics_are_gone_is_not_resumed(lm: LanguageModel, folder: Path) -> None:
    Trainer.start(tiny(folder, iterations=2), lm).run()
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    for kept, why in (
        (lines[:2], "one line for each iteration from 0 to the checkpoint's, 2"),
        (["{\n", *lines[1:]], "a line before the checkpoint is not JSON"),
    ):
        (folder / "metrics.jsonl").write_text("".join(kept))
        with pytest.raises(ValueError, match=why):
            Trainer.resume(folder)


# Samples.


def test_samples_show_the_same_instances(lm: LanguageModel, folder: Path) -> None:
    Trainer.start(tiny(folder, eval_every=2), lm).run()
    paths = sorted((folder / "samples").iterdir())
    assert [p.name for p in paths] == ["000000.txt", "000002.txt", "000003.txt"]
    starts = evaluation_starts(Collector(MINI, COORDS).env, "valid", 2, seed=0)
    for path in paths:
        heads = [x for x in path.read_text().splitlines() if x.startswith(MINI)]
        assert len(heads) == 2
        for head, start in zip(heads, starts, strict=True):
            assert head.startswith(f"{MINI} valid/{start.index} seed {start.seed}: ")


def test_no_samples_where_none_are_wanted(lm: LanguageModel, folder: Path) -> None:
    Trainer.start(tiny(folder, iterations=1, sample_episodes=0), lm).run()
    assert not (folder / "samples").exists()


@pytest.mark.parametrize("agent", [SolverAgent(), RandomAgent()])
def test_an_episode_can_be_read(agent) -> None:
    collector = Collector(MINI, COORDS)
    starts = evaluation_starts(collector.env, "valid", 1, seed=0)
    episode = next(collector.play(agent, starts))
    text = episode_text(episode)
    assert f"{episode.end}, score {episode.score:g}, {len(episode.turns)} turns" in text
    places = [text.index(f"--- turn {i}\n") for i in range(1, len(episode.turns) + 1)]
    assert places == sorted(places)
    for turn in episode.turns:
        assert turn.observation in text
        assert f">>> {turn.reply}  [{turn.action}]" in text
    assert text.endswith(f"--- end\n{episode.final_observation}\n")


def test_a_sample_of_pictures_shows_their_words() -> None:
    collector = Collector(MINI, {"obs": "image"})
    episode = next(collector.play(RandomAgent(), evaluation_starts(collector.env, "valid", 1, 0)))
    assert "sha256:" in episode.turns[0].observation
    text = episode_text(episode)
    assert "sha256:" not in text
    words, picture = episode.turns[0].observation.split("\nimage sha256:")
    assert f"--- turn 1\n{words}\n>>> " in text
    assert picture not in text
