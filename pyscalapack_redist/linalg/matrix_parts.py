"""The elements of an operand that a routine reads, in a rank's local array: panels of them, and their magnitude.

A part of a matrix is named by letters: "" for all elements; "L" or "U" for a triangle or trapezoid with the diagonal; "l" or
"u" for one without it; "HL" or "HU" for the Hermitian matrix that is stored as a triangle, of whose diagonal only the real
parts count. What is outside the part, or outside the window of a sub-array, is never read: it may be anything, NaNs too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..layout.array_arithmetic import Distributed
from ..layout.descriptor import Descriptor
from ..layout.dimensions import local_part

LEAST_COLUMNS, ELEMENTS = 32, 2**16  # of a panel of columns, which fits a core's cache
MODERATE = 300  # exponents of 2 for which products of elements neither overflow nor vanish in double precision
OF_TRANSPOSE = {"": "", "L": "U", "U": "L", "l": "u", "u": "l", "HL": "HU", "HU": "HL"}
COMPLEMENT = {
    "L": "u",
    "U": "l",
    "HL": "u",
    "HU": "l",
}  # elements that are not read, but for imaginary parts of a diagonal
Elements = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]


def as_column(desc: Descriptor) -> Descriptor:
    """A vector's layout as that of a matrix of one column; its local array is `local[:, None]`."""
    if desc.ndim == 2:
        return desc
    whole = desc.parent or desc
    column = Descriptor(
        (*whole.shape, 1), (*whole.block, 1), whole.grid, source=(*whole.source, 0), axes=(*whole.axes, None)
    )
    return column if desc.parent is None else column[desc.offset[0] : desc.offset[0] + desc.shape[0], 0:1]


def hermitian_part(lower: object) -> str:
    return "HL" if lower else "HU"


@functools.lru_cache(maxsize=64)
def indices_of(axis: Any, coordinate: int) -> NDArray[np.int64]:
    """Global indices that a process holds along a dimension; do not write into the array."""
    return axis.global_indices(coordinate)  # type: ignore[no-any-return]


def indices_at(desc: Descriptor, coords: Sequence[int]) -> list[NDArray[np.int64]]:
    """Global indices along each dimension of the process at grid coordinates."""
    return [
        indices_of(axis, 0 if dimension is None else coords[dimension])
        for axis, dimension in zip(desc.distributions, desc.axes, strict=True)
    ]


def local_elements(array: Distributed, *, of_copies: bool = False) -> Elements:
    """Global rows and columns that this rank holds, and the elements; a vector is a matrix of one column.

    Empty outside the grid, and, without `of_copies`, on processes that hold a copy of another's elements.
    """
    desc, local = as_column(array.desc), array.local
    coords, place = desc.grid.coords, desc.coords
    if local is None or coords is None or place is None or not holds_elements(desc, of_copies=of_copies):
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, np.zeros((0, 0), array.dtype)
    rows, columns = indices_at(desc, coords)
    matrix = local[:, None] if local.ndim == 1 else local
    if matrix.shape != (rows.size, columns.size):  # with padding, or with more than a window
        matrix = matrix[local_part(desc.distributions, place)]
    return rows, columns, matrix


def holds_elements(desc: Descriptor, *, of_copies: bool = False) -> bool:
    """Whether this rank is in the grid, and, without `of_copies`, in the first replica."""
    return desc.place is not None and (of_copies or not any(desc.place[desc.ndim :]))


