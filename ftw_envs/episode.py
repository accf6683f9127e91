"""The Episode: the one record of an attempt, and the only currency of the suite.

Environments produce it, the buffer holds it, filters rank it, the learner imitates
it, leaderboards re-play it. On disk it is one JSON object a line (JSONL).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from ftw_envs.files import partial_path

SPLITS = ("train", "valid", "test")
ENDS = ("solved", "failed", "time_limit")
"""Why an episode ended: solved or failed by the rules (terminated), or out of steps (truncated)."""

MAX_LINE_BYTES = 4_000_000


class EpisodeError(ValueError):
    """A record that is not an Episode; the message says where and what would be right."""


@dataclass(frozen=True, slots=True)
class Instance:
    """What the task is: item `index` of `split`, and a hash of its content (hex)."""

    split: str
    index: int
    hash: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange.

    Attributes:
        observation: what the agent saw, as `ftw_envs.text_env.record` writes it: the text;
            for pictures "sha256:" and a hash.
        reply: what the agent wrote, unchanged.
        action: the action that was parsed from it, None where it was unusable.
        usable: whether the reply held exactly one known action.
        reward: what the environment paid for this step.
    """

    observation: str
    reply: str
    action: str | None
    usable: bool
    reward: float


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token sequence a language model saw and wrote in an episode.

    Attributes:
        ids: all tokens of the episode in order, observations and replies, length T.
        action: 1 where the token was sampled by the agent, else 0, length T.
        logprobs: log-probability of each sampled token when it was sampled, in
            order, length sum(action); nats, at temperature 1.
    """

    ids: tuple[int, ...]
    action: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Episode:
    """One attempt at one instance.

    Attributes:
        env_id: the Gymnasium id, with its version ("ftw/SokobanMini-v0").
        env_version: fingerprint of the rules and instances behind the id.
        env_kwargs: the view that was played (keyword arguments of `gym.make`).
        instance: which task.
        seed: the noise seed of this attempt.
        turns: what was said, in order.
        final_observation: what the environment said after the last reply.
        score: the episode's score; rewards are 0 until the end unless they were shaped.
        solved: whether the task was solved; shaping never changes it.
        end: one of `ENDS`.
        policy_version: version of the policy that played; 0 for anything not being trained.
        tokens_in: tokens the agent read, 0 for agents without tokens.
        tokens_out: tokens the agent wrote.
        tokens: the tokens themselves, kept for training only.
    """

    env_id: str
    env_version: str
    env_kwargs: dict[str, Any]
    instance: Instance
    seed: int
    turns: tuple[Turn, ...]
    final_observation: str
    score: float
    solved: bool
    end: str
    policy_version: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens: Tokens | None = field(default=None, repr=False)

    @property
    def invalid_actions(self) -> int:
        """How many replies were unusable."""
        return sum(not t.usable for t in self.turns)

    def without_tokens(self) -> Episode:
        """The same record without the training tokens, as it is published."""
        return replace(self, tokens=None)

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back to an equal Episode."""
        data: dict[str, Any] = {
            "env_id": self.env_id,
            "env_version": self.env_version,
            "env_kwargs": self.env_kwargs,
            "instance": {
                "split": self.instance.split,
                "index": self.instance.index,
                "hash": self.instance.hash,
            },
            "seed": self.seed,
            "turns": [
                {
                    "observation": t.observation,
                    "reply": t.reply,
                    "action": t.action,
                    "usable": t.usable,
                    "reward": t.reward,
                }
                for t in self.turns
            ],
            "final_observation": self.final_observation,
            "score": self.score,
            "solved": self.solved,
            "end": self.end,
            "policy_version": self.policy_version,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
        }
        if self.tokens is not None:
            data["tokens"] = {
                "ids": list(self.tokens.ids),
                "action": list(self.tokens.action),
                "logprobs": list(self.tokens.logprobs),
            }
        return data

    @classmethod
    def from_json(cls, data: Any) -> Episode:
        """Reads one record strictly.

        Raises:
            EpisodeError: a key is missing, unknown or of the wrong type, or the parts
                contradict each other.
        """
        top = _keys(data, "episode", _EPISODE_TYPES, optional=("tokens",))
        inst = _keys(top["instance"], "instance", {"split": str, "index": int, "hash": str})
        if inst["index"] < 0:
            _fail(f"instance.index must be >= 0, got {inst['index']}")
        turns = tuple(
            Turn(**_keys(t, f"turns[{i}]", _TURN_TYPES)) for i, t in enumerate(top["turns"])
        )
        for i, turn in enumerate(turns):
            if turn.usable != (turn.action is not None):
                _fail(f"turns[{i}] must have an action exactly if it is usable")
        tokens = _read_tokens(top["tokens"]) if "tokens" in top else None
        if top["end"] not in ENDS:
            _fail(f"end must be one of {', '.join(ENDS)}, got {top['end']!r}")
        if top["solved"] != (top["end"] == "solved"):
            _fail(f"solved is {top['solved']} but end is {top['end']!r}")
        if tokens is not None and top["tokens_out"] != len(tokens.logprobs):
            _fail(f"tokens_out is {top['tokens_out']}, sampled were {len(tokens.logprobs)} tokens")
        for name in ("seed", "policy_version", "tokens_in", "tokens_out"):
            if top[name] < 0:
                _fail(f"{name} must be >= 0, got {top[name]}")
        return cls(**{**top, "instance": Instance(**inst), "turns": turns, "tokens": tokens})


