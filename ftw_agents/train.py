"""The training loop: collect, choose, imitate, evaluate now and then.

A run is a folder, see `run_folder`. All randomness is named by the run's seed and the
iteration, so a run resumed from a checkpoint goes on as if it had never stopped.
"""

from __future__ import annotations

import gc
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import torch

from ftw_agents.algorithms import KINDS
from ftw_agents.algorithms.base import LearningBatch
from ftw_agents.collect import Collector
from ftw_agents.config import TrainConfig, parse_env_args
from ftw_agents.health import new_warnings
from ftw_agents.lm.learner import Learner, StepStats
from ftw_agents.lm.lora import add_adapters, load_adapters
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_agents.logs import Log, open_log
from ftw_agents.plots import plot_run
from ftw_agents.results import Summary, Tally, summarise
from ftw_agents.run_folder import Metrics, RunFolder, best_exam, newest_checkpoint
from ftw_agents.starts import evaluation_starts
from ftw_envs.episode import Episode
from ftw_envs.files import write_json
from ftw_envs.registry import make
from ftw_envs.streams import Stream

TIMES = ("seconds", "tokens_per_second")
"""Metrics that tell of the machine, not of the run; they differ when it is repeated."""


class Progress(Protocol):
    """Gets the metrics of each iteration as it ends."""

    def __call__(self, metrics: Metrics) -> None: ...


def check_settings(config: TrainConfig) -> None:
    """Refuses settings that cannot work. Raises ValueError with what would be right."""
    config.check()
    KINDS[config.algo].check(config, make(config.env, **parse_env_args(config.env_args)))


def check_start(config: TrainConfig) -> None:
    """Refuses a new run that cannot start, before a model is made or loaded for it.

    Raises:
        ValueError: the folder exists, or a setting cannot work.
    """
    if config.out.exists():
        raise ValueError(f"{config.out} exists already; use --resume {config.out} or --out")
    check_settings(config)


