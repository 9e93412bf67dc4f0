"""Reductions of distributed arrays over all elements or along dimensions: sums, extrema and the like. All ranks get the result.

Each rank reduces the elements that it holds, one replica of each; what they have is combined in the order of ranks, so that
results are the same from run to run.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .comm.agreement import agreement
from .engine.spec import group_of_all
from .errors import ArrayError, shown
from .layout.array_arithmetic import Distributed, own_arrays, own_indices
from .layout.dtypes import is_complex

Axis = int | Sequence[int] | None
T = TypeVar("T")


class OfRank(NamedTuple):
    """What a rank has: the dtype of the array, if it knows it, and for each block its indices and its value."""

    dtype: np.dtype[Any] | None
    parts: list[tuple[tuple[NDArray[np.int64], ...], Any]]


class Block(NamedTuple):
    """Elements of an array on this rank: their global indices along each dimension, and the elements."""

    indices: tuple[NDArray[np.int64], ...]
    elements: NDArray[Any]


def own_blocks(array: Distributed) -> list[Block]:
    """The elements of an array, or of a part of one, of which this rank holds the first replica, if any. Not collective."""
    is_first = [not any(place[array.ndim :]) for place in array.desc.own_places]
    blocks = zip(own_indices(array), own_arrays(array), strict=True)
    return [Block(*block) for block in itertools.compress(blocks, is_first) if block[1] is not None and block[1].size]


def reduced(
    array: Distributed, function: np.ufunc, name: str, axis: Axis, keepdims: bool, dtype: DTypeLike | None = None
) -> Any:
    """The reduction by a ufunc. Collective over the communicator of the array.

    Parameters
    ----------
    array : DistributedArray
        The array.
    function : ufunc
        Of two numbers; its order does not matter.
    name : str
        What it is called in texts.
    axis : int, sequence of int or None
        The dimensions to reduce; None for all.
    keepdims : bool
        Whether the result keeps them, of size 1.
    dtype : dtype, optional
        Of the result, as for `function.reduce`.
    """

    def wanted() -> str:
        return "" if dtype is None else f", dtype={np.dtype(dtype)}"

    def is_summed_wide(kind: np.dtype[Any]) -> bool:
        """Half precision, of which NumPy rounds the sum and no part of it."""
        return function is np.add and dtype is None and kind.char == "e"

    def dtype_for(kind: np.dtype[Any]) -> DTypeLike | None:
        return np.float32 if is_summed_wide(kind) else dtype

    def finish(result: Any, kind: np.dtype[Any]) -> Any:
        return result.astype(np.float16) if is_summed_wide(kind) else result

    return _reduced(array, function, name, axis, keepdims, dtype_for, finish, wanted)


def mean(array: Distributed, axis: Axis, keepdims: bool) -> Any:
    """The mean; sums are in double precision. Collective over the communicator of the array."""

    def divided(total: Any, kind: np.dtype[Any]) -> Any:
        return _narrowed(total / (math.prod(array.shape) // max(1, np.size(total))), kind)

    return _reduced(array, np.add, "mean", axis, keepdims, wide_dtype, divided)


def _reduced(
    array: Distributed,
    function: np.ufunc,
    name: str,
    axis: Axis,
    keepdims: bool,
    dtype_for: Callable[[np.dtype[Any]], DTypeLike | None],
    finish: Callable[[Any, np.dtype[Any]], Any],
    wanted: Callable[[], str] = str,
) -> Any:
    """The reduction, in the dtype that `dtype_for` makes of the array's; `finish` makes the result of it, on the first rank."""

    def of_rank() -> OfRank:
        dims = _dimensions(array, axis)
        if function.identity is None and any(array.shape[k] == 0 for k in dims):
            raise ArrayError(f"{name} of an array of shape {array.shape}: no element is there, so there is no {name}")
        parts = []
        for block in own_blocks(array):
            value = function.reduce(block.elements, axis=dims, dtype=dtype_for(block.elements.dtype))
            parts.append((_without(block.indices, dims), (value,)))
        return OfRank(array.dtype, parts)

    def together(ranks: list[OfRank]) -> Any:
        shape, own_kind = _without(array.shape, _dimensions(array, axis)), _dtype_of(ranks)
        kind = function.reduce(np.ones(1, own_kind), dtype=dtype_for(own_kind)).dtype
        start = np.full(shape, 0 if function.identity is None else function.identity, kind)
        (result,) = _merged(ranks, [start], lambda old, new: [function(old[0], new[0])])
        return finish(result[()], own_kind)

    result = _combined(array, name, of_rank, together, lambda: _words(array, axis, keepdims, wanted()))
    return _with_dimensions(result, _dimensions(array, axis), keepdims)


