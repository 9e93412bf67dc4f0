"""What is under way among some processes: all ranks agree first, then the messages move.

Whatever is in flight on a communicator goes on while any of it is waited for, so ranks may test and wait in any order.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._ring import Vote
from .agreement import Ballot, Participants
from .errors import RedistributionError
from .exchanges import Progress

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Flight"]

Result = TypeVar("Result")

# MPI makes progress only while it is called, and a connection between nodes needs several looks for one message: a test
# goes on looking for this share of the time since the last one, but for no more than so many seconds.
TEST_SHARE, LONGEST_TEST = 0.02, 1e-3


class Flight(ABC, Generic[Result]):
    """One use of a plan, from the vote to the last message.

    Parameters
    ----------
    everyone : Participants or None
        All that take part; None on a rank that does not, where nothing is in flight.
    in_turn : bool
        Whether it waits until those of its kind that were started before it have ended.
    failures : list of str
        The plan's: what broke off in the middle is added to it.
    ballot : Ballot
        The vote with which it begins, to be filled before `_cast`.
    """

    def __init__(self, everyone: Participants | None, in_turn: bool, failures: list[str], ballot: Ballot) -> None:
        self.in_turn = in_turn
        self.agreed_at = 0.0
        self.begun = self.done = False
        self._failures, self._ballot = failures, ballot
        self._result: Result | None = None
        self._tested = time.perf_counter()
        self._progress: Progress | None = None
        self._staging: NDArray[np.uint8] | None = None
        self._error: Exception | None = None
        self._mark = 0
        self._agreeing: MPI.Request | Vote | None = None
        if everyone is not None:
            self._everyone: Participants = everyone
            self._tag = everyone.next_tag()

    @abstractmethod
    def _begin(self) -> bool:
        """Raise what was agreed to raise, or start the messages; False where there are none."""

    @abstractmethod
    def _land(self) -> None:
        """All has moved: make the result ready. Not collective."""

    def _cast(self, outcome: list[int] | None = None) -> None:
        """Vote; or take what came of a vote that this rank has cast already, and the number of that vote behind it."""
        if outcome is None:
            self._agreeing = self._everyone.vote(self._ballot.mine, self._ballot.all)
        else:
            self._ballot.all[:] = outcome[: self._ballot.all.size]
            self._mark = outcome[-1]
        self._everyone.in_flight[self] = None

    def test(self) -> bool:
        """Go on as far as possible without waiting; True when the redistribution is complete. Not collective.

        Between nodes nothing moves but in `test` and `wait`: call it every few milliseconds while computing. It packs,
        unpacks and copies what it can, and looks at the messages for at most 2 % of the time since the last call.

        Raises
        ------
        ArrayError, CollectiveError
            As a call of the plan does.
        """
        if self.done:
            return self.advance(block=False)
        start = time.perf_counter()
        until = start + min(TEST_SHARE * (start - self._tested), LONGEST_TEST)
        while True:
            self._everyone.let_go_on(self)
            if self.advance(block=False):
                return True
            self._tested = time.perf_counter()
            if self._tested >= until:
                return False

    def wait(self) -> Result | None:
        """Complete the redistribution and return the local array of B (None on a rank outside B).

        Raises
        ------
        ArrayError, CollectiveError
            As a call of the plan does.
        """
        while not self.done and len(self._everyone.in_flight) > 1:
            self._everyone.let_go_on(self)
            self.advance(block=False)
            os.sched_yield()  # where ranks outnumber cores, what is waited for may need this one
        while not self.advance(block=True):
            pass
        return self._result

    def _has_turn(self) -> bool:
        """Whether it may begin: after all that these participants started before, since the ranks test and wait in any
        order; and an exchange whose runs come in turn also lets those before it end.
        """
        for one in self._everyone.in_flight:
            if one is self:
                return True
            if one.done or one._everyone is not self._everyone:
                continue
            if not one.begun or (one.in_turn and self.in_turn):
                return False
        return True

    def advance(self, block: bool) -> bool:
        """Go on; True when the transfer is complete. Not collective."""
        if self.done:
            if self._error is not None:
                raise self._error
            return True
        if self._agreeing is not None:
            if block:
                self._everyone.conclude(self._agreeing, self)
            elif not self._agreeing.Test():
                return False
            self._mark = self._agreeing.number if isinstance(self._agreeing, Vote) else 0
            self._agreeing = None
            self.agreed_at = time.perf_counter()
        try:
            if not self.begun:
                if not self._has_turn():
                    return False
                self.begun = True
                if not self._begin():
                    self._finish()
                    return True
            assert self._progress is not None
            if self._progress.advance(block and self._everyone.watch is None):
                self._finish()
            elif block:
                self._everyone.look_around()
                os.sched_yield()
            return self.done
        except BaseException as caught:
            node = self._everyone.node
            if isinstance(caught, RedistributionError) and not (node is not None and node.broken):
                self._error = caught
                self._finish()
                raise
            if self.in_turn and node is not None:
                node.break_off(f"{type(caught).__name__}: {caught}")
            self._failures.append(f"{type(caught).__name__}: {caught}")
            if isinstance(caught, Exception):  # it stays in flight: MPI may still have its memory
                self._error, self.done = caught, True
            raise

    def _finish(self) -> None:
        if self._error is None:
            self._land()
        if self._staging is not None:
            self._everyone.return_staging(self._staging)
        self._everyone.in_flight.pop(self, None)
        self._staging = self._progress = None
        self.done = True
