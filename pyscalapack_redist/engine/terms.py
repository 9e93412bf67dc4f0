"""Terms: what the first call of a plan with agree="first" binds, for that and all later calls. Not collective."""

from __future__ import annotations

from ..comm.group import Group
from ..comm.series import Series
from ..comm.transfer import State, Transfer
from ..errors import ArrayError, CollectiveError
from ..exchanges import Exchange
from .operation import Factors


class Terms:
    """What is bound.

    Attributes
    ----------
    is_bound : bool
        Whether a call was agreed on.
    factors : Factors
        alpha and beta. The dtype is the plan's from then on.
    order, item : int
        The order of elements in messages, and the bytes of one.
    series : Series or None
        The later calls, where they are not voted on.
    refused : str or None
        Why the plan can be used no more.
    """

    def __init__(self) -> None:
        self.is_bound = False
        self.factors = Factors()
        self.order = self.item = 0
        self.series: Series | None = None
        self.refusal: str | None = None
        self._first: Transfer | None = None

    def started(self, transfer: Transfer) -> None:
        """A call that may be the first one."""
        if not self.is_bound:
            self._first = transfer

    def is_settled(self) -> bool:
        """Whether this rank knows if the next call is the first one: the one before was counted."""
        first = self._first
        if first is None or first.advance() or first.state >= State.READY:
            self._first = None
        return self._first is None

    def bind(self, factors: Factors, order: int, item: int) -> None:
        """Bind what all ranks have agreed on."""
        self.is_bound, self.factors, self.order, self.item = True, factors, order, item

    def begin_series(self, group: Group, exchange: Exchange) -> None:
        """Do without votes from now on: all messages go as those of this exchange."""
        sends, receives = ([message.peer for message in some] for some in (exchange.sends, exchange.receives))
        self.series = group.new_series(sends, receives)

    def check(self, factors: Factors) -> None:
        """See whether factors are those that are bound.

        Raises
        ------
        ArrayError
            They are not.
        """
        if factors != self.factors:
            raise ArrayError(
                f"{factors}: the first call of this plan, made with agree='first', has bound {self.factors}; make another "
                "plan for these with redistribute"
            )

    @property
    def failure(self) -> str | None:
        """Why calls without votes have ended; None while they have not."""
        series = self.series
        if series is None or series.culprit is None:
            return None
        return f"{series.group.names[series.culprit]} could not take part in a call of it"

    def check_usable(self) -> None:
        """See whether the plan can be used.

        Raises
        ------
        CollectiveError
            A call has failed.
        """
        why = self.refusal or self.failure
        if why is not None:
            raise CollectiveError(
                f"this plan, made with agree='first', can be used no more: {why}; make another one with redistribute"
            )

    def record_failure(self, why: str) -> None:
        """A call has failed: the plan can be used no more. A series ends where it has not."""
        self.refusal = self.refusal or why
        if self.series is not None:
            self.series.end(self.series.group.rank)
