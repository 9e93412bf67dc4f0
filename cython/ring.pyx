"""Votes, and chunks of messages, through memory that the ranks of one node share.

The memory holds, in this order and each on cache lines of its own: VOTES votes of each rank; for each ordered pair of
ranks the sender's line and the receiver's line of their lane; for each rank an area for the chunks that it sends. Whoever
writes a line or an area is named; everybody else only reads it. A chunk is packed into a slot of the sender's area, the
counter `published` of the lane is raised, the receiver unpacks the chunk and raises `consumed`: so the bytes stay in
cache between the two, and main memory sees one read and one write of each. docs/protocol.md has the rules.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer

cdef extern from "<sys/mman.h>" nogil:
    enum: PROT_READ, PROT_WRITE, MAP_SHARED
    void *MAP_FAILED
    void *mmap(void *address, size_t size, int protection, int flags, int file, long offset)
    int munmap(void *address, size_t size)

cdef extern from "<errno.h>" nogil:
    int errno

cdef enum:
    PAIR = 2 * LINE  # a line and the one that is fetched with it
    VOTE = PAIR  # the number of a vote and its fields
    VOTES = 16  # votes of one rank that may be seen at once: twice those that it may have open
    OPEN = VOTES // 2
    PATIENCE_NS = 1_000_000  # how long a compiled loop waits before it lets its caller look around

UNKNOWN = INT64_MIN

# What all ranks must agree on. LARGEST: the largest value counts. EQUAL: all ranks that know a value have the same.
LARGEST, EQUAL = "largest", "equal"
RULES = {
    "failed": LARGEST,  # number of ranks less this rank, on a rank where something is wrong; else 0: the lowest one counts
    "pending": LARGEST,  # what the rank has still to be told, or to do, before it can go on; the caller says which number is what
    "call": EQUAL,  # digest of what is called, with all arguments that must be the same
    "dtype": EQUAL,  # digest of the arrays' dtypes
    "item": LARGEST,  # bytes of an element, of the largest one where there are several arrays
    "order": LARGEST,  # in which messages have their elements: by rows (1) or, if any rank has it so, by columns (2)
    "packed": EQUAL,  # the order in which the rank has packed already
    "source": EQUAL,  # digest of the layout of A
    "target": EQUAL,  # digest of the layout of B
    "side": EQUAL,  # of an inter-communicator: the one that sends
}
assert len(RULES) == FIELDS
NAMES = tuple(RULES)
PLACES = {name: k for k, name in enumerate(NAMES)}
cdef bint _is_equal[FIELDS]
for _k in range(FIELDS):
    _is_equal[_k] = RULES[NAMES[_k]] is EQUAL


def bytes_needed(int64_t size, int64_t area):
    """Bytes of shared memory for `size` ranks with `area` bytes each for chunks. Not collective."""
    return _control(size) + size * area


cdef int64_t _control(int64_t size) noexcept nogil:
    """Bytes of votes and lanes, up to a whole page: where areas begin."""
    return (8 * (size * VOTES * VOTE + size * size * PAIR) + 4095) // 4096 * 4096


cdef class SharedMemory:
    """A file in memory, without keeping the file open: the mapping lives as long as this object. Not collective."""

    cdef char *_start
    cdef Py_ssize_t _size

    def __cinit__(self, int file, Py_ssize_t size):
        cdef void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
        if start == MAP_FAILED:
            raise OSError(errno, f"{size} bytes of shared memory cannot be mapped")
        self._start, self._size = <char *> start, size

    def __dealloc__(self):
        if self._start != NULL:
            munmap(self._start, self._size)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self._start, self._size, 0, flags)


cdef class Tickets:
    """How many things a group has started: the same on all its ranks, for all start them in the same order."""


cdef class Vote:
    """What one rank says in a vote: the fields of RULES, those left out unknown, or 0 where the largest counts."""

    def __init__(self, **fields):
        cdef int64_t k
        for k in range(FIELDS):
            self.values[k] = INT64_MIN if _is_equal[k] else 0
        for name, value in fields.items():
            k = PLACES[name]
            self.wide = self.wide or k >= NARROW
            if value is not None:
                self.values[k] = value

    def numbers(self, int64_t[::1] into):
        """Write it as numbers whose largest tell the outcome, for a reduction by MPI."""
        cdef int64_t k
        for k in range(FIELDS):
            into[k] = self.values[k]
            into[FIELDS + k] = UNKNOWN if self.values[k] == UNKNOWN else -self.values[k]


cdef class Outcome:
    """What came of a vote, the same on all ranks: an attribute for each field has the largest value; None if none is known."""

    @staticmethod
    def of(Vote vote, const int64_t[::1] numbers):
        """From the largest of all ranks' numbers."""
        cdef Tally tally
        cdef int64_t k
        for k in range(FIELDS):
            tally.largest[k] = numbers[k]
            tally.smallest[k] = INT64_MAX if numbers[FIELDS + k] == UNKNOWN else -numbers[FIELDS + k]
        return outcome_of(&tally, vote.wide)

    def is_same(self, Outcome other):
        """Whether another vote came to the same."""
        cdef int64_t k
        for k in range(FIELDS if self.wide else NARROW):
            if self.tally.largest[k] != other.tally.largest[k] or self.tally.smallest[k] != other.tally.smallest[k]:
                return False
        return self.wide == other.wide

    @property
    def disputed(self):
        """The names of the fields in which two ranks differ that must not."""
        cdef int64_t k
        found = []
        for k in range(FIELDS if self.wide else NARROW):
            if _is_equal[k] and disputed(&self.tally, k):
                found.append(NAMES[k])
        return found


