# Boxes that other compiled code prepares to be moved.

from libc.stdint cimport int64_t

from .moving cimport Factors, Job, Part

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
