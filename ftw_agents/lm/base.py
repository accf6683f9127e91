"""The tiny base model: the "LLM" that gets fine-tuned where no real one is at hand.

A stock Llama of about 0.1M parameters with a closed word vocabulary, which imitates
solver games until it solves a part of the valid split: able enough to win sometimes,
and with room to improve. It is made on the spot and cached, reproducible by seed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import torch
from platformdirs import user_cache_path
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import ftw_envs
from ftw_agents.collect import Collector
from ftw_agents.config import parse_env_args
from ftw_agents.lm.learner import Learner, Sample, StepStats
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_agents.lm.words import build_tokenizer
from ftw_agents.results import Summary, summarise
from ftw_agents.scripted.players import SCRIPTED
from ftw_agents.starts import Start, evaluation_starts, training_starts
from ftw_envs.episode import Tokens
from ftw_envs.files import partial_path, write_json
from ftw_envs.incident.env import IncidentEnv
from ftw_envs.incident.techniques import CAUSES, IMPACTS, PERSISTENCE, VECTORS
from ftw_envs.registry import make
from ftw_envs.sokoban.env import SokobanEnv
from ftw_envs.streams import Stream, stream_key


@dataclass(frozen=True)
class BaseConfig:
    """How a tiny base is made."""

    env: str = "ftw/SokobanMini-v0"
    """The environment it learns to play."""
    env_args: tuple[str, ...] = ("obs=coords",)
    """The environment's keyword arguments as key=value; obs=coords is what it learns best."""
    player: Literal["solver", "random", "greedy", "expert", "expert_notes"] = "solver"
    """Whose games it imitates."""
    games: int = 8000
    """Games on training instances, shown over and over."""
    steps: int = 360
    """Gradient steps; chosen so that the base solves 25 to 40 % of valid."""
    listen: int = 0
    """Steps at the start that also learn to predict what the environment says. Copying names
    from far back is learned from that, and hardly from the few names in replies."""
    lr: float = 4e-3
    """Adam's largest step size, reached after 50 steps, at the end falling to 0 in a line."""
    hold: float = 0.0
    """The share of all steps after which it falls. Some things are learned at once, after long,
    and only in large steps, such as to see which of some names is in no list."""
    minibatch: int = 32
    """Games in a gradient step."""
    hidden: int = 64
    """Width of the model."""
    layers: int = 2
    """Layers of the model."""
    heads: int = 4
    """Attention heads of the model."""
    max_reply_tokens: int = 8
    """Where its replies are cut."""
    seed: int = 0
    """Names all randomness."""


BASES = {
    config.env: config
    for config in (
        BaseConfig(),
        # Tells the machines apart, and trusts luck: the trap is its choice two times in five.
        BaseConfig(env="ftw/SigmaTrap-v0", env_args=(), player="greedy", games=20_000, steps=2500),
        BaseConfig(
            env="ftw/IncidentL0-v0",
            env_args=("guide=brief",),
            player="expert_notes",
            games=12_000,
            steps=750,
            listen=500,
            hold=0.75,
            minibatch=16,
            layers=4,
            max_reply_tokens=40,
        ),
        BaseConfig(
            env="ftw/IncidentL1-v0",
            env_args=("guide=brief",),
            player="expert_notes",
            games=12_000,
            steps=1000,
            listen=650,
            hold=0.75,
            minibatch=16,
            layers=4,
            max_reply_tokens=40,
        ),
    )
}
"""The environments for which there is a tiny base, and how it is made."""

Report = Callable[[int, int, float], None]
"""Called with the step, the number of steps, and the loss in nats."""


