"""Index runs that one process of a block-cyclic axis shares with the processes of another: the loops of `intersections`.

Four ways to find the same runs, each the compiled form of the loop of that name. Plans are made by `aspen`: its work is the
number of runs found, with a division for none but the first two blocks; or by `families` of its runs. The other loops are
here to be measured against it. `shared` sorts by process what a plan is made of, in the form in which the kernels take it.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport qsort

import numpy as np

from .boxes cimport Runs, runs_of

# The first elements of an axis.
cdef struct Axis:
    int64_t window, block, processes, source, offset

# The compiled form of `Intervals`.
cdef struct Blocks:
    int64_t start, local, count, stride

# Where the runs go; nowhere while they are only counted.
cdef struct Found:
    int64_t count
    int64_t *remote
    int64_t *start_a
    int64_t *start_b
    int64_t *length

# Equal runs at equal distances: what is added to the starts from one to the next, and the elements of all.
cdef struct Family:
    int64_t remote, start_a, start_b, length, step_a, step_b, count, total

ctypedef int64_t (*Loop)(const Axis *, const Axis *, int64_t, Found *) noexcept nogil


def runs(str name, int64_t window, a, b, int64_t p):
    """Runs of elements 0 <= i < window that process `p` of axis a holds, cut where blocks of axis b end. Not collective.

    Parameters
    ----------
    name : str
        Of the loop: classical, falls, scan or aspen.
    a, b : tuple of int
        Block, processes, source and offset of an axis.

    Returns
    -------
    ndarray of int64, 4 x runs
        Remote process, local start in a, local start in b, length; in the order in which they are found.
    int
        Comparisons.
    """
    cdef Loop loop = _loop(name)
    cdef Axis one = _axis(window, a), other = _axis(window, b)
    cdef Found found = Found(0, NULL, NULL, NULL, NULL)
    cdef int64_t comparisons
    _aspen(&one, &other, p, &found)
    table = np.empty((4, found.count), np.int64)
    cdef int64_t[:, ::1] columns = table
    if found.count:
        _into(columns, &found)
    with nogil:
        comparisons = loop(&one, &other, p, &found)
    return table, comparisons


def families(int64_t window, a, b, int64_t p):
    """The runs of `runs("aspen", window, a, b, p)` in families of equal runs at equal distances. Not collective.

    Own blocks within one block of b are a family, and so are the blocks of one process of b within an own block: there are
    no more than runs, and where one layout's blocks are much larger than the other's, very few. A process's families
    ascend in the global index and do not overlap.

    Returns
    -------
    ndarray of int64, 7 x families
        Remote process; local start in a, local start in b and length of the first run; what is added to the starts from
        one run to the next; number of runs.
    """
    cdef Axis one = _axis(window, a), other = _axis(window, b)
    cdef int64_t k, count = _families(&one, &other, p, NULL)
    cdef Family *found = <Family *> _memory(count, sizeof(Family))
    table = np.empty((7, count), np.int64)
    cdef int64_t[:, ::1] columns = table
    _families(&one, &other, p, found)
    for k in range(count):
        columns[0, k], columns[1, k], columns[2, k] = found[k].remote, found[k].start_a, found[k].start_b
        columns[3, k], columns[4, k], columns[5, k] = found[k].length, found[k].step_a, found[k].step_b
        columns[6, k] = found[k].count
    PyMem_Free(found)
    return table


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

    cdef readonly int64_t remote, first, period_a, period_b, total
    cdef int64_t _count, _elements  # runs and elements of one repetition
    cdef int64_t *_start_a  # and behind it the other columns
    cdef int64_t *_start_b
    cdef int64_t *_length
    cdef int64_t *_dense  # where a run starts in a dense buffer
    cdef Runs _packed, _unpacked, _copied

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
    """What process `p` of axis a shares with each process of axis b that it shares anything with. Not collective.

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
    cdef Axis one = _whole_axis(a), other = _whole_axis(b)
    cdef int64_t n = one.window, period = _period(&one, &other, largest), count, first, last, size
    cdef Family *found = NULL
    result = []
    if not 0 <= p < one.processes:
        raise IndexError(f"process {p} is outside 0 <= p < {one.processes}")
    size = _held_before(&one, <uint64_t> one.offset + n, p) - _held_before(&one, one.offset, p)
    if not size:
        return result
    try:
        if period >= n:
            count = _families(&one, &other, p, NULL)
            found = <Family *> _memory(count, sizeof(Family))
            _families(&one, &other, p, found)
        else:
            one.window = other.window = period
            count = _runs_of_period(&one, &other, p, size, (n + period - 1) / period, &found)
        found = _by_remote(found, count, other.processes)
        first = 0
        while first < count:
            last = first + 1
            while last < count and found[last].remote == found[first].remote:
                last += 1
            result.append(_shared(found + first, last - first, &one, p, period / one.processes, period / other.processes))
            first = last
    finally:
        PyMem_Free(found)
    return result


