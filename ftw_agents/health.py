"""Signs that a run goes wrong, told from its metrics alone, so that a resumed run tells the same.

Each sign is one line, "kind: what it means and what to do".
"""

from __future__ import annotations

from collections.abc import Sequence

from ftw_agents.run_folder import Metrics

FAILING = 5
"""Iterations in a row with mostly failed winners before it is said."""
COLLAPSED = 3
"""Iterations in a row with hardly any entropy before it is said."""
ENTROPY_SHARE = 0.05
ENTROPY_FLOOR = 0.01
"""Entropy counts as collapsed below this share of the first iteration's, or these nats."""
MASTERED = 0.95
"""Where so many episodes are solved, low entropy is what one wants."""


def new_warnings(metrics: Sequence[Metrics]) -> list[str]:
    """What the last iteration shows and the one before did not.

    Args:
        metrics: of all iterations so far, in order.
    """
    before = {kind_of(w) for w in _warnings(metrics[:-1])}
    return [w for w in _warnings(metrics) if kind_of(w) not in before]


def kind_of(warning: str) -> str:
    """The part of a warning that stays the same whatever its numbers."""
    return warning.partition(":")[0]


def _warnings(metrics: Sequence[Metrics]) -> list[str]:
    found = (_failing(metrics), _collapsed(metrics), _skipped(metrics))
    return [w for w in found if w is not None]


def _failing(metrics: Sequence[Metrics]) -> str | None:
    last = metrics[-FAILING:]
    # Where all scores were equal there were no winners; that says nothing about them.
    shares = [m["winners_solved"] for m in last if "winners_solved" in m and m["batch_episodes"]]
    if len(shares) < FAILING or max(shares) >= 0.5:
        return None
    return (
        f"most winners are failures: for {FAILING} iterations less than half of what is imitated "
        f"was solved (now {shares[-1]:.0%}). Take fewer winners of more candidates, keep episodes "
        "longer (ftw.versions), start from a better base, or add solved ones with --offline"
    )


def _collapsed(metrics: Sequence[Metrics]) -> str | None:
    # Where nothing is played (bc) nothing is explored, and low entropy is the aim.
    told = [m for m in metrics[-COLLAPSED:] if "entropy" in m and "solve_rate" in m]
    if len(told) < COLLAPSED:
        return None
    first: float = next(m["entropy"] for m in metrics if "entropy" in m)
    limit = max(ENTROPY_SHARE * first, ENTROPY_FLOOR)
    if any(m["entropy"] >= limit or m["solve_rate"] >= MASTERED for m in told):
        return None
    return (
        f"entropy has collapsed: {told[-1]['entropy']:.2g} nats an action token (at first "
        f"{first:.2g}), so the policy hardly tries anything new. Take a smaller lr, a weaker "
        "choice (more winners), or a KL term (ftw.kl, clip.kl)"
    )


def _skipped(metrics: Sequence[Metrics]) -> str | None:
    skipped = metrics[-1].get("skipped_steps", 0) if metrics else 0
    if not skipped:
        return None
    return (
        f"gradient steps were skipped: {skipped} had a gradient that was not finite. One is "
        "harmless; if more come, take a smaller lr"
    )
