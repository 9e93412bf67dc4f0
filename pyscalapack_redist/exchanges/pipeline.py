"""Point-to-point exchanges: nonblocking, windowed, sendrecv and synchronized.

The docstring of each class says why it does not deadlock.
"""

from __future__ import annotations

import functools
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from ..comm.series import HEADER, Series, culprit_of
from .exchange import Exchange, ExchangeOptions, Progress
from .message import ByteMessage, Packed, Piece, Run, cut_slots

SMALL = 256 * 1024  # most bytes of all messages of a rank that are sent before the vote is counted
RECEIVE, SEND = 0, 1  # indices of the two requests of a step, in `Synchronized`
# With a window spread over many messages: most pieces of a message in flight, and the least part of a piece.
FEW, LEAST_PART = 4, 4


class Direction(NamedTuple):
    """Sequences of pieces to send or to receive, the number of slots, the bytes of a slot, and the slots of a queue."""

    sequences: list[list[Piece]]
    slots: int
    nbytes: int
    each: int

    def queues(self) -> list[Iterator[Piece]]:
        """The iterator of next pieces for each slot; the slots of a queue share it, one sequence after another."""
        waiting = iter(self.sequences)
        queues = [_chain(waiting) for _ in range(0, self.slots, self.each)]
        return [queues[slot // self.each] for slot in range(self.slots)]


def _chain(waiting: Iterable[list[Piece]]) -> Iterator[Piece]:
    """The pieces of a sequence, then of the next sequence that no other queue has taken."""
    for pieces in waiting:
        yield from pieces


class Nonblocking(Exchange):
    """All messages at once, within the memory limit (Walker & Otto, Fig 5).

    Receives are posted at once. Pieces are packed and sent as slots become free, and unpacked as they arrive.

    Message by message, all pieces go through one queue of slots. Sender and receiver take pieces in the same global order, so
    the first incomplete piece can always move: a full window never deadlocks. With many messages in flight there are several
    queues with slots of their own. A queue takes all pieces of a peer before the next peer, because MPI matches messages of a
    pair of ranks in the order of sending. Both sides take peers in the same global order, so the first incomplete pair has
    slots on both sides, or gets the next free ones.

    Attributes
    ----------
    piece : int
        Bytes of a piece, which stays in cache between packing and unpacking.
    window : int
        Most sends in flight.
    posted_receives : int
        Most receives in flight.
    synchronous : bool
        Whether sends are in MPI's synchronous mode.
    """

    name: ClassVar[str] = "nonblocking"
    piece: ClassVar[int] = 512 * 1024
    window: ClassVar[int] = 16
    posted_receives: ClassVar[int] = 16
    synchronous: ClassVar[bool] = False

    @functools.cached_property
    def sends_early(self) -> bool:
        """Whether messages are sent before the vote is counted; the same on all ranks."""
        extents, limit = self.options.extents, min(SMALL, self.options.memory_limit)
        most = 2 * extents.messages * (extents.elements * self.options.item + HEADER)
        return isinstance(self.buffers, Packed) and not extents.partial and most <= limit

    @functools.cached_property
    def directions(self) -> tuple[Direction, Direction]:
        """The directions of receives and of sends."""
        return self._direction(self.receives, 0), self._direction(self.sends, 1)

    @classmethod
    def sizes(cls, options: ExchangeOptions) -> tuple[int, int]:
        """Bytes of a piece and most sends in flight, as far as memory allows; the same on all ranks."""
        return cls.piece, cls.window

    @classmethod
    def largest_piece(cls, options: ExchangeOptions) -> int:
        """Most bytes of a piece; the same on all ranks."""
        return min(cls.sizes(options)[0], super().largest_piece(options))

    @classmethod
    def piece_bytes(cls, options: ExchangeOptions, nbytes: int) -> int:
        """Most bytes of a piece of a message of `nbytes` bytes; the same on sender and receiver."""
        return cls.largest_piece(options)

    @classmethod
    def in_flight(cls, options: ExchangeOptions, nbytes: int) -> tuple[int, int]:
        """Most receives and most sends in flight, of pieces of `nbytes` bytes."""
        room = max(1, options.memory_limit // 2 // max(nbytes, 1))
        return min(cls.posted_receives, room), min(cls.sizes(options)[1], room)

    @classmethod
    def pieces_per_peer(cls, options: ExchangeOptions) -> int | None:
        """Most pieces in flight for a peer; None if messages go one after another."""
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
        """Bytes of staging buffers of one run."""
        if self.sends_early:
            return sum(message.size + HEADER for message in (*self.sends, *self.receives))
        return sum(direction.slots * direction.nbytes for direction in self.directions)

    def begin(self, run: Run) -> Progress:
        """Prepare a run with all its memory; nothing moves yet."""
        return SmallMessages(self, run) if self.sends_early else _Pipeline(self, run)


class Windowed(Nonblocking):
    """The schedule's order without its steps: a window of pieces.

    The schedule, of Walker & Otto or Desprez et al., gives the order, but no process waits for the end of a step: it sends the
    next piece as soon as one of the window is complete. In synchronous mode a send completes when its receive has begun, which
    limits the bytes in flight on a link even where MPI would buffer any number of short pieces. The proof of `Nonblocking`
    holds: it needs no buffering by MPI.
    """

    name: ClassVar[str] = "windowed"
    piece: ClassVar[int] = 2**20
    window: ClassVar[int] = 8
    posted_receives: ClassVar[int] = 32
    synchronous: ClassVar[bool] = True

    @classmethod
    def sizes(cls, options: ExchangeOptions) -> tuple[int, int]:
        """Bytes of a piece and most sends in flight, as chosen for the links; the same on all ranks."""
        return options.cutting.nbytes or cls.piece, options.cutting.window or cls.window

    @classmethod
    def piece_bytes(cls, options: ExchangeOptions, nbytes: int) -> int:
        """In proportion to the message with a spread window, so that messages share the links and end together."""
        most, longest = cls.largest_piece(options), options.extents.elements * options.item
        if (
            not options.cutting.spread or longest <= FEW * most
        ):  # few pieces: shorter ones would cost more than they gain
            return most
        return max(1, most // LEAST_PART, min(most, -(-most * nbytes // longest)))

    @classmethod
    def in_flight(cls, options: ExchangeOptions, nbytes: int) -> tuple[int, int]:
        """Most receives and most sends in flight; equal with a spread window."""
        receives, sends = super().in_flight(options, nbytes)
        return (sends if options.cutting.spread else receives), sends

    @classmethod
    def pieces_per_peer(cls, options: ExchangeOptions) -> int | None:
        """Few enough that all messages of a rank are in flight together."""
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
        self._pieces: dict[int, Piece] = {}  # in flight, by slot

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Send pieces and post receives in all slots."""
        assert isinstance(exchange, Nonblocking)
        incoming, outgoing = exchange.directions
        self._copies = exchange.copies
        self._waiting = [*incoming.queues(), *outgoing.queues()]
        self._left = sum(map(len, (*incoming.sequences, *outgoing.sequences)))
        # Sends first: their requests to send then reach the peer before the clear-to-send replies that let the peer's data
        # flow. On one connection they would otherwise wait behind these data, and the two directions would go one after the
        # other.
        for number in (*range(self._receiving, len(self._slots)), *range(self._receiving)):
            self._refill(number)

    def _refill(self, number: int) -> None:
        """Start the next piece of a slot, if any."""
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
        """Unpack arrived pieces, start the next ones, and copy locally in between."""
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
    """Small messages, all sent before the vote is counted and received after it.

    Each begins with the order of its elements, which the sender chose before the agreement. No message waits for another: all
    receives are posted at once.
    """

    def __init__(self, exchange: Nonblocking, run: Run) -> None:
        super().__init__(exchange, run)
        self._exchange = exchange
        slots = cut_slots(run.staging, [message.size + HEADER for message in (*exchange.sends, *exchange.receives)])
        self._out, self._in = slots[: len(exchange.sends)], slots[len(exchange.sends) :]
        for slot in self._out:
            slot.memory[:HEADER] = exchange.options.order.to_bytes(HEADER, "little")
        self.renew()

    def renew(self) -> None:
        """Prepare the next run, after the last is complete."""
        self._requests: list[Any] = []
        self._left = -1
        self._copied = 0

    def send_early(self) -> None:
        """Pack and send all messages."""
        send, run = self.channel.send, self.run
        for message, slot in zip(self._exchange.sends, self._out, strict=True):
            message.bundle.move(run.origins, slot.address + HEADER, 0, message.size)
            self._requests.append(send(slot.memory, message.peer, run.tag))

    def withdraw(self) -> tuple[int, ...]:
        """Withdraw after a failed vote; return the ranks to which messages were sent."""
        return tuple(message.peer for message in self._exchange.sends) if self._requests else ()

    def is_sent(self) -> bool:
        """Whether the sends before a failed vote are complete."""
        self._requests = [request for request in self._requests if not request.Test()]
        return not self._requests

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Post all receives; send, unless that was done early."""
        if not self._requests:
            self.send_early()
        for message, slot in zip(self._exchange.receives, self._in, strict=True):
            self._requests.append(self.channel.receive(slot.memory, message.peer, self.run.tag))
        self._left = len(self._requests)

    def advance(self, block: bool) -> bool:
        """Unpack arrived messages, and copy locally in between."""
        sends = len(self._out)
        while self._left:
            number = self.channel.first_done(self._requests)
            if number is None:
                if not self.copy_piece():
                    return False
                continue
            if number >= sends:
                self._unpack(number - sends)
            self._left -= 1
        return self.copy_all()

    def _unpack(self, number: int) -> None:
        """Unpack a message in the order of elements in which it was packed."""
        exchange, slot, run = self._exchange, self._in[number], self.run
        message = exchange.receives[number]
        if slot.memory[0] != exchange.options.order:
            message = run.other_order().receives[number]
        message.bundle.move(run.origins, slot.address + HEADER, 0, message.size)


class SeriesMessages(Progress):
    """Messages of a series of calls, like `SmallMessages`, by persistent requests. All receives are posted at once."""

    def __init__(self, series: Series, exchange: Exchange, run: Run) -> None:
        super().__init__(exchange, run)
        self._series, self._exchange, self._number = series, exchange, 0
        slots = cut_slots(run.staging, [message.size + HEADER for message in (*exchange.sends, *exchange.receives)])
        outgoing, self._in = slots[: len(exchange.sends)], slots[len(exchange.sends) :]
        for slot in outgoing:
            slot.memory[:HEADER] = exchange.options.order.to_bytes(HEADER, "little")
        self._addresses = [slot.address + HEADER for slot in slots]
        channel, tag = self.channel, series.tag
        self._sends = [
            channel.send_init(slot.memory, peer, tag) for slot, (peer, *_) in zip(outgoing, exchange.sends, strict=True)
        ]
        self._receives = [
            channel.receive_init(slot.memory, peer, tag)
            for slot, (peer, *_) in zip(self._in, exchange.receives, strict=True)
        ]
        self._requests = [*self._receives, *self._sends]
        weakref.finalize(
            self, channel.free_all, self._requests
        ).atexit = False  # operations in flight at exit still complete
        self._is_received = False

    def renew(self) -> None:
        """Prepare the next run, after the last is complete."""
        self._copied, self._is_received = 0, False

    def send_early(self) -> None:
        """Pack and send all messages."""
        self._number, origins = self._series.begin(), self.run.origins
        for message, address in zip(self._exchange.sends, self._addresses, strict=False):
            message.bundle.move(origins, address, 0, message.size)
        self.channel.start_all(self._sends)

    @property
    def has_turn(self) -> bool:
        """Whether all earlier calls of the series have received all messages."""
        return self._number == self._series.received + 1

    def is_sent(self) -> bool:
        """Whether all sends are complete."""
        return self.channel.all_done(self._sends)

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Post all receives, and copy locally meanwhile."""
        self.channel.start_all(self._receives)
        self._series.is_receiving = True
        self.copy_all()

    def advance(self, block: bool) -> bool:
        """Unpack when all messages have arrived, then end the call, with a vote if one is due."""
        if not self._is_received:
            if not self.channel.all_done(self._requests):
                self._series.count_vote()  # other ranks may wait for this vote
                return False
            self._is_received = True
            self._unpack()
        return self._series.end_call(self._number)

    def _unpack(self) -> None:
        """Unpack all messages but those of failed ranks."""
        origins, series, sends = self.run.origins, self._series, len(self._exchange.sends)
        for number, message in enumerate(self._exchange.receives):
            culprit = culprit_of(self._in[number].memory)
            if culprit is None:
                message.bundle.move(origins, self._addresses[sends + number], 0, message.size)
            else:
                series.ended.add(message.peer)
                series.end(culprit)


Steps = tuple[list[tuple[Piece | None, Piece | None]], int, int]


class SendReceive(Exchange):
    """One send, one receive and a wait in each step (Walker & Otto, Fig 10). Needs a one-port schedule.

    A message that exceeds the staging buffer goes in several pieces; derived datatypes need no staging buffer. Both sides order
    pieces by (step, number of the piece), so the first incomplete piece can always move.
    """

    name: ClassVar[str] = "sendrecv"
    needs_one_port: ClassVar[bool] = True

    @functools.cached_property
    def steps(self) -> Steps:
        """Pieces to send and to receive in each step, and the bytes of the largest of each."""
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
        """Bytes of staging buffers of one run."""
        return sum(self.steps[1:])

    def begin(self, run: Run) -> Progress:
        """Prepare a run with all its memory; nothing moves yet."""
        return _LockStep(self, run)


class _LockStep(Progress):
    def __init__(self, exchange: SendReceive, run: Run) -> None:
        super().__init__(exchange, run)
        self._out, self._in = cut_slots(run.staging, exchange.steps[1:])
        self._requests: list[Any] = []
        self._receive: Piece | None = None
        self._has_step = False

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start the first step."""
        assert isinstance(exchange, SendReceive)
        self._copies = exchange.copies
        self._steps = iter(exchange.steps[0])
        self._has_step = self._next_step()

    def _next_step(self) -> bool:
        step = next(self._steps, None)
        if step is None:
            return False
        send, receive = step
        run, buffers = self.run, self.buffers
        self._requests = []
        # The send first, as in `_Pipeline.start`.
        if send is not None:
            buffer = buffers.outgoing(run, send, self._out)
            self._requests.append(self.channel.send(buffer, send.message.peer, run.tag))
        if receive is not None:
            buffer = buffers.incoming(run, receive, self._in)
            self._requests.append(self.channel.receive(buffer, receive.message.peer, run.tag))
        self._receive = receive
        return True

    def advance(self, block: bool) -> bool:
        """Complete steps one after another; the local copy is last."""
        while self._has_step:
            self._requests = [request for request in self._requests if not request.Test()]
            if self._requests:
                return False
            if self._receive is not None:
                self.buffers.arrived(self.run, self._receive, self._in)
            self._has_step = self._next_step()
        return self.copy_all()


Key = TypeVar("Key", int, tuple[int, ...])


def count_awaited(sends: Sequence[Key], receives: Sequence[Key], unbalanced: bool) -> list[int]:
    """The number of messages that a process receives before each of its sends.

    If all processes send as many messages as they receive, as in Walker & Otto's paper, a process receives i messages before
    its i-th send (from 0). Suppose all processes wait: then each has received fewer messages than it has sent, but all sent
    messages have arrived, a contradiction.

    Otherwise that may deadlock: A and B send to C first and to each other next, and C sends nothing. Then a process receives
    all messages of earlier steps first. The sender of the first incomplete message in the global order (step, sender, receiver)
    has received all of those, so it can send.

    Parameters
    ----------
    sends, receives : sequence of int, or of tuple of int
        Places of the messages in the schedule, in ascending order.
    unbalanced : bool
        Whether a process sends more or fewer messages than it receives.
    """
    return [bisect_left(receives, key) for key in sends] if unbalanced else list(range(len(sends)))


class Synchronized(Exchange):
    """A receive from any source, a send and a wait in each step (Walker & Otto, Fig 4).

    It accepts any order, also one in which several processes send to one at a time, and shows the cost of that. It does not
    deadlock: a process receives from any source while it has messages to receive, so every sent message arrives. Before each
    send it waits for a number of receives (`count_awaited`).

    The source identifies a message, because messages of a process arrive in order. Matched probes try the remaining sources in
    turn. A receive from MPI_ANY_SOURCE may never complete: MPICH 5.0.2 loses messages to it if some sources share memory and
    others do not, as on several nodes or between two jobs.
    """

    name: ClassVar[str] = "synchronized"

    @functools.cached_property
    def pieces(self) -> tuple[list[Piece], list[Piece], int, int]:
        """Pieces to send and to receive, and the bytes of the largest of each."""
        most = self.largest_piece(self.options)
        sends, send_bytes = self.buffers.cut(self.sends, most)
        receives, receive_bytes = self.buffers.cut(self.receives, most)
        return sends, receives, send_bytes, receive_bytes

    @property
    def staging_bytes(self) -> int:
        """Bytes of staging buffers of one run."""
        return sum(self.pieces[2:])

    def begin(self, run: Run) -> Progress:
        """Prepare a run with all its memory; nothing moves yet."""
        return _SynchronizedSteps(self, run)


class _SynchronizedSteps(Progress):
    def __init__(self, exchange: Synchronized, run: Run) -> None:
        super().__init__(exchange, run)
        self._out, self._in = cut_slots(run.staging, exchange.pieces[2:])
        self._received = 0  # messages
        self._arriving: list[Piece] = []  # at most one
        self._requests: list[Any] = [run.channel.nothing, run.channel.nothing]
        self._is_sending = False

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start the first step."""
        assert isinstance(exchange, Synchronized)
        sends, receives, *_ = exchange.pieces
        self._copies, self._received = exchange.copies, 0
        self._sends = sends[::-1]
        send_keys, receive_keys = ([message.key for message in side] for side in (exchange.sends, exchange.receives))
        counts = count_awaited(send_keys, receive_keys, bool(exchange.options.extents.unbalanced))
        self._awaited = dict(zip(map(id, exchange.sends), counts, strict=True))
        self._by_source: dict[int, deque[Piece]] = {}
        for piece in receives:
            self._by_source.setdefault(piece.message.peer, deque()).append(piece)
        self._send()

    def _probe(self) -> None:
        """Start to receive a message that has arrived from any source."""
        if self._arriving:
            return
        for source in tuple(self._by_source):
            message = self.channel.probe(source, self.run.tag)
            pieces = self._by_source.pop(source)
            if message is not None:
                piece = pieces.popleft()
                self._arriving.append(piece)
                self._requests[RECEIVE] = message.receive(self.buffers.incoming(self.run, piece, self._in))
            if pieces:
                self._by_source[source] = pieces  # last in turn
            if message is not None:
                return

    def _unpack(self) -> None:
        """Unpack the received piece."""
        piece = self._arriving.pop()
        self.buffers.arrived(self.run, piece, self._in)
        self._received += piece.last == piece.message.last

    def _send(self) -> None:
        """Send the next piece if the last send is complete and the awaited receives are."""
        if not self._sends or self._is_sending or self._received < self._awaited[id(self._sends[-1].message)]:
            return
        piece, run = self._sends.pop(), self.run
        buffer = self.buffers.outgoing(run, piece, self._out)
        self._requests[SEND] = self.channel.send(buffer, piece.message.peer, run.tag)
        self._is_sending = True

    def advance(self, block: bool) -> bool:
        """Receive, unpack and send, and copy locally in between."""
        while self._by_source or self._arriving or self._sends or self._is_sending:
            self._probe()
            number = self.channel.first_done(self._requests)
            if number is None:
                if not self.copy_piece():
                    return False
                continue
            if number == RECEIVE:
                self._unpack()
            else:
                self._is_sending = False
            self._send()
        return self.copy_all()
