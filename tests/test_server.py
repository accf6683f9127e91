"""The evaluation server: the same results as at home, whatever strangers, cables and kills do."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from round_samples import EXPERT, NAME, SECRET, about_expert, commitment, drawn

from ftw_agents.agent import Agent, History, Reply
from ftw_agents.cli import main
from ftw_agents.collect import Collector
from ftw_agents.scripted.players import SCRIPTED
from ftw_envs.actions import MAX_REPLY_CHARS
from ftw_envs.episode import Episode, read_episodes, write_episodes
from ftw_envs.streams import Stream
from leaderboards.chain import Chain, ChainError, read_chain
from leaderboards.exam import Exam, Limits, RefusedError
from leaderboards.keys import save_secret
from leaderboards.logged import episodes_of, log_facts, runs_in
from leaderboards.remote import RemoteEnv, RemoteError, Server, remote_envs
from leaderboards.rounds import RoundError, RoundFolder, order_of, starts_of
from leaderboards.runs import Source
from leaderboards.schema import EntryError
from leaderboards.sealed import read_round, reveal_round
from leaderboards.server import MAX_BODY, ExamServer, _Rate
from leaderboards.submit import submit

KEY = SECRET.master_key
NOON = 1768305600.0
"""2026-01-13 12:00 UTC, in the run window of the rounds."""
OTHER = "other-one"
TOKENS = {EXPERT: "e" * 40, OTHER: "o" * 40}
INCIDENT = "ftw/IncidentL1-v0"


class Clock:
    """Time that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


class Hall:
    """A round on tier T3 with two participants of two runs, and what serves it."""

    def __init__(self, path: Path, episodes: int, runs: tuple[int, ...] = (0, 1)) -> None:
        teams = tuple(commitment(slug, runs) for slug in TOKENS)
        self.folder: RoundFolder = drawn(path / "rounds", "T3", teams, episodes=episodes)
        self.log, self.clock = path / "log.jsonl", Clock()

    @contextmanager
    def exam(self, **limits: int) -> Iterator[Exam]:
        with closing(Exam(self.folder, KEY, self.log, Limits(**limits), self.clock)) as exam:
            yield exam

    @contextmanager
    def serve(self, limits: dict[str, int] | None = None, **more: Any) -> Iterator[ExamServer]:
        with self.exam(**limits or {}) as exam, ExamServer(exam, TOKENS, **more) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()

    def play(self, url: str, agent: Agent, slug: str = EXPERT, run: int = 0) -> list[Episode]:
        """What a participant's side sees."""
        with Server(url, TOKENS[slug], run, patience=20) as server:
            new_env, starts = remote_envs(server)
            collector = Collector(INCIDENT, {}, batch=8, new_env=new_env)
            return list(collector.play(agent, starts))

    def client(self, server: ExamServer, patience: float = 10) -> Server:
        return Server(server.url, TOKENS[EXPERT], 0, patience)

    def logged(self, slug: str = EXPERT, run: int = 0) -> list[Episode]:
        return list(episodes_of(self.folder, KEY, self.log, slug, run))

    def starts(self) -> list[Any]:
        assert self.folder.draw is not None
        return starts_of(self.folder.round, KEY, self.folder.draw.beacon, "sealed")

    def at_home(self, agent: Agent) -> list[Episode]:
        """The same starts played here, in their order."""
        return list(Collector(INCIDENT, {}).play(agent, self.starts()))


@pytest.fixture
def hall(tmp_path: Path) -> Hall:
    return Hall(tmp_path, 6)


def said(episode: Episode) -> list[str]:
    return [turn.reply for turn in episode.turns]


# The same as at home


def test_the_expert_gets_the_same_results_as_at_home(hall: Hall) -> None:
    with hall.serve() as server:
        seen = hall.play(server.url, SCRIPTED["expert"]())
    home, logged = hall.at_home(SCRIPTED["expert"]()), hall.logged()
    assert logged == home
    order = order_of(hall.folder.round, KEY, EXPERT, 0)
    assert [(e.solved, e.score, e.end, said(e)) for e in seen] == [
        (e.solved, e.score, e.end, said(e)) for e in (home[i] for i in order)
    ]
    assert sum(e.solved for e in home) >= 3


class _OtherDice:
    """Plays at home with the dice that an agent has on the server: places name them."""

    def __init__(self, agent: Agent, places: list[int]) -> None:
        self._agent, self._places, self._dice = agent, iter(places), dict[History, Stream]()

    def act(self, histories: list[History]) -> list[Reply]:
        for history in histories:
            if history not in self._dice:
                place = next(self._places)
                self._dice[history] = Stream("player", 0, "sealed", place, 0)
        return self._agent.act([replace(h, stream=self._dice[h]) for h in histories])


