"""Terms of a plan with agree="first": what its first call binds, for that and all later calls, which have no vote."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from typing import TypeVar

from .._kernels.ring import Tickets
from ..comm.group import Group
from ..comm.series import Series
from ..errors import ArrayError, CollectiveError
from ..exchanges import Exchange
from ..exchanges.pipeline import SeriesMessages
from .bound import Lent
from .operation import Factors

Place = TypeVar("Place")  # where a transfer waits


class Terms:
    """What the first call of a plan binds: factors, the elements of messages, and whether later calls vote.

    Attributes
    ----------
    is_bound : bool
        Whether all ranks have agreed on a call.
    factors : Factors
        alpha and beta. From then on the plan has a dtype, too.
    element_order, item_bytes : int
        The order of elements in messages, and the bytes of one.
    series : Series or None
        The later calls, if they need no votes.
    refusal : str or None
        Why the plan cannot be used any more.
    """

    def __init__(self) -> None:
        self.is_bound = False
        self.factors = Factors()
        self.element_order = self.item_bytes = 0
        self.series: Series | None = None
        self.refusal: str | None = None
        self._first_is_agreed: weakref.WeakMethod[Callable[[], bool]] | None = None
        self._series_number = 0

    def tickets(self, group: Group) -> Tickets:
        """Return what counts the calls that this rank has begun: the group's votes, or the calls of the series."""
        return group.tickets if self.series is None else self.series.tickets

    def draw(self, group: Group) -> None:
        """Draw what all ranks number alike for a call that may be the first one. Called as that draws its ticket."""
        if not self.is_bound:
            self._series_number = group.tickets.drawn

    def note_start(self, is_agreed: Callable[[], bool]) -> None:
        """Note a call that may be the first one; its method `is_agreed` makes progress until its vote is counted."""
        if not self.is_bound:
            self._first_is_agreed = weakref.WeakMethod(is_agreed)  # the call has the user's arrays

    def is_settled(self) -> bool:
        """Whether this rank knows if the next call is the first: the earlier one's vote is counted."""
        is_agreed = None if self._first_is_agreed is None else self._first_is_agreed()
        if is_agreed is None or is_agreed():
            self._first_is_agreed = None
        return self._first_is_agreed is None

    def bind(self, factors: Factors, element_order: int, item_bytes: int) -> None:
        """Bind the values that all ranks have agreed on."""
        self.is_bound, self.factors, self.element_order, self.item_bytes = True, factors, element_order, item_bytes

    def begin_series(self, group: Group, exchange: Exchange) -> None:
        """Begin a series without votes, with the messages of this exchange."""
        sends, receives = ([message.peer for message in messages] for messages in (exchange.sends, exchange.receives))
        self.series = group.new_series(self._series_number, sends, receives)

    def moves_in_series(
        self, lent: Lent, moved: Generator[Place, bool, None], place: Place
    ) -> Generator[Place, bool, bool]:
        """Send without a vote, and receive by `moved` when the earlier calls of the series have; False if a rank has failed."""
        series, messages = self.series, lent.progress
        assert series is not None
        assert isinstance(messages, SeriesMessages)
        lent.send_early()
        while not series.ended and not messages.has_turn:
            yield place
        if not series.ended:
            yield from moved
            return True
        while not messages.is_sent():
            yield place
        return False

    def check(self, factors: Factors) -> None:
        """Check that these are the bound factors.

        Raises
        ------
        ArrayError
            The factors differ.
        """
        if factors != self.factors and repr(factors) != repr(self.factors):  # NaN is no other factor than before
            raise ArrayError(
                f"{factors}: the first call of this plan, made with agree='first', has bound {self.factors}; make another "
                "plan for other factors with redistribute"
            )

    @property
    def failure(self) -> str | None:
        """Why the series has ended; None if it has not."""
        series = self.series
        if series is None or series.culprit is None:
            return None
        return f"{series.group.names[series.culprit]} failed in a call of it"

    def check_usable(self) -> None:
        """Check that the plan can still be used.

        Raises
        ------
        CollectiveError
            A call has failed.
        """
        reason = self.refusal or self.failure
        if reason is not None:
            raise CollectiveError(
                f"this plan, made with agree='first', cannot be used any more: {reason}; make another one with redistribute"
            )

    def record_failure(self, reason: str) -> None:
        """Record that a call has failed: end the series and the use of the plan."""
        self.refusal = self.refusal or reason
        if self.series is not None:
            self.series.end(self.series.group.rank)
