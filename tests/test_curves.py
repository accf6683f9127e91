"""Learning curves: steps on one grid, their bands, and what is read off them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from verified_samples import sample

from ftw_agents.results import wilson_interval
from leaderboards.curves import AXES, Reached, area, line, lines, reached
from leaderboards.schema import CurveRow

RUN = sample(rates=(0.5,)).runs[0]


def run_of(seed, points, n=100, **about):
    """A run whose curve has these (episodes, solved)."""
    rows = [
        CurveRow(episodes=x, env_steps=7 * x, tokens=10 * x, wall_seconds=x / 2, solved=y, n=n)
        for x, y in points
    ]
    rows = [row.model_copy(update=about) for row in rows]
    return RUN.model_copy(update={"run": seed, "curve": rows})


def test_steps_hold_until_the_next_examination_and_after_the_last():
    found = line([run_of(1, [(0, 10), (100, 40)]), run_of(2, [(0, 20), (50, 30)])], "episodes")
    assert found.x == [0, 50, 100]
    assert found.runs == [(1, [0.1, 0.1, 0.4]), (2, [0.2, 0.3, 0.3])]
    assert found.mean == pytest.approx([0.15, 0.2, 0.35])


def test_the_grid_starts_where_all_runs_were_examined():
    found = line([run_of(1, [(10, 10), (30, 40)]), run_of(2, [(20, 20)])], "episodes")
    assert found.x == [20, 30]


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    long = run_of(1, [(x, min(100, x // 10)) for x in range(0, 5000, 3)])
    found = line([long], "episodes")
    assert len(found.x) <= 200
    assert (found.x[0], found.x[-1]) == (0, 4998)
    assert found.mean == [min(100, x // 10) / 100 for x in found.x]


def test_the_band_is_of_seeds_where_there_are_enough():
    solved = [10, 40, 80]
    found = line([run_of(i, [(0, 0), (9, y)]) for i, y in enumerate(solved)], "episodes")
    t = stats.ttest_1samp([y / 100 for y in solved], 0).confidence_interval()
    mean, low, high = found.mean[1], found.low[1], found.high[1]
    assert 0 <= low < mean < high <= 1
    assert high - low > 0.8 * (min(1, t.high) - max(0, t.low))
    # Nothing solved by any of 300 attempts at 100 instances: little is known to be 0.
    assert (found.low[0], 0.003 < found.high[0] < 0.06) == (0, True)


def test_the_band_of_one_run_is_of_instances():
    found = line([run_of(1, [(0, 37)])], "episodes")
    assert (found.low[0], found.high[0]) == pytest.approx(wilson_interval(37, 100))


def test_there_is_a_line_for_each_axis_that_all_examinations_tell():
    runs = [run_of(1, [(0, 10), (50, 20)]), run_of(2, [(0, 10), (50, 20)])]
    assert tuple(lines(runs)) == AXES
    assert lines(runs)["wall_seconds"].x == [0.0, 25.0]
    silent = [runs[0], run_of(2, [(0, 10), (50, 20)], env_steps=None)]
    assert set(lines(silent)) == set(AXES) - {"env_steps"}
    assert lines([runs[0], run_of(2, [])]) == {}


points = st.lists(st.integers(0, 100), min_size=1, max_size=8)
several = st.lists(points, min_size=1, max_size=5)


@given(several, st.integers(1, 10**6))
@settings(deadline=None)
def test_a_shifted_curve_is_the_same_but_for_its_place(curves, shift):
    def runs(start):
        return [
            run_of(i, [(start + 10 * k, y) for k, y in enumerate(curve)])
            for i, curve in enumerate(curves)
        ]

    here, there = line(runs(0), "episodes"), line(runs(shift), "episodes")
    assert there.x == [x + shift for x in here.x]
    assert (there.mean, there.low, there.high) == (here.mean, here.low, here.high)
    for level, found in reached(runs(0), "episodes").items():
        later = reached(runs(shift), "episodes")[level]
        assert later.at == (None if found.at is None else found.at + shift)
        assert (later.reached, later.budget) == (found.reached, found.budget + shift)


@given(several)
@settings(deadline=None)
def test_what_was_reached_by_half_of_the_runs(curves):
    runs = [run_of(i, list(enumerate(curve))) for i, curve in enumerate(curves)]
    for level, found in reached(runs, "episodes").items():
        firsts = [next((x for x, y in enumerate(c) if y >= level), None) for c in curves]
        by = [x for x in range(9) if 2 * sum(f is not None and f <= x for f in firsts) >= len(runs)]
        assert found.at == (by[0] if by else None)
        assert found.reached == sum(f is not None for f in firsts)
        assert found.runs == len(runs)
        assert found.budget == max(map(len, curves)) - 1


def test_what_was_never_reached_is_more_than_the_budget_and_not_left_out():
    runs = [run_of(i, [(0, 0), (10 * i + 10, y)]) for i, y in enumerate((60, 30, 20))]
    assert reached(runs, "episodes")[50] == Reached(at=None, reached=1, runs=3, budget=30)
    assert reached(runs[:2], "tokens")[50] == Reached(at=100, reached=1, runs=2, budget=200)
    assert reached(runs, "episodes")[80].reached == 0


def test_a_level_is_reached_exactly_at_it():
    assert reached([run_of(1, [(0, 49), (5, 50)])], "episodes")[50].at == 5
    # 0.8 times 5 is a little more than 4 in floating point.
    assert reached([run_of(1, [(0, 3), (5, 4)], n=5)], "episodes")[80].at == 5


def test_nothing_is_told_of_what_was_not_trained():
    runs = [run_of(0, [])]
    assert (reached(runs, "episodes"), lines(runs), area(runs)) == ({}, {}, None)


def test_what_plays_nothing_has_no_curve_over_play():
    """Imitation takes time, and neither episodes nor tokens of its own."""
    rows = [
        CurveRow(episodes=0, env_steps=0, tokens=0, wall_seconds=t, solved=y, n=100)
        for t, y in ((0, 20), (9, 60))
    ]
    runs = [RUN.model_copy(update={"run": i, "curve": rows}) for i in range(3)]
    assert (reached(runs, "episodes"), reached(runs, "tokens"), area(runs)) == ({}, {}, None)
    assert list(lines(runs)) == ["wall_seconds"]


def test_the_area_is_the_mean_over_training():
    assert area([run_of(1, [(0, 20), (30, 60), (40, 90)])]) == pytest.approx(0.3)
    assert area([run_of(1, [(0, 20)])]) is None
