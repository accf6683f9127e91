"""Shared by the tests: a small untrained model, so that nothing has to be downloaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from ftw_agents.lm.base import BaseConfig, new_model, vocabulary_texts
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.words import build_tokenizer

COORDS = {"obs": "coords"}
MINI = "ftw/SokobanMini-v0"
TRAP = "ftw/SigmaTrap-v0"


@pytest.fixture(scope="session")
def tokenizer():
    return build_tokenizer(vocabulary_texts())


@pytest.fixture
def lm(tokenizer) -> LanguageModel:
    """A Llama of the base's shape with random weights."""
    return new_model(BaseConfig(), tokenizer)


@pytest.fixture
def gpt2(tokenizer) -> LanguageModel:
    """A GPT-2, which has learned absolute positions."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=1024,
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    return LanguageModel(GPT2LMHeadModel(config).eval(), tokenizer)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out"
