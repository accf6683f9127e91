"""Plays an agent on unseen instances and writes what happened.

The folder gets `episodes.jsonl` (every episode) and `result.json` (who, what, figures).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ftw_envs
from ftw_agents.agent import Agent
from ftw_agents.collect import Collector
from ftw_agents.results import Summary, Tally
from ftw_agents.scripted.players import SCRIPTED
from ftw_agents.starts import Start, evaluation_starts
from ftw_envs.episode import EpisodeWriter
from ftw_envs.files import write_json

RESULT_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Player:
    """An agent with what a result says about it.

    Attributes:
        agent: who plays.
        about: at least {"name": ..., "kind": "scripted" | "language-model" | "other"}.
    """

    agent: Agent
    about: dict[str, Any]


def settings_of(spec: str) -> dict[str, Any]:
    """The settings of the run that a run folder, or the folder `best` in one, is of; else {}."""
    folder = Path(spec)
    config = (folder.parent if (folder / "best.json").exists() else folder) / "config.json"
    if not config.exists():
        return {}
    data = json.loads(config.read_text("utf-8"))
    # A model folder has a config.json too, of another kind.
    return data if isinstance(data, dict) and "env" in data else {}


def load_player(
    spec: str,
    env_id: str,
    *,
    temperature: float = 1.0,
    max_reply_tokens: int | None = None,
    name: str | None = None,
) -> Player:
    """The agent that `spec` names.

    Args:
        spec: one of `SCRIPTED`, "base" (the tiny base for the environment), a run folder (its
            newest checkpoint), or a folder or hub name of a Hugging Face model, such as the
            folder `best` in a run.
        env_id: what it is to play.
        temperature: sampling temperature of a language model; 0 is greedy.
        max_reply_tokens: where a language model's reply is cut; None for that of the run, or
            what the tiny base for the environment needs.
        name: what the agent is called in results; by default told by `spec`.

    Raises:
        ValueError: there is nothing of that name.
    """
    if spec in SCRIPTED:
        return Player(SCRIPTED[spec](), {"name": name or spec, "kind": "scripted"})
    # Only here: scripted players must not wait for torch.
    from ftw_agents.lm.base import base_config, load_base
    from ftw_agents.lm.model import LanguageModel
    from ftw_agents.lm.sampler import LMAgent
    from ftw_agents.run_folder import newest_checkpoint

    run = Path(spec)
    if spec == "base":
        lm = load_base(base_config(env_id), lambda step, steps, loss: None)
    elif (run / "checkpoints").is_dir():
        lm = LanguageModel.load(newest_checkpoint(run))
    else:
        lm = LanguageModel.load(spec)
    if max_reply_tokens is None:
        needed = base_config(env_id).max_reply_tokens
        max_reply_tokens = int(settings_of(spec).get("max_reply_tokens", needed))
    agent = LMAgent(lm, temperature=temperature, max_reply_tokens=max_reply_tokens)
    about = {
        "name": name or run.name or spec,
        "kind": "language-model",
        "parameters": sum(p.numel() for p in lm.model.parameters()),
        "temperature": temperature,
        "max_reply_tokens": max_reply_tokens,
    }
    return Player(agent, about)


Progress = Callable[[int, int], None]
"""Called with the number of episodes done and solved so far."""


def play_to_file(
    collector: Collector,
    player: Player,
    starts: Sequence[Start],
    seed: int,
    path: Path,
    progress: Progress,
) -> Summary:
    """Plays `starts` and writes the episodes to `path`; `seed` names the player's dice."""
    tally = Tally()
    with EpisodeWriter(path) as writer:
        for episode in collector.play(player.agent, starts, player_seed=seed):
            writer.write(episode.without_tokens())
            tally.add(episode)
            progress(tally.episodes, tally.solved)
    return tally.summary()


def evaluate(
    player: Player,
    env_id: str,
    env_kwargs: dict[str, Any],
    *,
    split: str,
    episodes: int,
    seed: int,
    out: Path,
    progress: Progress = lambda done, solved: None,
) -> Summary:
    """Plays the first `episodes` instances of `split`, each once, and writes the folder `out`.

    Raises:
        ValueError: `out` holds a result already, or an argument is wrong.
    """
    if (out / "result.json").exists():
        raise ValueError(f"{out} holds a result already; choose another --out")
    collector = Collector(env_id, env_kwargs)
    starts = evaluation_starts(collector.env, split, episodes, seed)
    summary = play_to_file(collector, player, starts, seed, out / "episodes.jsonl", progress)
    write_result(out, player.about, collector, split, seed, summary)
    return summary


def write_result(
    out: Path,
    about: dict[str, Any],
    collector: Collector,
    split: str,
    seed: int,
    summary: Summary,
    **more: Any,
) -> None:
    """Writes the `result.json` of episodes that were played; `more` are further keys."""
    write_json(
        out / "result.json",
        {
            "format": RESULT_FORMAT,
            "suite_version": ftw_envs.__version__,
            "agent": about,
            "env_id": collector.env_id,
            "env_version": collector.env.env_version,
            "env_kwargs": collector.env_kwargs,
            "split": split,
            "seed": seed,
            **more,
            "summary": summary.to_json(),
        },
    )


def read_result(folder: Path) -> dict[str, Any]:
    """The `result.json` of an evaluation.

    Raises:
        ValueError: the folder holds none.
    """
    try:
        data = json.loads((folder / "result.json").read_text("utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"{folder}: no result.json there; `ftw evaluate ... --out {folder}` writes one"
        ) from None
    except ValueError as e:
        raise ValueError(f"{folder}/result.json: not valid JSON ({e})") from None
    if not isinstance(data, dict) or data.get("format") != RESULT_FORMAT:
        raise ValueError(f"{folder}/result.json: not a result of format {RESULT_FORMAT}")
    return data
