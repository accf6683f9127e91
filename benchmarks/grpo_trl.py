"""A whole GRPO iteration, ours and TRL's: `python benchmarks/grpo_trl.py`.

Both start from the tiny base and play the same instances of SokobanMini with the same noise,
in groups of 8, with no KL term and one epoch. `peers/trl.py` says how TRL is driven. The two
take turns, each round from fresh weights; the first iteration of a round does not count.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import compare
import torch
from measure import Row, load
from trainer_speed import machine, tiny

from ftw_agents.config import GRPOConfig, TrainConfig
from ftw_agents.lm.base import BaseConfig
from ftw_agents.lm.model import LanguageModel
from ftw_agents.train import Trainer

ROOT = Path(__file__).parent.parent
GROUP = 8
MICRO = 32  # episodes in a forward pass of TRL where a step takes more

# The suite without its dependencies, so that pip takes those that go with TRL.
compare.PEERS["trl"] = (
    ["-c", str(ROOT / "constraints.txt"), "torch", "transformers"],
    ["-c", str(ROOT / "constraints.txt"), "trl==1.16.0", "accelerate==1.15.0", "datasets==5.2.0"],
    ["-c", str(ROOT / "constraints.txt"), "gymnasium", "jinja2", "markdown-it-py", "matplotlib"],
    ["-c", str(ROOT / "constraints.txt"), "numba", "pillow", "platformdirs", "pydantic"],
    ["-c", str(ROOT / "constraints.txt"), "rich", "tyro"],
    ["--no-deps", "-e", str(ROOT)],
)


def settings(args: argparse.Namespace, step: int, out: Path) -> TrainConfig:
    """Our settings; evaluations and checkpoints are left out."""
    return TrainConfig(
        env_args=BaseConfig().env_args,
        algo="grpo",
        out=out,
        iterations=10**6,
        episodes=args.episodes,
        minibatch=step,
        eval_every=10**6,
        eval_episodes=16,
        checkpoint_every=10**6,
        grpo=GRPOConfig(group=GROUP),
    )


def ours(model: Path, config: TrainConfig, iterations: int) -> dict[str, Row]:
    """The rows that `peers/trl.py` has too."""
    lm = LanguageModel.load(model)
    before = [p.detach().clone() for p in lm.model.parameters()]
    trainer = Trainer.start(config, lm)
    play = trainer.collector.play
    found: dict[str, list[float]] = {
        key: [] for key in ("iteration", "collect", "tokens", "action tokens", "score", "grad norm")
    }

    def watched(*args: Any, **kwargs: Any) -> list[Any]:
        begin = time.perf_counter()
        played = list(play(*args, **kwargs))
        found["collect"].append(time.perf_counter() - begin)
        found["tokens"].append(sum(e.tokens_in + e.tokens_out for e in played))
        found["action tokens"].append(sum(e.tokens_out for e in played))
        found["score"].append(sum(e.score for e in played) / len(played))
        return played

    marks = [time.perf_counter()]

    def progress(metrics: dict[str, Any]) -> None:
        marks.append(time.perf_counter())
        found["grad norm"].append(metrics["grad_norm"])

    trainer.collector.play = watched  # type: ignore[assignment,method-assign]
    trainer.run(progress, stop_at=iterations)
    found["iteration"] = [b - a for a, b in pairwise(marks)]
    moved = sum(
        float((a.detach() - b).square().sum())
        for a, b in zip(lm.model.parameters(), before, strict=True)
    )
    found["weights moved"] = [moved**0.5]
    found["threads"] = [float(torch.get_num_threads())]
    return {key: Row(key, "", values) for key, values in found.items()}


def theirs(
    python: Path, model: Path, config: TrainConfig, iterations: int, folder: Path
) -> dict[str, Row]:
    """What `peers/trl.py` measured on the starts that our run plays."""
    trainer = Trainer(config, LanguageModel.load(model))
    starts = [
        (s.index, s.seed)
        for version in range(1, iterations + 1)
        for s in trainer.algorithm.starts(version)[::GROUP]
    ]
    (folder / "starts.json").write_text(json.dumps(starts))
    step = config.minibatch
    command: list[str | Path] = [
        python,
        "-P",
        compare.HERE / "peers" / "trl.py",
        model,
        folder / "starts.json",
        str(iterations),
        str(min(step, MICRO)),
        str(step),
        str(config.lr),
        str(config.max_reply_tokens),
        str(GROUP),
        folder / "trl",
    ]
    return {row.key: row for row in load(compare.run(command).splitlines()[-1])}


def merged(rounds: list[dict[str, Row]]) -> dict[str, Row]:
    """The rows of all rounds without the first iteration of each."""
    return {
        key: Row(key, row.unit, [v for found in rounds for v in _counted(found[key])])
        for key, row in rounds[0].items()
    }


def _counted(row: Row) -> list[float]:
    return row.values[1:] or row.values


def table(found: dict[str, dict[str, Row]], episodes: int) -> list[str]:
    """Medians, and how many times more episodes an hour ours is."""
    mine, peer = found["ours"], found["trl"]
    lines = [f"  {'':26}{'ours':>14}{'TRL':>14}"]
    for what, key, form in (
        ("iteration, s", "iteration", ",.2f"),
        ("of it collecting, s", "collect", ",.2f"),
        ("tokens", "tokens", ",.0f"),
        ("of them written", "action tokens", ",.0f"),
        ("mean score", "score", ".3f"),
        ("gradient norm", "grad norm", ".3f"),
        ("weights moved in a round", "weights moved", ".3f"),
        ("threads", "threads", ".0f"),
    ):
        cells = [f"{format(rows[key].figure(), form):>14}" for rows in (mine, peer)]
        lines.append(f"  {what:26}{''.join(cells)}")
    rates = [3600 * episodes / rows["iteration"].figure() for rows in (mine, peer)]
    lines.append(f"  {'episodes/hour':26}{rates[0]:14,.0f}{rates[1]:14,.0f}")
    return [*lines, f"  ratio of episodes/hour: {rates[0] / rates[1]:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venvs", type=Path, default=Path(".bench-venvs"))
    parser.add_argument("--episodes", type=int, default=256, help="in an iteration")
    parser.add_argument(
        "--steps",
        type=int,
        nargs="+",
        default=[8, 1],
        metavar="N",
        help="gradient steps in an iteration, each measured",
    )
    parser.add_argument("--iterations", type=int, default=4, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all figures here too")
    args = parser.parse_args()
    if args.iterations < 2:
        parser.error("the first iteration does not count: take at least 2")

    print(machine(), flush=True)
    base = tiny()
    python = compare.install("trl", args.venvs.resolve() / "trl")
    report: dict[str, Any] = {"machine": machine(), "steps": {}}
    for steps in args.steps:
        rounds: dict[str, list[dict[str, Row]]] = {"ours": [], "trl": []}
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                base.save(folder / "base")
                config = settings(args, args.episodes // steps, folder / "run")
                rounds["ours"].append(ours(folder / "base", config, args.iterations))
                rounds["trl"].append(
                    theirs(python, folder / "base", config, args.iterations, folder)
                )
        found = {side: merged(some) for side, some in rounds.items()}
        print(f"GRPO, {args.episodes} episodes, gradient steps in an iteration: {steps}")
        print("\n".join(table(found, args.episodes)), flush=True)
        report["steps"][steps] = {
            side: [asdict(row) for row in rows.values()] for side, rows in found.items()
        }
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
