"""Calls of the library's Fortran routines: by name, by all ranks together or not at all, and what they leave behind put back.

A rank that fails before it enters the library, or enters it with other arguments, would leave the others waiting inside.
So all ranks agree before each call, and once more when they have made all of theirs.

The PBLAS's topologies of broadcasts and combines are of the process, for all its grids. Routines set them for themselves and
back; netlib's p?orgqr does not set them back. The processes of another grid that had no part in that call then broadcast in
another way than those that had, and wait for each other for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from .. import blacs
from ..blacs.contexts import one_thread
from ..comm.group import Group, first_known
from ..comm.vote import Verdict, describe_error, differ
from ..errors import CollectiveError, LibraryError
from ..layout.descriptor import Descriptor
from .matrix_operands import Operand

OPERAND_INTEGERS = 11  # IA, JA and the descriptor
TOPOLOGIES = [
    (operation, scope) for operation in ("Broadcast", "Combine") for scope in ("Rowwise", "Columnwise", "All")
]


class SingularError(LinAlgError):
    """A pivot is exactly zero."""


class ConvergenceError(LinAlgError):
    """An iteration of ScaLAPACK did not converge; in another layout it may."""


# -- one call on this rank


class FortranCall:
    """A routine with its arguments as Fortran takes them; called, it is collective over the context of its operands.

    Parameters
    ----------
    name : str
        In lower case, such as "pdpotrf".
    arguments : sequence of str, int, ndarray or Operand
        Characters, a 32-bit integer, an array by its address; an operand stands for its address, IA, JA and descriptor.
    result : ctypes type, optional
        Of a function.
    """

    def __init__(
        self, name: str, arguments: Sequence[str | int | np.integer | NDArray[Any] | Operand], result: Any = None
    ) -> None:
        integers = (ctypes.c_int * (OPERAND_INTEGERS * len(arguments)))()
        start, size, used = ctypes.addressof(integers), ctypes.sizeof(ctypes.c_int), 0
        values: list[int | bytes] = []
        lengths: list[int] = []
        for argument in arguments:
            place = start + size * used
            if isinstance(argument, Operand):
                integers[used : used + OPERAND_INTEGERS] = argument.integers  # type: ignore[assignment]
                used += OPERAND_INTEGERS
                values += [argument.address, place, place + size, place + 2 * size]
            elif isinstance(argument, str):
                values.append(argument.encode())
                lengths.append(len(argument))
            elif isinstance(argument, np.ndarray):
                values.append(argument.ctypes.data)
                lengths += [argument.itemsize] * (argument.dtype.kind == "S")
            else:
                integers[used] = int(argument)
                used += 1
                values.append(place)
        self.arguments, self._integers = arguments, integers  # as long as the call, which has their addresses
        self._values = [*values, *lengths]  # Fortran compilers pass the lengths of characters after all arguments
        self._routine = _entry_point(blacs.load(), name, len(self._values), result)

    def __call__(self) -> Any:
        return self._routine(*self._values)


@functools.cache
def _entry_point(library: blacs.Library, name: str, count: int, result: Any) -> Callable[..., Any]:
    return ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * count)(library.routine(name))


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


class Topologies:
    """At the end of a block this process's topologies are what they were, in whatever way it ends. Not collective."""

    def __init__(self, ctxt: int) -> None:
        self._ctxt, self._letters, self._readers = ctxt, np.zeros(len(TOPOLOGIES), "S1"), list[FortranCall]()
        with contextlib.suppress(LibraryError):  # then the library's routines cannot change them through these
            for k, kind in enumerate(TOPOLOGIES):
                self._readers.append(FortranCall("pb_topget", (ctxt, *kind, self._letters[k : k + 1])))

    def _read(self) -> list[bytes]:
        for read in self._readers:
            read()
        letters: list[bytes] = self._letters.tolist()
        return letters

    def __enter__(self) -> None:
        self._before = self._read()

    def __exit__(self, *_: object) -> None:
        for kind, old, new in zip(TOPOLOGIES, self._before, self._read(), strict=True):
            if old != new:
                FortranCall("pb_topset", (self._ctxt, *kind, old.decode()))()


