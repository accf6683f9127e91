"""Sealed rounds: nobody can know or choose what is played, and everybody can check it."""

from __future__ import annotations

import hmac
import json
import shutil
import stat
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from round_samples import (
    AFTER,
    BEACON,
    COMMIT_BY,
    DRAWN,
    EXPERT,
    NAME,
    OPENED,
    RUN_BY,
    SECRET,
    about_expert,
    commitment,
    drawn,
    entry,
    opened,
)

from ftw_agents.cli import main
from ftw_agents.results import summarise
from ftw_agents.round_commands import _digest
from ftw_agents.starts import Start
from ftw_envs.episode import read_episodes
from ftw_envs.incident.families import HELD_OUT
from ftw_envs.incident.generate import draw, fingerprint
from ftw_envs.incident.names import names
from ftw_envs.registry import make
from ftw_envs.sokoban.levels import split_of
from ftw_envs.sokoban.solve import solve
from ftw_envs.text_env import SEALED_COUNT, EpisodeEnv
from leaderboards.boards import BOARDS, board_of, open_env
from leaderboards.identity import canonical
from leaderboards.keys import load_secret, new_secret, save_secret, tokens_for
from leaderboards.rounds import (
    Agent,
    Log,
    Played,
    Round,
    RoundError,
    Secret,
    commitment_of,
    folder_digest,
    order_of,
    published_starts,
    starts_of,
)
from leaderboards.runs import Source
from leaderboards.schema import EntryError
from leaderboards.sealed import (
    check_traces,
    commit,
    draw_round,
    open_round,
    played_in,
    read_round,
    reveal_round,
)
from leaderboards.submit import submit
from leaderboards.verify import verify


@pytest.fixture
def rounds(tmp_path: Path) -> Path:
    return tmp_path / "rounds"


@pytest.fixture
def env() -> EpisodeEnv:
    return open_env(board_of("incident-l1"), [])


def some_round(**facts: Any) -> Round:
    told = {
        "format": 1, "name": NAME, "board": "incident-l1", "tier": "T2", "suite_version": "0.1.0",
        "env_version": "x", "episodes": 5, "per_submitter": 1, "beacon": "a draw",
        "opened": OPENED, "commit_by": COMMIT_BY, "run_by": RUN_BY, "commitment": "0" * 64,
    }  # fmt: skip
    return Round.model_validate({**told, **facts})


def change(path: Path, *keys: Any, to: Any) -> None:
    """Changes one value of a JSON file."""
    data = place = json.loads(path.read_text())
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to
    path.write_text(json.dumps(data))


# Nobody can know


def test_a_commitment_cannot_be_broken_by_trying() -> None:
    """Not even that to a key that anybody would try first, for the salt is as long as the key."""
    weak = Secret(new_secret().salt, (7).to_bytes(32))
    round_ = some_round()
    promise = commitment_of(round_, weak)
    spec = canonical(round_.model_dump(exclude={"commitment"}))
    for number in range(1 << 16):
        key = number.to_bytes(32)
        for guess in (key, bytes(32) + key, key + bytes(32)):
            assert sha256(guess + spec).hexdigest() != promise
            assert sha256(b"ftw-round-1\n" + guess + spec).hexdigest() != promise
    assert promise == commitment_of(round_, weak)


def test_seeds_of_few_bits_do_not_give_the_starts() -> None:
    """What broke another board: a hold-out that followed from numbers everybody could go through.

    All keys of 12 bits, at any of the first starts; and the instances are no small numbers.
    """
    round_ = some_round(episodes=20)
    starts = set(starts_of(round_, new_secret().master_key, BEACON, "sealed"))
    for number in range(1 << 12):
        assert starts.isdisjoint(starts_of(round_, number.to_bytes(32), BEACON, "sealed"))
    assert min(s.index for s in starts) > 1_000_000
    assert min(s.seed for s in starts) > 1_000_000


def test_one_key_under_other_salts_is_another_promise() -> None:
    promises = {
        commitment_of(some_round(), Secret(new_secret().salt, SECRET.master_key)) for _ in range(50)
    }
    assert len(promises) == 50


