"""The commands `ftw record` and `ftw replay`, and incidents in `ftw play` and `ftw evaluate`."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ftw_agents.cli import main
from ftw_envs.episode import read_episodes

L1 = "ftw/IncidentL1-v0"


def test_expert_episodes_become_offline_data(tmp_path: Path) -> None:
    out = tmp_path / "expert.jsonl"
    args = ["record", "--env", L1, "--agent", "expert", "--episodes", "20", "--out"]
    main([*args, str(out)])
    episodes = list(read_episodes(out))
    assert len(episodes) == 20
    assert {e.instance.split for e in episodes} == {"train"}
    assert len({e.instance.index for e in episodes}) == 20
    assert sum(e.solved for e in episodes) >= 10
    main([*args, str(tmp_path / "again.jsonl")])
    assert (tmp_path / "again.jsonl").read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--episodes", "0"], "episodes must be at least 1"),
        (["--env", "ftw/SokobanMini-v0"], "this player investigates incidents, not SokobanEnv"),
        (["--agent", "nobody/here"], "nobody/here"),
    ],
)
def test_bad_records_write_nothing(
    args: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x.jsonl"
    with pytest.raises(SystemExit):
        main(["record", "--env", L1, "--agent", "expert", "--out", str(out), *args])
    assert why in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_record_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.jsonl"
    out.write_text("mine")
    with pytest.raises(SystemExit):
        main(["record", "--env", L1, "--agent", "expert", "--out", str(out)])
    assert "exists already" in capsys.readouterr().err
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    ("env", "args", "agent"),
    [
        ("ftw/IncidentL3-v0", [], "loud"),
        ("ftw/IncidentL1-v0", ["--env-args", "obs=image"], "expert"),
        ("ftw/SokobanMini-v0", ["--env-args", "obs=image"], "solver"),
        ("ftw/SigmaTrap-v0", [], "solver"),
    ],
)
def test_replay_shows_what_was_said(
    env: str, args: list[str], agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x.jsonl"
    main(["record", "--env", env, "--agent", agent, "--episodes", "2", *args, "--out", str(out)])
    capsys.readouterr()
    main(["replay", str(out), "--number", "2", "--svg", str(tmp_path / "x.svg")])
    shown = capsys.readouterr().out
    episode = list(read_episodes(out))[1]
    assert f"{episode.end}: score {episode.score:g}" in shown
    for turn in episode.turns:
        assert turn.reply.split(" ")[0] in shown
    if "Incident" in env:
        assert "hidden" in shown
        assert "came to h" in shown
        assert "\naccounts: u" in shown
    assert (tmp_path / "x.svg").read_text().startswith("<svg")


def test_replay_refuses_what_it_cannot_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x.jsonl"
    main(["record", "--env", L1, "--agent", "expert", "--episodes", "1", "--out", str(out)])
    for args, why in (
        (["--number", "0"], "number must be at least 1"),
        (["--number", "2"], "no episode 2 in it"),
    ):
        with pytest.raises(SystemExit):
            main(["replay", str(out), *args])
        assert why in capsys.readouterr().err
    line = json.loads(out.read_text())
    line["turns"][3]["observation"] = "something else"
    out.write_text(json.dumps(line) + "\n")
    with pytest.raises(SystemExit):
        main(["replay", str(out)])
    assert "turn 4 shows something else than was recorded" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["replay", str(tmp_path / "none.jsonl")])
    assert "cannot be read" in capsys.readouterr().err


def test_unknown_splits_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for env, known in ((L1, "test_drift"), ("ftw/SokobanMini-v0", "valid, test")):
        with pytest.raises(SystemExit):
            main(["evaluate", "--env", env, "--agent", "random", "--split", "exam", "--out",
                  str(tmp_path / "e")])  # fmt: skip
        error = capsys.readouterr().err
        assert "split must be one of train" in error
        assert known in error
        assert not (tmp_path / "e").exists()


# By hand


def test_incident_by_hand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["hosts", "serach auth", "/history", "/undo", "/restart", "set c2=x1", "report",
             "hosts", "/next", "/quit"]  # fmt: skip
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{x}\n" for x in lines)))
    main(["play", L1, "--split", "test", "--index", "3", "--seed", "5"])
    out = capsys.readouterr().out
    assert "ALERT t+0" in out
    assert "perhaps search" in out
    assert "\n  1 hosts\n  2 serach auth\n" in out
    assert "there is nothing that can be taken back" in out
    assert "a live incident cannot be had twice" in out
    assert "\nfailed: score 0\nentry: h" in out
    assert "\nwhat he did:\n  t-" in out
    assert "the game is over" in out
    assert f"\n{L1} test 4, seed 6 (" in out
    assert out.index("entry: h") > out.index("filed: c2=x1")  # nothing before the end


def test_tab_completes_in_a_terminal() -> None:
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "ftw_agents.cli", "play", L1, "--seed",
                                  "5"])  # fmt: skip
    seen = b""

    def read_until(what: bytes, send: bytes) -> None:
        nonlocal seen
        end = time.monotonic() + 60
        while what not in seen:
            ready = select.select([fd], [], [], end - time.monotonic())[0]
            assert ready, seen
            seen += os.read(fd, 4096)
        seen = b""
        os.write(fd, send)

    read_until(b"> ", b"sea\t")
    read_until(b"search ", b"aut\t")
    read_until(b"auth ", b"host=h1\n")
    read_until(b"19 left", b"/quit\n")
    _, status = os.waitpid(pid, 0)
    assert status == 0


def test_play_in_a_pipe_needs_no_terminal() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "ftw_agents.cli", "play", L1, "--seed", "1"],
        input="report\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "failed: score 0" in run.stdout
