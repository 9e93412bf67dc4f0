"""The moves of a batch: its plans' messages by peer, and the bundles that they make for arrays of known kinds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .._bundle import Bundle
from .._copy import Blend, Box
from ..agreement import Participants
from ..direct import Redistribution
from ..exchanges.bundled import Bundled
from ..exchanges.message import dense_strides
from ..filled import Filled
from ..node import Node

if TYPE_CHECKING:
    from .._bundle import Part

__all__ = ["Moves", "Pair", "moves_of"]


def moves_of(plan: Redistribution) -> tuple[Redistribution, ...]:
    """The plans that move every element once: two where the mirror image of a part fills the rest. Not collective."""
    return plan.legs if isinstance(plan, Filled) else (plan,)


class Pair(NamedTuple):
    """The arrays of one plan in one call, as far as moving goes.

    Attributes
    ----------
    source, target : tuple of int
        Strides in bytes, of A as it is.
    item : int
        Bytes of an element; 0 where this rank has no part in the plan.
    by_columns : bool
        Whether the first dimension runs fastest in messages.
    blends : tuple of Blend or None
        What becomes of the elements, for each of the plan's moves.
    stays : bool
        Whether A and B are one array that nothing happens to.
    """

    source: tuple[int, ...]
    target: tuple[int, ...]
    item: int
    by_columns: bool
    blends: tuple[Blend | None, ...]
    stays: bool


class _Part(NamedTuple):
    """A box of one move: the plan's number, the move's among the plan's, and whether the move transposes."""

    plan: int
    move: int
    box: Box
    transposed: bool


class Moves:
    """What this rank sends, receives and copies for some plans. Not collective.

    Parameters
    ----------
    plans : sequence of Redistribution
        Each with its own participants.
    everyone : Participants
        All of all plans.
    """

    def __init__(self, plans: Sequence[Redistribution], everyone: Participants) -> None:
        self._everyone = everyone
        self._dims = tuple(one.desc_a.ndim for one in plans)
        self._sends: dict[int, list[_Part]] = defaultdict(list)
        self._receives: dict[int, list[_Part]] = defaultdict(list)
        self._copies: list[_Part] = []
        for k, plan in enumerate(plans):
            for number, move in enumerate(moves_of(plan)):
                group = move._everyone
                if group is None:
                    continue
                for some, by_peer in (
                    (move._exchange.sends, self._sends),
                    (move._exchange.receives, self._receives),
                ):
                    boxes = {one.peer: one.box for one in some}  # a pair that meets in several steps has one box
                    for peer, box in boxes.items():
                        there = everyone.number[group.ranks[peer]]
                        by_peer[there].append(_Part(k, number, box, move.op != "N"))
                self._copies += [_Part(k, number, one.box, move.op != "N") for one in move._exchange.copies]

    @property
    def peers(self) -> tuple[int, int]:
        """How many ranks this one sends to, and receives from."""
        return len(self._sends), len(self._receives)

    def bundled(self, pairs: Sequence[Pair], memory_limit: int, node: Node | None) -> Bundled:
        """The bundles for such arrays, and how they move. Not collective."""
        sends = {peer: self._bundle(parts, pairs, "target") for peer, parts in self._sends.items()}
        receives = {peer: self._bundle(parts, pairs, "source") for peer, parts in self._receives.items()}
        staying = [one for one in self._copies if not pairs[one.plan].stays]
        return Bundled(
            self._everyone.rank,
            self._everyone.size,
            sends,
            receives,
            self._bundle(staying, pairs, ""),
            memory_limit,
            node,
        )

    def _bundle(self, parts: Sequence[_Part], pairs: Sequence[Pair], dense: str) -> Bundle:
        made: list[Part] = []
        for plan, move, box, transposed in parts:
            pair, d = pairs[plan], self._dims[plan]
            order = range(d) if pair.by_columns else range(d - 1, -1, -1)
            buffer = dense_strides(box.shape(), order, pair.item)
            source: Sequence[int] = pair.source[::-1] if transposed else pair.source
            source, target = buffer if dense == "source" else source, buffer if dense == "target" else pair.target
            blend = None if dense == "target" else pair.blends[move]
            made.append((plan, box, source, target, order, pair.item, blend))
        return Bundle(made, dense)