cdef class Complete:
    """The runs of every process of axis a in turn, each in the same memory made here: what a benchmark times.

    Parameters
    ----------
    name, window, a, b
        As for `runs`.
    """
    cdef Loop loop
    cdef Axis a, b
    cdef int64_t[:, ::1] columns

    def __init__(self, str name, int64_t window, a, b):
        cdef Found found = Found(0, NULL, NULL, NULL, NULL)
        cdef int64_t p, most = 1
        self.loop = _loop(name)
        self.a, self.b = _axis(window, a), _axis(window, b)
        for p in range(self.a.processes):
            _aspen(&self.a, &self.b, p, &found)
            most = max(most, found.count)
        self.columns = np.empty((4, most), np.int64)

    def __call__(self):
        """Find them; returns the number of runs and of comparisons of all processes together. Not collective."""
        cdef Found found = Found(0, NULL, NULL, NULL, NULL)
        cdef int64_t p, comparisons = 0, count = 0
        if self.columns is None:
            raise ValueError("Complete was not initialized")
        _into(self.columns, &found)
        with nogil:
            for p in range(self.a.processes):
                comparisons += self.loop(&self.a, &self.b, p, &found)
                count += found.count
        return count, comparisons


cdef Loop _loop(str name) except NULL:
    if name == "aspen":
        return _aspen
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


cdef Axis _whole_axis(one):
    cdef Axis axis
    axis.window, axis.block, axis.processes, axis.source, axis.offset = one.n, one.block, one.processes, one.source, one.offset
    return axis


cdef void _into(int64_t[:, ::1] columns, Found *found) noexcept nogil:
    found.remote, found.start_a, found.start_b, found.length = &columns[0, 0], &columns[1, 0], &columns[2, 0], &columns[3, 0]


cdef inline void _add(Found *found, int64_t remote, int64_t start_a, int64_t start_b, int64_t length) noexcept nogil:
    found.remote[found.count] = remote
    found.start_a[found.count] = start_a
    found.start_b[found.count] = start_b
    found.length[found.count] = length
    found.count += 1


cdef inline Blocks _blocks(const Axis *axis, int64_t p) noexcept nogil:
    """The blocks of process p that begin in the window."""
    cdef Blocks own
    cdef int64_t first = axis.offset / axis.block
    cdef int64_t skip = (p - axis.source - first) % axis.processes
    if skip < 0:
        skip += axis.processes
    cdef int64_t left = (axis.offset + axis.window - 1) / axis.block - first - skip  # blocks after the first one
    first += skip
    own.start = own.local = own.count = 0
    own.stride = 1
    if axis.window > 0 and left >= 0:  # otherwise first * block might not fit
        own.count = left / axis.processes + 1
        own.start = first * axis.block - axis.offset
        own.local = first / axis.processes * axis.block
        own.stride = axis.block * axis.processes if own.count > 1 else axis.window
    return own


