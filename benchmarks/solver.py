"""How well our solver does on level files: `python benchmarks/solver.py FILE... --mode pushes`.

Every solution is played in the environment too. Only the solver is timed.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import ftw_envs
from ftw_envs.sokoban.files import FileLevel, read_levels
from ftw_envs.sokoban.solve import MODES, GaveUpError, Mode, Solution, solve


@dataclass
class Tally:
    """What came of the levels of a file.

    Attributes:
        ms: of each level, whatever came of it.
        solved_ms, positions: of those that were solved.
        unsolved: titles with what came of them.
    """

    ms: list[float] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    solved_ms: list[float] = field(default_factory=list)
    moves: int = 0
    pushes: int = 0
    unsolved: list[str] = field(default_factory=list)

    def add(self, x: FileLevel, mode: Mode, limit: int) -> Solution | None:
        """Solves a level."""
        start = time.perf_counter()
        try:
            solution, why = solve(x.level, mode, limit), "unsolvable"
        except GaveUpError as error:
            solution, why = None, str(error)
        self.ms.append(1e3 * (time.perf_counter() - start))
        if solution is None:
            self.unsolved.append(f"{x.title}: {why}, {self.ms[-1] / 1e3:.1f} s")
        else:
            self.solved_ms.append(self.ms[-1])
            self.positions.append(solution.positions)
            self.moves += solution.moves
            self.pushes += solution.pushes
        return solution

    def report(self, seconds: float) -> str:
        ms, solved = np.array(self.ms), len(self.solved_ms)
        soon = sum(t <= 1e3 * seconds for t in self.solved_ms)
        lines = [
            f"  solved {solved} of {ms.size}, {soon} of them within {seconds:g} s each; "
            f"{self.moves:,} moves, {self.pushes:,} pushes",
            f"  ms a level: mean {ms.mean():.2f}, median {np.median(ms):.2f}, "
            f"p99 {np.percentile(ms, 99):.1f}, max {ms.max():.1f}; {ms.sum() / 1e3:.1f} s in all",
            f"  positions seen: mean {np.mean(self.positions):,.0f}, max {max(self.positions):,}",
        ]
        return "\n".join(lines + [f"  not solved: {line}" for line in self.unsolved])


def replay(env: ftw_envs.EpisodeEnv, index: int, solution: Solution) -> None:
    """Plays a solution. Raises AssertionError where it does not solve its level."""
    env.reset(seed=0, options={"index": index})
    for action in solution.actions:
        *_, truncated, info = env.step(action)
        assert not truncated
    assert info["solved"], f"level {index} is not solved by {solution.lurd}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--mode", choices=MODES, action="append", help="may be given again")
    parser.add_argument("--max-positions", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="count those solved in time")
    args = parser.parse_args()

    levels = {path: read_levels(path) for path in args.files}
    first = levels[args.files[0]][0].level
    for mode in args.mode or ("pushes", "moves"):
        start = time.perf_counter()
        solve(first, mode)
        print(f"{mode}: warm after {time.perf_counter() - start:.1f} s")
        for path, some in levels.items():
            tally = Tally()
            env = ftw_envs.make("ftw/Sokoban-v0", levels=str(path), max_steps=10**6)
            for i, x in enumerate(some):
                if (solution := tally.add(x, mode, args.max_positions)) is not None:
                    replay(env, i, solution)
            print(f"{path.name}, {mode}, every solution played:", flush=True)
            print(tally.report(args.seconds), flush=True)


if __name__ == "__main__":
    main()
