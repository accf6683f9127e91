"""What is said under a pull request: nothing that it brought is trusted or rendered."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pull_requests import GOOD, MINE, Repository

from leaderboards.changes import Check
from leaderboards.comment import MAX_REPORT, comment, main, plain_lines, read_report

URL = "https://github.com/o/r/actions/runs/1"
FINE = Check(entry=MINE)


def _zip(path: Path, data: bytes, name: str = "report.txt") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return path


def test_a_verified_entry() -> None:
    assert comment(FINE, "success", URL, "verified my-method: 12ab\n") == (
        "**Verified.** Every reply was played again, and every figure follows from them. "
        f"This pull request adds the entry `{MINE}` and changes nothing else.\n\n"
        "```text\nverified my-method: 12ab\n```\n\n"
        f"[Log of the check]({URL}). What verification proves and what not: "
        "`docs/leaderboards.md`.\n"
    )


@pytest.mark.parametrize(
    ("conclusion", "said"),
    [
        ("failure", "**Not verified.**"),
        ("cancelled", "**Not verified yet.**"),
        ("timed_out", "**Not verified yet.**"),
        ("success: all fine", "**Not verified yet.**"),
    ],
)
def test_only_a_success_is_one(conclusion: str, said: str) -> None:
    text = comment(FINE, conclusion, URL, "")
    assert text
    assert text.startswith(said)
    assert "There is no report." in text


def test_a_success_does_not_count_where_more_is_changed() -> None:
    text = comment(Check(problems=["'x.yml': no"]), "success", URL, "verified: all")
    assert text
    assert "Verified" not in text
    assert "verified: all" not in text
    assert "```text\n'x.yml': no\n```" in text


def test_no_entry_no_comment() -> None:
    assert comment(Check(), "success", URL, "hello") is None


def test_the_report_is_plain_text_in_one_block() -> None:
    evil = (
        "```\n@everyone <img src=x onerror=alert(1)> [link](javascript:alert(1))\n"
        "\x1b[31mred\x1b[0m \u202eturned\u202c \u0430\n~~~~\n::error title=a::100%25\n"
        + "x" * 1000
        + "\n" * 5
        + "line\n" * 50
    )
    lines = plain_lines(evil)
    assert lines[0] == "???"
    assert lines[2] == "?[31mred?[0m ?turned? ?"
    assert lines[4] == "error: 100%25"
    assert lines[5] == "x" * 300
    assert len(lines) == 21
    assert lines[-1] == "... more in the log"
    text = comment(FINE, "failure", URL, evil)
    assert text
    assert text.count("```") == 2
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("url", ["", "javascript:alert(1)", f"{URL}) [x](y", "http://a.b/c"])
def test_only_the_address_of_a_log_is_linked(url: str) -> None:
    with pytest.raises(ValueError, match="--url must be"):
        comment(FINE, "success", url, "")


def test_reports_that_are_none(tmp_path: Path) -> None:
    good = _zip(tmp_path / "good.zip", b"line\n")
    assert read_report(good) == "line\n"
    broken = bytearray(good.read_bytes())
    broken[35] ^= 0xFF
    for name, data in (
        ("cut.zip", good.read_bytes()[:-30]),
        ("broken.zip", bytes(broken)),
        ("text.zip", b"hello"),
        ("empty.zip", b""),
    ):
        (tmp_path / name).write_bytes(data)
        assert read_report(tmp_path / name) == ""
    assert read_report(tmp_path / "missing.zip") == ""
    assert read_report(_zip(tmp_path / "other.zip", b"x", "../../report.txt")) == ""


def test_a_bomb_is_read_up_to_the_cap(tmp_path: Path) -> None:
    bomb = _zip(tmp_path / "bomb.zip", b"x" * 50_000_000)
    assert bomb.stat().st_size < 100_000
    assert len(read_report(bomb)) == MAX_REPORT


def test_the_command_looks_at_the_changes_itself(tmp_path: Path) -> None:
    repo = Repository(tmp_path / "repo")
    report = _zip(tmp_path / "report.zip", b"verified my-method: 12ab\n")

    def said(head: str) -> str | None:
        out = tmp_path / f"{head}.md"
        flags = ["--repo", str(repo.path), "--conclusion", "success", "--url", URL]
        assert main([repo.base, head, *flags, "--report", str(report), "--out", str(out)]) == 0
        return out.read_text("utf-8") if out.exists() else None

    assert (said(repo.commit(GOOD, repo.base)) or "").startswith("**Verified.**")
    forged = said(repo.commit({**GOOD, ".github/workflows/entries.yml": b"\n"}, repo.base))
    assert "'.github/workflows/entries.yml': a pull request with an entry touches" in forged
    assert "erified" not in forged.partition("[Log")[0]
    assert said(repo.commit({"run.py": b"\n"}, repo.base)) is None
    assert "it must be one" in said(repo.commit(GOOD))
