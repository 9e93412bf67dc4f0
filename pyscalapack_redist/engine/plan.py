"""The engine's side of a redistribution: `Plan` has the stages of moves, and a `Binding` for each kind of arrays.

The user's side is `Redistribution` (engine/redistribution.py), which holds a `Plan`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .._kernels.call import Call, Kinds, LastRun
from .._kernels.transport import Traffic
from ..comm import progress
from ..comm.group import Group
from ..comm.series import Series
from ..comm.vote import Outcome, Vote, digest
from ..exchanges.pipeline import Nonblocking
from ..layout.descriptor import Descriptor
from ..layout.dtypes import dtype_digest
from ..layout.tiles import Layout
from ..schedules.orders import CombinedOrder, Order
from .binding import MOST_BINDINGS, Binding, BoundStages, Exchanges, Key, Operands, key_of
from .options import Options
from .overwriting import PanelStage
from .room import checked_maker, new_elements
from .stages import Pair, Stage
from .terms import Terms

Proceed = Callable[["weakref.ref[Plan]", Call, Any, Any], Any]
PLANNING = ("processes", "schedule", "messages")
ASKS_DTYPES = 1  # the field `pending` of a rank's vote: ranks must exchange the dtypes of their arrays


class Plan:
    """A redistribution inside the engine: its stages of moves, and what it keeps from use to use.

    Parameters
    ----------
    group : Group or None
        The ranks; None on paper, and on a rank that takes no part in the plan.
    pairs : sequence of Pair
        The user's arrays.
    stages : sequence of Stage
        The moves, stage after stage.
    layouts_between : mapping
        Layouts in between, by the number of their array.
    reason : str
        The reason for this exchange and this schedule.
    identity : int
        A digest, equal on all ranks.
    parts : sequence of Plan, optional
        The plans of a batch.
    paper_exchange : str, optional
        The exchange in words, for a plan on paper.
    legs : sequence of Stage, optional
        The stages as a report has them, with whole moves, where the plan's own have parts of these: panels, and turns of a sum.

    Attributes
    ----------
    moves : tuple of Move
        The moves of all legs.
    may_ask_dtypes : bool
        Whether ranks may have to exchange the dtypes of their arrays.
    is_batch : bool
        Whether arrays come as lists.
    direct_stage : Stage or None
        With layouts in between, a stage without them; with a sum, one that reads one replica. For the report.
    planning : dict
        Seconds of each part of planning.
    last_run : LastRun
        The time of the last use; of those by a compiled call, of the last that moved 64 KiB.
    bindings : dict
        What it keeps for arrays of one kind, by alpha and beta; of several kinds the last used is the first.
    needs_finishing : bool
        Whether work remains after the fast path: a rest of B to fill, or a rank without a local array of B.
    has_panels : bool
        Whether it consumes A: its stages are panels of one move.
    is_sum : bool
        Whether it adds A's replicas: its stages are turns.
    has_tiles : bool
        Whether a layout consists of tiles.
    options : Options or None
        What it was made with; None for a batch.
    terms : Terms or None
        With agree="first": what the first call binds.
    """

    def __init__(
        self,
        group: Group | None,
        pairs: Sequence[Pair],
        stages: Sequence[Stage],
        layouts_between: Mapping[int, Layout],
        reason: str,
        identity: int,
        parts: Sequence[Plan] | None = None,
        paper_exchange: str | None = None,
        legs: Sequence[Stage] | None = None,
    ) -> None:
        self.group, self.pairs, self.stages, self.reason = group, tuple(pairs), tuple(stages), reason
        self.layouts_between, self.identity, self.paper_exchange = dict(layouts_between), identity, paper_exchange
        self.is_batch, self.parts = parts is not None, tuple(parts or ())
        self.may_ask_dtypes = len(self.pairs) > 1 or bool(self.layouts_between)
        self.has_panels = isinstance(stages[0], PanelStage)
        self.is_sum = True in [move.adds for stage in legs or () for move in stage.moves]
        self.legs = self.stages if legs is None else tuple(legs)
        self.moves = tuple([move for stage in self.legs for move in stage.moves])
        self.memory_limit = stages[0].options.memory_limit
        self.bindings: dict[Key | None, list[Binding]] = {}
        self.needs_finishing = True in [pair.fill == "zero" or not pair.desc_b._has_local for pair in self.pairs]
        self.has_tiles = False in [desc.is_product for pair in self.pairs for desc in pair[:2]]
        self.direct_stage: Stage | None = None
        self.planning: dict[str, float] = {}
        self.last_run = LastRun()
        self.options: Options | None = None
        self.terms: Terms | None = None

    @functools.cached_property
    def pair_of(self) -> dict[int, int]:
        """The pair that an array belongs to, by the number of the array."""
        return {move.target: move.pair for move in self.moves}

    @functools.cached_property
    def new_elements(self) -> tuple[int, ...]:
        """The elements of new arrays of B on this rank's node, for each pair; empty where they are few, or A makes room."""
        return () if self.has_panels else new_elements(self.group, self.pairs)

    @property
    def series(self) -> Series | None:
        """The later calls of a plan with agree="first", if they need no votes."""
        return None if self.terms is None else self.terms.series

    @property
    def schedule(self) -> Order:
        """Order of the messages; with several moves, their combined order."""
        orders = [move.order for move in self.moves]
        return orders[0] if len(orders) == 1 else CombinedOrder(orders)

    @property
    def exchange_name(self) -> str:
        """Name of the exchange, or on paper its description."""
        return self.paper_exchange or self.stages[0].exchange.name

    def __repr__(self) -> str:
        if self.is_batch:
            return f"batch({', '.join(map(repr, self.parts))})"
        pair, name = self.pairs[0], "Redistribution" if self.paper_exchange is None else "PaperPlan"
        return f"{name}({pair.desc_a!r} -> {pair.desc_b!r}, {self.schedule.name}/{self.exchange_name})"

    def with_layouts(self, a: Layout | None, b: Layout | None, dtype: np.dtype[Any] | None) -> Plan:
        """Return this plan with other leading dimensions, offsets or dtype, which may differ from rank to rank."""
        pair = self.pairs[0]
        a, b = a or pair.desc_a, b or pair.desc_b
        same_dtype = (dtype is None) == (pair.dtype is None) and dtype == pair.dtype  # None == float64
        if same_dtype and (a._storage, b._storage) == (pair.desc_a._storage, pair.desc_b._storage):
            return self
        copy = self._copy()
        copy.pairs = (pair._replace(desc_a=a, desc_b=b, dtype=dtype),)
        return copy

    def with_terms(self) -> Plan:
        """Return a copy that its first use binds."""
        copy = self._copy()
        copy.terms, copy.last_run = Terms(), LastRun()
        return copy

    def _copy(self) -> Plan:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.bindings = {key: [each.copy() for each in bindings] for key, bindings in self.bindings.items()}
        return copy

    def binding_of(self, operands: Operands) -> Binding:
        """Return the binding for arrays of this kind, from now on the first one with their factors."""
        key = key_of(operands)
        bindings = self.bindings.get(key, [])
        for number, binding in enumerate(bindings):
            if binding.is_alike(operands):
                binding.take(operands)
                if number:
                    bindings.insert(0, bindings.pop(number))
                return binding
        exchange_type = None if self.series is None else Nonblocking
        exchanges = Exchanges(self.stages, self.memory_limit, operands.factors, exchange_type)
        binding = Binding(operands, exchanges, None if self.may_ask_dtypes else operands.dtypes)
        if self.may_ask_dtypes:  # which ranks know whatever the factors
            known = next(
                (each for others in self.bindings.values() for each in others if each.is_alike(operands)), None
            )
            if known is not None:
                binding.dtypes, binding.dtypes_number = known.dtypes, known.dtypes_number
        while sum(map(len, self.bindings.values())) >= MOST_BINDINGS:
            oldest = next(iter(self.bindings))
            self.bindings[oldest].pop()
            if not self.bindings[oldest]:
                del self.bindings[oldest]
        self.bindings.setdefault(key, []).insert(0, binding)
        return binding

    def bind_terms(self, operands: Operands, element_order: int, item_bytes: int) -> None:
        """Bind the terms of a plan with agree="first" to its first use.

        Later calls need no vote where messages are few and small enough to go before one, which is the same on all ranks.
        """
        terms, stage, group = self.terms, self.stages[0], self.group
        if terms is None or terms.is_bound or group is None or not item_bytes:
            return
        terms.bind(operands.factors[0], element_order, item_bytes)
        self.pairs = (self.pairs[0]._replace(dtype=operands.dtypes[0]),)
        if len(self.stages) > 1 or group.voting_ring is not None:
            return
        exchange = stage.bind(operands.kind, element_order, item_bytes, Nonblocking)
        if exchange.sends_early:
            terms.begin_series(group, exchange)
            self.bindings.clear()

    def record_failure(self, reason: str) -> None:
        """Record that a call has failed: a plan with bound terms cannot be used any more."""
        if self.terms is not None and self.terms.is_bound:
            self.terms.record_failure(reason)
            self.bindings.clear()

    def keep(
        self,
        binding: Binding,
        arrays: Sequence[Any],
        outs: Sequence[Any],
        targets: Sequence[Any],
        bound: BoundStages,
        proceed: Proceed,
        outcome: Outcome | None = None,
    ) -> None:
        """Keep what the next use of such arrays can do without: on one node checks and a vote in Python, elsewhere checks.

        Parameters
        ----------
        binding : Binding
            Where it is kept.
        arrays, outs, targets : sequence
            Arrays of this use.
        bound : BoundStages
            The exchanges that ranks have agreed on.
        proceed : callable
            proceed(weak reference to the plan, call, a, out) starts the transfer that continues a compiled call.
        outcome : Outcome, optional
            The outcome of the vote; a call of a series has none.
        """
        binding.expected = outcome
        if binding.kinds is not None and binding.bind_latest() is bound:
            return
        binding.latest, binding.element_order, binding.call, binding.idle = bound, bound.element_order, None, None
        if not self._make_kinds(binding, arrays, outs, targets):
            return
        traffic = bound.exchanges[0].compiled() if bound.item_bytes else None
        if traffic is None:
            binding.vote = Vote(**self.vote_fields(binding.operands, binding))
        else:
            binding.call = self._call(binding, traffic, bound.element_order, bound.item_bytes, proceed)

    def keep_first(
        self, binding: Binding, operands: Operands, element_order: int, item_bytes: int, proceed: Proceed
    ) -> None:
        """Keep a compiled call for arrays that no use had yet; it may have no exchange."""
        traffic = self.stages[0].bind_traffic(operands.kind, element_order, item_bytes)
        if traffic is None:
            bound = binding.exchanges.bind(operands.kind, operands.dtypes, element_order, item_bytes)
            self.keep(binding, operands.arrays, operands.outs, operands.targets, bound, proceed)
        elif self._make_kinds(binding, operands.arrays, operands.outs, operands.targets):
            binding.element_order = element_order
            binding.call = self._call(binding, traffic, element_order, item_bytes, proceed)

    def _make_kinds(self, binding: Binding, arrays: Sequence[Any], outs: Sequence[Any], targets: Sequence[Any]) -> bool:
        """Make what recognizes arrays like these; False if all arrays must be checked in each use."""
        if len(self.stages) > 1 or self.has_tiles or True in binding.operands.kind.unchanged:
            return False
        if binding.kinds is None:
            elements, makers = self.new_elements, list[Any]()
            for k, (pair, out, target) in enumerate(zip(self.pairs, outs, targets, strict=True)):
                if target is None or target is out:
                    makers.append(None)
                else:
                    assert isinstance(pair.desc_b, Descriptor)
                    make = pair.desc_b._maker(zeroed=pair.part is not None)
                    makers.append(checked_maker(make, elements, self.pairs, k))
            known = [array if isinstance(array, np.ndarray) else None for array in arrays]
            try:
                binding.kinds = Kinds(known, list(targets), makers)
            except (BufferError, ValueError):  # a dtype that the buffer protocol cannot describe
                return False
        return True

    def _call(
        self, binding: Binding, traffic: Traffic, element_order: int, item_bytes: int, proceed: Proceed
    ) -> Call:
        """Make the compiled call for arrays of a kind."""
        group, kinds = self.group, binding.kinds
        assert group is not None
        assert kinds is not None
        vote = Vote(**self.vote_fields(binding.operands, binding), packed=element_order)
        # The plan refers to its call, the call only weakly to the plan: both are freed with the plan's last reference.
        weak_plan = weakref.ref(self)
        return Call(
            traffic,
            kinds,
            vote,
            item_bytes,
            functools.partial(_check_peers, group, weak_plan),
            group.tickets,
            self.is_batch,
            functools.partial(proceed, weak_plan),
            progress.hold_interrupts,
            self.last_run,
        )

    def vote_fields(self, operands: Operands, binding: Binding | None) -> dict[str, Any]:
        """Return the fields of a vote for these arrays."""
        number, pending = None, 0
        if self.may_ask_dtypes:
            number = None if binding is None else binding.dtypes_number
            pending = ASKS_DTYPES if number is None else 0
        elif operands.dtypes[0] is not None:
            number = dtype_digest(operands.dtypes[0])
        return {
            "call": self.identity if operands.plain else digest((self.identity, operands.factors)),
            "dtype": number,
            "pending": pending,
            "item": operands.item_bytes,
            "order": operands.element_order or 0,
        }

    def record_planning_times(self, moments: Sequence[float]) -> None:
        """Record the seconds of each part of planning, from their start times and the end of the last."""
        self.planning = {part: end - begin for part, (begin, end) in zip(PLANNING, pairwise(moments), strict=True)}


def _check_peers(group: Group, plan: weakref.ref[Plan]) -> None:
    group.check_peers(plan())
    progress.force_interrupts()
