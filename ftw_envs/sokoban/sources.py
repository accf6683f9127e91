"""Where levels come from: the packs that ship with the suite, an endless stream, or a file."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from ftw_envs.episode import SPLITS
from ftw_envs.sokoban.levels import content_hash
from ftw_envs.sokoban.recipes import RECIPES
from ftw_envs.sokoban.rules import XSB, Level
from ftw_envs.text_env import SEALED_COUNT

BANDS = ("easy", "medium", "hard")
_TO_FLAGS = bytes({ord(c): f for f, c in XSB.items()}.get(i, 0) for i in range(256))
_ENDLESS = 2**31


@dataclass(frozen=True, slots=True)
class PackedLevel:
    """A level with what is known of it.

    Attributes:
        moves: fewest moves that solve it, None where that was not worked out.
        pushes: fewest pushes that solve it, None where that was not worked out.
    """

    level: Level
    moves: int | None = None
    pushes: int | None = None

    @property
    def line(self) -> str:
        """One line of a pack: rows joined by `|`, fewest moves, fewest pushes."""
        return f"{'|'.join(self.level.rows)} {self.moves} {self.pushes}"

    @property
    def hash(self) -> str:
        """Content hash of the level, 16 hex digits."""
        return content_hash(self.level)

    @classmethod
    def read(cls, line: str) -> PackedLevel:
        """Reads what `line` wrote. Shipped levels are not checked again: tests do."""
        rows, moves, pushes = line.split(" ")
        cells = rows.replace("|", "").encode("ascii").translate(_TO_FLAGS)
        return cls(Level(rows.index("|"), cells), int(moves), int(pushes))


class Levels(Protocol):
    """A family of levels addressed by split and index.

    Attributes:
        version: fingerprint of all its levels.
        width, height: of the largest board, in cells.
        sealed: whether there is a split "sealed", of levels made on the spot like those of test.
    """

    version: str
    width: int
    height: int
    sealed: bool

    def count(self, split: str) -> int:
        """How many levels `split` has."""
        ...

    def get(self, split: str, index: int) -> PackedLevel:
        """Level `index` of `split`."""
        ...


class Pack:
    """Shipped levels, kept as text lines and parsed when asked for.

    Args:
        name: of the pack.
        version: fingerprint of all its levels.
        lines: lines of each split.
        band: the difficulty band that these are of, if not all levels are there.
    """

    def __init__(
        self, name: str, version: str, lines: dict[str, list[str]], band: str | None = None
    ) -> None:
        self.name = name
        self.version = version
        self.lines = lines
        self._band = band
        self.sealed = band is None and RECIPES[name].sealed
        first = PackedLevel.read(lines["train"][0]).level
        self.width, self.height = first.width, first.height

    def __reduce__(self) -> tuple[Any, ...]:
        return open_levels, (self.name, None, self._band)  # a copy need not carry the levels

    def count(self, split: str) -> int:
        return SEALED_COUNT if split == "sealed" else len(self.lines[split])

    def get(self, split: str, index: int) -> PackedLevel:
        if split == "sealed":
            return _made(self.name, split, index)
        return PackedLevel.read(self.lines[split][index])

    def band(self, band: str, bounds: tuple[int, int]) -> Pack:
        """Only the levels of a difficulty band, told by fewest moves.

        Args:
            band: "easy" (up to bounds[0] moves), "medium", or "hard" (above bounds[1]).
        """
        low, high = {"easy": (0, bounds[0]), "hard": (bounds[1] + 1, 10**6)}.get(
            band, (bounds[0] + 1, bounds[1])
        )
        some = {
            split: [x for x in lines if low <= int(x.split(" ")[1]) <= high]
            for split, lines in self.lines.items()
        }
        return Pack(self.name, f"{self.version}-{band}", some, band)


def _made(name: str, split: str, index: int) -> PackedLevel:
    """A level that is made on the spot."""
    from ftw_envs.sokoban.generate import new_level  # numba only where levels are made

    level, pushes = new_level(name, split, index)
    return PackedLevel(level, None, pushes)


class EndlessLevels:
    """Training levels made on the spot, by index, without end; valid and test as shipped."""

    sealed = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._pack = load_pack(name)
        self.version = f"{self._pack.version}-endless"
        self.width, self.height = self._pack.width, self._pack.height

    def count(self, split: str) -> int:
        return _ENDLESS if split == "train" else self._pack.count(split)

    def get(self, split: str, index: int) -> PackedLevel:
        if split != "train":
            return self._pack.get(split, index)
        return _made(self.name, split, index)


class FileLevels:
    """The levels of a file, in order. A file is one set: every split is all of it."""

    sealed = False

    def __init__(self, path: Path) -> None:
        from ftw_envs.sokoban.files import read_levels

        self._levels = [PackedLevel(x.level) for x in read_levels(path)]
        text = "\n".join("|".join(p.level.rows) for p in self._levels)
        self.version = f"file-{sha256(text.encode()).hexdigest()[:16]}"
        self.width = max(p.level.width for p in self._levels)
        self.height = max(p.level.height for p in self._levels)

    def count(self, split: str) -> int:
        return len(self._levels)

    def get(self, split: str, index: int) -> PackedLevel:
        return self._levels[index]


@lru_cache(maxsize=8)
def load_pack(name: str) -> Pack:
    """The pack `packs/<name>.txt.xz`: sections `[split]`, a level a line.

    Raises:
        ValueError: there is no pack of that name.
    """
    file = files("ftw_envs.sokoban") / "packs" / f"{name}.txt.xz"
    try:
        data = lzma.decompress(file.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"pack must be one of {', '.join(pack_names())}, got {name!r}") from None
    lines: dict[str, list[str]] = {split: [] for split in SPLITS}
    for line in data.decode("ascii").splitlines():
        if line.startswith("["):
            section = lines[line[1:-1]]
        else:
            section.append(line)
    return Pack(name, sha256(data).hexdigest()[:16], lines)


def pack_names() -> list[str]:
    """Names of the packs that ship."""
    folder = files("ftw_envs.sokoban") / "packs"
    return sorted(f.name.removesuffix(".txt.xz") for f in folder.iterdir())


@lru_cache(maxsize=16)
def _load_band(name: str, band: str) -> Pack:
    return load_pack(name).band(band, RECIPES[name].bands)


@lru_cache(maxsize=8)
def _load_file(path: Path, time: int, size: int) -> FileLevels:
    return FileLevels(path)


def open_levels(pack: str, levels: str | None = None, band: str | None = None) -> Levels:
    """The levels an environment plays.

    Args:
        pack: name of the shipped pack.
        levels: None for the pack, "endless" for its endless training stream, else the path
            of a level file.
        band: only shipped levels of this difficulty, one of `BANDS`.

    Raises:
        ValueError: an unknown pack or band, a band of levels that are not shipped, a
            file that cannot be read.
    """
    if band is not None:
        if band not in BANDS or levels is not None:
            raise ValueError(
                f"band must be one of {', '.join(BANDS)}, and goes with shipped levels only; "
                f"got {band!r} with levels={levels!r}"
            )
        return _load_band(load_pack(pack).name, band)
    if levels is None:
        return load_pack(pack)
    if levels == "endless":
        return EndlessLevels(pack)
    path = Path(levels)
    try:
        stat = path.stat()
    except OSError as e:
        raise ValueError(f"levels: {path} cannot be read ({e.strerror})") from None
    return _load_file(path, stat.st_mtime_ns, stat.st_size)
