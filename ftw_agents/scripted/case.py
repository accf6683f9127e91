"""What a scripted investigator knows: read from replies, with the habits to hold it against."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass

_ROW = re.compile(
    r"r[0-9]+ t([+-][0-9]+) (h[0-9]+) ([a-z-]+)(?: u=(u[0-9]+))?(?: s=([a-z0-9]+))?"
    r"(?: d=([a-z0-9]+))?(?: m=([a-z]+))?"
)
_SYMPTOMS = (("large outbound", "flow"), ("encrypted", "encrypt"), ("high load", "mine"))


@dataclass(frozen=True, slots=True)
class Line:
    """A row as replies show it; `t` in minutes to the alert, "" for what is not told."""

    t: int
    host: str
    act: str
    user: str
    src: str
    dst: str
    how: str


def read_lines(text: str) -> list[Line]:
    """The rows in a reply, in its order."""
    return [Line(int(m[1]), *(g or "" for g in m.groups()[1:])) for m in _ROW.finditer(text)]


@dataclass(frozen=True, slots=True)
class KnownHost:
    """A line of `hosts`."""

    role: str
    sends_to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownUser:
    """A line of `users`."""

    kind: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]


class Case:
    """One investigation.

    Args:
        first: the first observation.

    Attributes:
        alert_host, symptom: from the alert.
        slots, sources: what the report needs, and the logs there are.
        contains: whether the attacker has to be put out.
        staff: whether people travel, as tickets tell.
        hosts, users: the directory, by handle.
        path, entry, accounts, vector, c2, persist, impact, start: what was found so far.
        cost_cap: how much damage cutting off may do; None if nothing is said.
        who: accounts that came to a host.
        logins: unusual logins on a host from a place, as they were shown.
        acts: what the audit of a host tells of, once it was asked.
        left: commands left.
    """

    def __init__(self, first: str) -> None:
        alert = first.split(". ", 1)[0]
        hosts = re.findall(r"h[0-9]+", alert)
        self.alert_host = hosts[0]
        self.symptom = next((s for words, s in _SYMPTOMS if words in alert), "persist")
        self.sources = re.findall(r"[a-z0-9]+", first.split("Logs: ", 1)[1].split(".", 1)[0])
        needs = first.split("The report needs:", 1)[1].split("\nCommands:", 1)[0]
        slot = r"^([a-z0-9]+): " if needs.startswith("\n") else r"[a-z0-9]+"
        self.slots = re.findall(slot, needs, re.M)
        self.contains = re.search(r"\bisolate\b", first) is not None
        self.staff = re.search(r"\bask\b", first) is not None
        self.hosts: dict[str, KnownHost] = {}
        self.users: dict[str, KnownUser] = {}
        self.leases: dict[str, list[tuple[str, str]]] = {}
        self.path: list[str] = []
        self.entry: str | None = None
        self.accounts: list[str] = []
        self.vector: str | None = None
        self.c2: str | None = None
        self.persist: str | None = None
        self.impact: str | None = None
        self.start: int | None = None
        self.first_move: Line | None = None
        dear = re.search(r"the damage may be ([0-9]+) at most", first)
        self.cost_cap = int(dear[1]) if dear else None
        self.who: dict[str, list[str]] = {}
        self.logins: dict[tuple[str, str], list[Line]] = {}
        self.acts: dict[str, list[str]] = {}
        given = re.search(r"You have ([0-9]+) commands", first)
        self.left = int(given[1]) if given else 0

    def body(self, reply: str) -> str:
        """A reply without its first line, which tells the time and the commands left."""
        told = re.match(r"t\+[0-9]+, ([0-9]+) left", reply)
        self.left = int(told[1]) if told else self.left
        return reply.split("\n", 1)[1] if "\n" in reply else ""

    def time_for(self, commands: int) -> bool:
        """Whether so many commands may be spent, and the report still be filed."""
        after = len(self.accounts) + len(self.path) if self.contains else 0
        return self.left >= commands + after + 2

    def learn_hosts(self, text: str) -> str | None:
        """Reads `hosts`; the command that shows the rest, if there is more."""
        for h, role, to in re.findall(r"^(h[0-9]+) ([a-z0-9]+) [a-z]+ to (\S+)$", text, re.M):
            self.hosts[h] = KnownHost(role, tuple(to.split(",")))
        return self._more(text)

    def learn_users(self, text: str) -> str | None:
        """Reads `users`; the command that shows the rest, if there is more."""
        for u, kind, places in re.findall(r"^(u[0-9]+) ([a-z]+) [a-z]+ (\S+)$", text, re.M):
            sources, targets = places.split(">")
            self.users[u] = KnownUser(kind, tuple(sources.split(",")), tuple(targets.split(",")))
        return self._more(text)

    def _more(self, text: str) -> str | None:
        more = re.search(r"^more: (.+)$", text, re.M)
        return more[1] if more else None

    def usual_login(self, place: str, host: str) -> bool:
        """Whether somebody logs in to `host` from `place` as a habit."""
        if place == host:
            return True
        return any(place in u.sources and host in u.targets for u in self.users.values())

    def habit(self, row: Line) -> bool:
        """Whether a login is a habit of its account."""
        user = self.users.get(row.user)
        if user is None:
            return False
        return row.src in user.sources and (row.host in user.targets or row.src == row.host)

    def holder(self, address: str, t: int) -> str:
        """The host that had a leased address at minute `t`."""
        changes = sorted((int(since), h) for since, h in self.leases[address])
        held = [h for since, h in changes if since <= t]
        return held[-1] if held else changes[0][1]

    def take(self, rows: list[Line]) -> None:
        """Adds the accounts of these rows to the attacker's."""
        for row in rows:
            if row.user and row.user not in self.accounts:
                self.accounts.append(row.user)
            if row.user and row.user not in (who := self.who.setdefault(row.host, [])):
                who.append(row.user)

    def later(self, row: Line) -> bool:
        """Whether a row comes after the first move, so cannot be the way in."""
        return self.first_move is not None and row.t > self.first_move.t

    def announced(self, row: Line, tickets: str) -> bool:
        """Whether a ticket tells of a row: the same act, a few minutes before."""
        times = re.findall(rf"^t([+-][0-9]+) .*\b{row.act}$", tickets, re.M)
        return any(0 <= row.t - int(t) <= 10 for t in times)

    def file(self, cause_of: Mapping[str, str]) -> Generator[str, str, None]:
        """Fills the report with what was found, and files it."""
        values = {
            "entry": self.entry,
            "path": ",".join(self.path) or None,
            "accounts": ",".join(self.accounts) or None,
            "vector": self.vector,
            "c2": self.c2,
            "persist": self.persist,
            "verdict": "incident",
            "start": None if self.start is None else f"t{self.start:+d}",
            "cause": cause_of.get(self.vector or ""),
            "impact": self.impact,
        }
        said = {slot: values[slot] or "unknown" for slot in self.slots}
        yield "set " + " ".join(f"{slot}={value}" for slot, value in said.items())
        yield "report"
