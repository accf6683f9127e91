"""What is said under a pull request about the check of its entry: a fixed text, and a report.

    python -m leaderboards.comment BASE HEAD --conclusion success --url URL --report ZIP --out FILE

The report comes from a job that the pull request could have changed, so it proves nothing.
That the pull request changes nothing but its entry is checked here once more; only then does
the job's conclusion count. Of the report, plain text is shown, cut and in a code block. Only
the standard library is used, so that nothing has to be installed where a token can write.
"""

from __future__ import annotations

import argparse
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

from leaderboards.changes import ChangesError, Check, check

REPORT = "report.txt"
MAX_REPORT = 2**16
MAX_LINES = 20
MAX_LINE = 300

_URL = re.compile(r"https://[a-z0-9.-]+/[A-Za-z0-9._/-]+")
_NOTE = re.compile(r"::(error|warning) [^:]*::")

_FITS = "This pull request adds the entry `{entry}` and changes nothing else."
_DIFFERS = "This pull request cannot be taken as an entry:"
_VERDICTS = {
    "success": "**Verified.** Every reply was played again, and every figure follows from them.",
    "failure": "**Not verified.** What is wrong stands below; push a mended entry to try again.",
}
_NO_VERDICT = "**Not verified yet.** The check was stopped before its end."
_FOOT = "[Log of the check]({url}). What verification proves and what not: `docs/leaderboards.md`."


def read_report(path: Path) -> str:
    """The report in an artifact; empty if there is none that can be read.

    No file of the archive is unpacked, and no more than `MAX_REPORT` bytes are read.
    """
    try:
        with zipfile.ZipFile(path) as archive, archive.open(REPORT) as file:
            return file.read(MAX_REPORT).decode("utf-8", "replace")
    except Exception:  # an archive can be broken in many ways, and all mean the same here
        return ""


def plain_lines(report: str) -> list[str]:
    """The first lines of a report, each of printable ASCII, that can be put in a code block."""
    lines = [_NOTE.sub(r"\1: ", line, count=1) for line in re.split(r"[\r\n]+", report) if line]
    shown = [re.sub(r"[^ -~]|`", "?", line[:MAX_LINE]).rstrip() for line in lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        shown.append("... more in the log")
    return shown


def comment(found: Check, conclusion: str, url: str, report: str) -> str | None:
    """The text of the comment, in Markdown; None if the pull request touches no entry.

    Args:
        found: what the pull request changes.
        conclusion: of the job that verified it; counts only if nothing else was changed.
        url: of that job's log.
        report: what that job says.

    Raises:
        ValueError: `url` is not one.
    """
    if not _URL.fullmatch(url):
        raise ValueError(f"--url must be the address of a run, got {url!a}")
    if found.problems:
        return _text(_DIFFERS, _block("\n".join(found.problems)), url)
    if found.entry is None:
        return None
    verdict = _VERDICTS.get(conclusion, _NO_VERDICT)
    return _text(f"{verdict} {_FITS.format(entry=found.entry)}", _block(report), url)


def _block(report: str) -> str:
    lines = plain_lines(report)
    return "\n".join(["```text", *lines, "```"]) if lines else "There is no report."


def _text(head: str, block: str, url: str) -> str:
    return f"{head}\n\n{block}\n\n{_FOOT.format(url=url)}\n"


def main(args: Sequence[str] | None = None) -> int:
    """The command; writes no file if there is nothing to say."""
    parser = argparse.ArgumentParser(prog="leaderboards.comment", description=__doc__)
    parser.add_argument("base", help="commit that the pull request is to be merged into")
    parser.add_argument("head", help="its newest commit")
    parser.add_argument("--repo", type=Path, default=Path(), help="the repository")
    parser.add_argument("--conclusion", required=True, help="of the job that verified")
    parser.add_argument("--url", required=True, help="of that job's log")
    parser.add_argument("--report", type=Path, required=True, help="the artifact, a zip file")
    parser.add_argument("--out", type=Path, required=True, help="file for the comment")
    options = parser.parse_args(args)
    try:
        found = check(options.repo, options.base, options.head)
    except ChangesError as e:
        found = Check(problems=[str(e)])
    text = comment(found, options.conclusion, options.url, read_report(options.report))
    if text is not None:
        options.out.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
