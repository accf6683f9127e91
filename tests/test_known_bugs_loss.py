"""Bugs that users of public trainers have met, as properties of the loss.

The rows are numbered as in `test_known_bugs_loop.py`, which has the rest and the whole list.

2. Observation tokens in the KL term or the loss: what stands at masked places is no matter.
3. Padding told from token ids: pad and end tokens are everywhere in these episodes.
4. One loss path that forgets the mask: all paths run the same tests.
5. Masked in the numerator, counted in the denominator.
6. 0 / 0 where everything is masked.
8. Gradient accumulation that normalises each micro-batch.
15. Log-probabilities that depend on padding.
16, 17. Gradients that are not finite.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from ftw_agents.algorithms.advantages import turn_starts
from ftw_agents.algorithms.base import LearningBatch, policy_gradient
from ftw_agents.lm.learner import Critic, Learner, LossConfig, Sample, StepStats
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.words import build_tokenizer
from ftw_envs.episode import Episode, Instance, Tokens

LONGEST = 50
AGGREGATIONS = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm")


@dataclass(frozen=True)
class Path:
    """One way through the loss: imitation, or the clipped ratio averaged in one of three ways."""

    aggregation: str = ""
    kl: float = 0.0
    critic: str = ""

    def __str__(self) -> str:
        parts = [self.aggregation or "imitation", "kl" if self.kl else "", self.critic]
        return "+".join(p for p in parts if p)


PATHS = [Path(), Path(kl=0.3)] + [
    Path(a, kl, critic)
    for a, kl, critic in product(AGGREGATIONS, (0.0, 0.3), ("", "token", "turn"))
]
paths = pytest.mark.parametrize("path", PATHS, ids=str)


def tiny(kind: str, seed: int) -> LanguageModel:
    """A model of a few thousand numbers; GPT-2 in float64, with pad == eos."""
    words = build_tokenizer(["a b c d e f g h i j k l m n o p"])
    torch.manual_seed(seed)
    common: dict[str, Any] = {"vocab_size": len(words), "initializer_range": 0.3,
                              "eos_token_id": words.eos_token_id, "bos_token_id": None}  # fmt: skip
    if kind == "gpt2":
        config = GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=256,
                            pad_token_id=words.eos_token_id, **common)  # fmt: skip
        return LanguageModel(GPT2LMHeadModel(config).eval().double(), words)
    llama = LlamaConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                        num_attention_heads=2, pad_token_id=0, **common)  # fmt: skip
    return LanguageModel(LlamaForCausalLM(llama).eval(), words)


POLICY, REFERENCE = tiny("gpt2", 0), tiny("gpt2", 1)


def games(n: int = 6, seed: int = 0) -> list[Tokens]:
    """Episodes of two to five turns; the policy has moved on since, so that clips bind."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        ids: list[int] = []
        action: list[int] = []
        for _ in range(rng.integers(2, 6)):
            for value, length in ((0, rng.integers(1, 9)), (1, rng.integers(1, 4))):
                ids += rng.integers(0, len(POLICY.tokenizer), length).tolist()
                action += [value] * int(length)
        # Pad and end tokens stand amid an observation as in any text.
        ids = [POLICY.tokenizer.pad_token_id, POLICY.eos, *ids]
        tokens = Tokens(tuple(ids), (0, 0, *action), ())
        (now,) = Learner(POLICY, lr=1.0).logprobs([tokens])
        then = np.array(now) - rng.normal(0, 0.4, len(now))
        out.append(replace(tokens, logprobs=tuple(then.tolist())))
    return out


GAMES = games()


def silent(tokens: Tokens) -> Tokens:
    """The same text, none of it sampled."""
    return replace(tokens, action=(0,) * len(tokens.ids), logprobs=())


def episode(tokens: Tokens, score: float = 0.0) -> Episode:
    instance = Instance("train", 0, "00")
    return Episode("ftw/X-v0", "x", {}, instance, 0, (), "", score, False, "failed", tokens=tokens)


def batch_of(path: Path, tokens: list[Tokens]) -> LearningBatch:
    """A batch for this path; each episode's numbers depend on its place in it only."""
    rngs = [np.random.default_rng(i) for i in range(len(tokens))]
    if not path.aggregation:
        samples = [Sample(t, 1.0 + i % 3) for i, t in enumerate(tokens)]
        return LearningBatch(samples, sum(s.weight * sum(s.tokens.action) for s in samples))
    advantages = [r.normal(size=len(t.logprobs)) for r, t in zip(rngs, tokens, strict=True)]
    critics = None
    if path.critic:
        starts = [np.arange(len(t.logprobs)) if path.critic == "token" else turn_starts(t)
                  for t in tokens]  # fmt: skip
        critics = [Critic(s, r.normal(size=len(s)), r.normal(size=len(s)))
                   for r, s in zip(rngs, starts, strict=True)]  # fmt: skip
    return policy_gradient(
        [episode(t) for t in tokens], advantages, path.aggregation, LONGEST, critics
    )


