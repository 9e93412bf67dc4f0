"""One thread of a process at a time in the library: BLACS and netlib's routines have static tables and buffers.

A thread that waits for another while a rank waits for it may wait for ever: where several processes take part, all give up.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from ..comm.mpi import MPI
from ..errors import LibraryError

__all__ = ["one_thread", "one_thread_of_all"]

_inside = threading.RLock()
PAUSE = 0.001  # seconds


@contextlib.contextmanager
def one_thread(*, wait: bool) -> Iterator[LibraryError | None]:
    """In the block no other thread of this process is in the library, or the value is an error that says so. Not collective.

    With `wait` this thread waits until none is: nobody else may have to wait for this thread.
    """
    if not _inside.acquire(blocking=wait):
        yield LibraryError(
            "another thread of this process is in ScaLAPACK, which is made for one thread at a time: let one thread after "
            "the other call linalg and scalapack, on all ranks in the same order"
        )
        return
    try:
        yield None
    finally:
        _inside.release()


@contextlib.contextmanager
def one_thread_of_all(comm: MPI.Intracomm) -> Iterator[None]:
    """In the block no other thread of any rank's process is in the library. Collective; a rank holds nothing while it waits."""
    while True:
        with one_thread(wait=comm.Get_size() == 1) as error:
            if not comm.allreduce(error is not None, MPI.LOR):
                yield
                return
        time.sleep(PAUSE)