def test_random_play_gets_the_same_results_as_at_home(hall: Hall) -> None:
    with hall.serve() as server:
        hall.play(server.url, SCRIPTED["random"]())
    order = order_of(hall.folder.round, KEY, EXPERT, 0)
    places = [order.index(i) for i in range(len(order))]
    assert hall.logged() == hall.at_home(_OtherDice(SCRIPTED["random"](), places))


def test_participants_play_at_the_same_time(hall: Hall) -> None:
    jobs = [(slug, run) for slug in TOKENS for run in (0, 1)]
    with hall.serve() as server, ThreadPoolExecutor(4) as pool:
        done = [
            pool.submit(hall.play, server.url, SCRIPTED["expert"](), slug, run)
            for slug, run in jobs
        ]
        for job in done:
            job.result()
    assert runs_in(hall.folder, hall.log) == sorted(jobs)
    home = hall.at_home(SCRIPTED["expert"]())
    for slug, run in jobs:
        assert hall.logged(slug, run) == home
    facts = log_facts(hall.folder, KEY, hall.log)
    assert [(p.slug, p.run) for p in facts.played] == sorted(jobs)
    assert len({p.trace for p in facts.played}) == 1
    assert facts.lines == sum(1 for _ in read_chain(hall.log))
    reveal_round(hall.folder, SECRET, "2026-01-21", facts)


def test_nothing_is_told_but_what_the_agent_sees(hall: Hall) -> None:
    """No instance, no noise, no truth, and before the end no score."""
    told: list[dict[str, Any]] = []
    with hall.serve() as server:
        answer = server.answer
        server.answer = lambda *a: told.append(answer(*a)) or told[-1]  # type: ignore[method-assign,func-returns-value]
        hall.play(server.url, SCRIPTED["expert"]())
    open_keys = {"observation", "turn", "end", "receipt"}
    steps = [t for t in told if "observation" in t]
    assert {frozenset(t) for t in steps if not t["end"]} == {frozenset(open_keys)}
    ended = [t for t in steps if t["end"]]
    assert {frozenset(t) for t in ended} == {frozenset(open_keys | {"solved", "score"})}
    assert len(ended) == 6
    text = json.dumps(told)
    for start, episode in zip(hall.starts(), hall.logged(), strict=True):
        for secret in (str(start.index), str(start.seed), episode.instance.hash):
            assert secret not in text
    seen = {t for e in hall.logged() for t in [e.final_observation, *map(_seen, e.turns)]}
    assert {t["observation"] for t in steps} == seen


def _seen(turn: Any) -> str:
    return str(turn.observation)


# One attempt each


def test_nothing_is_begun_or_answered_twice(hall: Hall) -> None:
    with hall.exam() as exam:
        first = exam.reset(EXPERT, 0, 3, "a" * 32)
        assert exam.reset(EXPERT, 0, 3, "a" * 32) == first  # its answer was lost
        with pytest.raises(RefusedError, match="place 3 was begun already") as e:
            exam.reset(EXPERT, 0, 3, "b" * 32)
        assert e.value.status == 409
        second = exam.step(EXPERT, 0, 3, 0, "hosts")
        assert exam.step(EXPERT, 0, 3, 0, "hosts") == second
        for turn, reply in ((0, "users"), (2, "users")):
            with pytest.raises(RefusedError, match=f"place 3 is at turn 1, not {turn}"):
                exam.step(EXPERT, 0, 3, turn, reply)
        with pytest.raises(RefusedError, match="place 3 was begun already"):
            exam.reset(EXPERT, 0, 3, "a" * 32)  # not even so after the first reply
        last = exam.step(EXPERT, 0, 3, 1, "report")
        assert last["end"] == "failed"
        again = exam.step(EXPERT, 0, 3, 1, "report")
        assert again == {**last, "observation": ""}
        with pytest.raises(RefusedError, match=r"place 3 has ended \(failed\)") as e:
            exam.step(EXPERT, 0, 3, 2, "report")
        assert e.value.status == 410
        with pytest.raises(RefusedError, match="place 3 was begun already"):
            exam.reset(EXPERT, 0, 3, "a" * 32)
        with pytest.raises(RefusedError, match="place 4 was not begun yet"):
            exam.step(EXPERT, 0, 4, 0, "hosts")
        # Another run of the same participant meets another order, and has its own attempts.
        exam.reset(EXPERT, 1, 3, "c" * 32)
    order = order_of(hall.folder.round, KEY, EXPERT, 0)
    assert said(hall.logged()[order[3]]) == ["hosts", "report"]


