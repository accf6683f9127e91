"""Every way we know to spoil an entry is refused, each in its own words, and nothing breaks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hostile_entries import CASES, RUNS, SLUG, SMALL, Case, Kit, N, good_entry

import ftw_envs
from ftw_agents.cli import main
from ftw_agents.leaderboard_commands import _written
from ftw_agents.starts import evaluation_starts
from leaderboards import boards
from leaderboards.rows import check_of
from leaderboards.schema import Verified
from leaderboards.verified import read_verified, write_verified
from leaderboards.verify import verify


@pytest.fixture(scope="module", autouse=True)
def small_board() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(boards.BOARDS, SMALL.name, SMALL)
        yield


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, small_board: None) -> Path:
    return good_entry(tmp_path_factory.mktemp("good"))


@pytest.fixture
def kit(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
    """A copy to spoil."""
    monkeypatch.chdir(tmp_path)
    return _copy(good, tmp_path)


def _copy(good: Path, where: Path) -> Kit:
    target = where / ftw_envs.__version__ / SLUG
    return Kit(Path(shutil.copytree(good, target)))


def _found(kit: Kit, **kwargs: object) -> Verified:
    report = verify(kit.folder, **kwargs)
    assert report.problems == ()
    assert report.verified
    return report.verified


def _everything(folder: Path) -> dict[str, str]:
    """All below a folder, and what it holds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = "link" if path.is_symlink() else "file" if path.is_file() else "other"
        small = kind == "file" and path.stat().st_size < 1 << 27
        found[str(path)] = kind + (sha256(path.read_bytes()).hexdigest() if small else "")
    return found


def _line(case: Case, problems: tuple[str, ...]) -> str:
    """The line that refuses a case."""
    return next((p for p in problems if case.said in p), f"none of {problems}")


def test_the_entry_is_good_before_it_is_spoilt(kit: Kit) -> None:
    report = verify(kit.folder)
    assert (report.problems, report.warnings) == ((), ())
    assert report.verified
    rates = [run.figures.solve_rate for run in report.verified.runs]
    assert rates == [0.1, 1.0, 1.0]  # so that there is something to win by cheating, and to lose
    assert [run.run for run in report.verified.runs] == list(RUNS)


def test_there_are_many_ways() -> None:
    assert len(CASES) >= 100
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refused(case: Case, kit: Kit, tmp_path: Path) -> None:
    case.spoil(kit)
    before = _everything(tmp_path)
    report = verify(kit.folder)
    assert report.verified is None
    line = _line(case, report.problems)
    assert case.said in line
    others = [other.name for other in CASES if other is not case and other.said in line]
    assert others == []
    assert len(report.problems) <= 3 * 21
    for problem in report.problems:
        assert problem.isprintable()
        assert len(problem) < 600
    assert _everything(tmp_path) == before


_ALL = """
import json, resource, sys
from dataclasses import replace
from pathlib import Path
from leaderboards import boards
from leaderboards.verify import verify
small = replace(boards.BOARDS[sys.argv[1]], episodes=int(sys.argv[2]))
boards.BOARDS[small.name] = small
assert verify(Path(sys.argv[3])).problems == ()
used = resource.getrusage(resource.RUSAGE_SELF)
seconds = int(used.ru_utime + used.ru_stime) + 60
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
more = 400 << 20
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))
print(json.dumps([verify(Path(folder)).problems for folder in sys.argv[4:]]))
"""


