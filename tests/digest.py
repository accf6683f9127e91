"""A hash of fixed episodes; on its own, so that other processes start fast."""

from __future__ import annotations

import random
from hashlib import sha256

from ftw_envs.registry import make
from ftw_envs.text_env import record


def digest(env_id: str, kwargs: dict, seeds: range = range(20)) -> str:
    """Hash of everything an agent sees in fixed episodes, some replies being unusable."""
    env = make(env_id, **kwargs)
    h = sha256()
    for seed in seeds:
        pick = random.Random(seed)
        observation, *rest = env.reset(seed=seed)
        h.update(repr((record(observation), rest)).encode())
        done = False
        while not done:
            words = env.grammar.actions  # a chain of choices has new ones in every step
            number = pick.randrange(len(words) + 1)
            if kwargs.get("actions") == "discrete":
                observation, *rest = env.step(number % len(words))
            else:
                observation, *rest = env.step([*words, "nonsense"][number])
            h.update(repr((record(observation), rest)).encode())
            done = rest[1] or rest[2]
    return h.hexdigest()


def state_digests(env_id: str, kwargs: dict, seeds: range = range(6)) -> list[str]:
    """The digest after every step of some episodes, answers being drawn by number."""
    env, out = make(env_id, **kwargs), []
    for seed in seeds:
        pick = random.Random(seed)
        env.reset(seed=seed)
        out.append(env.state_digest())
        while not env._end:
            actions = env.grammar.actions
            number = pick.randrange(len(actions) + 1)
            if kwargs.get("actions") == "discrete":
                env.step(number % len(actions))
            else:
                env.step(actions[number] if number < len(actions) else "nonsense")
            out.append(env.state_digest())
    return out
