"""Files of many levels: what is read, what is refused, what is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftw_envs.sokoban.files import (
    FileLevel,
    check_lurd,
    format_level,
    read_levels,
    read_levels_text,
    write_levels,
)
from ftw_envs.sokoban.levels import LevelError, parse_level
from ftw_envs.sokoban.lines import expand
from ftw_envs.sokoban.rules import Level

DATA = Path(__file__).parents[2] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="no level files beside the project")
ONE = "#####\n#@$.#\n#####\n"
TWO = "######\n#@ $.#\n######\n"
LEVELS = [parse_level(ONE), parse_level(TWO)]


def levels_of(text: str) -> list[Level]:
    return [x.level for x in read_levels_text(text, "f")]


def titles_of(text: str) -> list[str]:
    return [x.title for x in read_levels_text(text, "f")]


def error_of(text: str) -> str:
    with pytest.raises(LevelError) as e:
        read_levels_text(text, "f")
    return str(e.value)


# What is a level


@pytest.mark.parametrize(
    "text",
    [
        f"{ONE}\n{TWO}",
        f"; 1\n{ONE}\n; 2\n{TWO}",
        f"; 1\n\n{ONE}; 2\n{TWO}",
        f"# 1\n{ONE}# 2\n{TWO}",
        f"#1\n{ONE}\n#2\n{TWO}",
        f"## Level 1: a start\n{ONE}\n-- Level 2 --\n{TWO}",
        f"-- Level 1 --\n{ONE}-- Level 2 --\n{TWO}",
        f"----------\n{ONE}----------\n{TWO}----------\n",
        f"---\n\n{ONE}\n---\n\n{TWO}\n---",
        f"=====\n{ONE}=====\n{TWO}*****\n",
        f"Title\n_____\n{ONE}\nTitle\n-----\n{TWO}",
        f"Level 1\n{ONE}rR\nLevel 2\n{TWO}rrR",
        f"{ONE}Title: C#\n{TWO}Author: #1\n",
        f"{ONE}; with a #\n{TWO}'in C#'\n",
        f"\ufeff{ONE}\n{TWO}",
        f"{ONE}\n{TWO}".replace(" ", "-"),
        f"{ONE}\n{TWO}".replace(" ", "_"),
        f"{ONE}\n{TWO}".translate(str.maketrans("@$", "pb")),
        f"{ONE}\n{TWO}".replace("#\n", "#  \t\n"),
        "5#|#@$.#|5#\n6#|#@-$.#|6#",
        "5#|#@$.#|5#|\n\n6#|#@-$.#|6#|\n",
        "(5#)|#@$.#|5(#)\n2(3#)|#@-$.#|3(2#)",
        "5#\n#@$.#\n5#\n\n2(3(#))\n#@-$.#|6#",
        "5#|\n#@$.#|5#\n\n6#|#@-$.#|\n6#|",
        "#####|#@$.#|#####\n######|#@-$.#|######\n",
    ],
)
def test_ways_to_write_two_levels(text: str) -> None:
    for end in ("\n", "\r\n", "\r"):
        assert levels_of(text.replace("\n", end)) == LEVELS


def test_ragged_rows_keep_their_place() -> None:
    text = "  ####\n###  #\n#@ $.#\n######"
    assert levels_of(text) == [parse_level(text)]
    assert levels_of("--" + text.replace("\n", "\n--")) == [
        parse_level("  " + text.replace("\n", "\n  "))
    ]


@pytest.mark.parametrize("empty", ["-", "_", "--", "-----", "_____", "  _", "-\n-"])
def test_empty_rows_inside_a_board(empty: str) -> None:
    text = f"{ONE}{empty}\n###\n#*#\n###"
    (level,) = levels_of(text)
    assert level.height == 7 + empty.count("\n")
    assert levels_of(f"###\n#*#\n###\n{empty}\n{ONE}")[0].height == level.height


def test_rows_of_boxes_inside_a_board() -> None:
    text = "#####\n#@$.#\n#####\n *-*\n#####"
    assert levels_of(text) == [parse_level(text)]


def test_sok_file() -> None:
    text = f"""\
:: Sokoban file format ::
:: Wall....: #  # :....Wall ::

Collection: Two puzzles
Author: N. N.

Small one

{ONE}
Author: N. N.
Comment:
#####
not a board
#x#
Comment-End:

Solution (1/1)
R

Saved game
2(lr)*
[]U[rr]d

Small two

