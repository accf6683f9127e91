"""The Sokoban environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ftw_envs.actions import ActionGrammar, Parsed
from ftw_envs.sokoban.deadlock import is_lost, push_distances
from ftw_envs.sokoban.rules import ACTIONS, BOX, Board, xsb
from ftw_envs.sokoban.sources import PackedLevel, open_levels
from ftw_envs.sokoban.views import MIN_TILE, OBSERVATIONS, View
from ftw_envs.text_env import EpisodeEnv

RULES_VERSION = 1
"""Part of `env_version`; goes up whenever rules or texts change."""

SHAPED_WEIGHT = 0.5
"""Largest sum, up or down, of what `reward="shaped"` pays beside the score."""


class SokobanEnv(EpisodeEnv):
    """Push every box onto a goal.

    ## Description
    Sokoban on a walled board. The player moves one cell at a time and pushes a box by
    walking into it, if the cell behind it is free. Boxes cannot be pulled, so a wrong
    push can make the puzzle unsolvable: one mistake may ruin the attempt.

    ## Observation
    - `obs="text"`: the task, the legend and the board in XSB at first, afterwards the board.
    - `obs="coords"`: the same facts as row and column numbers, row 1 column 1 being the
      upper left corner; the walls are told once, goals, boxes and player in every turn
      (with the goals told only once, small models learn far more slowly).
    - `obs="image"`: a picture, uint8 of shape (height * tile_size, width * tile_size, 3).
    - `obs="grid"`: uint8 of shape (height, width), each cell a sum of 1 wall, 2 goal, 4 box,
      8 player.

    A move that changed nothing is answered with "blocked" and the state. Pictures and grids
    come as {"image" or "grid": array, "text": str} when actions are text, so that the task
    and what was wrong with a reply are told in words; with `actions="discrete"` the array
    is all there is.

    ## Actions
    - `actions="text"`: text naming one of up, down, left, right, dressed as `ActionGrammar`
      allows.
    - `actions="discrete"`: 0 up, 1 down, 2 left, 3 right (and 4 undo with `undo=True`).

    A move into a wall or a stuck box changes nothing and costs a step.

    ## Score
    1 if the puzzle is solved, else 0, paid with the last step. No reward before.
    `reward="shaped"` adds, with every step, half the change in how near the boxes are to
    goals (from 0, as far as can be, to 1, all on goals; potential-based, Ng et al., 1999).
    The sum over an episode depends on its start and end only, so that walking in circles,
    pushing back and forth or waiting gain nothing, and stays within 0.5 of the score.

    ## End of episode
    Terminated ("solved") when every box is on a goal; truncated ("time_limit") after
    `max_steps` moves. With `deadlock_ends=True` terminated ("failed") when a push makes the
    puzzle unsolvable in a way that is easy to see: a box where no goal can be reached from,
    or frozen off the goals.

    ## Instances
    Shipped levels, each proved solvable within the step limit, with the fewest moves and
    pushes known. Splits train, valid and test share no puzzle, not even up to the 8
    symmetries of the board, translation, or the player's starting cell. The larger packs also
    have a split sealed of 2**53 levels like those of test, made on the spot, for rounds whose
    levels nobody can look up.
    `info["env_version"]` holds the hash of the whole pack.

    ## Arguments
    - `pack`: name of the level pack ("mini", "standard", "hard").
    - `obs`, `actions`: the view, see above.
    - `max_steps`: moves until truncation.
    - `levels`: None for the shipped levels, "endless" for training levels made on the spot
      (no end of them, by index), else the path of a level file (XSB, .sok, Boxoban ...).
    - `band`: "easy", "medium" or "hard": only shipped levels of that difficulty.
    - `max_moves`: moves in one text reply, at least 1; each costs a step.
    - `changes_only`: later texts tell only what changed.
    - `undo`: "undo" is an action that takes the last move back, and costs a step.
    - `deadlock_ends`: see above.
    - `reward`: "score" or "shaped".
    - `tile_size`: pixels of a cell in pictures, at least 4.
    - `render_mode`: None, "ansi" or "rgb_array".

    ## Versions
    - v0: first version.
    """

    def __init__(
        self,
        pack: str = "mini",
        *,
        obs: str = "text",
        actions: str = "text",
        max_steps: int = 15,
        levels: str | None = None,
        band: str | None = None,
        max_moves: int = 1,
        changes_only: bool = False,
        undo: bool = False,
        deadlock_ends: bool = False,
        reward: str = "score",
        tile_size: int = 32,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(max_steps=max_steps, render_mode=render_mode)
        for name, value, known in (
            ("obs", obs, OBSERVATIONS),
            ("actions", actions, ("text", "discrete")),
            ("reward", reward, ("score", "shaped")),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        if not isinstance(tile_size, int) or tile_size < MIN_TILE:
            raise ValueError(f"tile_size must be at least {MIN_TILE} pixels, got {tile_size!r}")
        if not isinstance(max_moves, int) or max_moves < 1:
            raise ValueError(f"max_moves must be an integer of at least 1, got {max_moves!r}")
        if max_moves > 1 and actions == "discrete":
            raise ValueError("max_moves above 1 needs actions='text'; a number is one move")
        if changes_only and obs not in ("text", "coords"):
            raise ValueError(f"changes_only needs obs='text' or 'coords', got obs={obs!r}")
        self.obs = obs
        self.levels = open_levels(pack, levels, band)
        self.sealed_splits = ("sealed",) if self.levels.sealed else ()
        self.env_version = f"sokoban{RULES_VERSION}-{self.levels.version}"
        self._grammar = ActionGrammar((*ACTIONS, "undo") if undo else ACTIONS, max_moves)
        self._numbers = {i: Parsed(a) for i, a in enumerate(self._grammar.actions)}
        self._discrete = actions == "discrete"
        self._undo = undo
        self._deadlock_ends = deadlock_ends
        self._shaped = reward == "shaped"
        self.view = View(
            obs=obs,
            words=not self._discrete,
            changes_only=changes_only,
            width=self.levels.width,
            height=self.levels.height,
            tile_size=tile_size,
            form=self._grammar.form,
            max_steps=max_steps,
        )
        self.observation_space = self.view.space()
        if self._discrete:
            self.action_space = spaces.Discrete(len(self._grammar.actions))
        self.plain = not (undo or deadlock_ends or self._shaped or changes_only or max_moves > 1)
        """Whether a game goes as in the ranked ids: no option that changes it."""
        self.board: Board
        self._seen = b""
        self._distance: list[int | None] = []
        self._near = 0.0

    def instance_count(self, split: str) -> int:
        return self.levels.count(split)

    @property
    def grammar(self) -> ActionGrammar:
        return self._grammar

    def packed(self) -> PackedLevel:
        """The current instance with its optimal lengths; for analysis, never for an agent."""
        assert self.instance is not None
        return self.levels.get(self.instance.split, self.instance.index)

    def _load(self, split: str, index: int) -> str:
        packed = self.levels.get(split, index)
        self.board = Board(packed.level)
        if self._deadlock_ends or self._shaped:
            self._distance = push_distances(packed.level)
            self._near = self._nearness()
        return packed.hash

    def _nearness(self) -> float:
        """1 with all boxes on goals, 0 with all as far away as can be (or lost)."""
        far = 1 + max(d for d in self._distance if d is not None)
        boxes = [i for i, c in enumerate(self.board.cells) if c & BOX]
        left = (far if (d := self._distance[b]) is None else d for b in boxes)
        return 1 - sum(left) / (far * len(boxes))

    def _observe(self, error: str | None, first: bool) -> Any:
        board = self.board
        if first:
            observation = self.view.first(board.cells, board.level.width)
        else:
            note = error or self._note()
            observation = self.view.later(board.cells, board.level.width, note, self._seen)
        if self.view.changes_only:
            self._seen = bytes(board.cells)
        return observation

    def _note(self) -> str:
        if self._end == "solved":
            return "solved"
        if self._end == "failed":
            return "lost"
        # A usable reply that moved nothing looks like no reply at all unless it is said.
        return "" if self.board.moved else "blocked"

    def _world(self) -> bytes:
        # What stands where is all there is, but for what `undo` would take back.
        return bytes(self.board.cells) + (self.board.past if self._undo else b"")

    def _first_text(self) -> str:
        return str(self._observe(None, True))

    def _text(self) -> str:
        """The board as plain text, whatever the view (render_mode "ansi")."""
        return xsb(self.board.cells, self.board.level.width)

    def _read(self, action: Any) -> Parsed:
        if not self._discrete:
            return super()._read(action)
        try:
            return self._numbers[int(action)]
        except (KeyError, TypeError, ValueError):
            last = len(self._numbers) - 1
            raise ValueError(
                f"an action is a number from 0 to {last} here, got {action!r}"
            ) from None

    def _play(self, action: str) -> tuple[float, str]:
        if self._grammar.max_moves == 1:
            return self._move(action)
        moves = action.split(" ")
        moved = False
        for i, move in enumerate(moves):
            self.steps += i > 0  # every move of a reply costs a step; the first is counted
            score, end = self._move(move)
            moved |= self.board.moved
            if end or self.steps >= self.max_steps:
                break
        self.board.moved = moved
        return score, end

    def _move(self, action: str) -> tuple[float, str]:
        board = self.board
        if action == "undo":
            board.undo()
            return 0.0, ""
        board.move(action)
        if board.solved:
            return 1.0, "solved"
        if self._deadlock_ends and board.pushed is not None:
            width = board.level.width
            if is_lost(board.cells, width, self._distance, board.pushed):
                return 0.0, "failed"
        return 0.0, ""

    def _reward(self) -> float:
        score = self._score if self._end else 0.0
        if not self._shaped:
            return score
        before, self._near = self._near, self._nearness()
        return score + SHAPED_WEIGHT * (self._near - before)

    def _frame(self) -> npt.NDArray[np.uint8]:
        from ftw_envs.sokoban.draw import draw_cells  # Pillow only where a picture is wanted

        return draw_cells(self.board.cells, self.board.level.width, self.view.tile_size)
