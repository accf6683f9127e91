"""Peak memory of the algorithms beside each other: `python benchmarks/memory.py`.

Each run is a process of its own. What counts is the most memory it ever held after a few
iterations, above what it held at most with everything imported and the model loaded.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from measure import Row
from trainer_speed import machine, tiny
from transformers import LlamaConfig, LlamaForCausalLM

from ftw_agents.config import ClipConfig, FTWConfig, TrainConfig
from ftw_agents.lm.base import BaseConfig
from ftw_agents.lm.model import LanguageModel
from ftw_agents.train import Trainer

MB = 2**20


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes:
        kl: weight of the KL term to a reference: the start (grpo, ppo, reinforce++) or the
            policy that just played (ftw).
    """

    algo: str
    kl: float = 0.0

    def __str__(self) -> str:
        return self.algo + (" with a reference" if self.kl else "")


CASES = (
    Case("ftw"),
    Case("grpo"),
    Case("reinforce++"),
    Case("ppo"),
    Case("ftw", 0.05),
    Case("grpo", 0.05),
    Case("reinforce++", 0.05),
)


def grown(lm: LanguageModel, width: int, layers: int) -> LanguageModel:
    """A wider and deeper model that plays as `lm` does: what is added counts for nothing.

    New channels are 0 throughout; that their zeros count in the root mean square is made good
    in the weights of the norms. New layers add 0.
    """
    old = lm.model.config
    config = LlamaConfig(
        vocab_size=old.vocab_size,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // old.head_dim,
        head_dim=old.head_dim,
        rms_norm_eps=old.rms_norm_eps * old.hidden_size / width,
        max_position_embeddings=old.max_position_embeddings,
        tie_word_embeddings=True,
        pad_token_id=old.pad_token_id,
        eos_token_id=old.eos_token_id,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    state = lm.model.state_dict()
    with torch.no_grad():
        for name, weight in model.state_dict().items():
            weight.zero_()
            if name in state:
                part = state[name]
                scale = (old.hidden_size / width) ** 0.5 if "norm" in name else 1.0
                weight[tuple(slice(n) for n in part.shape)] = part * scale
    return LanguageModel(model, lm.tokenizer)


def peak() -> float:
    """The most memory this process ever held, MB.

    Linux carries `ru_maxrss` over from the process that started this one, so there it is read
    from the process itself.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / MB if sys.platform == "darwin" else held / 1024


def measure(case: Case, args: argparse.Namespace, model: Path) -> dict[str, float]:
    """Runs one case in this process."""
    lm = LanguageModel.load(model)
    before = peak()
    with tempfile.TemporaryDirectory() as folder:
        config = TrainConfig(
            env_args=BaseConfig().env_args,
            algo=case.algo,  # type: ignore[arg-type]
            out=Path(folder) / "run",
            iterations=args.iterations,
            episodes=args.episodes,
            minibatch=args.minibatch,
            eval_every=10**6,
            eval_episodes=16,
            checkpoint_every=10**6,
            ftw=FTWConfig(kl=case.kl if case.algo == "ftw" else 0.0),
            clip=ClipConfig(kl=case.kl),
        )
        trainer = Trainer.start(config, lm)
        for i in range(1, args.iterations + 1):
            trainer._iterate()
            assert trainer.metrics[i].get("grad_norm"), "an iteration took no gradient step"
        return {"before": before, "added": peak() - before}


def apart(case: Case, args: argparse.Namespace, model: Path, episodes: int) -> dict[str, float]:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "--case", json.dumps(asdict(case)), "--model", model]
    command += ["--episodes", str(episodes)]
    for name in ("minibatch", "iterations"):
        command += [f"--{name}", str(getattr(args, name))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=256, help="in an iteration")
    parser.add_argument(
        "--larger-episodes", type=int, default=64, help="the same, with the larger model"
    )
    parser.add_argument("--minibatch", type=int, default=32, help="episodes in a gradient step")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--width", type=int, default=256, help="of the larger model")
    parser.add_argument("--layers", type=int, default=6, help="of the larger model")
    parser.add_argument("--json", type=Path, help="write all figures here too")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measure(Case(**json.loads(args.case)), args, args.model)))
        return

    print(machine(), flush=True)
    report: dict[str, Any] = {"machine": machine(), "models": {}}
    base = tiny()
    models = {
        "tiny base": (base, args.episodes),
        "larger": (grown(base, args.width, args.layers), args.larger_episodes),
    }
    for name, (lm, episodes) in models.items():
        size = sum(p.numel() for p in lm.model.parameters())
        print(f"{name}, {size:,} parameters ({4 * size / MB:.1f} MB), {episodes} episodes")
        report["models"][name] = {"parameters": size, "episodes": episodes, "rows": []}
        with tempfile.TemporaryDirectory() as folder:
            lm.save(Path(folder))
            for case in CASES:
                runs = [apart(case, args, Path(folder), episodes) for _ in range(args.repeats)]
                row = Row(str(case), "MB", [run["added"] for run in runs])
                before = sum(run["before"] for run in runs) / len(runs)
                print(f"  {row}, above {before:,.0f}", flush=True)
                report["models"][name]["rows"].append({**asdict(row), "before": before})
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
