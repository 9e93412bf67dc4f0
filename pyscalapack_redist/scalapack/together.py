"""Ranks that enter the library together, or not at all; and routines that take nine integers with a communicator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from numpy.linalg import LinAlgError

from ..blacs.one_thread import one_thread
from ..comm.group import Group
from ..comm.groups import group_of
from ..comm.vote import Verdict, differ, error_in_words
from ..errors import CollectiveError
from ..layout.descriptor import Descriptor
from ..layout.distributed import takes_distributed
from ..layout.given import layout_on
from .calls import Entry, agreeing

__all__ = ["ConvergenceError", "SingularError", "first_value", "routine", "together"]

R = TypeVar("R")


class SingularError(LinAlgError):
    """A pivot is exactly zero."""


class ConvergenceError(LinAlgError):
    """An iteration of ScaLAPACK did not converge; in another layout it may."""


def routine(function: Callable[..., R]) -> Callable[..., R]:
    """Let a routine take distributed arrays in place of local arrays and layouts, and, with `comm`, nine integers as layouts.

    With `comm` the layouts are those on which all of its ranks agree, and what one rank finds wrong is raised on all of them.
    """
    signature = inspect.signature(function)

    @takes_distributed("local", "desc")
    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> R:
        bound = signature.bind(*arguments, **keywords)
        comm = bound.arguments.get("comm")
        if comm is None:
            grids = [desc.grid for desc in bound.arguments.values() if isinstance(desc, Descriptor)]
            with one_thread(wait=all(grid.size == 1 for grid in grids)) as busy:
                if busy is not None:
                    raise busy
                return function(*arguments, **keywords)
        for name, given in bound.arguments.items():
            if name.startswith("desc"):
                found = layout_on(given, comm, name)
                # as it was given, it has its BLACS context
                bound.arguments[name] = given if isinstance(given, Descriptor) else found
        made: list[R] = []
        together(
            group_of(comm),
            lambda: made.append(function(*bound.args, **bound.kwargs)),
        )
        return made[0]

    return call


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
        return _together(group, work, combined, error or busy)


def _together(
    group: Group,
    work: Callable[[], Any],
    combined: Callable[[list[Any]], Any] | None,
    error: BaseException | None,
) -> Any:
    choose = combined or first_value
    refused: BaseException | None = None
    value = None

    def answer(told: list[tuple[Any, Entry | None, Any]]) -> tuple[Any, Verdict, bool, Any]:
        """Of one round: the first error; in what calls differ; whether all have ended, and then the result."""
        nonlocal error
        wrong = next(((rank, *found) for rank, (found, _, _) in enumerate(told) if found is not None), None)
        entries = [entry for _, entry, _ in told]
        unlike = None if wrong is not None else _difference(entries)
        ended = wrong is None and entries.count(None) == len(told)
        try:
            return wrong, unlike, ended, choose([value for _, _, value in told]) if ended else None
        except Exception as caught:
            error = caught
            return (0, None, str(caught), error_in_words(caught)), None, False, None

    def agree(entry: Entry | None) -> tuple[bool, Any]:
        nonlocal refused
        kind = type(error) if isinstance(error, LinAlgError) else None
        mine = None if error is None else (kind, str(error), error_in_words(error))
        wrong, unlike, all_ended, result = group.combine((mine, entry, value), answer)
        if wrong is not None or unlike is not None:
            refused = _refusal(group, wrong, error) if unlike is None else CollectiveError(group.in_words(unlike))
            raise refused
        return all_ended, result

    try:
        with agreeing(agree):
            value = work() if error is None else None
    except BaseException as caught:
        if caught is refused:
            raise
        error = caught
    all_ended = False
    while not all_ended:  # ranks that have more to call have others that take part in what they agree on
        all_ended, result = agree(None)
    return result


def first_value(values: Sequence[Any]) -> Any:
    """The first that is not None; None if all are. Not collective."""
    return next((value for value in values if value is not None), None)


def _difference(entries: Sequence[Entry | None]) -> Verdict:
    """In what the calls of ranks differ, None being that of a rank which has ended; None if in nothing."""
    calls = [(rank, entry) for rank, entry in enumerate(entries) if entry is not None]
    for what in ("name", "words", "dtype"):
        first: dict[Any, tuple[int, str]] = {}
        for rank, entry in calls:
            said = getattr(entry, what)
            if said is not None:
                first.setdefault(said, (rank, f"{entry.name}{entry.words}" if what != "dtype" else said))
        if len(first) > 1:
            return differ("the dtype" if what == "dtype" else "the call of ScaLAPACK", list(first.values()))
    return None


def _refusal(
    group: Group, found: tuple[int, type[LinAlgError] | None, str, str], error: BaseException | None
) -> BaseException:
    """What this rank raises after what was found on a rank."""
    rank, kind, text, words = found
    if kind is not None:
        return kind(text)
    return error or CollectiveError(f"{group.names[rank]} could not take part: {words}")
