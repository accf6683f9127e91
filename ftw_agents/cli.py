"""The command `ftw`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.markup import escape
from tyro.extras import SubcommandApp

from ftw_agents.config import TrainConfig, parse_env_args
from ftw_agents.console import bar, console, training_note
from ftw_agents.envs_command import envs
from ftw_agents.gallery import gallery
from ftw_agents.leaderboard_commands import submit, verify
from ftw_agents.levels_command import LEVELS_COMMANDS
from ftw_agents.noise_command import noise
from ftw_agents.play_command import play
from ftw_agents.record_command import record, replay
from ftw_agents.round_commands import ROUND_COMMANDS
from ftw_agents.settings import read_file
from ftw_agents.site_command import site
from ftw_agents.theory import describe_filter

# Modules that import torch are imported by the command that needs them: `ftw --help` and
# `ftw verify` must not wait for it.

NoPrefix = tyro.conf.arg(name="")


@dataclass(frozen=True)
class EvaluateArgs:
    """Which agent plays which instances."""

    agent: str
    """idle, random, first, greedy, solver, base, a run folder, or a model folder or hub name;
    for incidents also expert, expert_notes, expert_late, loud and constant."""
    out: Path
    """Folder for episodes.jsonl and result.json."""
    env: str = "ftw/SokobanMini-v0"
    """Environment id."""
    env_args: tuple[str, ...] = ()
    """The environment's keyword arguments as key=value; a run folder brings its own."""
    split: str = "test"
    """Which instances, see `ftw envs --json`; train says nothing about unseen ones."""
    episodes: int = 1000
    """How many, the first of the split, each once."""
    temperature: float = 1.0
    """Sampling temperature of a language model; 0 is greedy."""
    max_reply_tokens: int | None = None
    """Where a language model's reply is cut; by default as in the run, or as the base needs."""
    name: str | None = None
    """What the agent is called in the result."""
    seed: int = 0
    """Names the noise of the episodes and the dice of the player."""


def pretrain(*, env: str = "ftw/SokobanMini-v0", force: bool = False) -> None:
    """Makes the tiny base model for an environment and caches it.

    Args:
        env: environment id.
        force: make it again even if it is in the cache.
    """
    import json
    import shutil

    from ftw_agents.lm.base import BASES, base_path

    if env not in BASES:
        raise ValueError(f"there is no tiny base for {env}; there is one for {', '.join(BASES)}")
    config = BASES[env]
    path = base_path(config)
    if force:
        shutil.rmtree(path, ignore_errors=True)
    make_base(env)
    valid = json.loads((path / "base.json").read_text("utf-8"))["valid"]
    console.print(
        f"base: {path}\nsolves {valid['solve_rate']:.1%} of {valid['episodes']} valid instances "
        f"[{valid['low']:.1%}, {valid['high']:.1%}]",
        soft_wrap=True,
    )


def make_base(env: str) -> Any:
    """The tiny base for an environment, with a progress bar if it has to be made."""
    from ftw_agents.lm.base import base_config, base_path, load_base

    config = base_config(env)
    if (base_path(config) / "base.json").exists():
        return load_base(config, lambda step, steps, loss: None)
    console.print("Making the tiny base model (once; it is cached) ...")
    with bar("base model", config.steps) as tell:
        return load_base(config, lambda step, steps, loss: tell(step, f"loss {loss:.3f}"))


def player_of(agent: str, env: str, **settings: Any) -> Any:
    """The player that a command names, as `load_player` gives it; shows how a base is made."""
    from ftw_agents.evaluate import load_player

    if agent == "base":
        make_base(env)
    return load_player(agent, env, **settings)


def run_training(trainer: Any) -> None:
    """Trains to the end, with a progress bar; each kind of warning is shown once above it."""
    from ftw_agents.health import kind_of

    valid = [m["valid_solve_rate"] for m in trainer.metrics if "valid_solve_rate" in m]
    said = {kind_of(w) for m in trainer.metrics for w in m.get("warnings", ())}
    with bar("train", trainer.config.iterations, trainer.iteration) as tell:

        def progress(metrics: dict[str, Any]) -> None:
            if "valid_solve_rate" in metrics:
                valid.append(metrics["valid_solve_rate"])
            for warning in metrics.get("warnings", ()):
                if kind_of(warning) not in said:
                    said.add(kind_of(warning))
                    console.print(f"[yellow]iteration {metrics['iteration']}:[/] {escape(warning)}")
            tell(metrics["iteration"], training_note(metrics, valid[-1]))

        trainer.run(progress)


