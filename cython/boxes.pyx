"""Move the elements of a message: a product of index runs, one list of runs for each dimension.

`Runs` pairs positions in a source with positions in a target along one dimension; `Box` is the product of several and
moves the bytes; a `Trapezoid` leaves out what lies beyond a diagonal of a matrix. Packing is a move into a dense buffer,
unpacking a move out of one, and a local copy a move between two local arrays: one driver serves all three. Decisions
(order, pieces, streaming) are the caller's.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np

from .walk cimport Cursor, begin, locate, next_run

cdef extern from *:
    """
    #include "kernels.h"

    /* out = alpha * x + beta * out, x conjugated or not; out is not read where beta is 0. Type 0: a plain copy. */
    enum { PLAIN, FLOAT, DOUBLE, COMPLEX_FLOAT, COMPLEX_DOUBLE };

    #define REAL(TYPE, D, S) do { \
        TYPE x, y; memcpy(&x, S, sizeof x); x *= (TYPE)f->alpha[0]; \
        if (f->add) { memcpy(&y, D, sizeof y); x += (TYPE)f->beta[0] * y; } \
        memcpy(D, &x, sizeof x); } while (0)
    #define COMPLEX(TYPE, D, S) do { \
        TYPE x[2], y[2], z[2]; const TYPE a = (TYPE)f->alpha[0], b = (TYPE)f->alpha[1]; memcpy(x, S, sizeof x); \
        if (f->conjugate) x[1] = -x[1]; \
        z[0] = a * x[0]; z[1] = a * x[1]; \
        if (b != 0) { z[0] -= b * x[1]; z[1] += b * x[0]; } \
        if (f->add) { const TYPE c = (TYPE)f->beta[0], e = (TYPE)f->beta[1]; memcpy(y, D, sizeof y); \
            z[0] += c * y[0] - e * y[1]; z[1] += c * y[1] + e * y[0]; } \
        memcpy(D, z, sizeof z); } while (0)
    #define EACH_TYPE(LOOP, D, S) switch (f->type) { \
        case FLOAT: LOOP REAL(float, D, S); break; \
        case DOUBLE: LOOP REAL(double, D, S); break; \
        case COMPLEX_FLOAT: LOOP COMPLEX(float, D, S); break; \
        case COMPLEX_DOUBLE: LOOP COMPLEX(double, D, S); break; }

    static void add_spans(char *d, const char *s, const Span *spans, ptrdiff_t count, const Factors *f)
    {
        ptrdiff_t k, i;
        for (k = 0; k < count; k++) {
            char *to = d + spans[k].to;
            const char *from = s + spans[k].from;
            const ptrdiff_t n = spans[k].n, dd = spans[k].apart_to, ds = spans[k].apart_from;
            EACH_TYPE(for (i = 0; i < n; i++), to + i * dd, from + i * ds)
        }
    }

    static void add_tile(char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0,
                         const ptrdiff_t *from1, ptrdiff_t rows, ptrdiff_t columns, const Factors *f)
    {
        ptrdiff_t i, j;
        EACH_TYPE(for (j = 0; j < columns; j++) for (i = 0; i < rows; i++), d + to0[i] + to1[j], s + from0[i] + from1[j])
    }
    """
    enum:
        PLAIN
    void add_spans(char *d, const char *s, const Span *spans, Py_ssize_t count, const Factors *f) noexcept nogil
    void add_tile(char *d, const Py_ssize_t *to0, const Py_ssize_t *to1, const char *s, const Py_ssize_t *from0,
                  const Py_ssize_t *from1, Py_ssize_t rows, Py_ssize_t columns, const Factors *f) noexcept nogil
    ctypedef struct Span:
        Py_ssize_t from_ "from"
        Py_ssize_t to
        Py_ssize_t n
        Py_ssize_t apart_from
        Py_ssize_t apart_to
    void end_stream() noexcept nogil
    void copy_spans(char *d, const char *s, const Span *spans, Py_ssize_t count, Py_ssize_t item, Py_ssize_t bytes, bint dense,
                    bint stream) noexcept nogil
    void copy_lines(char *d, Py_ssize_t dd, const char *s, Py_ssize_t ds, Py_ssize_t n, Py_ssize_t bytes, bint stream) noexcept nogil
    bint in_squares(Py_ssize_t item) noexcept nogil
    void copy_tile(char *d, const Py_ssize_t *to0, const Py_ssize_t *to1, const char *s, const Py_ssize_t *from0,
                   const Py_ssize_t *from1, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t item) noexcept nogil

cdef enum:
    SPANS = 512  # runs whose places are worked out once for all lines of a piece
    STRIP = 32  # columns of a trapezoid that a transposing move takes together; at most TILE
    TILE = 128  # positions of that kind, in a transposing move, along either dimension
    SHORTEST_STREAMED = 64  # bytes of the longest run of a line: single bytes are not worth asking what they touch
    LENGTHS = 8  # of short runs of a line, of which those of one length go together
    LONGEST_SHORT = 128  # bytes of such a run: copies of a fixed size are made up to there
    FEW_LINES = 4  # lines, up to which it is not worth putting runs in order
    SPREAD = 8  # elements of a run with gaps, up to which it is taken as so many runs
    NARROW = 8  # elements on the side of a square: so many lines are in the first cache at once even if they compete for a place


cdef class Runs:
    """Pairs of positions along one dimension, ascending: runs of `count` elements with a step on either side.

    Runs are kept for one period; the pattern repeats with `period_x`, `period_y`. Single elements at equal distances
    become one run with a step, adjacent runs become one.

    Parameters
    ----------
    x, y, length : contiguous int64 arrays
        Starts on either side and lengths of the runs of one period.
    period_x, period_y : int
        What is added to the starts from one period to the next.
    total : int
        Number of elements in all; it may end inside a period.
    """

    def __init__(self, const int64_t[::1] x, const int64_t[::1] y, const int64_t[::1] length,
                 int64_t period_x, int64_t period_y, int64_t total):
        if self.table.x != NULL:
            raise ValueError("Runs cannot be made twice")
        if x.shape[0] and not x.shape[0] == y.shape[0] == length.shape[0]:
            raise ValueError(f"as many x, y and lengths are needed, not {x.shape[0]}, {y.shape[0]} and {length.shape[0]}")
        if x.shape[0]:
            _fill(&self.table, &x[0], &y[0], &length[0], x.shape[0], period_x, period_y, total)
        else:
            _fill(&self.table, NULL, NULL, NULL, 0, period_x, period_y, total)

    def __dealloc__(self):
        free(self.table.x)

    @property
    def size(self):
        """Number of runs of one period."""
        return self.table.size

    @property
    def total(self):
        """Number of elements in all."""
        return self.table.total

    @property
    def per_period(self):
        """Number of elements of one period."""
        return self.table.per_period

    @property
    def period_x(self):
        """Distance from one period to the next in the source."""
        return self.table.period_x

    @property
    def period_y(self):
        """Distance from one period to the next in the target."""
        return self.table.period_y

    def expand(self):
        """Every pair of positions as an int64 array of rows x, y: for tests and for a person to read."""
        cdef int64_t position, x, y
        pairs = np.empty((self.table.total, 2), np.int64)
        for position in range(self.table.total):
            locate(&self.table, position, &x, &y)
            pairs[position] = x, y
        return pairs

    def side(self, bint target):
        """Runs of one period on the side of the source or of the target: an int64 array of rows start, step, count."""
        cdef int64_t *start = self.table.y if target else self.table.x
        cdef int64_t *step = self.table.step_y if target else self.table.step_x
        cdef Py_ssize_t k
        runs = np.empty((self.table.size, 3), np.int64)
        cdef int64_t[:, ::1] rows = runs
        for k in range(self.table.size):
            rows[k, 0], rows[k, 1], rows[k, 2] = start[k], step[k], self.table.count[k]
        return runs


cdef Runs runs_of(const int64_t *x, const int64_t *y, const int64_t *length, Py_ssize_t n, int64_t period_x, int64_t period_y,
                  int64_t total):
    cdef Runs made = Runs.__new__(Runs)
    _fill(&made.table, x, y, length, n, period_x, period_y, total)
    return made


cdef int _fill(Table *t, const int64_t *x, const int64_t *y, const int64_t *length, Py_ssize_t n, int64_t period_x,
               int64_t period_y, int64_t total) except -1:
    cdef Py_ssize_t k, runs = _merge(x, y, length, n, NULL, NULL, NULL, NULL, NULL) if n else 0
    cdef int64_t *memory = <int64_t *> malloc((6 * runs + 1) * sizeof(int64_t))
    if memory == NULL:
        raise MemoryError(f"no memory for {runs} index runs")
    t.x = memory
    t.y = memory + runs
    t.step_x = memory + 2 * runs
    t.step_y = memory + 3 * runs
    t.count = memory + 4 * runs
    t.before = memory + 5 * runs
    if runs:
        _merge(x, y, length, n, t.x, t.step_x, t.y, t.step_y, t.count)
    t.size = runs
    t.total, t.period_x, t.period_y, t.per_period = total, period_x, period_y, 0
    t.unit = True
    for k in range(runs):
        t.before[k] = t.per_period
        t.per_period += t.count[k]
    if t.size == 1 and total > t.per_period:
        if t.count[0] == 1:
            t.step_x[0], t.step_y[0] = period_x, period_y
        if t.count[0] * t.step_x[0] == period_x and t.count[0] * t.step_y[0] == period_y:
            t.count[0] = t.per_period = total
    for k in range(runs):
        t.unit = t.unit and (t.count[k] == 1 or (t.step_x[k] == 1 and t.step_y[k] == 1))
    return 0


cdef Py_ssize_t _merge(const int64_t *x, const int64_t *y, const int64_t *length, Py_ssize_t n, int64_t *out_x,
                       int64_t *step_x, int64_t *out_y, int64_t *step_y, int64_t *count) noexcept:
    """Join runs that continue one another; write them where there is room (pointers not NULL); return how many."""
    cdef Py_ssize_t made = 0, k
    cdef int64_t cx = x[0], cy = y[0], dx = 1, dy = 1, c = length[0]
    for k in range(1, n + 1):
        if k < n:
            if dx == 1 and dy == 1 and x[k] == cx + c and y[k] == cy + c:
                c += length[k]
                continue
            if length[k] == 1 and c == 1:
                dx = x[k] - cx
                dy = y[k] - cy
                c = 2
                continue
            if length[k] == 1 and x[k] == cx + c * dx and y[k] == cy + c * dy:
                c += 1
                continue
        if count != NULL:
            out_x[made], step_x[made], out_y[made], step_y[made], count[made] = cx, dx, cy, dy, c
        made += 1
        if k < n:
            cx, cy, dx, dy, c = x[k], y[k], 1, 1, length[k]
    return made


cdef class Blend:
    """What becomes of elements on the way: out = alpha * x + beta * out, and x conjugated if `conjugate`.

    Parameters
    ----------
    dtype : str
        "f", "d", "F" or "D": the character of a NumPy dtype in native byte order.
    alpha, beta : complex
        Factors; the imaginary parts are for complex dtypes.
    conjugate : bool
        Whether to conjugate x.
    """

    def __init__(self, str dtype, double complex alpha, double complex beta, bint conjugate):
        self.key = (dtype, alpha, beta, conjugate)
        self.factors.type = 1 + "fdFD".index(dtype)
        self.factors.conjugate, self.factors.add = conjugate, beta != 0
        self.factors.alpha[0], self.factors.alpha[1] = alpha.real, alpha.imag
        self.factors.beta[0], self.factors.beta[1] = beta.real, beta.imag


cdef class Box:
    """A message: the product of the `Runs` of each dimension, numbered with one dimension running fastest.

    `move(..., first, last)` moves elements first to last of that numbering, so a message can go in pieces of any size.
    """

    def __init__(self, runs):
        self.runs = tuple(runs)
        if not 1 <= len(self.runs) <= MOST_DIMENSIONS:
            raise ValueError(f"a box has 1 to {MOST_DIMENSIONS} dimensions, not {len(self.runs)}")
        self.size = 1
        for one in self.runs:
            self.size *= (<Runs?> one).table.total

    def shape(self):
        """Elements along each dimension."""
        return tuple([(<Runs> one).table.total for one in self.runs])

    cdef int prepare(self, Job *job, source_strides, target_strides, Py_ssize_t item, order, Blend blend) except -1:
        """Put together what a move needs; a dimension with a single element is only an offset."""
        cdef Py_ssize_t k
        cdef int64_t x, y
        cdef Runs axis
        job.d = job.from_source = job.from_target = 0
        job.item = item
        job.size = self.size
        job.part = NULL
        job.to_source = job.to_target = 0
        job.factors.type = PLAIN
        if blend is not None:
            job.factors = blend.factors
        for k in order:
            axis = self.runs[k]
            if axis.table.total == 1 and not self.partial:
                locate(&axis.table, 0, &x, &y)
                job.from_source += x * <Py_ssize_t> source_strides[k]
                job.from_target += y * <Py_ssize_t> target_strides[k]
                continue
            job.axes[job.d] = &axis.table
            job.ss[job.d] = source_strides[k]
            job.ts[job.d] = target_strides[k]
            job.d += 1
        if not self.partial:
            _join(job)
        while job.d < 2:
            job.axes[job.d] = &_ONE.table
            job.ss[job.d] = job.ts[job.d] = item if job.d == 0 else 0
            job.d += 1
        job.across = abs(job.ts[0]) > abs(job.ts[1])
        job.side = NARROW
        if max(abs(job.ss[0]), abs(job.ss[1])) % 512 and max(abs(job.ts[0]), abs(job.ts[1])) % 512:
            job.side = NARROW if in_squares(item) else max(NARROW, min(32, 64 // item))
        # one side runs along dimension 0 and the other along dimension 1: go by tiles, so that both use whole cache lines
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
            Dimensions from the fastest running to the slowest.
        first, last : int
            The part of the numbering to move, 0 <= first <= last <= size.
        stream : bool
            Write long runs past the cache: for targets that are not read again soon.
        blend : Blend, optional
            What becomes of the elements; by default they are copied.
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
    """The part of a `Box` of a matrix on one side of a diagonal; of element (i, j), global indices, only j - i counts.

    The elements kept are numbered without gaps. So they lie on a dense side, element number e at base + e * item: its runs
    have no gaps, and its strides, those of the whole box, only say which way its lines run.

    Parameters
    ----------
    runs : two Runs
        Of rows and of columns.
    rows, columns : int64 arrays
        Global index of each row and column of the box, ascending.
    upper : bool
        Whether to keep j - i >= diagonal, or else j - i <= diagonal.
    diagonal : int
        The last diagonal that is kept.
    dense : {"source", "target", ""}
        The side that is a dense buffer, if one is.
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
        """For each line along dimension `fastest`, where its part is cut, and the elements in front of it; made when needed."""
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


