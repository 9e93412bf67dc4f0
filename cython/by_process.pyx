"""The index runs that one process shares with each process of another axis, as tables for the kernels.

Runs are computed by `aspen`, or as families, and sorted by process.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport qsort

import numpy as np

from .intersections cimport Axis, Family, RunColumns, aspen, count_families, count_runs, find_families
from .runs cimport Runs, runs_of


cdef class SharedRuns:
    """The index runs that two processes share along one dimension, periodic up to a number of elements. Made by `shared`.

    Attributes
    ----------
    remote : int
        The process of b.
    first : int
        Global index of the first element.
    start_a, start_b, length : ndarray of int64
        For each run of one repetition, ascending: its starts in a's and b's local arrays, and its elements.
    period_a, period_b : int
        Distances of the starts between repetitions.
    total : int
        The number of elements; the last repetition may be incomplete.
    packed, unpacked, copied : Runs
        Runs from a's local array to a dense buffer, from a dense buffer to a's local array, and from a's local array to b's.
    """

    def __dealloc__(self):
        PyMem_Free(self._start_a)

    @property
    def start_a(self):
        return _array(self._start_a, self._count)

    @property
    def start_b(self):
        return _array(self._start_b, self._count)

    @property
    def length(self):
        return _array(self._length, self._count)

    @property
    def packed(self):
        if self._packed is None:
            self._packed = runs_of(
                self._start_a, self._dense, self._length, self._count, self.period_a, self._elements, self.total
            )
        return self._packed

    @property
    def unpacked(self):
        if self._unpacked is None:
            self._unpacked = runs_of(
                self._dense, self._start_a, self._length, self._count, self._elements, self.period_a, self.total
            )
        return self._unpacked

    @property
    def copied(self):
        if self._copied is None:
            self._copied = runs_of(
                self._start_a, self._start_b, self._length, self._count, self.period_a, self.period_b, self.total
            )
        return self._copied


def shared(a, b, int64_t p, int64_t largest):
    """The runs that process `p` of block-cyclic axis a shares with each process of axis b.

    They are runs of one period if that is shorter than the array; else families of runs of the whole array.

    Parameters
    ----------
    a, b : BlockCyclic
        Axes of equal length.
    largest : int
        The upper limit of a period; at least that length.

    Returns
    -------
    list of SharedRuns
        In ascending order of processes.

    Raises
    ------
    IndexError
        There is no process `p`.
    """
    cdef Axis own = _axis(a), other = _axis(b)
    cdef int64_t n = own.window, period = _period(&own, &other, largest), count, first, last, size
    cdef Family *families = NULL
    result = []
    if not 0 <= p < own.processes:
        raise IndexError(f"process {p} is outside 0 <= p < {own.processes}")
    size = _held_before(&own, <uint64_t> own.offset + n, p) - _held_before(&own, own.offset, p)
    if not size:
        return result
    try:
        if period >= n:
            count = count_families(&own, &other, p)
            families = <Family *> _memory(count, sizeof(Family))
            find_families(&own, &other, p, families)
        else:
            own.window = other.window = period
            count = _runs_of_period(&own, &other, p, size, (n + period - 1) / period, &families)
        families = _by_remote(families, count, other.processes)
        first = 0
        while first < count:
            last = first + 1
            while last < count and families[last].remote == families[first].remote:
                last += 1
            result.append(_shared(
                families + first, last - first, _global_index(&own, p, families[first].start_a), period / own.processes,
                period / other.processes,
            ))
            first = last
    finally:
        PyMem_Free(families)
    return result


def shared_families(const int64_t[:, ::1] families, const int64_t[::1] elements, int64_t n):
    """The runs that one process shares with others, from families of equal runs at equal distances.

    Parameters
    ----------
    families : ndarray of int64, 7 x families
        Families as of `intersections.families`, sorted by process.
    elements : ndarray of int64
        Global index of the first element of each.
    n : int
        The length of the axes.

    Returns
    -------
    list of SharedRuns
        In ascending order of processes.
    """
    cdef int64_t k, first = 0, count = families.shape[1]
    cdef Family *table
    if families.shape[0] != 7 or elements.shape[0] != count:
        raise ValueError(f"{families.shape[0]} x {count} families and {elements.shape[0]} elements: there must be 7 rows")
    table = <Family *> _memory(count, sizeof(Family))
    result = []
    try:
        for k in range(count):
            table[k] = Family(
                families[0, k], families[1, k], families[2, k], families[3, k], families[4, k], families[5, k], families[6, k],
                families[3, k] * families[6, k],
            )
        for k in range(1, count + 1):
            if k == count or table[k].remote != table[first].remote:
                result.append(_shared(table + first, k - first, elements[first], n, n))
                first = k
    finally:
        PyMem_Free(table)
    return result


cdef Axis _axis(axis):
    return Axis(axis.n, axis.block, axis.processes, axis.source, axis.offset)


cdef void *_memory(int64_t count, size_t size) except NULL:
    cdef void *memory = PyMem_Malloc(max(count, <int64_t> 1) * size)
    if memory == NULL:
        raise MemoryError(f"no memory for {count} index runs")
    return memory


cdef object _array(const int64_t *numbers, int64_t count):
    cdef int64_t k
    array = np.empty(count, np.int64)
    cdef int64_t[::1] into = array
    for k in range(count):
        into[k] = numbers[k]
    return array


cdef int64_t _period(const Axis *a, const Axis *b, int64_t largest) noexcept nogil:
    """The period of both axes, the lcm of their strides, but at most `largest`."""
    cdef int64_t stride_a, stride_b, x, y
    if a.block > largest / a.processes or b.block > largest / b.processes:
        return largest
    stride_a, stride_b = a.block * a.processes, b.block * b.processes
    x, y = stride_a, stride_b
    while y:
        x, y = y, x % y
    stride_a /= x
    return stride_a * stride_b if stride_a <= largest / stride_b else largest


cdef int64_t _runs_of_period(const Axis *a, const Axis *b, int64_t p, int64_t size, int64_t repeats, Family **into) except -1:
    """The runs of the window, in new memory, with their elements in the whole array, whose last period may be cut."""
    cdef int64_t k, length, total, rest, end = 0, count = count_runs(a, b, p)
    cdef int64_t *columns = <int64_t *> _memory(4 * count, sizeof(int64_t))
    cdef RunColumns runs = RunColumns(0, columns, columns + count, columns + 2 * count, columns + 3 * count)
    try:
        into[0] = <Family *> _memory(count, sizeof(Family))
        aspen(a, b, p, &runs)
        for k in range(count):
            end += runs.length[k]
        rest = size - (repeats - 1) * end  # elements in the last period
        for k in range(count):
            length = runs.length[k]
            total = (repeats - 1) * length + max(<int64_t> 0, min(rest, length))
            into[0][k] = Family(runs.remote[k], runs.start_a[k], runs.start_b[k], length, 0, 0, 1, total)
            rest -= length
    finally:
        PyMem_Free(columns)
    return count


cdef int _earlier(const void *left, const void *right) noexcept nogil:
    cdef const Family *a = <const Family *> left
    cdef const Family *b = <const Family *> right
    if a.remote != b.remote:
        return -1 if a.remote < b.remote else 1
    return (a.start_a > b.start_a) - (a.start_a < b.start_a)


cdef Family *_by_remote(Family *families, int64_t count, int64_t processes) except NULL:
    """Sort families by process, stably: in place, or in new memory, with the old freed."""
    cdef int64_t k, place, here
    cdef int64_t *places
    cdef Family *sorted_ = NULL
    for k in range(1, count):
        if families[k].remote < families[k - 1].remote:
            break
    else:
        return families
    if processes > 4 * count:
        qsort(families, count, sizeof(Family), _earlier)
        return families
    places = <int64_t *> PyMem_Calloc(processes, sizeof(int64_t))
    sorted_ = <Family *> PyMem_Malloc(count * sizeof(Family))
    if places == NULL or sorted_ == NULL:
        PyMem_Free(places)
        PyMem_Free(sorted_)
        raise MemoryError(f"no memory for {count} index runs")
    for k in range(count):
        places[families[k].remote] += 1
    place = 0
    for k in range(processes):
        here = places[k]
        places[k] = place
        place += here
    for k in range(count):
        sorted_[places[families[k].remote]] = families[k]
        places[families[k].remote] += 1
    PyMem_Free(places)
    PyMem_Free(families)
    return sorted_


cdef int64_t _held_before(const Axis *axis, uint64_t bound, int64_t p) noexcept nogil:
    """The number of elements that process `p` holds of the larger array's first `bound`."""
    cdef int64_t turn = p - axis.source, blocks = bound / <uint64_t> axis.block  # whole ones
    if turn < 0:
        turn += axis.processes
    cdef int64_t rounds = blocks / axis.processes, rest = blocks % axis.processes
    if turn < rest:
        return (rounds + 1) * axis.block
    return rounds * axis.block + <int64_t> (bound % <uint64_t> axis.block if turn == rest else 0)


