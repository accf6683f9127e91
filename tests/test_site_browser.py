"""The pages in a browser: Debian's chromium, from files, without a network."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from site_samples import Site, build_samples
from verified_samples import HOSTILE_NAMES, HOSTILE_REPLY

from leaderboards.pages.ranking import pair_href
from leaderboards.pages.text import visible

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
REQUIRED = os.environ.get("FTW_BROWSER") == "required"
PHONE, TABLET, DESK = WIDTHS = (390, 820, 1400)

if not REQUIRED:
    pytest.importorskip("playwright", reason="needs pip install 'ftw-suite[browser]'")
    if CHROMIUM is None:
        pytest.skip("needs a chromium: apt-get install chromium", allow_module_level=True)

import axe_playwright_python  # noqa: E402
from playwright.sync_api import Browser, Page, expect, sync_playwright  # noqa: E402

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
Opener = Callable[..., Page]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return build_samples(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "FTW_BROWSER=required, and there is no chromium"
    with sync_playwright() as playwright:
        # Tests may run as root in a container, where the sandbox cannot start.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, site: Site) -> Iterator[Opener]:
    """Opens pages of the site; afterwards none of them may have complained or asked anything."""
    wrong: list[str] = []
    contexts = []

    def open_page(href: str, *, width: int = DESK, height: int = 900, **settings) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda m: wrong.append(f"console: {m.text}"))
        page.on("pageerror", lambda e: wrong.append(f"error: {e}"))
        page.on("dialog", lambda d: (wrong.append(f"dialog: {d.message}"), d.dismiss()))
        # What a page still loads when a link is followed is given up, and that is no failure.
        page.on(
            "requestfailed",
            lambda r: "ERR_ABORTED" in r.failure or wrong.append(f"{r.failure}: {r.url}"),
        )
        page.on("request", lambda r: r.url.startswith("file:") or wrong.append(f"asks for {r.url}"))
        path, _, query = href.partition("?")
        page.goto((site.folder / path).as_uri() + (f"?{query}" if query else ""))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def kinds(site: Site) -> dict[str, str]:
    """A page of each kind."""
    rows = [e for e in site.mini.rows if e.comparable]
    return {
        "index": "index.html",
        "board": site.mini.href,
        "entry": site.entry("GRPO"),
        "incident": site.entry("Prompt"),
        "struck": site.entry("REINFORCE++"),
        "pair": pair_href(site.mini, rows[1], rows[2]),
    }


def ids(page: Page) -> list[str]:
    """The rows that are seen, in their order."""
    rows = page.locator(".ranking tbody tr:visible")
    return rows.evaluate_all("rows => rows.map(row => row.dataset.id)")


def query(page: Page) -> str:
    return page.evaluate("decodeURIComponent(location.search)")


def header(page: Page, key: str):
    return page.locator(f".ranking th[data-key={key}]")


def chip(page: Page, value: str):
    return page.locator(f'.chip[data-value="{value}"]')


# The table.


def test_every_column_sorts_as_python_does_with_gaps_last(open_page, site):
    page = open_page(site.mini.href)
    rows = site.mini.rows
    assert ids(page) == [e.id for e in rows]
    assert any(e.order["memory"] is None for e in rows)
    for column in site.mini.columns:
        header(page, "date" if column.key == "rank" else "rank").get_by_role("button").click()
        for click in range(2):
            header(page, column.key).get_by_role("button").click()
            down = (column.first == "descending") != (click == 1)
            known = [e for e in rows if e.order[column.key] is not None]
            known.sort(key=lambda e: (-1 if down else 1) * e.order[column.key])
            gaps = [e for e in rows if e.order[column.key] is None]
            assert ids(page) == [e.id for e in known + gaps], column.key
            way = "descending" if down else "ascending"
            expect(header(page, column.key)).to_have_attribute("aria-sort", way)
            assert page.locator(f"th[aria-sort={way}]").count() == 1


def test_a_sorted_table_can_be_linked_to(open_page, site):
    page = open_page(site.mini.href)
    header(page, "episodes").get_by_role("button").click()
    header(page, "episodes").get_by_role("button").click()
    assert query(page) == "?sort=episodes&direction=descending"
    again = open_page(f"{site.mini.href}{query(page)}")
    assert ids(again) == ids(page) != [e.id for e in site.mini.rows]
    again.locator(".reset").click()
    assert (query(again), ids(again)) == ("", [e.id for e in site.mini.rows])
    expect(again.locator(".reset")).to_be_disabled()


def test_headers_sort_from_the_keyboard(open_page, site):
    page = open_page(site.mini.href)
    button = header(page, "entry").get_by_role("button")
    button.focus()
    page.keyboard.press("Enter")
    by_name = sorted(site.mini.rows, key=lambda e: e.name.casefold())
    assert [e.name for e in by_name] == [
        next(e.name for e in site.mini.rows if e.id == i) for i in ids(page)
    ]


def test_filters_choose_rows_and_come_back_by_link(open_page, site):
    page = open_page(site.mini.href)
    count = page.locator(".count")
    expect(count).to_have_text("14 entries")
    chip(page, "ftw").click()
    chip(page, "grpo").click()
    wanted = [e.id for e in site.mini.rows if e.facets["family"] in ("ftw", "grpo")]
    assert ids(page) == wanted
    expect(count).to_have_text(f"{len(wanted)} of 14 entries")
    chip(page, "pending").click()
    assert query(page) == "?family=ftw,grpo&state=pending"
    again = open_page(f"{site.mini.href}{query(page)}")
    assert ids(again) == ids(page)
    expect(chip(again, "grpo")).to_have_attribute("aria-pressed", "true")
    for value in ("ftw", "grpo", "pending"):
        chip(again, value).click()
    assert (query(again), ids(again)) == ("", [e.id for e in site.mini.rows])


def test_all_of_a_group_is_none_of_it(open_page, site):
    page = open_page(site.mini.href)
    chip(page, "trained").click()
    assert query(page) == "?kind=trained"
    chip(page, "reference").click()
    assert (query(page), len(ids(page))) == ("", 14)
    expect(chip(page, "trained")).to_have_attribute("aria-pressed", "false")


def test_filters_that_leave_nothing_say_so(open_page, site):
    page = open_page(f"{site.mini.href}?family=scripted&state=retracted&unknown=1&sort=nonsense")
    assert ids(page) == []
    expect(page.locator(".count")).to_have_text("0 of 14 entries")
    expect(page.locator(".empty")).to_be_visible()
    page.locator(".empty button").click()
    assert len(ids(page)) == 14
    expect(page.locator(".empty")).to_be_hidden()


def test_the_link_of_a_view_is_given(open_page, site):
    page = open_page(f"{site.mini.href}?family=ftw")
    page.locator(".share").click()
    expect(page.locator(".share-link")).to_have_value(page.url)
    assert page.url.endswith("?family=ftw")


def test_two_ticked_rows_are_compared(open_page, site):
    page = open_page(site.mini.href)
    rows = [e for e in site.mini.rows if e.comparable]
    bar = page.locator(".compare-bar")
    expect(bar).to_be_hidden()
    for e in rows[:3]:
        page.locator(f'.pick input[value="{e.id}"]').check()
    expect(page.locator(f'.pick input[value="{rows[0].id}"]')).not_to_be_checked()
    expect(bar).to_contain_text(rows[1].row.verified.entry.method.name)
    assert query(page) == f"?compare={rows[1].id},{rows[2].id}"
    struck = page.locator("tr.struck")
    assert (struck.count(), struck.locator("input").count()) == (2, 0)
    bar.get_by_role("link").click()
    assert page.url.endswith(pair_href(site.mini, rows[2], rows[1]))
    expect(page.locator(".versus")).to_contain_text(rows[1].row.verified.entry.method.name)
    expect(page.locator(".versus")).to_contain_text(rows[2].row.verified.entry.method.name)
    page.go_back()
    expect(bar).to_be_visible()


def test_the_entry_and_the_header_stay_in_sight(open_page, site):
    page = open_page(site.mini.href, width=PHONE)
    scroll = page.locator(".scroll.tall")
    scroll.evaluate("box => box.scrollTo(400, 300)")
    left = scroll.bounding_box()
    entry = page.locator(".ranking tbody .entry").nth(6).bounding_box()
    head = header(page, "score").bounding_box()
    assert entry["x"] == pytest.approx(left["x"], abs=1.5)
    assert head["y"] == pytest.approx(left["y"], abs=1.5)


# An attempt.


def test_an_attempt_is_stepped_by_click_key_and_slider(open_page, site):
    page = open_page(site.entry("GRPO"))
    attempt = page.locator("#instance-0")
    frames = attempt.locator(".frame")
    last = frames.count() - 1
    seen = attempt.locator(".frame:visible")
    output = attempt.locator("output")

    def at(step: int) -> None:
        expect(output).to_have_text(f"step {step} of {last}")
        expect(seen).to_have_count(1)
        expect(seen.locator("h4").first).to_contain_text(f"Step {step}")

    at(0)
    expect(attempt.get_by_role("button", name="Back")).to_be_disabled()
    attempt.get_by_role("button", name="Next").click()
    at(1)
    expect(seen.locator("pre").first).to_have_text(visible(HOSTILE_REPLY))
    page.keyboard.press("ArrowRight")
    at(2)
    assert query(page) == "?instance-0=2"
    attempt.locator("input").fill(str(last))
    at(last)
    expect(attempt.get_by_role("button", name="Next")).to_be_disabled()
    attempt.locator("input").press("ArrowLeft")
    at(last - 1)
    page.keyboard.press("Home")
    at(0)
    assert query(page) == ""
    again = open_page(f"{site.entry('GRPO')}?instance-0=3")
    expect(again.locator("#instance-0 output")).to_have_text(f"step 3 of {last}")


def test_attempts_of_a_pair_lead_to_their_replays(open_page, site):
    a, b = [e for e in site.mini.rows if e.comparable][:2]
    page = open_page(pair_href(site.mini, a, b))
    shared = {r.index for r in a.row.verified.replays} & {r.index for r in b.row.verified.replays}
    rows = page.locator("#attempts ~ .scroll tbody tr")
    expect(rows).to_have_count(len(shared))
    last = rows.last
    index = last.locator("th").inner_text()
    for i, e in enumerate((a, b)):
        [replay] = [r for r in e.row.verified.replays if r.index == int(index)]
        link = last.locator("a").nth(i)
        expect(link).to_contain_text("solved" if replay.solved else "not solved")
        expect(link).to_contain_text(f"in {len(replay.steps)} step")
        link.click()
        assert page.url.endswith(f"{e.href}#instance-{index}")
        expect(page.locator(f"#instance-{index}")).to_have_attribute("open", "")
        page.go_back()


def test_an_attempt_plays_by_itself_and_stops_at_its_end(open_page, site):
    page = open_page(site.entry("GRPO"))
    page.clock.install()
    page.reload()
    attempt = page.locator("#instance-0")
    last = attempt.locator(".frame").count() - 1
    attempt.get_by_role("button", name="Play").click()
    page.clock.run_for(600 * 2 + 10)
    expect(attempt.locator("output")).to_have_text(f"step 2 of {last}")
    expect(attempt.get_by_role("button", name="Pause")).to_be_visible()
    page.clock.run_for(600 * last)
    expect(attempt.locator("output")).to_have_text(f"step {last} of {last}")
    expect(attempt.get_by_role("button", name="Play")).to_be_visible()


def test_the_board_is_drawn_where_the_world_has_it(open_page, site):
    page = open_page(site.entry("GRPO"))
    [replay] = [r for e in site.mini.rows if e.row.verified.entry.method.name == "GRPO"
                for r in e.row.verified.replays[:1]]  # fmt: skip
    rows = replay.start.split("\n")
    [(x, y)] = [(x, y) for y, row in enumerate(rows) for x, c in enumerate(row) if c in "@+"]
    level = page.locator("#instance-0 .level:visible")
    board = level.bounding_box()
    player = level.locator('use[href="#player"]').bounding_box()
    side = board["width"] / len(rows[0])
    for axis, size, place in (("x", "width", x), ("y", "height", y)):
        center = player[axis] + player[size] / 2 - board[axis]
        assert center == pytest.approx((place + 0.5) * side, abs=1.5)


# Curves.


def test_curves_are_drawn_against_each_axis(open_page, site):
    page = open_page(site.entry("GRPO"))
    figure = page.locator(".curves")
    expect(figure.locator("canvas")).to_have_count(1)
    expect(figure.locator(".charts")).to_be_hidden()
    pictures = set()
    for name in ("Environment steps", "Tokens", "Wall time", "Episodes"):
        figure.get_by_role("button", name=name).click()
        expect(figure.get_by_role("button", name=name)).to_have_attribute("aria-pressed", "true")
        pictures.add(figure.locator("canvas").evaluate("canvas => canvas.toDataURL()"))
    assert len(pictures) == 4
    figure.get_by_role("button", name="Tokens").click()
    assert query(page) == "?axis=tokens"
    figure.locator(".u-over").hover()
    expect(figure.locator(".readout")).to_have_text(
        re.compile(r"tokens [\d.KM]+: GRPO \(ftw-tiny\) [\d.]+ % \[[\d.]+, [\d.]+\]")
    )
    again = open_page(f"{site.entry('GRPO')}?axis=tokens")
    expect(again.get_by_role("button", name="Tokens")).to_have_attribute("aria-pressed", "true")


def test_a_pair_shows_two_curves(open_page, site):
    page = open_page(kinds(site)["pair"])
    expect(page.locator(".curves canvas")).to_have_count(1)
    expect(page.locator(".curves .legend li")).to_have_count(2)
    page.locator(".u-over").hover()
    assert page.locator(".readout").inner_text().count("%") == 2


# Colours, sizes and aids.


def test_dark_colours_are_chosen_and_kept(open_page, site):
    page = open_page(site.mini.href, color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    button = page.get_by_role("button", name="Dark colours")
    expect(button).to_have_attribute("aria-pressed", "false")
    button.click()
    dark = page.evaluate(paper)
    assert dark != light
    expect(button).to_have_attribute("aria-pressed", "true")
    page.goto((site.folder / "index.html").as_uri())
    assert page.evaluate(paper) == dark
    page.get_by_role("button", name="Dark colours").click()
    assert page.evaluate(paper) == light
    assert open_page("index.html", color_scheme="dark").evaluate(paper) == dark


def test_the_plot_follows_the_colours(open_page, site):
    page = open_page(site.entry("GRPO"), color_scheme="light")
    drawn = "canvas => canvas.toDataURL()"
    before = page.locator("canvas").evaluate(drawn)
    page.get_by_role("button", name="Dark colours").click()
    assert page.locator("canvas").evaluate(drawn) != before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found_by_axe(open_page, site, scheme):
    for kind, href in kinds(site).items():
        page = open_page(href, color_scheme=scheme)
        page.evaluate(AXE)
        if kind == "board":
            chip(page, "ftw").click()
            chip(page, "grpo").click()
            page.locator(".pick input:visible").first.check()
        found = page.evaluate("axe.run(document, {resultTypes: ['violations'], preload: false})")
        serious = [
            (v["id"], [node["html"] for node in v["nodes"]][:3])
            for v in found["violations"]
            if v["impact"] in ("serious", "critical")
        ]
        assert serious == [], kind
        assert len(found["passes"]) > 10


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_page_never_scrolls_sideways(open_page, site, scripts):
    for kind, href in kinds(site).items():
        page = open_page(href, java_script_enabled=scripts)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, kind


@pytest.mark.parametrize("width", [1280, 1440])
def test_a_laptop_shows_all_columns(open_page, site, width):
    assert min(len(page.rows) for page in site.pages) == 1
    for page_of in site.pages:
        box = open_page(page_of.href, width=width).locator(".scroll.tall")
        assert box.evaluate("box => box.scrollWidth - box.clientWidth") <= 1, page_of.href


def test_everything_can_be_read_without_scripts(open_page, site):
    page = open_page(site.mini.href, java_script_enabled=False)
    expect(page.locator(".ranking tbody tr:visible")).to_have_count(14)
    expect(page.locator("button:visible, input:visible")).to_have_count(0)
    expect(page.locator(".whisker:visible")).to_have_count(14)
    entry = open_page(site.entry("GRPO"), java_script_enabled=False)
    expect(entry.locator(".charts svg:visible")).to_have_count(4)
    frames = entry.locator("#instance-0 .frame")
    expect(entry.locator("#instance-0 .frame:visible")).to_have_count(frames.count())
    expect(entry.locator("button:visible, input:visible")).to_have_count(0)
    expect(entry.locator("#compare + ul a")).to_have_count(len(site.mini.rows) - 3)


def test_hostile_names_stay_text(open_page, site):
    page = open_page(site.mini.href)
    for name in HOSTILE_NAMES:
        expect(page.locator(".ranking .entry a", has_text=name)).to_be_visible()
        entry = open_page(site.entry(name))
        expect(entry.locator("h1")).to_have_text(name)
        entry.locator(".u-over").hover()
        expect(entry.locator(".readout")).to_contain_text(name)
    [hostile] = [e for e in site.mini.rows if e.row.verified.entry.method.name == HOSTILE_NAMES[0]]
    page.locator(f'.pick input[value="{hostile.id}"]').check()
    expect(page.locator(".compare-bar p")).to_contain_text(HOSTILE_NAMES[0])
    assert page.locator("img").count() == 0
