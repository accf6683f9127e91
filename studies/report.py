"""Pictures and tables of the studies' results, from the JSON files they wrote.

    python -m studies.report

Writes `docs/images/study-NAME.png` and puts each table between its marks in `docs/studies.md`.
Intervals are 95 %, of Student's t over the seeds, unless a table says otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import t

from ftw_agents.plots import BLUE, GREEN, ORANGE, RED, STYLE, save
from ftw_agents.theory import mean_field
from ftw_envs.files import write_bytes

Row = dict[str, Any]
Floats = npt.NDArray[np.float64]

PURPLE, BLACK, SKY = "#cc79a7", "#000000", "#56b4e9"
COLOURS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK, "0.5", "#f0e442", "#999933")
NAMES = {
    "ftw": "FTW-K1-C4",
    "ftw-k4-c8": "FTW-K4-C8",
    "ftw-k6-c8": "FTW-K6-C8",
    "ftw-expected": "FTW-expected-K1-C4",
    "grpo": "GRPO",
    "ppo": "PPO",
    "reinforce++": "REINFORCE++",
    "raft": "RAFT",
    "bc": "BC",
}


def mean_and_half(values: Sequence[float] | Floats) -> tuple[float, float]:
    """Mean and half the 95 % interval over seeds; nan where there is one seed."""
    x = np.asarray(values, dtype=np.float64)
    if len(x) < 2:
        return float(x.mean()), float("nan")
    return float(x.mean()), float(t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))


def _percent(values: Sequence[float] | Floats) -> str:
    mean, half = mean_and_half(values)
    return f"{mean:.1%}" if np.isnan(half) else f"{mean:.1%} ± {half * 100:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(r) + " |" for r in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def _pick(rows: Sequence[Row], **about: Any) -> list[Row]:
    return [r for r in rows if all(r.get(k) == v for k, v in about.items())]


def _curves(rows: Sequence[Row], key: str) -> Floats:
    """A metric of all rows, shape (seeds, where it was measured)."""
    return np.array([[v for v in r["curve"][key] if v is not None] for r in rows])


def _band(axes: Axes, x: Floats, curves: Floats, color: str, label: str) -> None:
    told = [mean_and_half(column) for column in curves.T]
    mean, half = np.array([m for m, _ in told]), np.nan_to_num([h for _, h in told])
    axes.plot(x, mean, color=color, label=label, marker="o", ms=3)
    axes.fill_between(x, mean - half, mean + half, color=color, alpha=0.15, lw=0)


def tuned(data: Row, instances: str) -> tuple[str, Figure]:
    """A comparison of algorithms that had the same trials.

    Args:
        instances: what the environment calls its instances.
    """
    rows = data["rows"]
    final = _pick(rows, stage="final")
    algos = list(dict.fromkeys(r["algo"] for r in final))
    figure = Figure(figsize=(11, 4), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    table = []
    for algo, color in zip(algos, COLOURS, strict=False):
        mine = _pick(final, algo=algo)
        measured = [i for i, v in enumerate(mine[0]["curve"]["valid_solve_rate"]) if v is not None]
        valid = _curves(mine, "valid_solve_rate")
        seconds = float(np.median([r["seconds_an_iteration"] for r in mine]))
        tokens = _curves(mine, "tokens").mean(axis=0)
        episodes = _curves(mine, "episodes")[0]
        iterations = np.array(measured, dtype=np.float64)
        for axes, x in zip(
            panels,
            (episodes[measured], tokens[measured] / 1e6, iterations * seconds / 60),
            strict=True,
        ):
            _band(axes, x, valid, color, NAMES[algo])
        test = [r["test_solved"] / r["test_episodes"] for r in mine]
        tried = sorted(_pick(rows, stage="tuning", algo=algo), key=lambda r: r["lr"])
        table.append(
            [
                NAMES[algo],
                f"{mine[0]['lr']:g}",
                " / ".join(f"{np.mean(r['curve']['solve_rate'][-8:]):.0%}" for r in tried),
                str(len(mine)),
                _percent(test),
                f"{np.std(test, ddof=1) * 100:.1f}" if len(test) > 1 else "",
                f"{seconds:.1f}",
                f"{max(r['peak_memory_mb'] for r in mine)}",
            ]
        )
    labels = ("episodes played", "million tokens read and written in play", "minutes, one thread")
    for axes, label in zip(panels, labels, strict=True):
        axes.set(xlabel=label)
    panels[0].set(ylabel=f"solved of 512 unseen valid {instances}")
    panels[0].legend(loc="best")
    head = (
        "algorithm",
        "step size",
        "solved in the trials (step sizes from small to large)",
        "seeds",
        f"test, 1,000 {instances}",
        "s. d. of seeds",
        "s an iteration",
        "peak MB",
    )
    return _table(head, table), figure


def sigma_trap(data: Row) -> tuple[str, Figure]:
    """Where algorithms settle on the sigma-trap."""
    rows, sigmas = data["rows"], data["settings"]["sigmas"]
    names = list(dict.fromkeys(r["name"] for r in rows))
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    axes = figure.subplots()
    table = []
    smooth = np.geomspace(min(sigmas), max(sigmas), 60)
    for name, color, marker in zip(names, COLOURS, "os^Dvp*Xhd", strict=False):
        told = []
        for s in sigmas:
            settled = [
                np.mean(r["curve"]["solve_rate"][-20:])
                for r in rows
                if r["name"] == name and r["sigma"] == s
            ]
            told.append(mean_and_half(settled))
        mean, half = np.array(told).T
        axes.errorbar(sigmas, mean, yerr=half, fmt=marker, color=color, capsize=2, label=name)
        table.append([name, *(f"{m:.2f} ± {h:.2f}" for m, h in told)])
        shape = re.fullmatch(r"FTW-K(\d+)-C(\d+)", name)
        if shape:
            k, c = map(int, shape.groups())
            axes.plot(smooth, [mean_field(s, c, k) for s in smooth], color=color, lw=1)
            table.append([f"{name}, mean field", *(f"{mean_field(s, c, k):.2f}" for s in sigmas)])
        else:
            axes.plot(sigmas, mean, color=color, lw=0.7, ls=":")
    axes.axhline(0.5, color="0.5", lw=1, ls=":")
    axes.set(
        xscale="log",
        xlabel="noise of the trap, σ",
        ylabel="P(good machine) at the end",
        ylim=(-0.03, 1.03),
    )
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return _table(("algorithm", *(f"σ = {s:g}" for s in sigmas)), table), figure


def filters(data: Row) -> tuple[str, Figure]:
    """The grid of C and K."""
    rows = data["rows"]
    bases = list(dict.fromkeys(r["base"] for r in rows))
    strength = {(r["k"], r["c"]): (r["k"] / r["c"], -r["c"]) for r in rows}
    pairs = sorted(strength, key=lambda pair: strength[pair])
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    panels = figure.subplots(1, len(bases), squeeze=False)[0]
    table = []
    for axes, base in zip(panels, bases, strict=True):
        used = [p for p in pairs if _pick(rows, base=base, k=p[0], c=p[1])]
        begin = data["settings"]["before"][base]
        axes.axhline(begin, color="0.5", lw=1, ls=":", label="before training")
        for shift, color, skip in ((-0.12, BLUE, True), (0.12, RED, False)):
            told = []
            for i, (k, c) in enumerate(used):
                mine = _pick(rows, base=base, c=c, k=k, skip_flat_draws=skip)
                if mine:
                    rates = [r["test_solved"] / r["test_episodes"] for r in mine]
                    told.append((i, *mean_and_half(rates)))
            if not told:
                continue
            at, mean, half = np.array(told).T
            axes.errorbar(
                at + shift,
                mean,
                yerr=half,
                fmt="o",
                color=color,
                capsize=3,
                label="flat draws left out" if skip else "all draws",
            )
        axes.set(title=f"{base} base", xticks=range(len(used)), ylim=(0, None))
        axes.set_xticklabels([f"K{k}-C{c}" for k, c in used])
    panels[0].set(ylabel="test puzzles solved")
    panels[-1].legend()
    for base in bases:
        for k, c in pairs:
            cells = [base, f"FTW-K{k}-C{c}"]
            for skip in (True, False):
                mine = _pick(rows, base=base, c=c, k=k, skip_flat_draws=skip)
                if not mine:
                    cells += ["", ""]
                    continue
                cells.append(_percent([r["test_solved"] / r["test_episodes"] for r in mine]))
                first = [np.mean(r["curve"]["winners_solved"][1:6]) for r in mine]
                cells.append(f"{np.mean(first):.0%}")
            if any(cells[2:]):
                table.append(cells)
    head = (
        "base",
        "filter",
        "test, flat draws left out",
        "winners solved, first 5 iterations",
        "test, all draws",
        "winners solved, first 5 iterations",
    )
    return _table(head, table), figure


def offline(data: Row) -> tuple[str, Figure]:
    """What given episodes buy."""
    rows = data["rows"]
    kinds = list(dict.fromkeys((r["algo"], r["given"]) for r in rows))
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    table = []
    for (algo, given), color in zip(kinds, COLOURS, strict=False):
        mine = _pick(rows, algo=algo, given=given)
        rates = mine[0]["curve"]["valid_solve_rate"]
        x = np.array([i for i, v in enumerate(rates) if v is not None], dtype=np.float64)
        valid = _curves(mine, "valid_solve_rate")
        _band(axes, x, valid, color, f"{NAMES[algo]}, {given} given")
        test = [r["test_solved"] / r["test_episodes"] for r in mine]
        ten = valid[:, list(x).index(10)] if 10 in x else [float("nan")]
        table.append([NAMES[algo], str(given), _percent(ten), _percent(test)])
    axes.set(xlabel="iterations", ylabel="solved of 512 unseen valid puzzles")
    axes.legend()
    head = ("algorithm", "solver episodes", "valid after 10 iterations", "test")
    return _table(head, table), figure


def incident(data: Row) -> tuple[str, Figure]:
    """FTW on incidents, with and without the expert's episodes."""
    rows = data["rows"]
    kinds = list(dict.fromkeys((r["algo"], r["given"]) for r in rows))
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    table = []
    for (algo, given), color in zip(kinds, (BLACK, *COLOURS), strict=False):
        mine = _pick(rows, algo=algo, given=given)
        if algo != "base":
            rates = mine[0]["curve"]["valid_solve_rate"]
            x = np.array([i for i, v in enumerate(rates) if v is not None], dtype=np.float64)
            label = f"{NAMES[algo]}, {given} given" if given else NAMES[algo]
            _band(axes, x, _curves(mine, "valid_solve_rate"), color, label)
        cells = [
            _percent([r[f"{split}_solved"] / r[f"{split}_episodes"] for r in mine])
            for split in ("test", "test_names", "test_family")
        ]
        table.append(["base" if algo == "base" else NAMES[algo], str(given), *cells])
    axes.set(xlabel="iterations", ylabel="solved of 250 unseen valid incidents")
    axes.legend()
    head = ("algorithm", "expert episodes", "test", "new names", "new families")
    return _table(head, table), figure


