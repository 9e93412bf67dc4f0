"""Arrays of the layouts in between, of plans with `via=`: made for each use, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import Origins, address_of
from .binding import Operands, factors_of
from .plan import Plan
from .stages import Forms

__all__ = ["allocate", "forms_with", "origins"]


def allocate(
    plan: Plan, mine: Operands, dtypes: Sequence[np.dtype[Any] | None]
) -> tuple[Forms, list[NDArray[Any] | None]]:
    """The kind with all dtypes, and with the arrays of layouts in between, which are made."""
    forms = mine.forms._replace(items=tuple(0 if dtype is None else dtype.itemsize for dtype in dtypes))
    made: list[NDArray[Any] | None] = []
    for slot in sorted(plan.between):
        desc, pair = plan.between[slot], plan.pair_of[slot]
        dtype = dtypes[pair]
        made.append(desc.empty(dtype) if desc._held and dtype is not None else None)
    return forms_with(plan, mine._replace(forms=forms), made), made


def forms_with(plan: Plan, mine: Operands, between: Sequence[NDArray[Any] | None]) -> Forms:
    """The kind with the arrays of layouts in between."""
    strides = mine.forms.strides + tuple(() if array is None else array.strides for array in between)
    items, blends = list(mine.forms.items), list(mine.forms.blends)
    for slot, array in zip(sorted(plan.between), between, strict=True):
        pair = plan.pair_of[slot]
        if array is not None:
            items[pair] = array.itemsize
            for move in plan.moves:
                if move.pair == pair and (move.op, move.last) not in blends[pair]:
                    blends[pair] = {
                        **blends[pair],
                        (move.op, move.last): factors_of(mine.factors[pair], move).blend(array.dtype),
                    }
    return mine.forms._replace(strides=strides, items=tuple(items), blends=tuple(blends))


def origins(
    plan: Plan, stage: int, mine: Operands, between: Sequence[NDArray[Any] | None]
) -> tuple[Origins, tuple[int, int]]:
    """Where the arrays of a stage begin; and, for derived datatypes, those of its first move."""
    if not plan.between:
        return mine.origins, mine.origins.pair(0)
    slots = sorted(plan.between)

    def address(slot: int) -> int:
        if slot < 2 * len(plan.pairs):
            return mine.origins.pair(slot // 2)[slot % 2]
        array = between[slots.index(slot)]
        return 0 if array is None else address_of(array)

    moves = plan.stages[stage].moves
    made = Origins(len(moves))
    for k, move in enumerate(moves):
        made.put(k, address(move.source), address(move.target))
    return made, made.pair(0)
