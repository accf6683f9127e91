"""Runs of `ftw train` that kill themselves at a given point: a helper of test_known_bugs_runs.

    python killed_runs.py jobs.json results.json model

Jobs are run one after another, each in a process forked from this one, so that what takes
long to import is imported once. Progress is counted in ticks: a tick is a turn played, a
gradient step, or something written, moved or deleted.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

import ftw_agents.train  # noqa: F401
from ftw_agents import cli
from ftw_agents.lm.learner import Learner
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_envs.episode import EpisodeWriter

WATCHED: tuple[tuple[Any, str], ...] = (
    (LMAgent, "act"),
    (Learner, "step"),
    (LanguageModel, "save"),
    (torch, "save"),
    (EpisodeWriter, "write"),
    (os, "fsync"),
    (Path, "rename"),
    (Path, "replace"),
    (Path, "unlink"),
    (shutil, "rmtree"),
)


class Ticks:
    """Counts, kills, and throws the global generators about.

    Attributes:
        count: ticks so far.
        first: their number when the first checkpoint of a trained policy was there.
    """

    def __init__(self, run: Path, kill_at: int | None, scramble: bool) -> None:
        self.run, self.kill_at, self.scramble = run, kill_at, scramble
        self.count = 0
        self.first: int | None = None
        for owner, name in WATCHED:
            setattr(owner, name, self.watched(getattr(owner, name)))

    def watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.tick()
            return function(*args, **kwargs)

        return call

    def tick(self) -> None:
        self.count += 1
        if self.first is None and any((self.run / "checkpoints").glob("[0-9]*[1-9]")):
            self.first = self.count
        if self.scramble:
            seed = 1000 + self.count
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def child(job: dict[str, Any], report: Path) -> None:
    """One run; never returns."""
    code = 1
    try:
        out = os.open(f"{report}.log", os.O_WRONLY | os.O_CREAT)
        os.dup2(out, 1)
        os.dup2(out, 2)
        setattr(Figure, "savefig", lambda *args, **kwargs: None)  # noqa: B010 - takes long
        ticks = Ticks(Path(job["run"]), job["kill_at"], job["scramble"])
        cli.main(["train", *job["args"]])
        report.write_text(json.dumps({"ticks": ticks.count, "first": ticks.first}))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(jobs: Path, results: Path, model: Path) -> None:
    torch.set_num_threads(1)  # threads do not survive a fork
    LanguageModel.load(model)  # makes what would be imported and compiled in each child
    done: list[dict[str, Any]] = []
    for i, job in enumerate(json.loads(jobs.read_text())):
        report = results.with_name(f"{results.stem}-{i}.json")
        if not (pid := os.fork()):
            child(job, report)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        told = json.loads(report.read_text()) if code == 0 else {}
        log = Path(f"{report}.log").read_text(errors="replace")
        done.append({"code": code, "log": log[-2000:], **told})
    results.write_text(json.dumps(done))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
