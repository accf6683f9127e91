"""The commands of an incident: any string is answered, and every reply is as documented."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from incidents import attempt, begin, incident

from ftw_agents.play_incident import words_after
from ftw_agents.scripted.investigators import expert
from ftw_envs.actions import MAX_REPLY_CHARS
from ftw_envs.incident.commands import CommandGrammar
from ftw_envs.incident.generate import draw
from ftw_envs.incident.guide import SLOT_TEXT, VERB_TEXT
from ftw_envs.incident.levels import LEVELS, SOURCES
from ftw_envs.incident.log import ACT_NAMES, ACTS
from ftw_envs.incident.raw import raw_line
from ftw_envs.incident.techniques import IMPACTS, PERSISTENCE, VECTORS

levels = pytest.mark.parametrize("level", range(len(LEVELS)))

ENVS = [incident(level) for level in range(len(LEVELS))]
GRAMMARS = [CommandGrammar(draw(level, "test", 0)) for level in range(len(LEVELS))]
_words = st.sampled_from(
    [*VERB_TEXT, *SOURCES, *SLOT_TEXT, *ACT_NAMES, "h1", "u1", "x1", "i1", "r1", "h99", "10m",
     "since=90m", "since=t-90", "until=", "n=3", "n=-1", "n=²", "by=src", "by=", "host=h1",
     "host=", "host=h0", "user=u1", "act=accept", "path=h1,h2", "path=h1,,h1", "start=t-9",
     "start=t+99999", "=", "==", "host=h1=h2", "entry=h1", "accounts=u1,u2", "verdict=none"]
)  # fmt: skip
_lines = st.one_of(st.text(), st.lists(_words, max_size=6).map(" ".join))


@given(st.integers(0, len(LEVELS) - 1), st.lists(_lines, max_size=8), st.integers(0, 2**63 - 1))
@settings(max_examples=150)
def test_any_string_is_answered(level: int, lines: list[str], seed: int) -> None:
    env = ENVS[level]
    begin(env, seed % 50, seed)
    for line in [*lines, "report", "hosts", "report"]:
        text, _, terminated, truncated, info = env.step(line)
        assert 0 < len(text) <= LEVELS[level].reply
        assert set(text) <= {*string.ascii_letters, *string.digits, *string.punctuation, " ", "\n"}
        assert (info["truth"] is not None) == (terminated or truncated)


@given(st.integers(0, len(LEVELS) - 1), _lines)
@settings(max_examples=300)
def test_what_is_read_reads_as_itself(level: int, line: str) -> None:
    grammar = GRAMMARS[level]
    parsed = grammar.parse(line)
    if parsed.action is None:
        assert parsed.error is not None
        assert "\n" not in parsed.error
        assert len(parsed.error) < 400
    else:
        assert str(grammar.read(parsed.action)) == parsed.action


@levels
def test_blind_commands_are_commands(level: int) -> None:
    for action in GRAMMARS[level].actions:
        assert GRAMMARS[level].parse(action).action is not None, action


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("serach auth", "no command 'serach', perhaps search"),
        ("search ath", "no such source 'ath', perhaps auth; sources are auth, net, audit"),
        ("search web", "no such source 'web'"),
        ("search auth host=h9", "host: no 'h9'; hosts are h1 to h6"),
        ("search auth user=u0", "user: no 'u0'; accounts are u1 to u8"),
        ("search auth act=cron", "act of auth: no 'cron'; there are accept, fail, push, reset"),
        ("search auth hots=h1", "search has no 'hots'=, perhaps host"),
        ("search auth since=yesterday", "since: a time is 90m, 2h (ago), or t-90"),
        ("search auth n=0", "n is a number of rows from 1 to 50"),
        ("search auth host=h1 host=h2", "'host' is given twice"),
        ("search", "The form is: search auth|net|audit"),
        ("count auth", "by: no ''; there are host, user, src, dst, act"),
        ("inspect h1 door", "inspect: no 'door'; there are ps, net"),
        ("raw 7", "as in raw r1"),
        ("wait 2h", "wait takes 1m to 60m"),
        ("set", "set what? Slots are entry, path, accounts, vector, c2"),
        ("set persist=cron", "set has no 'persist'"),
        ("set entry=x1", "entry: no 'x1'; hosts are h1 to h6"),
        ("set path=h1,h1", "path: each only once"),
        ("set vector=magic", "vector: no 'magic'"),
        ("drop c3", "drop: no 'c3', perhaps c2"),
        ("report now", "The form is: report"),
        ("isolate h1", "no command 'isolate'"),
        ("hosts\nusers", "One command in one line"),
        ("", "no command in the reply"),
        ("[hosts] [users]", "more than one answer"),
    ],
)
def test_refusals_say_what_would_be_right(line: str, why: str) -> None:
    env = ENVS[1]
    begin(env)
    text, _, _, _, info = env.step(line)
    assert why in text
    assert (info["invalid_actions"], info["minutes"]) == (1, 0)


@pytest.mark.parametrize(
    "dressed",
    ["search auth host=h1 act=accept", "SEARCH auth act=accept host=H1", "  search  auth host=h1 "
     "act=accept.", "<answer>search auth act=accept host=h1</answer>", "[search auth host=h1 "
     "act=accept]", "Action: search auth host=h1 act=accept", "<think>set c2=x1?</think>"
     "search auth host=h1 act=accept", "`search auth act=accept host=h1`"],
)  # fmt: skip
def test_commands_may_be_dressed(dressed: str) -> None:
    assert GRAMMARS[1].parse(dressed).action == "search auth act=accept host=h1"


def test_too_long_a_reply_is_refused() -> None:
    begin(ENVS[1])
    assert "over 20000 characters" in ENVS[1].step("x" * (MAX_REPLY_CHARS + 1))[0]


@levels
def test_names_stand_for_handles(level: int) -> None:
    """Each slot takes every alias of its right value."""
    case, grammar = draw(level, "test", 0), GRAMMARS[level]
    for i, host in enumerate(case.hosts):
        assert grammar.slot("entry", host.name) == f"h{i + 1}"
        assert str(grammar.read(f"search auth host={host.name}")) == f"search auth host=h{i + 1}"
    for i, user in enumerate(case.users):
        assert grammar.slot("accounts", user.name) == f"u{i + 1}"
    for slot, table in (("vector", VECTORS), ("persist", PERSISTENCE), ("impact", IMPACTS)):
        for word, technique in table.items():
            assert grammar.slot(slot, word) == word
            said = grammar.slot(slot, technique.lower())
            assert table[said] == technique  # two words may share a technique: the first of them
    assert grammar.slot("path", "h1>h2>h3") == "h1,h2,h3"
    assert grammar.slot("accounts", "u3,u1") == "u1,u3"


@levels
def test_the_task_names_what_there_is(level: int) -> None:
    """Every slot is explained; every source and verb that is named works, and no other."""
    env = ENVS[level]
    text, _ = begin(env)
    for slot in env.level.slots:
        assert f"\n{slot}: {SLOT_TEXT[slot]}" in text
    for source in SOURCES:
        begin(env)
        reply = env.step(f"search {source}")[0]
        assert ("no such source" in reply) == (source not in env.level.sources)
    for verb in VERB_TEXT:
        begin(env)
        known = "There is no command" not in env.step(verb)[0]
        assert known == (VERB_TEXT[verb] in text)
        assert known == (verb in env.grammar.verbs)
    assert len(text) <= 4000


@pytest.mark.parametrize("level", range(5))
def test_the_brief_task_is_the_same_task(level: int) -> None:
    """It names what differs between instances; players and the world do as with the full one."""
    full, brief = incident(level), incident(level, guide="brief")
    for i in range(5):
        long, short = begin(full, i)[0], begin(brief, i)[0]
        assert len(short) < len(long) / 2
        for words in (*brief.level.slots, *brief.level.sources, *brief.grammar.verbs):
            assert words in short
        assert short.split(". ")[0] == long.split(". ")[0]
        assert attempt(full, expert, i, 1)[1] == attempt(brief, expert, i, 1)[1]
    with pytest.raises(ValueError, match="guide must be one of full, brief, got 'none'"):
        incident(level, guide="none")


def test_help() -> None:
    env = ENVS[4]
    begin(env)
    for topic in (*env.grammar.verbs, *env.level.slots):
        reply = env.step(f"help {topic}")[0]
        assert topic in reply.split("\n")[1]
        env.steps = 0


def test_counts_and_searches_agree() -> None:
    env = incident(4, freeze=True, max_steps=10_000)
    for i in range(3):
        begin(env, i)
        for source in env.level.sources:
            reply = env.step(f"count {source} by=act host=h1")[0]
            for act, n in re.findall(r"([a-z]+):([0-9]+)", reply):
                assert act in ACTS[source]
                rows = env.step(f"search {source} host=h1 act={act} n=50")[0]
                shown = len(re.findall(r"^r[0-9]+ ", rows, re.M))
                left = re.search(r"([0-9]+) more", rows)
                assert shown + (int(left[1]) if left else 0) == int(n)


def test_times_in_filters() -> None:
    env = incident(1, freeze=True, max_steps=1000)
    begin(env, 3)
    env.step("wait 60m")
    for text in ("since=t-60", "since=2h", "until=t-60", "since=t-120 until=t-60"):
        rows = env.step(f"search net n=50 {text}")[0]
        times = [int(t) for t in re.findall(r"^r[0-9]+ t([+-][0-9]+)", rows, re.M)]
        assert times == sorted(times, reverse=True)
        now = env.world.now // 60
        low = {"since=2h": now - 120, "until=t-60": -(10**9)}.get(text, -60)
        low = -120 if "120" in text else low
        high = -60 if "until" in text else 10**9
        assert all(low <= t <= high for t in times)


# Reports


def test_contradictions_are_not_filed() -> None:
    env = ENVS[2]
    for lines, why in (
        (("set entry=h1 path=h2,h3",), "the path begins with h2, but entry is h1"),
        (("set verdict=none", "set c2=x1"), "verdict=none goes with no other slot, but c2 is set"),
    ):
        begin(env)
        for line in lines:
            env.step(line)
        text, _, terminated, _, info = env.step("report")
        assert f"not filed: {why}" in text
        assert not terminated
        assert info["truth"] is None


def test_set_overwrites_and_drop_takes_away() -> None:
    env = ENVS[1]
    begin(env)
    env.step("set entry=h1 c2=x2")
    assert env.step("set entry=h2")[0].endswith("report: entry=h2 c2=x2")
    assert env.step("drop entry")[0].endswith("report: c2=x2")
    assert env.step("drop entry")[0].endswith("report: c2=x2")
    assert env.step("report")[0].endswith("filed: c2=x2")


# Raw lines

SYSLOG = re.compile(r"[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [a-z]+ [a-z_-]+(\[[0-9]+\])?: .+")
SSHD = re.compile(
    r"(Accepted (password|publickey|keyboard-interactive/pam) for [a-z]+ from [0-9.]+ port [0-9]+ "
    r"ssh2(: .+)?|Failed password for [a-z]+ from [0-9.]+ port [0-9]+ ssh2)"
)


def test_raw_lines_have_their_formats() -> None:
    """Every row of every level can be shown whole; Linux logins are OpenSSH's words."""
    sshd = 0
    for level in range(len(LEVELS)):
        env = incident(level, freeze=True)
        for i in range(4):
            begin(env, i)
            log, world = env.world.log, env.world
            for row in range(0, len(log.t), 1 + len(log.t) // 300):
                line = raw_line(world, row)
                assert "\n" not in line
                assert line.isascii()
                host = world.incident.hosts[log.host[row]]
                act, source = ACT_NAMES[log.act[row]], SOURCES[log.source[row]]
                if source == "auth" and host.platform == "linux" and act in ("accept", "fail"):
                    sshd += 1
                    assert SYSLOG.fullmatch(line), line
                    assert SSHD.search(line), line
                if line.startswith("{"):
                    import json

                    json.loads(line)
    assert sshd > 100


def test_raw_shows_a_row_that_was_seen_and_no_other() -> None:
    env = ENVS[1]
    begin(env, 2)
    assert "no row r1; none so far" in env.step("raw r1")[0]
    env.step("search auth n=2")
    assert "no row" not in env.step("raw r1")[0]
    assert "no row r3; rows so far are r1 to r2" in env.step("raw r3")[0]


# Completion


def test_completion_leads_to_commands() -> None:
    grammar = GRAMMARS[3]
    assert words_after(grammar, "") == list(grammar.verbs)
    assert words_after(grammar, "search ") == list(LEVELS[3].sources)
    assert "act=" in words_after(grammar, "search auth ")
    assert words_after(grammar, "search auth act=") == list(ACTS["auth"])
    assert "src" in words_after(grammar, "count net by=")
    assert "h16" in words_after(grammar, "search auth host=")
    assert "cron" in words_after(grammar, "set persist=")
    assert "u24" in words_after(grammar, "ask ")
    assert words_after(grammar, "ask u1 ") == ["logins", "travel"]
    assert "persist=" in words_after(grammar, "set entry=h1 ")


def test_expert_never_errs_in_form() -> None:
    for level in range(len(LEVELS)):
        for i in range(5):
            info, _ = attempt(ENVS[level], expert, i, i)
            assert info["invalid_actions"] == 0
