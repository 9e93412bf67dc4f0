"""Calls of the library's Fortran routines by name, with workspaces of the size that the routine asks for."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import blacs
from ..layout.descriptor import Descriptor
from .operands import KIND_OF_DTYPE, Operand

__all__ = ["call", "call_with_workspace", "dtype_of", "norm_of", "size_told"]

Argument = str | int | NDArray[Any] | Operand


def dtype_of(kind: str) -> np.dtype[Any]:
    """The dtype of a routine's letter. Not collective."""
    return next(dtype for dtype, letter in KIND_OF_DTYPE.items() if letter == kind)


def size_told(work: NDArray[Any]) -> int:
    """The size that a query has left in a workspace's first element.

    It is told as a floating-point number, which in single precision may be rounded down.
    """
    return int(np.nextafter(work[0].real, np.inf)) + 1


def call(name: str, *arguments: Argument, result: Any = None) -> Any:
    """Call a Fortran routine. Collective over the context of its operands.

    Parameters
    ----------
    name : str
        In lower case, such as "pdpotrf".
    *arguments : str, int, ndarray or Operand
        A character, a 32-bit integer, an array by its address; an operand stands for its address, IA, JA and descriptor.
    result : ctypes type, optional
        Of a function.
    """
    passed: list[Any] = []
    for argument in arguments:
        if isinstance(argument, Operand):
            address, row, column, nine = argument.where
            passed += [ctypes.c_void_p(address), ctypes.byref(ctypes.c_int(row)), ctypes.byref(ctypes.c_int(column))]
            passed.append(ctypes.c_void_p(nine.ctypes.data))
        elif isinstance(argument, str):
            passed.append(ctypes.c_char_p(argument.encode()))
        elif isinstance(argument, np.ndarray):
            passed.append(ctypes.c_void_p(argument.ctypes.data))
        else:
            passed.append(ctypes.byref(ctypes.c_int(argument)))
    # Fortran compilers pass the lengths of characters after all arguments
    lengths = [ctypes.c_size_t(1) for argument in arguments if isinstance(argument, str)]
    return ctypes.CFUNCTYPE(result)(blacs.load().routine(name))(*passed, *lengths)


def norm_of(which: str, kind: str, desc: Descriptor, matrix: Operand) -> float:
    """A norm by p?lange: "M", "1", "I" or "F". Collective over the grid."""
    real = np.zeros(0, dtype_of(kind)).real.dtype
    work = np.zeros(max(1, *desc.local_shape) + desc.block[0], real)
    result = ctypes.c_float if real.itemsize == 4 else ctypes.c_double
    return float(call(f"p{kind}lange", which, *desc.shape, matrix, work, result=result))


def call_with_workspace(
    name: str, kind: str, *arguments: Argument, integers: bool = False, more: tuple[NDArray[Any], ...] = ()
) -> int:
    """Ask a routine what workspace it needs, call it with that, and return its INFO. Collective, as `call`.

    Parameters
    ----------
    name : str
        The routine.
    kind : str
        Letter of the workspace's dtype.
    *arguments
        Those before WORK and LWORK.
    integers : bool
        Whether IWORK and LIWORK come after these.
    more : tuple of ndarray
        Workspaces of known size that come then, before INFO.
    """
    work, whole_work, sizes = np.zeros(1, dtype_of(kind)), np.zeros(1, np.intc), (-1, -1)
    info = np.zeros(1, np.intc)
    for _ in range(2):
        last: tuple[Argument, ...] = (work, sizes[0], *((whole_work, sizes[1]) if integers else ()), *more, info)
        call(name, *arguments, *last)
        if info[0] or sizes[0] > 0:
            break
        sizes = max(1, size_told(work)), max(1, int(whole_work[0]))
        work, whole_work = np.zeros(sizes[0], work.dtype), np.zeros(sizes[1], np.intc)
    return int(info[0])
