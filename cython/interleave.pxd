# Several messages that share the lines of an array, moved line by line together.

from libc.stdint cimport int64_t

from .moving cimport Job

cdef extern from "kernels.h":
    enum:
        FETCHED_ONLY  # a strand that is not moved: what moves it will come soon

# What `weave` needs; made by `braid_of`, freed by `end_braid`.
cdef struct Braid

# Of messages with the `same_lines`; NULL where its runs would have less than `shortest` bytes in the mean. `past` says which strands are written past the cache.
cdef Braid *braid_of(const Job **jobs, const char *past, Py_ssize_t count, bint by_source, int64_t shortest) except? NULL
cdef void end_braid(Braid *braid) noexcept

# Whether a strand is written past the cache from now on.
cdef void write_past(Braid *braid, Py_ssize_t strand, bint past) noexcept nogil

# Whether two messages can be strands of one braid, along the lines of their sources or of their targets.
cdef bint same_lines(const Job *a, const Job *b, bint by_source) noexcept

# The same of a message and one whose source is only fetched along with it, wherever it goes then.
cdef bint same_lines_read(const Job *a, const Job *b) noexcept

# How many lines a message has.
cdef int64_t lines_of(const Job *job) noexcept nogil

# Move lines first to last of all strands; addresses are those that `perform` would be given for each.
cdef void weave(Braid *braid, const char **sources, char **targets, int64_t first, int64_t last) noexcept nogil
