"""Submission and re-play: every kind of tampering is found, and named."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from conftest import COORDS, MINI, TRAP

from ftw_agents.evaluate import evaluate, load_player
from leaderboards.schema import EntryError, read_entry
from leaderboards.submit import submit
from leaderboards.verify import verify

N = 12
PICTURES = ("ftw/SokobanMiniVisual-v0", {"tile_size": 8})


@pytest.fixture(scope="module", params=[(MINI, COORDS), (TRAP, {"sigma": 2.0}), PICTURES])
def packed(request, tmp_path_factory) -> Path:
    """A good entry of each environment."""
    folder = tmp_path_factory.mktemp("good")
    env_id, kwargs = request.param
    evaluate(
        load_player("random", env_id),
        env_id,
        kwargs,
        split="test",
        episodes=N,
        seed=0,
        out=folder / "eval",
    )
    submit(folder / "eval", folder / "entry")
    return folder / "entry"


@pytest.fixture
def entry(packed: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(packed, tmp_path / "entry"))


def _episodes(entry: Path) -> list[dict]:
    return [json.loads(x) for x in (entry / "episodes.jsonl").read_text().splitlines()]


def _write(entry: Path, episodes: list[dict], /, **claims: object) -> None:
    """Writes the episodes as a careful cheat would: with the file's facts put right."""
    data = "".join(json.dumps(e) + "\n" for e in episodes).encode()
    (entry / "episodes.jsonl").write_bytes(data)
    about = json.loads((entry / "entry.json").read_text())
    about["file"] |= {
        "sha256": sha256(data).hexdigest(),
        "bytes": len(data),
        "lines": len(episodes),
    }
    about["claims"] |= claims
    (entry / "entry.json").write_text(json.dumps(about))


def test_a_good_entry_verifies(entry: Path) -> None:
    report = verify(entry)
    assert report.problem is None
    assert report.summary is not None
    assert report.summary.episodes == N
    assert report.summary.to_json() == read_entry(entry).claims.model_dump()
    _write(entry, _episodes(entry))  # other white space, same content
    assert verify(entry).problem is None


def _other(action: str) -> str:
    return "down" if action == "up" else "up"


def test_a_changed_action_is_found(entry: Path) -> None:
    episodes = _episodes(entry)
    turn = next(t for t in episodes[3]["turns"] if t["usable"])
    turn["action"] = _other(turn["action"])
    _write(entry, episodes)
    problem = verify(entry).problem
    assert problem is not None
    assert problem.startswith("episodes.jsonl:4: turns[0].action is recorded as")


def test_a_changed_reply_is_found(entry: Path) -> None:
    episodes = _episodes(entry)
    turn = episodes[3]["turns"][0]
    turn["reply"] = "nonsense"
    _write(entry, episodes)
    problem = verify(entry).problem
    assert problem is not None
    assert problem.startswith("episodes.jsonl:4: turns[0].action is recorded as")
    turn["action"], turn["usable"] = None, False
    _write(entry, episodes)
    problem = verify(entry).problem
    assert problem is not None
    assert problem.startswith("episodes.jsonl:4: ")


def _claim_solved(e: dict) -> None:
    e["solved"], e["end"] = True, "solved"


@pytest.mark.parametrize(
    ("field", "spoil"),
    [
        ("score", lambda e: e.update(score=e["score"] + 0.5)),
        ("final_observation", lambda e: e.update(final_observation="solved")),
        ("turns[0].observation", lambda e: e["turns"][0].update(observation="easy")),
        ("turns[0].reward", lambda e: e["turns"][0].update(reward=9.0)),
        ("instance.hash", lambda e: e["instance"].update(hash="0" * 16)),
        ("instance is", lambda e: e["instance"].update(index=900)),
        ("instance is", lambda e: e["instance"].update(split="train")),
        ("seed", lambda e: e.update(seed=e["seed"] + 1)),
        ("env_id", lambda e: e.update(env_id="ftw/Other-v0")),
        ("env_version", lambda e: e.update(env_version="other")),
        ("env_kwargs", lambda e: e.update(env_kwargs={"max_steps": 99})),
        ("the episode has no turns", lambda e: e.update(turns=[])),
        ("after the end", lambda e: e["turns"].append(e["turns"][-1])),
    ],
)
def test_a_changed_record_is_found(entry: Path, field: str, spoil) -> None:
    episodes = _episodes(entry)
    spoil(episodes[5])
    _write(entry, episodes)
    problem = verify(entry).problem
    assert problem is not None
    assert problem.startswith("episodes.jsonl:6: ")
    assert field in problem
    assert "\n" not in problem


def test_a_failure_told_as_success_is_found(entry: Path) -> None:
    episodes = _episodes(entry)
    at = next(i for i, e in enumerate(episodes) if not e["solved"])
    _claim_solved(episodes[at])
    _write(entry, episodes)
    problem = verify(entry).problem
    assert problem is not None
    assert problem.startswith(f"episodes.jsonl:{at + 1}: end is recorded as 'solved'")


