"""Bandits: payouts, splits, what the text tells and what it does not, scripted players."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from hashlib import sha256
from math import sqrt

import numpy as np
import pytest

from ftw_agents.agent import Agent, History
from ftw_agents.scripted.bandit import expected, greedy_bandit, plan_bandit
from ftw_agents.scripted.constant import ConstantAgent
from ftw_agents.scripted.idle import IdleAgent
from ftw_agents.scripted.random import RandomAgent
from ftw_envs.bandit.chain import SigmaTrapChainEnv
from ftw_envs.bandit.context import ASPECTS, HINTS, SigmaTrapContextEnv
from ftw_envs.bandit.machines import KINDS, NAMES, MachinesEnv, name_pairs
from ftw_envs.bandit.sigma_trap import SigmaTrapEnv
from ftw_envs.episode import SPLITS
from ftw_envs.streams import Stream

CLASSES: list[type[MachinesEnv]] = [SigmaTrapEnv, SigmaTrapChainEnv, SigmaTrapContextEnv]
classes = pytest.mark.parametrize("make", CLASSES)
Player = Callable[[MachinesEnv, History], str]


def start(env: MachinesEnv, index: int, seed: int = 0, split: str = "test") -> str:
    text, _ = env.reset(seed=seed, options={"split": split, "index": index})
    assert isinstance(text, str)
    return text


def play(env: MachinesEnv, player: Player, index: int, split: str = "test") -> tuple[bool, float]:
    """One attempt to its end: whether it was solved, and its score."""
    history = History([start(env, index, index, split)], Stream("test", index), env)
    while True:
        text, _, terminated, truncated, info = env.step(player(env, history))
        assert text in env.observation_space
        history.observations.append(text)
        if terminated or truncated:
            return info["solved"], info["score"]


def by(agent: Agent) -> Player:
    return lambda env, history: agent.act([history])[0].text


def round_by_text(env: MachinesEnv, history: History) -> str:
    """Reads the name of the round machine in what was said last."""
    found = re.search(r"[Tt]he round one is (\w+)\.", history.observations[-1])
    assert found
    return found[1]


def hinted_by_text(env: MachinesEnv, history: History) -> str:
    """Reads the descriptions, finds whom the sentence speaks of, and takes its advice."""
    text = history.observations[-1]
    looks = {
        name: re.split(", | and ", said)
        for name, said in re.findall(r"Machine (\w+) is ([^.]+)\.", text)
    }
    found = re.search(r"\bthe (\w+) one\b([^.]*)", text)
    assert found
    word = found[1]
    meant = {word, word[:-1], word[:-2], word[:-3] + "y"}  # larger, taller, heavier
    (named,) = (name for name, said in looks.items() if meant & set(said))
    (other,) = looks.keys() - {named}
    advice = {w in text for w in ("more", "better one", "pays well", "Keep")}
    return named if True in advice else other


READERS: dict[type[MachinesEnv], Player] = {
    SigmaTrapEnv: round_by_text,
    SigmaTrapChainEnv: round_by_text,
    SigmaTrapContextEnv: hinted_by_text,
}
PLAYERS: dict[str, tuple[str, Player]] = {
    "solver": ("optimal", lambda env, history: plan_bandit(env)[0]),
    "trapped": ("trapped", lambda env, history: env.names[env.kinds.index(KINDS[1])]),
    "first": ("constant", by(ConstantAgent(0))),
    "second": ("constant", by(ConstantAgent(1))),
    "random": ("random", by(RandomAgent())),
    "greedy": ("greedy", lambda env, history: greedy_bandit(env)),
    "idle": ("idle", by(IdleAgent())),
}


@classes
def test_text_tells_the_good_machine(make: type[MachinesEnv]) -> None:
    env = make()
    for split, n in (("train", 300), ("valid", 300), ("test", 1000)):
        assert all(play(env, READERS[make], i, split)[0] for i in range(n))


@classes
@pytest.mark.parametrize("player", list(PLAYERS))
def test_players_do_what_the_closed_form_says(make: type[MachinesEnv], player: str) -> None:
    env, n = make(), 1000
    name, act = PLAYERS[player]
    solved, scores = zip(*(play(env, act, i) for i in range(n)), strict=True)
    rate, score = expected(env, name)
    assert abs(np.mean(solved) - rate) <= 4 * sqrt(rate * (1 - rate) / n)
    assert np.mean(scores) == pytest.approx(score, abs=1e-12 + 4 * np.std(scores) / sqrt(n))


def test_closed_form_by_hand() -> None:
    env = SigmaTrapChainEnv(decisions=3, gain=0.5, good_mean=2.0, trap_mean=-1.0)
    assert expected(env, "optimal") == (1, 6)
    assert expected(env, "trapped") == (0, 1.5 + 1.5 - 1)
    assert expected(env, "constant") == (0.125, 4)
    assert expected(SigmaTrapEnv(sigma=0, good_sigma=0), "greedy") == (1, 1)
    # P[N(1, 0.1) > N(0, 4)] = Phi(1 / sqrt(16.01))
    assert expected(SigmaTrapEnv(), "greedy").score == pytest.approx(0.59867, abs=1e-5)
    with pytest.raises(ValueError, match="player must be one of optimal"):
        expected(env, "lucky")
    with pytest.raises(ValueError, match="position must be 0 or 1"):
        ConstantAgent(2)


@pytest.mark.parametrize("make", [SigmaTrapEnv, SigmaTrapContextEnv])
def test_payouts_are_as_said(make: type[MachinesEnv]) -> None:
    env = make(sigma=4.0)
    paid: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for seed in range(4000):
        env.reset(seed=seed)
        for kind in KINDS:
            paid[kind].append(env.payout(kind))
    assert np.mean(paid["round"]) == pytest.approx(1, abs=0.01)
    assert np.std(paid["round"]) == pytest.approx(0.1, rel=0.05)
    assert np.mean(paid["square"]) == pytest.approx(0, abs=0.25)
    assert np.std(paid["square"]) == pytest.approx(4, rel=0.05)
    assert abs(np.corrcoef(paid["round"], paid["square"])[0, 1]) < 0.07


@pytest.mark.parametrize("make", [SigmaTrapEnv, SigmaTrapContextEnv])
def test_noise_is_of_the_attempt_not_the_instance(make: type[MachinesEnv]) -> None:
    env = make()
    text = start(env, 4, seed=1)
    first = env.step(env.good_name())
    assert first[4]["solved"]
    assert first[2]
    assert start(env, 4, seed=2) == text
    assert env.step(env.good_name())[1] != first[1]
    start(env, 4, seed=1)
    env.step("none of them")  # a wasted reply does not change what the arm pays
    assert env.step(env.good_name())[1] == first[1]
    start(env, 5, seed=1)
    assert env.step(env.good_name())[1] == first[1]
    start(env, 4, seed=1)
    other = next(n for n in env.names if n != env.good_name())
    assert env.step(other)[4]["end"] == "failed"


def test_pairs_stay_in_one_split() -> None:
    pairs = {s: {frozenset(p) for p in x} for s, x in name_pairs().items()}
    assert sum(map(len, pairs.values())) == 64 * 63 // 2
    assert not pairs["train"] & pairs["test"]
    assert not pairs["train"] & pairs["valid"]
    assert not pairs["valid"] & pairs["test"]


@classes
def test_instances_are_many_and_distinct(make: type[MachinesEnv]) -> None:
    env = make()
    counts = [env.instance_count(s) for s in SPLITS]
    assert min(counts) >= 1000
    assert make is SigmaTrapEnv or counts[0] >= 10_000
    seen: Counter[str] = Counter()
    for split, n in zip(SPLITS, counts, strict=True):
        for i in range(0, n, 1 + n // 2500):
            _, info = env.reset(seed=0, options={"split": split, "index": i})
            seen[info["instance"]["hash"]] += 1
    assert max(seen.values()) == 1


def test_one_instance_is_the_classical_bandit() -> None:
    env = SigmaTrapEnv(instances=1)
    assert [env.instance_count(s) for s in ("train", "valid", "test")] == [1, 1, 1]
    assert len({env.reset(seed=seed)[0] for seed in range(20)}) == 1
    assert SigmaTrapEnv(instances=10**9).instance_count("test") == SigmaTrapEnv().instance_count(
        "test"
    )
    with pytest.raises(ValueError, match="instances must be at least 1"):
        SigmaTrapEnv(instances=0)


def test_names_are_no_words_of_a_text() -> None:
    assert len(set(NAMES)) == len(NAMES) == 64
    for make in CLASSES:
        env = make()
        for i in range(0, 1000, 7):
            words = Counter(re.findall(r"[a-z]+", start(env, i)))
            # Once in the state and once in the answer form, or as an answer only.
            assert {n: words[n] for n in NAMES if words[n]} == dict.fromkeys(env.names, 2)


GOLDEN = {
    "SigmaTrapEnv": "cacf1336c0176512",
    "SigmaTrapChainEnv": "abf84c1921c1c60a",
    "SigmaTrapContextEnv": "a5a181b14ae8835a",
}


@classes
def test_golden_attempts(make: type[MachinesEnv]) -> None:
    """A change of texts, instances or payouts shows here; then the id needs a new version."""
    h, env = sha256(), make()
    for i in range(40):
        h.update(start(env, i, seed=i, split=SPLITS[i % 3]).encode())
        while not env._end:
            text, reward, *_ = env.step("?" if env.steps == 0 else env.names[i // 2 % 2])
            h.update(f"{text} {reward}".encode())
    assert h.hexdigest()[:16] == GOLDEN[make.__name__]


def test_the_index_tells_nothing() -> None:
    """Neither the parity of the index nor its neighbour's arm tells which machine is good."""
    for make in CLASSES:
        env = make()
        first = []
        for i in range(1000):
            env.reset(seed=0, options={"split": "train", "index": i})
            first.append(env.names.index(env.good_name()))
        for step in (1, 2):
            for offset in range(step):
                assert 0.42 < sum(first[offset::step]) / len(first[offset::step]) < 0.58


