# The kind of stores for B: ordinary or non-temporal.

from libc.stdint cimport int64_t

cdef class SizeClass:
    cdef readonly bint past
    cdef int64_t uses, due

cdef class Trials:
    cdef readonly SizeClass size_class
    cdef bint decided, past  # by a trial of its own
    cdef int step  # of the present trial, from 1 on
    cdef double usual, other  # nanoseconds per byte of the kind in use, and of the other one, as measured in this trial
    cdef int begin(self) noexcept
    cdef bint kind_at(self, int step) noexcept
    cdef void end(self, int step, double cost) noexcept

cdef class Stores:
    cdef readonly bint past  # in the present use
    cdef readonly bint timed  # whether the use is timed
    cdef readonly int64_t nbytes
    cdef Trials trials
    cdef int step
    cdef int64_t moved, spent
    cpdef bint begin(self)
    cdef bint of_move(self) noexcept
    cpdef void add(self, int64_t nbytes, int64_t spent) noexcept
