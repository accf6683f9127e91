"""Any causal model and any tokenizer: what is sampled is what is trained."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from conftest import COORDS, MINI
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    CohereConfig,
    Gemma2Config,
    GPT2Config,
    GraniteConfig,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    OPTConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from ftw_agents.collect import Collector
from ftw_agents.lm.learner import Learner
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import training_starts
from ftw_envs.episode import Episode

ROTARY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "initializer_range": 0.2,
    "pad_token_id": 2,
}
LEARNED = {"num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.2}
# Caps and scales far from what a tiny model's logits hide; windows far below an episode.
ARCHITECTURES = {
    "llama": (LlamaConfig, ROTARY),
    "qwen2": (Qwen2Config, ROTARY),
    "qwen3": (Qwen3Config, ROTARY | {"head_dim": 16}),
    "gemma2, capped": (Gemma2Config, ROTARY | {"head_dim": 16, "final_logit_softcapping": 3.0}),
    "gemma2, window": (Gemma2Config, ROTARY | {"head_dim": 16, "sliding_window": 32}),
    "qwen2, window": (
        Qwen2Config,
        ROTARY | {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 1},
    ),
    "mistral, window": (MistralConfig, ROTARY | {"sliding_window": 32}),
    "cohere, scaled": (CohereConfig, ROTARY | {"logit_scale": 0.25}),
    "granite, scaled": (GraniteConfig, ROTARY | {"logits_scaling": 3.0}),
    "gpt2": (GPT2Config, LEARNED | {"hidden_size": 32}),
    "opt": (OPTConfig, LEARNED | {"hidden_size": 32, "ffn_dim": 64, "word_embed_proj_dim": 32}),
}


def config_of(name: str, tokenizer, **kw) -> PreTrainedConfig:
    kind, settings = ARCHITECTURES[name]
    size = {"vocab_size": len(tokenizer), "max_position_embeddings": 1024}
    ends = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id}
    return kind(**{**size, **ends, **settings, **kw})


def build(config: PreTrainedConfig, tokenizer) -> LanguageModel:
    """An untrained model, whose replies end early often enough for ragged batches."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        model.get_output_embeddings().weight[tokenizer.eos_token_id] *= 3
    return LanguageModel(model, copy.deepcopy(tokenizer))


def play(lm: LanguageModel, n: int = 8, **kw) -> list[Episode]:
    collector = Collector(MINI, COORDS, batch=n)
    agent = LMAgent(lm, **{"max_reply_tokens": 4, **kw})
    return list(collector.play(agent, training_starts(collector.env, 0, 1, n)))


@torch.no_grad()
def plain_logprobs(lm: LanguageModel, episode: Episode) -> list[float]:
    """By the model alone on the episode alone, in the way of plain transformers."""
    ids = torch.tensor([episode.tokens.ids])
    logp = torch.log_softmax(lm.model(ids).logits[0, :-1], dim=-1)
    chosen = logp.gather(1, ids[0, 1:, None])[:, 0]
    return chosen[torch.tensor(episode.tokens.action[1:], dtype=torch.bool)].tolist()


def check_agreement(lm: LanguageModel, episodes: list[Episode]) -> None:
    again = Learner(lm, lr=1e-3).logprobs([e.tokens for e in episodes])
    for episode, learned in zip(episodes, again, strict=True):
        plain = plain_logprobs(lm, episode)
        assert episode.tokens.logprobs == pytest.approx(plain, abs=1e-4)
        assert learned == pytest.approx(plain, abs=1e-4)


# Models.


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_play_learning_and_plain_transformers_agree(
    tokenizer, name: str, temperature: float
) -> None:
    lm = build(config_of(name, tokenizer), tokenizer)
    episodes = play(lm, temperature=temperature)
    assert len({len(e.tokens.ids) for e in episodes}) > 2  # ragged, or it shows little
    assert lm.after_head is not None
    check_agreement(lm, episodes)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_comes_after_the_head(tokenizer, name: str) -> None:
    """Small logits hide caps and scales, so the head is made large."""
    lm = build(config_of(name, tokenizer, tie_word_embeddings=False), tokenizer)
    with torch.no_grad():
        lm.model.get_output_embeddings().weight *= 20
        ids = torch.randint(len(tokenizer), (2, 9))
        want = lm.model(ids).logits
        hidden = lm.hidden(input_ids=ids, attention_mask=torch.ones_like(ids))
        assert hidden.shape[-1] == 32
        assert torch.allclose(lm.logits(hidden), want, rtol=1e-4, atol=1e-4)