def test_context_is_not_given_away() -> None:
    """Neither place, nor a look, nor the machine that is spoken of tells the arm alone."""
    env, n = SigmaTrapContextEnv(), 4000
    good: dict[str, list[bool]] = defaultdict(list)
    sentences: Counter[str] = Counter()
    for i in range(n):
        start(env, i, split="train")
        for position, (name, looks) in enumerate(zip(env.names, env.looks, strict=True)):
            for sign in (f"place {position}", *looks):
                good[sign].append(name == env.good_name())
        sentences[re.sub(r"the \w+ one", "the {} one", env.hint, count=1)] += 1
    assert len(good) == 2 + sum(map(len, ASPECTS))
    for sign, values in good.items():
        assert len(values) > 400, sign
        assert abs(np.mean(values) - 0.5) < 4 * sqrt(0.25 / len(values)), sign
    assert sentences.keys() == {sentence for sentence, _ in HINTS}
    assert max(sentences.values()) - min(sentences.values()) <= len(HINTS)
    assert sum(speaks_of_good for _, speaks_of_good in HINTS) == len(HINTS) / 2


@classes
@pytest.mark.parametrize(
    ("kwargs", "why"),
    [
        ({"sigma": -1}, "sigma must be a finite number of at least 0"),
        ({"good_sigma": float("inf")}, "good_sigma must be a finite number of at least 0"),
        ({"good_mean": float("nan")}, "good_mean must be a finite number"),
        ({"trap_mean": 1.0}, r"good_mean must be above trap_mean \(1.0\), got 1.0"),
    ],
)
def test_bad_arms_are_refused(make: type[MachinesEnv], kwargs: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make(**kwargs)
