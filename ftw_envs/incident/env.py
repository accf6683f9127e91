"""The Incident environment."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ftw_envs.actions import ActionGrammar
from ftw_envs.incident import guide
from ftw_envs.incident.commands import CommandGrammar
from ftw_envs.incident.desk import Desk
from ftw_envs.incident.generate import draw, instance_count
from ftw_envs.incident.instance import MINUTE, truth
from ftw_envs.incident.levels import LEVELS, SEALED_LIKE, SPLITS, WIDTH, height_of
from ftw_envs.incident.log import SOURCE_CODE, bits
from ftw_envs.incident.score import grounded_share, is_solved, partial_score, slot_scores
from ftw_envs.incident.world import World, alert_text
from ftw_envs.streams import Stream
from ftw_envs.text_env import EpisodeEnv

RULES_VERSION = 1
"""Part of `env_version`; goes up whenever rules or texts change."""

LUCKY_BELOW = 0.3
"""A solved attempt whose commands solve less often than this in other worlds was lucky."""

OVER = "The investigation is over: reset() begins another."


class IncidentEnv(EpisodeEnv):
    """Find out what an attacker did, from logs, while he is still there.

    ## Description
    An alert names one symptom on a network of hosts and people. What happened before can be
    found in logs, tickets, and on the hosts; the report is compared with what the simulator did.
    The world moves on by itself: logs rotate away, rows arrive late, staff patches, travels and
    resets passwords, the attacker keeps to plans of his own. He also reacts: who looks at a host
    that is his may be noticed, and then traces vanish. Everyday life keeps to habits that
    `hosts` and `users` tell; no step of an attack is anybody's habit.

    ## Observation
    Text. First the alert, what the report needs, and the commands; then the reply to each
    command, after a line with the minutes since the alert and the commands left. Replies are
    at most 240 (levels 0, 1), 480, 960 or 2,000 characters long. With `obs="image"` a dict of
    that "text" and an "image", uint8 of shape (height, 640, 3): the network and a timeline, as
    far as replies have shown them, and the report.

    ## Actions
    One command as text: a verb, at most two words, and `key=value` in any order, such as
    `search auth host=h7 act=accept since=6h`. A line that is no command costs a step, no time,
    and is answered with what would have been right. Handles (h1, u1, x1) are other ones in every
    instance; names of hosts and people are understood too.

    ## Score
    Paid with the last step: 1 if every slot that the level asks for is exactly right and, from
    level 3 on, the attacker has no way back (which the state of the world decides) and, on
    level 4, the damage by containment is at most 12; else 0. With `reward="partial"` the score
    is the share that is right, from 0 (an empty report) to 1, see `score.py`.

    ## End of episode
    Terminated with `report`: "solved" or "failed"; also "failed" when the minutes are used up.
    Truncated ("time_limit") after the level's number of commands. A step after the end changes
    nothing and says so.

    ## Instances
    A network, habits and an attack, drawn for (split, index): 100,000 in train, 1,000 in each of
    valid, test, test_names (names that no other split uses), test_topo (more hosts, one move
    more), test_family (kinds of attack that no other split has) and test_drift (the world moves
    faster). No two splits share one. The splits sealed, sealed_names and sealed_family are like
    test, test_names and test_family and hold 2**53 each, for rounds whose instances nobody can
    look up. The noise seed decides everything else that happens.
    `repeatable` is False unless the world is frozen, the noise is fixed, or `reset` was given a
    seed: without one the same attempt cannot be had twice, and cannot be copied.

    ## Arguments
    - `level`: 0 to 4: hosts, sources, length of the chain, drift, what the report needs.
    - `reward`: "score" or "partial".
    - `freeze`: nothing moves: logs are kept, nobody reacts. For comparison.
    - `noise`: a seed that fixes the noise of all attempts; None for that of each `reset`.
    - `obs`: "text" or "image".
    - `guide`: "full", or "brief" for agents that know the task: the first observation leaves out
      what is the same in every instance; `help` tells it.
    - `luck`: a solved attempt is played again in so many other worlds, and
      `info["lucky"]` tells whether it was luck; 0 for no.
    - `max_steps`: commands until truncation; None for the level's own number.
    - `render_mode`: None, "ansi" or "rgb_array".

    ## Versions
    - v0: first version.
    """

    splits: ClassVar[tuple[str, ...]] = SPLITS
    sealed_splits = tuple(SEALED_LIKE)

    def __init__(
        self,
        level: int = 1,
        *,
        reward: str = "score",
        freeze: bool = False,
        noise: int | None = None,
        luck: int = 0,
        obs: str = "text",
        guide: str = "full",
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if isinstance(level, bool) or level not in range(len(LEVELS)):
            raise ValueError(f"level must be from 0 to {len(LEVELS) - 1}, got {level!r}")
        self.level_number, self.level = int(level), LEVELS[level]
        super().__init__(max_steps=max_steps or self.level.steps, render_mode=render_mode)
        if reward not in ("score", "partial"):
            raise ValueError(f"reward must be one of score, partial, got {reward!r}")
        if noise is not None and (not isinstance(noise, int) or noise < 0):
            raise ValueError(f"noise must be None or an integer of at least 0, got {noise!r}")
        if not isinstance(luck, int) or luck < 0:
            raise ValueError(f"luck must be an integer of at least 0, got {luck!r}")
        if obs not in ("text", "image"):
            raise ValueError(f"obs must be one of text, image, got {obs!r}")
        if guide not in ("full", "brief"):
            raise ValueError(f"guide must be one of full, brief, got {guide!r}")
        self.reward, self.freeze, self.luck, self.obs = reward, freeze, luck, obs
        self.guide = guide
        if obs == "image":
            # test_topo has half as many hosts more; the picture has room for them always.
            picture = spaces.Box(0, 255, (height_of(self.level), WIDTH, 3), np.uint8)
            self.observation_space = spaces.Dict({"image": picture, "text": self.observation_space})
        self._noise = noise
        self._given = False
        self.env_version = f"incident{RULES_VERSION}-L{level}"
        self._replies: list[str] = []
        self._said = ""
        self._closing: dict[str, Any] = {}

    @property
    def repeatable(self) -> bool:  # type: ignore[override]
        """Whether the same start can be had twice."""
        return self.freeze or self._noise is not None or self._given

    def instance_count(self, split: str) -> int:
        return instance_count(split)

    @property
    def grammar(self) -> ActionGrammar:
        return self._grammar

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an investigation; see `EpisodeEnv.reset`."""
        self._given = seed is not None
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes a reply; after the end it changes and pays nothing, and says that it is over."""
        if self.instance is not None and self._end and isinstance(action, str):
            self._said = OVER
            truncated = self._end == "time_limit"
            return self._seen(OVER), 0.0, not truncated, truncated, self._info()
        return super().step(action)

    def _load(self, split: str, index: int) -> str:
        self.incident = draw(self.level_number, split, index)
        seed = self.noise_seed if self._noise is None else self._noise
        self.world = World(self.incident, seed, frozen=self.freeze)
        self.desk = Desk(self.world)
        self._grammar = CommandGrammar(self.incident)
        self._replies, self._said, self._closing = [], "", {}
        return self.incident.hash

    def _world(self) -> str:
        said = self._replies if self.luck else ()  # `luck` plays them again at the end
        return f"{self.world.state()}\n{self.desk.state()}\n{said}"

    def _first_text(self) -> str:
        incident = self.incident
        words = guide.brief if self.guide == "brief" else guide.task
        return words(
            self.level, alert_text(incident), len(incident.hosts), len(incident.users),
            self._grammar.verbs,
        )  # fmt: skip

    def _status(self) -> str:
        minutes = self.world.now // MINUTE
        return f"t+{minutes}, {self.max_steps - self.steps} left"

    def _text(self) -> str:
        return self._said or f"report: {self.desk.board_text()}"

    def _observe(self, error: str | None, first: bool) -> Any:
        if first:
            text = self._first_text()
        else:
            # Errors may be longer than the cap of replies; they are cut, never the world's words.
            said = self._said if error is None else error
            text = f"{self._status()}\n{said}"[: self.level.reply]
        return self._seen(text)

    def _seen(self, text: str) -> Any:
        """Words as the view shows them: alone, or beside the picture."""
        return text if self.obs == "text" else {"image": self._frame(), "text": text}

    def _play(self, action: str) -> tuple[float, str]:
        self._replies.append(action)
        room = self.level.reply - len(f"t+{self.level.minutes + 60}, {self.max_steps} left\n")
        command = self._grammar.read(action)
        self._said = self.desk.run(command, room)
        late = self.world.now > MINUTE * self.level.minutes
        if late:
            self.desk.closed = False
            self._said = "time is up; nothing was filed"
        if not self.desk.closed and not late:
            return 0.0, ""
        return self._judge(filed=not late)

    def _judge(self, filed: bool) -> tuple[float, str]:
        """The score and end of an investigation that is over."""
        desk, world = self.desk, self.world
        board = desk.board if filed else {}
        out = world.out()
        solved = is_solved(board, self.incident, out, world.cost)
        self._closing = {
            "slots": slot_scores(board, self.incident),
            "partial": partial_score(board, self.incident, out, world.cost),
            "grounded": grounded_share(board, self.incident, desk.shown),
            "attacker_out": out,
            "tipped_off": world.tipped,
        }
        score = self._closing["partial"] if self.reward == "partial" else float(solved)
        if solved and self.luck:
            mean, _ = self.replay(self._replies, self.luck)
            self._closing["lucky"] = mean < LUCKY_BELOW
        return score, "solved" if solved else "failed"

    def _info(self) -> dict[str, Any]:
        info = super()._info()
        ended = bool(self._end)
        info |= {"minutes": self.world.now // MINUTE, "cost": self.world.cost}
        info["truth"] = truth(self.incident) if ended else None
        for key in ("slots", "partial", "grounded", "attacker_out", "tipped_off", "lucky"):
            info[key] = self._closing.get(key) if ended else None
        return info

    def replay(self, actions: list[str], n: int) -> tuple[float, float]:
        """Plays commands again in `n` other worlds of the same instance.

        Args:
            actions: commands, as they were answered or parsed.
            n: worlds, at least 1; their noise is named by numbers from 0 on.

        Returns:
            Mean and standard deviation (of the population) of "solved".

        Raises:
            ValueError: n is below 1, or there is no instance yet.
        """
        if n < 1 or self.instance is None:
            raise ValueError("replay needs n of at least 1 and a reset() before it")
        env = IncidentEnv(self.level_number, freeze=self.freeze, max_steps=self.max_steps)
        options = {"split": self.instance.split, "index": self.instance.index}
        solved = []
        for i in range(n):
            seed = Stream("incident-replay", self.noise_seed, i).word() >> 1
            _, info = env.reset(seed=seed, options=options)
            for action in actions:
                *_, info = env.step(action)
                if info["end"]:
                    break
            solved.append(float(info["solved"]))
        mean = sum(solved) / n
        return mean, (sum((x - mean) ** 2 for x in solved) / n) ** 0.5

    def timeline(self) -> list[tuple[int, str]]:
        """What the attacker did and which traces of it were lost, once the attempt is over.

        Returns:
            (minute, text), in order.

        Raises:
            ValueError: it is not over yet.
        """
        if not self._end:
            raise ValueError("the timeline is told after the end of the investigation")
        world = self.world
        attack = world.attack
        story = list(world.story)
        if attack is not None:
            steps = zip(attack.arrivals, attack.path, strict=True)
            story += [(t, f"came to h{h + 1}") for t, h in steps]
            story += world.log.told(SOURCE_CODE["audit"], bits("persist", "impact"))
            story += world.log.gone(bits("entry", "path", "persist"), world.now)
        return sorted((t // MINUTE, text) for t, text in story)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle keeps: the start and the commands, never the hidden world.

        Raises:
            ValueError: a live attempt, which cannot be had twice.
        """
        if self.instance is not None and not self.repeatable:
            raise ValueError("a live attempt cannot be copied; give reset() a seed, or freeze=True")
        arguments = {
            "level": self.level_number, "reward": self.reward,
            "freeze": self.freeze, "noise": self._noise, "luck": self.luck, "obs": self.obs,
            "guide": self.guide,
            "max_steps": self.max_steps, "render_mode": self.render_mode,
        }  # fmt: skip
        start = None
        if self.instance is not None:
            start = (self.noise_seed, self.instance.split, self.instance.index, self._given)
        steps = (self.steps, self._invalid_actions)
        own = {
            k: v for k, v in self.__dict__.items() if k in ("_np_random", "_np_random_seed", "spec")
        }
        return {"arguments": arguments, "start": start, "replies": list(self._replies),
                "steps": steps, "own": own}  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["arguments"])  # type: ignore[misc]
        if state["start"] is not None:
            seed, split, index, given = state["start"]
            self.reset(seed=seed, options={"split": split, "index": index})
            for reply in state["replies"]:
                self.step(reply)
            self._given = given
            self.steps, self._invalid_actions = state["steps"]
        self.__dict__.update(state["own"])

    def _frame(self) -> npt.NDArray[np.uint8]:
        from ftw_envs.incident.picture import picture  # Pillow only where it is wanted

        board = [f"{s}={v}" for s, v in self.desk.board.items()]
        return picture(self.desk, [alert_text(self.incident), self._status(), "report:", *board])
