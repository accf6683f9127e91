"""What the folders of `ftw train` and `ftw evaluate` say of a run: all that can be measured."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ftw_agents.config import TrainConfig
from ftw_agents.evaluate import read_result
from leaderboards.boards import view_of
from leaderboards.folder import parse
from leaderboards.schema import CurveRow, EntryError, Figures, Positive
from leaderboards.strict import lines, read_json

MAX_METRICS = 256 << 20
MAX_METRICS_LINE = 1 << 20
MAX_JSON = 4 << 20

# They change nothing of what is learned.
_ASIDE = ("seed", "out", "log", "keep_checkpoints", "checkpoint_every", "sample_episodes")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a run lies: its evaluation, and its training, if there was any."""

    evaluation: Path
    training: Path | None = None


@dataclass(frozen=True, slots=True)
class Trained:
    """A training run.

    Attributes:
        config: its settings.
        curve: its examinations on valid.
        episodes, env_steps, tokens, wall_seconds: what it took in all; what examinations took
            does not count.
        peak_memory_mb: None where nobody measured it.
    """

    config: TrainConfig
    curve: list[CurveRow]
    episodes: int
    env_steps: int
    tokens: int
    wall_seconds: float
    peak_memory_mb: int | None


class Agent(BaseModel):
    """Who played, as `result.json` says; what it does not say is None."""

    model_config = ConfigDict(strict=True, frozen=True)
    name: str
    kind: str
    parameters: Positive | None = None
    temperature: float | None = None
    max_reply_tokens: Positive | None = None


class Result(BaseModel):
    """The `result.json` of an evaluation; `round` is the sealed round it was played in."""

    model_config = ConfigDict(strict=True, frozen=True)
    suite_version: str
    agent: Agent
    env_id: str
    env_version: str
    env_kwargs: dict[str, Any]
    split: str
    seed: int
    round: str | None = None
    summary: Figures


@dataclass(frozen=True, slots=True)
class Run:
    """A run: what is said of its evaluation, and its training."""

    source: Source
    result: Result
    trained: Trained | None

    @property
    def seed(self) -> int:
        """The training seed; 0 for what is not trained."""
        return self.trained.config.seed if self.trained else 0


def source_of(folder: Path, evaluation: str = "test") -> Source:
    """A training run with an evaluation in it, or an evaluation alone.

    Args:
        evaluation: name of the evaluation's folder in that of the run.

    Raises:
        EntryError: it is neither.
    """
    if (folder / evaluation / "result.json").exists():
        return Source(folder / evaluation, folder)
    if (folder / "result.json").exists():
        return Source(folder)
    raise EntryError(
        f"{folder}: no evaluation there; `ftw evaluate --agent {folder} ... --out "
        f"{folder / evaluation}` makes one"
    )


def read_run(source: Source) -> Run:
    """What the files of a run say.

    Raises:
        ValueError: a file that is missing or says something else.
    """
    data = read_result(source.evaluation)
    result = parse(Result, data, f"{source.evaluation}/result.json")
    return Run(source, result, _trained(source.training) if source.training else None)


def _trained(folder: Path) -> Trained:
    data = read_json(folder / "config.json", MAX_JSON)
    try:
        config = TrainConfig.from_json(data)
    except (ValueError, AttributeError, TypeError) as e:
        raise EntryError(f"{folder}/config.json: {e}") from None
    curve, steps, seconds = [], 0, 0.0
    metrics: dict[str, Any] = {"episodes": 0, "tokens": 0}
    try:
        for now in _metrics(folder / "metrics.jsonl"):
            steps += round(now.get("mean_turns", 0) * (now["episodes"] - metrics["episodes"]))
            seconds += now.get("seconds", 0.0)
            metrics = now
            if "valid_solve_rate" in now:
                row = {
                    "episodes": now["episodes"],
                    "env_steps": steps,
                    "tokens": now["tokens"],
                    "wall_seconds": round(seconds, 3),
                    "solved": round(now["valid_solve_rate"] * now["valid_episodes"]),
                    "n": now["valid_episodes"],
                }
                curve.append(parse(CurveRow, row, f"{folder}/metrics.jsonl"))
    except (KeyError, TypeError) as e:
        raise EntryError(f"{folder}/metrics.jsonl: not what `ftw train` writes ({e})") from None
    row_file = folder / "row.json"
    peak = read_json(row_file, MAX_JSON).get("peak_memory_mb") if row_file.exists() else None
    return Trained(config, curve, metrics["episodes"], steps, metrics["tokens"], seconds, peak)


