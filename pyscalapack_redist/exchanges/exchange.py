"""Exchanges: the common base of all ways of moving the bytes of a plan's messages, with their stores and their threads.

An exchange turns messages into a transfer that can be advanced until it is complete.
"""

from __future__ import annotations

import functools
import operator
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple, TypeVar

from .._kernels.bundle import Bundle
from .._kernels.stores import SizeClass, Stores, Trials
from .._kernels.threads import MOST, use
from .._kernels.transport import Traffic
from ..comm.node import Node, last_cache
from ..comm.vote import Rows
from ..errors import RedistributionError, ScheduleError
from .message import BUFFERS, LARGEST_COUNT, ByteMessage, Message, Piece, Run

MEMORY_LIMIT = 64 * 2**20  # most bytes of staging memory on a rank, where nothing else is asked for
VARIABLE = "PYSCALAPACK_REDIST_THREADS"
LARGEST_SHARE = 4 * 2**20  # most bytes of the last cache that a rank is taken to have
STREAM_FROM = 0.5  # part of its share that a rank writes, from which on non-temporal stores are tried: A is as large
MOST_TRIALS = 1024  # kinds of moves that are kept apart

_size_classes: dict[tuple[object, ...], SizeClass] = {}
_trials: dict[tuple[object, ...], Trials] = {}


def stores_for(arriving: Iterable[Bundle], copies: Bundle, ranks: int) -> Stores:
    """The kind of stores for what a rank writes into B, of a node with so many ranks. Not collective.

    They are ordinary ones, through the cache, or non-temporal ones. Moves that surely fit into the cache are written by
    ordinary stores. This goes by the size of the last cache as the system tells it. That errs upwards, as a virtual machine is
    told of a cache that it shares with others: so a rank is taken to have a few MiB of it at most. All other moves are written
    by non-temporal stores until a trial has found otherwise (`_kernels.stores`).

    Parameters
    ----------
    arriving, copies : Bundle
        What comes from other ranks, and what stays here.
    ranks : int
        Ranks of the node, which share its caches.
    """
    bundles = [copies, *arriving]
    nbytes = sum([bundle.size for bundle in bundles])
    if nbytes == 0 or nbytes < STREAM_FROM * min(last_cache().share(ranks), LARGEST_SHARE):
        return Stores(nbytes, False)
    pattern = max(bundles, key=lambda bundle: bundle.size).pattern
    key = nbytes, copies.size, len(bundles), ranks, pattern
    trials = _trials.get(key)
    if trials is None:
        size_class = _size_classes.setdefault((nbytes.bit_length(), ranks, pattern), SizeClass())
        while len(_trials) >= MOST_TRIALS:
            del _trials[next(iter(_trials))]
        trials = _trials[key] = Trials(size_class)
    return Stores(nbytes, True, trials)


_prepared = False


def read_thread_count() -> int:
    """Threads that share a rank's large moves: PYSCALAPACK_REDIST_THREADS, 1 where it is not set. Not collective.

    Raises
    ------
    RedistributionError
        It is no such number.
    """
    text = os.environ.get(VARIABLE) or "1"
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= MOST:
        raise RedistributionError(
            f"{VARIABLE}={text!r} must be the number of threads with which each rank packs, unpacks and copies, 1 to {MOST}: "
            "set it to the number of cores that a rank has to itself, or unset it for one thread"
        )
    return number


def prepare() -> None:
    """Have as many threads as the environment asks for; it is read once. Not collective.

    They pack, unpack and copy for ranks that have several cores each. Chunks that go through the ring of a node are moved by
    one thread, for other ranks wait for each chunk.

    Raises
    ------
    RedistributionError
        The environment is wrong.
    """
    global _prepared
    if not _prepared:
        use(read_thread_count())
        _prepared = True


class Extents(NamedTuple):
    """What the messages of one rank come to; all ranks learn the largest of each number.

    Attributes
    ----------
    messages : int
        Messages to send or to receive, whichever are more.
    elements : int
        Elements of the longest message.
    partial : int
        1 if a message is only a part of what two processes share.
    unbalanced : int
        1 if there are more messages to send than to receive, or fewer.
    between : int
        Elements that go out of a node or into it, whichever are more: this rank's times the ranks of the node.
    """

    messages: int = 0
    elements: int = 0
    partial: int = 0
    unbalanced: int = 0
    between: int = 0

    @classmethod
    def of(cls, sends: Sequence[Message], receives: Sequence[Message], node: Node | None) -> Extents:
        """Those of this rank. Not collective."""
        both = (*sends, *receives)
        return cls(
            messages=max(len(sends), len(receives)),
            elements=max((message.size for message in both), default=0),
            partial=any(message.size != message.box.size for message in both),
            unbalanced=len(sends) != len(receives),
            between=0 if node is None else node.size * max(_away(sends, node), _away(receives, node)),
        )


