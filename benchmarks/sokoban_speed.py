"""How fast our Sokoban is on this machine: `python benchmarks/sokoban_speed.py`."""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import pstats
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from typing import Any

import gymnasium as gym
import numba
import numpy as np
from measure import Block, Row, rates, times

import ftw_envs
from ftw_envs.registry import TABLE
from ftw_envs.sokoban.generate import new_level
from ftw_envs.sokoban.rules import ACTIONS

ID = "ftw/SokobanHard-v0"  # 10x10, 4 boxes
SIZES = (16, 256, 1024, 4096)
MODES = ("NextStep", "SameStep")
RESETS = 5_000


def machine() -> str:
    """What the figures were measured on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    cpu = next((x.split(": ", 1)[1] for x in lines if x.startswith("model name")), "unknown CPU")
    return (
        f"{os.cpu_count()} cores of {cpu}, {platform.system()}, "
        f"Python {platform.python_version()}, numpy {np.__version__}, "
        f"numba {numba.__version__}, gymnasium {gym.__version__}"
    )


def batched(n: int, mode: str) -> Block:
    """A block of steps of `n` games at once, grids and numbers."""
    env = gym.make_vec(
        ID,
        n,
        vectorization_mode="vector_entry_point",
        autoreset_mode=mode,
        obs="grid",
        actions="discrete",
    )
    actions = np.random.default_rng(0).integers(0, 4, (64, n))
    env.reset(seed=0)

    def block() -> tuple[int, float]:
        for numbers in actions:
            env.step(numbers)
        return actions.size, 0.0

    return block


def single(env: gym.Env[Any, Any], numbers: bool) -> Block:
    """A block of steps of one game. Resets count."""
    drawn = np.random.default_rng(0).integers(0, 4, 1_000).tolist()
    actions = cycle(drawn if numbers else [ACTIONS[i] for i in drawn])
    env.reset(seed=0)

    def block() -> tuple[int, float]:
        for _ in range(200):
            _, _, terminated, truncated, _ = env.step(next(actions))
            if terminated or truncated:
                env.reset()
        return 200, 0.0

    return block


def text(env_id: str) -> gym.Env[Any, Any]:
    return gym.make(env_id, obs="text", actions="text")


def image() -> gym.Env[Any, Any]:
    return gym.make(ID, obs="image", actions="discrete", tile_size=16)


def rate_rows() -> dict[str, tuple[str, Callable[[], Block]]]:
    """What is measured as a rate: (unit, what makes the block) by key."""
    rows: dict[str, tuple[str, Callable[[], Block]]] = {
        f"batched {n} {mode}": ("steps/s", lambda n=n, mode=mode: batched(n, mode))
        for mode in MODES
        for n in SIZES
    }
    rows["text, gym.make"] = "steps/s", lambda: single(text(ID), numbers=False)
    rows["text, ftw_envs.make"] = "steps/s", lambda: single(ftw_envs.make(ID), numbers=False)
    rows["rgb 160x160"] = "frames/s", lambda: single(image(), numbers=True)
    return rows


def rows(seconds: float, repeats: int, levels: int, only: str) -> Iterator[Row]:
    """All measures whose key has `only` in it."""
    for key, (unit, make) in rate_rows().items():
        if only in key:
            yield Row(key, unit, rates(make(), seconds, repeats))
    for env_id in (row.id for row in TABLE if "Sokoban" in row.id):
        if only in (key := f"reset {env_id}"):
            env = text(env_id)
            yield Row(key, "ms", times(lambda i, env=env: env.reset(seed=i), RESETS, 20))
    for name in ("hard", "standard"):
        if only in (key := f"new level {name}"):
            yield Row(key, "ms", times(lambda i, name=name: new_level(name, "train", i), levels, 5))


def compile_seconds() -> dict[str, float]:
    """Seconds until the first results, from a cold start: compiling, or loading from a cache."""
    start = time.perf_counter()
    batched(1, "NextStep")()
    middle = time.perf_counter()
    new_level("mini", "train", 0)
    return {"batched": middle - start, "generator": time.perf_counter() - middle}


def profile(key: str) -> None:
    """Where the time of a rate goes."""
    block = rate_rows()[key][1]()
    block()
    with cProfile.Profile() as profiler:
        for _ in range(20):
            block()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(15)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a repeat of a rate")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--levels", type=int, default=500, help="new levels made of a kind")
    parser.add_argument("--only", default="", help="measure what has this in its name")
    parser.add_argument("--profile", metavar="NAME", help="show where the time of a rate goes")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    if args.profile:
        profile(args.profile)
        return
    print(machine())
    ready = compile_seconds()
    print(", ".join(f"first {what} after {s:.1f} s" for what, s in ready.items()))
    found = []
    for row in rows(args.seconds, args.repeats, args.levels, args.only):
        print(row, flush=True)
        found.append(asdict(row))
    if args.json:
        report = {"machine": machine(), "first_result_s": ready, "rows": found}
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
