"""What `help` says, and the task text: what the slots mean and what the words stand for."""

from __future__ import annotations

from ftw_envs.incident.levels import Level
from ftw_envs.incident.log import ACTS
from ftw_envs.incident.techniques import CAUSES, IMPACTS, PERSISTENCE, VECTORS

SLOT_TEXT = {
    "entry": "the host where the attacker came in",
    "path": "the hosts in the order he took them, from the entry, as in path=h2,h7",
    "accounts": "the accounts he used, as in accounts=u5",
    "vector": "how he came in: " + " ".join(VECTORS),
    "c2": "the outside address that his implants talk to",
    "persist": "how he would come back: " + " ".join(PERSISTENCE),
    "verdict": "incident, or none if the alert is false (then no other slot)",
    "start": "when he came in (or first went where he had no business), as in start=t-90",
    "cause": "what let him in: " + "; ".join(f"{c} ({' '.join(v)})" for c, v in CAUSES.items()),
    "impact": "what he did in the end: " + " ".join(IMPACTS),
}
VERB_TEXT = {
    "search": "search SOURCE [host= user= src= dst= act= how= since=90m until=30m n=6]: newest",
    "count": "count SOURCE by=host|user|src|dst|act [filters]",
    "inspect": "inspect HOST ps|net|cron|keys|files|logins: live; the attacker may notice",
    "raw": "raw ROW: the whole line of a row, as in raw r1",
    "hosts": "hosts: roles, and the addresses each sends to as a habit",
    "users": "users: kinds, and from>to where each logs in as a habit",
    "tickets": "tickets [host= user=]: what staff announced",
    "snap": "snap HOST: keeps what its logs hold now",
    "leases": "leases ADDRESS: which host had i1 .. when",
    "ask": "ask USER logins|travel",
    "isolate": "isolate HOST: cuts it off",
    "disable": "disable USER",
    "block": "block ADDRESS",
    "rotate": "rotate USER: new keys and passwords",
    "clean": "clean HOST: removes ways back and patches",
    "wait": "wait MINUTES, as in wait 10m",
    "set": "set SLOT=VALUE ...: fills the report; unknown is a value",
    "drop": "drop SLOT",
    "report": "report: files it, which is the end",
    "help": "help [COMMAND or SLOT]",
}


def guide(level: Level, topic: str | None) -> str:
    """One line of help; without a topic, how logs are read."""
    if topic is None:
        return (
            "Logins: u= who, s= from, m= how (password if not told). Flows: d= to. "
            "What is nobody's habit and on no ticket is suspicious. help search ..."
        )
    if topic in SLOT_TEXT and topic in level.slots:
        return f"{topic}: {SLOT_TEXT[topic]}"
    text = VERB_TEXT[topic]
    if topic in ("search", "count"):
        text += ". Acts: " + "; ".join(f"{s} {' '.join(ACTS[s])}" for s in level.sources)
    return text


def brief(level: Level, alert: str, hosts: int, users: int, verbs: tuple[str, ...]) -> str:
    """The first observation for those who know the task: names, limits, and nothing explained."""
    cap = "" if level.cost_cap is None else f" The damage may be {level.cost_cap} at most."
    return (
        f"ALERT t+0: {alert}. Hosts h1 to h{hosts}, accounts u1 to u{users}, outside x1 to "
        f"x{level.addresses}. Logs: {', '.join(level.sources)}. "
        f"You have {level.steps} commands and {level.minutes} minutes.{cap}\n"
        f"The report needs: {', '.join(level.slots)}\nCommands: {', '.join(verbs)}"
    )


def task(level: Level, alert: str, hosts: int, users: int, verbs: tuple[str, ...]) -> str:
    """The first observation, with what is to be done and how."""
    lines = [
        f"ALERT t+0: {alert}. Find out what happened on this network and report it.",
        f"There are hosts h1 to h{hosts}, accounts u1 to u{users}, addresses outside x1 to "
        f"x{level.addresses}; times are minutes to the alert.",
        f"Logs: {', '.join(level.sources)}. The world moves on and an attempt cannot be repeated.",
        f"You have {level.steps} commands and {level.minutes} minutes.",
        "The report needs:",
        *(f"{slot}: {SLOT_TEXT[slot]}" for slot in level.slots),
    ]
    if level.reacts:
        lines.append("At the end the attacker must have no way back.")
    if level.cost_cap is not None:
        lines.append(f"Cutting off costs; the damage may be {level.cost_cap} at most.")
    lines += ["Commands:", *(VERB_TEXT[v] for v in verbs), "Answer with one command."]
    return "\n".join(lines)
