"""What one process shares with each process of another axis: what plans are made of, in the form in which the kernels take it.

Runs are found by `aspen`, or in `families`, and sorted by process.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport qsort

import numpy as np

from .intersections cimport Axis, Family, Found, aspen, count_families, count_runs, find_families
from .runs cimport Runs, runs_of


cdef class Shared:
    """What two processes share along one dimension: runs that repeat, up to a number of elements. Made by `shared`.

    Attributes
    ----------
    remote : int
        The process of b.
    first : int
        Global index of the first element.
    start_a, start_b, length : ndarray of int64
        For each run of one repetition: where it starts in a's and in b's local array, elements; ascending.
    period_a, period_b : int
        What is added to the starts from one repetition to the next.
    total : int
        Elements in all; they may end inside a repetition.
    packed, unpacked, copied : Runs
        From a's local array to a dense buffer; from one to a's local array; from a's local array to b's.
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
    """What process `p` of block-cyclic axis a shares with each process of axis b that it shares anything with. Not collective.

    Runs of one period where that is shorter than the array; else families of runs of the whole array.

    Parameters
    ----------
    a, b : BlockCyclic
        Of equally many elements.
    largest : int
        What stands for a period that is longer; at least as many.

    Returns
    -------
    list of Shared
        Their processes ascend.

    Raises
    ------
    IndexError
        There is no process `p`.
    """
    cdef Axis own = _axis(a), other = _axis(b)
    cdef int64_t n = own.window, period = _period(&own, &other, largest), count, first, last, size
    cdef Family *found = NULL
    result = []
    if not 0 <= p < own.processes:
        raise IndexError(f"process {p} is outside 0 <= p < {own.processes}")
    size = _held_before(&own, <uint64_t> own.offset + n, p) - _held_before(&own, own.offset, p)
    if not size:
        return result
    try:
        if period >= n:
            count = count_families(&own, &other, p)
            found = <Family *> _memory(count, sizeof(Family))
            find_families(&own, &other, p, found)
        else:
            own.window = other.window = period
            count = _runs_of_period(&own, &other, p, size, (n + period - 1) / period, &found)
        found = _by_remote(found, count, other.processes)
        first = 0
        while first < count:
            last = first + 1
            while last < count and found[last].remote == found[first].remote:
                last += 1
            result.append(_shared(
                found + first, last - first, _global_index(&own, p, found[first].start_a), period / own.processes,
                period / other.processes,
            ))
            first = last
    finally:
        PyMem_Free(found)
    return result


def shared_families(const int64_t[:, ::1] families, const int64_t[::1] elements, int64_t n):
    """What one process shares with others, from families of equal runs at equal distances. Not collective.

    Parameters
    ----------
    families : ndarray of int64, 7 x families
        As those of `intersections.families`, and sorted by process.
    elements : ndarray of int64
        Global index of the first element of each.
    n : int
        Elements of the axes.

    Returns
    -------
    list of Shared
        Their processes ascend.
    """
    cdef int64_t k, first = 0, count = families.shape[1]
    cdef Family *found
    if families.shape[0] != 7 or elements.shape[0] != count:
        raise ValueError(f"{families.shape[0]} x {count} families and {elements.shape[0]} elements: there must be 7 rows")
    found = <Family *> _memory(count, sizeof(Family))
    result = []
    try:
        for k in range(count):
            found[k] = Family(
                families[0, k], families[1, k], families[2, k], families[3, k], families[4, k], families[5, k], families[6, k],
                families[3, k] * families[6, k],
            )
        for k in range(1, count + 1):
            if k == count or found[k].remote != found[first].remote:
                result.append(_shared(found + first, k - first, elements[first], n, n))
                first = k
    finally:
        PyMem_Free(found)
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
    """Elements after which both axes repeat, lcm of the strides; `largest` where that is more."""
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
    """The runs of the window, in memory made here, with their elements in the whole array, whose last period may be cut."""
    cdef int64_t k, length, total, rest, end = 0, count = count_runs(a, b, p)
    cdef int64_t *columns = <int64_t *> _memory(4 * count, sizeof(int64_t))
    cdef Found found = Found(0, columns, columns + count, columns + 2 * count, columns + 3 * count)
    try:
        into[0] = <Family *> _memory(count, sizeof(Family))
        aspen(a, b, p, &found)
        for k in range(count):
            end += found.length[k]
        rest = size - (repeats - 1) * end  # elements in the last period
        for k in range(count):
            length = found.length[k]
            total = (repeats - 1) * length + max(<int64_t> 0, min(rest, length))
            into[0][k] = Family(found.remote[k], found.start_a[k], found.start_b[k], length, 0, 0, 1, total)
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


