"""Gradient steps on episodes: imitation of action tokens, weighted, with a KL term."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ftw_agents.lm.model import LanguageModel
from ftw_envs.episode import Tokens


@dataclass(frozen=True, slots=True)
class Weighted:
    """An episode's tokens and how much they count."""

    tokens: Tokens
    weight: float


@dataclass(slots=True)
class StepStats:
    """Sums over action tokens of one or more steps.

    Attributes:
        weight: sum of w over tokens.
        nll: sum of w * -log p, nats.
        kl: sum of w * KL(current || reference), nats.
        entropy: sum of w * entropy, nats.
        tokens: all tokens read, padding not counted.
        steps, skipped: steps taken, and those left out for a gradient that was not finite.
        grad_norm: sum of gradient norms before clipping.
    """

    weight: float = 0.0
    nll: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    tokens: int = 0
    steps: int = 0
    skipped: int = 0
    grad_norm: float = 0.0

    def means(self) -> dict[str, float]:
        """Per-token and per-step means."""
        w, s = self.weight or math.nan, self.steps or math.nan
        return {
            "nll": self.nll / w,
            "kl": self.kl / w,
            "entropy": self.entropy / w,
            "grad_norm": self.grad_norm / s,
            "skipped_steps": self.skipped,
        }


def micro_batches(items: Sequence[Weighted], max_tokens: int) -> Iterator[list[Weighted]]:
    """Groups of similar length with at most `max_tokens` tokens each, padding included."""
    group: list[Weighted] = []
    for item in sorted(items, key=lambda x: len(x.tokens.ids)):
        if group and len(item.tokens.ids) * (len(group) + 1) > max_tokens:
            yield group
            group = []
        group.append(item)
    if group:
        yield group


class Learner:
    """Adam on the action tokens of episodes.

    The loss of a step is

        sum_i w_i sum_t m_it [ -log p(a_it) + kl * KL(p(. | it) || ref(. | it)) ] / norm

    over episodes i and tokens t, with m the action mask: observation, template and padding
    tokens enter as context only. It is a sum over tokens divided by one number, so it
    does not depend on how a batch is cut into micro-batches.

    Args:
        lm: the model, updated in place.
        lr: step size of Adam.
        kl: weight of the KL term, 0 for none.
        max_grad_norm: gradients are clipped to this norm.
        micro_tokens: tokens in one forward pass, padding included; bounds memory only.
    """

    def __init__(
        self,
        lm: LanguageModel,
        *,
        lr: float,
        kl: float = 0.0,
        max_grad_norm: float = 1.0,
        micro_tokens: int = 8192,
        betas: tuple[float, float] = (0.9, 0.95),
    ) -> None:
        if not lr > 0:
            raise ValueError(f"lr must be above 0, got {lr}")
        if kl < 0:
            raise ValueError(f"kl must be at least 0, got {kl}")
        self.lm = lm
        self.kl = kl
        self.max_grad_norm = max_grad_norm
        self.micro_tokens = micro_tokens
        self.optimizer = torch.optim.Adam(lm.model.parameters(), lr=lr, betas=betas)
        self._reference: LanguageModel | None = None

    def anchor(self) -> None:
        """Makes the current policy the reference of the KL term."""
        if not self.kl:
            return
        if self._reference is None:
            self._reference = LanguageModel(copy.deepcopy(self.lm.model).eval(), self.lm.tokenizer)
        else:
            self._reference.model.load_state_dict(self.lm.model.state_dict())

    def set_lr(self, lr: float) -> None:
        """Changes the step size."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def _forward(
        self, lm: LanguageModel, group: Sequence[Weighted]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits before each action token (n, vocab), the tokens (n,), their weights (n,)."""
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
        weight = torch.tensor([x.weight for x in group])[row]
        return lm.logits(hidden[row, column]), ids[row, column + 1], weight

    @torch.no_grad()
    def logprobs(self, tokens: Sequence[Tokens]) -> list[tuple[float, ...]]:
        """Log-probability of every action token of each episode, nats."""
        out = []
        for t in tokens:
            logits, chosen, _ = self._forward(self.lm, [Weighted(t, 1.0)])
            logp = torch.log_softmax(logits, dim=-1)
            out.append(tuple(logp.gather(1, chosen[:, None])[:, 0].tolist()))
        return out

    def step(self, batch: Sequence[Weighted], norm: float, stats: StepStats) -> None:
        """One optimiser step on `batch`; a gradient that is not finite is skipped and counted.

        Args:
            norm: what the weighted sum over tokens is divided by.
            stats: gets this step's sums added.
        """
        self.optimizer.zero_grad(set_to_none=True)
        for group in micro_batches([x for x in batch if x.weight], self.micro_tokens):
            logits, chosen, weight = self._forward(self.lm, group)
            logp = torch.log_softmax(logits, dim=-1)
            nll = -logp.gather(1, chosen[:, None])[:, 0]
            loss = (weight * nll).sum()
            if self._reference is not None:
                with torch.no_grad():
                    ref = torch.log_softmax(self._forward(self._reference, group)[0], dim=-1)
                kl = (logp.exp() * (logp - ref)).sum(dim=-1)
                loss = loss + self.kl * (weight * kl).sum()
                stats.kl += float((weight * kl.detach()).sum())
            (loss / norm).backward()
            with torch.no_grad():
                stats.entropy -= float((weight * (logp.exp() * logp).sum(dim=-1)).sum())
                stats.nll += float((weight * nll).sum())
                stats.weight += float(weight.sum())
            stats.tokens += sum(len(x.tokens.ids) for x in group)
        self._apply(stats)

    def _apply(self, stats: StepStats) -> None:
        norm = float(torch.nn.utils.clip_grad_norm_(self.lm.model.parameters(), self.max_grad_norm))
        if math.isfinite(norm):
            self.optimizer.step()
            stats.steps += 1
            stats.grad_norm += norm
        else:
            stats.skipped += 1

    def state(self) -> dict[str, Any]:
        """Optimiser state, for a checkpoint."""
        return self.optimizer.state_dict()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores what `state` gave."""
        self.optimizer.load_state_dict(state)
