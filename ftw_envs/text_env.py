"""EpisodeEnv: what all environments of the suite share.

A subclass says what its world is (instances, rules, texts); this class keeps the
contract: instances addressed by split and index, two seeds, text in and text out, a
score at the end, unusable replies that cost a step and change nothing else. A subclass
may offer other views of the same episode: arrays to look at, numbers to act with.
"""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from hashlib import sha256
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from ftw_envs.actions import MAX_REPLY_CHARS, ActionGrammar, Parsed
from ftw_envs.episode import SPLITS, Instance
from ftw_envs.streams import integer_at

CHARSET = string.ascii_letters + string.digits + string.punctuation + " \n"
"""Every character an observation may hold."""

MAX_OBSERVATION_CHARS = 4_000

SEALED_COUNT = 2**53
"""Instances of a sealed split: more than anybody can try, and every JSON reader keeps the index."""


def draw_name(split: str) -> tuple[str, str]:
    """Name of the stream that draws an instance of `split`; its counter is the seed."""
    return ("instance", split)


def record(observation: Any) -> str:
    """An observation as an `Episode` keeps it: text as it is, arrays by their hash.

    An array becomes "sha256:" and the hash of its shape and bytes. A dict of arrays and
    "text" becomes the text, and a line "key sha256:..." for each array.
    """
    if isinstance(observation, str):
        return observation
    if isinstance(observation, dict):
        arrays = sorted(observation.keys() - {"text"})
        lines = [f"{key} {record(observation[key])}" for key in arrays]
        return "\n".join([observation["text"], *lines])
    array = np.ascontiguousarray(observation)
    return "sha256:" + sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()