def test_salts_and_keys_are_256_bits_and_never_shown() -> None:
    many = [new_secret() for _ in range(20)]
    parts = {p for s in many for p in (s.salt, s.master_key)}
    assert len(parts) == 40
    assert {len(p) for p in parts} == {32}
    for secret in many:
        for shown in (repr(secret), str(secret), f"{secret}"):
            assert secret.salt.hex()[:8] not in shown
            assert str(secret.salt) not in shown
            assert str(secret.master_key) not in shown


@pytest.mark.parametrize("tier", ["T2", "T3"])
def test_published_files_do_not_tell_the_secret(rounds: Path, tier: str) -> None:
    folder = drawn(rounds, tier)
    text = "".join(p.read_text() for p in folder.path.rglob("*.json"))
    assert SECRET.salt.hex() not in text
    assert SECRET.master_key.hex() not in text
    starts = starts_of(folder.round, SECRET.master_key, BEACON, "sealed")
    told = [str(x) in text for s in starts for x in (s.index, s.seed)]
    assert all(told) if tier == "T2" else not any(told)


# Nobody can choose


@given(st.binary(min_size=32, max_size=32), st.text(max_size=20), st.integers(1, 20))
def test_a_start_depends_on_nothing_but_its_number(key: bytes, beacon: str, n: int) -> None:
    some = starts_of(some_round(episodes=n), key, beacon, "sealed")
    more = starts_of(some_round(episodes=n + 7), key, beacon, "sealed")
    assert some == more[:n]
    for start in more:
        assert start.split == "sealed"
        assert 0 <= start.index < SEALED_COUNT
        assert 0 <= start.seed < 2**63
    assert len(set(more)) == n + 7


def test_every_part_of_the_draw_matters() -> None:
    base = some_round(episodes=3)
    other_key = bytes([SECRET.master_key[0] ^ 1]) + SECRET.master_key[1:]
    draws = [
        starts_of(base, SECRET.master_key, BEACON, "sealed"),
        starts_of(base, SECRET.master_key, BEACON + " ", "sealed"),
        starts_of(base, other_key, BEACON, "sealed"),
        starts_of(some_round(name="round-2"), SECRET.master_key, BEACON, "sealed"),
        starts_of(some_round(board="incident-l2"), SECRET.master_key, BEACON, "sealed"),
    ]
    indices = [s.index for starts in draws for s in starts[:3]]
    assert len(set(indices)) == len(indices)


def test_starts_fill_their_space() -> None:
    """Bits of instance and noise are even: of 2,000 draws, each bit is set in 45 to 55 %."""
    starts = starts_of(some_round(episodes=2000), SECRET.master_key, BEACON, "sealed")
    for values, bits in (([s.index for s in starts], 53), ([s.seed for s in starts], 63)):
        for bit in range(bits):
            assert 900 <= sum(v >> bit & 1 for v in values) <= 1100


def test_every_run_has_an_order_of_its_own() -> None:
    round_ = some_round(episodes=50)
    orders = [
        tuple(order_of(round_, SECRET.master_key, slug, run))
        for slug in ("one", "two")
        for run in range(3)
    ]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len(set(orders)) == 6


def test_the_hashes_in_plain_python() -> None:
    """What the documents say, so that anybody can work it out without this suite."""
    name = b'ftw-round-1\n["start","round-1","incident-l1","07 11 19 23 31 40 and 5",3]'
    mac = hmac.new(SECRET.master_key, name, "sha256").digest()
    index, seed = int(mac.hex()[:16], 16) // 2**11, int(mac.hex()[16:32], 16) // 2
    assert (index, seed) == (6724191889104249, 1366759688350184773)
    start = starts_of(some_round(), SECRET.master_key, BEACON, "sealed")[3]
    assert start == Start("sealed", index, seed)
    spec = (
        b'{"beacon":"a draw","board":"incident-l1","commit_by":"2026-01-10","env_version":"x",'
        b'"episodes":5,"format":1,"name":"round-1","opened":"2026-01-01","per_submitter":1,'
        b'"run_by":"2026-01-20","suite_version":"0.1.0","tier":"T2"}'
    )
    promise = sha256(b"ftw-round-1\n" + SECRET.salt + SECRET.master_key + spec).hexdigest()
    assert commitment_of(some_round(), SECRET) == promise


