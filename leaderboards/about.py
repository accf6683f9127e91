"""The about file: what a submitter has to say, because no folder tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from leaderboards.folder import parse
from leaderboards.schema import (
    Commit,
    Contamination,
    Line,
    Method,
    Positive,
    Search,
    Selection,
    Strict,
    Submitter,
    Text,
)
from leaderboards.strict import read_json

MAX_ABOUT = 64 << 10


class AboutModel(Strict):
    """The language model; figures may be null where the evaluations tell them."""

    name: Line
    revision: Line | None = None
    parameters: Positive | None = None
    open_weights: bool
    temperature_percent: int | None = None
    max_reply_tokens: Positive | None = None


class AboutTraining(Strict):
    """What run folders do not tell of the training."""

    search: Search
    checkpoint: Literal["last", "best-on-valid"]


class About(Strict):
    """The about file: what no folder tells.

    Attributes:
        training: null for what is not trained.
        device: what the runs ran on, such as "2 CPU cores" or a GPU's name.
        commit: of the suite that played.
    """

    division: Literal["closed", "open"]
    method: Method
    model: AboutModel | None = None
    submitter: Submitter
    training: AboutTraining | None = None
    selection: Selection
    contamination: Contamination
    device: Line
    commit: Commit | None = None
    notes: Text = ""


EXAMPLE = {
    "division": "closed",
    "method": {
        "name": "FTW-1-4",
        "family": "ftw",
        "code_url": "https://github.com/you/your-code",
        "commit": None,
    },
    "model": {
        "name": "ftw-tiny",
        "revision": None,
        "parameters": 117_696,
        "open_weights": True,
        "temperature_percent": 100,
        "max_reply_tokens": None,
    },
    "submitter": {
        "name": "Your Name",
        "organisation": None,
        "contact": None,
        "relationship": "first_party",
    },
    "training": {"search": {"trials": 6, "tuned_on": "valid"}, "checkpoint": "last"},
    "selection": {"attempts_per_instance": 1, "prior_submissions": 0},
    "contamination": {"trained_on_eval": False, "statement": "Trained on the split train only."},
    "device": "2 CPU cores",
    "commit": None,
    "notes": "",
}
"""An about file to begin with; `model` and `training` are null for players without."""


def read_about(path: Path) -> About:
    """Reads an about file.

    Raises:
        StrictError, EntryError: it cannot be read, or says something else; where and why.
    """
    return parse(About, read_json(path, MAX_ABOUT), str(path))
