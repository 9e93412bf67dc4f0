"""Index runs that one process of a block-cyclic axis shares with the processes of another: the loops of `intersections`.

Each loop is the compiled form of the algorithm of its name; all four give the same runs. Plans use `aspen`, whose work is
proportional to the number of runs, with divisions for the first two blocks only, or `families` of its runs. The other loops
are for comparison.
"""

from libc.stdint cimport int64_t

import numpy as np

# The compiled form of `Intervals`.
cdef struct BlockRange:
    int64_t start, local, count, stride

ctypedef int64_t (*Loop)(const Axis *, const Axis *, int64_t, RunColumns *) noexcept nogil


def runs(str name, int64_t window, a, b, int64_t p):
    """Runs of elements 0 <= i < window that process `p` of axis a holds, cut where blocks of axis b end.

    Parameters
    ----------
    name : str
        Name of the loop: classical, falls, scan or aspen.
    a, b : tuple of int
        Block, processes, source and offset of each axis.

    Returns
    -------
    ndarray of int64, 4 x runs
        Remote process, local start in a, local start in b, length; in the order of the loop.
    int
        Comparisons.
    """
    cdef Loop loop = _loop(name)
    cdef Axis own = _axis(window, a), other = _axis(window, b)
    cdef RunColumns output = RunColumns(0, NULL, NULL, NULL, NULL)
    cdef int64_t comparisons
    table = np.empty((4, count_runs(&own, &other, p)), np.int64)
    cdef int64_t[:, ::1] columns = table
    if table.size:
        _into(columns, &output)
    with nogil:
        comparisons = loop(&own, &other, p, &output)
    return table, comparisons


