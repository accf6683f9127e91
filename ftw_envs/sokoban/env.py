"""The Sokoban environment."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ftw_envs.actions import ActionGrammar
from ftw_envs.sokoban.levels import board_rows, content_hash, load_pack
from ftw_envs.sokoban.rules import ACTIONS, Board
from ftw_envs.text_env import EpisodeEnv

RULES_VERSION = 0
"""Part of `env_version`; goes up whenever rules or texts change."""

VIEWS = ("text", "coords")

_GRAMMAR = ActionGrammar(ACTIONS)
_TASK = "Sokoban. Push every box onto a goal; boxes cannot be pulled."


class SokobanEnv(EpisodeEnv):
    """Push every box onto a goal.

    ## Description
    Sokoban on a small walled board. The player moves one cell at a time and pushes a box
    by walking into it, if the cell behind it is free. Boxes cannot be pulled, so a wrong
    push can make the puzzle unsolvable: one mistake may ruin the attempt.

    ## Observation
    Text. `obs="text"`: the task, the legend and the board in XSB at first, afterwards the
    board. `obs="coords"`: the same facts as row and column numbers, row 1 column 1 being
    the upper left corner; the walls are told once, goals, boxes and player in every turn
    (with the goals told only once, small models learn far more slowly). A move that
    changed nothing is answered with "blocked" and the state.

    ## Actions
    Text naming one of up, down, left, right, dressed as `ActionGrammar` allows. A move
    into a wall or a stuck box changes nothing and costs a step.

    ## Score
    1 if the puzzle is solved, else 0, paid with the last step. No reward before.

    ## End of episode
    Terminated ("solved") when every box is on a goal; truncated ("time_limit") after
    `max_steps` steps.

    ## Instances
    Shipped levels, each proved solvable within the step limit, with the fewest moves
    known. Splits train, valid and test share no puzzle, not even up to the 8 symmetries
    of the board, translation, or the player's starting cell.

    ## Arguments
    - `pack`: name of the level pack.
    - `obs`: "text" or "coords".
    - `max_steps`: steps until truncation.
    - `render_mode`: None, "ansi" or "rgb_array".

    ## Versions
    - v0: first version.
    """

    def __init__(
        self,
        pack: str = "mini",
        *,
        obs: str = "text",
        max_steps: int = 15,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(max_steps=max_steps, render_mode=render_mode)
        if obs not in VIEWS:
            raise ValueError(f"obs must be one of {', '.join(VIEWS)}, got {obs!r}")
        self.obs = obs
        self.pack = pack
        self.env_version = f"sokoban{RULES_VERSION}-{load_pack(pack).hash}"
        self.board: Board

    def instance_count(self, split: str) -> int:
        return len(load_pack(self.pack).lines[split])

    @property
    def grammar(self) -> ActionGrammar:
        return _GRAMMAR

    def _load(self, split: str, index: int) -> str:
        level = load_pack(self.pack).get(split, index).level
        self.board = Board(level)
        return content_hash(level)

    def optimal_moves(self) -> int:
        """Fewest moves that solve the current instance; for analysis, never for an agent."""
        assert self.instance is not None
        return load_pack(self.pack).get(self.instance.split, self.instance.index).moves

    def _cell(self, cell: int) -> str:
        y, x = divmod(cell, self.board.level.width)
        return f"r{y + 1}c{x + 1}"

    def _state(self) -> str:
        if self.obs == "text":
            return "\n".join(board_rows(self.board.level, self.board.boxes, self.board.player))
        goals = " ".join(self._cell(c) for c in sorted(self.board.goals))
        boxes = " ".join(self._cell(c) for c in sorted(self.board.boxes))
        return f"goal {goals} box {boxes} player {self._cell(self.board.player)}"

    def _first_text(self) -> str:
        level = self.board.level
        if self.obs == "text":
            legend = "# wall, @ player, $ box, . goal, * box on goal, + player on goal, - floor"
            state = f"{legend}\n{self._state()}"
        else:
            w, h = level.width, level.height
            inner = [c for c in sorted(level.walls) if 0 < c % w < w - 1 and 0 < c // w < h - 1]
            walls = " ".join(map(self._cell, inner)) if inner else "none"
            state = f"{h} rows, {w} columns, walled all around\nwalls {walls}\n{self._state()}"
        return f"{_TASK} {_GRAMMAR.form} You have {self.max_steps} moves.\n{state}"

    def _text(self) -> str:
        if self._end == "solved":
            return f"{self._state()}\nsolved"
        # A usable reply that moved nothing looks like no reply at all unless it is said.
        blocked = self.last_action is not None and self.steps > 0 and not self.board.moved
        return f"blocked\n{self._state()}" if blocked else self._state()

    def _play(self, action: str) -> tuple[float, str]:
        self.board.move(action)
        return (1.0, "solved") if self.board.solved else (0.0, "")

    def _frame(self) -> npt.NDArray[np.uint8]:
        from ftw_envs.sokoban.draw import draw_board  # Pillow only where a picture is wanted

        return draw_board(self.board)
