"""The demonstration behind `make demo`: everything the suite does, in a few minutes."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from ftw_agents.cli import make_base, run_training
from ftw_agents.config import TrainConfig, parse_env_args
from ftw_agents.console import bar, console
from ftw_agents.evaluate import Player, evaluate, load_player
from ftw_agents.lm.base import BaseConfig
from ftw_agents.plots import plot_sigma_trap
from ftw_agents.results import Summary
from ftw_agents.theory import mean_field, sigma_trap_curve
from ftw_agents.train import Trainer
from ftw_envs.drawing import Frame, stack, text_panel, write_gif
from ftw_envs.episode import Episode, read_episodes
from ftw_envs.files import write_bytes
from ftw_envs.registry import make
from leaderboards.about import About, AboutModel, AboutTraining
from leaderboards.runs import Source
from leaderboards.schema import Contamination, Method, Search, Selection, Submitter
from leaderboards.submit import submit
from leaderboards.verify import verify

ENV = "ftw/SokobanMini-v0"
BOARD = "sokoban-mini"
TEST_EPISODES = 1000
SIGMAS = (0.1, 1.0, 4.0, 16.0, 64.0)
SEEDS = 3
ABOUT = About(
    division="closed",
    method=Method(name="FTW", family="ftw"),
    model=AboutModel(name="ftw-tiny", open_weights=True),
    submitter=Submitter(name="demo", relationship="third_party"),
    training=AboutTraining(search=Search(trials=0, tuned_on="nothing"), checkpoint="last"),
    selection=Selection(attempts_per_instance=1, prior_submissions=0),
    contamination=Contamination(trained_on_eval=False, statement="Trained on train only."),
    device="this machine",
)


def run_demo(out: Path, iterations: int, seed: int) -> None:
    """Runs the demonstration and writes everything under `out` (or `out-2`, ...)."""
    begin = time.perf_counter()
    out = _free(out)
    view = BaseConfig().env_args
    base = make_base(ENV)
    config = TrainConfig(env=ENV, env_args=view, iterations=iterations, seed=seed, out=out / "run")
    console.print(f"Follow the Winners: {iterations} iterations of {config.episodes} episodes")
    run_training(Trainer.start(config, base))

    console.print(f"Evaluation on {TEST_EPISODES} unseen test puzzles")
    players = {
        "random": load_player("random", ENV),
        "base": load_player("base", ENV, name="base"),
        "base, greedy": load_player("base", ENV, temperature=0, name="base, greedy"),
        "FTW": load_player(str(config.out), ENV, name="FTW"),
        "FTW, greedy": load_player(str(config.out), ENV, temperature=0, name="FTW, greedy"),
        "solver": load_player("solver", ENV),
    }
    results = {name: _test(name, p, view, out) for name, p in players.items()}
    console.print(_table(results))

    source = Source(out / "evaluation" / "FTW", config.out)
    date = datetime.now(UTC).date().isoformat()
    entry, _ = submit([source], BOARD, ABOUT, out / "entries", date=date, slug="demo")
    report = verify(entry)
    if report.verified is None:
        raise RuntimeError(f"the demo's own entry does not verify: {report.problems[0]}")
    rate = report.verified.runs[0].figures.solve_rate
    console.print(f"Re-played and verified: {entry} ({rate:.1%})", soft_wrap=True)

    episode = _showpiece(out / "evaluation" / "FTW" / "episodes.jsonl")
    if episode is not None:
        write_gif(out / "solved.gif", episode_frames(episode))
    _sigma_trap(out / "sigma_trap.png")
    write_bytes(out / "curves.png", (config.out / "curves.png").read_bytes())
    console.print(
        f"Pictures: {out}/curves.png, {out}/sigma_trap.png"
        + (f", {out}/solved.gif" if episode is not None else ""),
        soft_wrap=True,
    )
    console.print(f"Done in {time.perf_counter() - begin:.0f} s.")


def _free(out: Path) -> Path:
    """`out`, or the first of `out-2`, `out-3` ... that does not exist."""
    path, n = out, 1
    while path.exists():
        n += 1
        path = out.with_name(f"{out.name}-{n}")
    return path


def _test(name: str, player: Player, view: tuple[str, ...], out: Path) -> Summary:
    with bar(f"{name:12}", TEST_EPISODES) as tell:
        return evaluate(
            player,
            ENV,
            parse_env_args(view),
            split="test",
            episodes=TEST_EPISODES,
            seed=0,
            out=out / "evaluation" / name.replace(", ", "-"),
            progress=lambda done, solved: tell(done, f"solved {solved / done:.0%}"),
        )


def _table(results: dict[str, Summary]) -> Table:
    table = Table(title=f"{ENV}, {TEST_EPISODES} unseen test puzzles")
    table.add_column("player")
    for column in ("solve rate", "95 % interval", "invalid replies", "turns"):
        table.add_column(column, justify="right")
    for name, s in results.items():
        table.add_row(
            name,
            f"{s.solve_rate:.1%}",
            f"{s.low:.1%} - {s.high:.1%}",
            f"{s.invalid_rate:.1%}",
            f"{s.mean_turns:.1f}",
        )
    return table


def _showpiece(path: Path) -> Episode | None:
    """A solved episode worth seeing: the longest in which no position came twice, if any."""
    best: Episode | None = None
    for episode in read_episodes(path):
        seen = [t.observation.removeprefix("blocked\n") for t in episode.turns[1:]]
        start = episode.turns[0].observation
        straight = len(set(seen)) == len(seen) and not any(start.endswith(s) for s in seen)
        if episode.solved and straight and (best is None or len(best.turns) < len(episode.turns)):
            best = episode
    return best


def episode_frames(episode: Episode) -> list[Frame]:
    """The pictures of an episode, one a turn, with the move that led to it below."""
    env = make(episode.env_id, **{**episode.env_kwargs, "render_mode": "rgb_array"})
    env.reset(
        seed=episode.seed,
        options={"split": episode.instance.split, "index": episode.instance.index},
    )
    title = f"{episode.instance.split} {episode.instance.index}"
    frame = env.render()
    frames = [stack(frame, text_panel(f"{title}\nstart", frame.shape[1]))]
    for i, turn in enumerate(episode.turns, 1):
        env.step(turn.reply)
        frame = env.render()
        note = f"{i}. {turn.reply}" + (" - solved" if i == len(episode.turns) else "")
        frames.append(stack(frame, text_panel(f"{title}\n{note}", frame.shape[1])))
    return frames


def _sigma_trap(path: Path) -> None:
    """The known price: where the noise of a bad arm leads each filter."""
    grid = [0.1 * 2 ** (i / 6) for i in range(60)]
    filters = {"FTW-K4-C8": (8, 4), "FTW-K1-C4": (4, 1)}
    simulated = {
        name: sigma_trap_curve("ftw", SIGMAS, SEEDS, c=c, k=k) for name, (c, k) in filters.items()
    }
    simulated["FTW-exp"] = sigma_trap_curve("ftw-exp", SIGMAS, SEEDS)
    theory = {n: (grid, [mean_field(s, c, k) for s in grid]) for n, (c, k) in filters.items()}
    plot_sigma_trap(SIGMAS, simulated, theory, path)
    table = Table(title="sigma-trap: P(good arm) by noise of the trap")
    table.add_column("filter")
    for sigma in SIGMAS:
        table.add_column(f"{sigma:g}", justify="right")
    for name, values in simulated.items():
        table.add_row(name, *(f"{v:.2f}" for v in values.mean(axis=1)))
    console.print(table)
