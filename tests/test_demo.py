"""The tiny base and the demonstration, for real but short. Takes about two minutes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

import ftw_envs
from ftw_agents.cli import main
from ftw_agents.lm.base import BaseConfig, base_path, load_base, pretrain
from ftw_agents.lm.model import LanguageModel
from leaderboards.verify import verify


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _use_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FTW_CACHE", str(cache))


def test_the_base_is_partly_able(capsys: pytest.CaptureFixture[str]) -> None:
    main(["pretrain"])
    assert "of 1000 valid instances" in capsys.readouterr().out
    path = base_path(BaseConfig())
    about = json.loads((path / "base.json").read_text())
    assert 0.25 <= about["valid"]["solve_rate"] <= 0.40
    lm = LanguageModel.load(path)
    assert 1e5 <= sum(p.numel() for p in lm.model.parameters()) <= 1e6
    assert not [p for p in path.parent.iterdir() if p.name.endswith(".partial")]


def test_the_base_is_cached_and_reproducible(cache: Path) -> None:
    def refuse(step: int, steps: int, loss: float) -> None:
        raise AssertionError("made again")

    load_base(BaseConfig(), refuse)
    short = BaseConfig(steps=12, games=100)
    a, b = (pretrain(short, lambda *_: None).model.state_dict() for _ in range(2))
    assert all(torch.equal(a[k], b[k]) for k in a)
    c = pretrain(BaseConfig(steps=12, games=100, seed=1), lambda *_: None).model.state_dict()
    assert any(not torch.equal(a[k], c[k]) for k in a)


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    out.mkdir()  # in the way: the demo takes the next free name and leaves it alone
    main(["demo", "--iterations", "2", "--out", str(out)])
    text = capsys.readouterr().out
    assert "1000 unseen test puzzles" in text
    assert "Re-played and verified" in text
    assert list(out.iterdir()) == []
    out = tmp_path / "demo-2"
    assert verify(out / "entries" / ftw_envs.__version__ / "demo").verified is not None
    assert json.loads((out / "run" / "config.json").read_text())["iterations"] == 2
    assert len((out / "run" / "metrics.jsonl").read_text().splitlines()) == 3
    for name, kind in (("curves.png", "PNG"), ("sigma_trap.png", "PNG"), ("solved.gif", "GIF")):
        with Image.open(out / name) as image:
            assert image.format == kind
    solver = json.loads((out / "evaluation" / "solver" / "result.json").read_text())
    assert solver["summary"]["solve_rate"] == 1.0
