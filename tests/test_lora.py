"""LoRA: only the adapters move, what is saved is a plain model, a run goes on exactly."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from conftest import COORDS, MINI
from peft import PeftModel
from test_hub_models import ARCHITECTURES, build, check_agreement, config_of, play
from test_training import small
from transformers import AutoModelForCausalLM

from ftw_agents.config import ClipConfig, FTWConfig, LoRAConfig, TrainConfig
from ftw_agents.evaluate import evaluate, load_player
from ftw_agents.lm.learner import Learner, LossConfig, Sample, StepStats
from ftw_agents.lm.lora import add_adapters, has_adapters, load_adapters, save_adapters
from ftw_agents.lm.model import LanguageModel
from ftw_agents.train import TIMES, Trainer, newest_checkpoint

IDS = torch.arange(3, 23).view(2, 10)


def teach(lm: LanguageModel, steps: int = 5, **kw) -> list[StepStats]:
    """A few large steps, so that the adapters do something."""
    samples = [Sample(e.tokens) for e in play(lm)]
    learner = Learner(lm, lr=0.01, **kw)
    learner.anchor()
    told = []
    for _ in range(steps):
        told.append(StepStats())
        learner.step(samples, 100.0, told[-1])
    return told


@torch.no_grad()
def logits(model) -> torch.Tensor:
    return model(IDS).logits


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated")  # of PEFT itself
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_adapters_learn_and_merge(tokenizer, name: str, tmp_path: Path) -> None:
    lm = build(config_of(name, tokenizer), tokenizer)
    start = logits(lm.model)
    plain = {n: p.clone() for n, p in lm.model.named_parameters()}
    lm.save(tmp_path / "base")
    add_adapters(lm.model, LoRAConfig(rank=3, alpha=9.0), seed=0)
    assert torch.equal(logits(lm.model), start)  # they change nothing yet
    told = teach(lm, loss=LossConfig(value_coef=0.0))
    assert told[-1].nll < told[0].nll
    moved = logits(lm.model)
    assert (moved - start).abs().max() > 0.1
    for n, p in lm.model.named_parameters():
        assert p.requires_grad == (".lora_" in n)
        if ".lora_" not in n:
            assert torch.equal(p, plain[n.replace(".base_layer", "")])
    check_agreement(lm, play(lm))

    lm.save(tmp_path / "model")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    assert {n for n, _ in merged.named_parameters()} == plain.keys()
    assert torch.allclose(logits(merged), moved, atol=1e-5, rtol=1e-4)
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float32)
    peft = PeftModel.from_pretrained(base, tmp_path / "model" / "lora")
    assert torch.allclose(logits(peft), moved, atol=1e-6)


def test_adapters_are_read_back_bit_for_bit(lm: LanguageModel, tmp_path: Path) -> None:
    other = lm.snapshot()
    add_adapters(lm.model, LoRAConfig(rank=2), seed=0)
    add_adapters(other.model, LoRAConfig(rank=2), seed=1)
    teach(lm)
    save_adapters(lm.model, tmp_path)
    assert not torch.equal(logits(other.model), logits(lm.model))
    load_adapters(other.model, tmp_path)
    assert torch.equal(logits(other.model), logits(lm.model))


def test_adapters_are_named_by_the_seed(lm: LanguageModel) -> None:
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(found))  # has no say
        other = LanguageModel(lm.snapshot().model, lm.tokenizer)
        add_adapters(other.model, LoRAConfig(rank=2), seed)
        found.append(torch.cat([p.flatten() for p in other.model.parameters() if p.requires_grad]))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_chosen_targets(lm: LanguageModel) -> None:
    add_adapters(lm.model, LoRAConfig(rank=2, targets="q_proj, v_proj"), seed=0)
    names = [n.split(".")[-4] for n, _ in lm.model.named_parameters() if ".lora_" in n]
    assert set(names) == {"q_proj", "v_proj"}


@pytest.mark.parametrize(
    ("kw", "why"),
    [
        ({"rank": -1}, "lora.rank must be at least 0"),
        ({"rank": 1, "alpha": 0.0}, "lora.alpha must be above 0"),
        ({"rank": 1, "targets": "c_attn"}, "all-linear or some of .*q_proj"),
        ({"rank": 1, "targets": "q_proj,lm_head"}, "must leave out lm_head"),
        ({"rank": 1, "targets": "embed_tokens"}, "must leave out model.embed_tokens"),
    ],
)
def test_bad_settings_are_refused(lm: LanguageModel, kw: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why) as e:
        add_adapters(lm.model, LoRAConfig(**kw), seed=0)
    assert "\n" not in str(e.value)
    assert not has_adapters(lm.model)


def test_without_peft_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ftw_agents.config.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'ftw-suite\[lora\]'"):
        small(folder, lora=LoRAConfig(rank=4)).check()
    small(folder).check()


def test_the_reference_shares_what_is_frozen(lm: LanguageModel) -> None:
    add_adapters(lm.model, LoRAConfig(rank=2), seed=0)
    before = logits(lm.model)
    there = lm.snapshot()
    told = teach(lm, loss=LossConfig(kl=0.1))
    assert told[0].kl == pytest.approx(0, abs=1e-4)
    assert told[-1].kl > 0
    assert torch.equal(logits(there.model), before)
    pairs = zip(lm.model.parameters(), there.model.parameters(), strict=True)
    assert all((a is b) == (not a.requires_grad) for a, b in pairs)


# Runs.


ALGORITHMS = {
    "ftw": {},
    "ppo": {"algo": "ppo", "clip": ClipConfig(kl=0.1, epochs=2)},
}


def last_metrics(run: Path) -> list[dict]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if k not in TIMES} for x in lines]


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_resumed_run_goes_on_exactly(
    lm: LanguageModel, gpt2: LanguageModel, algo: str, tmp_path: Path
) -> None:
    kw = {"lora": LoRAConfig(rank=4), "lr": 0.01, "iterations": 3, **ALGORITHMS[algo]}
    base = gpt2 if algo == "ppo" else lm
    whole = Trainer.start(small(tmp_path / "a", **kw), base.snapshot())
    whole.run()
    Trainer.start(small(tmp_path / "b", **kw), base.snapshot()).run(stop_at=2)
    again = Trainer.resume(tmp_path / "b")
    again.run()
    assert last_metrics(tmp_path / "a") == last_metrics(tmp_path / "b")
    pairs = zip(
        whole.lm.model.state_dict().items(), again.lm.model.state_dict().items(), strict=True
    )
    for (n, a), (m, b) in pairs:
        assert n == m
        assert torch.equal(a, b)


def test_a_run_is_evaluated_merged(lm: LanguageModel, tmp_path: Path) -> None:
    trainer = Trainer.start(small(tmp_path / "run", iterations=1, lora=LoRAConfig(rank=4)), lm)
    trainer.run()
    player = load_player(str(tmp_path / "run"), MINI)
    assert player.about["parameters"] == sum(
        p.numel() for n, p in lm.model.named_parameters() if ".lora_" not in n
    )
    saved = LanguageModel.load(newest_checkpoint(tmp_path / "run"))
    assert not has_adapters(saved.model)
    assert torch.allclose(logits(saved.model), logits(lm.model), atol=1e-5)
    out = tmp_path / "result"
    assert evaluate(player, MINI, COORDS, split="test", episodes=4, seed=0, out=out).episodes == 4


def test_settings_are_read_back_and_older_ones_too(tmp_path: Path) -> None:
    config = TrainConfig(lora=LoRAConfig(rank=8, alpha=32.0, targets="q_proj"), ftw=FTWConfig())
    data = json.loads(json.dumps(config.to_json()))
    assert TrainConfig.from_json(data) == config
    del data["lora"]
    assert TrainConfig.from_json(data).lora == LoRAConfig()
    assert importlib.util.find_spec("peft")  # the tests above were no empty ones


def test_adapters_of_others_are_refused(lm: LanguageModel, tmp_path: Path) -> None:
    lm.save(tmp_path / "m")
    add_adapters(lm.model, LoRAConfig(rank=2), seed=0)
    with pytest.raises(ValueError, match="adapters already"):
        add_adapters(lm.model, LoRAConfig(rank=2), seed=0)
    lm.model.peft_config["default"].base_model_name_or_path = str(tmp_path / "m")
    save_adapters(lm.model, tmp_path / "only")
    lm.tokenizer.save_pretrained(tmp_path / "only")
    with pytest.raises(ValueError, match="adapters, not a model; merge them first"):
        LanguageModel.load(tmp_path / "only")
