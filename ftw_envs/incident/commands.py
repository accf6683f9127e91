"""The commands of an investigation: from what an agent wrote to one command, or a clear refusal.

A command is one line: a verb, at most two words, and `key=value` in any order. The parser is
total; what it refuses gets one line with the nearest valid form.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from functools import cached_property

from ftw_envs.actions import ActionGrammar
from ftw_envs.incident.instance import ADDRESS, LEASE, Incident
from ftw_envs.incident.levels import Level
from ftw_envs.incident.log import ACTS, HOWS
from ftw_envs.incident.techniques import CAUSES, IMPACTS, PERSISTENCE, VECTORS, word_of

FIELDS = ("host", "user", "src", "dst", "act")
INSPECT = ("ps", "net", "cron", "keys", "files", "logins")
TOPICS = ("logins", "travel")
CONTAIN = ("isolate", "disable", "block", "rotate", "clean")
UNKNOWN = "unknown"
"""What a report says of a slot whose evidence is gone."""
MAX_ROWS = 50
MAX_WAIT = 60
_TIME = re.compile(r"t([+-][0-9]{1,5})|([0-9]{1,5})(m|h|)")
_SPACE = re.compile(r"[ \t]+")
_JOINED = re.compile(r"[ \t]*([=,>-])[ \t]*")
"""Signs inside a word, around which spaces mean nothing: "host = h1" is "host=h1"."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command, checked: handles exist, words are known.

    Attributes:
        verb: which.
        args: what follows it, as canonical words.
        options: its `key=value` pairs, canonical, in the order of their keys.
    """

    verb: str
    args: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        pairs = [f"{k}={v}" for k, v in self.options.items()]
        return " ".join([self.verb, *self.args, *pairs])


class RefusedError(ValueError):
    """A line that is no command; the message says what would be right."""


def verbs_of(level: Level) -> tuple[str, ...]:
    """The verbs that a level knows."""
    verbs = ["search", "count", "inspect", "raw", "hosts", "users"]
    if "audit" in level.sources:
        verbs += ["tickets", "snap"]
    if level.reconfigures:
        verbs.append("leases")
    if level.staff:
        verbs.append("ask")
    if level.reacts:
        verbs += CONTAIN
    return (*verbs, "wait", "set", "drop", "report", "help")


def _nearest(word: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word, known, 1, 0.5)
    return f", perhaps {near[0]}" if near else ""


def parse_time(text: str, now: int) -> int | None:
    """Minutes relative to the alert of "t-90", "90m", "2h" (both before `now`); None if neither."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    if match[1]:
        return int(match[1])
    return now - int(match[2]) * (60 if match[3] == "h" else 1)


