"""A plan is stages of moves. A move takes elements of one array to another with one operation on the way.

Plain: one stage, one move. With `fill=` two moves in one stage, with `via=` one stage after another, in a batch the moves of
several array pairs in one stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._kernels.boxes import Blend, Box
from .._kernels.bundle import Bundle
from .._kernels.transport import Traffic
from ..comm.group import Group
from ..exchanges import Boxes, ByteMessage, Exchange, Extents, Form, Message, Options
from ..exchanges.exchange import in_order
from ..exchanges.shared import Shared
from ..layout.letters import transposes
from ..layout.tiles import Layout
from ..schedules.orders import Order
from .messages import RankMessages
from .operation import Edge, MatrixPart, edge_of, moved

if TYPE_CHECKING:
    from .._kernels.bundle import Part as Packed

Key = Callable[[int, Message], tuple[int, ...]]


class Pair(NamedTuple):
    """The two arrays of a plan, as the user has them, and what is done on the way.

    Attributes
    ----------
    desc_a, desc_b : Descriptor or Tiles
        Layouts before and after.
    dtype : dtype or None
        That this rank was told.
    op : str
        What becomes of A.
    part : MatrixPart or None
        The trapezoid of A that is moved.
    fill : str or None
        What is written outside of it.
    """

    desc_a: Layout
    desc_b: Layout
    dtype: np.dtype[Any] | None
    op: str = "N"
    part: MatrixPart | None = None
    fill: str | None = None


class Move(NamedTuple):
    """Elements of one array that go to another.

    Attributes
    ----------
    pair : int
        The pair that it is for.
    source, target : int
        Numbers of the arrays: 2 k and 2 k + 1 for A and B of pair k, then those of layouts in between.
    desc_a, desc_b : Descriptor or Tiles
        Their layouts.
    op : str
        What becomes of the elements; and `last`, whether alpha and beta apply, for they do once.
    part : MatrixPart or None
        The trapezoid of A that is moved.
    order : Order
        The schedule's.
    messages : RankMessages
        This rank's.
    arrays : tuple of (int, int)
        With tiles, the pairs of local arrays that boxes are of: their numbers, those of B behind those of A; -1 for none.
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

    @property
    def moved(self) -> Layout:
        """The layout of op(A)."""
        return moved(self.desc_a, self.op)

    @property
    def edge(self) -> Edge | None:
        """Which elements of op(A) move; None for all."""
        return edge_of(self.part, self.op, self.desc_b.shape)

    @property
    def from_a_to_b(self) -> bool:
        """Whether it takes elements from the user's A to the user's B, by no layout in between."""
        return 2 * self.pair == self.source == self.target - 1

    def copies(self, kind: ArrayKind) -> list[Message]:
        """What this rank copies to itself, from arrays of one kind: nothing where A and B are one array that stays."""
        return [] if self.from_a_to_b and kind.stays[self.pair] else self.messages.copies


class ArrayKind(NamedTuple):
    """What arrays of one kind have in common: of each array the strides, of each pair the bytes of an element.

    `blends` has what becomes of elements, for each of a pair's operations in the last stage ("N", "T", "C", "R"), and "" for
    those of earlier stages; `stays` whether A and B are one array that nothing happens to.
    """

    strides: tuple[tuple[int, ...], ...]
    items: tuple[int, ...]
    blends: tuple[dict[tuple[str, bool], Blend | None], ...]
    stays: tuple[bool, ...]


class Stage:
    """Moves that go at once, and how.

    Parameters
    ----------
    moves : sequence of Move
        Those of the stage.
    exchange : type of Exchange
        How the bytes move.
    options : Options
        What all ranks have in common.
    group : Group or None
        The ranks; None on a rank that has no part in the plan.
    by_distance : bool
        Whether several moves' messages go in the order of the distance of ranks; else in that of the first of the moves.
    """

    def __init__(
        self,
        moves: Sequence[Move],
        exchange: type[Exchange],
        options: Options,
        group: Group | None,
        by_distance: bool = False,
    ) -> None:
        self.moves, self.exchange, self.options = tuple(moves), exchange, options
        self._group, self._by_distance = group, by_distance
        users = False not in [move.from_a_to_b for move in self.moves]
        # Where the arrays of a move are among the addresses of a run: by pair, where all are the user's.
        self.places = [move.pair if users else k for k, move in enumerate(self.moves)]

    @property
    def extents(self) -> Extents:
        """Those of this rank. Not collective."""
        node = None if self._group is None else self._group.node
        every = [Extents.of(move.messages.sends, move.messages.receives, node) for move in self.moves]
        if len(every) == 1:
            return every[0]
        return Extents(  # one message for each peer
            messages=max(len({m.peer for move in self.moves for m in move.messages[k]}) for k in range(2)),
            elements=sum(extents.elements for extents in every),
            unbalanced=1,
            between=sum(extents.between for extents in every),
        )

    def bind(self, kind: ArrayKind, order: int, item: int, by: type[Exchange] | None = None) -> Exchange:
        """The exchange for arrays of one kind. Not collective.

        Parameters
        ----------
        kind : ArrayKind
            Of the arrays.
        order : int
            Of the elements in messages: by rows (1) or by columns (2).
        item : int
            Bytes of an element, of the largest on any rank.
        by : class of Exchange, optional
            Another one than the stage's own.
        """
        binder = _Binder(self, kind, order)
        sends, receives = (
            binder.messages([move.messages[k] for move in self.moves], k == 0, self._key(k == 0)) for k in range(2)
        )
        copies = binder.bundle(
            [(k, message.box) for k, move in enumerate(self.moves) for message in move.copies(kind)],
            "",
        )
        node = None if self._group is None else self._group.node
        return (by or self.exchange)(sends, receives, copies, self.options.of(max(1, item), order), node)

    def bind_traffic(self, kind: ArrayKind, order: int, item: int) -> Traffic | None:
        """What the exchange would move in one compiled piece, before it is made; None where it would not. Not collective.

        Parameters as for `bound`.
        """
        node = None if self._group is None else self._group.node
        if node is None or self.exchange is not Shared or len(self.moves) > 1:
            return None
        move = _MoveBinding.of(self.moves[0], self.places[0], kind, order)
        sends, receives, _ = self.moves[0].messages

        def pairs(some: Sequence[Message], dense: str) -> list[tuple[int, Bundle]]:
            boxes: dict[int, Box | Boxes] = {}
            for message in in_order(some):
                boxes.setdefault(message.peer, message.box)
            return [(peer, Bundle(move.parts(box, dense), dense)) for peer, box in boxes.items()]

        copied = [part for message in move.move.copies(kind) for part in move.parts(message.box, "")]
        outgoing, incoming = pairs(sends, "target"), pairs(receives, "source")
        return Shared.straight(outgoing, incoming, Bundle(copied, ""), item, self.options.memory_limit, node)

    def _key(self, sending: bool) -> Key:
        """The place in the schedule of all that goes to or comes from a rank: a function of a move and its message."""
        group = self._group
        if not self._by_distance or group is None:
            return lambda k, message: (k, *message.key)
        size, rank = group.size, group.rank
        if sending:
            return lambda k, message: ((message.peer - rank) % size,)
        return lambda k, message: ((rank - message.peer) % size,)