cdef Outcome outcome_of(const Tally *tally, bint wide):
    """What was counted; of a vote that is not wide nothing is known of the last fields."""
    cdef Outcome made = Outcome.__new__(Outcome)
    made.tally, made.wide = tally[0], wide
    made.failed, made.pending = _known(tally.largest[FAILED]), _known(tally.largest[PENDING])
    made.call, made.dtype = _known(tally.largest[CALL]), _known(tally.largest[DTYPE])
    made.item, made.order = _known(tally.largest[ITEM]), _known(tally.largest[ORDER])
    made.packed = _known(tally.largest[PACKED])
    if wide:
        made.source, made.target = _known(tally.largest[SOURCE]), _known(tally.largest[TARGET])
        made.side = _known(tally.largest[SIDE])
    return made


cdef object _known(int64_t value):
    return None if value == INT64_MIN else value


cdef bint disputed(const Tally *tally, int64_t field) noexcept nogil:
    """Whether two ranks know different values."""
    return tally.largest[field] != INT64_MIN and tally.largest[field] != tally.smallest[field]


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
        self._lanes = self._votes + size * VOTES * VOTE
        self.areas = <char *> self._votes + _control(size)
        self.rank, self.size, self.area, self.spins = rank, size, area, spins
        self.patience = PATIENCE_NS
        self.posted = self.counted = self.divided_for = 0  # also of a ring that is initialized anew, with memory that is

    cdef int64_t *vote_of(self, int64_t rank, int64_t number) noexcept nogil:
        return self._votes + (rank * VOTES + number % VOTES) * VOTE

    cdef int64_t *lane(self, int64_t sender, int64_t receiver) noexcept nogil:
        return self._lanes + (sender * self.size + receiver) * PAIR

    def past_the_cache(self):
        """For each rank, whether it writes large chunks for this one past the cache; None where that was never tried."""
        cdef int64_t sender
        cdef int64_t *line
        ways = []
        for sender in range(self.size):
            line = self.lane(sender, self.rank)
            ways.append(bool(line[SWITCH] & 1) if line[PERIOD] else None)
        return ways

    cdef bint post(self, const int64_t *values, int64_t width) noexcept nogil:
        """Publish this rank's next vote; False while too many are open."""
        cdef int64_t *line
        cdef int64_t k
        if self.posted - self.counted >= OPEN:
            return False
        line = self.vote_of(self.rank, self.posted)
        for k in range(width):
            line[1 + k] = values[k]
        self.posted += 1
        put(line, self.posted)
        return True

    cdef bint count(self, int64_t *cursor, Tally *tally, int64_t width) noexcept nogil:
        """Count the oldest open vote as far as ranks have voted; True when all have. The cursor starts at zero."""
        cdef int64_t *line
        cdef int64_t k, value
        while cursor[0] < self.size:
            line = self.vote_of(cursor[0], self.counted)
            if peek(line) != self.counted + 1:
                return False
            for k in range(width):
                value = line[1 + k]
                if cursor[0] == 0:
                    tally.largest[k], tally.smallest[k] = INT64_MIN, INT64_MAX
                tally.largest[k] = max(tally.largest[k], value)
                if value != INT64_MIN:
                    tally.smallest[k] = min(tally.smallest[k], value)
            cursor[0] += 1
        self.counted += 1
        return True

    cdef bint is_timed_out(self, int64_t *idle, int64_t *until) noexcept nogil:
        """Wait a little; True when that has gone on for the ring's patience. Both counters start at zero."""
        if self.patience == 0:
            return True
        idle[0] += 1
        if idle[0] % (self.spins + 1):
            relax()
        else:
            sched_yield()
        if idle[0] % 64:
            return False
        if until[0] == 0:
            until[0] = now() + self.patience
        return now() > until[0]

    def missing(self):
        """The ranks that have not cast the oldest vote that this rank has cast and not counted."""
        if self.posted == self.counted:
            return []
        return [rank for rank in range(self.size) if peek(self.vote_of(rank, self.counted)) <= self.counted]

    def abort(self):
        """Tell the others that this rank has left in the middle of a transfer: what they wait for will not come."""
        self.closed = True
        put(self.lane(self.rank, self.rank) + BROKEN, 1)

    def aborted_by(self):
        """A rank that has left in the middle of a transfer, or None."""
        for rank in range(self.size):
            if peek(self.lane(rank, rank) + BROKEN):
                return rank
        return None

    def end(self, int64_t ticket):
        """Tell the others that this rank starts nothing after that ticket, and has completed what it has started."""
        self.closed = True
        put(self.lane(self.rank, self.rank) + ENDED, 1 + ticket)

    def ended_before(self, int64_t ticket):
        """Another rank that does not come to that ticket, or None."""
        cdef int64_t rank, ended
        for rank in range(self.size):
            ended = peek(self.lane(rank, rank) + ENDED)
            if rank != self.rank and 0 < ended <= ticket:
                return rank
        return None


