"""Compares the algorithms on the board of the σ-trap: all training instances, the ranked noise.

    python -m studies.sigma_board --jobs 2

Names and their order change from instance to instance, so that what is learned is which kind of
machine to take. The tiny base tells them apart and trusts luck. The trap pays less on average
and more at its best, so a filter that is drawn to risk learns to lose; `studies.sigma_trap` has
the whole range of noises. All settings but the filters and the step size (see `studies.tuned`)
are the defaults of `ftw train`.
"""

from __future__ import annotations

from dataclasses import replace

from ftw_agents.config import FTWConfig, TrainConfig
from ftw_agents.lm.base import BASES
from studies.tuned import Comparison, run

_BASE = BASES["ftw/SigmaTrap-v0"]
_RUN = TrainConfig(
    env=_BASE.env,
    env_args=_BASE.env_args,
    max_reply_tokens=_BASE.max_reply_tokens,
    eval_every=20,
    eval_episodes=512,
    checkpoint_every=20,
)
_ALGORITHMS = {
    "ftw": _RUN,
    "ftw-k4-c8": replace(_RUN, ftw=FTWConfig(candidates=8, winners=4)),
    "ftw-k6-c8": replace(_RUN, ftw=FTWConfig(candidates=8, winners=6, batch_episodes=516)),
    "ftw-expected": replace(_RUN, algo="ftw-expected"),
    "grpo": replace(_RUN, algo="grpo"),
    "ppo": replace(_RUN, algo="ppo"),
    "reinforce++": replace(_RUN, algo="reinforce++"),
    "raft": replace(_RUN, algo="raft"),
}
"""Names are those of `studies.report.NAMES`. 516 is the number next to 512 that 6 divides."""

STUDY = Comparison(
    "sigma_board",
    _ALGORITHMS,
    step_sizes=(2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3),
    iterations=120,
    tuning_iterations=40,
)

if __name__ == "__main__":
    run(STUDY)
