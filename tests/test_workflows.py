"""What the workflows may never do, and what their scripts do when they are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import distributions, packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from hostile_entries import SMALL, N, good_entry
from pull_requests import GOOD, MINE, Repository
from verified_samples import sample

from leaderboards.changes import FILE_CAPS
from leaderboards.verified import write_verified

TOP = Path(__file__).parent.parent
FOLDER = TOP / ".github/workflows"
TEXTS = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.iterdir())}
WORKFLOWS: dict[str, Any] = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
JOBS = [
    pytest.param(name, key, job, id=f"{name}-{key}")
    for name, flow in WORKFLOWS.items()
    for key, job in flow["jobs"].items()
]
WRITES = {
    ("entries-comment", "comment"): {"pull-requests"},
    ("verified", "keep"): {"contents"},
    ("verified", "deploy"): {"pages", "id-token"},
}
"""The jobs that can change anything, and what."""


def _triggers(flow: dict[Any, Any]) -> set[str]:
    return set(flow[True])  # YAML 1.1 reads the key "on" so


def _step(name: str, job: str, title: str) -> dict[str, Any]:
    (step,) = (s for s in WORKFLOWS[name]["jobs"][job]["steps"] if s.get("name") == title)
    return step


def _run(script: str, where: Path, **env: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a step's script as a runner does."""
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    everything = {**os.environ, "PATH": tools, **{k: str(v) for k, v in env.items()}}
    everything["PYTHONDONTWRITEBYTECODE"] = "1"  # tests look at what else a step leaves behind
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=where,
        env=everything,
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_are_these_workflows() -> None:
    assert {name: _triggers(flow) for name, flow in WORKFLOWS.items()} == {
        "entries": {"pull_request"},
        "entries-comment": {"workflow_run"},
        "tests": {"push", "pull_request"},
        "verified": {"push", "workflow_dispatch"},
    }


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_action_is_one_commit_of_a_named_version(name: str) -> None:
    used = re.findall(r"^.*\buses:.*$", TEXTS[name], re.MULTILINE)
    assert used
    for line in used:
        assert re.search(r"uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_an_action_has_one_version_in_all_workflows() -> None:
    used = {
        tuple(line.split("@"))
        for text in TEXTS.values()
        for line in re.findall(r"uses: (\S+ # \S+)", text)
    }
    assert len({action for action, _ in used}) == len(used)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_right_that_is_not_asked_for_by_a_job(name: str) -> None:
    assert WORKFLOWS[name]["permissions"] == {}
    assert "group" in WORKFLOWS[name]["concurrency"]
    assert "secrets." not in TEXTS[name]
    assert "pull_request_target" not in TEXTS[name]
    assert "actions/cache" not in TEXTS[name]


@pytest.mark.parametrize(("name", "key", "job"), JOBS)
def test_every_job(name: str, key: str, job: dict[str, Any]) -> None:
    rights = job["permissions"]
    assert {r for r, level in rights.items() if level == "write"} == WRITES.get((name, key), set())
    assert set(rights.values()) <= {"read", "write"}
    assert 0 < job["timeout-minutes"] <= 240
    assert job["runs-on"] == "ubuntu-24.04"
    for step in job["steps"]:
        settings = step.get("with", {})
        assert "cache" not in settings
        if "checkout@" in step.get("uses", ""):
            assert settings["persist-credentials"] is False
            assert "repository" not in settings
        # Values come in by the environment: put into a script, a branch's name is code.
        assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("name", ["entries", "tests"])
def test_what_a_job_that_strangers_start_has(name: str) -> None:
    (job,) = WORKFLOWS[name]["jobs"].values()
    assert job["permissions"] == {"contents": "read"}
    assert "github.token" not in str(job)
    assert "GITHUB_TOKEN" not in str(job)


@pytest.mark.parametrize(("name", "key", "job"), JOBS)
def test_where_a_token_can_write_nothing_is_installed(
    name: str, key: str, job: dict[str, Any]
) -> None:
    scripts = "\n".join(step.get("run", "") for step in job["steps"])
    if "write" in job["permissions"].values():
        assert not re.search(r"\bpip\b|\bmake\b|\bunzip\b|\bftw\b|\.ci/run", scripts)
    else:
        assert "git push" not in scripts


def test_the_validator_is_that_of_the_base() -> None:
    (job,) = WORKFLOWS["entries"]["jobs"].values()
    checkouts = [s for s in job["steps"] if "checkout@" in s.get("uses", "")]
    assert [s["with"]["ref"] for s in checkouts] == ["${{ github.event.pull_request.base.sha }}"]
    heads = [line.strip() for line in TEXTS["entries"].splitlines() if "head." in line]
    assert heads == ["HEAD: ${{ github.event.pull_request.head.sha }}"]
    (comment,) = WORKFLOWS["entries-comment"]["jobs"].values()
    checkouts = [s for s in comment["steps"] if "checkout@" in s.get("uses", "")]
    assert ["ref" in s["with"] for s in checkouts] == [False]  # the default branch


def test_the_fetch_leaves_out_what_no_file_may_be() -> None:
    filters = re.findall(r"--filter=blob:limit=(\d+)", TEXTS["entries"] + TEXTS["entries-comment"])
    assert filters == [str(max(FILE_CAPS.values()) + 1)] * 2


# The scripts.


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    """A repository to pull from, whose base holds the suite's own check."""
    repo = Repository(tmp_path / "origin")
    code = {
        f"leaderboards/{name}": (TOP / "leaderboards" / name).read_bytes()
        for name in ("__init__.py", "changes.py", "comment.py")
    }
    repo.base = repo.commit(code, repo.base)
    repo.git("update-ref", "refs/heads/main", repo.base)
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    return repo


def _clone(origin: Repository, where: Path) -> Path:
    subprocess.run(["git", "clone", "-q", origin.path.as_uri(), str(where)], check=True)
    return where


@pytest.mark.parametrize(
    ("files", "code", "output", "report"),
    [
        (GOOD, 0, "entry=yes\n", f"{MINE}: 4 files, only new ones\n"),
        ({"run.py": b"\n"}, 0, "", "no entry is touched\n"),
        (
            {**GOOD, "leaderboards/changes.py": b"print('all is well')\n"},
            1,
            "",
            "'leaderboards/changes.py': a pull request with an entry touches nothing else\n",
        ),
        (
            {**GOOD, f"{MINE}/runs/0/episodes.jsonl": b" " * (FILE_CAPS["episodes.jsonl"] + 1)},
            1,
            "",
            f"{MINE}/runs/0/episodes.jsonl: larger than {FILE_CAPS['episodes.jsonl']} bytes\n",
        ),
    ],
    ids=["entry", "code", "both", "large"],
)
def test_changes_step(
    origin: Repository, tmp_path: Path, files: Any, code: int, output: str, report: str
) -> None:
    clone, temp = _clone(origin, tmp_path / "clone"), tmp_path / "temp"
    temp.mkdir()
    head = origin.commit(files, origin.base)
    script = _step("entries", "entries", "What the pull request changes")["run"]
    out = tmp_path / "output"
    out.touch()
    done = _run(script, clone, BASE=origin.base, HEAD=head, RUNNER_TEMP=temp, GITHUB_OUTPUT=out)
    assert done.returncode == code, done.stderr
    assert out.read_text() == output
    assert (temp / "report.txt").read_text() == report
    assert (temp / "entry/0.1.0/my-method/entry.json").exists() == (output != "")
    changed = subprocess.run(
        ["git", "-C", str(clone), "status", "--porcelain"], capture_output=True, check=True
    )
    assert changed.stdout == b""


@pytest.mark.parametrize(
    ("name", "job", "said", "code", "passes"),
    [
        (name, job, *case)
        for name, job in (("entries", "entries"), ("verified", "verify"))
        for case in (
            ("verified my-method: 12ab", 0, True),
            ("verified my-method: 12ab", 2, True),
            ("verified my-method: 12ab", 1, False),
            ("verified my-method: 12ab", 137, False),
            ("usage: ftw verify", 2, False),
            ("::error title=a::verified", 0, False),
        )
    ],
)
def test_verify_step(
    tmp_path: Path, name: str, job: str, said: str, code: int, passes: bool
) -> None:
    (tmp_path / "temp/entry/0.1.0/my-method").mkdir(parents=True)
    stub = tmp_path / "bin/ftw"
    stub.parent.mkdir()
    stub.write_text(f'#!/bin/sh\necho "$@" > "{tmp_path}/args"\necho "{said}"\nexit {code}\n')
    stub.chmod(0o755)
    path = f"{stub.parent}:{os.environ['PATH']}"
    script = _step(name, job, "Play every reply again")["run"]
    done = _run(script, tmp_path, PATH=path, RUNNER_TEMP=tmp_path / "temp")
    assert (done.returncode == 0) == passes
    assert said in (tmp_path / "temp/report.txt").read_text()
    wanted = {
        "entries": f"verify {tmp_path}/temp/entry/0.1.0/my-method --format github\n",
        "verified": "verify leaderboards/entries --write --format github\n",
    }
    assert (tmp_path / "args").read_text() == wanted[name]


OLD, NEW = (f"leaderboards/verified/{c * 64}.json" for c in "ab")


@pytest.mark.parametrize(
    ("files", "passes"),
    [
        ({NEW: b"{}\n"}, True),
        ({}, True),
        ({OLD: b"[]\n"}, False),
        ({OLD: None}, False),
        ({"leaderboards/verified/x.json": b"{}\n"}, False),
        ({f"{NEW}.sh": b"{}\n"}, False),
        ({"README.md": b"hello\n"}, False),
        ({".github/workflows/x.yml": b"on: push\n"}, False),
    ],
    ids=range(8),
)
def test_only_new_findings_are_kept(
    origin: Repository, tmp_path: Path, files: dict[str, bytes | None], passes: bool
) -> None:
    origin.base = origin.commit({OLD: b"{}\n"}, origin.base)
    origin.git("update-ref", "refs/heads/main", origin.base)
    clone = _clone(origin, tmp_path / "clone")
    for name, data in files.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).unlink() if data is None else (clone / name).write_bytes(data)
    script = _step("verified", "keep", "Only new files, each named by its entry's id")["run"]
    done = _run(script, clone)
    assert (done.returncode == 0) == passes, done.stdout
    assert passes or "What was found once does not change" in done.stdout


