"""Nothing but the evidence tells the answer of an incident."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Callable, Generator
from functools import lru_cache, partial

import numpy as np
import pytest
from incidents import attempt, begin, incident, solve_rate

from ftw_agents.scripted.case import Case
from ftw_agents.scripted.investigators import constant, expert, greedy, loud
from ftw_envs.incident.families import FAMILIES, HELD_OUT
from ftw_envs.incident.generate import draw, fingerprint
from ftw_envs.incident.instance import truth
from ftw_envs.incident.levels import LEVELS, SPLITS
from ftw_envs.incident.log import SLOT_BIT
from ftw_envs.incident.names import names
from ftw_envs.incident.score import is_solved, report_of
from ftw_envs.incident.techniques import CAUSE_OF
from ftw_envs.incident.world import World
from ftw_envs.streams import Stream

levels = pytest.mark.parametrize("level", range(len(LEVELS)))
Play = Generator[str, str, None]


# Shortcuts: players who pick by a rule from what the alerted host shows, wherever it leads


def by_rule(pick: Callable[[list[tuple[str, int]]], str], first: str) -> Play:
    """Walks back from the alerted host, at each step to the place that `pick` likes."""
    case = Case(first)

    def ask(query: str, kind: str = "") -> Generator[str, str, str | None]:
        reply = case.body((yield f"count {query}"))
        found = [(v, int(n)) for v, n in (x.split(":") for x in reply.split() if ":" in x)]
        found = [(v, n) for v, n in found if v not in case.path and v.startswith(kind)]
        return pick(found) if found else None

    host = case.alert_host
    case.c2 = yield from ask(f"net by=dst host={host} act=large")
    case.path = [host]
    for _ in range(1 if len(case.slots) == 3 else 2):
        user = yield from ask(f"auth by=user host={case.path[0]} act=accept")
        place = yield from ask(f"auth by=src host={case.path[0]} act=accept", "h")
        if user and user not in case.accounts:
            case.accounts.append(user)
        if place:
            case.path.insert(0, place)
    case.entry, case.vector = case.path[0], "web-rce"
    if "persist" in case.slots:
        case.persist = "cron"
    yield from case.file(CAUSE_OF)


RULES: dict[str, Callable[[list[tuple[str, int]]], str]] = {
    "most frequent": lambda found: found[0][0],
    "rarest": lambda found: found[-1][0],
    "first by name": lambda found: min(v for v, _ in found),
    "last by name": lambda found: max(v for v, _ in found),
}


ATTEMPTS = {0: 400, 1: 150, 2: 80}


@lru_cache
def by_chance(level: int) -> float:
    """How often the same walk solves with each choice thrown by dice."""
    dice = Stream("test-shortcuts", level)
    script = partial(by_rule, lambda found: dice.choice(found)[0])
    return solve_rate(incident(level), script, range(ATTEMPTS[level]))


@pytest.mark.parametrize("level", ATTEMPTS)
@pytest.mark.parametrize("rule", [*RULES, "greedy"])
def test_shortcuts_do_no_better_than_chance(level: int, rule: str) -> None:
    """By no more than 2 %, and two standard errors of the difference."""
    n, chance = ATTEMPTS[level], by_chance(level)
    script = greedy if rule == "greedy" else partial(by_rule, RULES[rule])
    rate = solve_rate(incident(level), script, range(n))
    error = (2 * chance * (1 - chance) / n) ** 0.5
    assert rate <= chance + 0.02 + 2 * error


def report_right_most_often(level: int) -> dict[str, dict[str, str]]:
    """The whole report that is right most often on train, and each slot's best value together."""
    slots = LEVELS[level].slots
    reports = [report_of(truth(draw(level, "train", i)), slots).split() for i in range(200)]
    whole = Counter(map(tuple, reports)).most_common(1)[0][0]
    each = {s: Counter(p for r in reports for p in r if p.startswith(f"{s}=")) for s in slots}
    by_slot = [count.most_common(1)[0][0] for count in each.values()]
    boards = {"whole": whole, "by slot": by_slot, "none": ["verdict=none"]}
    return {k: dict(x.split("=", 1) for x in parts) for k, parts in boards.items()}


@levels
def test_best_constant_report_solves_next_to_nothing(level: int) -> None:
    """Even if the attacker were out by itself; but for saying "none", which false alerts need."""
    n, false = 300 if level == 0 else 120, LEVELS[level].no_incident
    boards = report_right_most_often(level)
    for split in SPLITS[1:]:
        cases = [draw(level, split, i) for i in range(n)]
        for name, board in boards.items():
            rate = sum(is_solved(board, case, True, 0) for case in cases) / n
            if board == {"verdict": "none"}:
                assert rate <= false + 0.1
            else:  # on level 0, of 3 hosts, 4 accounts and 8 addresses, chance is 1 in 96
                assert rate < (0.03 if level == 0 else 0.01), (name, split)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_no_single_reply_tells_more_than_two_slots(level: int) -> None:
    """What can be asked of the alerted host at once; the entry is seldom in reach from there."""
    env = incident(level)
    asked = {"entry", "accounts", "vector", "c2", "persist"} & set(env.level.slots)
    for i in range(20):
        begin(env, i, i)
        attack, host = env.incident.attack, f"h{env.incident.alert_host + 1}"
        if attack is None or env.incident.alert_host == attack.path[1]:
            continue  # then the entry is next to it
        for command in [c for c in env.grammar.actions if f"host={host}" in c]:
            begin(env, i, i)
            env.step(command + (" n=50" if command.startswith("search") else ""))
            told = {s for s in asked if env.desk.shown & SLOT_BIT[s]}
            assert len(told) <= 2, (command, told)


