"""TRL's GRPOTrainer on a multi-turn text environment, on the CPU.

Called as `trl.py MODEL STARTS ITERATIONS MINIBATCH STEP LR MAX_REPLY_TOKENS GROUP OUT`; the
settings of the two sides come from `grpo_trl.py`.

TRL has two ways to an environment. `environment_factory` makes the methods of an
environment tools that the model calls: the chat template must render tool calls, each reply
must parse as one (JSON with the method's name and arguments), observations come back as tool
messages, and an episode ends when the model calls no tool, not when the environment says so.
A model that answers a board with one word cannot be played that way, and it would not be the
same dialogue. So this takes the other, `rollout_func`: it plays the episodes itself and hands
back token ids with `env_mask`, 0 on what the environment said. It generates with the
trainer's own `_generate_single_turn`, which is what the loop around `environment_factory`
calls each turn, with the whole dialogue of each episode that is still going on. Tokens are
made by the suite (cached), so both train on dialogues of the same form.

The peer gets the better of it where there is a choice: no gradient checkpointing (on by
default in TRL), float32 as ours (bfloat16 by default), nothing saved or reported, one line
logged an iteration.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from measure import Row, dump
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from ftw_agents.lm.model import LanguageModel
from ftw_envs.registry import make
from ftw_envs.text_env import EpisodeEnv

ENV, ENV_KWARGS = "ftw/SokobanMini-v0", {"obs": "coords"}


@dataclass
class Game:
    """One episode while it is played: the dialogue so far, its first chunk apart."""

    env: EpisodeEnv
    observations: list[str]
    prompt: tuple[int, ...]
    said: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    reply: tuple[int, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)

    def answer(self, lm: LanguageModel, reply: list[int]) -> bool:
        """Takes a reply; returns whether the episode has ended."""
        self.reply = tuple(reply)
        self.said += reply
        self.mask += [1] * len(reply)
        observation, _, terminated, truncated, self.info = self.env.step(lm.reply_text(self.reply))
        self.observations.append(observation)
        if terminated or truncated:
            return True
        chunk = lm.chunk(self.observations, self.reply)
        self.said += chunk
        self.mask += [0] * len(chunk)
        return False


class Rollout:
    """Plays the episodes that TRL asks for.

    Attributes:
        seconds: taken by each call.
        tokens: of each call: (all of the dialogues, those the model wrote).
        scores: mean of each call.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self.envs: list[EpisodeEnv] = []
        self.seconds: list[float] = []
        self.tokens: list[tuple[int, int]] = []
        self.scores: list[float] = []

    def __call__(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        begin = time.perf_counter()
        while len(self.envs) < len(prompts):
            self.envs.append(make(ENV, **ENV_KWARGS))
        games = [self._start(e, p) for e, p in zip(self.envs, prompts, strict=False)]
        live = games
        while live:
            contexts = [[*g.prompt, *g.said] for g in live]
            replies, _ = trainer._generate_single_turn(contexts, None, {}, 1)
            live = [g for g, r in zip(live, replies, strict=True) if not g.answer(self.lm, r)]
        self.seconds.append(time.perf_counter() - begin)
        written = sum(sum(g.mask) for g in games)
        self.tokens.append((sum(len(g.prompt) + len(g.said) for g in games), written))
        scores = [float(g.info["score"]) for g in games]
        self.scores.append(sum(scores) / len(scores))
        return {
            "prompt_ids": [list(g.prompt) for g in games],
            "completion_ids": [g.said for g in games],
            "env_mask": [g.mask for g in games],
            "logprobs": None,  # type: ignore[dict-item]  # TRL computes them where it needs them
            "score": scores,
        }

    def _start(self, env: EpisodeEnv, prompt: str) -> Game:
        index, seed = json.loads(prompt)
        observation, _ = env.reset(seed=seed, options={"split": "train", "index": index})
        return Game(env, [observation], self.lm.chunk([observation], ()))


class Clock(TrainerCallback):
    """Seconds of each iteration, from one to the next, and what was logged."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.marks: list[float] = []
        self.logs: list[dict[str, float]] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.marks.append(time.perf_counter())

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.steps == 0:
            self.marks.append(time.perf_counter())

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.logs.append(dict(kwargs["logs"]))


def reward(completions: list[str], score: list[float], **_: Any) -> list[float]:
    """What the environment said of each episode."""
    return score


def main(
    model: str,
    starts: str,
    iterations: int,
    minibatch: int,
    step: int,
    lr: float,
    max_reply_tokens: int,
    group: int,
    out: str,
) -> None:
    """Trains; `step` episodes go into an optimiser step, `minibatch` into a forward pass."""
    prompts = [json.dumps(s) for s in json.loads(Path(starts).read_text())]
    episodes = len(prompts) * group // iterations
    lm = LanguageModel.load(model)
    tokenizer = lm.tokenizer
    tokenizer.padding_side = "left"
    before = [p.detach().clone() for p in lm.model.parameters()]
    rollout, clock = Rollout(lm), Clock(episodes // step)
    config = GRPOConfig(
        output_dir=out,
        use_cpu=True,
        bf16=False,
        activation_checkpointing=False,
        per_device_train_batch_size=minibatch,
        gradient_accumulation_steps=step // minibatch,
        steps_per_generation=episodes // minibatch,
        num_generations=group,
        num_iterations=1,
        max_steps=iterations * (episodes // step),
        max_completion_length=max_reply_tokens,  # of a reply: `rollout_func` is not cut
        temperature=1.0,
        beta=0.0,
        epsilon=0.2,
        learning_rate=lr,
        lr_scheduler_type="constant",
        adam_beta2=0.95,
        max_grad_norm=1.0,
        shuffle_dataset=False,
        save_strategy="no",
        report_to="none",
        logging_steps=episodes // step,
        disable_tqdm=True,
        seed=0,
    )
    trainer = GRPOTrainer(
        model=lm.model,
        reward_funcs=reward,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=tokenizer,
        callbacks=[clock],
        rollout_func=rollout,
    )
    trainer.train()
    moved = sum(
        float((a.detach() - b).square().sum())
        for a, b in zip(lm.model.parameters(), before, strict=True)
    )
    spans = [b - a for a, b in pairwise(clock.marks)]
    rows = [
        Row("iteration", "s", spans),
        Row("collect", "s", rollout.seconds),
        Row("tokens", "tokens", [float(t) for t, _ in rollout.tokens]),
        Row("action tokens", "tokens", [float(a) for _, a in rollout.tokens]),
        Row("score", "", rollout.scores),
        Row("loss", "", [x["loss"] for x in clock.logs if "loss" in x]),
        Row("grad norm", "", [x["grad_norm"] for x in clock.logs if "grad_norm" in x]),
        Row("weights moved", "", [moved**0.5]),
        Row("threads", "", [float(torch.get_num_threads())]),
    ]
    print(dump(rows))


if __name__ == "__main__":
    a = sys.argv[1:]
    main(a[0], a[1], int(a[2]), int(a[3]), int(a[4]), float(a[5]), int(a[6]), int(a[7]), a[8])
