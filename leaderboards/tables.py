"""The tables: which entries are ranked, by what, and how far each can be told from the others.

All statistics are worked out here and in `statistics.py` and `curves.py`; pages only show them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from leaderboards import curves, statistics
from leaderboards.boards import BOARDS, Board, board_of
from leaderboards.curves import Line, Reached
from leaderboards.identity import skeleton
from leaderboards.pages.history import read_history
from leaderboards.schema import Decision, Verified
from leaderboards.statistics import SEEDS, Bools, Estimate, Floats
from leaderboards.verified import read_verified

__all__ = [
    "Estimate", "Line", "Pair", "Reached", "Row", "Table", "TableError",
    "compare", "read_decisions", "read_verified", "tables",
]  # fmt: skip

PROFILE_LEVELS = np.arange(101) / 100

_STRUCK = ("retracted", "invalid")


class TableError(ValueError):
    """Verified entries that contradict themselves or cannot be compared."""


@dataclass(frozen=True, slots=True)
class Row:
    """An entry in its table.

    Attributes:
        state: of the newest decision; "pending" where there is none.
        reason: why it is not ranked, or what the decision says of a disputed entry; empty for
            what `provisional` says.
        reference: scripted players and untrained models, which are always there. They are
            ranked as all others.
        ranked: whether it is complete, in force, the newest of its method and model, and not
            provisional.
        provisional: trained with fewer than `SEEDS` seeds: a lucky one would be first.
        rank: best and worst rank that it may have, None if it is not ranked.
        place: 1 2 2 4 by solve rate alone, None if it is not ranked.
        group: class of entries that cannot be told from the best of the class, from 1; None if
            it is not ranked.
        solve_rate, iqm: over training seeds, see `statistics.py`.
        score: mean score of an episode.
        runs: training seeds.
        episodes_to, tokens_to: by percent of the valid instances; empty without curves.
        curves: by axis; those that exist.
        area: mean solve rate over training, by episodes; None without curves.
        beats: probability of improvement over the best untrained model of the table.
    """

    verified: Verified
    state: str
    reason: str
    reference: bool
    ranked: bool
    provisional: bool
    rank: tuple[int, int] | None
    place: int | None
    group: int | None
    solve_rate: Estimate
    iqm: Estimate
    score: Estimate
    runs: int
    episodes_to: dict[int, Reached]
    tokens_to: dict[int, Reached]
    curves: dict[str, Line]
    area: float | None
    beats: float | None
    outcomes: Bools = field(repr=False, compare=False)
    """Shape (runs, instances)."""

    @property
    def rates(self) -> Floats:
        """Solve rate of each run, shape (runs,)."""
        return np.asarray(self.outcomes.mean(axis=1))


@dataclass(frozen=True, slots=True)
class Table:
    """All entries that played the same instances of the same rules.

    Attributes:
        round: sealed round, which has its own instances; None for the public ones.
        suite_version: newest that an entry was made with.
        rows: ranked ones first, best first; then what is not ranked, retracted last.
        profile: for ranked entries with enough seeds, by slug: share of runs above each level
            of the solve rate, as (level, share).
    """

    board: Board
    env_version: str
    round: str | None
    suite_version: str
    rows: list[Row]
    profile: dict[str, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rows of a table on the instances that both played.

    Attributes:
        difference: of solve rates, a minus b.
        improvement: how often a run of a beats a run of b, ties count half.
        p_value: of no difference, see `statistics.p_value`.
        both, only_a, only_b, neither: instances, by who solved them in more than half of the
            runs.
    """

    a: Row
    b: Row
    difference: Estimate
    improvement: Estimate
    p_value: float
    both: int
    only_a: int
    only_b: int
    neither: int


def read_decisions(path: Path) -> dict[str, Decision]:
    """The newest decision on each entry, by its identity; none if there is no file.

    Of two on one day the later line counts.

    Raises:
        StrictError, EntryError: names the line that is not a decision.
    """
    return {
        identity: max(enumerate(told), key=lambda pair: (pair[1].date, pair[0]))[1]
        for identity, told in read_history(path).items()
    }


