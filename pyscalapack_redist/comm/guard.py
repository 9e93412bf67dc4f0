"""The guard of what a rank does before a vote, the only place where such work is caught.

Other ranks wait for this rank's vote, so whatever ends its work must go into that: any exception, an interrupt, the end of the
program. docs/protocol.md has what the others raise then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from .progress import current_hold, hold_interrupts

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Guard:
    """The error of what this rank does before a vote. As a context it lasts until the vote is counted. Not collective.

        with Guard() as guard:
            value = guard.attempt(read)
            error = guard.take_interrupts()
            group.agree(Vote(failed=group.failure_code(error)), error, ..., guard.deliver_interrupts)

    Signals come in the work that it attempts, and are held back before and after that. So none comes between the work and the
    vote; `take_interrupts` makes errors of those that are held back.

    Parameters
    ----------
    error : BaseException, optional
        An earlier error of this rank.

    Attributes
    ----------
    error : BaseException or None
        The first error.
    """

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    def __enter__(self) -> Self:
        self._held = hold_interrupts().__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._held.__exit__(*exception)

    def attempt(self, work: Callable[[], T], is_open: bool = True) -> T | None:
        """The result of `work`; None if it raises anything, which is kept if it is the first error.

        With `is_open` interrupts end it at once, those too that have arrived before. Work that waits for other ranks is not
        open: an interrupt would leave them in its middle.
        """
        held = current_hold() if is_open else None
        if held is None:
            try:
                return work()
            except BaseException as caught:
                self._keep(caught)
                return None
        was_open = held.is_open
        try:
            held.is_open = True
            held.deliver_interrupts()
            result = work()
            held.is_open = was_open
            return result
        except BaseException as caught:  # no signal is handled before the next statement is done
            held.is_open = was_open
            self._keep(caught)
            return None

    def _keep(self, error: BaseException) -> None:
        """Keep an error, if it is the first; raise one that passes all guards."""
        if error is hold_interrupts.forced:
            raise error
        if error.__traceback__ is not None:  # without the frame of `attempt`, which refers to this guard
            error.__traceback__ = error.__traceback__.tb_next
        self.error = self.error or error

    def block(self, passes: Callable[[BaseException], bool] | None = None, is_open: bool = True) -> GuardedWork:
        """A context for work as `attempt` does it; errors for which `passes` is true leave it."""
        return GuardedWork(self, passes, is_open)

    def take_interrupts(self) -> BaseException | None:
        """Make errors of the interrupts that have arrived; return this rank's error, for the vote that is cast next."""
        held = current_hold()
        if held is not None and held.pending:
            self.attempt(held.deliver_interrupts)
        return self.error

    def deliver_interrupts(self) -> None:
        """Handle the interrupts that have arrived. Called while this rank waits for the vote."""
        self._held.deliver_interrupts()


class GuardedWork:
    """The context of a guard's work."""

    def __init__(self, guard: Guard, passes: Callable[[BaseException], bool] | None, is_open: bool) -> None:
        self._guard, self._passes = guard, passes
        self._held = current_hold() if is_open else None
        self._was_open = self._held is not None and self._held.is_open

    def __enter__(self) -> None:
        if self._held is not None:
            self._held.is_open = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if self._held is not None:
            self._held.is_open = self._was_open
        if error is None or error is hold_interrupts.forced or (self._passes is not None and self._passes(error)):
            return False
        self._guard.error = self._guard.error or error
        return True


# the work has begun, or has ended, and the state is not yet changed
hold_interrupts.own_code |= {GuardedWork.__enter__.__code__, GuardedWork.__exit__.__code__}


def holding_interrupts(function: Callable[P, R]) -> Callable[P, R]:
    """Hold interrupts back in a function that votes several times: they go into its next vote."""

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        with hold_interrupts():
            return function(*arguments, **keywords)

    return call
