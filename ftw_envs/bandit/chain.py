"""A chain of choices, one of which is a sigma-trap: credit over a whole episode."""

from __future__ import annotations

import math
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from ftw_envs.bandit.machines import KINDS, Arm, MachinesEnv, name_pairs
from ftw_envs.streams import Name, Stream

RULES_VERSION = 0
COUNTS = {"train": 20_000, "valid": 1_000, "test": 1_000}
"""Instances per split."""

MAX_DECISIONS = 16  # machines of an episode have different names, and there are 64
SPARE_STEPS = 3


class SigmaTrapChainEnv(MachinesEnv):
    """Choose between two machines several times; one score at the end pays for all.

    ## Description
    An episode is a row of decisions, each between a round and a square machine. The round
    one pays about 1, give or take a little. The square one pays `gain` less, as surely; but
    in one decision it is the trap of `SigmaTrapEnv`, paying 0 on average with a wide spread
    `sigma`. Which decision that is differs from instance to instance and is not told. All
    payouts are added up and paid with the last decision only, so that the luck of one
    choice colours all others: an algorithm that ranks whole episodes has to find out
    which choices a good episode was good for.

    ## Observation
    Text, with the number of the decision and the names and looks of its two machines.
    Looks tell the better machine. Payouts are not shown on the way; the last observation
    tells their sum.

    ## Actions
    Text holding the name of one machine, dressed as `ActionGrammar` allows. The names are
    new in each decision.

    ## Score
    The sum of all payouts, 0 until the last decision is made. Not the mean: that way the
    trap has the gap and the spread that it has in `SigmaTrapEnv`, and `sigma` means the
    same. Payouts are normal, rounded to six decimals, and depend on the noise seed, the
    decision and the arm only, never on anything drawn or chosen before.

    ## End of episode
    Terminated with the last decision: "solved" if the round machine was chosen in every
    one, whatever was paid, else "failed". An unusable reply costs a step and leaves the
    decision open. Truncated ("time_limit") after `max_steps` replies, with score 0.

    ## Instances
    For each decision two names out of 64, which is round, and the order they are told in;
    and which decision is noisy. No name comes twice in an episode. Splits share no pair of
    names.

    ## Arguments
    - `sigma`: standard deviation of the trap, at least 0.
    - `decisions`: how many there are, from 2 to 16.
    - `gain`: by how much the round machine's mean is higher in the sure decisions, above 0.
    - `good_sigma`: standard deviation of all other arms, at least 0.
    - `good_mean`, `trap_mean`: mean payouts of round machines and of the trap.
    - `max_steps`: replies until truncation, at least `decisions`; by default 3 more.
    - `render_mode`: None, "ansi" or "rgb_array".

    ## Versions
    - v0: first version.
    """

    env_version = f"sigma-trap-chain{RULES_VERSION}"

    def __init__(
        self,
        sigma: float = 4.0,
        *,
        decisions: int = 5,
        gain: float = 1.0,
        good_sigma: float = 0.1,
        good_mean: float = 1.0,
        trap_mean: float = 0.0,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if not isinstance(decisions, int) or not 2 <= decisions <= MAX_DECISIONS:
            raise ValueError(
                f"decisions must be an integer from 2 to {MAX_DECISIONS}, got {decisions!r}"
            )
        if not 0 < gain < math.inf:
            raise ValueError(f"gain must be a finite number above 0, got {gain!r}")
        super().__init__(
            sigma,
            good_sigma=good_sigma,
            good_mean=good_mean,
            trap_mean=trap_mean,
            max_steps=decisions + SPARE_STEPS if max_steps is None else max_steps,
            render_mode=render_mode,
        )
        if self.max_steps < decisions:
            raise ValueError(f"max_steps must be at least decisions ({decisions}), got {max_steps}")
        self.decisions = decisions
        self.sure = Arm(self.good.mean - float(gain), self.good.sigma)
        self.decision = 0
        self.noisy = 0
        self._offers: list[tuple[tuple[str, str], tuple[str, str]]] = []
        self._chosen: list[str] = []
        self._paid: list[float] = []

    def instance_count(self, split: str) -> int:
        return COUNTS[split]

    def _load(self, split: str, index: int) -> str:
        stream = Stream("sigma-trap-chain", split, index)
        self._offers = []
        used: set[str] = set()
        while len(self._offers) < self.decisions:
            names = stream.choice(name_pairs()[split])
            if used.isdisjoint(names):
                used.update(names)
                self._offers.append((names, KINDS[::-1] if stream.integer(2) else KINDS))
        self.noisy = stream.integer(self.decisions)
        self.decision, self._chosen, self._paid = 0, [], []
        self._offer(*self._offers[0])
        return sha256(f"{self._offers} {self.noisy}".encode()).hexdigest()[:16]

    def _noise(self) -> tuple[Name, ...]:
        return ("sigma-trap-chain", self.noise_seed, self.decision)

    def _world(self) -> str:
        return f"{super()._world()} {self._offers} {self.noisy} {self._chosen}"

    def arm(self, kind: str) -> Arm:
        noisy = self.decision == self.noisy
        return super().arm(kind) if kind == KINDS[0] or noisy else self.sure

    def choices(self) -> list[tuple[Arm, Arm]]:
        return [*super().choices(), *[(self.good, self.sure)] * (self.decisions - 1)]

    def _first_text(self) -> str:
        return (
            f"Machines pay out. Make {self.decisions} decisions, each between two of them. What "
            f"they pay is added up and told at the end. {self._text()} {self._grammar.form}"
        )

    def _text(self) -> str:
        if self.decision == self.decisions:
            return f"Paid {self._score:.6f} in all."
        return f"Decision {self.decision + 1} of {self.decisions}. {self._looks()} Choose one."

    def _play(self, action: str) -> tuple[float, str]:
        kind = self.kind_of(action)
        self._chosen.append(kind)
        self._paid.append(self.payout(kind))
        self.decision += 1
        if self.decision < self.decisions:
            self._offer(*self._offers[self.decision])
            return 0.0, ""  # not the sum so far: `info` must not tell luck from skill
        score = round(math.fsum(self._paid), 6)
        return score, "solved" if set(self._chosen) == {KINDS[0]} else "failed"

    def _frame(self) -> npt.NDArray[np.uint8]:
        from ftw_envs.drawing import text_panel

        made = f"{self.decision} of {self.decisions} decisions made"
        rows = [f"{k}: {n}" for k, n in zip(self.kinds, self.names, strict=True)]
        return text_panel("\n".join([made, *rows, f"paid {self._score:.2f}"]), 240)
