"""The evaluation server: an `Exam` over HTTP, JSON in and out.

Requests are POST with `Authorization: Bearer TOKEN`: /reset, /step, /tokens and /status; GET /
tells how long the log is and the hash of its end, to anybody. Bodies are `_Reset`, `_Step`,
`_Tokens` and `_Status`. It has no encryption of its own: it listens to this machine only, unless
it is told otherwise, and belongs behind a proxy that speaks TLS.

It is meant to stand strangers: bodies are small and read strictly, a connection that takes too
long is cut, there are so many connections at a time and no more, and every participant has a
rate.
"""

from __future__ import annotations

import hmac
import json
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from leaderboards.exam import Answer, Exam, RefusedError
from leaderboards.schema import Count
from leaderboards.strict import StrictError, loads

MAX_BODY = 1 << 18
"""Bytes of a request: room for the longest reply that counts, however it is written."""

_DRAIN = 1 << 24

STRANGERS = 5.0
"""Requests a second that are answered to all without a token together."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Reset(_Strict):
    """Begins an attempt; `key` is 32 hex digits of the client's choice, new for each."""

    run: Count
    place: Count
    key: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class _Step(_Strict):
    """Answers turn `turn`, counted from 0, of an attempt."""

    run: Count
    place: Count
    turn: Count
    reply: str


class _Tokens(_Strict):
    """Tells what an attempt took that has ended."""

    run: Count
    place: Count
    tokens_in: Annotated[int, Field(ge=0, le=10**9)]
    tokens_out: Annotated[int, Field(ge=0, le=10**9)]


class _Status(_Strict):
    """Asks how far a run has come."""

    run: Count


_BODIES: dict[str, type[_Strict]] = {
    "/reset": _Reset, "/step": _Step, "/tokens": _Tokens, "/status": _Status,
}  # fmt: skip


class _Rate:
    """So many requests a second, and for a moment ten times as many."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate, self._clock = rate, clock
        self._left, self._at = 10 * rate, clock()

    def wait(self) -> float:
        """Takes one request; returns 0, or the seconds after which there is room for one."""
        now = self._clock()
        self._left = min(10 * self._rate, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0


class ExamServer(ThreadingHTTPServer):
    """Serves an exam.

    Args:
        tokens: by participant.
        address: host and port; port 0 takes a free one.
        rate: requests a second of a participant.
        seconds: that a request may take to come in, and a connection may be silent.
        connections: at a time.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        exam: Exam,
        tokens: dict[str, str],
        address: tuple[str, int] = ("127.0.0.1", 0),
        *,
        rate: float = 200.0,
        seconds: float = 30.0,
        connections: int = 128,
    ) -> None:
        self.exam, self.seconds, self._most = exam, seconds, connections
        self._tokens = {slug: _digest(token) for slug, token in tokens.items()}
        self._rates = {slug: _Rate(rate, time.monotonic) for slug in tokens}
        self._strangers = _Rate(STRANGERS, time.monotonic)
        self._lock = Lock()
        self._since: dict[socket.socket, float] = {}
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """Where it can be reached from this machine."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def crowded(self) -> bool:
        """Whether strangers ask too much; else this one is counted."""
        with self._lock:
            return self._strangers.wait() > 0

    def answer(self, path: str, token: str, data: bytes) -> Answer:
        """The answer to a request.

        Raises:
            RefusedError: it is refused, and that was taken down.
        """
        slug = self._who(token)
        with self._lock:
            wait = (self._strangers if slug is None else self._rates[slug]).wait()
        if wait:  # not taken down: a flood must not fill the log
            raise RefusedError(429, f"too many requests; wait {wait:.2f} s")
        try:
            if slug is None:
                raise RefusedError(401, "no such token")
            return self._do(slug, path, data)
        except RefusedError as e:
            self.exam.refuse(slug, f"{path[:40]}: {e}")
            raise

    def _do(self, slug: str, path: str, data: bytes) -> Answer:
        if path not in _BODIES:
            raise RefusedError(404, f"there is no {path[:40]!a}; there are {', '.join(_BODIES)}")
        try:
            body: Any = _BODIES[path].model_validate(loads(data, "body", MAX_BODY))
        except StrictError as e:
            raise RefusedError(400, str(e)) from None
        except ValidationError as e:
            first = e.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise RefusedError(400, f"body: {place[:80]!a}: {first['msg']}") from None
        do: Callable[..., Answer] = getattr(self.exam, path[1:])
        return do(slug, **body.model_dump())

    def _who(self, token: str) -> str | None:
        """Whose token it is; takes as long whoever's it is, or nobody's."""
        told, found = _digest(token), None
        for slug, known in self._tokens.items():
            if hmac.compare_digest(told, known):
                found = slug
        return found

    # Connections.

    def process_request(self, request: Any, client_address: Any) -> None:
        """Takes a connection, or cuts it if there are too many."""
        with self._lock:
            full = len(self._since) >= self._most
            if not full:
                self._since[request] = time.monotonic()
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def heard(self, request: Any) -> None:
        """A request was answered: the time of the next one begins."""
        with self._lock:
            self._since[request] = time.monotonic()

    def shutdown_request(self, request: Any) -> None:
        """Ends a connection."""
        with self._lock:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cuts connections that take too long, however busily they send byte after byte."""
        self._cut(time.monotonic() - self.seconds)

    def server_close(self) -> None:
        """Ends all connections."""
        super().server_close()
        self._cut(float("inf"))

    def _cut(self, before: float) -> None:
        """Cuts connections whose request began before that time."""
        with self._lock:
            for request in [r for r, since in self._since.items() if since < before]:
                self._since[request] = float("inf")  # its thread does the rest
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says in one line what went wrong with a connection; nothing if the other side left."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            print(f"ftw round serve: {type(error).__name__}: {error}", file=sys.stderr)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "replace")).digest()


