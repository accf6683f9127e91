"""Where models come from: folders, the hub, GGUF files, and what is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gguf import GGUFWriter, TokenType
from test_hub_models import build, check_agreement, config_of, play
from transformers import AutoModelForCausalLM, BertConfig, BertModel, PreTrainedTokenizerFast

from ftw_agents.lm.model import LanguageModel


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no/such/folder", "no such folder"),
        ("./nothing", "no such folder"),
        ("tests/nothing", "no such folder"),  # tests is a folder here, so it means a path
        ("README.md", "a file, not a folder"),
        ("nothing.gguf", "no such file"),
    ],
)
def test_paths_to_nothing_are_refused(
    name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "README.md").touch()
    with pytest.raises(ValueError, match=why) as e:
        LanguageModel.load(name)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("offline", ["0", "1"])
def test_a_hub_name_is_refused_within_seconds(offline: str, tmp_path: Path) -> None:
    """Offline at once; with a hub that cannot be reached without asking again and again."""
    code = (
        "import time; from ftw_agents.lm.model import LanguageModel; begin = time.time()\n"
        "try: LanguageModel.load('nobody/nothing')\n"
        "except ValueError as e: print(round(time.time() - begin), e)"
    )
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": offline}
    env = {"HF_HOME": str(tmp_path), "PATH": "", **nowhere}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    [line] = run.stdout.splitlines()
    seconds, _, message = line.partition(" ")
    assert int(seconds) < 15
    assert message.startswith("nobody/nothing: not a model (")


def test_folders_that_hold_something_else_are_refused(tokenizer, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: not a model"):
        LanguageModel.load(tmp_path / "empty")
    bert = BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_attention_heads=2)
    BertModel(bert).save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    with pytest.raises(ValueError, match="no weights for cls"):
        LanguageModel.load(tmp_path / "bert")
    lm = build(config_of("llama", tokenizer), tokenizer)
    lm.save(tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match="cut: not a model"):
        LanguageModel.load(tmp_path / "cut")


def test_loaded_weights_lie_as_others_do(tokenizer, tmp_path: Path) -> None:
    """At addresses that fit vector registers, or sums would differ in their last bits."""
    build(config_of("gpt2", tokenizer), tokenizer).save(tmp_path / "m")
    lm = LanguageModel.load(tmp_path / "m")
    assert all(p.data_ptr() % 64 == 0 for p in lm.model.parameters())


def write_gguf(path: Path, pieces: PreTrainedTokenizerFast) -> torch.Tensor:
    """A random Llama as llama.cpp would keep it; gives its embedding."""
    width, inner, heads = 32, 64, 2
    vocab = sorted(pieces.get_vocab().items(), key=lambda x: x[1])
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(1024)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(len(vocab))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([t for t, _ in vocab])
    special = [i in pieces.all_special_ids for _, i in vocab]
    writer.add_token_types([TokenType.CONTROL if x else TokenType.NORMAL for x in special])
    merges = json.loads(pieces.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(m) for m in merges])
    writer.add_bos_token_id(pieces.bos_token_id)
    writer.add_eos_token_id(pieces.eos_token_id)
    writer.add_pad_token_id(pieces.eos_token_id)
    generator = torch.Generator().manual_seed(0)
    shapes = {"token_embd": (len(vocab), width), "output_norm": (width,)}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        shapes[f"blk.0.{name}"] = (width, width)
    shapes |= {"blk.0.ffn_gate": (inner, width), "blk.0.ffn_up": (inner, width)}
    shapes |= {"blk.0.ffn_down": (width, inner)}
    shapes |= {"blk.0.attn_norm": (width,), "blk.0.ffn_norm": (width,)}
    tensors = {n: torch.randn(x, generator=generator) / 5 for n, x in shapes.items()}
    for name, tensor in tensors.items():
        writer.add_tensor(f"{name}.weight", tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors["token_embd"]


def test_a_gguf_file_is_a_model_like_others(pieces, tmp_path: Path) -> None:
    embedding = write_gguf(tmp_path / "tiny.gguf", pieces)
    lm = LanguageModel.load(tmp_path / "tiny.gguf")
    assert torch.equal(lm.model.get_input_embeddings().weight, embedding)
    assert lm.tokenizer.pad_token_id == lm.eos == pieces.eos_token_id
    assert lm.tokenizer("look up")["input_ids"] == pieces("look up")["input_ids"]
    lm.context = None  # its texts are longer in pieces than in words
    check_agreement(lm, play(lm, 2))
    lm.save(tmp_path / "saved")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", dtype=torch.float32)
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(again(ids).logits, lm.model(ids).logits)


def test_without_the_package_gguf_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ftw_agents.lm.hub.find_spec", lambda name: None)
    (tmp_path / "m.gguf").touch()
    with pytest.raises(ValueError, match=r"pip install 'ftw-suite\[gguf\]'"):
        LanguageModel.load(tmp_path / "m.gguf")
