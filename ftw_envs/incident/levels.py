"""The five levels: how large, how long, what moves, and what a report must hold."""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = ("auth", "net", "audit", "web", "db", "cloud", "k8s")
SLOTS = (
    "entry",
    "path",
    "accounts",
    "vector",
    "c2",
    "persist",
    "verdict",
    "start",
    "cause",
    "impact",
)
"""All slots of a report; a level asks for some of them."""

SPLITS = ("train", "valid", "test", "test_names", "test_topo", "test_family", "test_drift")
SEALED_LIKE = {"sealed": "test", "sealed_names": "test_names", "sealed_family": "test_family"}
"""The sealed splits, and the split that each is like."""


@dataclass(frozen=True, slots=True)
class Level:
    """What a level is made of; times are in minutes.

    Attributes:
        hosts, users, addresses: how many there are (addresses are outside the network).
        sources: log sources.
        moves: fewest and most moves of the attacker from host to host.
        rows: log rows of everyday life, about.
        steps, minutes: what an investigation may take.
        reply: characters of a reply at most.
        slots: what the report must hold.
        age: how long before the alert the attacker came in, shortest and longest.
        rotation: how long after that the oldest evidence is rotated away: shortest and longest
            time after the alert; None if logs are kept.
        lag: whether rows arrive late.
        staff: whether patches, travels and password resets happen.
        wipes: whether an attacker who notices something wipes logs.
        reacts: whether he also moves, comes back and burns, has timed plans, and has to be put out.
        reconfigures: whether audit goes blind for a while, and addresses move between hosts.
        shows_oldest: whether replies tell the age of the oldest row that is still there.
        errors: whether clocks are off, rows get lost and people err.
        decoy: whether a second, unrelated matter looks like the incident.
        no_incident: share of alerts that are false.
        cost_cap: largest damage by containment; None for any.
    """

    hosts: int
    users: int
    addresses: int
    sources: tuple[str, ...]
    moves: tuple[int, int]
    rows: int
    steps: int
    minutes: int
    reply: int
    slots: tuple[str, ...]
    age: tuple[int, int]
    rotation: tuple[int, int] | None = None
    lag: bool = False
    staff: bool = False
    wipes: bool = False
    reacts: bool = False
    reconfigures: bool = False
    shows_oldest: bool = True
    errors: bool = False
    decoy: bool = False
    no_incident: float = 0.0
    cost_cap: int | None = None


_L1_SLOTS = ("entry", "path", "accounts", "vector", "c2")
_L2_SLOTS = (*_L1_SLOTS, "persist", "verdict")

LEVELS = (
    Level(3, 4, 8, SOURCES[:2], (1, 1), 60, 12, 200, 240, ("entry", "accounts", "c2"), (60, 240)),
    Level(
        6, 8, 12, SOURCES[:3], (2, 2), 150, 20, 240, 240, _L1_SLOTS, (120, 480),
        rotation=(25, 290), wipes=True,
    ),
    Level(
        10, 14, 16, SOURCES[:4], (2, 3), 400, 30, 360, 480, _L2_SLOTS, (240, 1440),
        rotation=(40, 320), lag=True, staff=True, wipes=True, no_incident=0.12,
    ),
    Level(
        16, 24, 20, SOURCES[:6], (3, 4), 1200, 40, 480, 960, _L2_SLOTS, (480, 2880),
        rotation=(45, 400), lag=True, staff=True, wipes=True, reacts=True, reconfigures=True,
        shows_oldest=False, no_incident=0.12,
    ),
    Level(
        24, 40, 24, SOURCES, (3, 5), 3000, 60, 720, 2000, SLOTS, (960, 5760),
        rotation=(60, 600), lag=True, staff=True, wipes=True, reacts=True, reconfigures=True,
        shows_oldest=False, errors=True, decoy=True, no_incident=0.12, cost_cap=12,
    ),
)  # fmt: skip

WIDTH, GRAPH, LANE = 640, 360, 14
"""Pixels of pictures: across, of the graph down, of a host's lane in the timeline."""


def height_of(level: Level) -> int:
    """Height in pixels of a level's pictures, with room for the larger networks of test_topo."""
    return GRAPH + 40 + LANE * (level.hosts + (level.hosts + 1) // 2)