def test_an_unknown_head_takes_the_long_way(tokenizer) -> None:
    lm = build(config_of("llama", tokenizer), tokenizer)

    def bend(module, args, out):
        out.logits = out.logits.abs()

    with lm.model.register_forward_hook(bend):
        odd = LanguageModel(lm.model, lm.tokenizer)
        assert odd.after_head is None
        check_agreement(odd, play(odd))


def test_an_episode_longer_than_the_context_is_refused(tokenizer) -> None:
    for name in ("llama", "gpt2", "opt"):
        lm = build(config_of(name, tokenizer, max_position_embeddings=100), tokenizer)
        with pytest.raises(ValueError, match="longer than the 100 this model can read; take"):
            play(lm)


def test_the_whole_context_can_be_used(gpt2: LanguageModel, tokenizer) -> None:
    """One token less is too few, one more changes nothing."""
    [episode] = play(gpt2, 1)
    need = len(episode.tokens.ids)
    for room in (need - 1, need, need + 1):
        gpt2.context = room
        if room < need:
            with pytest.raises(ValueError, match=f"of {need} tokens is longer"):
                play(gpt2, 1)
        else:
            assert play(gpt2, 1) == [episode]
            Learner(gpt2, lr=1e-3).logprobs([episode.tokens])


def test_a_recording_longer_than_the_context_is_refused(lm: LanguageModel) -> None:
    collector = Collector(MINI, COORDS)
    [episode] = collector.play(SolverAgent(), training_starts(collector.env, 0, 0, 1))
    lm.context = len(lm.tokenize(episode).ids)
    lm.tokenize(episode)
    lm.context -= 1
    with pytest.raises(ValueError, match="longer than"):
        lm.tokenize(episode)


@pytest.mark.filterwarnings("ignore:.*fast path is not available")
def test_models_of_other_kinds_are_refused(tokenizer) -> None:
    small = {"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2}
    with pytest.raises(ValueError, match="not plain attention"):
        build(MambaConfig(**small, pad_token_id=0, eos_token_id=2), tokenizer)
    bert = BertConfig(**small, num_attention_heads=2, intermediate_size=32)
    with pytest.raises(ValueError, match="no causal language model"):
        build(bert, tokenizer)


def test_a_tokenizer_with_more_tokens_than_the_model(tokenizer) -> None:
    """They are harmless until a text holds one: an added pad token, say, never does."""
    larger = copy.deepcopy(tokenizer)
    larger.add_tokens(["quux"])
    lm = build(config_of("llama", tokenizer), larger)
    check_agreement(lm, play(lm))
    with pytest.raises(ValueError, match=r"writes 'quux' as token .* resize_token_embeddings"):
        lm.first_chunk("push quux")


def test_a_vocabulary_larger_than_the_tokenizers(tokenizer) -> None:
    """Models pad theirs to round sizes; such tokens say nothing and are harmless."""
    lm = build(config_of("llama", tokenizer, vocab_size=3 * len(tokenizer)), tokenizer)
    episodes = play(lm)
    assert any(i >= len(tokenizer) for e in episodes for i in e.tokens.ids)
    check_agreement(lm, episodes)


# Tokenizers and templates.


def test_sampled_tokens_are_trained_on_as_they_are(pieces) -> None:
    """Though the text they make would be cut into other tokens."""
    lm = build(config_of("gpt2", pieces, max_position_embeddings=8192), pieces)
    episodes = play(lm, max_reply_tokens=6)
    drifted = 0
    for e in episodes:
        at = 0
        for turn in e.turns:
            at = e.tokens.action.index(1, at)
            end = (*e.tokens.action, 0).index(0, at)
            reply = e.tokens.ids[at:end]
            assert lm.reply_text(reply) == turn.reply
            drifted += lm.tokenizer(turn.reply)["input_ids"] != [i for i in reply if i != lm.eos]
            at = end
    assert drifted > 10
    check_agreement(lm, episodes)


def test_a_tokenizer_without_template_and_pad(pieces) -> None:
    bare = copy.deepcopy(pieces)
    bare.pad_token = None
    lm = build(config_of("llama", bare, max_position_embeddings=8192), bare)
    assert lm.tokenizer.decode(lm.first_chunk("look")) == "user: look\nassistant: "
    assert lm.tokenizer.decode(lm.next_chunk("look", True)) == "\nuser: look\nassistant: "
    assert lm.tokenizer.decode(lm.next_chunk("look", False)) == "<|end|>\nuser: look\nassistant: "
    check_agreement(lm, play(lm))


def test_a_tokenizer_that_begins_texts_does_so_in_the_plain_template(pieces) -> None:
    begins = copy.deepcopy(pieces)
    begins.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", begins.bos_token_id)]
    )
    lm = build(config_of("llama", begins), begins)
    assert lm.first_chunk("look") == tuple(begins("user: look\nassistant: ")["input_ids"])
    assert begins.bos_token_id not in lm.next_chunk("look", True)


