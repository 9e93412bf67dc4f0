"""The base classes of exchanges, their options, and the choice of stores and threads.

An exchange holds the messages of one rank; each of its runs is a `Progress`, advanced until it is complete.
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
from ..comm.log_steps import Rows
from ..comm.node import Node, last_cache
from ..errors import RedistributionError
from .message import BUFFERS, LARGEST_COUNT, ByteMessage, Message, Piece, Run

MEMORY_LIMIT = 64 * 2**20  # default: most bytes of staging buffers on a rank
VARIABLE = "PYSCALAPACK_REDIST_THREADS"
LARGEST_SHARE = 4 * 2**20  # most bytes assumed for a rank's share of the last cache
STREAM_FROM = 0.5  # non-temporal stores are tried if B takes this part of the share or more; A is as large
MOST_TRIALS = 1024  # kinds of moves with trials of their own

_size_classes: dict[tuple[object, ...], SizeClass] = {}
_trials: dict[tuple[object, ...], Trials] = {}


def stores_for(arriving: Iterable[Bundle], copies: Bundle, ranks: int) -> Stores:
    """The kind of stores with which a rank writes into B: ordinary or non-temporal.

    Moves that fit into a rank's share of the last cache use ordinary stores. The system may report a cache that a virtual
    machine shares with others, so the share is limited to a few MiB. All other moves use non-temporal stores until a trial
    shows that ordinary ones are faster (`_kernels.stores`).

    Parameters
    ----------
    arriving, copies : Bundle
        The bundles received from other ranks, and the local copy.
    ranks : int
        The number of ranks of the node, which share its caches.
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
    """The number of threads that share large moves, from PYSCALAPACK_REDIST_THREADS; 1 by default.

    Raises
    ------
    RedistributionError
        The variable is not such a number.
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
    """Set the number of threads from the environment, once.

    Threads pack, unpack and copy for ranks that have several cores each. One thread moves the chunks of a ring, because other
    ranks wait for each chunk.

    Raises
    ------
    RedistributionError
        The variable is wrong.
    """
    global _prepared
    if not _prepared:
        use(read_thread_count())
        _prepared = True


class Extents(NamedTuple):
    """Counts of one rank's messages; the ranks agree on the largest of each.

    Attributes
    ----------
    messages : int
        The number of messages to send or to receive, whichever is larger.
    elements : int
        Elements of the longest message.
    partial : int
        1 if a message is only a part of what two processes share.
    unbalanced : int
        1 if the numbers of messages to send and to receive differ.
    between : int
        Elements out of a node or into it, whichever are more: this rank's times the ranks of the node.
    away : int
        The number of ranks on other nodes to which messages go, or from which they come, whichever is larger.
    """

    messages: int = 0
    elements: int = 0
    partial: int = 0
    unbalanced: int = 0
    between: int = 0
    away: int = 0

    @classmethod
    def of(cls, sends: Sequence[Message], receives: Sequence[Message], node: Node | None) -> Extents:
        """The extents of this rank's messages."""
        messages = (*sends, *receives)
        return cls(
            messages=max(len(sends), len(receives)),
            elements=max((message.size for message in messages), default=0),
            partial=any(message.size != message.box.size for message in messages),
            unbalanced=len(sends) != len(receives),
            between=0 if node is None else node.size * max(_elements_between(sends, node), _elements_between(receives, node)),
            away=0 if node is None else max(_peers_between(sends, node), _peers_between(receives, node)),
        )


def _elements_between(messages: Sequence[Message], node: Node) -> int:
    """Elements of messages to or from other nodes."""
    return sum(message.size for message in messages if message.peer not in node.number)


def _peers_between(messages: Sequence[Message], node: Node) -> int:
    """The number of ranks on other nodes to which messages go, or from which they come."""
    return len({message.peer for message in messages if message.peer not in node.number})


M = TypeVar("M", Message, ByteMessage)
_in_order = operator.attrgetter("key", "peer")


def in_order(messages: Sequence[M]) -> Sequence[M]:
    """Messages sorted by (key, sender, receiver): the global order, the same on sender and receiver, that proofs rely on."""
    return sorted(messages, key=_in_order) if len(messages) > 1 else messages


class Cutting(NamedTuple):
    """How messages between nodes are cut into pieces.

    Attributes
    ----------
    nbytes, window : int or None
        Bytes of a piece, and the number of pieces in flight; None for the defaults of the exchange.
    spread : bool
        Whether the window holds few pieces of each of many messages, instead of one message after another.
    """

    nbytes: int | None = None
    window: int | None = None
    spread: bool = False


