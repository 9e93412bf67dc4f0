"""A plan's call for arrays of one kind: they are looked at, voted on and moved in one compiled call."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memcmp, memcpy
from cpython.buffer cimport PyBUF_STRIDED_RO, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer

from numpy import ndarray

from ._bundle cimport Origins
from ._copy cimport MOST
from ._ring cimport NUMBERS, PATIENCE_NS, Ring
from ._traffic cimport Traffic

DISSENT = object()


cdef struct Kind:
    # what an array must be like: its strides, and the bytes before and behind its first element, 0 where it is empty
    Py_ssize_t ndim
    Py_ssize_t shape[MOST]
    Py_ssize_t strides[MOST]
    int64_t below, above
    bint given


cdef struct Extent:
    # the bytes from the first to behind the last of an array
    size_t first, last
    bint written


cdef class Kinds:
    """What the arrays of a call must be like to be served as those of an earlier one were. Not collective.

    Parameters
    ----------
    arrays, outs : list of ndarray or None
        Sources and targets of that kind, in pairs that may be told from one another: no target overlaps anything else.
        None where this rank has none.
    makes : list of callable or None
        Makes the target of a dtype where it was left out; None where it was given, or this rank has none.
    """

    cdef readonly Py_ssize_t count
    cdef Kind *_a
    cdef Kind *_out
    cdef list _dtypes, _makes
    cdef const char **_given  # addresses of the last arrays that were seen not to overlap; NULL for those made since
    cdef const char **_now
    cdef Extent *_extents

    def __init__(self, list arrays, list outs, list makes):
        cdef Py_ssize_t k, n = len(arrays)
        self.count, self._makes, self._dtypes = n, makes, []
        if not n == len(outs) == len(makes) or not n:
            raise ValueError(f"{n} arrays, {len(outs)} outs, {len(makes)} makes: there must be as many of each, and some")
        self._a = <Kind *> calloc(2 * n, sizeof(Kind))
        self._given = <const char **> calloc(4 * n, sizeof(char *))
        self._extents = <Extent *> calloc(2 * n, sizeof(Extent))
        if self._a == NULL or self._given == NULL or self._extents == NULL:
            raise MemoryError(f"no memory for {n} pairs of arrays")
        self._out, self._now = self._a + n, self._given + 2 * n
        for k in range(n):
            a, out = arrays[k], outs[k]
            self._dtypes.append(a.dtype if a is not None else out.dtype if out is not None else None)
            self._given[2 * k] = _describe(self._a + k, a)
            self._given[2 * k + 1] = _describe(self._out + k, out)
            if makes[k] is not None:
                self._given[2 * k + 1] = NULL

    def __dealloc__(self):
        free(self._a)
        free(self._given)
        free(self._extents)

    cdef object take(self, Py_ssize_t k, a, out, Origins origins):
        """The target of a pair, made where it is left out; NotImplemented where the two are of another kind."""
        cdef char *source = NULL
        cdef char *target = NULL
        cdef bint made = out is None and self._makes[k] is not None
        if not _matches(self._a + k, a, self._dtypes[k], False, &source):
            return NotImplemented
        if made:
            out = self._makes[k](self._dtypes[k])
        if not _matches(self._out + k, out, self._dtypes[k], True, &target):
            return NotImplemented
        origins.sources[k], origins.targets[k] = source, target
        self._now[2 * k], self._now[2 * k + 1] = source, NULL if made else target
        return out

    cdef bint apart(self, Origins origins) noexcept:
        """Whether all targets are known not to overlap anything. False also where their elements lie between one another."""
        cdef Py_ssize_t k, n = 0
        cdef size_t reached = 0, written = 0
        if memcmp(self._now, self._given, 2 * self.count * sizeof(char *)) == 0:
            return True
        for k in range(self.count):
            if self._a[k].above:
                self._extents[n] = _extent(self._a + k, origins.sources[k], False)
                n += 1
            if self._out[k].above:
                self._extents[n] = _extent(self._out + k, origins.targets[k], True)
                n += 1
        if n > 2:
            qsort(self._extents, n, sizeof(Extent), _by_first)
        elif n == 2 and self._extents[1].first < self._extents[0].first:
            self._extents[0], self._extents[1] = self._extents[1], self._extents[0]
        for k in range(n):
            if self._extents[k].first < (reached if self._extents[k].written else written):
                return False
            reached = max(reached, self._extents[k].last)
            if self._extents[k].written:
                written = max(written, self._extents[k].last)
        memcpy(self._given, self._now, 2 * self.count * sizeof(char *))
        return True

    def match(self, list arrays, list outs):
        """The targets, made where they are left out, and where all arrays begin; None where they are of another kind."""
        cdef Origins origins
        cdef Py_ssize_t k
        if not len(arrays) == len(outs) == self.count:
            return None
        origins = Origins(self.count)
        targets = []
        for k in range(self.count):
            out = self.take(k, arrays[k], outs[k], origins)
            if out is NotImplemented:
                return None
            targets.append(out)
        return (targets, origins) if self.apart(origins) else None


cdef int _by_first(const void *a, const void *b) noexcept nogil:
    return ((<const Extent *> a).first > (<const Extent *> b).first) - ((<const Extent *> a).first < (<const Extent *> b).first)


cdef class Call:
    """Runs of one plan with arrays of one kind, each in one compiled call: votes, messages and copies. Not collective.

    Parameters
    ----------
    traffic : Traffic
        What is moved; the order of its elements is the one that all ranks agreed on for such arrays.
    kinds : Kinds
        What the arrays are like.
    ballot, expected : int64 array
        This rank's vote for such arrays, and the outcome with which the call goes on.
    look_around : callable
        Called while nothing moves; raises when there is nothing to wait for.
    """

    cdef Traffic _traffic
    cdef Kinds _kinds
    cdef Origins _origins
    cdef object _look_around
    cdef int64_t _vote[NUMBERS]
    cdef int64_t _expected[NUMBERS]
    cdef readonly list outcome  # of a vote that was not as expected, and behind it the number of the vote

    def __init__(self, Traffic traffic, Kinds kinds, const int64_t[::1] ballot, const int64_t[::1] expected, look_around):
        cdef Py_ssize_t k
        self._traffic, self._kinds, self._look_around = traffic, kinds, look_around
        self._origins = Origins(kinds.count)
        for k in range(min(NUMBERS, ballot.shape[0])):
            self._vote[k], self._expected[k] = ballot[k], expected[k]

    def __call__(self, a, out):
        """The local array of B; NotImplemented where the arrays are of another kind, DISSENT where the vote is another.

        In the last case nothing has moved, and `outcome` has what came of the vote.
        """
        out = self._kinds.take(0, a, out, self._origins)
        if out is NotImplemented or not self._kinds.apart(self._origins):
            return NotImplemented
        answer = self._run()
        return out if answer is None else answer

    def many(self, list arrays, list outs):
        """The same for several pairs of arrays: a list of the local arrays of B."""
        cdef Py_ssize_t k
        if not len(arrays) == len(outs) == self._kinds.count:
            return NotImplemented
        targets = []
        for k in range(self._kinds.count):
            out = self._kinds.take(k, arrays[k], outs[k], self._origins)
            if out is NotImplemented:
                return NotImplemented
            targets.append(out)
        if not self._kinds.apart(self._origins):
            return NotImplemented
        answer = self._run()
        return targets if answer is None else answer

    cdef object _run(self):
        """Vote and move: None once all has moved, else NotImplemented or DISSENT."""
        cdef Traffic traffic = self._traffic
        cdef Ring ring = traffic.ring
        cdef int64_t counted[NUMBERS]
        cdef int64_t cursor = 0, idle = 0, until = 0
        cdef bint done = False, all_counted = False, same
        cdef Py_ssize_t k
        if ring.left or ring.posted != ring.counted or not ring.post(self._vote):
            return NotImplemented
        try:
            traffic.start(self._origins, 0)
            with nogil:
                while not all_counted:  # packing touches no array: it need not wait for the others
                    all_counted = ring.count(&cursor, counted)
                    if all_counted or traffic.send_round(False, False):
                        idle = until = 0
                    elif ring.out_of_patience(&idle, &until, PATIENCE_NS):
                        with gil:
                            self._look_around()
                        until = 0
                same = True
                for k in range(NUMBERS):
                    same = same and counted[k] == self._expected[k]
                if not same:
                    traffic.take_back()
                while same and not done:
                    done = traffic.go_on(PATIENCE_NS)
                    if not done:
                        with gil:
                            self._look_around()
        except BaseException:
            ring.break_off()
            raise
        if same:
            return None
        self.outcome = [*[counted[k] for k in range(NUMBERS)], ring.counted]
        return DISSENT


cdef inline Extent _extent(const Kind *kind, const char *start, bint written) noexcept nogil:
    return Extent(<size_t> start - kind.below, <size_t> start + kind.above, written)


cdef const char *_describe(Kind *kind, array) except? NULL:
    """What an array is like; returns where it starts."""
    cdef Py_buffer view
    cdef const char *start
    cdef Py_ssize_t k
    cdef int64_t reach
    kind.given = array is not None
    kind.below = kind.above = 0
    if not kind.given:
        return NULL
    PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO)
    kind.ndim = view.ndim
    kind.below, kind.above = 0, view.itemsize
    for k in range(view.ndim):
        kind.shape[k] = view.shape[k]
        kind.strides[k] = view.strides[k]
        reach = (view.shape[k] - 1) * view.strides[k]
        kind.below -= min(reach, <int64_t> 0)
        kind.above += max(reach, <int64_t> 0)
    if 0 in (<object> array).shape:
        kind.below = kind.above = 0
    start = <const char *> view.buf
    PyBuffer_Release(&view)
    return start


cdef bint _matches(const Kind *kind, array, dtype, bint writable, char **start) except -1:
    """Whether an array is of that kind, and where it starts."""
    cdef Py_buffer view
    cdef bint same
    cdef Py_ssize_t k
    if array is None:
        return not kind.given
    if not kind.given or type(array) is not ndarray or array.dtype is not dtype:
        return False
    try:
        PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO | (PyBUF_WRITABLE if writable else 0))
    except (BufferError, ValueError):
        return False
    same = view.ndim == kind.ndim
    for k in range(view.ndim):
        same = same and view.shape[k] == kind.shape[k] and view.strides[k] == kind.strides[k]
    start[0] = <char *> view.buf
    PyBuffer_Release(&view)
    return same
