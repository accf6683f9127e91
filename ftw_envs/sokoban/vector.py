"""Many Sokoban games at once, stepped by one compiled loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from ftw_envs.sokoban.batch import RUNNING, SOLVED, TIME_LIMIT, Games, advance, load, load_next
from ftw_envs.sokoban.env import SokobanEnv
from ftw_envs.sokoban.rules import ACTIONS, BOX, PLAYER, WALL, offsets, xsb
from ftw_envs.sokoban.sources import Levels, PackedLevel
from ftw_envs.streams import integers_at
from ftw_envs.text_env import draw_name

_NUMBERS = {action: i for i, action in enumerate(ACTIONS)}
_ENDS = np.array(["", "solved", "time_limit"], dtype=object)  # by status
_AHEAD = 64  # next levels drawn at a time for a game
_PRELOAD = 100_000  # more levels than this are loaded one by one

Array = npt.NDArray[Any]


def _read_only(array: Array) -> Array:
    array.setflags(write=False)
    return array


def _replaced(array: Array, at: Array, values: Array) -> Array:
    """A copy of `array` with `values` at the places `at`."""
    array = array.copy()
    array[at] = values
    return array


def _only(mask: npt.NDArray[np.bool_], array: Array) -> Array:
    """The values where `mask` is true, None or 0 elsewhere."""
    nothing = np.full(array.shape, None if array.dtype == object else 0, dtype=array.dtype)
    return np.where(mask, array, nothing)


class _Slots:
    """Levels as arrays, by slot: what can be put on a board without asking Python.

    Slot i of the first `preloaded` is level i of the training split; the others hold what
    was asked for one by one.
    """

    def __init__(self, levels: Levels) -> None:
        self._levels = levels
        count = levels.count("train")
        self.preloaded = count if count <= _PRELOAD else 0
        self._free: list[int] = []
        size = levels.width * levels.height
        m = max(self.preloaded, 1)
        self.cells = np.full((m, size), WALL, np.uint8)
        self.player, self.left = np.zeros(m, np.int32), np.zeros(m, np.int32)
        self.shape = np.zeros((m, 2), np.int32)  # (height, width)
        self.split = np.full(m, "train", dtype=object)
        self.index, self.hash = np.arange(m), np.full(m, "", dtype=object)
        self.used = 0
        for i in range(self.preloaded):
            self._put(levels.get("train", i), "train", i)

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """(cells, player, boxes off the goals) by slot."""
        return self.cells, self.player, self.left

    def add(self, split: str, index: int) -> int:
        """The slot of a level, taken for it if it has none."""
        if split == "train" and index < self.preloaded:
            return index
        return self._put(self._levels.get(split, index), split, index)

    def release(self, slot: int) -> None:
        """Gives back a slot from `add`."""
        if slot >= self.preloaded:
            self._free.append(slot)

    def _put(self, packed: PackedLevel, split: str, index: int) -> int:
        if self._free:
            slot = self._free.pop()
        else:
            slot = self.used
            self.used += 1
            if slot == len(self.cells):
                for name in ("cells", "player", "left", "shape", "split", "index", "hash"):
                    old = getattr(self, name)
                    setattr(self, name, np.concatenate([old, old]))
        level = packed.level
        board = self.cells[slot].reshape(self._levels.height, self._levels.width)
        board[:] = WALL
        board[: level.height, : level.width] = np.frombuffer(level.cells, np.uint8).reshape(
            level.height, level.width
        )
        self.player[slot] = int(np.argmax(self.cells[slot] & PLAYER))
        self.left[slot] = level.cells.count(BOX)
        self.shape[slot] = level.height, level.width
        self.split[slot], self.index[slot], self.hash[slot] = split, index, packed.hash
        return slot


class SokobanVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """`num_envs` games of `SokobanEnv`, the same to the last bit as in `SyncVectorEnv`.

    `gym.make_vec` takes it for every Sokoban id. All views are there; the options that
    change how a single game goes (several moves in a reply, undo, ...) are not: take
    `vectorization_mode="sync"` for them.

    Args:
        num_envs: games, at least 1.
        autoreset_mode: "NextStep" (an ended game gets its next level with the step after),
            "SameStep" (at once; the last observation and info are in `infos["final_obs"]`
            and `infos["final_info"]`) or "Disabled" (by `reset(options={"reset_mask": ...})`).
        kwargs: arguments of `SokobanEnv`.

    Raises:
        ValueError: an argument that cannot work, with what would be right.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        env = SokobanEnv(**kwargs, render_mode=render_mode)
        if not env.plain:
            raise ValueError(
                "max_moves, changes_only, undo, deadlock_ends and reward='shaped' have no batched "
                "form; use gym.make_vec(..., vectorization_mode='sync')"
            )
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**SokobanEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self.observation_space = batch_space(env.observation_space, num_envs)
        self.action_space = batch_space(env.action_space, num_envs)
        self._env, self._view, self._levels = env, env.view, env.levels
        self._slots = _Slots(env.levels)
        # Levels made on the spot take a while each, so few are made ahead.
        self._ahead = _AHEAD if self._slots.preloaded else 2
        size = env.levels.width * env.levels.height
        self._games = Games(num_envs, size, self._ahead)
        self._steps = np.array(offsets(env.levels.width), np.int64)
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._draws = np.zeros((num_envs, self._ahead), np.uint64)  # noise seeds to come
        self._games.queue[:] = -1
        self._games.at[:] = self._ahead
        # What infos say of levels: handed out as it is until it changes, then replaced.
        self._split = np.full(num_envs, None, dtype=object)
        self._hash = np.full(num_envs, None, dtype=object)
        self._index = np.zeros(num_envs, np.int64)
        self._version = _read_only(np.full(num_envs, env.env_version, dtype=object))
        self._no_end = _read_only(np.full(num_envs, "", dtype=object))
        self._all = _read_only(np.ones(num_envs, np.bool_))
        self._shape = np.zeros((num_envs, 2), np.int64)
        self._errors = [""] * num_envs  # what was wrong with the last replies
        self._started = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Starts games: all of them, or those of `options["reset_mask"]`.

        Args:
            seed: game i gets seed + i, or seed[i]; None goes on with each game's own dice.
            options: "split" and "index" as in `SokobanEnv.reset`, and "reset_mask", bool of
                shape (num_envs,).
        """
        options = dict(options or {})
        mask = self._mask(options.pop("reset_mask", None))
        seeds = [seed + i if isinstance(seed, int) else None for i in range(self.num_envs)]
        if seed is not None and not isinstance(seed, int):
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed must have {self.num_envs} entries, got {len(seeds)}")
        if not self._started and not mask.all():
            raise ResetNeeded("the first reset() starts all games, without a reset_mask")
        self._start(np.flatnonzero(mask), seeds, options)
        self._started = True
        return self._observe(), self._infos(mask)

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Steps every game.

        Args:
            actions: a number or a reply for each game.

        Raises:
            ResetNeeded: before the first `reset`, or, without autoreset, after an end.
            TypeError, ValueError: actions of the wrong kind.
        """
        games = self._games
        if not self._started:
            raise ResetNeeded("call reset() before step()")
        if self.autoreset_mode == AutoresetMode.DISABLED and games.status.any():
            raise ResetNeeded("a game has ended: call reset() with its reset_mask")
        numbers = self._numbers(actions)
        next_step = self.autoreset_mode == AutoresetMode.NEXT_STEP
        advance(
            numbers, self._steps, self._env.max_steps, next_step, games.arrays, self._slots.arrays
        )
        terminated, truncated = games.status == SOLVED, games.status == TIME_LIMIT
        rewards = terminated.astype(np.float64)
        infos: dict[str, Any] = {}
        if self.autoreset_mode == AutoresetMode.SAME_STEP and games.status.any():
            infos = self._final()
        self._settle()
        return self._observe(), rewards, terminated, truncated, infos | self._infos(None)

    def _numbers(self, actions: Any) -> npt.NDArray[np.int64]:
        """Directions by number, -1 for unusable replies; notes what was wrong with those."""
        n = self.num_envs
        if isinstance(self.single_action_space, gym.spaces.Discrete):
            numbers = np.asarray(actions)
            if numbers.shape != (n,) or numbers.dtype.kind not in "iu":
                raise ValueError(f"actions must be {n} integers, got shape {numbers.shape}")
            if numbers.min() < 0 or numbers.max() > 3:
                raise ValueError("an action is a number from 0 to 3 here")
            return numbers.astype(np.int64)
        if isinstance(actions, str) or len(actions) != n:
            raise ValueError(f"actions must be {n} strings")
        found = []
        for i, reply in enumerate(actions):
            if not isinstance(reply, str):
                raise TypeError(f"an action is a string here, got {type(reply).__name__}")
            parsed = self._env.grammar.parse(reply)
            self._errors[i] = parsed.error or ""
            found.append(-1 if parsed.action is None else _NUMBERS[parsed.action])
        return np.array(found, np.int64)

    def _final(self) -> dict[str, Any]:
        """Last observations and infos of the games that ended; they get their next level."""
        games = self._games
        ended = games.status != RUNNING
        ids = np.flatnonzero(ended).tolist()
        last = np.full(self.num_envs, None, dtype=object)
        if self._view.is_text or self._view.words:
            for i in ids:
                last[i] = self._one(i)
        else:
            for i, array in zip(ids, self._arrays(ended), strict=True):
                last[i] = array
        info = self._infos(ended)
        load_next(games.arrays, self._slots.arrays)
        return {"final_obs": last, "_final_obs": ended, "final_info": info, "_final_info": ended}

    def _start(
        self, ids: npt.NDArray[np.int64], seeds: list[int | None], options: dict[str, Any]
    ) -> None:
        """Puts a first level on the boards of some games."""
        games, slots = self._games, self._slots
        for i in ids.tolist():
            if seeds[i] is not None or self._generators[i] is None:
                self._generators[i], _ = seeding.np_random(seeds[i])
                games.at[i] = self._ahead
        self._refill()
        taken = []
        for i in ids.tolist():
            noise = seeds[i]
            if noise is None:
                noise = int(self._draws[i, games.at[i]])
                games.at[i] += 1
            taken.append(slots.add(*self._env.pick(noise, options)))
            load(i, taken[-1], games.arrays, slots.arrays)
        self._tell(ids, np.array(taken))
        for slot in taken:  # not before they are told of: a slot given back is used again
            slots.release(slot)
        self._refill()

    def _settle(self) -> None:
        """Notes the levels that came from the queue, and draws new ones where it is empty."""
        games = self._games
        loaded = np.flatnonzero(games.loaded)
        if loaded.size:
            self._tell(loaded, games.queue[loaded, games.at[loaded] - 1].astype(np.int64))
            self._refill()

    def _tell(self, games: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]) -> None:
        self._split, self._index, self._hash = (
            _read_only(_replaced(old, games, new[slots]))
            for old, new in (
                (self._split, self._slots.split),
                (self._index, self._slots.index),
                (self._hash, self._slots.hash),
            )
        )
        self._shape[games] = self._slots.shape[slots]

    def _refill(self) -> None:
        """Draws the next training levels where the queue is empty, from each game's own dice."""
        games, slots = self._games, self._slots
        ids = np.flatnonzero(games.at == self._ahead)
        if not ids.size:
            return
        for i in ids.tolist():
            generator = self._generators[i]
            assert generator is not None
            words = np.asarray(generator.bit_generator.random_raw(self._ahead), np.uint64)
            self._draws[i] = words >> np.uint64(1)
        index = integers_at(
            self._levels.count("train"), self._draws[ids].reshape(-1), *draw_name("train")
        )
        if slots.preloaded:
            games.queue[ids] = index.reshape(-1, self._ahead)
        else:
            for slot in games.queue[ids].reshape(-1).tolist():
                slots.release(slot)
            new = [slots.add("train", i) for i in index.tolist()]
            games.queue[ids] = np.array(new).reshape(-1, self._ahead)
        games.at[ids] = 0

    def _mask(self, mask: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_]:
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        good = isinstance(mask, np.ndarray) and mask.dtype == np.bool_
        if not good or mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"reset_mask must be a bool array of shape ({self.num_envs},) with a True in it"
            )
        return mask

    def _observe(self) -> Any:
        """The batched observation."""
        games, view, n = self._games, self._view, self.num_envs
        if view.is_text:
            return tuple(self._one(i) for i in range(n))
        array = self._arrays(slice(None))
        if not view.words:
            return array
        words = [view.task if games.loaded[i] else self._note(i) for i in range(n)]
        return {view.obs: array, "text": tuple(words)}

    def _arrays(self, which: Any) -> npt.NDArray[np.uint8]:
        """Grids or pictures of some games."""
        grid: npt.NDArray[np.uint8] = self._games.grid[which]
        grid = grid.reshape(-1, self._view.height, self._view.width)
        if self._view.obs == "grid":
            return grid.copy()
        from ftw_envs.sokoban.draw import draw_grid  # Pillow only where a picture is wanted

        return draw_grid(grid, self._view.tile_size)

    def _one(self, i: int) -> Any:
        """The observation of one game."""
        cells, width = self._cells(i)
        if self._games.loaded[i]:
            return self._view.first(cells, width)
        return self._view.later(cells, width, self._note(i))

    def _cells(self, i: int) -> tuple[bytes, int]:
        """The board of game `i`, without what fills it up to the size of the largest."""
        height, width = self._shape[i].tolist()
        board = self._games.grid[i].reshape(self._view.height, self._view.width)
        return board[:height, :width].tobytes(), width

    def _note(self, i: int) -> str:
        games = self._games
        if self._errors[i] or games.status[i] == SOLVED:
            return self._errors[i] or "solved"
        return "" if games.moved[i] else "blocked"

    def _infos(self, mask: npt.NDArray[np.bool_] | None) -> dict[str, Any]:
        """Infos in Gymnasium's batched form; only games of `mask` are told of."""
        games = self._games
        told = self._all if mask is None else mask.copy()
        solved = games.status == SOLVED
        arrays = {
            "env_version": self._version,
            "steps": games.steps.copy(),
            "invalid_actions": games.invalid.copy(),
            "score": solved.astype(np.float64),
            "solved": solved,
            "end": _ENDS[games.status] if games.status.any() else self._no_end,
        }
        instance = {"split": self._split, "index": self._index, "hash": self._hash}
        if mask is not None and not mask.all():
            arrays = {key: _only(mask, values) for key, values in arrays.items()}
            instance = {key: _only(mask, values) for key, values in instance.items()}
        masks = {f"_{key}": told for key in ("instance", *arrays)}
        inner = instance | {f"_{key}": told for key in instance}
        return {"instance": inner, **arrays, **masks}

    def render(self) -> tuple[Any, ...] | None:
        """A picture (rgb_array) or the board as text (ansi) of every game."""
        if self.render_mode is None:
            return None
        boards = [self._cells(i) for i in range(self.num_envs)]
        if self.render_mode == "ansi":
            return tuple(xsb(*board) for board in boards)
        from ftw_envs.sokoban.draw import draw_cells  # Pillow only where a picture is wanted

        return tuple(draw_cells(*board, self._view.tile_size) for board in boards)