def tables(verified: Iterable[Verified], decisions: Mapping[str, Decision]) -> list[Table]:
    """All tables: in the order of `BOARDS`, of a board the newest version first.

    The order of `verified` does not matter.

    Raises:
        TableError: an entry without verified episodes, or one whose figures are not what its
            outcomes say.
        ValueError: an entry of a board that there is not.
    """
    groups: dict[tuple[str, str, str], list[Verified]] = {}
    for v in verified:
        board_of(v.entry.board)
        key = (v.entry.board, v.entry.env_version, v.entry.round or "")
        groups.setdefault(key, []).append(v)
    made = [_table(group, decisions) for group in groups.values()]
    places = list(BOARDS)
    # Sorting is stable: the last key that is sorted by is the first one to count.
    made.sort(key=lambda t: (t.round or "", t.env_version), reverse=True)
    made.sort(key=lambda t: (_version(t.suite_version), _newest(t)), reverse=True)
    made.sort(key=lambda t: (places.index(t.board.name), t.round is not None))
    return made


def compare(a: Row, b: Row) -> Pair:
    """Two rows of one table, on the instances that both played.

    Raises:
        TableError: they are of different tables.
    """
    one, other = (_key(row.verified) for row in (a, b))
    if one != other:
        raise TableError(f"only entries of one table are compared, not {one} and {other}")
    n = min(a.outcomes.shape[1], b.outcomes.shape[1])
    x, y = a.outcomes[:, :n], b.outcomes[:, :n]
    solved_a, solved_b = (2 * z.sum(axis=0) > len(z) for z in (x, y))
    return Pair(
        a=a,
        b=b,
        difference=statistics.difference_estimate(x, y),
        improvement=statistics.probability_of_improvement(x.mean(axis=1), y.mean(axis=1)),
        p_value=statistics.p_value(x, y),
        both=int((solved_a & solved_b).sum()),
        only_a=int((solved_a & ~solved_b).sum()),
        only_b=int((~solved_a & solved_b).sum()),
        neither=int((~solved_a & ~solved_b).sum()),
    )


def _key(v: Verified) -> tuple[str, str, str]:
    return v.entry.board, v.entry.env_version, v.entry.round or "public"


