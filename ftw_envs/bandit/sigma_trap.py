"""The sigma-trap: a good arm with little noise beside a bad one with a lot."""

from __future__ import annotations

import math
from functools import lru_cache
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from ftw_envs.actions import ActionGrammar
from ftw_envs.streams import Stream
from ftw_envs.text_env import EpisodeEnv

RULES_VERSION = 0
KINDS = ("round", "square")
"""What a machine looks like: round ones are the good arm, square ones the trap."""

_ONSETS, _RIMES = "bdfgklmnprstvz", "aeiou"
# 64 names of four letters that no sentence of the task uses.
NAMES = tuple(
    f"{_ONSETS[i % 14]}{_RIMES[i % 5]}{_ONSETS[(3 * i + 5) % 14]}{_RIMES[(2 * i + i // 5) % 5]}"
    for i in range(64)
)


@lru_cache(maxsize=1)
def instances() -> dict[str, list[tuple[str, str]]]:
    """Ordered name pairs per split: (first shown, second shown).

    The split is told by the unordered pair, so no two names meet in two splits.
    """
    splits: dict[str, list[tuple[str, str]]] = {"train": [], "valid": [], "test": []}
    for i, a in enumerate(NAMES):
        for b in NAMES[i + 1 :]:
            bucket = sha256(f"sigma-trap:{a}:{b}".encode()).digest()[0] % 4
            split = {0: "test", 1: "valid"}.get(bucket, "train")
            splits[split] += [(a, b), (b, a)]
    return splits


class SigmaTrapEnv(EpisodeEnv):
    """Choose between a steady machine and one that sometimes pays a lot.

    ## Description
    Two machines, one round and one square. The round one pays about 1, give or take a
    little. The square one pays 0 on average, but with a wide spread `sigma`, so that the
    best payout in a handful is usually its. An algorithm that imitates the luckiest of a
    few attempts walks into the trap; one that follows the mean does not. This is the
    known price of Follow the Winners, and the environment is here to show it.

    ## Observation
    Text, with the names and looks of the two machines. Names and order change from
    instance to instance, so the text has to be read; looks tell the arm.

    ## Actions
    Text holding the name of one machine, dressed as `ActionGrammar` allows.

    ## Score
    The payout: mean 1 and standard deviation `good_sigma` for the round machine, mean 0
    and standard deviation `sigma` for the square one, normal, rounded to six decimals.
    It depends on the noise seed and the arm only, never on anything drawn before.

    ## End of episode
    Terminated with the first usable reply: "solved" if it names the round machine,
    whatever was paid, else "failed". Truncated ("time_limit") after `max_steps` unusable
    replies, with score 0.

    ## Instances
    Two names out of 64, which is round, and the order they are told in. Splits share no
    pair of names.

    ## Arguments
    - `sigma`: standard deviation of the trap, at least 0.
    - `good_sigma`: standard deviation of the good arm, at least 0.
    - `good_mean`, `trap_mean`: mean payouts.
    - `max_steps`: replies until truncation.
    - `render_mode`: None, "ansi" or "rgb_array".

    ## Versions
    - v0: first version.
    """

    def __init__(
        self,
        sigma: float = 4.0,
        *,
        good_sigma: float = 0.1,
        good_mean: float = 1.0,
        trap_mean: float = 0.0,
        max_steps: int = 3,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(max_steps=max_steps, render_mode=render_mode)
        for name, value in (("sigma", sigma), ("good_sigma", good_sigma)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
        for name, value in (("good_mean", good_mean), ("trap_mean", trap_mean)):
            if not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, got {value!r}")
        self.mean = {"round": float(good_mean), "square": float(trap_mean)}
        self.sigma = {"round": float(good_sigma), "square": float(sigma)}
        self.env_version = f"sigma-trap{RULES_VERSION}"
        self.names = ("", "")
        self.kinds = ("", "")
        self._grammar = ActionGrammar(("none",))

    def instance_count(self, split: str) -> int:
        return 2 * len(instances()[split])

    @property
    def grammar(self) -> ActionGrammar:
        return self._grammar

    def _load(self, split: str, index: int) -> str:
        pair, flip = divmod(index, 2)
        self.names = instances()[split][pair]
        self.kinds = KINDS[::-1] if flip else KINDS
        self._grammar = ActionGrammar(self.names)
        content = " ".join(f"{k}:{n}" for k, n in zip(self.kinds, self.names, strict=True))
        return sha256(content.encode()).hexdigest()[:16]

    def _state(self) -> str:
        (k1, k2), (n1, n2) = self.kinds, self.names
        return f"The {k1} one is {n1}. The {k2} one is {n2}."

    def _first_text(self) -> str:
        return f"Two machines pay out. {self._state()} Choose one. {self._grammar.form}"

    def _text(self) -> str:
        return f"Paid {self._score:.6f}." if self.last_action is not None else self._state()

    def payout(self, kind: str) -> float:
        """What the machine of this look pays in this attempt."""
        noise = Stream("sigma-trap", self.noise_seed, kind).normal()
        return round(self.mean[kind] + self.sigma[kind] * noise, 6)

    def _play(self, action: str) -> tuple[float, str]:
        kind = self.kinds[self.names.index(action)]
        return self.payout(kind), "solved" if kind == "round" else "failed"

    def good_name(self) -> str:
        """The round machine's name; for the scripted optimum, never for an agent."""
        return self.names[self.kinds.index("round")]

    def _frame(self) -> npt.NDArray[np.uint8]:
        from ftw_envs.drawing import text_panel

        text = "\n".join(f"{k}: {n}" for k, n in zip(self.kinds, self.names, strict=True))
        return text_panel(text + f"\nlast payout {self._score:.2f}", 240)