cdef Family *_by_remote(Family *found, int64_t count, int64_t processes) except NULL:
    """The same sorted by process, and in their order for each: in the same memory, or in other that takes its place."""
    cdef int64_t k, place, here
    cdef int64_t *places
    cdef Family *sorted_ = NULL
    for k in range(1, count):
        if found[k].remote < found[k - 1].remote:
            break
    else:
        return found
    if processes > 4 * count:
        qsort(found, count, sizeof(Family), _earlier)
        return found
    places = <int64_t *> PyMem_Calloc(processes, sizeof(int64_t))
    sorted_ = <Family *> PyMem_Malloc(count * sizeof(Family))
    if places == NULL or sorted_ == NULL:
        PyMem_Free(places)
        PyMem_Free(sorted_)
        raise MemoryError(f"no memory for {count} index runs")
    for k in range(count):
        places[found[k].remote] += 1
    place = 0
    for k in range(processes):
        here = places[k]
        places[k] = place
        place += here
    for k in range(count):
        sorted_[places[found[k].remote]] = found[k]
        places[found[k].remote] += 1
    PyMem_Free(places)
    PyMem_Free(found)
    return sorted_


cdef int64_t _held_before(const Axis *axis, uint64_t bound, int64_t p) noexcept nogil:
    """How many of the larger array's first `bound` elements process `p` holds."""
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


cdef int _make_room(Shared made, int64_t count) except -1:
    made._start_a = <int64_t *> _memory(4 * count, sizeof(int64_t))
    made._start_b, made._length, made._dense = made._start_a + count, made._start_a + 2 * count, made._start_a + 3 * count
    return 0


cdef inline void _append(Shared made, int64_t start_a, int64_t start_b, int64_t length) noexcept:
    made._start_a[made._count], made._start_b[made._count], made._length[made._count] = start_a, start_b, length
    made._dense[made._count] = made._elements
    made._count += 1
    made._elements += length


cdef Shared _shared(const Family *found, int64_t count, int64_t element, int64_t period_a, int64_t period_b):
    """The families of one process, which ascend, the first at a global element."""
    cdef Shared made = Shared.__new__(Shared)
    cdef int64_t k, j, runs = 0
    made.remote, made.first = found.remote, element
    for k in range(count):
        made.total += found[k].total
        runs += found[k].count
    if runs > count and _join_families(made, found, count):
        return made
    made.period_a, made.period_b = period_a, period_b
    _make_room(made, runs)
    for k in range(count):
        for j in range(found[k].count):
            _append(made, found[k].start_a + j * found[k].step_a, found[k].start_b + j * found[k].step_b, found[k].length)
    return made


cdef bint _join_families(Shared made, const Family *found, int64_t count) except -1:
    """Where families are one whose first and last run may be cut: its runs as a period of their own; else False."""
    cdef int64_t k, main = 0, x, y, length, kept
    cdef const Family *family
    for k in range(1, min(count, <int64_t> 3)):
        if found[k].count > found[main].count:
            main = k
    if main > 1 or count > main + 2:
        return False
    family = found + main
    x, y, length = family.start_a, family.start_b, family.length
    kept = length
    if main + 1 < count and not _fits(
        found + main + 1, x + family.count * family.step_a, y + family.count * family.step_b, 0, length
    ):
        return False
    if main == 1:
        x -= family.step_a
        y -= family.step_b
        kept = found.length
        if kept > length or not _fits(found, x, y, length - kept, length):
            return False
    # a cut first run: each period then begins where it does, in the middle of a run
    made.period_a, made.period_b = family.step_a, family.step_b
    _make_room(made, 2)
    _append(made, x + length - kept, y + length - kept, kept)
    if kept < length:
        _append(made, x + family.step_a, y + family.step_b, length - kept)
    return True


cdef inline bint _fits(const Family *end, int64_t x, int64_t y, int64_t skipped, int64_t length) noexcept nogil:
    """Whether a family is one run at (x, y) that may be cut; of it `skipped` elements are cut off in front."""
    return end.count == 1 and end.length <= length and end.start_a == x + skipped and end.start_b == y + skipped
