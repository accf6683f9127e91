"""The algorithms: their formulas, what they refuse, that they learn, that they resume."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import COORDS, MINI, TRAP
from hypothesis import given
from hypothesis import strategies as st
from test_training import assert_same_run, comparable, small, train_on_a_clean_bandit

from ftw_agents.algorithms import KINDS
from ftw_agents.algorithms.advantages import (
    batch_advantages,
    gae,
    group_advantages,
    turn_starts,
    whitened,
)
from ftw_agents.algorithms.base import policy_gradient, tokens_of
from ftw_agents.algorithms.imitation import imitate
from ftw_agents.collect import Collector
from ftw_agents.config import ClipConfig, FTWConfig, GRPOConfig, PPOConfig
from ftw_agents.lm.learner import Learner, LossConfig, Sample, StepStats
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import training_starts
from ftw_agents.train import Trainer, newest_checkpoint
from ftw_envs.bandit.sigma_trap import SigmaTrapEnv
from ftw_envs.episode import Episode, Tokens, write_episodes

LEARNERS = [a for a in KINDS if a != "bc"]


def played(lm: LanguageModel, n: int) -> list[Episode]:
    collector = Collector(MINI, COORDS)
    return list(collector.play(LMAgent(lm), training_starts(collector.env, 0, 1, n), version=1))


# Formulas.


def test_group_advantages() -> None:
    scores = np.array([1.0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1])
    plain = group_advantages(scores, 4, divide_by_std=False)
    assert plain[:4].tolist() == [0.75, -0.25, -0.25, -0.25]
    assert plain[8:].tolist() == [0, 0, 0, 0]
    scaled = group_advantages(scores, 4, divide_by_std=True)
    assert scaled[:4] == pytest.approx(plain[:4] / 0.5, rel=1e-5)  # Bessel-corrected
    assert scaled[8:].tolist() == [0, 0, 0, 0]
    for size in (1, 5, 0):
        with pytest.raises(ValueError, match="at least 2 episodes"):
            group_advantages(scores, size, divide_by_std=True)


def test_batch_advantages() -> None:
    a = batch_advantages(np.array([1.0, 0, 0, 1]))
    assert a == pytest.approx([1, -1, -1, 1], rel=1e-5)
    assert batch_advantages(np.ones(5)).tolist() == [0] * 5


def test_gae_steps_over_observations() -> None:
    """The example at which public trainers go wrong: [-.151, -.159, .475, .5] there."""
    rewards, values = np.array([0, 0, 0, 1.0]), np.full(4, 0.5)
    a, g = gae(rewards, values, gamma=1.0, lam=0.95)
    assert a == pytest.approx([0.4287, 0.4513, 0.475, 0.5], abs=1e-4)
    assert g == pytest.approx(a + values)
    whole, _ = gae(rewards, values, gamma=1.0, lam=1.0)
    assert whole == pytest.approx(1 - values)  # the score minus the value
    single, _ = gae(rewards, values, gamma=0.9, lam=0.0)
    assert single == pytest.approx([-0.05, -0.05, -0.05, 0.5])


def test_turns_are_found() -> None:
    action = (0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1)
    tokens = Tokens(tuple(range(11)), action, (0.0,) * 6)
    assert turn_starts(tokens).tolist() == [0, 2, 3]
    assert turn_starts(Tokens((1, 2), (1, 1), (0.0, 0.0))).tolist() == [0]


@given(st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=2, max_size=5))
def test_whitened(parts: list[list[float]]) -> None:
    arrays = [np.array(p) for p in parts]
    out = np.concatenate(whitened(arrays))
    assert out.mean() == pytest.approx(0, abs=1e-6)
    assert out.var() <= 1 + 1e-6
    assert [len(x) for x in whitened(arrays)] == [len(x) for x in arrays]


@pytest.mark.parametrize("how", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"])
def test_aggregation(lm: LanguageModel, how: str) -> None:
    """The loss of fresh samples is the mean advantage with the sign turned, as averaged."""
    episodes = played(lm, 6)
    lengths = np.array([len(e.tokens.logprobs) for e in episodes])
    each = np.arange(1.0, 7)
    batch = policy_gradient(
        episodes, [np.full(n, a) for n, a in zip(lengths, each, strict=True)], how, longest=500
    )
    loss = sum(s.weight * s.advantages.sum() for s in batch.samples) / batch.norm
    assert loss == pytest.approx(
        {
            "token-mean": (lengths * each).sum() / lengths.sum(),
            "seq-mean-token-mean": each.mean(),
            "seq-mean-token-sum-norm": (lengths * each).sum() / (6 * 500),
        }[how]
    )


# The clipped loss.


def gradient(
    lm: LanguageModel, samples: list[Sample], loss: LossConfig, **kw: int
) -> tuple[torch.Tensor, StepStats]:
    learner = Learner(lm, lr=1e-30, loss=loss, max_grad_norm=1e9, **kw)  # the step moves nothing
    stats = StepStats()
    learner.step(samples, 100.0, stats)
    return torch.cat([p.grad.flatten() for p in lm.model.parameters()]).clone(), stats


def clipped(episodes: list[Episode]) -> list[Sample]:
    rng = np.random.default_rng(0)
    return [Sample(e.tokens, 1.0, rng.normal(size=len(e.tokens.logprobs))) for e in episodes]


def test_first_step_is_plain_policy_gradient(lm: LanguageModel) -> None:
    """With the ratio at 1 the gradient is that of advantage times log-probability."""
    episodes = played(lm, 4)
    same = [np.full(len(e.tokens.logprobs), 2.0) for e in episodes]
    a, stats = gradient(
        lm, [Sample(e.tokens, 1.0, x) for e, x in zip(episodes, same, strict=True)], LossConfig()
    )
    b, _ = gradient(lm, [Sample(e.tokens, 2.0) for e in episodes], LossConfig())
    assert torch.allclose(a, b, atol=1e-4 * float(b.abs().max()))
    assert stats.clipped == 0


def test_gradient_does_not_depend_on_micro_batches(lm: LanguageModel) -> None:
    samples = clipped(played(lm, 12))
    whole, _ = gradient(lm, samples, LossConfig())
    for tokens in (1, 400, 1500):
        parts, _ = gradient(lm, samples, LossConfig(), micro_tokens=tokens)
        assert torch.allclose(whole, parts, atol=1e-5 * float(whole.abs().max()))


def test_clip_binds_on_the_side_of_the_advantage(lm: LanguageModel) -> None:
    episode = played(lm, 1)[0]
    n = len(episode.tokens.logprobs)
    shifted = [replace(episode.tokens, logprobs=tuple(x + s for x in episode.tokens.logprobs))
               for s in (-1.0, 1.0)]  # likelier now than then, and less likely  # fmt: skip
    for tokens, sign, bound in (
        (shifted[0], 1.0, True), (shifted[0], -1.0, False),
        (shifted[1], 1.0, False), (shifted[1], -1.0, True),
    ):  # fmt: skip
        g, stats = gradient(lm, [Sample(tokens, 1.0, np.full(n, sign))], LossConfig())
        assert (stats.clipped == n) == bound
        assert bool((g == 0).all()) == bound


def test_old_log_probabilities_far_off_do_not_overflow(lm: LanguageModel) -> None:
    episode = played(lm, 1)[0]
    n = len(episode.tokens.logprobs)
    far = replace(episode.tokens, logprobs=(-300.0,) * n)
    g, stats = gradient(lm, [Sample(far, 1.0, np.full(n, -1.0))], LossConfig())
    assert torch.isfinite(g).all()
    assert stats.skipped == 0


def test_critic_learns_the_score(lm: LanguageModel, tmp_path: Path) -> None:
    config = small(tmp_path / "x", algo="ppo", ppo=PPOConfig(value_coef=1.0, value_clip=10.0))
    trainer = Trainer(config, lm)
    episodes = [replace(e, score=1.0) for e in played(lm, 8)]
    learner = Learner(lm, lr=3e-3, loss=LossConfig(value_coef=1.0, value_clip=10.0))
    before = learner.values([e.tokens for e in episodes])
    assert all((v == 0).all() for v in before)  # the head starts at nothing
    for _ in range(30):
        batch = trainer.algorithm.batch(episodes, 1, learner)
        learner.step(batch.samples, batch.norm, StepStats())
    after = np.concatenate(learner.values([e.tokens for e in episodes]))
    assert after.mean() == pytest.approx(1.0, abs=0.15)


def test_values_do_not_depend_on_the_batch(lm: LanguageModel) -> None:
    learner = Learner(lm, lr=1e-3, loss=LossConfig(value_coef=1.0), micro_tokens=700)
    torch.nn.init.normal_(learner.value_head.weight)
    tokens = [e.tokens for e in played(lm, 9)]
    for alone, t in zip(learner.values(tokens), tokens, strict=True):
        assert learner.values([t])[0] == pytest.approx(alone, abs=1e-4)
        assert len(alone) == len(t.logprobs)


# Whole runs.


def test_group_attempts_start_alike_and_go_apart(lm: LanguageModel, tmp_path: Path) -> None:
    config = small(tmp_path / "x", algo="grpo", grpo=GRPOConfig(group=4))
    starts = Trainer(config, lm).algorithm.starts(3)
    assert len(starts) == 24
    for i in range(0, 24, 4):
        assert {(s.split, s.index, s.seed) for s in starts[i : i + 4]} == {
            (starts[i].split, starts[i].index, starts[i].seed)
        }
    episodes = list(Collector(MINI, COORDS).play(LMAgent(lm), starts))
    groups = [episodes[i : i + 4] for i in range(0, 24, 4)]
    assert all(len({e.turns[0].observation for e in g}) == 1 for g in groups)
    assert sum(len({tuple(t.reply for t in e.turns) for e in g}) > 1 for g in groups) >= 5


def test_grpo_refuses_what_cannot_be_repeated(
    lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SigmaTrapEnv, "repeatable", False)
    config = small(tmp_path / "x", algo="grpo", env=TRAP, env_args=())
    with pytest.raises(ValueError, match="cannot repeat a start; take ftw, ppo or reinforce"):
        Trainer.start(config, lm)


def offline_file(folder: Path, n: int = 40) -> Path:
    collector = Collector(MINI, COORDS)
    starts = training_starts(collector.env, 5, 0, n)
    path = folder / "given.jsonl"
    write_episodes(path, collector.play(SolverAgent(), starts))
    return path


@pytest.mark.parametrize("algo", list(KINDS))
def test_stop_and_resume_equals_uninterrupted(lm: LanguageModel, tmp_path: Path, algo: str) -> None:
    settings = {
        "algo": algo,
        "iterations": 3,
        "clip": ClipConfig(kl=0.05, epochs=2),
        "grpo": GRPOConfig(group=4),
        "offline": offline_file(tmp_path) if algo in ("bc", "ftw") else None,
    }
    other = LanguageModel(deepcopy(lm.model), lm.tokenizer)
    Trainer.start(small(tmp_path / "whole", **settings), lm).run()
    Trainer.start(small(tmp_path / "parts", **settings), other).run(stop_at=1)
    Trainer.resume(tmp_path / "parts").run()
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    heads = [
        torch.load(newest_checkpoint(tmp_path / r) / "optimizer.pt", weights_only=True)
        for r in ("whole", "parts")
    ]
    assert ("value_head" in heads[0]) == (algo == "ppo")
    if algo == "ppo":
        assert torch.equal(*(h["value_head"]["weight"] for h in heads))


@pytest.mark.parametrize("algo", LEARNERS)
def test_every_algorithm_learns(
    lm: LanguageModel, folder: Path, monkeypatch: pytest.MonkeyPatch, algo: str
) -> None:
    """From even odds to the good arm."""
    train_on_a_clean_bandit(
        lm,
        folder,
        monkeypatch,
        8,
        algo=algo,
        ftw=FTWConfig(candidates=4, winners=1, batch_episodes=64, temperature=0.3),
        clip=ClipConfig(epochs=2),
    )


def test_bc_imitates_what_is_given(lm: LanguageModel, tmp_path: Path) -> None:
    config = small(
        tmp_path / "run",
        algo="bc",
        offline=offline_file(tmp_path),
        episodes=64,
        iterations=12,
        eval_every=12,
        lr=5e-3,
    )
    Trainer.start(config, lm).run()
    metrics = comparable(tmp_path / "run")
    assert metrics[-1]["nll"] < 0.7 * metrics[1]["nll"]
    assert metrics[-1]["episodes"] == 0  # nothing was played


def test_equal_episodes_are_imitated_once_with_all_their_weight(lm: LanguageModel) -> None:
    first, second, third = played(lm, 3)
    learner = Learner(lm, lr=1e-3)
    batch = imitate([first, second, first, third], learner, [1.0, 2.0, 3.0, 0.5])
    assert [s.weight for s in batch.samples] == [4.0, 2.0, 0.5]
    assert [s.tokens for s in batch.samples] == [first.tokens, second.tokens, third.tokens]
    apart = sum(
        w * sum(e.tokens.action)
        for e, w in zip([first, second, first, third], [1, 2, 3, 0.5], strict=True)
    )
    assert batch.norm == apart
    assert batch.stats["batch_episodes"] == 6.5


def test_plain_gradient_descent_keeps_the_gradients_size(lm: LanguageModel) -> None:
    """A step is -lr times the gradient, shortened only beyond `max_grad_norm`."""
    samples = [Sample(tokens_of(e)) for e in played(lm, 4)]
    before = torch.nn.utils.parameters_to_vector(lm.model.parameters()).detach().clone()
    moves = []
    for longest in (1e9, 0.01):
        torch.nn.utils.vector_to_parameters(before.clone(), lm.model.parameters())
        learner = Learner(lm, lr=0.1, optimizer="sgd", max_grad_norm=longest)
        stats = StepStats()
        learner.step(samples, 10.0, stats)
        after = torch.nn.utils.parameters_to_vector(lm.model.parameters()).detach()
        moves.append(float((after - before).norm()))
    assert stats.grad_norm > 0.01
    assert moves[0] == pytest.approx(0.1 * stats.grad_norm, rel=1e-3)
    assert moves[1] == pytest.approx(0.1 * 0.01, rel=1e-3)
    with pytest.raises(ValueError, match="max_grad_norm"):
        Learner(lm, lr=0.1, max_grad_norm=0)


def test_given_episodes_stay_for_their_time(lm: LanguageModel, tmp_path: Path) -> None:
    config = small(
        tmp_path / "run",
        offline=offline_file(tmp_path),
        ftw=FTWConfig(batch_episodes=24, versions=2, offline_iterations=2),
    )
    Trainer.start(config, lm).run()
    given = [m["winners_given"] for m in comparable(tmp_path / "run")[1:]]
    assert min(given[:2]) > 0.3
    assert given[2:] == [0, 0]


def test_foreign_episodes_are_refused(lm: LanguageModel, tmp_path: Path) -> None:
    collector = Collector(TRAP, {})
    path = tmp_path / "other.jsonl"
    write_episodes(path, collector.play(SolverAgent(), training_starts(collector.env, 0, 0, 3)))
    with pytest.raises(ValueError, match=r"other\.jsonl:1: an episode of ftw/SigmaTrap-v0"):
        Trainer.start(small(tmp_path / "run", offline=path), lm)
    assert not (tmp_path / "run").exists()
