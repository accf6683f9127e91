"""What commands do: questions to people and hosts, acts of containment, the report's board."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ftw_envs.incident.commands import Command, place_of
from ftw_envs.incident.guide import guide
from ftw_envs.incident.instance import MINUTE, NOWHERE, handle
from ftw_envs.incident.levels import SLOTS
from ftw_envs.incident.log import ACT_CODE, bits
from ftw_envs.incident.queries import MORE, LogReader, fit, handle_user
from ftw_envs.incident.world import World

COSTS = {
    "search": 5, "count": 8, "inspect": 15, "raw": 2, "hosts": 1, "users": 1, "leases": 3,
    "tickets": 3, "ask": 10, "snap": 10, "isolate": 3, "disable": 3, "block": 3, "rotate": 3,
    "clean": 10, "set": 1, "drop": 1, "report": 0, "help": 1,
}  # fmt: skip
"""Minutes that each command takes; `wait` takes what it says."""

_KEPT = {
    "cron": "cron", "unit": "cron", "task": "cron", "service": "cron", "key": "keys",
    "newkey": "keys", "useradd": "logins", "webshell": "files", "pod": "files", "mailrule": "files",
}  # fmt: skip
"""Where each way to come back is found on a host itself."""


class Desk(LogReader):
    """Where the investigator sits: runs commands against a world, and keeps the board.

    Attributes:
        board: the report so far, slot to canonical value.
        closed: whether the report was filed.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.board: dict[str, str] = {}
        self.closed = False

    def state(self) -> str:
        """All of the desk that decides what is answered and how the report is judged."""
        return f"{sorted(self.board.items())} {self.closed} {self.shown} {list(self.seen)}"

    def run(self, command: Command, room: int) -> str:
        """Lets the time pass that a command takes, and answers it.

        Args:
            room: characters that the answer may have.
        """
        minutes = int(command.args[0][:-1]) if command.verb == "wait" else COSTS[command.verb]
        self.world.advance(MINUTE * minutes)
        answer: Callable[[Command, int], str] = getattr(self, f"_{command.verb}")
        return answer(command, room)[:room]

    # Questions to the directory and to people.

    def _listed(self, lines: list[str], first: int, verb: str, letter: str, room: int) -> str:
        """As many lines from `first` on as there is room for, and how to see the others."""
        out = fit(lines[first:], room - len(f"more: {verb} {letter}99"))
        end = first + len(out)
        more = [f"more: {verb} {letter}{end + 1}"] if end < len(lines) else []
        return "\n".join([*out, *more])

    def _hosts(self, command: Command, room: int) -> str:
        lines = []
        for i, host in enumerate(self.world.incident.hosts):
            to = ",".join(handle(x) for x in host.sends_to)
            lines.append(f"h{i + 1} {host.role} {host.name} to {to}")
        first = int(command.args[0][1:]) - 1 if command.args else 0
        return self._listed(lines, first, "hosts", "h", room)

    def _users(self, command: Command, room: int) -> str:
        lines = []
        for i, user in enumerate(self.world.incident.users):
            places = [",".join(handle(x) for x in p) for p in (user.sources, user.targets)]
            lines.append(f"u{i + 1} {user.kind} {user.name} {places[0]}>{places[1]}")
        first = int(command.args[0][1:]) - 1 if command.args else 0
        return self._listed(lines, first, "users", "u", room)

    def _tickets(self, command: Command, room: int) -> str:
        host, user = (command.options.get(k) for k in ("host", "user"))
        lines = []
        for ticket in reversed(self.world.tickets):
            if ticket.t > self.world.now:
                continue
            if host and ticket.host != place_of(host):
                continue
            if user and ticket.user != int(user[1:]) - 1:
                continue
            parts = [f"t{ticket.t // MINUTE:+d}"]
            parts += [f"h{ticket.host + 1}"] if ticket.host >= 0 else []
            parts += [handle_user(ticket.user)] if ticket.user >= 0 else []
            lines.append(" ".join([*parts, ticket.what]))
        if not lines:
            return "no tickets"
        out = fit(lines, room - MORE)
        left = len(lines) - len(out)
        return "\n".join([*out, *([f"{left} more"] if left else [])])

    def _leases(self, command: Command, room: int) -> str:
        address = place_of(command.args[0])
        log = self.world.leases
        mine = [(since, h) for a, since, h in log if a == address and since <= self.world.now]
        lines = [f"t{since // MINUTE:+d} h{h + 1}" for since, h in reversed(mine)]
        return "\n".join(lines)

    def _ask(self, command: Command, room: int) -> str:
        user, topic = int(command.args[0][1:]) - 1, command.args[1]
        world = self.world
        name = command.args[0]
        if topic == "travel":
            places = [src for t, u, src in world.travels if u == user and t <= world.now]
            said = ", ".join(dict.fromkeys(handle(p) for p in places))
            return f"{name}: I was at {said}" if places else f"{name}: I was not away"
        attack = world.attack
        used = attack is not None and user in attack.accounts
        insider = attack is not None and attack.vector == "insider"
        if used:
            world.trigger("ask", user, 0.8 if insider else 0.3)
        mine = not used or insider
        if self.level.errors and world.stream("ask", user).uniform() < 0.1:
            mine = not mine  # people err
        elif used and not insider:
            self.shown |= bits("accounts")
        return f"{name}: all my logins were mine" if mine else f"{name}: not all logins were mine"

    # The hosts themselves.

    def _inspect(self, command: Command, room: int) -> str:
        host, what = place_of(command.args[0]), command.args[1]
        world = self.world
        if world.owned(host):
            world.trigger("inspect", host, 1.0)
        if host in world.isolated and what == "net":
            return "cut off, no connections"
        there = world.incident.hosts[host]
        c2 = world.talks(host)
        attack = world.attack
        kept = attack is not None and host in world.implants and host not in world.cleaned
        if what == "net":
            to = [*(handle(x) for x in there.sends_to)]
            if c2 != NOWHERE:
                to = sorted([*to, handle(c2)], key=lambda s: int(s[1:]))
                self.shown |= bits("c2")
            return "connections to " + ",".join(to)
        if what == "ps":
            usual = {"windows": "lsass svchost", "k8s": "kubelet containerd"}.get(
                there.platform, "sshd cron"
            )
            return usual + (" kworkerd" if c2 != NOWHERE else "")
        if what == "logins":
            lines = self._last_logins(host)
            if kept and attack is not None and _KEPT[attack.persist] == what:
                lines.insert(0, "new account support")
                self.shown |= bits("persist")
            return "\n".join(lines) or "no logins"
        usual = {"cron": "logrotate backup", "keys": "deploy admin", "files": "nothing new"}[what]
        if kept and attack is not None and _KEPT[attack.persist] == what:
            self.shown |= bits("persist")
            return f"{usual}\nnew: {attack.persist}"
        return usual

    def _last_logins(self, host: int) -> list[str]:
        """The last logins that the host itself remembers: those since its logs began."""
        log, now = self.world.log, self.world.now
        mask = (
            log.there(now) & (log.host == host) & (log.act == ACT_CODE["accept"]) & (log.t <= now)
        )
        lines = []
        for i in np.flatnonzero(mask)[::-1][:3].tolist():
            when = f"t{int(log.t[i]) // MINUTE:+d}"
            lines.append(f"{when} {handle_user(int(log.user[i]))} from {handle(int(log.src[i]))}")
            self._see(i)
        return lines

    def _snap(self, command: Command, room: int) -> str:
        rows = self.world.log.save(self.world.now, place_of(command.args[0]))
        return f"{rows} rows of {command.args[0]} saved"

    # Containment.

    def _contained(self, his: bool, where: int) -> None:
        """An attacker who still has a way back may notice that another was closed."""
        if his and not self.world.out():
            self.world.trigger("contain", where, 0.9)

    def _isolate(self, command: Command, room: int) -> str:
        host, world = place_of(command.args[0]), self.world
        if host in world.isolated:
            return f"{command.args[0]} is cut off already"
        world.isolated.add(host)
        world.cost += world.incident.hosts[host].harm
        self._contained(world.attack is not None and host in world.attack.path, host)
        return f"{command.args[0]} is cut off"

    def _clean(self, command: Command, room: int) -> str:
        host, world = place_of(command.args[0]), self.world
        world.cleaned.add(host)
        world.cost += 2
        his = world.attack is not None and host in world.implants
        self._contained(his, host)
        return f"{command.args[0]} is cleaned and patched"

    def _block(self, command: Command, room: int) -> str:
        address, world = place_of(command.args[0]), self.world
        if address in world.blocked:
            return f"{command.args[0]} is blocked already"
        world.blocked.add(address)
        used = any(address in h.sends_to for h in world.incident.hosts)
        used |= any(address in u.sources for u in world.incident.users)
        world.cost += 5 if used else 1
        self._contained(address in world.c2, address)
        return f"{command.args[0]} is blocked"

    def _lock(self, command: Command, cost: int, done: str) -> str:
        user, world = int(command.args[0][1:]) - 1, self.world
        world.locked.add(user)
        world.cost += cost
        self._contained(world.attack is not None and user in world.attack.accounts, user)
        return f"{command.args[0]} {done}"

    def _disable(self, command: Command, room: int) -> str:
        kind = self.world.incident.users[int(command.args[0][1:]) - 1].kind
        return self._lock(command, 4 if kind in ("admin", "svc") else 3, "is disabled")

    def _rotate(self, command: Command, room: int) -> str:
        return self._lock(command, 1, "has new keys and passwords")

    # The report.

    def _wait(self, command: Command, room: int) -> str:
        return "waited"

    def _help(self, command: Command, room: int) -> str:
        return guide(self.level, command.args[0] if command.args else None)

    def board_text(self) -> str:
        """The report so far, one line."""
        return " ".join(f"{s}={self.board[s]}" for s in SLOTS if s in self.board) or "empty"

    def _set(self, command: Command, room: int) -> str:
        self.board.update(command.options)
        return "report: " + self.board_text()

    def _drop(self, command: Command, room: int) -> str:
        self.board.pop(command.args[0], None)
        return "report: " + self.board_text()

    def _report(self, command: Command, room: int) -> str:
        why = self.contradiction()
        if why:
            return f"not filed: {why}"
        self.closed = True
        return "filed: " + self.board_text()

    def contradiction(self) -> str:
        """What two slots say against each other; "" if nothing."""
        board = self.board
        if board.get("verdict") == "none" and len(board) > 1:
            other = next(s for s in SLOTS if s in board and s != "verdict")
            return f"verdict=none goes with no other slot, but {other} is set; drop one of them"
        path, entry = board.get("path", "unknown"), board.get("entry", "unknown")
        if "unknown" not in (path, entry) and path.split(",")[0] != entry:
            return f"the path begins with {path.split(',')[0]}, but entry is {entry}"
        return ""
