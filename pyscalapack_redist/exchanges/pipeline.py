"""Exchanges of messages from process to process: all at once, in a window, in pairs, or in steps.

None of them waits for ever; the class of each says why.
"""

from __future__ import annotations

import functools
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from ..comm.series import HEADER, Series, culprit_of
from .exchange import Exchange, Options, Progress
from .message import ByteMessage, Packed, Piece, Run, cut_slots

SMALL = 256 * 1024  # bytes of all messages, of the rank that has most, up to which they go at once
RECEIVE, SEND = 0, 1  # places of the two requests of a step, in `Synchronized`
# Where the window is spread over many messages: pieces of one that are few, and how many times shorter pieces get.
FEW, LEAST_PART = 4, 4


class Direction(NamedTuple):
    """Sequences of pieces of one direction, the slots they go through, the bytes of a slot, and the slots of a queue."""

    sequences: list[list[Piece]]
    slots: int
    nbytes: int
    each: int

    def queues(self) -> list[Iterator[Piece]]:
        """What comes next, for each slot: those of a queue share a sequence until its last piece is taken."""
        waiting = iter(self.sequences)
        made = [_one_after_the_other(waiting) for _ in range(0, self.slots, self.each)]
        return [made[slot // self.each] for slot in range(self.slots)]


def _one_after_the_other(waiting: Iterable[list[Piece]]) -> Iterator[Piece]:
    """The pieces of a sequence, then those of the next that no other queue has taken up."""
    for pieces in waiting:
        yield from pieces


class Nonblocking(Exchange):
    """All messages at once, as far as the memory limit allows (Walker & Otto, Fig 5).

    Receives are posted at once. Pieces are packed and sent as slots of staging memory become free, and unpacked as they come.

    Message by message, all pieces go through one queue of slots; sender and receiver go through them in the same global order,
    so the first piece that is not yet through can always move: a full window never deadlocks. With many messages at a time
    there are several queues, each with slots of its own, and a queue takes all pieces of one peer after all of another: MPI
    matches the messages from one rank to another in the order of sending. Peers are taken up in the same global order on both
    sides, so the first pair that is not yet through has slots on both, or the next that become free.

    Attributes
    ----------
    piece : int
        Bytes of a piece: small enough to stay in cache between packing and unpacking.
    window : int
        Pieces being sent.
    posted_receives : int
        Receives posted.
    synchronous : bool
        Whether a piece has been sent only when its receive has begun.
    """

    name: ClassVar[str] = "nonblocking"
    piece: ClassVar[int] = 512 * 1024
    window: ClassVar[int] = 16
    posted_receives: ClassVar[int] = 16
    synchronous: ClassVar[bool] = False

    @functools.cached_property
    def sends_early(self) -> bool:
        """Whether messages go at once; the same on all ranks. Not collective."""
        extents, limit = self.options.extents, min(SMALL, self.options.memory_limit)
        most = 2 * extents.messages * (extents.elements * self.options.item + HEADER)
        return isinstance(self.buffers, Packed) and not extents.partial and most <= limit

    @functools.cached_property
    def directions(self) -> tuple[Direction, Direction]:
        """Slots for receiving and for sending. Not collective."""
        return self._direction(self.receives, 0), self._direction(self.sends, 1)

    @classmethod
    def sizes(cls, options: Options) -> tuple[int, int]:
        """Bytes of a piece, and pieces being sent, as far as memory allows. Not collective: the same on all ranks."""
        return cls.piece, cls.window

    @classmethod
    def largest_piece(cls, options: Options) -> int:
        """Most bytes of a piece of a message. Not collective: the same on all ranks."""
        return min(cls.sizes(options)[0], super().largest_piece(options))

    @classmethod
    def piece_bytes(cls, options: Options, nbytes: int) -> int:
        """Most bytes of a piece of a message of so many bytes. Not collective: the same on both ranks."""
        return cls.largest_piece(options)

    @classmethod
    def in_flight(cls, options: Options, nbytes: int) -> tuple[int, int]:
        """Pieces of so many bytes for which receives are posted, and pieces being sent. Not collective."""
        room = max(1, options.memory_limit // 2 // max(nbytes, 1))
        return min(cls.posted_receives, room), min(cls.sizes(options)[1], room)

    @classmethod
    def pieces_per_peer(cls, options: Options) -> int | None:
        """Pieces for a peer under way at most; None where message comes after message. Not collective."""
        return None

    def _direction(self, messages: Sequence[ByteMessage], side: int) -> Direction:
        options = self.options
        each, largest = self.pieces_per_peer(options), 0
        sequences: dict[int | None, list[Piece]] = {}
        for message in messages:
            pieces, nbytes = self.buffers.cut([message], self.piece_bytes(options, message.size))
            sequences.setdefault(message.peer if each else None, []).extend(pieces)
            largest = max(largest, nbytes)
        number = min(sum(map(len, sequences.values())), self.in_flight(options, largest)[side])
        return Direction(list(sequences.values()), number, largest, each or max(1, number))

    @functools.cached_property
    def staging_bytes(self) -> int:
        """Staging memory of one run. Not collective."""
        if self.sends_early:
            return sum(message.size + HEADER for message in (*self.sends, *self.receives))
        return sum(direction.slots * direction.nbytes for direction in self.directions)

    def begin(self, run: Run) -> Progress:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""
        return SmallMessages(self, run) if self.sends_early else _Pipeline(self, run)


class Windowed(Nonblocking):
    """The schedule's order without its steps: a window of a few messages.

    The schedule of Walker & Otto or of Desprez et al. says who comes first, but nobody waits for a step to end: a process
    goes on with its next message as soon as one of the few is through. A piece counts until its receive has begun, so what
    is under way on a link is limited even where MPI would take any number of short pieces.
    """

    name: ClassVar[str] = "windowed"
    piece: ClassVar[int] = 2**20
    window: ClassVar[int] = 8
    posted_receives: ClassVar[int] = 32
    synchronous: ClassVar[bool] = True

    @classmethod
    def sizes(cls, options: Options) -> tuple[int, int]:
        """The same, as chosen for these links. Not collective: the same on all ranks."""
        return options.cutting.nbytes or cls.piece, options.cutting.window or cls.window

    @classmethod
    def piece_bytes(cls, options: Options, nbytes: int) -> int:
        """In proportion to its length, where many messages are under way: they share the links so, and end together."""
        most, longest = cls.largest_piece(options), options.extents.elements * options.item
        if not options.cutting.spread or longest <= FEW * most:  # pieces cost more than shares of the links are worth
            return most
        return max(1, most // LEAST_PART, min(most, -(-most * nbytes // longest)))

    @classmethod
    def in_flight(cls, options: Options, nbytes: int) -> tuple[int, int]:
        """Pieces for which receives are posted, and pieces being sent: as many, where they are of many messages."""
        receives, sends = super().in_flight(options, nbytes)
        return (sends if options.cutting.spread else receives), sends

    @classmethod
    def pieces_per_peer(cls, options: Options) -> int | None:
        """Few enough for all messages of the rank that has most to be under way at once. Not collective."""
        if not options.cutting.spread:
            return None
        return max(1, min(FEW, cls.sizes(options)[1] // max(1, options.extents.messages)))


class _Pipeline(Progress):
    def __init__(self, exchange: Nonblocking, run: Run) -> None:
        super().__init__(exchange, run)
        incoming, outgoing = exchange.directions
        self._receiving = incoming.slots
        self._slots = cut_slots(run.staging, [incoming.nbytes] * incoming.slots + [outgoing.nbytes] * outgoing.slots)
        self._requests: list[Any] = [run.channel.nothing] * len(self._slots)
        self._send = run.channel.send_synchronously if exchange.synchronous else run.channel.send
        self._pieces: dict[int, Piece] = {}  # under way, by slot

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Pack and send what fits, post receives. Not collective."""
        assert isinstance(exchange, Nonblocking)
        incoming, outgoing = exchange.directions
        self._copies = exchange.copies
        self._waiting = [*incoming.queues(), *outgoing.queues()]
        self._left = sum(map(len, (*incoming.sequences, *outgoing.sequences)))
        # Sends first: requests to send then reach the peer ahead of the permissions that let its own data flow. Behind that
        # data on one connection they would wait for all of it, and the two directions would come one after the other.
        for number in (*range(self._receiving, len(self._slots)), *range(self._receiving)):
            self._refill(number)

    def _refill(self, number: int) -> None:
        """Put the next piece of the slot's direction into it, if there is one."""
        piece = next(self._waiting[number], None)
        if piece is None:
            return
        self._pieces[number] = piece
        run, slot, peer = self.run, self._slots[number], piece.message.peer
        if number < self._receiving:
            request = self.channel.receive(self.buffers.incoming(run, piece, slot), peer, run.tag)
        else:
            request = self._send(self.buffers.outgoing(run, piece, slot), peer, run.tag)
        self._requests[number] = request

    def advance(self, block: bool) -> bool:
        """Unpack what came, send what now fits, and copy locally in between. Not collective."""
        while self._left:
            number = self.channel.first_done(self._requests)
            if number is None:
                if not self.copy_piece():
                    return False
                continue
            piece = self._pieces.pop(number)
            if number < self._receiving:
                self.buffers.arrived(self.run, piece, self._slots[number])
            self._left -= 1
            self._refill(number)
        return self.copy_all()


class SmallMessages(Progress):
    """Few small messages, all at once, beside the vote.

    They are sent before it is known and received into staging memory after it. Each says in which order its elements are, for
    its sender knew that before the others agreed.
    """

    def __init__(self, exchange: Nonblocking, run: Run) -> None:
        super().__init__(exchange, run)
        self._exchange = exchange
        made = cut_slots(run.staging, [message.size + HEADER for message in (*exchange.sends, *exchange.receives)])
        self._out, self._in = made[: len(exchange.sends)], made[len(exchange.sends) :]
        for slot in self._out:
            slot.memory[:HEADER] = exchange.options.order.to_bytes(HEADER, "little")
        self.renew()

    def renew(self) -> None:
        """As before the first use, for the run as it is now. Not collective."""
        self._requests: list[Any] = []
        self._left = -1
        self._copied = 0

    def send_early(self) -> None:
        """Pack and send all. Not collective."""
        send, run = self.channel.send, self.run
        for message, slot in zip(self._exchange.sends, self._out, strict=True):
            message.bundle.move(run.origins, slot.address + HEADER, 0, message.size)
            self._requests.append(send(slot.memory, message.peer, run.tag))

    def withdraw(self) -> tuple[int, ...]:
        """The vote was not good: the ranks to which something has been sent. Not collective."""
        return tuple(message.peer for message in self._exchange.sends) if self._requests else ()

    def is_sent(self) -> bool:
        """Whether MPI has done with what was sent before the vote, which was not good. Not collective."""
        self._requests = [request for request in self._requests if not request.Test()]
        return not self._requests

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Receive all; and send, if that was not done before. Not collective."""
        if not self._requests:
            self.send_early()
        for message, slot in zip(self._exchange.receives, self._in, strict=True):
            self._requests.append(self.channel.receive(slot.memory, message.peer, self.run.tag))
        self._left = len(self._requests)

    def advance(self, block: bool) -> bool:
        """Unpack what came, and copy locally in between. Not collective."""
        sends = len(self._out)
        while self._left:
            number = self.channel.first_done(self._requests)
            if number is None:
                if not self.copy_piece():
                    return False
                continue
            if number >= sends:
                self._arrived(number - sends)
            self._left -= 1
        return self.copy_all()

    def _arrived(self, number: int) -> None:
        """Unpack a message, in the order in which it was packed."""
        exchange, slot, run = self._exchange, self._in[number], self.run
        message = exchange.receives[number]
        if slot.memory[0] != exchange.options.order:
            message = run.other_order().receives[number]
        message.bundle.move(run.origins, slot.address + HEADER, 0, message.size)


class SeriesMessages(Progress):
    """Calls of a series, one after another: as `SmallMessages`, by requests that are made once."""

    def __init__(self, series: Series, exchange: Exchange, run: Run) -> None:
        super().__init__(exchange, run)
        self._series, self._exchange, self._number = series, exchange, 0
        made = cut_slots(run.staging, [message.size + HEADER for message in (*exchange.sends, *exchange.receives)])
        out, self._in = made[: len(exchange.sends)], made[len(exchange.sends) :]
        for slot in out:
            slot.memory[:HEADER] = exchange.options.order.to_bytes(HEADER, "little")
        self._places = [slot.address + HEADER for slot in made]
        channel, tag = self.channel, series.tag
        self._sends = [
            channel.send_init(slot.memory, peer, tag) for slot, (peer, *_) in zip(out, exchange.sends, strict=True)
        ]
        self._receives = [
            channel.receive_init(slot.memory, peer, tag)
            for slot, (peer, *_) in zip(self._in, exchange.receives, strict=True)
        ]
        self._requests = [*self._receives, *self._sends]
        weakref.finalize(self, channel.free_all, self._requests).atexit = False  # what is in flight then still ends
        self._has_come = False

    def renew(self) -> None:
        """As before the first use, for the run as it is now. Not collective."""
        self._copied, self._has_come = 0, False

    def send_early(self) -> None:
        """Pack and send all. Not collective."""
        self._number, origins = self._series.begin(), self.run.origins
        for message, place in zip(self._exchange.sends, self._places, strict=False):
            message.bundle.move(origins, place, 0, message.size)
        self.channel.start_all(self._sends)

    @property
    def has_turn(self) -> bool:
        """Whether the calls before have received all. Not collective."""
        return self._number == self._series.received + 1

    def is_sent(self) -> bool:
        """Whether MPI has done with what was sent. Not collective."""
        return self.channel.all_done(self._sends)

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Receive all, and vote where that is due; copy locally meanwhile. Not collective."""
        self.channel.start_all(self._receives)
        self._series.is_receiving = True
        self.copy_all()

    def advance(self, block: bool) -> bool:
        """Unpack when all has come. Not collective."""
        if not self._has_come:
            if not self.channel.all_done(self._requests):
                self._series.count_vote()  # others may wait for that
                return False
            self._has_come = True
            self._unpack()
        return self._series.end_call(self._number)

    def _unpack(self) -> None:
        """Unpack all messages, but headers of ranks that have failed."""
        origins, series, sends = self.run.origins, self._series, len(self._exchange.sends)
        for number, message in enumerate(self._exchange.receives):
            culprit = culprit_of(self._in[number].memory)
            if culprit is None:
                message.bundle.move(origins, self._places[sends + number], 0, message.size)
            else:
                series.ended.add(message.peer)
                series.end(culprit)


Steps = tuple[list[tuple[Piece | None, Piece | None]], int, int]


class SendReceive(Exchange):
    """One message each way and a wait, step after step (Walker & Otto, Fig 10). Needs a one-port schedule.

    A step whose message exceeds the staging memory goes in several pieces; derived datatypes need no staging memory. Pieces go
    by (step, number of the piece), on both sides, so the first one that is not yet through can always move.
    """

    name: ClassVar[str] = "sendrecv"
    needs_one_port: ClassVar[bool] = True

    @functools.cached_property
    def steps(self) -> Steps:
        """Pieces to send and to receive in each step, and the bytes of the largest of either. Not collective."""
        most = self.largest_piece(self.options)
        sends, send_bytes = self.buffers.cut(self.sends, most)
        receives, receive_bytes = self.buffers.cut(self.receives, most)
        steps: dict[tuple[tuple[int, ...], int], list[Piece | None]] = {}
        for side, pieces in enumerate((sends, receives)):
            for piece in pieces:
                steps.setdefault((piece.message.key, piece.number), [None, None])[side] = piece
        return [(steps[key][0], steps[key][1]) for key in sorted(steps)], send_bytes, receive_bytes

    @property
    def staging_bytes(self) -> int:
        """Staging memory of one run. Not collective."""
        return sum(self.steps[1:])

    def begin(self, run: Run) -> Progress:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""
        return _LockStep(self, run)


class _LockStep(Progress):
    def __init__(self, exchange: SendReceive, run: Run) -> None:
        super().__init__(exchange, run)
        self._out, self._in = cut_slots(run.staging, exchange.steps[1:])
        self._requests: list[Any] = []
        self._received: Piece | None = None
        self._more = False

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start the first step. Not collective."""
        assert isinstance(exchange, SendReceive)
        self._copies = exchange.copies
        self._steps = iter(exchange.steps[0])
        self._more = self._next_step()

    def _next_step(self) -> bool:
        step = next(self._steps, None)
        if step is None:
            return False
        sent, received = step
        run, buffers = self.run, self.buffers
        self._requests = []
        # The send first, for the reason given in `_Pipeline.start`: else opposite messages of a step come one after the other.
        if sent is not None:
            ready = buffers.outgoing(run, sent, self._out)
            self._requests.append(self.channel.send(ready, sent.message.peer, run.tag))
        if received is not None:
            ready = buffers.incoming(run, received, self._in)
            self._requests.append(self.channel.receive(ready, received.message.peer, run.tag))
        self._received = received
        return True

    def advance(self, block: bool) -> bool:
        """Finish the step, go on to the next; local copies come last. Not collective."""
        while self._more:
            self._requests = [request for request in self._requests if not request.Test()]
            if self._requests:
                return False
            if self._received is not None:
                self.buffers.arrived(self.run, self._received, self._in)
            self._more = self._next_step()
        return self.copy_all()


Key = TypeVar("Key", int, tuple[int, ...])


def count_awaited(sends: Sequence[Key], receives: Sequence[Key], unbalanced: bool) -> list[int]:
    """Messages that a process receives before it sends each of its own. Not collective.

    Where all processes send as many messages as they receive, as in Walker & Otto's paper, a process has received i before it
    sends its i-th (from 0). If all were to wait, each would have received fewer than it sent, and yet all that was sent has
    arrived.

    Elsewhere that may hang: A and B send to C first and to each other next, and C sends nothing. There a process waits for as
    many messages as it is to receive in earlier steps. Take the first message in the global order (step, sender, receiver) that
    is not through: its sender has received all of those, so it can go.

    Parameters
    ----------
    sends, receives : sequence of int, or of tuple of int
        The messages' places in the schedule, in ascending order.
    unbalanced : bool
        Whether any process sends more messages than it receives, or fewer.
    """
    return [bisect_left(receives, key) for key in sends] if unbalanced else list(range(len(sends)))


class Synchronized(Exchange):
    """One receive from any source, one message sent, and a wait, step after step (Walker & Otto, Fig 4).

    Any order will do, also one in which several send to one process at a time, and then it shows the cost of that. Nobody waits
    for ever: a process with anything left to receive takes a message from any source, so every message that is sent also
    arrives. Before its next message a process waits for a number of receives (`awaited`).

    A message is known by its source: messages of one process come in order, so it is the next one from there. Matched probes of
    the sources that are left find it, in turn. A receive posted for any source may wait for ever: MPICH 5.0.2 loses messages to
    it where some sources share its memory and others do not, as on several nodes or between two jobs.
    """

    name: ClassVar[str] = "synchronized"

    @functools.cached_property
    def pieces(self) -> tuple[list[Piece], list[Piece], int, int]:
        """Pieces to send and to receive, and the bytes of the largest of either. Not collective."""
        most = self.largest_piece(self.options)
        sends, send_bytes = self.buffers.cut(self.sends, most)
        receives, receive_bytes = self.buffers.cut(self.receives, most)
        return sends, receives, send_bytes, receive_bytes

    @property
    def staging_bytes(self) -> int:
        """Staging memory of one run. Not collective."""
        return sum(self.pieces[2:])

    def begin(self, run: Run) -> Progress:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""
        return _SynchronizedSteps(self, run)


class _SynchronizedSteps(Progress):
    def __init__(self, exchange: Synchronized, run: Run) -> None:
        super().__init__(exchange, run)
        self._out, self._in = cut_slots(run.staging, exchange.pieces[2:])
        self._received = 0  # messages, of any process
        self._coming: list[Piece] = []  # at most one
        self._requests: list[Any] = [run.channel.nothing, run.channel.nothing]
        self._sending = False

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start the first step. Not collective."""
        assert isinstance(exchange, Synchronized)
        sends, receives, *_ = exchange.pieces
        self._copies, self._received = exchange.copies, 0
        self._sends = sends[::-1]
        sent, received = ([message.key for message in some] for some in (exchange.sends, exchange.receives))
        counts = count_awaited(sent, received, bool(exchange.options.extents.unbalanced))
        self._awaited = dict(zip(map(id, exchange.sends), counts, strict=True))
        self._from: dict[int, deque[Piece]] = {}
        for piece in receives:
            self._from.setdefault(piece.message.peer, deque()).append(piece)
        self._send()

    def _probe(self) -> None:
        """Receive what has come, from anybody."""
        if self._coming:
            return
        for source in tuple(self._from):
            found = self.channel.probe(source, self.run.tag)
            pieces = self._from.pop(source)
            if found is not None:
                piece = pieces.popleft()
                self._coming.append(piece)
                self._requests[RECEIVE] = found.receive(self.buffers.incoming(self.run, piece, self._in))
            if pieces:
                self._from[source] = pieces  # behind the others
            if found is not None:
                return

    def _arrived(self) -> None:
        """Bring what came to where it belongs."""
        piece = self._coming.pop()
        self.buffers.arrived(self.run, piece, self._in)
        self._received += piece.last == piece.message.last

    def _send(self) -> None:
        """Send the next piece, if the one before is through and its message's turn has come."""
        if not self._sends or self._sending or self._received < self._awaited[id(self._sends[-1].message)]:
            return
        piece, run = self._sends.pop(), self.run
        ready = self.buffers.outgoing(run, piece, self._out)
        self._requests[SEND] = self.channel.send(ready, piece.message.peer, run.tag)
        self._sending = True

    def advance(self, block: bool) -> bool:
        """Unpack what came, send what may go, and copy locally in between. Not collective."""
        while self._from or self._coming or self._sends or self._sending:
            self._probe()
            number = self.channel.first_done(self._requests)
            if number is None:
                if not self.copy_piece():
                    return False
                continue
            if number == RECEIVE:
                self._arrived()
            else:
                self._sending = False
            self._send()
        return self.copy_all()
