"""Rings: votes and chunks of messages in the shared memory of a node.

The memory holds, in this order and on separate cache lines: VOTES votes of each rank; for each ordered pair of ranks the
sender's line and the receiver's line of their lane; VOTES replies of the first rank, where votes go on between nodes; for each
rank an area for the chunks that it sends. Each line or area has one writer. A sender packs a chunk into a slot of its area and raises the counter `published` of the lane; the receiver unpacks
the chunk and raises `consumed`. So the bytes stay in cache between the two, and main memory sees one read and one write of
each. docs/protocol.md has the rules.
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
    PAIR = 2 * LINE  # two lines, which processors fetch together
    VOTE = PAIR  # the number of a vote and its fields
    VOTES = 16  # vote lines of a rank: twice the most open votes
    OPEN = VOTES // 2
    REPLY = 2 * PAIR  # the number of a vote, and the numbers that determine its outcome
    TIMEOUT_NS = 1_000_000  # how long a compiled loop waits before its caller checks the peers
    DOZE_AFTER_NS = 100_000
    DOZE_SHARE = 50  # a pause takes this part of the time waited
    LONGEST_DOZE_NS = 1_000_000

UNKNOWN = INT64_MIN

# The fields of a vote and their rules. LARGEST: the largest value counts. EQUAL: all known values must be equal.
LARGEST, EQUAL = "largest", "equal"
RULES = {
    "failed": LARGEST,  # number of ranks minus this rank, on a rank with an error; else 0: the lowest failed rank counts
    "pending": LARGEST,  # what the rank still needs before it can continue; the caller defines the numbers
    "call": EQUAL,  # digest of the call, with all arguments that must be equal
    "dtype": EQUAL,  # digest of the arrays' dtypes
    "item": LARGEST,  # bytes of the largest element
    "order": LARGEST,  # order of elements in messages: by rows (1), or by columns (2) if any rank needs that
    "packed": EQUAL,  # the order in which the rank has packed early
    "source": EQUAL,  # digest of the layout of A
    "target": EQUAL,  # digest of the layout of B
    "side": EQUAL,  # the sending side of an inter-communicator
    "returns": EQUAL,  # what the user's call returns
    "notifies": LARGEST,  # 1 on a rank whose library is told that an array has been written
}
assert len(RULES) == FIELDS and 1 + 2 * FIELDS <= REPLY
NAMES = tuple(RULES)
PLACES = {name: k for k, name in enumerate(NAMES)}
cdef bint _is_equal[FIELDS]
for _k in range(FIELDS):
    _is_equal[_k] = RULES[NAMES[_k]] is EQUAL


def bytes_needed(int64_t size, int64_t area):
    """Bytes of shared memory for `size` ranks with `area` bytes each for chunks."""
    return _control(size) + size * area


cdef int64_t _control(int64_t size) noexcept nogil:
    """Bytes of votes, lanes and replies, rounded up to a page: the offset of the areas."""
    return (8 * (size * VOTES * VOTE + size * size * PAIR + VOTES * REPLY) + 4095) // 4096 * 4096


cdef class SharedMemory:
    """A mapping of a file; it needs no open file and lives as long as this object."""

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
    """The number of tickets that a group has drawn, the same on all its ranks."""


cdef class Vote:
    """What a rank states in a vote: the fields of RULES; by default unknown, or 0 where the largest counts."""

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
        """Write the fields as numbers whose maxima determine the outcome, for MPI_MAX."""
        cdef int64_t k
        for k in range(FIELDS):
            into[k] = self.values[k]
            into[FIELDS + k] = UNKNOWN if self.values[k] == UNKNOWN else -self.values[k]


cdef class Outcome:
    """The outcome of a vote, the same on all ranks: for each field the largest value, None if none is known."""

    @staticmethod
    def of(Vote vote, const int64_t[::1] numbers):
        """The outcome, from the maxima of all ranks' numbers."""
        cdef Tally tally
        cdef int64_t k
        for k in range(FIELDS):
            tally.largest[k] = numbers[k]
            tally.smallest[k] = INT64_MAX if numbers[FIELDS + k] == UNKNOWN else -numbers[FIELDS + k]
        return outcome_of(&tally, vote.wide)

    def is_same(self, Outcome other):
        """Whether another vote had the same outcome."""
        cdef int64_t k
        for k in range(FIELDS if self.wide else NARROW):
            if self.tally.largest[k] != other.tally.largest[k] or self.tally.smallest[k] != other.tally.smallest[k]:
                return False
        return self.wide == other.wide

    @property
    def disputed(self):
        """Names of the fields in which ranks differ against their rule."""
        cdef int64_t k
        names = []
        for k in range(FIELDS if self.wide else NARROW):
            if _is_equal[k] and disputed(&self.tally, k):
                names.append(NAMES[k])
        return names


