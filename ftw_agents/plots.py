"""Curves of a run and of the sigma-trap, with matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ftw_envs.files import write_bytes

STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}
# Colour-blind safe (Okabe and Ito).
BLUE, ORANGE, GREEN, RED = "#0072b2", "#e69f00", "#009e73", "#d55e00"


def save(figure: Figure, path: Path) -> None:
    """Writes a figure as PNG, whole or not at all."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120)
    write_bytes(path, out.getvalue())


# Of what was learned from: label, colour, metric, and the metric it is a share of, if it is
# not a share itself. An algorithm writes some of them.
_SHARES = (
    ("winners solved", GREEN, "winners_solved", None),
    ("buffer solved", ORANGE, "buffer_solved", None),
    ("effective sample size / batch", RED, "effective_sample_size", "batch_episodes"),
    ("groups without a difference", ORANGE, "flat_groups", None),
    ("tokens where the clip binds", RED, "clip_share", None),
)


def plot_run(metrics: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Solve rates against episodes, and what was learned from, as a PNG."""
    # Where nothing is played (bc) the iterations are all there is to count.
    count = "episodes" if metrics[-1]["episodes"] else "iteration"
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        exams = [m for m in metrics if "valid_solve_rate" in m]
        played = [m for m in metrics if "solve_rate" in m]
        x = [m[count] for m in played]
        left.plot(x, [m["solve_rate"] for m in played], color=BLUE, alpha=0.35, label="training")
        rate = np.array([m["valid_solve_rate"] for m in exams])
        # At rates of 0 and 1 rounding can put an end of the interval on the wrong side.
        low = np.maximum(0, rate - [m["valid_low"] for m in exams])
        high = np.maximum(0, [m["valid_high"] for m in exams] - rate)
        left.errorbar(
            [m[count] for m in exams],
            rate,
            yerr=[low, high],
            color=BLUE,
            marker="o",
            capsize=3,
            label="valid, unseen (95 %)",
        )
        xlabel = "episodes played" if count == "episodes" else "iterations"
        left.set(xlabel=xlabel, ylabel="solve rate", ylim=(0, 1))
        for axes in (left, right):
            axes.xaxis.set_major_locator(MaxNLocator(5))
        left.legend(loc="upper left")
        for label, color, key, whole in _SHARES:
            points = [
                (m[count], m[key] / (max(1.0, m[whole]) if whole else 1.0))
                for m in metrics
                if key in m
            ]
            if points:
                right.plot(*zip(*points, strict=True), color=color, label=label)
        right.set(xlabel=xlabel, ylabel="share", ylim=(0, 1.05))
        if right.lines:
            right.legend(loc="lower right")
        save(figure, path)


def plot_sigma_trap(
    sigmas: Sequence[float],
    simulated: Mapping[str, npt.NDArray[np.float64]],
    theory: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    path: Path,
) -> None:
    """P(good arm) against the trap's noise: mean over seeds with its range, theory as lines.

    Args:
        sigmas: noise of the trap.
        simulated: name -> shape (len(sigmas), seeds).
        theory: name -> (sigmas, P) of the mean field.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4), layout="constrained")
        axes = figure.subplots()
        looks = zip((BLUE, ORANGE, RED, GREEN), "os^D", strict=True)
        for (name, values), (color, marker) in zip(simulated.items(), looks, strict=False):
            mean = values.mean(axis=1)
            spread = np.abs(np.stack([values.min(axis=1), values.max(axis=1)]) - mean)
            axes.errorbar(
                sigmas,
                mean,
                yerr=spread,
                fmt=marker,
                color=color,
                capsize=3,
                label=f"{name}, played",
            )
            if name in theory:
                axes.plot(*theory[name], color=color, label=f"{name}, mean field")
        axes.axhline(0.5, color="0.5", lw=1, ls=":")
        axes.set(
            xscale="log", xlabel="noise of the trap, σ", ylabel="P(good arm)", ylim=(-0.02, 1.02)
        )
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        save(figure, path)