cdef class RingVoting:
    """A vote of the ranks of a ring. Votes are posted, and counted, in the same order on all ranks.

    Parameters
    ----------
    ring : Ring
    vote : Vote
    posted : bool
        Whether it is this rank's last vote, which has been posted, and not counted, already.
    """

    cdef Ring _ring
    cdef Vote _vote
    cdef Tally _tally
    cdef int64_t _cursor
    cdef bint _posted
    cdef readonly int64_t number  # how many votes there have been on this ring with this one; 0 until it is posted
    cdef readonly Outcome outcome  # None until all have voted

    def __init__(self, Ring ring, Vote vote, bint posted=False):
        self._ring, self._vote, self._posted = ring, vote, posted
        if posted:
            self.number = ring.posted

    def post(self):
        """Whether this rank's vote can be seen by the others. Those cast before it must have been posted."""
        if not self._posted and self._ring.post(self._vote.values, FIELDS if self._vote.wide else NARROW):
            self._posted, self.number = True, self._ring.posted
        return self._posted

    def test(self, bint block=False):
        """Whether all ranks have voted. Votes cast before this one must have been counted. With `block`, wait for a while."""
        cdef int64_t idle = 0, until = 0, width = FIELDS if self._vote.wide else NARROW
        cdef bint done = False
        if self.outcome is not None:
            return True
        if not self.post() or self.number != self._ring.counted + 1:
            return False
        with nogil:
            while True:
                done = self._ring.count(&self._cursor, &self._tally, width)
                if done or not block or self._ring.is_timed_out(&idle, &until):
                    break
        if done:
            self.outcome = outcome_of(&self._tally, self._vote.wide)
        return done
