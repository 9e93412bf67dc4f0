"""What MPI calls when it deletes an attribute of a communicator. No exception comes through MPI from there: mpi4py prints it."""

from cpython.exc cimport PyErr_SetInterruptEx


cdef class Deletion:
    """Hold interrupts back while something is freed with a communicator. The call that frees it raises them, when it is done.

    Parameters
    ----------
    free : callable
        free(value) frees what is kept in the attribute.
    held : callable
        `hold_interrupts`.
    """

    cdef object _free, _held

    def __init__(self, free, held):
        self._free, self._held = free, held

    def __call__(self, comm, keyval, value):
        held = self._held()
        held.__enter__()
        try:
            self._free(value)
        finally:
            for number in held.end():  # Python code after this, here, would be interrupted in place of the caller's
                PyErr_SetInterruptEx(number)
