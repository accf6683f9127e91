"""The Episode record: strict reading, whole files, exact round trips."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import COORDS, MINI, TRAP
from hypothesis import given
from hypothesis import strategies as st

from ftw_agents.collect import Collector
from ftw_agents.scripted.random import RandomAgent
from ftw_agents.starts import training_starts
from ftw_envs.episode import (
    Episode,
    EpisodeError,
    EpisodeWriter,
    Tokens,
    loads_strict,
    read_episodes,
    write_episodes,
)


def _played(n: int = 3, env_id: str = MINI) -> list[Episode]:
    collector = Collector(env_id, COORDS if env_id == MINI else {})
    return list(collector.play(RandomAgent(), training_starts(collector.env, 0, 0, n)))


@pytest.mark.parametrize("env_id", [MINI, TRAP])
def test_round_trip(env_id: str, tmp_path: Path) -> None:
    episodes = _played(5, env_id)
    episodes[0] = replace(
        episodes[0], tokens=Tokens((1, 2, 3), (0, 1, 1), (-0.1, -1 / 3)), tokens_out=2
    )
    assert write_episodes(tmp_path / "e.jsonl", episodes) == 5
    assert list(read_episodes(tmp_path / "e.jsonl")) == episodes


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_reply_survives(reply: str) -> None:
    episode = _played(1)[0]
    turn = replace(episode.turns[0], reply=reply)
    episode = replace(episode, turns=(turn, *episode.turns[1:]))
    text = json.dumps(episode.to_json(), ensure_ascii=False)
    assert Episode.from_json(loads_strict(text)) == episode


def _edit(path: str, value: object) -> dict:
    data = _played(1)[0].to_json()
    *parents, last = path.split(".")
    node: object = data
    for key in parents:
        node = node[int(key) if key.isdigit() else key]  # type: ignore[index]
    if value is None:
        del node[last]  # type: ignore[attr-defined]
    else:
        node[last] = value  # type: ignore[index]
    return data


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("score", None, "lacks 'score'"),
        ("score", "1", "score must be float, got str"),
        ("score", True, "score must be float, got bool"),
        ("seed", 1.5, "seed must be int, got float"),
        ("seed", -1, "seed must be >= 0"),
        ("solved", 1, "solved must be bool, got int"),
        ("extra", 1, "unknown key 'extra'"),
        ("end", "won", "end must be one of solved, failed, time_limit"),
        ("end", "solved", "solved is False but end is 'solved'"),
        ("instance.index", -1, "instance.index must be >= 0"),
        ("instance.split", 3, "instance.split must be str"),
        ("turns.0.usable", False, r"turns\[0\] must have an action exactly if it is usable"),
        ("turns.0.reply", 7, r"turns\[0\].reply must be str"),
        ("turns", {}, "turns must be list"),
        ("tokens", {"ids": [1], "action": [1, 0], "logprobs": []}, "one length"),
        ("tokens", {"ids": [1], "action": [2], "logprobs": []}, "must be 0 or 1"),
        ("tokens", {"ids": ["a"], "action": [0], "logprobs": []}, "list of int"),
        ("tokens_out", 5, None),
    ],
)
def test_broken_records_are_named(
    path: str, value: object, why: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "e.jsonl"
    good = json.dumps(_played(1)[0].to_json())
    file.write_text(good + "\n" + json.dumps(_edit(path, value)) + "\n")
    if why is None:
        assert len(list(read_episodes(file))) == 2
        return
    with pytest.raises(EpisodeError, match=rf"e\.jsonl:2: .*{why}"):
        list(read_episodes(file))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "must be an object, got list"),
        (b'{"a":1,"a":2}', "'a' stands twice"),
        (b'{"a":NaN}', "NaN is not a JSON number"),
        (b'{"a":1e999}', "1e999 is out of range"),
        (b"\xff", "not UTF-8"),
        (rb'{"a":"\ud800"}', "lone surrogate"),
        (b"[" * 100_000, "nested too deep"),
        (b"", "not valid JSON"),
    ],
)
def test_broken_lines_are_named(line: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(line + b"\n")
    with pytest.raises(EpisodeError, match=rf"e\.jsonl:1: .*{why}"):
        list(read_episodes(file))


def test_a_cut_off_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    write_episodes(file, _played(2))
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    with pytest.raises(EpisodeError, match=r"e\.jsonl:2: cut off"):
        list(read_episodes(file))
    with pytest.raises(EpisodeError, match=r"none\.jsonl: cannot be read"):
        list(read_episodes(tmp_path / "none.jsonl"))


def test_nothing_is_left_half_written(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"

    def write_and_fail() -> None:
        with EpisodeWriter(file) as writer:
            writer.write(_played(1)[0])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []


def test_the_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    with EpisodeWriter(file) as writer:
        writer.write(_played(1)[0])
        assert not file.exists()
    assert file.exists()
    assert len(list(tmp_path.iterdir())) == 1


def test_scores_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_episodes(tmp_path / "e.jsonl", [replace(_played(1)[0], score=float("nan"))])
    assert list(tmp_path.iterdir()) == []
