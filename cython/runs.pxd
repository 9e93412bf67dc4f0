# The runs of one dimension, and walking along them.

from libc.stdint cimport int64_t

# Runs of one dimension, for one period; `before` counts the elements in front of a run.
cdef struct Table:
    int64_t total, period_x, period_y, per_period, size
    bint unit  # every run has step 1 on both sides
    int64_t *x
    int64_t *y
    int64_t *step_x
    int64_t *step_y
    int64_t *count
    int64_t *before


cdef class Runs:
    cdef Table table


# Runs of `n` starts and lengths; see `Runs`.
cdef Runs runs_of(const int64_t *x, const int64_t *y, const int64_t *length, Py_ssize_t n, int64_t period_x, int64_t period_y,
                  int64_t total)


cdef inline Py_ssize_t part_at(const int64_t *before, Py_ssize_t parts, int64_t position) noexcept nogil:
    """The last of `parts` that begins at `position` or before it; `before` has the elements in front of each."""
    cdef Py_ssize_t low = 0, high = parts - 1, middle
    while low < high:
        middle = (low + high + 1) / 2
        if before[middle] <= position:
            low = middle
        else:
            high = middle - 1
    return low


cdef inline void locate(const Table *runs, int64_t position, int64_t *x, int64_t *y) noexcept nogil:
    cdef int64_t period = position / runs.per_period, rest = position % runs.per_period
    cdef Py_ssize_t k = part_at(runs.before, runs.size, rest)
    x[0] = runs.x[k] + period * runs.period_x + (rest - runs.before[k]) * runs.step_x[k]
    y[0] = runs.y[k] + period * runs.period_y + (rest - runs.before[k]) * runs.step_y[k]


cdef struct Cursor:
    # a run, or the part of one that lies in the range asked for; none before the first `next_run`
    int64_t left, x, y, step_x, step_y, count, x_base, y_base, within
    Py_ssize_t k


cdef inline void begin(const Table *runs, int64_t first, int64_t last, Cursor *c) noexcept nogil:
    cdef int64_t period = first / runs.per_period, rest = first % runs.per_period
    c.left = last - first
    c.k = part_at(runs.before, runs.size, rest)
    c.within = rest - runs.before[c.k]
    c.x_base = period * runs.period_x
    c.y_base = period * runs.period_y
    c.count = 0


cdef inline bint next_run(const Table *runs, Cursor *c) noexcept nogil:
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
