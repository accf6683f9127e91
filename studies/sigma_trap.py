"""Where each algorithm settles on the sigma-trap, against the trap's noise.

    python -m studies.sigma_trap --jobs 2

The real loop on `ftw/SigmaTrap-v0` with one instance, so that the text never changes: a tiny
Llama that plays either machine half of the time is trained by plain gradient descent, all
episodes of an iteration in one step. Its step size is chosen so that the log-odds of the good
machine move by eta times (share among the winners - share among the played), as in the mean
field, which is drawn on top (`ftw_agents.theory.mean_field`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import tyro

from ftw_agents.config import ClipConfig, FTWConfig, GRPOConfig, TrainConfig
from ftw_agents.lm.base import BaseConfig
from studies.pieces import Piece, console, run_pieces, write_result

BASE = BaseConfig(
    env="ftw/SigmaTrap-v0",
    env_args=("instances=1",),
    player="random",
    games=4000,
    steps=600,
    hidden=16,
    layers=1,
    heads=2,
)
SIGMAS = (0.1, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
ETA = 0.5
_RUN = TrainConfig(
    env=BASE.env,
    iterations=400,
    episodes=64,
    minibatch=10_000,
    optimizer="sgd",
    max_grad_norm=1e9,
    eval_every=400,
    eval_episodes=1,
    checkpoint_every=400,
    grpo=GRPOConfig(group=8, divide_by_std=False),
)
_FTW = FTWConfig(batch_episodes=96, versions=4)


def variants(lr: float) -> dict[str, TrainConfig]:
    """The algorithms by name. `lr` moves the log-odds by ETA times the difference of shares."""

    def ftw(c: int, k: int) -> TrainConfig:
        return replace(_RUN, lr=lr, ftw=replace(_FTW, candidates=c, winners=k))

    return {
        "FTW-K4-C8": ftw(8, 4),
        "FTW-K6-C8": ftw(8, 6),
        "FTW-K1-C4": ftw(4, 1),
        "FTW-exp": replace(_RUN, algo="ftw-exp", lr=lr, ftw=_FTW),
        "GRPO": replace(_RUN, algo="grpo", lr=lr),
        "GRPO, step / 10": replace(_RUN, algo="grpo", lr=lr / 10),
        "FTW-expected-K4-C8": replace(ftw(8, 4), algo="ftw-expected"),
        "REINFORCE++": replace(_RUN, algo="reinforce++", lr=lr, clip=ClipConfig()),
        "RAFT": replace(_RUN, algo="raft", lr=lr),
        "PPO": replace(_RUN, algo="ppo", lr=lr),
    }


def step_size(eta: float) -> float:
    """The learning rate at which the log-odds move by `eta` times the difference of shares.

    With D the gradient of the log-odds of the two names, a step on the mean over action
    tokens moves them by lr |D|^2 / n for replies of n tokens, of which only the first decides.
    """
    from ftw_agents.lm.base import load_base
    from ftw_envs.bandit.sigma_trap import SigmaTrapEnv
    from ftw_envs.registry import make

    lm = load_base(BASE, lambda step, steps, loss: None)
    env = make(BASE.env, instances=1)
    assert isinstance(env, SigmaTrapEnv)
    text, _ = env.reset(seed=0)
    prompt = torch.tensor([lm.first_chunk(text)])
    good, bad = (lm.tokenizer(name, add_special_tokens=False)["input_ids"] for name in env.names)
    inputs = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    logits = lm.logits(lm.hidden(**inputs, use_cache=False)[0, -1])
    log_odds = logits[good[0]] - logits[bad[0]]
    gradient = torch.autograd.grad(log_odds, list(lm.model.parameters()), allow_unused=True)
    square = sum(float((g**2).sum()) for g in gradient if g is not None)
    return eta * (len(good) + 1) / square


def main(
    out: Path = Path("runs/studies/sigma_trap"),
    result: Path = Path("docs/studies/sigma_trap.json"),
    jobs: int = 2,
    seeds: int = 10,
    only: tuple[str, ...] = (),
) -> None:
    """Runs the study.

    Args:
        out: folder of the runs.
        result: where the figures go.
        jobs: runs at a time, one thread each.
        seeds: runs of each algorithm at each noise.
        only: names of the algorithms to run; all if none is given.
    """
    lr = step_size(ETA)
    chosen = {k: v for k, v in variants(lr).items() if not only or k in only}
    pieces = [
        Piece(
            replace(
                config,
                env_args=("instances=1", f"sigma={sigma:g}"),
                seed=seed,
                out=out / name.replace(", ", "-").replace(" / ", "-by-") / f"{sigma:g}-{seed}",
            ),
            {"name": name, "sigma": sigma, "seed": seed},
            base=BASE,
            test=0,
            curve=("solve_rate",),
        )
        for name, config in chosen.items()
        for sigma in SIGMAS
        for seed in range(seeds)
    ]
    rows = run_pieces(pieces, jobs, fresh=False)
    settings: dict[str, Any] = {"eta": ETA, "lr": lr, "sigmas": SIGMAS, "seeds": seeds}
    write_result(result, "python -m studies.sigma_trap", settings, rows)
    console.print(result)


if __name__ == "__main__":
    tyro.cli(main)