class Trainer:
    """One run.

    Args:
        config: its settings, as `check_settings` accepts them.
        lm: the model to fine-tune, updated in place.

    Raises:
        ValueError: a setting that cannot work, with what would be right.
    """

    def __init__(self, config: TrainConfig, lm: LanguageModel) -> None:
        self.config = config
        self.folder = RunFolder(config.out, config.keep_checkpoints)
        self.lm = lm
        self.collector = Collector(config.env, parse_env_args(config.env_args), config.episodes)
        self.exam = evaluation_starts(self.collector.env, "valid", config.eval_episodes, seed=0)
        self.agent = LMAgent(lm, max_reply_tokens=config.max_reply_tokens)
        self.kind = KINDS[config.algo]
        if config.lora.rank:
            add_adapters(lm.model, config.lora, config.seed)
        self.algorithm = self.kind.make(config, self.collector.env)
        self.learner = Learner(
            lm,
            lr=config.lr,
            optimizer=config.optimizer,
            loss=self.kind.loss(config),
            max_grad_norm=config.max_grad_norm,
        )
        self.iteration = 0
        self.metrics: list[Metrics] = []
        self._logs: list[Log] = []

    @classmethod
    def start(cls, config: TrainConfig, lm: LanguageModel) -> Trainer:
        """A new run in a new folder.

        Raises:
            ValueError: the folder exists, or a setting cannot work.
        """
        check_start(config)
        trainer = cls(config, lm)
        write_json(config.out / "config.json", config.to_json())
        pulled_back = trainer.kind.policy_gradient and config.clip.kl
        if pulled_back or config.lora.rank:
            lm.save(config.out / "reference")
        if pulled_back:
            trainer.learner.anchor()
        before = trainer._examine()
        trainer._log({"iteration": 0, "episodes": 0, "tokens": 0, **before})
        trainer.save()
        return trainer

    @classmethod
    def resume(cls, run: Path) -> Trainer:
        """A run as its newest checkpoint left it.

        Raises:
            ValueError: there is no run in that folder, or no checkpoint yet.
        """
        try:
            data = json.loads((run / "config.json").read_text("utf-8"))
        except (OSError, ValueError) as e:
            raise ValueError(f"{run}: not a run ({e})") from None
        config = TrainConfig.from_json({**data, "out": str(run)})
        check_settings(config)
        checkpoint = newest_checkpoint(run)
        # With LoRA the checkpoint's model is merged; only the adapters go on exactly.
        lora = config.lora.rank > 0
        trainer = cls(config, LanguageModel.load(run / "reference" if lora else checkpoint))
        state = torch.load(checkpoint / "optimizer.pt", weights_only=True)
        trainer.learner.load_state(state)
        trainer.algorithm.load(checkpoint)
        if trainer.kind.policy_gradient and config.clip.kl:
            trainer.learner.anchor(None if lora else LanguageModel.load(run / "reference"))
        if lora:  # only now: the reference has the adapters of the start
            load_adapters(trainer.lm.model, checkpoint / "lora")
        saved = json.loads((checkpoint / "state.json").read_text("utf-8"))
        trainer.iteration = saved["iteration"]
        trainer.metrics = trainer.folder.recover(trainer.iteration, trainer.lm.save)
        return trainer

    def run(self, progress: Progress | None = None, stop_at: int | None = None) -> None:
        """Trains to the end, or until `stop_at` iterations are done."""
        config, last = self.config, self.config.iterations
        end = last if stop_at is None else min(stop_at, last)
        self._logs = [open_log(n, config.out, config.to_json(), self.metrics) for n in config.log]
        # What is loaded by now stays: walking it again and again took a tenth of the time.
        gc.collect()
        gc.freeze()
        try:
            while self.iteration < end:
                self._iterate()
                every = self.iteration % config.checkpoint_every == 0
                if every or self.iteration == last or self._is_best():
                    self.save()
                if progress is not None:
                    progress(self.metrics[-1])
        finally:
            gc.unfreeze()
            for log in self._logs:
                log.close()
        plot_run(self.metrics, config.out / "curves.png")

    def evaluate(self) -> Summary:
        """What the current policy solves of the valid split, sampled."""
        return summarise(self.collector.play(self.agent, self.exam))

    def _examine(self) -> Metrics:
        """Evaluates, and writes the first episodes as text."""
        tally = Tally()
        shown: list[Episode] = []
        for episode in self.collector.play(self.agent, self.exam):
            tally.add(episode)
            if len(shown) < self.config.sample_episodes:
                shown.append(episode)
        self.folder.write_samples(self.iteration, shown)
        summary = tally.summary()
        return {
            "valid_solve_rate": summary.solve_rate,
            "valid_low": summary.low,
            "valid_high": summary.high,
            "valid_episodes": summary.episodes,
        }

    def _log(self, metrics: Metrics) -> None:
        self.metrics.append(metrics)
        warnings = new_warnings(self.metrics)
        if warnings:
            metrics["warnings"] = warnings
        self.folder.append(metrics)
        for log in self._logs:
            log.write(metrics)

    def _is_best(self) -> bool:
        return best_exam(self.metrics) is self.metrics[-1]

    def _iterate(self) -> None:
        config, begin = self.config, time.perf_counter()
        version = self.iteration + 1
        played = list(
            self.collector.play(
                self.agent,
                self.algorithm.starts(version),
                player_seed=config.seed,
                version=version,
            )
        )
        batch = self.algorithm.batch(played, version, self.learner)
        update = self._update(batch, version)
        tokens = sum(e.tokens_in + e.tokens_out for e in played)
        seconds = time.perf_counter() - begin
        metrics: Metrics = {
            "iteration": version,
            "episodes": self.metrics[-1]["episodes"] + len(played),
            "tokens": self.metrics[-1]["tokens"] + tokens,
            **(_seen(summarise(played)) if played else {}),
            **batch.stats,
            **(update.means() if update.steps else {"skipped_steps": update.skipped}),
            "tokens_per_second": (tokens + update.tokens) / seconds,
            "seconds": seconds,
        }
        self.iteration = version
        if version % config.eval_every == 0 or version == config.iterations:
            metrics |= self._examine()
        self._log(metrics)

    def _update(self, batch: LearningBatch, version: int) -> StepStats:
        stats = StepStats()
        samples = list(batch.samples)
        if not samples:  # nothing told anything: better no step than one on noise
            return stats
        steps = max(1, round(len(samples) / self.config.minibatch))
        cuts = [round(i * len(samples) / steps) for i in range(steps + 1)]
        # Dividing by the mean weight of a step, not by its own, keeps rare episodes rare.
        norm = batch.norm / steps
        stream = Stream("minibatches", self.config.seed, version)
        if not self.kind.policy_gradient:
            self.learner.anchor()
        for _ in range(self.config.clip.epochs if self.kind.policy_gradient else 1):
            stream.shuffle(samples)
            for begin, end in pairwise(cuts):
                self.learner.step(samples[begin:end], norm, stats)
        return stats

    def save(self) -> None:
        """Writes a checkpoint, and the model as the best one if it is.

        In this order: then the best model is never newer than the newest checkpoint, and
        whatever a kill leaves of it can be written again from there.
        """
        self.folder.write_checkpoint(self.iteration, self._write_state)
        if self._is_best():
            self.folder.write_best(self.metrics[-1], self.lm.save)

    def _write_state(self, folder: Path) -> None:
        self.lm.save(folder)
        torch.save(self.learner.state(), folder / "optimizer.pt")
        self.algorithm.save(folder)
        write_json(folder / "state.json", {"iteration": self.iteration})


def _seen(summary: Summary) -> Metrics:
    return {
        "solve_rate": summary.solve_rate,
        "mean_score": summary.mean_score,
        "invalid_rate": summary.invalid_rate,
        "mean_turns": summary.mean_turns,
    }