cdef int64_t _global_index(const Axis *axis, int64_t p, int64_t local) noexcept nogil:
    cdef int64_t turn = p - axis.source
    if turn < 0:
        turn += axis.processes
    return (local / axis.block * axis.processes + turn) * axis.block + local % axis.block - axis.offset


cdef int _make_room(SharedRuns result, int64_t count) except -1:
    result._start_a = <int64_t *> _memory(4 * count, sizeof(int64_t))
    result._start_b, result._length, result._dense = result._start_a + count, result._start_a + 2 * count, result._start_a + 3 * count
    return 0


cdef inline void _append(SharedRuns result, int64_t start_a, int64_t start_b, int64_t length) noexcept:
    result._start_a[result._count], result._start_b[result._count], result._length[result._count] = start_a, start_b, length
    result._dense[result._count] = result._elements
    result._count += 1
    result._elements += length


cdef SharedRuns _shared(const Family *families, int64_t count, int64_t element, int64_t period_a, int64_t period_b):
    """The runs of one process, from its families in ascending order; `element` is the global index of the first."""
    cdef SharedRuns result = SharedRuns.__new__(SharedRuns)
    cdef int64_t k, j, runs = 0
    result.remote, result.first = families.remote, element
    for k in range(count):
        result.total += families[k].total
        runs += families[k].count
    if runs > count and _join_families(result, families, count):
        return result
    result.period_a, result.period_b = period_a, period_b
    _make_room(result, runs)
    for k in range(count):
        for j in range(families[k].count):
            _append(result, families[k].start_a + j * families[k].step_a, families[k].start_b + j * families[k].step_b, families[k].length)
    return result


