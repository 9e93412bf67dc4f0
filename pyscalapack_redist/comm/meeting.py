"""The beginning of a collective call: all ranks meet in a vote before a call of MPI or of a library that blocks."""

from __future__ import annotations

from collections.abc import Callable

from .group import Group
from .vote import Statement, Vote, digest


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
