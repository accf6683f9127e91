"""How often each player solves an incident, with 95 % intervals; and whether all can be solved.

python -m benchmarks.incident_players            # the table in docs/environments.md
python -m benchmarks.incident_players --check    # the frozen expert on every unseen instance
"""

from __future__ import annotations

import time

import tyro

from ftw_agents.collect import Collector
from ftw_agents.results import Summary, summarise
from ftw_agents.scripted.players import SCRIPTED
from ftw_agents.starts import evaluation_starts
from ftw_envs.incident.levels import LEVELS, SPLITS

PLAYERS = ("random", "constant", "greedy", "loud", "expert_late", "expert")


def rate(
    level: int, player: str, split: str, episodes: int, *, freeze: bool = False
) -> tuple[Summary, float]:
    """What a player's episodes show, and episodes per second of this process."""
    collector = Collector(f"ftw/IncidentL{level}-v0", {"freeze": True} if freeze else {})
    starts = evaluation_starts(collector.env, split, episodes, 0)
    begin = time.process_time()
    summary = summarise(collector.play(SCRIPTED[player](), starts))
    return summary, episodes / (time.process_time() - begin)


def table(episodes: int) -> None:
    """Prints the players' table, and the expert's on each split."""
    print("| player | " + " | ".join(f"L{x}" for x in range(len(LEVELS))) + " |")
    print("|---|" + "---|" * len(LEVELS))
    for player in PLAYERS:
        cells = [str(rate(x, player, "test", episodes)[0]) for x in range(len(LEVELS))]
        print(f"| {player} | " + " | ".join(cells) + " |", flush=True)
    cells = [str(rate(x, "expert", "test", episodes, freeze=True)[0]) for x in range(len(LEVELS))]
    print("| expert, frozen | " + " | ".join(cells) + " |")
    told = [rate(x, "expert", "test", episodes) for x in range(len(LEVELS))]
    print("| expert: commands | " + " | ".join(f"{s.mean_turns:.1f}" for s, _ in told) + " |")
    print("| expert: episodes/s | " + " | ".join(f"{v:.0f}" for _, v in told) + " |\n")
    print("| split | " + " | ".join(f"L{x}" for x in range(len(LEVELS))) + " |")
    print("|---|" + "---|" * len(LEVELS))
    for split in SPLITS[2:]:
        cells = [str(rate(x, "expert", split, episodes)[0]) for x in range(len(LEVELS))]
        print(f"| {split} | " + " | ".join(cells) + " |", flush=True)


def main(episodes: int = 400, check: bool = False) -> None:
    """Prints the table.

    Args:
        episodes: of each player on each level.
        check: play every instance of every split but train with the frozen expert instead;
            exit code 1 if any is not solved.
    """
    if not check:
        table(episodes)
        return
    missed = 0
    for level in range(len(LEVELS)):
        for split in SPLITS[1:]:
            summary, _ = rate(level, "expert", split, 1000, freeze=True)
            missed += summary.episodes - summary.solved
            print(f"L{level} {split}: {summary.solved} of {summary.episodes}", flush=True)
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    tyro.cli(main)
