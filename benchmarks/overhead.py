"""Where the time of an iteration goes: `python benchmarks/overhead.py`.

The demo's settings: 256 episodes, Follow the Winners, the tiny base. The parts that take
time are timed from outside, each without what it calls of the others.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from trainer_speed import machine, tiny

from ftw_agents.config import TrainConfig
from ftw_agents.lm.base import BaseConfig
from ftw_agents.lm.learner import Learner
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_agents.train import Trainer

MODEL = (
    "collection: forward",
    "update: forward",
    "update: backward",
    "update: clipping and Adam",
)


class Stopwatch:
    """Time by label; a labelled call within another counts for itself only."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._open: list[str] = []
        self._mark = 0.0

    def _switch(self) -> None:
        now = time.perf_counter()
        if self._open:
            label = self._open[-1]
            self.seconds[label] = self.seconds.get(label, 0.0) + now - self._mark
        self._mark = now

    @contextmanager
    def patched(self, places: Sequence[tuple[Any, str, str]]) -> Iterator[None]:
        """Times calls of (owner, attribute, label); "forward" is told by what calls it."""
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        for owner, name, label in places:
            setattr(owner, name, self._timed(getattr(owner, name), label))
        try:
            yield
        finally:
            for owner, name, function in before:
                setattr(owner, name, function)

    def _timed(self, function: Callable[..., Any], label: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            name = label
            if label == "forward":
                learning = any(x.startswith("update") for x in self._open)
                name = f"{'update' if learning else 'collection'}: forward"
            self._switch()
            self._open.append(name)
            try:
                return function(*args, **kwargs)
            finally:
                self._switch()
                self._open.pop()

        return timed


def overhead(lm: LanguageModel, iterations: int) -> dict[str, float]:
    """Seconds an iteration of the demo's settings by what they go to, without evaluations.

    The first iteration does not count; a checkpoint is written in every tenth, as by default.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = TrainConfig(
            env_args=BaseConfig().env_args,
            out=Path(folder) / "run",
            iterations=10**6,
            eval_every=10**6,
            eval_episodes=16,
        )
        trainer = Trainer.start(config, lm)
        trainer.run(stop_at=1)
        env = type(trainer.collector.env)
        watch = Stopwatch()
        places = (
            (Trainer, "_iterate", "collection: records and the rest"),
            (Trainer, "_log", "log and checkpoint"),
            (Trainer, "save", "log and checkpoint"),
            (LMAgent, "act", "collection: tokens and sampling"),
            (env, "step", "environment"),
            (env, "reset", "environment"),
            (type(trainer.algorithm), "batch", "filter"),
            (LanguageModel, "hidden", "forward"),
            (LanguageModel, "logits", "forward"),
            (Learner, "step", "update: batches, loss, statistics"),
            (torch.Tensor, "backward", "update: backward"),
            (torch.nn.utils, "clip_grad_norm_", "update: clipping and Adam"),
            (trainer.learner.optimizer, "step", "update: clipping and Adam"),
        )
        with watch.patched(places):
            trainer.run(stop_at=1 + iterations)
    return {label: s / iterations for label, s in sorted(watch.seconds.items())}


def print_overhead(seconds: dict[str, float]) -> None:
    """A table of shares."""
    total = sum(seconds.values())
    print(f"an iteration of 256 episodes, FTW: {total:.2f} s")
    for label, s in sorted(seconds.items(), key=lambda x: -x[1]):
        kind = "model" if label in MODEL else ""
        print(f"  {label:36} {1e3 * s:8.0f} ms {s / total:7.1%}  {kind}")
    outside = sum(s for label, s in seconds.items() if label not in MODEL)
    print(f"  outside the model: {outside / total:.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=10, help="of which the mean is taken")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    print(machine(), flush=True)
    seconds = overhead(tiny(), args.iterations)
    print_overhead(seconds)
    if args.json:
        report = {"machine": machine(), "seconds": seconds}
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
