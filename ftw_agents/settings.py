"""Settings from a YAML or JSON file, or from a run's config.json, into dataclasses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

T = TypeVar("T")

_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


class _Loader(yaml.SafeLoader):
    """Safe YAML that takes 5e-4 for a number, as YAML 1.2 and JSON do."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def read_file(path: Path) -> dict[str, Any]:
    """The settings in a YAML file; JSON is YAML too.

    Raises:
        ValueError: it cannot be read, or does not hold settings by name.
    """
    try:
        data = yaml.load(path.read_text("utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as e:
        raise ValueError(f"{path}: cannot be read ({e})") from None
    except yaml.YAMLError as e:
        raise ValueError(f"{path}: not YAML or JSON ({' '.join(str(e).split())})") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ValueError(f"{path}: must hold settings by name (lr: 0.001), not a {_name(data)}")
    return data


def build(kind: type[T], data: Mapping[str, Any], prefix: str = "") -> T:
    """A settings dataclass from a mapping; what is not given keeps its default.

    Args:
        kind: a dataclass of bool, int, float, str, Path, Literal, tuples of these, None
            beside one of these, and such dataclasses.
        prefix: where `data` stands, for messages ("ftw.").

    Raises:
        ValueError: a name is unknown (says the nearest there is), or a value is of another
            type than its setting.
    """
    types = get_type_hints(kind)
    given: dict[str, Any] = {}
    for key, value in data.items():
        if key not in types:
            raise ValueError(f"unknown setting {f'{prefix}{key}'!r}{_nearest(kind, prefix, key)}")
        given[key] = _value(types[key], value, f"{prefix}{key}")
    return kind(**given)


def names(kind: type[Any], prefix: str = "") -> list[str]:
    """All settings of a dataclass; those of its parts with a dot (ftw.winners)."""
    types = get_type_hints(kind)
    found = []
    for name in (f.name for f in fields(kind)):
        found.append(f"{prefix}{name}")
        if is_dataclass(types[name]):
            found += names(types[name], f"{prefix}{name}.")
    return found


def _nearest(kind: type[Any], prefix: str, key: object) -> str:
    known = names(kind, prefix)
    leaves = {n.rpartition(".")[2]: n for n in reversed(known)}
    match = get_close_matches(str(key), leaves, n=1)
    return f"; the nearest there is: {leaves[match[0]]}" if match else f"; there are {_list(known)}"


def _list(known: list[str]) -> str:
    return ", ".join(n for n in known if n.count(".") == known[0].count("."))


def _value(kind: Any, value: Any, name: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in inner:
            return None
        kind = next(k for k in inner if k is not NoneType)
        return _value(kind, value, name)
    if origin is Literal:
        if value not in inner or isinstance(value, bool):
            wanted = ", ".join(map(str, inner))
            raise ValueError(f"{name} must be one of {wanted}, got {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name} must be a list, got {_name(value)} {value!r}")
        return tuple(_value(inner[0], v, f"{name}[{i}]") for i, v in enumerate(value))
    if is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise ValueError(f"{name} must hold settings by name, got {_name(value)} {value!r}")
        assert isinstance(kind, type)
        return build(kind, value, f"{name}.")
    taken: Any = {float: (int, float), Path: str}.get(kind, kind)
    if not isinstance(value, taken) or (isinstance(value, bool) and kind is not bool):
        wanted = _WORDS.get(kind, "text")
        raise ValueError(f"{name} must be {wanted}, got {_name(value)} {value!r}")
    return kind(value)


def _name(value: Any) -> str:
    words = {NoneType: "nothing", list: "list", dict: "mapping", str: "text", bool: "truth value"}
    return words.get(type(value), "number")
