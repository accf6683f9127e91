"""Draws instances: networks, habits and attacks, each in the split that its content names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise

from ftw_envs.incident.families import (
    FAMILIES,
    HELD_OUT,
    LOGIN_VECTORS,
    SERVICE_VECTORS,
    Family,
)
from ftw_envs.incident.instance import ADDRESS, MINUTE, Attack, Host, Incident, User
from ftw_envs.incident.levels import LEVELS, SEALED_LIKE, Level
from ftw_envs.incident.names import names
from ftw_envs.streams import Stream
from ftw_envs.text_env import SEALED_COUNT

COUNTS = {"train": 100_000, **dict.fromkeys(SEALED_LIKE, SEALED_COUNT)}
OTHER_COUNT = 1000
"""Instances of every split that is not in `COUNTS`."""
_ROLES = ("web", "app", "db", "files", "backup", "bastion", "ci", "mail", "dc", "node", "cloud")


class _Draw:
    """Draws one candidate for an instance."""

    def __init__(self, level: Level, split: str, stream: Stream) -> None:
        self.level, self.split, self.stream = level, split, stream
        self.like = SEALED_LIKE.get(split, split)
        larger = self.like == "test_topo"
        self.n_hosts = level.hosts + (level.hosts + 1) // 2 if larger else level.hosts
        moves = level.moves
        self.moves = moves[0] + stream.integer(moves[1] - moves[0] + 1) + larger
        self.n_addresses = level.addresses

    def incident(self, index: int) -> Incident:
        level, stream = self.level, self.stream
        held_out = self.like == "test_family"
        families = [f for f in FAMILIES if (f.name in HELD_OUT) == held_out]
        family = stream.choice(families)
        vector = stream.choice(family.vectors)
        false = not held_out and stream.uniform() < level.no_incident
        order = list(range(self.n_hosts))
        stream.shuffle(order)
        path = tuple(order[: self.moves + 1])
        roles = self._roles(family, path, vector)
        addresses = [ADDRESS + i for i in range(self.n_addresses)]
        stream.shuffle(addresses)
        c2, came_from, mirror, vault, *known = addresses
        hosts = self._hosts(roles, mirror, vault, known)
        accounts, users = self._people(roles, path, vector, known)
        attack = self._attack(family, vector, path, accounts, came_from, c2)
        quiet_host = stream.choice([h for h in range(self.n_hosts) if vault in hosts[h].sends_to])
        return Incident(
            level, self.split, index, hosts, users, None if false else attack,
            (quiet_host, vault), stream.uniform(), mirror, vault,
        )  # fmt: skip

    def _roles(self, family: Family, path: Sequence[int], vector: str) -> list[str]:
        """A role for every host: ends as the family says, workstations for two fifths."""
        stream = self.stream
        roles = [stream.choice(_ROLES) for _ in range(self.n_hosts)]
        for h in range(self.n_hosts):
            if stream.uniform() < 0.4:
                roles[h] = "work"
        for h in path[1:-1]:  # in between anything but a way in from outside
            roles[h] = stream.choice(("app", "db", "files", "backup", "dc", "work", "ci"))
        roles[path[0]] = stream.choice(family.entries)
        if vector == "consent":
            roles[path[0]] = "mail"
        roles[path[-1]] = stream.choice(family.targets)
        return roles

    def _hosts(
        self, roles: Sequence[str], mirror: int, vault: int, known: Sequence[int]
    ) -> tuple[Host, ...]:
        stream = self.stream
        words = list(names(self.like)[0])
        stream.shuffle(words)
        hosts = []
        for role, word in zip(roles, words, strict=False):
            sends = {mirror} if role != "work" else {stream.choice(known)}
            if role != "work" and stream.uniform() < 0.5:
                sends.add(vault)
            if stream.uniform() < 0.3:
                sends.add(stream.choice(known))
            hosts.append(Host(role, word, tuple(sorted(sends))))
        if not any(vault in h.sends_to for h in hosts):
            first = hosts[0]
            sends_to = tuple(sorted({*first.sends_to, vault}))
            hosts[0] = Host(first.role, first.name, sends_to)
        return tuple(hosts)

    def _people(
        self, roles: Sequence[str], path: Sequence[int], vector: str, known: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[User, ...]]:
        """The attacker's account on each host of the path, and all accounts with their habits."""
        stream, n = self.stream, self.level.users
        kinds = [stream.choice(("staff", "staff", "dev", "dev", "admin", "svc")) for _ in range(n)]
        first = stream.integer(n)
        second = (first + 1 + stream.integer(n - 1)) % n
        kinds[first] = "svc" if vector == "ci-token" else stream.choice(("staff", "dev", "admin"))
        if kinds[second] == "svc":
            kinds[second] = "admin"
        # From level 3 on the attacker may take a second account on the way.
        switch = len(path)
        if self.level.reacts and len(path) > 3 and stream.uniform() < 0.5:
            switch = 2 + stream.integer(len(path) - 2)
        accounts = tuple(first if i < switch else second for i in range(len(path)))
        hops = set(pairwise(path))
        works = [h for h in range(self.n_hosts) if roles[h] == "work"]
        servers = [h for h in range(self.n_hosts) if roles[h] != "work"] or [path[-1]]
        words = list(names(self.like)[1])
        stream.shuffle(words)
        # Others go to the last host from inside too, or whoever is there is the attacker.
        end = path[-1]
        inside = [h for h in works if h not in (path[-2], end)]
        inside = inside or [h for h in range(self.n_hosts) if h not in (path[-2], end)]
        others = [u for u in range(n) if u not in (first, second)][: 1 + stream.integer(2)]
        users = []
        for u, kind in enumerate(kinds):
            if kind == "svc" or not works:
                source = stream.choice(servers if kind == "svc" else list(known))
            else:
                source = stream.choice(works) if stream.uniform() < 0.7 else stream.choice(known)
            if u == first and roles[path[0]] == "work" and vector != "shared-password":
                source = path[0]  # his own workstation
            if u == first and vector == "shared-password":  # anywhere but there
                source = stream.choice([x for x in [*works, *known] if x != path[0]])
            if u in others:
                source = stream.choice(inside)
            sources = {source}
            if kind in ("admin", "dev") and stream.uniform() < 0.4:
                sources.add(stream.choice(known))
            if u == first and vector in LOGIN_VECTORS:
                sources.discard(path[0])
                sources = sources or {stream.choice(known)}
            free = [
                h for h in servers
                if h not in sources and not any((s, h) in hops for s in sources)
            ]  # fmt: skip
            stream.shuffle(free)
            most = {"admin": 4, "svc": 3, "dev": 3, "staff": 2}[kind]
            targets = free[: 1 + stream.integer(most)]
            if u in others and end not in targets:
                targets.append(end)
            users.append(User(kind, words[u], tuple(sorted(sources)), tuple(sorted(targets))))
        return accounts, tuple(users)

    def _attack(
        self, family: Family, vector: str, path: tuple[int, ...], accounts: tuple[int, ...],
        came_from: int, c2: int,
    ) -> Attack:  # fmt: skip
        stream, level = self.stream, self.level
        low, high = level.age
        age = MINUTE * (low + stream.integer(high - low + 1))
        # He spends part of the time on each host, and is on the last one well before the alert.
        weights = [0.5 + stream.uniform() for _ in range(len(path))]
        arrivals, at = [-age], -age
        for w in weights[:-1]:
            at += round(0.85 * age * w / sum(weights))
            arrivals.append(at)
        impact = stream.choice(family.impacts)
        persist_host = path[1 + stream.integer(len(path) - 1)]
        symptom = {"encrypt": "encrypt", "mine": "mine"}.get(impact, "flow")
        if "audit" not in level.sources:
            symptom = "flow"
        elif persist_host != path[-1] and stream.uniform() < 0.4:
            symptom = "persist"
        return Attack(
            family, vector, stream.choice(family.persistence), impact, path, accounts, came_from,
            c2, tuple(arrivals), persist_host, symptom, stream.uniform(),
        )  # fmt: skip


