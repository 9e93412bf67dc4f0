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
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer

cdef enum:
    PAIR = 2 * LINE  # a line and the one that is fetched with it
    VOTES = 16  # votes of one rank that may be seen at once: twice those that it may have open
    OPEN = VOTES // 2

NUMBERS_OF_A_VOTE = NUMBERS


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
        self.areas = <char *> (self._lanes + size * size * PAIR)
        self.rank, self.size, self.area, self.spins = rank, size, area, spins

    cdef int64_t *vote_of(self, int64_t rank, int64_t number) noexcept nogil:
        return self._votes + (rank * VOTES + number % VOTES) * LINE

    cdef int64_t *lane(self, int64_t sender, int64_t receiver) noexcept nogil:
        return self._lanes + (sender * self.size + receiver) * PAIR

    cdef bint post(self, const int64_t *numbers) noexcept nogil:
        """Publish this rank's next vote; False while too many are open."""
        cdef int64_t *line
        cdef Py_ssize_t k
        if self.posted - self.counted >= OPEN:
            return False
        line = self.vote_of(self.rank, self.posted)
        for k in range(NUMBERS):
            line[1 + k] = numbers[k]
        self.posted += 1
        put(line, self.posted)
        return True

    cdef bint count(self, int64_t *cursor, int64_t *largest) noexcept nogil:
        """Count the oldest open vote as far as ranks have voted; True when all have, with the largest of each number."""
        cdef int64_t *line
        cdef Py_ssize_t k
        while cursor[0] < self.size:
            line = self.vote_of(cursor[0], self.counted)
            if peek(line) != self.counted + 1:
                return False
            for k in range(NUMBERS):
                if cursor[0] == 0 or line[1 + k] > largest[k]:
                    largest[k] = line[1 + k]
            cursor[0] += 1
        self.counted += 1
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
                self._number = self._ring.posted - 1
            if self._posted and self._number == self._ring.counted:
                self._done = self._ring.count(&self._cursor, self._largest)
            elif not self._posted or self._number > self._ring.counted:
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
