"""Text and numbers as pages show them: what a stranger wrote is shown, never obeyed."""

from __future__ import annotations

import re
import unicodedata
from datetime import timedelta
from hashlib import sha256
from typing import Any

from markupsafe import Markup

DASH = "–"
"""Stands where there is no figure."""

_FORMULA = tuple("=+-@\t\r\n")
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str) -> str:
    """Text with characters that hide, turn or control what stands there spelled out.

    An escape becomes ␛, a turned line ⟨U+202E⟩; line ends and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in "\n\t" else _seen(c) for c in text)


def finalize(value: Any) -> Any:
    """What templates print: text made visible, markup of our own and numbers as they are."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _seen(character: str) -> str:
    code = ord(character)
    if code < 32:
        return chr(0x2400 + code)
    if code == 127:
        return "␡"
    if unicodedata.category(character) in _UNSEEN:
        return f"⟨U+{code:04X}⟩"
    return character


def cell(value: Any) -> Any:
    """A CSV cell that no spreadsheet takes for a formula: text that looks like one gets a '."""
    if not isinstance(value, str):
        return "" if value is None else value
    text = visible(value)
    # Spreadsheets skip leading spaces and read full-width signs as plain ones.
    start = unicodedata.normalize("NFKC", text).lstrip(" ")
    return f"'{text}" if start.startswith(_FORMULA) else text


def file_name(text: str) -> str:
    """A file name for any text: as it is if plain, else with a hash, so that no two share one."""
    if re.fullmatch(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?", text):
        return text
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
    return f"{plain}-{sha256(text.encode()).hexdigest()[:8]}".lstrip("-")


def percent(share: float) -> str:
    """A share as a percentage with one decimal and without the sign."""
    return f"{100 * share:.1f}"


def count(n: int | None) -> str:
    """A whole number with separators."""
    return DASH if n is None else f"{n:,}"


def short(n: float | None) -> str:
    """A number in at most four characters and a unit: 950, 1.2k, 34k, 5.1M."""
    if n is None:
        return DASH
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        # Rounding may lead over the limit: 999,960 is 1M.
        if n >= size * 0.9995:
            return f"{n / size:.3g}{unit}"
    return f"{n:.3g}"


def duration(seconds: int) -> str:
    """Seconds as hours, minutes and seconds."""
    return str(timedelta(seconds=seconds))
