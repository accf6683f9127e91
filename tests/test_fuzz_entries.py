"""No change of a byte wins anything: it is refused, or every verified figure stays."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from hostile_entries import RUNS, SMALL, Kit, good_entry
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaderboards import boards
from leaderboards.schema import Verified
from leaderboards.verify import verify

TINY = replace(SMALL, episodes=3)
TOLD = {"tokens_in", "tokens_out"}
"""Figures that nothing here can prove."""


@pytest.fixture(scope="module", autouse=True)
def tiny_board() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(boards.BOARDS, TINY.name, TINY)
        yield


@dataclass(frozen=True, slots=True)
class Target:
    """An accepted entry, what was found of it, and the bytes of its files."""

    kit: Kit
    honest: Verified
    files: dict[str, bytes]

    def restore(self) -> None:
        for name, data in self.files.items():
            (self.kit.folder / name).write_bytes(data)
        self.kit.about = json.loads(self.files["entry.json"])

    def found(self) -> Verified | None:
        """What is found now; None if it is refused, in lines that can be printed."""
        report = verify(self.kit.folder)
        assert all(line.isprintable() and len(line) < 600 for line in report.problems)
        assert (report.verified is None) == bool(report.problems)
        return report.verified


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, tiny_board: None) -> Target:
    folder = tmp_path_factory.mktemp("fuzz")
    entry = Path(shutil.copytree(good_entry(folder, TINY), folder / "copy/0.1.0/ftw-mini"))
    names = ["entry.json", "env.lock.json"]
    names += [f"runs/{run}/{name}.jsonl" for run in RUNS for name in ("episodes", "curve")]
    honest = verify(entry).verified
    assert honest
    return Target(Kit(entry), honest, {name: (entry / name).read_bytes() for name in names})


def _replaced(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + bytes([byte]) + data[at + 1 :]


def _inserted(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + bytes([byte]) + data[at:]


def _deleted(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + data[at + 1 :]


def _swapped(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + data[at + 1 : at + 2] + data[at : at + 1] + data[at + 2 :]


EDITS = (_replaced, _inserted, _deleted, _swapped)
LIKELY = b'0123456789truefalsn"\\[]{},:.- \n\r\x00\xff'
"""Bytes that mean something in JSON, and some that must not stand there."""

edits = st.tuples(
    st.sampled_from(EDITS),
    st.integers(0, 1 << 20),
    st.sampled_from(list(LIKELY)) | st.integers(0, 255),
)
fuzz = partial(settings, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check_episodes(target: Target, data: bytes) -> str:
    """Puts other bytes in place of the first run's episodes, as a careful cheat does."""
    target.restore()
    target.kit.raw(data)
    found = target.found()
    if found is None:
        return "refused"
    told = False
    for run, honest in zip(found.runs, target.honest.runs, strict=True):
        a, b = (r.figures.model_dump() for r in (run, honest))
        assert {k: v for k, v in a.items() if k not in TOLD} == {
            k: v for k, v in b.items() if k not in TOLD
        }
        assert (run.outcomes, run.score_sd, run.run) == (
            honest.outcomes,
            honest.score_sd,
            honest.run,
        )
        told |= any(a[name] != b[name] for name in TOLD)
    rows = [[json.loads(x) for x in d.splitlines()] for d in (data, target.files[_EPISODES])]
    assert told == any(x[k] != y[k] for x, y in zip(*rows, strict=True) for k in TOLD)
    return "tokens" if told else "same"


_EPISODES = f"runs/{RUNS[0]}/episodes.jsonl"


def test_every_part_of_a_row_is_guarded(target: Target) -> None:
    """Bytes all over the file, each replaced by its neighbour in the alphabet."""
    data = target.files[_EPISODES]
    ends = {
        check_episodes(target, _replaced(data, at, data[at] ^ 1)) for at in range(0, len(data), 29)
    }
    assert "refused" in ends


@given(st.lists(edits, min_size=1, max_size=3))
@fuzz(max_examples=150)
def test_episodes_of_other_bytes(target: Target, changes: list) -> None:
    data = target.files[_EPISODES]
    for edit, at, byte in changes:
        data = edit(data, at % len(data), byte)
    check_episodes(target, data)


@given(edits)
@fuzz(max_examples=60)
def test_curves_of_other_bytes(target: Target, change: tuple) -> None:
    """Curves are as told: no change of one changes what was found."""
    target.restore()
    edit, at, byte = change
    name = f"runs/{RUNS[1]}/curve.jsonl"
    data = target.files[name]
    target.kit.raw(edit(data, at % len(data), byte), RUNS[1], "curve.jsonl")
    found = target.found()
    if found is not None:
        assert [run.figures for run in found.runs] == [r.figures for r in target.honest.runs]
        assert [len(run.curve) for run in found.runs] == [len(r.curve) for r in target.honest.runs]


@given(edits, st.sampled_from(["entry.json", "env.lock.json"]))
@fuzz(max_examples=120)
def test_an_entry_of_other_bytes_is_another_entry_or_none(
    target: Target, change: tuple, name: str
) -> None:
    """Without its id put right, an entry says what it said; only a claim may be another."""
    target.restore()
    edit, at, byte = change
    data = target.files[name]
    (target.kit.folder / name).write_bytes(edit(data, at % len(data), byte))
    found = target.found()
    if found is not None:
        assert found.runs == target.honest.runs
        assert found.entry.model_dump(exclude={"claims"}) == target.honest.entry.model_dump(
            exclude={"claims"}
        )
        claimed = found.entry.claims != target.honest.entry.claims
        assert claimed or not found.differences


@given(st.binary(max_size=300) | st.text(max_size=100).map(lambda text: f"{text}\n".encode()))
@fuzz(max_examples=40)
def test_any_bytes_for_episodes(target: Target, data: bytes) -> None:
    target.restore()
    target.kit.raw(data)
    assert target.found() is None
