"""Helpers of the leaderboards' tests: small boards, runs as training leaves them, cheats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ftw_agents.agent import History, Reply
from ftw_agents.config import TrainConfig
from ftw_agents.evaluate import Player, evaluate, load_player
from ftw_envs.files import write_json
from ftw_envs.streams import Stream
from leaderboards.about import EXAMPLE, About
from leaderboards.boards import BOARDS, Board
from leaderboards.folder import file_facts
from leaderboards.identity import entry_id
from leaderboards.runs import Source, source_of
from leaderboards.schema import Entry
from leaderboards.submit import submit
from leaderboards.verify import verify

N = 12
SMALL = {
    name: Board(name, name, env_id, split, N, views, "none")
    for name, env_id, split, views in (
        ("small-sokoban", "ftw/SokobanMini-v0", "test", {"obs": ("text", "coords")}),
        ("small-trap", "ftw/SigmaTrap-v0", "test", {}),
        ("small-incident", "ftw/IncidentL1-v0", "test_family", {"guide": ("full", "brief")}),
    )
}
"""Boards of 12 instances, one of each environment."""

VIEW = {"small-sokoban": {"obs": "coords"}, "small-trap": {}, "small-incident": {"guide": "brief"}}
DATE = "2026-12-01"
CURVE = ((0, 100), (64, 130), (128, 170), (192, 160))
"""Episodes and valid instances solved, of 512, of the examinations in `train`."""


@contextmanager
def small_boards() -> Iterator[None]:
    """Adds the small boards; other processes do not see them."""
    BOARDS.update(SMALL)
    try:
        yield
    finally:
        for name in SMALL:
            del BOARDS[name]


class Typist:
    """A language model as far as records go: replies of two tokens, drawn for a run."""

    def __init__(self, run: int) -> None:
        self.run = run

    def act(self, histories: Sequence[History]) -> list[Reply]:
        replies = []
        for h in histories:
            assert h.env.instance is not None
            dice = Stream("typist", self.run, h.env.instance.index, len(h.replies))
            words = (*h.env.grammar.actions, "no idea")
            replies.append(Reply(dice.choice(words), (1, 1, 1), (2, 3), (-0.5, -0.5)))
        return replies


def play(
    board: str, out: Path, player: Player, *, episodes: int | None = None, seed: int = 0,
    **view: Any,
) -> Path:  # fmt: skip
    """Evaluates a player on a board; `out` is the evaluation's folder."""
    about = BOARDS[board]
    n = about.episodes if episodes is None else episodes
    kwargs = view or VIEW.get(board, {})
    evaluate(player, about.env_id, kwargs, split=about.split, episodes=n, seed=seed, out=out)
    return out


def typist(run: int, **about: Any) -> Player:
    """A `Typist` with what an evaluation says of it."""
    return Player(Typist(run), {"name": f"typist-{run}", "kind": "language-model", **about})


def train(board: str, out: Path, seed: int, **settings: Any) -> Path:
    """A training run's folder as `ftw train` and `ftw evaluate` leave it, without the model."""
    about = BOARDS[board]
    args = tuple(f"{k}={v}" for k, v in VIEW.get(board, {}).items())
    config = TrainConfig(env=about.env_id, env_args=args, seed=seed, out=out, **settings)
    write_json(out / "config.json", config.to_json())
    solved, lines = dict(CURVE), []
    for iteration in range(7):
        metrics: dict[str, Any] = {
            "iteration": iteration,
            "episodes": 32 * iteration,
            "tokens": 900 * iteration + seed,
        }
        if iteration:
            metrics |= {"mean_turns": 2.5, "seconds": 0.25, "solve_rate": 0.25}
        if 32 * iteration in solved:
            metrics |= {
                "valid_solve_rate": solved[32 * iteration] / 512, "valid_episodes": 512,
            }  # fmt: skip
        lines.append(json.dumps(metrics))
    (out / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    write_json(out / "row.json", {"peak_memory_mb": 700 + seed})
    play(board, out / "test", typist(seed))
    return out


def about(trained: bool = True, **changes: Any) -> About:
    """What a submitter says; of a scripted player if it is not trained."""
    data: dict[str, Any] = json.loads(json.dumps(EXAMPLE))
    if not trained:
        data |= {"method": {"name": "Chance", "family": "scripted"}, "model": None}
        data["training"] = None
    return About.model_validate(data | changes)


def trained_entry(folder: Path, board: str, seeds: Sequence[int] = (0, 1, 5)) -> Path:
    """A good entry of trained runs."""
    sources = [source_of(train(board, folder / "runs" / str(seed), seed)) for seed in seeds]
    return submit(sources, board, about(), folder / "entries", date=DATE)[0]


def scripted_entry(folder: Path, board: str, player: str = "random") -> Path:
    """A good entry of a scripted player."""
    source = Source(play(board, folder / player, load_player(player, BOARDS[board].env_id)))
    return submit([source], board, about(False), folder / "entries", date=DATE)[0]


# A careful cheat puts everything right that follows from what he changed.


def rows_of(entry: Path, run: int = 0, name: str = "episodes") -> list[dict]:
    """The rows of a run's file."""
    text = (entry / "runs" / str(run) / f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def write_rows(entry: Path, rows: list[dict], run: int = 0, name: str = "episodes") -> None:
    """Writes a run's file, and what `entry.json` says of it."""
    path = entry / "runs" / str(run) / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    change(entry)


def change(entry: Path, alter: Callable[[dict], object] = lambda data: None) -> None:
    """Alters `entry.json`, and puts right what it says of files, and its id."""
    data = json.loads((entry / "entry.json").read_text("utf-8"))
    data["files"] = [
        file_facts(entry, f["path"]).model_dump() for f in data["files"]
        if (entry / f["path"]).exists()
    ]  # fmt: skip
    alter(data)
    with suppress(ValueError):  # what is no entry has no id
        data["entry_id"] = entry_id(Entry.model_validate(data))
    (entry / "entry.json").write_text(json.dumps(data), "utf-8")


# What the verifier says.


def problems(entry: Path) -> tuple[str, ...]:
    """What is wrong; each a line that is safe to print."""
    report = verify(entry)
    assert (report.verified is None) == bool(report.problems)
    assert all(p and p.isprintable() for p in report.problems)
    return report.problems


def problem(entry: Path) -> str:
    """The one thing that is wrong."""
    found = problems(entry)
    assert len(found) == 1, found
    return found[0]
