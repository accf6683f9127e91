"""The sigma-trap with the good arm told in words."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import numpy.typing as npt

from ftw_envs.bandit.machines import KINDS, name_pairs
from ftw_envs.bandit.sigma_trap import SigmaTrapEnv
from ftw_envs.streams import Stream

RULES_VERSION = 0

# What a machine can look like; two machines never look the same in any of these.
ASPECTS = (
    ("red", "blue", "green", "white", "black", "yellow"),
    ("large", "small"),
    ("tall", "short"),
    ("old", "new"),
    ("heavy", "light"),
)
SHOWN = 3
"""How many aspects an instance tells."""

COMPARATIVES = {
    "large": "larger", "small": "smaller", "tall": "taller", "short": "shorter",
    "old": "older", "new": "newer", "heavy": "heavier", "light": "lighter",
}  # fmt: skip

# A sentence, and whether the machine it speaks of is the good one.
HINTS = (
    ("On average the {} one pays more.", True),
    ("On average the {} one pays less.", False),
    ("Today the {} one is the better one.", True),
    ("Today the {} one is the worse one.", False),
    ("It is the {} one that pays well.", True),
    ("It is the {} one that pays badly.", False),
    ("Keep to the {} one.", True),
    ("Stay away from the {} one.", False),
)


class SigmaTrapContextEnv(SigmaTrapEnv):
    """Choose between a steady machine and a noisy one, told apart by one sentence.

    ## Description
    The two arms of `SigmaTrapEnv`, with the same payouts. Here looks do not tell the
    arm: each machine is described by three looks, and one sentence says which of the two
    is the better one, or the worse one. The sentence has to be understood: whom it speaks
    of is found in the descriptions, and in half of the instances it is the other machine
    that should be chosen.

    ## Observation
    Text, with the names and looks of the two machines and the sentence. Names, looks,
    sentence and order change from instance to instance; none of them tells the arm alone.

    ## Actions
    Text holding the name of one machine, dressed as `ActionGrammar` allows.

    ## Score
    The payout: mean 1 and standard deviation `good_sigma` for the good machine, mean 0
    and standard deviation `sigma` for the other one, normal, rounded to six decimals.
    It depends on the noise seed and the arm only, never on anything drawn before.

    ## End of episode
    Terminated with the first usable reply: "solved" if it names the good machine,
    whatever was paid, else "failed". Truncated ("time_limit") after `max_steps` unusable
    replies, with score 0.

    ## Instances
    Every ordered pair of names out of 64 with every one of 8 sentences; looks, the look
    the sentence speaks of, and which machine is good are drawn for each. Splits share no
    pair of names.

    ## Arguments
    - `sigma`: standard deviation of the trap, at least 0.
    - `good_sigma`: standard deviation of the good arm, at least 0.
    - `good_mean`, `trap_mean`: mean payouts, the first above the second.
    - `max_steps`: replies until truncation.
    - `render_mode`: None, "ansi" or "rgb_array".

    ## Versions
    - v0: first version.
    """

    env_version = f"sigma-trap-context{RULES_VERSION}"

    looks: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    hint = ""

    def instance_count(self, split: str) -> int:
        return len(HINTS) * len(name_pairs()[split])

    def _load(self, split: str, index: int) -> str:
        pairs = name_pairs()[split]
        turn, pair = divmod(index, len(pairs))
        stream = Stream("sigma-trap-context", *pairs[pair], turn)
        good = stream.integer(2)
        self._offer(pairs[pair], KINDS[::-1] if good else KINDS)
        aspects = [list(a) for a in ASPECTS]
        stream.shuffle(aspects)
        for values in aspects:
            stream.shuffle(values)
        self.looks = (tuple(a[0] for a in aspects[:SHOWN]), tuple(a[1] for a in aspects[:SHOWN]))
        # Neighbours differ in their sentence, so that any few instances hold all of them.
        sentence, speaks_of_good = HINTS[(pair + turn) % len(HINTS)]
        look = stream.choice(self.looks[good if speaks_of_good else 1 - good])
        if stream.integer(2):
            look = COMPARATIVES.get(look, look)
        self.hint = sentence.format(look)
        return sha256(self._state().encode()).hexdigest()[:16]

    def _state(self) -> str:
        said = [
            f"Machine {name} is {', '.join(looks[:-1])} and {looks[-1]}."
            for name, looks in zip(self.names, self.looks, strict=True)
        ]
        return " ".join([*said, self.hint])

    def _frame(self) -> npt.NDArray[np.uint8]:
        from ftw_envs.drawing import text_panel

        rows = [f"{n}: {', '.join(x)}" for n, x in zip(self.names, self.looks, strict=True)]
        return text_panel("\n".join([*rows, self.hint, f"last payout {self._score:.2f}"]), 304)
