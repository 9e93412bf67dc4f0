"""scatter() and gather(): redistributions from and to a grid of one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..comm.mpi import MPI
from ..comm.vote import Ballot, Statement, digest
from ..errors import ArrayError, DescriptorError
from ..layout.arrays import host_array
from ..layout.axis import whole_number
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed, takes_distributed
from ..layout.grid import ProcessGrid
from ..layout.tiles import LayoutArgument, layout_on
from .arguments import communicator_of, group_of_all
from .redistribute import redistribute

__all__ = ["from_root", "gather", "scatter"]


def scatter(
    desc: LayoutArgument,
    array: NDArray[Any] | None,
    root: int = 0,
    *,
    out: NDArray[Any] | None = None,
    comm: MPI.Intracomm | None = None,
) -> NDArray[Any] | None:
    """Deal an array of one rank out by a descriptor. Collective over the communicator of the descriptor's grid.

    Parameters
    ----------
    desc : Descriptor, or nine integers
        Layout to reach. Nine integers, and None on a rank that does not know them, as for `redistribute`: with `comm`.
    array : ndarray or None
        On `root` the whole array, of the descriptor's shape; elsewhere not looked at.
    root : int
        Rank that has it.
    out : ndarray, optional
        This rank's local array to write into; needed where `desc` is of a sub-array, of which only that is written.
    comm : MPI.Intracomm, optional
        Communicator that holds the grid, and then all of its ranks take part. By default that of the grid.

    Returns
    -------
    ndarray or None
        `out`, or this rank's new local array, in Fortran order; None on a rank outside the grid.

    Raises
    ------
    ArrayError, DescriptorError
        An argument is wrong on this rank.
    CollectiveError
        One is wrong on another rank.
    """
    return from_root(layout_on(desc, comm), lambda: array, root, out)[0]


@overload
def gather(array: Distributed, /, root: int = 0) -> NDArray[Any] | None: ...


@overload
def gather(
    desc: LayoutArgument, local: NDArray[Any] | None, root: int = 0, *, comm: MPI.Intracomm | None = None
) -> NDArray[Any] | None: ...


@takes_distributed("desc", "local")
def gather(
    desc: LayoutArgument, local: NDArray[Any] | None, root: int = 0, *, comm: MPI.Intracomm | None = None
) -> NDArray[Any] | None:
    """Collect a distributed array on one rank. Collective over the communicator of the descriptor's grid.

    In place of `desc` and `local` it takes a `DistributedArray`.

    Parameters
    ----------
    desc : Descriptor, or nine integers
        Layout of the array; of a sub-array, only that is collected. Nine integers, and None on a rank that does not know
        them, as for `redistribute`: with `comm`.
    local : ndarray or None
        This rank's local array; None on a rank outside the grid.
    root : int
        Rank that is to have the whole array.
    comm : MPI.Intracomm, optional
        Communicator that holds the grid, and then all of its ranks take part. By default that of the grid.

    Returns
    -------
    ndarray or None
        The whole array, in Fortran order, on `root`; None elsewhere.

    Raises
    ------
    ArrayError, DescriptorError
        An argument is wrong on this rank.
    CollectiveError
        One is wrong on another rank.
    """
    return _move("gather", layout_on(desc, comm), lambda: local, root)[0]


def from_root(
    desc: Descriptor, given: Callable[[], NDArray[Any] | None], root: int, out: NDArray[Any] | None = None
) -> tuple[NDArray[Any] | None, np.dtype[Any]]:
    """What `scatter` returns, and the dtype, also on ranks outside; only `root` calls `given`. Collective, as `scatter`."""
    return _move("scatter", desc, given, root, out)


def _move(
    call: str, desc: Descriptor, given: Callable[[], NDArray[Any] | None], root: int, out: NDArray[Any] | None = None
) -> tuple[NDArray[Any] | None, np.dtype[Any]]:
    comm = communicator_of(desc)
    to_root = call == "gather"
    array, dtype = _agreed(call, desc, given, root)
    single = Descriptor(desc.shape, None, ProcessGrid((1,) * desc.ndim, comm, ranks=np.full((1,) * desc.ndim, root)))
    source, target = (desc, single) if to_root else (single, desc)
    return redistribute(source, target, dtype=dtype, comm=comm)(array, out), dtype


def _agreed(
    call: str, desc: Descriptor, given: Callable[[], NDArray[Any] | None], root: int
) -> tuple[NDArray[Any] | None, np.dtype[Any]]:
    """The array of a rank that holds one, and its dtype, also on the others."""
    everyone = group_of_all(desc)
    error: Exception | None = None
    array: NDArray[Any] | None = None
    try:
        root = whole_number("root", root, 0)
        if root >= everyone.size:
            raise DescriptorError(
                f"root = {root} is not a rank of the communicator: it must be 0 to {everyone.size - 1}"
            )
        holds = desc.coords is not None if call == "gather" else everyone.rank == root
        array = host_array("array" if call == "scatter" else "local", given()) if holds else None
        if array is not None and not isinstance(array, np.ndarray):
            raise ArrayError(f"the array is a {type(array).__name__}: it must be a NumPy array")
    except Exception as caught:
        error = caught
    place = root if error is None else None
    everyone.agree(
        Ballot(failed=everyone.failed(error), call=digest((call, desc.layout_digest, place))),
        error,
        lambda: [
            Statement("the call", call, call),
            Statement("desc", desc.layout_digest, repr(desc)),
            Statement("root", place, repr(root)),
        ],
        lambda outcome: True,
    )
    known = everyone.share(None if array is None else array.dtype)
    if known is None:
        raise ArrayError(
            "the array is None on every rank that should hold it: pass it on "
            + ("the ranks of the grid" if call == "gather" else f"rank {root}")
        )
    return array, known
