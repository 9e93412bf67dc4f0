"""Steps in which ranks exchange blocks with all others, log2 P messages each, and find maxima; and what they cost."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .channel import Channel

LONGEST = 32 * 1024  # most bytes of blocks in a message: buffers for receives have this size
MESSAGE_SECONDS = 2.5e-5  # CPU time of a message on a rank, without its latency
RADICES = (2, 3, 4, 6, 8, 12, 16, 24, 32)


class Work(NamedTuple):
    """Counts of one rank: steps, messages and blocks to send, and the most blocks in a message."""

    steps: int
    messages: int
    blocks: int
    longest: int

    def seconds(self, latency: float) -> float:
        """The time of all steps with short messages."""
        return self.steps * latency + self.messages * MESSAGE_SECONDS


class Rows(NamedTuple):
    """Blocks of bytes to all ranks, replaced by the blocks from all ranks.

    Attributes
    ----------
    blocks : ndarray of uint8, shape (size, bytes of a block)
        Row j holds the block for rank r + j, and at the end the block from rank r - j; r is this rank.
    lengths : sequence of int
        Bytes used of each block. Blocks that go through other ranks are sent in full.
    """

    blocks: NDArray[np.uint8]
    lengths: Sequence[int]


@functools.lru_cache(maxsize=256)
def steps_of(size: int, radix: int) -> tuple[tuple[tuple[int, NDArray[np.intp]], ...], ...]:
    """For each message of each step: the distance to its receiver, and its blocks as distances to their receivers."""
    distances, steps, stride = np.arange(size), [], 1
    while stride < size:
        digits = distances // stride % radix
        ahead = range(1, min(radix, -(-size // stride)))
        steps.append(tuple((d * stride, np.flatnonzero(digits == d)) for d in ahead))
        stride *= radix
    return tuple(steps)


@functools.lru_cache(maxsize=256)
def work_of(size: int, radix: int) -> Work:
    """The counts of each of `size` ranks."""
    steps = steps_of(size, radix)
    blocks = [len(blocks) for step in steps for _, blocks in step]
    return Work(len(steps), len(blocks), sum(blocks), max(blocks, default=0))


@functools.lru_cache(maxsize=256)
def radix_for(size: int, latency: float) -> int:
    """The radix with the least time for short messages."""
    return min((r for r in RADICES if r <= max(2, size)), key=lambda r: work_of(size, r).seconds(latency))


class LogSteps:
    """An all-reduction (maximum) and all-to-all exchange in few steps, made once and used often.

    In step k rank p sends to the ranks p + d r^k, 0 < d < r, and receives from the ranks p - d r^k; r is the radix. Every
    message carries the maximum so far (with radix 2: Hensgen, Finkel and Manber, Two algorithms for barrier
    synchronization, 1988). The block for rank p + j goes in the steps of the digits of j to the base r (Bruck et al.,
    Efficient algorithms for all-to-all communications in multiport message-passing systems, 1997). With radix 2 a rank
    sends log2 P messages and P log2(P) / 2 blocks; with radix P it sends each block directly, in P - 1 messages.

    A rank without blocks forwards those of others. All ranks, or all members, start an exchange.

    Parameters
    ----------
    channel : Channel
        The group's channel.
    radix : int
        2 for the fewest messages, the number of ranks for the fewest steps.
    numbers : int
        How many numbers the maximum is taken of.
    longest : int
        Most bytes of blocks in a message.
    tag : int, optional
        A tag for persistent requests, which `free` ends. All objects with this tag run one after another, in the same order
        on all ranks.
    members : sequence of int, optional
        The ranks that take part, where these are not all; then there are no blocks.

    Attributes
    ----------
    largest : ndarray of int64
        This rank's numbers before `start`; the maxima at the end.
    """

    def __init__(
        self,
        channel: Channel,
        radix: int,
        numbers: int,
        longest: int = LONGEST,
        tag: int | None = None,
        members: Sequence[int] | None = None,
    ) -> None:
        self.members = members = range(channel.size) if members is None else members
        self.radix = radix
        self._channel, self._fixed = channel, tag is not None
        self._head = 8 * (numbers + 1)  # bytes of the header: the bytes of a block, 0 for none, and the numbers
        self._steps = [
            [_Message(channel, members, distance, blocks, self._head, longest, tag) for distance, blocks in step]
            for step in steps_of(len(members), radix)
        ]
        self._messages = [message for step in self._steps for message in step]
        self._step = self._missing = self._unsent = self._tag = 0
        self._rows: NDArray[np.uint8] | None = None
        self._lengths: Sequence[int] | None = None
        self._header = np.zeros(numbers + 1, np.int64)
        self.largest = self._header[1:]

    def start(self, rows: Rows | None = None, tag: int = 0) -> None:
        """Send the messages of the first step. The exchange before this one is complete.

        Parameters
        ----------
        rows : Rows, optional
            This rank's blocks, overwritten by those for this rank; in use until completion.
        tag : int
            A tag that no other message has, if the object has none.
        """
        self._rows = None if rows is None else rows.blocks
        self._lengths = rows.lengths if rows is not None and len(self._steps) == 1 else None
        self._step, self._unsent, self._tag = 0, len(self._messages), tag
        for message in self._messages:
            if self._fixed:
                message.start_receiving()
            else:
                message.receiving = self._channel.receive(message.incoming, message.source, tag)
        self._send()

    def advance(self) -> bool:
        """Make progress; True when all receives and sends are complete."""
        while self._step < len(self._steps):
            messages = self._steps[self._step]
            while self._missing:  # in any order: the step needs all of them
                message = messages[self._missing - 1]
                if not message.receiving.Test():
                    return False
                self._missing -= 1
                self._unpack(message)
            self._step += 1
            self._send()
        while self._unsent:
            if not self._messages[self._unsent - 1].sending.Test():
                return False
            self._unsent -= 1
        return True

    def free(self) -> None:
        """Free the requests; no exchange is in flight."""
        for message in self._messages:
            message.free()

    def _send(self) -> None:
        """Send the messages of this step, if any."""
        if self._step == len(self._steps):
            return
        rows, lengths, header, head = self._rows, self._lengths, self._header, self._head
        messages = self._steps[self._step]
        self._missing = len(messages)
        header[0] = block = 0 if rows is None else rows.shape[1]
        for message in messages:
            if lengths is not None:
                header[0] = block = lengths[message.distance]
            nbytes = head + message.number * block
            if message.nbytes != nbytes:
                message.resize(nbytes)
            message.outgoing_head[:] = header
            if not block or rows is None:
                pass
            elif lengths is not None:
                message.outgoing[head:] = rows[message.distance, :block]
            else:
                rows.take(message.blocks, 0, message.outgoing[head:].reshape(message.number, block), "clip")
            if self._fixed:
                message.start_sending()
            else:
                message.sending = self._channel.send(message.outgoing, message.target, self._tag)

    def _unpack(self, message: _Message) -> None:
        """Take the maximum and the blocks of a message."""
        np.maximum(self.largest, message.numbers, out=self.largest)
        block, rows, head = int(message.incoming_head[0]), self._rows, self._head
        if not block:
            return
        if len(self._steps) == 1:
            if rows is not None and block <= rows.shape[1]:
                rows[message.distance, :block] = message.incoming[head : head + block]
            return
        if rows is None:
            rows = self._rows = np.zeros((self._channel.size, block), np.uint8)
        # Blocks of another size are from a rank in another call; the vote shows that, and the blocks are ignored.
        if rows.shape[1] == block:
            number = message.number
            rows[message.blocks] = message.incoming[head : head + number * block].reshape(number, block)


class _Message:
    """A message sent in a step, and the one received from the same distance: their blocks and buffers."""

    def __init__(
        self,
        channel: Channel,
        members: Sequence[int],
        distance: int,
        blocks: NDArray[np.intp],
        head: int,
        longest: int,
        tag: int | None,
    ) -> None:
        self.distance, self.blocks, self.number = distance, blocks, len(blocks)
        own, size = members.index(channel.rank), len(members)
        self.target, self.source = members[(own + distance) % size], members[(own - distance) % size]
        self._channel, self._tag, self._head = channel, tag, head
        self.incoming = np.empty(head + longest, np.uint8)
        self.incoming_head = self.incoming[:head].view(np.int64)
        self.numbers = self.incoming_head[1:]
        self.receiving: Any = None
        self.sending: Any = None
        self.start_receiving: Callable[[], object] = self._first_receive
        self.resize(head)

    def resize(self, nbytes: int) -> None:
        """Make a send buffer of `nbytes` bytes."""
        if self._tag is not None and self.sending is not None:
            self.sending.Free()
        self.nbytes, self.outgoing, self.sending = nbytes, np.empty(nbytes, np.uint8), None
        self.outgoing_head = self.outgoing[: self._head].view(np.int64)
        self.start_sending: Callable[[], object] = self._first_send

    def _first_receive(self) -> None:
        assert self._tag is not None
        self.receiving = self._channel.receive_init(self.incoming, self.source, self._tag)
        self.start_receiving = self.receiving.Start
        self.start_receiving()

    def _first_send(self) -> None:
        assert self._tag is not None
        self.sending = self._channel.send_init(self.outgoing, self.target, self._tag)
        self.start_sending = self.sending.Start
        self.start_sending()

    def free(self) -> None:
        """Free the persistent requests, if it has a tag."""
        if self._tag is None:
            return
        for request in (self.receiving, self.sending):
            if request is not None:
                request.Free()
        self.receiving = self.sending = None
        self.start_receiving, self.start_sending = self._first_receive, self._first_send