class ExchangeOptions(NamedTuple):
    """Options of an exchange, equal on all ranks.

    Attributes
    ----------
    memory_limit : int
        Most bytes of staging buffers on this rank.
    buffers : str
        A name in `BUFFERS`.
    extents : Extents
        The maxima over all ranks.
    item : int
        Bytes of the largest element.
    order : int
        Order of elements in messages: 1 by rows, 2 by columns.
    cutting : Cutting
        Pieces of messages between nodes.
    ranks : int
        The number of ranks of the group.
    radix : int
        The radix of `LogSteps`.
    with_vote : bool
        Whether messages may be sent with the vote: votes go by messages, and all ranks with elements know the dtype.
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

    def of(self, item: int, order: int) -> ExchangeOptions:
        """These options for elements of another size and order."""
        return self._replace(item=item, order=order)


class Exchange(ABC):
    """A way of moving the messages of one rank, for arrays of one kind.

    Parameters
    ----------
    sends, receives : sequence of ByteMessage
        The messages of this rank.
    copies : Bundle
        The local copy from A to B.
    options : ExchangeOptions
        Options, equal on all ranks.
    node : Node, optional
        The ranks of this node.

    Attributes
    ----------
    needs_one_port : bool
        Whether it needs a one-port schedule.
    scheduled : bool
        Whether it follows a schedule.
    collective : bool
        Whether it makes collective calls, on `Run.collectives`.
    in_turn : bool
        Whether its runs go one after another.
    supported_buffers : tuple of str
        Names of the buffers that it can use.
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
        options: ExchangeOptions,
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

    @classmethod
    def largest_piece(cls, options: ExchangeOptions) -> int:
        """Most bytes of a piece, unless an element is larger; the same on all ranks."""
        return min(options.memory_limit // 2, LARGEST_COUNT)

    @property
    @abstractmethod
    def staging_bytes(self) -> int:
        """Bytes of staging buffers of one run."""

    @property
    def private_bytes(self) -> int:
        """Bytes of staging buffers that are private to a run."""
        return self.staging_bytes

    @property
    def between_nodes(self) -> tuple[int, int]:
        """Bytes out of the busiest node, or into it, and the number of dependent messages after the vote."""
        return self.options.extents.between * self.options.item, 1

    @property
    def sends_early(self) -> bool:
        """Whether a run sends before the vote is counted (`Progress.send_early`)."""
        return False

    def compiled(self) -> Traffic | None:
        """The compiled form of a run, or None."""
        return None

    @abstractmethod
    def begin(self, run: Run) -> Progress:
        """Prepare a run with all its memory; nothing moves yet."""


class Progress(ABC):
    """A run of an exchange. The local copies are made here, between the messages."""

    def __init__(self, exchange: Exchange, run: Run) -> None:
        self.run, self.channel = run, run.channel
        self.buffers = exchange.buffers
        self._copies, self._copied = exchange.copies, 0

    def renew(self) -> None:
        """Prepare the next run, after the last is complete."""
        self._copied = 0

    def pack_for_vote(self) -> Rows | None:
        """Pack the blocks for all ranks that are sent with the vote, if any."""
        return None

    def send_early(self) -> None:  # noqa: B027 (few do)
        """Send the messages that need not wait for the vote."""

    def withdraw(self) -> tuple[int, ...]:
        """Withdraw after a failed vote; return the ranks to which messages were sent."""
        return ()

    def is_sent(self) -> bool:
        """Whether the sends before a failed vote are complete."""
        return True

    @abstractmethod
    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start moving, after agreement.

        Parameters
        ----------
        exchange : Exchange
            The exchange for the agreed order of elements.
        mark : int
            The number of a vote after which messages are packed again, for `Traffic.begin`; 0 if they are packed as agreed.
        """

    @abstractmethod
    def advance(self, block: bool) -> bool:
        """Make progress, with `block` waiting a little; True when the run is complete."""

    def copy_piece(self) -> bool:
        """Copy one piece of the local copy; False when none is left."""
        return self._copy(self._copies.copy_piece)

    def copy_all(self) -> bool:
        """Copy the rest and return True, for the end of `advance`."""
        self._copy(self._copies.size)
        return True

    def _copy(self, most: int) -> bool:
        """Copy at most `most` bytes, but at least an element; False when none is left."""
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
    """An exchange in rounds, as many on each rank, as collective calls need.

    In each round a message contributes a piece of fixed length, or its rest. With this length the process with most messages
    has room for a piece of each. The length and the number of rounds follow from numbers that all ranks know.
    """

    collective: ClassVar[bool] = True
    in_turn: ClassVar[bool] = True

    @classmethod
    def largest_piece(cls, options: ExchangeOptions) -> int:
        """Most bytes of a piece, so that a round has room for one of each message; the same on all ranks."""
        return super().largest_piece(options) // max(1, options.extents.messages)

    @functools.cached_property
    def rounds(self) -> list[Round]:
        """Pieces to send and to receive in each round; all ranks have as many rounds."""
        options = self.options
        extents, item = options.extents, options.item
        length = max(1, self.largest_piece(options) // item)
        if self.buffers.name == "datatypes":
            length = max(1, extents.elements)
        rounds: list[Round] = [([], []) for _ in range(-(-extents.elements // length))]
        for side, messages in enumerate((self.sends, self.receives)):
            for piece in self.buffers.cut(messages, length * item)[0]:
                rounds[piece.number][side].append(piece)
        return rounds

    @property
    def staging_bytes(self) -> int:
        """Bytes of staging buffers of one run: those of the first round."""
        return sum(piece.nbytes for both in self.rounds[:1] for pieces in both for piece in pieces)
