"""Runs of one dimension: pairs of positions in a source and in a target, stored for one period."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np


cdef class Runs:
    """Pairs of positions along one dimension, ascending: runs of `count` elements with a step on either side.

    Runs are stored for one period; the pattern repeats with `period_x`, `period_y`. Single elements at equal distances
    become one run with a step, adjacent runs become one.

    Parameters
    ----------
    x, y, length : contiguous int64 arrays
        Starts on either side and lengths of the runs of one period.
    period_x, period_y : int
        Distances of the starts between periods.
    total : int
        The number of elements; the last period may be incomplete.
    """

    def __init__(self, const int64_t[::1] x, const int64_t[::1] y, const int64_t[::1] length,
                 int64_t period_x, int64_t period_y, int64_t total):
        if self.table.x != NULL:
            raise ValueError("Runs cannot be initialized twice")
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
        """The number of elements."""
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
        """Every pair of positions, as an int64 array of rows x, y, for tests."""
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
    cdef Runs result = Runs.__new__(Runs)
    _fill(&result.table, x, y, length, n, period_x, period_y, total)
    return result


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
    """Join adjacent runs; write them if pointers are not NULL; return their number."""
    cdef Py_ssize_t n_runs = 0, k
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
            out_x[n_runs], step_x[n_runs], out_y[n_runs], step_y[n_runs], count[n_runs] = cx, dx, cy, dy, c
        n_runs += 1
        if k < n:
            cx, cy, dx, dy, c = x[k], y[k], 1, 1, length[k]
    return n_runs
