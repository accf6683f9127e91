"""Named, counter-based random streams.

Every random number of the suite comes from a `Stream`, which is named by what
it is for (environment, instance, noise seed, purpose ...). A stream depends on its
name only: drawing more from one never shifts another, and nothing touches a global
generator, `hash()`, set order or the clock. Bits come from Philox-4x64 (Salmon et
al., 2011), whose raw output NumPy keeps stable across versions; everything above
the raw bits is done here, so that it is stable too.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from hashlib import blake2b
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Name = str | int
T = TypeVar("T")

_BLOCK = 16  # raw 64-bit words fetched at a time by the scalar draws
_STANDARD_NORMAL = NormalDist()
_MASK = (1 << 64) - 1


def stream_key(*name: Name) -> int:
    """128-bit key of a stream name; distinct names give distinct keys.

    The parts are length-prefixed, so ("a", "bc") and ("ab", "c") differ, and typed,
    so 1 and "1" differ.
    """
    h = blake2b(digest_size=16)
    for part in name:
        if isinstance(part, bool) or not isinstance(part, (str, int, np.integer)):
            raise TypeError(f"a stream name is made of str and int, got {type(part).__name__}")
        text = part if isinstance(part, str) else str(int(part))
        data = text.encode("utf-8", "surrogatepass")
        h.update(b"s" if isinstance(part, str) else b"i")
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return int.from_bytes(h.digest(), "little")


def _mul_array(a: npt.NDArray[np.uint64], b: int) -> tuple[Any, Any]:
    """High and low 64 bits of each product, by halves of 32 bits."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    b1, b0 = np.uint64(b >> 32), np.uint64(b & 0xFFFFFFFF)
    a1, a0 = a >> half, a & low
    middle = a1 * b0 + (a0 * b0 >> half)
    high = a1 * b1 + (middle >> half) + ((middle & low) + a0 * b1 >> half)
    return high, a * np.uint64(b)


def _mul(a: int, b: int) -> tuple[int, int]:
    product = a * b
    return product >> 64, product & _MASK


def _philox(c0: Any, c1: Any, key: int, mul: Callable[[Any, int], Any], word: type) -> Any:
    """First word of Philox-4x64-10 at the counter c0 + c1 * 2**64; numbers or arrays of them."""
    k0, k1 = key & _MASK, key >> 64
    c2 = c3 = c1 & word(0)
    for _ in range(10):
        high0, low0 = mul(c0, 0xD2E7470EE14C6C93)
        high1, low1 = mul(c2, 0xCA5A826395121157)
        c0, c1, c2, c3 = high1 ^ c1 ^ word(k0), low1, high0 ^ c3 ^ word(k1), low0
        k0, k1 = k0 + 0x9E3779B97F4A7C15 & _MASK, k1 + 0xBB67AE8584CAA73B & _MASK
    return c0


# The first draw of many short streams that differ in their counter only: making a generator
# for each would cost more than all the rest of a reset. NumPy counts up before it draws.


def integer_at(n: int, counter: int, *name: Name) -> int:
    """`Stream(*name, counter=counter).integer(n)`, without making a generator.

    Args:
        counter: from 0 to 2**64 - 2.
    """
    w = int(_philox(counter + 1, 0, stream_key(*name), _mul, int))
    if w < (1 << 64) - (1 << 64) % n:
        return w % n
    return Stream(*name, counter=counter).integer(n)


def integers_at(n: int, counters: npt.NDArray[np.uint64], *name: Name) -> npt.NDArray[np.int64]:
    """`integer_at` for each of `counters`, shape of `counters`, int64."""
    zero = np.zeros_like(counters)
    words = _philox(counters + np.uint64(1), zero, stream_key(*name), _mul_array, np.uint64)
    out: npt.NDArray[np.int64] = (words % np.uint64(n)).astype(np.int64)
    for i in np.flatnonzero(words > np.uint64(_MASK - (1 << 64) % n)):
        out[i] = Stream(*name, counter=int(counters[i])).integer(n)
    return out


class Stream:
    """Random numbers for one named purpose.

    Args:
        name: parts that say what the numbers are for, strings and integers.
        counter: block of the stream to start at, for direct access to the n-th draw.
    """

    __slots__ = ("_bits", "_block", "_left")

    def __init__(self, *name: Name, counter: int = 0) -> None:
        self._bits = np.random.Philox(key=stream_key(*name), counter=counter)
        self._block: list[int] = []
        self._left = 0

    def raw(self, n: int) -> npt.NDArray[np.uint64]:
        """`n` raw words, shape (n,), uint64. Independent of what scalar draws buffered."""
        return np.asarray(self._bits.random_raw(n), dtype=np.uint64)

    def word(self) -> int:
        """One raw 64-bit word."""
        if not self._left:
            self._block = self._bits.random_raw(_BLOCK).tolist()
            self._left = _BLOCK
        self._left -= 1
        return self._block[_BLOCK - 1 - self._left]

    def integer(self, n: int) -> int:
        """Uniform integer in [0, n), unbiased (rejection). Raises ValueError for n < 1."""
        if n < 1:
            raise ValueError(f"integer(n) needs n >= 1, got {n}")
        limit = (1 << 64) - (1 << 64) % n
        while True:
            w = self.word()
            if w < limit:
                return w % n

    def uniform(self) -> float:
        """Uniform float in [0, 1) with 53 random bits."""
        return (self.word() >> 11) * 2.0**-53

    def uniforms(self, n: int) -> npt.NDArray[np.float64]:
        """`n` uniform floats in [0, 1), shape (n,), float64."""
        return (self.raw(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def normal(self) -> float:
        """Standard normal by inversion; equal on every machine to about 1e-12."""
        return _STANDARD_NORMAL.inv_cdf(((self.word() >> 11) + 0.5) * 2.0**-53)

    def choice(self, items: Sequence[T]) -> T:
        """One of `items`, uniformly."""
        return items[self.integer(len(items))]

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Shuffle `items` in place (Fisher-Yates)."""
        for i in range(len(items) - 1, 0, -1):
            j = self.integer(i + 1)
            items[i], items[j] = items[j], items[i]