def _metrics(path: Path) -> Iterator[dict[str, Any]]:
    return (data for _, data in lines(path, MAX_METRICS, MAX_METRICS_LINE))


def check_alike(runs: list[Run]) -> None:
    """Refuses runs that differ in more than their seed.

    Raises:
        EntryError: the first difference, and what would be right.
    """
    first = runs[0]
    seen: dict[int, Path] = {}
    for run in runs:
        folder = run.source.training or run.source.evaluation
        if run.seed in seen:
            raise EntryError(
                f"{folder}: training seed {run.seed} is that of {seen[run.seed]} too; each run of "
                "an entry has a seed of its own"
            )
        seen[run.seed] = folder
        for key in (
            "suite_version", "env_id", "env_version", "env_kwargs", "split", "seed", "round",
        ):  # fmt: skip
            told, right = getattr(run.result, key), getattr(first.result, key)
            if told != right:
                raise EntryError(
                    f"{run.source.evaluation}: {key} is {told}, that of {first.source.evaluation} "
                    f"is {right}; one entry is one way of playing"
                )
        if (run.trained is None) != (first.trained is None):
            raise EntryError(f"{folder}: all runs of an entry are trained, or none")
        if run.trained and first.trained:
            _check_settings(folder, run.trained.config, first.trained.config)


def _check_settings(folder: Path, config: TrainConfig, first: TrainConfig) -> None:
    mine, theirs = _flat(config.to_json()), _flat(first.to_json())
    for key in mine:
        if key not in ("seed", "out") and mine[key] != theirs[key]:
            raise EntryError(
                f"{folder}: {key} is {mine[key]}, that of {first.out.name} is {theirs[key]}; runs "
                "of an entry differ in nothing but their seed"
            )


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in data.items():
        out |= _flat(value, f"{key}.") if isinstance(value, dict) else {prefix + key: value}
    return out


def command_of(run: Run, agent: str, temperature_percent: int | None) -> str:
    """The command that plays a run again, of a trained one with its training; no local paths.

    Args:
        agent: what `ftw evaluate` takes it by; RUN is the folder of a training run.
    """
    result = run.result
    words = []
    if run.trained:
        usual = _flat(TrainConfig().to_json())
        words += ["ftw", "train"]
        for key, value in _flat(run.trained.config.to_json()).items():
            if key not in _ASIDE and value != usual[key]:
                words += _flag(key, value)
        words += ["--seed", "SEED", "--out", "RUN", "&&"]
    if result.round is not None:  # the view and the rest stand in its commitment
        words += ["ftw", "round", "play", result.round, agent, "--slug", "SLUG"]
    else:
        words += ["ftw", "evaluate", "--agent", agent, "--env", result.env_id]
        view = view_of(result.env_kwargs)
        words += ["--env-args", *view] if view else []
        words += ["--split", result.split, "--episodes", str(result.summary.episodes)]
        words += ["--seed", str(result.seed)]
        if temperature_percent is not None:
            words += ["--temperature", f"{temperature_percent / 100:g}"]
    words += ["--out", "RUN/test" if run.trained else "RUN"]
    return " ".join(w if w == "&&" else shlex.quote(w) for w in words)


def _flag(key: str, value: Any) -> list[str]:
    group, dot, name = key.rpartition(".")
    name = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{group}{dot}{'' if value else 'no-'}{name}"]
    if key in ("base", "offline"):
        value = Path(value).name  # where it lies is nobody's business
    values = value if isinstance(value, list) else [value]
    return [f"--{group}{dot}{name}", *map(str, values)]
