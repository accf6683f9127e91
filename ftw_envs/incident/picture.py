"""Pictures of an investigation: the network as far as it was seen, and a timeline of what was.

Only what replies have shown is drawn, and nothing that is hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import cos, pi, sin

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ftw_envs.drawing import INK, PAPER, Frame
from ftw_envs.incident.desk import Desk
from ftw_envs.incident.instance import ADDRESS, LEASE, MINUTE, handle
from ftw_envs.incident.levels import GRAPH, LANE, SOURCES, WIDTH, height_of

_COLOURS = {
    "auth": (66, 118, 181), "net": (96, 158, 103), "audit": (196, 142, 84), "web": (150, 98, 170),
    "db": (70, 150, 150), "cloud": (120, 130, 200), "k8s": (180, 110, 140),
}  # fmt: skip
_ALERT, _QUIET, _CUT = (214, 90, 80), (205, 200, 190), (120, 120, 120)
_NODE = 12
_ROLES_FOR = 16
"""Hosts up to which there is room for their roles."""


@lru_cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def picture(desk: Desk, head: Sequence[str]) -> Frame:
    """The picture, uint8 of shape (`height_of(level)`, WIDTH, 3).

    Above, hosts stand in a ring and outside addresses that were seen around it; a line for each
    login or flow in the rows that were shown, in the colour of their source. The alerted host is
    red; hosts that were cut off are grey, cleaned ones have a second ring. Below, a lane for each
    host has a mark for each row that was shown, from the oldest of them to now; the alert is the
    red line.

    Args:
        head: lines of text in the corner.
    """
    world = desk.world
    hosts = world.incident.hosts
    image = Image.new("RGB", (WIDTH, height_of(world.level)), PAPER)
    paint = ImageDraw.Draw(image)
    log = world.log
    shown = np.flatnonzero(np.isin(log.uid, list(desk.seen))).tolist()
    rows = [
        (int(log.t[i]), SOURCES[log.source[i]], int(log.host[i]), int(log.src[i]), int(log.dst[i]))
        for i in shown
    ]
    outside = sorted({x for r in rows for x in r[3:] if ADDRESS <= x < LEASE})
    at = _ring(range(len(hosts)), 0.74) | _ring(outside, 1.0)
    for _, source, host, src, dst in rows:
        for place in (src, dst):
            if place in at and place != host:
                paint.line((*at[place], *at[host]), _COLOURS[source], 2)
    for place, (x, y) in at.items():
        _node(paint, desk, place, x, y)
    _timeline(paint, rows, len(hosts), world.now)
    for i, line in enumerate(head):
        paint.text((6, 6 + 15 * i), line, INK, _font(11))
    for i, source in enumerate(world.level.sources):
        paint.text((WIDTH - 48, 6 + 14 * i), source, _COLOURS[source], _font(12))
    return np.asarray(image, dtype=np.uint8)


def _ring(places: Sequence[int], radius: float) -> dict[int, tuple[float, float]]:
    """Where each place stands, on an ellipse around the middle of the graph."""
    out = {}
    for i, place in enumerate(places):
        turn = 2 * pi * i / len(places) - pi / 2
        x = WIDTH / 2 + radius * (WIDTH / 2 - 70) * cos(turn)
        out[place] = (x, GRAPH / 2 + 10 + radius * (GRAPH / 2 - 34) * sin(turn))
    return out


def _node(paint: ImageDraw.ImageDraw, desk: Desk, place: int, x: float, y: float) -> None:
    world = desk.world
    inside = place < ADDRESS
    fill = _QUIET if inside else PAPER
    if place == world.incident.alert_host:
        fill = _ALERT
    if place in world.isolated or place in world.blocked:
        fill = _CUT
    box = (x - _NODE, y - _NODE, x + _NODE, y + _NODE)
    (paint.ellipse if inside else paint.rectangle)(box, fill, INK, 1)
    if place in world.cleaned:
        paint.ellipse((box[0] - 4, box[1] - 4, box[2] + 4, box[3] + 4), None, INK, 2)
    paint.text((x, y), handle(place), INK, _font(11), anchor="mm")
    if inside and len(world.incident.hosts) <= _ROLES_FOR:
        paint.text((x, y + _NODE + 7), world.incident.hosts[place].role, INK, _font(9), anchor="mm")


def _timeline(
    paint: ImageDraw.ImageDraw,
    rows: Sequence[tuple[int, str, int, int, int]],
    hosts: int,
    now: int,
) -> None:
    """A lane for each host, with a mark for each row."""
    first = min([r[0] for r in rows], default=-60 * MINUTE)
    left, right, top = 40, WIDTH - 12, GRAPH + 12

    def across(t: int) -> float:
        return left + (right - left) * (t - first) / max(1, max(now, MINUTE) - first)

    for host in range(hosts):
        y = top + LANE * host + LANE // 2
        paint.line((left, y, right, y), _QUIET, 1)
        paint.text((8, y), handle(host), INK, _font(10), anchor="lm")
    for t, source, host, _, _ in rows:
        x, y = across(t), top + LANE * host + LANE // 2
        paint.rectangle((x - 2, y - 5, x + 2, y + 5), _COLOURS[source])
    foot = top + LANE * hosts
    paint.line((across(0), top, across(0), foot), _ALERT, 2)
    for t, text in ((first, f"t{first // MINUTE:+d}"), (0, "alert"), (now, f"t+{now // MINUTE}")):
        if t == 0 or abs(across(t) - across(0)) > 40:
            anchor = "rt" if across(t) > right - 40 else "lt"
            paint.text((across(t), foot + 3), text, INK, _font(10), anchor=anchor)
