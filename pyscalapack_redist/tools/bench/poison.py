"""The bytes of local arrays, and those that are put where a right answer is to come, or where nothing may be written."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["bytes_of", "poison", "poisoned"]

POISON = 0xFB


def bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an array in Fortran or C order, as they lie in memory: a view. Not collective."""
    return array.ravel(order="K").view(np.uint8) if array.size else np.empty(0, np.uint8)


def poison(array: NDArray[Any] | None) -> None:
    """Overwrite every byte of an array in Fortran or C order. Not collective."""
    if array is not None and array.size:
        bytes_of(array).fill(POISON)


def poisoned(array: NDArray[Any]) -> bool:
    """Whether every byte of an array in Fortran or C order is as `poison` leaves it. Not collective."""
    return bool((bytes_of(array) == POISON).all())
