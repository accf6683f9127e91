"""The score of a report: exact against what the simulator did, never a judge's opinion."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ftw_envs.incident.instance import MINUTE, Incident, truth
from ftw_envs.incident.log import SLOT_BIT

WEIGHTS = {
    "entry": 0.2, "vector": 0.1, "path": 0.25, "accounts": 0.15, "persist": 0.15, "c2": 0.15,
    "start": 0.1, "cause": 0.05, "impact": 0.1, "verdict": 0.05,
}  # fmt: skip
"""Weights of the slots in the partial score; those that a level asks for are scaled to sum to 1."""

UNKNOWN_SHARE = 0.25
"""What an honest "unknown" earns of a slot's weight."""

COST_WEIGHT = 0.01
"""What each unit of damage by containment takes off the partial score."""

OUT_WEIGHT = 0.2
"""Share of the partial score that an attacker who is really out earns, where that is asked for."""


def report_of(known: dict[str, object], slots: Sequence[str]) -> str:
    """What `set` takes to fill those of the slots that are known (`instance.truth`)."""
    return " ".join(f"{slot}={as_said(known[slot])}" for slot in slots if slot in known)


def as_said(value: object) -> str:
    """A value of `instance.truth` as a report says it."""
    if isinstance(value, list):
        return ",".join(value)
    return f"t{value:+d}" if isinstance(value, int) else str(value)


def _f1(said: set[object], right: set[object]) -> float:
    hit = len(said & right)
    return 2 * hit / (len(said) + len(right)) if hit else 0.0


def start_tolerance(start: int) -> int:
    """Minutes by which a start may be off: 10, or 2 % of the incident's age (seconds `start`)."""
    return max(10, -start // MINUTE // 50)


def slot_score(slot: str, said: str, incident: Incident) -> float:
    """How right a slot's value is, from 0 to 1; 1 is exact.

    Paths are scored by F1 over their moves, accounts by F1 over the set, all others 0 or 1.
    """
    right = truth(incident).get(slot)
    if right is None or said == "unknown":
        return 0.0
    if slot == "path":
        assert isinstance(right, list)
        hosts = said.split(",")
        if hosts == right:
            return 1.0
        return min(_f1(set(pairwise(hosts)), set(pairwise(right))), 0.99)
    if slot == "accounts":
        assert isinstance(right, list)
        return _f1(set(said.split(",")), set(right))
    if slot == "start":
        assert incident.attack is not None
        assert isinstance(right, int)
        return float(abs(int(said[1:]) - right) <= start_tolerance(incident.attack.began))
    return float(said == right)


def slot_scores(board: dict[str, str], incident: Incident) -> dict[str, float]:
    """The score of each slot that the level asks for, 0 where nothing was said."""
    return {
        s: slot_score(s, board[s], incident) if s in board else 0.0 for s in incident.level.slots
    }


def is_solved(board: dict[str, str], incident: Incident, out: bool, cost: int) -> bool:
    """Whether all that the level asks for is exactly right, and the attacker out where he must."""
    level = incident.level
    if incident.attack is None:
        right = board == {"verdict": "none"}
    else:
        scores = slot_scores(board, incident)
        right = all(scores[s] == 1.0 for s in level.slots)
    if level.reacts:
        right = right and out
    return right and (level.cost_cap is None or cost <= level.cost_cap)


def partial_score(board: dict[str, str], incident: Incident, out: bool, cost: int) -> float:
    """From 0 (an empty report) to 1 (solved without damage).

    The weighted mean of the slots' scores; from level 3 on four fifths of it, and one fifth for
    an attacker who is out; less the damage. A false alert earns 1 for verdict=none alone.
    """
    level = incident.level
    if not board:
        return 0.0
    if incident.attack is None:
        score = 1.0 if board == {"verdict": "none"} else 0.0
    else:
        weights = {s: WEIGHTS[s] for s in level.slots}
        scores = slot_scores(board, incident)
        for slot, said in board.items():
            if said == "unknown":
                scores[slot] = UNKNOWN_SHARE
        score = sum(weights[s] * scores[s] for s in level.slots) / sum(weights.values())
        if level.reacts:
            score = score * (1 - OUT_WEIGHT) + (OUT_WEIGHT if out and score > 0 else 0.0)
    return max(0.0, score - COST_WEIGHT * cost)


def grounded_share(board: dict[str, str], incident: Incident, shown: int) -> float:
    """Share of the right slots whose evidence was seen; 0 if no slot is right."""
    if incident.attack is None:
        return float(board == {"verdict": "none"})
    scores = slot_scores(board, incident)
    right = [s for s in scores if scores[s] == 1.0]
    if not right:
        return 0.0
    return sum(_seen(s, shown) for s in right) / len(right)


def _seen(slot: str, shown: int) -> bool:
    """The cause follows from the vector, and the verdict from anything."""
    if slot == "verdict":
        return shown != 0
    return bool(shown & SLOT_BIT["vector" if slot == "cause" else slot])
