"""Whether the arrays of a batch overlap: its moves go in any order, so what one writes no other may read or write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import address_of
from ..errors import ArrayError
from ..layout.dimensions import local_part
from ..layout.tiles import Tiles
from .layouts import Layout
from .stages import Pair

__all__ = ["check_apart", "check_tiles_apart"]

WORK = 100_000  # steps of NumPy's search for an element that two arrays share


class _Array(NamedTuple):
    plan: int
    name: str
    array: NDArray[Any]
    first: int
    last: int


def check_apart(pairs: Sequence[Pair], arrays: Sequence[object], outs: Sequence[object]) -> None:
    """Refuse arrays of different plans that share elements, if one is written. Not collective.

    Each pair of a plan's own arrays fits already. Windows of one array that do not overlap are fine, and so are two
    parts of one window on different sides of the diagonal.

    Raises
    ------
    ArrayError
        Names both arrays.
    """
    found = sorted(
        (
            _array(k, name, array)
            for k in range(len(pairs))
            for name, array in (("a", arrays[k]), ("out", outs[k]))
            if isinstance(array, np.ndarray) and array.size
        ),
        key=lambda array: array.first,
    )
    open_: list[_Array] = []
    for array in found:
        open_ = [other for other in open_ if other.last > array.first]
        for other in open_:
            if "out" in (array.name, other.name) and array.plan != other.plan and _share(pairs, array, other):
                first, second = sorted((array, other), key=lambda each: (each.plan, each.name))
                raise ArrayError(
                    f"{first.name} of plan {first.plan} and {second.name} of plan {second.plan} share elements, but the moves "
                    "of a batch go in any order: give each an array of its own, or call the plans one after another"
                )
        open_.append(array)


def check_tiles_apart(
    pair: Pair, sources: Sequence[tuple[str, NDArray[Any]]], targets: Sequence[tuple[str, NDArray[Any]]]
) -> None:
    """Refuse local arrays of a rank that share elements, if one is written. Not collective.

    Their lines are sorted by address; only where these overlap, which those of a strided array may without sharing an
    element, pairs of arrays are looked at.

    Raises
    ------
    ArrayError
        Names both arrays.
    """
    windows = [(name, _window(array, pair.desc_a), False) for name, array in sources]
    windows += [(name, _window(array, pair.desc_b), True) for name, array in targets]
    windows = [window for window in windows if window[1].size]
    if not windows or _lines_apart([_lines(array) for _, array, _ in windows], [written for *_, written in windows]):
        return
    open_: list[_Array] = []
    for array in sorted(
        (_array(k, name, array) for k, (name, array, _) in enumerate(windows)), key=lambda array: array.first
    ):
        open_ = [other for other in open_ if other.last > array.first]
        for other in open_:
            if (windows[array.plan][2] or windows[other.plan][2]) and _meet(array.array, other.array):
                first, second = sorted((array, other), key=lambda each: each.plan)
                names = first.name if first.name == second.name else f"{first.name} and {second.name}"
                raise ArrayError(f"{names} share elements: give each tile memory of its own")
        open_.append(array)


def _meet(x: NDArray[Any], y: NDArray[Any]) -> bool:
    """Whether two arrays share an element; True also where that would take too long to find out."""
    try:
        return np.shares_memory(x, y, max_work=WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _lines(array: NDArray[Any]) -> NDArray[np.int64]:
    """First byte, and that behind the last, of each line along the smaller stride; of a contiguous array, of all of it."""
    start: int = address_of(array)
    if array.flags.forc:
        return np.array([[start], [start + array.nbytes]])
    (short, inner), (_, outer) = sorted(zip(map(abs, array.strides), range(2), strict=True))
    reach = (array.shape[inner] - 1) * array.strides[inner]
    first = start + min(0, reach) + array.strides[outer] * np.arange(array.shape[outer])
    return np.array([first, first + short * (array.shape[inner] - 1) + array.itemsize])


def _lines_apart(lines: Sequence[NDArray[np.int64]], written: Sequence[bool]) -> bool:
    """Whether no line that is written overlaps any other."""
    first, last = np.concatenate(lines, axis=1)
    writes = np.repeat(written, [some.shape[1] for some in lines])
    order = np.argsort(first, kind="stable")
    first, last, writes = first[order], last[order], writes[order]
    reached = np.maximum.accumulate(last)[:-1]
    reached_written = np.maximum.accumulate(np.where(writes, last, 0))[:-1]
    return not (first[1:] < np.where(writes[1:], reached, reached_written)).any()


def _array(plan: int, name: str, array: NDArray[Any]) -> _Array:
    start: int = address_of(array)
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    return _Array(
        plan,
        name,
        array,
        start + sum(extent for extent in reach if extent < 0),
        start + sum(extent for extent in reach if extent > 0) + array.itemsize,
    )


def _share(pairs: Sequence[Pair], array: _Array, other: _Array) -> bool:
    """Whether an element of both arrays is read or written."""
    windows = [_window(each.array, _layout(pairs[each.plan], each.name)) for each in (array, other)]
    if not _meet(*windows):
        return False
    return not (array.name == other.name and _on_two_sides(pairs[array.plan], pairs[other.plan], windows))


def _layout(pair: Pair, name: str) -> Layout:
    return pair.desc_a if name == "a" else pair.desc_b


def _window(array: NDArray[Any], desc: Layout) -> NDArray[Any]:
    """What a descriptor moves of a local array; a tile moves whole."""
    if isinstance(desc, Tiles):
        return array
    if desc.coords is None:
        return array[:0]
    return array[local_part(desc.distributions, desc.coords)]


def _on_two_sides(pair: Pair, other: Pair, windows: Sequence[NDArray[Any]]) -> bool:
    """Whether two plans write parts of one window that have no diagonal in common."""
    first, second = windows
    same = first.__array_interface__["data"] == second.__array_interface__["data"] and first.strides == second.strides
    if not same or pair.desc_b != other.desc_b or pair.part is None or other.part is None or pair.fill or other.fill:
        return False
    (upper, low), (lower, high) = sorted(
        (each.part.moved(each.op).edge(each.desc_b.shape) for each in (pair, other) if each.part is not None),
        reverse=True,
    )
    return upper and not lower and high < low
