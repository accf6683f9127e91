"""Players of the incident environment. They read what an agent reads, and nothing else.

`expert` knows how to investigate: everything that is nobody's habit and on no ticket. `loud` looks
at the alerted host itself first; `expert_late` begins two hours late; `greedy` takes whatever is
most frequent; `constant` files the same report whatever happened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence

from ftw_agents.agent import History, Reply
from ftw_agents.scripted.case import Case, Line, read_lines
from ftw_envs.incident.chain import IMPACT_ACTS
from ftw_envs.incident.commands import CommandGrammar
from ftw_envs.incident.everyday import PERSONAL
from ftw_envs.incident.families import LOGIN_VECTORS
from ftw_envs.incident.techniques import CAUSE_OF, PERSISTENCE

Play = Generator[str, str, None]

_BY_METHOD = {how: vector for vector, how in LOGIN_VECTORS.items()}
_BY_ACT = {
    "macro": "macro", "download": "link", "consent": "consent", "imds": "metadata",
    "anon": "open-api", "podexec": "pod-escape", "install": "bad-package", "upload": "web-upload",
    "exec": "web-rce",
}  # fmt: skip
_IMPACT_OF = {act: impact for impact, act in IMPACT_ACTS.items()}


def _count(case: Case, query: str) -> Generator[str, str, list[str]]:
    """The values that a count names, most frequent first."""
    reply = yield f"count {query}"
    body = case.body(reply)
    return re.findall(r"([a-z0-9-]+):[0-9]+", body)


def _search(case: Case, query: str) -> Generator[str, str, list[Line]]:
    reply = yield f"search {query}"
    return read_lines(case.body(reply))


def _directory(case: Case) -> Play:
    for verb, learn in (("hosts", case.learn_hosts), ("users", case.learn_users)):
        command: str | None = verb
        while command:
            command = learn(case.body((yield command)))


def _came_from(case: Case, host: str) -> Generator[str, str, list[str]]:
    """Places that somebody logged in to `host` from though nobody does so as a habit.

    The login log is asked first, the host's audit second, and where both are silent the flows,
    which tell hosts but not how: an outside place in them may be anybody.
    """
    places = yield from _count(case, f"auth by=src host={host} act=accept")
    found = yield from _unusual(case, host, places)
    if found or not case.time_for(1):
        return found
    if "audit" in case.sources:
        acts = case.acts[host] = yield from _count(case, f"audit by=act host={host}")
        if "login" in acts and case.time_for(1):
            places = yield from _count(case, f"audit by=src host={host} act=login")
            found = yield from _unusual(case, host, places)
        if found or any(act in _BY_ACT for act in acts):
            return found
    if not case.time_for(2):
        return []
    places = yield from _count(case, f"net by=src host={host} act=conn")
    owners = yield from _owners(case, places, host)
    return [p for p in owners if not case.usual_login(p, host)]


def _unusual(case: Case, host: str, places: Sequence[str]) -> Generator[str, str, list[str]]:
    """Those of the places that nobody comes from as a habit, or on a journey that was announced."""
    found = [p for p in places if not case.usual_login(p, host)]
    if not case.staff or any(p[0] == "h" for p in found):
        return found
    for place in list(found):
        rows = yield from _login(case, host, place)
        if rows:
            tickets = case.body((yield f"tickets user={rows[-1].user}"))
            if re.search(rf"travel {place}$", tickets, re.M):
                found.remove(place)
    return found


def _owners(case: Case, places: Sequence[str], host: str) -> Generator[str, str, list[str]]:
    """Hosts behind leased addresses; one that was its holder at any time may be meant."""
    out: list[str] = []
    for place in places:
        if place[0] != "i":
            out.append(place)
            continue
        if place not in case.leases:
            body = case.body((yield f"leases {place}"))
            case.leases[place] = re.findall(r"t([+-][0-9]+) (h[0-9]+)", body)
        holders = [h for _, h in case.leases[place]]
        if len(set(holders)) == 1:
            out.append(holders[0])
            continue
        rows = yield from _search(case, f"net host={host} src={place} n=12")
        out += [case.holder(place, row.t) for row in rows]
    return list(dict.fromkeys(out))


def _login(case: Case, host: str, place: str) -> Generator[str, str, list[Line]]:
    """The logins on `host` from `place`, as far as any source still has them."""
    if (host, place) in case.logins:
        return case.logins[host, place]
    rows = yield from _search(case, f"auth host={host} src={place} act=accept")
    if not rows and "audit" in case.sources:
        rows = yield from _search(case, f"audit host={host} src={place} act=login")
    case.logins[host, place] = [r for r in rows if not case.habit(r)]
    return case.logins[host, place]


def _walk_back(case: Case) -> Play:
    """From the alerted host to where the attacker came in."""
    current = case.alert_host
    case.path = [current]
    for _ in range(8):
        places = yield from _came_from(case, current)
        inside = [p for p in places if p[0] == "h" and p not in case.path]
        if not inside:
            if len(case.path) > 1 or case.symptom == "persist":
                yield from _way_in(case, current, [p for p in places if p[0] == "x"])
            return
        rows = yield from _login(case, current, inside[0])
        case.take(rows)
        if rows:
            case.first_move = rows[-1]
        case.path.insert(0, inside[0])
        current = inside[0]


def _way_in(case: Case, entry: str, outside: list[str]) -> Play:
    """Which vector opened the entry, and when."""
    case.entry = entry
    for place in outside:
        rows = yield from _login(case, entry, place)
        if not rows:
            continue
        row = rows[-1]
        case.take(rows)
        case.start = row.t
        if row.how:
            case.vector = _BY_METHOD.get(row.how)
            return
        users = yield from _count(case, f"auth by=user host={entry} src={place} act=fail")
        if not users and "audit" in case.sources:
            users = yield from _count(case, f"audit by=user host={entry} src={place} act=badlogin")
        if users:
            case.vector = "ssh-guess" if len(users) == 1 else "stuffing"
        return
    if "vector" not in case.slots or "audit" not in case.sources:
        return
    if entry not in case.acts:
        case.acts[entry] = yield from _count(case, f"audit by=act host={entry}")
    for act in (a for a in _BY_ACT if a in case.acts[entry]):
        rows = yield from _search(case, f"audit host={entry} act={act}")
        personal = act in PERSONAL
        mine = [r for r in rows if (not r.user or personal) and not case.later(r)]
        if mine:
            case.vector, case.start = _BY_ACT[act], mine[-1].t
            if personal:
                case.take(mine)
            return
    move = case.first_move
    user = move.user if move else (case.accounts or [""])[0]
    if user and case.hosts[entry].role == "work":
        case.vector = "insider" if entry in case.users[user].sources else "shared-password"
        case.start = move.t if move else None


def _walk_on(case: Case) -> Play:
    """From the alerted host to where the attacker went next, if he went on."""
    for _ in range(8):
        last = case.path[-1]
        sources = [("auth", "accept"), ("audit", "login"), ("net", "conn")]
        if case.hosts[last].role == "work":  # its address in the flows is leased
            sources.pop()
        new: list[str] = []
        for source, act in (s for s in sources if s[0] in case.sources):
            hosts = yield from _count(case, f"{source} by=host src={last} act={act}")
            new = [h for h in hosts if h not in case.path and not case.usual_login(last, h)]
            if new:
                break
        if not new:
            return
        rows = yield from _login(case, new[0], last)
        case.take(rows)
        case.path.append(new[0])


def _channel(case: Case, host: str) -> Play:
    """The address that implants on `host` talk to."""
    for act in ("large", "beacon"):
        places = yield from _count(case, f"net by=dst host={host} act={act}")
        odd = [p for p in places if p[0] == "x" and p not in case.hosts[host].sends_to]
        if odd:
            case.c2 = odd[0]
            return


def _deeds(case: Case) -> Play:
    """How he would come back and what he did, from what his accounts did on his hosts."""
    for host in reversed(case.path[1:]):
        for user in case.who.get(host) or case.accounts:
            rows = yield from _search(case, f"audit host={host} user={user} n=20")
            odd = [r for r in rows if r.act in PERSISTENCE or r.act in _IMPACT_OF]
            if odd and host in case.users[user].targets:  # then he may have meant it
                tickets = case.body((yield f"tickets host={host} user={user}"))
                odd = [r for r in odd if not case.announced(r, tickets)]
            for r in odd:
                if r.act in PERSISTENCE and case.persist is None:
                    case.persist = r.act
                if r.act in _IMPACT_OF and host == case.path[-1] and case.impact is None:
                    case.impact = _IMPACT_OF[r.act]
        wanted = {"persist": case.persist, "impact": case.impact}
        if all(wanted[s] for s in wanted if s in case.slots) or not case.time_for(2):
            return


def _put_out(case: Case) -> Play:
    """Takes his accounts and his ways back away, on all hosts he was on if that is not too dear."""
    hosts = case.path[1:]
    if case.cost_cap is not None and len(case.accounts) + 2 * len(hosts) > case.cost_cap:
        talking = yield from _count(case, f"net by=host dst={case.c2} act=beacon")
        hosts = [h for h in hosts if h in talking]
    for user in case.accounts:
        yield f"rotate {user}"
    for host in hosts:
        yield f"clean {host}"


def expert(first: str, notes: bool = False) -> Play:
    """Directory, channel, back to the way in, on to the end, what he did; then the report.

    Args:
        notes: the channel goes into the report as soon as it is found.
    """
    case = Case(first)
    yield from _directory(case)
    yield from _channel(case, case.alert_host)
    if notes and case.c2 is not None:
        yield f"set c2={case.c2}"
    if case.c2 is None and "verdict" in case.slots and case.symptom == "flow":
        yield "set verdict=none"
        yield "report"
        return
    yield from _walk_back(case)
    if case.symptom == "persist":
        yield from _walk_on(case)
    if case.c2 is None:
        yield from _channel(case, case.path[-1])
    if "persist" in case.slots or "impact" in case.slots:
        yield from _deeds(case)
    if case.contains:
        yield from _put_out(case)
    yield from case.file(CAUSE_OF)


def expert_notes(first: str) -> Play:
    """The expert, who notes the channel at once: it can be learned where it was concluded."""
    yield from expert(first, notes=True)


def loud(first: str) -> Play:
    """Looks at the alerted host itself before anything else, as a hasty investigator would."""
    case = Case(first)
    for what in ("ps", "net"):
        yield f"inspect {case.alert_host} {what}"
    yield from expert(first)


def expert_late(first: str) -> Play:
    """The expert, who begins two hours late."""
    for _ in range(2):
        yield "wait 60m"
    yield from expert(first)


def greedy(first: str) -> Play:
    """Takes what is most frequent on the alerted host for the answer."""
    case = Case(first)
    host = case.alert_host
    yield from _directory(case)
    c2 = yield from _count(case, f"net by=dst host={host}")
    users = yield from _count(case, f"auth by=user host={host} act=accept")
    places = yield from _count(case, f"auth by=src host={host} act=accept")
    inside = [p for p in places if p[0] == "h" and p != host]
    case.path = [*inside[:1], host]
    case.entry, case.accounts, case.c2 = case.path[0], users[:1], c2[0] if c2 else None
    case.vector = "ssh-guess"
    yield from case.file(CAUSE_OF)


def constant(first: str) -> Play:
    """The same report, whatever happened."""
    case = Case(first)
    case.entry, case.path, case.accounts = "h1", ["h1", "h2"], ["u1"]
    case.c2, case.vector, case.persist, case.impact = "x1", "ssh-guess", "cron", "exfil"
    case.start = -300
    yield from case.file(CAUSE_OF)


PLAYERS: dict[str, Callable[[str], Play]] = {
    "expert": expert,
    "expert_notes": expert_notes,
    "expert_late": expert_late,
    "loud": loud,
    "constant": constant,
}
"""Investigators by name, besides `greedy`, which other environments have too."""


class ScriptAgent:
    """An agent that follows a script in each episode.

    Args:
        script: takes the first observation, yields replies, is sent the observations after them.

    Raises:
        ValueError: from `act`, for an environment that is no incident.
    """

    def __init__(self, script: Callable[[str], Play]) -> None:
        self._script = script
        self._running: dict[History, Play] = {}

    def act(self, histories: Sequence[History]) -> list[Reply]:
        running: dict[History, Play] = {}
        replies = []
        for history in histories:
            play = self._running.get(history)
            seen = history.observations[-1]
            text = seen if isinstance(seen, str) else seen["text"]
            try:
                if play is None:
                    if not isinstance(history.env.grammar, CommandGrammar):
                        kind = type(history.env).__name__
                        raise ValueError(f"this player investigates incidents, not {kind}")
                    play = self._script(text)
                    reply = next(play)
                else:
                    reply = play.send(text)
            except StopIteration:  # the script is at its end, the episode is not
                play = _reports()
                reply = next(play)
            running[history] = play
            replies.append(Reply(reply))
        self._running = running
        return replies


def _reports() -> Play:
    while True:
        yield "report"
