"""The stages of a plan, and their moves. A move transfers elements from one array to another, with one operation.

An ordinary plan has one stage with one move. With `fill=` the stage has two moves, with `via=` there are several stages, with
`reduce=` too (engine/sums.py), and in a batch the stage has the moves of all plans.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from .._kernels.boxes import Blend, Box
from .._kernels.bundle import Bundle
from .._kernels.transport import Traffic
from ..comm.group import Group
from ..exchanges import Boxes, ByteMessage, Exchange, ExchangeOptions, Extents, Form, Message
from ..exchanges.exchange import in_order
from ..exchanges.shared import Shared
from ..layout.letters import transposes
from ..layout.tiles import Layout
from ..schedules.orders import Order
from .messages import RankMessages
from .operation import Edge, MatrixPart, edge_of, op_layout

if TYPE_CHECKING:
    from .._kernels.bundle import Part as Packed

Key = Callable[[int, Message], tuple[int, ...]]
Blending = tuple[str, bool, bool]


class Pair(NamedTuple):
    """The user's two arrays, and the operation between them.

    Attributes
    ----------
    desc_a, desc_b : Descriptor or Tiles
        Layouts before and after.
    dtype : dtype or None
        The dtype, if this rank knows it.
    op : str
        Operation on A.
    part : MatrixPart or None
        The trapezoid of A that is moved.
    fill : str or None
        The values outside the trapezoid.
    reduce : str or None
        "sum": A's replicas are summands.
    order : {None, "C", "F", "K"}
        Of elements in a new local array of B, as for `redistribute`.
    """

    desc_a: Layout
    desc_b: Layout
    dtype: np.dtype[Any] | None
    op: str = "N"
    part: MatrixPart | None = None
    fill: str | None = None
    reduce: str | None = None
    order: str | None = None


class Move(NamedTuple):
    """A transfer of elements from one array to another.

    Attributes
    ----------
    pair : int
        Number of the pair that the move belongs to.
    source, target : int
        Numbers of the arrays: 2 k and 2 k + 1 for A and B of pair k, then those of layouts in between.
    desc_a, desc_b : Descriptor or Tiles
        Their layouts.
    op : str
        Operation on the elements.
    last : bool
        Whether this is the pair's last move, in which alpha and beta apply.
    part : MatrixPart or None
        The trapezoid of A that is moved.
    order : Order
        Order of the messages.
    messages : RankMessages
        This rank's messages.
    arrays : tuple of (int, int)
        With tiles, the pairs of local arrays between which boxes move, by number: first A's, then B's; -1 for none.
    adds : bool
        Whether what this rank gets is added to what it has got: a summand after the first one.
    """

    pair: int
    source: int
    target: int
    desc_a: Layout
    desc_b: Layout
    op: str
    last: bool
    part: MatrixPart | None
    order: Order
    messages: RankMessages
    arrays: tuple[tuple[int, int], ...] = ()
    adds: bool = False

    @property
    def blending(self) -> Blending:
        """What determines the operation on elements, for arrays of one kind."""
        return self.op, self.last, self.adds

    @property
    def op_layout(self) -> Layout:
        """The layout of op(A)."""
        return op_layout(self.desc_a, self.op)

    @property
    def edge(self) -> Edge | None:
        """Edge of the elements of op(A) that move; None for all."""
        return edge_of(self.part, self.op, self.desc_b.shape)

    @property
    def from_a_to_b(self) -> bool:
        """Whether elements go from the user's A to the user's B, without a layout in between."""
        return 2 * self.pair == self.source == self.target - 1

    def copies(self, kind: ArrayKind) -> list[Message]:
        """This rank's local copies for arrays of one kind; none if A and B are one unchanged array."""
        return [] if self.from_a_to_b and kind.unchanged[self.pair] else self.messages.copies


class ArrayKind(NamedTuple):
    """The common properties of arrays of one kind.

    Attributes
    ----------
    strides : tuple of tuple of int
        Strides of each array, in bytes.
    items : tuple of int
        Bytes of an element, for each pair.
    blends : tuple of dict
        For each pair, what the kernels do with elements in a move, by the move's `blending`.
    unchanged : tuple of bool
        For each pair, whether A and B are one array whose elements stay as they are.
    """

    strides: tuple[tuple[int, ...], ...]
    items: tuple[int, ...]
    blends: tuple[dict[Blending, Blend | None], ...]
    unchanged: tuple[bool, ...]