def test_of_replies_to_one_turn_one_is_taken(hall: Hall) -> None:
    replies = [f"search auth host=h{i}" for i in range(1, 7)] * 2
    with hall.serve() as server, ExitStack() as stack:
        clients = [
            stack.enter_context(Server(server.url, TOKENS[EXPERT], 0, patience=5)) for _ in replies
        ]
        clients[0].ask("/reset", place=0, key="a" * 32)
        for turn in range(5):
            gate = threading.Barrier(len(replies))

            def answer(client: Server, reply: str, gate: Any = gate, turn: int = turn) -> Any:
                gate.wait()
                try:
                    return reply, client.ask("/step", place=0, turn=turn, reply=reply)
                except RemoteError as e:
                    return e.status

            with ThreadPoolExecutor(len(replies)) as pool:
                got = list(pool.map(answer, clients, replies))
            taken = [g for g in got if g != 409]
            assert len(taken) == 2  # the same words, twice: asked twice, played once
            assert taken[0] == taken[1]
            steps = [x for x in read_chain(hall.log) if x["event"] == "step"]
            assert [x["turn"] for x in steps] == list(range(turn + 1))
            assert steps[-1]["reply"] == taken[0][0]


def test_what_is_not_brought_to_an_end_has_failed(hall: Hall) -> None:
    """Begun and left, given up by the clock, or never begun: all count, and all can be played."""
    order = order_of(hall.folder.round, KEY, EXPERT, 0)
    with hall.exam(seconds=100) as exam:
        exam.reset(EXPERT, 0, 0, "a" * 32)
        exam.step(EXPERT, 0, 0, 0, "hosts")
        hall.clock.now += 101
        with pytest.raises(RefusedError, match=r"has ended \(given up\)"):
            exam.step(EXPERT, 0, 0, 1, "users")
        exam.reset(EXPERT, 0, 1, "b" * 32)
        exam.step(EXPERT, 0, 1, 0, "users")
        assert exam.status(EXPERT, 0)["open"] == {"1": 1}
        assert exam.status(EXPERT, 0)["ended"] == {"0": "given up"}
    with hall.exam(seconds=100) as exam:  # a restart does not give time back
        hall.clock.now += 101
        with pytest.raises(RefusedError, match=r"has ended \(given up\)"):
            exam.step(EXPERT, 0, 1, 1, "hosts")
    logged = hall.logged()
    assert [e.solved for e in logged] == [False] * 6
    assert {e.end for e in logged} <= {"failed", "time_limit"}
    assert said(logged[order[0]])[:3] == ["hosts", "", ""]
    assert said(logged[order[1]])[:2] == ["users", ""]
    assert set(said(logged[order[2]])) == {""}
    with hall.serve() as server:  # the client's side of an attempt that was given up
        with hall.client(server) as client:
            env = RemoteEnv(client, "incident-l1", [])
            env.reset(options={"split": "sealed", "index": 2})
            hall.clock.now += 4 * 3600 + 1
            _, reward, terminated, truncated, info = env.step("hosts")
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert (info["end"], info["solved"]) == ("time_limit", False)


def test_a_player_that_comes_again_plays_what_is_left(hall: Hall) -> None:
    class Stops(Exception):
        pass

    class Once:
        def __init__(self) -> None:
            self.agent, self.turns = SCRIPTED["expert"](), 0

        def act(self, histories: list[History]) -> list[Reply]:
            self.turns += 1
            if self.turns == 20:
                raise Stops
            return self.agent.act(histories)

    with hall.serve() as server, hall.client(server) as remote:
        new_env, starts = remote_envs(remote)
        with pytest.raises(Stops):
            list(Collector(INCIDENT, {}, batch=2, new_env=new_env).play(Once(), starts))
        state = remote.ask("/status")
        assert state["open"]
        assert state["ended"]
        hall.play(server.url, SCRIPTED["expert"]())
        state = remote.ask("/status")
        assert not state["open"]
        assert len(state["ended"]) == 6
        assert hall.play(server.url, SCRIPTED["expert"]()) == []
    home, order = hall.at_home(SCRIPTED["expert"]()), order_of(hall.folder.round, KEY, EXPERT, 0)
    same = [a == b for a, b in zip(hall.logged(), home, strict=True)]
    assert sum(same) == 4
    assert {order.index(i) for i, x in enumerate(same) if not x} == {2, 3}  # those left open


