"""The commands `ftw submit` and `ftw verify`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro
from rich.markup import escape

from ftw_agents.console import bar, console

if TYPE_CHECKING:
    from leaderboards.schema import Verified
    from leaderboards.verify import Report

# What takes long to import is imported by the command that needs it.


def submit(
    runs: tyro.conf.Positional[tuple[Path, ...]] = (),
    *,
    board: str | None = None,
    about: Path | None = None,
    out: Path = Path("leaderboards/entries"),
    evaluation: str = "test",
    slug: str | None = None,
    date: str | None = None,
    jobs: int = 1,
    rounds: Path = Path("leaderboards/rounds"),
    example: bool = False,
) -> None:
    """Makes an entry for a leaderboard from runs, and verifies it.

    Every figure is taken from the runs; figures that do not follow from the episodes are refused.

    Args:
        runs: folders of training runs, one for each seed, with an evaluation in each; or the
            evaluation of what was not trained.
        board: name of the board; it says what has to be played.
        about: file that tells what no folder tells; --example prints one.
        out: folder of entries; the entry gets a folder of its own below that of the version.
        evaluation: name of the evaluation's folder in that of each run.
        slug: name of the entry's folder; made of board, method, model and date if not given.
        date: of the submission, YYYY-MM-DD; today if not given.
        jobs: processes that play the episodes again.
        rounds: folder of the sealed rounds.
        example: prints an about file to begin with, and does nothing else.
    """
    from leaderboards.about import EXAMPLE, read_about
    from leaderboards.boards import BOARDS
    from leaderboards.replays import Workers
    from leaderboards.runs import source_of
    from leaderboards.submit import submit as pack

    if example:
        print(json.dumps(EXAMPLE, indent=2))
        return
    if not runs:
        raise ValueError("which runs? Give their folders: ftw submit runs/0 runs/1 --board ...")
    if board is None:
        raise ValueError(f"which --board? There are {', '.join(BOARDS)}")
    if about is None:
        raise ValueError("--about FILE is needed; ftw submit --example prints one to begin with")
    sources = [source_of(run, evaluation) for run in runs]
    day = date or datetime.now(UTC).date().isoformat()
    with Workers(jobs) as workers, _progress("play again") as progress:
        folder, verified = pack(
            sources, board, read_about(about), out,
            date=day, slug=slug, workers=workers, rounds=rounds, progress=progress,
        )  # fmt: skip
    _say(f"entry: {escape(str(folder))}\n{_summary(verified)}", verified.warnings)


def verify(
    paths: tyro.conf.Positional[tuple[Path, ...]],
    *,
    write: bool = False,
    format: Literal["rich", "json", "github"] = "rich",
    jobs: int = os.cpu_count() or 1,
    verified: Path = Path("leaderboards/verified"),
    rounds: Path = Path("leaderboards/rounds"),
) -> None:
    """Plays every reply of entries again and recomputes every figure; shown are those alone.

    Exit code 0 if all is well, 1 if anything is wrong, 2 if all is well but for what is worth
    knowing: a claim that is not what was found, few seeds, replies or names like those of
    another entry.

    Args:
        paths: folders of entries, or folders of those.
        write: writes what was found to the folder of verified entries; a file there is never
            changed.
        format: for people, for programs, or as notes of a GitHub workflow.
        jobs: processes that play.
        verified: folder of verified entries, which names and replies are compared with.
        rounds: folder of the sealed rounds.
    """
    from leaderboards.replays import Workers
    from leaderboards.verified import read_verified
    from leaderboards.verify import entries_in
    from leaderboards.verify import verify as check

    reports: list[Report] = []
    try:
        known = read_verified(verified)
        folders = [folder for path in paths for folder in entries_in(path)]
        with Workers(jobs) as workers:
            for folder in folders:
                with _progress(folder.name, shown=format == "rich") as progress:
                    report = check(
                        folder, workers=workers, rounds=rounds, known=known, progress=progress
                    )
                if report.verified is not None:
                    known.append(report.verified)
                    report = _written(report, verified) if write else report
                reports.append(report)
                _WRITERS[format](report)
    except (ValueError, OSError) as e:  # not exit code 2, which here says that all is well
        print(f"ftw: {e}", file=sys.stderr)
        raise SystemExit(1) from None
    if format == "json":
        print(json.dumps([_data(report) for report in reports], indent=1))
    if any(report.problems for report in reports):
        raise SystemExit(1)
    if any(report.warnings for report in reports):
        raise SystemExit(2)


def _written(report: Report, folder: Path) -> Report:
    """Writes what was found; that it cannot be written is a problem of the entry.

    Not yet of a sealed round whose key is not revealed: its tier is still to be seen, and what
    is written does not change.
    """
    from leaderboards.verified import write_verified

    assert report.verified is not None
    if report.verified.entry.round is not None and report.verified.tier == "T1":
        return report
    try:
        write_verified(folder, report.verified)
    except ValueError as e:
        return replace(report, problems=(str(e),), verified=None)
    return report


@contextmanager
def _progress(label: str, shown: bool = True) -> Iterator[Callable[[int, int], None]]:
    """A bar in percent."""
    if not shown:
        yield lambda done, total: None
        return
    with bar(label[:30], 100) as tell:
        yield lambda done, total: tell(100 * done // total, "")


def _summary(verified: Verified) -> str:
    """One line: who plays what, and how well."""
    entry, runs = verified.entry, verified.runs
    model = f" with {escape(entry.model.name)}" if entry.model else ""
    rates = [run.figures.solve_rate for run in runs]
    range_ = f" ({min(rates):.1%} to {max(rates):.1%})" if len(runs) > 1 else ""
    return (
        f"[green]VERIFIED[/green] {verified.tier} {escape(entry.method.name)}{model} on "
        f"{entry.board}: {len(runs)} {'runs' if len(runs) > 1 else 'run'} of "
        f"{runs[0].figures.episodes}, solve rate {sum(rates) / len(rates):.1%}{range_}"
    )


def _say(text: str, warnings: Sequence[str]) -> None:
    console.print(text, soft_wrap=True)
    for warning in warnings:
        console.print(f"  [yellow]warning:[/yellow] {escape(warning)}", soft_wrap=True)


def _rich(report: Report) -> None:
    if report.verified is not None:
        _say(_summary(report.verified), report.warnings)
        return
    console.print(f"[red]FAILED[/red] {escape(str(report.folder))}", soft_wrap=True)
    for problem in report.problems:
        console.print(f"  {escape(problem)}", soft_wrap=True)


def _github(report: Report) -> None:
    for kind, lines in (("error", report.problems), ("warning", report.warnings)):
        for line in lines:
            text = line.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
            print(f"::{kind} title={report.folder.name[:63]}::{text}")
    if report.verified is not None:
        print(f"verified {report.folder.name[:63]}: {report.verified.entry.entry_id}")


def _data(report: Report) -> dict[str, Any]:
    found = report.verified
    return {
        "folder": str(report.folder),
        "problems": list(report.problems),
        "warnings": list(report.warnings),
        "entry_id": found and found.entry.entry_id,
        "tier": found and found.tier,
        "runs": [
            {"run": run.run, **run.figures.model_dump()} for run in (found.runs if found else [])
        ],
    }


_WRITERS: dict[str, Callable[[Report], None]] = {
    "rich": _rich,
    "json": lambda report: None,
    "github": _github,
}
