"""Gradient steps on episodes: imitation or clipped policy gradient, with a KL term."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ftw_agents.lm.model import LanguageModel
from ftw_envs.episode import Tokens

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Critic:
    """What a value head is to learn from an episode.

    Attributes:
        places: places among the action tokens whose value counts, int64 of shape (v,).
        values: what the head said of them when the episode was played, shape (v,).
        returns: what it should have said, shape (v,).
    """

    places: npt.NDArray[np.int64]
    values: Floats
    returns: Floats


@dataclass(frozen=True, slots=True)
class Sample:
    """An episode's tokens and what is to be learned from them.

    Attributes:
        weight: how much each of its action tokens counts.
        advantages: of each action token, shape (n,); without them the tokens are imitated.
        critic: for the value head, where there is one.
    """

    tokens: Tokens
    weight: float = 1.0
    advantages: Floats | None = None
    critic: Critic | None = None


@dataclass(slots=True)
class StepStats:
    """Sums over action tokens of one or more steps.

    Attributes:
        weight: sum of w over tokens.
        nll: sum of w * -log p, nats.
        kl: sum of w * KL(current || reference), nats.
        entropy: sum of w * entropy, nats.
        tokens: all tokens read, padding not counted.
        ratios, clipped: sum of w over tokens with a ratio, and where its clip binds.
        value_loss: sum of losses of the value head.
        values: places where the value head was asked.
        steps, skipped: steps taken, and those left out for a gradient that was not finite.
        grad_norm: sum of gradient norms before clipping.
    """

    weight: float = 0.0
    nll: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    ratios: float = 0.0
    clipped: float = 0.0
    value_loss: float = 0.0
    values: int = 0
    tokens: int = 0
    steps: int = 0
    skipped: int = 0
    grad_norm: float = 0.0

    def means(self) -> dict[str, float]:
        """Per-token and per-step means."""
        w, s = self.weight or math.nan, self.steps or math.nan
        means = {
            "nll": self.nll / w,
            "kl": self.kl / w,
            "entropy": self.entropy / w,
            "grad_norm": self.grad_norm / s,
            "skipped_steps": self.skipped,
        }
        if self.ratios:
            means["clip_share"] = self.clipped / self.ratios
        if self.values:
            means["value_loss"] = self.value_loss / self.values
        return means


def micro_batches(items: Sequence[Sample], max_tokens: int) -> Iterator[list[Sample]]:
    """Groups of similar length with at most `max_tokens` tokens each, padding included."""
    group: list[Sample] = []
    for item in sorted(items, key=lambda x: len(x.tokens.ids)):
        if group and len(item.tokens.ids) * (len(group) + 1) > max_tokens:
            yield group
            group = []
        group.append(item)
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class LossConfig:
    """What a gradient step minimises beside the samples' own part.

    Attributes:
        kl: weight of the KL divergence to the reference, 0 for none.
        clip_low, clip_high: the ratio of new to old probability counts from 1 - low to
            1 + high.
        value_coef: weight of the value head's loss; 0 means there is no value head.
        value_clip: how far a value counts as moved from what it was.
    """

    kl: float = 0.0
    clip_low: float = 0.2
    clip_high: float = 0.2
    value_coef: float = 0.0
    value_clip: float = 0.2


class Learner:
    """Gradient descent on the action tokens of episodes.

    The loss of a step is

        sum_i w_i sum_t m_it [ L_it + kl * KL(p(. | it) || ref(. | it)) ] / norm

    over episodes i and tokens t, with m the action mask: observation, template and padding
    tokens enter as context only. L is -log p(a) for samples to be imitated, and

        -min(rho A, clip(rho, 1 - low, 1 + high) A),  rho = p(a) / p_then(a),

    for samples with advantages A. It is a sum over tokens divided by one number, so it does
    not depend on how a batch is cut into micro-batches.

    Args:
        lm: the model, updated in place.
        lr: step size.
        optimizer: "adam" or "sgd".
        loss: see there.
        max_grad_norm: gradients are clipped to this norm.
        micro_tokens: tokens in one forward pass, padding included; bounds memory only.

    Raises:
        ValueError: a setting that cannot work.
    """

    def __init__(
        self,
        lm: LanguageModel,
        *,
        lr: float,
        optimizer: str = "adam",
        loss: LossConfig | None = None,
        max_grad_norm: float = 1.0,
        micro_tokens: int = 4096,
        betas: tuple[float, float] = (0.9, 0.95),
    ) -> None:
        self.loss = loss or LossConfig()
        if not lr > 0:
            raise ValueError(f"lr must be above 0, got {lr}")
        if not max_grad_norm > 0:
            raise ValueError(f"max_grad_norm must be above 0, got {max_grad_norm}")
        if self.loss.kl < 0:
            raise ValueError(f"kl must be at least 0, got {self.loss.kl}")
        if not 0 < self.loss.clip_low < 1 or not self.loss.clip_high > 0:
            raise ValueError(
                "clip.low must be between 0 and 1 and clip.high above 0, got "
                f"{self.loss.clip_low} and {self.loss.clip_high}"
            )
        self.lm = lm
        self.max_grad_norm = max_grad_norm
        self.micro_tokens = micro_tokens
        parameters = list(lm.model.parameters())
        self.value_head: torch.nn.Linear | None = None
        if self.loss.value_coef:
            width = lm.model.get_output_embeddings().weight.shape[1]
            self.value_head = torch.nn.Linear(width, 1)
            torch.nn.init.zeros_(self.value_head.weight)
            torch.nn.init.zeros_(self.value_head.bias)
            parameters += list(self.value_head.parameters())
        self._parameters = parameters
        self.optimizer: torch.optim.Optimizer = (
            torch.optim.SGD(parameters, lr=lr)
            if optimizer == "sgd"
            else torch.optim.Adam(parameters, lr=lr, betas=betas)
        )
        self._reference: LanguageModel | None = None

    def anchor(self, to: LanguageModel | None = None) -> None:
        """Makes a model, the current policy if none is given, the reference of the KL term."""
        if not self.loss.kl:
            return
        if to is not None:
            self._reference = to
        elif self._reference is None:
            self._reference = LanguageModel(copy.deepcopy(self.lm.model).eval(), self.lm.tokenizer)
        else:
            self._reference.model.load_state_dict(self.lm.model.state_dict())

    def set_lr(self, lr: float) -> None:
        """Changes the step size."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def _hidden(self, lm: LanguageModel, group: Sequence[Sample]) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden states before each action token (n, width), the tokens (n,), their rows (n,)."""
        width = max(len(x.tokens.ids) for x in group)
        ids = torch.zeros((len(group), width), dtype=torch.long)
        mask = torch.zeros((len(group), width), dtype=torch.bool)
        for i, x in enumerate(group):
            n = len(x.tokens.ids)
            ids[i, :n] = torch.tensor(x.tokens.ids)
            mask[i, :n] = torch.tensor(x.tokens.action, dtype=torch.bool)
        # Padding stands on the right, where causal attention keeps it from everything real.
        # A mask of ones says so: it lets attention take its fast causal path.
        hidden = lm.hidden(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
        row, column = mask[:, 1:].nonzero(as_tuple=True)
        return hidden[row, column], ids[row, column + 1], row

    @torch.no_grad()
    def logprobs(self, tokens: Sequence[Tokens]) -> list[tuple[float, ...]]:
        """Log-probability of every action token of each episode, nats."""
        out = []
        for t in tokens:
            hidden, chosen, _ = self._hidden(self.lm, [Sample(t)])
            logp = torch.log_softmax(self.lm.logits(hidden), dim=-1)
            out.append(tuple(logp.gather(1, chosen[:, None])[:, 0].tolist()))
        return out

    @torch.no_grad()
    def values(self, tokens: Sequence[Tokens]) -> list[Floats]:
        """What the value head says before every action token of each episode."""
        assert self.value_head is not None
        found: dict[int, Floats] = {}
        items = [Sample(t) for t in tokens]
        for group in micro_batches(items, self.micro_tokens):
            hidden, _, row = self._hidden(self.lm, group)
            values = self.value_head(hidden)[:, 0].double().numpy()
            for i, x in enumerate(group):
                found[id(x)] = values[row.numpy() == i]
        return [found[id(x)] for x in items]

    def step(self, batch: Sequence[Sample], norm: float, stats: StepStats) -> None:
        """One optimiser step on `batch`; a gradient that is not finite is skipped and counted.

        Args:
            norm: what the weighted sum over tokens is divided by.
            stats: gets this step's sums added.
        """
        self.optimizer.zero_grad(set_to_none=True)
        for group in micro_batches([x for x in batch if x.weight], self.micro_tokens):
            hidden, chosen, row = self._hidden(self.lm, group)
            weight = torch.tensor([x.weight for x in group])[row]
            logp = torch.log_softmax(self.lm.logits(hidden), dim=-1)
            taken = logp.gather(1, chosen[:, None])[:, 0]
            loss = (weight * self._policy_loss(group, taken, weight, stats)).sum()
            if self._reference is not None:
                with torch.no_grad():
                    there = self._hidden(self._reference, group)[0]
                    ref = torch.log_softmax(self._reference.logits(there), dim=-1)
                kl = (logp.exp() * (logp - ref)).sum(dim=-1)
                loss = loss + self.loss.kl * (weight * kl).sum()
                stats.kl += float((weight * kl.detach()).sum())
            if self.value_head is not None:
                loss = loss + self.loss.value_coef * self._value_loss(group, hidden, row, stats)
            (loss / norm).backward()
            with torch.no_grad():
                stats.entropy -= float((weight * (logp.exp() * logp).sum(dim=-1)).sum())
                stats.nll -= float((weight * taken).sum())
                stats.weight += float(weight.sum())
            stats.tokens += sum(len(x.tokens.ids) for x in group)
        self._apply(stats)

    def _policy_loss(
        self, group: Sequence[Sample], taken: Tensor, weight: Tensor, stats: StepStats
    ) -> Tensor:
        """The loss of each action token, shape (n,), from its log-probability now."""
        if group[0].advantages is None:
            return -taken
        old = torch.tensor([lp for x in group for lp in x.tokens.logprobs], dtype=taken.dtype)
        advantages = torch.tensor(
            np.concatenate([x.advantages for x in group if x.advantages is not None]),
            dtype=taken.dtype,
        )
        # A difference of 20 nats is beyond any clip; further ones would overflow.
        ratio = (taken - old).clamp(-20, 20).exp()
        bounded = ratio.clamp(1 - self.loss.clip_low, 1 + self.loss.clip_high)
        with torch.no_grad():
            binds = bounded * advantages < ratio * advantages
            stats.clipped += float((weight * binds).sum())
            stats.ratios += float(weight.sum())
        return -torch.minimum(ratio * advantages, bounded * advantages)

    def _value_loss(
        self, group: Sequence[Sample], hidden: Tensor, row: Tensor, stats: StepStats
    ) -> Tensor:
        """Sum over the value head's places of its clipped squared error, weighted."""
        assert self.value_head is not None
        now, then, told, weight = [], [], [], []
        values = self.value_head(hidden)[:, 0]
        for i, x in enumerate(group):
            assert x.critic is not None
            now.append(values[row == i][torch.from_numpy(x.critic.places)])
            then.append(torch.from_numpy(x.critic.values))
            told.append(torch.from_numpy(x.critic.returns))
            weight.append(torch.full((len(x.critic.places),), x.weight))
        v, old, goal = torch.cat(now), torch.cat(then).to(values), torch.cat(told).to(values)
        c = self.loss.value_clip
        moved = old + (v - old).clamp(-c, c)
        losses = 0.5 * torch.maximum((v - goal) ** 2, (moved - goal) ** 2)
        stats.value_loss += float(losses.detach().sum())
        stats.values += len(losses)
        return (torch.cat(weight) * losses).sum()

    def _apply(self, stats: StepStats) -> None:
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, self.max_grad_norm))
        if math.isfinite(norm):
            self.optimizer.step()
            stats.steps += 1
            stats.grad_norm += norm
        else:
            stats.skipped += 1

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs beside the model: optimiser, value head, reference."""
        state: dict[str, Any] = {"optimizer": self.optimizer.state_dict()}
        if self.value_head is not None:
            state["value_head"] = self.value_head.state_dict()
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores what `state` gave."""
        self.optimizer.load_state_dict(state["optimizer"])
        if self.value_head is not None:
            self.value_head.load_state_dict(state["value_head"])
