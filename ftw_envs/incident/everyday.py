"""Everyday life: what hosts and people do all day, most of which looks like an attack somewhere.

All is laid out in time before the investigation begins, so nothing that it does can shift it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ftw_envs.incident.instance import ADDRESS, MINUTE, NOWHERE, Incident
from ftw_envs.incident.log import HOW_CODE, Ints, Rows
from ftw_envs.streams import Stream

HOUR = 60 * MINUTE
DAY = 24 * HOUR
ADMIN_ACTS = ("sudo", "cron", "key", "unit", "useradd", "newkey", "service", "task", "exec",
              "upload", "install", "archive", "dump", "pod")  # fmt: skip
"""What admins and service accounts do with a ticket; each is something attackers do too."""
PERSONAL = ("macro", "download", "consent")
LOOKALIKES = (*PERSONAL, "imds", "anon", "podexec", "exec", "upload", "install")
"""What looks like a way in, and happens on hosts where nobody came in too."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """Something that staff announced: when, where (NOWHERE for everywhere), who, what."""

    t: int
    host: int
    user: int
    what: str


@dataclass
class Everyday:
    """What `live` lays out.

    Attributes:
        rows: rows of all sources.
        tickets: in order of time.
        patches: (second, host) of each reboot for a patch.
        resets: (second, user) of each password reset by staff.
        travels: (second, user, address) of those who were away.
    """

    rows: Rows = field(default_factory=Rows)
    tickets: list[Ticket] = field(default_factory=list)
    patches: list[tuple[int, int]] = field(default_factory=list)
    resets: list[tuple[int, int]] = field(default_factory=list)
    travels: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast the world moves, as multiples of a level's own speed."""

    rotation: float = 1.0
    patches: float = 1.0
    lag: float = 1.0
    staff: float = 1.0


DRIFTED = Rates(rotation=0.6, patches=2.0, lag=2.0, staff=2.0)
"""The rates of the split test_drift."""


def _pick(stream: Stream, n: int, count: int) -> Ints:
    return (stream.uniforms(n) * count).astype(np.int64)


def _times(stream: Stream, n: int, since: int, until: int) -> Ints:
    return (since + stream.uniforms(n) * (until - since)).astype(np.int64)


