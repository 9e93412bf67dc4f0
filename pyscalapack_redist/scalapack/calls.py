"""Calls of the library's Fortran routines by name, with workspaces of the size that the routine asks for."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import blacs, tracing
from ..layout.descriptor import Descriptor
from .operands import KIND_OF_DTYPE, Operand, check_info
from .topologies import kept

__all__ = [
    "Entry",
    "agreeing",
    "call",
    "call_with_info",
    "call_with_workspace",
    "dtype_of",
    "entering",
    "norm_of",
    "over_grid",
    "ready",
    "size_told",
]

Argument = str | int | NDArray[Any] | Operand

_agree: ContextVar[Callable[[Entry], object] | None] = ContextVar("agree", default=None)


class Entry(NamedTuple):
    """What all ranks that enter a routine must have alike: its letters and numbers, and the dtype, None without elements."""

    name: str
    words: tuple[str | int, ...]
    dtype: str | None

    @classmethod
    def of(cls, name: str, arguments: Sequence[Argument]) -> Entry:
        """Of a routine by its name for one dtype, which a rank without elements may have chosen freely."""
        words = tuple([value for value in arguments if isinstance(value, str | int)])
        operands = [value for value in arguments if isinstance(value, Operand)]
        dtypes = [str(found.array.dtype) for found in operands if found.array is not None and found.array.size]
        generic = name[2:].replace("he", "sy", 1) if name[2:4] == "he" else name[2:].replace("un", "or", 1)
        return cls(f"p?{generic}", words, dtypes[0] if dtypes else None)


@contextlib.contextmanager
def agreeing(agree: Callable[[Entry], object]) -> Iterator[None]:
    """In the block, `agree` is called before the library is entered: this rank has all that it needs. Not collective.

    A rank that fails before that does not enter, and the others would wait for it inside; where `agree` raises they do not.
    """
    token = _agree.set(agree)
    try:
        yield
    finally:
        _agree.reset(token)


def ready(name: str, *arguments: Argument) -> None:
    """Before the library is entered, with what all ranks must have alike. Collective where `agreeing` is."""
    agree = _agree.get()
    if agree is not None:
        agree(Entry.of(name, arguments))


@contextlib.contextmanager
def entering(name: str, desc: Descriptor | None, *arguments: Argument) -> Iterator[None]:
    """A call of the library, which takes no memory of ours any more. Collective where `agreeing` is."""
    ready(name, *arguments)
    keeping = contextlib.nullcontext() if desc is None or desc.grid.coords is None else kept(desc.grid.context)
    with tracing.phase(name, desc, desc), keeping:
        yield


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
    routine = _Call(name, arguments, result)
    with entering(name, routine.desc, *arguments):
        return routine()


class _Call:
    """A routine with its arguments as Fortran takes them."""

    def __init__(self, name: str, arguments: tuple[Argument, ...], result: Any = None) -> None:
        self._routine = ctypes.CFUNCTYPE(result)(blacs.load().routine(name))
        self._kept = arguments  # the arrays whose addresses are passed
        self._passed: list[Any] = []
        for argument in arguments:
            if isinstance(argument, Operand):
                address, row, column, nine = argument.where
                self._passed += [ctypes.c_void_p(address), _by_reference(row), _by_reference(column)]
                self._passed.append(ctypes.c_void_p(nine.ctypes.data))
            elif isinstance(argument, str):
                self._passed.append(ctypes.c_char_p(argument.encode()))
            elif isinstance(argument, np.ndarray):
                self._passed.append(ctypes.c_void_p(argument.ctypes.data))
            else:
                self._passed.append(_by_reference(argument))
        # Fortran compilers pass the lengths of characters after all arguments
        self._passed += [ctypes.c_size_t(1) for argument in arguments if isinstance(argument, str)]

    @property
    def desc(self) -> Descriptor | None:
        return next((argument.desc for argument in self._kept if isinstance(argument, Operand)), None)

    def __call__(self) -> Any:
        return self._routine(*self._passed)


def _by_reference(number: int) -> Any:
    return ctypes.byref(ctypes.c_int(number))


def call_with_info(name: str, *arguments: Argument) -> int:
    """Call a routine, with INFO as its last argument, and return that, which is not negative. Collective, as `call`."""
    info = np.zeros(1, np.intc)
    call(name, *arguments, info)
    return _checked(name, info, arguments)


def _checked(name: str, info: NDArray[np.intc], arguments: Sequence[Argument]) -> int:
    check_info(name, int(info[0]), *(argument for argument in arguments if isinstance(argument, Operand)))
    return int(info[0])


def over_grid(name: str, numbers: NDArray[Any], desc: Descriptor) -> Callable[[], None]:
    """Prepare BLACS's ?gamn2d or ?gamx2d, the least or largest of absolute values, element by element and in place.

    Its call is collective over the grid.
    """
    place = np.zeros(1, np.intc)
    size = max(1, numbers.size)
    return _Call(name, (desc.grid.context, "A", " ", numbers.size, 1, numbers, size, place, place, -1, -1, -1))


def norm_of(which: str, kind: str, desc: Descriptor, matrix: Operand) -> float:
    """A norm by p?lange: "M", "1", "I" or "F". Collective over the grid.

    It compares what it has found, and so loses what is no number; that is looked for here.
    """
    real = np.zeros(0, dtype_of(kind)).real.dtype
    work = np.zeros(max(1, *desc.local_shape) + desc.block[0], real)
    result = ctypes.c_float if real.itemsize == 4 else ctypes.c_double
    routine = _Call(f"p{kind}lange", (which, *desc.shape, matrix, work), result)
    rows, numbers = desc.local_shape[0], np.ones(1, np.intc)
    everywhere = over_grid("igamn2d", numbers, desc)
    numbers[0] = matrix.array is None or not np.isnan(matrix.array[:rows]).any()
    with entering(f"p{kind}lange", desc, which, *desc.shape, matrix):
        found = routine()
        everywhere()
    return float(found) if numbers[0] else float("nan")


def call_with_workspace(
    name: str, kinds: str, *arguments: Argument, more: tuple[NDArray[Any], ...] = (), missing: int = 0
) -> int:
    """Ask a routine what workspaces it needs, call it with these, and return its INFO, as `call_with_info`. Collective.

    Parameters
    ----------
    name : str
        The routine.
    kinds : str
        Letters of the workspaces' dtypes, in their order: "di" for WORK, LWORK, IWORK, LIWORK.
    *arguments
        Those before WORK and LWORK.
    more : tuple of ndarray
        Workspaces of known size that come then, before INFO.
    missing : int
        Elements that it needs beyond what it asks for, in each workspace of floating-point numbers.
    """
    info = np.zeros(1, np.intc)

    def with_workspaces(sizes: list[int], arrays: list[NDArray[Any]]) -> _Call:
        pairs = [part for pair in zip(arrays, sizes, strict=True) for part in pair]
        return _Call(name, (*arguments, *pairs, *more, info))

    asked = [np.zeros(1, dtype_of(kind)) for kind in kinds]
    query = with_workspaces([-1] * len(asked), asked)
    ready(name, *arguments)  # a query compares its arguments on all processes
    query()
    _checked(name, info, arguments)
    sizes = [
        max(1, int(array[0]) if kind == "i" else size_told(array) + missing)
        for kind, array in zip(kinds, asked, strict=True)
    ]
    routine = with_workspaces(sizes, [np.zeros(size, dtype_of(kind)) for size, kind in zip(sizes, kinds, strict=True)])
    with entering(name, routine.desc, *arguments):
        routine()
    return _checked(name, info, arguments)
