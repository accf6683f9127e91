"""Random streams: named, counter-based, the same everywhere."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftw_envs.streams import Stream, integer_at, integers_at, stream_key

GOLDEN_WORDS = [16662203567199224871, 17440500665957324494]
GOLDEN_UNIFORMS = [0.903259865297656, 0.9454514355632908]

names = st.lists(st.one_of(st.text(max_size=5), st.integers()), max_size=4)


def test_golden_values() -> None:
    """Literal values: a change of NumPy or of this code that moved them would show."""
    stream = Stream("golden", 7)
    assert [stream.word() for _ in range(2)] == GOLDEN_WORDS
    assert Stream("golden", 7).uniforms(2).tolist() == pytest.approx(GOLDEN_UNIFORMS, abs=0)


@given(names, names)
def test_distinct_names_have_distinct_keys(a: list, b: list) -> None:
    same = [(type(x), x) for x in a] == [(type(x), x) for x in b]
    assert (stream_key(*a) == stream_key(*b)) == same


def test_a_name_is_made_of_text_and_integers() -> None:
    with pytest.raises(TypeError, match="str and int, got float"):
        stream_key("x", 1.5)  # type: ignore[arg-type]


def test_streams_do_not_shift_each_other() -> None:
    a = Stream("a")
    first = [a.word() for _ in range(40)]
    a, b = Stream("a"), Stream("b")
    mixed = []
    for _ in range(40):
        mixed.append(a.word())
        b.normal()
    assert mixed == first


@given(st.integers(1, 50), st.integers())
def test_integer_is_in_range(n: int, seed: int) -> None:
    assert 0 <= Stream("r", seed).integer(n) < n


def test_integer_refuses_empty_range() -> None:
    with pytest.raises(ValueError, match="n >= 1"):
        Stream("x").integer(0)


def test_draws_follow_their_distributions() -> None:
    stream = Stream("stats")
    normals = np.array([stream.normal() for _ in range(20_000)])
    assert abs(normals.mean()) < 0.03
    assert abs(normals.std() - 1) < 0.03
    counts = np.bincount([stream.integer(5) for _ in range(20_000)], minlength=5)
    assert abs(counts - 4000).max() < 5 * np.sqrt(4000)
    assert abs(stream.uniforms(20_000).mean() - 0.5) < 0.01
    orders = set()
    for _ in range(200):
        items = [1, 2, 3]
        stream.shuffle(items)
        orders.add(tuple(items))
    assert len(orders) == 6


def test_global_generators_are_left_alone() -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - it is the global generator that is tested
    want = random.random(), np.random.random()  # noqa: NPY002
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    stream = Stream("x")
    stream.shuffle([1, 2, 3])
    stream.normal()
    stream.uniforms(3)
    assert (random.random(), np.random.random()) == want  # noqa: NPY002


@given(st.lists(st.integers(0, 2**64 - 2), min_size=1, max_size=20), st.integers(1, 2**40))
def test_many_streams_at_once(counters: list[int], n: int) -> None:
    """The vectorised Philox gives what NumPy's gives, one stream at a time."""
    at = np.array(counters, np.uint64)
    want = [Stream("a", 1, counter=c).integer(n) for c in counters]
    assert integers_at(n, at, "a", 1).tolist() == want
    assert [integer_at(n, c, "a", 1) for c in counters] == want


def test_many_streams_at_once_reject_alike() -> None:
    """With n just over 2**63 nearly half of all words are rejected."""
    n = 2**63 - 1
    at = np.arange(200, dtype=np.uint64)
    want = [Stream("b", counter=c).integer(n) for c in range(200)]
    assert integers_at(n, at, "b").tolist() == want
    assert [integer_at(n, c, "b") for c in range(200)] == want
