"""The beginning of a collective call: all ranks meet in a vote before a call of MPI or of a library that blocks.

A vote meets any other vote of the group: that of a plan, of an agreement, or of a rank that has failed. A gather-scatter alone
meets only its like. So where ranks make plans and gather-scatters in turn, each gather-scatter follows a vote.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

from .group import Group, first_known
from .guard import Guard
from .vote import Statement, Vote, digest


class Shared(Protocol):
    """An array of which each rank has a part."""

    @property
    def desc(self) -> Any:
        """Its layout, with a digest."""

    @property
    def dtype(self) -> Any:
        """Its dtype; None on a rank that does not know it."""

    @property
    def _dtype_digest(self) -> int | None:
        """A number equal on all ranks that have the same dtype; None on a rank that does not know it."""


def meet(
    group: Group,
    call: str,
    arguments: tuple[object, ...] = (),
    error: BaseException | None = None,
    deliver_interrupts: Callable[[], None] | None = None,
    array: Shared | None = None,
) -> None:
    """Wait until all ranks make a call. Collective over the group.

    With `deliver_interrupts` an interrupt until then is an error on all ranks.

    Parameters
    ----------
    group : Group
        The ranks.
    call : str
        The call, by its name.
    arguments : tuple
        Plain Python values that must be equal on all ranks.
    error : BaseException, optional
        An error of this rank in the arguments.
    deliver_interrupts : callable, optional
        Handles interrupts that the caller holds back.
    array : Shared, optional
        The array that is meant: of one layout and one dtype on all ranks.

    Raises
    ------
    BaseException
        `error` itself on the rank that has it.
    CollectiveError
        On the other ranks; on all ranks if they make different calls, or mean different arrays.
    WaitTimeoutError
        Other ranks did not come within the limit.
    """
    number, words = digest((call, arguments)), f"{call}({', '.join(map(repr, arguments))})"
    vote, statements = _vote(group, number, words if arguments else call, error, array)
    group.agree(vote, error, statements, lambda outcome: deliver_interrupts is not None, deliver_interrupts)


def _vote(
    group: Group, number: int, words: str, error: BaseException | None, array: Shared | None
) -> tuple[Vote, Callable[[], list[Statement]]]:
    """The vote on a call and on the array that it means, and the statements behind it."""
    failed, call = group.failure_code(error), Statement("the call", number, words)
    if array is None:
        return Vote(failed=failed, call=number), lambda: [call]
    layout, dtype = array.desc.layout_digest, array._dtype_digest
    return Vote(failed=failed, call=digest((number, layout)), dtype=dtype, pending=dtype is None), lambda: [
        call,
        Statement("the array's layout", layout, repr(array.desc)),
        Statement("the array's dtype", dtype, str(array.dtype)),
    ]


def agreed_dtype(group: Group, call: str, array: Shared, error: BaseException | None = None) -> Any:
    """As `meet`, and the dtype of the array, which ranks tell those that do not know it; None if no rank does. Collective."""
    vote, statements = _vote(group, _number_of(call), call, error, array)
    outcome = group.agree(vote, error, statements, lambda outcome: bool(outcome.pending))
    return group.combine(array.dtype, first_known) if outcome.pending else array.dtype


@functools.lru_cache(maxsize=256)
def _number_of(call: str) -> int:
    return digest(call)


def meet_and_combine(
    group: Group,
    call: str,
    value: Any = None,
    reduce: Callable[[list[Any]], Any] | None = None,
    error: BaseException | None = None,
    dozes: bool = False,
    array: Shared | None = None,
) -> Any:
    """As `Group.combine`, after a vote: if a rank is at another one, all ranks raise. Collective over the group.

    The vote reports interrupts that are held back, as an error.

    Parameters
    ----------
    group : Group
        The ranks.
    call : str
        What is combined, for the error text.
    value, reduce, error, dozes
        As for `Group.combine`.
    array : Shared, optional
        The array that is meant: of one layout and one dtype on all ranks.

    Raises
    ------
    BaseException
        `error` itself on the rank that has it.
    CollectiveError
        On the other ranks; on all ranks if they make different calls, or mean different arrays.
    """
    error = Guard(error).take_interrupts()
    vote, statements = _vote(group, _number_of(call), call, error, array)
    return group.agree_and_combine(vote, error, statements, value, reduce, dozes=dozes)
