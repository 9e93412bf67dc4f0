"""Make, free and read BLACS contexts, the library's process grids.

Only one thread of a process may be in the library at a time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .._blacs import Entries
from ..comm.groups import check_running
from ..comm.mpi import MPI
from ..errors import DescriptorError, LibraryError
from .library import ENVIRONMENT, Library, load

_inside = threading.RLock()
PAUSE = 0.001  # seconds


@contextlib.contextmanager
def one_thread(*, wait: bool) -> Iterator[LibraryError | None]:
    """Keep other threads of this process out of the library; yield None, or an error if one is in it.

    BLACS and netlib's routines have static tables and buffers. With `wait` this thread waits for the other one; then no other
    rank or thread may wait for this one.
    """
    if not _inside.acquire(blocking=wait):
        yield LibraryError(
            "another thread of this process is in ScaLAPACK, which allows one thread at a time: let one thread after the "
            "other call linalg and scalapack, on all ranks in the same order"
        )
        return
    try:
        yield None
    finally:
        _inside.release()


@contextlib.contextmanager
def one_thread_of_all(comm: MPI.Intracomm) -> Iterator[None]:
    """Keep other threads of all ranks' processes out of the library. Collective.

    Ranks that each waited for a thread while holding the lock could wait for each other for ever. So if one process is busy,
    all ranks release their locks and try again.
    """
    while True:
        with one_thread(wait=comm.Get_size() == 1) as error:
            if not comm.allreduce(error is not None, MPI.LOR):
                yield
                return
        time.sleep(PAUSE)


CONTEXT_TAG = 21_318  # of Create_group; concurrent creations must have different tags


def make_context(
    comm: MPI.Intracomm, shape: tuple[int, int], ranks_row_major: Sequence[int], library: Library | None = None
) -> int:
    """Make a BLACS context. Collective over the grid's ranks only.

    Parameters
    ----------
    comm : MPI.Intracomm
        Communicator of the ranks.
    shape : (int, int)
        Rows and columns of the grid.
    ranks_row_major : sequence of int
        Ranks of `comm`, one for each process of the grid, row after row.
    library : Library, optional
        Default: `load()`.

    Raises
    ------
    DescriptorError
        The ranks do not fill the grid, or this rank is not among them.
    LibraryError
        There is no library, or BLACS could not make the grid.
    """
    nprow, npcol = shape
    if nprow < 1 or npcol < 1 or len(ranks_row_major) != nprow * npcol:
        raise DescriptorError(
            f"shape = {nprow} x {npcol} does not fit the {len(ranks_row_major)} ranks: one for each place"
        )
    rank = comm.Get_rank()
    if rank not in ranks_row_major:
        raise DescriptorError(
            f"rank {rank} is not among {list(ranks_row_major)}: only the grid's ranks make its context"
        )
    check_running()
    entries = (library or load()).entries
    group = comm.Get_group()
    members = group.Incl(ranks_row_major)
    grid = comm.Create_group(members, CONTEXT_TAG)
    members.Free()
    group.Free()
    with one_thread_of_all(grid):
        # BLACS makes its own communicators: this one is needed only during the call
        handle = entries.system_handle(grid.py2f())
        ctxt = entries.gridinit(handle, "R", nprow, npcol)
        entries.free_system_handle(handle)
    grid.Free()
    if entries.gridinfo(ctxt)[:2] != (nprow, npcol):
        raise LibraryError(f"{entries.library}: BLACS could not make a context of {nprow} x {npcol} processes")
    return ctxt


def free_context(ctxt: int, library: Library | None = None) -> None:
    """Free a BLACS context. Collective over its grid.

    Raises
    ------
    DescriptorError
        The context is not alive.
    """
    entries = (library or load()).entries
    _live_grid(ctxt, entries)
    with one_thread(wait=True):
        entries.gridexit(ctxt)


def context_grid(ctxt: int, comm: MPI.Intracomm, library: Library | None = None) -> tuple[int, int, NDArray[np.int64]]:
    """Read the rows, columns and ranks of a context that this rank is in, as ranks of `comm`. Not collective.

    Raises
    ------
    DescriptorError
        The context is not alive, or one of its processes is not in `comm`.
    """
    entries = (library or load()).entries
    nprow, npcol = _live_grid(ctxt, entries)
    numbers = [entries.pnum(ctxt, row, column) for row in range(nprow) for column in range(npcol)]
    ranks = np.array(_translate_ranks(_context_group(ctxt, entries), numbers, comm.Get_group()), dtype=np.int64)
    absent = np.flatnonzero(ranks < 0)
    if absent.size:
        raise DescriptorError(
            f"CTXT = {ctxt}: its process at ({absent[0] // npcol}, {absent[0] % npcol}) is not in comm, which has "
            f"{comm.Get_size()} ranks: give a communicator that holds all processes of the context"
        )
    return nprow, npcol, ranks.reshape(nprow, npcol)


def missing_from_context(
    ctxt: int, comm: MPI.Intracomm, ranks: Sequence[int], library: Library | None = None
) -> list[int]:
    """List the ranks of `comm`, out of `ranks`, that are not in a context. This rank must be in it. Not collective.

    Raises
    ------
    DescriptorError
        The context is not alive.
    """
    entries = (library or load()).entries
    _live_grid(ctxt, entries)
    context_ranks = _translate_ranks(comm.Get_group(), ranks, _context_group(ctxt, entries))
    return [rank for rank, context_rank in zip(ranks, context_ranks, strict=True) if context_rank < 0]


def check_alive(ctxt: int, shape: tuple[int, int], library: Library | None = None) -> None:
    """Raise a DescriptorError if a context is not alive, or if its number belongs to a new context."""
    current = _live_grid(ctxt, (library or load()).entries)
    if current != shape:
        raise DescriptorError(
            f"CTXT = {ctxt} was of a {shape[0]} x {shape[1]} grid and is of a {current[0]} x {current[1]} one now: the first "
            "has been freed; make or read the grid anew"
        )


def _live_grid(ctxt: int, entries: Entries) -> tuple[int, int]:
    nprow, npcol = entries.gridinfo(ctxt)[:2] if 0 <= ctxt < 2**31 else (-1, -1)
    if nprow < 1:
        raise DescriptorError(
            f"CTXT = {ctxt} is not a live BLACS context (freed, or never made) of {entries.library}: make one with "
            "ProcessGrid.make_context(), pass the context before it is freed, or, if the BLACS of another file made it, "
            f"set {ENVIRONMENT} to that file"
        )
    return nprow, npcol


def _context_group(ctxt: int, entries: Entries) -> MPI.Group:
    # the communicator belongs to BLACS: the mpi4py object does not free it
    return MPI.Comm.f2py(entries.context_communicator(ctxt)).Get_group()


def _translate_ranks(group: MPI.Group, ranks: Sequence[int], target: MPI.Group) -> list[int]:
    """Translate ranks of one group to ranks of another, -1 for those that are not in it; free both groups."""
    translated = group.Translate_ranks(ranks, target)
    group.Free()
    target.Free()
    return [-1 if rank == MPI.UNDEFINED else rank for rank in translated]