def test_tokens_are_told_once(hall: Hall) -> None:
    with hall.exam() as exam:
        exam.reset(EXPERT, 0, 0, "a" * 32)
        with pytest.raises(RefusedError, match="told once, after its end"):
            exam.tokens(EXPERT, 0, 0, 5, 6)
        exam.step(EXPERT, 0, 0, 0, "report")
        for _ in range(2):
            exam.tokens(EXPERT, 0, 0, 5, 6)
        with pytest.raises(RefusedError, match="told once, after its end"):
            exam.tokens(EXPERT, 0, 0, 5, 7)
    with hall.exam() as exam, pytest.raises(RefusedError, match="told once"):
        exam.tokens(EXPERT, 0, 0, 5, 7)
    place = order_of(hall.folder.round, KEY, EXPERT, 0)[0]
    tokens = [(e.tokens_in, e.tokens_out) for e in hall.logged()]
    assert tokens == [(5, 6) if i == place else (0, 0) for i in range(6)]


# Kills, and the log


SERVE = """
import sys, time
time.time = lambda: {noon}
from ftw_agents.cli import main
main(["round", "serve", {name!r}, *sys.argv[1:]])
"""


def test_a_server_that_is_killed_again_and_again_loses_nothing(hall: Hall, tmp_path: Path) -> None:
    secret = tmp_path / "key.json"
    save_secret(secret, NAME, SECRET)
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"round": NAME, "tokens": TOKENS}))
    tokens.chmod(0o600)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable, "-c", SERVE.format(noon=NOON, name=NAME), "--secret", secret, "--tokens",
        tokens, "--log", hall.log, "--port", port, "--rounds", hall.folder.path.parent,
    ]  # fmt: skip
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([str(c) for c in command], env=env, stdout=subprocess.DEVNULL)

    process, lines = start(), 0
    try:
        with ThreadPoolExecutor(1) as pool:
            playing = pool.submit(hall.play, f"http://127.0.0.1:{port}", SCRIPTED["expert"]())
            kills = 0
            while not playing.done():
                now = hall.log.read_bytes().count(b"\n") if hall.log.exists() else 0
                if now >= lines + 25 and kills < 3:
                    process.kill()
                    process.wait()
                    kills, lines = kills + 1, now
                    process = start()
                time.sleep(0.005)
            playing.result()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait() in (0, -signal.SIGTERM)
    assert kills >= 2
    assert hall.logged() == hall.at_home(SCRIPTED["expert"]())


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    """A log of 12 lines, and the hash of its last one."""
    path = tmp_path_factory.mktemp("chain") / "log"
    with Chain(path) as log:
        for i in range(12):
            log.append({"event": "step", "reply": f"reply {i} é\u0000"})
        return path.read_bytes(), log.head


def _head(path: Path) -> str:
    return str([line["hash"] for line in read_chain(path)][-1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_every_change_of_a_log_is_found(
    chain: tuple[bytes, str], tmp_path: Path, data: st.DataObject
) -> None:
    raw, head = chain
    lines = raw.splitlines(keepends=True)
    how = data.draw(st.sampled_from(["byte", "drop", "swap", "double", "cut", "tail"]))
    i = data.draw(st.integers(0, len(lines) - 2))
    if how == "byte":
        at, new = data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(0, 255))
        changed = raw[:at] + bytes([new]) + raw[at + 1 :]
    elif how == "cut":
        changed = raw[: data.draw(st.integers(1, len(raw) - 1))]
    else:
        changed = b"".join({
            "drop": lines[:i] + lines[i + 1 :],
            "swap": [*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]],
            "double": [*lines[: i + 1], *lines[i:]],
            "tail": lines[: i + 1],
        }[how])  # fmt: skip
    path = tmp_path / "log"
    path.write_bytes(changed)
    try:
        found = _head(path)
    except ChainError:
        assert changed != raw
    else:  # lines were taken from the end, or the last was changed: its hash is another
        assert (found == head) == (changed == raw)