cdef Runs _ONE = Runs(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int64), 1, 1, 1)


cdef void _join(Job *job) noexcept:
    """Take neighbouring dimensions as one where the second goes on where the first ends, on both sides."""
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


cdef void perform(const Job *job, const char *source, char *target, int64_t first, int64_t last, bint stream) noexcept nogil:
    cdef const Table *rows = job.axes[0]
    cdef const Table *columns = job.axes[1]
    cdef int64_t n0 = rows.total, n1 = columns.total
    cdef int64_t column, row, width, height, rest, x, y
    cdef Py_ssize_t k
    cdef const char *s
    cdef char *t
    if job.part != NULL:
        _part(job, source + job.from_source, target + job.from_target, first, last, stream)
        last = first
    while first < last:
        column = first / n0
        row = first % n0
        if row or last - first < n0:
            width = 1
            height = min(n0 - row, last - first)
        else:
            height = n0
            width = min((last - first) / n0, n1 - column % n1)
        s = source + job.from_source
        t = target + job.from_target
        rest = column / n1
        for k in range(2, job.d):
            locate(job.axes[k], rest % job.axes[k].total, &x, &y)
            s += x * job.ss[k]
            t += y * job.ts[k]
            rest = rest / job.axes[k].total
        if job.tiled:
            _tiles(job, row, row + height, column % n1, column % n1 + width, s, t)
        else:
            _columns(job, row, row + height, column % n1, column % n1 + width, s, t, stream)
        first += width * height
    if stream:
        end_stream()


