"""Files that are either whole or not there: write beside, then rename."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def partial_path(path: Path) -> Path:
    """Where `path` is written until it is whole: same folder, so that rename is atomic."""
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def write_bytes(path: Path, data: bytes) -> None:
    """Writes `data` to `path`, all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    with open(partial, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    partial.replace(path)


def write_json(path: Path, data: Any) -> None:
    """Writes `data` as indented JSON, all or nothing. Raises ValueError on NaN or Infinity."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(path, (text + "\n").encode("utf-8"))
