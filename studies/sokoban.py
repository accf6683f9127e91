"""Compares the algorithms on SokobanMini from one base, with one budget and equal tuning.

    python -m studies.sokoban --jobs 2

All settings but the step size (see `studies.tuned`) are the defaults of `ftw train`.
"""

from __future__ import annotations

from dataclasses import replace

from ftw_agents.config import Algo, TrainConfig
from studies.tuned import Comparison, run

_RUN = TrainConfig(env_args=("obs=coords",), eval_every=20, eval_episodes=512, checkpoint_every=20)
_ALGORITHMS: tuple[Algo, ...] = ("ftw", "grpo", "ppo", "reinforce++", "raft", "ftw-expected")
STUDY = Comparison(
    "sokoban",
    {algo: replace(_RUN, algo=algo) for algo in _ALGORITHMS},
    step_sizes=(6.25e-5, 1.25e-4, 2.5e-4, 5e-4, 1e-3, 2e-3),
    iterations=80,
    tuning_iterations=24,
)

if __name__ == "__main__":
    run(STUDY)
