"""Move the elements of a message: a product of index runs, one list of runs for each dimension.

`Runs` pairs positions in a source with positions in a target along one dimension; `Box` is the product of several and
moves the bytes. Packing is a move into a dense buffer, unpacking a move out of one, and a local copy a move between
two local arrays: one driver serves all three. Decisions (order, pieces) are the caller's.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy
from libc.stdlib cimport free, malloc

import numpy as np

cdef enum:
    MOST = 32  # dimensions of a NumPy array
    TILE = 16  # elements on the side of a tile of a transposing move


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

    cdef readonly int64_t total, period_x, period_y, per_period
    cdef readonly int64_t size
    cdef int64_t *x
    cdef int64_t *y
    cdef int64_t *step_x
    cdef int64_t *step_y
    cdef int64_t *count
    cdef int64_t *before

    def __cinit__(self, const int64_t[::1] x, const int64_t[::1] y, const int64_t[::1] length,
                  int64_t period_x, int64_t period_y, int64_t total):
        cdef Py_ssize_t runs = _merge(&x[0], &y[0], &length[0], x.shape[0], NULL, NULL, NULL, NULL, NULL) if x.shape[0] else 0
        cdef int64_t *table = <int64_t *> malloc((6 * runs + 1) * sizeof(int64_t))
        cdef Py_ssize_t k
        if table == NULL:
            raise MemoryError(f"no memory for {runs} index runs")
        self.x = table
        self.y = table + runs
        self.step_x = table + 2 * runs
        self.step_y = table + 3 * runs
        self.count = table + 4 * runs
        self.before = table + 5 * runs
        if runs:
            _merge(&x[0], &y[0], &length[0], x.shape[0], self.x, self.step_x, self.y, self.step_y, self.count)
        self.size = runs
        self.total, self.period_x, self.period_y, self.per_period = total, period_x, period_y, 0
        for k in range(runs):
            self.before[k] = self.per_period
            self.per_period += self.count[k]
        if self.size == 1 and total > self.per_period:
            if self.count[0] == 1:
                self.step_x[0], self.step_y[0] = period_x, period_y
            if self.count[0] * self.step_x[0] == period_x and self.count[0] * self.step_y[0] == period_y:
                self.count[0] = self.per_period = total

    def __dealloc__(self):
        free(self.x)

    def expand(self):
        """Every pair of positions as an int64 array of rows x, y: for tests and for a person to read."""
        cdef int64_t position, x, y
        pairs = np.empty((self.total, 2), np.int64)
        for position in range(self.total):
            _locate(self, position, &x, &y)
            pairs[position] = x, y
        return pairs

    def side(self, bint target):
        """Runs of one period on the side of the source or of the target: an int64 array of rows start, step, count."""
        cdef int64_t *start = self.y if target else self.x
        cdef int64_t *step = self.step_y if target else self.step_x
        cdef Py_ssize_t k
        runs = np.empty((self.size, 3), np.int64)
        cdef int64_t[:, ::1] rows = runs
        for k in range(self.size):
            rows[k, 0], rows[k, 1], rows[k, 2] = start[k], step[k], self.count[k]
        return runs


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


cdef inline Py_ssize_t _run_at(Runs runs, int64_t rest) noexcept nogil:
    """The run of one period that holds position `rest` of the period."""
    cdef Py_ssize_t low = 0, high = runs.size - 1, middle
    while low < high:
        middle = (low + high + 1) / 2
        if runs.before[middle] <= rest:
            low = middle
        else:
            high = middle - 1
    return low


cdef inline void _locate(Runs runs, int64_t position, int64_t *x, int64_t *y) noexcept nogil:
    cdef int64_t period = position / runs.per_period, rest = position % runs.per_period
    cdef Py_ssize_t k = _run_at(runs, rest)
    x[0] = runs.x[k] + period * runs.period_x + (rest - runs.before[k]) * runs.step_x[k]
    y[0] = runs.y[k] + period * runs.period_y + (rest - runs.before[k]) * runs.step_y[k]


cdef struct Cursor:
    # a run, or the part of one that lies in the range asked for
    int64_t left, x, y, step_x, step_y, count, x_base, y_base, within
    Py_ssize_t k


cdef inline void _begin(Runs runs, int64_t first, int64_t last, Cursor *c) noexcept nogil:
    cdef int64_t period = first / runs.per_period, rest = first % runs.per_period
    c.left = last - first
    c.k = _run_at(runs, rest)
    c.within = rest - runs.before[c.k]
    c.x_base = period * runs.period_x
    c.y_base = period * runs.period_y


cdef inline bint _next(Runs runs, Cursor *c) noexcept nogil:
    if c.left <= 0:
        return False
    if c.k == runs.size:
        c.k = 0
        c.x_base += runs.period_x
        c.y_base += runs.period_y
    c.step_x = runs.step_x[c.k]
    c.step_y = runs.step_y[c.k]
    c.x = c.x_base + runs.x[c.k] + c.within * c.step_x
    c.y = c.y_base + runs.y[c.k] + c.within * c.step_y
    c.count = min(runs.count[c.k] - c.within, c.left)
    c.left -= c.count
    c.within = 0
    c.k += 1
    return True


cdef inline void _line(char *d, Py_ssize_t dd, const char *s, Py_ssize_t ds, Py_ssize_t n, Py_ssize_t item) noexcept nogil:
    """Copy `n` elements at the given distances in bytes. Constant sizes let the compiler use one load and store."""
    cdef Py_ssize_t i
    if dd == item and ds == item:
        memcpy(d, s, n * item)
    elif item == 8:
        for i in range(n):
            memcpy(d + i * dd, s + i * ds, 8)
    elif item == 4:
        for i in range(n):
            memcpy(d + i * dd, s + i * ds, 4)
    elif item == 16:
        for i in range(n):
            memcpy(d + i * dd, s + i * ds, 16)
    elif item == 2:
        for i in range(n):
            memcpy(d + i * dd, s + i * ds, 2)
    elif item == 1:
        for i in range(n):
            d[i * dd] = s[i * ds]
    else:
        for i in range(n):
            memcpy(d + i * dd, s + i * ds, item)


cdef class Box:
    """A message: the product of the `Runs` of each dimension, numbered with one dimension running fastest.

    `move(..., first, last)` moves elements first to last of that numbering, so a message can go in pieces of any size.
    """

    cdef readonly tuple runs
    cdef readonly int64_t size

    def __init__(self, runs):
        self.runs = tuple(runs)
        if not 1 <= len(self.runs) <= MOST:
            raise ValueError(f"a box has 1 to {MOST} dimensions, not {len(self.runs)}")
        self.size = 1
        for one in self.runs:
            self.size *= (<Runs?> one).total

    def shape(self):
        """Elements along each dimension."""
        return tuple([(<Runs> one).total for one in self.runs])

    def move(self, size_t source, source_strides, size_t target, target_strides, Py_ssize_t item, order,
             int64_t first, int64_t last):
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
        """
        cdef Py_ssize_t d = len(self.runs), k
        cdef Py_ssize_t ss[MOST]
        cdef Py_ssize_t ts[MOST]
        cdef list axes = [self.runs[k] for k in order]
        if not 0 <= first <= last <= self.size:
            raise ValueError(f"elements {first} to {last} are not in a box of {self.size}")
        if first == last:
            return
        for k in range(d):
            ss[k] = source_strides[order[k]]
            ts[k] = target_strides[order[k]]
        if d == 1:
            axes.append(_ONE)
            ss[1] = ts[1] = 0
            d = 2
        _move(axes, d, <const char *> source, ss, <char *> target, ts, item, first, last)


