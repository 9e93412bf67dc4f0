"""Whether a new B fits into the memory that is left: an error on all ranks in place of a job that the system kills."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..comm.free_memory import free_memory
from ..comm.group import Group
from ..errors import ArrayError
from ..layout.descriptor import Descriptor
from .stages import Pair

VARIABLE = "PYSCALAPACK_REDIST_MEMORY_CHECK"  # "0" turns it off
LARGE = 2**26  # bytes on a node from which it is looked at


def require_room(elements: Sequence[int], pairs: Sequence[Pair], arrays: Sequence[Any], outs: Sequence[Any]) -> None:
    """Check that the ranks of this node have the memory for the new arrays of a use, if these are large. Not collective.

    All ranks are taken to make theirs, as this one does. `elements` are those of `new_elements`.

    Raises
    ------
    ArrayError
        They have not.
    """
    if not elements:
        return
    needed = 0
    for count, pair, a, out in zip(elements, pairs, arrays, outs, strict=True):
        dtype = pair.dtype or getattr(a, "dtype", None)
        if out is None and isinstance(dtype, np.dtype):
            needed += count * dtype.itemsize
    if needed >= LARGE and os.environ.get(VARIABLE) != "0":
        free = free_memory()
        if 0 < free < needed:
            raise ArrayError(
                f"not enough free memory for B: the ranks of this node need {needed:,} bytes for new arrays, and {free:,} are "
                "free; give `out`, use more nodes, or consume A by overwrite=True, which needs little more than the larger one "
                f"of A and B ({VARIABLE}=0 turns this check off)"
            )


def new_elements(group: Group | None, pairs: Sequence[Pair]) -> tuple[int, ...]:
    """The elements of B on this rank's node, for each pair; empty where there are too few for elements of 256 bytes."""
    if 256 * sum([math.prod(pair.desc_b.shape) for pair in pairs]) < LARGE:
        return ()
    counts = tuple([_on_node(group, pair.desc_b) for pair in pairs])
    return counts if 256 * sum(counts) >= LARGE else ()


def _on_node(group: Group | None, desc: Any) -> int:
    if group is None or not isinstance(desc, Descriptor) or not desc._has_local:
        return 0
    own = math.prod(desc.local_shape)
    if group.node is None or group.node.size == 1 or 256 * own * group.node.size < LARGE:
        return own
    on_node = {group.ranks[number] for number in group.node.number}
    return sum(
        math.prod(desc.local_shape_of(coords))
        for coords, rank in np.ndenumerate(desc.grid.ranks)
        if int(rank) in on_node
    )


def checked_maker(make: Any, elements: Sequence[int], pairs: Sequence[Pair], number: int) -> Any:
    """A maker of new arrays of B for a compiled call, which checks their memory where they are large."""
    if not elements:
        return make
    one = slice(number, number + 1)

    @functools.wraps(make)
    def checked(dtype: np.dtype[Any]) -> Any:
        require_room(elements[one], pairs[one], [np.empty(0, dtype)], [None])
        return make(dtype)

    return checked
