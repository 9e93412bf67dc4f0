"""Bundles: boxes of one array or several, concatenated and numbered by bytes.

Elements of different arrays may differ in size. A piece of a bundle begins and ends between elements. Sender and receiver
have the same boxes in the same order, so they cut the same pieces.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from cpython.buffer cimport PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_GetBuffer

from .boxes cimport Blend, Box
from .moving cimport PLAIN, Job, line_of, perform
from .ring cimport now
from .stores cimport Stores
from .threads cimport least_shared, pieces_for, share, stretched, threads_for

cdef enum:
    LINE_BYTES = 64  # of a cache line
    TOGETHER = 8  # columns between cuts: a transposing move takes squares of this width
    COPY_PIECE = 512 * 1024  # bytes of a local copy between two polls of messages
    CROSSING_PIECE = 2 * 1024 * 1024  # the same for a streamed target whose lines cross those of the source


cdef class Origins:
    """The addresses of one run: element (0, 0, ...) of `count` sources and of as many targets."""

    def __cinit__(self, Py_ssize_t count):
        if count < 1:
            raise ValueError(f"{count} pairs of arrays: there must be one at least")
        self.count = count
        self.sources = <const char **> calloc(2 * count, sizeof(char *))
        if self.sources == NULL:
            raise MemoryError(f"no memory for the addresses of {count} pairs of arrays")
        self.targets = <char **> self.sources + count

    def __dealloc__(self):
        free(self.sources)

    def put(self, Py_ssize_t number, size_t source, size_t target):
        """Set both addresses of a pair, 0 for a missing array."""
        if not 0 <= number < self.count:
            raise ValueError(f"pair {number} is not one of {self.count}")
        self.sources[number], self.targets[number] = <const char *> source, <char *> target

    def pair(self, Py_ssize_t number):
        """Both addresses of a pair."""
        if not 0 <= number < self.count:
            raise ValueError(f"pair {number} is not one of {self.count}")
        return <size_t> self.sources[number], <size_t> self.targets[number]


def dense_strides(shape, order, Py_ssize_t item):
    """Strides in bytes of a dense buffer with dimensions in the given order, the fastest first."""
    cdef list strides = [0] * len(shape)
    cdef Py_ssize_t k
    for k in order:
        strides[k] = item
        item *= shape[k]
    return tuple(strides)


def address_of(array):
    """Address of element (0, 0, ...) of an array."""
    cdef Py_buffer view
    cdef size_t address
    try:
        PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO)
    except (BufferError, ValueError):  # a dtype that buffers cannot describe
        return array.__array_interface__["data"][0]
    address = <size_t> view.buf
    PyBuffer_Release(&view)
    return address


cdef class Bundle:
    """Boxes of several arrays as one sequence of bytes.

    Parameters
    ----------
    parts : list of tuple (number, box, source_strides, target_strides, order, item, blend)
        For each box, the number of its arrays in `Origins`, and the rest as for `Box.move`; strides of None are those of a
        dense buffer of the box.
    dense : {"source", "target", ""}
        The side that is a dense buffer, if any.

    Attributes
    ----------
    stores : Stores or None
        Chooses the kind of stores of `move`; ordinary ones by default.
    """

    def __cinit__(self, list parts, str dense):
        cdef Section *section
        cdef Box box
        cdef Blend blend
        cdef Py_ssize_t number, item, k
        self.load.dense = {"": NEITHER, "source": SOURCE, "target": TARGET}[dense]
        self.load.sections = <Section *> calloc(len(parts) + 1, sizeof(Section))
        if self.load.sections == NULL:
            raise MemoryError(f"no memory for {len(parts)} boxes")
        self.boxes = [part[1] for part in parts]
        for k in range(len(parts)):
            number, box, source_strides, target_strides, order, item, blend = parts[k]
            section = self.load.sections + k
            section.array = number
            section.start, section.size = self.load.size, box.size * item
            box.prepare(&section.job, source_strides, target_strides, item, order, blend)
            section.job.panels = self.load.dense == NEITHER and section.job.tiled and section.job.part == NULL
            if self.load.dense == TARGET:  # along the lines of the source: those of the buffer are in cache
                section.job.across = not section.job.across
            self.load.size += section.size
            self.load.least = min(self.load.least, item) if k else item
            self.load.most = max(self.load.most, item)
        self.load.count = len(parts)

    def __dealloc__(self):
        free(self.load.sections)

    @property
    def size(self):
        """Bytes of all boxes."""
        return self.load.size

    @property
    def largest_element(self):
        """Bytes of the largest element."""
        return self.load.most

    @property
    def copy_piece(self):
        """Bytes of a local copy between two polls of messages."""
        return copy_piece(&self.load, self.stores is not None and self.stores.past)

    @property
    def pattern(self):
        """The properties that determine the speed of its moves besides their size: crossing lines, factors, bytes of a run (log2)."""
        cdef const Job *job = &self.load.sections.job
        cdef int64_t run = job.item * max(<int64_t> 1, job.axes[0].per_period // max(<int64_t> 1, job.axes[0].size)) if self.load.count else 0
        return job.tiled, job.factors.type != PLAIN, int(run).bit_length()

    def end_of_piece(self, int64_t first, int64_t most):
        """The end of a piece from byte `first` on, of at most `most` bytes, but at least an element."""
        if not 0 <= first <= self.load.size:
            raise ValueError(f"byte {first} is not in a bundle of {self.load.size}")
        return end_of_piece(&self.load, first, most)

    def move(self, Origins origins, size_t dense, int64_t first, int64_t last):
        """Move bytes `first` to `last`, of whole elements, between the arrays and the buffer at `dense`, if one side is dense."""
        cdef Py_ssize_t k
        cdef Stores stores = self.stores
        cdef bint past = stores is not None and stores.of_move()
        cdef int64_t begun = now() if stores is not None and stores.timed else 0
        if not 0 <= first <= last <= self.load.size:
            raise ValueError(f"bytes {first} to {last} are not in a bundle of {self.load.size}")
        for k in range(self.load.count):
            if self.load.sections[k].array >= origins.count:
                raise ValueError(f"arrays number {self.load.sections[k].array} are not among {origins.count}")
        with nogil:
            carry_together(&self.load, origins.sources, origins.targets, <char *> dense, first, last, past)
        if stores is not None:
            stores.add(last - first, now() - begun if begun else 0)


cdef inline Py_ssize_t _section_at(const Load *load, int64_t place) noexcept nogil:
    """The last section that begins at `place` or before it."""
    cdef Py_ssize_t low = 0, high = load.count - 1, middle
    while low < high:
        middle = (low + high + 1) / 2
        if load.sections[middle].start <= place:
            low = middle
        else:
            high = middle - 1
    return low


cdef int64_t end_of_piece(const Load *load, int64_t first, int64_t most) noexcept nogil:
    cdef const Section *section
    cdef int64_t last
    if load.size - first <= most:
        return load.size
    last = first + max(most, <int64_t> 1)
    section = load.sections + _section_at(load, last)
    last -= (last - section.start) % section.job.item
    return last if last > first else min(first + section.job.item, load.size)


cdef bint crosses(const Load *load, bint stream) noexcept nogil:
    return stream and load.count > 0 and load.sections.job.tiled


cdef int64_t copy_piece(const Load *load, bint stream) noexcept nogil:
    cdef int64_t piece, unit
    if not crosses(load, stream):
        return stretched(COPY_PIECE)
    unit = LINE_BYTES * line_of(&load.sections.job)  # as many lines as a cache line of the target has elements
    piece = stretched(CROSSING_PIECE)
    return piece - piece % unit if unit <= piece else piece


cdef void carry(const Load *load, const char **sources, char **targets, char *dense, int64_t first, int64_t last,
                bint stream) noexcept nogil:
    cdef Py_ssize_t k = _section_at(load, first)
    cdef const Section *section
    cdef const char *source
    cdef char *target
    cdef int64_t end
    if dense != NULL:
        dense -= first
    while first < last:
        section = load.sections + k
        end = min(last, section.start + section.size)
        if first < end:
            source = sources[section.array] if load.dense != SOURCE else <const char *> dense + section.start
            target = targets[section.array] if load.dense != TARGET else dense + section.start
            perform(&section.job, source, target, (first - section.start) / section.job.item,
                    (end - section.start) / section.job.item, stream)
            first = end
        k += 1


cdef struct Carriage:
    # the arguments of `carry_together`, and the number of pieces
    const Load *load
    const char **sources
    char **targets
    char *dense
    int64_t first, last, pieces
    bint stream


cdef void carry_together(const Load *load, const char **sources, char **targets, char *dense, int64_t first, int64_t last,
                         bint stream) noexcept nogil:
    cdef Carriage c
    cdef int64_t threads
    if last - first >= least_shared:
        threads = threads_for(last - first)
        c.load, c.sources, c.targets, c.dense, c.stream = load, sources, targets, dense, stream
        c.first, c.last, c.pieces = first, last, pieces_for(last - first, threads)
        if share(_piece, &c, c.pieces, threads):
            return
    carry(load, sources, targets, dense, first, last, stream)


cdef void _piece(void *task, int64_t piece) noexcept nogil:
    cdef const Carriage *c = <const Carriage *> task
    cdef int64_t first = _cut(c, piece), last = _cut(c, piece + 1)
    if first < last:
        carry(c.load, c.sources, c.targets, NULL if c.dense == NULL else c.dense + (first - c.first), first, last, c.stream)


cdef int64_t _cut(const Carriage *c, int64_t piece) noexcept nogil:
    """The beginning of a piece: at a group of columns, or of rows of a panel, or else at a cache line, if the array begins at one."""
    cdef int64_t nbytes = c.last - c.first, place, unit, line
    cdef const Section *section
    if piece == 0 or piece == c.pieces:
        return c.first if piece == 0 else c.last
    place = c.first + nbytes // c.pieces * piece
    section = c.load.sections + _section_at(c.load, place)
    unit = section.job.item * LINE_BYTES
    line = line_of(&section.job)
    if section.job.part == NULL and TOGETHER * line < nbytes // c.pieces // section.job.item:
        unit = TOGETHER * line * section.job.item
    return max(c.first, place - (place - section.start) % unit)
