"""ATT&CK techniques of the scenarios, pinned to one version, and the words reports use for them.

Ids are those of MITRE ATT&CK Enterprise v19 (2026), which renamed "Impair Defenses" T1562 to
T1685. `RENAMED` maps ids of earlier versions, so that a report may use either.
"""

from __future__ import annotations

ATTACK_VERSION = "v19"

RENAMED = {
    "T1562": "T1685",
    "T1562.001": "T1685",
    "T1562.008": "T1685.002",
    "T1562.012": "T1685.004",
    "T1070.001": "T1685.005",
    "T1070.002": "T1685.006",
    "T1562.004": "T1686",
}

VECTORS = {
    "ssh-guess": "T1110.001",
    "stuffing": "T1110.004",
    "web-rce": "T1190",
    "web-upload": "T1505.003",
    "stolen-key": "T1078.004",
    "metadata": "T1552.005",
    "open-api": "T1133",
    "pod-escape": "T1611",
    "macro": "T1204.002",
    "link": "T1566.002",
    "insider": "T1078",
    "shared-password": "T1078.002",
    "bad-package": "T1195.002",
    "ci-token": "T1552.001",
    "mfa-push": "T1621",
    "token-theft": "T1539",
    "consent": "T1528",
}
"""How the attacker came in, with its technique."""

PERSISTENCE = {
    "cron": "T1053.003",
    "key": "T1098.004",
    "unit": "T1543.002",
    "useradd": "T1136.001",
    "webshell": "T1505.003",
    "newkey": "T1098.001",
    "pod": "T1610",
    "service": "T1543.003",
    "task": "T1053.005",
    "mailrule": "T1114.003",
}
"""How the attacker would come back, with its technique."""

IMPACTS = {
    "exfil": "T1041",
    "dump": "T1005",
    "encrypt": "T1486",
    "mine": "T1496",
    "share": "T1537",
    "mail": "T1114",
}
"""What the attacker did in the end, with its technique."""

CAUSES = {
    "weak-password": ("ssh-guess", "stuffing", "shared-password"),
    "unpatched": ("web-rce", "web-upload", "pod-escape"),
    "open-service": ("open-api", "metadata"),
    "leaked-key": ("stolen-key", "ci-token", "token-theft"),
    "tricked-user": ("macro", "link", "mfa-push", "consent"),
    "third-party": ("bad-package",),
    "malice": ("insider",),
}
"""What made the way in possible, by the vectors it goes with."""

CAUSE_OF = {vector: cause for cause, vectors in CAUSES.items() for vector in vectors}


def _by_id(table: dict[str, str]) -> dict[str, str]:
    return {number.casefold(): word for word, number in table.items()}


_WORDS = {"vector": _by_id(VECTORS), "persist": _by_id(PERSISTENCE), "impact": _by_id(IMPACTS)}


def word_of(slot: str, value: str) -> str:
    """The word that `slot` uses for `value`, which may be a technique id of any version.

    A value that is no id of the slot's techniques comes back as it is.
    """
    number = RENAMED.get(value.upper(), value.upper()).casefold()
    return _WORDS.get(slot, {}).get(number, value)
