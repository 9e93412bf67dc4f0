"""What one rank moves through a ring in one run: chunks of each message, packed, unpacked and copied in turn.

Messages that share the columns of an array form a group, and go column by column together where all of them can.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from .bundle cimport Bundle, Origins, carry, end_of_piece
from .moving cimport Job
from .ring cimport (
    BASE, CONSUMED, PUBLISHED, REPACKED, SLOTS, STEP, STRIDE, Ring, fetch, now, peek, put,
)
from .interleave cimport Braid, braid_of, end_braid, lines_of, same_lines, weave

cdef enum:
    GROUPED = 64  # lanes of a group, the copy not counted
    HOPE = 1000  # looks at a group whose lanes are not ready together before they go one by one
    SHORT_HOPE = 20  # the same where ranks share cores, and each look lets another rank work
    FETCHED = 16 * 1024  # bytes of a chunk that are asked for before it is unpacked: they fit in the first cache
    COPY_PIECE = 512 * 1024  # bytes of a local copy between two looks at the messages


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

    def __init__(self, Ring ring, list sends, list receives, list copies, int64_t limit, int64_t most_slots, bint stream, int64_t shortest):
        cdef Lane *lane
        cdef Py_ssize_t k
        cdef int64_t peer
        self.ring, self._stream = ring, stream
        ring.traffics += 1
        self._serial = ring.traffics
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
            lane.area = ring.areas + ring.rank * ring.area
        for k in range(self._n_receives):
            peer = receives[k][0]
            lane = self._receives + k
            lane.line = ring.lane(peer, ring.rank)
            lane.area = ring.areas + peer * ring.area
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
        """Give each send its slots: equal numbers of chunks, so that all lanes go along the source together.

        An element of every send is room enough. item <= stride, slots * stride <= share and sends * share <= limit; no step
        is larger than the stride.
        """
        cdef int64_t share = limit // max(self._n_sends, 1), slots, stride, most, item = 1
        cdef int64_t column = 0  # the longest
        cdef Py_ssize_t k
        cdef Lane *lane
        for k in range(self._n_sends):
            item = max(item, self._sends[k].load.most)
            column = max(column, _parts(self._sends[k].column, 64) * 64)
        if self._n_sends and share < item:
            raise ValueError(f"{limit} bytes are not enough for {self._n_sends} messages with elements of {item}")
        if share - share % 64 >= item:  # whole cache lines, where an element still fits
            share -= share % 64
        slots = max(<int64_t> 1, min(most_slots, share // item))
        if column and share // column > 1:
            slots = min(slots, share // column)
        stride = share // slots
        if stride - stride % 64 >= item:
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
        a sender has is good only when it says that it has packed anew. With `timed`, `spent` tells where the time went.
        """
        self.start(origins, mark)
        self._timed = timed

    def spent(self):
        """Seconds of packing, of local copies and of unpacking in the last run, if it was timed."""
        return tuple([1e-9 * self._spent[k] for k in range(3)])

    cdef void start(self, Origins origins, int64_t mark) noexcept:
        cdef Py_ssize_t k
        self._origins = origins
        self._sources, self._targets, self._mark = origins.sources, origins.targets, mark
        if mark:
            for k in range(self._n_sends):
                put(self._sends[k].line + REPACKED, mark)
        self._round = self._arrived = self._looks = 0
        self._packed = self._n_sends == 0
        self._timed = False
        self._spent[0] = self._spent[1] = self._spent[2] = 0
        for k in range(self._n_sends + self._n_receives + self._n_copies):
            self._sends[k].done = self._sends[k].chunks = self._sends[k].until = 0

    cdef void take_back(self) noexcept nogil:
        """Take back what was packed in this run: nobody has looked at it."""
        cdef Py_ssize_t k
        for k in range(self._n_sends):
            put(self._sends[k].line + PUBLISHED, self._sends[k].line[PUBLISHED] - self._sends[k].chunks)
            self._sends[k].chunks = 0

    def take_back_all(self):
        """Take back what was packed before a vote that was not good, or in another order than the one agreed on."""
        self.take_back()

    cdef bint _open(self) noexcept nogil:
        """Divide the area among the lanes; False while chunks of an earlier run are still in it."""
        cdef int64_t peer
        cdef int64_t *line
        cdef Py_ssize_t k
        if self.ring.divided_for == self._serial:
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
        self.ring.divided_for = self._serial
        return True

    cdef bint _has_room(self, Lane *lane) noexcept nogil:
        return lane.line[PUBLISHED] - peek(lane.line + CONSUMED) < lane.slots

    cdef bint _has_come(self, Lane *lane) noexcept nogil:
        """Whether there is a chunk to unpack, or the rest of one."""
        if lane.done < lane.until:
            return True
        if self._mark and peek(lane.line + REPACKED) < self._mark:
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
        cdef Braid *braid
        cdef int64_t first = lane.done / lane.column, last
        cdef Py_ssize_t k
        for k in range(group.size):
            if not self._has_room(group.lanes[k]):
                return False
        last = end_of_piece(lane.load, lane.done, lane.step) / lane.column
        braid = self._braid_from(group, first, copying)
        if braid == NULL:
            return False
        for k in range(group.size):
            lane = group.lanes[k]
            group.sources[k] = self._sources[lane.load.sections.array]
            group.targets[k] = self._slot(lane) - lane.done
        self._weave(group, braid, first, last)
        for k in range(group.size):
            self._packed_to(group.lanes[k], last * group.lanes[k].column)
        return True

    cdef Braid *_braid_from(self, Group *group, int64_t column, bint copying) noexcept nogil:
        """What moves a group from that column on: with what stays here, if it may and is not ahead of them; NULL: nothing."""
        cdef Lane *copy = group.copy
        if not copying or copy == NULL or copy.done > column * copy.column:
            return group.braid
        if copy.done < column * copy.column:
            carry(copy.load, self._sources, self._targets, NULL, copy.done, column * copy.column, self._stream)
            copy.done = column * copy.column
        group.sources[group.size] = self._sources[copy.load.sections.array]
        group.targets[group.size] = self._targets[copy.load.sections.array]
        return group.with_copy

    cdef void _weave(self, Group *group, Braid *braid, int64_t first, int64_t last) noexcept nogil:
        """Move columns of a group between the addresses that it has."""
        weave(braid, group.sources, group.targets, first, last)
        if braid == group.with_copy:
            group.copy.done = last * group.copy.column

    cdef bint _unpack_together(self, Group *group) noexcept nogil:
        """Take the columns that have come from all of a group; False if there are none."""
        cdef Lane *lane
        cdef Braid *braid
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
        braid = self._braid_from(group, first, True)
        if braid == NULL:
            return False
        for k in range(group.size):
            lane = group.lanes[k]
            group.sources[k] = self._chunk(lane) - lane.begun
            group.targets[k] = self._targets[lane.load.sections.array]
            fetch(group.sources[k] + lane.done, min(last * lane.column - lane.done, <int64_t> FETCHED / group.size))
        self._weave(group, braid, first, last)
        for k in range(group.size):
            self._unpacked_to(group.lanes[k], last * group.lanes[k].column)
        return True

    cdef inline bint _goes_alone(self, Lane *lane) noexcept nogil:
        """Whether a lane need not wait for the others of its group: they are ahead of it, or it is in no column's beginning."""
        cdef Group *group = lane.group
        return group == NULL or group.braid == NULL or lane.done < group.foremost * lane.column or lane.done % lane.column

    cdef inline int64_t _goal(self, Lane *lane) noexcept nogil:
        """Bytes of a lane that are packed when this round ends: equal parts, a byte more in the first `size % rounds` rounds.

        No product passes the lane's size, for `_round` < `_rounds`; after the last round it is the size.
        """
        cdef int64_t rounds = self._round + 1
        return lane.load.size // self._rounds * rounds + min(rounds, lane.load.size % self._rounds)

    cdef bint send_round(self, bint copying, bint alone) noexcept nogil:
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

    cdef bint _copy_piece(self, bint overtake, bint alone) noexcept nogil:
        """Copy a piece of what stays here: as far as the sending has come, for the two read the same lines, or further."""
        cdef Py_ssize_t k
        cdef int64_t goal, last
        cdef Lane *lane
        for k in range(self._n_copies):
            lane = self._copies + k
            goal = lane.load.size // self._rounds * self._round
            if lane.group != NULL and not lane.group.sends and not self._complete(lane.group):
                goal = 0  # it goes with what comes in
            elif self._packed or lane.group == NULL and overtake:
                goal = lane.load.size
            if overtake and alone:
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

    cdef bint go_on(self, bint block) noexcept nogil:
        """Move until all is done (True), or nothing could be moved: for as long as the ring's patience, with `block`."""
        cdef int64_t idle = 0, until = 0, start = 0, hope = HOPE if self.ring.spins else SHORT_HOPE
        cdef bint moved, alone = False
        while True:
            start = self._lap(start, -1)
            moved = self.send_round(True, alone)
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
            elif not block and alone or block and self.ring.out_of_patience(&idle, &until):
                return False
            alone = self._looks > 0 and (not block or self._looks >= hope)

    def advance(self, bint block):
        """Move what can be moved; True when all of it was. With `block`, wait for a while where nothing can.

        Whoever waits longer than that has other things to look at: other messages, and whether the others live.
        """
        cdef bint done
        with nogil:
            done = self.go_on(block)
        return done


cdef inline int64_t _parts(int64_t size, int64_t most) noexcept nogil:
    """How many parts of at most `most` bytes there are; for any size from 0 and any `most` from 1, without overflow."""
    return size // most + (size % most != 0)


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