cdef inline int64_t _end(const Axis *axis, int64_t start) noexcept nogil:
    return axis.window if axis.block >= axis.window - start else start + axis.block


cdef int64_t _aspen(const Axis *a, const Axis *b, int64_t p, Found *found) noexcept nogil:
    cdef Blocks own = _blocks(a, p)
    cdef int64_t j, begin, end, shift, number, piece
    cdef int64_t within = 0, turn = 0, place = 0  # of the own block in b: in its block, of its process, in the local array
    cdef int64_t at, q, local, remote
    # how these three move from one own block to the next
    cdef int64_t more_within = own.stride % b.block
    cdef int64_t more_turn = own.stride / b.block % b.processes
    cdef int64_t more_place = own.stride / b.block / b.processes * b.block
    cdef Found out = found[0]  # a copy that stays in registers
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
    found.count = out.count
    return out.count


cdef inline void _put(Family *into, int64_t remote, int64_t start_a, int64_t start_b, int64_t length, int64_t step_a,
                      int64_t step_b, int64_t count) noexcept nogil:
    into.remote, into.start_a, into.start_b, into.length = remote, start_a, start_b, length
    into.step_a, into.step_b, into.count, into.total = step_a, step_b, count, length * count


cdef int64_t _families(const Axis *a, const Axis *b, int64_t p, Family *into) noexcept nogil:
    """Count the families, and write them where there is room for them."""
    cdef Blocks own = _blocks(a, p)
    cdef int64_t begin, end, shift, number, within, turn, place, length, many, k, found = 0
    while own.count > 0:
        begin, end = max(own.start, 0), _end(a, own.start)
        shift = own.local - own.start
        many = 1  # own blocks that are dealt with
        while begin < end:
            number = (begin + b.offset) / b.block
            within = (begin + b.offset) % b.block
            turn = number % b.processes
            place = number / b.processes * b.block
            length = min(end - begin, b.block - within)
            if begin == own.start and length == a.block:  # whole: those after it that are in the same block of b
                many = (b.block - within - length) / own.stride + 1
                if many >= own.count:
                    many = own.count
                    if many > 1 and _end(a, own.start + (many - 1) * own.stride) - own.start - (many - 1) * own.stride < a.block:
                        many -= 1
                if into != NULL:
                    _put(into + found, (turn + b.source) % b.processes, begin + shift, place + within, length,
                         a.block, own.stride, many)
                found += 1
            elif length == b.block and end - begin >= 2 * b.block:  # whole blocks of b, which come round
                number = (end - begin) / b.block
                for k in range(min(number, b.processes)):
                    if into != NULL:
                        _put(into + found, (turn + b.source) % b.processes, begin + k * b.block + shift, place, length,
                             b.block * b.processes if number > b.processes else b.block, b.block, (number - k - 1) / b.processes + 1)
                    found += 1
                    turn += 1
                    if turn == b.processes:
                        turn = 0
                        place += b.block
                length = number * b.block
            else:
                if into != NULL:
                    _put(into + found, (turn + b.source) % b.processes, begin + shift, place + within, length,
                         length, length, 1)
                found += 1
            begin += length
        own.start += many * own.stride
        own.local += many * a.block
        own.count -= many
    return found


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
    cdef int64_t one, other, x, y
    if a.block > largest / a.processes or b.block > largest / b.processes:
        return largest
    one, other = a.block * a.processes, b.block * b.processes
    x, y = one, other
    while y:
        x, y = y, x % y
    one /= x
    return one * other if one <= largest / other else largest


