"""The commands `ftw round ...` for the organiser of a sealed round."""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from ftw_agents.console import bar, console

if TYPE_CHECKING:
    from leaderboards.rounds import Commitment, RoundFolder

# What takes long to import is imported by the command that needs it.

ROUNDS = Path("leaderboards/rounds")
DICE = 0
"""Names the dice of players in a round: nobody may choose them."""


def open_(
    name: Positional[str],
    *,
    board: str,
    beacon: str,
    commit_by: str,
    run_by: str,
    secret: Path,
    tier: Literal["T2", "T3"] = "T2",
    episodes: int = 1000,
    per_submitter: int = 3,
    date: str | None = None,
    rounds: Path = ROUNDS,
) -> None:
    """Organiser: makes the secret of a round, and the file that commits to it.

    Args:
        name: of the round: a-z, 0-9, '.', '_' and '-'.
        board: what is played.
        beacon: public draw that will be added, and when it is made, after commit_by.
        commit_by: last day for commitments, YYYY-MM-DD in UTC.
        run_by: last day for playing.
        secret: new file for salt and key, outside of any repository. Keep it, and keep it secret.
        tier: T2, played by participants, or T3, on the organiser's server.
        episodes: attempts a run.
        per_submitter: commitments that a submitter may make.
        date: first day; today if not given.
        rounds: folder of all rounds.
    """
    from leaderboards.keys import new_secret, save_secret
    from leaderboards.sealed import open_round

    key = new_secret()
    facts = {
        "name": name, "board": board, "tier": tier, "episodes": episodes,
        "per_submitter": per_submitter, "beacon": beacon, "opened": today(date),
        "commit_by": commit_by, "run_by": run_by,
    }  # fmt: skip
    save_secret(secret, name, key)
    try:
        opened = open_round(rounds, facts, key)
    except BaseException:
        secret.unlink()
        raise
    say(f"round: {rounds / name} (publish it)\ncommitment: {opened.commitment}\nsecret: {secret}")


def draw(
    name: Positional[str],
    *,
    beacon: str,
    secret: Path,
    date: str | None = None,
    rounds: Path = ROUNDS,
) -> None:
    """Organiser: closes the list of commitments, and draws what is played.

    Args:
        name: of the round.
        beacon: what the public draw gave, letter by letter.
        secret: file that `open` made.
        date: today if not given.
        rounds: folder of all rounds.
    """
    from leaderboards.keys import load_secret
    from leaderboards.sealed import draw_round

    drawn = draw_round(read(name, rounds), beacon, load_secret(secret, name), today(date))
    slugs = ", ".join(c.slug for c in drawn.commitments)
    say(f"drawn for {len(drawn.commitments)}: {slugs}\npublish {rounds / name}")


def serve(
    name: Positional[str],
    *,
    secret: Path,
    tokens: Path,
    log: Path,
    host: str = "127.0.0.1",
    port: int = 8717,
    attempt_seconds: int = 4 * 3600,
    rate: float = 200.0,
    rounds: Path = ROUNDS,
) -> None:
    """Organiser: serves the attempts of a round on tier T3, until it is stopped.

    Stopped or killed, it goes on from its log when it is started again.

    Args:
        name: of the round.
        secret: file that `open` made.
        tokens: file with a token for each participant, made if it is not there. Hand out each
            token to its participant alone.
        log: file of all that happens, made if it is not there.
        host: address to listen at. There is no encryption: for others than this machine put a
            proxy with TLS before it.
        port: to listen at; 0 takes a free one.
        attempt_seconds: that an attempt may take.
        rate: requests a second of a participant.
        rounds: folder of all rounds.
    """
    from leaderboards.exam import Exam, Limits
    from leaderboards.keys import load_secret, tokens_for
    from leaderboards.server import ExamServer

    folder = read(name, rounds)
    key = load_secret(secret, name).master_key
    known = tokens_for(tokens, name, folder.commitments)
    exam = Exam(folder, key, log, Limits(seconds=attempt_seconds))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExamServer(exam, known, (host, port), rate=rate) as server:
            lines, head = exam.head
            say(f"round {name} at {server.url}, {len(known)} participants\nlog: {lines} {head}")
            server.serve_forever()
    except KeyboardInterrupt:
        lines, head = exam.head
        say(f"stopped\nlog: {lines} {head}")
    finally:
        exam.close()