class Stage:
    """Moves that go together, and their exchange.

    Parameters
    ----------
    moves : sequence of Move
        The moves.
    exchange : type of Exchange
        The way of moving bytes.
    options : ExchangeOptions
        Options that all ranks have in common.
    group : Group or None
        The ranks; None on a rank that takes no part in the plan.
    by_distance : bool
        Whether messages of several moves are ordered by the distance of ranks, instead of by the order of the first move.
    """

    def __init__(
        self,
        moves: Sequence[Move],
        exchange: type[Exchange],
        options: ExchangeOptions,
        group: Group | None,
        by_distance: bool = False,
    ) -> None:
        self.moves, self.exchange, self.options = tuple(moves), exchange, options
        self._group, self._by_distance = group, by_distance
        only_user_arrays = False not in [move.from_a_to_b for move in self.moves]
        # Number of each move's arrays among the addresses of a run: by pair if all arrays are the user's, else by move.
        self.origin_numbers = [move.pair if only_user_arrays else k for k, move in enumerate(self.moves)]

    def with_options(self, options: ExchangeOptions, exchange: type[Exchange] | None = None) -> Self:
        """The same moves with other options, and perhaps another exchange."""
        stage = copy.copy(self)
        stage.options, stage.exchange = options, exchange or self.exchange
        return stage

    @property
    def extents(self) -> Extents:
        """This rank's extents."""
        node = None if self._group is None else self._group.node
        by_move = [Extents.of(move.messages.sends, move.messages.receives, node) for move in self.moves]
        if len(by_move) == 1:
            return by_move[0]
        return Extents(  # one message for each peer
            messages=max(len({m.peer for move in self.moves for m in move.messages[k]}) for k in range(2)),
            elements=sum(extents.elements for extents in by_move),
            unbalanced=1,
            between=sum(extents.between for extents in by_move),
            away=max(extents.away for extents in by_move),
        )

    def make_exchange(
        self, kind: ArrayKind, element_order: int, item_bytes: int, exchange_type: type[Exchange] | None = None
    ) -> Exchange:
        """Make the exchange for arrays of one kind.

        Parameters
        ----------
        kind : ArrayKind
            The arrays' kind.
        element_order : int
            Order of elements in messages: by rows (1) or by columns (2).
        item_bytes : int
            Bytes of the largest element on any rank.
        exchange_type : class of Exchange, optional
            Replaces the stage's own exchange.
        """
        bundles = _Bundles(self, kind, element_order)
        sends, receives = (
            bundles.messages([move.messages[k] for move in self.moves], k == 0, self._key(k == 0)) for k in range(2)
        )
        copies = bundles.bundle(
            [(k, message.box) for k, move in enumerate(self.moves) for message in move.copies(kind)],
            "",
        )
        node = None if self._group is None else self._group.node
        options = self.options.of(max(1, item_bytes), element_order)
        return (exchange_type or self.exchange)(sends, receives, copies, options, node)

    def make_traffic(self, kind: ArrayKind, element_order: int, item_bytes: int) -> Traffic | None:
        """Make the compiled traffic of a shared exchange without the exchange; None for other exchanges and several moves.

        Parameters as for `make_exchange`.
        """
        node = None if self._group is None else self._group.node
        if node is None or self.exchange is not Shared or len(self.moves) > 1:
            return None
        move = _BoundMove.of(self.moves[0], self.origin_numbers[0], kind, element_order)
        sends, receives, _ = self.moves[0].messages

        def pairs(messages: Sequence[Message], dense: str) -> list[tuple[int, Bundle]]:
            boxes: dict[int, Box | Boxes] = {}
            for message in in_order(messages):
                boxes.setdefault(message.peer, message.box)
            return [(peer, Bundle(move.parts(box, dense), dense)) for peer, box in boxes.items()]

        copied = [part for message in move.move.copies(kind) for part in move.parts(message.box, "")]
        outgoing, incoming = pairs(sends, "target"), pairs(receives, "source")
        return Shared.make_traffic(outgoing, incoming, Bundle(copied, ""), item_bytes, self.options.memory_limit, node)

    def _key(self, sending: bool) -> Key:
        """Return a function that gives a message's key in the schedule, from the number of its move and the message."""
        group = self._group
        if not self._by_distance or group is None:
            return lambda k, message: (k, *message.key)
        size, rank = group.size, group.rank
        if sending:
            return lambda k, message: ((message.peer - rank) % size,)
        return lambda k, message: ((rank - message.peer) % size,)