def _sound(incident: Incident) -> bool:
    """Whether all can be found out: every account has habits, and the way in leaves its traces."""
    attack = incident.attack
    if any(not u.targets for u in incident.users):
        return False
    if attack is None:
        return True
    first = incident.users[attack.accounts[0]]
    entry, second = attack.path[0], attack.path[1]
    if attack.vector in LOGIN_VECTORS:
        return incident.hosts[entry].public
    if attack.vector == "insider":
        return entry in first.sources and second not in first.targets
    if attack.vector == "shared-password":
        return entry not in first.sources
    if attack.vector in SERVICE_VECTORS or attack.vector == "consent":
        return incident.hosts[entry].public
    return True


def fingerprint(incident: Incident) -> str:
    """Hash (hex) of what makes an instance this one: all but names and times."""
    a = incident.attack
    content = (
        [(h.role, h.sends_to) for h in incident.hosts],
        [(u.kind, u.sources, u.targets) for u in incident.users],
        None if a is None else (a.family.name, a.vector, a.persist, a.impact, a.path, a.accounts,
                                a.came_from, a.c2, a.persist_host, a.alert),
        incident.quiet,
    )  # fmt: skip
    return sha256(repr(content).encode()).hexdigest()


def _belongs(split: str, digest: str) -> bool:
    """Which split an instance may be in; those with conditions of their own take any."""
    bucket = int(digest[:8], 16) % 8
    return {"test": bucket == 0, "valid": bucket == 1, "train": bucket > 1}.get(split, bucket == 0)


def instance_count(split: str) -> int:
    """How many instances a split has, on every level."""
    return COUNTS.get(split, OTHER_COUNT)


@lru_cache(maxsize=256)
def draw(level: int, split: str, index: int) -> Incident:
    """Instance `index` of `split` on a level from 0 to 4.

    Candidates are drawn until one is sound and belongs to the split by its fingerprint.
    """
    for attempt in range(10_000):
        stream = Stream("incident", level, split, index, attempt)
        incident = _Draw(LEVELS[level], split, stream).incident(index)
        if not _sound(incident):
            continue
        digest = fingerprint(incident)
        if _belongs(split, digest):
            names_too = repr(([h.name for h in incident.hosts], [u.name for u in incident.users],
                              incident.attack and incident.attack.arrivals))  # fmt: skip
            full = sha256((digest + names_too).encode()).hexdigest()[:16]
            object.__setattr__(incident, "hash", full)
            return incident
    raise AssertionError(f"no instance found for level {level}, {split} {index}")
