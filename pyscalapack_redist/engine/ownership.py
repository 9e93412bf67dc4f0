"""Whether a call may destroy an array that is given to it: one rule for `overwrite=`, `overwrite_a=` and their like.

What is destroyed are bytes that are elements of the array, that may be written, and that no other array of the call has. Pages
go back to the system only if NumPy owns them, for a view its base.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .local_arrays import share_elements

Array = NDArray[Any]


def why_not_written(array: Array, others: Iterable[Array | None] = ()) -> str:
    """Why a call may not write into an array that is given to it; empty if it may. `others` are all others of the call."""
    if not all(each.flags.writeable for each in _with_bases(array)):
        return "it is read-only"
    if any(other is not None and share_elements(array, other) for other in others):
        return "another array of the call has elements in it"
    return ""


def why_not_given_back(array: Array, dimension: int, others: Iterable[Array | None] = ()) -> str:
    """Why the pages of an array do not go back to the system, panel by panel along a dimension; empty if they do."""
    if reason := why_not_written(array, others):
        return reason
    if not _is_dense(array, dimension):
        return "its elements are not next to one another, or in another order than those of other ranks"
    *_, base = _with_bases(array)
    if base.base is not None:
        return f"its memory belongs to {type(base.base).__name__}"
    return "" if base.flags.owndata else "its memory belongs to another library"


def _with_bases(array: Array) -> Iterator[Array]:
    """An array, the array that it is a view of, and so on."""
    yield array
    while isinstance(array.base, np.ndarray):
        array = array.base
        yield array


def _is_dense(array: Array, dimension: int) -> bool:
    """Whether elements of successive indices of a dimension, all others varying, are successive bytes without gaps."""
    reach = array.itemsize
    lines = [each for k, each in enumerate(zip(array.strides, array.shape, strict=True)) if k != dimension]
    for stride, n in sorted(lines):
        if n > 1 and stride != reach:
            return False
        reach *= n
    return array.strides[dimension] == reach