def test_a_line_that_was_cut_off_is_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with Chain(path) as log:
        log.append({"a": 1})
        kept = log.head
        log.append({"a": 2})
    whole = path.read_bytes()
    second = whole.index(b"\n") + 2
    for end in range(second, len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(ChainError, match=":2: cut off"):
            list(read_chain(path))
        with Chain(path) as log:
            assert (log.lines, log.head) == (1, kept)
            log.append({"a": 2})
        assert path.read_bytes() == whole


def test_a_log_has_one_writer_and_one_round(hall: Hall, tmp_path: Path) -> None:
    with hall.exam(), pytest.raises(ChainError, match="another process is writing it"):
        Chain(hall.log)
    other = Hall(tmp_path / "other", 4)
    with pytest.raises(ChainError, match="not a log of round"):
        Exam(other.folder, KEY, hall.log)
    with pytest.raises(RoundError, match="not the one that was drawn with"):
        Exam(hall.folder, bytes(32), hall.log)
    facts = log_facts(hall.folder, KEY, hall.log)
    reveal_round(hall.folder, SECRET, "2026-01-21", facts)
    with pytest.raises(RoundError, match="revealed already, nothing can be played"):
        Exam(read_round(hall.folder.path.parent, NAME), KEY, hall.log)
    with pytest.raises(RoundError, match="only a round on tier T3"):
        Exam(drawn(tmp_path / "t2"), KEY, tmp_path / "new.jsonl")


def test_a_log_that_does_not_go_as_it_went_is_refused(hall: Hall) -> None:
    """Whoever rewrites the whole chain is found out by playing it again."""
    with hall.exam() as exam:
        exam.reset(EXPERT, 0, 0, "a" * 32)
        exam.step(EXPERT, 0, 0, 0, "hosts")
    events = list(read_chain(hall.log))
    hall.log.unlink()
    with Chain(hall.log) as log:
        for event in events:
            event = {k: v for k, v in event.items() if k not in ("n", "previous", "hash", "at")}
            log.append({**event, "reply": "users"} if event["event"] == "step" else event)
    with pytest.raises(ChainError, match="does not go as it went before"), hall.exam():
        pass


def test_receipts_prove_what_was_said(hall: Hall) -> None:
    with hall.exam() as exam:
        receipts = [exam.reset(EXPERT, 0, 0, "a" * 32)["receipt"]]
        receipts += [exam.step(EXPERT, 0, 0, i, "hosts")["receipt"] for i in range(4)]
        assert exam.head == (6, receipts[-1])
    assert [line["hash"] for line in read_chain(hall.log)][1:] == receipts


def test_a_full_disk_stops_the_exam_and_harms_nothing(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hall.serve() as server, hall.client(server, 0.2) as client:
        client.ask("/reset", place=0, key="a" * 32)
        before = client.ask("/step", place=0, turn=0, reply="hosts")
        fsync = os.fsync

        def full(handle: int) -> None:
            raise OSError("no space left")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(RemoteError, match="a fault of the server") as e:
            client.ask("/step", place=0, turn=1, reply="users")
        assert e.value.status == 500
        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(RemoteError, match="the log cannot be written") as e:
            client.ask("/step", place=0, turn=1, reply="users")
        assert e.value.status == 503
    with hall.serve() as server, hall.client(server) as client:
        after = client.ask("/step", place=0, turn=1, reply="users")
    assert after["turn"] == before["turn"] + 1


# Strangers


def http(server: ExamServer, data: bytes, timeout: float = 10) -> bytes:
    """What comes back when these bytes are sent."""
    with closing(socket.create_connection(server.server_address[:2], timeout)) as s:
        s.sendall(data)
        got = b""
        while piece := s.recv(65536):
            got += piece
            head, found, body = got.partition(b"\r\n\r\n")
            if found and b"Content-Length: " in head:
                size = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
                if len(body) >= size:
                    break
        return got


def post(path: str, body: bytes, *, token: str = TOKENS[EXPERT], head: str = "") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{head}"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


RESET = b'{"run":0,"place":0,"key":"%s"}' % (b"a" * 32)
STEP = b'{"run":0,"place":0,"turn":0,"reply":"hosts"}'
HOSTILE: list[tuple[bytes, int, bytes]] = [
    (post("/reset", RESET, token="wrong"), 401, b"no such token"),
    (post("/reset", RESET, token=""), 401, b"no such token"),
    (post("/reset", RESET, token="é" * 40), 401, b"no such token"),
    (post("/reset", RESET).replace(b"Bearer", b"Basic"), 401, b"no such token"),
    (post("/reset", b""), 400, b"not valid JSON"),
    (post("/reset", b"{"), 400, b"not valid JSON"),
    (post("/reset", b"\xff\xfe"), 400, b"not UTF-8"),
    (post("/reset", b"[]"), 400, b"should be a valid dictionary"),
    (post("/reset", b"[" * 100_000), 400, b"nested deeper"),
    (post("/reset", RESET.replace(b":0,", b":NaN,", 1)), 400, b"NaN is not a JSON number"),
    (post("/reset", RESET.replace(b":0,", b":1e999,", 1)), 400, b"out of range"),
    (post("/reset", RESET.replace(b":0,", b":" + b"9" * 5000 + b",", 1)), 400, b"out of range"),
    (post("/reset", RESET.replace(b":0,", b":0.0,", 1)), 400, b"valid integer"),
    (post("/reset", RESET.replace(b":0,", b":true,", 1)), 400, b"valid integer"),
    (post("/reset", RESET.replace(b":0,", b":-1,")), 400, b"greater than or equal to 0"),
    (post("/reset", RESET[:-1] + b',"seed":1}'), 400, b"Extra inputs are not permitted"),
    (post("/reset", RESET[:-1] + b',"run":0}'), 400, b"stands twice"),
    (post("/reset", RESET.replace(b"a" * 32, b"A" * 32)), 400, b"should match pattern"),
    (post("/reset", RESET.replace(b'"place":0', b'"place":6')), 404, b"places go from 0 to 5"),
    (post("/reset", RESET.replace(b'"run":0', b'"run":9')), 404, b"did not commit to a run 9"),
    (post("/step", STEP), 409, b"was not begun yet"),
    (post("/step", STEP.replace(b"hosts", b"\\ud800")), 400, b"lone surrogate"),
    (post("/step", STEP.replace(b"hosts", b"x" * 1_000_000)), 413, b"a body has at most"),
    (post("/step", STEP.replace(b'"hosts"', b"null")), 400, b"valid string"),
    (post("/tokens", b'{"run":0,"place":0,"tokens_in":1,"tokens_out":1}'), 409, b"told once"),
    (post("/refuse", b"{}"), 404, b"there is no '/refuse'"),
    (post("/close", b"{}"), 404, b"there is no '/close'"),
    (post("/_end", b"{}"), 404, b"there is no '/_end'"),
    (post("/../etc/passwd", b"{}"), 404, b"there is no"),
    (post("/reset", RESET, head="Transfer-Encoding: chunked\r\n"), 411, b"in one piece"),
    (post("/reset", RESET, head="Content-Length: 1\r\n"), 400, b"stands there twice"),
    (b"POST /reset HTTP/1.1\r\nHost: x\r\n\r\n", 411, b"say Content-Length"),
    (b"POST /reset HTTP/1.1\r\nContent-Length: -5\r\n\r\n", 411, b"say Content-Length"),
    (b"POST /reset HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 413, b"at most"),
    (b"GET /reset HTTP/1.1\r\nHost: x\r\n\r\n", 404, b"there is only /"),
    (b"PUT /reset HTTP/1.1\r\nHost: x\r\n\r\n", 501, b"Unsupported method"),
    (b"GET / HTTP/9.9\r\n\r\n", 505, b""),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400, b""),
    (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414, b""),
]  # fmt: skip


def test_what_strangers_send_is_refused_and_changes_nothing(hall: Hall) -> None:
    with hall.serve() as server:
        server._strangers = _Rate(1e9, time.monotonic)
        for data, status, message in HOSTILE:
            got = http(server, data)
            assert f" {status} ".encode() in got[:20] or got.startswith(b"<!DOCTYPE"), data[:200]
            assert message in got, (data[:200], got)
        exam = server.exam
        assert not exam._attempts
        refused = [e for e in read_chain(hall.log) if e["event"] == "refused"]
        read = [
            h
            for h in HOSTILE
            if h[0].startswith(b"POST") and h[1] not in (411, 413) and b"there twice" not in h[2]
        ]
        assert len(refused) == len(read)
        assert {e["slug"] for e in refused} == {EXPERT, ""}
        assert TOKENS[EXPERT] not in hall.log.read_text()
        assert http(server, post("/reset", RESET)).startswith(b"HTTP/1.1 200 ")


def test_long_replies_are_unusable_and_nothing_worse(hall: Hall) -> None:
    """A million characters from an agent: one turn, as at home; and whatever Unicode has."""
    texts = ["x" * 1_000_000, "😀" * 30_000, "\x00" * MAX_REPLY_CHARS, "\ud800", "é\u202e\u2028"]

    class Chatters:
        def act(self, histories: list[History]) -> list[Reply]:
            return [Reply([*texts, *["report"] * 20][len(h.replies)]) for h in histories]

    with hall.serve() as server:
        hall.play(server.url, Chatters())
    home = hall.at_home(Chatters())
    for there, here in zip(hall.logged(), home, strict=True):
        assert [t.observation for t in there.turns] == [t.observation for t in here.turns]
        assert (there.score, there.end) == (here.score, here.end)
        assert there.invalid_actions == here.invalid_actions == len(texts)
        assert [r[:MAX_REPLY_CHARS] for r in said(there)] == [
            r[:MAX_REPLY_CHARS] for r in said(here)
        ]
    assert max(map(len, hall.log.read_bytes().splitlines())) < MAX_BODY


def test_slow_and_silent_connections_are_cut_and_others_served(hall: Hall) -> None:
    with hall.serve(seconds=0.4, connections=5) as server, hall.client(server) as client:
        address = server.server_address[:2]
        open_ = [socket.create_connection(address, 10) for _ in range(4)]
        drip = open_[0]
        drip.sendall(b"POST /reset HTTP/1.1\r\nX: ")
        open_[1].sendall(post("/reset", RESET)[:-5])
        begin = time.monotonic()
        client.ask("/reset", place=1, key="a" * 32)  # the fifth connection is served meanwhile
        with suppress(OSError):  # one byte after another does not keep a connection
            while time.monotonic() < begin + 8:
                drip.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - begin < 5
        for s in open_:
            with closing(s):
                try:
                    rest = s.recv(1000)
                except ConnectionError:
                    continue
                assert rest == b"" or b"400" in rest or b"408" in rest
        client.ask("/reset", place=2, key="a" * 32)
        assert set(client.ask("/status")["open"]) == {"1", "2"}


def test_connections_are_counted(hall: Hall) -> None:
    with hall.serve(connections=3) as server:
        open_ = [socket.create_connection(server.server_address[:2], 10) for _ in range(3)]
        time.sleep(0.3)
        with closing(socket.create_connection(server.server_address[:2], 10)) as s:
            assert s.recv(10) == b""
        for s in open_:
            s.close()
        time.sleep(0.3)
        assert b"200 OK" in http(server, b"GET / HTTP/1.1\r\n\r\n")


def test_rates(hall: Hall) -> None:
    now = [0.0]
    rate = _Rate(2.0, lambda: now[0])
    assert [rate.wait() for _ in range(20)] == [0.0] * 20
    assert rate.wait() == pytest.approx(0.5)
    now[0] += 1.0
    assert [rate.wait() > 0 for _ in range(3)] == [False, False, True]
    now[0] += 1e6
    assert sum(rate.wait() == 0 for _ in range(50)) == 20
    with hall.serve(rate=1.0) as server:
        body = b'{"run":0}'
        codes = [http(server, post("/status", body))[9:12] for _ in range(40)]
        assert codes[:10] == [b"200"] * 10
        assert b"429" in codes
        other = http(server, post("/status", body, token=TOKENS[OTHER]))
        assert other[9:12] == b"200"
        assert len(list(read_chain(hall.log))) == 1  # a flood is refused, and not logged
        begin = time.monotonic()
        with hall.client(server) as client:
            client.ask("/status")  # it waits its turn
        assert time.monotonic() - begin < 5


def test_refusals_do_not_fill_the_log(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leaderboards.exam.MAX_LOGGED_REFUSALS", 5)
    with hall.exam() as exam:
        for i in range(20):
            exam.refuse(EXPERT, "x" * 10_000)
            exam.refuse(None, f"stranger {i}")
        exam.reset(OTHER, 0, 0, "a" * 32)
    lines = list(read_chain(hall.log))
    assert [e["event"] for e in lines] == ["open", *["refused"] * 10, "reset"]
    assert sum("later ones are not logged" in e["why"] for e in lines[1:11]) == 1
    assert hall.log.stat().st_size < 10_000


def test_limits(hall: Hall) -> None:
    with hall.exam(open_each=2, open_all=3, run_bytes=100) as exam:
        for place in (0, 1):
            exam.reset(EXPERT, 0, place, "a" * 32)
        with pytest.raises(RefusedError, match="2 attempts are open; end one first") as e:
            exam.reset(EXPERT, 1, 0, "a" * 32)
        assert e.value.status == 429
        exam.reset(OTHER, 0, 0, "a" * 32)
        with pytest.raises(RefusedError, match="too many attempts are open") as e:
            exam.reset(OTHER, 0, 1, "a" * 32)
        assert e.value.status == 503
        exam.step(EXPERT, 0, 0, 0, "x" * 60)
        with pytest.raises(RefusedError, match="a run has 100 bytes for its replies"):
            exam.step(EXPERT, 0, 1, 0, "x" * 60)
        exam.step(EXPERT, 0, 0, 1, "report")
        exam.reset(EXPERT, 1, 0, "a" * 32)
    with hall.exam(open_each=2, open_all=4, run_bytes=100) as exam:  # all of it after a restart
        with pytest.raises(RefusedError, match="2 attempts are open"):
            exam.reset(EXPERT, 1, 1, "a" * 32)
        with pytest.raises(RefusedError, match="a run has 100 bytes"):
            exam.step(EXPERT, 0, 1, 0, "x" * 60)
        hall.clock.now += 8 * 86400
        for ask in (
            lambda: exam.reset(OTHER, 0, 3, "a" * 32),
            lambda: exam.step(OTHER, 0, 0, 0, "hosts"),
            lambda: exam.status(EXPERT, 0),
        ):
            with pytest.raises(RefusedError, match="the run window closed with 2026-01-20") as e:
                ask()
            assert e.value.status == 403


def test_ended_attempts_take_no_room(hall: Hall) -> None:
    with hall.exam() as exam:
        for place in range(6):
            exam.reset(EXPERT, 0, place, secrets.token_hex(16))
            exam.step(EXPERT, 0, place, 0, "report")
        assert not exam._open
        assert {a.env for a in exam._attempts.values()} == {None}
        assert {a.observation for a in exam._attempts.values()} == {""}


# The client


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x/path", "x:80", ""])
def test_urls(url: str) -> None:
    with pytest.raises(ValueError, match="a server is http://host:port or https://host, got"):
        Server(url, "t", 0)
    with pytest.raises(ValueError, match="a token is made of letters") as e:
        Server("http://x", "my\nsecret", 0)
    assert "secret" not in str(e.value)


def test_a_server_that_is_not_there_is_an_error_in_one_line() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    begin = time.monotonic()
    with pytest.raises(RemoteError, match=r"no answer \(Connection") as e:
        Server(f"http://127.0.0.1:{port}", "t", 0, patience=0.3).ask("/status")
    assert "\n" not in str(e.value)
    assert time.monotonic() - begin < 5


def test_the_commands_on_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = Hall(tmp_path, 6, runs=(0,))
    monkeypatch.setattr("ftw_agents.round_commands._digest", lambda agent, env: f"{0:064x}")
    token, rounds = tmp_path / "token", str(hall.folder.path.parent)
    token.write_text(TOKENS[EXPERT] + "\n")
    with hall.serve() as server:
        args = ["round", "play", NAME, "expert", "--slug", EXPERT, "--token-file", str(token),
                "--rounds", rounds, "--date", "2026-01-13"]  # fmt: skip
        with pytest.raises(SystemExit):
            main(args)
        assert "is played on its server: --server and --token-file" in capsys.readouterr().err
        main([*args, "--server", server.url])
        assert "all 6 attempts of run 0 are played" in capsys.readouterr().out
    secret, log, out = tmp_path / "key.json", str(hall.log), tmp_path / "results"
    save_secret(secret, NAME, SECRET)
    at = ["--secret", str(secret), "--rounds", rounds]
    main(["round", "results", NAME, "--log", log, "--out", str(out), *at])
    assert list(read_episodes(out / EXPERT / "0" / "episodes.jsonl")) == hall.logged()
    main(["round", "reveal", NAME, "--log", log, "--date", "2026-01-21", *at])
    main(["round", "check", NAME, "--log", log, "--rounds", rounds])
    assert "played again it goes the same" in capsys.readouterr().out
    # The entry of what was played is proved on the server; that of other replies is not.

    def entry_of(agent: str) -> Any:
        return submit(
            [Source(tmp_path / agent)], "incident-l1", about_expert(), tmp_path / "entries",
            date="2026-01-22", slug=f"the-{agent}", rounds=hall.folder.path.parent,
        )[1]  # fmt: skip

    for agent in ("expert", "solver"):
        shutil.copytree(out / EXPERT / "0", tmp_path / agent)
    write_episodes(tmp_path / "solver" / "episodes.jsonl", hall.at_home(SCRIPTED["solver"]()))
    assert entry_of("expert").tier == "T3"
    with pytest.raises(EntryError, match="its replies are not those in the log of round round-1"):
        entry_of("solver")
    with Chain(hall.log) as chain_:
        chain_.append({"time": 0, "event": "tokens", "slug": EXPERT, "run": 0, "place": 0,
                       "tokens_in": 1, "tokens_out": 1})  # fmt: skip
    with pytest.raises(SystemExit):
        main(["round", "check", NAME, "--log", log, "--rounds", rounds])
    assert "is not the log that the reveal tells of" in capsys.readouterr().err
