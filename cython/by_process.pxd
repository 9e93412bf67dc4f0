# Index runs that two processes share along one dimension, for other compiled code.

from libc.stdint cimport int64_t

from .runs cimport Runs

cdef class SharedRuns:
    cdef readonly int64_t remote, first, period_a, period_b, total
    cdef int64_t _count, _elements  # runs and elements of one repetition
    cdef int64_t *_start_a  # and behind it the other columns
    cdef int64_t *_start_b
    cdef int64_t *_length
    cdef int64_t *_dense  # where a run starts in a dense buffer
    cdef Runs _packed, _unpacked, _copied
