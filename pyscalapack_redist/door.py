"""The door: arrays of a plan's call become local arrays here, before the engine begins, and results become the caller's after.

They may be distributed or of other libraries (`adapters`). Nothing here communicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .adapters.adapter import find, tell_written
from .engine.local_arrays import check_target, make_out, new_order
from .engine.operands import list_factors
from .engine.operation import Factors
from .engine.plan import Plan
from .errors import ArrayError, RedistributionError
from .layout.array_arithmetic import Distributed
from .layout.arrays import host_array
from .layout.descriptor import Descriptor
from .layout.tiles import Layout


def local_arrays(plan: Plan, arrays: Sequence[Any], outs: Sequence[Any], beta: object) -> tuple[list[Any], list[Any]]:
    """The local arrays of both sides.

    Raises
    ------
    ArrayError
        A distributed array has another layout than the plan, or an array of another library is not in host memory.
    """
    sources, targets = [], []
    for k, (a, out, pair) in enumerate(zip(arrays, outs, plan.pairs, strict=True)):
        which = f"plan {k}: " if len(plan.pairs) > 1 else ""
        sources.append(_local_of(f"{which}a", a, pair.desc_a))
        if out is a and not isinstance(a, Distributed):
            targets.append(sources[-1])
        else:
            targets.append(_local_of(f"{which}out", out, pair.desc_b))
        if pair.dtype is None and isinstance(a, Distributed) and a.dtype is not None:
            # this rank's part of the array may have no elements, and so no dtype that the engine sees
            target = targets[-1]
            if target is None:
                adds = Factors.of(1, list_factors("beta", beta, len(plan.pairs))[k], pair.op).beta != 0
                own = pair.desc_a.own_arrays(sources[-1], f"{which}a")
                targets[-1] = make_out(pair.desc_b, a.dtype, new_order(pair, own), pair.part is not None, adds)
            elif isinstance(target, np.ndarray) and target.size:
                check_target(target, a.dtype, f"{which}out")
    return sources, targets


def _local_of(name: str, array: Any, desc: Layout) -> Any:
    """The local array of a distributed array, or of one of another library; or an array of another library as NumPy's."""
    if isinstance(array, Distributed):
        return _checked_local(name, array, array.desc, array.local, desc)
    adapter = None if isinstance(array, np.ndarray) else find(array)
    error: RedistributionError | None = None
    of_summands = False
    if adapter is not None and adapter.communicates:  # other ranks may not read theirs
        if not isinstance(array, tuple):
            raise ArrayError(
                f"{name} is a {type(array).__name__}, whose layout all ranks read: pass as_distributed of it"
            )
        array = array[1]
    elif adapter is not None and desc.comm is not None:
        try:
            view = adapter.view(array, desc.comm)
            of_summands = view.summands is not None
            if not of_summands and view.layout is not None and view.local is not ...:
                return _checked_local(name, array, view.layout, view.local, desc)
        except RedistributionError as caught:
            if not isinstance(desc, Descriptor) or not hasattr(array, "__dlpack__"):
                raise
            error = caught
    if of_summands:
        raise ArrayError(f"{name} is a {type(array).__name__} of summands, which all ranks add: pass as_distributed of it")
    try:
        return host_array(name, array) if isinstance(desc, Descriptor) else array
    except ArrayError:  # else an array that can be a local array is taken as one
        if error is not None:
            raise error from None
        raise


def _checked_local(name: str, array: Any, layout: Any, local: Any, desc: Layout) -> Any:
    """A local array, if its layout is the plan's."""
    if desc.comm is not None and layout.comm is not None:
        layout = layout.on(desc.comm)
    if layout != desc:
        raise ArrayError(f"{name} has the layout {layout!r}, but the plan is for {desc!r}: make a plan of its layout")
    return local if layout._is_stored_as(desc) else layout.views(local)


def in_form_of(plan: Plan, arrays: Sequence[Any], outs: Sequence[Any], result: Any) -> Any:
    """The result of a use in the caller's form: the array it writes into, or a distributed array if A is one."""
    results = list(result) if plan.is_batch else [result]
    for k, (a, out, pair) in enumerate(zip(arrays, outs, plan.pairs, strict=True)):
        if isinstance(out, Distributed):
            results[k] = out
        elif isinstance(a, Distributed) and out is None:
            results[k] = type(a)._from_result(pair.desc_b, results[k], a.dtype)
        elif out is not None:
            tell_written(out)
            results[k] = None if results[k] is None else out
    return results if plan.is_batch else results[0]


class Consumption:
    """What marks a distributed array as consumed from the start of a transfer on, unless nothing of it moves in the end."""

    def __init__(self, array: Distributed) -> None:
        self._array, self._desc, self._local = array, array.desc, array.local

    def mark(self) -> None:
        """The array is given away."""
        self._array._consume("a redistribution with overwrite=True")

    def undo(self) -> None:
        """Nothing has moved."""
        self._array._take_back(self._desc, self._local)


def marking(plan: Plan, arrays: Sequence[Any], outs: Sequence[Any]) -> Consumption | None:
    """What marks the distributed array that a plan consumes; None where there is none, and in place."""
    array = arrays[0]
    if not plan.has_panels or not isinstance(array, Distributed) or outs[0] is array:
        return None
    return Consumption(array)
