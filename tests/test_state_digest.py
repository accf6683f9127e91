"""`state_digest`: equal exactly where two episodes go on alike, and seen by nobody."""

from __future__ import annotations

import dataclasses
import os
import pickle
import random
import subprocess
import sys
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from conftest import MINI, TRAP
from digest import state_digests
from gymnasium.error import ResetNeeded
from hypothesis import given
from hypothesis import strategies as st
from incidents import begin, incident

from ftw_envs.incident.env import IncidentEnv
from ftw_envs.incident.world import World
from ftw_envs.registry import TABLE, make
from ftw_envs.text_env import record

CHAIN = "ftw/SigmaTrapChain-v0"
UNDO = {"undo": True, "changes_only": True}
SOME = [(row.id, {}) for row in TABLE if "Visual" not in row.id] + [(MINI, UNDO)]
GOLDEN = {
    "ftw/SokobanMini-v0 {}": "2fac59b27532a06b",
    "ftw/Sokoban-v0 {}": "0cf912e4fccb93dd",
    "ftw/SokobanHard-v0 {}": "8aefa3715471a70f",
    "ftw/SigmaTrap-v0 {}": "bf4fca38fad80f1c",
    "ftw/SigmaTrapChain-v0 {}": "7077b6c77f053f43",
    "ftw/SigmaTrapContext-v0 {}": "de699ee922c3e30f",
    "ftw/IncidentL0-v0 {}": "b90ebf1d20cf6fdc",
    "ftw/IncidentL1-v0 {}": "752b0995d27c1b96",
    "ftw/IncidentL2-v0 {}": "6fcf94174eed63a5",
    "ftw/IncidentL3-v0 {}": "142f547cf59a8097",
    "ftw/IncidentL4-v0 {}": "69ba6d050736daaa",
    "ftw/SokobanMini-v0 {'undo': True, 'changes_only': True}": "0b85115e5e5468d8",
}
every = pytest.mark.parametrize(("env_id", "kwargs"), SOME)


@pytest.mark.parametrize(
    ("env_id", "view"),
    [
        *((MINI, {"obs": obs}) for obs in ("coords", "grid", "image")),
        (MINI, {"changes_only": True}),
        ("ftw/IncidentL2-v0", {"obs": "image"}),
        ("ftw/IncidentL2-v0", {"guide": "brief"}),
        ("ftw/IncidentL2-v0", {"reward": "partial"}),
    ],
)
def test_the_view_does_not_matter(env_id: str, view: dict) -> None:
    assert state_digests(env_id, view) == state_digests(env_id, {})


def test_numbers_or_words_do_not_matter() -> None:
    words, numbers = make(MINI), make(MINI, obs="grid", actions="discrete")
    for env in (words, numbers):
        env.reset(seed=5)
    for number in (0, 1, 2, 3, 3, 1):
        assert words.state_digest() == numbers.state_digest()
        words.step(words.grammar.actions[number])
        numbers.step(number)


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_the_same_in_other_processes(hash_seed: str) -> None:
    code = f"from digest import state_digests; print([state_digests(i, k) for i, k in {SOME!r}])"
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.path.dirname(__file__)}
    out = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == repr([state_digests(i, k) for i, k in SOME])


@every
def test_golden_digests(env_id: str, kwargs: dict) -> None:
    """Entries keep these: if they change, no entry of this version can be replayed any more."""
    text = " ".join(state_digests(env_id, kwargs))
    assert sha256(text.encode()).hexdigest()[:16] == GOLDEN[f"{env_id} {kwargs}"]


@every
def test_to_ask_changes_nothing_and_tells_nobody(env_id: str, kwargs: dict) -> None:
    env, quiet = make(env_id, **kwargs), make(env_id, **kwargs)
    with pytest.raises(ResetNeeded, match="before state_digest"):
        env.state_digest()
    for seed in range(4):
        pick = random.Random(seed)
        seen, other = env.reset(seed=seed), quiet.reset(seed=seed)
        while True:
            digest = env.state_digest()
            assert len(digest) == 64
            assert env.state_digest() == digest
            assert (record(seen[0]), seen[1:]) == (record(other[0]), other[1:])
            assert digest[:16] not in repr(seen)
            if env._end:
                break
            reply = pick.choice((*env.grammar.actions, "nonsense"))
            seen, other = env.step(reply), quiet.step(reply)


def _board(env: Any) -> tuple:
    return bytes(env.board.cells), env.max_steps - env.steps, env._end


@given(st.lists(st.lists(st.sampled_from(["up", "down", "left", "right", "?"]), max_size=15)))
def test_sokoban_positions_are_told_apart_and_ways_to_them_are_not(ways: list[list[str]]) -> None:
    env = make(MINI)
    found: dict[str, tuple] = {}
    for way in ways:
        env.reset(options={"split": "test", "index": 3}, seed=len(way))
        for reply in [None, *way]:
            if reply is not None and not env._end:
                env.step(reply)
            assert found.setdefault(env.state_digest(), _board(env)) == _board(env)
    assert len(set(found.values())) == len(found)