class _BoundMove(NamedTuple):
    """A move bound to arrays of one kind: the properties that all its boxes share."""

    move: Move
    origin: int
    strides: tuple[tuple[int, ...], ...]
    transposed: bool
    item: int
    order: tuple[int, ...]
    blend: Blend | None

    @classmethod
    def of(cls, move: Move, origin: int, kind: ArrayKind, element_order: int) -> _BoundMove:
        """Bind a move whose arrays are at `origin`, with elements by rows (1) or by columns (2)."""
        dims = tuple(range(move.desc_a.ndim))
        blend = kind.blends[move.pair].get(move.blending)
        dims = dims if element_order == 2 else dims[::-1]
        return cls(move, origin, kind.strides, transposes(move.op), kind.items[move.pair], dims, blend)

    def parts(self, box: Box | Boxes, dense: str) -> list[Packed]:
        """Return a box as a part of a bundle; with several local arrays, a part for each of their boxes."""
        move = self.move
        if isinstance(box, Boxes):
            return [self._part(number, some, *move.arrays[number], dense) for number, some in box.parts]
        return [self._part(self.origin, box, move.source, move.target, dense)]

    def _part(self, origin: int, box: Box, a: int, b: int, dense: str) -> Packed:
        """Return the part for a box between arrays `a` and `b`, whose addresses are at `origin`."""
        source = None if dense == "source" else self.source(a)
        if dense == "target":
            return origin, box, source, None, self.order, self.item, None
        return origin, box, source, self.strides[b], self.order, self.item, self.blend

    def source(self, a: int) -> tuple[int, ...]:
        """Return the strides of op(A)."""
        return self.strides[a][::-1] if self.transposed else self.strides[a]


class _Bundles:
    """Makes the bundles of a stage for arrays of one kind."""

    def __init__(self, stage: Stage, kind: ArrayKind, element_order: int) -> None:
        self._datatypes = stage.options.buffers == "datatypes"
        moves = zip(stage.moves, stage.origin_numbers, strict=True)
        self._moves = [_BoundMove.of(move, origin, kind, element_order) for move, origin in moves]

    def bundle(self, contents: Sequence[tuple[int, Box | Boxes]], dense: str) -> Bundle:
        """Make a bundle of boxes of moves, one after another."""
        return Bundle([part for k, box in contents for part in self._moves[k].parts(box, dense)], dense)

    def _form(self, bound: _BoundMove, box: Box | Boxes, sending: bool) -> Form | None:
        """Describe a box in the user's array for a derived datatype; None without datatypes."""
        if not self._datatypes or not isinstance(box, Box):
            return None
        strides = bound.source(bound.move.source) if sending else bound.strides[bound.move.target]
        return Form(box, strides, bound.item, bound.order)

    def messages(self, by_move: Sequence[Sequence[Message]], sending: bool, key: Key) -> list[ByteMessage]:
        """Make a byte message for each message of a single move, or for each peer of several moves."""
        dense = "target" if sending else "source"
        byte_messages = []
        if len(by_move) == 1:
            bound, item = self._moves[0], self._moves[0].item
            bundles: dict[int, Bundle] = {}
            for peer, box, origin, first, last in by_move[0]:
                bundle = bundles.get(id(box))
                if bundle is None:
                    bundle = bundles[id(box)] = self.bundle([(0, box)], dense)
                form = self._form(bound, box, sending)
                byte_messages.append(ByteMessage(peer, origin, bundle, first * item, last * item, form))
            return byte_messages
        contents: dict[int, dict[tuple[int, int], tuple[int, Box | Boxes]]] = {}
        keys: dict[int, tuple[int, ...]] = {}
        for k, messages in enumerate(by_move):
            for message in messages:
                contents.setdefault(message.peer, {}).setdefault((k, id(message.box)), (k, message.box))
                keys.setdefault(message.peer, key(k, message))
        for peer, boxes in contents.items():
            bundle = self.bundle(list(boxes.values()), dense)
            byte_messages.append(ByteMessage(peer, keys[peer], bundle, 0, bundle.size, None))
        return byte_messages
