"""A language model as an agent: batched sampling with the key-value cache kept across turns.

Episodes that start together form a cohort with one cache. What all their prompts begin with
is read once. Rows may differ in length: each turn's new tokens are padded on the right, the
padding is masked for good (a hole in the cache), and every token carries its own position,
so a row's logits do not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import torch
from torch import Tensor

from ftw_agents.agent import History, Reply
from ftw_agents.lm.cache import RoomyCache
from ftw_agents.lm.model import LanguageModel


class _Cohort:
    """Episodes that share a cache."""

    def __init__(self, histories: list[History]) -> None:
        self.histories = histories
        self.cache = RoomyCache()
        self.mask = torch.zeros((len(histories), 0), dtype=torch.long)
        self.position = torch.zeros(len(histories), dtype=torch.long)
        # Sampled tokens the model has not read yet.
        self.pending: list[list[int]] = [[] for _ in histories]

    def keep(self, rows: list[int]) -> None:
        """Drops all rows but these; those that stay may stand in another order."""
        rows = self.cache.keep(rows)
        index = torch.tensor(rows, dtype=torch.long)
        self.mask, self.position = self.mask[index], self.position[index]
        self.histories = [self.histories[i] for i in rows]
        self.pending = [self.pending[i] for i in rows]


class LMAgent:
    """Plays with a language model.

    Args:
        lm: the model.
        temperature: sampling temperature; 0 takes the likeliest token.
        max_reply_tokens: a reply without an end token is cut here.
    """

    def __init__(
        self,
        lm: LanguageModel,
        *,
        temperature: float = 1.0,
        max_reply_tokens: int = 8,
    ) -> None:
        if temperature < 0:
            raise ValueError(f"temperature must be at least 0, got {temperature}")
        if max_reply_tokens < 1:
            raise ValueError(f"max_reply_tokens must be at least 1, got {max_reply_tokens}")
        self.lm = lm
        self.temperature = temperature
        self.max_reply_tokens = max_reply_tokens
        self._cohorts: list[_Cohort] = []

    @torch.no_grad()
    def act(self, histories: Sequence[History]) -> list[Reply]:
        """One sampled reply for each history.

        A history that is left out of a call is taken to have ended, and its cache is freed.
        """
        live = set(histories)
        known: set[History] = set()
        for cohort in self._cohorts:
            rows = [i for i, h in enumerate(cohort.histories) if h in live]
            if len(rows) < len(cohort.histories):
                cohort.keep(rows)
            known.update(cohort.histories)
        self._cohorts = [c for c in self._cohorts if c.histories]
        fresh = [h for h in histories if h not in known]
        if any(h.replies for h in fresh):
            raise ValueError("a history must be shown to act() from its first turn on")
        if fresh:
            self._cohorts.append(_Cohort(fresh))
            texts = [h.observations[0] for h in fresh]
            if len(texts) > 1 and all(isinstance(t, str) for t in texts):
                self.lm.read_ahead(texts)
        replies: dict[History, Reply] = {}
        for cohort in self._cohorts:
            replies.update(zip(cohort.histories, self._turn(cohort), strict=True))
        return [replies[h] for h in histories]

    def _turn(self, cohort: _Cohort) -> list[Reply]:
        prompts = [
            self.lm.chunk(h.observations, h.replies[-1].ids if h.replies else ())
            for h in cohort.histories
        ]
        feed = [
            pending + list(prompt) for pending, prompt in zip(cohort.pending, prompts, strict=True)
        ]
        if len(feed) > 1 and not cohort.mask.shape[1]:
            feed = self._read_common(cohort, feed)
        ids: list[list[int]] = [[] for _ in prompts]
        logprobs: list[list[float]] = [[] for _ in prompts]
        active = list(range(len(prompts)))
        for _ in range(self.max_reply_tokens):
            logits = self._read(cohort, feed, active)
            tokens, logps = self._sample(logits, [cohort.histories[i] for i in active])
            feed = [[] for _ in prompts]
            for i, token, logp in zip(active, tokens, logps, strict=True):
                ids[i].append(token)
                logprobs[i].append(logp)
                feed[i] = [token]
            active = [i for i in active if ids[i][-1] not in self.lm.stop_ids]
            if not active:
                break
            # Rows that have ended read their end token with their next turn.
            for i in set(range(len(feed))).difference(active):
                feed[i] = []
        cohort.pending = [[reply[-1]] for reply in ids]
        return [
            Reply(self.lm.reply_text(tuple(r)), tuple(p), tuple(r), tuple(lp))
            for p, r, lp in zip(prompts, ids, logprobs, strict=True)
        ]

    def _read_common(self, cohort: _Cohort, feed: list[list[int]]) -> list[list[int]]:
        """Reads once what all rows begin with; gives what is left to read, a token at least."""
        columns = zip(*(f[:-1] for f in feed), strict=False)
        n = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
        if n:
            self.lm.hidden(
                input_ids=torch.tensor([feed[0][:n]]),
                attention_mask=torch.ones((1, n), dtype=torch.long),
                position_ids=torch.arange(n)[None],
                cache=cohort.cache,
                use_cache=True,
            )
            cohort.cache.spread(len(feed))
            cohort.mask = torch.ones((len(feed), n), dtype=torch.long)
            cohort.position += n
        return [f[n:] for f in feed]

    def _read(self, cohort: _Cohort, feed: list[list[int]], rows: list[int]) -> Tensor:
        """Feeds each row its tokens; logits after the last one, for `rows`, shape (n, vocab)."""
        width = max(map(len, feed))
        lengths = torch.tensor([len(f) for f in feed])
        ids = torch.tensor([f + [0] * (width - len(f)) for f in feed])
        steps = torch.arange(width)
        cohort.mask = torch.cat([cohort.mask, (steps < lengths[:, None]).long()], dim=1)
        hidden = self.lm.hidden(
            input_ids=ids,
            attention_mask=cohort.mask,
            position_ids=cohort.position[:, None] + steps.minimum((lengths[:, None] - 1).clamp(0)),
            cache=cohort.cache,
            use_cache=True,
        )
        cohort.position = cohort.position + lengths
        index = torch.tensor(rows)
        return self.lm.logits(hidden[index, lengths[index] - 1])

    def _sample(self, logits: Tensor, histories: list[History]) -> tuple[list[int], list[float]]:
        logp = torch.log_softmax(logits, dim=-1)
        if self.temperature == 0:
            tokens = logits.argmax(dim=-1)
        else:
            # Inverse CDF with a number of the episode's own, so that neighbours in the
            # batch play no part.
            cdf = torch.softmax(logits.double() / self.temperature, dim=-1).cumsum(dim=-1)
            u = torch.tensor([h.stream.uniform() for h in histories], dtype=torch.float64)
            tokens = torch.searchsorted(cdf, (u * cdf[:, -1])[:, None], right=True)[:, 0]
            tokens = tokens.clamp(max=logits.shape[-1] - 1)
        chosen = logp.gather(1, tokens[:, None])[:, 0]
        return tokens.tolist(), chosen.tolist()
