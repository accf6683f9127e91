"""The logs: every row there ever was or will be, and which of them can be seen now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from ftw_envs.incident.instance import ADDRESS, MINUTE, NOWHERE
from ftw_envs.incident.levels import SLOTS, SOURCES

ACTS = {
    "auth": ("accept", "fail", "push", "reset"),
    "net": ("conn", "inbound", "out", "large", "beacon"),
    "audit": (
        "login", "badlogin", "sudo", "exec", "read", "update", "restart", "config",
        "cron", "key", "unit", "useradd", "webshell", "newkey", "pod", "service", "task",
        "mailrule", "upload", "imds", "anon", "podexec", "macro", "download", "install",
        "consent", "archive", "dump", "encrypt", "mine", "share", "mail",
    ),
    "web": ("get", "post", "error"),
    "db": ("query", "dump", "error"),
    "cloud": ("describe", "call", "newkey", "share"),
    "k8s": ("lease", "list", "podexec", "pod", "deny"),
}  # fmt: skip
"""What rows of each source tell of."""

HOWS = ("password", "key", "token", "mfa", "session")
"""How a login was made."""

ACT_NAMES = tuple(sorted({a for acts in ACTS.values() for a in acts}))
SOURCE_CODE = {s: i for i, s in enumerate(SOURCES)}
ACT_CODE = {a: i for i, a in enumerate(ACT_NAMES)}
HOW_CODE = {h: i for i, h in enumerate(HOWS)}
SLOT_BIT = {s: 1 << i for i, s in enumerate(SLOTS)}
"""A row's evidence is a sum of these: the slots that it helps to fill."""

FIELDS = ("t", "source", "host", "act", "user", "src", "dst", "how", "evidence")
Ints = npt.NDArray[np.int64]


def bits(*slots: str) -> int:
    """The evidence for these slots."""
    return sum(SLOT_BIT[s] for s in slots)


class Rows:
    """Collects rows, one or many at a time, as columns."""

    def __init__(self) -> None:
        self._single: list[tuple[int, ...]] = []
        self._many: list[Ints] = []

    def add(
        self, t: int, source: str, host: int, act: str, *, user: int = NOWHERE, src: int = NOWHERE,
        dst: int = NOWHERE, how: str = "password", evidence: int = 0,
    ) -> None:  # fmt: skip
        """One row at second `t`."""
        self._single.append((
            t, SOURCE_CODE[source], host, ACT_CODE[act], user, src, dst, HOW_CODE[how], evidence,
        ))  # fmt: skip

    def add_login(
        self, t: int, host: int, user: int, src: int, how: str, evidence: int = 0
    ) -> None:
        """A login in all three sources that tell of one."""
        flow = "inbound" if src >= ADDRESS else "conn"
        self.add(t, "auth", host, "accept", user=user, src=src, how=how, evidence=evidence)
        self.add(t + 1, "audit", host, "login", user=user, src=src, how=how, evidence=evidence)
        self.add(t, "net", host, flow, src=src, evidence=evidence & ~bits("accounts"))

    def add_many(
        self, t: Ints, source: str, host: Ints | int, act: str, *, user: Ints | int = NOWHERE,
        src: Ints | int = NOWHERE, dst: Ints | int = NOWHERE, how: Ints | int = 0,
    ) -> None:  # fmt: skip
        """Rows of everyday life at the seconds `t`, shape (n,); the rest likewise or a number."""
        block = np.empty((len(FIELDS), len(t)), np.int64)
        values = (t, SOURCE_CODE[source], host, ACT_CODE[act], user, src, dst, how, 0)
        for i, value in enumerate(values):
            block[i] = value
        self._many.append(block)

    def columns(self) -> Ints:
        """All rows, shape (len(FIELDS), n), in order of time; equal times in order of adding."""
        single = np.array(self._single, np.int64).reshape(-1, len(FIELDS)).T
        table = np.concatenate([single, *self._many], axis=1)
        out: Ints = table[:, np.argsort(table[0], kind="stable")]
        return out


