"""The commands `ftw round ...` for participants of a sealed round, and the table of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from ftw_agents.console import bar
from ftw_agents.round_organiser import (
    DICE,
    ROUNDS,
    draw,
    key_of,
    open_,
    read,
    results,
    reveal,
    say,
    serve,
    today,
)

if TYPE_CHECKING:
    from leaderboards.rounds import Commitment, RoundFolder

# What takes long to import is imported by the command that needs it.


def commit(
    name: Positional[str],
    agents: Positional[tuple[str, ...]],
    *,
    slug: str,
    submitter: str,
    method: str,
    env_args: tuple[str, ...] = (),
    temperature: float = 1.0,
    max_reply_tokens: int | None = None,
    date: str | None = None,
    rounds: Path = ROUNDS,
) -> None:
    """Participant: commits to agents, one for each training run, before anything is drawn.

    Args:
        name: of the round.
        agents: run folders, model folders, or a scripted player; what `play` is given later.
        slug: what the participation is called.
        submitter: as it will stand in the entry.
        method: its name, as it will stand in the entry.
        env_args: view as key=value; a run folder brings its own.
        temperature: sampling temperature of a language model.
        max_reply_tokens: where replies are cut; by default as in the run.
        date: today if not given.
        rounds: folder of all rounds.
    """
    from ftw_agents.cli import player_of, view_of
    from leaderboards.boards import view_of as written
    from leaderboards.folder import parse
    from leaderboards.rounds import Commitment
    from leaderboards.sealed import commit as write

    folder, day = read(name, rounds), today(date)
    env_id = folder.board.env_id
    views = [written(view_of(agent, env_id, env_args)) for agent in agents]
    abouts = [
        player_of(agent, env_id, temperature=temperature, max_reply_tokens=max_reply_tokens).about
        for agent in agents
    ]
    cuts = [about.get("max_reply_tokens") for about in abouts]
    for what, told in (("views", views), ("reply lengths", cuts)):
        if any(x != told[0] for x in told):
            raise ValueError(f"agents of one commitment play alike; these have {what} {told}")
    facts = {
        "format": 1, "round": name, "slug": slug, "submitter": submitter, "method": method,
        "view": views[0], "max_reply_tokens": cuts[0], "committed": day,
        "temperature_percent": None if cuts[0] is None else round(100 * temperature),
        "agents": [
            {"run": _run_of(a), "sha256": _digest(a, env_id)} for a in sorted(agents, key=_run_of)
        ],
    }  # fmt: skip
    path = write(folder, parse(Commitment, facts, "the commitment"), day)
    say(f"commitment: {path} (publish it by {folder.round.commit_by})")


def play(
    name: Positional[str],
    agent: Positional[str],
    *,
    slug: str,
    out: Path | None = None,
    server: str | None = None,
    token_file: Path | None = None,
    date: str | None = None,
    rounds: Path = ROUNDS,
) -> None:
    """Participant: plays a round with an agent that was committed to.

    Args:
        name: of the round.
        agent: one of those given to `commit`, unchanged.
        slug: of the participation.
        out: on tier T2: folder for the evaluation, such as one in the run's folder.
        server: on tier T3: URL of the organiser's server.
        token_file: on tier T3: file with nothing but the token that the organiser gave.
        date: today if not given.
        rounds: folder of all rounds.
    """
    from ftw_agents.collect import Collector
    from ftw_agents.config import parse_env_args
    from ftw_agents.evaluate import play_to_file, write_result
    from leaderboards.boards import open_env
    from leaderboards.sealed import starts_for

    folder, day = read(name, rounds), today(date)
    round_, commitment = folder.round, _committed(folder, agent, slug)
    if folder.draw is None or not folder.draw.drawn <= day <= round_.run_by:
        raise ValueError(f"{name} is played after the draw and up to {round_.run_by}, not on {day}")
    if round_.tier == "T3":
        if server is None or token_file is None or out is not None:
            raise ValueError(f"{name} is played on its server: --server and --token-file, no --out")
        _play_remote(folder, commitment, agent, server, token_file)
        return
    if out is None or server is not None:
        raise ValueError(f"{name} is played here: --out, and no --server")
    if (out / "result.json").exists():
        raise ValueError(f"{out} holds a result already; choose another --out")
    starts = starts_for(folder, open_env(folder.board, commitment.view))
    player = _player(commitment, agent, folder.board.env_id)
    collector = Collector(folder.board.env_id, parse_env_args(commitment.view))
    with bar(slug[:30], len(starts)) as tell:
        summary = play_to_file(
            collector, player, starts, DICE, out / "episodes.jsonl",
            lambda done, solved: tell(done, f"solved {solved / done:.0%}"),
        )  # fmt: skip
    write_result(out, player.about, collector, starts[0].split, DICE, summary, round=name)
    say(f"{out}: solve rate {summary} of {summary.episodes}")


def _play_remote(
    folder: RoundFolder, commitment: Commitment, agent: str, url: str, token_file: Path
) -> None:
    from ftw_agents.collect import Collector
    from ftw_agents.config import parse_env_args
    from leaderboards.remote import Server, remote_envs

    env_id, total, run = folder.board.env_id, folder.round.episodes, _run_of(agent)
    player = _player(commitment, agent, env_id)
    with Server(url, token_file.read_text("utf-8").strip(), run) as server:
        new_env, starts = remote_envs(server)
        collector = Collector(env_id, parse_env_args(commitment.view), new_env=new_env)
        begin, solved = total - len(starts), 0
        with bar(commitment.slug[:30], total, begin) as tell:
            episodes = collector.play(player.agent, starts, player_seed=DICE)
            for done, episode in enumerate(episodes, 1):
                place, read, wrote = episode.instance.index, episode.tokens_in, episode.tokens_out
                server.ask("/tokens", place=place, tokens_in=read, tokens_out=wrote)
                solved += episode.solved
                tell(begin + done, f"solved {solved / done:.0%}")
    say(f"all {total} attempts of run {run} are played; the organiser has the results")


def check(
    name: Positional[str],
    agent: Positional[str | None] = None,
    *,
    slug: str | None = None,
    log: Path | None = None,
    rounds: Path = ROUNDS,
) -> None:
    """Checks a round as far as it has come, an agent against its commitment, or a server's log.

    Args:
        name: of the round.
        agent: one that was committed to.
        slug: of its participation.
        log: of the round's server.
        rounds: folder of all rounds.
    """
    folder = read(name, rounds)
    round_, state = folder.round, "open"
    if folder.draw is not None:
        state = "drawn" if folder.reveal is None else "revealed, key and starts are as promised"
    say(
        f"round {name}: {round_.tier} on {round_.board}, {round_.episodes} episodes; {state}\n"
        f"commitments by {round_.commit_by}: {', '.join(folder.commitments) or 'none'}"
    )
    if (agent is None) != (slug is None):
        raise ValueError("an agent is checked with its --slug")
    if agent is not None and slug is not None:
        _committed(folder, agent, slug)
        say(f"{agent} is the agent of run {_run_of(agent)} that {slug} committed to")
    if log is not None:
        from leaderboards.exam import log_of
        from leaderboards.logged import log_facts

        if folder.reveal is None:
            lines = 1 + sum(1 for _ in log_of(folder, log))
            say(f"{log}: {lines} lines, none changed or taken; all of it is checked after reveal")
        elif log_facts(folder, key_of(folder, None), log) != folder.reveal.log:
            raise ValueError(f"{log} is not the log that the reveal tells of")
        else:
            say(f"{log}: the log that the reveal tells of, and played again it goes the same")


ROUND_COMMANDS: dict[str, Callable[..., None]] = {
    "open": open_,
    "commit": commit,
    "draw": draw,
    "serve": serve,
    "play": play,
    "results": results,
    "reveal": reveal,
    "check": check,
}


def _run_of(agent: str) -> int:
    """The training seed of a run folder; 0 for what is not trained."""
    from ftw_agents.evaluate import settings_of

    return int(settings_of(agent).get("seed", 0))


def _digest(agent: str, env_id: str) -> str:
    """The hash that fixes an agent: of its files, or of a program's name and version."""
    from hashlib import sha256

    import ftw_envs
    from ftw_agents.run_folder import checkpoints, newest_checkpoint
    from ftw_agents.scripted.players import SCRIPTED
    from leaderboards.identity import canonical
    from leaderboards.rounds import folder_digest

    if agent in SCRIPTED:
        return sha256(canonical(["scripted", agent, ftw_envs.__version__])).hexdigest()
    if agent == "base":
        from ftw_agents.lm.base import base_config, base_path

        return folder_digest(base_path(base_config(env_id)))
    run = Path(agent)
    return folder_digest(newest_checkpoint(run) if checkpoints(run) else run)


def _committed(folder: RoundFolder, agent: str, slug: str) -> Commitment:
    """The commitment `slug`, to which the agent belongs as it is now."""
    if slug not in folder.commitments:
        known = ", ".join(folder.commitments) or "none"
        raise ValueError(f"{slug} is no commitment of {folder.round.name}; there are: {known}")
    commitment, run = folder.commitments[slug], _run_of(agent)
    hashes = {a.run: a.sha256 for a in commitment.agents}
    if run not in hashes:
        raise ValueError(f"{slug} committed to runs {sorted(hashes)}, {agent} is of run {run}")
    if _digest(agent, folder.board.env_id) != hashes[run]:
        raise ValueError(f"{agent} is not the agent that {slug} committed to: its files changed")
    return commitment


def _player(commitment: Commitment, agent: str, env_id: str) -> Any:
    from ftw_agents.cli import player_of

    percent = commitment.temperature_percent
    player = player_of(
        agent,
        env_id,
        temperature=1.0 if percent is None else percent / 100,
        max_reply_tokens=commitment.max_reply_tokens,
    )
    return replace(player, about={**player.about, "name": commitment.method})
