"""The noise meter: parts of a variance that are known, and what follows from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import hypot
from pathlib import Path

import numpy as np
import pytest

from ftw_agents.agent import Agent, History, Reply
from ftw_agents.cli import main
from ftw_agents.collect import Collector
from ftw_agents.evaluate import Player
from ftw_agents.lm.sampler import LMAgent
from ftw_agents.noise import (
    Estimate,
    NoiseReport,
    Parts,
    measure_noise,
    rescore,
    split_variance,
    suggest,
)
from ftw_agents.noise_command import verdict
from ftw_agents.scripted.greedy import GreedyAgent
from ftw_agents.scripted.idle import IdleAgent
from ftw_agents.scripted.random import RandomAgent
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import Start
from ftw_envs.bandit.machines import MachinesEnv
from ftw_envs.registry import make

TRAP = "ftw/SigmaTrap-v0"
MINI = "ftw/SokobanMini-v0"


class TrapAgent:
    """Always the square machine, which is the trap where there is one."""

    def act(self, histories: Sequence[History]) -> list[Reply]:
        return [Reply(self._trap(h.env)) for h in histories]

    def _trap(self, env: object) -> str:
        assert isinstance(env, MachinesEnv)
        return env.names[env.kinds.index("square")]


def measure(agent: Agent, env_id: str, *, size: int = 24, seed: int = 0, **view) -> NoiseReport:
    player = Player(agent, {"name": "test", "kind": "other"})
    sizes = {"instances": size, "attempts": 4, "replays": 6}
    return measure_noise(player, env_id, view, split="valid", seed=seed, **sizes)


def _normal_scores(rng: np.random.Generator, shape: tuple[int, int, int], *stds: float):
    """Scores with standard deviations of instance, player and noise part."""
    i, a, r = shape
    instance, player, noise = stds
    return (
        rng.normal(0, instance, (i, 1, 1))
        + rng.normal(0, player, (i, a, 1))
        + rng.normal(5, noise, (i, a, r))
    )


def _values(parts: Parts) -> list[float]:
    return [parts.noise.value, parts.player.value, parts.instance.value]


# Estimates


def test_parts_are_those_of_the_table_of_mean_squares() -> None:
    y = _normal_scores(np.random.default_rng(0), (7, 4, 3), 1.0, 2.0, 3.0)
    n, a, r = y.shape
    cell, row = y.mean(axis=2), y.mean(axis=(1, 2))
    ms_noise = ((y - cell[:, :, None]) ** 2).sum() / (n * a * (r - 1))
    ms_player = r * ((cell - row[:, None]) ** 2).sum() / (n * (a - 1))
    ms_instance = a * r * ((row - y.mean()) ** 2).sum() / (n - 1)
    want = [ms_noise, (ms_player - ms_noise) / r, (ms_instance - ms_player) / (a * r)]
    assert _values(split_variance(y)) == pytest.approx(want)


@pytest.mark.parametrize("stds", [(1.0, 0.5, 2.0), (0.0, 0.0, 1.0), (2.0, 1.0, 0.0)])
def test_known_parts_are_recovered(stds: tuple[float, float, float]) -> None:
    y = _normal_scores(np.random.default_rng(1), (4_000, 3, 3), *stds)
    want = [stds[2] ** 2, stds[1] ** 2, stds[0] ** 2]
    assert _values(split_variance(y)) == pytest.approx(want, abs=0.05 * sum(want))


def test_estimates_are_unbiased_in_small_samples_with_uneven_noise() -> None:
    """Mean over 600 tiny samples, within five standard errors; half the attempts are noisy."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(600):
        noisy = rng.integers(2, size=(4, 2, 1))
        y = _normal_scores(rng, (4, 2, 2), 0.7, 0.5, 0.0) + rng.normal(0, 2, (4, 2, 2)) * noisy
        found.append(_values(split_variance(y, resamples=1)))
    off = np.mean(found, axis=0) - [2.0, 0.25, 0.49]
    assert (np.abs(off) < 5 * np.std(found, axis=0) / np.sqrt(600)).all()


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng, held = np.random.default_rng(3), np.zeros(3)
    for _ in range(100):
        y = _normal_scores(rng, (60, 3, 3), 1.0, 1.0, 1.0)
        parts = split_variance(y, resamples=300)
        held += [p.low <= 1 <= p.high for p in (parts.noise, parts.player, parts.instance)]
    assert (held >= 85).all()
    assert held.sum() < 300


