"""Pass a flag to and fro between two processes through memory that they share."""

from libc.stdint cimport int64_t

import numpy as np

cdef extern from *:
    """
    #include <sched.h>
    #include <stdint.h>
    #include <time.h>

    enum { SPINS_BEFORE_YIELD = 1000 };

    static int64_t now(void)
    {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return 1000000000 * (int64_t)t.tv_sec + t.tv_nsec;
    }

    static void set_flag(int64_t *flag, int64_t value)
    {
        __atomic_store_n(flag, value, __ATOMIC_RELEASE);
    }

    /* 1 when the flag has the value; 0 when the other side has stopped or the deadline has passed */
    static int await_flag(const int64_t *flag, int64_t value, int64_t stop, int64_t deadline)
    {
        for (;;) {
            for (int spin = 0; spin < SPINS_BEFORE_YIELD; spin++) {
                const int64_t current = __atomic_load_n(flag, __ATOMIC_ACQUIRE);
                if (current == value)
                    return 1;
                if (current == stop)
                    return 0;
            }
            if (now() > deadline)
                return 0;
            sched_yield();
        }
    }
    """
    int64_t now() noexcept nogil
    void set_flag(int64_t *flag, int64_t value) noexcept nogil
    bint await_flag(const int64_t *flag, int64_t value, int64_t stop, int64_t deadline) noexcept nogil

cdef enum:
    STOP = -1
    SPACING = 32  # integers between the two flags, which must not share a pair of cache lines


def round_trips(int64_t[::1] flags, int batches, int trips, double seconds):
    """Send and await the flag, `batches` times `trips` times; the other process calls `answer`.

    Parameters
    ----------
    flags : int64 array
        Shared memory, all zero on entry; at least 33 integers.
    batches, trips : int
        Number of batches, and of trips in each, which are timed together.
    seconds : float
        Time limit.

    Returns
    -------
    float64 array
        Nanoseconds of a trip, for each batch; fewer than `batches` after the time limit.
    """
    check(flags)
    cdef int64_t *there = &flags[0]
    cdef int64_t *back = &flags[SPACING]
    cdef int64_t deadline = now() + <int64_t> (1e9 * seconds), start, k = 0
    cdef int batch = 0, trip
    times = np.empty(batches)
    cdef double[::1] each = times
    cdef bint going = True
    with nogil:
        while going and batch < batches:
            start = now()
            for trip in range(trips):
                k += 1
                set_flag(there, k)
                going = await_flag(back, k, STOP, deadline)
                if not going:
                    break
            if going:
                each[batch] = <double> (now() - start) / trips
                batch += 1
        set_flag(there, STOP)
    return times[:batch]


def answer(int64_t[::1] flags, int64_t trips, double seconds) -> int:
    """Send each flag back until `trips` are done, the other side stops, or the time limit; return their number."""
    check(flags)
    cdef int64_t *there = &flags[0]
    cdef int64_t *back = &flags[SPACING]
    cdef int64_t deadline = now() + <int64_t> (1e9 * seconds), k = 0
    with nogil:
        while k < trips and await_flag(there, k + 1, STOP, deadline):
            k += 1
            set_flag(back, k)
        if k < trips:
            set_flag(back, STOP)
    return k


cdef int check(int64_t[::1] flags) except -1:
    if flags.shape[0] <= SPACING:
        raise ValueError(f"flags has {flags.shape[0]} integers; at least {SPACING + 1} are needed")
    return 0
