# Interleaved packing: messages that share lines of an array, moved together line by line.

from libc.stdint cimport int64_t

from .moving cimport Job

# The messages of `move_interleaved`; made by `make_interleaving`, freed by `free_interleaving`.
cdef struct Interleaving

# Interleave messages with the `same_lines`; NULL if runs have less than `shortest` bytes in the mean. `past` marks messages with non-temporal stores.
cdef Interleaving *make_interleaving(const Job **jobs, const char *past, Py_ssize_t count, bint by_source, int64_t shortest) except? NULL
cdef void free_interleaving(Interleaving *interleaving) noexcept

# Set whether a message is written with non-temporal stores.
cdef void write_past(Interleaving *interleaving, Py_ssize_t message, bint past) noexcept nogil

# Whether two messages can be interleaved, along the lines of their sources or of their targets.
cdef bint same_lines(const Job *a, const Job *b, bint by_source) noexcept

# The number of lines of a message.
cdef int64_t lines_of(const Job *job) noexcept nogil

# Move lines first to last of all messages; addresses as for `perform`.
cdef void move_interleaved(Interleaving *interleaving, const char **sources, char **targets, int64_t first, int64_t last) noexcept nogil
