"""Make, free and read BLACS contexts, the library's process grids.

Only one thread of a process may be in the library at a time.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._blacs import Entries
from ..comm.agreement import agreement
from ..comm.groups import MPIGroup, check_running, group_of
from ..comm.groups import check_alive as check_communicator
from ..comm.mpi import MPI
from ..comm.progress import hold_interrupts
from ..errors import DescriptorError, LibraryError
from .library import ENVIRONMENT, Library, load

_library_lock = threading.RLock()
PAUSE = 0.001  # seconds


@contextlib.contextmanager
def one_thread(*, wait: bool) -> Iterator[LibraryError | None]:
    """Keep other threads of this process out of the library; yield None, or an error if one is in it.

    BLACS and netlib's routines have static tables and buffers. With `wait` this thread waits for the other one; then no other
    rank or thread may wait for this one.
    """
    if not _library_lock.acquire(blocking=wait):
        yield LibraryError(
            "another thread of this process is in ScaLAPACK, which allows one thread at a time: let one thread after the "
            "other call linalg and scalapack, on all ranks in the same order"
        )
        return
    try:
        yield None
    finally:
        _library_lock.release()


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
    CollectiveError
        There is no library on another rank, or ranks ask for different grids.
    """
    nprow, npcol = shape
    if nprow < 1 or npcol < 1 or len(ranks_row_major) != nprow * npcol:
        raise DescriptorError(
            f"shape = {nprow} x {npcol} does not fit the {len(ranks_row_major)} ranks: one for each place"
        )
    check_communicator(comm)
    rank = comm.Get_rank()
    if rank not in ranks_row_major:
        raise DescriptorError(
            f"rank {rank} is not among {list(ranks_row_major)}: only the grid's ranks make its context"
        )
    group = group_of(comm, tuple(sorted(ranks_row_major)))
    with hold_interrupts() as held:
        entries = _meet(group, "make_context", (nprow, npcol, *ranks_row_major), held, library)
        return _make(group, entries, nprow, npcol, ranks_row_major)


def free_context(ctxt: int, library: Library | None = None) -> None:
    """Free a BLACS context. Collective over its grid.

    Raises
    ------
    DescriptorError
        The context is not alive.
    CollectiveError
        Other ranks free another one.
    """
    check_running()
    entries = (library or load()).entries
    grid = _live_grid(ctxt, entries)
    communicator: Any = MPI.Comm.f2py(entries.context_communicator(ctxt))  # BLACS's own, which frees it
    group = group_of(communicator)
    with hold_interrupts() as held:
        _meet(group, "free_context", grid, held, library)
        _free(ctxt, entries)


def _meet(
    group: MPIGroup, call: str, arguments: tuple[int, ...], held: hold_interrupts, library: Library | None
) -> Entries:
    """Wait until all ranks make the call, since BLACS blocks; return the entry points. Collective.

    An error of one rank, or an interrupt before all are there, is raised on all. From then on interrupts are to be held back.
    """
    with agreement(group, f"{call}{arguments}", confirm=True, deliver=True, held=held):
        entries = (library or load()).entries
    return entries


def _make(group: MPIGroup, entries: Entries, nprow: int, npcol: int, ranks_row_major: Sequence[int]) -> int:
    """Make a context of the ranks of a group. Collective; all are there, and hold interrupts back."""
    with one_thread_of_all(group.comm):
        private = group.comm.Get_group()
        members = private.Incl([group.number[rank] for rank in ranks_row_major])
        grid = group.comm.Create_group(members, CONTEXT_TAG)
        members.Free()
        private.Free()
        # BLACS makes its own communicators: this one is needed only during the call
        handle = entries.system_handle(grid.py2f())
        ctxt = entries.gridinit(handle, "R", nprow, npcol)
        entries.free_system_handle(handle)
        grid.Free()
    error: LibraryError | None = None
    if entries.gridinfo(ctxt)[:2] != (nprow, npcol):
        error = LibraryError(f"{entries.library}: BLACS could not make a context of {nprow} x {npcol} processes")
    group.combine(error=error)
    return ctxt


def _free(ctxt: int, entries: Entries) -> None:
    """Free a context. Collective over its grid, whose ranks are all there."""
    for contexts in _all_contexts:
        contexts.forget(ctxt)
    with one_thread(wait=True):
        entries.gridexit(ctxt)


