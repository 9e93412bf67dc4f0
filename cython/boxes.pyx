"""Messages: a `Box` is a product of index runs; a `Trapezoid` is its part on one side of a diagonal of a matrix.

Packing is a move into a dense buffer, unpacking a move from one, and a local copy a move between two local arrays: one driver
serves all three. The caller decides on order, pieces and streaming.
"""

from libc.stdint cimport int64_t

import numpy as np

from .moving cimport MOST_DIMENSIONS, MOST_JOINED, PLAIN, Job, Part, perform
from .runs cimport Runs, Table, locate

cdef extern from "squares.h":
    Py_ssize_t side_of_square(Py_ssize_t item) noexcept nogil

cdef enum:
    NARROW = 8  # side of a square in elements: so many lines fit into the first cache even if they compete for the same places


cdef class Blend:
    """The operation on elements: out = alpha * x + beta * out, with x conjugated if `conjugate`.

    As in BLAS, an operand with factor 0 is not read; it may be NaN.

    Parameters
    ----------
    dtype : str
        "f", "d", "F" or "D": the character of a NumPy dtype in native byte order. Or that of an unsigned integer, "B", "H", "I" or
        "Q", for signed ones too: these are only added, so both factors must be 1.
    alpha, beta : complex
        Factors; the imaginary parts are for complex dtypes.
    conjugate : bool
        Whether to conjugate x.
    """

    def __init__(self, str dtype, double complex alpha, double complex beta, bint conjugate):
        self.key = (dtype, alpha, beta, conjugate)
        self.factors.type = 1 + "fdFDBHIQ".index(dtype)
        if dtype in "BHIQ" and (alpha, beta) != (1, 1):
            raise ValueError(f"integers are only added, not multiplied by {alpha} and {beta}")
        self.factors.conjugate, self.factors.take, self.factors.add = conjugate, alpha != 0, beta != 0
        self.factors.alpha[0], self.factors.alpha[1] = alpha.real, alpha.imag
        self.factors.beta[0], self.factors.beta[1] = beta.real, beta.imag


cdef class Box:
    """A message: the product of the `Runs` of each dimension, numbered with one dimension fastest.

    `move(..., first, last)` moves elements first to last of that numbering, so a message can be cut anywhere.
    """

    def __init__(self, runs):
        self.runs = tuple(runs)
        if not 1 <= len(self.runs) <= MOST_DIMENSIONS:
            raise ValueError(f"a box has 1 to {MOST_DIMENSIONS} dimensions, not {len(self.runs)}")
        self.size = 1
        for axis in self.runs:
            self.size *= (<Runs?> axis).table.total

    def shape(self):
        """Elements along each dimension."""
        return tuple([(<Runs> axis).table.total for axis in self.runs])

    cdef int prepare(self, Job *job, source_strides, target_strides, Py_ssize_t item, order, Blend blend) except -1:
        """Prepare a move; a dimension with a single element is only an offset. Strides of None are dense."""
        cdef Py_ssize_t k, source_stride, target_stride, dense = item
        cdef int64_t x, y
        cdef Runs axis
        job.d = job.from_source = job.from_target = 0
        job.item = item
        job.size = self.size
        job.part = NULL
        job.panels = False
        job.to_source = job.to_target = 0
        job.factors.type = PLAIN
        if blend is not None:
            job.factors = blend.factors
        for k in order:
            axis = self.runs[k]
            source_stride = dense if source_strides is None else source_strides[k]
            target_stride = dense if target_strides is None else target_strides[k]
            dense *= axis.table.total
            if axis.table.total == 1 and not self.partial:
                locate(&axis.table, 0, &x, &y)
                job.from_source += x * source_stride
                job.from_target += y * target_stride
                continue
            job.axes[job.d] = &axis.table
            job.ss[job.d] = source_stride
            job.ts[job.d] = target_stride
            job.d += 1
        if not self.partial:
            _join(job)
        while job.d < 2:
            job.axes[job.d] = &_SINGLE.table
            job.ss[job.d] = job.ts[job.d] = item if job.d == 0 else 0
            job.d += 1
        job.across = abs(job.ts[0]) > abs(job.ts[1])
        job.side = max(<Py_ssize_t> NARROW, side_of_square(item))
        if job.factors.type != PLAIN and item == 16:
            job.side = 64 // item  # a row is a cache line
        # the lines of the sides cross: move by tiles, so that both use whole cache lines
        job.tiled = (
            (abs(job.ss[0]) > abs(job.ss[1])) != (abs(job.ts[0]) > abs(job.ts[1]))
            and job.axes[0].total > 1 and job.axes[1].total > 1
        )
        return 0

    def move(self, size_t source, source_strides, size_t target, target_strides, Py_ssize_t item, order,
             int64_t first, int64_t last, bint stream=False, Blend blend=None):
        """Copy elements `first` to `last` from one address to another.

        Parameters
        ----------
        source, target : int
            Addresses of element (0, 0, ...) of the source and of the target array.
        source_strides, target_strides : tuple of int
            Distances in bytes, one for each dimension.
        item : int
            Bytes of an element.
        order : tuple of int
            Dimensions from the fastest to the slowest.
        first, last : int
            The part of the numbering to move, 0 <= first <= last <= size.
        stream : bool
            Write long runs with non-temporal stores: for targets that are not read again soon.
        blend : Blend, optional
            The operation; a copy by default.
        """
        cdef Job job
        if not 0 <= first <= last <= self.size:
            raise ValueError(f"elements {first} to {last} are not in a box of {self.size}")
        if first == last:
            return
        self.prepare(&job, source_strides, target_strides, item, order, blend)
        with nogil:
            perform(&job, <const char *> source, <char *> target, first, last, stream)