class Log:
    """Rows in columns, and for each whether it is there.

    A row is there from when it has arrived until it is rotated away, unless it was lost; a row
    that was saved stays.

    Args:
        table: as `Rows.columns` gives it.
        late: seconds from a row to its arrival, shape (n,).
        keep: seconds a row is kept, shape (hosts, sources).
        lost: rows that are never there, shape (n,).

    Attributes:
        uid: a number for each row that stays the same when rows are added, shape (n,).
    """

    def __init__(
        self, table: Ints, late: Ints | int, keep: Ints, lost: npt.NDArray[np.bool_]
    ) -> None:
        self._keep = keep
        n = table.shape[1]
        self._set(table, np.arange(n), table[0] + late, lost, np.zeros(n, bool))

    def _set(
        self,
        table: Ints,
        uid: Ints,
        arrives: Ints,
        lost: npt.NDArray[np.bool_],
        saved: npt.NDArray[np.bool_],
    ) -> None:
        self.table = table
        self.uid = uid
        self.t, self.source, self.host, self.act, self.user, self.src, self.dst, self.how, _ = table
        self.evidence = table[-1]
        self._arrives, self._lost, self._saved = arrives, lost, saved
        self._expires = table[0] + self._keep[self.host, self.source]
        self._rows = b""  # their hash, worked out when it is asked for

    def digest(self) -> str:
        """Hash (hex) of all rows, and of when each is there."""
        if not self._rows:
            columns = [self.table, self.uid[None], self._arrives[None], self._expires[None]]
            self._rows = sha256(np.concatenate(columns).astype("<i8").tobytes()).digest()
        return sha256(self._rows + self._lost.tobytes() + self._saved.tobytes()).hexdigest()

    def append(self, rows: Rows, late: int) -> None:
        """Adds what nobody planned, `late` seconds late."""
        new = rows.columns()
        n = new.shape[1]
        table = np.concatenate([self.table, new], axis=1)
        order = np.argsort(table[0], kind="stable")
        self._set(
            table[:, order],
            np.concatenate([self.uid, np.arange(len(self.uid), len(self.uid) + n)])[order],
            np.concatenate([self._arrives, new[0] + late])[order],
            np.concatenate([self._lost, np.zeros(n, bool)])[order],
            np.concatenate([self._saved, np.zeros(n, bool)])[order],
        )

    def there(self, now: int) -> npt.NDArray[np.bool_]:
        """Which rows can be seen at second `now`, shape (n,)."""
        fresh = (self._arrives <= now) & (self._expires > now) & ~self._lost
        seen: npt.NDArray[np.bool_] = fresh | self._saved
        return seen

    def oldest(self, now: int, source: str, host: int) -> int | None:
        """Second of the oldest row of a source on a host that is there; None if there is none."""
        mask = self.there(now) & (self.source == SOURCE_CODE[source]) & (self.host == host)
        found = np.flatnonzero(mask)
        return int(self.t[found[0]]) if len(found) else None

    def told(self, source: int, evidence: int) -> list[tuple[int, str]]:
        """(second, "act on host") of the rows of a source that are such evidence."""
        rows = np.flatnonzero((self.source == source) & (self.evidence & evidence > 0)).tolist()
        return [(int(self.t[i]), f"{ACT_NAMES[self.act[i]]} on h{self.host[i] + 1}") for i in rows]

    def gone(self, evidence: int, now: int) -> list[tuple[int, str]]:
        """(second, what) of such evidence from before the alert that was rotated away since."""
        mask = (self.evidence & evidence > 0) & (self.t <= 0) & ~self._saved
        rows = np.flatnonzero(mask & (self._expires <= now)).tolist()
        out = {}
        for i in rows:
            what = (
                f"{SOURCES[self.source[i]]} of h{self.host[i] + 1} lost t{self.t[i] // MINUTE:+d}"
            )
            out[what] = int(self._expires[i])
        return [(t, what) for what, t in out.items()]

    def save(self, now: int, host: int) -> int:
        """Keeps what is there of a host for good; how many rows that is."""
        mask = self.there(now) & (self.host == host)
        self._saved |= mask
        return int(mask.sum())

    def wipe(self, now: int, host: int, sources: Iterable[str]) -> None:
        """Loses what a host has written so far to these sources, but for what was saved."""
        codes = [SOURCE_CODE[s] for s in sources]
        self._lost |= (self.host == host) & (self.t <= now) & np.isin(self.source, codes)

    def cut(self, hosts: Sequence[int], since: int, dst: int) -> None:
        """Loses flows from `hosts` to `dst` from second `since` on: they never happen."""
        self._lost |= (self.t > since) & (self.dst == dst) & np.isin(self.host, hosts)