@levels
def test_handles_are_dealt_anew(level: int) -> None:
    """Which host is the entry is as good as uniform over instances."""
    env = incident(level)
    counts: Counter[int] = Counter()
    n = 200
    for i in range(n):
        attack = draw(level, "train", i).attack
        if attack is not None:
            counts[attack.path[0]] += 1
    hosts, n = env.level.hosts, sum(counts.values())
    squares = sum((counts[h] - n / hosts) ** 2 / (n / hosts) for h in range(hosts))
    assert squares < hosts + 5 * (2 * hosts) ** 0.5  # chi-squared, five deviations


# The benign twin


@levels
def test_benign_twin_is_silent(level: int) -> None:
    """The same noise without an attack: all other rows are equal, and none is evidence."""
    for i in range(10):
        case = draw(level, "test", i)
        world = World(case, 7)
        twin = World(case, 7, attacked=False)
        assert not twin.log.evidence.any()
        assert (world.log.table[:, world.log.evidence == 0] == twin.log.table).all()
        for _ in range(8):
            twin.advance(3600)
        assert twin.stance == "quiet"
        assert not twin.story
        assert twin.out()


@pytest.mark.parametrize("level", [0, 1, 2])
def test_expert_finds_nothing_in_the_twin(level: int) -> None:
    """Where nobody came in, an investigation by the book names nobody."""
    env = incident(level, freeze=True)
    named = 0
    for i in range(20):
        text, _ = begin(env, i)
        env.world = env.desk.world = World(env.incident, 7, frozen=True, attacked=False)
        play = expert(text)
        command = next(play)
        while not command.startswith(("set", "report")):
            command = play.send(env.step(command)[0])
        named += bool(re.search("c2=x|accounts=u[0-9]", command))
    assert named <= 2


# Hidden things stay hidden


@levels
def test_nothing_reachable_tells_the_truth_before_the_end(level: int) -> None:
    env = incident(level)
    for i in range(5):
        _, info = begin(env, i, i)
        hidden = ("truth", "slots", "partial", "grounded", "attacker_out", "tipped_off", "lucky")
        dice = Stream("test", level, i)
        for _ in range(10):
            assert all(info[key] is None for key in hidden)
            with pytest.raises(ValueError, match="after the end"):
                env.timeline()
            kept = pickle.dumps(env)
            assert b"Attack" not in kept
            assert b"World" not in kept
            words = [w for w in env.grammar.actions if not w.startswith(("set", "report"))]
            *_, info = env.step(dice.choice(words))
        *_, info = env.step("report")
        assert info["truth"] == truth(env.incident)
        assert env.timeline() is not None


@levels
def test_info_has_more_than_one_value_in_each_field(level: int) -> None:
    """A field that never changes tells an agent nothing, or is broken."""
    env = incident(level)
    seen: dict[str, set[str]] = {}
    alerts = set()
    for i in range(60):
        text, _ = begin(env, i, i)
        alerts.add(text.split(".")[0].replace(f"h{env.incident.alert_host + 1}", ""))
        info, _ = attempt(env, (expert, loud, constant)[i % 3], i, i)
        for key, value in info.items():
            seen.setdefault(key, set()).add(repr(value))
    constant_here = {"env_version", "invalid_actions", "lucky"}
    if level == 0:  # nobody notices anything
        constant_here |= {"tipped_off"}
    if level < 3:  # there is nothing that could put him out
        constant_here |= {"cost", "attacker_out"}
    single = {key for key, values in seen.items() if len(values) < 2}
    assert single <= constant_here
    assert len(alerts) >= (1 if level == 0 else 2)


# Splits


@levels
def test_no_two_splits_share_an_instance(level: int) -> None:
    found: dict[str, str] = {}
    for split in SPLITS:
        for i in range(60):
            print_ = fingerprint(draw(level, split, i))
            assert found.setdefault(print_, split) == split
    assert len(found) >= 60 * len(SPLITS) - (60 if level == 0 else 5)


def test_splits_differ_in_what_they_are_named_for() -> None:
    def some(split: str) -> list:
        return [draw(3, split, i) for i in range(60)]

    assert not {*names("test")[0], *names("test")[1]} & {*names("test_names")[0],
                                                         *names("test_names")[1]}  # fmt: skip
    assert {h.name for x in some("test_names") for h in x.hosts} <= set(names("test_names")[0])
    assert {len(x.hosts) for x in some("test_topo")} == {24}
    assert max(len(x.attack.path) for x in some("test_topo") if x.attack) == 6
    families = {s: {x.attack.family.name for x in some(s) if x.attack} for s in SPLITS}
    assert families["test_family"] == set(HELD_OUT)
    assert families["train"] == {f.name for f in FAMILIES} - set(HELD_OUT)
    late = {
        split: np.mean([
            (w := World(draw(2, split, i), i)).log._arrives.mean() - w.log.t.mean()
            for i in range(20)
        ])
        for split in ("test", "test_drift")
    }  # fmt: skip
    assert late["test_drift"] > 1.5 * late["test"]


def test_false_alerts_occur_from_level_2_on() -> None:
    for level in range(5):
        share = np.mean([draw(level, "train", i).attack is None for i in range(200)])
        assert (share == 0) if level < 2 else (0.05 < share < 0.2)
