"""How fast the trainer's parts are: `python benchmarks/trainer_speed.py`.

Collection is held against `generate` of transformers called in each turn, the update against
a plain forward and backward pass of transformers, each with the same model, episodes and
batches, in turns within one process.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from measure import Row
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from ftw_agents.agent import Agent, History, Reply
from ftw_agents.collect import Collector
from ftw_agents.lm.base import BaseConfig, load_base
from ftw_agents.lm.learner import Learner, Sample, StepStats
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import training_starts
from ftw_envs.episode import Episode

MAX_REPLY = 8
UNMOVED = 1e-12  # a learning rate that lets every repeat start from the same weights


def machine() -> str:
    """What the figures were measured on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    cpu = next((x.split(": ", 1)[1] for x in lines if x.startswith("model name")), "unknown CPU")
    return (
        f"{os.cpu_count()} cores of {cpu}, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}"
    )


def tiny() -> LanguageModel:
    """The tiny base, from the cache if it is there."""
    return load_base(BaseConfig(), lambda step, steps, loss: None)


def interleaved(tasks: dict[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """What each task returns, `repeats` times, in turns; a first round does not count."""
    found: dict[str, list[float]] = {name: [] for name in tasks}
    for r in range(repeats + 1):
        for name, task in tasks.items():
            value = task()
            if r:
                found[name].append(value)
    return found


@dataclass(frozen=True)
class Result:
    """Rates of the same work done in several ways; the first is ours.

    Attributes:
        note: what was checked.
        ok: whether it held.
    """

    what: str
    rows: list[Row]
    note: str
    ok: bool

    def __str__(self) -> str:
        best = max(self.rows[1:], key=Row.figure)
        ratio = self.rows[0].figure() / best.figure()
        lines = [self.what, *(f"  {row}" for row in self.rows)]
        return "\n".join([*lines, f"  ratio to {best.key}: {ratio:.2f}; {self.note}"])


# Collection.


class GenerateAgent:
    """Plays with `generate` of transformers: each turn reads the whole dialogue again.

    Args:
        cache: which cache of transformers `generate` uses within a turn.
    """

    def __init__(self, lm: LanguageModel, temperature: float, cache: str) -> None:
        self.lm = lm
        sampling = {"temperature": temperature, "top_k": 0} if temperature else {}
        self.config = GenerationConfig(
            max_new_tokens=MAX_REPLY,
            do_sample=temperature > 0,
            eos_token_id=sorted(lm.stop_ids),
            pad_token_id=lm.tokenizer.pad_token_id,
            use_cache=True,
            cache_implementation=None if cache == "dynamic" else cache,
            disable_compile=True,
            **sampling,
        )

    @torch.inference_mode()
    def act(self, histories: Sequence[History]) -> list[Reply]:
        """One sampled reply for each history; log-probabilities are left out."""
        prompts = [
            self.lm.chunk(h.observations, h.replies[-1].ids if h.replies else ()) for h in histories
        ]
        contexts = [
            [t for r in h.replies for t in (*r.prompt_ids, *r.ids)] + list(p)
            for h, p in zip(histories, prompts, strict=True)
        ]
        width = max(map(len, contexts))
        pad = self.config.pad_token_id
        out = self.lm.model.generate(
            input_ids=torch.tensor([[pad] * (width - len(c)) + c for c in contexts]),
            attention_mask=torch.tensor([[0] * (width - len(c)) + [1] * len(c) for c in contexts]),
            generation_config=self.config,
        )
        return [self._reply(p, r) for p, r in zip(prompts, out[:, width:].tolist(), strict=True)]

    def _reply(self, prompt: tuple[int, ...], row: list[int]) -> Reply:
        end = next((i + 1 for i, t in enumerate(row) if t in self.lm.stop_ids), len(row))
        ids = tuple(row[:end])
        return Reply(self.lm.reply_text(ids), prompt, ids, (0.0,) * end)


def collection(lm: LanguageModel, batches: list[int], repeats: int) -> Iterator[Result]:
    """Episodes per second of SokobanMini, greedy (the very same work) and sampled."""
    for batch in batches:
        collector = Collector("ftw/SokobanMini-v0", {"obs": "coords"}, batch)
        starts = training_starts(collector.env, 0, 1, max(batch, 64))
        for temperature in (0.0, 1.0):
            agents: dict[str, Agent] = {
                "ours": LMAgent(lm, temperature=temperature, max_reply_tokens=MAX_REPLY),
                "generate": GenerateAgent(lm, temperature, "dynamic"),
                "generate, static cache": GenerateAgent(lm, temperature, "static"),
            }
            played: dict[str, list[Episode]] = {}

            def task(name: str, agents: Any, played: Any, c: Any, starts: Any) -> float:
                begin = time.perf_counter()
                played[name] = list(c.play(agents[name], starts))
                return len(starts) / (time.perf_counter() - begin)

            tasks = {
                name: lambda n=name, a=agents, p=played, c=collector, s=starts: task(n, a, p, c, s)
                for name in agents
            }
            rates = interleaved(tasks, repeats)
            how = "sampled" if temperature else "greedy"
            yield Result(
                f"collection, {how}, {len(starts)} episodes, {batch} at a time",
                [Row(name, "episodes/s", values) for name, values in rates.items()],
                *_compare(played, greedy=not temperature),
            )


def _compare(played: dict[str, list[Episode]], *, greedy: bool) -> tuple[str, bool]:
    """A line about the episodes, and whether greedy ones are the same token for token."""
    ours, *others = played.values()
    if not greedy:
        written = [sum(e.tokens_out for e in some) / len(some) for some in (ours, *others)]
        return "tokens written an episode: " + ", ".join(f"{w:.1f}" for w in written), True
    tokens = [e.tokens for e in ours]
    assert all(t is not None for t in tokens)
    same = all(
        (a.tokens.ids, a.tokens.action) == (b.tokens.ids, b.tokens.action)  # type: ignore[union-attr]
        for some in others
        for a, b in zip(ours, some, strict=True)
    )
    written = sum(e.tokens_out for e in ours)
    return f"all {written:,} tokens of replies {'equal' if same else 'NOT equal'}", same


# Update.


class PlainLearner:
    """Adam on padded batches, as one writes it with transformers."""

    def __init__(self, lm: LanguageModel, lr: float, max_grad_norm: float) -> None:
        self.model = lm.model
        self.max_grad_norm = max_grad_norm
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr, betas=(0.9, 0.95))

    def step(self, batch: Sequence[Sample], norm: float) -> None:
        """One step; `norm` as in `Learner.step`."""
        width = max(len(x.tokens.ids) for x in batch)
        ids = torch.zeros((len(batch), width), dtype=torch.long)
        mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
        for i, x in enumerate(batch):
            row = torch.tensor(x.tokens.ids)
            ids[i, : len(row)], mask[i, : len(row)] = row, 1
            labels[i, : len(row)] = row.where(torch.tensor(x.tokens.action) == 1, -100)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(
            input_ids=ids,
            attention_mask=mask,
            labels=labels,
            num_items_in_batch=norm,
            use_cache=False,
        ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
        self.optimizer.step()


def larger(lm: LanguageModel) -> LanguageModel:
    """An untrained model of width 128 with 4 layers and 512 tokens."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        pad_token_id=lm.tokenizer.pad_token_id,
        eos_token_id=lm.tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LanguageModel(LlamaForCausalLM(config).eval(), lm.tokenizer)


def short_and_long(lm: LanguageModel) -> dict[str, list[Sample]]:
    """256 episodes of the tiny base on 6x6, and 64 of the solver on 8x8 with 2 boxes."""
    mini = Collector("ftw/SokobanMini-v0", {"obs": "coords"})
    starts = training_starts(mini.env, 0, 1, 256)
    played = mini.play(LMAgent(lm, max_reply_tokens=MAX_REPLY), starts)
    short = [Sample(e.tokens) for e in played if e.tokens is not None]
    standard = Collector("ftw/Sokoban-v0", {"obs": "coords"})
    solved = standard.play(SolverAgent(), training_starts(standard.env, 0, 1, 64))
    return {"6x6": short, "8x8": [Sample(lm.tokenize(e)) for e in solved]}


def update(lm: LanguageModel, minibatch: int, repeats: int) -> Iterator[Result]:
    """Tokens per second of gradient steps, padding not counted."""
    for episodes, samples in short_and_long(lm).items():
        groups = [samples[i : i + minibatch] for i in range(0, len(samples), minibatch)]
        lengths = [len(x.tokens.ids) for x in samples]
        for name, model in {"tiny base": lm, "128 wide, 4 layers": larger(lm)}.items():
            yield Result(
                f"update, {name}, {len(samples)} episodes of {episodes} with {min(lengths)} to "
                f"{max(lengths)} tokens, {minibatch} a step",
                *_update(model, groups, repeats),
            )


def _update(
    lm: LanguageModel, groups: list[list[Sample]], repeats: int
) -> tuple[list[Row], str, bool]:
    mine, theirs = (LanguageModel(copy.deepcopy(lm.model), lm.tokenizer) for _ in range(2))
    ours = Learner(mine, lr=UNMOVED, max_grad_norm=1e9)  # gradients are to be compared unclipped
    plain = PlainLearner(theirs, UNMOVED, 1e9)
    norms = [float(sum(sum(x.tokens.action) for x in group)) for group in groups]
    tokens = sum(len(x.tokens.ids) for group in groups for x in group)

    worst = 0.0
    for group, norm in zip(groups, norms, strict=True):
        ours.step(group, norm, StepStats())
        plain.step(group, norm)
        a, b = (_gradient(x) for x in (mine, theirs))
        worst = max(worst, float((a - b).abs().max() / b.norm()))

    def timed(step: Callable[[list[Sample], float], None]) -> float:
        begin = time.perf_counter()
        for group, norm in zip(groups, norms, strict=True):
            step(group, norm)
        return tokens / (time.perf_counter() - begin)

    rates = interleaved(
        {
            "ours": lambda: timed(lambda g, n: ours.step(g, n, StepStats())),
            "transformers": lambda: timed(plain.step),
        },
        repeats,
    )
    rows = [Row(name, "tokens/s", values) for name, values in rates.items()]
    note = f"gradients differ by at most {worst:.1e} of their norm"
    return rows, note, worst < 1e-4


def _gradient(lm: LanguageModel) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in lm.model.parameters()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("collection", "update")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)}")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--minibatch", type=int, default=32, help="episodes in a gradient step")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    if unknown := set(args.parts) - set(parts):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    chosen = args.parts or list(parts)

    print(machine(), flush=True)
    lm = tiny()
    results: list[Result] = []
    runs = {
        "collection": lambda: collection(lm, args.batches, args.repeats),
        "update": lambda: update(lm, args.minibatch, args.repeats),
    }
    for part in (p for p in runs if p in chosen):
        for result in runs[part]():
            print(result, flush=True)
            results.append(result)
    if args.json:
        report = {"machine": machine(), "results": [asdict(r) for r in results]}
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    if not all(r.ok for r in results):
        raise SystemExit("the outputs or gradients of the two sides differ")


if __name__ == "__main__":
    main()
