"""Repeat: few small messages, kept ready from one run to the next: persistent requests on staging memory of their own.

Between nodes the time of a small run is that of starting it: making requests and cutting messages anew takes longer than
the messages do.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..patience import LOOKS
from .buffers import slots
from .message import Message, dense_strides

if TYPE_CHECKING:
    from mpi4py import MPI

    from .exchange import Run

__all__ = ["SMALL", "Repeat"]

SMALL = 128 * 1024  # bytes of all messages, of the rank that has most, up to which they are kept ready


class Repeat:
    """Runs of one plan with arrays of one kind, one after another.

    Parameters
    ----------
    sends, receives, copies : sequence of Message
        Of this rank.
    run : Run
        A run with such arrays.
    tag : int
        Of messages of such runs alone, and no two runs may overlap.
    """

    def __init__(
        self, sends: Sequence[Message], receives: Sequence[Message], copies: Sequence[Message], run: Run, tag: int
    ) -> None:
        self._form, self._blend = (run.item, run.order), run.blend
        self._strides = run.source.strides, run.target.strides
        sizes = [one.size * run.item for one in (*receives, *sends)]
        self._staging = np.empty(sum(sizes), np.uint8)
        places = slots(self._staging, sizes)
        dense = [dense_strides(one.box.shape(), run.order, run.item) for one in (*receives, *sends)]
        starts = [slot.address - one.first * run.item for slot, one in zip(places, (*receives, *sends), strict=True)]
        parts = list(zip((*receives, *sends), starts, dense, strict=True))
        self._receives, self._sends, self._copies = parts[: len(receives)], parts[len(receives) :], copies
        memory = [slot.memory for slot in places]
        self._requests: list[MPI.Prequest] = [
            run.comm.Recv_init(part, one.peer, tag) for part, one in zip(memory, receives, strict=False)
        ]
        self._requests += [
            run.comm.Send_init(part, one.peer, tag) for part, one in zip(memory[len(receives) :], sends, strict=True)
        ]
        weakref.finalize(self, _free, self._requests, self._staging)

    def __call__(self, source: int, target: int, look_around: Callable[[], None] | None) -> None:
        """Run, between arrays at these addresses. Collective over the participants.

        Parameters
        ----------
        source, target : int
            Addresses of the first elements of the local arrays of A and B.
        look_around : callable, optional
            Called while waiting; raises if those waited for have gone.
        """
        from mpi4py import MPI

        (item, order), (from_strides, to_strides), requests = self._form, self._strides, self._requests
        blend = self._blend
        left, receives = len(requests), len(self._receives)
        if left:
            MPI.Prequest.Startall(requests[:receives])
        for k, (message, start, dense) in enumerate(self._sends, receives):
            message.box.move(source, from_strides, start, dense, item, order, message.first, message.last)
            requests[k].Start()
        for message in self._copies:
            message.box.move(
                source, from_strides, target, to_strides, item, order, message.first, message.last, blend=blend
            )
        looks = 0
        while left:
            number, done = MPI.Request.Testany(requests)
            if not done:
                looks += 1
                if looks > LOOKS:
                    if look_around is not None:
                        look_around()
                    os.sched_yield()
                continue
            left -= 1
            if number < receives:
                message, start, dense = self._receives[number]
                message.box.move(
                    start, dense, target, to_strides, item, order, message.first, message.last, blend=blend
                )


def _free(requests: list[MPI.Prequest], staging: np.ndarray) -> None:
    """Free the requests: a local operation; the memory is theirs until then."""
    from mpi4py import MPI

    if not MPI.Is_finalized():
        for one in requests:
            one.Free()