def test_all_in_one_process_of_little_that_can_write_nothing(good: Path, tmp_path: Path) -> None:
    """In 60 s, 400 MB more than an honest entry needs, without a byte written or a process."""
    kits = []
    for case in CASES:
        kits.append(_copy(good, tmp_path / case.name))
        case.spoil(kits[-1])
    folders = [str(kit.folder) for kit in kits]
    done = subprocess.run(
        [sys.executable, "-c", _ALL, SMALL.name, str(N), str(good), *folders],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for case, problems in zip(CASES, json.loads(done.stdout), strict=True):
        assert case.said in _line(case, tuple(problems))


@pytest.mark.parametrize("format", ["rich", "json", "github"])
def test_the_command_fails_and_prints_nothing_that_does_anything(
    kit: Kit, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    for name in ("escape_in_a_file_name", "flipped", "turned"):
        next(case for case in CASES if case.name == name).spoil(kit)
        with pytest.raises(SystemExit) as e:
            main(["verify", str(kit.folder), "--jobs", "1", "--format", format])
        assert e.value.code == 1
        out, error = capsys.readouterr()
        assert error == ""
        assert out.replace("\n", "").isprintable()
        assert out.isascii()
        if format == "github":
            assert re.fullmatch(rf"(::error title={SLUG}::[^\n]+\n)+", out)
        if format == "json":
            (found,) = json.loads(out)
            assert found["problems"]
            assert found["entry_id"] is None


def test_nothing_is_written_of_a_sealed_round_before_its_key_is_there(
    kit: Kit, tmp_path: Path
) -> None:
    """What is written never changes, and the tier of such an entry will."""
    report = verify(kit.folder)
    assert report.verified
    entry = report.verified.entry.model_copy(update={"round": "winter"})
    for tier, files in (("T1", 0), ("T2", 1)):
        found = report.verified.model_copy(update={"entry": entry, "tier": tier})
        folder = tmp_path / tier
        assert _written(replace(report, verified=found), folder).problems == ()
        assert len(list(folder.glob("*"))) == files


# What is allowed, and yet told.


def test_a_claim_that_is_not_what_was_found_is_named_and_not_shown(
    kit: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    """C1, C2, C8: recomputed figures are shown, and the exit code is not 0."""
    honest = _found(kit)
    kit.about["claims"][0]["figures"] |= {"solve_rate": 0.9, "solved": 9}
    kit.write()
    report = verify(kit.folder)
    assert report.warnings == (
        "run 3: claims solved 9, found is 1",
        "run 3: claims solve_rate 0.9, found is 0.1",
    )
    assert report.verified
    assert report.verified.runs == honest.runs
    with pytest.raises(SystemExit) as e:
        main(["verify", str(kit.folder), "--jobs", "1"])
    assert e.value.code == 2
    assert "claims solve_rate 0.9, found is 0.1" in capsys.readouterr().out


def test_rounding_is_no_difference(kit: Kit) -> None:
    for claim in kit.about["claims"]:
        claim["figures"]["solve_rate"] *= 1 + 1e-12
    kit.write()
    assert verify(kit.folder).warnings == ()


def test_the_same_replies_under_another_name(kit: Kit) -> None:
    """C27."""
    known = _found(kit)
    kit.about["method"]["name"] = "Deep Thought"
    kit.about["submitter"]["name"] = "Some Body"
    kit.save()
    warnings = _found(kit, known=[known]).warnings
    assert warnings == [f"run {run} replied exactly as run {run} of {SLUG}" for run in RUNS]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("FTW 1-4", True),
        ("ftw-1-4", True),
        ("FTW–1–4", True),
        ("FTW-1-8", False),
        ("FTW-14", False),
    ],
)
def test_nearly_the_same_name(kit: Kit, name: str, near: bool) -> None:
    """C27 "GPT 5.2" and "GPT-5-2"."""
    known = _found(kit)
    kit.say("method.name", name)
    said = f"method {name} is called nearly as FTW-1-4 in {SLUG}"
    assert (said in _found(kit, known=[known]).warnings) == near


def test_one_run_told_as_several(kit: Kit) -> None:
    """C13: five seeds that are one show no spread."""
    kit.raw(kit.path(run=7).read_bytes(), run=11)
    assert _found(kit).warnings == ["run 11 replied exactly as run 7"]


def test_few_seeds_and_seen_instances_are_told(kit: Kit) -> None:
    for name in ("episodes.jsonl", "curve.jsonl"):
        kit.path(name, run=11).unlink()
    kit.path(run=11).parent.rmdir()
    kit.about["files"] = [f for f in kit.about["files"] if "/11/" not in f["path"]]
    kit.about["claims"].pop()
    kit.about["contamination"]["trained_on_eval"] = True
    kit.say("runs", [3, 7])
    assert _found(kit).warnings == [
        "2 of at least 3 training seeds",
        "trained on the instances that it is ranked on, as it says",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "<img src=x onerror=alert(document.domain)>",
        '=HYPERLINK("https://evil.example","x")',
        "{{ 7 * 7 }}{% raw %}",
        "</script><script>alert(1)</script>",
        "[click](javascript:alert(1)) `code` @everyone",
        "%0A::error::%0A",
        "'; DROP TABLE entries; --",
        "[red]FTW[/red] [link=https://evil.example]x[/link]",
        "漢字",
    ],
)
def test_a_name_is_text_whatever_it_says(
    kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """C34, C37: allowed, kept as it is, and what shows it must show it as text."""
    kit.about["submitter"]["name"] = name
    kit.say("method.name", name)
    verified = _found(kit)
    assert verified.entry.method.name == name
    write_verified(tmp_path / "verified", verified)
    assert read_verified(tmp_path / "verified") == [verified]
    main(["verify", str(kit.folder), "--jobs", "1"])
    out = capsys.readouterr().out
    assert name in out
    assert out.replace("\n", "").isprintable()


def test_replies_are_kept_as_they_are_whatever_they_say(kit: Kit, tmp_path: Path) -> None:
    """T terminal escapes in replays: data, not shown by the verifier, and no control of it."""
    env = boards.open_env(SMALL, [])
    start = evaluation_starts(env, SMALL.split, N, boards.PUBLIC_SEED)[0]
    observation, info = env.reset(seed=start.seed, options={"split": start.split, "index": 0})
    evil = "\x1b]0;owned\x07\u202e</script><script>alert(1)</script>\x00\r\n=1+1"
    row = kit.rows()[0] | {"replies": [], "actions": [], "checks": []}
    while not info["end"]:
        row["checks"].append(check_of(env, observation))
        observation, _, _, _, info = env.step(evil)
        row["replies"].append(evil)
        row["actions"].append(None)
    row["checks"].append(check_of(env, observation))
    row |= {"score": info["score"], "solved": False, "end": "time_limit"}
    kit.change(0, **row)
    verified = _found(kit)
    assert verified.replays[0].steps[0].reply == evil
    path = write_verified(tmp_path / "verified", verified)
    assert path.read_bytes().isascii()
    assert b"\x1b" not in path.read_bytes()
    assert read_verified(tmp_path / "verified") == [verified]
