"""Callbacks for the deletion of attributes of communicators. MPI passes on no exception of theirs: mpi4py prints it."""

from cpython.exc cimport PyErr_SetInterruptEx


cdef class Deletion:
    """Holds interrupts back while an attribute is freed with its communicator; they are raised after that call.

    Parameters
    ----------
    free : callable
        free(value) frees the value of the attribute.
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
            for number in held.end():  # last, because an interrupt would hit Python code here instead of the caller's
                PyErr_SetInterruptEx(number)
