"""ScaLAPACK's nine integers: DTYPE, CTXT, M, N, MB, NB, RSRC, CSRC, LLD. Read, build and check them."""

from cpython.array cimport array, clone
from libc.limits cimport INT_MAX, INT_MIN

import ctypes
import operator

from pyscalapack_redist.errors import DescriptorError

FIELDS = ("DTYPE", "CTXT", "M", "N", "MB", "NB", "RSRC", "CSRC", "LLD")

cdef array _INTS = array("i")


cdef int read(object integers, NineIntegers *nine) except -1:
    cdef const int[::1] exact
    cdef int *fields = <int *> nine
    cdef int k
    try:
        exact = integers
    except (TypeError, ValueError, BufferError):
        return _read_any(integers, fields)
    if exact.shape[0] != 9:
        _refuse_length(exact.shape[0])
    for k in range(9):
        fields[k] = exact[k]
    return 0


cdef int _read_any(object integers, int *fields) except -1:
    """Read a list, an array of another integer type or with gaps, or a C structure that ctypes knows."""
    cdef int k
    try:
        values = _members(integers) if isinstance(integers, ctypes.Structure) else list(integers)
    except TypeError:
        raise DescriptorError(f"a ScaLAPACK descriptor must be nine integers {', '.join(FIELDS)}; "
                              f"got {type(integers).__name__}: {integers!r}") from None
    if len(values) != 9:
        _refuse_length(len(values))
    for k in range(9):
        fields[k] = _fitting(FIELDS[k], values[k])
    return 0


def _members(structure):
    """The numbers in a structure of C ints; a TypeError for any other."""
    kinds = [field[1] for field in structure._fields_]
    if any(kind is not ctypes.c_int for kind in kinds):
        raise TypeError
    return [getattr(structure, field[0]) for field in structure._fields_]


cdef int _refuse_length(Py_ssize_t length) except -1:
    missing = f"; {', '.join(FIELDS[length:])} {'is' if length == 8 else 'are'} missing" if length < 9 else ""
    raise DescriptorError(f"a ScaLAPACK descriptor has nine integers {', '.join(FIELDS)}; got {length}{missing}")


cdef int _fitting(str field, object value) except? -1:
    try:
        number = operator.index(value)
    except TypeError:
        raise DescriptorError(f"{field} = {value!r} must be an integer") from None
    if not INT_MIN <= number <= INT_MAX:
        raise DescriptorError(f"{field} = {number} does not fit into ScaLAPACK's 32-bit integer (at most {INT_MAX}); "
                              "such a layout can be redistributed here, but not passed to ScaLAPACK")
    return number


cdef int check(const NineIntegers *nine, int nprow, int npcol, int myrow) except -1:
    cdef long long held
    if nine.dtype != 1:
        raise DescriptorError(f"DTYPE = {nine.dtype} must be 1, a dense block-cyclic matrix; no other kind is understood")
    for field, value, least in (("M", nine.m, 0), ("N", nine.n, 0), ("MB", nine.mb, 1), ("NB", nine.nb, 1)):
        if value < least:
            raise DescriptorError(f"{field} = {value} must be at least {least}")
    for field, value, processes in (("RSRC", nine.rsrc, nprow), ("CSRC", nine.csrc, npcol)):
        if not 0 <= value < processes:
            raise DescriptorError(f"{field} = {value} is outside the {nprow} x {npcol} grid of CTXT = {nine.ctxt}: "
                                  f"it must be 0 to {processes - 1}")
    if myrow >= 0:
        held = local_rows(nine.m, nine.mb, myrow, nine.rsrc, nprow)
        # some make an LLD of 0 where there are no rows
        if nine.lld < held or nine.lld < 0:
            raise DescriptorError(f"LLD = {nine.lld} is too small: process row {myrow} holds {held} rows, "
                                  f"so it must be at least {max(1, held)}")
    return 0


def local_rows(int m, int mb, int row, int source, int processes):
    """Rows that a process row holds."""
    from pyscalapack_redist.layout.axis import BlockCyclic
    return BlockCyclic(m, mb, processes, source).local_size(row)


def read_fields(integers):
    """The nine integers as a tuple of Python ints.

    Raises
    ------
    DescriptorError
        Not nine integers, or one that does not fit 32 bits.
    """
    cdef NineIntegers nine
    read(integers, &nine)
    return (nine.dtype, nine.ctxt, nine.m, nine.n, nine.mb, nine.nb, nine.rsrc, nine.csrc, nine.lld)


def check_fields(integers, int nprow, int npcol, int myrow):
    """Check nine integers against the grid of their context; `myrow` is -1 where the caller is outside.

    Raises
    ------
    DescriptorError
        Names the first field that is wrong, its value and what it must be.
    """
    cdef NineIntegers nine
    read(integers, &nine)
    check(&nine, nprow, npcol, myrow)


def build_fields(fields):
    """An array of nine C ints from nine Python ints, in the order of `FIELDS`.

    Raises
    ------
    DescriptorError
        A value does not fit 32 bits.
    """
    cdef array out = clone(_INTS, 9, False)
    cdef int k
    for k in range(9):
        out.data.as_ints[k] = _fitting(FIELDS[k], fields[k])
    return out