class _MoveBinding(NamedTuple):
    """What all boxes of a move have in common, for arrays of one kind."""

    move: Move
    place: int
    strides: tuple[tuple[int, ...], ...]
    turned: bool
    item: int
    order: tuple[int, ...]
    blend: Blend | None

    @classmethod
    def of(cls, move: Move, place: int, kind: ArrayKind, order: int) -> _MoveBinding:
        """Of a move whose arrays are at `place`, with elements by rows (1) or by columns (2)."""
        dims = tuple(range(move.desc_a.ndim))
        blend = kind.blends[move.pair].get((move.op, move.last))
        dims = dims if order == 2 else dims[::-1]
        return cls(move, place, kind.strides, transposes(move.op), kind.items[move.pair], dims, blend)

    def parts(self, box: Box | Boxes, dense: str) -> list[Packed]:
        """A box as part of a bundle; or the boxes of several local arrays."""
        move = self.move
        if isinstance(box, Boxes):
            return [self._part(number, some, *move.arrays[number], dense) for number, some in box.parts]
        return [self._part(self.place, box, move.source, move.target, dense)]

    def _part(self, place: int, box: Box, a: int, b: int, dense: str) -> Packed:
        """A box between arrays `a` and `b`, whose addresses are at `place`."""
        source = None if dense == "source" else self.source(a)
        if dense == "target":
            return place, box, source, None, self.order, self.item, None
        return place, box, source, self.strides[b], self.order, self.item, self.blend

    def source(self, a: int) -> tuple[int, ...]:
        """Strides of op(A)."""
        return self.strides[a][::-1] if self.turned else self.strides[a]


class _Binder:
    """Makes bundles for arrays of one kind."""

    def __init__(self, stage: Stage, kind: ArrayKind, order: int) -> None:
        self._datatypes = stage.options.buffers == "datatypes"
        moves = zip(stage.moves, stage.places, strict=True)
        self._bindings = [_MoveBinding.of(move, place, kind, order) for move, place in moves]

    def bundle(self, contents: Sequence[tuple[int, Box | Boxes]], dense: str) -> Bundle:
        """Boxes of moves, one behind another."""
        return Bundle([part for k, box in contents for part in self._bindings[k].parts(box, dense)], dense)

    def _form(self, binding: _MoveBinding, box: Box | Boxes, sending: bool) -> Form | None:
        """A box in the user's array, where a derived datatype is to be made of it."""
        if not self._datatypes or not isinstance(box, Box):
            return None
        strides = binding.source(binding.move.source) if sending else binding.strides[binding.move.target]
        return Form(box, strides, binding.item, binding.order)

    def messages(self, by_move: Sequence[Sequence[Message]], sending: bool, key: Key) -> list[ByteMessage]:
        """One for each message of a move alone; one for each peer of several moves."""
        dense = "target" if sending else "source"
        made = []
        if len(by_move) == 1:
            binding, item = self._bindings[0], self._bindings[0].item
            bundles: dict[int, Bundle] = {}
            for peer, box, place, first, last in by_move[0]:
                bundle = bundles.get(id(box))
                if bundle is None:
                    bundle = bundles[id(box)] = self.bundle([(0, box)], dense)
                form = self._form(binding, box, sending)
                made.append(ByteMessage(peer, place, bundle, first * item, last * item, form))
            return made
        contents: dict[int, dict[tuple[int, int], tuple[int, Box | Boxes]]] = {}
        keys: dict[int, tuple[int, ...]] = {}
        for k, some in enumerate(by_move):
            for message in some:
                contents.setdefault(message.peer, {}).setdefault((k, id(message.box)), (k, message.box))
                keys.setdefault(message.peer, key(k, message))
        for peer, boxes in contents.items():
            all_ = self.bundle(list(boxes.values()), dense)
            made.append(ByteMessage(peer, keys[peer], all_, 0, all_.size, None))
        return made
