"""The command `ftw gallery`: a page about every environment, made from the registry."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ftw_agents.agent import History
from ftw_agents.envs_command import Facts, facts_of
from ftw_envs.files import write_bytes
from ftw_envs.registry import TABLE, Row, make
from ftw_envs.sokoban.env import SokobanEnv
from ftw_envs.streams import Stream
from ftw_envs.text_env import EpisodeEnv

SEED = 0
"""Draws the training instance that is shown."""

_GIF_SECONDS = 12.0  # a long solution is played faster, so that it does not take much longer
_GIF_MS = 450


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of the page.

    Attributes:
        src: its path, seen from the page.
        still: a picture for readers who want nothing to move.
        width, height: pixels.
    """

    src: str
    still: str | None
    width: int
    height: int
    alt: str
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """What the page says about one id.

    Attributes:
        doc: the rest of the docstring, as HTML.
        open: whether `doc` is unfolded.
        text: the first observation in words, empty where there are none.
    """

    facts: Facts
    anchor: str
    doc: str
    open: bool
    text: str
    pictures: Sequence[Picture]


def gallery(*, out: Path) -> None:
    """Writes a page about every environment: what its docstring says, and pictures.

    Args:
        out: folder for index.html and images/; what it holds of them is replaced.
    """
    sections: list[Section] = []
    documented: set[str] = set()
    for row in TABLE:
        sections.append(_section(row, row.entry_point not in documented, out))
        documented.add(row.entry_point)
    # The page comes last, so that it never shows pictures that are not there yet.
    write_bytes(out / "index.html", page(sections).encode("utf-8"))
    print(f"environments {len(sections)}: {out / 'index.html'}")


def page(sections: Sequence[Section]) -> str:
    """The page as HTML."""
    from jinja2 import Environment

    from ftw_agents.gallery_page import PAGE

    html = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(PAGE)
    return html.render(sections=sections)


def _section(row: Row, first: bool, out: Path) -> Section:
    env = make(row.id, render_mode="rgb_array")
    observation, info = env.reset(seed=SEED)
    anchor = re.sub(r"[^A-Za-z0-9._-]", "-", row.id)
    where = f"{info['instance']['split']} instance {info['instance']['index']}"
    return Section(
        facts=facts_of(row),
        anchor=anchor,
        doc=markdown((inspect.getdoc(type(env)) or "").partition("\n")[2]),
        open=first,
        text=_words(observation),
        pictures=_pictures(env, observation, anchor, where, out),
    )


def _words(observation: Any) -> str:
    if isinstance(observation, dict):
        observation = observation.get("text")
    return observation if isinstance(observation, str) else ""


def markdown(text: str) -> str:
    """Markdown as HTML, one level of headings down; HTML in it is shown, not obeyed."""
    from markdown_it import MarkdownIt

    down = re.sub(r"^##", "###", text, flags=re.MULTILINE)
    html: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(down)
    return html


def _pictures(
    env: EpisodeEnv, observation: Any, anchor: str, where: str, out: Path
) -> list[Picture]:
    """Writes the pictures of an instance that was just started."""
    from ftw_envs.drawing import write_gif, write_png

    frame = env.render()
    height, width, _ = frame.shape
    still = f"images/{anchor}.png"
    write_png(out / still, frame)
    pictures = [Picture(still, None, width, height, f"The start of {where}", f"start of {where}")]
    if isinstance(env, SokobanEnv):
        frames = [frame, *_solve(env, observation)]
        moves = len(frames) - 1
        moving = f"images/{anchor}.gif"
        ms = min(_GIF_MS, round(1000 * _GIF_SECONDS / moves / 10) * 10)
        write_gif(out / moving, frames, ms=ms)
        caption = f"the solver: {moves} moves"
        if moves == env.packed().moves:
            caption += ", the fewest possible"
        pictures.append(Picture(moving, still, width, height, f"{where}, {caption}", caption))
    return pictures


def _solve(env: EpisodeEnv, observation: Any) -> list[Any]:
    """Plays the solver's way to the end; the pictures after each move."""
    from ftw_agents.scripted.solver import SolverAgent

    agent, frames, ended = SolverAgent(), [], False
    history = History([observation], Stream("gallery"), env)
    while not ended:
        [reply] = agent.act([history])
        observation, _, terminated, truncated, _ = env.step(reply.text)
        history.replies.append(reply)
        history.observations.append(observation)
        frames.append(env.render())
        ended = terminated or truncated
    return frames