class Contexts:
    """The contexts of the process grids of one shape and order of ranks, used again when a grid is dropped with its context.

    They are freed with the communicator. Methods are collective over the grid unless they say otherwise.

    Parameters
    ----------
    group : MPIGroup
        The ranks.
    shape : (int, int)
        Rows and columns of the grids.
    ranks_row_major : sequence of int
        Ranks of the user's communicator, one for each process of a grid, row after row.
    """

    def __init__(self, group: MPIGroup, shape: tuple[int, int], ranks_row_major: Sequence[int]) -> None:
        self._group, self._shape, self._ranks = group, shape, tuple(ranks_row_major)
        self._count = 0  # of contexts made
        self._numbers: dict[int, int] = {}  # of each context that is alive, by the number made before it
        self._owners: dict[int, weakref.ref[Any]] = {}
        _all_contexts.add(self)

    @classmethod
    def on(cls, comm: MPI.Intracomm, shape: tuple[int, int], ranks_row_major: Sequence[int]) -> Contexts:
        """The contexts of these grids; an attribute of the communicator."""
        group = group_of(comm, tuple(sorted(ranks_row_major)))
        key = cls, shape, tuple(ranks_row_major)
        own = group.resources.get(key)
        if not isinstance(own, cls):
            own = group.resources[key] = cls(group, shape, ranks_row_major)
        return own

    def take(self, owner: object) -> int:
        """A context for a grid: one whose grid has been dropped on all ranks, or a new one.

        A rank may drop its grid later than others. So all ranks compare which contexts are free.

        Raises
        ------
        LibraryError
            There is no library, or BLACS could not make the context. On all ranks.
        """
        group = self._group
        with hold_interrupts() as held:
            entries = _meet(group, "make_context", (*self._shape, *self._ranks), held, None)
            with agreement(group, "make_context, free ones", combine=_lowest_of_all, open=False) as agreed:
                agreed.give(
                    [key for key, owner in self._owners.items() if owner() is None and self._is_alive(key, entries)]
                )
            key = agreed.result
            if key is None:
                ctxt = _make(group, entries, *self._shape, self._ranks)
                key, self._count = self._count, self._count + 1
                self._numbers[key] = ctxt
            self._owners[key] = weakref.ref(owner)
            return self._numbers[key]

    def _is_alive(self, key: int, entries: Entries) -> bool:
        """Whether a context has not been freed by other code. Not collective."""
        return tuple(entries.gridinfo(self._numbers[key])[:2]) == self._shape

    def free(self, ctxt: int) -> None:
        """Free a context of `take`, unless these ranks cannot communicate any more."""
        key = next((key for key, number in self._numbers.items() if number == ctxt), None)
        if key is None or self._group.abort_reason is not None or self._group.communication_error() is not None:
            return
        with hold_interrupts() as held:
            entries = _meet(self._group, "free_context", (*self._shape, *self._ranks, key), held, None)
            _free(ctxt, entries)

    def forget(self, ctxt: int) -> None:
        """Count a context as freed. Not collective."""
        for key in [key for key, number in self._numbers.items() if number == ctxt]:
            del self._numbers[key], self._owners[key]

    def close(self) -> None:
        """Free all contexts, as the communicator is freed; its ranks are all there."""
        _all_contexts.discard(self)
        while self._numbers:
            ctxt = self._numbers.popitem()[1]
            entries = load().entries
            if tuple(entries.gridinfo(ctxt)[:2]) == self._shape:
                _free(ctxt, entries)


_all_contexts: weakref.WeakSet[Contexts] = weakref.WeakSet()


def _lowest_of_all(lists: list[list[int]]) -> int | None:
    """The lowest number that is in all lists."""
    return min(set(lists[0]).intersection(*lists[1:]), default=None)


def context_grid(ctxt: int, comm: MPI.Intracomm, library: Library | None = None) -> tuple[int, int, NDArray[np.int64]]:
    """Read the rows, columns and ranks of a context that this rank is in, as ranks of `comm`. Not collective.

    Raises
    ------
    DescriptorError
        The context is not alive, or one of its processes is not in `comm`.
    """
    check_communicator(comm)
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
    check_communicator(comm)
    entries = (library or load()).entries
    _live_grid(ctxt, entries)
    context_ranks = _translate_ranks(comm.Get_group(), ranks, _context_group(ctxt, entries))
    return [rank for rank, context_rank in zip(ranks, context_ranks, strict=True) if context_rank < 0]


def check_alive(ctxt: int, shape: tuple[int, int], library: Library | None = None) -> None:
    """Raise a DescriptorError if a context is not alive, or if its number belongs to a new context."""
    check_running()
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
