"""A Hugging Face causal language model with its tokenizer, as the suite uses it."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as hf_logging

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
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model
        self.tokenizer = tokenizer
        if tokenizer.chat_template is None:
            tokenizer.chat_template = _PLAIN_TEMPLATE
        if tokenizer.eos_token_id is None:
            raise ValueError("the tokenizer has no end token (eos_token), so replies never end")
        self.eos: int = tokenizer.eos_token_id
        self.stop_ids = self._find_stop_ids()
        # Caches hold text -> ids; observations repeat a lot (positions on small boards).
        self.first_chunk = lru_cache(maxsize=4096)(self._first_chunk)
        self.next_chunk = lru_cache(maxsize=65536)(self._next_chunk)
        self.reply_text = lru_cache(maxsize=4096)(self._reply_text)
        self._reply_ids = lru_cache(maxsize=4096)(self._ids)
        self._split_head = self._head_is_plain()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LanguageModel:
        """Loads a local folder or hub name in float32, for evaluation.

        Raises:
            ValueError: there is no model at `path`.
        """
        try:
            tokenizer = AutoTokenizer.from_pretrained(path)
            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        except OSError as e:
            raise ValueError(f"{path}: not a model ({str(e).splitlines()[0]})") from None
        return cls(model.eval(), tokenizer)

    def save(self, path: Path) -> None:
        """Writes model (safetensors) and tokenizer, loadable by plain transformers."""
        self.model.save_pretrained(path)
        self.tokenizer.save_pretrained(path)

    # Text to tokens.

    def _render(self, messages: list[dict[str, str]], ask: bool) -> str:
        text = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=ask, tokenize=False
        )
        assert isinstance(text, str)
        return text

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _tail(self, observation: str) -> str:
        """What the template puts after a reply up to where the next reply starts."""
        messages = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": _MARK},
            {"role": "user", "content": observation},
        ]
        return self._render(messages, ask=True).split(_MARK, 1)[1]

    def _find_stop_ids(self) -> frozenset[int]:
        stop = {self.eos}
        configured = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        if configured is not None:
            stop |= set(configured) if isinstance(configured, list) else {configured}
        first = self._ids(self._tail("x"))[:1]
        stop |= set(first) & set(self.tokenizer.all_special_ids)
        return frozenset(stop)

    def _first_chunk(self, observation: str) -> tuple[int, ...]:
        return self._ids(self._render([{"role": "user", "content": observation}], ask=True))

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
            reply = (*self._reply_ids(turn.reply), self.eos)
            ids += [*prompt, *reply]
            action += [0] * len(prompt) + [1] * len(reply)
        return Tokens(tuple(ids), tuple(action), (0.0,) * sum(action))

    # Tokens to logits.

    def hidden(self, **inputs: Any) -> Tensor:
        """Last hidden states, or the logits themselves where the head is not plain."""
        if self._split_head:
            return self.model.base_model(**inputs).last_hidden_state
        return self.model(**inputs).logits

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of selected rows of `hidden`, in float32 at least."""
        if self._split_head:
            hidden = self.model.get_output_embeddings()(hidden)
        return hidden.float() if hidden.dtype in (torch.float16, torch.bfloat16) else hidden

    @torch.no_grad()
    def _head_is_plain(self) -> bool:
        """Whether logits are just the output embedding of the last hidden state.

        Then only the rows that matter need to go through it. Some architectures scale or
        cap their logits; those take the long way.
        """
        training = self.model.training
        self.model.eval()
        ids = torch.tensor([[self.eos, 0]], device=self.model.device)
        head = self.model.get_output_embeddings()
        plain = False
        if head is not None:
            out = self.model.base_model(input_ids=ids).last_hidden_state
            plain = torch.allclose(head(out), self.model(input_ids=ids).logits, atol=1e-5)
        self.model.train(training)
        return plain