def test_share_of_luck() -> None:
    y = _normal_scores(np.random.default_rng(4), (3000, 4, 4), 2.0, 1.0, 1.0)
    parts = split_variance(y)
    assert parts.luck is not None
    assert parts.luck_within is not None
    assert parts.luck.value == pytest.approx(1 / 6, abs=0.01)
    assert parts.luck_within.value == pytest.approx(1 / 2, abs=0.02)
    assert parts.luck.low < 1 / 6 < parts.luck.high


def test_a_constant_added_changes_nothing_and_the_seed_names_the_interval() -> None:
    y = _normal_scores(np.random.default_rng(5), (9, 3, 2), 1.0, 1.0, 1.0)
    assert split_variance(y, 1) == split_variance(y, 1)
    assert split_variance(y, 1).noise.low != split_variance(y, 2).noise.low
    assert _values(split_variance(y + 100)) == pytest.approx(_values(split_variance(y)))


def test_equal_scores_have_no_variance_at_all() -> None:
    """Not even rounding: 0.1 is no binary fraction."""
    parts = split_variance(np.full((5, 3, 7), 0.1))
    assert _values(parts) == [0, 0, 0]
    assert parts.luck is parts.luck_within is None
    tenths = np.arange(15.0).reshape(5, 3, 1) / 10
    assert split_variance(np.broadcast_to(tenths, (5, 3, 7))).noise == Estimate(0, 0, 0)


