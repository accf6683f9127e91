"""The incident environment keeps what it promises: the six acceptance tests, and what they need."""

from __future__ import annotations

import ast
import copy
import gc
import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from incidents import attempt, begin, incident, solve_rate

import ftw_envs.incident
from ftw_agents.config import GRPOConfig, TrainConfig
from ftw_agents.scripted.investigators import expert, expert_late, loud
from ftw_agents.train import check_start
from ftw_envs.incident.env import OVER
from ftw_envs.incident.levels import LEVELS
from ftw_envs.incident.score import report_of
from ftw_envs.streams import Stream

LEVEL_NUMBERS = range(len(LEVELS))
levels = pytest.mark.parametrize("level", LEVEL_NUMBERS)

# The six acceptance tests


@pytest.mark.parametrize("level", LEVEL_NUMBERS[1:])
def test_investigations_are_long(level: int) -> None:
    """No expert attempt that finds an incident takes fewer than ten commands."""
    env = incident(level)
    for i in range(20):
        _, told = attempt(env, expert, i, i)
        if env.incident.attack is not None:
            assert len(told) >= 10


@pytest.mark.parametrize("level", LEVEL_NUMBERS[1:])
def test_the_world_moves_unseen(level: int) -> None:
    """The same commands under two noise seeds show different replies."""
    env = incident(level)
    differs = 0
    for i in range(20):
        _, told = attempt(env, expert, i, 1)
        begin(env, i, 2)
        for command, text in told:
            reply, _, terminated, truncated, _ = env.step(command)
            if reply != text:
                differs += 1
                break
            if terminated or truncated:
                break
    assert differs >= 18


def test_no_attempt_can_be_had_twice() -> None:
    env = incident(1)
    worlds = set()
    for _ in range(5):
        begin(env, 3, None)
        worlds.add((env.world.log.table.tobytes(), env.world.log._keep.tobytes()))
        assert not env.repeatable
        with pytest.raises(ValueError, match="a live attempt cannot be copied"):
            copy.deepcopy(env)
        with pytest.raises(ValueError, match="a live attempt cannot be copied"):
            pickle.dumps(env)
    assert len(worlds) == 5
    public = {name for name in dir(env) if not name.startswith("_")} - {"state_digest"}
    assert not {n for n in public if "restore" in n or "state" in n or "snapshot" in n}


def test_grpo_is_refused_on_the_live_form(tmp_path: Path) -> None:
    def config(*args: str) -> TrainConfig:
        return TrainConfig(
            env="ftw/IncidentL1-v0", env_args=args, algo="grpo", out=tmp_path / "run",
            episodes=16, grpo=GRPOConfig(group=8),
        )  # fmt: skip

    with pytest.raises(ValueError, match="cannot repeat a start"):
        check_start(config())
    check_start(config("freeze=true"))
    check_start(config("noise=3"))


@pytest.mark.parametrize("level", LEVEL_NUMBERS[1:])
def test_one_wrong_turn_ruins_it(level: int) -> None:
    env, some = incident(level), range(60)
    assert solve_rate(env, loud, some) <= solve_rate(env, expert, some) / 4


def test_luck_within_an_instance() -> None:
    """Of what decides whether the expert solves, 40 to 90 % is luck; frozen, nothing is."""
    live, frozen = incident(1), incident(1, freeze=True)
    n = 12
    rates = np.array([
        [attempt(live, expert, i, 100 * i + k)[0]["solved"] for k in range(n)] for i in range(80)
    ])  # fmt: skip
    p = rates.mean(axis=1)
    within = (p * (1 - p)).mean() * n / (n - 1)
    share = within / (rates.mean() * (1 - rates.mean()))
    assert 0.4 <= share <= 0.9
    same = [{attempt(frozen, expert, i, k)[0]["solved"] for k in range(4)} for i in range(10)]
    assert all(len(s) == 1 for s in same)


SCRIPT = """
import sys
from hashlib import sha256
from incidents import begin, incident
from ftw_envs.streams import Stream
for level in range(5):
    env = incident(level, max_steps=200)
    h = sha256()
    for seed in (0, 1, 2**62):
        text, info = begin(env, 5, seed)
        h.update(repr((text, info)).encode())
        dice = Stream("test", seed)
        words = [w for w in env.grammar.actions if w != "report"]
        for _ in range(200):
            text, *rest = env.step(dice.choice(words))
            h.update(repr((text, rest)).encode())
            if rest[1] or rest[2]:
                break
    print(h.hexdigest())
"""


def test_equal_bytes_over_200_steps_everywhere() -> None:
    """Also for seed 0, in other processes and under other hash seeds."""
    out = set()
    for hash_seed in ("0", "1", "4711"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.path.dirname(__file__)}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
        )
        out.add(run.stdout)
    assert len(out) == 1
    assert len(set(out.pop().split())) == 5


# Solvable


