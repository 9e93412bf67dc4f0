"""The library's Fortran routines called by name, and what a call leaves behind put back.

The PBLAS's topologies of broadcasts and combines are of the process, for all its grids. Routines set them for themselves and
back; netlib's p?orgqr does not set them back. The processes of another grid that had no part in that call then broadcast in
another way than those that had, and wait for each other for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import blacs
from ..errors import LibraryError
from ..layout.descriptor import Descriptor
from .operands import Operand

__all__ = ["Argument", "FortranCall", "over_grid", "topologies_kept", "workspace_size"]

Argument = str | int | NDArray[Any] | Operand
TOPOLOGIES = [
    (operation, scope) for operation in (b"Broadcast", b"Combine") for scope in (b"Rowwise", b"Columnwise", b"All")
]


class FortranCall:
    """A routine with its arguments as Fortran takes them; called, it is collective over the context of its operands.

    Parameters
    ----------
    name : str
        In lower case, such as "pdpotrf".
    arguments : sequence of str, int, ndarray or Operand
        A character, a 32-bit integer, an array by its address; an operand stands for its address, IA, JA and descriptor.
    result : ctypes type, optional
        Of a function.
    """

    def __init__(self, name: str, arguments: Sequence[Argument], result: Any = None) -> None:
        self._memory: list[Any] = []  # what is passed by its address
        addresses: list[int] = []
        for argument in arguments:
            if isinstance(argument, Operand):
                address, row, column, nine = argument.where
                addresses += [address, self._address(row), self._address(column), self._address(nine)]
            else:
                addresses.append(self._address(argument))
        # Fortran compilers pass the lengths of characters after all arguments
        self._addresses = addresses + [1 for argument in arguments if isinstance(argument, str)]
        routine = ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * len(self._addresses))
        self._routine = routine(blacs.load().routine(name))

    def _address(self, value: str | int | NDArray[Any]) -> int:
        if isinstance(value, np.ndarray):
            self._memory.append(value)
            return value.ctypes.data
        memory = ctypes.create_string_buffer(value.encode()) if isinstance(value, str) else ctypes.c_int(value)
        self._memory.append(memory)
        return ctypes.addressof(memory)

    def __call__(self) -> Any:
        return self._routine(*self._addresses)


def over_grid(name: str, numbers: NDArray[Any], desc: Descriptor) -> FortranCall:
    """BLACS's ?gamn2d or ?gamx2d, the least or largest of absolute values over the grid, element by element and in place."""
    place = np.zeros(1, np.intc)
    size = max(1, numbers.size)
    return FortranCall(name, (desc.grid.context, "A", " ", numbers.size, 1, numbers, size, place, place, -1, -1, -1))


def workspace_size(work: NDArray[Any]) -> int:
    """The size that a query has left in a workspace's first element.

    A floating-point number, which in single precision may be rounded down.
    """
    return int(work[0]) if work.dtype.kind == "i" else int(np.nextafter(work[0].real, np.inf)) + 1


@contextlib.contextmanager
def topologies_kept(ctxt: int) -> Iterator[None]:
    """Leave this process's topologies as they were, in whatever way the block ends. Not collective."""
    try:
        get, set_ = (ctypes.CFUNCTYPE(None)(blacs.load().routine(f"pb_top{name}")) for name in ("get", "set"))
    except LibraryError:  # then the library's routines cannot change them through these
        yield
        return
    context, before = ctypes.byref(ctypes.c_int(ctxt)), _topologies(get, ctxt)
    try:
        yield
    finally:
        for (operation, scope), old, new in zip(TOPOLOGIES, before, _topologies(get, ctxt), strict=True):
            if old != new:
                set_(context, operation, scope, old, *_lengths(operation, scope))


def _topologies(get: ctypes._FuncPointer, ctxt: int) -> list[bytes]:
    letters = []
    for operation, scope in TOPOLOGIES:
        letter = ctypes.create_string_buffer(1)
        get(ctypes.byref(ctypes.c_int(ctxt)), operation, scope, letter, *_lengths(operation, scope))
        letters.append(letter.raw)
    return letters


def _lengths(operation: bytes, scope: bytes) -> list[ctypes.c_size_t]:
    """Of the three characters, which Fortran compilers pass after all arguments."""
    return [ctypes.c_size_t(len(operation)), ctypes.c_size_t(len(scope)), ctypes.c_size_t(1)]
