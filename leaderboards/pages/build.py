"""Writes the site: beside its place, then renamed, and the same bytes for the same entries."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ftw_envs import __version__
from ftw_envs.files import partial_path
from leaderboards.boards import BOARDS
from leaderboards.pages import svg, text, words
from leaderboards.pages.attempts import attempt
from leaderboards.pages.comparison import comparison
from leaderboards.pages.curves import curves
from leaderboards.pages.downloads import csv_text, json_text
from leaderboards.pages.entries import Shown, figures
from leaderboards.pages.ranking import Page, SiteError, pages_of, pair_href
from leaderboards.schema import Decision
from leaderboards.tables import Table, compare

MARK = "ftw-site.json"
"""A folder with this file was written here and may be replaced."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What was written."""

    tables: int
    entries: int
    pages: int


def write_site(
    tables: Sequence[Table], history: Mapping[str, Sequence[Decision]], out: Path
) -> Counts:
    """Writes all pages to the folder `out`; an older site there is replaced.

    Args:
        history: decisions by entry identity, oldest first.

    Raises:
        SiteError: `out` holds something else, or there is something that pages must not show
            (see `pages_of`).
    """
    _check_place(out)
    pages = pages_of(tables)
    return replace_folder(out, lambda folder: _Writer(folder, pages, history).write())


def _check_place(out: Path) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise SiteError(f"{out} is not a folder: name a new one, or one that holds a site")
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise SiteError(f"{out} holds something else than a site: name a new or empty folder")


def replace_folder(out: Path, write: Callable[[Path], Counts]) -> Counts:
    """Lets `write` fill a folder beside `out`, which then takes its place; all or nothing."""
    out = out.absolute()
    new, old = partial_path(out), partial_path(out).with_suffix(".old")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        counts = write(new)
        if not out.exists():
            new.replace(out)
            return counts
        out.replace(old)
        try:
            new.replace(out)
        except OSError:
            old.replace(out)
            raise
        shutil.rmtree(old)
        return counts
    finally:
        shutil.rmtree(new, ignore_errors=True)


def environment() -> Environment:
    """Templates that escape everything, spell out what cannot be seen, and know no gaps."""
    env = Environment(
        loader=PackageLoader("leaderboards.pages"),
        autoescape=True,
        finalize=text.finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters |= {
        "percent": text.percent,
        "count": text.count,
        "short": text.short,
        "duration": text.duration,
    }
    env.tests["https"] = lambda url: isinstance(url, str) and url.startswith("https://")
    env.globals |= {"words": words, "swatch": svg.swatch}
    return env


class _Writer:
    """Writes one site into an empty folder."""

    def __init__(
        self, folder: Path, pages: Sequence[Page], history: Mapping[str, Sequence[Decision]]
    ) -> None:
        self.folder, self.pages, self.history = folder, pages, history
        self.templates = environment()
        entries = [e.row.verified.entry for page in pages for e in page.rows]
        dates = [entry.submitted for entry in entries]
        dates += [d.date for entry in entries for d in history.get(entry.entry_id, ())]
        self.site = {"version": __version__, "date": max(dates)}
        self.written = 0

    def write(self) -> Counts:
        _copy_assets(self.folder / "assets")
        for page in self.pages:
            self._table(page)
        used = {page.board.name for page in self.pages}
        waiting = [board.title for board in BOARDS.values() if board.name not in used]
        self._page("index.html.j2", "index.html", tables=self.pages, waiting=waiting)
        entries = sum(len(page.rows) for page in self.pages)
        counts = Counts(len(self.pages), entries, self.written)
        about = {"format": 1, **self.site, "tables": counts.tables, "entries": counts.entries}
        self._file(MARK, json.dumps(about, indent=1) + "\n")
        return counts

    def _table(self, page: Page) -> None:
        self._page("board.html.j2", page.href, t=page)
        stem = page.href.removesuffix(".html")
        self._file(f"{stem}.csv", csv_text(page))
        self._file(f"{stem}.json", json_text(page))
        links: dict[str, list[dict[str, str]]] = {e.id: [] for e in page.rows}
        for a, b in page.pairs:
            pair = compare(a.row, b.row)
            href = pair_href(page, a, b)
            shown = comparison(pair, a, b)
            links[a.id].append({"href": href, "name": b.name, "says": shown.short})
            links[b.id].append({"href": href, "name": a.name, "says": shown.short_reverse})
            self._page("compare.html.j2", href, t=page, a=a, b=b, c=shown,
                       curves=curves([a.row, b.row], [a.name, b.name]))  # fmt: skip
        for e in page.rows:
            self._entry(page, e, links[e.id])

    def _entry(self, page: Page, e: Shown, links: Sequence[Mapping[str, str]]) -> None:
        verified = e.row.verified
        self._page(
            "entry.html.j2",
            e.href,
            t=page,
            e=e,
            figures=figures(e.row),
            curves=curves([e.row], [e.name]),
            attempts=[
                attempt(replay, page.board.replay, f"map-{replay.index}")
                for replay in verified.replays
            ],
            history=self.history.get(verified.entry.entry_id, ()),
            pairs=links,
        )

    def _page(self, template: str, href: str, **about: Any) -> None:
        root = "../" * href.count("/")
        html = self.templates.get_template(template).render(root=root, site=self.site, **about)
        self._file(href, html)
        self.written += 1

    def _file(self, name: str, content: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="")


def _copy_assets(to: Path) -> None:
    with as_file(files("leaderboards.pages") / "assets") as source:
        for path in sorted(source.rglob("*")):
            if path.is_file():
                target = to / path.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
                os.chmod(target, 0o644)
