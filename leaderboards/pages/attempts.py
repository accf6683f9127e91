"""Attempts to be looked at: the frames of a replay, Sokoban as a drawing, the rest as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leaderboards.pages.svg import element
from leaderboards.pages.text import visible
from leaderboards.schema import Replay

SIZE = 20
"""Units of a cell's side."""

_KNOWN = frozenset("#@$.*+- ")
_GOALS, _BOXES, _PLAYERS = ".*+", "$*", "@+"


@dataclass(frozen=True, slots=True)
class Frame:
    """A moment of an attempt.

    Attributes:
        number: turns taken before it.
        reply, action: what led to it; None at the start, action None if unusable.
        picture: the world as a drawing, None where it is text.
        world: the world as text.
        saw: what the agent saw then.
    """

    number: int
    reply: str | None
    action: str | None
    picture: Markup | None
    world: str
    saw: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """A replay and its frames; `map` is what all its drawings share, None for text."""

    replay: Replay
    map: Markup | None
    frames: Sequence[Frame]


def attempt(replay: Replay, kind: str, name: str) -> Attempt:
    """The frames of a replay.

    Args:
        kind: how the board shows an attempt; "sokoban" draws what is a Sokoban level.
        name: of the map on its page.
    """
    worlds = [replay.start, *(step.world for step in replay.steps)]
    saw = [*(step.saw for step in replay.steps), replay.last]
    drawn = kind == "sokoban" and all(map(is_level, worlds))
    replies = [(None, None), *((step.reply, step.action) for step in replay.steps)]
    return Attempt(
        replay=replay,
        map=_map(worlds[0], name) if drawn else None,
        frames=[
            Frame(i, reply, action, _board(world, name, i) if drawn else None, world, seen)
            for i, (world, seen, (reply, action)) in enumerate(
                zip(worlds, saw, replies, strict=True)
            )
        ],
    )


def is_level(world: str) -> bool:
    """Whether the text is a drawable Sokoban board: rows of one length of its signs."""
    rows = world.split("\n")
    return len({len(row) for row in rows}) == 1 and 0 < len(rows[0]) <= 64 and (
        len(rows) <= 64 and set(world) - {"\n"} <= _KNOWN
    )  # fmt: skip


def _places(world: str, signs: str) -> list[tuple[int, int]]:
    """Column and row of every cell with one of the signs."""
    rows = world.split("\n")
    return [(x, y) for y, row in enumerate(rows) for x, sign in enumerate(row) if sign in signs]


def _map(world: str, name: str) -> Markup:
    """Floor, walls and goals, which never move, as a symbol."""
    rows = world.split("\n")
    width, height = SIZE * len(rows[0]), SIZE * len(rows)
    walls = "".join(
        f"M{x * SIZE} {y * SIZE}h{SIZE}v{SIZE}h-{SIZE}z" for x, y in _places(world, "#")
    )
    goals = "".join(
        f"M{x * SIZE + 10} {y * SIZE + 5}l5 5-5 5-5-5z" for x, y in _places(world, _GOALS)
    )
    return element(
        "symbol",
        element("rect", class_="floor", width=width, height=height),
        element("path", class_="wall", d=walls),
        element("path", class_="goal", d=goals),
        id=name,
        viewBox=f"0 0 {width} {height}",
    )


def _board(world: str, name: str, number: int) -> Markup:
    rows = world.split("\n")
    width, height = SIZE * len(rows[0]), SIZE * len(rows)
    boxes, home = _places(world, _BOXES), _places(world, "*")
    pieces = [
        _use("box-home" if box in home else "box", *box)
        for box in boxes
    ] + [_use("player", *place) for place in _places(world, _PLAYERS)]  # fmt: skip
    label = f"Board after step {number}: {len(home)} of {len(boxes)} boxes on a goal"
    return element(
        "svg",
        element("use", href=f"#{name}", width=width, height=height),
        *pieces,
        class_="level",
        role="img",
        aria_label=visible(label),
        viewBox=f"0 0 {width} {height}",
    )


def _use(piece: str, x: int, y: int) -> Markup:
    return element("use", href=f"#{piece}", x=x * SIZE, y=y * SIZE, width=SIZE, height=SIZE)