def _awake(stream: Stream, n: int, since: int, until: int, noon: int) -> Ints:
    """Times of people: of two draws the one nearer to midday."""
    a, b = _times(stream, n, since, until), _times(stream, n, since, until)
    to_noon = [np.abs((t - noon + DAY // 2) % DAY - DAY // 2) for t in (a, b)]
    return np.where(to_noon[0] <= to_noon[1], a, b)


def live(incident: Incident, noise: Stream, since: int, until: int, rates: Rates) -> Everyday:
    """Lays out everyday life from second `since` to `until`.

    Args:
        noise: the stream "benign" of this attempt.
    """
    out = Everyday()
    level, rows = incident.level, out.rows
    noon = noise.integer(DAY)
    per_login = 3 if "audit" in level.sources else 2
    weights = {"web": 0.12, "db": 0.08, "cloud": 0.08, "k8s": 0.1}
    special = sum(weights.get(s, 0.0) for s in level.sources)
    budget = level.rows * (1 - special)
    _logins(incident, noise, rows, round(0.42 * budget / per_login), (since, until), noon)
    _typos(incident, noise, rows, round(0.03 * budget), (since, until), noon)
    _guesses(incident, noise, rows, round(0.2 * budget / per_login), (since, until))
    _flows(incident, noise, rows, round(0.3 * budget), (since, until))
    if "audit" in level.sources:
        _work(incident, noise, out, round(0.1 * budget), (since, until), noon)
    for source, share in weights.items():
        if source in level.sources:
            _special(incident, noise, rows, source, round(share * level.rows), (since, until))
    if level.staff:
        _staff(incident, noise, out, (since, until), rates)
    out.tickets.sort(key=lambda k: k.t)
    return out


def _logins(
    incident: Incident, noise: Stream, rows: Rows, n: int, span: tuple[int, int], noon: int
) -> None:
    """Habits: everybody logs in from his places to his hosts, in all sources that tell of it."""
    pairs = [
        (u, s, target, HOW_CODE[user.method])
        for u, user in enumerate(incident.users)
        for s in user.sources
        for target in (*user.targets, *((s,) if s < ADDRESS else ()))
    ]
    user, src, host, how = np.array(pairs, np.int64)[_pick(noise, n, len(pairs))].T
    t = _awake(noise, n, *span, noon)
    how = np.where(src == host, HOW_CODE["password"], how)
    rows.add_many(t, "auth", host, "accept", user=user, src=src, how=how)
    rows.add_many(t + 1, "audit", host, "login", user=user, src=src, how=how)
    for act, mask in (("conn", (src < ADDRESS) & (src != host)), ("inbound", src >= ADDRESS)):
        rows.add_many(t[mask], "net", host[mask], act, src=src[mask])


def _typos(
    incident: Incident, noise: Stream, rows: Rows, n: int, span: tuple[int, int], noon: int
) -> None:
    """A wrong password, then the right one, from where they always come."""
    pairs = [(u, s, h) for u, x in enumerate(incident.users) for s in x.sources for h in x.targets]
    user, src, host = np.array(pairs, np.int64)[_pick(noise, n, len(pairs))].T
    t = _awake(noise, n, *span, noon)
    rows.add_many(t, "auth", host, "fail", user=user, src=src)
    rows.add_many(t + 1, "audit", host, "badlogin", user=user, src=src)


def _guesses(incident: Incident, noise: Stream, rows: Rows, n: int, span: tuple[int, int]) -> None:
    """The internet guesses passwords, in bursts from one address, without success."""
    public = [h for h, x in enumerate(incident.hosts) if x.public]
    places = {x for u in incident.users for x in u.sources}
    strangers = [x for x in incident.strangers if x not in places]
    if not public or not strangers or n < 1:
        return
    bursts = max(1, n // 6)
    host = np.array(public, np.int64)[_pick(noise, bursts, len(public))]
    src = np.array(strangers, np.int64)[_pick(noise, bursts, len(strangers))]
    begin = _times(noise, bursts, *span)
    which = np.arange(n) % bursts
    t = begin[which] + (np.arange(n) // bursts) * 20
    user = _pick(noise, n, len(incident.users))
    rows.add_many(t, "auth", host[which], "fail", user=user, src=src[which])
    rows.add_many(t + 1, "audit", host[which], "badlogin", user=user, src=src[which])
    rows.add_many(begin, "net", host, "inbound", src=src)


def _flows(incident: Incident, noise: Stream, rows: Rows, n: int, span: tuple[int, int]) -> None:
    """Updates, browsing, and backups, which are the largest flows of all."""
    hosts = incident.hosts
    known = [(h, x) for h, host in enumerate(hosts) for x in host.sends_to]
    table = np.array(known, np.int64)
    host, dst = table[_pick(noise, n, len(known))].T
    t = _times(noise, n, *span)
    big = (dst == incident.vault) | (noise.uniforms(n) < 0.2)
    calls = noise.uniforms(n) < 0.4  # monitors and update checks, as regular as an implant's
    for act, mask in (("large", big), ("beacon", ~big & calls), ("out", ~big & ~calls)):
        rows.add_many(t[mask], "net", host[mask], act, dst=dst[mask])
    works = [h for h, x in enumerate(hosts) if x.role == "work"]
    if works:
        web = incident.strangers
        m = max(1, n // 3)
        where = np.array(works, np.int64)[_pick(noise, m, len(works))]
        to = np.array(web, np.int64)[_pick(noise, m, len(web))]
        rows.add_many(_times(noise, m, *span), "net", where, "out", dst=to)
    if incident.attack is None:  # what raised the false alert
        rows.add(-2 * MINUTE, "net", incident.quiet[0], "large", dst=incident.quiet[1])
    alerted = incident.alert_host  # on which the last large flow is not always the one meant
    for _ in range(noise.integer(3)):
        usual = noise.choice(hosts[alerted].sends_to)
        rows.add(-noise.integer(4 * MINUTE), "net", alerted, "large", dst=usual)


def _work(
    incident: Incident, noise: Stream, out: Everyday, n: int, span: tuple[int, int], noon: int
) -> None:
    """Admin acts, announced by tickets; updates; on public hosts what scanners set off."""
    able = [
        (u, h)
        for u, x in enumerate(incident.users)
        if x.kind in ("admin", "svc")
        for h in x.targets
    ] or [(0, incident.users[0].targets[0])]
    half = max(1, n // 2)
    times = _awake(noise, half, *span, noon).tolist()
    who = _pick(noise, half, len(able)).tolist()
    acts = _pick(noise, half, len(ADMIN_ACTS)).tolist()
    for t, i, a in zip(times, who, acts, strict=True):
        user, host = able[i]
        out.rows.add(t, "audit", host, ADMIN_ACTS[a], user=user)
        out.tickets.append(Ticket(t - 5 * MINUTE, host, user, ADMIN_ACTS[a]))
    entry = incident.attack.path[0] if incident.attack else NOWHERE
    for act in LOOKALIKES:  # harmless here; where the attacker came in it would not be told apart
        if noise.uniform() < min(1.0, n / 15):
            at = noise.integer(len(incident.hosts))
            if at != entry:
                user = noise.integer(len(incident.users)) if act in PERSONAL else NOWHERE
                t = span[0] + noise.integer(span[1] - span[0])
                out.rows.add(t, "audit", at, act, user=user)
    rest = n - half
    host = _pick(noise, rest, len(incident.hosts))
    out.rows.add_many(_times(noise, rest, *span), "audit", host, "update")


def _special(
    incident: Incident, noise: Stream, rows: Rows, source: str, n: int, span: tuple[int, int]
) -> None:
    """Requests, queries, console look-ups and leases: the bulk of these sources."""
    roles = {"web": ("web", "app"), "db": ("db",), "cloud": ("cloud", "node"), "k8s": ("node",)}
    host_list = [h for h, x in enumerate(incident.hosts) if x.role in roles[source]]
    if not host_list:
        host_list = [len(incident.hosts) - 1]
    host = np.array(host_list, np.int64)[_pick(noise, n, len(host_list))]
    t = _times(noise, n, *span)
    web = incident.strangers
    src = np.array(web, np.int64)[_pick(noise, n, len(web))]
    common, rare = {
        "web": ("get", "error"), "db": ("query", "error"), "cloud": ("describe", "call"),
        "k8s": ("lease", "deny"),
    }[source]  # fmt: skip
    odd = noise.uniforms(n) < 0.15
    outside = src if source == "web" else np.full(n, NOWHERE)
    rows.add_many(t[~odd], source, host[~odd], common, src=outside[~odd])
    rows.add_many(t[odd], source, host[odd], rare, src=outside[odd])


def _staff(
    incident: Incident, noise: Stream, out: Everyday, span: tuple[int, int], rates: Rates
) -> None:
    """Patches with reboots, people who travel, password resets by the help desk."""
    hours = (span[1] - span[0]) / HOUR
    for h in range(len(incident.hosts)):
        for _ in range(_count(noise, hours * rates.patches / 16)):
            t = span[0] + noise.integer(span[1] - span[0])
            out.patches.append((t, h))
            out.rows.add(t, "audit", h, "update")
            out.rows.add(t + MINUTE, "audit", h, "restart")
            out.tickets.append(Ticket(t - 30 * MINUTE, h, NOWHERE, "patch"))
    on_path = set(incident.attack.path) if incident.attack else set()
    for u, user in enumerate(incident.users):
        if user.kind == "svc":
            continue
        if noise.uniform() < 0.15 * rates.staff:
            announced = noise.uniform() >= 0.15
            hosts = [h for h in user.targets if announced or h not in on_path]
            if hosts:
                _travel(incident, noise, out, u, noise.choice(hosts), span, announced)
        if noise.uniform() < 0.06 * rates.staff:
            t = span[0] + noise.integer(span[1] - span[0])
            out.resets.append((t, u))
            for host in user.targets[:1]:
                out.rows.add(t, "auth", host, "reset", user=u)
            out.tickets.append(Ticket(t, NOWHERE, u, "reset"))
    out.patches.sort()
    out.resets.sort()


def _travel(
    incident: Incident, noise: Stream, out: Everyday, u: int, host: int, span: tuple[int, int],
    announced: bool,
) -> None:  # fmt: skip
    """Logins from an address that is nobody's habit; once in a while nobody was told."""
    src = noise.choice(incident.strangers)
    begin = span[0] + noise.integer(span[1] - span[0])
    out.travels.append((begin, u, src))
    if announced:
        out.tickets.append(Ticket(begin - HOUR, NOWHERE, u, f"travel x{src - ADDRESS + 1}"))
    how = incident.users[u].method
    for i in range(1 + noise.integer(3)):
        t = begin + i * (HOUR + noise.integer(HOUR))
        out.rows.add_login(t, host, u, src, how)


def _count(noise: Stream, mean: float) -> int:
    """How often something happens that happens `mean` times on average (geometric gaps)."""
    n, u = 0, noise.uniform()
    # Poisson by inversion would need exp(); a geometric count has the same mean and no exp().
    p = 1 / (1 + mean)
    while u > p and n < 50:
        u = (u - p) / (1 - p)
        n += 1
    return n