_EPISODE_TYPES: dict[str, Any] = {
    "env_id": str,
    "env_version": str,
    "env_kwargs": dict,
    "instance": dict,
    "seed": int,
    "turns": list,
    "final_observation": str,
    "score": float,
    "solved": bool,
    "end": str,
    "policy_version": int,
    "tokens_in": int,
    "tokens_out": int,
    "tokens": dict,
}
_TURN_TYPES: dict[str, Any] = {
    "observation": str,
    "reply": str,
    "action": (str, type(None)),
    "usable": bool,
    "reward": float,
}


def _fail(message: str) -> NoReturn:
    raise EpisodeError(message)


def _type_ok(value: Any, want: Any) -> bool:
    if want is float:  # a JSON number without a fraction is a float here too
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if want is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, want)


def _keys(
    data: Any, where: str, types: dict[str, Any], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    if not isinstance(data, dict):
        _fail(f"{where} must be an object, got {type(data).__name__}")
    for key in data.keys() - types.keys():
        _fail(f"{where} has an unknown key {key!r}")
    for key, want in types.items():
        if key not in data:
            if key in optional:
                continue
            _fail(f"{where} lacks {key!r}")
        if not _type_ok(data[key], want):
            name = getattr(want, "__name__", "str or null")
            _fail(f"{where}.{key} must be {name}, got {type(data[key]).__name__}")
    return {k: float(v) if types[k] is float else v for k, v in data.items()}


def _read_tokens(data: Any) -> Tokens:
    raw = _keys(data, "tokens", {"ids": list, "action": list, "logprobs": list})
    for key, want in (("ids", int), ("action", int), ("logprobs", float)):
        if not all(_type_ok(v, want) for v in raw[key]):
            _fail(f"tokens.{key} must be a list of {want.__name__}")
    if len(raw["ids"]) != len(raw["action"]):
        _fail("tokens.ids and tokens.action must have one length")
    if not set(raw["action"]) <= {0, 1} or sum(raw["action"]) != len(raw["logprobs"]):
        _fail("tokens.action must be 0 or 1, with one of tokens.logprobs for each 1")
    return Tokens(tuple(raw["ids"]), tuple(raw["action"]), tuple(float(x) for x in raw["logprobs"]))


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        _fail(f"key {twice!r} stands twice in one object")
    return data


def _no_constant(name: str) -> NoReturn:
    _fail(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        _fail(f"{text} is out of range")
    return value


def loads_strict(text: str, parse_int: Callable[[str], int] = int) -> Any:
    """`json.loads` that refuses duplicate keys, NaN, Infinity and lone surrogates.

    Args:
        parse_int: reads a whole number; may raise EpisodeError.

    Raises:
        EpisodeError: the text is not strict JSON; the message says why.
    """
    try:
        data = json.loads(
            text,
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=parse_int,
        )
        if "\\ud" in text or "\\uD" in text:
            json.dumps(data, ensure_ascii=False).encode("utf-8")
    except EpisodeError:
        raise
    except UnicodeEncodeError:
        _fail("not valid JSON (a lone surrogate)")
    except RecursionError:
        _fail("not valid JSON (nested too deep)")
    except ValueError as e:
        _fail(f"not valid JSON ({e})")
    return data


def read_episodes(path: str | os.PathLike[str]) -> Iterator[Episode]:
    """Streams the episodes of a JSONL file, in order.

    Raises:
        EpisodeError: names the file and line of the first record that is broken, or
            the file where it cannot be read or its last line has no line end (cut off).
    """
    name = os.fspath(path)
    try:
        file = open(name, "rb")  # noqa: SIM115 - closed below; only opening may fail so
    except OSError as e:
        raise EpisodeError(f"{name}: cannot be read ({e.strerror})") from None
    with file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            try:
                if len(line) > MAX_LINE_BYTES:
                    _fail(f"longer than {MAX_LINE_BYTES} bytes")
                if not line.endswith(b"\n"):
                    _fail("cut off: the line has no end")
                yield Episode.from_json(loads_strict(line.decode("utf-8")))
            except UnicodeDecodeError:
                raise EpisodeError(f"{name}:{number}: not UTF-8") from None
            except EpisodeError as e:
                raise EpisodeError(f"{name}:{number}: {e}") from None


class EpisodeWriter:
    """Writes episodes to a JSONL file as they come; the file appears when all are in.

    Lines go to a temporary file beside `path`, which is renamed on `close()`. Leaving
    the `with` block by an exception removes it, so that no half file is ever left.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._partial = partial_path(self._path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self._partial, "w", encoding="utf-8", newline="\n")  # noqa: SIM115
        self.count = 0

    def write(self, episode: Episode) -> None:
        """Appends one episode. Raises ValueError for a score that is not finite."""
        line = json.dumps(
            episode.to_json(), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        self._file.write(line + "\n")
        self.count += 1

    def close(self) -> None:
        """Finishes the file under its own name."""
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()
            self._partial.unlink(missing_ok=True)


def write_episodes(path: str | os.PathLike[str], episodes: Iterable[Episode]) -> int:
    """Writes all of `episodes` to `path` (write, then rename); returns how many."""
    with EpisodeWriter(path) as writer:
        for episode in episodes:
            writer.write(episode)
    return writer.count
