"""The commands `ftw envs` and `ftw gallery`."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from ftw_agents.cli import main
from ftw_agents.envs_command import facts_of, table_of
from ftw_agents.gallery import markdown
from ftw_envs.registry import TABLE, make

IDS = [row.id for row in TABLE]


# ftw envs


def test_envs_json_tells_everything(capsys: pytest.CaptureFixture[str]) -> None:
    main(["envs", "--json"])
    listed = json.loads(capsys.readouterr().out)
    assert [x["id"] for x in listed] == IDS
    for x, row in zip(listed, TABLE, strict=True):
        env = make(row.id)
        assert x["kwargs"] == row.kwargs
        assert x["kwargs"].items() <= x["arguments"].items()
        assert "render_mode" in x["arguments"]
        assert x["summary"].endswith(".")
        assert x["instances"]["test"] == env.instance_count("test")
        assert x["max_steps"] == env.max_steps
        assert x["env_version"] == env.env_version
        assert len(x["observation_space"]) < 100
        assert x["vector_entry_point"] == row.vector_entry_point


def test_envs_json_is_pure_in_a_coloured_terminal() -> None:
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "20"}
    command = [sys.executable, "-m", "ftw_agents.cli", "envs", "--json"]
    out = subprocess.run(command, env=env, capture_output=True, check=True).stdout
    assert [x["id"] for x in json.loads(out)] == IDS


@pytest.mark.parametrize("width", [80, 120])
def test_envstable_of_fits(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(table_of([facts_of(row) for row in TABLE]))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width
    for row in TABLE:
        [line] = [x for x in lines if x.split()[:1] == [row.id]]  # in one piece
        assert f"{make(row.id).instance_count('train'):,}" in line
    assert "…" not in "".join(lines)


# ftw gallery


class Page(HTMLParser):
    """Reads a page; fails where tags do not fit."""

    VOID = ("meta", "img", "source", "br", "link")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.files: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.files += [given[key] for key in ("src", "srcset") if key in given]
        self.links += [given["href"]] if "href" in given else []
        assert tag != "img" or given["alt"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_gallery(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["gallery", "--out", str(tmp_path / "a")])
    assert f"environments {len(IDS)}: " in capsys.readouterr().out
    page = Page((tmp_path / "a" / "index.html").read_text("utf-8"))
    assert len(set(page.ids)) == len(page.ids)
    assert page.links == [f"#{i}" for i in page.ids if not i.endswith("-title")]
    for row in TABLE:
        env = make(row.id)
        observation, _ = env.reset(seed=0)
        text = observation["text"] if isinstance(observation, dict) else observation
        assert text in page.text
        assert f'gym.make("ftw_envs:{row.id}")' in page.text
        assert row.id.replace("/", "-") in page.ids
    assert 'reward="shaped"' in page.text  # a docstring, its quotes escaped and read back
    assert "`" not in page.text
    names = {p.relative_to(tmp_path / "a").as_posix() for p in (tmp_path / "a").rglob("*.*")}
    assert names == {*page.files, "index.html"}
    for name in set(page.files):
        with Image.open(tmp_path / "a" / name) as image:
            image.load()
            assert getattr(image, "n_frames", 1) > 1 or name.endswith(".png")
    main(["gallery", "--out", str(tmp_path / "b")])
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_docstrings_cannot_bring_html() -> None:
    html = markdown("## A <b>\n- `x < y` & <script>alert(1)</script>\n\n- b\n")
    assert "<h3>A &lt;b&gt;</h3>" in html
    assert "<code>x &lt; y</code> &amp; &lt;script&gt;" in html
