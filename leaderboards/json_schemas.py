"""The JSON Schemas of all files, for those who read or write them without this package.

python -m leaderboards.json_schemas
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ftw_envs.files import write_json
from leaderboards.rounds import Commitment, Draw, Reveal, Round, Starts
from leaderboards.schema import CurveRow, Decision, Entry, EpisodeRow, Lock, Verified

SCHEMAS: dict[str, type[BaseModel]] = {
    "entry": Entry,
    "lock": Lock,
    "episode": EpisodeRow,
    "curve": CurveRow,
    "verified": Verified,
    "decision": Decision,
    "round": Round,
    "commitment": Commitment,
    "draw": Draw,
    "starts": Starts,
    "reveal": Reveal,
}
"""The models with a JSON Schema in `FOLDER`, which this module's command writes."""

FOLDER = Path(__file__).parent / "schemas"


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one of `SCHEMAS`."""
    return SCHEMAS[name].model_json_schema()


def write_schemas(folder: Path = FOLDER) -> list[Path]:
    """Writes all JSON Schemas; returns where."""
    paths = []
    for name in SCHEMAS:
        paths.append(folder / f"{name}.schema.json")
        write_json(paths[-1], json_schema(name))
    return paths


if __name__ == "__main__":
    for path in write_schemas():
        print(path)
