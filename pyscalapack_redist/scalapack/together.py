"""Ranks that enter the library together, or not at all.

A rank that fails before it enters the library, or enters it with other arguments, would leave the others waiting inside.
So all ranks agree before each call, and once more when they have made all of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from numpy.linalg import LinAlgError

from ..blacs.contexts import one_thread
from ..comm.group import Group, first_known
from ..comm.vote import Verdict, differ, error_in_words
from ..errors import CollectiveError

__all__ = ["ConvergenceError", "Entry", "SingularError", "agree_to_enter", "together"]


class SingularError(LinAlgError):
    """A pivot is exactly zero."""


class ConvergenceError(LinAlgError):
    """An iteration of ScaLAPACK did not converge; in another layout it may."""


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
        Makes one value of what all ranks returned, by rank; by default the first that is not None.
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
        nonlocal error
        refused = next((reply.error for reply in replies if reply.error is not None), None)
        calls = [(rank, reply.entry) for rank, reply in enumerate(replies) if reply.entry is not None]
        if refused is not None or calls:
            difference = None if refused is not None else _difference(calls)
            return refused if difference is None else CollectiveError(group.in_words(difference)), False, None
        try:
            return None, True, combined([reply.value for reply in replies])
        except Exception as caught:
            error = caught
            return _for_all(group, caught), False, None

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
    return CollectiveError(f"{group.names[group.rank]} could not take part: {error_in_words(error)}")


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