def _away(messages: Sequence[Message], node: Node) -> int:
    """Elements of messages to or from other nodes."""
    return sum(message.size for message in messages if message.peer not in node.number)


M = TypeVar("M", Message, ByteMessage)
_in_order = operator.attrgetter("key", "peer")


def in_order(messages: Sequence[M]) -> Sequence[M]:
    """Messages as sender and receiver sort them alike, by (key, sender, receiver): the order that the proofs rest on."""
    return sorted(messages, key=_in_order) if len(messages) > 1 else messages


class Cutting(NamedTuple):
    """How messages between nodes are cut into pieces.

    Attributes
    ----------
    nbytes, window : int or None
        Bytes of a piece, and how many are sent at a time; None for the exchange's own.
    spread : bool
        Whether these are few of each of many messages; otherwise message comes after message.
    """

    nbytes: int | None = None
    window: int | None = None
    spread: bool = False


class Options(NamedTuple):
    """What an exchange is told besides its messages, equal on all ranks.

    Attributes
    ----------
    memory_limit : int
        Most bytes of staging memory on this rank.
    buffers : str
        A name in `BUFFERS`.
    extents : Extents
        The largest of all ranks.
    item : int
        Bytes of an element, of the largest where there are several arrays.
    order : int
        Of elements in messages: 1 by rows, 2 by columns.
    cutting : Cutting
        Of messages between nodes.
    ranks : int
        Ranks of the group.
    radix : int
        Of votes by messages, and of what goes like them (`LogSteps`).
    with_vote : bool
        Whether messages may travel with the vote: it goes by messages too, and whoever has any knows the dtype by then.
    """

    memory_limit: int
    buffers: str = "packed"
    extents: Extents = Extents()
    item: int = 1
    order: int = 2
    cutting: Cutting = Cutting()
    ranks: int = 1
    radix: int = 2
    with_vote: bool = False

    def of(self, item: int, order: int) -> Options:
        """The same for elements of that size in that order. Not collective."""
        limit, buffers, extents, _, _, cutting, ranks, radix, with_vote = self
        return Options(limit, buffers, extents, item, order, cutting, ranks, radix, with_vote)


