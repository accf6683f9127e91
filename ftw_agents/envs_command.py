"""The command `ftw envs`, and the facts about every id that it and the gallery show."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict, dataclass
from typing import Any

from gymnasium import Space, spaces
from rich import box
from rich.table import Table
from rich.text import Text

from ftw_agents.console import console
from ftw_envs.episode import SPLITS
from ftw_envs.registry import TABLE, Row, make


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is to know about an id without playing it.

    Attributes:
        kwargs: what the id fixes.
        arguments: every keyword argument of `gym.make`, with the value it has if not given.
        summary: first line of the docstring.
        instances: how many each split has.
        observes: the parts of an observation: "text", "image", "grid".
        answers: "text" or "number".
        observation_space, action_space: in short.
        vector_entry_point: "module:Class" of its batched form, None if it has none.
    """

    id: str
    entry_point: str
    kwargs: dict[str, Any]
    arguments: dict[str, Any]
    summary: str
    instances: dict[str, int]
    max_steps: int
    repeatable: bool
    env_version: str
    observes: tuple[str, ...]
    answers: str
    observation_space: str
    action_space: str
    vector_entry_point: str | None


def facts_of(row: Row) -> Facts:
    """The facts about a row of the table."""
    env = make(row.id)
    seen = env.observation_space
    defaults = inspect.signature(type(env)).parameters.values()
    return Facts(
        id=row.id,
        entry_point=row.entry_point,
        kwargs=row.kwargs,
        arguments={p.name: row.kwargs.get(p.name, p.default) for p in defaults},
        summary=(inspect.getdoc(type(env)) or "").partition("\n")[0],
        instances={split: env.instance_count(split) for split in env.splits},
        max_steps=env.max_steps,
        repeatable=env.repeatable,
        env_version=env.env_version,
        observes=tuple(seen) if isinstance(seen, spaces.Dict) else (_kind(seen),),
        answers=_kind(env.action_space),
        observation_space=short(seen),
        action_space=short(env.action_space),
        vector_entry_point=row.vector_entry_point,
    )


def _kind(space: Space[Any]) -> str:
    names = {spaces.Text: "text", spaces.Discrete: "number", spaces.Box: "array"}
    return names.get(type(space), type(space).__name__)


def short(space: Space[Any]) -> str:
    """A space in a few words: the characters that a text may hold are left out."""
    if isinstance(space, spaces.Text):
        return f"Text({space.max_length})"
    if isinstance(space, spaces.Dict):
        return f"Dict({', '.join(f'{key}: {short(part)}' for key, part in space.items())})"
    return str(space)


def envs(*, json: bool = False) -> None:
    """Lists all environments.

    Args:
        json: print a JSON list with everything that is known of each, for other programs.
    """
    facts = [facts_of(row) for row in TABLE]
    if json:
        print(_to_json(facts))
        return
    console.print(table_of(facts))
    console.print(
        "[dim]train, valid, test: instances; steps: the limit; batch: has a batched form\n"
        "`ftw play ID` plays one by hand, `ftw envs --json` tells more.[/dim]"
    )


def _to_json(facts: list[Facts]) -> str:
    # A default that JSON cannot hold is told as text.
    return json.dumps([asdict(f) for f in facts], indent=2, default=str)


def table_of(facts: list[Facts]) -> Table:
    """What a person wants to know, in 80 columns or more."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("id", min_width=max(len(f.id) for f in facts))
    for split in SPLITS:
        table.add_column(split, justify="right", no_wrap=True)
    table.add_column("sees")
    table.add_column("takes")
    table.add_column("steps", justify="right", no_wrap=True)
    table.add_column("batch")
    for f in facts:
        table.add_row(
            # The summary shares a cell with the id, so that both fit into 80 columns.
            Text.assemble((f.id, "bold cyan"), "\n", (f.summary, "dim")),
            *(f"{f.instances[split]:,}" for split in SPLITS),
            "\n".join(f.observes),
            f.answers,
            str(f.max_steps),
            "no" if f.vector_entry_point is None else "yes",
        )
    return table
