"""Settings from files and the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_run_folder import tiny

from ftw_agents.cli import main, settings_in
from ftw_agents.config import FTWConfig, TrainConfig
from ftw_agents.lm.model import LanguageModel
from ftw_agents.settings import names
from ftw_agents.train import Trainer

# Settings files.


def write(path: Path, text: str) -> list[str]:
    path.write_text(text)
    return ["train", "--config", str(path)]


def test_a_file_of_settings(tmp_path: Path) -> None:
    text = "iterations: 7\nlr: 5e-4\nenv_args: [obs=coords]\noffline: a.jsonl\nftw:\n  winners: 2\n"
    config = settings_in(write(tmp_path / "a.yaml", text))
    assert config == TrainConfig(
        iterations=7,
        lr=5e-4,
        env_args=("obs=coords",),
        offline=Path("a.jsonl"),
        ftw=FTWConfig(winners=2),
    )
    assert settings_in(write(tmp_path / "empty.yaml", "# nothing\n")) == TrainConfig()
    data = '{"clip": {"low": 0.1}, "ftw": {"strength": 1}}'
    both = settings_in(["train", f"--config={write(tmp_path / 'b.json', data)[2]}"])
    assert (both.clip.low, both.clip.high, both.ftw.strength) == (0.1, 0.2, 1.0)


def test_a_runs_config_is_such_a_file_and_flags_win(
    lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm.save(tmp_path / "model")
    config = tiny(tmp_path / "first", base=str(tmp_path / "model"), iterations=1, log=())
    Trainer.start(config, lm).run()
    again = ["train", "--config", str(tmp_path / "first" / "config.json")]
    with pytest.raises(SystemExit):  # its folder is taken
        main(again)
    main([*again, "--out", str(tmp_path / "second"), "--ftw.versions", "3", "--seed", "5"])
    first, second = (
        json.loads((tmp_path / r / "config.json").read_text()) for r in ("first", "second")
    )
    assert second == {
        **first,
        "out": str(tmp_path / "second"),
        "seed": 5,
        "ftw": {**first["ftw"], "versions": 3},
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("iteratons: 3", "unknown setting 'iteratons'; the nearest there is: iterations"),
        ("ftw: {winer: 3}", "unknown setting 'ftw.winer'; the nearest there is: ftw.winners"),
        ("candidates: 3", "'candidates'; the nearest there is: ftw.candidates"),
        ("zzz: 3", "unknown setting 'zzz'; there are env, env_args, base"),
        ("lr: fast", "lr must be a number, got text 'fast'"),
        ("iterations: 2.5", "iterations must be a whole number, got number 2.5"),
        ("iterations: true", "iterations must be a whole number, got truth value True"),
        ("ftw: {skip_flat_draws: 1}", "ftw.skip_flat_draws must be true or false, got number 1"),
        ("env_args: obs=coords", "env_args must be a list, got text"),
        ("env_args: [1]", "env_args[0] must be text, got number 1"),
        ("log: [wandb]", "log[0] must be one of tensorboard, trackio, got 'wandb'"),
        ("algo: sarsa", "algo must be one of ftw, "),
        ("ftw: 3", "ftw must hold settings by name, got number 3"),
        ("seed: null", "seed must be a whole number, got nothing"),
        ("- 1", "must hold settings by name (lr: 0.001), not a list"),
        ("a: [", "not YAML or JSON"),
        ("a: !!python/object/apply:os.getcwd []", "not YAML or JSON"),
        ("iterations: 0", "iterations must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*write(tmp_path / "a.yaml", text), "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--config", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["--resume", "x", "--config"], "--config"),
    ],
)
def test_config_needs_a_file(
    args: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", *args])
    assert stop.value.code == 2
    assert why in "".join(capsys.readouterr())


def test_resume_takes_no_settings_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*write(tmp_path / "a.yaml", "seed: 1"), "--resume", str(tmp_path)])
    assert "leave --config out" in capsys.readouterr().err


def test_runs_of_earlier_versions_are_read() -> None:
    data = TrainConfig().to_json()
    for key in ("keep_checkpoints", "sample_episodes", "log"):
        del data[key]
    assert TrainConfig.from_json(data) == TrainConfig()


def test_help_of_train_names_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    out = capsys.readouterr().out
    every = [n.replace("_", "-") for n in names(TrainConfig)]
    parts = {n.partition(".")[0] for n in every if "." in n}
    assert [n for n in every if n not in parts and f"--{n}" not in out] == []
    assert "--config" in out


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"keep_checkpoints": 0}, "keep_checkpoints must be at least 1, got 0"),
        ({"sample_episodes": -1}, "sample_episodes must be at least 0, got -1"),
        ({"ftw": FTWConfig(batch_episodes=0)}, r"ftw\.batch_episodes must be at least 1, got 0"),
        ({"ftw": FTWConfig(candidates=1)}, r"ftw\.candidates must be at least 2"),
    ],
)
def test_numbers_that_cannot_work(lm: LanguageModel, folder: Path, change: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Trainer.start(tiny(folder, **change), lm)
    assert not folder.exists()
