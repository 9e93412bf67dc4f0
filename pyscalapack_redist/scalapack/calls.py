"""Calls of the library's Fortran routines by name, by all ranks or by none; afterwards the PBLAS's topologies are restored.

A rank that fails before it enters the library, or enters it with other arguments, would leave other ranks waiting inside. So
all ranks agree before each call, and once more after their last call.

The PBLAS's topologies of broadcasts and combines belong to the process, for all its grids. Routines change them and set them
back, but netlib's p?orgqr does not set them back. The ranks of another grid would then broadcast in different ways, and wait
for each other for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from .. import blacs
from ..blacs.contexts import one_thread
from ..comm.agreement import agreement
from ..comm.group import Group, first_known
from ..comm.groups import MPIGroup, check_alive, group_of
from ..comm.guard import Guard
from ..comm.vote import Verdict, describe_dispute, describe_error
from ..errors import CollectiveError, LibraryError, RedistributionError
from ..layout.descriptor import Descriptor
from .matrix_operands import Operand

OPERAND_INTEGERS = 11  # IA, JA and the descriptor
STEP = "a step of linalg, or of a call of ScaLAPACK"  # in errors
TOPOLOGIES = [
    (operation, scope) for operation in ("Broadcast", "Combine") for scope in ("Rowwise", "Columnwise", "All")
]


class SingularError(LinAlgError):
    """A pivot is exactly zero."""


class ConvergenceError(LinAlgError):
    """An iteration of ScaLAPACK did not converge; it may converge in another layout."""


class NotFiniteError(ConvergenceError):
    """There are infs or NaNs, which a matrix had from the beginning, or where numbers overflow."""


def require_finite(routine: str, *are_finite: bool) -> None:
    """Refuse numbers from which a routine that iterates might never return. Not collective, but an error of all in a call."""
    if not all(are_finite):
        raise NotFiniteError(f"{routine}: the matrix has infs or NaNs, with which an iteration might not end")


# -- one call on this rank


class FortranCall:
    """A routine with its arguments in Fortran's form. The call is collective over the context of its operands.

    Parameters
    ----------
    name : str
        Name in lower case, such as "pdpotrf".
    arguments : sequence of str, int, ndarray or Operand
        Characters, 32-bit integers, and arrays, passed by their addresses. An operand stands for its address, IA, JA and
        descriptor.
    result : ctypes type, optional
        Type of the return value of a function.
    """

    def __init__(
        self, name: str, arguments: Sequence[str | int | np.integer | NDArray[Any] | Operand], result: Any = None
    ) -> None:
        integers = (ctypes.c_int * (OPERAND_INTEGERS * len(arguments)))()
        start, size, used = ctypes.addressof(integers), ctypes.sizeof(ctypes.c_int), 0
        values: list[int | bytes] = []
        lengths: list[int] = []
        for argument in arguments:
            address = start + size * used
            if isinstance(argument, Operand):
                integers[used : used + OPERAND_INTEGERS] = argument.integers  # type: ignore[assignment]
                used += OPERAND_INTEGERS
                values += [argument.address, address, address + size, address + 2 * size]
            elif isinstance(argument, str):
                values.append(argument.encode())
                lengths.append(len(argument))
            elif isinstance(argument, np.ndarray):
                values.append(argument.ctypes.data)
                lengths += [argument.itemsize] * (argument.dtype.kind == "S")
            else:
                integers[used] = int(argument)
                used += 1
                values.append(address)
        self.arguments, self._integers = arguments, integers  # referenced here: the call has their addresses
        self._values = [*values, *lengths]  # Fortran compilers pass the lengths of characters after all arguments
        self._routine = _entry_point(blacs.load(), name, len(self._values), result)

    def __call__(self) -> Any:
        return self._routine(*self._values)


@functools.cache
def _entry_point(library: blacs.Library, name: str, count: int, result: Any) -> Callable[..., Any]:
    return ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * count)(library.routine(name))


def extreme_over_grid(name: str, numbers: NDArray[Any], desc: Descriptor) -> FortranCall:
    """Return a call of ?gamn2d or ?gamx2d: least or largest absolute values over the grid, element by element, in place."""
    location = np.zeros(1, np.intc)
    size = max(1, numbers.size)
    return FortranCall(name, (desc.grid.context, "A", " ", numbers.size, 1, numbers, size, location, location, -1, -1, -1))


def workspace_size(work: NDArray[Any]) -> int:
    """Return the workspace size that a query has written to the first element.

    A floating-point size may have been rounded down in single precision; the next larger number is taken.
    """
    return int(work[0]) if work.dtype.kind == "i" else int(np.nextafter(work[0].real, np.inf)) + 1


class Topologies:
    """A context manager that restores this process's topologies at the end of its block."""

    def __init__(self, ctxt: int) -> None:
        self._ctxt, self._letters, self._readers = ctxt, np.zeros(len(TOPOLOGIES), "S1"), list[FortranCall]()
        with contextlib.suppress(LibraryError):  # without pb_topget no routine of the library changes them
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
    """Return the topologies of a context."""
    return Topologies(ctxt)


# -- the calls of all ranks


class Entry(NamedTuple):
    """A call, equal on all ranks that enter it: its name, letters and numbers, the layouts of its matrices, and the dtype.

    The dtype is None without elements. Of each layout there are the digest and, for errors, the description.
    """

    name: str
    words: tuple[str | int, ...]
    dtype: str | None
    layouts: tuple[int, ...] = ()
    descriptions: tuple[str, ...] = ()


class Reply(NamedTuple):
    """A rank's contribution to an agreement: an error for all ranks; its next call, None after its last one; its result."""

    error: Exception | None
    entry: Entry | None
    value: Any