STUDIES: dict[str, Callable[[Row], tuple[str, Figure]]] = {
    "sokoban": lambda data: tuned(data, "puzzles"),
    "sigma_trap": sigma_trap,
    "sigma_board": lambda data: tuned(data, "choices"),
    "filter": filters,
    "offline": offline,
    "incident_l0": incident,
    "incident_l1": incident,
}


def section(name: str, docs: Path) -> tuple[str, Figure]:
    """What `studies.md` says between a study's marks, and its picture."""
    data = json.loads((docs / "studies" / f"{name}.json").read_text("utf-8"))
    with mpl.rc_context(STYLE):
        table, figure = STUDIES[name](data)
    origin = f"`{data['command']}` at commit {data['commit']}"
    return f"<!-- {name} -->\n{table}\n\n{origin}\n<!-- /{name} -->", figure


def main(docs: Path = Path("docs")) -> None:
    """Draws every study that has a result and puts its table into `studies.md`."""
    text = (docs / "studies.md").read_text("utf-8")
    for name in STUDIES:
        if not (docs / "studies" / f"{name}.json").exists():
            continue
        marked, figure = section(name, docs)
        with mpl.rc_context(STYLE):
            save(figure, docs / "images" / f"study-{name.replace('_', '-')}.png")
        before, begin, rest = text.partition(f"<!-- {name} -->")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        if not begin or not end:
            raise ValueError(f"{docs / 'studies.md'}: no marks <!-- {name} --> for its table")
        text = before + marked + after
    write_bytes(docs / "studies.md", text.encode())


if __name__ == "__main__":
    tyro.cli(main)
