"""scatter() and gather(): redistributions from and to a grid of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.groups import group_of
from ..comm.mpi import MPI
from ..comm.vote import Ballot, Statement, digest
from ..errors import ArrayError, DescriptorError
from ..layout.blockcyclic import whole_number
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .redistribute import redistribute

__all__ = ["gather", "scatter"]


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
    return _move(desc, array, root, to_root=False)


def gather(desc: Descriptor, local: NDArray[Any] | None, root: int = 0) -> NDArray[Any] | None:
    """Collect a distributed array on one rank. Collective over the communicator of the descriptor's grid.

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
    return _move(desc, local, root, to_root=True)


def _move(desc: Descriptor, array: NDArray[Any] | None, root: int, to_root: bool) -> NDArray[Any] | None:
    comm = _communicator(desc)
    dtype = _shared_dtype(desc, array, root, to_root, comm)
    single = Descriptor(desc.shape, None, ProcessGrid((1,) * desc.ndim, comm, ranks=np.full((1,) * desc.ndim, root)))
    source, target = (desc, single) if to_root else (single, desc)
    mine = array if source.coords is not None else None
    return redistribute(source, target, dtype=dtype, comm=comm)(mine)


def _communicator(desc: Descriptor) -> MPI.Intracomm:
    if not isinstance(desc, Descriptor):
        raise DescriptorError(f"desc = {desc!r} must be a Descriptor")
    if desc.grid.comm is None:
        raise DescriptorError(f"desc = {desc!r} is on paper: give its grid a communicator")
    return desc.grid.comm


def _shared_dtype(
    desc: Descriptor, array: NDArray[Any] | None, root: int, to_root: bool, comm: MPI.Intracomm
) -> np.dtype[Any]:
    """The dtype of the array, also on ranks that have nothing of it."""
    group = group_of(comm, tuple(range(comm.Get_size())))
    error: Exception | None = None
    dtype: np.dtype[Any] | None = None
    try:
        if whole_number("root", root, 0) >= comm.Get_size():
            raise DescriptorError(
                f"root = {root} is not a rank of the communicator: it must be 0 to {comm.Get_size() - 1}"
            )
        holds = desc.coords is not None if to_root else comm.Get_rank() == root
        if holds and array is not None:
            if not isinstance(array, np.ndarray):
                raise ArrayError(f"the array is a {type(array).__name__}: it must be a NumPy array")
            dtype = array.dtype
    except Exception as caught:
        error = caught
    place = root if error is None else None
    call = digest(("gather" if to_root else "scatter", desc.layout_digest, place))
    group.agree(
        Ballot(failed=group.failed(error), call=call),
        error,
        lambda: [Statement("desc", desc.layout_digest, repr(desc)), Statement("root", place, repr(root))],
        lambda outcome: True,
    )
    known = group.share(dtype)
    if known is None:
        raise ArrayError(
            "the array is None on every rank that should hold it: pass it on "
            + ("the ranks of the grid" if to_root else f"rank {root}")
        )
    return known
