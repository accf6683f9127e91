"""How fast entries are verified, beside playing the same episodes live with the same replies.

python benchmarks/verify_speed.py                       # an entry of each kind is made first
python benchmarks/verify_speed.py --entry leaderboards/entries/0.1.0/NAME

"Live" plays the recorded replies with `Collector`, as `ftw evaluate` does, and writes nothing;
"verify" reads, checks and replays the entry whole, in one process. Both count processor time, so
that what else the machine does matters little. Memory is the largest resident size of a process
that verifies, above that of one that has only imported the same modules.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import tyro

from ftw_agents.agent import History, Reply
from ftw_agents.collect import Collector
from ftw_agents.config import parse_env_args
from ftw_agents.evaluate import evaluate, load_player
from ftw_agents.starts import evaluation_starts
from leaderboards.about import EXAMPLE, About
from leaderboards.boards import PUBLIC_SEED, board_of
from leaderboards.folder import EPISODES, MAX_BYTES, read_folder
from leaderboards.replays import MAX_LINE, Workers
from leaderboards.runs import Source
from leaderboards.strict import lines
from leaderboards.submit import submit
from leaderboards.verify import verify

PLAYERS = (
    ("sokoban-mini", "random"), ("sokoban-mini", "solver"), ("sokoban", "solver"),
    ("sigma-trap", "random"), ("incident-l1", "expert"), ("incident-l3", "expert"),
)  # fmt: skip


class Recorded:
    """Answers what was recorded of each instance."""

    def __init__(self, replies: dict[int, list[str]]) -> None:
        self.replies = replies

    def act(self, histories: Sequence[History]) -> list[Reply]:
        """One reply for each history, in order."""
        found = []
        for h in histories:
            assert h.env.instance is not None
            found.append(Reply(self.replies[h.env.instance.index][len(h.replies)]))
        return found


def made(folder: Path, board_name: str, player: str) -> Path:
    """An entry of a scripted player."""
    board, out = board_of(board_name), folder / f"{board_name}-{player}"
    evaluate(
        load_player(player, board.env_id), board.env_id, {}, split=board.split,
        episodes=board.episodes, seed=PUBLIC_SEED, out=out,
    )  # fmt: skip
    scripted = {"method": {"name": player, "family": "scripted"}, "model": None, "training": None}
    about = About.model_validate(EXAMPLE | scripted)
    return submit([Source(out)], board_name, about, folder / "entries", date="2026-12-01")[0]


def live(entry: Path) -> float:
    """Episodes a second of processor time, played with `Collector`."""
    read = read_folder(entry)
    board = board_of(read.entry.board)
    collector = Collector(board.env_id, parse_env_args(read.entry.view))
    starts = evaluation_starts(collector.env, board.split, board.episodes, PUBLIC_SEED)
    done, spent = 0, 0.0
    for run in read.entry.runs:
        rows = lines(read.episodes(run), MAX_BYTES[EPISODES], MAX_LINE)
        agent = Recorded({row["index"]: row["replies"] for _, row in rows})
        begin = time.process_time()
        done += sum(1 for _ in collector.play(agent, starts))
        spent += time.process_time() - begin
    return done / spent


def verified(entry: Path, jobs: int = 1) -> tuple[float, float]:
    """Episodes a second of processor time (of this process), and of the clock."""
    begin, clock = time.process_time(), time.perf_counter()
    with Workers(jobs) as workers:
        report = verify(entry, workers=workers)
    if report.verified is None:
        raise SystemExit(f"{entry}: {report.problems[0]}")
    done = sum(run.figures.episodes for run in report.verified.runs)
    return done / (time.process_time() - begin), done / (time.perf_counter() - clock)


def measure(what: Literal["live", "verify", "nothing"], entry: Path, repeats: int) -> None:
    """Prints what a process finds: the median rate, and its largest size in MB."""
    do = {"live": live, "verify": lambda path: verified(path)[0], "nothing": lambda path: 0.0}[what]
    rates = sorted(do(entry) for _ in range(repeats))
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([rates[repeats // 2], size]))


def in_process(what: str, entry: Path, repeats: int) -> tuple[float, float]:
    """What `measure` prints in a process of its own."""
    command = [sys.executable, __file__, "measure", "--what", what, "--entry", str(entry)]
    command += ["--repeats", str(repeats)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate, size = json.loads(out)
    return rate, size


def main(entry: Path | None = None, repeats: int = 3, jobs: int = 2) -> None:
    """Prints a table.

    Args:
        entry: an entry's folder; without it entries of scripted players are made.
        repeats: of each measure; the median counts.
        jobs: processes for the rate by the clock.
    """
    with tempfile.TemporaryDirectory() as folder:
        entries = [entry] if entry else [made(Path(folder), *p) for p in PLAYERS]
        print(
            f"| entry | live, episodes/s | verify, episodes/s | ratio | {jobs} processes, by the "
            "clock | memory |\n|---|---|---|---|---|---|"
        )
        for path in entries:
            idle = in_process("nothing", path, 1)[1]
            played, _ = in_process("live", path, repeats)
            checked, size = in_process("verify", path, repeats)
            print(
                f"| {path.name} | {played:,.0f} | {checked:,.0f} | {checked / played:.2f} | "
                f"{verified(path, jobs)[1]:,.0f} | {size - idle:.0f} MB |",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        del sys.argv[1]
        tyro.cli(measure)
    else:
        tyro.cli(main)
