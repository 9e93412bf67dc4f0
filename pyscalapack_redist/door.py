"""The door: arrays of users become layouts and local arrays here, before the engine begins, and results become theirs after.

Arrays may be distributed, of other libraries (`adapters`), or in tiles where a function wants slabs.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from .adapters.adapter import View, find, tell_written
from .adapters.arguments import layout_of_argument, to_distributed
from .comm.guard import Guard
from .comm.progress import hold_interrupts
from .engine.local_arrays import check_target, make_out
from .engine.make import agreed_plan
from .engine.operands import find_wrapped, list_factors
from .engine.operation import Factors
from .engine.options import Options, PlanKeywords, overwriting, read_options, taking_options
from .engine.plan import Plan
from .engine.redistribution import Redistribution
from .engine.spec import RETURNS_ARRAY, RETURNS_PLAN, communicator_of
from .engine.transfer import Transfer
from .engine.use import start_use
from .errors import ArrayError, DescriptorError, RedistributionError, ScheduleError, shown
from .layout.array_arithmetic import Distributed
from .layout.arrays import host_array
from .layout.axis import check_dimensions
from .layout.descriptor import Descriptor
from .layout.dimensions import BALANCED
from .layout.grid import ProcessGrid, checked_communicator
from .layout.tiles import LAYOUTS, Layout, Tiles
from .tracebacks import brief

R = TypeVar("R")
NAMED_LAYOUTS = {"rows": 0, "columns": -1}  # and the dimension that is distributed


@brief
@taking_options
def plan(
    desc_a: Descriptor | Tiles | Distributed | Sequence[int] | NDArray[np.integer] | None,
    desc_b: Descriptor | Tiles | Distributed | Sequence[int] | NDArray[np.integer] | None,
    **options: Unpack[PlanKeywords],
) -> Redistribution:
    """Plan the redistribution of an array from layout A to layout B. Collective, as `redistribute` with two layouts.

    Parameters
    ----------
    desc_a, desc_b : Descriptor, Tiles, DistributedArray or nine integers
        Layouts before and after; a `DistributedArray` stands for its layout. None as for `redistribute`.
    **options : optional
        dtype, comm, op, uplo, diag, fill, schedule, exchange, buffers, via, memory_limit, overwrite, reduce and agree, as for
        `redistribute`.

    Returns
    -------
    Redistribution
        Call it with the local array of A to get that of B.

    Raises
    ------
    DescriptorError, ArrayError, ScheduleError
        An argument is wrong on this rank.
    CollectiveError
        An argument is wrong on another rank, or ranks ask for different things. Every rank raises.
    """
    with hold_interrupts() as held:
        asked = read_options("plan", options)
        return agreed_plan(*layouts_of(desc_a, desc_b, asked.comm), asked, RETURNS_PLAN, held=held).plan


def layouts_of(desc_a: Any, desc_b: Any, comm: Any) -> tuple[Any, Any]:
    """Both arguments, and the layouts of those that are arrays. Collective for arrays of other libraries."""
    if not isinstance(desc_a, LAYOUTS):
        desc_a = layout_of_argument("desc_a", desc_a, comm, desc_b)
    if not isinstance(desc_b, LAYOUTS):
        desc_b = layout_of_argument("desc_b", desc_b, comm, desc_a)
    return desc_a, desc_b


def takes_arrays(*names: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a function take an array in place of its first two arguments, a descriptor and a local array, by these names.

    The array is distributed, perhaps in tiles, or of another library.
    """

    def decorated(function: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> R:
            first = arguments[0] if arguments else None
            if type(first) is np.ndarray or isinstance(first, Descriptor | None):
                return function(*arguments, **keywords)
            if isinstance(first, ctypes.Structure):  # an array of PyScalapack is also nine integers
                second = arguments[1] if len(arguments) > 1 else keywords.get(names[1], "")
                is_root = second is None and keywords.get("comm") is None  # of all ranks: nine integers need comm
                if not (is_root or isinstance(second, str | os.PathLike | int)):
                    return function(*arguments, **keywords)
            array = to_distributed("array", first, keywords.get("comm"))
            if not isinstance(array, Distributed):
                return function(*arguments, **keywords)
            array = in_slabs(array)
            return function(*[getattr(array, name) for name in names], *arguments[1:], **keywords)

        return call

    return decorated


def added(view: View) -> Distributed:
    """The array of a view of summands: their sum, in new local arrays. Collective."""
    assert view.summands is not None
    assert view.layout is not None
    source, factor = view.summands
    to_sum = plan(source, view.layout, dtype=view.dtype, comm=source.comm, reduce="sum")
    try:
        total: Any = to_sum(view.local if source.coords is not None else None, alpha=factor)
    except ArrayError:
        if factor != 1 and view.dtype is not None and view.dtype.kind in "biu":
            raise ArrayError(
                f"the summands have dtype {view.dtype}, and a mean of integers is none: convert them to floating point first"
            ) from None
        raise
    return Distributed._from_result(view.layout, total, view.dtype)


def in_slabs(array: Distributed) -> Distributed:
    """An array of tiles in slabs of the longest dimension; others unchanged. Collective over the communicator of tiles."""
    return array if isinstance(array.desc, Descriptor) else move(array, slabs_of(array.desc))


def slabs_of(tiles: Tiles) -> Descriptor:
    """Slabs of the longest dimension of an array of tiles, on all ranks."""
    comm = communicator_of(tiles)
    longest = max(range(tiles.ndim), key=lambda k: tiles.shape[k])
    axes = [0 if k == longest else None for k in range(tiles.ndim)]
    return Descriptor(tiles.shape, "balanced", ProcessGrid((comm.Get_size(),), comm), axes=axes)


def named_layout(shape: Any, layout: object, comm: Any) -> Descriptor:
    """Rows or columns of an array on all ranks, in balanced blocks. Not collective.

    Raises
    ------
    DescriptorError
        The shape is none, there is no communicator, or the layout is another one.
    """
    sizes: Any = (shape,) if isinstance(shape, int | np.integer) else shape
    if not hasattr(sizes, "__len__") or isinstance(sizes, str | os.PathLike):
        raise DescriptorError(
            f"shape = {shown(shape)} must be a shape with comm, or a Descriptor, or an array that has one"
        )
    if not isinstance(layout, str) or layout not in NAMED_LAYOUTS:
        raise DescriptorError(
            f"layout = {shown(layout)} must be 'rows' or 'columns'; for others give a Descriptor, which has its communicator"
        )
    if checked_communicator(comm) is None:
        raise DescriptorError(
            "comm = None: give the communicator of the ranks that the array is to be on, as comm=: a shape has none"
        )
    check_dimensions(sizes)
    along = NAMED_LAYOUTS[layout] % len(sizes)
    grid = ProcessGrid([comm.Get_size() if k == along else 1 for k in range(len(sizes))], comm)
    return Descriptor(sizes, BALANCED, grid)


def move(array: Distributed, layout: Descriptor | Tiles, error: BaseException | None = None) -> Distributed:
    """An array in another layout on its communicator. Collective over it; all ranks learn the dtype, or of an earlier error."""
    comm = communicator_of(array.desc)
    agreed = agreed_plan(array.desc, layout, Options(dtype=array.dtype, comm=comm), RETURNS_ARRAY, error)
    return type(array)._from_result(agreed.plan.desc_b, agreed.plan(array.local), agreed.dtype)


def local_result(plan: Redistribution, array: Any, out: Any = None, **factors: Any) -> Any:
    """This rank's local array of B, of a call of a plan with a distributed array, or with None. Collective."""
    if plan.inside.has_panels and isinstance(array, Distributed):  # which is marked as consumed
        result = plan(array, out, **factors)
        return result.local if isinstance(result, Distributed) else result
    local, target = (each.local if isinstance(each, Distributed) else each for each in (array, out))
    return plan(local, target, **factors)


# -- the arrays of a call of a plan


def call_consuming(plan: Redistribution, a: Any, out: Any, alpha: Any, beta: Any) -> Any:
    """Call a plan that does the same and consumes A. Collective, as the call; all ranks agree on that plan each time."""
    inside, options = plan.inside, plan.inside.options
    if options is None:
        error = ScheduleError("overwrite = True is not for a batch: call its plans one by one")
        return start_use(inside, a, out, alpha, beta, error=error).wait()
    if inside.has_panels:
        return plan(a, out, alpha=alpha, beta=beta)
    pair = inside.pairs[0]
    with hold_interrupts():  # of both votes: an interrupt of the first goes into the second
        # the group keeps the plan: whether this rank has asked for it before says nothing of others
        options = overwriting(options._replace(dtype=pair.dtype))
        consuming = agreed_plan(pair.desc_a, pair.desc_b, options, RETURNS_PLAN).plan
        return consuming(a, out, alpha=alpha, beta=beta)


def call_with(plan: Redistribution, arrays: Sequence[Any], outs: Sequence[Any], alpha: object, beta: object) -> Any:
    """Call a plan with arrays that are distributed or of other libraries; one, or None, for each pair. Collective, as the call.

    What is raised before the vote is for the caller to report.
    """
    guard, inside = Guard(), plan.inside
    local = guard.attempt(lambda: _local_arrays(inside, arrays, outs, beta))
    if local is None:
        raise guard.error or RuntimeError("internal error: no local arrays; please report it")
    a, out = local if inside.is_batch else (local[0][0], local[1][0])
    consume = _marking(inside, arrays, outs)
    if consume is None and find_wrapped(inside, a, out) is None:
        result: Any = plan(a, out, alpha=alpha, beta=beta)  # type: ignore[call-overload]
    else:  # lists of tiles, and subclasses of NumPy's array
        result = start_use(inside, a, out, alpha, beta, consume=consume).wait()
    return _in_form_of(inside, arrays, outs, result)


def start_with(
    plan: Plan,
    arrays: Sequence[Any],
    outs: Sequence[Any],
    alpha: object,
    beta: object,
    *,
    error: BaseException | None = None,
    **options: Any,
) -> Transfer[Any]:
    """Start a transfer of arrays that are distributed or of other libraries, as `start_use`; one, or None, for each pair."""
    with Guard(error) as guard:
        local = None if error is not None else guard.attempt(lambda: _local_arrays(plan, arrays, outs, beta))
        sources, targets = local or (arrays, outs)
        a, out = (sources, targets) if plan.is_batch else (sources[0], targets[0])
        finish = functools.partial(_in_form_of, plan, arrays, outs)
        options |= {"convert_result": finish, "consume": None if local is None else _marking(plan, arrays, outs)}
        return start_use(plan, a, out, alpha, beta, error=guard.take_interrupts(), **options)


class Consumption:
    """What marks a distributed array as consumed from the start of a transfer on, unless nothing of it moves in the end."""

    def __init__(self, array: Distributed) -> None:
        self._array, self._desc, self._local = array, array.desc, array.local

    def mark(self) -> None:
        """The array is given away."""
        self._array._consume("a redistribution with overwrite=True", np.empty(0, self._array.dtype))

    def undo(self) -> None:
        """Nothing has moved."""
        self._array._take_back(self._desc, self._local)


def _marking(plan: Plan, arrays: Sequence[Any], outs: Sequence[Any]) -> Consumption | None:
    """What marks the distributed array that a plan consumes; None where there is none, and in place."""
    array = arrays[0]
    if not plan.has_panels or not isinstance(array, Distributed) or outs[0] is array:
        return None
    return Consumption(array)


def _local_arrays(plan: Plan, arrays: Sequence[Any], outs: Sequence[Any], beta: object) -> tuple[list[Any], list[Any]]:
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
                targets[-1] = make_out(pair.desc_b, a.dtype, pair.part is not None, adds)
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


def _in_form_of(plan: Plan, arrays: Sequence[Any], outs: Sequence[Any], result: Any) -> Any:
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