class Together(NamedTuple):
    """What a call of `run_together` has for the routines inside: its ranks, and how they agree to enter the library."""

    group: Group
    agree: Callable[[Entry], object]


_together: ContextVar[Together | None] = ContextVar("together", default=None)


def agree_to_enter(entry: Callable[[], Entry]) -> None:
    """Agree with all ranks to enter the library; a rank has its memory by then. Collective inside `run_together`."""
    together = _together.get()
    if together is not None:
        together.agree(entry())


def at_work(desc: Descriptor) -> contextlib.AbstractContextManager[None]:
    """Say to ranks outside a grid, and to those that are done, that its ranks work in the block: `Group.at_work`."""
    together = _together.get()
    return contextlib.nullcontext() if together is None else together.group.at_work(desc.grid.coords == (0, 0))


def inside_run_together() -> bool:
    """Whether this call is part of one of `run_together`, whose ranks agree. Not collective."""
    return _together.get() is not None


def group_of_context(descs: Sequence[Descriptor], context: object) -> MPIGroup | None:
    """The ranks that must enter the library together: those of the context if it is given, else of the grids.

    None on a rank outside, and where the grids or the context are such that the call itself raises an error.
    """
    comm = next((desc.grid.comm for desc in descs if desc.grid.comm is not None), None)
    if comm is None:
        return None
    check_alive(comm)
    try:
        ranks = {rank for desc in descs for rank in desc.grid.on(comm).ranks.ravel().tolist()}
        if context is not None:
            ctxt = operator.index(context)  # type: ignore[arg-type]
            ranks = ranks.union(blacs.context_grid(ctxt, comm)[2].ravel().tolist()) if ctxt >= 0 else set()
    except (RedistributionError, TypeError):
        return None
    return group_of(comm, tuple(sorted(ranks))) if comm.Get_rank() in ranks else None


def run_together(
    group: Group,
    work: Callable[[], Any],
    combined: Callable[[list[Any]], Any] | None = None,
    error: BaseException | None = None,
) -> Any:
    """Call ScaLAPACK on all ranks, which agree before each call; an error of one rank is raised on all. Collective.

    Parameters
    ----------
    group : Group
        The ranks.
    work : callable
        Calls the library on this rank. Its return value is sent to all ranks.
    combined : callable, optional
        Combines the return values of all ranks, by rank, on the first rank; by default the first that is not None.
    error : BaseException, optional
        An earlier error of this rank; it then calls nothing.

    Raises
    ------
    numpy.linalg.LinAlgError
        The same error on all ranks.
    LibraryError
        Another thread of this process is in the library; with one rank it waits for that thread.
    CollectiveError
        Another rank raised a different error.
    """
    with one_thread(wait=group.size == 1) as busy:
        return _run_together(group, work, combined or first_known, error or busy)


def _run_together(
    group: Group, work: Callable[[], Any], combined: Callable[[list[Any]], Any], error: BaseException | None
) -> Any:
    refusal: BaseException | None = None
    value = None

    def combine_replies(replies: list[Reply]) -> tuple[Exception | None, bool, Any]:
        """Return the first error, whether all ranks have made their last call, and then the result."""
        refused = next((reply.error for reply in replies if reply.error is not None), None)
        calls = [(rank, reply.entry) for rank, reply in enumerate(replies) if reply.entry is not None]
        if refused is None and calls:
            difference = _difference(calls)
            refused = None if difference is None else CollectiveError(group.format_verdict(difference))
        all_ended = refused is None and not calls
        return refused, all_ended, combined([reply.value for reply in replies]) if all_ended else None

    def agree(entry: Entry | None) -> tuple[bool, Any]:
        nonlocal refusal
        error = guard.take_interrupts()
        reply = Reply(None if error is None else _for_all(group, error), entry, value)
        try:
            with agreement(group, STEP, combine=combine_replies, open=False) as agreed:
                agreed.give(reply)
            refused, all_ended, result = agreed.result
        except BaseException as caught:  # of all ranks: one has left the work, or the values cannot be combined
            refusal = caught
            raise
        if refused is not None:
            refusal = refused if isinstance(refused, LinAlgError) else error or refused
            raise refusal
        return all_ended, result

    # Interrupts become errors at the next agreement: the work has several.
    with Guard(error) as guard:
        token = _together.set(Together(group, agree))
        try:
            if error is None:
                with guard.block(passes=lambda caught: caught is refusal, is_open=False):
                    value = work()
        finally:
            _together.reset(token)
        all_ended = False
        while not all_ended:  # take part in the agreements of ranks that have more calls
            all_ended, result = agree(None)
    return result


def _for_all(group: Group, error: BaseException) -> Exception:
    """Return the error that all ranks raise for an error of this rank."""
    if isinstance(error, LinAlgError):
        return type(error)(str(error))
    return CollectiveError(f"{group.names[group.rank]} could not take part: {describe_error(error)}")


def _difference(calls: list[tuple[int, Entry]]) -> Verdict:
    """Return the difference between the calls of ranks; None if they are equal."""
    fields: dict[str, tuple[str, Callable[[Entry], str]]] = {
        "name": ("the call of ScaLAPACK", lambda entry: f"{entry.name}{entry.words}"),
        "words": ("the call of ScaLAPACK", lambda entry: f"{entry.name}{entry.words}"),
        "layouts": ("the layout of each matrix", lambda entry: ", ".join(entry.descriptions)),
        "dtype": ("the dtype", lambda entry: str(entry.dtype)),
    }
    for field, (what, text) in fields.items():
        different: dict[Any, tuple[int, str]] = {}
        for rank, entry in calls:
            value = getattr(entry, field)
            if value is not None:
                different.setdefault(value, (rank, text(entry)))
        if len(different) > 1:
            return describe_dispute(what, list(different.values()))
    return None
