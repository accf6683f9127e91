"""A key-value cache that grows and shrinks in place.

The dynamic cache of transformers copies all it holds with every token that is read and
every row that leaves; on small models that was half of the time of playing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


class _RoomyLayer(DynamicLayer):
    """Keys and values, (rows, heads, length, head_dim), as views of buffers with room."""

    def __init__(self) -> None:
        super().__init__()
        self._buffers: list[Tensor] = []

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        begin = self.get_seq_length()
        rows, end = len(key_states), begin + key_states.shape[-2]
        if not self._buffers or end > self._buffers[0].shape[-2]:
            held = [self.keys, self.values] if begin else []
            self._buffers = [
                x.new_empty((rows, x.shape[1], 2 * end, x.shape[3]))
                for x in (key_states, value_states)
            ]
            for buffer, old in zip(self._buffers, held, strict=False):
                buffer[:, :, :begin] = old
            self.is_initialized = True
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:rows, :, begin:end] = new
        self._show(rows, end)
        return self.keys, self.values

    def _show(self, rows: int, length: int) -> None:
        self.keys, self.values = (b[:rows, :, :length] for b in self._buffers)

    def spread(self, rows: int) -> None:
        """Gives `rows` rows what the only one holds; the next update makes it their own."""
        self.keys, self.values = (x.expand(rows, -1, -1, -1) for x in (self.keys, self.values))
        self._buffers = []

    def move(self, moves: Sequence[tuple[int, int]], rows: int) -> None:
        """Copies rows (from, to) in place, then drops all but the first `rows`."""
        length = self.get_seq_length()
        for buffer in self._buffers:
            for source, target in moves:
                buffer[target, :, :length] = buffer[source, :, :length]
        self._show(rows, length)


class RoomyCache(Cache):
    """A cache for models that attend to everything that was read."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=_RoomyLayer)

    def spread(self, rows: int) -> None:
        """Gives `rows` rows what the only one holds."""
        for layer in self.layers:
            layer.spread(rows)

    def keep(self, rows: Sequence[int]) -> list[int]:
        """Drops all rows but these, moving as few of them as it can.

        Args:
            rows: their numbers, increasing.

        Returns:
            `rows` in the order in which they stand now.
        """
        n = len(rows)
        holes = sorted(set(range(n)).difference(rows))
        moves = list(zip((r for r in rows if r >= n), holes, strict=True))
        for layer in self.layers:
            layer.move(moves, n)
        order = list(range(n))
        for source, target in moves:
            order[target] = source
        return order
