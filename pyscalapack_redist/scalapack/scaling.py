"""Powers of 2 by which matrices are divided where squares of their elements would overflow or vanish."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..layout.descriptor import Descriptor
from .calls import extreme_over_grid
from .matrix_operands import KIND_OF_DTYPE

# Beyond these, squares and products of squares might overflow in float64, or vanish.
SMALL, LARGE = 1e-50, 1e50


def exponent_of(size: float, dtype: np.dtype[Any]) -> int:
    """The exponent of 2 by which a matrix of a size is divided: not 0 only if squares or sums could overflow or vanish."""
    low, high = (1e-12, 1e12) if dtype.name in ("float32", "complex64") else (SMALL, LARGE)
    return 0 if not size or low < size < high or not math.isfinite(size) else math.frexp(size)[1]


def times_power(numbers: NDArray[Any], exponent: int) -> None:
    """Multiply by 2**exponent in place."""
    if exponent:  # a complex product would make NaN of inf
        for part in (numbers.real, numbers.imag) if numbers.dtype.kind == "c" else (numbers,):
            np.ldexp(part, exponent, out=part)


class Scale:
    """The power of 2 by which a matrix of single precision is divided while it is factored.

    MKL's pcgetrf divides by squares of absolute values. They vanish or overflow where the pivots do not, and the factors then
    are NaN, or wrong by a factor of 10^4, without a word. A matrix of ordinary numbers is left as it is.
    """

    def __init__(self, local: NDArray[Any], desc: Descriptor) -> None:
        self._rows, self._columns = (desc.global_indices(k) for k in (0, 1))
        assert desc.coords is not None
        starts = [axis.local_start(place) for axis, place in zip(desc.distributions, desc.coords, strict=True)]
        self._window = local[starts[0] :, starts[1] :][: self._rows.size, : self._columns.size]
        parts = (part for column in self._window.T for part in (column.real, column.imag))
        sizes = [np.max(np.abs(part), where=np.isfinite(part), initial=0) for part in parts]
        self._largest = np.array([max(sizes, default=0)], local.real.dtype)
        self._find_largest = extreme_over_grid(f"{KIND_OF_DTYPE[self._largest.dtype]}gamx2d", self._largest, desc)
        self._exponent = 0

    def divide(self) -> None:
        """Divide the matrix by the power of 2. Collective over the grid."""
        self._find_largest()
        self._exponent = exponent_of(float(self._largest[0]), self._largest.dtype)
        times_power(self._window, -self._exponent)

    def multiply_upper_triangle(self) -> None:
        """Multiply U by the power of 2. Not collective."""
        for column, j in zip(self._window.T if self._exponent else (), self._columns, strict=False):
            times_power(column[: np.searchsorted(self._rows, j, "right")], self._exponent)