_ONE = Runs(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int64), 1, 1, 1)


cdef int _move(list axes, Py_ssize_t d, const char *source, Py_ssize_t *ss, char *target, Py_ssize_t *ts,
               Py_ssize_t item, int64_t first, int64_t last) except -1:
    cdef Runs rows = axes[0], columns = axes[1], axis
    cdef int64_t n0 = rows.total, n1 = columns.total
    cdef int64_t column, row, width, height, rest, x, y
    cdef Py_ssize_t k
    cdef const char *s
    cdef char *t
    # one side runs along dimension 0 and the other along dimension 1: go by tiles, so that both use whole cache lines
    cdef bint tiled = (abs(ss[0]) > abs(ss[1])) != (abs(ts[0]) > abs(ts[1])) and n0 > 1 and n1 > 1
    while first < last:
        column = first / n0
        row = first % n0
        if row or last - first < n0:
            width = 1
            height = min(n0 - row, last - first)
        else:
            height = n0
            width = min((last - first) / n0, n1 - column % n1)
        s = source
        t = target
        rest = column / n1
        for k in range(2, d):
            axis = axes[k]
            _locate(axis, rest % axis.total, &x, &y)
            s += x * ss[k]
            t += y * ts[k]
            rest = rest / axis.total
        with nogil:
            if tiled:
                _tiles(rows, row, row + height, columns, column % n1, column % n1 + width, s, ss[0], ss[1], t, ts[0], ts[1], item)
            else:
                _columns(rows, row, row + height, columns, column % n1, column % n1 + width, s, ss[0], ss[1], t, ts[0], ts[1], item)
        first += width * height
    return 0


cdef void _columns(Runs rows, int64_t row, int64_t row_end, Runs columns, int64_t column, int64_t column_end,
                   const char *s, Py_ssize_t ss0, Py_ssize_t ss1, char *t, Py_ssize_t ts0, Py_ssize_t ts1,
                   Py_ssize_t item) noexcept nogil:
    cdef Cursor c, r, top
    cdef int64_t j
    cdef const char *sj
    cdef char *tj
    _begin(columns, column, column_end, &c)
    _begin(rows, row, row_end, &top)
    while _next(columns, &c):
        for j in range(c.count):
            sj = s + (c.x + j * c.step_x) * ss1
            tj = t + (c.y + j * c.step_y) * ts1
            r = top
            while _next(rows, &r):
                _line(tj + r.y * ts0, r.step_y * ts0, sj + r.x * ss0, r.step_x * ss0, r.count, item)


cdef void _tiles(Runs rows, int64_t row, int64_t row_end, Runs columns, int64_t column, int64_t column_end,
                 const char *s, Py_ssize_t ss0, Py_ssize_t ss1, char *t, Py_ssize_t ts0, Py_ssize_t ts1,
                 Py_ssize_t item) noexcept nogil:
    cdef Cursor c, r, top
    cdef int64_t j, j0, i0, across, down
    cdef const char *sj
    cdef char *tj
    _begin(columns, column, column_end, &c)
    _begin(rows, row, row_end, &top)
    while _next(columns, &c):
        for across in range((c.count + TILE - 1) / TILE):
            j0 = across * TILE
            r = top
            while _next(rows, &r):
                for down in range((r.count + TILE - 1) / TILE):
                    i0 = down * TILE
                    for j in range(j0, min(j0 + TILE, c.count)):
                        sj = s + (c.x + j * c.step_x) * ss1 + (r.x + i0 * r.step_x) * ss0
                        tj = t + (c.y + j * c.step_y) * ts1 + (r.y + i0 * r.step_y) * ts0
                        _line(tj, r.step_y * ts0, sj, r.step_x * ss0, min(<int64_t> TILE, r.count - i0), item)
