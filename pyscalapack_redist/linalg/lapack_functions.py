"""LAPACK's functions on this process, from `scipy.linalg.cython_lapack`: no library is needed beside SciPy.

SciPy exports them to Cython as capsules: the address, named by the signature in C. All arguments are pointers, as in Fortran.
The signature is compared with the arguments of a call, since another SciPy might have integers of 64 bits.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LibraryError

# The last word of a pointer's type in a signature: __pyx_t_5scipy_6linalg_13cython_lapack_d, __pyx_t_double_complex, ...
DTYPES = {
    "int": np.dtype(np.intc),
    "s": np.dtype(np.float32),
    "d": np.dtype(np.float64),
    "float_complex": np.dtype(np.complex64),
    "double_complex": np.dtype(np.complex128),
}
POINTER = re.compile(r"(?:__pyx_t_(?:\w*cython_lapack_)?)?(\w+) \*")
Argument = str | int | NDArray[Any]


def lapack_function(name: str) -> Callable[..., None]:
    """A function of LAPACK, such as "dbdsdc". Not collective.

    It takes LAPACK's arguments in their order: letters as str, integers as int, everything that is written as an array of one
    element or more, whose memory is contiguous. It returns nothing, and does not hold Python's interpreter lock.

    Raises
    ------
    LibraryError
        SciPy has no such function, or one with arguments that cannot be passed.
    """
    call, types = _entry_point(name)

    def function(*arguments: Argument) -> None:
        if len(arguments) != len(types):
            raise TypeError(f"{name} takes {len(types)} arguments, not {len(arguments)}")
        call(*(_pointer(name, k, argument, types[k]) for k, argument in enumerate(arguments)))

    return function


@functools.cache
def _entry_point(name: str) -> tuple[Callable[..., None], tuple[str, ...]]:
    """The function with its pointers as arguments, and the last words of their types."""
    import scipy
    from scipy.linalg import cython_lapack

    capsule = cython_lapack.__pyx_capi__.get(name)
    if capsule is None:
        raise LibraryError(
            f"scipy.linalg.cython_lapack of SciPy {scipy.__version__} has no {name}: install SciPy >= 1.15"
        )
    signature = _capsule_name(capsule)
    text = signature.decode()
    result, _, arguments = text.removesuffix(")").partition(" (")
    pointers = [POINTER.fullmatch(argument) for argument in arguments.split(", ")]
    types = tuple([pointer[1] if pointer else "" for pointer in pointers])
    if result != "void" or not {"char", *DTYPES}.issuperset(types):
        raise LibraryError(
            f"{name} of scipy.linalg.cython_lapack, SciPy {scipy.__version__}, is {text}: pyscalapack_redist calls only "
            "functions without a result, whose integers have 32 bits; please report this, and install another SciPy"
        )
    address = _capsule_address(capsule, signature)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(types))(address), types


def _capsule_name(capsule: Any) -> bytes:
    read = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    return read(capsule)  # type: ignore[no-any-return]


def _capsule_address(capsule: Any, name: bytes) -> int:
    read = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return read(capsule, name)  # type: ignore[no-any-return]


def _pointer(name: str, place: int, argument: Argument, kind: str) -> Any:
    """The address of an argument, in an object that keeps its memory."""
    if kind == "char" and isinstance(argument, str):
        return ctypes.c_char_p(argument.encode())
    if kind == "int" and isinstance(argument, int | np.integer):
        if not -(2**31) <= argument < 2**31:
            raise OverflowError(f"argument {place} of {name} is {argument}, and LAPACK's integers have 32 bits")
        return ctypes.byref(ctypes.c_int(int(argument)))
    if isinstance(argument, np.ndarray) and argument.dtype == DTYPES.get(kind):
        if not (argument.flags.forc and argument.flags.writeable):
            raise TypeError(f"argument {place} of {name} is an array that is not contiguous, or read-only")
        return argument.ctypes.data_as(ctypes.c_void_p)
    raise TypeError(f"argument {place} of {name} is {argument!r}: it must be of C's type {kind}")
