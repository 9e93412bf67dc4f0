"""Traffic: all moves of one rank through a ring in one run, as chunks that are packed, unpacked and copied in turn.

A rank's area is divided among its messages, which advance along the source together.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from .bundle cimport Bundle, Load, Origins, copy_piece, crosses, end_of_piece
from .lane_groups cimport complete, end_group, goes_alone, in_step, make_groups, pack_together, unpack_together
from .lanes cimport copy_to, pack, parts_of, unpack
from .ring cimport BASE, CONSUMED, PUBLISHED, REPACKED, SLOTS, STEP, STRIDE, Ring, now, peek, put
from .stores cimport Stores
from .threads cimport threads_used

cdef enum:
    LINE_BYTES = 64  # of a cache line
    MOST_POLLS = 1000  # polls of a group whose lanes are not all ready, before lanes go separately
    FEW_POLLS = 20  # the same if ranks share cores, and each poll lets another rank work


cdef int64_t _column_of(const Load *load) noexcept:
    """Bytes of a column if the load is whole columns of one box; else 0."""
    if load.count != 1 or load.sections.job.part != NULL:
        return 0
    return load.sections.job.axes[0].total * load.sections.job.item


cdef class Traffic:
    """All moves of this rank through a ring in one run, for arrays of one kind.

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
        Most slots of a lane.
    stores : Stores
        Chooses for each run whether long runs of the target are written with non-temporal stores.
    shortest : int
        Least mean bytes of a run for which messages that share columns are interleaved; -1: never.
    """

    def __init__(self, Ring ring, list sends, list receives, list copies, int64_t limit, int64_t most_slots, Stores stores not None,
                 int64_t shortest):
        cdef Lane *lane
        cdef Py_ssize_t k
        cdef int64_t peer
        self.ring, self.stores, self._run.stream, self._shortest = ring, stores, stores.past, shortest
        ring.traffics += 1
        self._serial = ring.traffics
        self._n_sends, self._n_receives, self._n_copies = len(sends), len(receives), len(copies)
        self._bundles = [*[bundle for _, bundle in sends], *[bundle for _, bundle in receives], *copies]
        self._sends = <Lane *> calloc(len(self._bundles) + 1, sizeof(Lane))
        if self._sends == NULL:
            raise MemoryError(f"no memory for {len(self._bundles)} messages")
        self._receives = self._sends + self._n_sends
        self._copies = self._receives + self._n_receives
        for k in range(len(self._bundles)):
            self._sends[k].load = &(<Bundle?> self._bundles[k]).load
            self._sends[k].column = _column_of(self._sends[k].load) if shortest >= 0 else 0
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
        self._group()
        self._divide(min(limit, ring.area), most_slots)

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self._n_sends + self._n_receives if self._groups != NULL else 0):
            end_group(self._groups + k)
        free(self._groups)
        free(self._sends)

    cdef int _group(self) except -1:
        """Group the lanes that share the columns of an array."""
        cdef Py_ssize_t n_copies = self._n_copies if threads_used() == 1 else 0  # several threads copy by themselves
        if self._shortest < 0:
            return 0
        if self._groups == NULL:
            self._groups = <Group *> calloc(self._n_sends + self._n_receives + 1, sizeof(Group))
        if self._groups == NULL:
            raise MemoryError(f"no memory for {self._n_sends + self._n_receives} groups of messages")
        self._n_send_groups = self._n_groups = make_groups(
            self._groups, self._sends, self._n_sends, self._copies, n_copies, True, self._shortest, self._run.stream
        )
        # a rank that spins while it waits has time for the local copy then
        self._n_groups += make_groups(
            self._groups + self._n_groups, self._receives, self._n_receives, self._copies,
            0 if self.ring.spins else n_copies, False, self._shortest, self._run.stream,
        )
        return 0

    cdef void _write(self, bint past) noexcept:
        """Set the kind of stores of this run, and group lanes anew, which depends on it."""
        cdef Py_ssize_t k
        if past == self._run.stream:
            return
        self._run.stream = past
        for k in range(self._n_groups):
            end_group(self._groups + k)
        self._n_send_groups = self._n_groups = 0
        try:
            self._group()
        except MemoryError:  # separate lanes are correct too
            for k in range(self._n_sends + self._n_receives if self._groups != NULL else 0):
                end_group(self._groups + k)
            self._n_send_groups = self._n_groups = 0

    cdef int _divide(self, int64_t limit, int64_t most_slots) except -1:
        """Divide the area into slots: each send has as many chunks, so that all lanes advance along the source together.

        Room for an element of every send suffices. item <= stride, slots * stride <= share and sends * share <= limit; no step
        is larger than the stride.
        """
        cdef int64_t share = limit // max(self._n_sends, 1), slots, stride, most, item = 1
        cdef int64_t column = 0, unit  # bytes of the longest column, and of those packed together
        cdef Py_ssize_t k
        cdef Lane *lane
        for k in range(self._n_sends):
            item = max(item, self._sends[k].load.most)
            column = max(column, parts_of(self._sends[k].column, 64) * 64)
        if self._n_sends and share < item:
            raise ValueError(f"{limit} bytes are not enough for {self._n_sends} messages with elements of {item}")
        if share - share % 64 >= item:  # whole cache lines, if an element still fits
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
            # a chunk ends with an element
            most = stride - (stride % item if lane.load.least == lane.load.most else item - 1)
            if lane.column:
                most = stride - stride % self._unit(lane, column, stride)
            self._rounds = max(self._rounds, parts_of(lane.load.size, max(<int64_t> 1, most)))
        for k in range(self._n_sends):
            lane = self._sends + k
            lane.base = k * share
            lane.step = min(stride, parts_of(lane.load.size, self._rounds) + lane.load.most - 1)
            if lane.column:
                unit = self._unit(lane, column, stride)
                lane.step = parts_of(parts_of(lane.load.size, self._rounds), unit) * unit
            lane.slots = max(<int64_t> 1, min(slots, parts_of(lane.load.size, lane.step)))
            lane.stride = min(stride, parts_of(lane.step, 64) * 64)
            self.bytes_used += lane.slots * lane.stride
        return 0

    cdef int64_t _unit(self, const Lane *lane, int64_t longest, int64_t stride) noexcept:
        """Bytes of as many columns as a cache line has elements, if they fit into a slot: crossing lines of the target are then whole."""
        cdef int64_t together = max(<int64_t> 1, LINE_BYTES // lane.load.most)
        return lane.column * together if longest * together <= stride else lane.column

    def begin(self, Origins origins, int64_t mark=0, bint timed=False):
        """Start a run with the given arrays; the last run has ended.

        `mark`, if not 0, is the number of a vote before which a rank packed in another order than the agreed one: chunks are
        valid once their sender has written this number as REPACKED. With `timed`, `spent` returns the times of the parts.
        """
        self.start(origins, mark)
        self._timed = self._timed or timed

    def spent(self):
        """Seconds of packing, of local copies and of unpacking in the last run, if it was timed."""
        return tuple([1e-9 * self._spent[k] for k in range(3)])

    cdef void start(self, Origins origins, int64_t mark) noexcept:
        cdef Py_ssize_t k
        self._write(self.stores.begin())
        self._origins = origins
        self._run.sources, self._run.targets, self._run.mark = origins.sources, origins.targets, mark
        if mark:
            for k in range(self._n_sends):
                put(self._sends[k].line + REPACKED, mark)
        self._round = self._run.arrived = self._polls = 0
        self._packed = self._n_sends == 0
        self._timed = self.stores.timed
        self._spent[0] = self._spent[1] = self._spent[2] = 0
        for k in range(self._n_sends + self._n_receives + self._n_copies):
            self._sends[k].done = self._sends[k].chunks = self._sends[k].until = 0

    cdef void end(self) noexcept:
        """Record the end of the run."""
        self.stores.add(self.stores.nbytes, self._spent[0] + self._spent[1] + self._spent[2])

    cdef void withdraw_chunks(self) noexcept nogil:
        """Withdraw the chunks of this run, which no rank has read."""
        cdef Py_ssize_t k
        for k in range(self._n_sends):
            put(self._sends[k].line + PUBLISHED, self._sends[k].line[PUBLISHED] - self._sends[k].chunks)
            self._sends[k].chunks = 0

    def withdraw(self):
        """Withdraw chunks packed before a failed vote, or in another order than the agreed one."""
        self.withdraw_chunks()

    cdef bint _open(self) noexcept nogil:
        """Divide the area among the lanes; False while it holds chunks of an earlier run."""
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

    cdef inline int64_t _goal(self, Lane *lane) noexcept nogil:
        """Bytes of a lane packed at the end of this round: equal parts, a byte more in the first `size % rounds` rounds.

        The result never exceeds the lane's size, and equals it after the last round.
        """
        cdef int64_t rounds = self._round + 1
        return lane.load.size // self._rounds * rounds + min(rounds, lane.load.size % self._rounds)

    cdef bint send_round(self, bint copying, bint alone) noexcept nogil:
        """Pack a chunk for each receiver that has room; True if any was packed.

        With `copying`, the local copy goes along. Groups wait until all their lanes are ready, unless `alone`.
        """
        cdef Py_ssize_t k
        cdef Lane *lane
        cdef Group *group
        cdef bint moved = False, full = False
        if self._packed or not self._open():
            return False
        for k in range(self._n_send_groups):
            group = self._groups + k
            if in_step(group) and group.lanes[0].done < self._goal(group.lanes[0]):
                moved = pack_together(&self._run, group, copying) or moved
        for k in range(self._n_sends):
            lane = self._sends + k
            if lane.done < self._goal(lane) and (alone or goes_alone(lane)) and pack(&self._run, lane):
                moved = True
            full = full or lane.done < self._goal(lane)
        if not full:
            self._round += 1
            self._packed = self._round == self._rounds
        return moved

    cdef bint send_early(self) noexcept nogil:
        """As `send_round`, before the vote is counted: B is not touched."""
        cdef int64_t start = self._lap(0, -1, False)
        cdef bint moved = self.send_round(False, False)
        self._lap(start, 0, moved)
        return moved

    cdef bint _copy_piece(self, bint overtake, bint alone) noexcept nogil:
        """Copy a piece locally: as far as the packing has advanced, since both read the same lines, or further with `overtake`."""
        cdef Py_ssize_t k
        cdef int64_t goal, piece, last
        cdef Lane *lane
        for k in range(self._n_copies):
            lane = self._copies + k
            goal = lane.load.size // self._rounds * self._round
            if lane.group != NULL and not lane.group.sends and not complete(lane.group):
                goal = 0  # it goes with received chunks
            elif self._packed or lane.group == NULL and overtake:
                goal = lane.load.size
            if overtake and alone:
                goal = lane.load.size
            piece = copy_piece(lane.load, self._run.stream)
            if lane.done + piece > goal and goal < lane.load.size and crosses(lane.load, self._run.stream):
                continue  # wait for a whole piece
            if lane.done < goal:
                last = end_of_piece(lane.load, lane.done, min(goal - lane.done, piece))
                copy_to(&self._run, lane, last)
                return True
        return False

    cdef bint _receive_round(self, bint alone) noexcept nogil:
        """Unpack a chunk of each sender that has one; True if any was unpacked. `alone` as in `send_round`."""
        cdef Py_ssize_t k
        cdef Lane *lane
        cdef bint moved = False
        for k in range(self._n_send_groups, self._n_groups):
            moved = in_step(self._groups + k) and unpack_together(&self._run, self._groups + k) or moved
        for k in range(self._n_receives):
            lane = self._receives + k
            if lane.done < lane.load.size and (alone or goes_alone(lane)) and unpack(&self._run, lane):
                moved = True
        return moved

    cdef inline int64_t _lap(self, int64_t start, Py_ssize_t part, bint moved) noexcept nogil:
        """The time, if the run is timed; adds the time since `start` to a part, if that has moved anything."""
        cdef int64_t end
        if not self._timed:
            return 0
        end = now()
        if moved:
            self._spent[part] += end - start
        return end

    cdef bint make_progress(self, bint block) noexcept nogil:
        """Move until the run is complete (True) or nothing can be moved; with `block`, for the ring's timeout."""
        cdef int64_t idle = 0, until = 0, start = 0, most_polls = MOST_POLLS if self.ring.spins else FEW_POLLS
        cdef bint packed, copied, moved, alone = False
        while True:
            start = self._lap(start, -1, False)
            packed = self.send_round(True, alone)
            start = self._lap(start, 0, packed)
            copied = self._copy_piece(False, alone)
            start = self._lap(start, 1, copied)
            moved = self._receive_round(alone)
            start = self._lap(start, 2, moved)
            moved = moved or packed or copied
            if not moved:
                moved = self._copy_piece(True, alone)
                start = self._lap(start, 1, moved)
            self._polls = 0 if moved else self._polls + 1
            if moved:
                idle = until = 0
            elif self._packed and self._run.arrived == self._n_receives:
                return True
            elif not block and alone or block and self.ring.is_timed_out(&idle, &until):
                return False
            alone = self._polls > 0 and (not block or self._polls >= most_polls)

    def advance(self, bint block):
        """Make progress; True when the run is complete. With `block`, wait for a while if nothing can be moved.

        A caller that waits longer checks other messages and its peers in between.
        """
        cdef bint done
        with nogil:
            done = self.make_progress(block)
        if done:
            self.end()
        return done
