"""Reductions of distributed arrays over all elements or along dimensions: sums, extrema and the like. All ranks get the result.

Each rank reduces the elements that it holds, one replica of each; what they have is combined in the order of ranks, so that
results are the same from run to run.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .comm.agreement import agreement
from .comm.progress import hold_interrupts
from .comm.vote import digest
from .engine.spec import group_of_all
from .errors import ArrayError, shown
from .layout.array_arithmetic import Distributed, own_arrays, own_values
from .layout.dtypes import is_complex

Axis = int | Sequence[int] | None
T = TypeVar("T")


Dims = tuple[int, ...]  # dimensions to reduce, counted from 0
Place = tuple[int, ...]  # a process coordinate, or the index of a tile, along each dimension


class OfRank(NamedTuple):
    """What a rank has: the dtype of the array, if it knows it, and for each block its place and its values."""

    dtype: np.dtype[Any] | None
    parts: list[tuple[Any, Any]]


def own_blocks(array: Distributed) -> list[tuple[Place, NDArray[Any]]]:
    """The elements of an array, or of a part of one, of which this rank holds the first replica, if any, with their places.

    Not collective.
    """
    return [(place, own) for place, own, _ in _masked_blocks(array, True)]


def _indices(array: Distributed, dims: Sequence[int], place: Place) -> list[NDArray[np.int64]]:
    """The global indices of a block along some dimensions, by its place along these."""
    return [array.desc.distributions[k].global_indices(p) for k, p in zip(dims, place, strict=True)]


def reduced(
    array: Distributed,
    function: np.ufunc,
    name: str,
    axis: Axis,
    keepdims: bool,
    dtype: DTypeLike | None = None,
    initial: Any = None,
    where: Any = True,
    prepare: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
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
    initial : number, optional
        Another element, as for `function.reduce`.
    where : DistributedArray, ndarray or bool
        Which elements count: a mask that broadcasts, in any layout, or that all ranks have whole.
    prepare : callable
        What is reduced, of a block of the array.
    """

    def wanted() -> str:
        words = "" if dtype is None else f", dtype={np.dtype(dtype)}"
        words += "" if initial is None else f", initial={initial!r}"
        if isinstance(where, Distributed | np.ndarray):
            return f"{words}, where=<{type(where).__name__}>"
        return words + ("" if where is True else f", where={where!r}")

    def is_summed_wide(kind: np.dtype[Any]) -> bool:
        """Half precision, of which NumPy rounds the sum and no part of it."""
        return function is np.add and dtype is None and kind.char == "e"

    def dtype_for(kind: np.dtype[Any]) -> np.dtype[Any] | None:
        wide = np.float32 if is_summed_wide(kind) else dtype
        return None if wide is None else np.dtype(wide)

    def finish(result: Any, kind: np.dtype[Any]) -> Any:
        return result.astype(np.float16) if is_summed_wide(kind) else result

    return _reduced(array, function, name, axis, keepdims, dtype_for, finish, wanted, initial, where, prepare)


