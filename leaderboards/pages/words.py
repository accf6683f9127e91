"""What pages say about tiers, states, ends and columns."""

from __future__ import annotations

from dataclasses import dataclass

from leaderboards.pages.text import DASH

__all__ = ["AXES", "DASH", "ENDS", "STATES", "TIERS", "Tier"]


@dataclass(frozen=True, slots=True)
class Tier:
    """What a tier is called and what it says."""

    name: str
    says: str


TIERS = {
    "T0": Tier("claimed", "Said by the submitter and checked by nobody. Never on these pages."),
    "T1": Tier(
        "replayed",
        "All replies were played again on the public instances, and all figures recomputed. That "
        "does not prove that the named model wrote the replies, or that it was the first try.",
    ),
    "T2": Tier(
        "sealed round",
        "As T1, on instances that nobody could know before the agent was handed in: their key was "
        "committed to in public, and revealed afterwards.",
    ),
    "T3": Tier(
        "organiser-run",
        "Played on the organiser's server, which keeps the worlds and logs every attempt.",
    ),
}
STATES = {
    "accepted": "Verified and merged; nothing is known against it.",
    "pending": "Verified by replay, and nobody has decided on it yet.",
    "disputed": "Somebody objects; the reason and the issue stand on its page. It keeps its place.",
    "retracted": "Taken back by its submitter. Shown, not ranked.",
    "invalid": "Found to break a rule. Shown with the reason, not ranked.",
    "provisional": "Fewer than three training seeds: what a seed changes is not known.",
    "reference": "A scripted player or an untrained model, always there to compare with.",
}
ENDS = {"time_limit": "out of steps", "failed": "failed by the rules"}
AXES = {
    "episodes": "Episodes",
    "env_steps": "Environment steps",
    "tokens": "Tokens",
    "wall_seconds": "Wall time",
}
"""Keys of `Row.curves` in the order of pages."""
