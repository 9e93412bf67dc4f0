"""What is drawn of a layout: matrices of blocks, each with the rank that owns it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Panel", "arranged", "is_wide"]

Ints = NDArray[np.int64]
WIDE = 4.0  # from this ratio of the sides on a matrix is not drawn to scale


class Panel(NamedTuple):
    """A matrix of blocks.

    Attributes
    ----------
    title : str
        What part of the array it is; "" for all of it.
    rows, columns : ndarray
        Where the blocks begin along each side, and the end of the last.
    ranks : ndarray
        Owner of each block.
    left_out : int
        Panels that would come after this one and are not drawn.
    """

    title: str
    rows: Ints
    columns: Ints
    ranks: Ints
    left_out: int = 0


def arranged(panels: int) -> tuple[int, int]:
    """Rows and columns in which so many panels are drawn. Not collective."""
    across = math.ceil(math.sqrt(panels))
    return math.ceil(panels / across), across


def is_wide(panel: Panel) -> bool:
    """Whether one side is so much longer that the panel is not drawn to scale. Not collective."""
    height, width = (max(1, int(edges[-1])) for edges in (panel.rows, panel.columns))
    return max(height, width) > WIDE * min(height, width)
