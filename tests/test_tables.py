"""Which entries are ranked, in which order, and what a table says of each."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verified_samples import HOSTILE_NAMES, decisions, sample, samples, write_samples

from leaderboards.boards import BOARDS
from leaderboards.schema import Decision, EntryError
from leaderboards.statistics import iqm_estimate, rate_estimate
from leaderboards.tables import TableError, compare, read_decisions, read_verified, tables


@pytest.fixture(scope="module")
def verified():
    return samples()


@pytest.fixture(scope="module")
def decided(verified):
    return {d.entry_id: d for d in decisions(verified)}


@pytest.fixture(scope="module")
def made(verified, decided):
    return tables(verified, decided)


@pytest.fixture(scope="module")
def mini(made):
    return made[0]


def row_of(table, name, state=None):
    found = [
        row
        for row in table.rows
        if row.verified.entry.method.name == name and state in (None, row.state)
    ]
    return found[0]


def test_there_is_a_table_for_each_board_and_version(made):
    names = [table.board.name for table in made]
    assert names == [name for name in BOARDS for _ in range(names.count(name))]
    assert [t.env_version for t in made if t.board.name == "sokoban-mini"][1] == "sokoban0-0000"
    for table in made:
        for row in table.rows:
            entry = row.verified.entry
            assert (entry.board, entry.env_version) == (table.board.name, table.env_version)
    assert sum(len(table.rows) for table in made) == len(samples())


def test_ranked_rows_come_first_and_the_best_of_them_at_the_top(mini):
    ranked = [row.ranked for row in mini.rows]
    assert ranked == sorted(ranked, reverse=True)
    values = [row.solve_rate.value for row in mini.rows if row.ranked]
    assert values == sorted(values, reverse=True)
    for row in mini.rows:
        assert [row.rank is None, row.group is None, row.place is None] == [not row.ranked] * 3
    assert [row.place for row in mini.rows if row.ranked] == list(range(1, len(values) + 1))


def test_references_are_ranked_as_all_others_and_marked(mini):
    references = {row.verified.entry.method.name: row for row in mini.rows if row.reference}
    assert set(references) == {"Base", "Random", "Idle", "Solver"}
    assert all(row.ranked for row in references.values())
    assert references["Solver"].rank == (1, 1)
    assert not any(row.provisional for row in references.values())


@pytest.mark.parametrize(
    ("name", "state", "reason"),
    [
        ("BC", "pending", "incomplete: 58 of 1000 instances"),
        ("RAFT", "retracted", "withdrawn by its submitter"),
        ("REINFORCE++", "invalid", f"played by another model {HOSTILE_NAMES[0]}"),
    ],
)
def test_what_is_not_ranked_stays_and_says_why(mini, name, state, reason):
    row = row_of(mini, name)
    assert (row.ranked, row.state, row.reason) == (False, state, reason)


def test_what_was_taken_back_stands_last(mini):
    assert [row.state in ("retracted", "invalid") for row in mini.rows[-3:]] == [False, True, True]


def test_too_few_seeds_are_shown_and_not_ranked(mini):
    row = row_of(mini, "PPO")
    assert (row.runs, row.provisional, row.ranked) == (2, True, False)
    assert (row.state, row.reason) == ("disputed", "tokens look too few")
    one = tables([sample(rates=(0.9,)), sample(name="Other", seed=9)], {})[0]
    assert [row.provisional for row in one.rows] == [False, True]
    assert one.rows[0].rank == (1, 1)


def test_a_decision_is_the_newest_and_without_one_an_entry_is_pending(tmp_path):
    entry = sample(name="Solver", family="scripted", rates=(1.0,))
    lines = [("2026-12-03", "disputed"), ("2026-12-05", "retracted"), ("2026-12-05", "accepted"),
             ("2026-12-04", "invalid")]  # fmt: skip
    told = [
        Decision(entry_id=entry.entry.entry_id, date=date, state=state, reason=state)
        for date, state in lines
    ]
    path = tmp_path / "decisions.jsonl"
    path.write_text("".join(json.dumps(d.model_dump()) + "\n" for d in told))
    decided = read_decisions(path)
    assert decided == {entry.entry.entry_id: told[2]}
    assert tables([entry], decided)[0].rows[0].state == "accepted"
    assert tables([entry], {})[0].rows[0].state == "pending"
    assert read_decisions(tmp_path / "none.jsonl") == {}
    path.write_text('{"entry_id": "x"}\n')
    with pytest.raises(EntryError, match=r"decisions\.jsonl:1"):
        read_decisions(path)


def test_files_make_the_same_tables(tmp_path, verified, made):
    write_samples(tmp_path)
    read = read_verified(tmp_path / "verified")
    assert sorted(v.entry.entry_id for v in read) == sorted(v.entry.entry_id for v in verified)
    assert repr(tables(read, read_decisions(tmp_path / "decisions.jsonl"))) == repr(made)
    assert read_verified(tmp_path / "nothing") == []


def test_input_order_does_not_matter(verified, decided, made):
    for seed in range(3):
        shuffled = list(verified)
        random.Random(seed).shuffle(shuffled)
        assert repr(tables(shuffled, decided)) == repr(made)


# Entries of one method and model.


def ranked_names(*verified, decided=()):
    rows = tables(verified, {d.entry_id: d for d in decided})[0].rows
    return {row.verified.entry.submitted: row.ranked for row in rows}


def test_only_the_newest_of_a_method_and_model_is_ranked(mini):
    old, new = (
        next(
            row
            for row in mini.rows
            if (row.verified.entry.method.name, row.verified.entry.submitted) == ("FTW-1-8", date)
        )
        for date in ("2026-11-20", "2026-12-01")
    )
    assert (old.ranked, new.ranked, old.state) == (False, True, "pending")
    assert old.reason == f"superseded by {new.verified.slug} of 2026-12-01"


def test_names_that_look_alike_are_one_method():
    old = sample(name="FTW-1-8", submitted="2026-11-01")
    new = sample(name="ftw 1 8", submitted="2026-11-02", rates=(0.2, 0.2, 0.2))
    assert ranked_names(old, new) == {"2026-11-01": False, "2026-11-02": True}
    other = sample(name="FTW-1-18", submitted="2026-11-02")
    assert ranked_names(old, other) == {"2026-11-01": True, "2026-11-02": True}
    larger = sample(name="FTW-1-8", submitted="2026-11-02", model="ftw-small")
    assert ranked_names(old, larger) == {"2026-11-01": True, "2026-11-02": True}


def test_what_is_not_ranked_itself_supersedes_nothing():
    old = sample(submitted="2026-11-01")
    assert ranked_names(old, sample(submitted="2026-11-02", episodes=58)) == {
        "2026-11-01": True, "2026-11-02": False,
    }  # fmt: skip
    assert ranked_names(old, sample(submitted="2026-11-02", rates=(0.9,))) == {
        "2026-11-01": True, "2026-11-02": False,
    }  # fmt: skip
    new = sample(submitted="2026-11-02")
    gone = Decision(
        entry_id=new.entry.entry_id, date="2026-11-03", state="retracted", reason="a mistake"
    )
    assert ranked_names(old, new, decided=[gone]) == {"2026-11-01": True, "2026-11-02": False}


def test_a_sealed_round_has_a_table_of_its_own():
    public = sample(submitted="2026-11-01")
    entry = public.entry.model_copy(update={"round": "autumn", "entry_id": "a" * 64})
    short = sample(episodes=300).runs
    sealed = public.model_copy(update={"entry": entry, "runs": short, "tier": "T2"})
    found = tables([sealed, public], {})
    assert [table.round for table in found] == [None, "autumn"]
    assert found[1].rows[0].ranked  # its instances are the round's
    with pytest.raises(TableError, match="one table"):
        compare(found[0].rows[0], found[1].rows[0])


# Figures of a row.


def test_figures_are_those_of_the_outcomes(mini):
    row = row_of(mini, "FTW-1-8", "pending")
    x = np.array([[c == "1" for c in run.outcomes] for run in row.verified.runs])
    assert row.solve_rate == rate_estimate(x)
    assert row.iqm == iqm_estimate({"sokoban-mini": x})
    assert row.score == row.solve_rate  # 1 for solved, else 0
    assert row.runs == 5
    assert set(row.curves) == {"episodes", "env_steps", "tokens", "wall_seconds"}
    assert 0 < row.area < row.solve_rate.value


def test_no_interval_is_of_zero_width(made):
    for table in made:
        for row in table.rows:
            for estimate in (row.solve_rate, row.iqm, row.score):
                assert estimate.low <= estimate.value <= estimate.high
                assert estimate.high - estimate.low > 0.001


def test_a_score_that_is_no_proportion_has_its_own_interval(made):
    table = next(t for t in made if t.board.name == "sigma-trap")
    for row in table.rows:
        width = row.score.high - row.score.low
        assert 4 * 1.96 / np.sqrt(1000) * 1.9 < width < 1.5
        assert row.score.value != row.solve_rate.value


def test_what_is_missing_is_nothing_and_not_0(mini):
    solver = row_of(mini, "Solver")
    assert (solver.curves, solver.episodes_to, solver.tokens_to) == ({}, {}, {})
    assert (solver.area, solver.beats) == (None, None)
    hostile = row_of(mini, HOSTILE_NAMES[0])
    assert (hostile.episodes_to[80].at, hostile.episodes_to[80].reached) == (None, 0)
    assert hostile.episodes_to[80].budget == 5120


def test_trained_rows_are_held_against_the_best_untrained_model(mini):
    assert row_of(mini, "GRPO").beats == 1
    assert row_of(mini, HOSTILE_NAMES[1]).beats == 0
    assert row_of(mini, "Base").beats is None
    alone = tables([sample(), sample(name="Random", family="scripted", rates=(0.1,))], {})[0]
    assert [row.beats for row in alone.rows] == [None, None]


def test_profiles_are_of_ranked_rows_with_enough_seeds(mini):
    slugs = {row.verified.slug for row in mini.rows if row.ranked and row.runs >= 3}
    assert set(mini.profile) == slugs
    row = row_of(mini, "GRPO")  # 0.52, 0.57 and 0.61
    levels = dict(mini.profile[row.verified.slug])
    assert [levels[x] for x in (0, 0.51, 0.52, 0.57, 0.61, 1)] == pytest.approx(
        [1, 1, 2 / 3, 1 / 3, 0, 0]
    )


def test_equal_outcomes_have_equal_ranks():
    a = sample(name="A", submitted="2026-11-02")
    entry = a.entry.model_copy(
        update={
            "entry_id": "b" * 64,
            "method": a.entry.method.model_copy(update={"name": "B"}),
            "submitted": "2026-11-01",
        }
    )
    b = a.model_copy(update={"entry": entry})
    low = sample(name="C", family="scripted", rates=(0.1,))
    for order in ([a, b, low], [low, b, a], [b, low, a]):
        rows = tables(order, {})[0].rows
        assert [row.verified.entry.method.name for row in rows] == ["B", "A", "C"]
        assert [row.rank for row in rows] == [(1, 2), (1, 2), (3, 3)]
        assert [row.place for row in rows] == [1, 1, 3]
        assert [row.group for row in rows] == [1, 1, 2]


# What cannot be shown.


def changed(**figures):
    good = sample(rates=(0.5, 0.5, 0.5))
    run = good.runs[1]
    figures = run.figures.model_copy(update=figures)
    runs = [good.runs[0], run.model_copy(update={"figures": figures}), good.runs[2]]
    return good.model_copy(update={"runs": runs})


@pytest.mark.parametrize("figures", [{"solved": 501}, {"episodes": 999}, {"solve_rate": 0.501}])
def test_figures_that_outcomes_do_not_bear_out_are_refused(figures):
    with pytest.raises(TableError, match="run 1 solved 500 of 1000, its figures say"):
        tables([changed(**figures)], {})
    assert tables([changed(solve_rate=0.5 + 1e-12)], {})  # rounding is no lie


def test_a_row_needs_verified_episodes_of_all_its_runs():
    good = sample(rates=(0.5, 0.6, 0.7))
    for runs in ([], good.runs[:2], good.runs[::-1]):
        with pytest.raises(TableError, match=r"the entry has \[0, 1, 2\]"):
            tables([good.model_copy(update={"runs": runs})], {})
    shorter = sample(rates=(0.5, 0.6, 0.7), episodes=58)
    mixed = good.model_copy(update={"runs": [*good.runs[:2], shorter.runs[2]]})
    with pytest.raises(TableError, match="1000 and 58 instances"):
        tables([mixed], {})


def test_an_unknown_board_is_refused():
    good = sample()
    entry = good.entry.model_copy(update={"board": "chess"})
    with pytest.raises(ValueError, match="no board 'chess'"):
        tables([good.model_copy(update={"entry": entry})], {})


# Pairs.


def test_a_pair_counts_each_instance_once(mini):
    a, b = row_of(mini, "FTW-1-8", "pending"), row_of(mini, "Base")
    pair = compare(a, b)
    assert pair.both + pair.only_a + pair.only_b + pair.neither == 1000
    # Of five runs three are the majority.
    majority = a.outcomes.sum(axis=0) >= 3
    assert pair.both == int((majority & b.outcomes[0]).sum())
    assert pair.only_b == int((~majority & b.outcomes[0]).sum())
    assert pair.difference.value == pytest.approx(a.solve_rate.value - b.solve_rate.value)
    assert pair.difference.low > 0
    assert pair.p_value < 0.05
    assert pair.improvement.value == 1


def test_half_of_the_runs_is_no_majority():
    table = tables([sample(name="A", rates=(1.0, 0.0)), sample(name="B")], {})[0]
    pair = compare(row_of(table, "A"), row_of(table, "B"))
    assert (pair.both, pair.only_a) == (0, 0)


def test_pairs_of_different_length_meet_where_both_played(mini):
    a, short = row_of(mini, "GRPO"), row_of(mini, "BC")
    pair = compare(a, short)
    assert pair.both + pair.only_a + pair.only_b + pair.neither == 58
    assert pair.difference.value == pytest.approx(a.outcomes[:, :58].mean() - short.outcomes.mean())


@given(st.data())
@settings(deadline=None, max_examples=25)
def test_a_pair_the_other_way_round_says_the_same(mini, data):
    a, b = data.draw(st.sampled_from(mini.rows)), data.draw(st.sampled_from(mini.rows))
    one, other = compare(a, b), compare(b, a)
    assert one.difference.low == pytest.approx(-other.difference.high)
    assert one.improvement.value == pytest.approx(1 - other.improvement.value)
    assert one.p_value == pytest.approx(other.p_value)
    assert (one.both, one.only_a, one.neither) == (other.both, other.only_b, other.neither)


def test_rows_of_two_versions_are_not_compared(made):
    with pytest.raises(TableError, match="one table"):
        compare(made[0].rows[0], made[1].rows[0])


def test_rows_do_not_change(mini):
    with pytest.raises(AttributeError):
        mini.rows[0].rank = (1, 1)
    assert replace(mini.rows[0], rank=(2, 2)).rank == (2, 2)