cdef inline void _kept(const Job *job, int64_t column, int64_t *low, int64_t *high) noexcept nogil:
    low[0] = job.part.cut[column] if job.part.rest else 0
    high[0] = job.axes[0].total if job.part.rest else job.part.cut[column]


cdef void _part(const Job *job, const char *s, char *t, int64_t first, int64_t last, bint stream) noexcept nogil:
    """Column by column; in a transposing move, by tiles where some columns have rows in common."""
    cdef const int64_t *before = job.part.before
    cdef int64_t n1 = job.axes[1].total, column = 0, end = n1 - 1, middle, low, high, top, bottom, a, b, dense, k
    while column < end:  # the last column that begins at `first` or before it
        middle = (column + end + 1) / 2
        if before[middle] <= first:
            column = middle
        else:
            end = middle - 1
    while first < last:
        end = column
        top, bottom = 0, job.axes[0].total
        while job.tiled and end < min(n1, column + STRIP) and before[end] >= first and before[end + 1] <= last:
            _kept(job, end, &low, &high)
            if min(bottom, high) <= max(top, low):
                break
            top, bottom = max(top, low), min(bottom, high)
            end += 1
        if end - column > 1:
            _strip(job, top, bottom, column, end, s, t)
        else:
            top = bottom = 0
            end = column + 1
        for k in range(column, end):
            _kept(job, k, &low, &high)
            dense = before[k] - low
            a, b = max(low, first - dense), min(high, last - dense)
            if top < bottom:
                _line(job, a, top, k, dense, s, t, stream)
                a = bottom
            _line(job, a, b, k, dense, s, t, stream)
        first = max(first, min(last, before[end]))
        column = end