def _version(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


def _newest(table: Table) -> str:
    return max(row.verified.entry.submitted for row in table.rows)


def _table(group: Sequence[Verified], decisions: Mapping[str, Decision]) -> Table:
    first = group[0].entry
    board = board_of(first.board)
    # Of a sealed round the verifier lets only whole runs pass, and its length is the round's.
    lengths = [len(run.outcomes) for v in group for run in v.runs]
    instances = board.episodes if first.round is None else max(lengths, default=0)
    rows = [_row(v, decisions.get(v.entry.entry_id), instances) for v in group]
    rows.sort(key=lambda row: (row.verified.entry.submitted, row.verified.entry.entry_id))
    rows.sort(key=lambda row: row.solve_rate.value, reverse=True)
    rows = _with_beats(_superseded(rows))
    ranked = _with_ranks([row for row in rows if row.ranked])
    others = [row for row in rows if not row.ranked]
    return Table(
        board=board,
        env_version=first.env_version,
        round=first.round,
        suite_version=max((v.entry.suite_version for v in group), key=_version),
        rows=ranked + sorted(others, key=lambda row: row.state in _STRUCK),
        profile={row.verified.slug: _profile(row) for row in ranked if row.runs >= SEEDS},
    )


def _row(v: Verified, decision: Decision | None, instances: int) -> Row:
    outcomes = _outcomes(v)
    n = outcomes.shape[1]
    state = decision.state if decision else "pending"
    reasons = [decision.reason] if decision and state in (*_STRUCK, "disputed") else []
    provisional = v.entry.training is not None and len(outcomes) < SEEDS
    if n != instances:
        reasons.append(f"incomplete: {n} of {instances} instances")
    solve_rate = statistics.rate_estimate(outcomes)
    # Of fewer than four runs the interquartile mean leaves none out.
    few = len(outcomes) < 4
    return Row(
        verified=v,
        state=state,
        reason="; ".join(reasons),
        reference=v.entry.method.family in ("scripted", "base"),
        ranked=state not in _STRUCK and n == instances and not provisional,
        provisional=provisional,
        rank=None,
        place=None,
        group=None,
        solve_rate=solve_rate,
        iqm=solve_rate if few else statistics.iqm_estimate({v.entry.board: outcomes}),
        score=_score(v, solve_rate, n),
        runs=len(outcomes),
        episodes_to=curves.reached(v.runs, "episodes"),
        tokens_to=curves.reached(v.runs, "tokens"),
        curves=curves.lines(v.runs),
        area=curves.area(v.runs),
        beats=None,
        outcomes=outcomes,
    )


def _outcomes(v: Verified) -> Bools:
    """Shape (runs, instances). Raises TableError where they are not what the figures say."""
    name = f"{v.slug} ({v.entry.entry_id[:12]})"
    if not v.runs or [run.run for run in v.runs] != v.entry.runs:
        told = [run.run for run in v.runs]
        raise TableError(f"{name}: verified runs are {told}, the entry has {v.entry.runs}")
    for run in v.runs:
        n, solved = len(run.outcomes), run.outcomes.count("1")
        f = run.figures
        if (f.episodes, f.solved) != (n, solved) or abs(f.solve_rate - solved / n) > 1e-9:
            raise TableError(
                f"{name}: run {run.run} solved {solved} of {n}, its figures say {f.solved} of "
                f"{f.episodes}, {f.solve_rate}"
            )
        if n != len(v.runs[0].outcomes):
            raise TableError(f"{name}: runs have {len(v.runs[0].outcomes)} and {n} instances")
    return np.array([[digit == "1" for digit in run.outcomes] for run in v.runs])


def _score(v: Verified, solve_rate: Estimate, n: int) -> Estimate:
    figures = [run.figures for run in v.runs]
    if n < 2 or all(abs(f.mean_score - f.solve_rate) < 1e-9 for f in figures):
        return solve_rate  # a score of 0 or 1 is whether it was solved
    means = np.array([f.mean_score for f in figures])
    return statistics.mean_estimate(means, np.array([run.score_sd for run in v.runs]), n)


def _superseded(rows: Sequence[Row]) -> list[Row]:
    """Only the newest entry of a method and model stays ranked; names that look alike are one."""
    newest: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.ranked:
            key = _method(row)
            newest[key] = max(row, newest.get(key, row), key=_age)
    out = []
    for row in rows:
        by = newest.get(_method(row), row).verified
        if row.ranked and by is not row.verified:
            reason = f"superseded by {by.slug} of {by.entry.submitted}"
            reason = f"{row.reason}; {reason}" if row.reason else reason
            row = replace(row, ranked=False, reason=reason)
        out.append(row)
    return out


def _method(row: Row) -> tuple[str, str]:
    entry = row.verified.entry
    return skeleton(entry.method.name), skeleton(entry.model.name) if entry.model else ""


def _age(row: Row) -> tuple[str, str]:
    return row.verified.entry.submitted, row.verified.entry.entry_id


def _with_beats(rows: Sequence[Row]) -> list[Row]:
    """`rows`, best first, with what they have over the best untrained model that is ranked."""
    bases = (row for row in rows if row.ranked and row.verified.entry.method.family == "base")
    base = next(bases, None)
    if base is None:
        return list(rows)
    return [
        row
        if row.reference
        else replace(row, beats=statistics.probability_of_improvement(row.rates, base.rates).value)
        for row in rows
    ]


def _with_ranks(rows: Sequence[Row]) -> list[Row]:
    """`rows`, best first, with their ranks."""
    better = statistics.separated([row.outcomes for row in rows])
    ranks = statistics.rank_intervals(better)
    groups = statistics.rank_classes(better)
    places = statistics.competition_ranks([row.solve_rate.value for row in rows])
    return [
        replace(row, rank=rank, group=group, place=place)
        for row, rank, group, place in zip(rows, ranks, groups, places, strict=True)
    ]


def _profile(row: Row) -> list[tuple[float, float]]:
    shares = statistics.performance_profile(row.rates, PROFILE_LEVELS)
    return list(zip(PROFILE_LEVELS.tolist(), shares.tolist(), strict=True))