# A round, step by step


def test_a_round_from_its_opening_to_its_reveal(rounds: Path, env: EpisodeEnv) -> None:
    folder = opened(rounds)
    with pytest.raises(RoundError, match="not known before the draw"):
        played_in(entry(), rounds, env)
    commit(folder, commitment(), "2026-01-05")
    draw_round(read_round(rounds, NAME), BEACON, SECRET, DRAWN)
    published, tier = played_in(entry(), rounds, env)
    assert tier == "T1"  # until the reveal nobody can see that the starts were not chosen
    reveal_round(read_round(rounds, NAME), SECRET, AFTER)
    starts, tier = played_in(entry(), rounds, env)
    assert tier == "T2"
    assert starts == published == starts_of(folder.round, SECRET.master_key, BEACON, "sealed")


def test_on_the_server_starts_are_known_with_the_reveal_only(rounds: Path, env: EpisodeEnv) -> None:
    folder = drawn(rounds, "T3")
    assert folder.starts is None
    with pytest.raises(RoundError, match="not known before the reveal"):
        played_in(entry(), rounds, env)
    played = [Played(slug=EXPERT, run=0, trace="a" * 64)]
    log = Log(lines=9, head="b" * 64, played=played)
    reveal_round(folder, SECRET, AFTER, log)
    late = entry(submitted="2026-03-01")  # the results come from the organiser, after the reveal
    starts, tier = played_in(late, rounds, env)
    assert (len(starts), tier) == (5, "T3")
    check_traces(late, rounds, {0: "a" * 64})
    for wrong in ({0: "c" * 64}, {1: "a" * 64}, {0: ""}):
        with pytest.raises(RoundError, match="not those in the log of round round-1"):
            check_traces(late, rounds, wrong)


def test_dates_are_kept(rounds: Path) -> None:
    folder = opened(rounds)
    for day in ("2025-12-31", DRAWN):
        with pytest.raises(RoundError, match=f"takes commitments from {OPENED} to {COMMIT_BY}"):
            commit(folder, commitment(committed=day), day)
    with pytest.raises(RoundError, match="committed on 2026-01-11, must be from"):
        commit(folder, commitment(committed=DRAWN), COMMIT_BY)
    with pytest.raises(RoundError, match="nobody has committed"):
        draw_round(folder, BEACON, SECRET, DRAWN)
    commit(folder, commitment(), "2026-01-05")
    folder = read_round(rounds, NAME)
    for day in (COMMIT_BY, AFTER):
        with pytest.raises(RoundError, match=f"is drawn after {COMMIT_BY} and not after {RUN_BY}"):
            draw_round(folder, BEACON, SECRET, day)
    with pytest.raises(RoundError, match="not drawn yet"):
        reveal_round(folder, SECRET, AFTER)
    draw_round(folder, BEACON, SECRET, DRAWN)
    folder = read_round(rounds, NAME)
    with pytest.raises(RoundError, match="drawn already, on 2026-01-11"):
        draw_round(folder, "another draw", SECRET, DRAWN)
    with pytest.raises(RoundError, match="takes commitments"):
        commit(folder, commitment("too-late"), "2026-01-06")
    with pytest.raises(RoundError, match=f"must be after {RUN_BY}"):
        reveal_round(folder, SECRET, RUN_BY)
    reveal_round(folder, SECRET, AFTER)
    with pytest.raises(RoundError, match="revealed already"):
        reveal_round(read_round(rounds, NAME), SECRET, AFTER)


