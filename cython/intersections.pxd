# The runs that one process of an axis shares with the processes of another, found without the interpreter lock.

from libc.stdint cimport int64_t

# The first elements of an axis.
cdef struct Axis:
    int64_t window, block, processes, source, offset

# Where the runs go; nowhere while they are only counted.
cdef struct Found:
    int64_t count
    int64_t *remote
    int64_t *start_a
    int64_t *start_b
    int64_t *length

# Equal runs at equal distances: what is added to the starts from one to the next, and the elements of all.
cdef struct Family:
    int64_t remote, start_a, start_b, length, step_a, step_b, count, total

# How many runs process `p` has, and in how many families they are.
cdef int64_t count_runs(const Axis *a, const Axis *b, int64_t p) noexcept nogil
cdef int64_t count_families(const Axis *a, const Axis *b, int64_t p) noexcept nogil

# Write them where there is room for so many.
cdef int64_t aspen(const Axis *a, const Axis *b, int64_t p, Found *found) noexcept nogil
cdef void find_families(const Axis *a, const Axis *b, int64_t p, Family *into) noexcept nogil