def diagonal_elements(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Elements:
    """Global indices of this rank's diagonal elements, ascending, and their places among the rows and columns."""
    across = np.searchsorted(columns, rows)
    is_column = across < columns.size
    is_column[is_column] = columns[across[is_column]] == rows[is_column]
    (down,) = np.nonzero(is_column)
    return rows[down], down, across[down]


def panels(rows: int, columns: int) -> Iterator[slice]:
    """Slices of columns that together are a local array."""
    width = max(LEAST_COLUMNS, ELEMENTS // max(1, rows))
    for first in range(0, columns, width):
        yield slice(first, min(first + width, columns))


def pieces(
    rows: NDArray[np.int64], columns: NDArray[np.int64], part: str
) -> Iterator[tuple[slice, slice, NDArray[np.bool_] | None]]:
    """Local rows and columns that cover a part, none of them empty, with a mask where not all elements are of it.

    Of a Hermitian matrix they cover the triangle without the diagonal.
    """
    lower, strict = part[-1:] in ("L", "l"), part in ("l", "u", "HL", "HU")
    for over in panels(rows.size, columns.size):
        if not part:
            yield slice(0, rows.size), over, None
            continue
        indices = columns[over]
        top, bottom = np.searchsorted(rows, (indices[0], indices[-1] + 1))
        if top < bottom:
            yield slice(top, bottom), over, _mask(rows[top:bottom], indices, lower, strict)
        others = slice(bottom, rows.size) if lower else slice(0, top)
        if others.start < others.stop:
            yield others, over, None


def _mask(rows: NDArray[np.int64], columns: NDArray[np.int64], lower: bool, strict: bool) -> NDArray[np.bool_]:
    """Where elements with these ascending indices are in a triangle."""
    if all(indices.size == indices[-1] - indices[0] + 1 for indices in (rows, columns) if indices.size):
        offset = int(rows[0] - columns[0]) if rows.size else 0
        return _mask_of_ranges(offset, rows.size, columns.size, lower, strict)
    return _in_triangle(rows, columns, lower, strict)


@functools.lru_cache(maxsize=64)
def _mask_of_ranges(offset: int, rows: int, columns: int, lower: bool, strict: bool) -> NDArray[np.bool_]:
    """The mask of indices one after another, of which the first row is `offset` behind the first column; read-only."""
    mask = _in_triangle(np.arange(offset, offset + rows), np.arange(columns), lower, strict)
    mask.flags.writeable = False
    return mask


def _in_triangle(rows: NDArray[np.int64], columns: NDArray[np.int64], lower: bool, strict: bool) -> NDArray[np.bool_]:
    below = (rows - columns[:, None]).T
    mask: NDArray[np.bool_] = (below > 0 if lower else below < 0) if strict else (below >= 0 if lower else below <= 0)
    return mask


def part_panels(elements: Elements, part: str, dtype: Any = None) -> Iterator[tuple[slice, slice, NDArray[Any]]]:
    """Panels of columns, or of a triangle: local rows, local columns, elements, with zeros outside the part."""
    rows, columns, local = elements
    for down, over, inside in pieces(rows, columns, part):
        panel = local[down, over]
        if inside is not None:
            panel = np.where(inside.T, panel.T, 0).T
        yield down, over, panel.astype(dtype or local.dtype, order="K", copy=False)


def along_memory(elements: Elements, part: str) -> tuple[Elements, str, bool]:
    """The elements, or their transpose, so that columns are contiguous; the part; whether they are transposed."""
    rows, columns, local = elements
    down, across = local.strides
    if abs(down) <= abs(across) or 1 in local.shape:
        return elements, part, False
    return (columns, rows, local.T), OF_TRANSPOSE[part], True


STRICT = {"HL": "l", "HU": "u"}


def bilinear_forms(array: Distributed, part: str, left: Any, right: Any, exponent: int) -> NDArray[Any]:
    """Sums of left[i, k] a[i, j] right[j, k] / 2**exponent over the elements of a part that this rank holds first.

    Of a Hermitian matrix over the triangle that is stored. In double precision.
    """
    rows, columns, local = elements = local_elements(array)
    dtype = np.result_type(local.dtype, np.float64)
    total = np.zeros(left.shape[1], np.result_type(dtype, left.dtype))
    (down_indices, over_indices, _), its_part, turned = (
        turned_elements := along_memory(elements, STRICT.get(part, part))
    )
    first, second = (right, left) if turned else (left, right)
    is_moderate = abs(exponent) < MODERATE  # then products can be scaled in place of elements
    for down, over, panel in part_panels(turned_elements[0], its_part, dtype):
        product = (panel if is_moderate else times_powers(panel, -exponent)) @ second[over_indices[over]]
        total += (first[down_indices[down]] * product).sum(axis=0)
    if is_moderate:
        total *= 2.0**-exponent
    if part in STRICT:
        indices, *places = diagonal_elements(rows, columns)
        diagonal = np.ldexp(local[tuple(places)].real.astype(np.float64), -exponent)
        total += (left[indices] * diagonal[:, None] * right[indices]).sum(axis=0)
    return total


def times_powers(panel: NDArray[Any], exponents: int | NDArray[np.int64]) -> NDArray[Any]:
    """A panel multiplied by powers of 2: by one, by columns or by rows."""
    if panel.dtype.kind != "c":
        return np.ldexp(panel, exponents)  # type: ignore[no-any-return]
    product = np.empty_like(panel)
    product.real, product.imag = np.ldexp(panel.real, exponents), np.ldexp(panel.imag, exponents)
    return product


def clear_outside(elements: Elements, part: str) -> None:
    """Write zeros outside a part, and into the imaginary parts of a Hermitian matrix's diagonal."""
    if not part:
        return
    rows, columns, local = elements
    for down, over, outside in pieces(rows, columns, COMPLEMENT[part]):
        if outside is None:
            local[down, over] = 0
        else:
            local[down, over][outside] = 0
    if part[0] == "H" and local.dtype.kind == "c":
        _, *places = diagonal_elements(rows, columns)
        local.imag[tuple(places)] = 0


def magnitude(array: Distributed, part: str = "") -> float:
    """A number from the largest absolute value to the Frobenius norm; inf or NaN if not all elements are finite."""
    elements = local_elements(array, of_copies=True)
    rows, columns, local = elements
    turned, its_part, _ = along_memory(elements, part)
    size = _magnitude_of(panel for _, _, panel in part_panels(turned, its_part))
    if part[:1] != "H":
        return size
    _, *places = diagonal_elements(rows, columns)
    return float(np.max([size, _magnitude_of([local[tuple(places)].real[:, None]])]))


def _magnitude_of(matrices: Iterable[NDArray[Any]]) -> float:
    square, largest = 0.0, 0.0
    for matrix in matrices:
        part = float(squares_of(matrix).sum())
        if not 1e-30 < part < np.inf:  # the squares overflow or vanish in the array's dtype
            numbers = [matrix.real, matrix.imag] if matrix.dtype.kind == "c" else [matrix]
            largest = float(np.max([largest, *(np.abs(number).max(initial=0) for number in numbers)]))
        else:
            square += part
    return float(np.max([math.sqrt(square), largest]))


def squares_of(matrix: NDArray[Any]) -> NDArray[Any]:
    """The sum of squares of absolute values of each column, without a copy where columns are contiguous."""
    lines = matrix.T if matrix.strides[0] == matrix.itemsize else np.ascontiguousarray(matrix.T)
    numbers = lines.view(lines.real.dtype)
    return (numbers[:, None, :] @ numbers[:, :, None])[:, 0, 0]  # type: ignore[no-any-return]
