"""Checks of the user's local arrays, for shape and overlap, and their addresses and strides for the kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from .._kernels.bundle import address_of
from ..errors import ArrayError
from ..layout.dimensions import local_part
from ..layout.dtypes import foreign_dtypes
from ..layout.letters import transposes
from .stages import Pair

BY_ROWS, BY_COLUMNS = 1, 2  # order of elements in messages
WORK = 100_000  # steps of NumPy's search for a shared element
Array = NDArray[Any]


class LocalArray(NamedTuple):
    """A local array for the kernels: address of element (0, 0, ...), and strides in bytes."""

    address: int
    strides: tuple[int, ...]


NOTHING = LocalArray(0, ())


class Arrays(NamedTuple):
    """The arrays of one pair of layouts on this rank.

    Attributes
    ----------
    sources, targets : list of LocalArray
        Of A and of B, one for each place of this rank in the layout, or NOTHING.
    out : object
        The user's, or a new one.
    dtype : dtype or None
        None if this rank has no arrays, and the plan has no dtype.
    order : int or None
        Of elements in messages: along the lines of A, since a strided array is read fast only along its lines. Writes across
        lines read from a chunk in the cache, and may use non-temporal stores. None without arrays.
    in_place : bool
        Whether A and B are one array.
    """

    sources: list[LocalArray]
    targets: list[LocalArray]
    out: Any
    dtype: np.dtype[Any] | None
    order: int | None
    in_place: bool


def check_arrays(
    a: Any,
    out: Any,
    pair: Pair,
    transposed: bool = False,
    adds: bool = False,
    disjoint_arrays: Arrays | None = None,
) -> Arrays:
    """Check all arrays of a pair of layouts, and make `out` if it was omitted.

    Parameters
    ----------
    a, out : ndarray, list of ndarray or None
        The user's arguments.
    pair : Pair
        Their layouts, the dtype of the plan, and what a new array is like: of 0 where a part of A is moved.
    transposed, adds : bool
        Whether a move transposes A, and whether A is added to `out`.
    disjoint_arrays : Arrays, optional
        Of an earlier call: several arrays at the same addresses are not checked for overlaps again.

    Raises
    ------
    ArrayError
        The message names the array, what it is and what is expected.
    """
    desc_a, desc_b, dtype = pair[:3]
    sources = desc_a.own_arrays(a, "a")
    whose = "the plan is for"
    for k, array in enumerate(sources):
        if array is None:
            continue
        if dtype is None:
            dtype, whose = array.dtype, f"{desc_a._array_name('a', k)} has"
        elif array.dtype != dtype:
            raise ArrayError(
                f"{desc_a._array_name('a', k)} has dtype {array.dtype}, but {whose} dtype = {dtype}: convert it, or plan for "
                "its dtype"
            )
    has_out = out is not None
    if not has_out:
        out = make_out(desc_b, dtype, new_order(pair, sources), pair.part is not None, adds)
    targets = desc_b.own_arrays(out, "out")
    for k, array in enumerate(targets):
        if array is not None:
            if has_out:
                check_target(array, dtype, desc_b._array_name("out", k))
            dtype = array.dtype
    if dtype is not None:
        check_dtype(dtype)
    in_place = has_out and out is a and any(array is not None for array in sources)
    if in_place and (transposed or not desc_a._is_stored_as(desc_b)):
        raise ArrayError(
            "out is a: a redistribution in place is possible for identical layouts only, not transposed; omit out, "
            "or give another array"
        )
    before, after = [locate(array) for array in sources], [locate(array) for array in targets]
    checked = Arrays(before, after, out, dtype, _order(sources, targets, transposed), in_place)
    if not has_out:
        return checked
    if not (desc_a.is_product and desc_b.is_product):
        earlier = disjoint_arrays
        if earlier is None or earlier[:2] != checked[:2] or earlier.dtype != dtype or earlier.in_place != in_place:
            check_tiles_apart(
                [(desc._array_name(what, k), window(array, desc), written)
                 for what, arrays, desc, written in (("a", sources, desc_a, False), ("out", targets, desc_b, True))
                 for k, array in enumerate(arrays)
                 if array is not None and (written or not in_place)]
            )  # fmt: skip
    elif not in_place and sources[0] is not None and targets[0] is not None and share_elements(sources[0], targets[0]):
        raise ArrayError(
            "out shares memory with a: give an array of its own (in place, out is a, works for identical layouts only)"
        )
    return checked


def window(array: Array, desc: Any) -> Array:
    """The part of a local array that belongs to the layout: a sub-array's, else all of it."""
    if desc.parent is None:
        return array
    return array[:0] if desc.coords is None else array[local_part(desc.distributions, desc.coords)]