cdef bint _join_families(SharedRuns result, const Family *families, int64_t count) except -1:
    """Take families that are one with cut first and last runs as a period of their own; else False."""
    cdef int64_t k, main = 0, x, y, length, first_length
    cdef const Family *family
    for k in range(1, min(count, <int64_t> 3)):
        if families[k].count > families[main].count:
            main = k
    if main > 1 or count > main + 2:
        return False
    family = families + main
    x, y, length = family.start_a, family.start_b, family.length
    first_length = length
    if main + 1 < count and not _fits(
        families + main + 1, x + family.count * family.step_a, y + family.count * family.step_b, 0, length
    ):
        return False
    if main == 1:
        x -= family.step_a
        y -= family.step_b
        first_length = families.length
        if first_length > length or not _fits(families, x, y, length - first_length, length):
            return False
    # after a cut first run each period begins in the middle of a run
    result.period_a, result.period_b = family.step_a, family.step_b
    _make_room(result, 2)
    _append(result, x + length - first_length, y + length - first_length, first_length)
    if first_length < length:
        _append(result, x + family.step_a, y + family.step_b, length - first_length)
    return True


cdef inline bint _fits(const Family *end, int64_t x, int64_t y, int64_t skipped, int64_t length) noexcept nogil:
    """Whether a family is one run at (x, y), possibly cut, without its first `skipped` elements."""
    return end.count == 1 and end.length <= length and end.start_a == x + skipped and end.start_b == y + skipped
