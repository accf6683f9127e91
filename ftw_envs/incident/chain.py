"""The rows that an attack leaves, each with the slots that it is evidence for.

Every step is told by at least two sources that are lost separately: a login by auth, audit and
the flow; a way in by audit and the flow; what was done on a host by audit and the host itself.
Rows of sources that a level does not have are left out later (`world.py`).
"""

from __future__ import annotations

from ftw_envs.incident.families import (
    INSIDE_VECTORS,
    LOCAL_VECTORS,
    LOGIN_VECTORS,
    SERVICE_VECTORS,
)
from ftw_envs.incident.instance import MINUTE, NOWHERE, Attack, Incident
from ftw_envs.incident.log import Rows, bits
from ftw_envs.streams import Stream

IMPACT_ACTS = {"exfil": "archive", "dump": "dump", "encrypt": "encrypt", "mine": "mine",
               "share": "share", "mail": "mail"}  # fmt: skip
FLOWS = ("exfil", "dump", "share", "mail")
"""Impacts that send much to the address of the attacker."""


def attack_rows(rows: Rows, incident: Incident, until: int) -> None:
    """Adds the rows of the incident's attack.

    Args:
        until: second up to which his implants go on talking.
    """
    attack = incident.attack
    if attack is None:
        return
    stream = Stream("incident-chain", incident.hash)
    _entry(rows, incident, attack, stream)
    _moves(rows, incident, attack, stream)
    _stay(rows, attack, stream)
    _harm(rows, attack, stream)
    _talk(rows, incident, attack, stream, until)


def _entry(rows: Rows, incident: Incident, attack: Attack, stream: Stream) -> None:
    t, host = attack.start, attack.path[0]
    user, src = attack.accounts[0], attack.came_from
    if attack.vector in LOGIN_VECTORS:
        if attack.vector in ("ssh-guess", "stuffing", "mfa-push"):
            act = "push" if attack.vector == "mfa-push" else "fail"
            others = [u for u in range(len(incident.users)) if u != user]
            stream.shuffle(others)
            n = 7 + stream.integer(6)
            if attack.vector == "stuffing":
                n = min(n, len(others))
            for i in range(n):
                who = others[i] if attack.vector == "stuffing" else user
                at = t - 20 * (n - i) - stream.integer(15)
                rows.add(at, "auth", host, act, user=who, src=src, evidence=bits("vector"))
                rows.add(at + 1, "audit", host, "badlogin", user=who, src=src,
                         evidence=bits("vector"))  # fmt: skip
                if i % 2 == 0:
                    rows.add(at, "net", host, "inbound", src=src, evidence=bits("vector"))
        evidence = bits("entry", "path", "accounts", "vector", "start")
        how = LOGIN_VECTORS[attack.vector]
        rows.add_login(t, host, user, src, how, evidence)
        return
    evidence = bits("entry", "path", "vector", "start")
    if attack.vector in LOCAL_VECTORS:
        act, flow, third = LOCAL_VECTORS[attack.vector]
        who = NOWHERE if attack.vector in SERVICE_VECTORS else user
        rows.add(t, "audit", host, act, user=who, evidence=evidence)
        if flow == "inbound":
            rows.add(t, "net", host, "inbound", src=src, evidence=evidence)
        else:
            rows.add(t, "net", host, "out", dst=src, evidence=evidence)
        if third is not None:
            rows.add(t, third[0], host, third[1], src=src, evidence=evidence)
        return
    # An insider sits down at a workstation: his own, or somebody else's.
    evidence |= bits("accounts")
    rows.add(t, "auth", host, "accept", user=user, src=host, evidence=evidence)
    rows.add(t + 1, "audit", host, "login", user=user, src=host, evidence=evidence)


def _moves(rows: Rows, incident: Incident, attack: Attack, stream: Stream) -> None:
    for i, host in enumerate(attack.path[1:], 1):
        t, user = attack.arrivals[i], attack.accounts[i]
        inside = attack.vector in INSIDE_VECTORS  # then the first move is all there is to see
        first = ("entry", *(("vector", "start") if inside else ())) if i == 1 else ()
        evidence = bits("path", "accounts", *first)
        method = incident.users[user].method
        rows.add_login(t, host, user, attack.path[i - 1], method, evidence)
        if stream.uniform() < 0.35:  # he comes back, or his logins would be the rarest
            again = t + stream.integer(max(1, _leaves(attack, i) - t))
            rows.add_login(again, host, user, attack.path[i - 1], method, bits("path", "accounts"))
        act = stream.choice(("sudo", "exec", "read"))
        at = t + MINUTE * (1 + stream.integer(3))
        rows.add(at, "audit", host, act, user=user, evidence=bits("path", "accounts"))
        if attack.accounts[i] != attack.accounts[i - 1]:  # where he found the second account
            before, who = attack.path[i - 1], attack.accounts[i - 1]
            rows.add(t - 5 * MINUTE, "audit", before, "read", user=who, evidence=bits("accounts"))


def _leaves(attack: Attack, i: int) -> int:
    """When he was done on host `i` of the path."""
    return attack.arrivals[i + 1] if i + 1 < len(attack.arrivals) else 0


def _stay(rows: Rows, attack: Attack, stream: Stream) -> None:
    i = attack.path.index(attack.persist_host)
    arrived = attack.arrivals[i]
    if attack.alert == "persist":
        t = -MINUTE * (1 + stream.integer(3))
    else:
        t = arrived + (_leaves(attack, i) - arrived) * (40 + stream.integer(40)) // 100
    rows.add(t, "audit", attack.persist_host, attack.persist, user=attack.accounts[i],
             evidence=bits("persist", "accounts"))  # fmt: skip


def _harm(rows: Rows, attack: Attack, stream: Stream) -> None:
    host, user, arrived = attack.path[-1], attack.accounts[-1], attack.arrivals[-1]
    t = arrived - arrived * (50 + stream.integer(30)) // 100
    evidence = bits("impact", "accounts")
    if attack.alert in ("encrypt", "mine"):
        t = -MINUTE * (1 + stream.integer(3))
    rows.add(t, "audit", host, IMPACT_ACTS[attack.impact], user=user, evidence=evidence)
    if attack.impact == "dump":
        rows.add(t, "db", host, "dump", user=user, evidence=evidence)
    if attack.impact == "share":
        rows.add(t, "cloud", host, "share", user=user, evidence=evidence)


def _talk(rows: Rows, incident: Incident, attack: Attack, stream: Stream, until: int) -> None:
    """Beacons of both implants up to `until`, and large flows up to and after the alert.

    He calls about as often as a host calls the addresses of its habits, or how often alone would
    tell.
    """
    last, level = attack.path[-1], incident.level
    usual = max(1, level.rows // (12 * level.hosts))
    for host in dict.fromkeys((attack.persist_host, last)):
        t = attack.arrivals[attack.path.index(host)] + 2 * MINUTE
        calls = 1 + stream.integer(usual)  # about so many before the alert
        pause = max(5 * MINUTE, -t * (7 + stream.integer(14)) // (10 * calls))
        while t < until:
            rows.add(t, "net", host, "beacon", dst=attack.c2, evidence=bits("c2"))
            t += pause + stream.integer(5 * MINUTE)
    if attack.alert == "flow" or attack.impact in FLOWS:
        span = min(-attack.arrivals[-1] // 2, 90 * MINUTE)
        for i in range(1 + stream.integer(1 + usual)):
            t = -MINUTE * 2 if i == 0 else -stream.integer(max(span, 5 * MINUTE))
            rows.add(t, "net", last, "large", dst=attack.c2, evidence=bits("c2", "impact"))
