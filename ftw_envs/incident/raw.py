"""The whole line behind a row, in the format of the program that would have written it.

Formats: OpenSSH 9 and auditd 3 on Linux, nginx access logs, PostgreSQL 16, Windows Security events
as JSON, AWS CloudTrail, Kubernetes audit, Zeek conn logs. Addresses are from the ranges kept for
documentation (RFC 5737) and private networks. Numbers such as ports and process ids are drawn
from a stream of the row's own, so they tell nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from ftw_envs.incident.instance import ADDRESS, LEASE
from ftw_envs.incident.levels import SOURCES
from ftw_envs.incident.log import ACT_NAMES, HOWS
from ftw_envs.incident.world import World
from ftw_envs.streams import Stream

_EPOCH = datetime(2026, 2, 2, tzinfo=UTC)
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905
_COMMANDS = {
    "sudo": ("/usr/bin/id", "/usr/bin/systemctl status", "/usr/bin/cat /var/log/secure"),
    "exec": ("/usr/bin/sh -c id", "/usr/bin/curl -s", "/usr/bin/python3 -"),
    "read": ("/usr/bin/cat /etc/app/secrets.env", "/usr/bin/grep -r password /srv"),
    "upload": ("/usr/bin/tee /srv/www/upload/a.php",),
    "webshell": ("/usr/bin/tee /srv/www/img/x.php",),
    "archive": ("/usr/bin/tar czf /tmp/.a.tgz /srv/data",),
    "dump": ("/usr/bin/pg_dump app",),
    "encrypt": ("/usr/bin/openssl enc -aes-256-cbc -in /srv/data",),
    "mine": ("/tmp/.x --pool",),
    "install": ("/usr/bin/pip install -r requirements.txt",),
    "imds": ("/usr/bin/curl -s http://169.254.169.254/latest/meta-data/iam/",),
    "share": ("/usr/bin/aws s3api put-object-acl",),
    "mail": ("/usr/bin/doveadm fetch text",),
    "mailrule": ("/usr/bin/doveadm sieve put",),
    "cron": ("/usr/bin/crontab -",),
    "anon": ("/usr/bin/kubectl get secrets",),
    "podexec": ("/usr/bin/nsenter -t 1 -m",),
    "pod": ("/usr/bin/kubectl run",),
}
_WINDOWS = {
    "accept": 4624, "fail": 4625, "login": 4624, "badlogin": 4625, "service": 7045, "task": 4698,
    "useradd": 4720, "reset": 4724, "push": 4648,
}  # fmt: skip
_CLOUD = {
    "describe": "DescribeInstances", "call": "AssumeRole", "newkey": "CreateAccessKey",
    "share": "ModifySnapshotAttribute", "accept": "ConsoleLogin", "fail": "ConsoleLogin",
}  # fmt: skip
_K8S = {
    "lease": ("update", "leases"), "list": ("list", "secrets"), "podexec": ("create", "pods/exec"),
    "pod": ("create", "pods"), "deny": ("list", "secrets"),
}  # fmt: skip


class _Row:
    """A row with its names and numbers at hand."""

    def __init__(self, world: World, i: int) -> None:
        log = world.log
        self.world = world
        self.source, self.act = SOURCES[log.source[i]], ACT_NAMES[log.act[i]]
        self.host, self.user = int(log.host[i]), int(log.user[i])
        self.src, self.dst, self.how = int(log.src[i]), int(log.dst[i]), HOWS[log.how[i]]
        self.dice = Stream("incident-raw", world.incident.hash, int(log.uid[i]))
        day = int(world.incident.hash[:4], 16) % 300
        noon = int(world.incident.hash[4:8], 16) % 86_400
        shift = world.skew[self.host]
        self.time = _EPOCH + timedelta(days=day, seconds=noon + int(log.t[i]) + shift)

    @property
    def name(self) -> str:
        return self.world.incident.hosts[self.host].name

    @property
    def who(self) -> str:
        return self.world.incident.users[self.user].name if self.user >= 0 else "www-data"

    @property
    def syslog_time(self) -> str:
        t = self.time
        return f"{_MONTHS[t.month - 1]} {t.day:2d} {t:%H:%M:%S}"

    @property
    def iso(self) -> str:
        return f"{self.time:%Y-%m-%dT%H:%M:%SZ}"

    @property
    def pid(self) -> int:
        return 1000 + self.dice.integer(30_000)

    @property
    def port(self) -> int:
        return 32_768 + self.dice.integer(28_000)

    def ip(self, place: int) -> str:
        """The address of a place, a dash for nowhere."""
        if place >= LEASE:
            return f"10.0.9.{place - LEASE + 1}"
        if place >= ADDRESS:
            return f"{('192.0.2', '198.51.100', '203.0.113')[place % 3]}.{10 + place - ADDRESS}"
        return f"10.0.1.{place + 1}" if place >= 0 else "-"


def raw_line(world: World, i: int) -> str:
    """Row `i` of the log as its program would have written it; one line."""
    row = _Row(world, i)
    platform = world.incident.hosts[row.host].platform
    if row.source in ("auth", "audit"):
        kinds = {"windows": _windows, "cloud": _cloudtrail}
        write: Callable[[_Row], str] = kinds.get(
            platform, _auth if row.source == "auth" else _audit
        )
    else:
        write = {"net": _zeek, "web": _nginx, "db": _postgres, "cloud": _cloudtrail,
                 "k8s": _kubernetes}[row.source]  # fmt: skip
    return write(row)


def _auth(row: _Row) -> str:
    head = f"{row.syslog_time} {row.name} sshd[{row.pid}]: "
    origin = f"from {row.ip(row.src)} port {row.port} ssh2"
    if row.act == "fail":
        return f"{head}Failed password for {row.who} {origin}"
    if row.act == "push":
        return f"{head}pam_duo(sshd:auth): push sent to {row.who} from {row.ip(row.src)}, denied"
    if row.act == "reset":
        return f"{row.syslog_time} {row.name} passwd[{row.pid}]: password for {row.who} changed"
    method = {"key": "publickey", "token": "publickey", "mfa": "keyboard-interactive/pam"}.get(
        row.how, "password"
    )
    return f"{head}Accepted {method} for {row.who} {origin}"


def _audit(row: _Row) -> str:
    stamp = f"msg=audit({int(row.time.timestamp())}.{row.dice.integer(1000):03d}:{row.pid})"
    uid = 1000 + row.user if row.user >= 0 else 33
    if row.act in ("login", "badlogin"):
        result = "success" if row.act == "login" else "failed"
        return (
            f"type=USER_LOGIN {stamp}: pid={row.pid} uid=0 auid={uid} ses={row.dice.integer(999)} "
            f'op=login acct="{row.who}" exe="/usr/sbin/sshd" hostname=? addr={row.ip(row.src)} '
            f"terminal=ssh res={result}"
        )
    if row.act == "update":
        return f'type=SOFTWARE_UPDATE {stamp}: pid={row.pid} uid=0 sw="openssl-3.2.2" res=1'
    if row.act == "restart":
        return f'type=SYSTEM_BOOT {stamp}: pid={row.pid} uid=0 comm="systemd-update-utmp" res=1'
    if row.act == "config":
        return f'type=CONFIG_CHANGE {stamp}: auid={uid} op=add_rule key="base" list=4 res=1'
    if row.act == "useradd":
        return f"type=ADD_USER {stamp}: pid={row.pid} uid=0 auid={uid} op=adding user id={row.port}"
    files = {"key": f"/home/{row.who}/.ssh/authorized_keys",
             "unit": "/etc/systemd/system/up.service",
             "newkey": f"/home/{row.who}/.aws/credentials"}  # fmt: skip
    if row.act in files:
        return f'type=PATH {stamp}: item=1 name="{files[row.act]}" nametype=CREATE ouid={uid}'
    command = row.dice.choice(_COMMANDS.get(row.act, (f"/usr/bin/{row.act}",)))
    exe = command.split(" ")[0]
    return (
        f"type=SYSCALL {stamp}: arch=c000003e syscall=59 success=yes exit=0 ppid={row.pid} "
        f"pid={row.pid} auid={uid} uid={uid if row.act != 'sudo' else 0} "
        f'comm="{exe.rsplit("/", 1)[-1]}" exe="{exe}" proctitle={command.encode().hex()}'
    )


def _windows(row: _Row) -> str:
    event = _WINDOWS.get(row.act, 4688)
    data: dict[str, Any] = {
        "EventID": event, "TimeCreated": row.iso, "Computer": f"{row.name.upper()}.corp.example",
        "TargetUserName": row.who, "TargetLogonId": hex(0x10000 + row.pid),
    }  # fmt: skip
    if event in (4624, 4625, 4648):
        inside = row.src == row.host
        data |= {"LogonType": 2 if inside else 3, "IpAddress": "-" if inside else row.ip(row.src)}
        data |= {"FailureReason": "%%2313"} if event == 4625 else {}
    elif event == 7045:
        data |= {"ServiceName": "PSEXESVC", "ImagePath": "%SystemRoot%\\PSEXESVC.exe"}
    elif event == 4698:
        data |= {"TaskName": "\\Updater"}
    elif event == 4688:
        parent = {"macro": "WINWORD.EXE", "download": "chrome.exe"}.get(row.act, "explorer.exe")
        data |= {
            "NewProcessName": f"C:\\Windows\\System32\\{row.act}.exe",
            "ParentProcessName": parent,
        }
    return json.dumps(data)


def _cloudtrail(row: _Row) -> str:
    data: dict[str, Any] = {
        "eventVersion": "1.11", "eventTime": row.iso, "eventSource": "ec2.amazonaws.com",
        "eventName": _CLOUD.get(row.act, row.act.capitalize()), "awsRegion": "eu-central-1",
        "sourceIPAddress": row.ip(row.src),
        "userIdentity": {"type": "IAMUser", "userName": row.who},
        "eventID": f"{row.dice.word():016x}",
    }  # fmt: skip
    if row.act in ("fail", "badlogin"):
        data["errorMessage"] = "Failed authentication"
    if row.act == "accept":
        data["additionalEventData"] = {"MFAUsed": "Yes" if row.how == "mfa" else "No"}
    return json.dumps(data)


def _kubernetes(row: _Row) -> str:
    verb, resource = _K8S[row.act]
    outside = row.src >= ADDRESS
    user = "system:anonymous" if outside else "system:node:" + row.name
    return json.dumps({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
        "auditID": f"{row.dice.word():016x}", "stage": "ResponseComplete", "verb": verb,
        "user": {"username": user}, "sourceIPs": [row.ip(row.src)],
        "objectRef": {"resource": resource, "namespace": "default"},
        "responseStatus": {"code": 403 if row.act == "deny" else 200},
        "requestReceivedTimestamp": row.iso,
    })  # fmt: skip


def _zeek(row: _Row) -> str:
    inward = row.dst < 0
    pair = (row.src, row.host) if inward else (row.host, row.dst)
    service, port = ("ssh", 22) if row.act == "conn" else ("ssl", 443)
    sizes = {"large": 10**8, "out": 10**4, "beacon": 600}
    size = sizes.get(row.act, 5000) + row.dice.integer(500)
    fields = [
        f"{row.time.timestamp():.6f}", f"C{row.dice.word():016x}", row.ip(pair[0]), row.port,
        row.ip(pair[1]), port, "tcp", service, f"{0.1 + row.dice.integer(900) / 10:.1f}", size,
        1000 + row.dice.integer(4000), "SF",
    ]  # fmt: skip
    return " ".join(str(f) for f in fields)


def _nginx(row: _Row) -> str:
    t = row.time
    stamp = f"{t.day:02d}/{_MONTHS[t.month - 1]}/{t:%Y:%H:%M:%S} +0000"
    method, path, status = {
        "get": ("GET", row.dice.choice(("/", "/login", "/api/items", "/static/app.js")), 200),
        "post": ("POST", "/api/upload", 200),
        "error": ("GET", row.dice.choice(("/.env", "/wp-login.php", "/..%2f..%2fetc/passwd")), 404),
    }[row.act]
    return (
        f'{row.ip(row.src)} - - [{stamp}] "{method} {path} HTTP/1.1" {status} '
        f'{200 + row.dice.integer(9000)} "-" "Mozilla/5.0"'
    )


def _postgres(row: _Row) -> str:
    head = f"{row.time:%Y-%m-%d %H:%M:%S} UTC:{row.ip(row.host)}({row.port}):"
    head += f"{row.who}@app:[{row.pid}]:"
    text = {
        "query": "LOG:  statement: SELECT id, name FROM items WHERE id = 7",
        "dump": "LOG:  statement: COPY public.accounts TO stdout",
        "error": 'ERROR:  column "wrong" does not exist at character 8',
    }[row.act]
    return head + text