def _order(sources: Sequence[Array | None], targets: Sequence[Array | None], transposed: bool) -> int | None:
    order = None
    for array in sources:
        if array is not None and by_columns(array.T if transposed else array):
            return BY_COLUMNS
        order = BY_ROWS if array is not None else order
    return BY_ROWS if order is None and any(array is not None for array in targets) else order


def new_order(pair: Pair, sources: Sequence[Array | None]) -> str:
    """The order of elements, "C" or "F", in a new array of B.

    Where the plan leaves it to A, it follows the arrays of this rank alone, since messages have an order of their own.
    """
    if pair.order in ("C", "F"):
        return pair.order
    if pair.order is None and pair.desc_b.ndim == 2:
        return "F"
    known = (memory_order(array.T if transposes(pair.op) else array) for array in sources if array is not None)
    return next(filter(None, known), "F")


def order_like(array: Any, ndim: int) -> str:
    """The order of elements in a new array beside the local one of another: "F" of matrices, otherwise that of this one."""
    return (memory_order(array) if ndim != 2 and isinstance(array, np.ndarray) else None) or "F"


def memory_order(array: Array) -> str | None:
    """The one of "C" and "F" that is nearer to the order of elements in memory; None if they are alike for this array."""
    strides = [abs(stride) for n, stride in zip(array.shape, array.strides, strict=True) if n > 1]
    if len(strides) < 2 or not array.size:
        return None
    return "F" if strides[0] <= strides[-1] else "C"


def make_out(
    desc: Any, dtype: np.dtype[Any] | None, order: str = "F", zeroed: bool = False, adds: bool = False
) -> Any:
    """A new local array of B; None on a rank without one.

    Raises
    ------
    ArrayError
        B is a sub-array or beta is not 0, or the dtype is unknown or not of a fixed size.
    MemoryError
        The process has no memory for it.
    """
    if not desc._has_local:
        return None
    if not desc.is_product and all(0 in shape for shape in desc.local_shapes):
        return desc.empty(dtype or np.float64, order) if desc.offsets is None or dtype is not None else None
    if adds:
        raise ArrayError("out is missing: with beta it is added to, so it must be given; or leave beta out")
    if desc.parent is not None:
        raise ArrayError(
            f"out is missing: B is a sub-array ({desc!r}); give the whole local array, of shape {desc.local_shape}"
        )
    if dtype is None:
        raise ArrayError(
            "out is missing and its dtype is not known on this rank, which holds nothing of A: "
            "pass out, or redistribute(..., dtype=)"
        )
    check_dtype(dtype)
    try:
        return desc.zeros(dtype, order) if zeroed else desc.empty(dtype, order)
    except MemoryError as error:
        remedy = "give out=, an array that is there, or overwrite=True, which needs little more than the memory of A"
        raise no_memory_for(desc, error, f"{remedy}, or more processes") from None


def no_memory_for(desc: Any, error: MemoryError, remedy: str) -> MemoryError:
    """The error with the layout of the new local array, and what to do."""
    return MemoryError(f"{str(error).rstrip('.')}: the new local array of {desc!r}; {remedy}")


def check_target(target: NDArray[Any], dtype: np.dtype[Any] | None, name: str = "out") -> None:
    """Raise an ArrayError for an array that is read-only, of another dtype, or overlaps itself."""
    if dtype is not None and target.dtype != dtype:
        raise ArrayError(
            f"{name} has dtype {target.dtype}, but a has dtype {dtype}: they must be the same; no conversion is made"
        )
    if not target.flags.writeable:
        raise ArrayError(f"{name} is read-only: give an array that can be written")
    if target.size and not target.flags.forc and _overlaps_itself(target.shape, target.strides, target.itemsize):
        raise ArrayError(
            f"{name} has strides {target.strides}: several of its elements share memory; give an ordinary array"
        )


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Raise an ArrayError for elements that are not a fixed number of bytes."""
    if dtype.hasobject or not dtype.itemsize or dtype.subdtype is not None:
        raise ArrayError(
            f"dtype {dtype} cannot be redistributed: elements must be of a fixed size, "
            "of at least a byte, without Python objects, and no arrays"
        )
    # NumPy unpickles such a dtype into the only object of its type, and so changes the byte order of all dtypes of that type.
    if any(not part.isnative for part in foreign_dtypes(dtype)):
        raise ArrayError(
            f"dtype {dtype.str} has elements of a type that is not NumPy's own, in the other byte order, which ranks cannot "
            "tell one another: convert the array to the machine's byte order"
        )


def share_elements(x: Array, y: Array) -> bool:
    """Whether two arrays share memory; True also if the search takes too long."""
    if not np.may_share_memory(x, y):
        return False
    try:
        return np.shares_memory(x, y, max_work=WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Whether two elements of an array share memory; True also if the search takes too long.

    A dimension is left out if its stride exceeds the extent of all dimensions of smaller strides: its lines are apart. An
    ordinary array, of any order and steps, has no dimension left then. Otherwise the array is halved. Two elements that
    share memory are in different halves, or both in the first half, as the second has the same strides.
    """
    rest = sorted((abs(stride), n) for n, stride in zip(shape, strides, strict=True) if n > 1)
    while rest and rest[-1][0] >= item + sum(stride * (n - 1) for stride, n in rest[:-1]):
        rest.pop()
    if not rest:
        return False
    part = as_strided(np.empty(1, f"V{item}"), [n for _, n in rest], [stride for stride, _ in rest])
    while part.size > 1:
        part = np.moveaxis(part, int(np.argmax(part.shape)), 0)
        middle = (len(part) + 1) // 2
        if share_elements(part[:middle], part[middle:]):
            return True
        part = part[:middle]
    return False


