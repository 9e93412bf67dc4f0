# Votes and lanes in memory that the ranks of one node share.

from libc.stdint cimport int64_t

cdef extern from "flags.h":
    int64_t peek(const int64_t *p) noexcept nogil
    void put(int64_t *p, int64_t value) noexcept nogil
    void relax() noexcept nogil
    void fetch(const char *start, int64_t nbytes) noexcept nogil
    int64_t now() noexcept nogil
    int sched_yield() noexcept nogil

cdef enum:
    LINE = 8  # integers of a cache line
    NUMBERS = 7  # of a vote, behind its sequence number
    PATIENCE_NS = 1_000_000  # how long a call waits before it lets the caller look around
    # the sender's line of a lane
    PUBLISHED = 0
    BASE = 1
    STRIDE = 2
    STEP = 3
    SLOTS = 4
    TAKEN_BACK = 5
    # and the receiver's, behind it
    CONSUMED = LINE

cdef class Ring:
    cdef readonly int64_t rank, size, area
    cdef readonly bint left  # whether this rank has left a run in the middle
    cdef public int64_t spins
    cdef object _memory
    cdef int64_t *_votes
    cdef int64_t *_lanes
    cdef char *areas
    cdef int64_t posted, counted  # votes of this rank, and those counted to the end
    cdef int64_t traffics, divided_for  # how many there were, and for which of them the area is divided
    cdef int64_t *vote_of(self, int64_t rank, int64_t number) noexcept nogil
    cdef int64_t *lane(self, int64_t sender, int64_t receiver) noexcept nogil
    cdef bint post(self, const int64_t *numbers) noexcept nogil
    cdef bint count(self, int64_t *cursor, int64_t *largest) noexcept nogil
    cdef bint out_of_patience(self, int64_t *idle, int64_t *until, int64_t patience) noexcept nogil