@pytest.mark.parametrize("part", ["salt", "master_key"])
def test_another_secret_neither_draws_nor_reveals(rounds: Path, part: str) -> None:
    secret = Secret(**{"salt": SECRET.salt, "master_key": SECRET.master_key, part: bytes(32)})
    opened(rounds)
    commit(read_round(rounds, NAME), commitment(), "2026-01-05")
    with pytest.raises(RoundError, match="this secret is not the one"):
        draw_round(read_round(rounds, NAME), BEACON, secret, DRAWN)
    draw_round(read_round(rounds, NAME), BEACON, SECRET, DRAWN)
    with pytest.raises(RoundError, match="this secret is not the one"):
        reveal_round(read_round(rounds, NAME), secret, AFTER)
    assert not (rounds / NAME / "reveal.json").exists()


FORGED: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("reveal.json", ("master_key",), "ab" * 32, "not those that round.json commits to"),
    ("reveal.json", ("salt",), "ab" * 32, "not those that round.json commits to"),
    ("reveal.json", ("revealed",), RUN_BY, "revealed on 2026-01-20, must be after 2026-01-20"),
    ("reveal.json", ("round",), "round-2", "a Reveal of round round-2 lies here"),
    ("reveal.json", ("log",), {"lines": 1, "head": "0" * 64, "played": []}, "a log belongs to"),
    ("round.json", ("commitment",), "ab" * 32, "not those that round.json commits to"),
    ("round.json", ("episodes",), 4, "not those that round.json commits to"),
    ("round.json", ("board",), "incident-l2", "not those that round.json commits to"),
    ("round.json", ("board",), "chess", "there is no board chess"),
    ("round.json", ("beacon",), "another draw", "not those that round.json commits to"),
    ("round.json", ("run_by",), "2026-01-19", "not those that round.json commits to"),
    ("round.json", ("commit_by",), "2026-01-11", "drawn on 2026-01-11, must be after"),
    ("round.json", ("name",), "round-2", "name is round-2, the folder's is round-1"),
    ("draw.json", ("beacon",), "another draw", "do not follow from the key and the beacon"),
    ("draw.json", ("starts",), "ab" * 32, "not the starts that draw.json fixes"),
    ("draw.json", ("drawn",), COMMIT_BY, "drawn on 2026-01-10, must be after"),
    ("draw.json", ("commitments", 0, "sha256"), "ab" * 32, "is not the file that draw.json lists"),
    ("starts.json", ("starts", 1, "index"), 17, "not the starts that draw.json fixes"),
    ("starts.json", ("starts", 1, "seed"), "17", "not the starts that draw.json fixes"),
    ("starts.json", ("split",), "test", "not the starts that draw.json fixes"),
    (f"commitments/{EXPERT}.json", ("method",), "better", "is not the file that draw.json lists"),
    (f"commitments/{EXPERT}.json", ("committed",), DRAWN, "committed on 2026-01-11, must be"),
    (f"commitments/{EXPERT}.json", ("slug",), "other", "slug is other, the file's name says"),
]


@pytest.mark.parametrize(("file", "keys", "value", "message"), FORGED)
def test_what_is_changed_afterwards_is_found(
    rounds: Path, env: EpisodeEnv, file: str, keys: tuple[Any, ...], value: Any, message: str
) -> None:
    reveal_round(drawn(rounds), SECRET, AFTER)
    change(rounds / NAME / file, *keys, to=value)
    with pytest.raises(RoundError, match=message):
        played_in(entry(), rounds, env)


def test_starts_cannot_be_reordered_doubled_or_dropped(rounds: Path) -> None:
    path = drawn(rounds).path / "starts.json"
    rows = json.loads(path.read_text())["starts"]
    for wrong in (rows[::-1], rows[:-1], [*rows, rows[0]], [rows[0], *rows[1:4], rows[3]]):
        change(path, "starts", to=wrong)
        with pytest.raises(RoundError, match=r"not the starts that draw\.json fixes"):
            read_round(rounds, NAME)