cdef Outcome outcome_of(const Tally *tally, bint wide):
    """The outcome of a count; a narrow vote leaves the last fields unknown."""
    cdef Outcome outcome = Outcome.__new__(Outcome)
    outcome.tally, outcome.wide = tally[0], wide
    outcome.failed, outcome.pending = _known(tally.largest[FAILED]), _known(tally.largest[PENDING])
    outcome.call, outcome.dtype = _known(tally.largest[CALL]), _known(tally.largest[DTYPE])
    outcome.item, outcome.order = _known(tally.largest[ITEM]), _known(tally.largest[ORDER])
    outcome.packed = _known(tally.largest[PACKED])
    if wide:
        outcome.source, outcome.target = _known(tally.largest[SOURCE]), _known(tally.largest[TARGET])
        outcome.side, outcome.returns = _known(tally.largest[SIDE]), _known(tally.largest[RETURNS])
        outcome.notifies = _known(tally.largest[NOTIFIES])
    return outcome


cdef object _known(int64_t value):
    return None if value == INT64_MIN else value


cdef bint disputed(const Tally *tally, int64_t field) noexcept nogil:
    """Whether two ranks know different values."""
    return tally.largest[field] != INT64_MIN and tally.largest[field] != tally.smallest[field]


cdef class Ring:
    """One rank's view of the shared memory of its node.

    Parameters
    ----------
    memory : writable buffer
        `bytes_needed(size, area)` bytes, the same memory on all ranks, zero at first.
    rank, size : int
        This rank and the number of ranks.
    area : int
        Bytes of a rank's area for chunks; a multiple of 64.
    spins : int
        Polls before a wait yields its core.
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
        self.timeout_ns = TIMEOUT_NS
        self.posted = self.counted = self.divided_for = 0  # also when a ring is initialized anew

    cdef int64_t *vote_of(self, int64_t rank, int64_t number) noexcept nogil:
        return self._votes + (rank * VOTES + number % VOTES) * VOTE

    cdef int64_t *lane(self, int64_t sender, int64_t receiver) noexcept nogil:
        return self._lanes + (sender * self.size + receiver) * PAIR

    def streams_by_rank(self):
        """For each rank, whether it streams large chunks for this one; None if that was never tried."""
        cdef int64_t sender
        cdef int64_t *line
        streams = []
        for sender in range(self.size):
            line = self.lane(sender, self.rank)
            streams.append(bool(line[SWITCH] & 1) if line[PERIOD] else None)
        return streams

    cdef bint post(self, const int64_t *values, int64_t width) noexcept nogil:
        """Post this rank's next vote; False while too many are open."""
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
        """Count the oldest open vote as far as it is cast; True when all ranks have voted. The cursor starts at zero."""
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
        """Wait a little; True when the ring's timeout has passed. Both counters start at zero."""
        if self.timeout_ns == 0:
            return True
        idle[0] += 1
        if idle[0] % (self.spins + 1):
            relax()
        else:
            sched_yield()
        if idle[0] % 64:
            return False
        if until[0] == 0:
            until[0] = now() + self.timeout_ns
        return now() > until[0]

    def missing(self):
        """The ranks that have not cast this rank's oldest open vote."""
        if self.posted == self.counted:
            return []
        return [rank for rank in range(self.size) if peek(self.vote_of(rank, self.counted)) <= self.counted]

    def abort(self):
        """Notify the other ranks that this one has aborted a transfer."""
        self.closed = True
        put(self.lane(self.rank, self.rank) + ABORTED, 1)

    def aborted_by(self):
        """A rank that has aborted a transfer, or None."""
        for rank in range(self.size):
            if peek(self.lane(rank, rank) + ABORTED):
                return rank
        return None

    def end(self, int64_t ticket):
        """Notify the other ranks that this one starts nothing after `ticket` and has completed all operations."""
        self.closed = True
        put(self.lane(self.rank, self.rank) + ENDED, 1 + ticket)

    def ended_before(self, int64_t ticket):
        """Another rank that has ended before `ticket`, or None."""
        cdef int64_t rank, ended
        for rank in range(self.size):
            ended = peek(self.lane(rank, rank) + ENDED)
            if rank != self.rank and 0 < ended <= ticket:
                return rank
        return None


