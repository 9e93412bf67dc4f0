# Several boxes of several arrays as one run of bytes, moved without the interpreter lock.

from libc.stdint cimport int64_t

from .moving cimport Job
from .stores cimport Stores

# A box in a bundle: the bytes in front of it, its own, and which arrays it is of.
cdef struct Section:
    Job job
    int64_t start, size
    Py_ssize_t array

cdef enum:
    NEITHER, SOURCE, TARGET

# What `carry` needs of a bundle; it lives as long as the bundle.
cdef struct Load:
    Section *sections
    Py_ssize_t count
    int64_t size, least, most  # bytes of all, of the smallest and of the largest element
    int dense  # which side is a run of bytes instead of arrays

cdef class Origins:
    cdef readonly Py_ssize_t count
    cdef const char **sources
    cdef char **targets

cdef class Bundle:
    cdef Load load
    cdef list boxes
    cdef public Stores stores

# The last byte of a piece that begins at `first` and has at most `most` bytes, but at least an element; ends no element in two.
cdef int64_t end_of_piece(const Load *load, int64_t first, int64_t most) noexcept nogil

# Whether lines of the target, written past the cache, run across those of the source: larger pieces are faster then.
cdef bint crosses(const Load *load, bint stream) noexcept nogil

# Bytes of a local copy between two looks at the messages; `fetched` if those that are packed fetch what it reads.
cdef int64_t copy_piece(const Load *load, bint stream, bint fetched=*) noexcept nogil

# Move bytes first to last, of whole elements; `dense` is the address of byte `first` on the dense side, if there is one.
cdef void carry(const Load *load, const char **sources, char **targets, char *dense, int64_t first, int64_t last,
                bint stream) noexcept nogil

# The same by all threads of the pool, where it is worth it: no element depends on another, so its bits are the same.
cdef void carry_together(const Load *load, const char **sources, char **targets, char *dense, int64_t first, int64_t last,
                         bint stream) noexcept nogil
