"""The command `ftw site`: the leaderboards as static pages."""

from __future__ import annotations

from pathlib import Path


def site(
    *,
    out: Path,
    verified: Path = Path("leaderboards/verified"),
    decisions: Path = Path("leaderboards/decisions.jsonl"),
) -> None:
    """Writes the leaderboards as pages that need no server, no network and no scripts.

    Args:
        out: folder of the site; an older site there is replaced.
        verified: folder of what the verifier wrote.
        decisions: file of what became of entries.
    """
    from leaderboards.pages.build import write_site
    from leaderboards.pages.history import read_history
    from leaderboards.tables import read_decisions, read_verified, tables

    counts = write_site(
        tables(read_verified(verified), read_decisions(decisions)), read_history(decisions), out
    )
    print(
        f"tables {counts.tables}, entries {counts.entries}, pages {counts.pages}: "
        f"{out / 'index.html'}"
    )
