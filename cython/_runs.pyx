"""Index runs that one process of a block-cyclic axis shares with every process of another.

The compiled form of ASPEN's Algorithm 4: a walk over the process's own blocks, each cut at the other axis's block
boundaries. The work is the number of runs found; other processes and the other grid's size do not enter.
"""

from libc.stdint cimport int64_t

import numpy as np


def shared_runs(int64_t window, int64_t block_a, int64_t processes_a, int64_t source_a, int64_t offset_a,
                int64_t block_b, int64_t processes_b, int64_t source_b, int64_t offset_b, int64_t p):
    """Runs of elements 0 <= i < window that process `p` of axis a holds, cut where axis b changes process.

    Returns
    -------
    list of int64 arrays
        remote process, local start in a, local start in b, length; in ascending order of i.
    """
    cdef int64_t turn = (p - source_a) % processes_a
    if turn < 0:
        turn += processes_a
    cdef int64_t first = offset_a / block_a
    cdef int64_t skip = (turn - first) % processes_a
    if skip < 0:
        skip += processes_a
    first += skip
    cdef int64_t count = _walk(window, block_a, processes_a, offset_a, block_b, processes_b, source_b, offset_b, first,
                               NULL, NULL, NULL, NULL)
    columns = [np.empty(count, np.int64) for _ in range(4)]
    cdef int64_t[::1] remote = columns[0], start_a = columns[1], start_b = columns[2], length = columns[3]
    if count:
        _walk(window, block_a, processes_a, offset_a, block_b, processes_b, source_b, offset_b, first,
              &remote[0], &start_a[0], &start_b[0], &length[0])
    return columns


cdef int64_t _walk(int64_t window, int64_t block_a, int64_t processes_a, int64_t offset_a,
                   int64_t block_b, int64_t processes_b, int64_t source_b, int64_t offset_b, int64_t own,
                   int64_t *remote, int64_t *start_a, int64_t *start_b, int64_t *length) noexcept nogil:
    """Count the runs, and write them where there is room for them (the pointers are not NULL)."""
    cdef int64_t count = 0, i, end, other, piece_end
    cdef int64_t last = offset_a + window
    while own * block_a < last:
        i = max(own * block_a, offset_a) - offset_a
        end = min((own + 1) * block_a, last) - offset_a
        while i < end:
            other = (i + offset_b) / block_b
            piece_end = min(end, (other + 1) * block_b - offset_b)
            if remote != NULL:
                remote[count] = (source_b + other) % processes_b
                start_a[count] = own / processes_a * block_a + (i + offset_a) % block_a
                start_b[count] = other / processes_b * block_b + (i + offset_b) % block_b
                length[count] = piece_end - i
            count += 1
            i = piece_end
        own += processes_a
    return count
