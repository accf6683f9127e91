"""Sealed rounds for the tests: opened, committed to and drawn, with a known secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ftw_envs
from leaderboards.about import EXAMPLE, About
from leaderboards.boards import board_of, open_env
from leaderboards.rounds import Agent, Commitment, RoundFolder, Secret
from leaderboards.schema import Entry
from leaderboards.sealed import commit, draw_round, open_round, read_round

SECRET = Secret(bytes(range(32)), bytes(range(100, 132)))
NAME, BEACON = "round-1", "07 11 19 23 31 40 and 5"
OPENED, COMMIT_BY, DRAWN, RUN_BY, AFTER = (
    "2026-01-01", "2026-01-10", "2026-01-11", "2026-01-20", "2026-01-21",
)  # fmt: skip
EXPERT = "expert-one"


def commitment(slug: str = EXPERT, runs: tuple[int, ...] = (0,), **facts: Any) -> Commitment:
    """A commitment; its agents are nobody's."""
    return Commitment(
        **{
            "format": 1, "round": NAME, "slug": slug, "submitter": f"Team {slug}",
            "method": "expert", "view": [], "temperature_percent": None,
            "max_reply_tokens": None, "committed": "2026-01-05",
            "agents": [Agent(run=run, sha256=f"{run:064x}") for run in runs], **facts,
        }
    )  # fmt: skip


def opened(rounds: Path, tier: str = "T2", **facts: Any) -> RoundFolder:
    """A round that takes commitments."""
    told = {
        "name": NAME, "board": "incident-l1", "tier": tier, "episodes": 5, "per_submitter": 2,
        "beacon": "the lottery of 11 January", "opened": OPENED, "commit_by": COMMIT_BY,
        "run_by": RUN_BY, **facts,
    }  # fmt: skip
    open_round(rounds, told, SECRET)
    return read_round(rounds, NAME)


def drawn(
    rounds: Path, tier: str = "T2", commitments: tuple[Commitment, ...] = (), **facts: Any
) -> RoundFolder:
    """A round that can be played, by `EXPERT` if no commitments are given."""
    opened(rounds, tier, **facts)
    for one in commitments or (commitment(),):
        commit(read_round(rounds, NAME), one, one.committed)
    draw_round(read_round(rounds, NAME), BEACON, SECRET, DRAWN)
    return read_round(rounds, NAME)


def about_expert() -> About:
    """What the expert's submitter says."""
    data = {**EXAMPLE, "method": {"name": "expert", "family": "scripted"}, "model": None,
            "training": None}  # fmt: skip
    submitter = {"name": f"Team {EXPERT}", "relationship": "first_party"}
    return About.model_validate({**data, "submitter": submitter})


def entry(**facts: Any) -> Entry:
    """What the expert's entry in the round says."""
    files = ["env.lock.json", "runs/0/episodes.jsonl"]
    figures = {
        "episodes": 5, "solved": 0, "solve_rate": 0.0, "low": 0.0, "high": 0.5,
        "invalid_rate": 0.0, "mean_turns": 1.0, "mean_score": 0.0, "tokens_in": 0, "tokens_out": 0,
    }  # fmt: skip
    told: dict[str, Any] = {
        "format": 2, "entry_id": "0" * 64, "suite_version": ftw_envs.__version__,
        "board": "incident-l1",
        "env_version": open_env(board_of("incident-l1"), []).env_version,
        "view": [], "round": NAME, "division": "closed",
        "method": {"name": "expert", "family": "scripted"}, "model": None,
        "submitter": {"name": f"Team {EXPERT}", "relationship": "first_party"},
        "submitted": "2026-01-15", "runs": [0], "training": None,
        "selection": {"attempts_per_instance": 1, "prior_submissions": 0},
        "contamination": {"trained_on_eval": False, "statement": ""},
        "files": [{"path": p, "sha256": "0" * 64, "bytes": 1, "lines": 1} for p in files],
        "claims": [{"run": 0, "figures": figures}],
    }  # fmt: skip
    return Entry.model_validate({**told, **facts})
