"""What the commands show in a terminal, with rich."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

console = Console()


@contextmanager
def bar(label: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """A progress bar; gives a function that takes how much is done and a note beside it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(label, total=total, note="")
        yield lambda done, note: progress.update(task, completed=done, note=note)


def training_note(metrics: dict[str, Any], valid: float) -> str:
    """The figures beside the bar of a training run, short enough for 80 columns.

    Solve rate of the episodes just played and of valid, share of real successes among
    the winners, effective sample size of the choice, tokens per second; what an algorithm
    does not have is left out.
    """
    parts = [
        ("solved {:.0%}", metrics.get("solve_rate")),
        ("valid {:.0%}", valid),
        ("winners {:.0%}", metrics.get("winners_solved")),
        ("ESS {:.0f}", metrics.get("effective_sample_size")),
        ("{:.0f}k tok/s", metrics["tokens_per_second"] / 1000),
    ]
    return " ".join(form.format(value) for form, value in parts if value is not None)
