"""The fast path: a compiled call of a plan for arrays of one kind, which checks them, votes and moves."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memcmp, memcpy
from cpython.buffer cimport PyBUF_STRIDED_RO, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer

from numpy import ndarray

from .bundle cimport Origins
from .moving cimport MOST_DIMENSIONS
from .ring cimport (
    CALL, DTYPE, FAILED, ITEM, NARROW, PENDING, ORDER, PACKED, Vote, Ring, Tally, Tickets, disputed, now, outcome_of,
)
from .transport cimport Traffic

from .ring import RingVoting

cdef int ATTEMPTS = 100  # at holding interrupts back while others come
cdef int64_t TIMED = 64 * 1024  # least bytes of B of a call that is timed: of less, reading the clock would count


cdef struct Kind:
    # required properties of an array: its strides, and the bytes before and behind its first element, 0 if empty
    Py_ssize_t ndim
    Py_ssize_t shape[MOST_DIMENSIONS]
    Py_ssize_t strides[MOST_DIMENSIONS]
    int64_t below, above
    bint is_there


cdef struct Extent:
    # the address range of an array
    size_t first, last
    bint written


cdef class Kinds:
    """The kinds of arrays of an earlier call, for which its compiled form is valid.

    Parameters
    ----------
    arrays, outs : list of ndarray or None
        Sources and targets in pairs; no target overlaps another array. None if this rank has none.
    makes : list of callable or None
        Makes the target of a dtype if it was left out; None otherwise.
    """

    cdef readonly Py_ssize_t count
    cdef Kind *_a
    cdef Kind *_out
    cdef list _dtypes, _makes
    cdef const char **_checked  # addresses of the last arrays known not to overlap; NULL for targets made since
    cdef const char **_present
    cdef Extent *_extents

    def __init__(self, list arrays, list outs, list makes):
        cdef Py_ssize_t k, n = len(arrays)
        self.count, self._makes, self._dtypes = n, makes, []
        if not n == len(outs) == len(makes) or not n:
            raise ValueError(f"{n} arrays, {len(outs)} outs, {len(makes)} makes: there must be as many of each, and some")
        self._a = <Kind *> calloc(2 * n, sizeof(Kind))
        self._checked = <const char **> calloc(4 * n, sizeof(char *))
        self._extents = <Extent *> calloc(2 * n, sizeof(Extent))
        if self._a == NULL or self._checked == NULL or self._extents == NULL:
            raise MemoryError(f"no memory for {n} pairs of arrays")
        self._out, self._present = self._a + n, self._checked + 2 * n
        for k in range(n):
            a, out = arrays[k], outs[k]
            self._dtypes.append(a.dtype if a is not None else out.dtype if out is not None else None)
            self._checked[2 * k] = _describe(self._a + k, a)
            self._checked[2 * k + 1] = _describe(self._out + k, out)
            if makes[k] is not None:
                self._checked[2 * k + 1] = NULL

    def __dealloc__(self):
        free(self._a)
        free(self._checked)
        free(self._extents)

    cdef object take(self, Py_ssize_t k, a, out, Origins origins):
        """The target of a pair, made if left out; NotImplemented if the arrays are of another kind."""
        cdef char *source = NULL
        cdef char *target = NULL
        cdef bint is_made = out is None and self._makes[k] is not None
        if not _matches(self._a + k, a, self._dtypes[k], False, &source):
            return NotImplemented
        if is_made:
            out = self._makes[k](self._dtypes[k])
        if not _matches(self._out + k, out, self._dtypes[k], True, &target):
            return NotImplemented
        origins.sources[k], origins.targets[k] = source, target
        self._present[2 * k], self._present[2 * k + 1] = source, NULL if is_made else target
        return out

    cdef bint disjoint(self, Origins origins) noexcept:
        """Whether no target overlaps another array; False also if the elements of two arrays alternate."""
        cdef Py_ssize_t k, n = 0
        cdef size_t reached = 0, written = 0
        if memcmp(self._present, self._checked, 2 * self.count * sizeof(char *)) == 0:
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
        memcpy(self._checked, self._present, 2 * self.count * sizeof(char *))
        return True

    def match(self, list arrays, list outs):
        """The targets, made if left out, and the addresses of all arrays; None if they are of another kind."""
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
        return (targets, origins) if self.disjoint(origins) else None


cdef int _by_first(const void *a, const void *b) noexcept nogil:
    return ((<const Extent *> a).first > (<const Extent *> b).first) - ((<const Extent *> a).first < (<const Extent *> b).first)


cdef class LastRun:
    """The time of the last run of a plan that was timed.

    Attributes
    ----------
    seconds : float or None
        None before the first run.
    """

    cdef int64_t _spent

    def __cinit__(self):
        self._spent = -1

    @property
    def seconds(self):
        return None if self._spent < 0 else 1e-9 * self._spent

    @seconds.setter
    def seconds(self, double value):
        self._spent = <int64_t> (1e9 * value)


cdef class Call:
    """The fast path of a plan with arrays of one kind: a transfer in one compiled call.

    If it cannot continue, a `Transfer` does, with what it hands over: the vote that it has cast and the chunks that it has
    packed. The call itself starts that, also after an interrupt, so no vote is left that this rank never counts.

    Parameters
    ----------
    traffic : Traffic
        The moves; their elements are in the order of the vote.
    kinds : Kinds
        The kinds of its arrays.
    vote : Vote
        This rank's vote for such arrays.
    item : int
        Bytes of an element, as agreed.
    check_peers : callable
        Called while nothing moves; raises if the wait cannot end.
    tickets : Tickets
        The group's tickets; each call draws one.
    listed : bool
        Whether arrays and results are lists.
    proceed : callable
        proceed(call, a, out) starts the transfer that continues the call.
    hold : callable
        `hold_interrupts`.
    last_run : LastRun
        Where the time of a call is left, if it is long enough.
    """

    cdef readonly Traffic traffic
    cdef Kinds _kinds
    cdef Vote vote
    cdef int64_t _item
    cdef object _check_peers
    cdef Tickets _tickets
    cdef bint _listed
    cdef object _proceed, _hold
    cdef readonly bint begun  # whether it has voted, and is not complete
    cdef bint voted, as_expected  # whether all ranks have voted, and whether the outcome is the expected one
    cdef Origins origins
    cdef object targets  # local arrays of B
    cdef Tally _tally
    cdef LastRun _last_run
    cdef bint _is_timed

    def __init__(
        self, Traffic traffic, Kinds kinds, Vote vote, int64_t item, check_peers, Tickets tickets, bint listed, proceed, hold,
        LastRun last_run,
    ):
        self.traffic, self._kinds, self.vote, self._item, self._check_peers = traffic, kinds, vote, item, check_peers
        self._tickets, self._listed, self._proceed, self._hold = tickets, listed, proceed, hold
        self.origins, self._last_run, self._is_timed = Origins(kinds.count), last_run, traffic.stores.nbytes >= TIMED

    def __call__(self, a, out):
        """The local array of B; NotImplemented if the arrays are of another kind, a transfer after another outcome of the vote.

        In the last case no data have moved.
        """
        if self._listed:
            return self._many(a, out)
        try:
            target = self._kinds.take(0, a, out, self.origins)
            if target is NotImplemented or not self._kinds.disjoint(self.origins):
                return NotImplemented
        except Exception:
            return NotImplemented  # the slow path raises it again, collectively
        self.targets = target
        answer = self._run(a, out)
        if answer is None:
            self.targets = None
            return target
        return answer

    cdef object _many(self, arrays, outs):
        """The call for several pairs of arrays: a list of the local arrays of B."""
        match = None
        try:
            absent = [None] * self._kinds.count
            if isinstance(arrays, (list, tuple, type(None))) and isinstance(outs, (list, tuple, type(None))):
                match = self._kinds.match(absent if arrays is None else list(arrays), absent if outs is None else list(outs))
        except Exception:
            pass
        if match is None:
            return NotImplemented
        self.targets, self.origins = match
        targets = self.targets
        answer = self._run(arrays, outs)
        if answer is None:
            self.targets = None
            return targets
        return answer

    cdef object _run(self, a, out):
        """Vote and move; None when complete, else NotImplemented or a transfer."""
        cdef Traffic traffic = self.traffic
        cdef Ring ring = traffic.ring
        cdef int64_t cursor = 0, idle = 0, until = 0, start = now() if self._is_timed else 0
        cdef bint done = False
        if ring.closed or ring.posted != ring.counted or not ring.post(self.vote.values, NARROW):
            return NotImplemented
        self.begun, self.voted, self.as_expected = True, False, False
        self._tickets.drawn += 1
        traffic.start(self.origins, 0)
        try:
            with nogil:
                while not self.voted:  # packing changes no array, so it need not wait
                    self.voted = ring.count(&cursor, &self._tally, NARROW)
                    if self.voted or traffic.send_early():
                        idle = until = 0
                    elif ring.is_timed_out(&idle, &until):
                        with gil:
                            self._check_peers()
                        until = 0
                self.as_expected = self._is_expected()
                if not self.as_expected:
                    traffic.withdraw_chunks()
                while self.as_expected and not done:
                    done = traffic.make_progress(True)
                    if not done:
                        with gil:
                            self._check_peers()
        except BaseException:
            self._continue(a, out)  # in this rank's next call of the package
            raise
        if not self.as_expected:
            return self._continue(a, out)
        traffic.end()
        self.begun = False
        if self._is_timed:
            self._last_run._spent = now() - start
        return None

    cdef object _continue(self, a, out):
        """The transfer that continues this call. An interrupt comes only when it does."""
        interrupt = held = None
        for _ in range(ATTEMPTS):  # no signal is handled in compiled code
            try:
                held = self._hold()
                held.__enter__()
                break
            except BaseException as caught:
                interrupt, held = caught, None
        try:
            transfer = self._proceed(self, a, out)
        finally:
            if held is not None:
                held.__exit__(None, None, None)
        if interrupt is not None:
            raise interrupt
        return transfer

    cdef bint _is_expected(self) noexcept nogil:
        """Whether no rank has failed or differs, and all pack elements of this size in this order."""
        cdef const Tally *tally = &self._tally
        return (
            not tally.largest[FAILED] and not tally.largest[PENDING]
            and tally.largest[ITEM] == self._item and tally.largest[ORDER] == self.vote.values[PACKED]
            and not disputed(tally, CALL) and not disputed(tally, DTYPE) and not disputed(tally, PACKED)
        )

    def hand_over(self):
        """Release the use that a `Transfer` continues.

        Returns
        -------
        voting : RingVoting
            The vote that is cast.
        traffic : Traffic or None
            The moves if chunks are packed, and not withdrawn.
        targets : list of ndarray or None
            Local arrays of B.
        origins : Origins
            The addresses of all arrays.
        """
        voting = RingVoting(self.traffic.ring, self.vote, True, outcome_of(&self._tally, False) if self.voted else None)
        traffic = None if self.voted and not self.as_expected else self.traffic
        targets, origins = self.targets if self._listed else [self.targets], self.origins
        self.begun, self.targets, self.origins = False, None, Origins(self._kinds.count)
        return voting, traffic, targets, origins


cdef inline Extent _extent(const Kind *kind, const char *start, bint written) noexcept nogil:
    return Extent(<size_t> start - kind.below, <size_t> start + kind.above, written)


cdef const char *_describe(Kind *kind, array) except? NULL:
    """Describe an array; return its address."""
    cdef Py_buffer view
    cdef const char *start
    cdef Py_ssize_t k
    cdef int64_t reach
    kind.is_there = array is not None
    kind.below = kind.above = 0
    if not kind.is_there:
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
    """Whether an array is of a kind; sets its address."""
    cdef Py_buffer view
    cdef bint same
    cdef Py_ssize_t k
    if array is None:
        return not kind.is_there
    if not kind.is_there or type(array) is not ndarray or array.dtype is not dtype:
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
