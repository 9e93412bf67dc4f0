"""Conversion of distributed arrays into arrays of other libraries: new ones like a given one, or its own memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .adapters.adapter import Adapter, Blueprint, adapter_of, tell_written
from .arguments import (
    Needs,
    agree_to_read,
    communicator_for,
    not_taken,
    read_argument,
    reading,
    state_layouts,
    stated_layouts,
)
from .comm.agreement import agreement
from .comm.group import first_known
from .comm.groups import group_of
from .comm.guard import Guard
from .comm.mpi import MPI
from .comm.progress import hold_interrupts
from .engine.options import USUAL, Options
from .engine.spec import communicator_of
from .engine.use import start_use
from .errors import ArrayError
from .layout.array_arithmetic import Distributed
from .layout.arrays import new_array
from .layout.descriptor import Descriptor
from .layout.letters import transposes
from .layout.tiles import Layout
from .redistribution import Redistribution, local_result, plan_between, planned
from .tracebacks import brief


@brief
def layout_of(x: object, comm: MPI.Intracomm | None = None) -> Layout:
    """The layout of an array of another library, of a `DistributedArray`, or of a pair (layout, local array).

    Collective over the communicator of the array if its library has one, else over `comm`, by default COMM_WORLD.

    Parameters
    ----------
    x : object
        An array as for `as_distributed`, or a library's object that has the layout only.
    comm : MPI.Intracomm, optional
        Communicator of the processes.

    Returns
    -------
    Descriptor or Tiles
        The layout; `Tiles` if a process has several local arrays.

    Raises
    ------
    ArrayError, DescriptorError
        The object has no layout, or one that cannot be taken, on this rank.
    CollectiveError
        That is so on another rank, or ranks have different layouts.
    """
    layout: Layout = read_argument("x", x, comm, needs=Needs.LAYOUT, required=True).content
    return layout


@brief
def copy_to(x: object, y: object, *, comm: MPI.Intracomm | None = None) -> None:
    """Copy the elements of one array into the memory of another. Collective, as `redistribute`.

    Parameters
    ----------
    x, y : object
        Arrays as for `as_distributed`, of one shape and dtype, in any layouts. `y` is written.
    comm : MPI.Intracomm, optional
        Communicator that holds the processes of both.

    Raises
    ------
    ArrayError, DescriptorError
        An array cannot be taken, or `y` cannot be written, on this rank; `redistribute(x, like=y)` makes a new array.
    CollectiveError
        That is so on another rank.
    """
    with hold_interrupts():  # an interrupt goes into the next vote
        source = read_argument("x", x, comm, y, required=True).content
        target, notifies = read_argument("y", y, comm, source.desc, Needs.MEMORY, required=True)
        to_target = plan_between(source.desc, target.desc, dtype=source.dtype, comm=comm)
        to_target(source.local, target.local)
        if notifies:
            with agreement(group_of(communicator_of(target.desc)), "copy_to, its end"):
                tell_written(y)


def convert(
    array: Distributed, like: Any, comm: Any = None, options: Options = USUAL, *, may_keep: bool = False
) -> Any:
    """The elements of a distributed array in a new object of the kind and the layout of `like`. Collective.

    With `may_keep` the object may keep the memory of the array.
    """
    with hold_interrupts():  # an interrupt goes into the next vote
        return _convert(array, like, comm, options, may_keep)


def _convert(array: Distributed, like: Any, comm: Any, options: Options, may_keep: bool) -> Any:
    adapter = adapter_of(like)
    comm, error = communicator_for(adapter, like, comm, array.desc)
    dtype = array.dtype if options.dtype is None else options.dtype
    blueprint = _blueprint_for(like, adapter, array, options, comm, error)
    group = group_of(comm)

    with agreement(group, "what local arrays are", combine=list) as agreed:
        agreed.give((dtype, may_keep and _is_kept(array, blueprint)))
    known = agreed.result
    dtype = first_known([each for each, _ in known])
    if dtype is None:
        raise ArrayError("no rank knows the dtype: each local array is None; pass empty ones of the dtype")
    parts = [array.local]
    if not all(fits for _, fits in known):
        options = options._replace(dtype=dtype, comm=comm)
        is_part = options.part is not None
        new_arrays = functools.cache(lambda: _new_arrays(blueprint, dtype, is_part))
        last = len(blueprint.layouts) - 1  # the plan that may consume the array
        parts = [
            _moved(
                planned(array.desc, layout, options._replace(overwrite=options.overwrite and k == last)).plan,
                array,
                lambda k=k: new_arrays()[k],  # type: ignore[misc]
            )
            for k, layout in enumerate(blueprint.layouts)
        ]
    with agreement(group, "making an array of another library", open=False):  # constructors may wait for all ranks
        result = blueprint.build(*parts, dtype=dtype)
    return result


def _blueprint_for(
    like: object,
    adapter: Adapter | None,
    array: Distributed,
    options: Options,
    comm: MPI.Intracomm,
    error: BaseException | None,
) -> Blueprint:
    """The blueprint of an array like another one, for op of an array, with layouts that all ranks know. Collective over `comm`.

    An earlier `error` of this rank is one on all ranks.
    """
    error = error or options.error
    if options.order is not None:
        error = error or ArrayError(
            f"order = {options.order!r} with like=, a {type(like).__name__}: its library says which order a new one has; leave "
            "order out"
        )
    communicates = adapter is not None and adapter.communicates
    if communicates:
        agree_to_read("like", comm, error)
    with reading("like", comm, is_open=not communicates) as agreed:
        if error is not None:
            raise error
        if adapter is None:
            raise not_taken("like", like)
        shape = array.shape[::-1] if transposes(options.op) else array.shape
        blueprint = adapter.make(like, shape, comm)
        state_layouts(agreed, "like", blueprint.layouts)
    return blueprint._replace(layouts=stated_layouts(agreed, "like", blueprint.layouts, comm))


def _is_kept(array: Distributed, blueprint: Blueprint) -> bool:
    """Whether the local array is what a blueprint is built from: in its layout, stored alike, and in its order of elements."""
    local, layouts = array.local, blueprint.layouts
    if len(layouts) != 1 or not array.desc._is_stored_as(layouts[0]) or not isinstance(local, np.ndarray):
        return False
    return bool(local.flags.c_contiguous if blueprint.order == "C" else local.flags.f_contiguous)


def _new_arrays(blueprint: Blueprint, dtype: np.dtype[Any], is_part: bool) -> Sequence[Any]:
    """New local arrays for the layouts of a blueprint; of 0 where not all of it is written."""
    if blueprint.allocate is not None:
        return blueprint.allocate(dtype, is_part)
    order = blueprint.order
    return [
        new_array(layout.local_shape, dtype, order, is_part or layout.parent is not None)
        if isinstance(layout, Descriptor)
        else layout._new_local(dtype, is_part, order)
        for layout in blueprint.layouts
    ]


def _moved(to_layout: Redistribution, array: Distributed, make: Callable[[], Any]) -> Any:
    """The result of a plan in a new local array. Collective."""
    with Guard() as guard:
        out = guard.attempt(make)
        error = guard.take_interrupts()
        if error is not None:
            start_use(to_layout.bounds, array.local, None, error=error).wait()
        local_result(to_layout, array, out)
    return out
