# Moving messages from other compiled code, without the interpreter lock.

from libc.stdint cimport int64_t

from .walk cimport Table

cdef enum:
    MOST_DIMENSIONS = 64  # dimensions of a NumPy array; 32 before NumPy 2
    MOST_JOINED = 4  # dimensions of a move that are each several of its box

# Of out = alpha * x + beta * out; type 0 is a plain copy.
cdef extern from *:
    """
    #ifndef PYSCALAPACK_REDIST_FACTORS
    #define PYSCALAPACK_REDIST_FACTORS
    typedef struct { int type, conjugate, add; double alpha[2], beta[2]; } Factors;
    #endif
    """
    ctypedef struct Factors:
        int type
        int conjugate
        int add
        double alpha[2]
        double beta[2]

# Of each column of a box of two dimensions a part is kept: the first `cut` rows, or all from row `cut` on.
cdef struct Part:
    bint rest
    const int64_t *cut
    const int64_t *before  # elements kept in the columns in front; one entry more than columns

# A box with the strides of two arrays: all that a move needs besides their addresses. The box must outlive it.
cdef struct Job:
    Py_ssize_t d, item, side
    int64_t size
    Factors factors
    bint tiled, across  # by tiles; the lines of the target run along the second dimension
    Py_ssize_t from_source, from_target  # bytes from element (0, 0, ...) to the first element of the box, single dimensions only
    const Table *axes[MOST_DIMENSIONS]  # of a joined dimension, in the job itself: it must stay where it was prepared
    Table joined[MOST_JOINED]
    int64_t places[MOST_JOINED][6]
    Py_ssize_t ss[MOST_DIMENSIONS]
    Py_ssize_t ts[MOST_DIMENSIONS]
    const Part *part  # what is kept of each column of a matrix; NULL: all
    Py_ssize_t to_source, to_target  # bytes by which one more element of the part moves a dense side, 0 for an array

cdef class Runs:
    cdef Table table

# Runs of `n` starts and lengths; see `Runs`.
cdef Runs runs_of(const int64_t *x, const int64_t *y, const int64_t *length, Py_ssize_t n, int64_t period_x, int64_t period_y,
                  int64_t total)

cdef class Blend:
    cdef Factors factors
    cdef readonly tuple key

cdef class Box:
    cdef readonly tuple runs
    cdef readonly int64_t size
    cdef bint partial  # some elements of the product are left out
    cdef int prepare(self, Job *job, source_strides, target_strides, Py_ssize_t item, order, Blend blend) except -1

cdef class Trapezoid(Box):
    cdef readonly str dense
    cdef object rows, columns, upper, first_diagonal, tables
    cdef Part parts[2]

# Copy elements first to last of the box's numbering; `stream` writes whole cache lines past the cache.
cdef void perform(const Job *job, const char *source, char *target, int64_t first, int64_t last, bint stream) noexcept nogil
