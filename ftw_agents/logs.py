"""Where metrics go beside metrics.jsonl: TensorBoard's files, or trackio's local store."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from ftw_agents.run_folder import Metrics

PROJECT = "ftw-suite"
"""The project in trackio that holds all runs."""


class Log(Protocol):
    """Takes the metrics of each iteration as it ends."""

    def write(self, metrics: Metrics) -> None:
        """Adds an iteration."""

    def close(self) -> None:
        """Ends the log."""


def open_log(name: str, run: Path, config: dict[str, Any], past: Sequence[Metrics]) -> Log:
    """The log of a run, holding its past iterations once each.

    Args:
        name: "tensorboard" or "trackio".
        run: the run's folder.
        config: its settings, for a log that shows them.
        past: metrics of the iterations done.
    """
    if name == "tensorboard":
        return TensorBoard(run / "tensorboard", past)
    return Trackio(run, config, past)


def _numbers(metrics: Metrics) -> dict[str, float]:
    return {k: v for k, v in metrics.items() if isinstance(v, int | float) and k != "iteration"}


class TensorBoard:
    """Event files. What they hold of iterations that are done again is marked as void."""

    def __init__(self, folder: Path, past: Sequence[Metrics]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        fresh = not folder.exists()
        self._writer = SummaryWriter(str(folder), purge_step=None if fresh else len(past))
        for metrics in past if fresh else ():
            self.write(metrics)

    def write(self, metrics: Metrics) -> None:
        """Adds an iteration; once a checkpoint follows, no kill can lose it."""
        step = metrics["iteration"]
        for key, value in _numbers(metrics).items():
            self._writer.add_scalar(key, value, step)
        for warning in metrics.get("warnings", ()):
            self._writer.add_text("warnings", warning, step)
        self._writer.flush()

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()


class Trackio:
    """A run in trackio's local store. Opening it replaces what the store holds of this run."""

    def __init__(self, run: Path, config: dict[str, Any], past: Sequence[Metrics]) -> None:
        import trackio

        place = str(run.resolve())
        name = f"{run.name}-{sha256(place.encode()).hexdigest()[:8]}"
        try:
            runs = list(trackio.Api().runs(PROJECT))
        except ValueError:  # the first run of the project
            runs = []
        for old in runs:
            if old.name == name:
                old.delete()
        self._finish = trackio.finish
        self._run = trackio.init(
            PROJECT, name=name, config=config, embed=False, auto_log_gpu=False, auto_log_cpu=False
        )
        for metrics in past:
            self.write(metrics)

    def write(self, metrics: Metrics) -> None:
        """Adds an iteration."""
        self._run.log(_numbers(metrics), step=metrics["iteration"])

    def close(self) -> None:
        """Waits until everything is stored."""
        self._finish()