def learner_of(path: Path, lm: LanguageModel = POLICY, lr: float = 1e-30, **kw: int) -> Learner:
    """By default its steps move nothing, and gradients are not clipped."""
    loss = LossConfig(path.kl, 0.2, 0.3, value_coef=0.7 if path.critic else 0.0, value_clip=0.5)
    learner = Learner(lm, lr=lr, loss=loss, max_grad_norm=1e9, **kw)
    if learner.value_head is not None:
        weights = np.random.default_rng(5).normal(size=learner.value_head.weight.shape)
        learner.value_head.double().weight.data.copy_(torch.from_numpy(weights))
    learner.anchor(REFERENCE)
    return learner


def gradient(learner: Learner) -> torch.Tensor:
    parameters = [*learner.lm.model.parameters()]
    if learner.value_head is not None:
        parameters += learner.value_head.parameters()
    return torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten().clone()
                      for p in parameters])  # fmt: skip


def step(
    path: Path, batch: list[Sample], norm: float, lm: LanguageModel = POLICY, **kw: int
) -> tuple[torch.Tensor, StepStats]:
    learner, stats = learner_of(path, lm, **kw), StepStats()
    learner.step(batch, norm, stats)
    return gradient(learner), stats


def token_losses(path: Path, learner: Learner, x: Sample) -> tuple[torch.Tensor, torch.Tensor]:
    """An episode's losses straight from the formulas: of each action token, and of each value."""
    ids = torch.tensor([x.tokens.ids])
    at = [t for t in range(len(x.tokens.ids) - 1) if x.tokens.action[t + 1]]
    logp = torch.log_softmax(learner.lm.model(ids).logits[0], dim=-1)[at]
    taken = torch.stack([row[i] for row, i in zip(logp, ids[0, [t + 1 for t in at]], strict=True)])
    if x.advantages is None:
        losses = -taken
    else:
        a = torch.from_numpy(x.advantages)
        rho = (taken - torch.tensor(x.tokens.logprobs, dtype=torch.float64)).exp()
        losses = -torch.minimum(rho * a, rho.clamp(0.8, 1.3) * a)
    if path.kl:
        with torch.no_grad():
            ref = torch.log_softmax(REFERENCE.model(ids).logits[0], dim=-1)[at]
        losses = losses + path.kl * (logp.exp() * (logp - ref)).sum(dim=-1)
    if x.critic is None:
        return losses, torch.zeros(1)
    assert learner.value_head is not None
    hidden = learner.lm.model.base_model(ids).last_hidden_state[0, at]
    v = learner.value_head(hidden)[:, 0][torch.from_numpy(x.critic.places)]
    old, goal = torch.from_numpy(x.critic.values), torch.from_numpy(x.critic.returns)
    near = old + (v - old).clamp(-0.5, 0.5)
    return losses, 0.7 * 0.5 * torch.maximum((v - goal) ** 2, (near - goal) ** 2)


@paths
def test_gradient_is_that_of_the_formula(path: Path) -> None:
    """Rows 2 to 5: only action tokens, in numerator and denominator, and no other term."""
    batch = batch_of(path, GAMES)
    got, stats = step(path, batch.samples, batch.norm)
    learner = learner_of(path)
    learner.optimizer.zero_grad()
    lengths = [len(t.logprobs) for t in GAMES]
    sums = [sum(part.sum() for part in token_losses(path, learner, x)) for x in batch.samples]
    if not path.aggregation:
        w = [1.0 + i % 3 for i in range(len(GAMES))]
        loss = sum(a * s for a, s in zip(w, sums, strict=True)) / np.dot(w, lengths)
    elif path.aggregation == "token-mean":
        loss = sum(sums) / sum(lengths)
    elif path.aggregation == "seq-mean-token-mean":
        loss = sum(s / n for s, n in zip(sums, lengths, strict=True)) / len(sums)
    else:
        loss = sum(sums) / (len(sums) * LONGEST)
    loss.backward()
    # Weights such as 1/7 are float32.
    assert torch.allclose(got, gradient(learner), rtol=1e-6, atol=1e-7)
    assert got.abs().max() > 1e-3
    if path.aggregation:
        assert 0.1 < stats.clipped / stats.ratios < 0.9


class Noisy(LanguageModel):
    """Says something else at every place whose next token was not sampled."""

    batch: torch.Tensor
    scale = 0.0

    def hidden(self, **inputs: Any) -> torch.Tensor:
        hidden = super().hidden(**inputs)
        noise = self.scale * torch.randn(hidden.shape, generator=torch.manual_seed(3))
        return hidden + noise * self.batch[:, :, None]


def noisy(lm: LanguageModel, tokens: list[Tokens], scale: float) -> Noisy:
    model = Noisy(lm.model, lm.tokenizer)
    ordered = sorted(tokens, key=lambda t: len(t.ids))
    width = len(ordered[-1].ids)
    rows = [[1 - a for a in t.action[1:]] + [1] * (width + 1 - len(t.ids)) for t in ordered]
    model.batch, model.scale = torch.tensor(rows, dtype=torch.float64), scale
    return model


