"""Bugs that users of public trainers have met, as properties of whole runs.

The rows are numbered as in `test_known_bugs_loop.py`, which has the whole list.

11. Resuming from a checkpoint skips or repeats.
12. The seed does not fix the run.
16, 17. A gradient that is not finite, late in a run.
"""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TRAP, imitate
from test_known_bugs_loop import llama
from test_training import assert_same_run, comparable, small, weights
from transformers import PreTrainedTokenizerFast

from ftw_agents.algorithms import KINDS
from ftw_agents.collect import Collector
from ftw_agents.config import GRPOConfig
from ftw_agents.lm.learner import Learner
from ftw_agents.lm.model import LanguageModel
from ftw_agents.scripted.random import RandomAgent
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import training_starts
from ftw_agents.train import Trainer
from ftw_envs.episode import write_episodes


@pytest.fixture(scope="module")
def gambler(tokenizer: PreTrainedTokenizerFast) -> LanguageModel:
    """One that has learned to name a machine, any, and mostly one that is there."""
    lm = llama(tokenizer, 2, 32)
    collector = Collector(TRAP, {})
    starts = training_starts(collector.env, 9, 0, 2400)
    imitate(lm, collector.play(RandomAgent(), starts), size=16, lr=1e-2)
    return lm


# Rows 11 and 12: runs that are killed, and runs under another hash seed.

SETTINGS = [
    "--env", TRAP, "--env-args", "sigma=2", "--iterations", "4", "--episodes", "12",
    "--eval-every", "2", "--eval-episodes", "7", "--checkpoint-every", "2", "--minibatch", "6",
    "--max-reply-tokens", "3", "--ftw.batch-episodes", "12", "--ftw.versions", "2",
    "--ftw.kl", "0.05", "--clip.kl", "0.05", "--clip.epochs", "2", "--grpo.group", "4",
    "--lr", "5e-3",
]  # fmt: skip
ONCE = ("ftw-expected", "ftw-exp", "bc")
"""Killed once only; they differ from others in little."""
TWICE = ("ftw", "ppo")
"""Done a second time as a whole."""


def carry_out(folder: Path, jobs: list[dict[str, Any]], hash_seed: str) -> list[dict[str, Any]]:
    """What `killed_runs.py` tells of these jobs."""
    folder.mkdir()
    (folder / "jobs.json").write_text(json.dumps(jobs))
    script = Path(__file__).with_name("killed_runs.py")
    files = folder / "jobs.json", folder / "results.json", folder.parent / "model"
    subprocess.run(
        [sys.executable, str(script), *map(str, files)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
    )
    results: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())
    return results


@pytest.fixture(scope="module")
def runs(gambler: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each algorithm's run, whole and in parts: killed at one or two points drawn by lot.

    The parts, and a few whole runs once more, have another hash seed, and in the parts the global
    generators of Python, NumPy and torch are set anew with every tick.
    """
    folder = tmp_path_factory.mktemp("runs")
    gambler.save(folder / "model")
    collector = Collector(TRAP, {"sigma": 2})
    starts = training_starts(collector.env, 5, 0, 20)
    write_episodes(folder / "given.jsonl", collector.play(SolverAgent(), starts))

    def job(algo: str, name: str, kill_at: int | None = None, resume: bool = False) -> dict:
        out = str(folder / name / algo)
        new = ["--base", str(folder / "model"), "--algo", algo, *SETTINGS, "--out", out]
        if algo in ("bc", "ftw"):
            new += ["--offline", str(folder / "given.jsonl"), "--ftw.offline-iterations", "2"]
        args = ["--resume", out] if resume else new
        return {"args": args, "run": out, "kill_at": kill_at, "scramble": name == "parts"}

    whole = carry_out(folder / "1", [job(a, "whole") for a in KINDS], "1")
    assert [r["code"] for r in whole] == [0] * len(KINDS), [r["log"] for r in whole]
    jobs, want = [], []
    for algo, told in zip(KINDS, whole, strict=True):
        lot = random.Random(algo)
        at = lot.randrange(told["first"], told["ticks"])
        # A resumed run has at least as many ticks left as were left.
        again = lot.randrange(1, max(2, told["ticks"] - at))
        kills = [at] if algo in ONCE else [at, again]
        jobs += [job(algo, "parts", k, i > 0) for i, k in enumerate([*kills, None])]
        want += [*[-9] * len(kills), 0]
        if algo in TWICE:
            jobs.append(job(algo, "again"))
            want.append(0)
    done = carry_out(folder / "2", jobs, "2")
    assert [r["code"] for r in done] == want, [r["log"] for r in done]
    return folder


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


@pytest.mark.parametrize("algo", list(KINDS))
def test_killed_runs_end_as_if_nothing_had_happened(runs: Path, algo: str) -> None:
    """Row 11: metrics, weights, Adam's state and buffer, bit for bit."""
    whole, parts = runs / "whole" / algo, runs / "parts" / algo
    assert_same_run(whole, parts)
    assert files(whole) == files(parts)
    assert [m["iteration"] for m in comparable(parts)] == [0, 1, 2, 3, 4]
    base = LanguageModel.load(runs / "model").model.state_dict()
    moved = [not torch.equal(v, base[k]) for k, v in weights(parts).items()]
    assert all(moved)  # or the runs would have nothing to differ in


@pytest.mark.parametrize("algo", TWICE)
def test_same_seed_same_run_in_another_process(runs: Path, algo: str) -> None:
    """Row 12: whatever order sets have there. Runs in parts show it for all algorithms."""
    assert_same_run(runs / "whole" / algo, runs / "again" / algo)


# Rows 16 and 17.


@pytest.mark.parametrize("algo", ["ftw-expected", "grpo", "ppo"])
def test_a_step_that_is_not_finite_does_not_end_the_run(
    gambler: LanguageModel, folder: Path, monkeypatch: pytest.MonkeyPatch, algo: str
) -> None:
    """Rows 16, 17: it is counted in the metrics, whose other figures are of the other steps."""
    lm = LanguageModel(copy.deepcopy(gambler.model), gambler.tokenizer)
    config = small(folder, algo=algo, env=TRAP, env_args=(), iterations=2, grpo=GRPOConfig(group=4))
    trainer = Trainer.start(config, lm)
    logits, step, steps = lm.logits, Learner.step, 0

    def spoilt(self: Learner, *args: Any) -> None:
        nonlocal steps
        steps += 1
        bad = float("nan") if steps == 1 else 1.0
        monkeypatch.setattr(lm, "logits", lambda hidden: bad * logits(hidden))
        step(self, *args)
        monkeypatch.setattr(lm, "logits", logits)

    monkeypatch.setattr(Learner, "step", spoilt)
    trainer.run()
    first, second = comparable(folder)[1:]
    assert (first["skipped_steps"], second["skipped_steps"]) == (1, 0)
    assert first["entropy"] > 0
