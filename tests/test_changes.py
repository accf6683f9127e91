"""What a pull request with an entry may change: real git repositories, made object by object."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pull_requests import GOOD, MINE, THERE, Repository

from leaderboards.changes import FILE_CAPS, ChangesError, check, extract, main, slug_problem


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


def _problems(repo: Repository, files: Mapping, **kwargs: Mapping) -> list[str]:
    found = check(repo.path, repo.base, repo.commit(files, repo.base, **kwargs))
    assert (found.entry is None) == (not found.blobs)
    return found.problems


def test_an_entry_is_taken_and_extracted_as_it_is(repo: Repository, tmp_path: Path) -> None:
    files = GOOD | {f"{MINE}/runs/7/episodes.jsonl": b"\r\n\xff\x00 as it is\n"}
    found = check(repo.path, repo.base, repo.commit(files, repo.base))
    assert found.problems == []
    assert found.entry == MINE
    assert {blob.path: blob.size for blob in found.blobs} == {p: len(d) for p, d in files.items()}
    folder = extract(repo.path, found, tmp_path / "out")
    assert folder == tmp_path / "out/0.1.0/my-method"
    written = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    assert {f"{MINE}/{name}": p.read_bytes() for name, p in written.items()} == files
    assert not any(os.access(p, os.X_OK) for p in written.values())
    with pytest.raises(ChangesError, match="exists already"):
        extract(repo.path, found, tmp_path / "out")


def test_git_attributes_of_the_pull_request_change_no_byte(
    repo: Repository, tmp_path: Path
) -> None:
    base = repo.commit({".gitattributes": b"* text eol=crlf\n"}, repo.base)
    found = check(repo.path, base, repo.commit(GOOD, base))
    folder = extract(repo.path, found, tmp_path / "out")
    assert (folder / "entry.json").read_bytes() == b"{}\n"


def test_what_touches_no_entry_is_left_alone(repo: Repository) -> None:
    found = check(repo.path, repo.base, repo.commit({"run.py": b"print(1)\n"}, repo.base))
    assert (found.entry, found.problems) == (None, [])


def test_commits_of_the_base_since_then_do_not_count(repo: Repository) -> None:
    newer = repo.commit({"run.py": None, "new.py": b"\n"}, repo.base)
    assert check(repo.path, newer, repo.commit(GOOD, repo.base)).entry == MINE


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"run.py": b"evil\n"}, "'run.py': a pull request with an entry touches nothing else"),
        ({".github/workflows/x.yml": b"on: push\n"}, "touches nothing else"),
        ({"leaderboards/verify.py": b"\n"}, "touches nothing else"),
        ({".gitattributes": b"* -diff\n"}, "touches nothing else"),
        ({".gitmodules": b"\n"}, "touches nothing else"),
        ({"leaderboards/Entries/0.1.0/my-method/entry.json": b"\n"}, "touches nothing else"),
        ({"leaderboards/verified/a.json": b"{}\n"}, "only the verifier writes there"),
        ({f"{THERE}/entry.json": b"{ }\n"}, "changed; entries stay as they are"),
        ({f"{THERE}/entry.json": None}, "deleted; entries stay as they are"),
        ({f"{THERE}/runs/0/curve.jsonl": b"{}\n"}, f"{THERE} is there already"),
        ({"leaderboards/entries/0.1.0/ppo_mini/entry.json": b"\n"}, "can be mistaken for"),
        ({"leaderboards/entries/0.1.0/other-one/entry.json": b"\n"}, "2 entries; a pull request"),
        ({"leaderboards/entries/0.2.0/my-method/entry.json": b"\n"}, "2 entries; a pull request"),
        ({f"{MINE}/README.md": b"hello\n"}, "and a file that an entry has"),
        ({f"{MINE}/runs/00/curve.jsonl": b"\n"}, "and a file that an entry has"),
        ({f"{MINE}/runs/1/weights.pt": b"\n"}, "and a file that an entry has"),
        ({f"{MINE}/runs/1/episodes.jsonl.gz": b"\n"}, "and a file that an entry has"),
        ({"leaderboards/entries/README.md": b"\n"}, "and a file that an entry has"),
        ({"leaderboards/entries/0.1.0/My-Method/entry.json": b"\n"}, "a file that an entry has"),
        ({"leaderboards/entries/0.1.0/.git.x/entry.json": b"\n"}, "a file that an entry has"),
        ({"leaderboards/entries/0.1.0/aux.x/entry.json": b"\n"}, "'aux.x' is one that Windows"),
        ({f"{MINE}/entry .json": b"\n"}, "no spaces, control or other than ASCII characters"),
        ({f"{MINE}/entry.json\n": b"\n"}, "no spaces, control or other than ASCII characters"),
        ({f"{MINE}/\x1b[31m.json": b"\n"}, "no spaces, control or other than ASCII characters"),
        ({f"{MINE}/\N{CYRILLIC SMALL LETTER IE}ntry.json": b"\n"}, "other than ASCII"),
        ({f"{MINE}/e\N{COMBINING ACUTE ACCENT}.json": b"\n"}, "not UTF-8 in Unicode form NFC"),
        ({f"{MINE}/".encode() + b"\xff.json": b"\n"}, "not UTF-8 in Unicode form NFC"),
        ({f"{MINE}/runs/3/curve.jsonl": b""}, "0 bytes, allowed are 1 to"),
    ],
)  # fmt: skip
def test_each_thing_that_does_not_belong_is_refused_in_its_own_words(
    repo: Repository, files: Mapping, said: str
) -> None:
    problems = _problems(repo, {**GOOD, **files})
    assert any(said in line for line in problems), problems
    assert len(problems) <= 2
    for line in problems:
        assert line.isprintable()


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("120000", "a symbolic link; an entry has plain files only"),
        ("160000", "a submodule; an entry has plain files only"),
        ("100755", "an executable; an entry has plain files only"),
    ],
)
def test_modes(repo: Repository, mode: str, said: str) -> None:
    path = f"{MINE}/runs/1/episodes.jsonl"
    problems = _problems(repo, {**GOOD, path: b"../../../../../../etc/passwd"}, modes={path: mode})
    assert problems == [f"'{path}': {said}"]


def test_a_link_in_place_of_the_folder_of_all_entries(repo: Repository) -> None:
    gone = {f"{THERE}/entry.json": None, f"{THERE}/env.lock.json": None}
    link = {"leaderboards/entries": b"/etc"}
    problems = _problems(repo, {**gone, **link}, modes={"leaderboards/entries": "120000"})
    assert len(problems) == 3
    assert any(line.startswith("'leaderboards/entries':") for line in problems)


@pytest.mark.parametrize("name", ["entry.json", "env.lock.json"])
def test_what_every_entry_has(repo: Repository, name: str) -> None:
    files = {path: data for path, data in GOOD.items() if not path.endswith(name)}
    assert _problems(repo, files) == [f"{MINE} lacks {name}"]


@pytest.mark.parametrize("name", sorted(FILE_CAPS))
def test_a_file_may_have_its_bytes_and_not_one_more(repo: Repository, name: str) -> None:
    path = next(path for path in GOOD if path.endswith(name))
    cap = FILE_CAPS[name]
    assert _problems(repo, {**GOOD, path: b" " * cap}) == []
    assert _problems(repo, {**GOOD, path: b" " * (cap + 1)}) == [
        f"{path}: {cap + 1} bytes, allowed are 1 to {cap}"
    ]


def test_the_whole_entry_has_a_cap_and_a_number_of_files(repo: Repository) -> None:
    large = b" " * FILE_CAPS["episodes.jsonl"]  # one blob, stored once
    many = {f"{MINE}/runs/{run}/episodes.jsonl": large for run in range(10)}
    (problem,) = _problems(repo, {**GOOD, **many})
    assert "bytes in all, at most" in problem
    many = {f"{MINE}/runs/{run}/episodes.jsonl": b"\n" for run in range(202)}
    (problem,) = _problems(repo, {**GOOD, **many})
    assert problem == "205 files; an entry has at most 202"


def test_what_the_fetch_left_out_was_too_large(repo: Repository, tmp_path: Path) -> None:
    path = f"{MINE}/runs/0/episodes.jsonl"
    cap = FILE_CAPS["episodes.jsonl"]
    head = repo.commit({**GOOD, path: b" " * (cap + 1)}, repo.base)
    repo.git("update-ref", "refs/heads/main", repo.base)
    repo.git("update-ref", "refs/pull/1/head", head)
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    source = repo.path.as_uri()
    subprocess.run(["git", "clone", "-q", "--bare", source, str(clone)], check=True)
    fetch = ["fetch", "-q", f"--filter=blob:limit={cap + 1}", source, "refs/pull/1/head"]
    subprocess.run(["git", "-C", str(clone), *fetch], check=True)
    assert check(clone, repo.base, head).problems == [f"{path}: larger than {cap} bytes"]


def test_a_path_that_stands_twice_in_a_tree(repo: Repository) -> None:
    raw = b""
    for mode, name, sha in (
        ("100644", "entry.json", repo.blob(b"{}\n")),
        ("100644", "entry.json", repo.blob(b"[]\n")),
        ("100644", "env.lock.json", repo.blob(b"{}\n")),
    ):
        raw += f"{mode} {name}\0".encode() + bytes.fromhex(sha)
    tree = repo.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
    for name in reversed(MINE.split("/")):
        line = f"040000 tree {tree}\t{name}\0".encode()
        tree = repo.git("mktree", "-z", stdin=line)
    empty = repo.commit_tree(repo.git("mktree"))
    found = check(repo.path, empty, repo.commit_tree(tree, empty))
    assert found.problems == ["a path stands twice in one tree"]


def test_no_common_commit_or_two_of_them(repo: Repository) -> None:
    with pytest.raises(ChangesError, match="shares 0 newest commits"):
        check(repo.path, repo.base, repo.commit(GOOD))
    a = repo.commit({"a": b"\n"}, repo.base)
    b = repo.commit({"b": b"\n"}, repo.base)
    criss, cross = repo.commit({"b": b"\n"}, a, b), repo.commit({"a": b"\n", **GOOD}, b, a)
    with pytest.raises(ChangesError, match="shares 2 newest commits"):
        check(repo.path, criss, cross)


def test_many_problems_are_counted(repo: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    head = repo.commit(GOOD | {f"{MINE}/x{i}": b"\n" for i in range(50)}, repo.base)
    assert main([repo.base, head, "--repo", str(repo.path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 30 problems more"


def test_command_line_needs_the_standard_library_alone(repo: Repository, tmp_path: Path) -> None:
    head = repo.commit(GOOD, repo.base)
    top = Path(__file__).parent.parent

    def run(*args: str) -> tuple[int, str, str]:
        # -S: without site-packages
        done = subprocess.run(
            [sys.executable, "-S", "-m", "leaderboards.changes", *args, "--repo", str(repo.path)],
            capture_output=True,
            text=True,
            cwd=top,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    out = tmp_path / "out"
    assert run(repo.base, head, "--extract", str(out)) == (
        0,
        f"{MINE}: 4 files, only new ones\n",
        "",
    )
    assert (out / "0.1.0/my-method/entry.json").read_bytes() == b"{}\n"
    bad = repo.commit({**GOOD, "run.py": b"\n"}, repo.base)
    code, said, _ = run(repo.base, bad, "--extract", str(tmp_path / "not"))
    assert (code, said) == (1, "'run.py': a pull request with an entry touches nothing else\n")
    assert not (tmp_path / "not").exists()
    for name in ("nothing", "--upload-pack=x", "a b", "$(id)"):
        code, said, error = run(repo.base, "--", name) if name[0] == "-" else run(repo.base, name)
        assert (code, said) == (2, "")
        assert len(error.splitlines()) == 1 or "usage" in error


@pytest.mark.parametrize(
    "slug", ["ab", "-ab", "ab-", "a b", "a/b", "A-b", "con", "nul.x", "a" * 64]
)
def test_names_that_no_entry_can_have(slug: str) -> None:
    assert slug_problem(slug)


@pytest.mark.parametrize("slug", ["abc", "a" * 63, "gpt-5.2_mini", "console"])
def test_names_that_an_entry_can_have(slug: str) -> None:
    assert slug_problem(slug) is None
