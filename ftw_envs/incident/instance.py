"""What an incident is: the network, its people and their habits, and what the attacker did.

All of it is fixed by (level, split, index). Whatever happens around it is noise (`world.py`).

Everyday life keeps to habits that `hosts` and `users` tell: who logs in from where to where, and
which addresses a host sends to. No step of an attack is anybody's habit, so that every step is
found by two sources without knowing anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ftw_envs.incident.families import (
    INSIDE_VECTORS,
    Family,
)
from ftw_envs.incident.levels import Level
from ftw_envs.incident.techniques import CAUSE_OF

MINUTE = 60

ADDRESS = 100
"""Places are numbers: hosts from 0, addresses outside from ADDRESS, leases from LEASE."""
LEASE = 200
NOWHERE = -1

_PUBLIC = ("web", "bastion", "mail", "cloud", "ci", "node", "app")
_PLATFORM = {
    "work": "windows",
    "dc": "windows",
    "files": "windows",
    "node": "k8s",
    "cloud": "cloud",
}
_METHODS = {"admin": "key", "svc": "token", "staff": "password", "dev": "password"}
_HARM = {"web": 5, "db": 6, "mail": 5, "dc": 6, "files": 4, "node": 4, "cloud": 5, "app": 4}


@dataclass(frozen=True, slots=True)
class Host:
    """A machine: its role, name, and the addresses outside that it sends to as a habit."""

    role: str
    name: str
    sends_to: tuple[int, ...]

    @property
    def public(self) -> bool:
        """Whether it can be reached from outside."""
        return self.role in _PUBLIC

    @property
    def platform(self) -> str:
        """Whose formats its logs have: linux, windows, k8s or cloud."""
        return _PLATFORM.get(self.role, "linux")

    @property
    def harm(self) -> int:
        """What it costs to cut it off."""
        return _HARM.get(self.role, 2)


@dataclass(frozen=True, slots=True)
class User:
    """An account: its kind, name, and the places it logs in from and hosts it logs in to."""

    kind: str
    name: str
    sources: tuple[int, ...]
    targets: tuple[int, ...]

    @property
    def method(self) -> str:
        """How it logs in."""
        return _METHODS[self.kind]


@dataclass(frozen=True, slots=True)
class Attack:
    """What the attacker did, up to the alert. Times are in seconds, the alert is at 0.

    Attributes:
        family: which kind.
        vector, persist, impact: words of `techniques`.
        path: the hosts, from the entry to the last.
        accounts: the account used for each move (and for the login at the entry, if it was one):
            `accounts[i]` acts on `path[i]`.
        came_from: address outside; where a local vector sends to or is reached from.
        c2: address the implants talk to.
        arrivals: when he came to each host of the path.
        persist_host: where he can come back.
        alert: "flow", "persist", "encrypt" or "mine": which symptom was seen.
        skill: how seldom he notices being looked at, from 0 (nervous) to 1.
    """

    family: Family
    vector: str
    persist: str
    impact: str
    path: tuple[int, ...]
    accounts: tuple[int, ...]
    came_from: int
    c2: int
    arrivals: tuple[int, ...]
    persist_host: int
    alert: str
    skill: float

    @property
    def start(self) -> int:
        """When he came in."""
        return self.arrivals[0]

    @property
    def began(self) -> int:
        """When a report says he came in; people who are inside begin with their first move."""
        return self.arrivals[1 if self.vector in INSIDE_VECTORS else 0]

    @property
    def alert_host(self) -> int:
        """The host that the alert names."""
        return self.persist_host if self.alert == "persist" else self.path[-1]


@dataclass(frozen=True)
class Incident:
    """One instance.

    Attributes:
        attack: what was done; None if the alert is false.
        quiet: the host and address of the harmless flow behind a false alert.
        room: how long logs are kept after the alert, from 0 (hardly) to 1.
        mirror: address that every server fetches updates from.
        vault: address that backups go to.
        hash: of all that matters, hex.
    """

    level: Level
    split: str
    index: int
    hosts: tuple[Host, ...]
    users: tuple[User, ...]
    attack: Attack | None
    quiet: tuple[int, int]
    room: float
    mirror: int
    vault: int
    hash: str = field(default="", compare=False)

    @property
    def alert_host(self) -> int:
        """The host that the alert names."""
        return self.quiet[0] if self.attack is None else self.attack.alert_host

    @property
    def strangers(self) -> list[int]:
        """The addresses outside that are not the attacker's."""
        a = self.attack
        own = set() if a is None else {a.c2, a.came_from}
        outside = range(ADDRESS, ADDRESS + self.level.addresses)
        return [x for x in outside if x not in own]


def handle(place: int) -> str:
    """h1.. for hosts, x1.. for addresses outside, i1.. for leased addresses."""
    if place >= LEASE:
        return f"i{place - LEASE + 1}"
    return f"x{place - ADDRESS + 1}" if place >= ADDRESS else f"h{place + 1}"


def truth(incident: Incident) -> dict[str, object]:
    """The right report: a value for each slot, sets as sorted lists."""
    a = incident.attack
    if a is None:
        return {"verdict": "none"}
    return {
        "entry": handle(a.path[0]),
        "path": [handle(h) for h in a.path],
        "accounts": sorted({f"u{u + 1}" for u in a.accounts}, key=lambda s: int(s[1:])),
        "vector": a.vector,
        "c2": handle(a.c2),
        "persist": a.persist,
        "verdict": "incident",
        "start": a.began // MINUTE,
        "cause": CAUSE_OF[a.vector],
        "impact": a.impact,
    }
