"""Votes: records of named fields, each with a rule (`_kernels.ring.RULES`), on which a group agrees before anything moves.

Ranks of one node cast them in shared memory (`_kernels.ring.RingVoting`), others by messages of MPI (`LogSteps`). Where ranks
disagree, a verdict says so in words.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.ring import RULES, Outcome, RingVoting, Vote
from .channel import Channel

__all__ = [
    "LONGEST",
    "MESSAGE_SECONDS",
    "LogSteps",
    "MPIVoting",
    "Outcome",
    "RingVoting",
    "Rows",
    "Statement",
    "Verdict",
    "Vote",
    "Voting",
    "Work",
    "describe_error",
    "differ",
    "digest",
    "good",
    "radix_for",
    "verdict",
    "work_of",
]

LONGEST = 32 * 1024  # bytes of blocks in a message, where a rank does not know what others send it
MESSAGE_SECONDS = 2.5e-5  # that a rank is busy with a message, beside the time it is on its way
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


@functools.lru_cache(maxsize=256)
def radix_for(size: int, latency: float) -> int:
    """The radix with which short messages are through soonest. Not collective."""
    return min((r for r in RADICES if r <= max(2, size)), key=lambda r: work_of(size, r).seconds(latency))


class LogSteps:
    """Messages to all other ranks in few steps, again and again: a maximum of numbers, and a block of bytes for each rank.

    In step k each rank sends to the ranks d r^k further, for d from 1 to r - 1, and receives from the ranks so far
    before; r is called the radix. The maximum so far goes in every message (with radix 2: Hensgen, Finkel and Manber,
    Two algorithms for barrier synchronization, 1988). The block for the rank j further goes in the steps of the digits
    of j to the base r (Bruck et al., Efficient algorithms for all-to-all communications in multiport message-passing
    systems, 1997). With radix 2 a rank sends log2 P messages, and P log2(P) / 2 blocks; with radix P it sends all
    blocks straight away, in P - 1 messages.

    A rank that has no blocks of its own, and does not know how large they are, passes on those of others. All ranks start an
    exchange; not collective otherwise.

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
    tag : int, optional
        Of the messages, where such exchanges of all objects with this tag come one after another, in the same order on all
        ranks. Its requests are then made once; `free` ends them.

    Attributes
    ----------
    largest : ndarray of int64
        Before the start this rank's numbers; in the end the largest of all ranks.
    """

    def __init__(
        self, channel: Channel, radix: int, numbers: int, longest: int = LONGEST, tag: int | None = None
    ) -> None:
        self.radix = radix
        self._channel, self._fixed = channel, tag is not None
        self._head = 8 * (numbers + 1)  # bytes of the numbers, and before them the bytes of a block: 0 for none
        self._steps = [
            [_Message(channel, distance, blocks, self._head, longest, tag) for distance, blocks in step]
            for step in steps_of(channel.size, radix)
        ]
        self._messages = [message for step in self._steps for message in step]
        self._at = self._missing = self._unsent = self._tag = 0
        self._rows: NDArray[np.uint8] | None = None
        self._lengths: Sequence[int] | None = None
        self._mine = np.zeros(numbers + 1, np.int64)
        self.largest = self._mine[1:]

    def start(self, rows: Rows | None = None, tag: int = 0) -> None:
        """Send what the first step has; all of before has completed.

        Parameters
        ----------
        rows : Rows, optional
            This rank's blocks, and in the end those for it. Used until then.
        tag : int
            Of messages that nobody else sends, if the object has none.
        """
        self._rows = None if rows is None else rows.blocks
        self._lengths = rows.lengths if rows is not None and len(self._steps) == 1 else None
        self._at, self._unsent, self._tag = 0, len(self._messages), tag
        for message in self._messages:
            if self._fixed:
                message.start_receiving()
            else:
                message.receiving = self._channel.receive(message.incoming, message.source, tag)
        self._send()

    def advance(self) -> bool:
        """Go on as far as possible; True when all has come, and MPI has done with what was sent."""
        while self._at < len(self._steps):
            messages = self._steps[self._at]
            while self._missing:  # all are needed, so the last one is as good as any
                message = messages[self._missing - 1]
                if not message.receiving.Test():
                    return False
                self._missing -= 1
                self._take(message)
            self._at += 1
            self._send()
        while self._unsent:
            if not self._messages[self._unsent - 1].sending.Test():
                return False
            self._unsent -= 1
        return True

    def free(self) -> None:
        """Free the requests; nothing is under way. Not collective."""
        for message in self._messages:
            message.free()

    def _send(self) -> None:
        """The messages of this step, if there are any."""
        if self._at == len(self._steps):
            return
        rows, lengths, mine, head = self._rows, self._lengths, self._mine, self._head
        messages = self._steps[self._at]
        self._missing = len(messages)
        mine[0] = block = 0 if rows is None else rows.shape[1]
        for message in messages:
            if lengths is not None:
                mine[0] = block = lengths[message.distance]
            nbytes = head + message.number * block
            if message.nbytes != nbytes:
                message.resize(nbytes)
            message.outgoing_head[:] = mine
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

    def _take(self, message: _Message) -> None:
        """What a message of this step has brought."""
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
        # Blocks of another size are of a rank that does something else: the numbers tell, and nobody reads the blocks.
        if rows.shape[1] == block:
            number = message.number
            rows[message.blocks] = message.incoming[head : head + number * block].reshape(number, block)


class _Message:
    """A message that is sent in a step, and the one that is received from as far away: which blocks, and memory for both."""

    def __init__(
        self, channel: Channel, distance: int, blocks: NDArray[np.intp], head: int, longest: int, tag: int | None
    ) -> None:
        self.distance, self.blocks, self.number = distance, blocks, len(blocks)
        self.target, self.source = (channel.rank + distance) % channel.size, (channel.rank - distance) % channel.size
        self._channel, self._tag, self._head = channel, tag, head
        self.incoming = np.empty(head + longest, np.uint8)
        self.incoming_head = self.incoming[:head].view(np.int64)
        self.numbers = self.incoming_head[1:]
        self.receiving: Any = None
        self.sending: Any = None
        self.start_receiving: Callable[[], object] = self._first_receive
        self.resize(head)

    def resize(self, nbytes: int) -> None:
        """Have so many bytes to send."""
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
        """Free its requests, which it has where it has a tag."""
        if self._tag is None:
            return
        for request in (self.receiving, self.sending):
            if request is not None:
                request.Free()
        self.receiving = self.sending = None
        self.start_receiving, self.start_sending = self._first_receive, self._first_send


LONGEST_TEXT = 300  # characters of a statement in words


def digest(value: object) -> int:
    """A 62-bit number that is equal on all ranks for equal values (of plain Python types). Not collective."""
    text = value if isinstance(value, bytes) else repr(_plain(value)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 2


def _plain(value: object) -> object:
    """The same without NumPy's scalars, which look unlike Python's."""
    if isinstance(value, np.generic):
        return value.item()
    return tuple([_plain(part) for part in value]) if isinstance(value, tuple) else value


class Statement(NamedTuple):
    """One of the things on which ranks must agree, as this rank has it: None, or a value, and both in words."""

    what: str
    value: Any
    text: str

    def told(self) -> Statement:
        """As it goes to other ranks: whatever the user gave as a value, it is a number, which can be sent and compared."""
        return Statement(self.what, None if self.value is None else digest(self.value), self.text[:LONGEST_TEXT])


Verdict = list[str | int] | None  # a text in which numbers stand for the names of ranks, which differ from side to side


def differ(what: str, said: Sequence[tuple[int, str]]) -> Verdict:
    """That ranks differ in something. Not collective."""
    parts: list[str | int] = [f"the ranks ask for different things: {what} must be the same on every rank, but "]
    for k, (rank, text) in enumerate(said[:4]):
        parts += [", " if k else "", rank, f" has {text}"]
    return parts


class MPIVoting:
    """A vote by messages of MPI, in few steps (`LogSteps`), with which blocks of bytes for all ranks may travel.

    Votes must be cast in the same order on all ranks, and each is counted before the next one goes on.
    """

    def __init__(self, vote: Vote, steps: LogSteps, done: Callable[[LogSteps], None], rows: Rows | None = None) -> None:
        self.outcome: Outcome | None = None
        self.number = 0
        self.vote = vote
        self._steps, self._done = steps, done
        vote.numbers(steps.largest)
        steps.start(rows)

    @staticmethod
    def steps(channel: Channel, radix: int, tag: int) -> LogSteps:
        """What votes go by, one after another."""
        return LogSteps(channel, radix, 2 * len(RULES), tag=tag)

    def post(self) -> bool:
        """It is posted from the beginning."""
        return True

    def test(self, block: bool = False) -> bool:
        """Whether all ranks have voted."""
        if self.outcome is None and self._steps.advance():
            self.outcome = Outcome.of(self.vote, self._steps.largest)
            self._done(self._steps)
        return self.outcome is not None


Voting = RingVoting | MPIVoting


def good(outcome: Outcome) -> bool:
    """Whether no rank failed and none disagree."""
    return not outcome.failed and not outcome.disputed


def describe_error(error: BaseException) -> str:
    """An error as other ranks are told of it."""
    return f"{type(error).__name__}: {error}"


def verdict(told: Sequence[tuple[str | None, Sequence[Statement], object]]) -> Verdict:
    """Why no rank may go on, from what all have told: its error, and its statements. None if nothing is wrong."""
    for rank, (error, _, _) in enumerate(told):
        if error is not None:
            return [rank, f" could not take part: {error}"]
    for k in range(min(len(statements) for _, statements, _ in told)):
        first: dict[Any, tuple[int, str]] = {}
        for rank, (_, statements, _) in enumerate(told):
            what, value, text = statements[k]
            if value is not None:
                first.setdefault((what, value), (rank, text))
        if len(first) > 1:
            return differ(told[0][1][k].what, list(first.values()))
    said = any(statements for _, statements, _ in told)
    return ["the ranks ask for different things"] if said else None