THINKING = (  # in the manner of Qwen3: thoughts of past replies are dropped
    "{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\n' }}"
    "{%- if m.role == 'assistant' -%}{{ m.content.split('</think>')[-1].lstrip('\n') }}"
    "{%- else -%}{{ m.content }}{%- endif -%}{{ '<|im_end|>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)


def chatty(pieces, template: str, **tokens: list[str]) -> PreTrainedTokenizerFast:
    new = copy.deepcopy(pieces)
    new.add_special_tokens({"extra_special_tokens": tokens["extra"]})
    new.chat_template = template
    return new


def test_a_template_that_drops_past_thoughts(pieces) -> None:
    """The sequence that was sampled stays: nothing is rendered again."""
    qwen = chatty(pieces, THINKING, extra=["<|im_start|>", "<|im_end|>"])
    lm = build(config_of("qwen3", qwen, max_position_embeddings=8192), qwen)
    end = qwen.convert_tokens_to_ids("<|im_end|>")
    assert lm.stop_ids == {qwen.eos_token_id, end}
    assert lm.end == end
    collector = Collector(MINI, COORDS)

    class Thinker:
        def act(self, histories):
            replies = SolverAgent().act(histories)
            return [replace(r, text=f"<think>\nhm\n</think>\n{r.text}") for r in replies]

    [episode] = collector.play(Thinker(), training_starts(collector.env, 0, 0, 1))
    assert len(episode.turns) > 1
    want = "".join(
        f"<|im_start|>user\n{t.observation}<|im_end|>\n<|im_start|>assistant\n{t.reply}<|im_end|>\n"
        for t in episode.turns
    )
    assert "</think>" in want
    assert lm.tokenizer.decode(lm.tokenize(episode).ids) == want[:-1]
    check_agreement(lm, play(lm))


def test_a_template_that_trims_and_renames(pieces) -> None:
    """In the manner of Gemma: its own end token, other role names, text is trimmed."""
    gemma = chatty(
        pieces,
        "{{ bos_token }}{%- for m in messages -%}{{ '<start_of_turn>' }}"
        "{{ 'model' if m.role == 'assistant' else m.role }}{{ '\n' + m.content | trim }}"
        "{{ '<end_of_turn>\n' }}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}",
        extra=["<start_of_turn>", "<end_of_turn>"],
    )
    lm = build(config_of("gemma2, capped", gemma, max_position_embeddings=8192), gemma)
    first = "<s><start_of_turn>user\nlook<end_of_turn>\n<start_of_turn>model\n"
    assert lm.tokenizer.decode(lm.first_chunk(" look ")) == first
    assert lm.tokenizer.decode(lm.next_chunk("look", True)) == "\n" + first[3:]
    assert lm.tokenizer.decode([lm.end]) == "<end_of_turn>"
    check_agreement(lm, play(lm))


def test_a_template_without_past_replies_is_refused(pieces) -> None:
    forgetful = chatty(pieces, "{{ messages[-1].content }}", extra=[])
    with pytest.raises(ValueError, match="leaves out past replies"):
        build(config_of("llama", forgetful), forgetful)


def test_a_tokenizer_without_end_is_refused(pieces) -> None:
    lm = build(config_of("llama", pieces), pieces)
    endless = copy.deepcopy(pieces)
    endless.eos_token = None
    with pytest.raises(ValueError, match="no end token"):
        LanguageModel(lm.model, endless)