cdef inline void _line(const Job *job, int64_t row, int64_t row_end, int64_t column, int64_t dense, const char *s, char *t,
                       bint stream) noexcept nogil:
    if row < row_end:
        _columns(job, row, row_end, column, column + 1, s + dense * job.to_source, t + dense * job.to_target, stream)


cdef void _strip(const Job *job, int64_t row, int64_t row_end, int64_t column, int64_t column_end,
                 const char *s, char *t) noexcept nogil:
    """A rectangle of at most STRIP columns by tiles."""
    cdef Cursor c
    cdef int64_t in_column = 0, low, high
    cdef Py_ssize_t x1[TILE]
    cdef Py_ssize_t y1[TILE]
    cdef Py_ssize_t columns, k
    begin(job.axes[1], column, column_end, &c)
    c.count = 0
    columns = _places(job.axes[1], &c, &in_column, job.ss[1], job.ts[1], x1, y1)
    for k in range(columns):
        _kept(job, column + k, &low, &high)
        x1[k] += (job.part.before[column + k] - low) * job.to_source
        y1[k] += (job.part.before[column + k] - low) * job.to_target
    _tile_rows(job, row, row_end, x1, y1, columns, s, t)


cdef struct Alike:
    Py_ssize_t start  # of runs that are copied in one loop
    Py_ssize_t count
    Py_ssize_t bytes  # of each; 0 where they differ