@pytest.mark.parametrize(
    ("scores", "why"),
    [
        (np.zeros((1, 2, 2)), "each at least 2, got shape"),
        (np.zeros((2, 2, 1)), "each at least 2, got shape"),
        (np.zeros((4, 4)), "each at least 2, got shape"),
        (np.full((2, 2, 2), np.nan), "finite"),
    ],
)
def test_scores_that_cannot_be_split_are_refused(scores: np.ndarray, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        split_variance(scores)


# What is suggested


def _parts(noise: float, player: float, instance: float) -> Parts:
    values = (Estimate(x, x, x) for x in (noise, player, instance))
    some = Estimate(0.5, 0.5, 0.5)
    return Parts(*values, some, some)


def test_clean_scores_get_the_strong_filter_of_the_paper() -> None:
    s = suggest(_parts(0, 0.02, 0.1))
    assert (s.name, s.risk, s.premium, s.kept_pull) == ("FTW-K1-C4", "seeking", 0, 1)
    assert "no winner is a false one" in s.reason


def test_heavy_noise_gets_a_filter_that_shuns_risk() -> None:
    s = suggest(_parts(100**2, 0.5, 0))
    assert (s.candidates, s.winners, s.risk) == (8, 6, "averse")
    assert s.premium == pytest.approx(-60, abs=1)  # 0.6 of the noise
    assert s.kept_pull >= 0.5
    assert "noise of 100 and 1 between two attempts" in s.reason
    assert suggest(_parts(4.0, -0.1, -0.1)).risk == "averse"  # no difference was found


def test_a_neutral_filter_has_no_price() -> None:
    s = suggest(_parts(1.0, 0.245, 0.0))
    assert (s.name, s.risk, s.premium) == ("FTW-K4-C8", "neutral", 0)
    report = NoiseReport({}, 0.0, 0.25, _parts(1.0, 0.245, 0.0), s)
    told = verdict(report)
    assert "suggested: FTW-K4-C8: 0.39 nats" in told
    assert "Its price" not in told
    assert "In 25.0% of the replays the episode went on" in told


def test_suggestion_does_not_depend_on_the_unit_of_the_score() -> None:
    small, large = suggest(_parts(1, 0.5, 0.3)), suggest(_parts(100, 50, 30))
    assert large.name == small.name
    assert large.premium == pytest.approx(10 * small.premium)
    assert small.risk != "averse" or small.premium < 0


# Measurements


@pytest.mark.parametrize("sigma", [0.5, 3.0])
@pytest.mark.parametrize("env_id", [TRAP, "ftw/SigmaTrapContext-v0"])
def test_sigma_of_the_trap_is_recovered(sigma: float, env_id: str) -> None:
    trapped = measure(TrapAgent(), env_id, sigma=sigma)
    assert trapped.parts.noise.value == pytest.approx(sigma**2, rel=0.2)
    good = measure(SolverAgent(), env_id, sigma=sigma)
    assert good.parts.noise.value == pytest.approx(0.1**2, rel=0.2)
    # Half good, half trap: the noise is the mean of both, the means differ by 1.
    both = measure(RandomAgent(), env_id, size=200, sigma=sigma).parts
    assert both.noise.value == pytest.approx((sigma**2 + 0.1**2) / 2, rel=0.2)
    assert both.player.value == pytest.approx(0.25, abs=0.03 + sigma**2 / 40)
    assert both.instance.value == pytest.approx(0, abs=0.03 + sigma**2 / 40)


def test_noise_of_a_chain_is_the_sum_over_its_decisions() -> None:
    found = measure(TrapAgent(), "ftw/SigmaTrapChain-v0", sigma=2.0).parts.noise
    assert found.value == pytest.approx(hypot(2.0, 0.1, 0.1, 0.1, 0.1) ** 2, rel=0.2)


def test_sokoban_has_no_noise_and_replays_score_what_was_played() -> None:
    report = measure(GreedyAgent(), MINI, max_steps=8)
    assert report.parts.noise == Estimate(0, 0, 0)
    assert report.parts.luck == Estimate(0, 0, 0)
    assert report.suggestion.name == "FTW-K1-C4"
    assert report.ran_out == 0
    starts = [Start("valid", i, 0) for i in range(24)]
    solved = [e.score for e in Collector(MINI, {"max_steps": 8}).play(GreedyAgent(), starts)]
    assert 0 < np.mean(solved) < 1
    assert report.mean_score == pytest.approx(np.mean(solved))


def test_dice_of_the_player_are_not_noise() -> None:
    """Random play solves some levels now and then; all of that is the player's part."""
    report = measure(RandomAgent(), MINI, size=60)
    assert report.parts.noise.value == 0
    assert report.parts.player.value > 0


def test_a_player_that_never_scores_is_told_so() -> None:
    report = measure(IdleAgent(), MINI, size=3)
    assert report.parts.luck is None
    assert "all scores are equal" in report.suggestion.reason


def test_replies_that_run_out_are_followed_by_silence() -> None:
    env, start = make(TRAP), Start("valid", 5, 0)
    name = env.reset(options={"split": "valid", "index": 5}) and env.grammar.actions[0]
    assert rescore(env, start, [], 7) == (0.0, True)
    assert env.steps == env.max_steps
    score, short = rescore(env, start, ["what?", name], 7)
    assert not short
    assert rescore(env, start, [name], 7) == (score, False)
    assert rescore(env, start, [name], 8)[0] != score


def test_a_language_model_is_measured_by_seed(lm) -> None:
    view = {"sigma": 2.0}
    first, again = (measure(LMAgent(lm), TRAP, size=6, **view) for _ in range(2))
    assert first == again
    assert measure(LMAgent(lm), TRAP, size=6, seed=1, **view) != first
    assert measure(LMAgent(lm), MINI, size=6, obs="coords").parts.noise.value == 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"attempts": 1}, "attempts must be at least 2"),
        ({"replays": 1}, "replays must be at least 2"),
        ({"instances": 1}, "instances must be from 2 to 1000"),
        ({"instances": 1001}, "instances must be from 2 to 1000"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_sizes_that_cannot_work_are_refused(change: dict[str, int], why: str) -> None:
    sizes = {"instances": 4, "attempts": 2, "replays": 2, "seed": 0, **change}
    with pytest.raises(ValueError, match=why):
        measure_noise(Player(RandomAgent(), {}), MINI, {}, split="valid", **sizes)


# The command


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "noise.json"
    args = ["noise", "--agent", "random", "--env", TRAP, "--split", "train"]
    args += ["--env-args", "sigma=8"]
    sizes = ["--instances", "40", "--attempts", "3", "--replays", "20"]
    main([*args, *sizes, "--out", str(out)])
    shown = " ".join(capsys.readouterr().out.split())
    data = json.loads(out.read_text("utf-8"))
    assert data["about"]["agent"] == {"name": "random", "kind": "scripted"}
    assert data["about"]["env_kwargs"] == {"sigma": 8}
    assert [data["about"][x] for x in ("split", "instances", "attempts", "replays")] == [
        "train", 40, 3, 20,
    ]  # fmt: skip
    noise, filtered = data["parts"]["noise"], data["suggestion"]
    assert noise["low"] < 32 < noise["high"]
    assert data["parts"]["luck"]["value"] > 0.8
    assert filtered["risk"] == "averse"
    assert f"suggested: {filtered['name']}: " in shown
    assert "noise: same replies, other seed" in shown
    assert f"only if its mean is {-filtered['premium']:.3g} higher" in shown
    with pytest.raises(SystemExit):
        main([*args, "--out", str(out)])
    assert "noise.json exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--attempts", "1"], "attempts must be at least 2"),
        (["--instances", "2000"], "instances must be from 2 to 1000 (instances in 'valid')"),
        (["--env", "ftw/A-v0"], "unknown environment"),
    ],
)
def test_command_errors_are_one_line(
    more: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "noise.json"
    with pytest.raises(SystemExit) as stop:
        main(["noise", "--agent", "random", "--out", str(out), *more])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1
    assert not out.exists()