def test_a_commitment_that_comes_after_the_draw_does_not_count(
    rounds: Path, env: EpisodeEnv
) -> None:
    folder = drawn(rounds)
    late = commitment("late-one")
    (folder.path / "commitments" / "late-one.json").write_text(late.model_dump_json())
    assert list(read_round(rounds, NAME).commitments) == [EXPERT]
    theirs = entry(submitter={"name": "Team late-one", "relationship": "first_party"})
    with pytest.raises(RoundError, match="Team late-one did not commit to expert"):
        played_in(theirs, rounds, env)


MODEL = {"name": "m", "parameters": 5, "open_weights": True, "max_reply_tokens": 9,
         "temperature_percent": 100}  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"board": "incident-l2"}, "board is incident-l2, round round-1 is of incident-l1"),
        ({"suite_version": "0.0.9"}, "suite_version is 0.0.9, round round-1 is of 0.1.0"),
        ({"runs": [1]}, r"runs is \[1\], committed to was \[0\]"),
        ({"view": ["x=1"]}, r"view is \['x=1'\], committed to was \[\]"),
        ({"model": MODEL}, "model.max_reply_tokens is 9, committed to was None"),
        ({"submitted": COMMIT_BY}, "submitted on 2026-01-10, must be from 2026-01-11 to"),
        ({"submitted": AFTER}, "submitted on 2026-01-21, must be from 2026-01-11 to 2026-01-20"),
        ({"method": {"name": "better", "family": "scripted"}}, "did not commit to better"),
        ({"round": None}, "in no round"),
        ({"round": "round-2"}, "there is no round 'round-2'"),
    ],
)
def test_an_entry_is_what_was_committed_to(
    rounds: Path, env: EpisodeEnv, facts: dict[str, Any], message: str
) -> None:
    reveal_round(drawn(rounds), SECRET, AFTER)
    with pytest.raises(RoundError, match=message):
        played_in(entry(**facts), rounds, env)


def test_nobody_commits_to_many_and_shows_the_best(rounds: Path) -> None:
    folder = opened(rounds)
    one = {"submitter": "Team A"}
    commit(folder, commitment("one-1", **one, method="a"), "2026-01-05")
    commit(read_round(rounds, NAME), commitment("one-2", **one, method="b"), "2026-01-05")
    alias = commitment("one-3", submitter="TEAM-A.", method="c")
    with pytest.raises(RoundError, match="3 commitments by 'team-a', at most 2 are allowed"):
        commit(read_round(rounds, NAME), alias, "2026-01-05")
    commit(read_round(rounds, NAME), commitment("two-1", submitter="Team B"), "2026-01-05")
    again = commitment("two-2", submitter="Team B")
    with pytest.raises(RoundError, match="2 commitments to the method 'expert' by 'Team B'"):
        commit(read_round(rounds, NAME), again, "2026-01-05")
    with pytest.raises(RoundError, match="exists already"):
        commit(read_round(rounds, NAME), commitment("two-1", submitter="Team C"), "2026-01-05")
    names_ = sorted(p.stem for p in (rounds / NAME / "commitments").iterdir())
    assert names_ == ["one-1", "one-2", "two-1"]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"runs": (1, 0)}, r"runs must ascend, got \[1, 0\]"),
        ({"runs": (1, 1)}, r"runs must ascend, got \[1, 1\]"),
        ({"view": ["level=0"]}, "level is part of the task"),
    ],
)
def test_commitments_that_cannot_be(rounds: Path, facts: dict[str, Any], message: str) -> None:
    with pytest.raises(RoundError, match=message):
        commit(opened(rounds), commitment(**facts), "2026-01-05")


@pytest.mark.parametrize("board", BOARDS)
def test_a_board_can_be_sealed_or_says_why_not(rounds: Path, board: str) -> None:
    if board in ("sokoban-mini", "sigma-trap"):
        why = {"sokoban-mini": "few thousand mini levels", "sigma-trap": "names each, of few"}
        with pytest.raises(RoundError, match=f"{board} cannot be sealed: .*{why[board]}"):
            opened(rounds, board=board)
        assert not rounds.exists()
        return
    folder = drawn(rounds, board=board)
    assert folder.starts is not None
    env = open_env(board_of(board), [])
    for start in published_starts(folder.starts):
        options = {"split": start.split, "index": start.index}
        env.reset(seed=start.seed, options=options)
        assert env.noise_seed == start.seed


