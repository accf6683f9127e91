"""Verified entries that nobody submitted: what the tests of tables and pages show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from math import exp
from pathlib import Path

import numpy as np

from ftw_agents.agent import History
from ftw_agents.results import wilson_interval
from ftw_agents.scripted.players import SCRIPTED
from ftw_agents.starts import evaluation_starts
from ftw_envs.files import write_bytes
from ftw_envs.streams import Stream
from ftw_envs.text_env import EpisodeEnv
from leaderboards.boards import BOARDS, PUBLIC_SEED, open_env
from leaderboards.schema import (
    Budget,
    Contamination,
    CurveRow,
    Decision,
    Difference,
    Entry,
    Figures,
    FileFacts,
    Method,
    Model,
    Replay,
    ReplayStep,
    RunClaim,
    RunFound,
    Search,
    Selection,
    Submitter,
    Training,
    Verified,
)

HOSTILE_NAMES = ("<img src=x onerror=alert(1)>", '=HYPERLINK("https://x.example","x")')
HOSTILE_REPLY = "</script><script>alert(1)</script> \x1b[31m \u202e left"
"""The first reply of every attempt that fails: markup, a terminal escape, a turned line."""

CURVE_POINTS = 11
CURVE_INSTANCES = 200


def sample(
    board: str = "sokoban-mini",
    name: str = "FTW-1-8",
    family: str = "ftw",
    rates: Sequence[float] = (0.6, 0.65, 0.7, 0.72, 0.75),
    seed: int = 0,
    *,
    model: str = "ftw-tiny",
    submitted: str = "2026-12-01",
    env_version: str | None = None,
    episodes: int | None = None,
    difference: bool = False,
) -> Verified:
    """An entry with one run for each of `rates`.

    Args:
        board: name of the board.
        name, family: of the method; scripted entries have no model, and only the families
            that train have training and curves.
        rates: share of instances that each run solves, to the nearest instance.
        seed: everything random, and the training seeds: seed, seed + 1, ...
        env_version: of a board that is no longer; None for today's.
        episodes: fewer than the board has, for an incomplete entry.
        difference: whether the submitter claimed more than was found.
    """
    about = BOARDS[board]
    n = episodes or about.episodes
    trained = family not in ("scripted", "base", "prompt", "planner")
    runs = [seed + i if trained else 0 for i in range(len(rates))]
    found = [
        _run(board, run, rate, n, Stream("sample", board, name, seed, i), trained, family)
        for i, (run, rate) in enumerate(zip(runs, rates, strict=True))
    ]
    claims = [RunClaim(run=r.run, figures=r.figures) for r in found]
    version = env_version or _env(board).env_version
    parts = (board, version, name, family, model, seed, submitted)
    identity = sha256(" ".join(map(str, parts)).encode()).hexdigest()
    words = "".join(c if c.isalnum() and c.isascii() else "-" for c in name.lower()).strip("-")
    training = Training(
        budget=Budget(
            episodes=found[0].curve[-1].episodes,
            env_steps=found[0].curve[-1].env_steps,
            tokens=max(r.curve[-1].tokens for r in found),
            wall_seconds=1800,
            peak_memory_mb=900,
            device="cpu",
        ),
        search=Search(trials=12, tuned_on="valid"),
        checkpoint="last",
    ) if trained else None  # fmt: skip
    files = ["env.lock.json", *(f"runs/{r}/episodes.jsonl" for r in runs)]
    entry = Entry(
        format=2,
        entry_id=identity,
        suite_version="0.1.0",
        board=board,
        env_version=version,
        view=[],
        division="closed",
        method=Method(
            name=name, family=family, code_url="https://github.com/example/method", commit="a1b2c3d"
        ),
        model=None if family == "scripted" else Model(
            name=model, revision="main", parameters=3_000_000, open_weights=True,
            temperature_percent=100, max_reply_tokens=8,
        ),
        submitter=Submitter(name="A. Tester", relationship="third_party"),
        submitted=submitted,
        runs=sorted(runs),
        training=training,
        selection=Selection(attempts_per_instance=1, prior_submissions=0),
        contamination=Contamination(trained_on_eval=False, statement="Trained on train only."),
        notes=f"A sample. {HOSTILE_NAMES[0]}",
        files=[FileFacts(path=p, sha256="0" * 64, bytes=1000, lines=1) for p in files],
        claims=claims,
    )  # fmt: skip
    differences = [
        Difference(run=runs[0], figure="solve_rate", claimed=min(1.0, rates[0] + 0.1),
                   found=found[0].figures.solve_rate)
    ] if difference else []  # fmt: skip
    return Verified(
        format=2,
        entry=entry,
        slug=f"{words[:40]}-{identity[:8]}",
        tier="T1",
        verifier="ftw 0.1.0",
        runs=found,
        differences=differences,
        warnings=["fewer than 5 training seeds"] if trained and len(rates) < 5 else [],
        replays=[_replay(board, runs[0], i, found[0].outcomes[i] == "1") for i in range(min(3, n))],
    )


def samples() -> list[Verified]:
    """A handful of every kind that a page has to show."""
    mini = [
        sample(name="FTW-1-8", seed=0),
        sample(name="FTW-E-4-8", family="ftw-expected", seed=10, rates=(0.66, 0.71, 0.69, 0.74)),
        sample(name="GRPO", family="grpo", seed=20, rates=(0.52, 0.61, 0.57), difference=True),
        sample(name="PPO", family="ppo", seed=30, rates=(0.4, 0.45)),
        sample(name=HOSTILE_NAMES[0], family="other", seed=40, rates=(0.3, 0.31, 0.29)),
        sample(name=HOSTILE_NAMES[1], family="other", seed=50, rates=(0.2, 0.22, 0.21), model="-x"),
        sample(name="Base", family="base", rates=(0.25,)),
        sample(name="Random", family="scripted", rates=(0.08,)),
        sample(name="Idle", family="scripted", rates=(0.0,)),
        sample(name="Solver", family="scripted", rates=(1.0,)),
        sample(name="RAFT", family="raft", seed=60, rates=(0.9, 0.91, 0.92)),
        sample(name="FTW-1-8", seed=0, submitted="2026-11-20", rates=(0.5, 0.52, 0.55)),
        sample(name="BC", family="bc", seed=70, rates=(0.95, 0.9, 0.97), episodes=58),
        sample(name="REINFORCE++", family="reinforce++", seed=80, rates=(1.0, 1.0, 1.0)),
    ]  # fmt: skip
    other = [
        sample("sigma-trap", "FTW-1-2", "ftw", (0.9, 0.85, 0.97), 3),
        sample("sigma-trap", "Optimum", "scripted", (1.0,)),
        sample("incident-l1", "Prompt", "prompt", (0.12,), model="Somewhat longer model name 7B"),
        sample("incident-l1", "Expert", "scripted", (0.8,)),
        sample("sokoban-mini", "FTW-1-8", "ftw", (0.4, 0.5, 0.45), env_version="sokoban0-0000"),
    ]
    return mini + other


def decisions(verified: Sequence[Verified]) -> list[Decision]:
    """What became of `samples`: RAFT is retracted, REINFORCE++ invalid, PPO is disputed."""
    states = {
        "RAFT": ("retracted", "withdrawn by its submitter"),
        "REINFORCE++": ("invalid", f"played by another model {HOSTILE_NAMES[0]}"),
        "PPO": ("disputed", "tokens look too few"),
        "Base": ("accepted", "replayed"),
    }
    return [
        Decision(
            entry_id=v.entry.entry_id,
            date="2026-12-02",
            state=states[v.entry.method.name][0],
            reason=states[v.entry.method.name][1],
            url="https://github.com/example/suite/issues/1",
        )
        for v in verified
        if v.entry.method.name in states
    ]


def write_samples(folder: Path) -> list[Verified]:
    """Writes `samples` as folder/verified/*.json and folder/decisions.jsonl."""
    written = samples()
    for v in written:
        text = v.model_dump_json(indent=1)
        write_bytes(folder / "verified" / f"{v.entry.entry_id}.json", text.encode("utf-8"))
    lines = [json.dumps(d.model_dump()) + "\n" for d in decisions(written)]
    write_bytes(folder / "decisions.jsonl", "".join(lines).encode("utf-8"))
    return written


@cache
def _env(board: str) -> EpisodeEnv:
    env = open_env(BOARDS[board], [])
    env.render_mode = "ansi"
    return env


def _ease(board: str, n: int) -> np.ndarray:
    """How easy each instance is to any entry, logits."""
    return 1.5 * np.array([Stream("ease", board, i).normal() for i in range(n)])


def _run(
    board: str, run: int, rate: float, n: int, stream: Stream, trained: bool, family: str
) -> RunFound:
    u = (stream.uniforms(n) + 1e-9) / (1 + 2e-9)
    order = np.argsort(-(_ease(board, n) + np.log(u / (1 - u))), kind="stable")
    solved = round(rate * n)
    outcomes = np.full(n, "0")
    outcomes[order[:solved]] = "1"
    low, high = wilson_interval(solved, n)
    paid = (stream.normal() * 0.1, 4.0) if board == "sigma-trap" else (0.0, 0.0)
    score = solved / n
    tokens = 0 if family == "scripted" else n * 30
    figures = Figures(
        episodes=n, solved=solved, solve_rate=score, low=low, high=high,
        invalid_rate=0.01, mean_turns=7.5, mean_score=score + paid[0],
        tokens_in=10 * tokens, tokens_out=tokens,
    )  # fmt: skip
    curve = _curve(rate, stream) if trained else []
    return RunFound(
        run=run,
        figures=figures,
        score_sd=float(np.sqrt(score * (1 - score) + paid[1] ** 2)),
        outcomes="".join(outcomes),
        curve=curve,
    )


def _curve(rate: float, stream: Stream) -> list[CurveRow]:
    """From a tenth of `rate` to all of it, with noise; a run is faster or slower by a tenth."""
    pace, rows = 0.9 + 0.2 * stream.uniform(), []
    for i in range(CURVE_POINTS):
        now = rate * (1 - 0.9 * exp(-i / 3))
        solved = sum(stream.uniform() < now for _ in range(CURVE_INSTANCES))
        rows.append(
            CurveRow(
                episodes=i * 512,
                env_steps=int(i * 512 * 7 * pace),
                tokens=int(i * 512 * 60 * pace),
                wall_seconds=round(i * 90 * pace, 3),
                peak_memory_mb=900,
                solved=solved,
                n=CURVE_INSTANCES,
            )
        )
    return rows


@cache
def _replay(board: str, run: int, index: int, solved: bool) -> Replay:
    """An attempt as it may have been: the solver's if it solved the instance, else a failure."""
    player = "solver" if solved else "random"
    played = (_attempt(board, run, index, player, i) for i in range(100))
    return next(replay for replay in played if replay.solved == solved)


def _attempt(board: str, run: int, index: int, player: str, attempt: int) -> Replay:
    env, agent = _env(board), SCRIPTED[player]()
    start = evaluation_starts(env, BOARDS[board].split, index + 1, PUBLIC_SEED)[index]
    first, info = env.reset(seed=start.seed, options={"split": start.split, "index": index})
    history = History([first], Stream("sample-player", board, run, index, attempt), env)
    begin, steps = env.render(), []
    while not info["end"]:
        reply = agent.act([history])[0]
        text = reply.text if player == "solver" or steps else HOSTILE_REPLY
        saw = history.observations[-1]
        seen, *_, info = env.step(text)
        steps.append(ReplayStep(saw=saw, reply=text, action=env.last_action, world=env.render()))
        history.replies.append(reply)
        history.observations.append(seen)
    return Replay(
        run=run, index=index, start=begin, steps=steps, last=history.observations[-1],
        score=info["score"], solved=info["solved"], end=info["end"],
    )  # fmt: skip