class CommandGrammar(ActionGrammar):
    """The commands that an incident takes; handles and names of hosts and people are its own.

    Answers may be dressed as in `ActionGrammar`, but for a leading verb such as "go".

    Attributes:
        verbs: that the level knows.
        handles: by kind: host, user, address (outside), lease.
    """

    def __init__(self, incident: Incident) -> None:
        self.incident = incident
        self.level = incident.level
        self.verbs = verbs_of(self.level)
        self.max_moves = 1
        self.form = (
            "Answer with one command: " + ", ".join(self.verbs) + ". "
            "Example: search auth host=h1 act=accept"
        )
        hosts, users = incident.hosts, incident.users
        works = sum(h.role == "work" for h in hosts) if self.level.reconfigures else 0
        counts = {
            "host": len(hosts), "user": len(users), "address": self.level.addresses, "lease": works,
        }  # fmt: skip
        self.handles = {
            kind: tuple(f"{letter}{i + 1}" for i in range(n))
            for letter, (kind, n) in zip("huxi", counts.items(), strict=True)
        }
        self._alias = {h.name: f"h{i + 1}" for i, h in enumerate(hosts)}
        self._alias |= {u.name: f"u{i + 1}" for i, u in enumerate(users)}

    # What ActionGrammar asks for.

    def _exact(self, reply: str) -> str | None:
        return None

    def _plain(self, text: str) -> str | None:
        try:
            return str(self.read(text))
        except RefusedError:
            return None

    def _refusal(self, text: str) -> str:
        try:
            self.read(text)
        except RefusedError as e:
            return str(e)
        raise AssertionError("only what is refused is asked for")

    @cached_property
    def actions(self) -> tuple[str, ...]:  # type: ignore[override]
        """One or more commands of every kind, for players that choose blindly."""
        known = self.handles
        out = ["hosts", "users", "report", "help", "wait 10m"]
        for host in known["host"]:
            out += [f"search {s} host={host}" for s in self.level.sources]
            out += [f"count {s} by=act host={host}" for s in self.level.sources]
            out += [f"inspect {host} {what}" for what in INSPECT]
            out += [f"set entry={host}"]
            out += [f"{v} {host}" for v in ("snap", "isolate", "clean") if v in self.verbs]
            for other in known["host"]:
                if "path" in self.level.slots and other != host:
                    out.append(f"set path={host},{other}")
        for user in known["user"]:
            out.append(f"set accounts={user}")
            out += [f"{v} {user}" for v in ("disable", "rotate") if v in self.verbs]
            out += [f"ask {user} {t}" for t in TOPICS if "ask" in self.verbs]
        for x in known["address"]:
            out.append(f"set c2={x}")
            out += [f"block {x}"] if "block" in self.verbs else []
        for slot, words in self.words.items():
            out += [f"set {slot}={w}" for w in words if slot in self.level.slots]
        return tuple(out)

    @cached_property
    def words(self) -> dict[str, tuple[str, ...]]:
        """The words that slots take, of those slots that take words."""
        return {
            "vector": tuple(VECTORS), "persist": tuple(PERSISTENCE), "impact": tuple(IMPACTS),
            "cause": tuple(CAUSES), "verdict": ("incident", "none"),
        }  # fmt: skip

    # From a line to a command.

    def read(self, text: str) -> Command:
        """The command that a line holds.

        Raises:
            RefusedError: it holds none; says what would be right.
        """
        line = text.strip(" \t\r\n.;!*`\"'").casefold()
        if not line:
            raise RefusedError(f"There is no command in the reply. {self.form}")
        if "\n" in line:
            raise RefusedError("One command in one line, please: the reply has several lines.")
        if " " in line:  # runs of spaces first, or a long one would take the square of its length
            line = _JOINED.sub(r"\1", _SPACE.sub(" ", line))
        words = _SPACE.split(line)
        verb = words[0]
        if verb not in self.verbs:
            known = ", ".join(self.verbs)
            near = _nearest(verb, self.verbs)
            raise RefusedError(f"There is no command {_short(verb)}{near}; there are {known}.")
        args = [w for w in words[1:] if "=" not in w]
        options: dict[str, str] = {}
        for word in words[1:]:
            key, found, value = word.partition("=")
            if found:
                if key in options:
                    raise RefusedError(f"{_short(key)} is given twice; once is enough.")
                options[key] = value
        read = getattr(self, f"_{verb}", None) or self._bare
        return read(verb, args, options)

    def _check(
        self, verb: str, args: list[str], options: dict[str, str], want: str, n: int,
        keys: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """Refuses a wrong number of words, and keys that are not among `keys`."""
        form = f"{verb} {want}".strip()
        if len(args) != n:
            raise RefusedError(f"The form is: {form}")
        for key in options:
            if key not in keys:
                near = _nearest(key, keys)
                raise RefusedError(f"{verb} has no {_short(key)}={near}. The form is: {form}")

    def _one(self, kind: str, value: str, where: str) -> str:
        """A handle of one kind, from a handle or a name."""
        value = self._alias.get(value, value)
        if value in self.handles[kind]:
            return value
        known = self.handles[kind]
        what = {"host": "hosts", "user": "accounts", "address": "addresses", "lease": "leases"}
        if not known:
            raise RefusedError(f"{where}: there are no {what[kind]} here.")
        letter = known[0][0]
        raise RefusedError(
            f"{where}: no {_short(value)}; {what[kind]} are {letter}1 to {letter}{len(known)}."
        )

    def _place(self, value: str, where: str) -> str:
        """A host, an address outside, or a leased address."""
        value = self._alias.get(value, value)
        kind = {"x": "address", "i": "lease"}.get(value[:1], "host")
        return self._one(kind, value, where)

    def _source(self, value: str) -> str:
        if value in self.level.sources:
            return value
        known = ", ".join(self.level.sources)
        near = _nearest(value, self.level.sources)
        raise RefusedError(f"no such source {_short(value)}{near}; sources are {known}.")

    def _word(self, value: str, known: tuple[str, ...], where: str) -> str:
        if value in known:
            return value
        near = _nearest(value, known)
        listed = ", ".join(known)
        raise RefusedError(f"{where}: no {_short(value)}{near}; there are {listed}.")

    def _filters(self, source: str, options: dict[str, str]) -> dict[str, str]:
        out = {}
        for key in sorted(options):
            value = options[key]
            if key == "host":
                out[key] = self._one("host", value, "host")
            elif key == "user":
                out[key] = self._one("user", value, "user")
            elif key in ("src", "dst"):
                out[key] = self._place(value, key)
            elif key == "act":
                out[key] = self._word(value, ACTS[source], f"act of {source}")
            elif key == "how":
                out[key] = self._word(value, HOWS, "how")
            elif key in ("since", "until"):
                if parse_time(value, 0) is None:
                    raise RefusedError(f"{key}: a time is 90m, 2h (ago), or t-90 (to the alert).")
                out[key] = value
            elif key == "n":
                if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= MAX_ROWS:
                    raise RefusedError(f"n is a number of rows from 1 to {MAX_ROWS}.")
                out[key] = str(int(value))
            else:
                out[key] = value
        return out

    _KEYS = (*FIELDS, "how", "since", "until")

    def _search(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        sources = "|".join(self.level.sources)
        want = f"{sources} [host= user= src= dst= act= how= since=90m until=30m n=6]"
        self._check(verb, args, options, want, 1, (*self._KEYS, "n"))
        source = self._source(args[0])
        return Command(verb, (source,), self._filters(source, options))

    def _count(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        sources = "|".join(self.level.sources)
        want = f"{sources} by={'|'.join(FIELDS)} [host= user= src= dst= act= since= until=]"
        self._check(verb, args, options, want, 1, (*self._KEYS, "by"))
        source = self._source(args[0])
        by = self._word(options.get("by", ""), FIELDS, "by")
        return Command(verb, (source,), {**self._filters(source, options), "by": by})

    def _inspect(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        self._check(verb, args, options, "HOST " + "|".join(INSPECT), 2)
        what = self._word(args[1], INSPECT, "inspect")
        return Command(verb, (self._one("host", args[0], verb), what))

    def _raw(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        self._check(verb, args, options, "ROW, as in raw r1", 1)
        if not re.fullmatch(r"r[0-9]{1,6}", args[0], re.ASCII):
            raise RefusedError("A row is named as replies name it, as in raw r1.")
        return Command(verb, (args[0],))

    def _page(self, kind: str, verb: str, args: list[str], options: dict[str, str]) -> Command:
        want = f"[{kind[0]}1 to begin there]"
        self._check(verb, args, options, want, len(args[:1]))
        return Command(verb, tuple(self._one(kind, a, verb) for a in args))

    def _hosts(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        return self._page("host", verb, args, options)

    def _users(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        return self._page("user", verb, args, options)

    def _tickets(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        self._check(verb, args, options, "[host= user=]", 0, ("host", "user"))
        return Command(verb, (), self._filters("audit", options))

    def _leases(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        self._check(verb, args, options, "ADDRESS, as in leases i1", 1)
        return Command(verb, (self._one("lease", args[0], verb),))

    def _ask(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        self._check(verb, args, options, "USER " + "|".join(TOPICS), 2)
        topic = self._word(args[1], TOPICS, "ask")
        return Command(verb, (self._one("user", args[0], verb), topic))

    def _wait(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        self._check(verb, args, options, f"MINUTES, as in wait 10m, up to {MAX_WAIT}m", 1)
        minutes = re.fullmatch(r"([0-9]{1,3})m?", args[0], re.ASCII)
        if minutes is None or not 1 <= int(minutes[1]) <= MAX_WAIT:
            raise RefusedError(f"wait takes 1m to {MAX_WAIT}m, as in wait 10m.")
        return Command(verb, (f"{int(minutes[1])}m",))

    def _host(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        self._check(verb, args, options, "HOST", 1)
        return Command(verb, (self._one("host", args[0], verb),))

    _snap = _isolate = _clean = _host

    def _user(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        self._check(verb, args, options, "USER", 1)
        return Command(verb, (self._one("user", args[0], verb),))

    _disable = _rotate = _user

    def _block(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        self._check(verb, args, options, "ADDRESS, as in block x1", 1)
        return Command(verb, (self._one("address", args[0], verb),))

    def _set(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        slots = self.level.slots
        self._check(verb, args, options, " ".join(f"{s}=" for s in slots), 0, slots)
        if not options:
            raise RefusedError(f"set what? Slots are {', '.join(slots)}, as in set entry=h1.")
        order = [s for s in slots if s in options]
        return Command(verb, (), {s: self.slot(s, options[s]) for s in order})

    def slot(self, slot: str, value: str) -> str:
        """The canonical value of a slot.

        Raises:
            RefusedError: it is not one that the slot can have.
        """
        if value == UNKNOWN:
            return value
        if slot == "entry":
            return self._one("host", value, slot)
        if slot == "c2":
            return self._one("address", value, slot)
        if slot in ("path", "accounts"):
            kind = "host" if slot == "path" else "user"
            parts = [self._one(kind, v, slot) for v in re.split(r"[,>]+", value)]
            if len(set(parts)) != len(parts):
                raise RefusedError(f"{slot}: each only once, parted by commas.")
            if kind == "user":
                parts.sort(key=lambda s: int(s[1:]))
            return ",".join(parts)
        if slot == "start":
            minutes = parse_time(value, 0)
            if minutes is None or not value.startswith("t"):
                raise RefusedError("start: a time to the alert, as in start=t-90.")
            return f"t{minutes:+d}"
        return self._word(word_of(slot, value), self.words[slot], slot)

    def _drop(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        self._check(verb, args, options, "SLOT", 1)
        return Command(verb, (self._word(args[0], self.level.slots, verb),))

    def _help(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        topics = (*self.verbs, *self.level.slots)
        self._check(verb, args, options, "[COMMAND or SLOT]", len(args[:1]))
        return Command(verb, tuple(self._word(a, topics, verb) for a in args))

    def _bare(self, verb: str, args: list[str], options: dict[str, str]) -> Command:
        self._check(verb, args, options, "", 0)
        return Command(verb)


def _short(word: str) -> str:
    """A word as an error quotes it."""
    shown = "".join(c if c.isascii() and c.isprintable() else "?" for c in word[:20])
    return repr(shown)


def place_of(text: str) -> int:
    """The number of a handle of a host or an address; `instance.handle` goes the other way."""
    number = int(text[1:]) - 1
    return {"h": 0, "x": ADDRESS, "i": LEASE}[text[0]] + number
