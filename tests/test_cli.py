"""The command line, as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ftw_agents.cli import COMMANDS, in_view_of_base, main
from ftw_agents.collect import Collector
from ftw_agents.config import TrainConfig
from ftw_agents.demo import episode_frames
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import evaluation_starts
from ftw_envs.drawing import write_gif
from leaderboards.about import EXAMPLE


def run(*args: str) -> tuple[int, str, str]:
    out = subprocess.run(
        [sys.executable, "-m", "ftw_agents.cli", *args], capture_output=True, text=True, check=False
    )
    return out.returncode, out.stdout, out.stderr


def test_evaluate_submit_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A whole board, from playing to the verified file."""
    folder, out = str(tmp_path / "eval"), str(tmp_path / "entries")
    main(["evaluate", "--agent", "solver", "--out", folder])
    assert "solve rate 100.0% [99.6%, 100.0%] of 1000" in capsys.readouterr().out
    scripted = {"method": {"name": "Solver", "family": "scripted"}, "model": None, "training": None}
    (tmp_path / "about.json").write_text(json.dumps(EXAMPLE | scripted))
    main(["submit", folder, "--board", "sokoban-mini", "--about", str(tmp_path / "about.json"),
          "--out", out, "--date", "2026-12-01"])  # fmt: skip
    said = "VERIFIED T1 Solver on sokoban-mini: 1 run of 1000, solve rate 100.0%"
    assert said in capsys.readouterr().out
    main(["verify", out, "--jobs", "1", "--verified", str(tmp_path / "v"), "--write"])
    assert said in capsys.readouterr().out
    path = tmp_path / "entries" / "0.1.0" / "sokoban-mini-solver-2026-12-01" / "runs" / "0"
    rows = (path / "episodes.jsonl").read_text().splitlines()
    (path / "episodes.jsonl").write_text("\n".join(rows[1:]) + "\n")
    with pytest.raises(SystemExit) as stop:
        main(["verify", out, "--jobs", "1"])
    assert stop.value.code == 1
    told = capsys.readouterr().out
    assert "FAILED" in told
    assert "runs/0/episodes.jsonl: lines is 999, entry.json says 1000" in told


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["submit", "nowhere"], "which --board? There are sokoban-mini"),
        (["evaluate", "--agent", "nobody", "--out", "x"], "nobody: not a model"),
        (["evaluate", "--agent", "random", "--out", "x", "--env", "ftw/A-v0"], "there are ftw/"),
        (["evaluate", "--agent", "random", "--out", "x", "--episodes", "0"], "from 1 to 1000"),
        (["train", "--resume", "nowhere"], "nowhere: not a run"),
        (["train", "--out", "."], "exists already"),
    ],
)
def test_errors_are_one_line(
    args: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_names_every_command_without_torch() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert all(name in out for name in COMMANDS)
    probe = "import sys; import ftw_agents.cli; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_train_help_explains_every_field() -> None:
    code, out, _ = run("train", "--help")
    assert code == 0
    for words in (
        "--ftw.candidates",
        "optimiser's step size",
        "--resume",
        "K: the best of each draw",
    ):
        assert words in " ".join(out.replace("│", " ").split()), words


def test_the_tiny_base_plays_its_own_view_unless_told() -> None:
    assert in_view_of_base(TrainConfig()).env_args == ("obs=coords",)
    for config in (TrainConfig(env_args=("obs=text",)), TrainConfig(env="ftw/SigmaTrap-v0")):
        assert in_view_of_base(config) == config


def test_animated_episode(tmp_path: Path) -> None:
    collector = Collector("ftw/SokobanMini-v0", {"obs": "coords"})
    starts = evaluation_starts(collector.env, "test", 3, seed=0)
    episode = list(collector.play(SolverAgent(), starts))[2]
    frames = episode_frames(episode)
    assert len(frames) == len(episode.turns) + 1
    write_gif(tmp_path / "a.gif", frames)
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.n_frames == len(frames)
        first = np.asarray(gif.convert("RGB"))
        gif.seek(gif.n_frames - 1)
        last = np.asarray(gif.convert("RGB"))
        assert gif.info["duration"] == 1800
    assert first.shape == frames[0].shape
    assert (first != last).any()
    with pytest.raises(ValueError, match="at least one frame"):
        write_gif(tmp_path / "b.gif", [])
