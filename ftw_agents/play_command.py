"""The command `ftw play`: an environment played by hand, with words. `play_screen.py` has keys."""

from __future__ import annotations

import secrets
import sys
from typing import Annotated, Any, Literal

from gymnasium import spaces
from tyro.conf import Positional, arg

from ftw_agents.config import parse_env_args
from ftw_agents.console import console
from ftw_agents.play_incident import complete_with_tab, hidden_story
from ftw_envs.bandit.machines import MachinesEnv
from ftw_envs.incident.env import IncidentEnv
from ftw_envs.registry import make
from ftw_envs.sokoban.env import SokobanEnv
from ftw_envs.sokoban.rules import Board, Level
from ftw_envs.sokoban.solve import GaveUpError, solve
from ftw_envs.text_env import EpisodeEnv

MAX_POSITIONS = 500_000
"""Where working out an optimal length gives up: a few seconds, 50 MB."""

COMMANDS = "/undo, /restart, /next, /history, /quit"


class Game:
    """An instance that is being played by hand.

    Args:
        index: the instance; None draws one from the seed.
        seed: noise of the attempt; None for fresh noise.

    Attributes:
        observation, info: as the environment gave them last.
        replies: what was answered and not taken back.
        undone: how many replies were taken back since the start.
    """

    def __init__(
        self, env: EpisodeEnv, split: str, index: int | None = None, seed: int | None = None
    ) -> None:
        if seed is not None and seed < 0:
            raise ValueError(f"seed must be at least 0, got {seed}")
        self.env = env
        if seed is None:
            seed = secrets.randbelow(1_000_000)  # short enough to be typed again
        options = {"split": split} if index is None else {"split": split, "index": index}
        env.reset(seed=seed, options=options)
        assert env.instance is not None
        self.split, self.index, self.seed = split, env.instance.index, env.noise_seed
        self.restart()

    def restart(self) -> None:
        """Starts the same instance again, with the same noise."""
        self._replay([])
        self.undone = 0

    @property
    def once_only(self) -> bool:
        """Whether this attempt cannot be had twice: a live incident."""
        return isinstance(self.env, IncidentEnv) and not self.env.freeze

    def next(self) -> None:
        """Goes to the next instance of the split, with other noise."""
        self.index = (self.index + 1) % self.env.instance_count(self.split)
        self.seed += 1
        self.restart()

    def undo(self) -> bool:
        """Takes the last reply back, if there is one, by playing all others again.

        Only for Sokoban: elsewhere it would show what the other choice would have paid.
        """
        if not self.replies or not isinstance(self.env, SokobanEnv):
            return False
        self._replay(self.replies[:-1])
        self.undone += 1
        return True

    def _replay(self, replies: list[str]) -> None:
        self.observation, self.info = self.env.reset(
            seed=self.seed, options={"split": self.split, "index": self.index}
        )
        self.replies: list[str] = []
        self._played: list[str] = []
        self._choices: list[tuple[str, str]] = []
        for reply in replies:
            self.send(reply)

    def send(self, reply: str) -> None:
        """Answers. Raises ValueError for what is not in the action space, at no cost."""
        env, before = self.env, self.env.steps
        good = env.good_name() if isinstance(env, MachinesEnv) else ""
        action: Any = reply
        if not isinstance(env.action_space, spaces.Text) and reply in env.grammar.actions:
            action = env.grammar.actions.index(reply)
        self.observation, _, _, _, self.info = env.step(action)
        self.replies.append(reply)
        if env.last_action is not None:
            # Of several moves in one reply those after the end were not played.
            self._played += env.last_action.split(" ")[: env.steps - before]
            self._choices.append((env.last_action, good))

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return bool(self.info["end"])

    @property
    def outcome(self) -> str:
        """How the episode ended, in words; nothing before that."""
        end = str(self.info["end"])
        lost = "lost" if isinstance(self.env, SokobanEnv) else "failed"
        return {"time_limit": "time is up", "failed": lost}.get(end, end)

    @property
    def pushes(self) -> int:
        """Pushes so far, without those that the environment's own undo took back."""
        assert isinstance(self.env, SokobanEnv)
        board, pushed = Board(self.env.board.level), []
        for move in self._played:
            if move != "undo":
                board.move(move)
                if board.moved:
                    pushed.append(board.pushed is not None)
            elif pushed:
                board.undo()
                pushed.pop()
        return sum(pushed)

    def count(self) -> str:
        """How much of the step limit is used."""
        word = "move" if isinstance(self.env, SokobanEnv) else "step"
        return f"{word} {self.info['steps']} of {self.env.max_steps}"

    def report(self) -> list[str]:
        """What there is to say when the episode is over, the optimum included."""
        steps = self.info["steps"]
        if isinstance(self.env, SokobanEnv):
            used = f"{self.outcome}: {counted(steps, 'move')}, {counted(self.pushes, 'push')}"
            lines = [used, _optimum(self.env)]
        elif isinstance(self.env, IncidentEnv):
            lines = [f"{self.outcome}: score {self.info['score']:g}", *hidden_story(self.env)]
        else:
            lines = [f"{self.outcome}: score {self.info['score']:g}"]
            several = len(self._choices) > 1
            for i, (chosen, good) in enumerate(self._choices, 1):
                if isinstance(self.env, MachinesEnv):
                    where = f"choice {i}: " if several else ""
                    you = "and you chose it" if chosen == good else f"you chose {chosen}"
                    lines.append(f"{where}{good} was the better machine, {you}")
        if self.undone:
            lines.append(f"not a clean game: {counted(self.undone, 'reply')} taken back")
        return lines