@levels
@pytest.mark.parametrize("split", ["train", "valid", "test", "test_names", "test_topo",
                                   "test_family", "test_drift"])  # fmt: skip
def test_frozen_expert_solves_all(level: int, split: str) -> None:
    """`benchmarks/incident_players.py --check` plays all instances of every split."""
    assert solve_rate(incident(level, freeze=True), expert, range(8), split) == 1.0


@levels
def test_expert_is_sometimes_beaten_by_the_world_only(level: int) -> None:
    env, some = incident(level), range(40)
    rate = solve_rate(env, expert, some)
    assert rate >= 0.6
    if level:
        assert solve_rate(env, expert_late, some) < rate


@levels
def test_every_step_has_two_sources(level: int) -> None:
    """Each slot that a log can tell is told by two sources, counting a look at the host itself."""
    for i in range(30):
        env = incident(level, freeze=True)
        begin(env, i)
        if env.incident.attack is None:
            continue
        log = env.world.log
        for slot in set(env.level.slots) & {"entry", "path", "accounts", "vector", "persist"}:
            rows = log.evidence & ftw_envs.incident.log.SLOT_BIT[slot] > 0
            sources = {
                (int(s), int(h)) for s, h in zip(log.source[rows], log.host[rows], strict=True)
            }
            live = 1 if slot == "persist" else 0  # `inspect` shows it
            insider = env.incident.attack.vector in ("insider", "shared-password")
            least = 1 if level == 0 and slot == "accounts" else 2
            assert len(sources) + live >= least or insider, (slot, i)


# Nothing is given away


def test_noise_and_instance_are_named_apart() -> None:
    env = incident(2)
    _, a = begin(env, 1, 10)
    first = env.world.log.table.copy()
    _, b = begin(env, 1, 11)
    assert a["instance"] == b["instance"]
    assert first.shape != env.world.log.table.shape or (first != env.world.log.table).any()
    _, c = begin(env, 2, 10)
    assert c["instance"]["hash"] != a["instance"]["hash"]


@levels
def test_a_harmless_command_shifts_no_dice(level: int) -> None:
    """Common random numbers: what happens later does not hang on how much was asked."""
    env = incident(level)
    for i in range(10):
        begin(env, i, i)
        for _ in range(2):
            env.step("wait 20m")
        short = env.world.log.table.copy(), env.world._due, env.world.story
        begin(env, i, i)
        for command in ("hosts", "users", "search auth", "count net by=dst", "help"):
            env.step(command)
        env.step("wait 24m")
        assert env.world.now == 40 * 60
        assert (env.world.log.table == short[0]).all()
        assert (env.world._due, env.world.story) == short[1:]


@pytest.mark.parametrize("level", LEVEL_NUMBERS[1:])
def test_looking_at_a_host_may_be_noticed_and_asking_logs_is_not(level: int) -> None:
    env = incident(level)
    tipped = 0
    for i in range(20):
        begin(env, i, i)
        for source in env.level.sources:
            env.step(f"search {source}")
        assert not env.world.tipped
        env.step(f"inspect h{env.incident.alert_host + 1} ps")
        tipped += env.world.tipped
    assert tipped >= 12


def test_frozen_worlds_stand_still() -> None:
    for level in LEVEL_NUMBERS:
        env = incident(level, freeze=True)
        begin(env, 2)
        host = f"h{env.incident.alert_host + 1}"
        before = env.step(f"count audit by=act host={host} until=t+0")[0].split("\n")[1:]
        env.step(f"inspect {host} ps")
        env.step("wait 60m")
        after = env.step(f"count audit by=act host={host} until=t+0")[0].split("\n")[1:]
        assert before == after
        assert not env.world.tipped
        assert env.repeatable