@paths
def test_what_stands_at_masked_places_changes_nothing(path: Path) -> None:
    """Rows 2, 4: the model's output there, of the policy and of the reference."""
    batch = batch_of(path, GAMES)
    results = []
    for scale in (0.0, 10.0):
        learner, stats = learner_of(path, noisy(POLICY, GAMES, scale)), StepStats()
        learner.anchor(noisy(REFERENCE, GAMES, scale))
        learner.step(batch.samples, batch.norm, stats)
        results.append((gradient(learner), stats))
    (want, before), (got, after) = results
    assert torch.equal(want, got)
    assert before == after


@paths
def test_what_comes_after_the_last_reply_changes_nothing(path: Path) -> None:
    """Rows 2, 4: tokens that nothing sampled comes after, whatever they are."""
    want, before = step(path, *_parts(batch_of(path, GAMES)))
    longer = [replace(t, ids=(*t.ids, *range(5, 5 + i)), action=(*t.action, *[0] * i))
              for i, t in enumerate(GAMES)]  # fmt: skip
    got, after = step(path, *_parts(batch_of(path, longer)))
    assert torch.allclose(want, got, rtol=0, atol=1e-12)
    for name in ("weight", "nll", "kl", "entropy", "value_loss", "values", "clipped"):
        assert getattr(before, name) == pytest.approx(getattr(after, name), abs=1e-9)


def _parts(batch: LearningBatch) -> tuple[list[Sample], float]:
    return batch.samples, batch.norm


@paths
def test_fully_masked_episodes_count_for_nothing(path: Path) -> None:
    """Rows 5, 6: beside others, alone, and where there is nothing at all."""
    batch = batch_of(path, GAMES)
    want, before = step(path, *_parts(batch))
    none = np.zeros(0)
    mute = Sample(
        silent(GAMES[0]),
        1.0,
        none if path.aggregation else None,
        Critic(none.astype(np.int64), none, none) if path.critic else None,
    )
    got, after = step(path, [*batch.samples, mute], batch.norm)
    assert torch.allclose(want, got, rtol=0, atol=1e-12)
    assert after.weight == before.weight
    for samples in ([mute, mute], []):
        got, stats = step(path, samples, 1.0)
        assert not got.any()  # nor is it NaN
        assert (stats.weight, stats.nll, stats.kl, stats.value_loss, stats.skipped) == (0,) * 5


def test_masked_episodes_are_not_in_the_denominator() -> None:
    """Row 5: a mean over tokens is over the tokens that are trained."""
    for path in (Path(), Path("token-mean")):
        assert batch_of(path, GAMES).norm == batch_of(path, [*GAMES, silent(GAMES[0])]).norm


@paths
def test_gradient_does_not_depend_on_how_the_batch_is_cut(path: Path) -> None:
    """Row 8: one pass for each episode, for a few, for all."""
    batch = batch_of(path, GAMES)
    want, whole = step(path, *_parts(batch), micro_tokens=10**9)
    for micro in (1, 60, 100):
        got, parts = step(path, *_parts(batch), micro_tokens=micro)
        assert torch.allclose(want, got, rtol=0, atol=1e-10)
        assert parts.means() == pytest.approx(whole.means(), rel=1e-6)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_padding_changes_no_log_probability(kind: str) -> None:
    """Rows 3, 15: an episode alone, and beside longer ones that weigh next to nothing."""
    lm = tiny(kind, 0)
    for i, target in enumerate(GAMES):
        alone, beside = StepStats(), StepStats()
        Learner(lm, lr=1e-30).step([Sample(target)], 1.0, alone)
        others = [Sample(t, 1e-12) for j, t in enumerate(GAMES) if j != i]
        Learner(lm, lr=1e-30).step([Sample(target), *others], 1.0, beside)
        assert beside.nll == pytest.approx(alone.nll, abs=1e-4 if kind == "llama" else 1e-8)


@paths
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_step_that_is_not_finite_leaves_no_trace(path: Path, bad: float) -> None:
    """Rows 6, 16, 17: it is counted; weights, Adam's state and the next step are as without."""
    batch = batch_of(path, GAMES)
    spoilt = [replace(batch.samples[0], weight=bad), *batch.samples[1:]]
    ends = []
    for steps in ([batch.samples, spoilt, batch.samples], [batch.samples, batch.samples]):
        lm = LanguageModel(copy.deepcopy(POLICY.model), POLICY.tokenizer)
        learner, stats = learner_of(path, lm, lr=1e-2), StepStats()
        for samples in steps:
            learner.step(samples, batch.norm, stats)
        assert (stats.steps, stats.skipped) == (2, len(steps) - 2)
        ends.append((lm.model.state_dict(), learner.state()))
    assert same(*ends)


def same(a: Any, b: Any) -> bool:
    """Whether two nested states are equal, bit for bit."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)
