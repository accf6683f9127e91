"""Shared by the tests: a small untrained model, so that nothing has to be downloaded."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing is downloaded

import pytest
import torch
from hypothesis import settings
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from ftw_agents.collect import Collector
from ftw_agents.lm.base import BaseConfig, new_model, vocabulary_texts
from ftw_agents.lm.learner import Learner, Sample, StepStats
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.words import build_tokenizer
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import training_starts
from ftw_envs.episode import Episode

settings.register_profile("untimed", deadline=None)  # how long it takes says nothing here
settings.load_profile("untimed")

COORDS = {"obs": "coords"}
MINI = "ftw/SokobanMini-v0"
TRAP = "ftw/SigmaTrap-v0"


@pytest.fixture(scope="session")
def tokenizer():
    return build_tokenizer([*vocabulary_texts(MINI), *vocabulary_texts(TRAP)])


@pytest.fixture(scope="session")
def pieces() -> PreTrainedTokenizerFast:
    """Byte pairs, pad == eos, no chat template: one text, many ways to write it in tokens."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<s>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(list(vocabulary_texts(MINI))[:200], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="<|end|>", pad_token="<|end|>"
    )


def imitate(lm: LanguageModel, episodes: Iterable[Episode], size: int, lr: float) -> None:
    """Imitates all `episodes` once, `size` of them in a step."""
    games = [Sample(lm.tokenize(e)) for e in episodes]
    learner = Learner(lm, lr=lr)
    for i in range(0, len(games), size):
        batch = games[i : i + size]
        learner.step(batch, float(sum(sum(x.tokens.action) for x in batch)), StepStats())
    lm.model.zero_grad()


def _teach(lm: LanguageModel) -> LanguageModel:
    """A few steps of imitation, so that replies end and episodes differ in length."""
    collector = Collector(MINI, COORDS)
    starts = training_starts(collector.env, 0, 0, 200)
    imitate(lm, collector.play(SolverAgent(), starts), size=8, lr=5e-3)
    return lm


def _copy(lm: LanguageModel) -> LanguageModel:
    return LanguageModel(copy.deepcopy(lm.model), lm.tokenizer)


@pytest.fixture(scope="session")
def taught_llama(tokenizer) -> LanguageModel:
    return _teach(new_model(BaseConfig(), tokenizer))


@pytest.fixture
def lm(taught_llama) -> LanguageModel:
    """A Llama of the base's shape, hardly trained."""
    return _copy(taught_llama)


@pytest.fixture
def gpt2(taught_gpt2) -> LanguageModel:
    """A GPT-2, which has learned absolute positions, with pad == eos."""
    return _copy(taught_gpt2)


@pytest.fixture(scope="session")
def taught_gpt2(tokenizer) -> LanguageModel:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=2048,
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    return _teach(LanguageModel(GPT2LMHeadModel(config).eval(), tokenizer))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out"
