"""The pages: what they show, that strangers' text stays text, and that files stay whole."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from site_samples import Site, build_samples
from verified_samples import HOSTILE_NAMES, HOSTILE_REPLY, sample

from ftw_agents.cli import main
from leaderboards.pages import attempts, build, svg, text
from leaderboards.pages.build import write_site
from leaderboards.pages.curves import curves, json_in_html
from leaderboards.pages.downloads import csv_text, json_text
from leaderboards.pages.entries import PERCENT
from leaderboards.pages.history import read_history
from leaderboards.pages.ranking import SiteError, pair_href
from leaderboards.tables import read_decisions, read_verified, tables

ASSETS = Path(build.__file__).parent / "assets"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)
FIRST, SECOND = HOSTILE_NAMES


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return build_samples(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def trees(site: Site) -> dict[str, object]:
    """Every page by its path from the root; reading it fails at the first error in its HTML."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    return {
        path.relative_to(site.folder).as_posix(): parser.parse(path.read_text("utf-8"))
        for path in site.files(".html")
    }


def words(element) -> str:
    """All text in an element, blanks as one."""
    return " ".join("".join(element.itertext()).split())


def tag(element) -> str:
    """Name of an element, of SVG as of HTML; empty for comments."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def of_class(tree, name: str) -> list:
    return [e for e in tree.iter() if name in (e.get("class") or "").split()]


def all_files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# What stands there.


def test_there_is_a_page_for_every_table_entry_and_pair(site, trees):
    expected = {"index.html"}
    for page in site.pages:
        expected |= {page.href, *(e.href for e in page.rows)}
        expected |= {pair_href(page, a, b) for a, b in page.pairs}
    assert set(trees) == expected
    about = json.loads((site.folder / build.MARK).read_text("utf-8"))
    verified = len(list((site.data / "verified").glob("*.json")))
    assert about["entries"] == site.counts.entries == verified == 19
    assert about["tables"] == site.counts.tables == len(site.pages) == 4
    assert site.counts.pages == len(expected)


def test_a_table_has_a_row_for_every_entry_in_the_order_of_the_ranks(site, trees):
    for page in site.pages:
        tree = trees[page.href]
        rows = tree.findall(".//tbody/tr")
        assert [row.get("data-id") for row in rows] == [e.id for e in page.rows]
        assert words(of_class(tree, "count")[0]).startswith(str(len(rows)))
        for row, e in zip(rows, page.rows, strict=True):
            assert words(of_class(row, "rank")[0]) == e.rank
            shown = e.row.solve_rate
            score = words(of_class(row, "score")[0])
            assert score == f"{shown.value:.1%} [{shown.low:.1%}, {shown.high:.1%}]".replace(
                "%", ""
            )


def test_whiskers_of_a_table_share_a_scale_and_its_reference_lines(site, trees):
    rows = trees[site.mini.href].findall(".//tbody/tr")
    lines = {f"{100 * r.value:.2f}".rstrip("0").rstrip(".") + "%" for r in site.mini.references}
    assert len(lines) == 4
    for row, e in zip(rows, site.mini.rows, strict=True):
        whisker = of_class(row, "whisker")[0]
        assert {line.get("x1") for line in of_class(whisker, "ref")} == lines
        interval = of_class(whisker, "interval")[0]
        shown = e.row.solve_rate
        ends = [float(interval.get(x).removesuffix("%")) for x in ("x1", "x2")]
        assert ends == pytest.approx([100 * shown.low, 100 * shown.high], abs=0.01)
        [point] = [
            s
            for s in whisker.iter()
            if tag(s) == "svg" and s is not whisker
            if of_class(s, "marker")
        ]
        assert float(point.get("x").removesuffix("%")) == pytest.approx(100 * shown.value, abs=0.01)


def test_shapes_tell_references_and_provisional_entries(site, trees):
    rows = dict(zip((e.id for e in site.mini.rows), trees[site.mini.href].findall(".//tbody/tr"),
                    strict=True))  # fmt: skip
    for e in site.mini.rows:
        [marker] = [
            m for m in of_class(rows[e.id], "whisker")[0].iter() if m.get("class") == "marker"
        ]
        assert tag(marker) == ("path" if e.row.reference else "circle")
        assert ("reference" in words(rows[e.id])) == e.row.reference
        assert ("provisional" in words(rows[e.id])) == e.row.provisional


def test_what_is_retracted_or_invalid_is_shown_with_its_reason_and_not_ranked(site, trees):
    tree = trees[site.mini.href]
    for method, state, reason in (
        ("RAFT", "retracted", "withdrawn by its submitter"),
        ("REINFORCE++", "invalid", f"played by another model {FIRST}"),
    ):
        [e] = [e for e in site.mini.rows if e.row.verified.entry.method.name == method]
        [row] = [r for r in tree.findall(".//tbody/tr") if r.get("data-id") == e.id]
        assert words(of_class(row, "rank")[0]) == "–"
        assert state in words(of_class(row, "state")[0])
        assert f"{state}: {reason}" in words(tree)
        assert reason in words(trees[e.href])
        assert not any(e.id in href for href in trees if href.startswith("compare/"))


def test_an_older_version_has_its_own_frozen_table(site, trees):
    now, then = (page for page in site.pages if page.board.name == "sokoban-mini")
    assert (now.frozen, then.frozen) == (False, True)
    assert "frozen" in words(trees[then.href])
    assert "frozen" not in words(trees[now.href])
    assert not {e.id for e in now.rows} & {e.id for e in then.rows}
    assert now.href in (site.folder / "index.html").read_text("utf-8")


def test_an_entry_page_tells_what_differs_and_how_to_check_it(site, trees):
    page = words(trees[site.entry("GRPO")])
    assert "1 claim is not what was found" in page
    [row] = [r for r in trees[site.entry("GRPO")].iter("tr") if "solve_rate" in words(r)]
    assert [words(cell) for cell in row] == ["20", "solve_rate", "0.62", "0.52"]
    [grpo] = [
        v for p in site.pages for e in p.rows if (v := e.row.verified).entry.method.name == "GRPO"
    ]
    assert f"ftw verify leaderboards/entries/0.1.0/{grpo.slug}" in page
    assert "Every claim was found as claimed" in words(trees[site.entry("BC")])


def test_what_cannot_be_recomputed_is_told_as_the_submitters_words(site, trees):
    for page in site.pages:
        for e in page.rows:
            sections = {s.get("aria-labelledby"): words(s) for s in trees[e.href].iter("section")}
            assert "as told by the submitter" in sections["facts"]
            assert ("training" in sections) == (e.row.verified.entry.training is not None)
            if "training" in sections:
                assert "as told by the submitter" in sections["training"]


def test_the_history_holds_every_decision(site, tmp_path):
    entry_id = site.mini.rows[1].row.verified.entry.entry_id
    decided = tmp_path / "decisions.jsonl"
    states = [("2026-11-02", "disputed", "looks odd"), ("2026-11-05", "accepted", "it was not")]
    with decided.open("w", encoding="utf-8") as file:
        for date, state, reason in states:
            row = {"entry_id": entry_id, "date": date, "state": state, "reason": reason}
            file.write(json.dumps(row) + "\n")
    made = tables([site.mini.rows[1].row.verified], read_decisions(decided))
    write_site(made, read_history(decided), tmp_path / "site")
    page = (tmp_path / "site" / site.mini.rows[1].href).read_text("utf-8")
    history = page[page.index('id="history"') :]
    assert history.index("looks odd") < history.index("it was not")
    assert read_history(tmp_path / "none.jsonl") == {}


@pytest.mark.parametrize("line", ["{}", '{"entry_id": 1}', "[]", "nonsense"])
def test_a_line_that_is_no_decision_is_named(tmp_path, line):
    (tmp_path / "d.jsonl").write_text(line + "\n")
    with pytest.raises(ValueError, match=r"d\.jsonl:1") as e:
        read_history(tmp_path / "d.jsonl")
    assert "\n" not in str(e.value)


# How it is written.


def test_every_page_has_one_heading_a_title_and_the_policy(trees):
    for path, tree in trees.items():
        assert len(list(tree.iter("h1"))) == 1, path
        assert words(tree.find(".//title")), path
        assert tree.get("lang") == "en", path
        [meta] = [m for m in tree.iter("meta") if m.get("http-equiv")]
        assert (meta.get("http-equiv"), meta.get("content")) == ("Content-Security-Policy", CSP)
        levels = [int(e.tag[1]) for e in tree.iter() if e.tag in ("h1", "h2", "h3", "h4")]
        assert levels[0] == 1, path
        ids = [e.get("id") for e in tree.iter() if e.get("id")]
        assert len(ids) == len(set(ids)), path


def test_pages_hold_no_code_and_load_only_what_lies_beside_them(trees):
    for path, tree in trees.items():
        for e in tree.iter():
            assert tag(e) not in ("style", "iframe", "object", "embed", "form", "base", "img"), path
            assert "style" not in e.attrib, path
            assert not [name for name in e.attrib if name.startswith("on")], path
            if e.tag == "script":
                assert e.get("src") or e.get("type") == "application/json", path
                assert e.get("src") is None or not (e.text or "").strip(), path
            for name in ("src", "href"):
                url = urlsplit(e.get(name) or "")
                assert url.scheme in ("", "https"), path
                assert url.scheme or not url.netloc, path
                if url.scheme:
                    assert e.tag == "a", path
                    assert {"nofollow", "noopener"} <= set(e.get("rel").split()), path


def test_the_theme_is_known_before_the_page_is_painted(trees):
    for path, tree in trees.items():
        scripts = list(tree.find("head").iter("script"))
        assert scripts[0].get("src").endswith("theme.js"), path
        assert not {"defer", "async"} & set(scripts[0].attrib), path


def test_every_link_leads_somewhere(site, trees):
    ids = {path: {e.get("id") for e in tree.iter() if e.get("id")} for path, tree in trees.items()}
    checked = 0
    for path, tree in trees.items():
        for e in tree.iter():
            for name in ("src", "href"):
                url = urlsplit(e.get(name) or "")
                if not e.get(name) or url.scheme:
                    continue
                target = os.path.normpath(os.path.join(os.path.dirname(path), unquote(url.path)))
                target = path if not url.path else target
                assert (site.folder / target).is_file(), (path, e.get(name))
                if url.fragment:
                    assert url.fragment in ids[target], (path, e.get(name))
                checked += 1
    assert checked > 500


def test_scripts_never_make_markup_of_text():
    for path in ASSETS.glob("*.js"):
        code = path.read_text("utf-8")
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|fetch\(",
            code,
        )
        assert not found, path.name


def test_what_is_not_ours_is_as_it_was_published():
    vendor = ASSETS / "vendor"
    told = dict(line.split()[::-1] for line in (vendor / "sha256sums.txt").read_text().splitlines())
    files = {path.name for path in vendor.iterdir()} - {"sha256sums.txt"}
    assert set(told) == files == {"uPlot.iife.min.js", "uPlot.min.css", "uPlot.LICENSE"}
    for name, digest in told.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest, name


# Strangers' text.


def test_hostile_names_are_text_wherever_they_stand(site, trees):
    shown = [path for path, tree in trees.items() if FIRST in words(tree)]
    assert {site.mini.href, site.entry(FIRST)} <= set(shown)
    assert any(path.startswith("compare/") for path in shown)
    assert words(trees[site.entry(FIRST)].find(".//h1")) == FIRST
    raw = [p for p in site.files(".html") if "<img" in p.read_text("utf-8")]
    assert raw == []


def test_hostile_replies_are_shown_with_what_they_hide(site, trees):
    tree = trees[site.entry("GRPO")]
    replies = [words(pre) for pre in tree.iter("pre")]
    assert text.visible(HOSTILE_REPLY) in replies
    assert "␛[31m ⟨U+202E⟩ left" in text.visible(HOSTILE_REPLY)
    hidden = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
    for path in site.files(".html"):
        assert not hidden.search(path.read_text("utf-8")), path


def test_addresses_that_are_not_https_are_no_links():
    macro = build.environment().get_template("parts.html.j2").module.link
    for url in ("javascript:alert(1)", "http://x.example", "data:text/html,x", " https://x", None):
        assert "<a" not in macro(url, "there")
    hostile = macro('https://x.example/"onclick="x', "<b>")
    assert 'href="https://x.example/&#34;onclick=&#34;x"' in hostile
    assert "&lt;b&gt;" in hostile


@given(st.text())
def test_visible_text_hides_nothing(value):
    shown = text.visible(value)
    for character in shown:
        assert character in "\n\t" or unicodedata.category(character)[0] != "C"
        assert unicodedata.category(character) not in ("Zl", "Zp")
    assert text.visible(shown) == shown
    if all(unicodedata.category(c)[0] not in "CZ" for c in value):
        assert shown == value


PLAIN = st.none() | st.booleans() | st.integers() | st.text()


@given(st.lists(PLAIN) | st.dictionaries(st.text(), PLAIN))
def test_data_in_a_page_cannot_end_its_element(value):
    inside = str(json_in_html(value))
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside) == value


@pytest.mark.parametrize(
    "value",
    ["=1+1", "+1", "-x", "@SUM(A1)", "\t=1", "  =1", "＝1", "\n=1", SECOND],
)
def test_a_cell_is_no_formula(value):
    assert text.cell(value).startswith("'")


@given(st.text())
def test_no_text_makes_a_formula(value):
    start = unicodedata.normalize("NFKC", text.cell(value)).lstrip(" ")[:1]
    assert not start or start not in "=+-@\t\r\n"


def test_cells_of_numbers_and_plain_text_stay():
    assert [text.cell(v) for v in (-1.5, 3, None, "FTW-1-8", "a=b")] == [
        -1.5,
        3,
        "",
        "FTW-1-8",
        "a=b",
    ]


def test_downloads_say_what_the_table_says(site):
    page = site.mini
    rows = list(csv.DictReader(io.StringIO(csv_text(page))))
    told = json.loads(json_text(page))
    assert [row["entry_id"] for row in rows] == [r["entry_id"] for r in told["rows"]]
    for row, record, e in zip(rows, told["rows"], page.rows, strict=True):
        assert row["entry_id"].startswith(e.id)
        assert float(row["solve_rate"]) == record["solve_rate"] == round(e.row.solve_rate.value, 6)
        assert row["rank_first"] == ("" if e.row.rank is None else str(e.row.rank[0]))
        assert (row["state"], record["reference"]) == (e.row.state, e.row.reference)
        assert record["method"] == e.row.verified.entry.method.name
    [hostile] = [r for r in rows if "HYPERLINK" in r["method"]]
    assert (hostile["method"], hostile["model"]) == (f"'{SECOND}", "'-x")
    for ending, made in (("csv", csv_text), ("json", json_text)):
        path = site.folder / page.href.replace(".html", f".{ending}")
        assert path.read_bytes().decode() == made(page)


@pytest.mark.parametrize(
    "name", ["../../etc", "/x", "a/b", "", "CON", "a b", "é", ".", "..", "A", "x" * 120]
)
def test_file_names_stay_in_their_folder(name):
    made = text.file_name(name)
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,61}", made)
    assert made != text.file_name(name + "!")
    assert made != text.file_name(name.lower()) or name == name.lower()


# Pictures.


def test_a_curve_is_drawn_in_steps():
    line = svg.sparkline([0, 1, 2], [0, 1, 0.5], width=26, height=16)
    assert 'd="M3 13H13V3H23V8"' in line


def test_a_band_goes_there_above_and_back_below():
    s = svg.Series("a", [0, 1, 2], [0.5] * 3, [0.25, 0.5, 0.5], [0.75, 0.75, 1])
    chart = svg.chart([s], "x", "y", "t")
    # 42 to 468 across, 220 to 12 upwards.
    assert 'd="M42 64H255V64H468V12L468 116V116H255V168H42z"' in chart


def test_ticks_are_round_and_within():
    assert svg.ticks(0, 5120) == [0, 1000, 2000, 3000, 4000, 5000]
    assert svg.ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert svg.ticks(3, 3.3) == pytest.approx([3, 3.05, 3.1, 3.15, 3.2, 3.25, 3.3])


def test_places_outside_a_scale_are_at_its_ends():
    assert [PERCENT.at(v) for v in (-1, 0, 0.25, 1, 7)] == [0, 0, 0.25, 1, 1]


def test_two_curves_share_a_grid_and_end_where_they_end(site):
    rows = [e.row for e in site.mini.rows if e.row.curves][:2]
    shown = curves(rows, ["a", "b<"])
    data = json.loads(str(shown.data))
    assert [axis["key"] for axis in data["axes"]] == [
        "episodes",
        "env_steps",
        "tokens",
        "wall_seconds",
    ]
    tokens = data["axes"][2]
    assert tokens["x"] == sorted({*rows[0].curves["tokens"].x, *rows[1].curves["tokens"].x})
    for line, row in zip(tokens["lines"], rows, strict=True):
        own = row.curves["tokens"]
        assert len(line["mean"]) == len(line["low"]) == len(line["high"]) == len(tokens["x"])
        assert line["runs"] == []
        for x, y in zip(tokens["x"], line["mean"], strict=True):
            held = [m for at, m in zip(own.x, own.mean, strict=True) if at <= x]
            known = held and x <= own.x[-1]
            assert y == (pytest.approx(held[-1], abs=1e-4) if known else None)


def test_a_replay_draws_what_the_world_says(site):
    replay = site.mini.rows[0].row.verified.replays[0]
    shown = attempts.attempt(replay, "sokoban", "map")
    worlds = [replay.start, *(step.world for step in replay.steps)]
    assert len(shown.frames) == len(worlds)
    assert shown.map is not None
    for frame, world in zip(shown.frames, worlds, strict=True):
        assert frame.picture.count('href="#player"') == sum(map(world.count, "@+")) == 1
        assert frame.picture.count('href="#box"') == world.count("$")
        assert frame.picture.count('href="#box-home"') == world.count("*")
        row = next(i for i, line in enumerate(world.split("\n")) if set(line) & set("@+"))
        assert f'y="{20 * row}"' in frame.picture
    assert f"{len(worlds) - 1}: 1 of 1 boxes on a goal" in shown.frames[-1].picture


@pytest.mark.parametrize("world", ["<svg>", "##\n#", "", "#" * 65, "\n".join("#" * 65)])
def test_a_world_that_is_no_level_is_shown_as_text(site, world):
    replay = site.mini.rows[0].row.verified.replays[0]
    shown = attempts.attempt(replay.model_copy(update={"start": world}), "sokoban", "map")
    assert [shown.map, *(f.picture for f in shown.frames)] == [None] * (len(shown.frames) + 1)
    assert shown.frames[0].world == world


@pytest.mark.parametrize(
    ("n", "said"),
    [
        (None, "–"),
        (0, "0"),
        (950, "950"),
        (1000, "1k"),
        (1234, "1.23k"),
        (999_960, "1M"),
        (5.1e9, "5.1G"),
    ],
)
def test_large_numbers_are_short(n, said):
    assert text.short(n) == said


# Files.


def test_the_same_entries_give_the_same_bytes(site, tmp_path):
    decided = site.data / "decisions.jsonl"
    backwards = read_verified(site.data / "verified")[::-1]
    write_site(tables(backwards, read_decisions(decided)), read_history(decided), tmp_path / "a")
    assert all_files(tmp_path / "a") == all_files(site.folder)


def test_the_command_writes_the_same_anywhere(site, tmp_path):
    ftw = "from ftw_agents.cli import main; main()"
    command = [sys.executable, "-c", ftw, "site", "--out", "b",
               "--verified", str(site.data / "verified"),
               "--decisions", str(site.data / "decisions.jsonl")]  # fmt: skip
    env = {**os.environ, "PYTHONHASHSEED": "77"}
    ran = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"tables 4, entries 19, pages {site.counts.pages}: b/index.html\n"
    assert all_files(tmp_path / "b") == all_files(site.folder)
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


def small(data: Path) -> list:
    return tables([sample(rates=(0.5,), name="Base", family="base", episodes=20)], {})


def test_an_older_site_is_replaced_whole(tmp_path):
    out = tmp_path / "site"
    write_site(small(tmp_path), {}, out)
    (out / "entries" / "stale.html").write_text("old")
    write_site(small(tmp_path), {}, out)
    assert (out / "index.html").is_file()
    assert not (out / "entries" / "stale.html").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["site"]


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "site").mkdir()
    write_site(small(tmp_path), {}, tmp_path / "site")
    assert (tmp_path / "site" / "index.html").is_file()


def test_a_folder_of_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years")
    with pytest.raises(SiteError, match="something else than a site"):
        write_site(small(tmp_path), {}, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
    (tmp_path / "link").symlink_to(tmp_path)
    for place in ("thesis.txt", "link"):
        with pytest.raises(SiteError, match="is not a folder"):
            write_site(small(tmp_path), {}, tmp_path / place)


def test_a_build_that_fails_leaves_the_old_site(tmp_path, monkeypatch):
    out = tmp_path / "site"
    write_site(small(tmp_path), {}, out)
    before = all_files(out)

    def fail(page):
        raise OSError("disk full")

    monkeypatch.setattr(build, "csv_text", fail)
    with pytest.raises(OSError, match="disk full"):
        write_site(small(tmp_path), {}, out)
    assert all_files(out) == before
    assert [p.name for p in tmp_path.iterdir()] == ["site"]


def test_there_is_no_page_without_verified_episodes(tmp_path, capsys):
    [table] = small(tmp_path)
    empty = replace(table, rows=[])
    [run] = table.rows[0].verified.runs
    none = run.model_copy(update={"figures": run.figures.model_copy(update={"episodes": 0})})
    hollow = replace(
        table.rows[0], verified=table.rows[0].verified.model_copy(update={"runs": [none]})
    )
    for made, message in (
        ([], "no verified entries"),
        ([empty], "sokoban-mini .* would be empty"),
        ([replace(table, rows=[hollow])], "base-.* has no verified episodes"),
        ([table, table], "two entries or tables"),
    ):
        with pytest.raises(SiteError, match=message) as e:
            write_site(made, {}, tmp_path / "site")
        assert "\n" not in str(e.value)
    with pytest.raises(SystemExit) as stop:
        main(["site", "--out", str(tmp_path / "site"), "--verified", str(tmp_path / "none")])
    assert stop.value.code == 2
    assert (
        capsys.readouterr().err
        == "ftw: there are no verified entries, so there is no page to write\n"
    )
    assert list(tmp_path.iterdir()) == []
