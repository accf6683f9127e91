"""What levels each pack holds. `generate.py` makes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recipe:
    """What levels a pack holds.

    Attributes:
        size: rows and columns, the border of walls included.
        boxes: boxes (and goals).
        walls: least and largest chance of a wall inside the border, in 1/1000; each level
            draws its own, so that open and narrow ones come up.
        pushes: least number of pushes that solves a level.
        moves: least and largest number of moves of the solution with the fewest pushes; the
            upper one leaves every level solvable within the step limit of its id.
        bands: a level is easy up to the first number of fewest moves, hard above the second.
        counts: shipped levels per split, (train, valid, test).
        sealed: whether fresh levels are new ones: of mini ones there are a few thousand in all.
    """

    size: int
    boxes: int
    walls: tuple[int, int]
    pushes: int
    moves: tuple[int, int]
    bands: tuple[int, int]
    counts: tuple[int, int, int] = (20_000, 1_000, 1_000)
    sealed: bool = True


RECIPES = {
    "mini": Recipe(6, 1, walls=(150, 350), pushes=1, moves=(4, 14), bands=(5, 7), sealed=False),
    "standard": Recipe(8, 2, walls=(200, 400), pushes=4, moves=(10, 50), bands=(15, 20)),
    "hard": Recipe(10, 4, walls=(200, 400), pushes=12, moves=(30, 130), bands=(38, 47)),
}
