"""Plays on an evaluation server: its attempts as environments that any agent can play."""

from __future__ import annotations

import http.client
import json
import re
import secrets
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlsplit

from ftw_agents.starts import Start
from ftw_envs.actions import MAX_REPLY_CHARS
from ftw_envs.text_env import EpisodeEnv
from leaderboards.boards import board_of, open_env

_TIMEOUT = 60.0
_MAX_ANSWER = 1 << 22
_AGAIN = (429, 503)
_ENDED = 410


class RemoteError(ValueError):
    """A server that cannot be reached, or does not take what was asked; one line.

    Attributes:
        status: what HTTP says of it; 0 if nothing came back.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server:
    """The connection of one run to an evaluation server.

    What got no answer is asked again: the server answers the same to the same.

    Args:
        url: http://host:port or https://host[:port].
        token: of the participant.
        run: training run that plays.
        patience: seconds for which a request is tried.

    Raises:
        ValueError: the URL or the token is of another kind.
    """

    def __init__(self, url: str, token: str, run: int, patience: float = 120.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in "/":
            raise ValueError(f"a server is http://host:port or https://host, got {url!r}")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else (
            http.client.HTTPConnection
        )  # fmt: skip
        if not re.fullmatch(r"[A-Za-z0-9_-]+", token):  # and is not shown
            raise ValueError("a token is made of letters, digits, '_' and '-'")
        self._connection = kind(parts.hostname, parts.port, timeout=_TIMEOUT)
        self._head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.url, self.run, self.patience = url, run, patience

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def ask(self, path: str, **body: Any) -> dict[str, Any]:
        """What the server answers.

        Raises:
            RemoteError: it refuses, or could not be reached for `patience` seconds.
        """
        data = json.dumps({"run": self.run, **body}).encode()
        until, pause = time.monotonic() + self.patience, 0.05
        while True:
            status, answer = self._try(path, data)
            if status == 200:
                return answer
            error = RemoteError(status, f"{self.url}{path}: {answer.get('error', answer)}")
            if (status and status not in _AGAIN) or time.monotonic() + pause > until:
                raise error
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    def _try(self, path: str, data: bytes) -> tuple[int, dict[str, Any]]:
        try:
            self._connection.request("POST", path, data, self._head)
            response = self._connection.getresponse()
            answer = json.loads(response.read(_MAX_ANSWER))
        except (OSError, http.client.HTTPException, ValueError) as e:
            self._connection.close()
            return 0, {"error": f"no answer ({type(e).__name__}: {e})"}
        if not isinstance(answer, dict):
            return 0, {"error": "an answer that is no object"}
        return response.status, answer


class RemoteEnv:
    """An attempt on a server, as `Collector` plays an `EpisodeEnv`.

    Instances are places, from 0; which instance stands there is not told. Nor is what a reply
    was taken for: `last_action` is None, and the agent sees it in the next observation.

    Args:
        server: where it is.
        board, view: what is played, as in an entry.
    """

    last_action = None

    def __init__(self, server: Server, board: str, view: list[str]) -> None:
        self._server = server
        # An instance of training has the same commands, which is all that is asked of it.
        self._like = open_env(board_of(board), view)
        self._like.reset(seed=0)
        self.action_space, self.env_version = self._like.action_space, self._like.env_version
        self._place = self._turn = 0

    @property
    def grammar(self) -> Any:
        """The answers that the board's instances take, for players that choose blindly."""
        return self._like.grammar

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begins the attempt at place `options["index"]`; the seed is the server's own affair."""
        self._place, self._turn = (options or {})["index"], 0
        answer = self._server.ask("/reset", place=self._place, key=secrets.token_hex(16))
        return answer["observation"], self._info(answer)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes a reply; an attempt that the server has given up has ended unsolved."""
        reply = action[: MAX_REPLY_CHARS + 1]
        try:
            answer = self._server.ask("/step", place=self._place, turn=self._turn, reply=reply)
        except RemoteError as e:
            if e.status != _ENDED:
                raise
            answer = {"observation": "", "end": "time_limit", "solved": False, "score": 0.0}
        self._turn += 1
        info = self._info(answer)
        reward = info["score"] if info["end"] else 0.0
        cut = info["end"] == "time_limit"
        return answer["observation"], reward, bool(info["end"]) and not cut, cut, info

    def _info(self, answer: dict[str, Any]) -> dict[str, Any]:
        return {
            "instance": {"split": "sealed", "index": self._place, "hash": ""},
            "env_version": self.env_version,
            "score": float(answer.get("score", 0.0)),
            "solved": bool(answer.get("solved", False)),
            "end": answer["end"],
        }


def remote_envs(server: Server) -> tuple[Callable[[], EpisodeEnv], list[Start]]:
    """How to make environments on a server, and what is left to be played there.

    Attempts that are open were begun by a player that is gone: they are ended, with empty
    replies.
    """
    status = server.ask("/status")
    for place, turn in status["open"].items():
        _give_up(server, int(place), turn)
    begun = {*status["open"], *status["ended"]}
    left = [Start("sealed", i, 0) for i in range(status["episodes"]) if str(i) not in begun]

    def new() -> EpisodeEnv:
        return cast(EpisodeEnv, RemoteEnv(server, status["board"], status["view"]))

    return new, left


def _give_up(server: Server, place: int, turn: int) -> None:
    end = ""
    while not end:
        try:
            end = server.ask("/step", place=place, turn=turn, reply="")["end"]
        except RemoteError as e:
            if e.status != _ENDED:
                raise
            return
        turn += 1
