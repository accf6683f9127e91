"""The command `ftw noise`: how much of a score is luck, and which filter suits that."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.markup import escape
from rich.table import Table

from ftw_agents.console import bar, console
from ftw_agents.noise import Estimate, NoiseReport, measure_noise
from ftw_agents.theory import describe_filter
from ftw_envs.files import write_json


@dataclass(frozen=True)
class NoiseArgs:
    """Who plays what, how often."""

    agent: str
    """idle, random, first, greedy, solver, base, a run folder, or a model folder or hub name;
    for incidents also expert, expert_notes, expert_late, loud and constant."""
    out: Path
    """JSON file for the figures; it must not exist yet."""
    env: str = "ftw/SokobanMini-v0"
    """Environment id."""
    env_args: tuple[str, ...] = ()
    """The environment's keyword arguments as key=value; a run folder brings its own."""
    split: str = "valid"
    """Which instances, the first of the split; see `ftw envs --json` for the names."""
    instances: int = 64
    """How many; the intervals come from their number."""
    attempts: int = 8
    """Attempts at each instance, each with dice and noise of its own."""
    replays: int = 16
    """How often each attempt's replies are played again, each time under new noise."""
    temperature: float = 1.0
    """Sampling temperature of a language model; 0 is greedy."""
    max_reply_tokens: int | None = None
    """Where a language model's reply is cut; by default as in the run, or as the base needs."""
    seed: int = 0
    """Names the noise of the episodes, the dice of the player and the bootstrap."""


def noise(args: Annotated[NoiseArgs, tyro.conf.arg(name="")]) -> None:
    """Measures how much of a score is luck, and says which filter C, K suits that."""
    from ftw_agents.cli import player_of, view_of  # not above: it imports this module

    if args.out.exists():
        raise ValueError(f"{args.out} exists already; choose another --out")
    player = player_of(
        args.agent,
        args.env,
        temperature=args.temperature,
        max_reply_tokens=args.max_reply_tokens,
    )
    with bar(player.about["name"], args.instances * args.attempts) as tell:
        report = measure_noise(
            player,
            args.env,
            view_of(args.agent, args.env, args.env_args),
            split=args.split,
            instances=args.instances,
            attempts=args.attempts,
            replays=args.replays,
            seed=args.seed,
            progress=lambda done: tell(done, ""),
        )
    write_json(args.out, report.to_json())
    console.print(table_of(report))
    console.print(escape(verdict(report)), highlight=False)
    console.print(f"[dim]figures: {escape(str(args.out))}[/dim]", soft_wrap=True)


def table_of(report: NoiseReport) -> Table:
    """The parts of the variance, in 80 columns; an estimate below 0 is told as it is."""
    parts = report.parts
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("part of the variance", no_wrap=True)
    for name in ("variance", "95 % interval", "std"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, part in (
        ("noise: same replies, other seed", parts.noise),
        ("player: other attempts", parts.player),
        ("instance: easier or harder", parts.instance),
    ):
        table.add_row(
            name,
            f"{part.value:.4g}",
            f"{part.low:.4g} – {part.high:.4g}",
            f"{sqrt(max(0.0, part.value)):.3g}",
        )
    return table


def _share(part: Estimate | None) -> str:
    if part is None:
        return "undefined, for the scores do not differ"
    return f"{part.value:.1%} [{part.low:.1%}, {part.high:.1%}]"


def verdict(report: NoiseReport) -> str:
    """The share of luck and the suggested filter, in a few lines."""
    parts, s = report.parts, report.suggestion
    lines = [
        f"luck: {_share(parts.luck)} of the variance",
        f"luck within an instance: {_share(parts.luck_within)}",
        f"suggested: {describe_filter(s.candidates, s.winners)}",
        f"{s.reason[0].upper()}{s.reason[1:]}.",
    ]
    if s.premium > 0:
        lines.append(
            "Its price: a noisy action gains on a sure one until its mean is "
            f"{s.premium:.3g} lower."
        )
    elif s.premium < 0:
        lines.append(
            "Its price: a noisy action gains on a sure one only if its mean is "
            f"{-s.premium:.3g} higher."
        )
    if report.ran_out:
        lines.append(
            f"In {report.ran_out:.1%} of the replays the episode went on after the last recorded "
            "reply; nothing usable was said from there on."
        )
    return "\n".join(lines)
