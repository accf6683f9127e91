"""What strangers submit is read with one meaning, in bounded time and memory, or refused."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboards.strict import (
    MAX_DEPTH,
    MAX_INT,
    MAX_STRING,
    StrictError,
    inventory,
    lines,
    loads,
    plain_text,
    read_json,
)

BIG = 5_000_000

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_INT, MAX_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


def _levels(value: object) -> int:
    inner = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    return 0 if inner is None else 1 + max(map(_levels, inner), default=0)


@given(_values, st.booleans())
def test_strict_json_says_what_was_written(value: object, ascii_only: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    if _levels(value) > MAX_DEPTH:
        with pytest.raises(StrictError, match="nested deeper"):
            loads(data, "x", BIG)
    else:
        assert loads(data, "x", BIG) == value


@given(st.binary(max_size=40) | st.text('[]{}":,\\u0123eE-+.ntfaxND \n').map(str.encode))
def test_any_bytes_are_read_as_json_reads_them_or_refused_on_one_line(data: bytes) -> None:
    try:
        value = loads(data, "here", BIG)
    except StrictError as e:
        said = str(e)
    else:
        assert value == json.loads(data)
        return
    assert said.startswith("here: ")
    assert said.isprintable()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"a":1,"a":2}', "key 'a' stands twice in one object"),
        (b'{"b":{"a":1,"a":1}}', "key 'a' stands twice in one object"),
        (b'{"a":1,"\\u0061":2}', "key 'a' stands twice in one object"),
        (b"NaN", "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b"1e999", "1e999 is out of range"),
        (b"9007199254740993", "9007199254740993 is out of range: whole numbers go to 2**53"),
        (b"-9007199254740993", "is out of range"),
        (b"1" * 4_000, "is out of range"),
        (b"1" * 5_000, "is out of range"),
        (b'"\\ud800"', "a lone surrogate"),
        (b'{"\\uDFFF":1}', "a lone surrogate"),
        (b'"\xed\xa0\x80"', "not UTF-8 at byte 1"),
        (b'"\xff"', "not UTF-8 at byte 1"),
        (b"\xef\xbb\xbf{}", "begins with a byte order mark"),
        ('{"a":1}'.encode("utf-16"), "not UTF-8"),
        (b"[" * 9 + b"]" * 9, "nested deeper than 8 levels"),
        (b'{"a":' * 9 + b"1" + b"}" * 9, "nested deeper than 8 levels"),
        (b'"' + b"a" * (MAX_STRING + 1) + b'"', "a string is longer than 100000 characters"),
        (b'{"' + b"a" * (MAX_STRING + 1) + b'":1}', "a string is longer than 100000 characters"),
        (b"", "not valid JSON"),
        (b"{'a':1}", "not valid JSON"),
        (b"[1,]", "not valid JSON"),
        (b"{} {}", "not valid JSON"),
        (b"01", "not valid JSON"),
        (b'"\x00"', "not valid JSON"),
    ],
)
def test_what_python_takes_and_strict_json_does_not(data: bytes, said: str) -> None:
    with pytest.raises(StrictError) as e:
        loads(data, "entry.json", BIG)
    assert str(e.value).startswith("entry.json: ")
    assert said in str(e.value)
    assert len(str(e.value)) < 400


def test_the_last_of_what_is_allowed() -> None:
    deep = b"[" * 8 + b"]" * 8
    assert loads(deep, "x", len(deep)) == json.loads(deep)
    with pytest.raises(StrictError, match="longer than 15 bytes"):
        loads(deep, "x", len(deep) - 1)
    assert loads(f"[{MAX_INT},-{MAX_INT}]".encode(), "x", BIG) == [MAX_INT, -MAX_INT]
    assert loads(b'"' + b"a" * MAX_STRING + b'"', "x", BIG) == "a" * MAX_STRING
    assert loads(b'"\\ud83d\\ude00"', "x", BIG) == "\N{GRINNING FACE}"
    brackets = json.dumps(["[[[[[[[[[[{{{{", '\\"[', 'a"[[[[[[[[[']).encode()
    assert loads(brackets, "x", BIG) == json.loads(brackets)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 4_000_000,
        b'[{"a":' * 600_000,
        b'"' * 4_000_000,
        b'"\\' * 2_000_000,
        b'\\"' * 2_000_000,
        b"[]" * 500_000,
        b'["' + b"\\\\" * 1_900_000,
        b"1" * 4_000_000,
        b"0." + b"1" * 4_000_000 + b"x",
        b'{"a":1,' * 500_000,
        b"{" + b",".join(b'"%d":0' % i for i in range(300_000)) + b',"7":1}',
    ],
    ids=range(11),
)  # fmt: skip
def test_bombs_end_soon(data: bytes) -> None:
    start = time.process_time()
    with pytest.raises(StrictError):
        loads(data, "x", BIG)
    assert time.process_time() - start < 3  # milliseconds; what is not linear takes hours


# Files.


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_lines_come_with_their_numbers(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.jsonl", b'{"a":1}\n[2]\n"\xc3\xa9"\n')
    assert list(lines(path, 100, 100)) == [(1, {"a": 1}), (2, [2]), (3, "é")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"1\n2", ":2: cut off: the line has no end"),
        (b"1\n\n2\n", ":2: an empty line"),
        (b"1\r\n2\r\n", r":1: a line ends with \n alone, here is a \r"),
        (b"1\n" + b"2" * 50 + b"\n", ":2: longer than 20 bytes"),
        (b"1\n" + b"2" * 50, ":2: longer than 20 bytes"),
        (b"1\n{\n}\n", ":2: not valid JSON"),
        (b"\xef\xbb\xbf1\n", ":1: begins with a byte order mark"),
        (b"1\n" * 51, "102 bytes, at most 100 are allowed"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    path = _write(tmp_path / "a.jsonl", data)
    with pytest.raises(StrictError) as e:
        list(lines(path, 100, 20))
    assert str(e.value).startswith(f"{path}:")
    assert said in str(e.value)


def test_nothing_but_a_regular_file_is_opened(tmp_path: Path) -> None:
    _write(tmp_path / "secret.json", b'"s3cret"')
    (tmp_path / "link.json").symlink_to("secret.json")
    os.mkfifo(tmp_path / "pipe.json")
    for name, said in (
        ("link.json", "a link"),
        ("pipe.json", "not a regular file"),
        (".", "not a regular file"),
        ("missing.json", "cannot be read (No such file or directory)"),
        ("nul\0.json", "cannot be read (embedded null byte)"),
    ):
        with pytest.raises(StrictError) as e:
            read_json(f"{tmp_path}/{name}", 100)
        assert said in str(e.value)
    with pytest.raises(StrictError, match="not a regular file"):
        read_json("/dev/zero", 100)
    assert read_json(tmp_path / "secret.json", 100) == "s3cret"
    with pytest.raises(StrictError, match="8 bytes, at most 7 are allowed"):
        read_json(tmp_path / "secret.json", 7)


def test_memory_is_that_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    line = json.dumps({"replies": ["x" * 900]}).encode() + b"\n"
    with open(path, "wb") as file:
        for _ in range(60):
            file.write(line * 1000)
    size = path.stat().st_size
    assert size > 50 << 20
    program = (
        "import resource, sys; from leaderboards.strict import lines\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "n = sum(1 for _ in lines(sys.argv[1], 1 << 30, 1 << 20))\n"
        "print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    count, grown = map(int, done.stdout.split())
    assert count == 60_000
    assert grown < 10_000  # kB


def test_inventory(tmp_path: Path) -> None:
    (tmp_path / "runs/0").mkdir(parents=True)
    _write(tmp_path / "entry.json", b"123")
    _write(tmp_path / "runs/0/curve.jsonl", b"")
    assert inventory(tmp_path, 4) == {"entry.json": 3, "runs/0/curve.jsonl": 0}
    with pytest.raises(StrictError, match="more than 1 files"):
        inventory(tmp_path, 1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: (p / "x").symlink_to("/etc/passwd"), "'x' is a link"),
        (lambda p: (p / "runs").symlink_to("/etc"), "'runs' is a link"),
        (lambda p: (p / "x").symlink_to("nowhere"), "'x' is a link"),
        (lambda p: os.mkfifo(p / "x"), "'x' is not a regular file"),
        (lambda p: (p / "x").mkdir(), "an empty folder"),
        (lambda p: (p / "/".join("abcdefghij")).mkdir(parents=True), "is not a regular file"),
        (lambda p: os.mkfifo(os.fsencode(p) + b"/\x1b[1m\xff"), r"'\x1b[1m\udcff' is not"),
    ],
    ids=range(7),
)  # fmt: skip
def test_inventory_refuses_all_but_files_and_folders(tmp_path: Path, make, said: str) -> None:
    _write(tmp_path / "entry.json", b"{}")
    make(tmp_path)
    with pytest.raises(StrictError) as e:
        inventory(tmp_path, 100)
    assert said in str(e.value)
    assert str(e.value).isprintable()


# Text for people.


@pytest.mark.parametrize(
    "text",
    [
        "σ-trap",
        "FTW (K = 2)",
        "naïve Bayes",
        "Qwen2.5-0.5B",
        "漢字とテスト",
        "Ångström",
        "हिन्दी",
        "عربى",
        "Ω",
        "日本 AI",
        "\N{GRINNING FACE}",
        "<img src=x onerror=alert(1)>",
        '=HYPERLINK("http://a")',
        "",
    ],
)
def test_text_that_is_what_it_looks_like(text: str) -> None:
    assert plain_text(text) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\nb", "U+000A, which cannot be seen"),
        ("a\x1b[31mb", "U+001B, which cannot be seen"),
        ("a\x9bb", "U+009B, which cannot be seen"),
        ("a\x00b", "U+0000, which cannot be seen"),
        ("a\u200bb", "U+200B, which cannot be seen"),
        ("a\u202eb", "U+202E, which cannot be seen"),
        ("a\u2066b", "U+2066, which cannot be seen"),
        ("a\ufeffb", "U+FEFF, which cannot be seen"),
        ("a\u00adb", "U+00AD, which cannot be seen"),
        ("a\u3164b", "U+3164, which cannot be seen"),
        ("a\u2800b", "U+2800, which cannot be seen"),
        ("a\ufe0fb", "U+FE0F, which cannot be seen"),
        ("a\U000e0041b", "U+E0041, which cannot be seen"),
        ("a\U000e0100b", "U+E0100, which cannot be seen"),
        ("a\u2028b", "U+2028, which cannot be seen"),
        ("a\u00a0b", "U+00A0, which cannot be seen"),
        ("a\u3000b", "U+3000, which cannot be seen"),
        ("a\ue000b", "U+E000, which cannot be seen"),
        ("a\ud800b", "U+D800, which cannot be seen"),
        ("a\u0378b", "U+0378, which cannot be seen"),
        ("a\uffffb", "U+FFFF, which cannot be seen"),
        ("e\u0301", "Unicode form NFC"),
        ("a\u0328\u0323\u0330b", "more than 2 marks on one letter"),
        ("a\u20dd", "U+20DD, which cannot be seen"),
        ("\uff27PT", "U+FF27: write 'G' for it"),
        ("\U0001d400", "U+1D400: write 'A' for it"),
        ("\u212bngstrom", "U+212B: write '\\xc5' for it"),
        ("GPT-\u0665", "U+0665: write digits as 0 to 9"),
        ("\u0421oder", "the word '\\u0421oder' mixes Cyrillic and Latin letters"),
        ("best \u0440p\u043e agent", "mixes Cyrillic and Latin letters"),
        ("\u0391gent", "mixes Greek and Latin letters"),
        ("\u03bcP", "mixes Greek and Latin letters"),
        ("ag\u0435nt_2", "mixes Cyrillic and Latin letters"),
        (" a", "must not begin or end with a space"),
        ("a ", "must not begin or end with a space"),
    ],
)
def test_text_that_is_not(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as e:
        plain_text(text)
    assert str(e.value).isprintable()
    assert str(e.value).isascii()


@given(st.text())
def test_what_passes_is_normal_printable_and_passes_as_itself(text: str) -> None:
    try:
        passed = plain_text(text)
    except ValueError:
        return
    assert passed == text == unicodedata.normalize("NFC", text)
    assert passed.isprintable()
    assert passed == passed.strip()


def test_a_process_of_little_memory_survives_the_bombs(tmp_path: Path) -> None:
    """A gigabyte on one line is never held: neither read in one piece nor parsed."""
    path = tmp_path / "bomb.jsonl"
    with open(path, "wb") as file:
        file.truncate(1 << 30)  # a hole: no bytes on the disk
    program = (
        "import sys; from leaderboards.strict import StrictError, lines\n"
        "try: list(lines(sys.argv[1], 1 << 31, 1 << 20))\n"
        "except StrictError as e: print(e)"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 29, 1 << 29))

    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=limit,
    )
    assert done.stdout == f"{path}:1: longer than 1048576 bytes\n"