def by_columns(array: NDArray[Any]) -> bool:
    """Whether the first dimension runs faster in memory than the last, as in Fortran order."""
    shape = array.shape
    if len(shape) < 2 or shape[0] < 2 or shape[-1] < 2:
        return False
    strides = array.strides
    return abs(strides[0]) <= abs(strides[-1])


def locate(array: Array | None) -> LocalArray:
    """The address and the strides of an array."""
    return NOTHING if array is None else LocalArray(address_of(array), array.strides)


class ByteRange(NamedTuple):
    """The bytes of an array, from `first` to before `last`, with its key, and whether it is written."""

    key: Any
    array: Array
    written: bool
    first: int
    last: int

    @classmethod
    def of(cls, key: Any, array: Array, written: bool) -> ByteRange:
        """The byte range of an array."""
        start: int = address_of(array)
        reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
        first = start + sum(extent for extent in reach if extent < 0)
        return cls(key, array, written, first, start + sum(extent for extent in reach if extent > 0) + array.itemsize)


def find_overlaps(ranges: Iterable[ByteRange]) -> Iterable[tuple[ByteRange, ByteRange]]:
    """Pairs of ranges that overlap, one of them written. The arrays need not share an element."""
    open_ranges: list[ByteRange] = []
    for byte_range in sorted(ranges, key=lambda byte_range: byte_range.first):
        open_ranges = [other for other in open_ranges if other.last > byte_range.first]
        yield from ((other, byte_range) for other in open_ranges if byte_range.written or other.written)
        open_ranges.append(byte_range)


def check_tiles_apart(arrays: Sequence[tuple[str, Array, bool]]) -> None:
    """Raise an error if local arrays share elements. Each comes with its name, and whether it is written.

    Lines are sorted by address. Pairs of arrays are compared only if lines overlap, which strided arrays may do without a
    shared element.

    Raises
    ------
    ArrayError
        The message names both arrays.
    """
    arrays = [each for each in arrays if each[1].size]
    if not arrays or _lines_apart([_lines(array) for _, array, _ in arrays], [written for *_, written in arrays]):
        return
    for x, y in find_overlaps(
        ByteRange.of((k, name), array, written) for k, (name, array, written) in enumerate(arrays)
    ):
        if share_elements(x.array, y.array):
            (_, first), (_, second) = sorted((x.key, y.key))
            names = first if first == second else f"{first} and {second}"
            raise ArrayError(f"{names} share elements: give each tile memory of its own")


def _lines(array: Array) -> NDArray[np.int64]:
    """First byte and end of each line along the smallest stride; of a contiguous array, of all of it as one line.

    A line goes on through further dimensions where it leaves no larger gaps than in the first.
    """
    start: int = address_of(array)
    if array.flags.forc:
        return np.array([[start], [start + array.nbytes]])
    first, length, gap = np.array([start]), array.itemsize, math.inf
    dims = zip(array.strides, array.shape, strict=True)
    for stride, n in sorted([(stride, n) for stride, n in dims if n > 1], key=lambda dim: abs(dim[0])):
        step = abs(stride)
        first = first + min(0, (n - 1) * stride)
        if step - length <= gap:
            gap, length = step - length, length + (n - 1) * step
        else:
            first = np.add.outer(first, step * np.arange(n)).ravel()
    return np.array([first, first + length])


def _lines_apart(lines: Sequence[NDArray[np.int64]], written: Sequence[bool]) -> bool:
    """Whether no written line overlaps another line."""
    first, last = np.concatenate(lines, axis=1)
    writes = np.repeat(written, [some.shape[1] for some in lines])
    order = np.argsort(first, kind="stable")
    first, last, writes = first[order], last[order], writes[order]
    reached = np.maximum.accumulate(last)[:-1]
    reached_written = np.maximum.accumulate(np.where(writes, last, 0))[:-1]
    return not (first[1:] < np.where(writes[1:], reached, reached_written)).any()