def results(
    name: Positional[str],
    *,
    log: Path,
    out: Path,
    secret: Path | None = None,
    rounds: Path = ROUNDS,
) -> None:
    """Turns the log of a server into evaluations, as `ftw evaluate` writes them.

    Args:
        name: of the round.
        log: of its server.
        out: folder for them: <participant>/<run>.
        secret: file that `open` made; not needed after the reveal.
        rounds: folder of all rounds.
    """
    from ftw_agents.collect import Collector
    from ftw_agents.config import parse_env_args
    from ftw_agents.evaluate import write_result
    from ftw_agents.results import Tally
    from ftw_envs.episode import EpisodeWriter
    from leaderboards.logged import episodes_of, runs_in

    folder = read(name, rounds)
    key = key_of(folder, secret)
    for slug, run in runs_in(folder, log):
        path, commitment, tally = out / slug / str(run), folder.commitments[slug], Tally()
        if (path / "result.json").exists():
            raise ValueError(f"{path} holds a result already; choose another --out")
        with (
            bar(f"{slug} {run}"[:30], folder.round.episodes) as tell,
            EpisodeWriter(path / "episodes.jsonl") as writer,
        ):
            for episode in episodes_of(folder, key, log, slug, run):
                writer.write(episode)
                tally.add(episode)
                tell(tally.episodes, "")
        collector = Collector(folder.board.env_id, parse_env_args(commitment.view), batch=1)
        split = episode.instance.split
        write_result(
            path, _about(commitment), collector, split, DICE, tally.summary(), round=name
        )  # fmt: skip
        say(f"{path}: solve rate {tally.summary()} of {tally.episodes}")


def reveal(
    name: Positional[str],
    *,
    secret: Path,
    log: Path | None = None,
    date: str | None = None,
    rounds: Path = ROUNDS,
) -> None:
    """Organiser: publishes the secret after the run window, so that anybody can check everything.

    Args:
        name: of the round.
        secret: file that `open` made.
        log: of the server, on tier T3.
        date: today if not given.
        rounds: folder of all rounds.
    """
    from leaderboards.keys import load_secret
    from leaderboards.logged import log_facts
    from leaderboards.sealed import reveal_round

    folder, key = read(name, rounds), load_secret(secret, name)
    facts = log_facts(folder, key.master_key, log) if log else None
    reveal_round(folder, key, today(date), facts)
    say(f"revealed: publish {rounds / name}" + (f" and {log}" if log else ""))


def today(date: str | None) -> str:
    """The day that was given, else the one it is in UTC."""
    return date or datetime.now(UTC).date().isoformat()


def say(text: str) -> None:
    """Prints text as it is."""
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def read(name: str, rounds: Path) -> RoundFolder:
    """A round from its files."""
    from leaderboards.sealed import read_round

    return read_round(rounds, name)


def key_of(folder: RoundFolder, secret: Path | None) -> bytes:
    """The master key of a round: revealed, or from the organiser's file."""
    from leaderboards.keys import load_secret

    if folder.reveal is not None:
        return bytes.fromhex(folder.reveal.master_key)
    if secret is None:
        raise ValueError(f"{folder.round.name} is not revealed yet: --secret is needed")
    return load_secret(secret, folder.round.name).master_key


def _about(commitment: Commitment) -> dict[str, Any]:
    """What is known of an agent that played elsewhere."""
    if commitment.max_reply_tokens is None or commitment.temperature_percent is None:
        return {"name": commitment.method, "kind": "other"}
    return {
        "name": commitment.method,
        "kind": "language-model",
        "temperature": commitment.temperature_percent / 100,
        "max_reply_tokens": commitment.max_reply_tokens,
    }