def variance(array: Distributed, axis: Axis, ddof: float, keepdims: bool) -> Any:
    """The sum of squares of distances from the mean, divided by the number of elements less `ddof`. Collective.

    Each rank takes the distances from the mean of its own elements. Counts, means and sums of squares of two sets give those of
    both (Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979). As these
    means are rounded, the mean of the distances is kept as well, the rest.
    """

    def of_rank() -> OfRank:
        dims = _dimensions(array, axis)
        parts = []
        for indices, elements in own_blocks(array):
            count = math.prod(elements.shape[k] for k in dims)
            means = np.add.reduce(elements, axis=dims, dtype=wide_dtype(elements.dtype), keepdims=True) / count
            distances = elements - means
            rest = np.add.reduce(distances, axis=dims) / count
            squares = np.add.reduce(_product(distances, distances), axis=dims)
            parts.append((_without(indices, dims), (np.full_like(squares, count), means.squeeze(dims), rest, squares)))
        return OfRank(array.dtype, parts)

    def both(old: list[NDArray[Any]], new: list[NDArray[Any]]) -> list[NDArray[Any]]:
        (first, means, rest, squares), (second, *_) = old, new
        count, distances = first + second, (new[1] - means) + (new[2] - rest)
        between = _product(distances * (first / count), distances * second)
        return [count, means, rest + distances * (second / count), squares + new[3] + between]

    def together(ranks: list[OfRank]) -> Any:
        shape, kind = _without(array.shape, _dimensions(array, axis)), _dtype_of(ranks)
        means = np.zeros(shape, wide_dtype(kind))
        squares = _merged(ranks, [means.real.copy(), means, means.copy(), means.real.copy()], both)[3][()]
        count = math.prod(array.shape) // max(1, np.size(squares))
        return _narrowed(squares / max(0, count - ddof), kind)

    def words() -> str:
        return _words(array, axis, keepdims, f", ddof={float(ddof)!r}")

    result = _combined(array, "var", of_rank, together, words)
    return _with_dimensions(result, _dimensions(array, axis), keepdims)


def _product(first: NDArray[Any], second: NDArray[Any]) -> Any:
    """The real part of the products of numbers and the conjugates of others."""
    return first.real * second.real + first.imag * second.imag if first.dtype.kind == "c" else first * second


def wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which elements are summed for a mean: double precision at least."""
    return np.result_type(dtype, np.complex128 if is_complex(dtype) else np.float64)


def _narrowed(result: Any, kind: np.dtype[Any]) -> Any:
    """A mean, of real numbers or not, in the precision of the elements; of integers in double precision."""
    if np.can_cast(kind, np.int64) or kind.kind == "u":
        return result
    return result.astype((np.zeros(0, kind).real if np.isrealobj(result) else np.zeros(0, kind)).dtype.newbyteorder("="))


def _merged(
    ranks: Sequence[OfRank], arrays: list[NDArray[Any]], merge: Callable[[list[Any], list[Any]], Sequence[Any]]
) -> list[NDArray[Any]]:
    """Arrays filled with the values of all blocks, in the order of ranks; `merge` makes one value of two."""
    seen = np.zeros(arrays[0].shape, bool)
    for kept, values in (part for each in ranks for part in each.parts):
        where = np.ix_(*kept)
        again, new = np.asarray(seen[where]), [np.array(value) for value in values]
        if again.any():
            old = [np.asarray(array[where])[again] for array in arrays]
            for value, merged in zip(new, merge(old, [value[again] for value in new]), strict=True):
                value[again] = merged
        for array, value in zip(arrays, new, strict=True):
            array[where] = value
        seen[where] = True
    return arrays


def extremum(
    array: Distributed, name: str, find: Callable[..., Any], better: np.ufunc, axis: int | None, keepdims: bool
) -> Any:
    """The index of the first extreme element, or of the first NaN. Collective over the communicator of the array.

    Parameters
    ----------
    find : callable
        `numpy.argmin` or `numpy.argmax`.
    better : ufunc
        Whether one number is to be found rather than another.
    axis : int or None
        The dimension along which to look; None for the index of all elements in C order.
    """

    def of_rank() -> OfRank:
        dims = _dimensions(array, axis)
        if isinstance(axis, Sequence):
            raise ArrayError(f"axis = {shown(axis)} must be one dimension, or None")
        if any(array.shape[k] == 0 for k in dims):
            raise ArrayError(f"{name} of an array of shape {array.shape}: no element is there")
        parts: list[tuple[tuple[NDArray[np.int64], ...], Any]] = []
        for indices, elements in own_blocks(array):
            if axis is None:
                place = np.unravel_index(int(find(elements)), elements.shape)
                index = tuple(int(each[k]) for each, k in zip(indices, place, strict=True))
                parts.append(((), (elements[place], np.ravel_multi_index(index, array.shape))))
            else:
                places = np.expand_dims(find(elements, axis=dims[0]), dims[0])
                found = np.take_along_axis(elements, places, dims[0]), indices[dims[0]][places]
                parts.append((_without(indices, dims), tuple(each.squeeze(dims[0]) for each in found)))
        return OfRank(array.dtype, parts)

    def better_of(old: list[NDArray[Any]], new: list[NDArray[Any]]) -> list[NDArray[Any]]:
        (old_values, old_places), (values, places) = old, new
        is_nan, was_nan = values != values, old_values != old_values
        is_equal = (values == old_values) | (is_nan & was_nan)
        with np.errstate(invalid="ignore"):  # of complex numbers NumPy compares NaN
            is_better = np.where(is_equal, places < old_places, ~was_nan & (is_nan | better(values, old_values)))
        return [np.where(is_better, *each) for each in ((values, old_values), (places, old_places))]

    def together(ranks: list[OfRank]) -> Any:
        dims = _dimensions(array, axis)
        shape = _without(array.shape, dims)
        start = [np.zeros(shape, _dtype_of(ranks)), np.zeros(shape, np.intp)]
        result = _with_dimensions(_merged(ranks, start, better_of)[1][()], dims, keepdims)
        return result if np.ndim(result) else int(result)

    return _combined(array, name, of_rank, together, lambda: _words(array, axis, keepdims))


def trace(array: Distributed, offset: int = 0) -> Any:
    """The sum of a diagonal of a matrix. Collective over the communicator of the array."""

    def of_rank() -> Any:
        if array.ndim != 2:
            raise ArrayError(f"trace of an array of shape {array.shape}: it must have 2 dimensions")
        total = None if array.dtype is None else np.zeros(0, array.dtype).sum()
        for block in own_blocks(array):
            total = total + _own_diagonal(block, offset)[1].sum()
        return total

    def together(sums: list[Any]) -> Any:
        return functools.reduce(np.add, [each for each in sums if each is not None] or [np.float64(0)])

    return _combined(array, "trace", of_rank, together, lambda: f"(offset={operator.index(offset)})")


def diagonal(array: Distributed, offset: int = 0) -> Any:
    """A diagonal of a matrix, on all ranks. Collective over the communicator of the array."""

    def of_rank() -> OfRank:
        if array.ndim != 2:
            raise ArrayError(f"diagonal of an array of shape {array.shape}: it must have 2 dimensions")
        found = (_own_diagonal(block, offset) for block in own_blocks(array))
        return OfRank(array.dtype, [((places,), values) for places, values in found])

    def together(ranks: list[OfRank]) -> Any:
        m, n = array.shape
        result = np.zeros(max(0, min(m + min(offset, 0), n - max(offset, 0))), _dtype_of(ranks))
        for (places,), values in (part for each in ranks for part in each.parts):
            result[places] = values
        return result, result.dtype

    result, kind = _combined(array, "diagonal", of_rank, together, lambda: f"(offset={operator.index(offset)})")
    return result.astype(kind, copy=False)  # pickled arrays are of the machine's byte order


def _own_diagonal(block: Block, offset: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The elements of a block on a diagonal, and their places on it."""
    rows, columns = block.indices
    _, down, across = np.intersect1d(rows + offset, columns, assume_unique=True, return_indices=True)
    return rows[down] + min(offset, 0), block.elements[down, across]


