"""An attempt as an entry keeps it, and what plays it again.

A row holds what the agent replied and what has to follow from it; what it was shown follows
from that, so a hash of it is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from math import isclose
from typing import Any, NoReturn

from ftw_agents.starts import Start
from ftw_envs.episode import Episode
from ftw_envs.text_env import EpisodeEnv, record
from leaderboards.schema import EpisodeRow, Replay, ReplayStep

TOLERANCE = 1e-9
"""How far a recomputed number may lie from the recorded one, relative or absolute."""


class ReplayError(ValueError):
    """The first difference between a record and the attempt played again; one line."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt went, played again.

    Attributes:
        turns: replies.
        invalid: replies that were unusable.
        tokens_in, tokens_out: as told; nothing here can count them.
    """

    solved: bool
    score: float
    turns: int
    invalid: int
    tokens_in: int
    tokens_out: int


def row_of(env: EpisodeEnv, episode: Episode, start: Start) -> EpisodeRow:
    """The row of a recorded episode, which is played again and compared with its record.

    Args:
        env: an environment of the episode's id and view.
        start: the instance and noise seed that it must be of.

    Raises:
        ReplayError: the first difference.
    """
    instance = episode.instance
    _same("the instance", f"{instance.split}/{instance.index}", f"{start.split}/{start.index}")
    _same("the seed", episode.seed, start.seed)
    observation, info = _begin(env, start)
    _same("the instance's hash", instance.hash, info["instance"]["hash"])
    checks = []
    for i, turn in enumerate(episode.turns, 1):
        if info["end"]:
            _fail(f"turn {i} comes after the end ({info['end']})")
        _same(f"turn {i}: the observation", turn.observation, record(observation))
        checks.append(check_of(env, observation))
        observation, reward, _, _, info = env.step(turn.reply)
        _same(f"turn {i}: the action", turn.action, env.last_action)
        _same(f"turn {i}: the reward", turn.reward, float(reward))
    _same_end(episode, len(episode.turns), info)
    _same("the last observation", episode.final_observation, record(observation))
    return EpisodeRow(
        index=start.index,
        instance=instance.hash,
        seed=str(start.seed),
        replies=[t.reply for t in episode.turns],
        actions=[t.action for t in episode.turns],
        checks=[*checks, check_of(env, observation)],
        score=episode.score,
        solved=episode.solved,
        end=info["end"],
        tokens_in=episode.tokens_in,
        tokens_out=episode.tokens_out,
    )


def replay_row(env: EpisodeEnv, row: EpisodeRow, start: Start) -> Outcome:
    """Plays a row again and compares everything that it says.

    Args:
        env: an environment of the entry's board and view.
        start: the instance and noise seed that it must be of.

    Raises:
        ReplayError: the first difference.
    """
    turns = len(row.replies)
    if len(row.actions) != turns or len(row.checks) != turns + 1:
        _fail(
            f"{turns} replies go with as many actions and one check more, "
            f"not with {len(row.actions)} and {len(row.checks)}"
        )
    _same("the index", row.index, start.index)
    _same("the seed", row.seed, str(start.seed))
    observation, info = _begin(env, start)
    _same("the instance's hash", row.instance, info["instance"]["hash"])
    for i, reply in enumerate(row.replies):
        if info["end"]:
            _fail(f"turn {i + 1} comes after the end ({info['end']})")
        _same_check(f"turn {i + 1}", row.checks[i], check_of(env, observation))
        observation, _, _, _, info = env.step(reply)
        if env.last_action != row.actions[i]:
            _same(f"turn {i + 1}: the action", row.actions[i], env.last_action)
    _same_end(row, turns, info)
    _same_check("the end", row.checks[-1], check_of(env, observation))
    return Outcome(
        solved=info["solved"],
        score=float(info["score"]),
        turns=turns,
        invalid=info["invalid_actions"],
        tokens_in=row.tokens_in,
        tokens_out=row.tokens_out,
    )


def watch(env: EpisodeEnv, run: int, row: EpisodeRow, start: Start) -> Replay:
    """An attempt as it can be looked at.

    Args:
        env: as for `replay_row`, with `render_mode="ansi"`.
        row: one that holds.
    """
    observation, info = _begin(env, start)
    begin, steps = env.render(), []
    for reply in row.replies:
        saw = record(observation)
        observation, _, _, _, info = env.step(reply)
        steps.append(ReplayStep(saw=saw, reply=reply, action=env.last_action, world=env.render()))
    return Replay(
        run=run,
        index=row.index,
        start=begin,
        steps=steps,
        last=record(observation),
        score=float(info["score"]),
        solved=info["solved"],
        end=info["end"],
    )


def check_of(env: EpisodeEnv, observation: Any) -> str:
    """16 hex digits: 8 of the hash of what is seen now, 8 of that of the world's state."""
    seen = sha256(record(observation).encode()).hexdigest()
    return seen[:8] + env.state_digest()[:8]


def _begin(env: EpisodeEnv, start: Start) -> tuple[Any, dict[str, Any]]:
    return env.reset(seed=start.seed, options={"split": start.split, "index": start.index})


def _same_check(where: str, recorded: str, replayed: str) -> None:
    if recorded == replayed:
        return
    seen, world = recorded[:8] != replayed[:8], recorded[8:] != replayed[8:]
    what = " and ".join(["what the agent saw"] * seen + ["the state of the world"] * world)
    _fail(f"{where}: {what} is recorded as {recorded}, played again it is {replayed}")


def _same_end(recorded: Episode | EpisodeRow, turns: int, info: dict[str, Any]) -> None:
    if not info["end"]:
        _fail(f"the episode goes on after its {turns} turns")
    _same("the end", recorded.end, info["end"])
    _same("solved", recorded.solved, info["solved"])
    _same("the score", recorded.score, float(info["score"]))


def _same(what: str, recorded: object, replayed: object) -> None:
    equal = (
        isclose(recorded, replayed, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        if isinstance(recorded, float) and isinstance(replayed, float)
        else recorded == replayed
    )
    if not equal:
        _fail(f"{what} is recorded as {_short(recorded)}, played again it is {_short(replayed)}")


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 120 else text[:117] + "..."


def _fail(message: str) -> NoReturn:
    raise ReplayError(message)