def test_a_round_that_cannot_be_is_not_opened(rounds: Path) -> None:
    for facts, message in (
        ({"run_by": COMMIT_BY}, "must follow each other"),
        ({"opened": DRAWN}, "must follow each other"),
        ({"episodes": 0}, "episodes: Input should be greater"),
        ({"name": "../x"}, "name"),
        ({"board": "chess"}, "there is no board 'chess'"),
    ):
        with pytest.raises(ValueError, match=message):
            opened(rounds, **facts)
    assert not rounds.exists()
    opened(rounds)
    with pytest.raises(RoundError, match="exists already"):
        opened(rounds)


# Splits that cannot be gone through


@pytest.mark.parametrize(("split", "like"), [
    ("sealed", "test"), ("sealed_names", "test_names"), ("sealed_family", "test_family"),
])  # fmt: skip
def test_sealed_incidents_are_like_those_of_test(split: str, like: str) -> None:
    env = make("ftw/IncidentL1-v0")
    assert split not in env.splits  # nothing that goes through the splits may go through it
    assert env.instance_count(split) == SEALED_COUNT
    starts = starts_of(some_round(episodes=60), SECRET.master_key, BEACON, split)
    cases = [draw(1, split, s.index) for s in starts]
    others = {fingerprint(draw(1, s, i)) for s in env.splits for i in range(60)}
    prints = {fingerprint(case) for case in cases}
    assert len(prints) == 60
    assert prints.isdisjoint(others)
    words = {h.name for c in cases for h in c.hosts} | {u.name for c in cases for u in c.users}
    assert words <= {*names(like)[0], *names(like)[1]}
    families = {c.attack.family.name for c in cases if c.attack}
    assert families <= set(HELD_OUT) if like == "test_family" else not families & set(HELD_OUT)
    assert {len(c.hosts) for c in cases} == {len(draw(1, like, 0).hosts)}
    env.reset(seed=2**63 - 1, options={"split": split, "index": SEALED_COUNT - 1})
    with pytest.raises(ValueError, match=r"index must be from 0 to 9007199254740991"):
        env.reset(seed=0, options={"split": split, "index": SEALED_COUNT})


def test_sealed_levels_are_new_ones_of_test() -> None:
    env = make("ftw/Sokoban-v0")
    starts = starts_of(some_round(episodes=30), SECRET.master_key, BEACON, "sealed")
    shipped = {env.levels.get(s, i).hash for s in env.splits for i in range(env.instance_count(s))}
    seen = set()
    for start in starts:
        level = env.levels.get("sealed", start.index).level
        seen.add(env.levels.get("sealed", start.index).hash)
        assert split_of(level) == "test"
        solution = solve(level, "moves")
        assert solution is not None
        assert solution.moves <= env.max_steps
    assert len(seen) == 30
    assert seen.isdisjoint(shipped)
    for other in (make("ftw/SokobanMini-v0"), make("ftw/Sokoban-v0", band="easy"),
                  make("ftw/Sokoban-v0", levels="endless")):  # fmt: skip
        with pytest.raises(ValueError, match="split must be one of train, valid, test, got"):
            other.reset(options={"split": "sealed", "index": 0})


# Files of the organiser and of agents


def test_secrets_are_kept_from_others(tmp_path: Path) -> None:
    path = tmp_path / "private" / "key.json"
    secret = new_secret()
    save_secret(path, NAME, secret)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_secret(path, NAME) == secret
    with pytest.raises(RoundError, match="exists already"):
        save_secret(path, NAME, new_secret())
    assert load_secret(path, NAME) == secret
    assert [p.name for p in path.parent.iterdir()] == ["key.json"]
    with pytest.raises(RoundError, match="not the secret of round other"):
        load_secret(path, "other")
    path.chmod(0o640)
    with pytest.raises(RoundError, match="others can read it; set its mode to 600"):
        load_secret(path, NAME)
    path.chmod(0o600)
    change(path, "master_key", to="abcd")
    with pytest.raises(RoundError, match="not the secret of round"):
        load_secret(path, NAME)


