"""Elements that each process of one block-cyclic axis shares with each of another, by a walk along all block edges."""

from libc.stdint cimport int64_t


def add_lengths(int64_t[:, ::1] table, int64_t elements, int64_t r, int64_t left_r, int64_t p, int64_t s, int64_t left_s,
                int64_t q, int64_t sign):
    """Add or subtract the number of elements that p and q share, for each p (row) and q (column).

    Parameters
    ----------
    table : int64 array
        The table, changed in place.
    elements : int
        Elements of the walk.
    r, s : int
        Block sizes.
    left_r, left_s : int
        Elements from the first one on to the end of its block.
    p, q : int
        Owners of the first element.
    sign : int
        1 to add, -1 to subtract.
    """
    cdef int64_t run, P = table.shape[0], Q = table.shape[1]
    with nogil:
        while elements > 0:
            run = left_r if left_r < left_s else left_s
            if run > elements:
                run = elements
            table[p, q] += sign * run
            elements -= run
            left_r -= run
            left_s -= run
            if left_r == 0:
                left_r = r
                p += 1
                if p == P:
                    p = 0
            if left_s == 0:
                left_s = s
                q += 1
                if q == Q:
                    q = 0
