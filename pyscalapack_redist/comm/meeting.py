"""The beginning of a collective call: all ranks meet in a vote before a call of MPI or of a library that blocks.

A vote meets any other vote of the group: that of a plan, of an agreement, or of a rank that has failed. A gather-scatter alone
meets only its like. So where ranks make plans and gather-scatters in turn, each gather-scatter follows a vote.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

from .group import Group
from .guard import Guard
from .vote import Statement, Vote, digest


class Laid(Protocol):
    """A layout."""

    @property
    def layout_digest(self) -> int:
        """A hash, equal on all ranks."""


def meet(
    group: Group,
    call: str,
    arguments: tuple[object, ...] = (),
    error: BaseException | None = None,
    deliver_interrupts: Callable[[], None] | None = None,
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

    Raises
    ------
    BaseException
        `error` itself on the rank that has it.
    CollectiveError
        On the other ranks; on all ranks if they make different calls.
    WaitTimeoutError
        Other ranks did not come within the limit.
    """
    number, words = digest((call, arguments)), f"{call}({', '.join(map(repr, arguments))})"
    vote = Vote(failed=group.failure_code(error), call=number)
    group.agree(
        vote,
        error,
        lambda: [Statement("the call", number, words)],
        lambda outcome: deliver_interrupts is not None,
        deliver_interrupts,
    )


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
    layout: Laid | None = None,
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
    layout : layout, optional
        Of an array that is meant: equal on all ranks.

    Raises
    ------
    BaseException
        `error` itself on the rank that has it.
    CollectiveError
        On the other ranks; on all ranks if they make different calls.
    """
    number, error = _number_of(call), Guard(error).take_interrupts()
    identity = number if layout is None else digest((number, layout.layout_digest))
    vote = Vote(failed=group.failure_code(error), call=identity)

    def statements() -> list[Statement]:
        return [Statement("the call", number, call), *([] if layout is None else [layout_statement(layout)])]

    return group.agree_and_combine(vote, error, statements, value, reduce, dozes=dozes)


def layout_statement(layout: Laid) -> Statement:
    """That the ranks mean an array in this layout."""
    return Statement("the array's layout", layout.layout_digest, repr(layout))