cdef class RingVoting:
    """The count of votes in a ring. Votes are posted and counted in the same order on all ranks.

    Parameters
    ----------
    ring : Ring
    vote : Vote
    posted : bool
        Whether the vote is this rank's last one, already posted.
    outcome : Outcome, optional
        The outcome, if it is counted.
    """

    cdef Ring _ring
    cdef Vote _vote
    cdef Tally _tally
    cdef int64_t _cursor
    cdef bint _posted
    cdef readonly int64_t number  # the number of the vote in this ring; 0 until it is posted
    cdef readonly Outcome outcome  # None until all have voted

    def __init__(self, Ring ring, Vote vote, bint posted=False, Outcome outcome=None):
        self._ring, self._vote, self._posted, self.outcome = ring, vote, posted, outcome
        if posted:
            self.number = ring.posted

    def post(self):
        """Post the vote; True when it is posted. Votes cast before it must be posted."""
        if not self._posted and self._ring.post(self._vote.values, FIELDS if self._vote.wide else NARROW):
            self._posted, self.number = True, self._ring.posted
        return self._posted

    def test(self, bint block=False):
        """Count the vote; True when all ranks have voted. Votes cast before it must be counted. With `block`, wait for a while."""
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


cdef class NodeVotes:
    """A vote in the ring of a node where votes go on between nodes: its first rank collects those of the node, and replies.

    All fields are posted, whether the vote is wide or not. A rank posts a vote only when it has at most OPEN open, so all
    have read a reply before its line is used again.

    Parameters
    ----------
    ring : Ring
    vote : Vote
    """

    cdef Ring _ring
    cdef Vote _vote
    cdef Tally _tally
    cdef int64_t _cursor, _number, _since

    def __init__(self, Ring ring, Vote vote):
        self._ring, self._vote = ring, vote

    def post(self):
        """Post the vote; True when it is posted. Votes cast before it must be posted."""
        if not self._number and self._ring.post(self._vote.values, FIELDS):
            self._number = self._ring.posted
        return self._number > 0

    def collect(self, int64_t[::1] numbers, bint block=False):
        """On the first rank: write the maxima of the node, as `Vote.numbers` does; True when all its ranks have voted.

        Votes cast before it must be counted. With `block`, wait for a while.
        """
        cdef int64_t k, idle = 0, until = 0
        if not self._has_turn():
            return False
        with nogil:
            while not self._ring.count(&self._cursor, &self._tally, FIELDS):
                if not block or has_lingered(self._ring, &idle, &self._since, &until):
                    break
        if self._number > self._ring.counted:
            return False
        for k in range(FIELDS):
            numbers[k] = self._tally.largest[k]
            numbers[FIELDS + k] = UNKNOWN if self._tally.smallest[k] == INT64_MAX else -self._tally.smallest[k]
        return True

    def reply(self, const int64_t[::1] numbers):
        """On the first rank: write the maxima of all nodes for the other ranks of this one."""
        cdef int64_t k
        cdef int64_t *line = self._line()
        for k in range(2 * FIELDS):
            line[1 + k] = numbers[k]
        put(line, self._number)

    def receive(self, int64_t[::1] numbers, bint block=False):
        """On the other ranks: read the maxima of all nodes; True when they are there. `block` as for `collect`."""
        cdef int64_t k, idle = 0, until = 0
        cdef int64_t *line
        cdef bint is_there = False
        if not self._has_turn():
            return False
        line = self._line()
        with nogil:
            while True:
                is_there = peek(line) == self._number
                if is_there or not block or has_lingered(self._ring, &idle, &self._since, &until):
                    break
        if is_there:
            for k in range(2 * FIELDS):
                numbers[k] = line[1 + k]
            self._ring.counted += 1
        return is_there

    cdef bint _has_turn(self):
        return self.post() and self._number == self._ring.counted + 1

    cdef int64_t *_line(self) noexcept nogil:
        cdef int64_t size = self._ring.size
        return self._ring._lanes + size * size * PAIR + self._number % VOTES * REPLY


cdef bint has_lingered(Ring ring, int64_t *idle, int64_t *since, int64_t *until) noexcept nogil:
    """Wait a little for what comes from another node; True when the ring's timeout has passed. All counters start at zero.

    Where ranks outnumber cores pauses grow with the time since the first one, as those of `comm.progress.Doze`.
    """
    cdef int64_t moment
    if ring.timeout_ns == 0:
        return True
    idle[0] += 1
    if idle[0] % (ring.spins + 1):
        relax()
        return False
    moment = now()
    since[0] = since[0] or moment
    until[0] = until[0] or moment + ring.timeout_ns
    if ring.spins or moment - since[0] < DOZE_AFTER_NS:
        sched_yield()
    else:
        sleep_ns(min((moment - since[0]) // DOZE_SHARE, LONGEST_DOZE_NS))
    return moment > until[0]
