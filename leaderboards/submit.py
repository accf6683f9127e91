"""Packs an evaluation into an entry: `entry.json` and the episodes."""

from __future__ import annotations

import shutil
from pathlib import Path

from ftw_agents.evaluate import read_result
from ftw_envs.episode import read_episodes, write_episodes
from ftw_envs.files import partial_path, write_json
from leaderboards.schema import EPISODES_FILE, FORMAT, parse_entry
from leaderboards.verify import file_facts, verify


def submit(folder: Path, out: Path) -> None:
    """Makes the entry `out` from the evaluation in `folder`, and verifies it.

    Raises:
        ValueError: `out` exists, `folder` is no evaluation, or the entry would not verify.
    """
    if out.exists():
        raise ValueError(f"{out} exists already; choose another --out")
    result = read_result(folder)
    partial = partial_path(out)
    try:
        write_episodes(
            partial / EPISODES_FILE,
            (e.without_tokens() for e in read_episodes(folder / EPISODES_FILE)),
        )
        digest, size, lines = file_facts(partial / EPISODES_FILE)
        same = ("suite_version", "agent", "env_id", "env_version", "env_kwargs", "split", "seed")
        entry = {
            "format": FORMAT,
            **{key: result.get(key) for key in same},
            "claims": result.get("summary"),
            "file": {"path": EPISODES_FILE, "sha256": digest, "bytes": size, "lines": lines},
        }
        parse_entry(entry, str(folder / "result.json"))
        write_json(partial / "entry.json", entry)
        problem = verify(partial).problem
        if problem is not None:
            raise ValueError(f"{folder} would not verify: {problem}")
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