def train(
    config: Annotated[TrainConfig, NoPrefix],
    *,
    file: Annotated[Path | None, tyro.conf.arg(name="config", metavar="FILE")] = None,
    resume: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> None:
    """Fine-tunes a model, or goes on with a run that was stopped.

    Args:
        config: settings of a new run.
        file: YAML or JSON file with some of the settings below (ftw.winners as winners under
            ftw); those on the command line win. A run's config.json is such a file.
        resume: folder of a run to go on with; all its settings are kept.
    """
    from ftw_agents.lm.model import LanguageModel
    from ftw_agents.train import Trainer, check_start

    if resume is not None:
        if file is not None:
            raise ValueError("--resume keeps all settings of its run: leave --config out")
        trainer = Trainer.resume(resume)
    else:
        check_start(config)
        if config.base == "tiny":
            lm, config = make_base(config.env), in_view_of_base(config)
        else:
            lm = LanguageModel.load(config.base)
        trainer = Trainer.start(config, lm)
    if trainer.config.algo in ("ftw", "ftw-expected"):
        console.print(describe_filter(*trainer.config.ftw.filter), soft_wrap=True)
    run_training(trainer)
    out = trainer.config.out
    last = [m for m in trainer.metrics if "valid_solve_rate" in m][-1]
    console.print(
        f"valid: {last['valid_solve_rate']:.1%} [{last['valid_low']:.1%}, {last['valid_high']:.1%}]"
        f" of {last['valid_episodes']}\nrun: {out} "
        "(config.json, metrics.jsonl, curves.png, samples, best)",
        soft_wrap=True,
    )


def settings_in(args: Sequence[str]) -> TrainConfig:
    """The settings in the file that `--config` names among `args`; the defaults without it.

    Raises:
        ValueError: the file cannot be read, or a setting in it is unknown or of a wrong type.
    """
    path = None
    for i, arg in enumerate(args):
        if arg == "--config":
            path = "".join(args[i + 1 : i + 2])
        elif arg.startswith("--config="):
            path = arg.partition("=")[2]
    if not path:  # if it was named without a path, the parser says so
        return TrainConfig()
    data = read_file(Path(path))
    try:
        return TrainConfig.from_json(data)
    except ValueError as e:
        raise ValueError(f"{path}: {e}") from None


def in_view_of_base(config: TrainConfig) -> TrainConfig:
    """A tiny base knows one view; it is played unless another is asked for.

    Replies are never cut shorter than the base needs.
    """
    from ftw_agents.lm.base import base_config, base_view

    tokens = max(config.max_reply_tokens, base_config(config.env).max_reply_tokens)
    view = config.env_args or base_view(config.env)
    return replace(config, env_args=view, max_reply_tokens=tokens)


def evaluate(args: Annotated[EvaluateArgs, NoPrefix]) -> None:
    """Plays an agent on unseen instances and writes the episodes."""
    from ftw_agents.evaluate import evaluate as play

    player = player_of(
        args.agent,
        args.env,
        temperature=args.temperature,
        max_reply_tokens=args.max_reply_tokens,
        name=args.name,
    )
    with bar(player.about["name"], args.episodes) as tell:
        summary = play(
            player,
            args.env,
            view_of(args.agent, args.env, args.env_args),
            split=args.split,
            episodes=args.episodes,
            seed=args.seed,
            out=args.out,
            progress=lambda done, solved: tell(done, f"solved {solved / done:.0%}"),
        )
    console.print(
        f"solve rate {summary} of {summary.episodes} · invalid replies {summary.invalid_rate:.1%}"
        f" · {summary.mean_turns:.1f} turns · mean score {summary.mean_score:.3f}",
        soft_wrap=True,
    )


def view_of(agent: str, env: str, env_args: tuple[str, ...]) -> dict[str, Any]:
    """The view to play: as given, else the one the run or the base was trained in."""
    from ftw_agents.evaluate import settings_of

    given = parse_env_args(env_args)
    if given:
        return given
    settings = settings_of(agent)
    if settings.get("env") == env:
        return parse_env_args(settings.get("env_args", []))
    if agent == "base":
        from ftw_agents.lm.base import base_view

        return parse_env_args(base_view(env))
    return {}


def demo(*, out: Path = Path("runs/demo"), iterations: int = 80, seed: int = 0) -> None:
    """Base model, FTW on SokobanMini, evaluation on unseen puzzles, verification, pictures.

    Args:
        out: folder for everything; a number is added where it exists.
        iterations: FTW iterations.
        seed: names the randomness of the training run.
    """
    from ftw_agents.demo import run_demo

    run_demo(out, iterations, seed)


Commands = dict[str, Callable[..., None]]
COMMANDS: dict[str, Callable[..., None] | Commands] = {
    "demo": demo,
    "pretrain": pretrain,
    "train": train,
    "evaluate": evaluate,
    "submit": submit,
    "verify": verify,
    "site": site,
    "noise": noise,
    "record": record,
    "replay": replay,
    "envs": envs,
    "play": play,
    "gallery": gallery,
    "levels": LEVELS_COMMANDS,
    "round": ROUND_COMMANDS,
}
_GROUPS = {
    "levels": "Lists, checks, solves and converts files of Sokoban levels.",
    "round": "Sealed rounds: opens, plays, serves and checks them.",
}


def command_line(commands: Mapping[str, Callable[..., None] | Commands]) -> SubcommandApp:
    """The command line of `commands`; a dictionary is a group with commands of its own."""
    app = SubcommandApp()
    for name, command in commands.items():
        if isinstance(command, dict):
            app.command(command_line(command), name=name, help=_GROUPS[name])
        else:
            app.command(name=name)(command)
    return app


def main(args: list[str] | None = None) -> None:
    """Runs the command line; errors that a user can mend are one line and exit code 2."""
    args = sys.argv[1:] if args is None else args
    try:
        commands = dict(COMMANDS)
        if args[:1] == ["train"]:
            commands["train"] = partial(train, config=settings_in(args))
        command_line(commands).cli(
            prog="ftw",
            description="Train and compare agents that act over many steps.",
            args=args,
        )
    except (ValueError, OSError) as e:
        print(f"ftw: {e}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("ftw: stopped", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
