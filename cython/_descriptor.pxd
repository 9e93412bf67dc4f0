# The nine integers of a ScaLAPACK descriptor as a C struct, for other Cython code to cimport.

cdef struct NineIntegers:
    int dtype
    int ctxt
    int m
    int n
    int mb
    int nb
    int rsrc
    int csrc
    int lld

# Fill `nine` from anything that offers nine integers; DescriptorError names a field that is missing or does not fit.
cdef int read(object integers, NineIntegers *nine) except -1

# Raise a DescriptorError that names the first field that cannot be, for a process at (myrow, mycol) of the grid.
cdef int check(const NineIntegers *nine, int nprow, int npcol, int myrow) except -1