def test_secrets_do_not_lie_in_a_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    with pytest.raises(RoundError, match="keep secrets outside of it"):
        save_secret(tmp_path / "repo" / "deep" / "down" / "key.json", NAME, new_secret())
    assert not (tmp_path / "repo" / "deep").exists()


def test_tokens_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    tokens = tokens_for(path, NAME, ["one", "two"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(set(tokens.values())) == 2
    assert min(map(len, tokens.values())) >= 43  # 256 bits
    assert tokens_for(path, NAME, ["two", "one"]) == tokens
    for name, slugs in (("other", ["one", "two"]), (NAME, ["one", "two", "three"])):
        with pytest.raises(RoundError, match="not the tokens of round"):
            tokens_for(path, name, slugs)
    for wrong in ("short", tokens["two"]):
        change(path, "tokens", "one", to=wrong)
        with pytest.raises(RoundError, match="each token is a string of its own"):
            tokens_for(path, NAME, ["one", "two"])


def test_every_change_of_an_agent_changes_its_hash(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    (folder / "sub").mkdir(parents=True)
    (folder / "weights").write_bytes(bytes(range(256)) * 5000)
    (folder / "sub" / "config").write_text("{}")
    found = [folder_digest(folder)]

    def now(path: Path) -> None:
        found.append(folder_digest(path))

    data = bytearray((folder / "weights").read_bytes())
    data[-1] ^= 1
    (folder / "weights").write_bytes(data)
    now(folder)
    (folder / "sub" / "config").rename(folder / "config")
    now(folder)
    (folder / "empty").touch()
    now(folder)
    assert len(set(found)) == 4
    moved = folder.rename(tmp_path / "elsewhere")
    assert folder_digest(moved) == found[-1]
    (moved / "link").symlink_to(moved / "weights")
    with pytest.raises(RoundError, match="link: a link"):
        folder_digest(moved)
    (tmp_path / "nothing").mkdir()
    for wrong in (tmp_path / "nothing", tmp_path / "not-there"):
        with pytest.raises(RoundError, match=r"holds no files|no folder"):
            folder_digest(wrong)


# The commands


def ftw(*args: str | Path) -> None:
    main([str(a) for a in args])


def test_a_round_of_the_commands(
    tmp_path: Path, rounds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, out = tmp_path / "key.json", tmp_path / "out"
    where = ("--rounds", rounds)
    ftw("round", "open", NAME, "--board", "incident-l0", "--beacon", "a draw", "--commit-by",
        COMMIT_BY, "--run-by", RUN_BY, "--secret", secret, "--episodes", 6, "--date", OPENED,
        *where)  # fmt: skip
    key = load_secret(secret, NAME)
    for agent in ("expert", "random"):
        ftw("round", "commit", NAME, agent, "--slug", f"the-{agent}", "--submitter", "Team A",
            "--method", agent, "--date", "2026-01-05", *where)  # fmt: skip
    ftw("round", "draw", NAME, "--beacon", BEACON, "--secret", secret, "--date", DRAWN, *where)
    play = ("round", "play", NAME, "expert", "--slug", "the-expert", "--out", out, *where)
    for day in (COMMIT_BY, AFTER):
        with pytest.raises(SystemExit):
            ftw(*play, "--date", day)
        assert "is played after the draw and up to" in capsys.readouterr().err
    ftw(*play, "--date", DRAWN)
    with pytest.raises(SystemExit):
        ftw("round", "play", NAME, "random", "--slug", "the-expert", "--out", out, *where,
            "--date", DRAWN)  # fmt: skip
    assert "random is not the agent that the-expert committed to" in capsys.readouterr().err
    ftw("round", "reveal", NAME, "--secret", secret, "--date", AFTER, *where)
    ftw("round", "check", NAME, "expert", "--slug", "the-expert", *where)
    shown = capsys.readouterr()
    assert "key and starts are as promised" in shown.out
    assert "expert is the agent of run 0" in shown.out
    folder = read_round(rounds, NAME)
    starts = starts_of(folder.round, key.master_key, BEACON, "sealed")
    episodes = list(read_episodes(out / "episodes.jsonl"))
    assert [(e.instance.index, e.seed) for e in episodes] == [(s.index, s.seed) for s in starts]
    result = json.loads((out / "result.json").read_text())
    assert (result["round"], result["split"]) == (NAME, "sealed")
    assert result["summary"] == summarise(episodes).to_json()
    assert result["summary"]["solved"] >= 4  # it is the expert, and on the easiest level


def test_an_entry_of_a_round_is_replayed_first_and_sealed_with_the_reveal(
    tmp_path: Path, rounds: Path
) -> None:
    agents = [Agent(run=0, sha256=_digest("expert", "ftw/IncidentL1-v0"))]
    folder = drawn(rounds, commitments=(commitment(agents=agents),))
    out, where = tmp_path / "out", ("--rounds", rounds)
    ftw("round", "play", NAME, "expert", "--slug", EXPERT, "--out", out, "--date", DRAWN, *where)
    source, entries = Source(out), tmp_path / "entries"
    made, verified = submit(
        [source], "incident-l1", about_expert(), entries, date=DRAWN, rounds=rounds
    )
    assert (verified.tier, verified.entry.round) == ("T1", NAME)
    reveal_round(folder, SECRET, AFTER)
    found = verify(made, rounds=rounds).verified
    assert found is not None
    assert found.tier == "T2"
    assert found.runs == verified.runs
    assert f"ftw round play {NAME} expert" in (made / "env.lock.json").read_text()
    # The public instances are none of the round, and the round's none of the board.
    late, public = tmp_path / "late", tmp_path / "public"
    data = json.loads((out / "result.json").read_text())
    for path, changes, message in (
        (late, {"round": None}, "split is sealed, on the board incident-l1 it is test"),
        (public, {"split": "test"}, "split is test, on the board incident-l1 it is sealed"),
    ):
        shutil.copytree(out, path)
        (path / "result.json").write_text(json.dumps({**data, **changes}))
        with pytest.raises(EntryError, match=message):
            submit([Source(path)], "incident-l1", about_expert(), entries, date=DRAWN,
                   slug="another", rounds=rounds)  # fmt: skip


def test_changed_weights_do_not_play(
    tmp_path: Path, rounds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = tmp_path / "agent"
    agent.mkdir()
    (agent / "weights").write_bytes(b"1")
    agents = [{"run": 0, "sha256": folder_digest(agent)}]
    one = commitment().model_dump() | {"agents": agents}
    drawn(rounds, commitments=(type(commitment()).model_validate(one),))
    args = ("--slug", EXPERT, "--rounds", rounds)
    ftw("round", "check", NAME, agent, *args)
    (agent / "weights").write_bytes(b"2")
    for command in (("check",), ("play", "--out", tmp_path / "out", "--date", DRAWN)):
        with pytest.raises(SystemExit):
            ftw("round", command[0], NAME, agent, *command[1:], *args)
        assert "committed to: its files changed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_round_that_cannot_be_opened_leaves_no_secret(
    tmp_path: Path, rounds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "key.json"
    with pytest.raises(SystemExit):
        ftw("round", "open", NAME, "--board", "sigma-trap", "--beacon", "a draw", "--commit-by",
            COMMIT_BY, "--run-by", RUN_BY, "--secret", secret, "--rounds", rounds)  # fmt: skip
    assert "ftw: sigma-trap cannot be sealed: its instances are" in capsys.readouterr().err
    assert not secret.exists()
    assert not rounds.exists()


def test_two_rounds_of_one_secret_have_two_promises(rounds: Path) -> None:
    first = opened(rounds).round
    facts = first.model_dump(exclude={"format", "suite_version", "env_version", "commitment"}) | {
        "name": "round-2"
    }
    assert open_round(rounds, facts, SECRET).commitment != first.commitment