def vocabulary_texts(env_id: str) -> Iterator[str]:
    """Texts that hold every word an environment says, in all its text views and sizes."""
    yield from (f"r{y}c{x}" for y in range(1, 11) for x in range(1, 11))
    yield " ".join("0123456789#@$.*+-")
    views: list[dict[str, Any]] = [{}]
    players = [SCRIPTED["solver"](), SCRIPTED["random"]()]
    known = make(env_id)
    if isinstance(known, SokobanEnv):
        views = [{"obs": "text"}, {"obs": "coords"}]
    if isinstance(known, IncidentEnv):
        views = [{"guide": "full"}, {"guide": "brief"}]
        players.append(SCRIPTED["expert"]())
        yield " ".join(f"{letter}{i}" for letter in "huxri" for i in range(1, 41))
        yield " ".join([*known.level.slots, *PERSISTENCE, *VECTORS, *IMPACTS, *CAUSES])
    for kwargs in views:
        collector = Collector(env_id, kwargs)
        env, count = collector.env, collector.env.instance_count("train")
        starts = [Start("train", i, i) for i in range(0, count, max(1, count // 1000))]
        for start in starts:
            options = {"split": "train", "index": start.index}
            yield env.reset(seed=start.seed, options=options)[0]
            yield " ".join(env.grammar.actions)
        for player in players:
            for episode in collector.play(player, starts[:64]):
                yield from (t.observation for t in episode.turns)
                if isinstance(known, IncidentEnv):
                    yield from (t.reply for t in episode.turns)
        for bad in ("", " ".join(f"[{a}]" for a in env.grammar.actions)):
            yield env.grammar.parse(bad).error or ""


def new_model(config: BaseConfig, tokenizer: PreTrainedTokenizerFast) -> LanguageModel:
    """The untrained model."""
    torch.manual_seed(stream_key("base", config.seed) & (2**63 - 1))
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden,
            intermediate_size=3 * config.hidden,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            max_position_embeddings=32768,  # Sokoban's longest texts
            tie_word_embeddings=True,
            # The usual 0.02 suits wide models; at this width it learns five times slower.
            initializer_range=0.1,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
    return LanguageModel(model.eval(), tokenizer)


def pretrain(config: BaseConfig, report: Report) -> LanguageModel:
    """Makes the base."""
    collector = Collector(config.env, parse_env_args(config.env_args))
    starts = training_starts(collector.env, config.seed, 0, config.games)
    words = vocabulary_texts(config.env)
    # Commands are several words; elsewhere an answer is one, which may hold signs.
    lm = new_model(config, build_tokenizer(words, spaces=config.player.startswith("expert")))
    player = SCRIPTED[config.player]()
    games = [Sample(lm.tokenize(e)) for e in collector.play(player, starts)]
    learner = Learner(lm, lr=config.lr)
    stream = Stream("pretrain", config.seed)
    for step in range(1, config.steps + 1):
        fall = config.steps - max(50, round(config.hold * config.steps))
        warm, left = step / 50, (config.steps - step + 1) / max(1, fall)
        learner.set_lr(config.lr * min(1.0, warm, left))
        batch = [stream.choice(games) for _ in range(config.minibatch)]
        if step <= config.listen:
            batch = [Sample(all_of(game.tokens)) for game in batch]
        stats = StepStats()
        learner.step(batch, float(sum(sum(x.tokens.action) for x in batch)), stats)
        report(step, config.steps, stats.means()["nll"])
    return lm


def all_of(tokens: Tokens) -> Tokens:
    """The same tokens, of which all but the first are to be learned."""
    n = len(tokens.ids) - 1
    return Tokens(tokens.ids, (0,) + (1,) * n, (0.0,) * n)


def examine(config: BaseConfig, lm: LanguageModel) -> Summary:
    """What a base solves of the valid split, sampled at temperature 1."""
    collector = Collector(config.env, parse_env_args(config.env_args))
    count = collector.env.instance_count("valid")
    starts = evaluation_starts(collector.env, "valid", count, seed=0)
    agent = LMAgent(lm, max_reply_tokens=config.max_reply_tokens)
    return summarise(collector.play(agent, starts))


def base_config(env_id: str) -> BaseConfig:
    """How the tiny base for an environment is made; that of SokobanMini where there is no other."""
    return BASES.get(env_id, BaseConfig())


def base_view(env_id: str) -> tuple[str, ...]:
    """The view in which a tiny base knows an environment, as env_args; () if none does."""
    return BASES[env_id].env_args if env_id in BASES else ()


def base_path(config: BaseConfig) -> Path:
    """Where the base of this configuration is cached."""
    env_version = make(config.env).env_version
    name = json.dumps([asdict(config), env_version, ftw_envs.__version__], sort_keys=True)
    root = os.environ.get("FTW_CACHE")
    folder = Path(root) if root else user_cache_path("ftw-suite")
    return folder / "bases" / f"tiny-{sha256(name.encode()).hexdigest()[:12]}"


def load_base(config: BaseConfig, report: Report) -> LanguageModel:
    """The base from the cache, made first if it is not there."""
    path = base_path(config)
    if not (path / "base.json").exists():
        lm = pretrain(config, report)
        save_base(path, lm, {"config": asdict(config), "valid": examine(config, lm).to_json()})
    return LanguageModel.load(path)


def save_base(path: Path, lm: LanguageModel, about: dict[str, Any]) -> None:
    """Writes a base so that it is there as a whole or not at all."""
    partial = partial_path(path)
    lm.save(partial)
    write_json(partial / "base.json", about)
    if path.exists():  # somebody else was faster; the seeds make both the same
        shutil.rmtree(partial)
    else:
        partial.rename(path)
