"""Draws a Sokoban board with Pillow: flat shapes, any tile size."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from ftw_envs.sokoban.rules import XSB
from ftw_envs.sokoban.views import MIN_TILE

TILE = 32
_FLOOR, _FLOOR_LINE = (232, 226, 213), (220, 213, 198)
_WALL, _WALL_TOP, _WALL_LINE = (92, 99, 112), (111, 119, 133), (74, 80, 92)
_GOAL = (214, 90, 80)
_BOX, _BOX_EDGE = (196, 142, 84), (133, 90, 47)
_DONE, _DONE_EDGE = (96, 158, 103), (58, 107, 66)
_PLAYER, _PLAYER_EDGE, _EYE = (66, 118, 181), (40, 78, 126), (255, 255, 255)
_SCALE = 4  # drawn this much larger, then reduced, for smooth edges


def tile(kind: str, size: int) -> npt.NDArray[np.uint8]:
    """The picture of one XSB character, uint8 of shape (size, size, 3)."""
    n = size * _SCALE
    image = Image.new("RGB", (n, n), _FLOOR)
    d = ImageDraw.Draw(image)

    def box(margin: float, fill: tuple[int, int, int], edge: tuple[int, int, int]) -> None:
        a, b = n * margin, n * (1 - margin)
        d.rounded_rectangle((a, a, b, b), n * 0.08, fill=fill, outline=edge, width=max(1, n // 16))

    if kind == "#":
        d.rectangle((0, 0, n, n), fill=_WALL)
        d.rectangle((0, 0, n, n * 0.12), fill=_WALL_TOP)
        for y, x in ((0.5, 0.5), (0.98, 0.0), (0.98, 1.0)):
            d.line((0, n * y, n, n * y), fill=_WALL_LINE, width=max(1, n // 24))
            d.line((n * x, n * (y - 0.5), n * x, n * y), fill=_WALL_LINE, width=max(1, n // 24))
    else:
        d.rectangle((0, 0, n - 1, n - 1), outline=_FLOOR_LINE, width=max(1, n // 40))
    if kind in ".+":
        d.ellipse((n * 0.3, n * 0.3, n * 0.7, n * 0.7), outline=_GOAL, width=max(1, n // 10))
    if kind in "$*":
        fill, edge = (_BOX, _BOX_EDGE) if kind == "$" else (_DONE, _DONE_EDGE)
        box(0.12, fill, edge)
        w = max(1, n // 16)
        d.line((n * 0.26, n * 0.26, n * 0.74, n * 0.74), fill=edge, width=w)
        d.line((n * 0.74, n * 0.26, n * 0.26, n * 0.74), fill=edge, width=w)
    if kind in "@+":
        m = 0.2 if kind == "@" else 0.26
        d.ellipse(
            (n * m, n * m, n * (1 - m), n * (1 - m)),
            fill=_PLAYER,
            outline=_PLAYER_EDGE,
            width=max(1, n // 20),
        )
        for x in (0.41, 0.59):
            d.ellipse((n * (x - 0.05), n * 0.4, n * (x + 0.05), n * 0.52), fill=_EYE)
    return np.asarray(image.resize((size, size), Image.Resampling.LANCZOS), dtype=np.uint8)


@lru_cache(maxsize=16)
def tiles(size: int) -> npt.NDArray[np.uint8]:
    """The picture of each sum of flags, uint8 of shape (16, size, size, 3)."""
    pictures = np.zeros((16, size, size, 3), np.uint8)
    for flags, char in XSB.items():
        pictures[flags] = tile(char, size)
    pictures.setflags(write=False)
    return pictures


def draw_grid(grid: npt.NDArray[np.uint8], tile_size: int = TILE) -> npt.NDArray[np.uint8]:
    """Grids of flags (..., height, width) as pictures (..., height * tile, width * tile, 3).

    Raises:
        ValueError: tile_size is below `MIN_TILE`.
    """
    if tile_size < MIN_TILE:
        raise ValueError(f"tile_size must be at least {MIN_TILE}, got {tile_size}")
    h, w = grid.shape[-2:]
    rows = tiles(tile_size)[grid].swapaxes(-4, -3)  # ..., height, tile, width, tile, 3
    return rows.reshape(*grid.shape[:-2], h * tile_size, w * tile_size, 3)


def draw_cells(
    cells: bytes | bytearray, width: int, tile_size: int = TILE
) -> npt.NDArray[np.uint8]:
    """A position as uint8 of shape (height * tile_size, width * tile_size, 3)."""
    return draw_grid(np.frombuffer(bytes(cells), np.uint8).reshape(-1, width), tile_size)
