# Boxes of several arrays as one sequence of bytes, moved without the interpreter lock.

from libc.stdint cimport int64_t

from .moving cimport Job
from .stores cimport Stores

# A box in a bundle: the bytes before it, its own bytes, and the number of its arrays.
cdef struct Section:
    Job job
    int64_t start, size
    Py_ssize_t array

cdef enum:
    NEITHER, SOURCE, TARGET

# The part of a bundle that `carry` needs.
cdef struct Load:
    Section *sections
    Py_ssize_t count
    int64_t size, least, most  # bytes of all, of the smallest and of the largest element
    int dense  # the side that is a dense buffer

cdef class Origins:
    cdef readonly Py_ssize_t count
    cdef const char **sources
    cdef char **targets

cdef class Bundle:
    cdef Load load
    cdef list boxes
    cdef public Stores stores

# The end of a piece from byte `first` on, between elements, of at most `most` bytes, but at least an element.
cdef int64_t end_of_piece(const Load *load, int64_t first, int64_t most) noexcept nogil

# Whether the target is streamed and its lines cross those of the source; then larger pieces are faster.
cdef bint crosses(const Load *load, bint stream) noexcept nogil

# Bytes of a local copy between two polls of messages.
cdef int64_t copy_piece(const Load *load, bint stream) noexcept nogil

# Move bytes first to last, of whole elements; `dense` is the address of byte `first` on the dense side, if there is one.
cdef void carry(const Load *load, const char **sources, char **targets, char *dense, int64_t first, int64_t last,
                bint stream) noexcept nogil

# The same with the threads of the pool, if there are enough bytes. Elements are independent, so the bits are the same.
cdef void carry_together(const Load *load, const char **sources, char **targets, char *dense, int64_t first, int64_t last,
                         bint stream) noexcept nogil
