"""What the engine makes of a request: a `Plan`, the stages of moves between two layouts. It remembers nothing of its uses.

What is kept from use to use is in `Bounds` (engine/bounds.py).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..comm.group import Group
from ..layout.tiles import Layout
from ..schedules.orders import CombinedOrder, Order
from .options import Options
from .overwriting import PanelStage
from .room import new_elements
from .stages import Move, Pair, Stage


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A redistribution as the ranks of a group have agreed on it.

    Parameters
    ----------
    group : Group or None
        The ranks; None on paper, and on a rank that takes no part in the plan.
    pairs : tuple of Pair
        The user's arrays.
    stages : tuple of Stage
        The moves, stage after stage.
    reason : str
        The reason for this exchange and this schedule.
    identity : int
        A digest, equal on all ranks.
    layouts_between : mapping, optional
        Layouts in between, by the number of their array.
    whole_stages : tuple of Stage, optional
        The stages as a report has them, with whole moves, where the plan's own have parts of these: panels, and turns of a sum.
    direct_stage : Stage or None
        With layouts in between, a stage without them; with a sum, one that reads one replica. For the report.
    options : Options or None
        What it was made with; None for a batch.
    parts : tuple of Plan
        The plans of a batch.
    paper_exchange : str, optional
        The exchange in words, for a plan on paper.
    planning : mapping
        Seconds of each part of planning.

    Attributes
    ----------
    legs : tuple of Stage
        The stages, with whole moves.
    moves : tuple of Move
        The moves of all legs.
    is_batch : bool
        Whether arrays come as lists.
    may_ask_dtypes : bool
        Whether ranks may have to exchange the dtypes of their arrays.
    has_panels : bool
        Whether it consumes A: its stages are panels of one move.
    is_sum : bool
        Whether it adds A's replicas: its stages are turns.
    has_tiles : bool
        Whether a layout consists of tiles.
    needs_finishing : bool
        Whether work remains after the fast path: a rest of B to fill, or a rank without a local array of B.
    """

    group: Group | None
    pairs: tuple[Pair, ...]
    stages: tuple[Stage, ...]
    reason: str
    identity: int
    layouts_between: Mapping[int, Layout] = field(default_factory=dict)
    whole_stages: tuple[Stage, ...] = ()
    direct_stage: Stage | None = None
    options: Options | None = None
    parts: tuple[Plan, ...] = ()
    paper_exchange: str | None = None
    planning: Mapping[str, float] = field(default_factory=dict)

    legs: tuple[Stage, ...] = field(init=False)
    moves: tuple[Move, ...] = field(init=False)
    is_batch: bool = field(init=False)
    may_ask_dtypes: bool = field(init=False)
    has_panels: bool = field(init=False)
    is_sum: bool = field(init=False)
    has_tiles: bool = field(init=False)
    needs_finishing: bool = field(init=False)

    def __post_init__(self) -> None:
        legs = self.whole_stages or self.stages
        moves = tuple([move for stage in legs for move in stage.moves])
        vars(self).update(
            legs=legs,
            moves=moves,
            is_batch=bool(self.parts),
            may_ask_dtypes=len(self.pairs) > 1 or bool(self.layouts_between),
            has_panels=isinstance(self.stages[0], PanelStage),
            is_sum=True in [move.adds for move in moves],
            has_tiles=False in [desc.is_product for pair in self.pairs for desc in pair[:2]],
            needs_finishing=True in [pair.fill == "zero" or not pair.desc_b._has_local for pair in self.pairs],
        )

    @property
    def memory_limit(self) -> int:
        """Most bytes of extra memory of a rank."""
        return self.stages[0].options.memory_limit

    @functools.cached_property
    def pair_of(self) -> dict[int, int]:
        """The pair that an array belongs to, by the number of the array."""
        return {move.target: move.pair for move in self.moves}

    @functools.cached_property
    def new_elements(self) -> tuple[int, ...]:
        """The elements of new arrays of B on this rank's node, for each pair; empty where they are few, or A makes room."""
        return () if self.has_panels else new_elements(self.group, self.pairs)

    @property
    def schedule(self) -> Order:
        """Order of the messages; with several moves, their combined order."""
        orders = [move.order for move in self.moves]
        return orders[0] if len(orders) == 1 else CombinedOrder(orders)

    @property
    def exchange_name(self) -> str:
        """Name of the exchange, or on paper its description."""
        return self.paper_exchange or self.stages[0].exchange.name

    def for_arrays(
        self, desc_a: Layout, desc_b: Layout, dtype: np.dtype[Any] | None, order: str | None = None
    ) -> Plan:
        """The same moves, for local arrays with other leading dimensions, offsets or dtype, which differ from rank to rank.

        With an order, new arrays have that; by default the plan's own. It is this plan where they are stored alike.
        """
        pair, order = self.pairs[0], order or self.pairs[0].order
        same_dtype = (dtype is None) == (pair.dtype is None) and dtype == pair.dtype  # None == float64
        stored, wanted = ((*(each._storage for each in pair[:2]), pair.order), (desc_a._storage, desc_b._storage, order))
        if same_dtype and stored == wanted:
            return self
        return replace(self, pairs=(pair._replace(desc_a=desc_a, desc_b=desc_b, dtype=dtype, order=order),))

    def __repr__(self) -> str:
        if self.is_batch:
            return f"batch({', '.join(map(repr, self.parts))})"
        pair, name = self.pairs[0], "Redistribution" if self.paper_exchange is None else "PaperPlan"
        return f"{name}({pair.desc_a!r} -> {pair.desc_b!r}, {self.schedule.name}/{self.exchange_name})"