def counted(n: int, word: str) -> str:
    """A number and what it counts."""
    plural = {"push": "pushes", "reply": "replies"}.get(word, f"{word}s")
    return f"{n} {word if n == 1 else plural}"


def _optimum(env: SokobanEnv) -> str:
    """The optimal lengths of the instance; those that did not come with it are worked out."""
    packed = env.packed()
    moves = _fewest(packed.level, "moves") if packed.moves is None else packed.moves
    pushes = _fewest(packed.level, "pushes") if packed.pushes is None else packed.pushes
    return f"fewest moves: {moves}, fewest pushes: {pushes}"


def _fewest(level: Level, mode: Literal["moves", "pushes"]) -> int | str:
    try:
        solution = solve(level, mode, MAX_POSITIONS)
    except GaveUpError:
        return "not known"
    if solution is None:
        return "none, it cannot be solved"
    return solution.moves if mode == "moves" else solution.pushes


def play(
    env_id: Annotated[Positional[str], arg(metavar="ID")],
    *,
    env_args: tuple[str, ...] = (),
    split: str = "train",
    index: int | None = None,
    seed: int | None = None,
    text: bool = False,
) -> None:
    """Plays an environment by hand, Sokoban with keys; tells the optimum afterwards.

    Args:
        env_id: environment id, see `ftw envs`.
        env_args: keyword arguments as key=value: obs=coords, levels=FILE for a file of levels.
        split: where the instance is from.
        index: number of the instance in its split; drawn where it is not given.
        seed: names the noise, and the instance where no index is given.
        text: no keys: show what an agent reads, take a reply a line. In a pipe it is always so.
    """
    kwargs = parse_env_args(env_args)
    env = make(env_id, **{**kwargs, "render_mode": "ansi"})
    game = Game(env, split, index, seed)
    if text or not isinstance(env, SokobanEnv) or not _has_keys():
        play_lines(game, env_id)
    else:
        from ftw_agents.play_screen import play_keys

        play_keys(game, env_id)


def _has_keys() -> bool:
    try:
        import termios  # noqa: F401 - not there on Windows
    except ImportError:
        return False
    return sys.stdin.isatty() and console.is_terminal and not console.is_dumb_terminal


def play_lines(game: Game, env_id: str) -> None:
    """Shows observations and takes a reply a line, until there is none or "/quit"."""

    def start() -> None:
        print(f"{env_id} {game.split} {game.index}, seed {game.seed} ({COMMANDS})")
        show(game)

    if isinstance(game.env, IncidentEnv) and sys.stdin.isatty():
        complete_with_tab(game.env)
    start()
    while (line := _ask()) not in (None, "/quit"):
        if line == "/undo":
            if game.undo():
                print(f"taken back; {game.count()}")
                show(game)
            else:
                print("there is nothing that can be taken back")
        elif line == "/history":
            print("\n".join(f"{i:3} {x}" for i, x in enumerate(game.replies, 1)) or "nothing yet")
        elif line == "/restart" and game.once_only:
            print("a live incident cannot be had twice; /next begins another")
        elif line in ("/restart", "/next"):
            game.restart() if line == "/restart" else game.next()
            start()
        elif line.startswith("/"):
            print(f"there is no {line}; there are {COMMANDS}")
        elif game.ended:
            print(f"the game is over; there are {COMMANDS}")
        else:
            try:
                game.send(line)
            except ValueError as e:
                print(e)
                continue
            show(game)
            if game.ended:
                print("\n".join(game.report()))


def _ask() -> str | None:
    typed = sys.stdin.isatty()
    try:
        return input("> " if typed else "")
    except EOFError:
        print(end="\n" if typed else "")
        return None


def show(game: Game) -> None:
    """Prints what the environment said; a view that is not text as the board behind it."""
    seen = game.observation
    if isinstance(seen, str):
        print(seen)
        return
    if isinstance(seen, dict) and seen["text"]:
        print(seen["text"])
    print(game.env.render())