cdef class Trapezoid(Box):
    """The part of a `Box` of a matrix on one side of a diagonal j - i = constant, with global indices (i, j).

    Its elements are numbered without gaps. On a dense side element number e is at base + e * item, so its runs have no gaps,
    and its strides, those of the whole box, only determine the direction of lines.

    Parameters
    ----------
    runs : two Runs
        Runs of rows and of columns.
    rows, columns : int64 arrays
        Global index of each row and column of the box, ascending.
    upper : bool
        Whether the part is j - i >= diagonal, or else j - i <= diagonal.
    diagonal : int
        The last diagonal of the part.
    dense : {"source", "target", ""}
        The side that is a dense buffer, if any.
    """

    def __init__(self, runs, rows, columns, bint upper, diagonal, str dense):
        super().__init__(runs)
        if self.shape() != (len(rows), len(columns)):
            raise ValueError(f"a box of {self.shape()} elements needs as many indices, not {len(rows)} and {len(columns)}")
        self.partial = True
        self.rows, self.columns, self.upper, self.first_diagonal, self.dense = rows, columns, upper, diagonal, dense
        self.tables = {}
        self.size = self.table(0)[1][len(columns)]

    def table(self, int fastest):
        """For each line along dimension `fastest`, the cut of its part and the number of elements before it; cached."""
        cdef const int64_t[::1] cut
        cdef const int64_t[::1] before
        if fastest not in self.tables:
            if fastest == 0:
                places = np.searchsorted(self.rows, self.columns - self.first_diagonal, "right" if self.upper else "left")
                full = len(self.rows)
            else:
                places = np.searchsorted(self.columns, self.rows + self.first_diagonal, "left" if self.upper else "right")
                full = len(self.columns)
            rest = self.upper != (fastest == 0)
            sums = np.zeros(len(places) + 1, np.int64)
            np.cumsum(full - places if rest else places, out=sums[1:])
            cut = places = places.astype(np.int64, copy=False)
            before = sums
            self.tables[fastest] = places, sums
            self.parts[fastest] = Part(rest, &cut[0], &before[0])
        return self.tables[fastest]

    cdef int prepare(self, Job *job, source_strides, target_strides, Py_ssize_t item, order, Blend blend) except -1:
        Box.prepare(self, job, source_strides, target_strides, item, order, blend)
        self.table(order[0])
        job.part = &self.parts[order[0]]
        if self.dense == "source":
            job.ss[0] = job.to_source = item
            job.ss[1] = 0
        elif self.dense == "target":
            job.ts[0] = job.to_target = item
            job.ts[1] = 0
        return 0


cdef Runs _SINGLE = Runs(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int64), 1, 1, 1)


cdef void _join(Job *job) noexcept:
    """Join neighbouring dimensions that are contiguous on both sides."""
    cdef const Table *a
    cdef const Table *b
    cdef Table *both
    cdef Py_ssize_t k = 0, i, used = 0
    while k + 1 < job.d:
        a, b = job.axes[k], job.axes[k + 1]
        if (
            a.size != 1 or a.count[0] != a.total or b.size != 1 or b.count[0] != b.total
            or job.ss[k + 1] * b.step_x[0] != job.ss[k] * a.step_x[0] * a.total
            or job.ts[k + 1] * b.step_y[0] != job.ts[k] * a.step_y[0] * a.total
            or used == MOST_JOINED
        ):
            k += 1
            continue
        both = job.joined + used
        used += 1
        both.x, both.y, both.step_x = job.places[used - 1], job.places[used - 1] + 1, job.places[used - 1] + 2
        both.step_y, both.count, both.before = both.x + 3, both.x + 4, both.x + 5
        both.x[0], both.y[0], both.before[0] = a.x[0], a.y[0], 0
        both.step_x[0], both.step_y[0], both.unit = a.step_x[0], a.step_y[0], a.unit
        both.total = both.per_period = both.count[0] = a.total * b.total
        both.size, both.period_x, both.period_y = 1, 0, 0
        job.from_source += b.x[0] * job.ss[k + 1]
        job.from_target += b.y[0] * job.ts[k + 1]
        job.axes[k] = both
        for i in range(k + 1, job.d - 1):
            job.axes[i], job.ss[i], job.ts[i] = job.axes[i + 1], job.ss[i + 1], job.ts[i + 1]
        job.d -= 1