class _Handler(BaseHTTPRequestHandler):
    server: ExamServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "ftw-round", ""
    wbufsize = -1  # head and body in one packet
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.seconds)

    def do_GET(self) -> None:
        if self.path != "/" or self.server.crowded():
            known = self.path == "/"
            self._send(429 if known else 404, {"error": "later" if known else "there is only /"})
            return
        lines, head = self.server.exam.head
        self._send(200, {"round": self.server.exam.round.name, "lines": lines, "head": head})

    def do_POST(self) -> None:
        data = self._body()
        if data is None:
            return
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        try:
            answer = self.server.answer(self.path, token if scheme == "Bearer" else "", data)
        except RefusedError as e:
            self._send(e.status, {"error": str(e)})
        except Exception as e:  # a fault of ours must not cut the connection of others
            print(f"ftw round serve: {type(e).__name__}: {e}", file=sys.stderr)
            self._send(500, {"error": "a fault of the server; the organiser has to look"})
        else:
            self._send(200, answer)

    def _body(self) -> bytes | None:
        """The body of a request; None if it was refused unread, which ends the connection."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not (length.isascii() and length.isdigit()):
            status, why = 411, "say Content-Length, once, and send the body in one piece"
        elif len(self.headers.get_all("Content-Length", [])) != 1:
            status, why = 400, "Content-Length stands there twice"
        elif len(length) > 9 or int(length) > MAX_BODY:
            status, why = 413, f"a body has at most {MAX_BODY} bytes"
            left = int(length[:9])  # who is still sending cannot listen; not for ever, though
            while 0 < left <= _DRAIN and (piece := self.rfile.read(min(left, 1 << 16))):
                left -= len(piece)
        else:
            data = self.rfile.read(int(length))
            if len(data) == int(length):
                return data
            status, why = 400, "the body is shorter than Content-Length"
        self.close_connection = True
        self._send(status, {"error": why})
        return None

    def _send(self, status: int, answer: Answer) -> None:
        body = json.dumps(answer, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.server.heard(self.request)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what matters is in the log of the round."""
