"""The sigma-trap: a good arm with little noise beside a bad one with a lot."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import numpy.typing as npt

from ftw_envs.bandit.machines import KINDS, MachinesEnv, name_pairs
from ftw_envs.streams import Name

RULES_VERSION = 0


class SigmaTrapEnv(MachinesEnv):
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
    - `good_mean`, `trap_mean`: mean payouts, the first above the second.
    - `max_steps`: replies until truncation.
    - `instances`: only so many of each split, the first ones; with 1 the text never
      changes, as in the classical two-armed bandit.
    - `render_mode`: None, "ansi" or "rgb_array".

    ## Versions
    - v0: first version.
    """

    env_version = f"sigma-trap{RULES_VERSION}"

    def __init__(
        self,
        sigma: float = 4.0,
        *,
        good_sigma: float = 0.1,
        good_mean: float = 1.0,
        trap_mean: float = 0.0,
        max_steps: int = 3,
        instances: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            sigma,
            good_sigma=good_sigma,
            good_mean=good_mean,
            trap_mean=trap_mean,
            max_steps=max_steps,
            render_mode=render_mode,
        )
        if instances is not None and instances < 1:
            raise ValueError(f"instances must be at least 1, got {instances!r}")
        self.instances = instances

    def instance_count(self, split: str) -> int:
        count = 2 * len(name_pairs()[split])
        return count if self.instances is None else min(count, self.instances)

    def _load(self, split: str, index: int) -> str:
        names = name_pairs()[split][index // 2]
        # The two instances of a pair come in either order, so that the index tells nothing.
        order = sha256(f"flip:{names[0]}:{names[1]}".encode()).digest()[0]
        self._offer(names, KINDS[::-1] if (index + order) % 2 else KINDS)
        content = " ".join(f"{k}:{n}" for k, n in zip(self.kinds, self.names, strict=True))
        return sha256(content.encode()).hexdigest()[:16]

    def _noise(self) -> tuple[Name, ...]:
        return ("sigma-trap", self.noise_seed)

    def _state(self) -> str:
        return self._looks()

    def _first_text(self) -> str:
        return f"Two machines pay out. {self._state()} Choose one. {self._grammar.form}"

    def _text(self) -> str:
        return f"Paid {self._score:.6f}." if self.last_action is not None else self._state()

    def _play(self, action: str) -> tuple[float, str]:
        kind = self.kind_of(action)
        return self.payout(kind), "solved" if kind == KINDS[0] else "failed"

    def _frame(self) -> npt.NDArray[np.uint8]:
        from ftw_envs.drawing import text_panel

        text = "\n".join(f"{k}: {n}" for k, n in zip(self.kinds, self.names, strict=True))
        return text_panel(text + f"\nlast payout {self._score:.2f}", 240)
