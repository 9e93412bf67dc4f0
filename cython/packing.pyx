"""The memory in which the ranks of a node put together what they send to other nodes, and take apart what comes from there.

It holds, in this order: a line of marks for each rank of the node, and one for each node of the group; for each rank two
tables, of the bytes that it sends to each rank of the group and receives from it; for each rank an area in which it packs; the
messages that are sent; the messages that come. A mark is the number of the last run of which something is done, and has one
writer. docs/protocol.md says which comes when.

Ranks of the group are numbered by node here, so that those of a node come one after another: their places.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer

from .ring cimport LINE, Ring, has_lingered, peek, put

# What a rank marks: it has packed; it has sent, received and unpacked all.
PACKED, DONE = range(2)


def bytes_needed(int64_t size, int64_t nodes, int64_t places, int64_t area):
    """Bytes for `size` ranks of a node, in a group with so many nodes and ranks, with `area` bytes for what a rank packs."""
    return control_bytes(size, nodes, places) + 3 * size * area


cpdef int64_t control_bytes(int64_t size, int64_t nodes, int64_t places) noexcept:
    """Bytes of marks and tables, rounded up to a page: the offset of the areas."""
    return (8 * (LINE * (size + nodes) + 2 * size * places) + 4095) // 4096 * 4096


cdef class Packing:
    """One rank's view of that memory.

    Parameters
    ----------
    memory : writable buffer
        `bytes_needed(...)` bytes, the same memory on all ranks of the node, zero at first.
    ring : Ring or None
        The ring of the node, whose waits these are like; None on a rank alone.
    rank, size : int
        This rank among those of the node, and their number.
    node : int
        This node.
    firsts : int64 array
        For each node the place of its first rank, and at last the number of all ranks.
    area : int
        Bytes of a rank's area.

    Attributes
    ----------
    memory : buffer
        That memory.
    address : int
        The address of this rank's area.
    runs : int
        The number of runs that this rank has begun, the same on all.
    """

    cdef Ring _ring
    cdef readonly object memory
    cdef char *_start
    cdef int64_t *_marks
    cdef int64_t *_arrived
    cdef int64_t *_tables
    cdef const int64_t[::1] _firsts
    cdef int64_t _rank, _size, _node, _places, _offset
    cdef int64_t _since  # when it began to wait; 0 if it does not
    cdef readonly int64_t area
    cdef public int64_t runs

    def __init__(self, memory, Ring ring, int64_t rank, int64_t size, int64_t node, const int64_t[::1] firsts, int64_t area):
        cdef Py_buffer view
        cdef int64_t nodes = firsts.shape[0] - 1
        places = firsts[nodes]
        PyObject_GetBuffer(memory, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            if view.len < bytes_needed(size, nodes, places, area):
                raise ValueError(f"memory has {view.len} bytes; {bytes_needed(size, nodes, places, area)} are needed")
            self._start = <char *> view.buf
        finally:
            PyBuffer_Release(&view)
        self.memory, self._ring, self._firsts = memory, ring, firsts
        self._rank, self._size, self._node, self._places, self.area = rank, size, node, places, area
        self._marks = <int64_t *> self._start
        self._arrived = self._marks + LINE * size
        self._tables = self._arrived + LINE * nodes
        self._offset = control_bytes(size, nodes, places)
        self.runs = 0

    @property
    def address(self):
        """The address of this rank's area."""
        return <int64_t> (self._start + self._offset + self._rank * self.area)

    # -- marks

    def mark(self, int64_t what, int64_t run):
        """Mark that this rank has done something in a run."""
        put(self._marks + LINE * self._rank + what, run)

    def mark_arrived(self, int64_t node, int64_t run):
        """Mark that the message of a node has come."""
        put(self._arrived + LINE * node, run)

    def all_marked(self, int64_t what, int64_t run, bint block=False):
        """Whether all ranks of the node have done something in a run; with `block`, wait for that for a while."""
        cdef int64_t rank = 0, idle = 0, until = 0
        with nogil:
            while rank < self._size:
                if peek(self._marks + LINE * rank + what) >= run:
                    rank += 1
                elif not self._lingers(block, &idle, &until):
                    break
        if rank == self._size:
            self._since = 0
        return rank == self._size

    def has_arrived(self, int64_t node, int64_t run, bint block=False):
        """Whether the message of a node has come; with `block`, wait for that for a while."""
        cdef int64_t idle = 0, until = 0
        cdef bint is_there = False
        with nogil:
            while True:
                is_there = peek(self._arrived + LINE * node) >= run
                if is_there or not self._lingers(block, &idle, &until):
                    break
        if is_there:
            self._since = 0
        return is_there

    cdef bint _lingers(self, bint block, int64_t *idle, int64_t *until) noexcept nogil:
        """Wait a little, if that may be; False when it has been long enough."""
        if not block or self._ring is None:
            return False
        return not has_lingered(self._ring, idle, &self._since, until)

    # -- tables, and what follows from those of all ranks of the node

    def write_lengths(self, const int64_t[::1] sent, const int64_t[::1] received):
        """Write the bytes that this rank sends to each place, and receives from it."""
        cdef int64_t k
        cdef int64_t *table = self._table(self._rank, 0)
        for k in range(self._places):
            table[k], table[self._places + k] = sent[k], received[k]

    cdef int64_t *_table(self, int64_t rank, bint receives) noexcept nogil:
        return self._tables + (2 * rank + receives) * self._places

    cdef int64_t _total(self, int64_t rank, bint receives, int64_t first, int64_t last) noexcept nogil:
        """Bytes between a rank of the node and the places from first to last."""
        cdef int64_t k, total = 0
        cdef int64_t *table = self._table(rank, receives)
        for k in range(first, last):
            total += table[k]
        return total

    cdef int64_t _offset_of(self, int64_t node, bint receives) except -1:
        """Where the message to or from a node begins: behind those of the nodes before it."""
        cdef int64_t rank, before = 0, all = 0
        for rank in range(self._size):
            before += self._total(rank, receives, 0, self._firsts[node])
            all += self._total(rank, receives, 0, self._places)
        if all > self._size * self.area:
            raise ValueError(f"{all} bytes do not fit into {self._size * self.area}")
        return self._offset + (1 + receives) * self._size * self.area + before

    def gather(self, int64_t node):
        """Put together the message to a node: of each rank of this one, what it has packed for that. Its offset and bytes."""
        cdef int64_t rank, nbytes, first = self._firsts[node], last = self._firsts[node + 1]
        cdef int64_t offset = self._offset_of(node, False), end = offset
        cdef char *source
        for rank in range(self._size):
            source = self._start + self._offset + rank * self.area + self._total(rank, False, 0, first)
            nbytes = self._total(rank, False, first, last)
            memcpy(self._start + end, source, nbytes)
            end += nbytes
        return offset, end - offset

    def incoming(self, int64_t node):
        """The place of the message from a node: its offset and bytes."""
        cdef int64_t rank, nbytes = 0
        for rank in range(self._size):
            nbytes += self._total(rank, True, self._firsts[node], self._firsts[node + 1])
        return self._offset_of(node, True), nbytes

    def locate(self, int64_t[::1] addresses):
        """Write the addresses of what comes for this rank from each place.

        A message has, for each rank of the node that sends it, what that has packed, in the order of the ranks of this node.
        """
        cdef int64_t place, rank
        cdef char *at = self._start + <int64_t> self._offset_of(0, True)
        for place in range(self._places):
            for rank in range(self._size):
                if rank == self._rank:
                    addresses[place] = <int64_t> at
                at += self._table(rank, True)[place]
