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
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memcmp, memcpy
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_STRIDED_RO, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer

from numpy import ndarray

from ._bundle cimport Bundle, Load, Origins, carry, end_of_piece
from ._copy cimport MOST, Job
from ._weave cimport Braid, braid_of, end_braid, lines_of, same_lines, weave

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
    GROUPED = 64  # lanes of a group, the copy not counted
    HOPE = 1000  # looks at a group whose lanes are not ready together before they go one by one
    SHORT_HOPE = 20  # the same where ranks share cores, and each look lets another rank work
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
    # what one rank sends to another, receives from it, or copies, in one run; sizes in bytes
    const Load *load
    int64_t done, chunks, step, base, stride, slots
    int64_t begun, until  # the chunk that is being unpacked
    int64_t column  # of the message, as it lies in the buffer; chunks are whole ones, so that lanes can go together; else 0
    Group *group
    int64_t *line
    char *area


cdef struct Group:
    # lanes that share the columns of an array, and the local copy that reads or writes them too
    bint sends
    Py_ssize_t size
    int64_t foremost  # column that the first of the lanes has reached
    Lane **lanes
    Lane *copy
    Braid *braid
    Braid *with_copy
    const char **sources
    char **targets


cdef class Traffic:
    """All that this rank moves through a ring in one run, for arrays of one kind. Not collective.

    Parameters
    ----------
    ring : Ring
    sends, receives : list of tuple (peer, bundle)
        `peer` is a rank of the ring.
    copies : list of Bundle
        From this rank's arrays to its arrays.
    limit : int
        Bytes of the area that may be used.
    most_slots : int
        Slots that a lane has if there is enough to send.
    stream : bool
        Write long runs of the target past the cache.
    shortest : int
        Move messages that share columns together where their runs have so many bytes in the mean; -1: never.
    """

    cdef readonly Ring ring
    cdef readonly int64_t bytes_used
    cdef Lane *_sends
    cdef Lane *_receives
    cdef Lane *_copies
    cdef Py_ssize_t _n_sends, _n_receives, _n_copies
    cdef Group *_groups  # those of the sends, then those of the receives
    cdef Py_ssize_t _n_send_groups, _n_groups
    cdef list _bundles
    cdef Origins _origins
    cdef int64_t _serial, _rounds, _round, _arrived, _mark
    cdef int64_t _looks  # since something could be moved; over calls, so that no lane waits for the others for ever
    cdef bint _stream, _packed, _timed
    cdef int64_t _spent[3]  # nanoseconds of packing, copying and unpacking, where asked for
    cdef const char **_sources
    cdef char **_targets

    def __init__(self, Ring ring, list sends, list receives, list copies, int64_t limit, int64_t most_slots, bint stream, int64_t shortest):
        cdef Lane *lane
        cdef Py_ssize_t k
        cdef int64_t peer
        self.ring, self._stream = ring, stream
        ring._traffics += 1
        self._serial = ring._traffics
        self._n_sends, self._n_receives, self._n_copies = len(sends), len(receives), len(copies)
        self._bundles = [*[one for _, one in sends], *[one for _, one in receives], *copies]
        self._sends = <Lane *> calloc(len(self._bundles) + 1, sizeof(Lane))
        if self._sends == NULL:
            raise MemoryError(f"no memory for {len(self._bundles)} messages")
        self._receives = self._sends + self._n_sends
        self._copies = self._receives + self._n_receives
        for k in range(len(self._bundles)):
            self._sends[k].load = &(<Bundle?> self._bundles[k]).load
        for k in range(self._n_sends):
            peer = sends[k][0]
            lane = self._sends + k
            lane.line = ring.lane(ring.rank, peer)
            lane.area = ring._areas + ring.rank * ring.area
        for k in range(self._n_receives):
            peer = receives[k][0]
            lane = self._receives + k
            lane.line = ring.lane(peer, ring.rank)
            lane.area = ring._areas + peer * ring.area
        if shortest >= 0:
            self._group(shortest)
        self._divide(min(limit, ring.area), most_slots)

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self._n_groups):
            end_group(self._groups + k)
        free(self._groups)
        free(self._sends)

    cdef int _group(self, int64_t shortest) except -1:
        """Find the lanes that share the columns of an array."""
        cdef Py_ssize_t k
        for k in range(self._n_sends + self._n_receives + self._n_copies):
            if self._sends[k].load.count == 1 and self._sends[k].load.sections.job.part == NULL:
                self._sends[k].column = self._sends[k].load.sections.job.axes[0].total * self._sends[k].load.sections.job.item
        self._groups = <Group *> calloc(self._n_sends + self._n_receives + 1, sizeof(Group))
        if self._groups == NULL:
            raise MemoryError(f"no memory for {self._n_sends + self._n_receives} groups of messages")
        self._find(self._sends, self._n_sends, True, shortest)
        self._n_send_groups = self._n_groups
        self._find(self._receives, self._n_receives, False, shortest)

    cdef int _find(self, Lane *lanes, Py_ssize_t n, bint sends, int64_t shortest) except -1:
        cdef Lane *found[GROUPED]
        cdef Lane *copy
        cdef Py_ssize_t first, k, size
        cdef bint joins
        for first in range(n):
            if lanes[first].group != NULL or lanes[first].load.count != 1:
                continue
            size, copy = 0, NULL
            for k in range(first, n):
                if size < GROUPED and lanes[k].group == NULL and _together(lanes + first, lanes + k, sends):
                    found[size] = lanes + k
                    size += 1
            # where a rank has nothing else to do while it waits, and in cache, what stays here is better copied then
            joins = (sends or not self.ring.spins) and (self._stream or size > 1)
            for k in range(self._n_copies if joins else 0):
                if self._copies[k].group == NULL and _together(lanes + first, self._copies + k, sends):
                    copy = self._copies + k
            if size and make_group(self._groups + self._n_groups, found, size, copy, sends, shortest, self._stream):
                self._n_groups += 1

    cdef int _divide(self, int64_t limit, int64_t most_slots) except -1:
        """Give each send its slots: equal numbers of chunks, so that all lanes go along the source together."""
        cdef int64_t share = limit // max(self._n_sends, 1), slots, stride, most, item = 1
        cdef int64_t column = 0  # the longest
        cdef Py_ssize_t k
        cdef Lane *lane
        for k in range(self._n_sends):
            item = max(item, self._sends[k].load.most)
            column = max(column, _parts(self._sends[k].column, 64) * 64)
        if share >= 64:
            share -= share % 64
        if self._n_sends and share < item:
            raise ValueError(f"{limit} bytes are not enough for {self._n_sends} messages with elements of {item}")
        slots = max(<int64_t> 1, min(most_slots, share // item))
        if column and share // column > 1:
            slots = min(slots, share // column)
        stride = share // slots
        if stride >= 64 + item:
            stride -= stride % 64
        for k in range(self._n_sends):
            lane = self._sends + k
            if lane.column > stride:
                end_group(lane.group)
                lane.column = 0
        self._rounds = 1
        for k in range(self._n_sends):
            lane = self._sends + k
            # a chunk ends where an element does
            most = stride - (stride % item if lane.load.least == lane.load.most else item - 1)
            if lane.column:
                most = stride - stride % lane.column
            self._rounds = max(self._rounds, _parts(lane.load.size, max(<int64_t> 1, most)))
        for k in range(self._n_sends):
            lane = self._sends + k
            lane.base = k * share
            lane.step = min(stride, _parts(lane.load.size, self._rounds) + lane.load.most - 1)
            if lane.column:
                lane.step = _parts(_parts(lane.load.size, self._rounds), lane.column) * lane.column
            lane.slots = max(<int64_t> 1, min(slots, _parts(lane.load.size, lane.step)))
            lane.stride = min(stride, _parts(lane.step, 64) * 64)
            self.bytes_used += lane.slots * lane.stride
        return 0

    def begin(self, Origins origins, int64_t mark=0, bint timed=False):
        """Start a run with the arrays that are there; the run before has ended.

        `mark`, if not 0, is the number of a vote before which ranks packed in another order than the one agreed on: what
        a sender has is good only when it says that it took that back. With `timed`, `spent` tells where the time went.
        """
        self._begin(origins, mark)
        self._timed = timed

    def spent(self):
        """Seconds of packing, of local copies and of unpacking in the last run, if it was timed."""
        return tuple([1e-9 * self._spent[k] for k in range(3)])

    cdef void _begin(self, Origins origins, int64_t mark) noexcept:
        cdef Py_ssize_t k
        self._origins = origins
        self._sources, self._targets, self._mark = origins.sources, origins.targets, mark
        if mark:
            for k in range(self._n_sends):
                put(self._sends[k].line + TAKEN_BACK, mark)
        self._round = self._arrived = self._looks = 0
        self._packed = self._n_sends == 0
        self._timed = False
        self._spent[0] = self._spent[1] = self._spent[2] = 0
        for k in range(self._n_sends + self._n_receives + self._n_copies):
            self._sends[k].done = self._sends[k].chunks = self._sends[k].until = 0

    cdef void _take_back(self) noexcept nogil:
        """Take back what was packed in this run: nobody has looked at it."""
        cdef Py_ssize_t k
        for k in range(self._n_sends):
            put(self._sends[k].line + PUBLISHED, self._sends[k].line[PUBLISHED] - self._sends[k].chunks)

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

    cdef bint _has_room(self, Lane *lane) noexcept nogil:
        return lane.line[PUBLISHED] - peek(lane.line + CONSUMED) < lane.slots

    cdef bint _has_come(self, Lane *lane) noexcept nogil:
        """Whether there is a chunk to unpack, or the rest of one."""
        if lane.done < lane.until:
            return True
        if self._mark and peek(lane.line + TAKEN_BACK) < self._mark:
            return False
        if peek(lane.line + PUBLISHED) == lane.line[CONSUMED]:
            return False
        lane.begun = lane.done
        lane.until = end_of_piece(lane.load, lane.done, lane.line[STEP])
        return True

    cdef char *_slot(self, Lane *lane) noexcept nogil:
        return lane.area + lane.base + lane.line[PUBLISHED] % lane.slots * lane.stride

    cdef char *_chunk(self, Lane *lane) noexcept nogil:
        return lane.area + lane.line[BASE] + lane.line[CONSUMED] % lane.line[SLOTS] * lane.line[STRIDE]

    cdef void _packed_to(self, Lane *lane, int64_t last) noexcept nogil:
        lane.done = last
        lane.chunks += 1
        put(lane.line + PUBLISHED, lane.line[PUBLISHED] + 1)

    cdef void _unpacked_to(self, Lane *lane, int64_t last) noexcept nogil:
        lane.done = last
        if last == lane.until:
            put(lane.line + CONSUMED, lane.line[CONSUMED] + 1)
        self._arrived += last == lane.load.size

    cdef bint _pack(self, Lane *lane) noexcept nogil:
        """Publish the next chunk of a lane; False where there is no room for it."""
        cdef int64_t last
        if not self._has_room(lane):
            return False
        last = end_of_piece(lane.load, lane.done, lane.step)
        carry(lane.load, self._sources, self._targets, self._slot(lane), lane.done, last, False)
        self._packed_to(lane, last)
        return True

    cdef bint _unpack(self, Lane *lane) noexcept nogil:
        """Take the next chunk of a lane; False if it is not there."""
        cdef char *chunk
        if not self._has_come(lane):
            return False
        chunk = self._chunk(lane) + (lane.done - lane.begun)
        fetch(chunk, min(lane.until - lane.done, <int64_t> FETCHED))
        carry(lane.load, self._sources, self._targets, chunk, lane.done, lane.until, self._stream)
        self._unpacked_to(lane, lane.until)
        return True

    cdef bint _in_step(self, Group *group) noexcept nogil:
        """Whether there is such a group still, and all lanes have reached the same column."""
        cdef int64_t column
        cdef bint same = True
        cdef Py_ssize_t k
        if group.size == 0:
            return False
        column = group.foremost = group.lanes[0].done / group.lanes[0].column
        for k in range(group.size):
            same = same and group.lanes[k].done == column * group.lanes[k].column
            group.foremost = max(group.foremost, _parts(group.lanes[k].done, group.lanes[k].column))
        return same

    cdef bint _pack_together(self, Group *group, bint copying) noexcept nogil:
        """Publish the next chunks of a group, and copy what stays of their columns; False where that is not to be."""
        cdef Lane *lane = group.lanes[0]
        cdef Braid *braid = group.braid
        cdef int64_t first = lane.done / lane.column, last
        cdef Py_ssize_t k
        for k in range(group.size):
            if not self._has_room(group.lanes[k]):
                return False
        last = end_of_piece(lane.load, lane.done, lane.step) / lane.column
        if copying and self._copy_joins(group, first):
            braid = group.with_copy
        if braid == NULL:
            return False
        for k in range(group.size):
            lane = group.lanes[k]
            group.sources[k] = self._sources[lane.load.sections.array]
            group.targets[k] = self._slot(lane) - lane.done
        weave(braid, group.sources, group.targets, first, last)
        for k in range(group.size):
            self._packed_to(group.lanes[k], last * group.lanes[k].column)
        if braid == group.with_copy:
            group.copy.done = last * group.copy.column
        return True

    cdef bint _copy_joins(self, Group *group, int64_t column) noexcept nogil:
        """Whether what stays here can be copied with the others from that column on: it is not ahead of them."""
        cdef Lane *copy = group.copy
        if copy == NULL or copy.done > column * copy.column:
            return False
        if copy.done < column * copy.column:
            carry(copy.load, self._sources, self._targets, NULL, copy.done, column * copy.column, self._stream)
            copy.done = column * copy.column
        group.sources[group.size] = self._sources[copy.load.sections.array]
        group.targets[group.size] = self._targets[copy.load.sections.array]
        return True

    cdef bint _unpack_together(self, Group *group) noexcept nogil:
        """Take the columns that have come from all of a group; False if there are none."""
        cdef Lane *lane
        cdef Braid *braid = group.braid
        cdef int64_t first = group.lanes[0].done / group.lanes[0].column, last = lines_of(&group.lanes[0].load.sections.job)
        cdef Py_ssize_t k
        for k in range(group.size):
            lane = group.lanes[k]
            if lane.done == lane.load.size or not self._has_come(lane):
                return False
            last = min(last, lane.until / lane.column)
        if first >= last:
            group.foremost = first + 1  # chunks of less than a column
            return False
        if self._copy_joins(group, first):
            braid = group.with_copy
        if braid == NULL:
            return False
        for k in range(group.size):
            lane = group.lanes[k]
            group.sources[k] = self._chunk(lane) - lane.begun
            group.targets[k] = self._targets[lane.load.sections.array]
            fetch(group.sources[k] + lane.done, min(last * lane.column - lane.done, <int64_t> FETCHED / group.size))
        weave(braid, group.sources, group.targets, first, last)
        for k in range(group.size):
            self._unpacked_to(group.lanes[k], last * group.lanes[k].column)
        if braid == group.with_copy:
            group.copy.done = last * group.copy.column
        return True

    cdef inline bint _goes_alone(self, Lane *lane) noexcept nogil:
        """Whether a lane need not wait for the others of its group: they are ahead of it, or it is in no column's beginning."""
        cdef Group *group = lane.group
        return group == NULL or group.braid == NULL or lane.done < group.foremost * lane.column or lane.done % lane.column

    cdef inline int64_t _goal(self, Lane *lane) noexcept nogil:
        return lane.load.size * (self._round + 1) // self._rounds

    cdef bint _send_round(self, bint copying, bint alone) noexcept nogil:
        """One chunk for each receiver that has room; True where anything was packed.

        With `copying`, what stays here goes with it. Groups whose lanes are not all ready wait, unless `alone`.
        """
        cdef Py_ssize_t k
        cdef Lane *lane
        cdef Group *group
        cdef bint moved = False, full = False
        if self._packed or not self._open():
            return False
        for k in range(self._n_send_groups):
            group = self._groups + k
            if self._in_step(group) and group.lanes[0].done < self._goal(group.lanes[0]):
                moved = self._pack_together(group, copying) or moved
        for k in range(self._n_sends):
            lane = self._sends + k
            if lane.done < self._goal(lane) and (alone or self._goes_alone(lane)) and self._pack(lane):
                moved = True
            full = full or lane.done < self._goal(lane)
        if not full:
            self._round += 1
            self._packed = self._round == self._rounds
        return moved

    cdef bint _complete(self, Group *group) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(group.size):
            if group.lanes[k].done < group.lanes[k].load.size:
                return False
        return True

    cdef bint _copy_piece(self, bint ahead, bint alone) noexcept nogil:
        """Copy a piece of what stays here: as far as the sending has come, for the two read the same lines, or ahead."""
        cdef Py_ssize_t k
        cdef int64_t goal, last
        cdef Lane *lane
        for k in range(self._n_copies):
            lane = self._copies + k
            goal = lane.load.size // self._rounds * self._round
            if lane.group != NULL and not lane.group.sends and not self._complete(lane.group):
                goal = 0  # it goes with what comes in
            elif self._packed or lane.group == NULL and ahead:
                goal = lane.load.size
            if ahead and alone:
                goal = lane.load.size
            if lane.done < goal:
                last = end_of_piece(lane.load, lane.done, min(goal - lane.done, <int64_t> COPY_PIECE))
                carry(lane.load, self._sources, self._targets, NULL, lane.done, last, self._stream)
                lane.done = last
                return True
        return False

    cdef bint _receive_round(self, bint alone) noexcept nogil:
        """One chunk from each sender that has one; True where anything was unpacked. `alone` as in sending."""
        cdef Py_ssize_t k
        cdef Lane *lane
        cdef bint moved = False
        for k in range(self._n_send_groups, self._n_groups):
            moved = self._in_step(self._groups + k) and self._unpack_together(self._groups + k) or moved
        for k in range(self._n_receives):
            lane = self._receives + k
            if lane.done < lane.load.size and (alone or self._goes_alone(lane)) and self._unpack(lane):
                moved = True
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
        cdef int64_t idle = 0, until = 0, start = 0, hope = HOPE if self.ring.spins else SHORT_HOPE
        cdef bint moved, alone = False
        while True:
            start = self._lap(start, -1)
            moved = self._send_round(True, alone)
            start = self._lap(start, 0)
            moved = self._copy_piece(False, alone) or moved
            start = self._lap(start, 1)
            moved = self._receive_round(alone) or moved
            start = self._lap(start, 2)
            if not moved:
                moved = self._copy_piece(True, alone)
                start = self._lap(start, 1)
            self._looks = 0 if moved else self._looks + 1
            if moved:
                idle = until = 0
            elif self._packed and self._arrived == self._n_receives:
                return True
            elif not patience and alone or patience and self.ring.out_of_patience(&idle, &until, patience):
                return False
            alone = self._looks > 0 and (not patience or self._looks >= hope)

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


cdef bint _together(const Lane *a, const Lane *b, bint by_source) noexcept:
    """Whether two lanes, each of one box, share the columns of an array."""
    return (
        a.load.count == b.load.count == 1 and a.load.sections.array == b.load.sections.array
        and same_lines(&a.load.sections.job, &b.load.sections.job, by_source)
    )


cdef bint make_group(Group *group, Lane **lanes, Py_ssize_t size, Lane *copy, bint sends,
                     int64_t shortest, bint stream) except -1:
    """Put lanes that share columns, and a local copy or NULL, into a group; False where that gains nothing."""
    cdef const Job *jobs[GROUPED + 1]
    cdef char past[GROUPED + 1]
    cdef Py_ssize_t k
    for k in range(size):
        jobs[k], past[k] = &lanes[k].load.sections.job, stream and not sends
    if copy != NULL:
        jobs[size], past[size] = &copy.load.sections.job, stream
    group.lanes = <Lane **> calloc(3 * size + 2, sizeof(void *))
    if group.lanes == NULL:
        raise MemoryError(f"no memory for a group of {size} messages")
    group.sources = <const char **> group.lanes + size
    group.targets = <char **> group.sources + size + 1
    group.braid = braid_of(jobs, past, size, sends, shortest)
    if copy != NULL:
        group.with_copy = braid_of(jobs, past, size + 1, sends, shortest)
    if group.braid == NULL and group.with_copy == NULL:
        end_group(group)
        return False
    group.size, group.sends = size, sends
    for k in range(size):
        group.lanes[k] = lanes[k]
        lanes[k].group = group
    if group.with_copy != NULL:
        group.copy = copy
        copy.group = group
    return True


cdef void end_group(Group *group) noexcept:
    """Let the lanes go each alone."""
    cdef Py_ssize_t k
    if group == NULL:
        return
    for k in range(group.size):
        group.lanes[k].group = NULL
    if group.copy != NULL:
        group.copy.group = NULL
    end_braid(group.braid)
    end_braid(group.with_copy)
    free(group.lanes)
    group.size, group.copy, group.braid, group.with_copy, group.lanes = 0, NULL, NULL, NULL, NULL


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
        if ring.left or ring._posted != ring._counted or not ring.post(self._vote):
            return NotImplemented
        try:
            traffic._begin(self._origins, 0)
            with nogil:
                while not all_counted:  # packing touches no array: it need not wait for the others
                    all_counted = ring.count(&cursor, counted)
                    if all_counted or traffic._send_round(False, False):
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
            return None
        self.outcome = [*[counted[k] for k in range(NUMBERS)], ring._counted]
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
