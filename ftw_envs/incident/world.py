"""The world of one attempt: what is seen of it now, and how it moves on by itself.

Everything that does not depend on the investigator is laid out in time before he begins. The
attacker's reactions are thrown by dice that are named by what set them off, so that a harmless
command more or less shifts nothing.
"""

from __future__ import annotations

import heapq
from functools import cached_property
from hashlib import sha256

import numpy as np

from ftw_envs.incident.chain import attack_rows
from ftw_envs.incident.everyday import DRIFTED, HOUR, Rates, Ticket, live
from ftw_envs.incident.instance import ADDRESS, LEASE, MINUTE, NOWHERE, Attack, Incident
from ftw_envs.incident.log import ACT_CODE, FIELDS, SOURCE_CODE, Ints, Log, Rows, bits
from ftw_envs.streams import Stream

STANCES = ("quiet", "working", "alerted", "burning", "gone")
"""What the attacker is doing: waiting, at it, covering traces, destroying, away."""


class World:
    """One attempt at an incident.

    Args:
        incident: what it is about.
        noise_seed: everything that happens around it.
        frozen: whether nothing moves: logs are kept, the attacker stands still.
        attacked: False for the benign twin, in which nobody ever came in.

    Attributes:
        now: seconds since the alert.
        stance: one of `STANCES`.
        story: what the attacker did since the alert, as (second, text); told after the end.
        cost: damage by containment so far.
    """

    def __init__(
        self, incident: Incident, noise_seed: int, *, frozen: bool = False, attacked: bool = True
    ) -> None:
        self.incident = incident
        self.level = incident.level
        self.frozen = frozen
        self.attack: Attack | None = incident.attack if attacked else None
        self._name = ("incident-noise", incident.hash, noise_seed)
        self.now = 0
        self.stance = "quiet" if self.attack is None else "working"
        self.story: list[tuple[int, str]] = []
        self.cost = 0
        self.blocked: set[int] = set()
        self.isolated: set[int] = set()
        self.locked: set[int] = set()
        """Accounts that were disabled, or whose keys and passwords were changed."""
        self.cleaned: set[int] = set()
        self.c2 = set() if self.attack is None else {self.attack.c2}
        self.implants = set() if self.attack is None else {self.attack.persist_host}
        """Hosts on which he can come back."""
        self.tipped = False
        self._triggers: dict[str, int] = {}
        self._due: list[tuple[int, int, str, int]] = []
        rates = DRIFTED if incident.split == "test_drift" else Rates()
        self._lay_out(rates)

    def stream(self, *name: str | int) -> Stream:
        """The randomness of this attempt for one purpose."""
        return Stream(*self._name, *name)

    # What is laid out before the first command.

    def _lay_out(self, rates: Rates) -> None:
        incident, level = self.incident, self.level
        age = -incident.attack.start if incident.attack else MINUTE * sum(level.age) // 2
        since = -(age + age // 2 + HOUR)
        self.until = MINUTE * level.minutes + HOUR
        everyday = live(incident, self.stream("benign"), since, self.until, rates)
        rows = everyday.rows
        if self.attack is not None:
            attack_rows(rows, incident, 0 if self.frozen else self.until)
        self.tickets: list[Ticket] = everyday.tickets
        self.patches, self.resets = everyday.patches, everyday.resets
        self.travels = everyday.travels
        self.skew = [0] * len(incident.hosts)
        """Seconds by which each host's clock is ahead."""
        if level.errors and not self.frozen:
            stream = self.stream("skew")
            self.skew = [stream.integer(181) - 90 for _ in incident.hosts]
        if level.decoy:
            self._decoy(rows, since)
        blind = self._reconfigure(rows) if level.reconfigures and not self.frozen else []
        table = rows.columns()
        codes = [SOURCE_CODE[s] for s in level.sources]
        table = table[:, np.isin(table[1], codes)]
        n = table.shape[1]
        late: Ints | int = 0
        lost = np.zeros(n, bool)
        if not self.frozen:
            if level.lag:  # log-logistic with a median of 4 minutes: no exp(), so equal everywhere
                u = self.stream("ingest").uniforms(n)
                late = np.minimum(4 * MINUTE * rates.lag * np.sqrt(u / (1 - u)), HOUR).astype(
                    np.int64
                )
            if level.errors:
                lost |= self.stream("loss").uniforms(n) < 0.02
            for host, begin, end in blind:
                lost |= (
                    (table[2] == host)
                    & (table[1] == SOURCE_CODE["audit"])
                    & (table[0] >= begin)
                    & (table[0] < end)
                    & (table[3] != ACT_CODE["config"])
                )
        self.leases = self._lease(table)
        self.log = Log(table, late, self._keep(age, rates), lost)
        self._plan()

    def _keep(self, age: int, rates: Rates) -> Ints:
        """Seconds that each source of each host is kept: at least the age of the incident."""
        shape = (len(self.incident.hosts), len(SOURCE_CODE))
        if self.level.rotation is None or self.frozen:
            return np.full(shape, 10**9, np.int64)
        low, high = (round(MINUTE * rates.rotation * x) for x in self.level.rotation)
        u = self.stream("rotate").uniforms(shape[0] * shape[1]).reshape(shape)
        slack = low + u * (high - low) * (0.1 + 1.8 * self.incident.room)
        public = [h for h, x in enumerate(self.incident.hosts) if x.public]
        slack[public, SOURCE_CODE["auth"]] *= 0.7  # guessed passwords fill the file sooner
        keep: Ints = (age + slack).astype(np.int64)
        return keep

    def _lease(self, table: Ints) -> list[tuple[int, int, int]]:
        """Gives workstations addresses that change hands, and writes them into the flows.

        Returns:
            (address, since, host), in order of time.
        """
        if not self.level.reconfigures:
            return []
        works = [h for h, x in enumerate(self.incident.hosts) if x.role == "work"]
        stream = self.stream("leases")
        holder = list(works)
        stream.shuffle(holder)
        first = int(table[0, 0]) if table.shape[1] else 0
        leases = [(LEASE + i, first, h) for i, h in enumerate(holder)]
        if not self.frozen and len(works) > 1:
            for _ in range(1 + len(works) // 3):
                t = first + stream.integer(self.until - first)
                i, j = stream.integer(len(works)), stream.integer(len(works))
                leases.append((t, i, j))
        swaps = sorted(x for x in leases[len(works) :])
        leases = leases[: len(works)]
        flows, src = table[1] == SOURCE_CODE["net"], table[FIELDS.index("src")]
        changes = [first, *(t for t, _, _ in swaps), self.until + HOUR]
        for k in range(len(changes) - 1):
            if k:
                t, i, j = swaps[k - 1]
                holder[i], holder[j] = holder[j], holder[i]
                leases += [(LEASE + i, t, holder[i]), (LEASE + j, t, holder[j])]
            span = flows & (table[0] >= changes[k]) & (table[0] < changes[k + 1])
            now = {h: LEASE + i for i, h in enumerate(holder)}
            for host, address in now.items():
                src[span & (src == host)] = address
        return leases

    def _reconfigure(self, rows: Rows) -> list[tuple[int, int, int]]:
        """Reloads of audit rules: (host, from, to) in which a host's audit is blind."""
        stream = self.stream("config")
        attack = self.incident.attack  # so that the benign twin has the same
        begin = attack.start if attack else -12 * HOUR
        out = []
        for host in range(len(self.incident.hosts)):
            if stream.uniform() < 0.25:
                t = begin + stream.integer(self.until - begin)
                rows.add(t, "audit", host, "config")
                out.append((host, t, t + MINUTE * (10 + stream.integer(51))))
        return out

    def _decoy(self, rows: Rows, since: int) -> None:
        """Somebody breaks the rules: looks like the incident, but leads nowhere."""
        incident, stream = self.incident, self.stream("decoy")
        attack = incident.attack
        path = set(attack.path) if attack else set()
        near = path | {incident.alert_host}
        free = [h for h in range(len(incident.hosts)) if h not in near]
        users = [u for u in range(len(incident.users)) if not attack or u not in attack.accounts]
        out = incident.strangers
        host, user, dst = stream.choice(free), stream.choice(users), stream.choice(out)
        t = since // 2 + stream.integer(-since // 2)
        rows.add(t, "auth", host, "accept", user=user, src=stream.choice(out))
        rows.add(t + 10 * MINUTE, "audit", host, "archive", user=user)
        for i in range(3):
            rows.add(t + (20 + 9 * i) * MINUTE, "net", host, "large", dst=dst)

    def _plan(self) -> None:
        """What the attacker means to do after the alert, whatever the investigator does."""
        attack, level = self.attack, self.level
        if attack is None or self.frozen or not level.wipes:
            return
        stream = self.stream("attacker", "plan")
        if level.staff:
            wipe = HOUR + stream.integer(5 * HOUR)
            self._later(wipe, "wipe", stream.choice(attack.path))
        if level.reacts:
            others = [h for h in attack.path[1:] if h != attack.persist_host]
            if others and stream.uniform() < 0.4:
                self._later(HOUR // 2 + stream.integer(6 * HOUR), "implant", stream.choice(others))

    def _later(self, at: int, what: str, host: int) -> None:
        heapq.heappush(self._due, (at, len(self._due) + len(self.story), what, host))

    # How it moves on.

    def advance(self, seconds: int) -> None:
        """Lets time pass, and whatever falls due in it happen."""
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            at, _, what, host = heapq.heappop(self._due)
            self.now = max(self.now, at)
            self._happen(what, host)
        self.now = end

    def state(self) -> str:
        """All that decides how this attempt goes on, hidden things too, as text."""
        done = (
            self.now, self.stance, self.cost, self.tipped, self.story, sorted(self._due),
            sorted(self._triggers.items()),
        )  # fmt: skip
        sets = (self.blocked, self.isolated, self.locked, self.cleaned, self.c2, self.implants)
        return f"{self._laid_out} {self.log.digest()} {done} {[sorted(x) for x in sets]}"

    @cached_property
    def _laid_out(self) -> str:
        """Hash (hex) of what never changes: which attempt this is, and what staff does in it."""
        incident = self.incident
        fixed = (
            self._name, incident.split, incident.index, self.frozen, self.attack is None,
            self.tickets, self.patches, self.resets, self.travels, self.skew, self.leases,
        )  # fmt: skip
        return sha256(repr(fixed).encode()).hexdigest()

    def _tell(self, text: str) -> None:
        self.story.append((self.now, text))

    def _reaches(self, host: int) -> bool:
        """Whether the attacker can still do something on a host of his path."""
        return self.stance != "gone" and host not in self.isolated

    def _happen(self, what: str, host: int) -> None:
        attack = self.attack
        assert attack is not None
        if not self._reaches(host) or self.out():
            return
        name = f"h{host + 1}"
        if what == "wipe":
            self.log.wipe(self.now, host, ("auth", "audit"))
            self._tell(f"wiped auth and audit of {name}")
        elif what == "implant":
            self._implant(host)
        elif what == "move":
            self._move_c2(attack)
        elif what == "burn":
            self.stance = "burning"
            self._tell(f"destroyed data on {name}")
            rows = Rows()
            rows.add(self.now, "audit", host, "encrypt", user=attack.accounts[-1])
            self.log.append(rows, MINUTE)
        elif what == "leave":
            self.stance = "gone"
            self._tell("left; nothing of his is running any more")
            for c2 in self.c2:
                self.log.cut(attack.path, self.now, c2)

    def _implant(self, host: int) -> None:
        attack = self.attack
        assert attack is not None
        if host in self.implants:
            return
        self.implants.add(host)
        self._tell(f"made a second way back on h{host + 1}")
        rows = Rows()
        user = attack.accounts[attack.path.index(host)]
        rows.add(self.now, "audit", host, attack.persist, user=user, evidence=bits("persist"))
        self._beacons(rows, host, min(self.c2 - self.blocked, default=attack.c2))
        self.log.append(rows, 4 * MINUTE)

    def _beacons(self, rows: Rows, host: int, c2: int) -> None:
        for t in range(self.now + MINUTE, self.until, 20 * MINUTE):
            rows.add(t, "net", host, "beacon", dst=c2, evidence=bits("c2"))

    def _move_c2(self, attack: Attack) -> None:
        incident = self.incident
        known = {x for h in incident.hosts for x in h.sends_to}
        known |= {x for u in incident.users for x in u.sources} | self.c2
        free = [
            ADDRESS + i for i in range(self.level.addresses)
            if ADDRESS + i not in known
        ]  # fmt: skip
        if not free:
            return
        new = self.stream("attacker", "move", len(self.c2)).choice(free)
        self.c2.add(new)
        self._tell(f"moved his command channel to x{new - ADDRESS + 1}")
        rows = Rows()
        for host in sorted(self.implants - self.isolated - self.cleaned):
            self._beacons(rows, host, new)
        for old in self.c2 - {new}:
            self.log.cut(attack.path, self.now, old)
        self.log.append(rows, 4 * MINUTE)

    # What the investigator sets off.

    def trigger(self, what: str, host: int, chance: float) -> None:
        """Something that the attacker may notice: dice named by what, where, how often."""
        attack = self.attack
        if attack is None or self.frozen or not self.level.wipes or self.stance == "gone":
            return
        key = f"{what}:{host}"
        count = self._triggers[key] = self._triggers.get(key, 0) + 1
        stream = self.stream("attacker", "notice", what, host, count)
        if stream.uniform() >= chance * (1.1 - 0.3 * attack.skill):
            return
        self.tipped = True
        again = self.stance in ("alerted", "burning")
        self._tell("noticed the investigation" + (" again" if again else ""))
        self.stance = "burning" if again and self.level.reacts else "alerted"
        for h in attack.path:
            if stream.uniform() < 0.92:
                self._later(self.now + MINUTE * (2 + stream.integer(8)), "wipe", h)
        if self.level.reacts:
            free = [h for h in attack.path[1:] if h not in self.implants]
            if free and stream.uniform() < 0.5:
                self._later(self.now + MINUTE * (20 + stream.integer(40)), "implant", free[0])
            if stream.uniform() < 0.5:
                self._later(self.now + MINUTE * (15 + stream.integer(30)), "move", attack.path[-1])
            if again:
                host = attack.path[-1]
                self._later(self.now + MINUTE * (10 + stream.integer(20)), "burn", host)
                self._later(self.now + MINUTE * (40 + stream.integer(20)), "leave", host)

    def owned(self, host: int) -> bool:
        """Whether the attacker is on a host, so that he might see who looks at it."""
        attack = self.attack
        return attack is not None and host in attack.path and self._reaches(host)

    # Where the attacker stands.

    def out(self) -> bool:
        """Whether the attacker has no way back: the state decides, not what was typed.

        He is out if every account that he has is locked (by the investigator or by staff since
        he used it), and every host where he can come back is cleaned, cut off, or cannot reach
        any of his addresses. A patched hole counts as cleaned.
        """
        attack = self.attack
        if attack is None or self.stance == "gone":
            return True
        reset = {u for t, u in self.resets if 0 < t <= self.now}
        if not set(attack.accounts) <= self.locked | reset:
            return False
        reachable = self.c2 - self.blocked
        return all(h in self.isolated or h in self.cleaned or not reachable for h in self.implants)

    def restarts(self, host: int) -> int | None:
        """When a host was last restarted for a patch, NOWHERE-free: None if it was not."""
        times = [t for t, h in self.patches if h == host and t <= self.now]
        return times[-1] if times else None

    def talks(self, host: int) -> int:
        """The address that an implant on a host talks to right now; NOWHERE if there is none."""
        attack = self.attack
        if attack is None or self.stance == "gone":
            return NOWHERE
        active = self.implants | {attack.path[-1]}
        if host not in active or host in self.isolated or host in self.cleaned:
            return NOWHERE
        restarted = self.restarts(host)
        if restarted is not None and restarted > 0 and host not in self.implants:
            return NOWHERE
        return max(self.c2 - self.blocked, default=NOWHERE, key=lambda x: (x != attack.c2, x))


def alert_text(incident: Incident) -> str:
    """What was noticed: a symptom in the middle of things, never how it began."""
    host = f"h{incident.alert_host + 1}"
    attack = incident.attack
    if attack is None or attack.alert == "flow":
        return f"large outbound flow from {host}"
    if attack.alert == "persist":
        return f"new {attack.persist} on {host}"
    return {"encrypt": f"files being encrypted on {host}", "mine": f"high load on {host}"}[
        attack.alert
    ]
