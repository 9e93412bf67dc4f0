"""DirectCall: a use of a plan whose messages go by MPI, straight through the states of a transfer.

As `_kernels.call.Call` through the ring: it casts the same vote, sends the same messages, and where it cannot go on a
`Transfer` does so from the state that it has reached. What it saves is making the objects of a transfer anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._kernels.bundle import Origins
from .._kernels.call import DISSENT, Kinds
from ..comm import progress
from ..comm.group import DATA, Group
from ..comm.vote import Ballot, Outcome, Vote
from ..exchanges import Exchange, Progress, Run
from ..exchanges.shared import Shared

__all__ = ["DirectCall"]

MOST_KEPT = 2**20  # bytes of staging memory that a plan keeps for its next call


class DirectCall:
    """Uses of one plan with arrays of one kind, one after another. Not collective.

    Parameters
    ----------
    group : Group
        The ranks.
    exchange : Exchange
        What moves the messages; one that `suits`.
    kinds : Kinds
        What the arrays are like.
    ballot : Ballot
        That of a transfer with such arrays, which all ranks agreed to.
    outcome : Outcome
        What came of it.
    look_around : callable
        Called while nothing comes; raises when there is nothing to wait for.
    turned : callable
        Gives the exchange for elements in the other order.

    Attributes
    ----------
    begun : bool
        Whether a use has cast its vote, and has not ended.
    started : bool
        Whether its elements have begun to move.
    vote : Vote
        That of such a use.
    progress : Progress
        What moves its messages.
    """

    def __init__(
        self,
        group: Group,
        exchange: Exchange,
        kinds: Kinds,
        ballot: Ballot,
        outcome: Outcome,
        look_around: Callable[[], None],
        turned: Callable[[], Exchange],
    ) -> None:
        self._group, self._exchange, self._kinds, self._ballot = group, exchange, kinds, ballot
        self._look_around, self._turned = look_around, turned
        self.expected = outcome
        self.begun = self.started = False
        self.vote: Vote
        self.targets: Any = None
        self.origins: Origins | None = None
        self._renew()

    @staticmethod
    def suits(exchange: Exchange) -> bool:
        """Whether a call can go without a transfer, and may keep the memory for the next. Not collective."""
        return not isinstance(exchange, Shared) and exchange.private_bytes <= MOST_KEPT

    def _renew(self) -> None:
        """Memory that no transfer has."""
        group, exchange = self._group, self._exchange
        staging = np.empty(exchange.private_bytes, np.uint8)
        run = Run(group.channel, group.collectives, 0, Origins(1), (0, 0), staging, None, self._turned)
        self.progress: Progress = exchange.begin(run)

    def __call__(self, a: Any, out: Any) -> Any:
        """The local array of B; NotImplemented where the arrays are of another kind, DISSENT where the vote is another."""
        group, moving = self._group, self.progress
        try:
            found = self._kinds.match([a], [out])
        except Exception:
            found = None  # it comes again where all ranks hear of it
        if found is None or not group.is_ready or group.transfers:
            return NotImplemented
        run = moving.run
        with progress.interrupts_held() as held:
            (self.targets,), self.origins = found
            run.tag, run.origins, run.addresses = group.coming_ticket + DATA, found[1], found[1].pair(0)
            moving.renew()
            rows = moving.with_vote()
            self.vote = vote = group.new_vote(self._ballot, rows)
            self.begun, self.started = True, False
            group.tickets.drawn += 1
            moving.ahead()
            looks = 0
            while not vote.test():
                looks = self._idle(looks)
                held.let_through()
            if vote.outcome is None or not vote.outcome.is_same(self.expected):
                return DISSENT
            self.started = True
            try:
                self._move()
            except BaseException as caught:
                group.break_off(f"{type(caught).__name__}: {caught}")
                group.wreckage.append(moving)
                raise
        self.begun = False
        targets, self.targets = self.targets, None
        return targets

    def _move(self) -> None:
        """All are well; nothing interrupts this."""
        moving, looks = self.progress, 0
        moving.start(self._exchange)
        while not moving.advance(False):
            looks = self._idle(looks)

    def _idle(self, looks: int) -> int:
        """Wait a little; how often that has been."""
        if looks > progress.LOOKS:
            progress.pause()
            if looks % progress.LOOKS_AROUND == 0:
                self._look_around()
        return looks + 1

    def hand_over(self) -> None:
        """Forget the use that a `Transfer` goes on with, and leave it the memory."""
        self.begun, self.targets = False, None
        self._renew()
