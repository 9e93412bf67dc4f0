"""Messages through memory that the ranks of one node share: votes, and chunks in a ring for each pair of ranks.

The memory holds, in this order and each on cache lines of its own: VOTES votes of each rank; for each ordered pair of
ranks the sender's line and the receiver's line of their lane; for each rank an area for the chunks that it sends. Whoever
writes a line or an area is named; everybody else only reads it. A chunk is packed into a slot of the sender's area, the
counter `published` of the lane is raised, the receiver unpacks the chunk and raises `consumed`: so the bytes stay in
cache between the two, and main memory sees one read and one write of each.

Runs follow one another in the same order on all ranks. A rank begins to receive in a run only when it has seen all votes
of that run, so what was packed before a failed vote can be taken back.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_STRIDED_RO, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer

from numpy import ndarray

from ._copy cimport MOST, Blend, Box, Job, perform

cdef extern from *:
    """
    #include <sched.h>
    #include <stdint.h>
    #include <time.h>

    static inline int64_t peek(const int64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
    static inline void put(int64_t *p, int64_t value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }

    static inline void relax(void)
    {
    #if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
    #elif defined(__aarch64__)
        __asm__ volatile("yield");
    #endif
    }

    /* Ask for all lines at once: they are in another core's cache, and one after the other each would be waited for. */
    static inline void fetch(const char *from, int64_t bytes)
    {
        int64_t k;
        for (k = 0; k < bytes; k += 64)
            __builtin_prefetch(from + k);
    }

    static int64_t now(void)
    {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return 1000000000 * (int64_t)t.tv_sec + t.tv_nsec;
    }
    """
    int64_t peek(const int64_t *p) noexcept nogil
    void put(int64_t *p, int64_t value) noexcept nogil
    void relax() noexcept nogil
    void fetch(const char *start, int64_t nbytes) noexcept nogil
    int64_t now() noexcept nogil
    int sched_yield() noexcept nogil

cdef enum:
    LINE = 8  # integers of a cache line
    PAIR = 2 * LINE  # a line and the one that is fetched with it
    VOTES = 16  # votes of one rank that may be seen at once: twice those that it may have open
    OPEN = VOTES // 2
    FETCHED = 16 * 1024  # bytes of a chunk that are asked for before it is unpacked: they fit in the first cache
    COPY_PIECE = 512 * 1024  # bytes of a local copy between two looks at the messages
    PATIENCE_NS = 1_000_000  # how long a call waits before it lets the caller look around
    NUMBERS = 7  # of a vote, behind its sequence number
    # the sender's line of a lane
    PUBLISHED = 0
    BASE = 1
    STRIDE = 2
    STEP = 3
    SLOTS = 4
    TAKEN_BACK = 5
    # and the receiver's, behind it
    CONSUMED = LINE

NUMBERS_OF_A_VOTE = NUMBERS
DISSENT = object()


def bytes_needed(int64_t size, int64_t area):
    """Bytes of shared memory for `size` ranks with `area` bytes each for chunks. Not collective."""
    return 8 * (size * VOTES * LINE + size * size * PAIR) + size * area


cdef class Ring:
    """One rank's view of the memory that it shares with the other ranks of its node. Not collective.

    Parameters
    ----------
    memory : writable buffer
        Of `bytes_needed(size, area)` bytes, zero at first, the same for all.
    rank, size : int
        Which of how many.
    area : int
        Bytes of chunks that each rank may have on the way; a multiple of 64.
    spins : int
        How often to look for a change before giving the core to others.
    """

    cdef readonly int64_t rank, size, area
    cdef readonly bint left  # whether this rank has left a run in the middle
    cdef public int64_t spins
    cdef object _memory
    cdef int64_t *_votes
    cdef int64_t *_lanes
    cdef char *_areas
    cdef int64_t _posted, _counted  # votes of this rank, and those counted to the end
    cdef int64_t _traffics, _divided_for  # how many there were, and for which of them the area is divided

    def __init__(self, memory, int64_t rank, int64_t size, int64_t area, int64_t spins):
        cdef Py_buffer view
        if not 0 <= rank < size or area <= 0 or area % 64:
            raise ValueError(f"rank {rank} of {size} with {area} bytes: rank must be one of them, area a multiple of 64")
        PyObject_GetBuffer(memory, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            if view.len < bytes_needed(size, area):
                raise ValueError(f"memory has {view.len} bytes; {bytes_needed(size, area)} are needed")
            self._votes = <int64_t *> view.buf
        finally:
            PyBuffer_Release(&view)
        self._memory = memory
        self._lanes = self._votes + size * VOTES * LINE
        self._areas = <char *> (self._lanes + size * size * PAIR)
        self.rank, self.size, self.area, self.spins = rank, size, area, spins

    cdef int64_t *vote_of(self, int64_t rank, int64_t number) noexcept nogil:
        return self._votes + (rank * VOTES + number % VOTES) * LINE

    cdef int64_t *lane(self, int64_t sender, int64_t receiver) noexcept nogil:
        return self._lanes + (sender * self.size + receiver) * PAIR

    cdef bint post(self, const int64_t *numbers) noexcept nogil:
        """Publish this rank's next vote; False while too many are open."""
        cdef int64_t *line
        cdef Py_ssize_t k
        if self._posted - self._counted >= OPEN:
            return False
        line = self.vote_of(self.rank, self._posted)
        for k in range(NUMBERS):
            line[1 + k] = numbers[k]
        self._posted += 1
        put(line, self._posted)
        return True

    cdef bint count(self, int64_t *cursor, int64_t *largest) noexcept nogil:
        """Count the oldest open vote as far as ranks have voted; True when all have, with the largest of each number."""
        cdef int64_t *line
        cdef Py_ssize_t k
        while cursor[0] < self.size:
            line = self.vote_of(cursor[0], self._counted)
            if peek(line) != self._counted + 1:
                return False
            for k in range(NUMBERS):
                if cursor[0] == 0 or line[1 + k] > largest[k]:
                    largest[k] = line[1 + k]
            cursor[0] += 1
        self._counted += 1
        return True

    cdef bint out_of_patience(self, int64_t *idle, int64_t *until, int64_t patience) noexcept nogil:
        """Wait a little; True when that has gone on for `patience` nanoseconds. Both counters start at zero."""
        idle[0] += 1
        if idle[0] % (self.spins + 1):
            relax()
        else:
            sched_yield()
        if idle[0] % 64:
            return False
        if until[0] == 0:
            until[0] = now() + patience
        return now() > until[0]

    def break_off(self):
        """Tell the others that this rank has left in the middle of a run: what they wait for will not come."""
        self.left = True
        put(self.lane(self.rank, self.rank), 1)

    def broken_by(self):
        """A rank that has left in the middle of a run, or None."""
        for rank in range(self.size):
            if peek(self.lane(rank, rank)):
                return rank
        return None


cdef class Vote:
    """A reduction over the ranks of a ring: the largest of each of a few numbers.

    Votes are cast in the same order on all ranks; `mine` and `all` are int64 arrays of at most NUMBERS_OF_A_VOTE numbers.
    """

    cdef Ring _ring
    cdef int64_t[::1] _all
    cdef int64_t _mine[NUMBERS]
    cdef int64_t _largest[NUMBERS]
    cdef int64_t _number, _cursor, _length
    cdef bint _posted, _done

    def __init__(self, Ring ring, const int64_t[::1] mine, int64_t[::1] all):
        cdef Py_ssize_t k
        if mine.shape[0] > NUMBERS or all.shape[0] != mine.shape[0]:
            raise ValueError(f"a vote has at most {NUMBERS} numbers, not {mine.shape[0]}")
        self._ring, self._all, self._length = ring, all, mine.shape[0]
        for k in range(NUMBERS):
            self._mine[k] = mine[k] if k < mine.shape[0] else 0

    cdef bint _test(self, int64_t patience) noexcept nogil:
        cdef int64_t idle = 0, until = 0
        while not self._done:
            if not self._posted:
                self._posted = self._ring.post(self._mine)
                self._number = self._ring._posted - 1
            if self._posted and self._number == self._ring._counted:
                self._done = self._ring.count(&self._cursor, self._largest)
            elif not self._posted or self._number > self._ring._counted:
                break  # others come first, and are not counted here
            if not self._done and (not patience or self._ring.out_of_patience(&idle, &until, patience)):
                break
        return self._done

    def Test(self, bint block=False):  # noqa: N802 - as MPI's requests are asked
        """Whether all ranks have voted, and `all` has the result. Votes cast before this one must be counted first.

        With `block`, wait for a while.
        """
        cdef Py_ssize_t k
        cdef bint done
        with nogil:
            done = self._test(PATIENCE_NS if block else 0)
        if done:
            for k in range(self._length):
                self._all[k] = self._largest[k]
        return done

    @property
    def number(self):
        """How many votes there have been on this ring with this one; 0 until it is cast."""
        return self._number + 1 if self._posted else 0


cdef struct Lane:
    # what one rank sends to another, receives from it, or copies, in one run
    Job job
    int64_t first, size, done, step, base, stride, slots
    int64_t *line
    char *area


cdef class Traffic:
    """All that this rank moves through a ring in one run, for arrays of one kind. Not collective.

    Parameters
    ----------
    ring : Ring
    sends, receives, copies : list of tuple (peer, box)
        `peer` is a rank of the ring.
    source_strides, target_strides, order, item
        As for `Box.move`.
    dense_sends, dense_receives : list of tuple of int
        For each of them the strides in bytes of a dense buffer of its box.
    limit : int
        Bytes of the area that may be used.
    most_slots : int
        Slots that a lane has if there is enough to send.
    stream : bool
        Write long runs of the target past the cache.
    blend : Blend, optional
        What becomes of elements on the way into the target.
    """

    cdef readonly Ring ring
    cdef readonly int64_t bytes_used
    cdef Lane *_sends
    cdef Lane *_receives
    cdef Lane *_copies
    cdef Py_ssize_t _n_sends, _n_receives, _n_copies, _item
    cdef list _boxes
    cdef int64_t _serial, _rounds, _round, _arrived, _mark
    cdef bint _stream, _packed, _timed
    cdef int64_t _spent[3]  # nanoseconds of packing, copying and unpacking, where asked for
    cdef const char *_source
    cdef char *_target

    def __init__(self, Ring ring, list sends, list receives, list copies, source_strides, target_strides, order,
                 Py_ssize_t item, list dense_sends, list dense_receives, int64_t limit, int64_t most_slots,
                 bint stream, Blend blend=None):
        cdef Lane *lane
        cdef Py_ssize_t k
        cdef int64_t peer
        self.ring, self._item, self._stream = ring, item, stream
        ring._traffics += 1
        self._serial = ring._traffics
        self._n_sends, self._n_receives, self._n_copies = len(sends), len(receives), len(copies)
        self._boxes = [box for _, box in (*sends, *receives, *copies)]
        self._sends = <Lane *> calloc(len(self._boxes) + 1, sizeof(Lane))
        if self._sends == NULL:
            raise MemoryError(f"no memory for {len(self._boxes)} messages")
        self._receives = self._sends + self._n_sends
        self._copies = self._receives + self._n_receives
        for k in range(self._n_sends):
            peer, box = sends[k]
            lane = self._sends + k
            self._fill(lane, box, source_strides, dense_sends[k], order, None)
            lane.job.across = not lane.job.across  # along the lines of the source: those of the ring are in cache
            lane.line = ring.lane(ring.rank, peer)
            lane.area = ring._areas + ring.rank * ring.area
        for k in range(self._n_receives):
            peer, box = receives[k]
            lane = self._receives + k
            self._fill(lane, box, dense_receives[k], target_strides, order, blend)
            lane.line = ring.lane(peer, ring.rank)
            lane.area = ring._areas + peer * ring.area
        for k in range(self._n_copies):
            self._fill(self._copies + k, copies[k][1], source_strides, target_strides, order, blend)
        self._divide(min(limit, ring.area), most_slots)

    def __dealloc__(self):
        free(self._sends)

    cdef int _fill(self, Lane *lane, Box box, source_strides, target_strides, order, Blend blend) except -1:
        box.prepare(&lane.job, source_strides, target_strides, self._item, order, blend)
        lane.size = box.size
        return 0

    cdef int _divide(self, int64_t limit, int64_t most_slots) except -1:
        """Give each send its slots: equal numbers of chunks, so that all lanes go along the source together."""
        cdef int64_t share = limit // max(self._n_sends, 1), slots, stride, most
        cdef Py_ssize_t k
        cdef Lane *lane
        if share >= 64:
            share -= share % 64
        if self._n_sends and share < self._item:
            raise ValueError(f"{limit} bytes are not enough for {self._n_sends} messages with elements of {self._item}")
        slots = max(<int64_t> 1, min(most_slots, share // self._item))
        stride = share // slots
        if stride >= 64 + self._item:
            stride -= stride % 64
        most = max(<int64_t> 1, stride // self._item)
        self._rounds = 1
        for k in range(self._n_sends):
            self._rounds = max(self._rounds, _parts(self._sends[k].size, most))
        for k in range(self._n_sends):
            lane = self._sends + k
            lane.base = k * share
            lane.step = max(<int64_t> 1, _parts(lane.size, self._rounds))
            lane.slots = max(<int64_t> 1, min(slots, _parts(lane.size, lane.step)))
            lane.stride = min(stride, _parts(lane.step * self._item, 64) * 64)
            self.bytes_used += lane.slots * lane.stride
        return 0

    def begin(self, size_t source, size_t target, int64_t mark=0, bint timed=False):
        """Start a run with arrays at these addresses; the run before has ended.

        `mark`, if not 0, is the number of a vote before which ranks packed in another order than the one agreed on: what
        a sender has is good only when it says that it took that back. With `timed`, `spent` tells where the time went.
        """
        self._begin(<const char *> source, <char *> target, mark)
        self._timed = timed

    def spent(self):
        """Seconds of packing, of local copies and of unpacking in the last run, if it was timed."""
        return tuple([1e-9 * self._spent[k] for k in range(3)])

    cdef void _begin(self, const char *source, char *target, int64_t mark) noexcept nogil:
        cdef Py_ssize_t k
        self._source, self._target, self._mark = source, target, mark
        if mark:
            for k in range(self._n_sends):
                put(self._sends[k].line + TAKEN_BACK, mark)
        self._round = self._arrived = 0
        self._packed = self._n_sends == 0
        self._timed = False
        self._spent[0] = self._spent[1] = self._spent[2] = 0
        for k in range(self._n_sends + self._n_receives + self._n_copies):
            self._sends[k].done = 0

    cdef void _take_back(self) noexcept nogil:
        """Take back what was packed in this run: nobody has looked at it."""
        cdef Py_ssize_t k
        for k in range(self._n_sends):
            put(self._sends[k].line + PUBLISHED, self._sends[k].line[PUBLISHED] - _parts(self._sends[k].done, self._sends[k].step))

    cdef bint _open(self) noexcept nogil:
        """Divide the area among the lanes; False while chunks of an earlier run are still in it."""
        cdef int64_t peer
        cdef int64_t *line
        cdef Py_ssize_t k
        if self.ring._divided_for == self._serial:
            return True
        for peer in range(self.ring.size):
            line = self.ring.lane(self.ring.rank, peer)
            if peek(line + CONSUMED) != line[PUBLISHED]:
                return False
        for k in range(self._n_sends):
            line = self._sends[k].line
            line[BASE] = self._sends[k].base
            line[STRIDE] = self._sends[k].stride
            line[STEP] = self._sends[k].step
            line[SLOTS] = self._sends[k].slots
        self.ring._divided_for = self._serial
        return True

    cdef bint _pack(self, Lane *lane) noexcept nogil:
        """Publish the next chunk of a lane; False where there is no room for it."""
        cdef int64_t published = lane.line[PUBLISHED], last
        cdef char *slot
        if published - peek(lane.line + CONSUMED) >= lane.slots:
            return False
        last = min(lane.done + lane.step, lane.size)
        slot = lane.area + lane.base + published % lane.slots * lane.stride
        perform(&lane.job, self._source, slot - lane.done * self._item, lane.done, last, False)
        lane.done = last
        put(lane.line + PUBLISHED, published + 1)
        return True

    cdef bint _unpack(self, Lane *lane) noexcept nogil:
        """Take the next chunk of a lane; False if it is not there."""
        cdef int64_t consumed = lane.line[CONSUMED], last
        cdef char *slot
        if self._mark and peek(lane.line + TAKEN_BACK) < self._mark:
            return False
        if peek(lane.line + PUBLISHED) == consumed:
            return False
        last = min(lane.done + lane.line[STEP], lane.size)
        slot = lane.area + lane.line[BASE] + consumed % lane.line[SLOTS] * lane.line[STRIDE]
        fetch(slot, min((last - lane.done) * self._item, <int64_t> FETCHED))
        perform(&lane.job, slot - lane.done * self._item, self._target, lane.done, last, self._stream)
        lane.done = last
        put(lane.line + CONSUMED, consumed + 1)
        return True

    cdef bint _send_round(self) noexcept nogil:
        """One chunk for each receiver that has room; True where anything was packed."""
        cdef Py_ssize_t k
        cdef int64_t goal
        cdef Lane *lane
        cdef bint moved = False, full = False
        if self._packed or not self._open():
            return False
        for k in range(self._n_sends):
            lane = self._sends + k
            goal = lane.size * (self._round + 1) // self._rounds
            if lane.done < goal:
                if self._pack(lane):
                    moved = True
                else:
                    full = True
        if not full:
            self._round += 1
            self._packed = self._round == self._rounds
        return moved

    cdef bint _copy_piece(self, bint ahead) noexcept nogil:
        """Copy a piece of what stays here: as far as the sending has come, for the two read the same lines, or ahead."""
        cdef Py_ssize_t k
        cdef int64_t goal
        cdef Lane *lane
        for k in range(self._n_copies):
            lane = self._copies + k
            goal = lane.size if ahead or self._packed else lane.size // self._rounds * self._round
            goal = min(goal, lane.done + max(<int64_t> 1, COPY_PIECE // self._item))
            if lane.done < goal:
                perform(&lane.job, self._source, self._target, lane.done, goal, self._stream)
                lane.done = goal
                return True
        return False

    cdef bint _receive_round(self) noexcept nogil:
        """One chunk from each sender that has one; True where anything was unpacked."""
        cdef Py_ssize_t k
        cdef bint moved = False
        for k in range(self._n_receives):
            if self._receives[k].done < self._receives[k].size and self._unpack(self._receives + k):
                moved = True
                self._arrived += self._receives[k].done == self._receives[k].size
        return moved

    cdef inline int64_t _lap(self, int64_t start, Py_ssize_t part) noexcept nogil:
        cdef int64_t end
        if not self._timed:
            return 0
        end = now()
        if part >= 0:
            self._spent[part] += end - start
        return end

    cdef bint _advance(self, int64_t patience) noexcept nogil:
        """Move until all is done (True), or nothing could be moved for `patience` nanoseconds."""
        cdef int64_t idle = 0, until = 0, start = 0
        cdef bint moved
        while True:
            start = self._lap(start, -1)
            moved = self._send_round()
            start = self._lap(start, 0)
            moved = self._copy_piece(False) or moved
            start = self._lap(start, 1)
            moved = self._receive_round() or moved
            start = self._lap(start, 2)
            if not moved:
                moved = self._copy_piece(True)
            if moved:
                idle = until = 0
            elif self._packed and self._arrived == self._n_receives:
                return True
            elif not patience or self.ring.out_of_patience(&idle, &until, patience):
                return False

    def advance(self, bint block):
        """Move what can be moved; True when all of it was. With `block`, wait for a while where nothing can.

        Whoever waits longer than that has other things to look at: other messages, and whether the others live.
        """
        cdef bint done
        with nogil:
            done = self._advance(PATIENCE_NS if block else 0)
        return done


cdef inline int64_t _parts(int64_t size, int64_t most) noexcept nogil:
    return (size + most - 1) // most


cdef struct Kind:
    # what an array must be like: its strides, and the bytes before and behind its first element
    Py_ssize_t ndim
    Py_ssize_t shape[MOST]
    Py_ssize_t strides[MOST]
    int64_t below, above
    bint given


cdef class Call:
    """Runs of one plan with arrays of one kind, each in one compiled call: votes, messages and copies. Not collective.

    Parameters
    ----------
    traffic : Traffic
        What is moved; the order of its elements is the one that all ranks agreed on for such arrays.
    a, out : ndarray or None
        Arrays of that kind; None where this rank has none, or where `out` is to be made.
    make : callable or None
        Makes `out` where it is left out.
    ballot, expected : int64 array
        This rank's vote for such arrays, and the outcome with which the call goes on.
    look_around : callable
        Called while nothing moves; raises when there is nothing to wait for.
    """

    cdef Traffic _traffic
    cdef Kind _a
    cdef Kind _out
    cdef object _dtype, _make, _look_around
    cdef int64_t _vote[NUMBERS]
    cdef int64_t _expected[NUMBERS]
    cdef readonly list outcome  # of a vote that was not as expected, and behind it the number of the vote

    def __init__(self, Traffic traffic, a, out, make, const int64_t[::1] ballot, const int64_t[::1] expected,
                 look_around):
        cdef Py_ssize_t k
        self._traffic, self._make, self._look_around = traffic, make, look_around
        self._dtype = a.dtype if a is not None else out.dtype if out is not None else None
        _describe(&self._a, a)
        _describe(&self._out, out)
        for k in range(NUMBERS):
            self._vote[k], self._expected[k] = ballot[k], expected[k]

    def __call__(self, a, out):
        """The local array of B; NotImplemented where the arrays are of another kind, DISSENT where the vote is another.

        In the last case nothing has moved, and `outcome` has what came of the vote.
        """
        cdef Traffic traffic = self._traffic
        cdef Ring ring = traffic.ring
        cdef char *source = NULL
        cdef char *target = NULL
        cdef int64_t counted[NUMBERS]
        cdef int64_t cursor = 0, idle = 0, until = 0
        cdef bint done = False, all_counted = False, same
        cdef Py_ssize_t k
        if not _matches(&self._a, a, self._dtype, False, &source):
            return NotImplemented
        if out is None and self._make is not None:
            out = self._make(self._dtype)
        if not _matches(&self._out, out, self._dtype, True, &target):
            return NotImplemented
        if source != NULL and target != NULL and (
            source - self._a.below < target + self._out.above and target - self._out.below < source + self._a.above
        ):
            return NotImplemented
        if ring.left or ring._posted != ring._counted or not ring.post(self._vote):
            return NotImplemented
        try:
            with nogil:
                traffic._begin(source, target, 0)
                while not all_counted:  # packing touches no array: it need not wait for the others
                    all_counted = ring.count(&cursor, counted)
                    if all_counted or traffic._send_round():
                        idle = until = 0
                    elif ring.out_of_patience(&idle, &until, PATIENCE_NS):
                        with gil:
                            self._look_around()
                        until = 0
                same = True
                for k in range(NUMBERS):
                    same = same and counted[k] == self._expected[k]
                if not same:
                    traffic._take_back()
                while same and not done:
                    done = traffic._advance(PATIENCE_NS)
                    if not done:
                        with gil:
                            self._look_around()
        except BaseException:
            ring.break_off()
            raise
        if same:
            return out
        self.outcome = [*[counted[k] for k in range(NUMBERS)], ring._counted]
        return DISSENT


cdef int _describe(Kind *kind, array) except -1:
    cdef Py_buffer view
    cdef Py_ssize_t k
    cdef int64_t reach
    kind.given = array is not None
    if not kind.given:
        return 0
    PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO)
    kind.ndim = view.ndim
    kind.below, kind.above = 0, view.itemsize
    for k in range(view.ndim):
        kind.shape[k] = view.shape[k]
        kind.strides[k] = view.strides[k]
        reach = (view.shape[k] - 1) * view.strides[k]
        kind.below -= min(reach, <int64_t> 0)
        kind.above += max(reach, <int64_t> 0)
    PyBuffer_Release(&view)
    return 0


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
