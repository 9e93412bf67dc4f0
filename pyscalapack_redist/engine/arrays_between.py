"""Arrays of layouts in between (`via=`), which each use of a plan makes for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from .._kernels.bundle import Origins, address_of
from .bound import Dtypes, Operands, blend_of
from .plan import Plan
from .stages import ArrayKind


class AllArrays(NamedTuple):
    """All arrays of a transfer, those of layouts in between too.

    Attributes
    ----------
    kind : ArrayKind
        Their kind.
    dtypes : tuple of dtype or None
        The dtypes of all pairs, as far as all ranks know them.
    between : sequence of ndarray or None
        Those of layouts in between.
    """

    kind: ArrayKind
    dtypes: Dtypes
    between: Sequence[NDArray[Any] | None]


def allocate(plan: Plan, operands: Operands, dtypes: Dtypes) -> AllArrays:
    """Make the arrays of layouts in between, for these dtypes."""
    kind = operands.kind._replace(items=tuple(0 if dtype is None else dtype.itemsize for dtype in dtypes))
    arrays: list[NDArray[Any] | None] = []
    strides, items, blends = [*kind.strides], [*kind.items], [*kind.blends]
    for array_number in sorted(plan.layouts_between):
        desc, pair = plan.layouts_between[array_number], plan.pair_of[array_number]
        dtype = dtypes[pair]
        array = desc.empty(dtype) if desc._has_local and dtype is not None else None
        arrays.append(array)
        strides.append(() if array is None else array.strides)
        if array is None:
            continue
        items[pair] = array.itemsize
        for move in plan.moves:
            if move.pair == pair and move.blending not in blends[pair]:
                blend = blend_of(operands.factors[pair], move, array.dtype)
                blends[pair] = {**blends[pair], move.blending: blend}
    kind = kind._replace(strides=tuple(strides), items=tuple(items), blends=tuple(blends))
    return AllArrays(kind, dtypes, arrays)


def locate_arrays(
    plan: Plan, stage: int, origins_of_pairs: Origins, arrays_between: Sequence[NDArray[Any] | None]
) -> tuple[Origins, tuple[int, int]]:
    """Return the addresses of a stage's arrays, and those of its first move for derived datatypes."""
    if not plan.layouts_between:
        return origins_of_pairs, origins_of_pairs.pair(0)
    array_numbers = sorted(plan.layouts_between)

    def address(array_number: int) -> int:
        if array_number < 2 * len(plan.pairs):
            return origins_of_pairs.pair(array_number // 2)[array_number % 2]
        array = arrays_between[array_numbers.index(array_number)]
        return 0 if array is None else address_of(array)

    moves = plan.stages[stage].moves
    origins = Origins(len(moves))
    for k, move in enumerate(moves):
        origins.put(k, address(move.source), address(move.target))
    return origins, origins.pair(0)