def _installed(script: str) -> set[str]:
    """The packages that an install step names, and all that they need, by their plain names."""
    first = script.splitlines()[0]
    names = first.partition("constraints.txt ")[2].split()
    found: set[str] = set()
    waiting = [_plain(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in found or name not in _HERE:
            continue
        found.add(name)
        needed = [r for r in requires(name) or [] if "extra ==" not in r]
        waiting += [_plain(re.match(r"[\w.-]+", r)[0]) for r in needed]
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


INSTALL = "Install what verification needs"
_HERE = {_plain(d.metadata["Name"]) for d in distributions()}


def _without_others(script: str, program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program as if only the packages that an install step names were there."""
    installed = _installed(script) | {"ftw-suite"}
    hidden = sorted(
        module
        for module, owners in packages_distributions().items()
        if not installed & {_plain(owner) for owner in owners}
    )
    assert {"torch", "transformers", "pytest"} <= set(hidden)
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name in {hidden!r}: raise ModuleNotFoundError(name)\n"
        f"sys.meta_path.insert(0, Absent())\n{program}"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_what_is_installed_is_enough_to_verify(tmp_path: Path) -> None:
    steps = [_step("entries", "entries", INSTALL), _step("verified", "verify", INSTALL)]
    assert steps[0]["run"] == steps[1]["run"]
    program = f"""
from dataclasses import replace
from ftw_agents.cli import main
from leaderboards.boards import BOARDS
BOARDS[{SMALL.name!r}] = replace(BOARDS[{SMALL.name!r}], episodes={N})
main(["verify", {str(good_entry(tmp_path))!r}, "--write", "--format", "github", "--jobs", "1",
      "--verified", {str(tmp_path / "verified")!r}])
"""
    done = _without_others(steps[0]["run"], program)
    assert (done.returncode, done.stderr) == (0, "")
    (written,) = (tmp_path / "verified").iterdir()
    assert done.stdout == f"verified ftw-mini: {written.stem}\n"


def test_what_is_installed_is_enough_for_the_pages(tmp_path: Path) -> None:
    for seed in (0, 10):
        write_verified(tmp_path / "verified", sample(name=f"Method {seed}", seed=seed))
    args = ["site", "--out", str(tmp_path / "site"), "--verified", str(tmp_path / "verified")]
    script = _step("verified", "pages", "Install what the pages need")["run"]
    done = _without_others(script, f"from ftw_agents.cli import main; main({args})")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Method 10" in (tmp_path / "site/index.html").read_text("utf-8")


def test_the_form_for_objections() -> None:
    form = yaml.safe_load((TOP / ".github/ISSUE_TEMPLATE/objection.yml").read_text("utf-8"))
    fields = {item["id"]: item for item in form["body"] if item["type"] != "markdown"}
    assert list(fields) == ["entry", "rule", "grounds", "remedy"]
    required = [key for key, f in fields.items() if f.get("validations", {}).get("required")]
    assert required == ["entry", "rule", "grounds"]
    options = fields["rule"]["attributes"]["options"]
    assert len(options) == len(set(options))
    assert options[-1] == "Something else"
