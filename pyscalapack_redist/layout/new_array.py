"""Memory for new local arrays: large ones begin with a cache line, so that whole lines of them can be written past the cache.

NumPy's own begin 16 bytes after one. Lines of a matrix that are written across those of another take twice as long there.
"""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["new_array"]

LINE_BYTES = 64  # of a cache line
LARGE = 2**16  # bytes of an array, from which on it matters where it begins


def new_array(shape: tuple[int, ...], dtype: DTypeLike, order: str, zeroed: bool = False) -> NDArray[Any]:
    """An array of its own, contents arbitrary or 0. Not collective.

    Parameters
    ----------
    shape : tuple of int
        Elements along each dimension.
    dtype : dtype
        Of any kind.
    order : {"F", "C"}
        Which dimension runs fastest in memory.
    zeroed : bool
        Whether all elements are 0.
    """
    kind, make = np.dtype(dtype), np.zeros if zeroed else np.empty
    nbytes = math.prod(shape) * kind.itemsize
    if nbytes < LARGE or kind.hasobject or kind.subdtype is not None:
        return make(shape, kind, order=order)  # type: ignore[call-overload,no-any-return]
    memory = make(nbytes + LINE_BYTES - 1, np.uint8)
    return np.ndarray(shape, kind, memory, -memory.ctypes.data % LINE_BYTES, order=cast(Literal["F", "C"], order))
