"""Pictures of episodes: text panels and animated GIFs, with Pillow."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from ftw_envs.files import write_bytes

PAPER, INK = (250, 248, 243), (44, 48, 56)

Frame = npt.NDArray[np.uint8]


def text_panel(text: str, width: int, size: int = 16) -> Frame:
    """Lines of text on paper, uint8 of shape (height, width, 3); long lines are cut."""
    font = ImageFont.load_default(size)
    lines = text.split("\n")
    step = round(size * 1.35)
    image = Image.new("RGB", (width, step * len(lines) + size // 2), PAPER)
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        draw.text((size // 2, size // 4 + i * step), line, font=font, fill=INK)
    return np.asarray(image, dtype=np.uint8)


def stack(top: Frame, bottom: Frame) -> Frame:
    """Two pictures of one width, one above the other."""
    return np.concatenate([top, bottom], axis=0)


def write_png(path: Path, frame: Frame) -> None:
    """Writes a uint8 (height, width, 3) picture as PNG."""
    out = io.BytesIO()
    Image.fromarray(frame).save(out, format="PNG", optimize=True)
    write_bytes(path, out.getvalue())


def write_gif(path: Path, frames: Sequence[Frame], ms: int = 450, last_ms: int = 1800) -> None:
    """Writes an endless GIF of equally sized uint8 (height, width, 3) frames.

    Args:
        ms: milliseconds each frame stands.
        last_ms: milliseconds for the last one.

    Raises:
        ValueError: there are no frames.
    """
    if not frames:
        raise ValueError("a GIF needs at least one frame")
    # One palette for all frames, so that colours do not flicker; merged equal frames
    # would lose their duration, so Pillow must keep every frame.
    images = [Image.fromarray(f) for f in frames]
    # What is drawn at some time stands in the first, middle or last frame.
    some = np.concatenate([frames[0], frames[len(frames) // 2], frames[-1]])
    palette = Image.fromarray(some).quantize(128)
    frames_p = [im.quantize(palette=palette, dither=Image.Dither.NONE) for im in images]
    out = io.BytesIO()
    frames_p[0].save(
        out,
        format="GIF",
        save_all=True,
        append_images=frames_p[1:],
        duration=[ms] * (len(frames) - 1) + [last_ms],
        loop=0,
        optimize=False,
    )
    write_bytes(path, out.getvalue())
