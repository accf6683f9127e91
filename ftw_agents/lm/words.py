"""The closed word-level tokenizer of the tiny base models."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

PAD, UNKNOWN, END, SYSTEM, USER, ASSISTANT = SPECIAL = (
    "<|pad|>",
    "<|unk|>",
    "<|end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
)

CHAT_TEMPLATE = (
    "{%- for m in messages -%}"
    "{%- if m['role'] == 'assistant' -%}{{ '<|assistant|>' + m['content'] + '<|end|>' }}"
    "{%- else -%}{{ '<|' + m['role'] + '|>' + m['content'] }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"
)

# A cell name (r3c4), a handle (h1), a word, a single digit, a line end, or one other character:
# so a board row falls into its cells.
_WORD = (
    r"r[0-9]+c[0-9]+|(?<![A-Za-z0-9])[a-z][0-9]+(?![A-Za-z0-9])"
    r"|[A-Za-z]+|[0-9]|\n|[^\sA-Za-z0-9]"
)


def _splitter() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORD), behavior="isolated"),
            pre_tokenizers.Split(Regex(r"[ \t\r]+"), behavior="removed"),
        ]
    )


def split_words(text: str) -> list[str]:
    """The words `text` falls into, as the tokenizer splits it."""
    return re.findall(_WORD, text)


def build_tokenizer(texts: Iterable[str], *, spaces: bool = False) -> PreTrainedTokenizerFast:
    """A tokenizer whose vocabulary is the words of `texts`, sorted, and nothing else.

    Unknown words become `<|unk|>`, one for each.

    Args:
        spaces: put a space between the words of a reply; without, they stand side by side.
    """
    words = sorted({w for text in set(texts) for w in split_words(text)})
    vocab = {word: i for i, word in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = _splitter()
    if not spaces:
        tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(list(SPECIAL))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        extra_special_tokens=[SYSTEM, USER, ASSISTANT],
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