def test_a_shortened_episode_is_found(entry: Path) -> None:
    episodes = _episodes(entry)
    at = next((i for i, e in enumerate(episodes) if len(e["turns"]) > 1), None)
    if at is None:
        return  # a bandit's episodes have one turn
    episodes[at]["turns"].pop()
    _write(entry, episodes)
    assert f"episodes.jsonl:{at + 1}: the episode goes on" in (verify(entry).problem or "")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda x: x[:-1], "test/11 is missing"),
        (lambda x: x[:4] + x[5:], "episodes.jsonl:5: instance is recorded as 'test/5'"),
        (lambda x: [*x[:4], x[3], *x[5:]], "episodes.jsonl:5: instance is recorded as 'test/3'"),
        (lambda x: [*x, x[0]], "episodes.jsonl:13: one episode too many"),
        (lambda x: x[::-1], "episodes.jsonl:1: instance is recorded as 'test/11'"),
    ],
)
def test_missing_double_and_misplaced_episodes_are_found(entry: Path, change, why: str) -> None:
    _write(entry, change(_episodes(entry)))
    assert why in (verify(entry).problem or "")


@pytest.mark.parametrize(
    "claim", ["solved", "solve_rate", "low", "high", "invalid_rate", "mean_turns", "mean_score",
              "tokens_in", "tokens_out"],
)  # fmt: skip
def test_a_wrong_figure_is_found(entry: Path, claim: str) -> None:
    about = json.loads((entry / "entry.json").read_text())
    value = about["claims"][claim]
    wrong = value + 1 if isinstance(value, int) else value / 2 + 0.01
    _write(entry, _episodes(entry), **{claim: wrong})
    problem = verify(entry).problem
    assert problem is not None
    assert problem.startswith(f"entry.json: claims.{claim} is {wrong}, recomputed it is {value}")


def test_a_changed_byte_is_found(entry: Path) -> None:
    path = entry / "episodes.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"policy_version":0', b'"policy_version":7', 1))
    assert "file.sha256" in (verify(entry).problem or "")
    path.write_bytes(path.read_bytes()[:-5])
    assert "cut off" in (verify(entry).problem or "")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"colour": 1}, "colour: Extra inputs are not permitted"),
        ({"split": "train"}, "split: Input should be 'valid', 'test'"),
        ({"seed": "0"}, "seed: Input should be a valid integer"),
        ({"format": 2}, "format: Input should be 1"),
        ({"suite_version": "0.0.1"}, "made with suite 0.0.1"),
        ({"env_id": "ftw/No-v0"}, "unknown environment"),
        ({"env_kwargs": {"colour": 1}}, "colour"),
        ({"env_kwargs": {"obs": ["text"]}}, "env_kwargs"),
        ({"env_kwargs": {"levels": "/etc/passwd"}}, "shipped levels only"),
        ({"agent": {"name": "a\nb", "kind": "scripted"}}, "agent.name"),
        ({"agent": {"name": "", "kind": "scripted"}}, "agent.name"),
        ({"claims": {}}, "claims.episodes: Field required"),
    ],
)
def test_entries_that_cannot_be_read_say_why(entry: Path, change: dict, why: str) -> None:
    about = json.loads((entry / "entry.json").read_text()) | change
    (entry / "entry.json").write_text(json.dumps(about))
    with pytest.raises(EntryError, match=r"entry") as error:
        verify(entry)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "not valid JSON"),
        (b"\xff", "not UTF-8"),
        (b" " * 70_000, "larger than 65536 bytes"),
        (b"[" * 60_000, "nested too deep"),
        (b'{"format": 1, "format": 1}', "stands twice"),
        (b'{"format": NaN}', "NaN"),
        (b"[]", "the whole"),
    ],
)
def test_hostile_entry_files(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "entry.json").write_bytes(data)
    with pytest.raises(EntryError, match=why):
        read_entry(tmp_path)
    with pytest.raises(EntryError, match="cannot be read"):
        read_entry(tmp_path / "nowhere")


def test_numbers_as_actions_are_refused(entry: Path) -> None:
    about = json.loads((entry / "entry.json").read_text())
    about |= {"env_id": MINI, "env_kwargs": {"actions": "discrete"}}
    (entry / "entry.json").write_text(json.dumps(about))
    with pytest.raises(EntryError, match="played with text actions"):
        verify(entry)


def test_too_many_episodes_are_claimed(entry: Path) -> None:
    _write(entry, _episodes(entry), episodes=10**9)
    with pytest.raises(EntryError, match="episodes must be from 1 to"):
        verify(entry)


def test_submit_refuses_what_would_not_verify(entry: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="exists already"):
        submit(tmp_path, entry)
    with pytest.raises(ValueError, match=r"no result\.json there"):
        submit(tmp_path, tmp_path / "new")
    folder = tmp_path / "eval"
    evaluate(load_player("random", MINI), MINI, {}, split="test", episodes=3, seed=0, out=folder)
    result = json.loads((folder / "result.json").read_text())
    result["summary"]["solved"] += 1
    (folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(ValueError, match=r"would not verify: .*claims\.solved"):
        submit(folder, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".partial")]


def test_results_on_train_are_not_submitted(tmp_path: Path) -> None:
    out = tmp_path / "eval"
    evaluate(load_player("random", MINI), MINI, {}, split="train", episodes=3, seed=0, out=out)
    with pytest.raises(ValueError, match="split: Input should be 'valid', 'test'"):
        submit(out, tmp_path / "new")


def test_verification_needs_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, leaderboards.verify, leaderboards.submit; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