def test_no_global_randomness_nor_clock() -> None:
    """No `random`, `np.random`, `time` or `hash()` in the environment."""
    for path in Path(ftw_envs.incident.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not {a.name for a in node.names} & {"random", "time", "secrets", "os"}
            if isinstance(node, ast.ImportFrom):
                assert node.module not in ("random", "time", "secrets", "os", "numpy.random")
            if isinstance(node, ast.Attribute):
                assert not (isinstance(node.value, ast.Name) and node.value.id == "np"
                            and node.attr == "random")  # fmt: skip
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "hash"


# Score


@levels
def test_only_the_whole_truth_solves(level: int) -> None:
    env = incident(level, freeze=True)
    for i in range(12):
        begin(env, i)
        known = ftw_envs.incident.instance.truth(env.incident)
        right = report_of(known, env.level.slots)
        env.step(f"set {right}")
        *_, info = env.step("report")
        needs_out = env.level.reacts and env.incident.attack is not None
        assert info["solved"] == (not needs_out)  # containment is judged by the world
        assert info["partial"] == pytest.approx(0.8 if needs_out else 1.0)
        if env.incident.attack is None:
            continue
        for slot in env.level.slots:
            begin(env, i)
            env.step(f"set {right}")
            env.step(f"drop {slot}")
            *_, info = env.step("report")
            assert not info["solved"]
            assert info["slots"][slot] == 0
            assert 0 < info["partial"] < 1


def test_empty_report_scores_nothing() -> None:
    for level in LEVEL_NUMBERS:
        env = incident(level, reward="partial")
        begin(env, 1)
        _, reward, terminated, _, info = env.step("report")
        assert (reward, info["partial"], info["solved"], terminated) == (0, 0, False, True)


def test_listing_everything_gains_nothing() -> None:
    env = incident(1, freeze=True)
    for i in range(10):
        begin(env, i)
        accounts = ",".join(env.grammar.handles["user"])
        env.step(f"set accounts={accounts} path=h1,h2,h3,h4,h5,h6 entry=h1")
        *_, info = env.step("report")
        assert not info["solved"]
        assert info["slots"]["accounts"] <= 0.4
        assert info["slots"]["path"] <= 0.6


def test_unknown_earns_a_quarter_and_never_solves() -> None:
    env = incident(1, freeze=True)
    begin(env, 0)
    env.step("set entry=unknown path=unknown accounts=unknown vector=unknown c2=unknown")
    *_, info = env.step("report")
    assert info["partial"] == pytest.approx(0.25)
    assert not info["solved"]


def test_repeating_a_finding_pays_nothing() -> None:
    env = incident(0, reward="partial")
    begin(env, 0)
    rewards = [env.step("set entry=h1")[1] for _ in range(4)]
    assert rewards == [0, 0, 0, 0]


def test_grounded_tells_guessed_from_found() -> None:
    env = incident(1, freeze=True)
    for i in range(10):
        info, _ = attempt(env, expert, i)
        assert info["grounded"] == 1
        begin(env, i)
        env.step("set " + report_of(info["truth"], env.level.slots))
        *_, guessed = env.step("report")
        assert (guessed["solved"], guessed["grounded"]) == (True, 0)


def test_lucky_tells_a_hasty_win_from_a_sound_one() -> None:
    """What would fail in most other worlds of the same instance was luck."""
    env = incident(1, luck=20)
    found = {}
    for i in range(60):
        info, told = attempt(env, expert, i, i)
        mean, sd = env.replay([c for c, _ in told], 20)
        assert sd == pytest.approx((mean * (1 - mean)) ** 0.5)
        if info["solved"]:
            assert info["lucky"] == (mean < 0.3)
            found[info["lucky"]] = True
        else:
            assert info["lucky"] is None
    assert False in found


def test_replays_repeat() -> None:
    env = incident(1)
    _, told = attempt(env, expert, 7, 3)
    commands = [c for c, _ in told]
    assert env.replay(commands, 8) == env.replay(commands, 8)
    frozen = incident(1, freeze=True)
    _, told = attempt(frozen, expert, 7, 3)
    assert frozen.replay([c for c, _ in told], 4) == (1.0, 0.0)
    with pytest.raises(ValueError, match="n of at least 1"):
        env.replay(commands, 0)


def test_containment_is_judged_by_the_world() -> None:
    """Orders that miss the attacker do not put him out, however many there are."""
    env = incident(3, freeze=True)
    for i in range(12):
        begin(env, i)
        attack = env.world.attack
        if attack is None:
            continue
        others = [u for u in range(24) if u not in attack.accounts][:8]
        for user in others:
            env.step(f"rotate u{user + 1}")
        assert not env.world.out()
        for user in set(attack.accounts):
            env.step(f"rotate u{user + 1}")
        assert not env.world.out()
        env.step(f"isolate h{attack.persist_host + 1}")
        assert env.world.out()


# Cost


def test_resets_leave_nothing_behind() -> None:
    env = incident(2)
    for i in range(300):
        begin(env, i, i)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for i in range(1000):
        begin(env, i % 300, i)
        env.step("search auth")
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 8_000_000  # at most the cache of 256 instances, some 10 kB each


@levels
def test_replies_keep_to_their_length(level: int) -> None:
    env = incident(level)
    for i in range(6):
        begin(env, i, i)
        dice = Stream("test", level, i)
        done = False
        while not done:
            words = env.grammar.actions
            text, _, terminated, truncated, _ = env.step(dice.choice(words))
            assert len(text) <= env.level.reply
            done = terminated or truncated


def test_time_and_commands_run_out() -> None:
    env = incident(0)
    begin(env)
    for _ in range(3):
        env.step("wait 60m")
    text, reward, terminated, truncated, info = env.step("wait 60m")
    assert (reward, terminated, truncated, info["end"]) == (0, True, False, "failed")
    assert text.endswith("time is up; nothing was filed")
    assert env.step("report")[0] == OVER
    begin(env)
    for _ in range(12):
        text, _, terminated, truncated, info = env.step("help")
    assert (terminated, truncated, info["end"]) == (False, True, "time_limit")
    assert env.step("report") == (OVER, 0.0, False, True, info)
