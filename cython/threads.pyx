"""Threads that share one rank's large moves: only the caller's own, until `use` sets more.

The first large move makes them, and they sleep between moves. While they work for another thread, a caller moves alone. A
forked process makes its own threads.
"""

import atexit

from libc.stdint cimport INT64_MAX, int64_t

cdef extern from "pool.h":
    enum:
        MOST_THREADS
    int pool_size
    bint pool_share(Work work, void *task, int64_t pieces, int64_t threads) noexcept nogil
    bint pool_resize(int size) noexcept nogil

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef enum:
    LONGER = 4  # factor on the bytes of a single thread, so that threads are not woken too often
    FEWEST = 2  # pieces per thread of a small move: the C library copies long runs faster than short ones
    EACH = 8  # pieces per thread of a large move: a late or slow thread takes fewer

MOST = MOST_THREADS  # threads
FLOOR = 1024 * 1024  # least bytes per thread: some 100 us, twice the time of waking it

cdef int64_t least_shared = INT64_MAX
cdef int64_t _floor = INT64_MAX
cdef bint _at_exit = False


def use(int threads, int64_t floor=FLOOR):
    """Share moves among a number of threads, the caller's own included.

    Parameters
    ----------
    threads : int
        1: a caller moves alone.
    floor : int
        Least bytes per thread; other values are for tests.
    """
    global least_shared, _floor, _at_exit
    if not 1 <= threads <= MOST or floor < 1:
        raise ValueError(f"threads = {threads} must be 1 to {MOST}, and floor = {floor} positive")
    if not _at_exit:
        atexit.register(_end)
        _at_exit = True
    least_shared = INT64_MAX
    with nogil:
        while not pool_resize(threads):
            sched_yield()
    _floor = floor
    if threads > 1:
        least_shared = 2 * floor


def used():
    """The number of threads that share a large move."""
    return threads_used()


def _end():
    """End the threads, unless a daemon thread uses them."""
    global least_shared
    least_shared = INT64_MAX
    pool_resize(1)


cdef int64_t threads_used() noexcept nogil:
    return pool_size


cdef int64_t threads_for(int64_t nbytes) noexcept nogil:
    return min(nbytes // _floor, <int64_t> pool_size)


cdef int64_t pieces_for(int64_t nbytes, int64_t threads) noexcept nogil:
    return min(FEWEST * (nbytes // _floor), EACH * threads)


cdef int64_t stretched(int64_t nbytes) noexcept nogil:
    return nbytes if pool_size == 1 else LONGER * pool_size * nbytes


cdef bint share(Work work, void *task, int64_t pieces, int64_t threads) noexcept nogil:
    return pool_share(work, task, pieces, threads)
