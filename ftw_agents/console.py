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
    ProgressColumn,
    Task,
    TextColumn,
)
from rich.text import Text

console = Console()


class TimeLeft(ProgressColumn):
    """Time left at the mean speed since the bar began; what was done before does not count."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """The time as minutes:seconds or hours and minutes; at the end, the time it took."""
        begin, at = task.fields["begin"], task.fields["at"]
        if task.finished:
            return Text(_clock(task.finished_time or 0.0))
        if task.completed <= begin:
            return Text("-:--")
        # `at` is when the last step ended; time has passed since.
        left = at / (task.completed - begin) * (task.remaining or 0.0)
        return Text(_clock(max(0.0, left - ((task.elapsed or 0.0) - at))))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}h{minutes % 60:02d}m" if minutes >= 60 else f"{minutes}:{rest:02d}"


@contextmanager
def bar(label: str, total: int, begin: int = 0) -> Iterator[Callable[[int, str], None]]:
    """A progress bar; gives a function that takes how much is done and a note beside it.

    Args:
        begin: how much is done already.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=5),
        MofNCompleteColumn(),
        TimeLeft(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(label, total=total, completed=begin, note="", begin=begin, at=0.0)

        def tell(done: int, note: str) -> None:
            elapsed = progress.tasks[0].elapsed or 0.0
            progress.update(task, completed=done, note=note, at=elapsed)

        yield tell


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
        ("{:.0f}k t/s", metrics["tokens_per_second"] / 1000),
    ]
    return " ".join(form.format(value) for form, value in parts if value is not None)
