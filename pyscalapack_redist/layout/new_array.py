"""New local arrays, and elements for them.

Large ones begin with a cache line, so that whole lines of them can be written past the cache. NumPy's own begin 16 bytes
after one, where lines of a matrix that are written across those of another take twice as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import ArrayError

__all__ = ["new_array", "of_indices"]

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


def of_indices(f: Callable[..., Any], indices: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
    """What a function gives for all combinations of indices, an array of them for each dimension. Not collective.

    Raises
    ------
    ArrayError
        It does not broadcast to one element for each.
    """
    mesh, shape = np.ix_(*indices), tuple(map(len, indices))
    try:
        given = np.asarray(f(*mesh))
    except (TypeError, ValueError) as error:
        shapes = ", ".join(str(part.shape) for part in mesh)
        error.add_note(
            f"f is called once with arrays of indices, of shapes {shapes}: use NumPy's functions, and numpy.where for if"
        )
        raise
    missing = (1,) * (len(shape) - given.ndim)
    wanted = (1,) * (given.ndim - len(shape)) + shape
    if any(n not in (1, m) for n, m in zip(missing + given.shape, wanted, strict=True)):
        raise ArrayError(
            f"f gave an array of shape {given.shape}, which does not broadcast to this rank's elements, {shape}: it gets an "
            "array of indices for each dimension, and gives one element for each combination of them"
        )
    return given
