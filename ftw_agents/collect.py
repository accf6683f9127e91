"""Plays whole episodes in a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from gymnasium import spaces

from ftw_agents.agent import Agent, History, Reply
from ftw_agents.starts import Start
from ftw_envs.episode import Episode, Instance, Tokens, Turn
from ftw_envs.registry import make
from ftw_envs.streams import Stream
from ftw_envs.text_env import EpisodeEnv, record


class _Attempt:
    """An episode while it is being played."""

    def __init__(self, env: EpisodeEnv, start: Start, player_seed: int) -> None:
        observation, _ = env.reset(
            seed=start.seed, options={"split": start.split, "index": start.index}
        )
        name = ("player", player_seed, start.split, start.index, start.seed)
        stream = Stream(*name, start.attempt) if start.attempt else Stream(*name)
        self.env = env
        self.start = start
        self.history = History([observation], stream, env)
        self.turns: list[Turn] = []
        self.info: dict[str, Any] = {}

    def step(self, reply: Reply) -> bool:
        """Takes one reply; returns whether the episode has ended."""
        # Lone surrogates cannot be written as UTF-8, so they must not get into a record.
        text = reply.text.encode("utf-8", "replace").decode("utf-8")
        said = record(self.history.observations[-1])
        observation, reward, terminated, truncated, self.info = self.env.step(text)
        action = self.env.last_action
        self.turns.append(Turn(said, text, action, action is not None, float(reward)))
        self.history.replies.append(reply)
        self.history.observations.append(observation)
        return terminated or truncated

    def episode(self, env_id: str, env_kwargs: dict[str, Any], version: int) -> Episode:
        replies = self.history.replies
        ids: list[int] = []
        action: list[int] = []
        for r in replies:
            ids += [*r.prompt_ids, *r.ids]
            action += [0] * len(r.prompt_ids) + [1] * len(r.ids)
        logprobs = tuple(lp for r in replies for lp in r.logprobs)
        return Episode(
            env_id=env_id,
            env_version=self.env.env_version,
            env_kwargs=env_kwargs,
            instance=Instance(**self.info["instance"]),
            seed=self.start.seed,
            turns=tuple(self.turns),
            final_observation=record(self.history.observations[-1]),
            score=float(self.info["score"]),
            solved=bool(self.info["solved"]),
            end=self.info["end"],
            policy_version=version,
            tokens_in=len(ids) - sum(action),
            tokens_out=sum(action),
            tokens=Tokens(tuple(ids), tuple(action), logprobs) if ids else None,
        )


class Collector:
    """Plays an environment with up to `batch` episodes at a time.

    Episodes that start together take their turns together, and those that end early
    leave the batch. What an episode does depends on its start, the agent and
    `player_seed` only, not on what it is batched with.

    Args:
        env_id, env_kwargs: the environment and its view.
        batch: episodes at a time, at least 1.
        new_env: makes one that is played as such an environment is, though it may run elsewhere.

    Raises:
        ValueError: batch is below 1, or the view takes no text.
    """

    def __init__(
        self,
        env_id: str,
        env_kwargs: dict[str, Any],
        batch: int = 256,
        new_env: Callable[[], EpisodeEnv] | None = None,
    ) -> None:
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        self.env_id = env_id
        self.env_kwargs = dict(env_kwargs)
        self.batch = batch
        self._new_env = new_env or partial(make, env_id, **env_kwargs)
        self._envs: list[EpisodeEnv] = [self._new_env()]
        if not isinstance(self.env.action_space, spaces.Text):
            raise ValueError(f"agents answer in words: take {env_id} without actions='discrete'")

    @property
    def env(self) -> EpisodeEnv:
        """One of the environments, for questions about instances."""
        return self._envs[0]

    def play(
        self, agent: Agent, starts: Sequence[Start], *, player_seed: int = 0, version: int = 0
    ) -> Iterator[Episode]:
        """The episodes of all `starts`, in order."""
        todo = iter(starts)
        while wave := list(islice(todo, self.batch)):
            while len(self._envs) < len(wave):
                self._envs.append(self._new_env())
            envs = self._envs[: len(wave)]
            attempts = [_Attempt(e, s, player_seed) for e, s in zip(envs, wave, strict=True)]
            live = attempts
            while live:
                replies = agent.act([a.history for a in live])
                live = [a for a, r in zip(live, replies, strict=True) if not a.step(r)]
            for attempt in attempts:
                yield attempt.episode(self.env_id, self.env_kwargs, version)
