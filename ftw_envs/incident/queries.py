"""Questions to the logs: which rows are there now, how many, and one of them whole."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ftw_envs.incident.commands import FIELDS, Command, parse_time, place_of
from ftw_envs.incident.instance import MINUTE, handle
from ftw_envs.incident.log import ACT_CODE, ACT_NAMES, HOW_CODE, HOWS, SOURCE_CODE, bits
from ftw_envs.incident.raw import raw_line
from ftw_envs.incident.world import World

MORE = 12
"""Characters kept free to tell how much is left out."""


class LogReader:
    """Answers `search`, `count` and `raw` from the logs as they are now.

    Attributes:
        shown: evidence seen so far, a sum of `SLOT_BIT`.
        seen: number (as in "r7") of each row that replies have shown, by its `Log.uid`.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.level = world.level
        self.shown = 0
        self.seen: dict[int, int] = {}
        self._by_id: dict[int, int] = {}

    def _mask(self, command: Command) -> npt.NDArray[np.bool_]:
        """Which rows a search or a count is about, shape (n,)."""
        world = self.world
        log, now = world.log, world.now
        mask: npt.NDArray[np.bool_] = log.there(now) & (log.t <= now)
        mask &= log.source == SOURCE_CODE[command.args[0]]
        for key, value in command.options.items():
            if key == "act":
                mask &= log.act == ACT_CODE[value]
            elif key == "how":
                mask &= log.how == HOW_CODE[value]
            elif key == "user":
                mask &= log.user == int(value[1:]) - 1
            elif key in ("host", "src", "dst"):
                column = {"host": log.host, "src": log.src, "dst": log.dst}[key]
                mask &= column == place_of(value)
            elif key in ("since", "until"):
                minutes = parse_time(value, now // MINUTE)
                assert minutes is not None
                mask &= log.t // MINUTE >= minutes if key == "since" else log.t // MINUTE <= minutes
        return mask

    def _oldest(self, command: Command) -> str:
        """When the oldest row of the source on the host is from, where that is told."""
        host = command.options.get("host")
        if host is None or not self.level.shows_oldest:
            return ""
        oldest = self.world.log.oldest(self.world.now, command.args[0], place_of(host))
        return " (none kept)" if oldest is None else f" (kept since t{oldest // MINUTE:+d})"

    def _search(self, command: Command, room: int) -> str:
        found = np.flatnonzero(self._mask(command))[::-1]
        end = self._oldest(command)
        if not len(found):
            return "no rows" + end
        most = int(command.options.get("n", 6))
        chosen = found[:most].tolist()
        lines = fit((self.row(i) for i in chosen), room - len(end) - MORE)
        for i in chosen[: len(lines)]:
            self._see(i)
        left = len(found) - len(lines)
        more = [f"{left} more" + end] if left else ([end.strip()] if end else [])
        return "\n".join([*lines, *more])

    def row(self, i: int) -> str:
        """Row `i` of the log as replies show it: its id, when, where, what, who, from and to."""
        log = self.world.log
        uid = int(log.uid[i])
        number = self.seen.setdefault(uid, len(self.seen) + 1)
        self._by_id[number] = uid
        shift = self.world.skew[int(log.host[i])]
        text = f"r{number} t{(int(log.t[i]) + shift) // MINUTE:+d} h{log.host[i] + 1} "
        text += ACT_NAMES[int(log.act[i])]
        if log.user[i] >= 0:
            text += f" u={handle_user(int(log.user[i]))}"
        if log.src[i] >= 0:
            text += f" s={handle(int(log.src[i]))}"
        if log.dst[i] >= 0:
            text += f" d={handle(int(log.dst[i]))}"
        return text + (f" m={HOWS[int(log.how[i])]}" if log.how[i] else "")

    def _see(self, i: int) -> None:
        self.shown |= int(self.world.log.evidence[i])

    def _count(self, command: Command, room: int) -> str:
        log = self.world.log
        by = command.options["by"]
        assert by in FIELDS
        filters = {k: v for k, v in command.options.items() if k != "by"}
        mask = self._mask(Command(command.verb, command.args, filters))
        columns = {"host": log.host, "user": log.user, "src": log.src, "dst": log.dst}
        column = log.act if by == "act" else columns[by]
        found = np.flatnonzero(mask & (column >= 0)) if by != "act" else np.flatnonzero(mask)
        end = self._oldest(command)
        if not len(found):
            return "no rows" + end
        values, counts = np.unique(column[found], return_counts=True)
        order = np.lexsort((values, -counts))
        names = [_named(by, int(v)) for v in values]
        parts = fit((f"{names[i]}:{counts[i]}" for i in order.tolist()), room - len(end) - MORE)
        if len(parts) < len(names):
            parts.append(f"{len(names) - len(parts)} more")
        if by == "dst":  # a count by address can show the address of the implants
            self.shown |= int(np.bitwise_or.reduce(log.evidence[found])) & bits("c2")
        return " ".join(parts) + end

    def _raw(self, command: Command, room: int) -> str:
        log = self.world.log
        uid = self._by_id.get(int(command.args[0][1:]))
        if uid is None:
            known = f"; rows so far are r1 to r{len(self.seen)}" if self.seen else "; none so far"
            return f"no row {command.args[0]}{known}"
        i = int(np.flatnonzero(log.uid == uid)[0])
        return raw_line(self.world, i)


def fit(lines: Iterable[str], room: int) -> list[str]:
    """The first of `lines` that fit into so many characters, each with one to part them."""
    out: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        out.append(line)
    return out


def handle_user(user: int) -> str:
    """u1.. for accounts."""
    return f"u{user + 1}"


def _named(by: str, value: int) -> str:
    if by == "act":
        return ACT_NAMES[value]
    return handle_user(value) if by == "user" else handle(value)