{TWO}
Comment: nothing more
Solution
1r1R
"""
    assert levels_of(text) == LEVELS
    assert titles_of(text) == ["Small one", "Small two"]
    assert [x.line for x in read_levels_text(text, "f")] == [9, 29]


# Titles


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        (f"{ONE}\n{TWO}", ["1", "2"]),
        (f"; 7\n{ONE}\n; 8\n{TWO}", ["7", "8"]),
        (f"; Set\n---\n; 7\n\n{ONE}\n---\n\n; 8\n'Lockdown'\n\n{TWO}\n---\n", ["7", "Lockdown"]),
        (f"{ONE}; 7\n\n{TWO}; 8\n", ["7", "8"]),
        (f"{ONE}\n;7\n\n{TWO}\n;8\n", ["7", "8"]),
        (f"; Set\n\n{ONE}; 7\n\n{TWO}; 8\n", ["7", "8"]),
        (f"; 7\n{ONE}\n; 8\n{TWO}\n; the end", ["7", "8"]),
        (f"{ONE}Title: A\nAuthor: X\n\n{TWO}\nTitle: B\n", ["A", "B"]),
        (f"Title: A\nAuthor: X\n\n{ONE}\nTitle: B\n\n{TWO}", ["A", "B"]),
        (f"Title: Set\n\n{ONE}\nTitle: A\n\n{TWO}\nTITLE:B: b\n", ["A", "B: b"]),
        (f"{ONE}\nTitle: A\n\n{TWO}", ["A", "2"]),
        (f"A\n\n{ONE}\nB\n{TWO}", ["A", "B"]),
        (f"A\n{ONE}B\n{TWO}", ["A", "B"]),
        (f"{ONE}A\n\n{TWO}B", ["A", "B"]),
        (f"A set\nof two lines\n\n{ONE}notes\nmore notes\n\n{TWO}", ["1", "2"]),
        (f"# 7\n{ONE}# 8\n{TWO}", ["7", "8"]),
        (f"-- Level 7 --\n{ONE}\n-- Level 8 --\n\n{TWO}", ["Level 7", "Level 8"]),
        (f"A\n\n{ONE}\nrR\n\n{TWO}", ["A", "2"]),
        (f"; ----\n{ONE}\n; *\n{TWO}", ["1", "2"]),
    ],
)
def test_titles(text: str, titles: list[str]) -> None:
    assert titles_of(text) == titles


# What is refused


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "f: holds no level; rows are made of # @ + $ * . and - for floor"),
        ("no board\n; here\n", "f: holds no level"),
        ("rRlL\n", "f: holds no level"),
        (f"{ONE}\n\n#####\n#@x.#\n#####\n", "f:7: this row holds 'x'; use # @ + $ * . and"),
        (f"{ONE}\n#####x\n#@$.#\n#####\n", "f:5: this row holds 'x'"),
        (f"{ONE}#x####\n\n{TWO}", "f:4: this row holds 'x'"),
        (f"\n{ONE}\n#####\nx@$.#\n#####", "f:7: this row holds 'x'"),
        ("#####\n#@\t$.#\n#####", r"f:2: this row holds '\t'"),
        ("\t#####\n\t#@$.#\n\t#####", r"f:1: this row holds '\t'"),
        ("#####\n#@$.2\n#####", "f:2: run lengths cannot be read"),
        ("#####\n#@$ 2#\n#####", "f:2: this row holds '2'"),
        ("5#|#@x$.#|5#", "f:1: this row holds 'x'"),
        ("5#|#@(x$.#|5#", "f:1: this row holds 'x'"),
        ("5#|#@($.#|5#", "f:1: run lengths cannot be read"),
        ("5#|#@$.#|5#|0#", "f:1: run lengths cannot be read"),
        ("5#|#@$.#|99999999#", "f:1: run lengths cannot be read"),
        ("999#\n" * 33, "f:1: a board has up to 32767 cells, this one 999 x 33"),
        ("65534#\n" * 300, "f:257: run lengths make over 16777216 cells more than are written"),
        ("60000(|)#\n" * 300, "f:140: run lengths make over 16777216 cells more"),
        (f"{ONE}\n#####\n#-$.#\n#####", "f:5: a level has one player (@ or +), this one has 0"),
        (f"{ONE}---\n#####\n#-$.#\n#####", "f:5: a level has one player (@ or +), this one has 0"),
        ("5#|#@$.#|5#\n5#|#-$.#|5#\n5#|#@$.#|5#", "f:2: a level has one player"),
        (f"{ONE}{TWO}", "f:1: a level has one player (@ or +), this one has 2"),
        ("\n\n#####\n#@$$#\n#####", "f:3: a level has as many boxes as goals, this one 2 and 0"),
        ("#####\n#@$.#\n#-\n#####", "f:3: the wall is open at row 3, column 5"),
        ("; 1\r#####\r#@$. \r#####", "f:3: the wall is open"),
    ],
)
def test_malformed_files_name_the_line(text: str, why: str) -> None:
    message = error_of(text)
    assert message.startswith(why)
    assert "\n" not in message


def test_a_row_that_went_wrong_is_known_to_its_level() -> None:
    with pytest.raises(LevelError) as e:
        read_levels_text("\n\n#####\n#@$.#\n#-\n#####", "f")
    assert e.value.row == 2


@pytest.mark.parametrize("text", ["0#", "2", "#2", "2(#", "#)", "2)", "(2)#", "12345678#"])
def test_run_lengths_that_cannot_be_read(text: str) -> None:
    assert expand(text, 100) is None


def test_run_lengths() -> None:
    assert expand("", 9) == ""
    assert expand("2(3(#-)#)", 99) == "#-#-#-##-#-#-#"
    assert expand("99#", 99) == "#" * 99
    for text in ("100#", "10(10(#))", "50(##)", "(" * 1_000_000, "9(" * 16 + "#" + ")" * 16):
        assert expand(text, 99) is None


def test_unreadable_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    with pytest.raises(LevelError, match=r"a\.txt: cannot be read: No such file"):
        read_levels(path)
    with pytest.raises(LevelError, match="cannot be read: Is a directory"):
        read_levels(tmp_path)
    path.write_bytes(ONE.encode("utf-16"))
    with pytest.raises(LevelError, match="is not text; UTF-8 and Latin-1 can be read"):
        read_levels(path)
    path.write_bytes(f"; Über\n{ONE}".encode("latin-1"))
    assert read_levels(path)[0].title == "Über"
    path.write_bytes(f"; Über\n{ONE}".encode("utf-8-sig"))
    assert read_levels(path) == [FileLevel(LEVELS[0], "Über", 2)]
    monkeypatch.setattr("ftw_envs.sokoban.files.MAX_BYTES", 10)
    with pytest.raises(LevelError, match="is larger than 0 MB"):
        read_levels(path)


WORDS = ["Title: ", "Comment:", "Comment-End:", "5#|#@$.#|5#", "# 1", "---", "#####", ONE, TWO]
CHARACTERS = "#@+$*.-_ pPbB|()0129;:'xrR\t\x0c\x85\ufeff\u2028\r\n\n\n"
PIECES = st.sampled_from([*CHARACTERS, *WORDS])


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    levels, error = [], ""
    try:
        levels = read_levels_text(text, "f")
    except LevelError as e:
        error = str(e)
    assert bool(levels) != error.startswith("f:")
    assert "\n" not in error
    lines = text.count("\n") + text.count("\r") + 1
    assert all(x.title and x.line <= lines for x in levels)


# What is written


@st.composite
def boards(draw: st.DrawFn) -> Level:
    """Walls all around, what lies inside in any order, floor and decoration outside."""
    w, h = draw(st.integers(2, 5)), draw(st.integers(2, 4))
    boxes = draw(st.integers(1, min(3, (w * h - 1) // 2)))
    pieces = "$." * boxes + draw(st.sampled_from(["@", "+$"])) + "*#" + "-" * (w * h)
    inside = draw(st.permutations(pieces))
    rows = ["#" * (w + 2), *("#" + "".join(inside[i * w : i * w + w]) + "#" for i in range(h))]
    rows += ["#" * (w + 2)]
    rows += draw(st.sampled_from([[], ["-", "#*#"], ["---", "--", "##"], ["", "-*-", "#"]]))
    left, right = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    try:
        return parse_level("\n".join("-" * left + row + "-" * right for row in rows))
    except LevelError:
        return draw(st.sampled_from(LEVELS))


TITLES = st.text("ab1 #;:'-()|*@$ü[]", min_size=1, max_size=12).map(lambda x: " ".join(x.split()))


@settings(max_examples=60, deadline=None)
@given(
    levels=st.lists(st.tuples(boards(), TITLES), min_size=1, max_size=4),
    style=st.sampled_from(["xsb", "sok", "boxoban", "rle"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_round_trip(tmp_path_factory, levels, style, end) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.txt"
    given_levels = [
        FileLevel(x, title if any(map(str.isalnum, title)) else str(i), 0)
        for i, (x, title) in enumerate(levels, 1)
    ]
    write_levels(path, given_levels, style)
    path.write_bytes(path.read_bytes().replace(b"\n", end.encode()))
    back = read_levels(path)
    assert [x.level for x in back] == [x.level for x in given_levels]
    if style != "boxoban":
        assert [x.title for x in back] == [x.title for x in given_levels]


def test_styles(tmp_path: Path) -> None:
    levels = [FileLevel(x, title, 1) for x, title in zip(LEVELS, ("A", " "), strict=True)]
    written = {
        "xsb": f"; A\n\n{ONE}\n; 2\n\n{TWO}",
        "sok": f"{ONE}Title: A\n\n{TWO}Title: 2\n",
        "boxoban": f"; 0\n{ONE}\n; 1\n{TWO}",
        "rle": "; A\n\n5#|#@$.#|5#\n\n; 2\n\n6#|#@-$.#|6#\n",
    }
    for style, text in written.items():
        write_levels(tmp_path / style, levels, style)
        assert (tmp_path / style).read_text() == text
    with pytest.raises(LevelError, match="no levels to write"):
        write_levels(tmp_path / "none", [], "xsb")
    with pytest.raises(ValueError, match="style must be one of xsb, sok, boxoban, rle, got 'x'"):
        write_levels(tmp_path / "none", levels, "x")
    assert not (tmp_path / "none").exists()


def test_format_level_leaves_out_empty_rows_around() -> None:
    level = parse_level(f"-\n{ONE}_")
    assert level.height == 5
    assert format_level(level) == ONE.strip()
    assert format_level(level, rle=True) == "5-|5#|#@$.#|5#|5-"
    with pytest.raises(LevelError, match="row 2 has no wall; write it run-length encoded"):
        format_level(parse_level(f"-\n*\n{ONE}"))


def test_a_level_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    levels = read_levels_text(f"{ONE}\n*|5#|#@$.#|5#", "f")
    with pytest.raises(LevelError, match="level 2: row 1 has no wall; write it run-length"):
        write_levels(tmp_path / "a.txt", levels, "xsb")
    write_levels(tmp_path / "a.txt", levels, "rle")
    assert [x.level for x in read_levels(tmp_path / "a.txt")] == [x.level for x in levels]


# Solutions


@pytest.mark.parametrize("lurd", ["rR", "rr", " r\n R ", "1r1R", "(rR)", "lrrR"[2:]])
def test_solutions_that_hold(lurd: str) -> None:
    assert check_lurd(LEVELS[1], lurd).solved


@pytest.mark.parametrize(
    ("lurd", "why"),
    [
        ("rl", "the level is not solved after 2 moves: 1 of 2 boxes off the goals"),
        ("", "the level is not solved after 0 moves: 1 of 2 boxes off the goals"),
        ("rRl2r", "move 5 (r) pushes a box; a push is in upper case"),
        ("rRR", "move 3 (R) is blocked"),
        ("rU", "move 2 (U) is blocked"),
        ("R", "move 1 (R) pushes nothing; a walk is in lower case"),
        ("r r x", "move 3 is 'x'; use l u r d, upper case for a push"),
        ("2", "the run lengths cannot be read, or make over 1000000 moves"),
        ("2000000r", "the run lengths cannot be read, or make over 1000000 moves"),
    ],
)
def test_solutions_that_fail(lurd: str, why: str) -> None:
    level = parse_level("########\n#@-$-.*#\n########" if lurd == "rRl2r" else TWO + "-#*#")
    with pytest.raises(LevelError) as e:
        check_lurd(level, lurd)
    assert str(e.value) == why


# Real files


@needs_data
def test_microban(tmp_path: Path) -> None:
    levels = read_levels(DATA / "classic" / "microban.txt")
    assert len(levels) == 155
    named = {43: "Duh!", 100: "Lockdown", 146: "reduction of (Mas Sasquatch 8)"}
    assert all(levels[i].title == title for i, title in named.items())
    assert [x.title for x in levels[:43]] == [str(i) for i in range(1, 44)]
    assert levels[154].title == "The Dungeon"
    assert levels[0].line == 7
    for style in ("xsb", "sok", "rle", "boxoban"):
        write_levels(tmp_path / style, levels, style)
        back = read_levels(tmp_path / style)
        assert [x.level for x in back] == [x.level for x in levels]
        if style != "boxoban":
            assert [x.title for x in back] == [x.title for x in levels]


@needs_data
@pytest.mark.parametrize("name", ["unfiltered-test-000", "hard-000"])
def test_boxoban(name: str, tmp_path: Path) -> None:
    path = DATA / "boxoban" / f"{name}.txt"
    levels = read_levels(path)
    assert len(levels) == 1000
    assert [x.title for x in levels] == [str(i) for i in range(1000)]
    assert [x.line for x in levels] == [2 + 12 * i for i in range(1000)]
    assert {(x.level.width, x.level.height) for x in levels} == {(10, 10)}
    write_levels(tmp_path / "again.txt", levels, "boxoban")
    assert (tmp_path / "again.txt").read_text().split() == path.read_text().split()
