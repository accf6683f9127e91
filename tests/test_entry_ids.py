"""What an entry is called: ids that any language can work out, slugs, names that look alike."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboards.identity import canonical, check_slug, entry_id, skeleton, slug_of
from leaderboards.json_schemas import FOLDER, SCHEMAS, json_schema
from leaderboards.schema import Entry, EntryError

VECTORS = json.loads((FOLDER / "entry_id_vectors.json").read_text("utf-8"))
ENTRIES = [v["entry"] for v in VECTORS["entries"]]


def entry(**changes: Any) -> Entry:
    return Entry.model_validate(ENTRIES[1] | changes)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_json_schemas_are_those_of_the_models(name: str) -> None:
    """`python -m leaderboards.json_schemas` writes them."""
    text = (FOLDER / f"{name}.schema.json").read_text("utf-8")
    assert json.loads(text) == json_schema(name)
    assert len(list(FOLDER.glob("*.schema.json"))) == len(SCHEMAS)


def test_vectors_of_canonical_json() -> None:
    for vector in VECTORS["canonical"]:
        assert canonical(vector["value"]).decode() == vector["text"]
        assert json.loads(vector["text"]) == vector["value"]


@pytest.mark.parametrize("vector", VECTORS["entries"], ids=lambda v: v["about"])
def test_vectors_of_ids(vector: dict) -> None:
    """Worked out here as an outsider would: no keys beyond ASCII, so sort_keys will do."""
    assert entry_id(Entry.model_validate(vector["entry"])) == vector["entry_id"]
    assert sha256((VECTORS["domain"] + vector["hashed"]).encode()).hexdigest() == vector["entry_id"]
    said = json.loads(vector["hashed"])
    text = json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert text == vector["hashed"]
    assert (
        said.items() >= {k: v for k, v in vector["entry"].items() if k in ("runs", "board")}.items()
    )
    assert not said.keys() & {"entry_id", "claims"}


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(), x, max_size=4),
)


@given(_values)
def test_canonical_json_is_json_and_one_way_only(value: Any) -> None:
    text = canonical(value)
    assert json.loads(text) == value
    assert canonical(json.loads(text)) == text
    if isinstance(value, dict):
        assert canonical(dict(reversed(value.items()))) == text


@pytest.mark.parametrize("value", [1.0, float("nan"), 2**53 + 1, {1}, b"x", {"a": [0.5]}])
def test_what_other_languages_may_write_otherwise_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"beyond 2\*\*53|has no place"):
        canonical(value)
    with pytest.raises(UnicodeEncodeError):
        canonical("\ud800")


def test_ids_are_of_what_an_entry_says() -> None:
    whole = entry_id(entry())
    assert entry_id(entry(entry_id="f" * 64)) == whole
    assert entry_id(entry(round=None)) == whole  # as if it were left out
    claim = ENTRIES[1]["claims"][0]
    lied = {**claim, "figures": {**claim["figures"], "solved": 999, "solve_rate": 0.999}}
    assert entry_id(entry(claims=[lied])) == whole
    file = {**ENTRIES[1]["files"][0], "lines": 7}
    assert entry_id(entry(files=[file, ENTRIES[1]["files"][1]])) == whole
    others = [
        entry(runs=[0, 3, 12]),
        entry(submitted="2026-12-02"),
        entry(round="spring"),
        entry(notes="Three seeds"),
        entry(view=[]),
        entry(method={**ENTRIES[1]["method"], "name": "FTWW"}),
        entry(files=[{**file, "sha256": "1" * 64}, ENTRIES[1]["files"][1]]),
        entry(contamination={**ENTRIES[1]["contamination"], "trained_on_eval": True}),
    ]
    assert len({whole, *map(entry_id, others)}) == 1 + len(others)


@pytest.mark.parametrize(
    "slug",
    ["abc", "a-b", "0.1", "a" * 63, "mini-ftw-2026-12-01", "common", "com10", "nul-1"],
)
def test_slugs(slug: str) -> None:
    assert check_slug(slug) == slug


@pytest.mark.parametrize(
    "slug",
    ["", "ab", "a" * 64, "Abc", "a b", "-ab", "ab-", "ab.", ".ab", "a/b", "../x", "aé1", "а-cyr",
     "abc\n", "con", "nul.txt", "com1.a", "lpt9", "a\u200bb", "ａｂｃ"],
)  # fmt: skip
def test_no_slugs(slug: str) -> None:
    with pytest.raises(EntryError, match="the folder's name") as error:
        check_slug(slug)
    assert str(error.value).isprintable()
    assert str(error.value).isascii()


def test_slugs_are_made_of_names() -> None:
    date = "2026-12-01"
    assert slug_of("sokoban", "REINFORCE++", None, date) == "sokoban-reinforce-2026-12-01"
    assert slug_of("b", "Größe (α)", "GPT 5.2", date) == "b-grosse-a-gpt-5-2-2026-12-01"
    long = slug_of("sokoban-mini", "x" * 120, "y" * 120, date)
    assert len(long) <= 63
    assert long.endswith(date)
    assert slug_of("sokoban", "=HYPERLINK(1)", "<b>", date) == "sokoban-hyperlink-1-b-2026-12-01"


@pytest.mark.parametrize(
    "names",
    [("GPT 5.2", "GPT-5-2", "gpt5.2", "GPT_5_2", "ＧＰＴ－５．２"), ("Naïve", "NAIVE", "nаive"),
     ("REINFORCE++", "reinforce ++"), ("σ-trap", "Σ Trap")],
)  # fmt: skip
def test_names_that_look_alike(names: tuple[str, ...]) -> None:
    assert len({skeleton(name) for name in names}) == 1


def test_names_that_do_not_look_alike() -> None:
    names = [
        "FTW-1-18",
        "FTW-11-8",
        "FTW 1",
        "REINFORCE",
        "REINFORCE++",
        "GPT 5",
        "GPT 52",
        "GTP 5",
    ]
    assert len({skeleton(name) for name in names}) == len(names)
