"""Whether the arrays of a batch overlap: its moves go in any order, so what one writes no other may read or write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ArrayError
from ..layout.descriptor import Descriptor
from ..layout.dimensions import local_part
from .stages import Pair

__all__ = ["check_apart"]

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


def _array(plan: int, name: str, array: NDArray[Any]) -> _Array:
    start: int = array.__array_interface__["data"][0]
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
    try:
        if not np.shares_memory(windows[0], windows[1], max_work=WORK):  # type: ignore[arg-type]
            return False
    except np.exceptions.TooHardError:
        return True
    return not (array.name == other.name and _on_two_sides(pairs[array.plan], pairs[other.plan], windows))


def _layout(pair: Pair, name: str) -> Descriptor:
    return pair.desc_a if name == "a" else pair.desc_b


def _window(array: NDArray[Any], desc: Descriptor) -> NDArray[Any]:
    """What a descriptor moves of a local array."""
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
