"""A Hugging Face causal language model with its tokenizer, as the suite uses it."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.utils import logging as hf_logging

from ftw_agents.lm.hub import read_model
from ftw_agents.lm.lora import has_adapters, merged_state, save_adapters
from ftw_envs.episode import Episode, Tokens

hf_logging.disable_progress_bar()

# For tokenizers without a chat template.
_PLAIN_TEMPLATE = (
    "{%- for m in messages -%}{{ m['role'] + ': ' + m['content'] }}"
    "{%- if m['role'] == 'assistant' -%}{{ eos_token }}{%- endif -%}{{ '\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ 'assistant: ' }}{%- endif -%}"
)
_MARK = "@@REPLY@@"  # stands for a reply while the chat template is probed


class LanguageModel:
    """Model, tokenizer, and how an episode becomes tokens.

    An episode is one growing token sequence. The first observation is rendered with the
    chat template as a user message; each later one as whatever the template puts between
    the end of one reply and the start of the next. Replies are the sampled tokens
    themselves and are never tokenised again.

    Raises:
        ValueError: model and tokenizer do not fit each other, or are of a kind that cannot
            play like this.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model
        self.tokenizer = tokenizer
        if tokenizer.eos_token_id is None:
            raise ValueError("the tokenizer has no end token (eos_token), so replies never end")
        self._known: int = model.get_input_embeddings().weight.shape[0]
        if tokenizer.chat_template is None:
            starts = tokenizer("x")["input_ids"][0] == tokenizer.bos_token_id
            tokenizer.chat_template = "{{ bos_token }}" * starts + _PLAIN_TEMPLATE
        self.context, self.window = _context(model), _window(model)
        self.eos: int = tokenizer.eos_token_id
        self.stop_ids, self.end = self._find_stop_ids()
        # Caches hold text -> ids; observations repeat a lot (positions on small boards).
        self.first_chunk = lru_cache(maxsize=4096)(self._first_chunk)
        self.next_chunk = lru_cache(maxsize=65536)(self._next_chunk)
        self.reply_text = lru_cache(maxsize=4096)(self._reply_text)
        self._reply_ids = lru_cache(maxsize=4096)(self._ids)
        self._read_ahead: dict[str, tuple[int, ...]] = {}
        self.after_head = self._after_head()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LanguageModel:
        """Loads a local folder or hub name in float32, for evaluation.

        A .gguf file will do too.

        Raises:
            ValueError: there is no model at `path`.
        """
        return cls(*read_model(path))

    def save(self, path: Path) -> None:
        """Writes model (safetensors) and tokenizer, loadable by plain transformers.

        LoRA's adapters are merged into it, and kept apart in the folder `lora` as well.
        """
        if has_adapters(self.model):
            self.model.save_pretrained(path, state_dict=merged_state(self.model))
            save_adapters(self.model, path / "lora")
        else:
            self.model.save_pretrained(path)
        self.tokenizer.save_pretrained(path)

    def snapshot(self) -> LanguageModel:
        """A copy that does not move with this one; frozen weights are shared."""
        frozen = {id(p): p for p in self.model.parameters() if not p.requires_grad}
        return LanguageModel(copy.deepcopy(self.model, frozen), self.tokenizer)

    def check_length(self, tokens: int) -> None:
        """Refuses an episode that is longer than the model can read.

        Raises:
            ValueError: says so, and what helps.
        """
        if self.context is not None and tokens > self.context:
            raise ValueError(
                f"an episode of {tokens} tokens is longer than the {self.context} this model can "
                "read; take a shorter view (obs=coords), fewer max_reply_tokens, or another model"
            )

    # Text to tokens.

    def _render(self, messages: list[dict[str, str]], ask: bool) -> str:
        text = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=ask, tokenize=False
        )
        assert isinstance(text, str)
        return text

    def _ids(self, text: str) -> tuple[int, ...]:
        return self._checked(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _checked(self, written: list[int]) -> tuple[int, ...]:
        ids = tuple(written)
        if max(ids, default=0) >= self._known:
            raise ValueError(
                f"the tokenizer writes {self.tokenizer.decode([max(ids)])!r} as token {max(ids)}, "
                f"the model knows {self._known} tokens; call its resize_token_embeddings"
            )
        return ids

    def _tail(self, observation: str) -> str:
        """What the template puts after a reply up to where the next reply starts."""
        messages = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": _MARK},
            {"role": "user", "content": observation},
        ]
        _, found, tail = self._render(messages, ask=True).partition(_MARK)
        if not found:
            raise ValueError("the chat template leaves out past replies; give it another one")
        return tail

    def _find_stop_ids(self) -> tuple[frozenset[int], int]:
        """Tokens that end a reply, and the one that the template ends it with."""
        stop = {self.eos}
        configured = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        if configured is not None:
            stop |= set(configured) if isinstance(configured, list) else {configured}
        first = set(self._ids(self._tail("x"))[:1]) & set(self.tokenizer.all_special_ids)
        return frozenset(stop | first), min(first, default=self.eos)

    def _first_text(self, observation: str) -> str:
        return self._render([{"role": "user", "content": observation}], ask=True)

    def _first_chunk(self, observation: str) -> tuple[int, ...]:
        ids = self._read_ahead.pop(observation, None)
        return self._ids(self._first_text(observation)) if ids is None else ids

    def read_ahead(self, observations: Sequence[str]) -> None:
        """Cuts first observations into tokens, many at once, which is faster than one by one."""
        new = list(dict.fromkeys(observations))
        texts = [self._first_text(o) for o in new]
        written = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        self._read_ahead = {o: self._checked(ids) for o, ids in zip(new, written, strict=True)}

    def _next_chunk(self, observation: str, ended: bool) -> tuple[int, ...]:
        ids = self._ids(self._tail(observation))
        # The sampled reply brought its own end token unless it was cut at the limit.
        return ids[1:] if ended and ids[0] in self.stop_ids else ids

    def chunk(self, observations: list[str], last_reply: tuple[int, ...]) -> tuple[int, ...]:
        """Tokens to read since the last reply, for a history that ends in an observation."""
        if not isinstance(observations[-1], str):
            raise ValueError("this model reads text only: take obs='text' or another text view")
        if len(observations) == 1:
            return self.first_chunk(observations[0])
        ended = bool(last_reply) and last_reply[-1] in self.stop_ids
        return self.next_chunk(observations[-1], ended)

    def _reply_text(self, ids: tuple[int, ...]) -> str:
        """The text of a sampled reply, without its end token."""
        if ids and ids[-1] in self.stop_ids:
            ids = ids[:-1]
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))

    def tokenize(self, episode: Episode) -> Tokens:
        """The tokens of an episode that another player played, as if the model had.

        Log-probabilities are 0, for they are not known.
        """
        ids: list[int] = []
        action: list[int] = []
        reply: tuple[int, ...] = ()
        observations: list[str] = []
        for turn in episode.turns:
            observations.append(turn.observation)
            prompt = self.chunk(observations, reply)
            reply = (*self._reply_ids(turn.reply), self.end)
            ids += [*prompt, *reply]
            action += [0] * len(prompt) + [1] * len(reply)
        self.check_length(len(ids))
        return Tokens(tuple(ids), tuple(action), (0.0,) * sum(action))

    # Tokens to logits.

    def hidden(self, **inputs: Any) -> Tensor:
        """Last hidden states, or the logits themselves where `after_head` is None.

        Raises:
            ValueError: the tokens, and one more if there is a cache, are too many to read.
        """
        mask, positions = inputs["attention_mask"], inputs.get("position_ids")
        last = mask.shape[1] - 1 if positions is None else int(positions.max())
        self.check_length(last + 1 + ("cache" in inputs))
        if self.window is not None and mask.shape[1] > self.window:
            inputs["attention_mask"] = self._window_masks(self.window, mask, positions)
        if self.after_head is not None:
            return self.model.base_model(**inputs).last_hidden_state
        return self.model(**inputs).logits

    def _window_masks(
        self, window: int, mask: Tensor, positions: Tensor | None
    ) -> Tensor | dict[str, Tensor]:
        """Masks by the positions of tokens, (batch, 1, new, all), to be added to attention.

        Left to itself transformers counts a window in places of the cache, holes included.
        """
        keys = mask.cumsum(dim=1)[:, None] - 1
        queries = (keys[:, 0] if positions is None else positions)[:, :, None]
        seen = mask[:, None].bool() & (keys <= queries)
        near = seen & (keys > queries - window)
        dtype = self.model.dtype
        far, close = (
            torch.zeros(x.shape, dtype=dtype).masked_fill(~x, torch.finfo(dtype).min)[:, None]
            for x in (seen, near)
        )
        if not getattr(self.model.config.get_text_config(), "layer_types", None):
            return close
        return {"full_attention": far, "sliding_attention": close}

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of selected rows of `hidden`, in float32 at least."""
        if self.after_head is not None:
            hidden = self.after_head(self.model.get_output_embeddings()(hidden))
        return hidden.float() if hidden.dtype in (torch.float16, torch.bfloat16) else hidden

    @torch.no_grad()
    def _after_head(self) -> Callable[[Tensor], Tensor] | None:
        """What becomes of the output embedding of the last hidden state, to give the logits.

        With it only the rows that matter need to go through the head. Most architectures
        leave it as it is, some scale or cap it. It is found by putting known numbers in the
        place of the head's output. Other architectures take the long way: None.
        """
        self.model.eval()
        embed = self.model.get_input_embeddings().weight
        ids = torch.tensor([[self.eos, 0], [self.eos, 1]], device=embed.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        logits = self.model(**inputs).logits
        if not torch.allclose(logits[0, 0], logits[1, 0], atol=1e-4):
            raise ValueError("the model looks at tokens to come: it is no causal language model")
        head, base = self.model.get_output_embeddings(), self.model.base_model
        if head is None or base is self.model:
            return None
        known = torch.linspace(-99, 99, logits.numel(), dtype=embed.dtype).view_as(logits)
        read: list[Tensor] = []

        def replace(module: Any, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
            read.append(args[0])
            return known

        with head.register_forward_hook(replace):
            out = self.model(**inputs).logits
        hidden = base(**inputs).last_hidden_state
        if len(read) != 1 or not torch.allclose(read[0], hidden, atol=1e-5):
            return None
        for after in _known_heads(self.model.config.get_text_config(), known, out):
            if torch.allclose(after(known), out, rtol=1e-5, atol=1e-5):
                return after
        return None


def _known_heads(config: Any, known: Tensor, out: Tensor) -> list[Callable[[Tensor], Tensor]]:
    """Candidates for what an architecture does after its head: nothing, scale, cap."""
    cap = getattr(config, "final_logit_softcapping", None)
    scale = float(out.flatten()[-1] / known.flatten()[-1])
    return [
        lambda x: x,
        lambda x: x * scale,
        *([lambda x: cap * torch.tanh(x / cap)] if cap else []),
    ]


def _context(model: Any) -> int | None:
    """Tokens the model can read at once; None where nothing is said about it."""
    config = model.config.get_text_config()
    limit = getattr(config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def _window(model: Any) -> int | None:
    """How far back layers with a sliding window look; None where all layers see everything.

    Raises:
        ValueError: the model keeps something else than all keys and values of the past.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    odd = kinds - {"full_attention", "sliding_attention"}
    if getattr(model, "_is_stateful", False) or odd:
        raise ValueError(
            f"{type(model).__name__} cannot play here: its layers ({', '.join(odd) or 'recurrent'})"
            " are not plain attention"
        )
    window = getattr(config, "sliding_window", None)
    return window if window and (not kinds or "sliding_attention" in kinds) else None