@functools.lru_cache(maxsize=16)
def topologies_of(ctxt: int) -> Topologies:
    """Those that a context sees. Not collective."""
    return Topologies(ctxt)


# -- the calls of all ranks


class Entry(NamedTuple):
    """What all ranks that enter a routine must have alike: its letters and numbers, and the dtype, None without elements."""

    name: str
    words: tuple[str | int, ...]
    dtype: str | None


class Reply(NamedTuple):
    """What a rank tells in a round: what all raise; the call that it is about to make, None after its last; its result."""

    error: Exception | None
    entry: Entry | None
    value: Any


_agree: ContextVar[Callable[[Entry], object] | None] = ContextVar("agree", default=None)


def agree_to_enter(entry: Callable[[], Entry]) -> None:
    """Before the library is entered, once this rank has all that it needs. Collective inside of `together`."""
    agree = _agree.get()
    if agree is not None:
        agree(entry())


def together(
    group: Group,
    work: Callable[[], Any],
    combined: Callable[[list[Any]], Any] | None = None,
    error: BaseException | None = None,
) -> Any:
    """Call ScaLAPACK; what a rank finds is raised on all. Before each call all agree that all can make it. Collective.

    Parameters
    ----------
    group : Group
        The ranks.
    work : callable
        What this rank calls. What it returns is told to all ranks.
    combined : callable, optional
        Makes one value of what all ranks returned, by rank, on the first one; by default the first that is not None.
    error : BaseException, optional
        What this rank has found wrong before; then it calls nothing.

    Raises
    ------
    numpy.linalg.LinAlgError
        The same on all ranks.
    LibraryError
        Another thread of this process is in the library; with one rank it waits for that.
    CollectiveError
        Another rank found something else.
    """
    with one_thread(wait=group.size == 1) as busy:
        return _together(group, work, combined or first_known, error or busy)


def _together(
    group: Group, work: Callable[[], Any], combined: Callable[[list[Any]], Any], error: BaseException | None
) -> Any:
    refusal: BaseException | None = None
    value = None

    def answer(replies: list[Reply]) -> tuple[Exception | None, bool, Any]:
        """Of one round: the first error, whether all have ended, and then the result."""
        refused = next((reply.error for reply in replies if reply.error is not None), None)
        calls = [(rank, reply.entry) for rank, reply in enumerate(replies) if reply.entry is not None]
        if refused is None and calls:
            difference = _difference(calls)
            refused = None if difference is None else CollectiveError(group.in_words(difference))
        all_ended = refused is None and not calls
        return refused, all_ended, combined([reply.value for reply in replies]) if all_ended else None

    def agree(entry: Entry | None) -> tuple[bool, Any]:
        nonlocal refusal
        reply = Reply(None if error is None else _for_all(group, error), entry, value)
        refused, all_ended, result = group.combine(reply, answer)
        if refused is not None:
            refusal = refused if isinstance(refused, LinAlgError) else error or refused
            raise refusal
        return all_ended, result

    token = _agree.set(agree)
    try:
        value = work() if error is None else None
    except BaseException as caught:
        if caught is refusal:
            raise
        error = caught
    finally:
        _agree.reset(token)
    all_ended = False
    while not all_ended:  # ranks that have more to call have others that take part in what they agree on
        all_ended, result = agree(None)
    return result


def _for_all(group: Group, error: BaseException) -> Exception:
    """What ranks raise where this one has an error."""
    if isinstance(error, LinAlgError):
        return type(error)(str(error))
    return CollectiveError(f"{group.names[group.rank]} could not take part: {describe_error(error)}")


def _difference(calls: list[tuple[int, Entry]]) -> Verdict:
    """In what the calls of ranks differ; None if in nothing."""
    for field in ("name", "words", "dtype"):
        different: dict[Any, tuple[int, str]] = {}
        for rank, entry in calls:
            value = getattr(entry, field)
            if value is not None:
                different.setdefault(value, (rank, value if field == "dtype" else f"{entry.name}{entry.words}"))
        if len(different) > 1:
            return differ("the dtype" if field == "dtype" else "the call of ScaLAPACK", list(different.values()))
    return None