def _combined(
    array: Distributed,
    name: str,
    of_rank: Callable[[], Any],
    together: Callable[[list[Any]], Any],
    arguments: Callable[[], str] = str,
) -> Any:
    """What all ranks have, combined on one rank in their order, if all have called with these arguments and this layout."""
    with agreement(group_of_all(array.desc), name, combine=together) as agreed:
        agreed.same_array(array)
        agreed.call += arguments()
        agreed.give(of_rank())
    return agreed.result


def _words(array: Distributed, axis: Axis, keepdims: bool, more: str = "") -> str:
    """The arguments that all ranks must give alike."""
    return f"(axis={_dimensions(array, axis)}{', keepdims=True' if keepdims else ''}{more})"


def _without(each: Sequence[T], dims: tuple[int, ...]) -> tuple[T, ...]:
    """What there is for each dimension, without those that are reduced."""
    return tuple(one for k, one in enumerate(each) if k not in dims)


def _dtype_of(ranks: Sequence[OfRank]) -> np.dtype[Any]:
    """The dtype of the array, as far as a rank knows it."""
    return next((each.dtype for each in ranks if each.dtype is not None), np.dtype(np.float64))


def _with_dimensions(result: Any, dims: tuple[int, ...], keepdims: bool) -> Any:
    """The result with the dimensions that were reduced, if they are kept."""
    return np.expand_dims(result, dims) if keepdims else result


def _dimensions(array: Distributed, axis: Axis) -> tuple[int, ...]:
    """The dimensions, counted from 0."""
    ndim = array.ndim
    wanted: Sequence[object] = range(ndim) if axis is None else [*axis] if isinstance(axis, Sequence) else [axis]
    if not all(isinstance(k, int | np.integer) and -ndim <= k < ndim for k in wanted):
        raise ArrayError(f"axis = {shown(axis)} must be dimensions of an array with {ndim}, from {-ndim} to {ndim - 1}")
    dims = tuple(operator.index(k) % ndim for k in wanted)  # type: ignore[arg-type]
    if len(set(dims)) < len(dims):
        raise ArrayError(f"axis = {shown(axis)} has a dimension twice")
    return dims