def test_undo_remembers_the_way() -> None:
    def state(replies: tuple[str, ...], **kwargs: Any) -> tuple[str, str]:
        env = make(MINI, **kwargs)
        env.reset(options={"split": "test", "index": 1})
        for reply in replies:
            env.step(reply)
        return env.state_digest(), env._text()

    a, b = ("left", "right", "left"), ("left", "nonsense", "nonsense")
    assert state(a) == state(b)
    assert state(a, undo=True)[1] == state(b, undo=True)[1]
    assert state(a, undo=True)[0] != state(b, undo=True)[0]


@pytest.mark.parametrize("env_id", [TRAP, CHAIN, "ftw/SigmaTrapContext-v0"])
def test_bandits_noise_to_come_is_told_apart(env_id: str) -> None:
    env, found = make(env_id), set()
    for seed in range(20):
        seen, _ = env.reset(seed=seed, options={"split": "test", "index": 4})
        found.add((seen, env.state_digest()))
    assert len(found) == 20
    assert len({seen for seen, _ in found}) == 1


def test_choices_made_in_a_chain_are_told_apart() -> None:
    """The texts do not tell them, the sum at the end does."""
    env = make(CHAIN)
    found = {}
    for first in (0, 1):
        for second in (0, 1):
            env.reset(seed=1, options={"split": "test", "index": 0})
            env.step(env.grammar.actions[first])
            env.step(env.grammar.actions[second])
            found[env.state_digest()] = env._text()
    assert len(found) == 4
    assert len(set(found.values())) == 1


# Incidents.


def test_hidden_worlds_are_told_apart() -> None:
    env, found = incident(3), set()
    for seed in range(20):
        begin(env, 7, seed)
        found.add(env.state_digest())
    assert len(found) == 20


def test_a_copied_incident_goes_on_alike() -> None:
    env = incident(2)
    begin(env, 5, 3)
    for command in ("search auth", "inspect h1 net", "nonsense", "set entry=h2"):
        env.step(command)
    copy = pickle.loads(pickle.dumps(env))
    assert copy.state_digest() == env.state_digest()
    assert copy.step("inspect h2 ps") == env.step("inspect h2 ps")
    assert copy.state_digest() == env.state_digest()


def _futures(env: IncidentEnv) -> list:
    """What some ways to go on show, from here."""
    out = []
    for commands in (
        [f"count {s} by=act" for s in env.level.sources] + ["wait 60m"],
        [*(f"inspect h{i + 1} net" for i in range(4)), "wait 60m", "search audit n=50"],
        ["search auth n=50", "wait 60m", "wait 60m", "search net n=50", "report"],
    ):
        copy = pickle.loads(pickle.dumps(env))
        out += [copy.step(c)[0] for c in commands if not copy._end]
    return out


def test_incidents_that_go_on_otherwise_are_told_apart() -> None:
    """Of one start, other questions may set the attacker off, and nothing shown need tell it."""
    env = incident(3)
    by_digest: dict[str, list] = {}
    differing = 0
    for way in range(24):
        pick = random.Random(way)
        begin(env, 2, 9)
        for _ in range(2):
            host = f"h{1 + pick.randrange(len(env.incident.hosts))}"
            env.step(pick.choice((f"inspect {host} ps", f"isolate {host}", "wait 15m", "hosts")))
        digest, futures = env.state_digest(), _futures(env)
        assert by_digest.setdefault(digest, futures) == futures
        differing += len(by_digest) > 1
    assert differing


# What is fixed once an attempt has begun, or follows from other fields.
_FIXED = {
    World: {"incident", "level", "attack", "log", "until", "_laid_out"},
    "Log": {
        "_keep", "_rows", "t", "source", "host", "act", "user", "src", "dst", "how", "evidence",
    },
    "Desk": {"world", "level", "_by_id"},
}  # fmt: skip


def _changed(value: Any) -> Any:
    """Something else of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, np.ndarray):
        other = value.copy()
        other[..., -1] = ~other[..., -1] if other.dtype == bool else other[..., -1] + 1
        return other
    if isinstance(value, dict):
        return dict(list(value.items())[:-1])
    if isinstance(value, set):
        return value ^ {3}
    if dataclasses.is_dataclass(value):
        raise AssertionError("say how to change it")
    return [*value, (10**6, 0, "wipe", 1)] if isinstance(value, list) else (*value, 1)


def test_every_part_of_an_incident_counts() -> None:
    """A field that is added later must be hashed, or be named above as one that need not be."""
    env = incident(4)

    def fresh() -> IncidentEnv:
        begin(env, 11, 2)
        for command in ("search auth", "inspect h1 ps", "set entry=h1", "snap h2", "isolate h3"):
            env.step(command)
        for host in env.incident.attack.path:  # until the attacker has noticed something
            env.step(f"inspect h{host + 1} net")
        return env

    digest = fresh().state_digest()
    assert fresh().state_digest() == digest
    parts = {World: lambda: env.world, "Log": lambda: env.world.log, "Desk": lambda: env.desk}
    checked = 0
    for kind, part in parts.items():
        for name in sorted(vars(part()).keys() - _FIXED[kind]):
            fresh()
            setattr(part(), name, _changed(getattr(part(), name)))
            assert env.state_digest() != digest, name
            checked += 1
    assert checked >= 30
    for name in ("tickets", "patches", "resets", "travels", "skew", "leases"):
        assert getattr(fresh().world, name), f"{name}: nothing there to be hashed"