def families(int64_t window, a, b, int64_t p):
    """The runs of `runs("aspen", window, a, b, p)` in families of equal runs at equal distances.

    Own blocks within one block of b are a family, and so are the blocks of one process of b within an own block. There are
    at most as many families as runs, and few if the blocks of one layout are much larger. The families of a process ascend in
    the global index and do not overlap.

    Returns
    -------
    ndarray of int64, 7 x families
        Remote process; local start in a, local start in b and length of the first run; distances of the starts from
        run to run; number of runs.
    """
    cdef Axis own = _axis(window, a), other = _axis(window, b)
    cdef int64_t count = count_families(&own, &other, p)
    table = np.empty((count, sizeof(Family) // sizeof(int64_t)), np.int64)
    cdef int64_t[:, ::1] rows = table
    if count:
        find_families(&own, &other, p, <Family *> &rows[0, 0])
    return table[:, :7].T


cdef class Complete:
    """The runs of every process of axis a in turn, in one output array, for benchmarks.

    Parameters
    ----------
    name, window, a, b
        As for `runs`.
    """
    cdef Loop loop
    cdef Axis a, b
    cdef int64_t[:, ::1] columns

    def __init__(self, str name, int64_t window, a, b):
        cdef int64_t p, most = 1
        self.loop = _loop(name)
        self.a, self.b = _axis(window, a), _axis(window, b)
        for p in range(self.a.processes):
            most = max(most, count_runs(&self.a, &self.b, p))
        self.columns = np.empty((4, most), np.int64)

    def __call__(self):
        """Compute them; return the numbers of runs and of comparisons of all processes."""
        cdef RunColumns output = RunColumns(0, NULL, NULL, NULL, NULL)
        cdef int64_t p, comparisons = 0, count = 0
        if self.columns is None:
            raise ValueError("Complete was not initialized")
        _into(self.columns, &output)
        with nogil:
            for p in range(self.a.processes):
                comparisons += self.loop(&self.a, &self.b, p, &output)
                count += output.count
        return count, comparisons


cdef Loop _loop(str name) except NULL:
    if name == "aspen":
        return aspen
    if name == "falls":
        return _falls
    if name == "scan":
        return _scan
    if name == "classical":
        return _classical
    raise ValueError(f"there is no loop {name!r}")


cdef Axis _axis(int64_t window, numbers):
    cdef Axis axis
    axis.block, axis.processes, axis.source, axis.offset = numbers
    axis.window = window
    return axis


cdef void _into(int64_t[:, ::1] columns, RunColumns *output) noexcept nogil:
    output.remote, output.start_a, output.start_b, output.length = &columns[0, 0], &columns[1, 0], &columns[2, 0], &columns[3, 0]


cdef inline void _add(RunColumns *output, int64_t remote, int64_t start_a, int64_t start_b, int64_t length) noexcept nogil:
    output.remote[output.count] = remote
    output.start_a[output.count] = start_a
    output.start_b[output.count] = start_b
    output.length[output.count] = length
    output.count += 1


cdef inline BlockRange _blocks(const Axis *axis, int64_t p) noexcept nogil:
    """The blocks of process p that begin in the window."""
    cdef BlockRange own
    cdef int64_t first = axis.offset / axis.block
    cdef int64_t skip = (p - axis.source - first) % axis.processes
    if skip < 0:
        skip += axis.processes
    cdef int64_t left = (axis.offset + axis.window - 1) / axis.block - first - skip  # blocks after the first one
    first += skip
    own.start = own.local = own.count = 0
    own.stride = 1
    if axis.window > 0 and left >= 0:  # otherwise first * block might overflow
        own.count = left / axis.processes + 1
        own.start = first * axis.block - axis.offset
        own.local = first / axis.processes * axis.block
        own.stride = axis.block * axis.processes if own.count > 1 else axis.window
    return own


cdef inline int64_t _end(const Axis *axis, int64_t start) noexcept nogil:
    return axis.window if axis.block >= axis.window - start else start + axis.block


cdef int64_t count_runs(const Axis *a, const Axis *b, int64_t p) noexcept nogil:
    cdef RunColumns nowhere = RunColumns(0, NULL, NULL, NULL, NULL)
    return aspen(a, b, p, &nowhere)


cdef int64_t aspen(const Axis *a, const Axis *b, int64_t p, RunColumns *output) noexcept nogil:
    cdef BlockRange own = _blocks(a, p)
    cdef int64_t j, begin, end, shift, number, piece
    cdef int64_t within = 0, turn = 0, place = 0  # of the own block in b: in its block, of its process, in the local array
    cdef int64_t at, q, local, remote
    # steps of these three from one own block to the next
    cdef int64_t more_within = own.stride % b.block
    cdef int64_t more_turn = own.stride / b.block % b.processes
    cdef int64_t more_place = own.stride / b.block / b.processes * b.block
    cdef RunColumns out = output[0]  # a copy that stays in registers
    out.count = 0
    for j in range(own.count):
        begin = max(own.start, 0)
        end = _end(a, own.start)
        if j < 2:  # the first may be cut at its beginning
            number = (begin + b.offset) / b.block
            within = (begin + b.offset) % b.block
            turn = number % b.processes
            place = number / b.processes * b.block
        else:
            within += more_within
            turn += more_turn
            place += more_place
            if within >= b.block:
                within -= b.block
                turn += 1
            if turn >= b.processes:
                turn -= b.processes
                place += b.block
        at, q, local = within, turn, place
        shift = own.local - own.start
        while begin < end:
            piece = min(end - begin, b.block - at)
            if out.remote != NULL:
                remote = q + b.source
                if remote >= b.processes:
                    remote -= b.processes
                _add(&out, remote, begin + shift, local + at, piece)
            else:
                out.count += 1
            begin += piece
            at = 0
            q += 1
            if q == b.processes:
                q = 0
                local += b.block
        own.start += own.stride
        own.local += a.block
    output.count = out.count
    return out.count


cdef inline void _put(Family *into, int64_t remote, int64_t start_a, int64_t start_b, int64_t length, int64_t step_a,
                      int64_t step_b, int64_t count) noexcept nogil:
    into.remote, into.start_a, into.start_b, into.length = remote, start_a, start_b, length
    into.step_a, into.step_b, into.count, into.total = step_a, step_b, count, length * count


cdef int64_t count_families(const Axis *a, const Axis *b, int64_t p) noexcept nogil:
    return _families(a, b, p, NULL)


cdef void find_families(const Axis *a, const Axis *b, int64_t p, Family *into) noexcept nogil:
    _families(a, b, p, into)


cdef int64_t _families(const Axis *a, const Axis *b, int64_t p, Family *into) noexcept nogil:
    """Count the families; write them if there is memory for them."""
    cdef BlockRange own = _blocks(a, p)
    cdef int64_t begin, end, shift, number, within, turn, place, length, many, k, n_families = 0
    while own.count > 0:
        begin, end = max(own.start, 0), _end(a, own.start)
        shift = own.local - own.start
        many = 1  # own blocks of this family
        while begin < end:
            number = (begin + b.offset) / b.block
            within = (begin + b.offset) % b.block
            turn = number % b.processes
            place = number / b.processes * b.block
            length = min(end - begin, b.block - within)
            if begin == own.start and length == a.block:  # a whole block: join the following ones in the same block of b
                many = (b.block - within - length) / own.stride + 1
                if many >= own.count:
                    many = own.count
                    if many > 1 and _end(a, own.start + (many - 1) * own.stride) - own.start - (many - 1) * own.stride < a.block:
                        many -= 1
                if into != NULL:
                    _put(into + n_families, (turn + b.source) % b.processes, begin + shift, place + within, length,
                         a.block, own.stride, many)
                n_families += 1
            elif length == b.block and end - begin >= 2 * b.block:  # whole blocks of b, which recur
                number = (end - begin) / b.block
                for k in range(min(number, b.processes)):
                    if into != NULL:
                        _put(into + n_families, (turn + b.source) % b.processes, begin + k * b.block + shift, place, length,
                             b.block * b.processes if number > b.processes else b.block, b.block, (number - k - 1) / b.processes + 1)
                    n_families += 1
                    turn += 1
                    if turn == b.processes:
                        turn = 0
                        place += b.block
                length = number * b.block
            else:
                if into != NULL:
                    _put(into + n_families, (turn + b.source) % b.processes, begin + shift, place + within, length,
                         length, length, 1)
                n_families += 1
            begin += length
        own.start += many * own.stride
        own.local += many * a.block
        own.count -= many
    return n_families


cdef int64_t _falls(const Axis *a, const Axis *b, int64_t p, RunColumns *output) noexcept nogil:
    cdef BlockRange own_blocks = _blocks(a, p)
    cdef BlockRange own, others
    cdef int64_t remote, j, k, begin, end, first, last, other, left, right, comparisons = 0
    cdef RunColumns out = output[0]  # a copy that stays in registers
    out.count = 0
    for remote in range(b.processes):
        others = _blocks(b, remote)
        own = own_blocks
        for j in range(own.count):
            begin = max(own.start, 0)
            end = _end(a, own.start)
            first = last = 0
            if begin - b.block >= others.start:
                first = (begin - b.block - others.start) / others.stride + 1
            if end > others.start:
                last = min((end - others.start - 1) / others.stride + 1, others.count)
            comparisons += max(last - first, 1)
            for k in range(first, last):
                other = others.start + k * others.stride
                left = max(begin, other)
                right = min(end, _end(b, other))
                if left < right:
                    _add(&out, remote, left - own.start + own.local, left - other + others.local + k * b.block, right - left)
            own.start += own.stride
            own.local += a.block
    output.count = out.count
    return comparisons


cdef int64_t _scan(const Axis *a, const Axis *b, int64_t p, RunColumns *output) noexcept nogil:
    cdef BlockRange own_blocks = _blocks(a, p)
    cdef BlockRange own, others
    cdef int64_t remote, end, other_end, left, right, comparisons = 0
    cdef RunColumns out = output[0]  # a copy that stays in registers
    out.count = 0
    for remote in range(b.processes):
        others = _blocks(b, remote)
        own = own_blocks
        while own.count > 0 and others.count > 0:
            comparisons += 1
            end = _end(a, own.start)
            other_end = _end(b, others.start)
            left = max(own.start, others.start, 0)
            right = min(end, other_end)
            if left < right:
                _add(&out, remote, left - own.start + own.local, left - others.start + others.local, right - left)
            if end <= other_end:
                own.start += own.stride
                own.local += a.block
                own.count -= 1
            if other_end <= end:
                others.start += others.stride
                others.local += b.block
                others.count -= 1
    output.count = out.count
    return comparisons


cdef int64_t _classical(const Axis *a, const Axis *b, int64_t p, RunColumns *output) noexcept nogil:
    cdef BlockRange own_blocks = _blocks(a, p)
    cdef BlockRange own, others, all_others
    cdef int64_t remote, j, k, begin, end, left, right, comparisons = 0
    cdef RunColumns out = output[0]  # a copy that stays in registers
    out.count = 0
    for remote in range(b.processes):
        all_others = _blocks(b, remote)
        own = own_blocks
        for j in range(own.count):
            begin = max(own.start, 0)
            end = _end(a, own.start)
            others = all_others
            for k in range(others.count):
                comparisons += 1
                left = max(begin, others.start)
                right = min(end, _end(b, others.start))
                if left < right:
                    _add(&out, remote, left - own.start + own.local, left - others.start + others.local, right - left)
                others.start += others.stride
                others.local += b.block
            own.start += own.stride
            own.local += a.block
    output.count = out.count
    return comparisons