cdef Py_ssize_t _by_length(Span *spans, Py_ssize_t count, Py_ssize_t item, Alike *groups) noexcept nogil:
    """Bring short runs of one length together, in any order: to find out how long each is takes longer than to copy it."""
    cdef Py_ssize_t made = 0, start = 0, end, k
    while start < count and made < LENGTHS:
        end = start + 1
        for k in range(end, count):
            if spans[k].n == spans[start].n:
                spans[k], spans[end] = spans[end], spans[k]
                end += 1
        groups[made] = Alike(start, end - start, spans[start].n * item)
        made += 1
        start = end
    if start < count:
        groups[made - 1].count += count - start
        groups[made - 1].bytes = 0
    return made


cdef struct Line:
    # some hundred runs of a line, whose places are the same in other lines
    Py_ssize_t count, made
    bint dense  # no run has gaps
    Alike groups[LENGTHS]
    bint past  # they are written past the cache
    Span spans[SPANS]


cdef void _take(const Job *job, Cursor *r, int64_t lines, bint stream, Line *line) noexcept nogil:
    """The next runs of so many lines, as many as there is room for."""
    cdef Py_ssize_t item = job.item, longest = 0, n, k, from_, to, apart_from, apart_to
    cdef bint equal = True, dense
    line.count = 0
    line.dense = True
    while line.count <= SPANS - SPREAD and next_run(job.axes[0], r):
        n, from_, to = r.count, r.x * job.ss[0], r.y * job.ts[0]
        apart_from, apart_to = r.step_x * job.ss[0], r.step_y * job.ts[0]
        dense = n == 1 or (apart_from == item and apart_to == item)
        if not dense and n <= SPREAD:
            for k in range(n):
                line.spans[line.count] = Span(from_ + k * apart_from, to + k * apart_to, 1, item, item)
                line.count += 1
            n = 1
        else:
            line.spans[line.count] = Span(from_, to, n, apart_from, apart_to)
            line.count += 1
            line.dense = line.dense and dense
        equal = equal and n == line.spans[0].n
        longest = max(longest, n)
    equal = equal and line.dense
    line.past = stream and longest * item >= SHORTEST_STREAMED
    line.groups[0] = Alike(0, line.count, line.spans[0].n * item if equal and line.count > 1 else 0)
    line.made = 1
    if line.dense and not equal and not line.past and longest * item <= LONGEST_SHORT and lines > FEW_LINES:
        line.made = _by_length(line.spans, line.count, item, line.groups)


