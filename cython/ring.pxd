# Votes and lanes in the shared memory of a node.

from libc.stdint cimport int64_t

cdef extern from "flags.h":
    int64_t peek(const int64_t *p) noexcept nogil
    void put(int64_t *p, int64_t value) noexcept nogil
    void relax() noexcept nogil
    void fetch(const char *start, int64_t nbytes) noexcept nogil
    int64_t now() noexcept nogil
    int sched_yield() noexcept nogil
    void sleep_ns(int64_t duration) noexcept nogil

cdef enum:
    LINE = 8  # integers of a cache line
    # the sender's line of a lane
    PUBLISHED = 0
    BASE = 1
    STRIDE = 2
    STEP = 3
    SLOTS = 4
    REPACKED = 5
    PACKING = 6  # two of them, see lanes.pyx
    # the receiver's line, behind it; only the receiver uses those after SWITCH, see lanes.pyx
    CONSUMED = LINE
    SWITCH = LINE + 1
    LEFT = LINE + 2
    PERIOD = LINE + 3
    TRIED = LINE + 4
    READING = LINE + 5  # two of them
    # the sender's line of a rank to itself
    ABORTED = 0
    ENDED = 1

# The fields of a vote, in their order behind its number; RULES in ring.pyx defines them. Fields from SOURCE on are on a second
# cache line, which the vote of a transfer does not use.
cdef enum:
    FAILED = 0
    PENDING = 1
    CALL = 2
    DTYPE = 3
    ITEM = 4
    ORDER = 5
    PACKED = 6
    SOURCE = 7
    TARGET = 8
    SIDE = 9
    RETURNS = 10
    NOTIFIES = 11
    FIELDS = 12
    NARROW = 7  # fields of a transfer's vote

# The count of a vote: of each field the largest value and the smallest known one.
cdef struct Tally:
    int64_t largest[FIELDS]
    int64_t smallest[FIELDS]

cdef class Tickets:
    cdef public int64_t drawn

cdef class Vote:
    cdef int64_t values[FIELDS]
    cdef readonly bint wide

cdef class Outcome:
    cdef Tally tally
    cdef bint wide
    cdef readonly object failed, pending, call, dtype, item, order, packed, source, target, side, returns, notifies

cdef class Ring:
    cdef readonly int64_t rank, size, area
    cdef public int64_t spins, timeout_ns
    cdef public bint closed  # whether no operation may be started any more
    cdef object _memory
    cdef int64_t *_votes
    cdef int64_t *_lanes
    cdef char *areas
    cdef readonly int64_t posted, counted  # this rank's votes, and the counted ones
    cdef int64_t traffics, divided_for  # the number of `Traffic` objects, and the one for which the area is divided
    cdef int64_t *vote_of(self, int64_t rank, int64_t number) noexcept nogil
    cdef int64_t *lane(self, int64_t sender, int64_t receiver) noexcept nogil
    cdef bint post(self, const int64_t *values, int64_t width) noexcept nogil
    cdef bint count(self, int64_t *cursor, Tally *tally, int64_t width) noexcept nogil
    cdef bint is_timed_out(self, int64_t *idle, int64_t *until) noexcept nogil

cdef Outcome outcome_of(const Tally *tally, bint wide)
cdef bint disputed(const Tally *tally, int64_t field) noexcept nogil
cdef bint has_lingered(Ring ring, int64_t *idle, int64_t *since, int64_t *until) noexcept nogil
