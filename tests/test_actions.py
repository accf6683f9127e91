"""The action parser is total and takes exactly one answer."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftw_envs.actions import MAX_REPLY_CHARS, ActionGrammar

GRAMMAR = ActionGrammar(("up", "down", "left", "right"))


@pytest.mark.parametrize(
    "reply",
    [
        "left",
        "LEFT",
        " Left.\n",
        "**left**",
        "`left`",
        "go left",
        "move to the left",
        "I will push left!",
        "<answer>left</answer>",
        "<think>up or right? up!</think><answer> go left </answer>",
        "<think>right</think>left",
        r"so \boxed{left}",
        "I could go up or down, but no.\nAction: left",
        "**Answer**: left",
        "Final answer: left",
        "the wall is up there, so [left]",
        "<answer>left</answer> that is <answer>left</answer>",
        "<answer>left</answer> not [right]",
    ],
)
def test_accepted(reply: str) -> None:
    assert GRAMMAR.parse(reply).action == "left"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "no known action"),
        ("jump", "no known action"),
        ("leftward", "no known action"),
        ("the box is left of me", "no known action"),
        ("left right", "no known action"),
        ("not left", "no known action"),
        ("<answer>left", "no known action"),
        ("<answer></answer>left", "no known action"),
        ("<think>left", "no known action"),
        ("<answer>left</answer><answer>right</answer>", "more than one"),
        ("[left] [right]", "more than one"),
        ("<answer>left</answer><answer>or right</answer>", "more than one"),
        ("left" * MAX_REPLY_CHARS, "over"),
    ],
)
def test_refused_with_what_would_be_right(reply: str, why: str) -> None:
    parsed = GRAMMAR.parse(reply)
    assert parsed.action is None
    assert parsed.error is not None
    assert why in parsed.error
    assert "up, down, left, right" in parsed.error
    assert "\n" not in parsed.error


pieces = st.sampled_from(
    ["left", "right", "<answer>", "</answer>", "\\boxed{", "}", "[", "]", "<think>", "\n", " ",
     "Action:", "go ", "**", "\ud800", "é", "\0"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(pieces, max_size=30).map("".join)))
def test_total(reply: str) -> None:
    parsed = GRAMMAR.parse(reply)
    assert (parsed.action is None) != (parsed.error is None)
    assert parsed.action in (None, *GRAMMAR.actions)


@pytest.mark.parametrize("unit", ["[", "\n", "<answer>", "<think>", " ", "[a", "*", "answer "])
def test_no_reply_is_slow_to_parse(unit: str) -> None:
    """Quadratic regular expressions would take minutes here, not milliseconds."""
    reply = (unit * MAX_REPLY_CHARS)[:MAX_REPLY_CHARS]
    begin = time.process_time()
    GRAMMAR.parse(reply)
    assert time.process_time() - begin < 5


def test_actions_must_differ() -> None:
    with pytest.raises(ValueError, match="distinct"):
        ActionGrammar(("a", "A"))
    with pytest.raises(ValueError, match="max_moves must be at least 1"):
        ActionGrammar(("a",), 0)


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("left", "left"),
        ("up, up, left", "up up left"),
        ("Up Down", "up down"),
        ("go up, down", "up down"),
        ("<answer>up || down</answer>", "up down"),
        ("I think so.\n[up; left\tleft]", "up left left"),
        ("Action: up > right", "up right"),
        ("up, up, up, up", None),
        ("up, sideways", None),
        ("up,,down", "up down"),
        ("", None),
        (",", None),
    ],
)
def test_sequences(reply: str, action: str | None) -> None:
    grammar = ActionGrammar(("up", "down", "left", "right"), max_moves=3)
    parsed = grammar.parse(reply)
    assert parsed.action == action
    if action is None:
        assert "Answer with up to 3 of: up, down, left, right" in parsed.error
    single = GRAMMAR.parse(reply)
    assert single.action in (None, action)


@given(st.text(alphabet="updown left, ;|>\n", max_size=60))
def test_sequences_are_total(reply: str) -> None:
    parsed = ActionGrammar(("up", "down", "left"), 5).parse(reply)
    assert (parsed.action is None) != (parsed.error is None)
    if parsed.action is not None:
        assert 1 <= len(parsed.action.split(" ")) <= 5
