"""SmallCall: a use of a plan whose small messages go between nodes, straight through the states of a transfer.

As `_kernels.call.Call` through the ring: it casts the same vote, sends the same messages beside it, and where it cannot go on a
`Transfer` does so from the state that it has reached. What it saves is making the objects of a transfer anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._kernels.bundle import Origins
from .._kernels.call import DISSENT, Kinds
from ..comm import progress
from ..comm.conversation import DATA
from ..comm.group import Group
from ..comm.vote import MPIVote
from ..exchanges import Exchange
from ..exchanges.nonblocking import Nonblocking, send_small, small_slots, unpack_small

__all__ = ["SmallCall"]


class SmallCall:
    """Uses of one plan with arrays of one kind, one after another. Not collective.

    Parameters
    ----------
    group : Group
        The ranks.
    exchange : Nonblocking
        What is moved: small messages, all at once.
    kinds : Kinds
        What the arrays are like.
    vote : MPIVote
        That of a transfer with such arrays, which was good.
    look_around : callable
        Called while nothing comes; raises when there is nothing to wait for.
    turned : callable
        Gives the exchange for elements in the other order.
    """

    def __init__(
        self,
        group: Group,
        exchange: Nonblocking,
        kinds: Kinds,
        vote: MPIVote,
        look_around: Callable[[], None],
        turned: Callable[[], Exchange],
    ) -> None:
        self._group, self._exchange, self._kinds = group, exchange, kinds
        self._look_around, self._turned = look_around, turned
        self.ballot, self.expected = vote.ballot, vote.largest.tobytes()
        self.begun = False
        self._renew()

    def _renew(self) -> None:
        """Memory that no transfer has."""
        self.mine, self.largest = np.empty((2, len(self.expected) // 8), np.int64)
        self.ballot.numbers(self.mine)
        self.staging = np.empty(self._exchange.staging_bytes, np.uint8)
        self.out, self.into = small_slots(self._exchange, self.staging)
        self.requests: list[Any] = []
        self.left = -1  # operations that have not completed, once the messages are being received
        self.request: Any = None
        self.targets: Any = None
        self.origins: Origins | None = None

    def __call__(self, a: Any, out: Any) -> Any:
        """The local array of B; NotImplemented where the arrays are of another kind, DISSENT where the vote is another."""
        group, exchange = self._group, self._exchange
        try:
            found = self._kinds.match([a], [out])
        except Exception:
            found = None  # it comes again where all ranks hear of it
        if found is None or not group.is_ready:
            return NotImplemented
        channel, tag = group.channel, group.coming_ticket + DATA
        with progress.interrupts_held() as held:
            (self.targets,), self.origins = found
            self.begun, self.requests, self.left = True, [], -1
            self.request = channel.reduce(self.mine, self.largest)
            send_small(exchange, channel, self.out, found[1], tag, self.requests)
            looks = 0
            while not self.request.Test():
                looks = self._idle(looks)
                held.let_through()
            if self.largest.tobytes() != self.expected:
                return DISSENT
            self._move(tag, found[1])
        self.begun = False
        group.tickets.drawn += 1
        return self.targets

    def _move(self, tag: int, origins: Origins) -> None:
        """All are well, and their messages on their way."""
        channel, exchange, requests = self._group.channel, self._exchange, self.requests
        for message, slot in zip(exchange.receives, self.into, strict=True):
            requests.append(channel.receive(slot.memory, message.peer, tag))
        exchange.copies.move(origins, 0, 0, exchange.copies.size)
        self.left, looks, sends = len(requests), 0, len(self.out)
        while self.left:
            number = channel.first_done(requests)
            if number is None:
                looks = self._idle(looks)
                continue
            self.left -= 1
            if number >= sends:
                unpack_small(exchange, number - sends, self.into[number - sends], origins, self._turned)

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
        self._renew()
