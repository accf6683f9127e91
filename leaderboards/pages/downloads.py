"""A table as CSV, which no spreadsheet takes for formulas, and as JSON."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from leaderboards.pages.entries import Shown
from leaderboards.pages.ranking import Page
from leaderboards.pages.text import cell
from leaderboards.tables import Estimate, Reached


def records(page: Page) -> list[dict[str, Any]]:
    """A flat record of plain values for each row, in the order of the table."""
    return [_record(page, e) for e in page.rows]


def _record(page: Page, e: Shown) -> dict[str, Any]:
    row, entry = e.row, e.row.verified.entry
    model, training = entry.model, entry.training
    first, last = row.rank or (None, None)
    budget = training.budget if training else None
    return {
        "rank_first": first,
        "rank_last": last,
        "rank_class": row.group,
        "entry_id": entry.entry_id,
        "slug": row.verified.slug,
        "page": e.href,
        "method": entry.method.name,
        "family": entry.method.family,
        "model": model.name if model else None,
        "parameters": model.parameters if model else None,
        "open_weights": model.open_weights if model else None,
        "submitter": entry.submitter.name,
        "submitted": entry.submitted,
        "board": page.board.name,
        "env_version": page.table.env_version,
        "suite_version": entry.suite_version,
        "division": entry.division,
        "view": " ".join(entry.view),
        "tier": row.verified.tier,
        "state": row.state,
        "reason": row.reason,
        "reference": row.reference,
        "provisional": row.provisional,
        "runs": row.runs,
        "episodes_verified": sum(run.figures.episodes for run in row.verified.runs),
        **_estimate("solve_rate", row.solve_rate),
        **_estimate("iqm", row.iqm),
        **_estimate("mean_score", row.score),
        **_reached("episodes_to_50", row.episodes_to.get(50)),
        **_reached("episodes_to_80", row.episodes_to.get(80)),
        **_reached("tokens_to_50", row.tokens_to.get(50)),
        **_reached("tokens_to_80", row.tokens_to.get(80)),
        "training_episodes": budget.episodes if budget else None,
        "training_tokens": budget.tokens if budget else None,
        "training_wall_seconds": budget.wall_seconds if budget else None,
        "peak_memory_mb": budget.peak_memory_mb if budget else None,
    }


def _estimate(name: str, estimate: Estimate) -> dict[str, float]:
    return {
        name: round(estimate.value, 6),
        f"{name}_low": round(estimate.low, 6),
        f"{name}_high": round(estimate.high, 6),
    }


def _reached(name: str, reached: Reached | None) -> dict[str, int | None]:
    """Where a level was reached; if it was not, what was spent without."""
    at = reached.at if reached else None
    return {name: at, f"{name}_above": reached.budget if reached and at is None else None}


def csv_text(page: Page) -> str:
    """The table as CSV (RFC 4180); text that a spreadsheet would take for a formula gets a '."""
    out = io.StringIO()
    rows = records(page)
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    for row in rows:
        writer.writerow({key: cell(_plain(value)) for key, value in row.items()})
    return out.getvalue()


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def json_text(page: Page) -> str:
    """The table as JSON: what it is about, and its rows."""
    about = {
        "board": page.board.name,
        "title": page.board.title,
        "env_id": page.board.env_id,
        "split": page.board.split,
        "instances": page.board.episodes,
        "env_version": page.table.env_version,
        "frozen": page.frozen,
        "rows": records(page),
    }
    return json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