class EpisodeEnv(gym.Env[Any, Any], ABC):
    """Base class of the suite's environments.

    `reset(seed=s)` draws a training instance from `s`; `reset(options={"split": "test",
    "index": 17})` picks one. The instance is what the task is; the seed is the noise of
    this attempt, and `seed=None` gives fresh noise. `repeatable` says whether the same
    start (instance and noise) can be had twice.

    `info` has the same keys after every call: `instance` (split, index, hash),
    `env_version`, `steps`, `invalid_actions`, `score`, `solved`, `end` ("" until the end,
    then one of `ftw_envs.episode.ENDS`).

    Args:
        max_steps: steps until the episode is cut off (truncated), at least 1.
        render_mode: None, "ansi" or "rgb_array".

    Raises:
        ValueError: an argument that cannot work, with what would be right.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012
    repeatable: ClassVar[bool] = True
    splits: ClassVar[tuple[str, ...]] = SPLITS
    sealed_splits: tuple[str, ...] = ()
    """Splits of `SEALED_COUNT` instances each, for sealed rounds: each is like a test split, and
    none is listed or gone through."""

    env_version: str
    """Fingerprint of rules and instances; it changes whenever a result could."""

    def __init__(self, *, max_steps: int, render_mode: str | None = None) -> None:
        if not isinstance(max_steps, int) or max_steps < 1:
            raise ValueError(f"max_steps must be an integer of at least 1, got {max_steps!r}")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            modes = ", ".join(self.metadata["render_modes"])
            raise ValueError(f"render_mode must be None or one of {modes}, got {render_mode!r}")
        self.max_steps = max_steps
        self.render_mode = render_mode
        self.observation_space = spaces.Text(MAX_OBSERVATION_CHARS, charset=CHARSET)
        self.action_space = spaces.Text(MAX_REPLY_CHARS, min_length=0, charset=CHARSET)
        self.instance: Instance | None = None
        self.noise_seed = 0
        self.steps = 0
        self._invalid_actions = 0
        self._score = 0.0
        self._end = ""
        self.last_action: str | None = None
        """The action that the last reply was taken for, None if it was unusable."""

    # What a subclass provides.

    @abstractmethod
    def instance_count(self, split: str) -> int:
        """How many instances `split` has."""

    @abstractmethod
    def _load(self, split: str, index: int) -> str:
        """Sets the world to the start of an instance; returns its content hash (hex)."""

    @property
    @abstractmethod
    def grammar(self) -> ActionGrammar:
        """The answers this instance takes."""

    @abstractmethod
    def _first_text(self) -> str:
        """The first observation: task, legend, state, actions and answer form."""

    @abstractmethod
    def _text(self) -> str:
        """A later observation: what the agent needs to see of the world now."""

    @abstractmethod
    def _play(self, action: str) -> tuple[float, str]:
        """Plays a known action; returns the episode's score so far and its end ("" if none)."""

    @abstractmethod
    def _frame(self) -> Any:
        """The current picture, uint8 of shape (height, width, 3)."""

    @abstractmethod
    def _world(self) -> str | bytes:
        """All of the world now that decides how the episode goes on, hidden parts too.

        The same in every process and view; two worlds that can go on differently differ here.
        """

    # What a subclass may change, for views that are not plain text.

    def _observe(self, error: str | None, first: bool) -> Any:
        """The observation: the first of the episode, or one after a step.

        Args:
            error: what was wrong with an unusable reply.
        """
        if first:
            return self._first_text()
        return self._text() if error is None else f"{error}\n{self._text()}"

    def _read(self, action: Any) -> Parsed:
        """What an action means. Raises TypeError for one that is not of the right kind."""
        if not isinstance(action, str):
            raise TypeError(f"an action is a string here, got {type(action).__name__}")
        return self.grammar.parse(action)

    def _reward(self) -> float:
        """What this step pays: nothing until the end, then the score."""
        return self._score if self._end else 0.0

    # The contract.

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode.

        Args:
            seed: noise of this attempt, a non-negative integer; None for fresh noise.
            options: {"split": ..., "index": ...} picks an instance; without an index
                one of the split (train by default) is drawn from the seed.

        Raises:
            ValueError: an unknown option or split, or an index out of range.
        """
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.bit_generator.random_raw()) >> 1
        split, index = self.pick(seed, options or {})
        self.noise_seed = seed
        self.steps = self._invalid_actions = 0
        self._score, self._end, self.last_action = 0.0, "", None
        self.instance = Instance(split, index, self._load(split, index))
        return self._observe(None, True), self._info()

    def known_split(self, split: str) -> str:
        """The name of a split, as it is. Raises ValueError if there is none of that name."""
        if split not in self.splits and split not in self.sealed_splits:
            raise ValueError(f"split must be one of {', '.join(self.splits)}, got {split!r}")
        return split

    def pick(self, seed: int, options: dict[str, Any]) -> tuple[str, int]:
        """The split and index that `reset` takes with this seed and these options."""
        unknown = sorted(options.keys() - {"split", "index"})
        if unknown:
            raise ValueError(f"reset options are split and index, got {unknown[0]!r}")
        split = self.known_split(options.get("split", "train"))
        count = self.instance_count(split)
        index = options.get("index")
        if index is None:
            if count == 0:
                raise ValueError(f"there are no instances in split {split!r}")
            index = integer_at(count, seed, *draw_name(split))
        if isinstance(index, bool) or not hasattr(index, "__index__"):
            raise ValueError(f"index must be an integer, got {index!r}")
        index = int(index)
        if not 0 <= index < count:
            raise ValueError(f"index must be from 0 to {count - 1} in split {split!r}, got {index}")
        return split, index

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes a reply: any string, or what else the action space holds.

        Raises:
            ResetNeeded: before the first `reset`, or after the episode has ended.
            TypeError, ValueError: the action is not of the right kind.
        """
        if self.instance is None:
            raise ResetNeeded("call reset() before step()")
        if self._end:
            raise ResetNeeded(f"the episode has ended ({self._end}): call reset()")
        parsed = self._read(action)
        self.steps += 1
        self.last_action = parsed.action
        if parsed.action is None:
            self._invalid_actions += 1
        else:
            self._score, self._end = self._play(parsed.action)
        terminated = truncated = False
        if self._end:
            terminated = True
        elif self.steps >= self.max_steps:
            truncated = True
            self._end = "time_limit"
        observation = self._observe(parsed.error, False)
        return observation, self._reward(), terminated, truncated, self._info()

    def _info(self) -> dict[str, Any]:
        assert self.instance is not None
        i = self.instance
        return {
            "instance": {"split": i.split, "index": i.index, "hash": i.hash},
            "env_version": self.env_version,
            "steps": self.steps,
            "invalid_actions": self._invalid_actions,
            "score": self._score,
            "solved": self._end == "solved",
            "end": self._end,
        }

    def state_digest(self) -> str:
        """Hash (hex) of everything that decides how the episode goes on from here.

        Two episodes of one id and arguments with the same digest answer the same replies alike,
        whatever was said before, in every process and view. It holds what the agent must not
        know (noise to come, an attacker's plans), so it is never shown: it is for replays, which
        tell by it where two attempts part.

        Raises:
            ResetNeeded: before the first `reset`.
        """
        if self.instance is None:
            raise ResetNeeded("call reset() before state_digest()")
        world = self._world()
        head = f"{self.instance.hash} {self.max_steps - self.steps} {self._end}\n".encode()
        return sha256(head + (world.encode() if isinstance(world, str) else world)).hexdigest()

    def render(self) -> Any:
        """The current picture (rgb_array), the current text (ansi), or None."""
        if self.render_mode is None:
            return None
        if self.instance is None:
            raise ResetNeeded("call reset() before render()")
        return self._frame() if self.render_mode == "rgb_array" else self._text()
