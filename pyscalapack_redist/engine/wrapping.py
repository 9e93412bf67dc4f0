"""Distributed arrays, and those of other libraries, in a use of a plan: NumPy's go in, and what comes out is as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import ArrayError
from ..layout.arrays import host_array
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed
from ..layout.tiles import Tiles
from .layouts import Layout
from .stages import Pair

__all__ = ["any_wrapped", "unwrapped", "wrapped"]


NUMPYS = frozenset({np.ndarray, type(None)})


def any_wrapped(arrays: Iterable[object]) -> bool:
    """Whether one of these is neither None nor an array of NumPy's own class. Not collective."""
    return not NUMPYS.issuperset(map(type, arrays))


def unwrapped(
    pairs: Sequence[Pair], arrays: Sequence[Any], outs: Sequence[Any]
) -> tuple[list[Any], list[Any], list[Pair]]:
    """The local arrays of both sides, and the pairs with the dtypes that distributed arrays tell. Not collective.

    Raises
    ------
    ArrayError
        A distributed array is not of the plan's layout, or one of another library is not in the host's memory.
    """
    given, into, told = [], [], []
    for k, (a, out, pair) in enumerate(zip(arrays, outs, pairs, strict=True)):
        plan = f"plan {k}: " if len(pairs) > 1 else ""
        given.append(_local_of(f"{plan}a", a, pair.desc_a))
        into.append(
            given[-1] if out is a and not isinstance(a, Distributed) else _local_of(f"{plan}out", out, pair.desc_b)
        )
        told.append(pair._replace(dtype=a.dtype) if pair.dtype is None and isinstance(a, Distributed) else pair)
    return given, into, told


def _local_of(name: str, array: Any, desc: Layout) -> Any:
    if not isinstance(array, Distributed):
        return array if isinstance(desc, Tiles) else host_array(name, array)
    if isinstance(desc, Tiles):
        raise ArrayError(f"{name} is {array!r}, but the plan is for {desc!r}: pass a list of its tiles")
    theirs = array.desc
    if desc.grid.comm is not None and theirs.grid.comm is not None:
        theirs = theirs.on(desc.grid.comm)
    if theirs != desc:
        raise ArrayError(
            f"{name} has the layout {array.desc!r}, but the plan is for {desc!r}: make a plan of its layout"
        )
    return array.local


def wrapped(pairs: Sequence[Pair], arrays: Sequence[Any], outs: Sequence[Any], results: list[Any]) -> list[Any]:
    """The results of a use, as what was given to write into, or as distributed arrays where A was. Not collective."""
    made = list(results)
    for k, (a, out, pair) in enumerate(zip(arrays, outs, pairs, strict=True)):
        if isinstance(out, Distributed):
            made[k] = out
        elif isinstance(a, Distributed) and out is None and isinstance(pair.desc_b, Descriptor):
            made[k] = type(a)._made(pair.desc_b, made[k], a.dtype)
        elif out is not None and made[k] is not None:
            made[k] = out
    return made
