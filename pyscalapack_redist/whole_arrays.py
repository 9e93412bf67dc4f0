"""scatter() and gather(): an array that one rank has whole, or all ranks, from and to a distributed one.

Both redistribute, from and to a grid of one process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from .arguments import takes_arrays
from .comm.agreement import agreement
from .comm.group import first_known
from .comm.guard import Guard, holding_interrupts
from .comm.mpi import MPI
from .engine.options import read_options
from .engine.spec import communicator_of, group_of_all
from .errors import ArrayError, DescriptorError, shown
from .layout.array_arithmetic import Distributed
from .layout.arrays import host_array
from .layout.axis import whole_number
from .layout.descriptor import Descriptor
from .layout.grid import ProcessGrid, is_nine_integers
from .layout.tiles import LayoutArgument, layout_on
from .redistribution import planned
from .tracebacks import brief


@overload
def scatter(
    desc: LayoutArgument,
    array: NDArray[Any] | None,
    root: int = 0,
    *,
    out: NDArray[Any] | None = None,
    order: str | None = None,
    comm: MPI.Intracomm | None = None,
) -> NDArray[Any] | None: ...


@overload
def scatter(
    desc: NDArray[Any] | None,
    array: LayoutArgument,
    root: int = 0,
    *,
    out: NDArray[Any] | None = None,
    order: str | None = None,
    comm: MPI.Intracomm | None = None,
) -> NDArray[Any] | None: ...


@brief
def scatter(
    desc: Any,
    array: Any,
    root: int = 0,
    *,
    out: NDArray[Any] | None = None,
    order: str | None = None,
    comm: MPI.Intracomm | None = None,
) -> NDArray[Any] | None:
    """Distribute an array of one rank by a descriptor. Collective over the communicator of the descriptor's grid.

    Parameters
    ----------
    desc : Descriptor, or nine integers
        Layout to reach. Nine integers, and None on a rank that does not know them, as for `redistribute`: with `comm`.
    array : ndarray or None
        On `root` the whole array, of the descriptor's shape; ignored elsewhere. The first two arguments may come in
        either order, as `distribute` has the array first.
    root : int
        Rank that has the array.
    out : ndarray, optional
        This rank's local array to write into; needed where `desc` is of a sub-array, of which only that is written.
    order : {None, "C", "F", "K"}
        Of the elements in new local arrays: "K" is that of the array on `root`, as it is by default of other than two
        dimensions; matrices are in Fortran order. Not with `out`, on any rank.
    comm : MPI.Intracomm, optional
        Communicator that holds the grid, and then all of its ranks take part. By default that of the grid.

    Returns
    -------
    ndarray or None
        `out`, or this rank's new local array; None on a rank outside the grid.

    Raises
    ------
    ArrayError, DescriptorError
        An argument is wrong on this rank.
    CollectiveError
        One is wrong on another rank.
    """
    if not isinstance(desc, Descriptor) and _is_layout(array, desc):
        desc, array = array, desc
    return from_root(layout_on(desc, comm), lambda: array, root, out, order)[0]


def _is_layout(argument: object, other: object) -> bool:
    """Whether an argument of two is the layout, if the other is no Descriptor."""
    return isinstance(argument, Descriptor) or (is_nine_integers(argument) and not is_nine_integers(other))


@overload
def gather(array: Distributed, /, root: int | None = 0) -> NDArray[Any] | None: ...


@overload
def gather(
    desc: LayoutArgument, local: NDArray[Any] | None, root: int | None = 0, *, comm: MPI.Intracomm | None = None
) -> NDArray[Any] | None: ...


@brief
@holding_interrupts
@takes_arrays("desc", "local")
def gather(
    desc: LayoutArgument, local: NDArray[Any] | None, root: int | None = 0, *, comm: MPI.Intracomm | None = None
) -> NDArray[Any] | None:
    """Collect a distributed array on one rank, or on all. Collective over the communicator of the descriptor's grid.

    In place of `desc` and `local` it takes a `DistributedArray`, or an array as for `as_distributed`.

    Parameters
    ----------
    desc : Descriptor, or nine integers
        Layout of the array; of a sub-array, only that is collected. Nine integers, and None on a rank that does not know
        them, as for `redistribute`: with `comm`.
    local : ndarray or None
        This rank's local array; None on a rank outside the grid.
    root : int or None
        Rank that gets the whole array; None for all ranks of the communicator.
    comm : MPI.Intracomm, optional
        Communicator that holds the grid, and then all of its ranks take part. By default that of the grid.

    Returns
    -------
    ndarray or None
        The whole array, in Fortran order, on `root`, or on all ranks; None elsewhere.

    Raises
    ------
    ArrayError, DescriptorError
        An argument is wrong on this rank.
    CollectiveError
        One is wrong on another rank.
    """
    return _move("gather", layout_on(desc, comm), lambda: local, root)[0]


def from_root(
    desc: Descriptor,
    read: Callable[[], NDArray[Any] | None],
    root: int,
    out: NDArray[Any] | None = None,
    order: str | None = None,
) -> tuple[NDArray[Any] | None, np.dtype[Any]]:
    """The result of `scatter`, and the dtype, on all ranks. Only `root` calls `read`. Collective, as `scatter`."""
    return _move("scatter", desc, read, root, out, order)


@holding_interrupts
def _move(
    call: str,
    desc: Descriptor,
    read: Callable[[], NDArray[Any] | None],
    root: int | None,
    out: NDArray[Any] | None = None,
    order: str | None = "F",
) -> tuple[NDArray[Any] | None, np.dtype[Any]]:
    comm = communicator_of(desc)
    array, dtype = _agree_on_array(call, desc, read, root, order if out is not None else None)

    def whole_layout() -> Descriptor:
        if root is None:  # a copy on each rank
            return Descriptor(desc.shape, None, ProcessGrid((comm.Get_size(),), comm), axes=(None,) * desc.ndim)
        return Descriptor(desc.shape, None, ProcessGrid((1,) * desc.ndim, comm, ranks=np.full((1,) * desc.ndim, root)))

    guard = Guard()  # for the vote on the plan
    whole = guard.attempt(whole_layout)
    source, target = (desc, whole) if call == "gather" else (whole, desc)
    options = read_options(call, {"dtype": dtype, "comm": comm, "order": order})
    agreed = planned(source, target, options, error=guard.error, local=array)
    return agreed.plan(array, out), dtype


def checked_root(root: object, size: int) -> int:
    """A rank of a communicator of this size; a DescriptorError for anything else."""
    rank = whole_number("root", root, 0)
    if rank >= size:
        raise DescriptorError(f"root = {rank} is not a rank of the communicator: it must be 0 to {size - 1}")
    return rank


def _agree_on_array(
    call: str, desc: Descriptor, read: Callable[[], NDArray[Any] | None], root: int | None, order_of_out: str | None
) -> tuple[NDArray[Any] | None, np.dtype[Any]]:
    """This rank's array, None if it has none, and its dtype, which all ranks learn. Collective over the communicator."""
    everyone = group_of_all(desc)
    with agreement(everyone, call, combine=first_known, deliver=True) as agreed:
        agreed.same("desc", desc.layout_digest, desc)
        if call == "scatter" or root is not None:
            root = checked_root(root, everyone.size)
        if order_of_out is not None:
            raise ArrayError(f"order = {shown(order_of_out)} is for a new array, and out is given: leave one of them out")
        agreed.same("root", "all" if root is None else root, root)
        holds = desc.coords is not None if call == "gather" else everyone.rank == root
        array = host_array("array" if call == "scatter" else "local", read()) if holds else None
        if array is not None and not isinstance(array, np.ndarray):
            raise ArrayError(f"the array is a {type(array).__name__}: it must be a NumPy array")
        agreed.give(None if array is None else array.dtype)
    dtype = agreed.result
    if dtype is None:
        raise ArrayError(
            "the array is None on every rank that should hold it: pass it on "
            + ("the ranks of the grid" if call == "gather" else f"rank {root}")
        )
    return array, dtype
