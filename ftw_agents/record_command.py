"""The commands `ftw record` and `ftw replay`: episodes to a file, and one of them on a screen."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ftw_agents.console import bar, console
from ftw_agents.play_incident import hidden_story
from ftw_envs.episode import Episode, read_episodes
from ftw_envs.files import write_bytes
from ftw_envs.incident.env import IncidentEnv
from ftw_envs.incident.instance import MINUTE
from ftw_envs.registry import make
from ftw_envs.text_env import EpisodeEnv
from ftw_envs.text_env import record as written


@dataclass(frozen=True)
class RecordArgs:
    """Who plays what."""

    agent: str
    """A player as `ftw evaluate` takes it, such as solver or, for incidents, expert."""
    out: Path
    """File for the episodes (.jsonl, one JSON object a line); it must not exist yet."""
    env: str = "ftw/SokobanMini-v0"
    """Environment id."""
    env_args: tuple[str, ...] = ()
    """The environment's keyword arguments as key=value; a run folder brings its own."""
    episodes: int = 500
    """How many, each on an instance of train that the seed draws."""
    seed: int = 1_000_000
    """Names instances, noise and dice; runs with other seeds begin with other instances."""


def record(args: Annotated[RecordArgs, tyro.conf.arg(name="")]) -> None:
    """Writes a player's episodes on training instances, as `ftw train --offline` takes them."""
    from ftw_agents.cli import player_of, view_of  # not above: it imports this module
    from ftw_agents.collect import Collector
    from ftw_agents.evaluate import play_to_file
    from ftw_agents.starts import training_starts

    if args.out.exists():
        raise ValueError(f"{args.out} exists already; choose another --out")
    if args.episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {args.episodes}")
    player = player_of(args.agent, args.env)
    collector = Collector(args.env, view_of(args.agent, args.env, args.env_args))
    starts = training_starts(collector.env, args.seed, 0, args.episodes)
    with bar(player.about["name"], args.episodes) as tell:
        summary = play_to_file(
            collector,
            player,
            starts,
            args.seed,
            args.out,
            lambda done, solved: tell(done, f"solved {solved / done:.0%}"),
        )
    console.print(f"{args.out}: {args.episodes} episodes, {summary} solved", soft_wrap=True)


def replay(
    file: tyro.conf.Positional[Path],
    *,
    number: int = 1,
    svg: Path | None = None,
) -> None:
    """Plays a recorded episode again and shows it; of an incident also what was hidden.

    Args:
        file: episodes.jsonl of an evaluation, or what `ftw record` wrote.
        number: which of its episodes, from 1 on.
        svg: writes the same as a picture, too.
    """
    if number < 1:
        raise ValueError(f"number must be at least 1, got {number}")
    episode = next(islice(read_episodes(file), number - 1, None), None)
    if episode is None:
        raise ValueError(f"{file}: there is no episode {number} in it")
    shown = _screen(episode)
    console.print(shown)
    if svg is not None:
        paper = Console(record=True, width=132, file=StringIO())
        paper.print(shown)
        title = f"{episode.env_id} {episode.instance.split} {episode.instance.index}"
        write_bytes(svg, paper.export_svg(title=title).encode())


def _screen(episode: Episode) -> Group:
    """The first observation, a row for each turn, and how it ended."""
    env = make(episode.env_id, **episode.env_kwargs, render_mode="ansi")
    where = {"split": episode.instance.split, "index": episode.instance.index}
    seen, info = env.reset(seed=episode.seed, options=where)
    first = _words(env, seen)
    times, texts = [0], []
    for i, turn in enumerate(episode.turns):
        if written(seen) != turn.observation:
            raise ValueError(
                f"turn {i + 1} shows something else than was recorded: the episode is of "
                f"{episode.env_version}, this is {env.env_version}"
            )
        seen, _, _, _, info = env.step(turn.reply)
        texts.append(_words(env, seen))
        times.append(env.world.now // MINUTE if isinstance(env, IncidentEnv) else i + 1)
    live = isinstance(env, IncidentEnv)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=live)
    for name in ("t" if live else "", "reply", "what it showed", *(["hidden"] if live else [])):
        table.add_column(name, overflow="fold")
    story = env.timeline() if isinstance(env, IncidentEnv) and info["end"] else []
    for i, turn in enumerate(episode.turns):
        since = times[i] if i else -(10**9)
        then = [f"t{t:+d} {what}" for t, what in story if since < t <= times[i + 1]]
        row = [Text(f"+{times[i + 1]}" if live else str(i + 1), "dim"), Text(turn.reply, "bold")]
        row.append(Text(texts[i].partition("\n")[2] if live else texts[i]))
        table.add_row(*row, *([Text("\n".join(then), "red")] if live else []))
    end = [f"{episode.end}: score {episode.score:g}"]
    if isinstance(env, IncidentEnv) and info["end"]:
        end += hidden_story(env, timeline=False)
    return Group(Text(first), table, Text("\n".join(end)))


def _words(env: EpisodeEnv, observation: Any) -> str:
    """An observation in words; the board itself where it is a picture."""
    if isinstance(observation, str):
        return observation
    said = observation["text"] if isinstance(observation, dict) else ""
    return f"{said}\n{env.render()}".strip()
