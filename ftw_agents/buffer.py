"""The buffer: whole episodes of the last few policy versions, first in, first out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ftw_envs.episode import Episode, read_episodes, write_episodes


class Buffer:
    """Holds the episodes of the last `versions` policy versions, in CPU memory.

    When a new version arrives, the oldest leaves as a whole.

    Raises:
        ValueError: versions < 1.
    """

    def __init__(self, versions: int) -> None:
        if versions < 1:
            raise ValueError(f"the buffer must hold at least 1 policy version, got {versions}")
        self._rows: deque[tuple[int, tuple[Episode, ...]]] = deque(maxlen=versions)

    def add(self, version: int, episodes: Sequence[Episode]) -> None:
        """Adds all episodes of a new version.

        Raises:
            ValueError: `version` is not newer than the newest held, or an episode is of another.
        """
        if self._rows and version <= self._rows[-1][0]:
            raise ValueError(f"version {version} is not newer than {self._rows[-1][0]}")
        if any(e.policy_version != version for e in episodes):
            raise ValueError(f"an episode was not played by version {version}")
        self._rows.append((version, tuple(episodes)))

    @property
    def versions(self) -> list[int]:
        """The versions held, oldest first."""
        return [version for version, _ in self._rows]

    @property
    def episodes(self) -> list[Episode]:
        """All episodes held, oldest version first."""
        return [e for _, row in self._rows for e in row]

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """Their scores, shape (n,)."""
        return np.array([e.score for e in self.episodes], dtype=np.float64)

    def save(self, path: Path) -> None:
        """Writes the buffer as JSONL."""
        write_episodes(path, self.episodes)

    def load(self, path: Path) -> None:
        """Replaces the content by what `save` wrote."""
        self._rows.clear()
        rows: dict[int, list[Episode]] = {}
        for episode in read_episodes(path):
            rows.setdefault(episode.policy_version, []).append(episode)
        for version, episodes in rows.items():
            self.add(version, episodes)
