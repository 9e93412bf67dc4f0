"""scatter() and gather(): redistributions from and to a grid of one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..comm.vote import Ballot, Statement, digest
from ..errors import ArrayError, DescriptorError
from ..layout.blockcyclic import whole_number
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed, takes_distributed
from ..layout.grid import ProcessGrid
from ..layout.host_array import host_array
from .arguments import communicator_of, everyone_of
from .redistribute import redistribute

__all__ = ["from_root", "gather", "scatter"]


def scatter(desc: Descriptor, array: NDArray[Any] | None, root: int = 0) -> NDArray[Any] | None:
    """Deal an array of one rank out by a descriptor. Collective over the communicator of the descriptor's grid.

    Parameters
    ----------
    desc : Descriptor
        Layout to reach; of a whole array, not of a sub-array.
    array : ndarray or None
        On `root` the whole array, of the descriptor's shape; elsewhere not looked at.
    root : int
        Rank that has it.

    Returns
    -------
    ndarray or None
        This rank's local array, in Fortran order; None on a rank outside the grid.

    Raises
    ------
    ArrayError, DescriptorError
        An argument is wrong on this rank.
    CollectiveError
        One is wrong on another rank.
    """
    return from_root(desc, lambda: array, root)[0]


@overload
def gather(array: Distributed, /, root: int = 0) -> NDArray[Any] | None: ...


@overload
def gather(desc: Descriptor, local: NDArray[Any] | None, root: int = 0) -> NDArray[Any] | None: ...


@takes_distributed("desc", "local")
def gather(desc: Descriptor, local: NDArray[Any] | None, root: int = 0) -> NDArray[Any] | None:
    """Collect a distributed array on one rank. Collective over the communicator of the descriptor's grid.

    In place of `desc` and `local` it takes a `DistributedArray`.

    Parameters
    ----------
    desc : Descriptor
        Layout of the array; of a sub-array, only that is collected.
    local : ndarray or None
        This rank's local array; None on a rank outside the grid.
    root : int
        Rank that is to have the whole array.

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
    return _move("gather", desc, lambda: local, root)[0]


def from_root(
    desc: Descriptor, given: Callable[[], NDArray[Any] | None], root: int
) -> tuple[NDArray[Any] | None, np.dtype[Any]]:
    """What `scatter` returns, and the dtype, also on ranks outside; only `root` calls `given`. Collective, as `scatter`."""
    return _move("scatter", desc, given, root)


def _move(
    call: str, desc: Descriptor, given: Callable[[], NDArray[Any] | None], root: int
) -> tuple[NDArray[Any] | None, np.dtype[Any]]:
    comm = communicator_of(desc)
    to_root = call == "gather"
    array, dtype = _agreed(call, desc, given, root, desc.coords is not None if to_root else comm.Get_rank() == root)
    single = Descriptor(desc.shape, None, ProcessGrid((1,) * desc.ndim, comm, ranks=np.full((1,) * desc.ndim, root)))
    source, target = (desc, single) if to_root else (single, desc)
    return redistribute(source, target, dtype=dtype, comm=comm)(array), dtype


def _agreed(
    call: str, desc: Descriptor, given: Callable[[], NDArray[Any] | None], root: int, holds: bool
) -> tuple[NDArray[Any] | None, np.dtype[Any]]:
    """The array of a rank that holds one, and its dtype, also on the others."""
    everyone = everyone_of(desc)
    error: Exception | None = None
    array: NDArray[Any] | None = None
    try:
        if whole_number("root", root, 0) >= everyone.size:
            raise DescriptorError(
                f"root = {root} is not a rank of the communicator: it must be 0 to {everyone.size - 1}"
            )
        array = host_array("array" if call == "scatter" else "local", given()) if holds else None
        if array is not None and not isinstance(array, np.ndarray):
            raise ArrayError(f"the array is a {type(array).__name__}: it must be a NumPy array")
    except Exception as caught:
        error = caught
    place = root if error is None else None
    everyone.agree(
        Ballot(failed=everyone.failed(error), call=digest((call, desc.layout_digest, place))),
        error,
        lambda: [Statement("desc", desc.layout_digest, repr(desc)), Statement("root", place, repr(root))],
        lambda outcome: True,
    )
    known = everyone.share(None if array is None else array.dtype)
    if known is None:
        raise ArrayError(
            "the array is None on every rank that should hold it: pass it on "
            + ("the ranks of the grid" if call == "gather" else f"rank {root}")
        )
    return array, known