cdef inline void _copy_line(const Job *job, const Line *line, const char *s, char *t) noexcept nogil:
    cdef const Alike *group
    cdef Py_ssize_t k
    if job.factors.type != PLAIN:
        add_spans(t, s, line.spans, line.count, &job.factors)
        return
    for k in range(line.made):
        group = line.groups + k
        copy_spans(t, s, line.spans + group.start, group.count, job.item, group.bytes, line.dense, line.past)


cdef void _columns(const Job *job, int64_t row, int64_t row_end, int64_t column, int64_t column_end,
                   const char *s, char *t, bint stream) noexcept nogil:
    """Line by line, some hundred runs of each."""
    cdef Line line
    cdef Cursor c, r
    cdef int64_t j
    if column_end - column <= FEW_LINES and _long_lines(job, row, row_end, column, column_end, s, t, stream):
        return
    begin(job.axes[0], row, row_end, &r)
    while r.left > 0:
        _take(job, &r, column_end - column, stream, &line)
        begin(job.axes[1], column, column_end, &c)
        while next_run(job.axes[1], &c):
            if line.count == 1 and line.dense and job.factors.type == PLAIN:
                copy_lines(t + c.y * job.ts[1] + line.spans[0].to, c.step_y * job.ts[1],
                           s + c.x * job.ss[1] + line.spans[0].from_, c.step_x * job.ss[1], c.count,
                           line.spans[0].n * job.item, stream)
                continue
            for j in range(c.count):
                _copy_line(job, &line, s + (c.x + j * c.step_x) * job.ss[1], t + (c.y + j * c.step_y) * job.ts[1])


