"""The scenario families: small attack graphs, in which every step has alternatives.

A family says where attacks of its kind start and end, how they may come in, stay and harm. A
scenario takes one alternative at each step, so the path, the vector, the way to stay and the
harm are choices, and no constant answer is right.

F0 is the family without an incident: the alert was raised by something harmless.
"""

from __future__ import annotations

from dataclasses import dataclass

LOGIN_VECTORS = {
    "ssh-guess": "password",
    "stuffing": "password",
    "stolen-key": "key",
    "ci-token": "token",
    "mfa-push": "mfa",
    "token-theft": "session",
}
"""Vectors that come in by logging in from outside, and the method of the login."""

LOCAL_VECTORS = {
    "web-rce": ("exec", "inbound", ("web", "post")),
    "web-upload": ("upload", "inbound", ("web", "post")),
    "metadata": ("imds", "inbound", ("cloud", "call")),
    "open-api": ("anon", "inbound", ("k8s", "list")),
    "pod-escape": ("podexec", "inbound", ("k8s", "podexec")),
    "macro": ("macro", "out", None),
    "link": ("download", "out", None),
    "bad-package": ("install", "out", None),
    "consent": ("consent", "out", None),
}
"""Vectors without a login: the row in audit, the flow, and the row in a third source."""

INSIDE_VECTORS = ("insider", "shared-password")
"""Vectors of people who are inside already."""

SERVICE_VECTORS = ("web-rce", "web-upload", "metadata", "open-api", "pod-escape", "bad-package")
"""Vectors whose first act is a service account's, not a person's."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of attack.

    Attributes:
        name: "F1" ... "F8".
        title: what it is, in words.
        entries: roles of the host it starts on.
        targets: roles of the host it ends on.
        vectors, persistence, impacts: the alternatives (words of `techniques`).
    """

    name: str
    title: str
    entries: tuple[str, ...]
    targets: tuple[str, ...]
    vectors: tuple[str, ...]
    persistence: tuple[str, ...]
    impacts: tuple[str, ...]


FAMILIES = (
    Family(
        "F1", "passwords guessed over SSH", ("bastion", "web", "ci"), ("db", "files", "backup"),
        ("ssh-guess", "stuffing"), ("cron", "key", "unit"), ("exfil", "encrypt"),
    ),
    Family(
        "F2", "a web application broken into", ("web", "app"), ("db", "files"),
        ("web-rce", "web-upload"), ("webshell", "cron"), ("dump", "exfil"),
    ),
    Family(
        "F3", "a cloud key stolen", ("cloud", "web"), ("files", "db", "cloud"),
        ("stolen-key", "metadata"), ("newkey", "useradd"), ("share", "exfil"),
    ),
    Family(
        "F4", "a container escaped from", ("node", "app"), ("node", "db"),
        ("open-api", "pod-escape"), ("pod", "cron"), ("mine", "exfil"),
    ),
    Family(
        "F5", "a workstation phished", ("work",), ("dc", "files"),
        ("macro", "link"), ("service", "task"), ("encrypt", "exfil"),
    ),
    Family(
        "F6", "an insider", ("work",), ("files", "db"),
        ("insider", "shared-password"), ("key", "task"), ("exfil", "share"),
    ),
    Family(
        "F7", "the build poisoned", ("ci",), ("db", "web", "app"),
        ("bad-package", "ci-token"), ("key", "useradd"), ("exfil", "mine"),
    ),
    Family(
        "F8", "an identity taken over", ("bastion", "mail"), ("mail", "files"),
        ("mfa-push", "token-theft", "consent"), ("mailrule", "newkey"), ("mail", "exfil"),
    ),
)  # fmt: skip

HELD_OUT = ("F3", "F6", "F8")
"""Families that occur in the split test_family only."""
