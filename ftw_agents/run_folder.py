"""The files of a run. Each is written beside and renamed, so a kill leaves none half done.

A checkpoint is whole where its folder has a number for a name. Everything else follows
from the newest one and the lines of `metrics.jsonl` up to it, so `recover` can put right
whatever a kill left behind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ftw_envs.episode import Episode
from ftw_envs.files import write_bytes, write_json

Metrics = dict[str, Any]
Save = Callable[[Path], None]
"""Writes files into a folder."""

_PARTIAL, _OLD = ".partial", ".old"
_PICTURE = re.compile(r"^(?:\w+ )?sha256:[0-9a-f]{64}$", re.MULTILINE)


def checkpoints(run: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    found = [p for p in (run / "checkpoints").glob("*") if p.name.isdecimal() and p.is_dir()]
    return sorted(found, key=lambda p: int(p.name))


def newest_checkpoint(run: Path) -> Path:
    """The newest whole checkpoint of a run.

    Raises:
        ValueError: there is none.
    """
    found = checkpoints(run)
    if not found:
        raise ValueError(f"{run}: no checkpoint there")
    return found[-1]


def best_exam(metrics: Sequence[Metrics]) -> Metrics | None:
    """The evaluation with the highest valid solve rate, the oldest of equals."""
    exams = [m for m in metrics if "valid_solve_rate" in m]
    return max(exams, key=lambda m: m["valid_solve_rate"], default=None)


def episode_text(episode: Episode) -> str:
    """An episode to be read: who played what, then turn by turn. Pictures are left out."""
    instance = episode.instance
    lines = [
        f"{episode.env_id} {instance.split}/{instance.index} seed {episode.seed}: "
        f"{episode.end}, score {episode.score:g}, {len(episode.turns)} turns"
    ]
    for number, turn in enumerate(episode.turns, 1):
        taken = turn.action if turn.usable else "not understood"
        lines += [f"--- turn {number}", _words(turn.observation), f">>> {turn.reply}  [{taken}]"]
    return "\n".join([*lines, "--- end", _words(episode.final_observation)]) + "\n"


def _words(observation: str) -> str:
    return _PICTURE.sub("", observation).strip("\n") or "(a picture)"


class RunFolder:
    """Writes and reads the files of one run.

    Args:
        path: the run's folder.
        keep: how many of the newest checkpoints stay, at least 1.
    """

    def __init__(self, path: Path, keep: int = 1) -> None:
        self.path = path
        self.keep = keep

    def append(self, metrics: Metrics) -> None:
        """Adds a line to `metrics.jsonl`. Raises ValueError on NaN or Infinity."""
        line = json.dumps(metrics, allow_nan=False) + "\n"
        with open(self.path / "metrics.jsonl", "a", encoding="utf-8") as f:
            f.write(line)
            f.flush()
            os.fsync(f.fileno())

    def write_samples(self, iteration: int, episodes: Sequence[Episode]) -> None:
        """Writes whole episodes of an evaluation as text; nothing where there are none."""
        if episodes:
            text = "\n".join(episode_text(e) for e in episodes)
            write_bytes(self.path / "samples" / f"{iteration:06d}.txt", text.encode())

    def write_checkpoint(self, iteration: int, save: Save) -> None:
        """Writes a checkpoint if it is not there yet, then removes all but the newest `keep`."""
        target = self.path / "checkpoints" / f"{iteration:06d}"
        if not target.exists():  # never replaced: it may be the only one
            self._replace(target, save)
        self._prune()

    def write_best(self, exam: Metrics, save: Save) -> None:
        """Makes `best` the model of an evaluation.

        Args:
            exam: the metrics of its iteration.
            save: writes model and tokenizer.
        """
        figures = {k: v for k, v in exam.items() if k == "iteration" or k.startswith("valid_")}

        def whole(folder: Path) -> None:
            save(folder)
            write_json(folder / "best.json", figures)

        self._replace(self.path / "best", whole)

    def recover(self, iteration: int, save_model: Save) -> list[Metrics]:
        """Puts the folder in the state it had when the newest checkpoint was written.

        Args:
            iteration: of that checkpoint.
            save_model: writes its model and tokenizer.

        Returns:
            The metrics up to it; later ones belong to iterations that will be done again.

        Raises:
            ValueError: metrics are missing.
        """
        metrics = self._read_metrics(iteration)
        for folder in (self.path, self.path / "samples", self.path / "checkpoints"):
            for left in (*folder.glob(".*.partial"), *folder.glob(f".*{_OLD}")):
                _remove(left)
        lines = "".join(json.dumps(m, allow_nan=False) + "\n" for m in metrics)
        write_bytes(self.path / "metrics.jsonl", lines.encode())
        for path in (self.path / "samples").glob("*.txt"):
            if int(path.stem) > iteration:
                path.unlink()
        self._prune()
        exam = best_exam(metrics)
        if exam is not None and exam["iteration"] == iteration:
            self.write_best(exam, save_model)
        return metrics

    def _read_metrics(self, iteration: int) -> list[Metrics]:
        path = self.path / "metrics.jsonl"
        lines = path.read_text("utf-8").splitlines()[: iteration + 1]
        try:
            metrics: list[Metrics] = [json.loads(x) for x in lines]
        except ValueError as e:
            raise ValueError(f"{path}: a line before the checkpoint is not JSON ({e})") from None
        if [m["iteration"] for m in metrics] != list(range(iteration + 1)):
            raise ValueError(
                f"{path}: needs one line for each iteration from 0 to the checkpoint's, {iteration}"
            )
        return metrics

    def _replace(self, target: Path, save: Save) -> None:
        """Writes a folder under another name and renames it; an older one goes last."""
        partial = target.with_name(f".{target.name}{_PARTIAL}")
        old = target.with_name(f".{target.name}{_OLD}")
        _remove(partial)
        partial.mkdir(parents=True)
        save(partial)
        if target.exists():
            _remove(old)
            target.rename(old)
        partial.rename(target)
        _remove(old)

    def _prune(self) -> None:
        for path in checkpoints(self.path)[: -self.keep]:
            # A folder that is half removed must not look like a checkpoint.
            old = path.with_name(f".{path.name}{_OLD}")
            path.rename(old)
            _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