class Exchange(ABC):
    """The messages of one rank, for arrays of one kind, and a way of moving them.

    Parameters
    ----------
    sends, receives : sequence of ByteMessage
        What this rank sends and receives.
    copies : Bundle
        What it copies from its own A to its own B.
    options : Options
        What all ranks have in common.
    node : Node, optional
        The ranks of this node, for an exchange that treats them in another way.

    Attributes
    ----------
    needs_one_port : bool
        Whether no process may send or receive twice in a step of the schedule.
    scheduled : bool
        Whether a schedule means anything to it.
    collective : bool
        Whether it makes collective calls, on `Run.collectives`, in which all ranks take part.
    in_turn : bool
        Whether its runs come one after another.
    supported_buffers : tuple of str
        The buffers that it can use.
    """

    name: ClassVar[str]
    needs_one_port: ClassVar[bool] = False
    scheduled: ClassVar[bool] = True
    collective: ClassVar[bool] = False
    in_turn: ClassVar[bool] = False
    supported_buffers: ClassVar[tuple[str, ...]] = tuple(BUFFERS)

    def __init__(
        self,
        sends: Sequence[ByteMessage],
        receives: Sequence[ByteMessage],
        copies: Bundle,
        options: Options,
        node: Node | None = None,
    ) -> None:
        self.sends, self.receives = tuple(in_order(sends)), tuple(in_order(receives))
        self.copies, self.options, self.node = copies, options, node
        arriving = dict.fromkeys([message.bundle for message in self.receives])
        stores = stores_for(arriving, copies, 1 if node is None else node.size)
        for bundle in (copies, *arriving):
            bundle.stores = stores
        prepare()
        self.buffers = BUFFERS[options.buffers]()

    @staticmethod
    def check(extents: Extents, buffers: str) -> None:
        """See whether messages of such extents can go. Not collective: the same on all ranks.

        Raises
        ------
        ScheduleError
            These buffers cannot hold them.
        """
        if extents.partial and buffers == "datatypes":
            raise ScheduleError(
                "buffers = 'datatypes' describes all that two processes share as one datatype, but this schedule has the pair "
                "in several steps, with a part in each: use buffers='packed', or a schedule that has each pair once, "
                "such as 'caterpillar'"
            )

    @classmethod
    def largest_piece(cls, options: Options) -> int:
        """Most bytes of a piece of a message, which has at least an element. Not collective: the same on all ranks."""
        return min(options.memory_limit // 2, LARGEST_COUNT)

    @property
    @abstractmethod
    def staging_bytes(self) -> int:
        """Staging memory of one run. Not collective."""

    @property
    def private_bytes(self) -> int:
        """The part of it that each run takes for itself. Not collective."""
        return self.staging_bytes

    @property
    def between_nodes(self) -> tuple[int, int]:
        """Bytes out of the busiest node, or into it, and messages that wait for one another after the vote. Not collective."""
        return self.options.extents.between * self.options.item, 1

    @property
    def sends_early(self) -> bool:
        """Whether a run sends before the vote is known (`Progress.ahead`). Not collective."""
        return False

    def compiled(self) -> Traffic | None:
        """All of a run as one compiled piece, where it is one. Not collective."""
        return None

    @abstractmethod
    def begin(self, run: Run) -> Progress:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""


class Progress(ABC):
    """A run under way. The local copies are made here, between the messages."""

    def __init__(self, exchange: Exchange, run: Run) -> None:
        self.run, self.channel = run, run.channel
        self.buffers = exchange.buffers
        self._copies, self._copied = exchange.copies, 0

    def renew(self) -> None:
        """Be as before the first use, for the run as it is now; the one before is complete. Not collective."""
        self._copied = 0

    def pack_for_vote(self) -> Rows | None:
        """Pack what with_vote with the vote: blocks for all ranks, if any. Not collective."""
        return None

    def send_early(self) -> None:  # noqa: B027 (few do)
        """Send what may go before the vote is known. Not collective."""

    def withdraw(self) -> tuple[int, ...]:
        """The vote was not good: the ranks to which something has been sent. Not collective."""
        return ()

    def is_sent(self) -> bool:
        """Whether MPI has done with what was sent before the vote, which was not good. Not collective."""
        return True

    @abstractmethod
    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """The vote was good: start moving. Not collective.

        Parameters
        ----------
        exchange : Exchange
            For the order of elements on which the ranks agreed.
        mark : int
            For `Traffic.begin`.
        """

    @abstractmethod
    def advance(self, block: bool) -> bool:
        """Do what can be done now, or wait a little for more if `block`; True when the run is complete."""

    def copy_piece(self) -> bool:
        """Copy one piece from the local A to the local B; False when none is left."""
        return self._copy(self._copies.copy_piece)

    def copy_all(self) -> bool:
        """Copy what is left; True, for the end of `advance`."""
        self._copy(self._copies.size)
        return True

    def _copy(self, most: int) -> bool:
        """Copy at most so many bytes, but at least an element; False when none is left."""
        if self._copied == self._copies.size:
            return False
        start = time.perf_counter()
        last = self._copies.end_of_piece(self._copied, most)
        self._copies.move(self.run.origins, 0, self._copied, last)
        self._copied = last
        self.run.add_time("copied", start)
        return True


Round = tuple[list[Piece], list[Piece]]


class RoundExchange(Exchange):
    """Pieces to send and to receive, round after round.

    All processes make the same number of rounds, as collective calls need. In each round every message gives a piece of one
    length, or the rest of it. The length is such that the process with most messages has room for a piece of each; it and the
    number of rounds follow from numbers that all ranks know.
    """

    collective: ClassVar[bool] = True
    in_turn: ClassVar[bool] = True

    @classmethod
    def largest_piece(cls, options: Options) -> int:
        """Most bytes of a piece, so that a round has room for one of each message. Not collective: the same on all ranks."""
        return super().largest_piece(options) // max(1, options.extents.messages)

    @functools.cached_property
    def rounds(self) -> list[Round]:
        """Pieces to send and to receive in each round. Equal in number on all ranks."""
        options = self.options
        extents, item = options.extents, options.item
        length = max(1, self.largest_piece(options) // item)
        if self.buffers.name == "datatypes":
            length = max(1, extents.elements)
        made: list[Round] = [([], []) for _ in range(-(-extents.elements // length))]
        for side, messages in enumerate((self.sends, self.receives)):
            for piece in self.buffers.cut(messages, length * item)[0]:
                made[piece.number][side].append(piece)
        return made

    @property
    def staging_bytes(self) -> int:
        """Staging memory of one run: that of the first round. Not collective."""
        return sum(piece.nbytes for some in self.rounds[:1] for pieces in some for piece in pieces)