def mean(array: Distributed, axis: Axis, keepdims: bool, where: Any = True) -> Any:
    """The mean; sums are in double precision. Collective over the communicator of the array."""
    if where is True:

        def divided(total: Any, kind: np.dtype[Any]) -> Any:
            return _narrowed(total / (math.prod(array.shape) // max(1, np.size(total))), kind)

        return _reduced(array, np.add, "mean", axis, keepdims, wide_dtype, divided)

    def summed(total: Any, kind: np.dtype[Any]) -> Any:
        return total, kind

    with hold_interrupts():
        number = reduced(array, np.add, "mean", axis, keepdims, np.intp, None, where, _ones)
        total, kind = _reduced(array, np.add, "mean", axis, False, wide_dtype, summed, where=where)
        return _narrowed(np.reshape(total, np.shape(number))[()] / number, kind)


def _ones(elements: NDArray[Any]) -> NDArray[Any]:
    return np.broadcast_to(np.True_, elements.shape)


def truth(elements: NDArray[Any]) -> NDArray[Any]:
    """Whether elements are not zero, and texts not empty. Not collective."""
    kind = elements.dtype
    return elements != kind.type() if np.issubdtype(kind, np.character) else elements.astype(bool)


def _reduced(
    array: Distributed,
    function: np.ufunc,
    name: str,
    axis: Axis,
    keepdims: bool,
    dtype_for: Callable[[np.dtype[Any]], np.dtype[Any] | None],
    finish: Callable[[Any, np.dtype[Any]], Any],
    wanted: Callable[[], str] = str,
    initial: Any = None,
    where: Any = True,
    prepare: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
) -> Any:
    """The reduction, in the dtype that `dtype_for` makes of the array's; `finish` makes the result of it, on the first rank."""
    with hold_interrupts():
        mask = array._aligned(where) if isinstance(where, Distributed) else where
        empty = function.identity if initial is None or function.identity is not None else initial
        more = {} if empty is None or function.identity is not None else {"initial": initial}  # that may be there twice

        def of_rank(dims: Dims) -> OfRank:
            if empty is None and any(array.shape[k] == 0 for k in dims):
                raise ArrayError(
                    f"{name} of an array of shape {array.shape}: no element is there, so there is no {name}"
                )
            parts = []
            for place, own, chosen in _masked_blocks(array, mask):
                options = more if mask is True else {**more, "where": chosen}
                elements = prepare(own)
                value = function.reduce(elements, axis=dims, dtype=dtype_for(elements.dtype), **options)
                parts.append((_without(place, dims), (value,)))
            return OfRank(array.dtype, parts)

        def together(ranks: list[OfRank], dims: Dims) -> Any:
            own_kind = _dtype_of(ranks)
            of_elements = prepare(np.zeros(0, own_kind)).dtype
            kind = _dtype_of_values(function, of_elements, dtype_for(of_elements))
            start = np.full(_without(array.shape, dims), 0 if empty is None else empty, kind)
            (result,) = _merged(array, dims, ranks, [start], lambda old, new: [function(old[0], new[0])])
            if initial is not None:
                number = kind if kind.kind in "biufc" else None  # of times ufuncs take no unit
                result = function.reduce(result[np.newaxis], axis=0, dtype=number, initial=initial)
            return _with_dimensions(finish(result[()], own_kind), dims, keepdims)

        return _combined(array, name, lambda: _read(array, axis, keepdims, wanted()), of_rank, together, where)


def _masked_blocks(array: Distributed, mask: Any) -> list[tuple[Place, NDArray[Any], Any]]:
    """The `own_blocks`, with the part of a mask for each; the mask itself if it is a number."""
    is_array = isinstance(mask, Distributed | np.ndarray)
    if (is_array and mask.dtype is not None and mask.dtype != np.bool_) or (not is_array and np.ndim(mask)):
        raise ArrayError(
            f"where = {shown(mask)} must be a distributed array of bool, as a > 0 is, or a NumPy array that all ranks have"
        )
    masks = own_values(mask, array) or [mask] * len(own_arrays(array))
    blocks = zip(array.desc.own_places, own_arrays(array), masks, strict=False)
    return [
        (place[: array.ndim], own, chosen)
        for place, own, chosen in blocks
        if not any(place[array.ndim :]) and own is not None and own.size
    ]


@functools.lru_cache(maxsize=256)
def _dtype_of_values(function: np.ufunc, kind: np.dtype[Any], dtype: np.dtype[Any] | None) -> np.dtype[Any]:
    """The dtype of what `function.reduce` makes of elements of a dtype."""
    return function.reduce(np.ones(1, kind), dtype=dtype).dtype  # type: ignore[no-any-return]


def variance(array: Distributed, axis: Axis, ddof: float, keepdims: bool) -> Any:
    """The sum of squares of distances from the mean, divided by the number of elements less `ddof`. Collective.

    Each rank takes the distances from the mean of its own elements. Counts, means and sums of squares of two sets give those of
    both (Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979). As these
    means are rounded, the mean of the distances is kept as well, the rest.
    """

    def of_rank(dims: Dims) -> OfRank:
        parts = []
        for place, elements in own_blocks(array):
            count = math.prod(elements.shape[k] for k in dims)
            means = np.add.reduce(elements, axis=dims, dtype=wide_dtype(elements.dtype), keepdims=True) / count
            distances = elements - means
            rest = np.add.reduce(distances, axis=dims) / count
            squares = np.add.reduce(_product(distances, distances), axis=dims)
            parts.append((_without(place, dims), (np.full_like(squares, count), means.squeeze(dims), rest, squares)))
        return OfRank(array.dtype, parts)

    def both(old: list[NDArray[Any]], new: list[NDArray[Any]]) -> list[NDArray[Any]]:
        (first, means, rest, squares), (second, *_) = old, new
        count, distances = first + second, (new[1] - means) + (new[2] - rest)
        between = _product(distances * (first / count), distances * second)
        return [count, means, rest + distances * (second / count), squares + new[3] + between]

    def together(ranks: list[OfRank], dims: Dims) -> Any:
        kind = _dtype_of(ranks)
        means = np.zeros(_without(array.shape, dims), wide_dtype(kind))
        start = [means.real.copy(), means, means.copy(), means.real.copy()]
        squares = _merged(array, dims, ranks, start, both)[3][()]
        count = math.prod(array.shape) // max(1, np.size(squares))
        return _with_dimensions(_narrowed(squares / max(0, count - ddof), kind), dims, keepdims)

    return _combined(array, "var", lambda: _read(array, axis, keepdims, f", ddof={float(ddof)!r}"), of_rank, together)


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
    kept = np.zeros(0, kind).real if np.isrealobj(result) else np.zeros(0, kind)
    return np.asarray(result).astype(kept.dtype.newbyteorder("="))[()]


def _merged(
    array: Distributed,
    dims: Dims,
    ranks: Sequence[OfRank],
    results: list[NDArray[Any]],
    merge: Callable[[list[Any], list[Any]], list[Any]],
) -> list[NDArray[Any]]:
    """Results filled with the values of all blocks; `merge` makes one of two for the same elements, in the order of ranks."""
    merged: dict[Place, list[NDArray[Any]]] = {}
    for place, values in (part for each in ranks for part in each.parts):
        pairs = zip(values, results, strict=True)
        new = [np.array(value, result.dtype, order="C", ndmin=1) for value, result in pairs]  # arrays, not numbers
        merged[place] = merge(merged[place], new) if place in merged else new
    for place, new in merged.items():
        where: Any = np.ix_(*_indices(array, _without(range(array.ndim), dims), place)) or ...
        for result, value in zip(results, new, strict=True):
            result[where] = value
    return results


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

    def of_rank(dims: Dims) -> OfRank:
        if isinstance(axis, Sequence):
            raise ArrayError(f"axis = {shown(axis)} must be one dimension, or None")
        if any(array.shape[k] == 0 for k in dims):
            raise ArrayError(f"{name} of an array of shape {array.shape}: no element is there")
        parts: list[tuple[Place, Any]] = []
        for place, elements in own_blocks(array):
            if axis is None:
                local = np.unravel_index(int(find(elements)), elements.shape)
                indices = _indices(array, dims, place)
                index = tuple(int(each[k]) for each, k in zip(indices, local, strict=True))
                parts.append(((), (elements[local], np.ravel_multi_index(index, array.shape))))
            else:
                places = np.expand_dims(find(elements, axis=dims[0]), dims[0])
                (along,) = _indices(array, dims, place[dims[0] : dims[0] + 1])
                found = np.take_along_axis(elements, places, dims[0]), along[places]
                parts.append((_without(place, dims), tuple(each.squeeze(dims[0]) for each in found)))
        return OfRank(array.dtype, parts)

    def better_of(old: list[NDArray[Any]], new: list[NDArray[Any]]) -> list[NDArray[Any]]:
        (old_values, old_places), (values, places) = old, new
        is_nan, was_nan = values != values, old_values != old_values
        is_equal = (values == old_values) | (is_nan & was_nan)
        with np.errstate(invalid="ignore"):  # of complex numbers NumPy compares NaN
            is_better = np.where(is_equal, places < old_places, ~was_nan & (is_nan | better(values, old_values)))
        return [np.where(is_better, *each) for each in ((values, old_values), (places, old_places))]

    def together(ranks: list[OfRank], dims: Dims) -> Any:
        shape = _without(array.shape, dims)
        start = [np.zeros(shape, _dtype_of(ranks)), np.zeros(shape, np.intp)]
        result = _with_dimensions(_merged(array, dims, ranks, start, better_of)[1][()], dims, keepdims)
        return result if np.ndim(result) else int(result)

    return _combined(array, name, lambda: _read(array, axis, keepdims), of_rank, together)


def trace(array: Distributed, offset: int = 0) -> Any:
    """The sum of a diagonal of a matrix. Collective over the communicator of the array."""

    def of_rank(offset: int) -> Any:
        if array.ndim != 2:
            raise ArrayError(f"trace of an array of shape {array.shape}: it must have 2 dimensions")
        total = None if array.dtype is None else np.zeros(0, array.dtype).sum()
        for _, elements in _own_diagonals(array, offset):
            total = total + elements.sum()
        return total

    def together(sums: list[Any], _: int) -> Any:
        return functools.reduce(np.add, [each for each in sums if each is not None] or [np.float64(0)])

    return _combined(array, "trace", lambda: _read_offset(offset), of_rank, together)


def diagonal(array: Distributed, offset: int = 0) -> Any:
    """A diagonal of a matrix, on all ranks. Collective over the communicator of the array."""

    def of_rank(offset: int) -> OfRank:
        if array.ndim != 2:
            raise ArrayError(f"diagonal of an array of shape {array.shape}: it must have 2 dimensions")
        return OfRank(array.dtype, _own_diagonals(array, offset))

    def together(ranks: list[OfRank], offset: int) -> Any:
        m, n = array.shape
        result = np.zeros(max(0, min(m + min(offset, 0), n - max(offset, 0))), _dtype_of(ranks))
        for places, elements in (part for each in ranks for part in each.parts):
            result[places] = elements
        return result, result.dtype

    result, kind = _combined(array, "diagonal", lambda: _read_offset(offset), of_rank, together)
    return result.astype(kind, copy=False)  # pickled arrays are of the machine's byte order


def _own_diagonals(array: Distributed, offset: int) -> list[tuple[NDArray[np.int64], NDArray[Any]]]:
    """For each block the places of its elements on a diagonal, and these elements."""
    parts = []
    for place, elements in own_blocks(array):
        rows, columns = _indices(array, (0, 1), place)
        _, down, across = np.intersect1d(rows + offset, columns, assume_unique=True, return_indices=True)
        parts.append((rows[down] + min(offset, 0), elements[down, across]))
    return parts


def _combined(
    array: Distributed,
    name: str,
    read: Callable[[], tuple[T, str]],
    of_rank: Callable[[T], Any],
    together: Callable[[list[Any], T], Any],
    where: Any = True,
) -> Any:
    """What all ranks have, combined on one rank in their order, if all have called with these arguments and this layout.

    `read` reads the arguments, for the other functions and as words; `where` is a mask that all ranks have alike.
    """
    with agreement(group_of_all(array.desc), name, combine=lambda ranks: together(ranks, given)) as agreed:
        agreed.same_array(array)
        given, words = read()
        agreed.call += words
        if isinstance(where, np.ndarray):
            state_numbers(agreed, "where", where)
        agreed.give(of_rank(given))
    return agreed.result


def state_numbers(agreed: agreement, name: str, value: NDArray[Any]) -> None:
    """Say which NumPy array all ranks have for an argument."""
    # bytes between numbers, as those of long doubles have them, may be any
    content = repr(value.tolist()).encode() if value.dtype.char in "gGVO" else value.tobytes()
    agreed.same(name, digest((value.shape, value.dtype.str, digest(content))), functools.partial(shown, value))


def _read(array: Distributed, axis: Axis, keepdims: bool, more: str = "") -> tuple[Dims, str]:
    """The dimensions to reduce, and the words for the arguments that all ranks must give alike."""
    dims = dimensions_of(array, axis)
    return dims, f"(axis={dims}{', keepdims=True' if keepdims else ''}{more})"


def _read_offset(offset: int) -> tuple[int, str]:
    """The number of a diagonal, and the words for it."""
    number = operator.index(offset)
    return number, f"(offset={number})"


def _without(each: Sequence[T], dims: Dims) -> tuple[T, ...]:
    """What there is for each dimension, without those that are reduced."""
    return tuple([one for k, one in enumerate(each) if k not in dims])


def _dtype_of(ranks: Sequence[OfRank]) -> np.dtype[Any]:
    """The dtype of the array, as far as a rank knows it."""
    return next((each.dtype for each in ranks if each.dtype is not None), np.dtype(np.float64))


def _with_dimensions(result: Any, dims: Dims, keepdims: bool) -> Any:
    """The result with the dimensions that were reduced, if they are kept."""
    return np.expand_dims(result, dims) if keepdims else result


def dimensions_of(array: Distributed, axis: Axis) -> Dims:
    """The dimensions that an axis names, counted from 0; all for None. Not collective.

    Raises
    ------
    ArrayError
        One is none of the array's, or is there twice.
    """
    ndim = array.ndim
    if axis is None:
        return tuple(range(ndim))
    wanted: Sequence[object] = [*axis] if isinstance(axis, Sequence) else [axis]
    if not all(isinstance(k, int | np.integer) and -ndim <= k < ndim for k in wanted):
        raise ArrayError(f"axis = {shown(axis)} must be dimensions of an array with {ndim}, from {-ndim} to {ndim - 1}")
    dims = tuple(operator.index(k) % ndim for k in wanted)  # type: ignore[arg-type]
    if len(set(dims)) < len(dims):
        raise ArrayError(f"axis = {shown(axis)} has a dimension twice")
    return dims
