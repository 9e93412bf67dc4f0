# Moves of messages from other compiled code, without the interpreter lock.

from libc.stdint cimport int64_t

from .runs cimport Table, locate

cdef enum:
    MOST_DIMENSIONS = 64  # dimensions of a NumPy array; 32 before NumPy 2
    PANEL = 512  # columns of a panel
    MOST_JOINED = 4  # most joined dimensions of a move

cdef extern from "factors.h":
    enum:
        PLAIN
    ctypedef struct Factors:
        int type
        int conjugate, take
        int add
        double alpha[2]
        double beta[2]

# The part of each column of a box of two dimensions: the first `cut` rows, or all rows from `cut` on.
cdef struct Part:
    bint rest
    const int64_t *cut
    const int64_t *before  # elements of the part in earlier columns; one entry more than columns

# A box with the strides of two arrays: a move without its addresses. The box must outlive it.
cdef struct Job:
    Py_ssize_t d, item, side
    int64_t size
    Factors factors
    bint tiled, across  # whether it moves by tiles; whether lines of the target run along the second dimension
    bint panels  # whether elements are numbered by panels, see moving.pyx; local copies only
    Py_ssize_t from_source, from_target  # bytes from element (0, 0, ...) to the first element of the box, single dimensions only
    const Table *axes[MOST_DIMENSIONS]  # joined dimensions point into the job itself, which must not move in memory
    Table joined[MOST_JOINED]
    int64_t places[MOST_JOINED][6]
    Py_ssize_t ss[MOST_DIMENSIONS]
    Py_ssize_t ts[MOST_DIMENSIONS]
    const Part *part  # the part of each column of a matrix; NULL: all
    Py_ssize_t to_source, to_target  # bytes by which one more element of the part moves a dense side, 0 for an array

cdef inline int64_t line_of(const Job *job) noexcept nogil:
    """Consecutive elements of a line in the numbering: of the first dimension, or across a panel."""
    return min(<int64_t> PANEL, job.axes[1].total) if job.panels else job.axes[0].total


# Copy elements first to last of the box's numbering; `stream` writes whole cache lines with non-temporal stores.
cdef void perform(const Job *job, const char *source, char *target, int64_t first, int64_t last, bint stream) noexcept nogil


cdef inline void find_matrix(const Job *job, int64_t number, const char **source, char **target) noexcept nogil:
    """Move the addresses from element (0, 0, ...) to matrix `number` of the first two dimensions."""
    cdef int64_t x, y
    cdef Py_ssize_t k
    source[0] += job.from_source
    target[0] += job.from_target
    for k in range(2, job.d):
        locate(job.axes[k], number % job.axes[k].total, &x, &y)
        source[0] += x * job.ss[k]
        target[0] += y * job.ts[k]
        number = number / job.axes[k].total
