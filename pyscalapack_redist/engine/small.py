"""SmallCall: a use of a plan whose small messages go between nodes, straight through the states of a transfer.

As `_kernels.call.Call` through the ring: it casts the same vote, sends the same messages with it or beside it, and where it
cannot go on a `Transfer` does so from the state that it has reached. What it saves is making the objects of a transfer anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._kernels.bundle import Origins
from .._kernels.call import DISSENT, Kinds
from ..comm import progress
from ..comm.conversation import DATA, VOTE
from ..comm.group import Group
from ..comm.vote import Ballot, MPIVote
from ..exchanges import Exchange, Run
from ..exchanges.bruck import Blocks, Bruck
from ..exchanges.nonblocking import AtOnce, Nonblocking

__all__ = ["SmallCall"]


class SmallCall:
    """Uses of one plan with arrays of one kind, one after another. Not collective.

    Parameters
    ----------
    group : Group
        The ranks.
    exchange : Nonblocking or Bruck
        What is moved: small messages, with the vote or beside it.
    kinds : Kinds
        What the arrays are like.
    vote : MPIVote
        That of a transfer with such arrays, which was good.
    look_around : callable
        Called while nothing comes; raises when there is nothing to wait for.
    turned : callable
        Gives the exchange for elements in the other order.

    Attributes
    ----------
    begun : bool
        Whether a use has cast its vote, and has not ended.
    vote : MPIVote
        That of such a use.
    progress : AtOnce or Blocks
        What moves its messages.
    """

    def __init__(
        self,
        group: Group,
        exchange: Nonblocking | Bruck,
        kinds: Kinds,
        vote: MPIVote,
        look_around: Callable[[], None],
        turned: Callable[[], Exchange],
    ) -> None:
        self._group, self._exchange, self._kinds = group, exchange, kinds
        self._look_around, self._turned = look_around, turned
        self._ballot, self.expected = vote.ballot, vote.largest.tobytes()
        self.begun = False
        self.targets: Any = None
        self.origins: Origins | None = None
        self._renew(self._ballot)

    def _renew(self, ballot: Ballot) -> None:
        """Memory that no transfer has."""
        group, exchange = self._group, self._exchange
        self.vote = MPIVote(group.channel, ballot, group.radix)
        staging = np.empty(exchange.private_bytes, np.uint8)
        run = Run(group.channel, None, 0, Origins(1), (0, 0), staging, None, self._turned)
        made = exchange.begin(run)
        assert isinstance(made, AtOnce | Blocks)
        self.progress: AtOnce | Blocks = made

    def __call__(self, a: Any, out: Any) -> Any:
        """The local array of B; NotImplemented where the arrays are of another kind, DISSENT where the vote is another."""
        group, moving, vote = self._group, self.progress, self.vote
        try:
            found = self._kinds.match([a], [out])
        except Exception:
            found = None  # it comes again where all ranks hear of it
        if found is None or not group.is_ready:
            return NotImplemented
        ticket = group.coming_ticket
        with progress.interrupts_held() as held:
            (self.targets,), self.origins = found
            moving.run.tag, moving.run.origins = ticket + DATA, found[1]
            moving.renew()
            rows = moving.with_vote()
            self.begun = True
            vote.cast(ticket + VOTE, rows)
            moving.ahead()
            looks = 0
            while not vote.test():
                looks = self._idle(looks)
                held.let_through()
            if vote.largest.tobytes() != self.expected:
                return DISSENT
            moving.start(self._exchange)
            looks = 0
            while not moving.advance(False):
                looks = self._idle(looks)
        self.begun = False
        group.tickets.drawn += 1
        return self.targets

    def _idle(self, looks: int) -> int:
        """Wait a little; how often that has been."""
        if looks > progress.LOOKS:
            progress.pause()
            if looks % progress.LOOKS_AROUND == 0:
                self._look_around()
        return looks + 1

    def hand_over(self) -> None:
        """Forget the use that a `Transfer` goes on with, and leave it the memory."""
        self.begun = False
        self._renew(self._ballot)