cdef int64_t _runs_of_period(const Axis *a, const Axis *b, int64_t p, int64_t size, int64_t repeats, Family **into) except -1:
    """The runs of the window, in memory made here, with their elements in the whole array, whose last period may be cut."""
    cdef Found found = Found(0, NULL, NULL, NULL, NULL)
    cdef int64_t k, rest, end = 0, count = _aspen(a, b, p, &found)
    cdef int64_t *columns = <int64_t *> _memory(4 * count, sizeof(int64_t))
    cdef Family *one
    found.remote, found.start_a, found.start_b, found.length = columns, columns + count, columns + 2 * count, columns + 3 * count
    try:
        into[0] = <Family *> _memory(count, sizeof(Family))
        _aspen(a, b, p, &found)
        for k in range(count):
            end += found.length[k]
        rest = size - (repeats - 1) * end  # elements in the last period
        for k in range(count):
            one = into[0] + k
            _put(one, found.remote[k], found.start_a[k], found.start_b[k], found.length[k], 0, 0, 1)
            one.total = (repeats - 1) * one.length + max(<int64_t> 0, min(rest, one.length))
            rest -= one.length
    finally:
        PyMem_Free(columns)
    return count


cdef int _earlier(const void *one, const void *other) noexcept nogil:
    cdef const Family *a = <const Family *> one
    cdef const Family *b = <const Family *> other
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


cdef int _make_room(Shared one, int64_t count) except -1:
    one._start_a = <int64_t *> _memory(4 * count, sizeof(int64_t))
    one._start_b, one._length, one._dense = one._start_a + count, one._start_a + 2 * count, one._start_a + 3 * count
    return 0


cdef inline void _append(Shared one, int64_t start_a, int64_t start_b, int64_t length) noexcept:
    one._start_a[one._count], one._start_b[one._count], one._length[one._count] = start_a, start_b, length
    one._dense[one._count] = one._elements
    one._count += 1
    one._elements += length


cdef Shared _shared(const Family *found, int64_t count, const Axis *a, int64_t p, int64_t period_a, int64_t period_b):
    """The families of one process, which ascend."""
    cdef Shared made = Shared.__new__(Shared)
    cdef int64_t k, j, runs = 0
    made.remote, made.first = found.remote, _global_index(a, p, found.start_a)
    for k in range(count):
        made.total += found[k].total
        runs += found[k].count
    if runs > count and _as_one_family(made, found, count):
        return made
    made.period_a, made.period_b = period_a, period_b
    _make_room(made, runs)
    for k in range(count):
        for j in range(found[k].count):
            _append(made, found[k].start_a + j * found[k].step_a, found[k].start_b + j * found[k].step_b, found[k].length)
    return made


cdef bint _as_one_family(Shared made, const Family *found, int64_t count) except -1:
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


cdef int64_t _falls(const Axis *a, const Axis *b, int64_t p, Found *found) noexcept nogil:
    cdef Blocks mine = _blocks(a, p)
    cdef Blocks own, others
    cdef int64_t remote, j, k, begin, end, first, last, other, left, right, comparisons = 0
    cdef Found out = found[0]  # a copy that stays in registers
    out.count = 0
    for remote in range(b.processes):
        others = _blocks(b, remote)
        own = mine
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
    found.count = out.count
    return comparisons


cdef int64_t _scan(const Axis *a, const Axis *b, int64_t p, Found *found) noexcept nogil:
    cdef Blocks mine = _blocks(a, p)
    cdef Blocks own, others
    cdef int64_t remote, end, other_end, left, right, comparisons = 0
    cdef Found out = found[0]  # a copy that stays in registers
    out.count = 0
    for remote in range(b.processes):
        others = _blocks(b, remote)
        own = mine
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
    found.count = out.count
    return comparisons


cdef int64_t _classical(const Axis *a, const Axis *b, int64_t p, Found *found) noexcept nogil:
    cdef Blocks mine = _blocks(a, p)
    cdef Blocks own, others, all_others
    cdef int64_t remote, j, k, begin, end, left, right, comparisons = 0
    cdef Found out = found[0]  # a copy that stays in registers
    out.count = 0
    for remote in range(b.processes):
        all_others = _blocks(b, remote)
        own = mine
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
    found.count = out.count
    return comparisons
