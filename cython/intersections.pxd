# The index runs that one process of an axis shares with the processes of another, without the interpreter lock.

from libc.stdint cimport int64_t

# The first elements of an axis.
cdef struct Axis:
    int64_t window, block, processes, source, offset

# The output arrays of the runs.
cdef struct RunColumns:
    int64_t count
    int64_t *remote
    int64_t *start_a
    int64_t *start_b
    int64_t *length

# Equal runs at equal distances: the steps of the starts, the number of runs, and the elements of all.
cdef struct Family:
    int64_t remote, start_a, start_b, length, step_a, step_b, count, total

# The number of runs of process `p`, and of their families.
cdef int64_t count_runs(const Axis *a, const Axis *b, int64_t p) noexcept nogil
cdef int64_t count_families(const Axis *a, const Axis *b, int64_t p) noexcept nogil

# Write them into arrays of that size.
cdef int64_t aspen(const Axis *a, const Axis *b, int64_t p, RunColumns *output) noexcept nogil
cdef void find_families(const Axis *a, const Axis *b, int64_t p, Family *into) noexcept nogil