cdef bint _long_lines(const Job *job, int64_t row, int64_t row_end, int64_t column, int64_t column_end,
                      const char *s, char *t, bint stream) noexcept nogil:
    """A few long lines of short periods, some of which are taken as a line; False where they are not so long."""
    cdef Line line
    cdef Cursor c, r
    cdef const Table *rows = job.axes[0]
    cdef int64_t runs = 0, periods, first, middle, lines, j, k
    if rows.size > SPANS or row_end - row <= FEW_LINES * rows.per_period:
        return False
    for k in range(rows.size):
        runs += rows.count[k] if rows.count[k] <= SPREAD else 1
    if runs > SPANS - SPREAD:
        return False
    periods = (SPANS - SPREAD) / runs
    first = (row + rows.per_period - 1) / rows.per_period * rows.per_period
    lines = (row_end - first) / (periods * rows.per_period)
    if lines <= FEW_LINES:
        return False
    middle = first + lines * periods * rows.per_period
    begin(rows, first, first + periods * rows.per_period, &r)
    _take(job, &r, lines, stream, &line)
    begin(job.axes[1], column, column_end, &c)
    while next_run(job.axes[1], &c):
        for j in range(c.count):
            for k in range(lines):
                _copy_line(job, &line,
                           s + (c.x + j * c.step_x) * job.ss[1] + k * periods * rows.period_x * job.ss[0],
                           t + (c.y + j * c.step_y) * job.ts[1] + k * periods * rows.period_y * job.ts[0])
    _columns(job, row, first, column, column_end, s, t, stream)
    _columns(job, middle, row_end, column, column_end, s, t, stream)
    return True


cdef Py_ssize_t _places(const Table *runs, Cursor *c, int64_t *within, Py_ssize_t source, Py_ssize_t target,
                        Py_ssize_t *x, Py_ssize_t *y) noexcept nogil:
    """Distances in bytes of the next elements of a dimension, at most TILE of them."""
    cdef Py_ssize_t count = 0
    while count < TILE:
        if within[0] == c.count:
            within[0] = 0
            if not next_run(runs, c):
                c.count = 0
                break
        x[count] = (c.x + within[0] * c.step_x) * source
        y[count] = (c.y + within[0] * c.step_y) * target
        within[0] += 1
        count += 1
    return count


cdef inline void _tile_by_tile(const Job *job, char *t, const Py_ssize_t *y0, const Py_ssize_t *y1, const char *s,
                               const Py_ssize_t *x0, const Py_ssize_t *x1, Py_ssize_t rows, Py_ssize_t columns) noexcept nogil:
    cdef Py_ssize_t i, j = 0, height, width
    while j < columns:
        width = min(job.side, columns - j)
        i = 0
        while i < rows:
            height = min(job.side, rows - i)
            if job.factors.type != PLAIN:
                add_tile(t, y0 + i, y1 + j, s, x0 + i, x1 + j, height, width, &job.factors)
            else:
                copy_tile(t, y0 + i, y1 + j, s, x0 + i, x1 + j, height, width, job.item)
            i += job.side
        j += job.side


cdef void _tile_rows(const Job *job, int64_t row, int64_t row_end, const Py_ssize_t *x1, const Py_ssize_t *y1,
                     Py_ssize_t columns, const char *s, char *t) noexcept nogil:
    """All rows of some columns whose places are known."""
    cdef Cursor r
    cdef int64_t in_row = 0
    cdef Py_ssize_t x0[TILE]
    cdef Py_ssize_t y0[TILE]
    cdef Py_ssize_t rows
    begin(job.axes[0], row, row_end, &r)
    r.count = 0
    rows = _places(job.axes[0], &r, &in_row, job.ss[0], job.ts[0], x0, y0)
    while rows:
        if not job.across:  # along the lines of the target
            _tile_by_tile(job, t, y0, y1, s, x0, x1, rows, columns)
        else:
            _tile_by_tile(job, t, y1, y0, s, x1, x0, columns, rows)
        rows = _places(job.axes[0], &r, &in_row, job.ss[0], job.ts[0], x0, y0)


cdef void _tiles(const Job *job, int64_t row, int64_t row_end, int64_t column, int64_t column_end,
                 const char *s, char *t) noexcept nogil:
    """Small squares, so that both sides use whole cache lines, whatever runs these are made of."""
    cdef Cursor c
    cdef int64_t in_column = 0
    cdef Py_ssize_t x1[TILE]
    cdef Py_ssize_t y1[TILE]
    cdef Py_ssize_t columns
    begin(job.axes[1], column, column_end, &c)
    c.count = 0
    columns = _places(job.axes[1], &c, &in_column, job.ss[1], job.ts[1], x1, y1)
    while columns:
        _tile_rows(job, row, row_end, x1, y1, columns, s, t)
        columns = _places(job.axes[1], &c, &in_column, job.ss[1], job.ts[1], x1, y1)
