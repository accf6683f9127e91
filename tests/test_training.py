"""The buffer, the loop, resuming, evaluation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import COORDS, MINI, TRAP, imitate

from ftw_agents.agent import Reply
from ftw_agents.algorithms.ftw import choose
from ftw_agents.buffer import Buffer
from ftw_agents.collect import Collector
from ftw_agents.config import (
    ClipConfig,
    FTWConfig,
    GRPOConfig,
    PPOConfig,
    RAFTConfig,
    TrainConfig,
    parse_env_args,
)
from ftw_agents.evaluate import evaluate, load_player, read_result
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_agents.results import summarise, wilson_interval
from ftw_agents.scripted.random import RandomAgent
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import evaluation_starts, training_starts
from ftw_agents.train import TIMES, Trainer, newest_checkpoint
from ftw_envs.bandit.sigma_trap import SigmaTrapEnv
from ftw_envs.episode import Episode, read_episodes
from ftw_envs.streams import Stream


def episodes_of(version: int, n: int = 6, agent=None) -> list[Episode]:
    collector = Collector(MINI, COORDS)
    starts = training_starts(collector.env, 0, version, n)
    return list(collector.play(agent or RandomAgent(), starts, version=version))


def small(out: Path, **kw) -> TrainConfig:
    settings = {
        "env_args": ("obs=coords",),
        "iterations": 4,
        "episodes": 24,
        "eval_every": 2,
        "eval_episodes": 20,
        "checkpoint_every": 1,
        "minibatch": 8,
        "ftw": FTWConfig(batch_episodes=24, versions=2, kl=0.05),
    }
    return TrainConfig(out=out, **{**settings, **kw})


# The buffer.


def test_buffer_drops_whole_versions() -> None:
    buffer = Buffer(2)
    for version in (1, 2, 5):
        buffer.add(version, episodes_of(version, n=version + 1))
    assert buffer.versions == [2, 5]
    assert [e.policy_version for e in buffer.episodes] == [2] * 3 + [5] * 6
    assert len(buffer.scores) == 9


def test_buffer_refuses_old_and_foreign_episodes() -> None:
    buffer = Buffer(2)
    buffer.add(3, episodes_of(3))
    with pytest.raises(ValueError, match="version 3 is not newer than 3"):
        buffer.add(3, episodes_of(3))
    with pytest.raises(ValueError, match="not played by version 5"):
        buffer.add(5, episodes_of(4))
    with pytest.raises(ValueError, match="at least 1"):
        Buffer(0)


def test_buffer_round_trip(lm: LanguageModel, tmp_path: Path) -> None:
    buffer, again = Buffer(3), Buffer(3)
    for version in (1, 2):
        buffer.add(version, episodes_of(version, agent=LMAgent(lm)))
    buffer.save(tmp_path / "b.jsonl")
    again.load(tmp_path / "b.jsonl")
    assert again.episodes == buffer.episodes  # tokens and log-probabilities, bit for bit
    assert again.versions == buffer.versions


# What is chosen from it.


def mixed() -> list[Episode]:
    return [*episodes_of(1, 30), *episodes_of(2, 10, SolverAgent())]


@pytest.mark.parametrize("algo", ["ftw", "ftw-expected", "ftw-exp"])
def test_chosen_batch(algo: str) -> None:
    config = FTWConfig(batch_episodes=64, temperature=0.2)
    kept, weights, stats = choose(mixed(), 2, algo, config, Stream("choose"))
    assert sum(weights) == pytest.approx(64)
    assert stats["winners_solved"] > 2 * stats["buffer_solved"]
    w = np.array(weights)
    assert stats["effective_sample_size"] == pytest.approx(w.sum() ** 2 / (w**2).sum())
    solved = sum(w for e, w in zip(kept, weights, strict=True) if e.solved)
    assert stats["winners_solved"] == pytest.approx(solved / 64)


def test_skipping_flat_draws_leaves_only_successes() -> None:
    config = FTWConfig(candidates=4, winners=1, batch_episodes=64)
    *_, stats = choose(mixed(), 2, "ftw", config, Stream("a"))
    assert stats["winners_solved"] == 1.0
    flat = replace(config, skip_flat_draws=False)
    *_, stats = choose(mixed(), 2, "ftw", flat, Stream("a"))
    assert 0.3 < stats["winners_solved"] < 1.0


def test_nothing_to_learn_gives_an_empty_batch() -> None:
    given = episodes_of(1, 10, SolverAgent())
    kept, _, stats = choose(given, 1, "ftw", FTWConfig(batch_episodes=8), Stream("x"))
    assert kept == []
    assert stats["winners_solved"] == 0


# The loop.


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ftw": FTWConfig(candidates=4, winners=5)}, "winners K must be from 1"),
        ({"ftw": FTWConfig(winners=3), "episodes": 24}, "multiple of the winners K = 3"),
        ({"episodes": 2}, "cannot draw C = 4 candidates from 2"),
        ({"algo": "ftw-exp", "ftw": FTWConfig(temperature=0)}, "temperature must be above 0"),
        ({"algo": "grpo", "grpo": GRPOConfig(group=1)}, "grpo.group must be at least 2, got 1"),
        ({"algo": "grpo", "grpo": GRPOConfig(group=7)}, "multiple of grpo.group = 7, got 24"),
        ({"algo": "raft", "raft": RAFTConfig(keep=1)}, "raft.keep must be between 0 and 1"),
        ({"algo": "ppo", "ppo": PPOConfig(lam=2)}, "ppo.lam must be from 0 to 1, got 2"),
        ({"algo": "ppo", "clip": ClipConfig(low=0)}, "clip.low must be between 0 and 1"),
        ({"algo": "ppo", "clip": ClipConfig(epochs=0)}, "clip.epochs must be at least 1"),
        ({"algo": "bc"}, "name a file with --offline"),
        ({"algo": "ppo", "offline": Path("x.jsonl")}, "--offline goes with ftw"),
        ({"offline": Path("no-such.jsonl")}, "no-such.jsonl: cannot be read"),
        ({"ftw": FTWConfig(versions=0)}, "at least 1 policy version"),
        ({"ftw": FTWConfig(kl=-1)}, "kl must be at least 0"),
        ({"lr": 0.0}, "lr must be above 0"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"eval_episodes": 5000}, "episodes must be from 1 to 1000"),
        ({"env_args": ("obs",)}, "key=value"),
        ({"env_args": ("obs=coords", "obs=text")}, "given twice"),
        ({"env_args": ("obs=smell",)}, "obs must be one of"),
        ({"env": "ftw/Nothing-v0"}, "unknown environment"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_start(
    lm: LanguageModel, folder: Path, change: dict, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        Trainer.start(small(folder, **change), lm)
    assert not folder.exists()


def test_config_round_trip(folder: Path) -> None:
    config = small(folder)
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(ValueError, match="unknown setting 'colour'"):
        TrainConfig.from_json({**config.to_json(), "colour": 1})


def comparable(run: Path) -> list[dict]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if k not in TIMES} for x in lines]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return LanguageModel.load(newest_checkpoint(run)).model.state_dict()


def optimizer(run: Path) -> dict:
    saved = torch.load(newest_checkpoint(run) / "optimizer.pt", weights_only=True)
    return saved["optimizer"]["state"]


def assert_same_run(a: Path, b: Path) -> None:
    assert comparable(a) == comparable(b)
    for name, value in weights(a).items():
        assert torch.equal(value, weights(b)[name]), name
    for key, state in optimizer(a).items():
        for name, value in state.items():
            assert torch.equal(value, optimizer(b)[key][name])
    buffers = [newest_checkpoint(r) / "buffer.jsonl" for r in (a, b)]
    assert [b.exists() and b.read_bytes() for b in buffers[:1]] == [
        b.exists() and b.read_bytes() for b in buffers[1:]
    ]


def test_stop_and_resume_equals_uninterrupted(lm: LanguageModel, tmp_path: Path) -> None:
    other = LanguageModel(deepcopy(lm.model), lm.tokenizer)
    Trainer.start(small(tmp_path / "whole"), lm).run()
    Trainer.start(small(tmp_path / "parts"), other).run(stop_at=1)
    # As if killed after an iteration whose checkpoint was not written yet.
    with open(tmp_path / "parts" / "metrics.jsonl", "a") as f:
        f.write('{"iteration": 2, "episodes": 0, "tokens": 0}\n{"cut')
    Trainer.resume(tmp_path / "parts").run(stop_at=3)
    Trainer.resume(tmp_path / "parts").run()
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    metrics = comparable(tmp_path / "whole")
    assert [m["iteration"] for m in metrics] == [0, 1, 2, 3, 4]
    assert [m["iteration"] for m in metrics if "valid_solve_rate" in m] == [0, 2, 4]
    assert (tmp_path / "whole" / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert len(list((tmp_path / "whole" / "checkpoints").iterdir())) == 1


def test_kill_and_resume(lm: LanguageModel, tmp_path: Path) -> None:
    """SIGKILL at arbitrary moments, from outside; the run ends as if nothing had happened."""
    lm.save(tmp_path / "model")
    command = [
        sys.executable, "-m", "ftw_agents.cli", "train", "--base", str(tmp_path / "model"),
        "--env-args", "obs=coords", "--iterations", "4", "--episodes", "24", "--eval-every", "2",
        "--eval-episodes", "20", "--checkpoint-every", "1", "--minibatch", "8",
        "--ftw.batch-episodes", "24", "--ftw.versions", "2", "--ftw.kl", "0.05",
    ]  # fmt: skip
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    subprocess.run([*command, "--out", str(whole)], check=True, capture_output=True)
    first = True
    for delay in (0.05, 0.4, 0.9):
        out = ["--out", str(parts)] if first else ["--resume", str(parts)]
        process = subprocess.Popen(
            [*command, *out] if first else [*command[:4], *out],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Killed some time after its first checkpoint is there, or has changed.
        before = _checkpoints(parts)
        while process.poll() is None and _checkpoints(parts) in (before, set()):
            time.sleep(0.01)
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()
        first = False
    subprocess.run([*command[:4], "--resume", str(parts)], check=True, capture_output=True)
    assert_same_run(whole, parts)


def _checkpoints(run: Path) -> set[str]:
    return {p.name for p in (run / "checkpoints").glob("[0-9]*")}


def test_same_seed_same_run_other_seed_other_run(lm: LanguageModel, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        model = LanguageModel(deepcopy(lm.model), lm.tokenizer)
        Trainer.start(small(tmp_path / name, iterations=1, seed=seed), model).run()
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert comparable(tmp_path / "a")[1] != comparable(tmp_path / "c")[1]


def test_a_run_is_not_overwritten(lm: LanguageModel, folder: Path) -> None:
    folder.mkdir()
    with pytest.raises(ValueError, match="exists already"):
        Trainer.start(small(folder), lm)
    with pytest.raises(ValueError, match="not a run"):
        Trainer.resume(folder)


def train_on_a_clean_bandit(
    lm: LanguageModel, folder: Path, monkeypatch: pytest.MonkeyPatch, iterations: int, **kw
) -> tuple[dict, dict]:
    """The whole loop on a bandit with a clean gap; the exams before and after."""
    load = SigmaTrapEnv._load
    # One instance only, so that there is nothing to read and little to learn.
    monkeypatch.setattr(SigmaTrapEnv, "_load", lambda env, split, index: load(env, "train", 0))
    config = small(
        folder,
        env=TRAP,
        env_args=("sigma=0.1",),
        iterations=iterations,
        episodes=64,
        eval_every=iterations,
        eval_episodes=200,
        lr=2e-3,
        **kw,
    )
    collector = Collector(TRAP, {})
    starts = training_starts(collector.env, 9, 0, 320)
    imitate(lm, collector.play(RandomAgent(), starts), size=16, lr=3e-3)
    Trainer.start(config, lm).run()
    before, after = (m for m in comparable(folder) if "valid_solve_rate" in m)
    assert 0.2 < before["valid_solve_rate"] < 0.8
    assert before["valid_high"] < after["valid_low"]
    return before, after


def test_training_follows_the_winners(
    lm: LanguageModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ftw = FTWConfig(candidates=4, winners=1, batch_episodes=64)
    _, after = train_on_a_clean_bandit(lm, folder, monkeypatch, 5, ftw=ftw)
    assert after["valid_solve_rate"] > 0.9


# Evaluation.


def test_wilson_interval() -> None:
    for k, n, low, high in ((0, 50, 0, 0.071), (50, 50, 0.929, 1), (370, 1000, 0.341, 0.400)):
        assert wilson_interval(k, n) == pytest.approx((low, high), abs=6e-4)
    for k, n in ((1, 0), (3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="needs 0 <= successes"):
            wilson_interval(k, n)


def test_evaluation_writes_what_it_says(folder: Path) -> None:
    summary = evaluate(
        load_player("random", MINI), MINI, COORDS, split="test", episodes=60, seed=0, out=folder
    )
    episodes = list(read_episodes(folder / "episodes.jsonl"))
    assert [e.instance.index for e in episodes] == list(range(60))
    assert {e.instance.split for e in episodes} == {"test"}
    assert summarise(episodes) == summary
    assert read_result(folder)["summary"] == summary.to_json()
    with pytest.raises(ValueError, match="holds a result already"):
        evaluate(
            load_player("random", MINI), MINI, {}, split="test", episodes=5, seed=0, out=folder
        )


def test_evaluation_of_a_run(lm: LanguageModel, tmp_path: Path) -> None:
    Trainer.start(small(tmp_path / "run", iterations=1), lm).run()
    player = load_player(str(tmp_path / "run"), MINI, temperature=0)
    summary = evaluate(
        player, MINI, COORDS, split="test", episodes=7, seed=0, out=tmp_path / "eval"
    )
    assert summary.episodes == 7  # not a divisor of anything
    assert summary.tokens_out > 0
    assert all(e.tokens is None for e in read_episodes(tmp_path / "eval" / "episodes.jsonl"))


def test_evaluation_starts_are_of_the_split() -> None:
    env = Collector(MINI, {}).env
    with pytest.raises(ValueError, match="episodes must be from 1 to 1000"):
        evaluation_starts(env, "test", 1001, seed=0)
    assert evaluation_starts(env, "test", 5, 0) == evaluation_starts(env, "test", 9, 0)[:5]
    assert evaluation_starts(env, "test", 5, 0) != evaluation_starts(env, "test", 5, 1)


def test_results_need_a_result(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no result\.json there"):
        read_result(tmp_path)
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(ValueError, match="not valid JSON"):
        read_result(tmp_path)
    (tmp_path / "result.json").write_text("[]")
    with pytest.raises(ValueError, match="not a result of format 1"):
        read_result(tmp_path)


def test_environment_arguments() -> None:
    assert parse_env_args(("obs=coords", "sigma=2.5", "max_steps=3")) == {
        "obs": "coords",
        "sigma": 2.5,
        "max_steps": 3,
    }


def test_surrogates_in_a_reply_do_not_break_the_record() -> None:
    class Odd:
        def act(self, histories):
            return [Reply("\ud800") for _ in histories]

    collector = Collector(MINI, {})
    episode = next(collector.play(Odd(), training_starts(collector.env, 0, 0, 1)))
    assert episode.turns[0].reply == "?"
    assert episode.invalid_actions == len(episode.turns) == 15
