"""Messages to all other ranks in few steps: a maximum of numbers, and a block of bytes for each rank.

In step k each rank sends to the ranks d r^k further, for d from 1 to r - 1, and receives from those so far before; r is called
the radix. What they know of the maximum goes in every message (with radix 2: Hensgen, Finkel and Manber, Two algorithms for
barrier synchronization, 1988). The block for the rank j further goes in the steps of the digits of j to the base r (Bruck et
al., Efficient algorithms for all-to-all communications in multiport message-passing systems, 1997). With radix 2 a rank sends
log2 P messages, and P log2(P) / 2 blocks; with radix P it sends all blocks straight away, in P - 1 messages.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .channel import Channel, Request

__all__ = ["LONGEST", "MESSAGE_SECONDS", "LogSteps", "Rows", "Work", "radix_for", "work_of"]

LONGEST = 32 * 1024  # bytes of blocks in a message, where a rank does not know what others send it
MESSAGE_SECONDS = 1e-5  # that a rank is busy with a message, beside the time it is on its way
RADICES = (2, 3, 4, 6, 8, 12, 16, 24, 32)


class Work(NamedTuple):
    """What each rank does: its steps, messages and blocks sent, and the most blocks in a message."""

    steps: int
    messages: int
    blocks: int
    longest: int

    def seconds(self, latency: float) -> float:
        """How long all steps take where the messages are short."""
        return self.steps * latency + self.messages * MESSAGE_SECONDS


class Rows(NamedTuple):
    """Blocks of bytes for all ranks, and in the end from all.

    Attributes
    ----------
    blocks : ndarray of uint8, shape (size, bytes of a block)
        The block for the rank j further in row j, where in the end that of the rank j before is.
    lengths : sequence of int
        Bytes that there are of each, in the beginning. Blocks go whole where they go through other ranks.
    """

    blocks: NDArray[np.uint8]
    lengths: Sequence[int]


@functools.lru_cache(maxsize=256)
def steps_of(size: int, radix: int) -> tuple[tuple[tuple[int, NDArray[np.intp]], ...], ...]:
    """For each message of each step how far it goes, and the blocks in it by the distance of whom they are for."""
    distances, steps, stride = np.arange(size), [], 1
    while stride < size:
        digits = distances // stride % radix
        ahead = range(1, min(radix, -(-size // stride)))
        steps.append(tuple((d * stride, np.flatnonzero(digits == d)) for d in ahead))
        stride *= radix
    return tuple(steps)


@functools.lru_cache(maxsize=256)
def work_of(size: int, radix: int) -> Work:
    """What each of so many ranks does. Not collective."""
    steps = steps_of(size, radix)
    blocks = [len(blocks) for step in steps for _, blocks in step]
    return Work(len(steps), len(blocks), sum(blocks), max(blocks, default=0))


def radix_for(size: int, latency: float) -> int:
    """The radix with which short messages are through soonest. Not collective."""
    return min((r for r in RADICES if r <= max(2, size)), key=lambda r: work_of(size, r).seconds(latency))


class LogSteps:
    """One such exchange after another. Started by all ranks; not collective otherwise.

    A rank that has no blocks of its own, and does not know how large they are, passes on those of others.

    Parameters
    ----------
    channel : Channel
        Among the ranks.
    radix : int
        2 for the fewest messages, the number of ranks for the fewest steps.
    numbers : int
        Numbers of which the maximum is found.
    longest : int
        Most bytes of the blocks in a message.

    Attributes
    ----------
    largest : ndarray of int64
        Before the start this rank's numbers; in the end the largest of all ranks.
    """

    def __init__(self, channel: Channel, radix: int, numbers: int, longest: int = LONGEST) -> None:
        self._channel = channel
        # By step, as everything that follows.
        self._steps = steps_of(channel.size, radix)
        self._head = 8 * (numbers + 1)  # the numbers, and the bytes of a block: 0 for none
        most = self._head + longest
        self._incoming = [[np.empty(most, np.uint8) for _ in step] for step in self._steps]
        self._outgoing = [[np.empty(0, np.uint8) for _ in step] for step in self._steps]
        self._receives: list[list[Request]] = []
        self._coming: list[int] = []  # messages of this step that have not come
        self._sends: list[Request] = []
        self._at = 0
        self._tag = 0
        self._rows: NDArray[np.uint8] | None = None
        self._lengths: Sequence[int] | None = None
        head = np.zeros(numbers + 1, np.int64)
        self._block, self.largest = head[:1], head[1:]
        self._all = head.view(np.uint8)

    def start(self, tag: int, rows: Rows | None = None) -> None:
        """Send what the first step has; all of before has completed.

        Parameters
        ----------
        tag : int
            Of messages that nobody else sends.
        rows : Rows, optional
            This rank's blocks, and in the end those for it. Used until then.
        """
        rank, size, receive = self._channel.rank, self._channel.size, self._channel.receive
        self._tag, self._at = tag, 0
        self._rows = None if rows is None else rows.blocks
        self._lengths = rows.lengths if rows is not None and len(self._steps) == 1 else None
        self._sends = []
        self._receives = [
            [receive(into, (rank - distance) % size, tag) for (distance, _), into in zip(step, buffers, strict=True)]
            for step, buffers in zip(self._steps, self._incoming, strict=True)
        ]
        self._send()

    def advance(self) -> bool:
        """Go on as far as possible; True when all has come, and MPI has done with what was sent."""
        while self._at < len(self._receives):
            requests = self._receives[self._at]
            came = [number for number in self._coming if requests[number].Test()]
            for number in came:
                self._coming.remove(number)
                self._take(number)
            if self._coming:
                return False
            self._at += 1
            self._send()
        if self._sends:
            self._sends = [request for request in self._sends if not request.Test()]
        return not self._sends

    def _send(self) -> None:
        """The messages of this step, if there are any."""
        if self._at == len(self._steps):
            return
        channel, rows, step, buffers = self._channel, self._rows, self._steps[self._at], self._outgoing[self._at]
        self._coming = list(range(len(step)))
        block = 0 if rows is None else rows.shape[1]
        for k, (distance, blocks) in enumerate(step):
            if self._lengths is not None:
                block = self._lengths[distance]
            self._block[0] = block
            out, nbytes = buffers[k], self._head + len(blocks) * block
            if len(out) != nbytes:
                out = buffers[k] = np.empty(nbytes, np.uint8)
            out[: self._head] = self._all
            if self._lengths is not None and rows is not None:
                out[self._head :] = rows[distance, :block]
            elif rows is not None:
                rows.take(blocks, 0, out[self._head :].reshape(len(blocks), block), "clip")
            self._sends.append(channel.send(out, (channel.rank + distance) % channel.size, self._tag))

    def _take(self, number: int) -> None:
        """What a message of this step has brought."""
        came, (distance, blocks) = self._incoming[self._at][number], self._steps[self._at][number]
        head = came[: self._head].view(np.int64)
        np.maximum(self.largest, head[1:], out=self.largest)
        block, rows = int(head[0]), self._rows
        if len(self._steps) == 1:
            if rows is not None and block <= rows.shape[1]:
                rows[distance, :block] = came[self._head : self._head + block]
            return
        if block and rows is None:
            rows = self._rows = np.zeros((self._channel.size, block), np.uint8)
        # Blocks of another size are of a rank that does something else: the numbers tell, and nobody reads the blocks.
        if block and rows is not None and rows.shape[1] == block:
            rows[blocks] = came[self._head : self._head + len(blocks) * block].reshape(len(blocks), block)
