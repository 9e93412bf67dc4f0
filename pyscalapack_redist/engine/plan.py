"""The engine's side of a redistribution: `Plan` has the stages of moves and what is cached between uses.

The user's side is `Redistribution` (engine/redistribution.py), which holds a `Plan`.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import Origins
from .._kernels.call import Call, Kinds
from ..comm.group import Group
from ..comm.series import Series
from ..comm.transfer import Transfer
from ..comm.vote import digest
from ..errors import ArrayError, ScheduleError
from ..exchanges import Exchange
from ..exchanges.pipeline import Nonblocking
from ..exchanges.shared import Shared
from ..layout.dtypes import dtype_digest
from ..layout.letters import conjugates
from ..layout.tiles import Layout
from ..schedules.orders import CombinedOrder, Order
from .local_arrays import BY_COLUMNS, Arrays
from .operation import Factors
from .stages import ArrayKind, Move, Pair, Stage
from .terms import Terms

MOST_BINDINGS = 8  # that a plan caches: one for each kind of arrays or pair of factors
PLANNING = ("processes", "schedule", "messages")
ASKS_DTYPES = 1  # the field `pending` of a rank's vote: ranks must exchange the dtypes of their arrays

# Compared by identity: small integers are single objects. `Factors` handles all other values.
ONE: Any = 1
ZERO: Any = 0

Key = tuple[complex, complex]  # alpha and beta
PLAIN: Key = 1, 0
NUMBERS = frozenset({int, float, complex, np.float32, np.float64, np.complex64, np.complex128})


class Operands(NamedTuple):
    """The arrays of one call on this rank.

    Attributes
    ----------
    arrays, outs : list
        The user's arrays, one entry for each pair.
    targets : list of ndarray or None
        `outs`, with a new array where the user left it out.
    origins : Origins
        Their addresses.
    kind : ArrayKind
        Their kind, as far as this rank knows.
    dtypes : tuple of dtype or None
        The dtype of each pair; None if this rank does not know it.
    element_order : int or None
        The order of elements in messages that suits them; None if this rank has no arrays.
    factors : tuple of Factors
        alpha and beta of each pair.
    """

    arrays: list[Any]
    outs: list[Any]
    targets: list[NDArray[Any] | None]
    origins: Origins
    kind: ArrayKind
    dtypes: tuple[np.dtype[Any] | None, ...]
    element_order: int | None
    factors: tuple[Factors, ...]

    @property
    def plain(self) -> bool:
        """Whether elements only move: alpha is 1 and beta is 0."""
        return False not in [factor.trivial for factor in self.factors]

    @property
    def item_bytes(self) -> int:
        """Bytes of the largest element known on this rank."""
        items = self.kind.items
        return items[0] if len(items) == 1 else max(items, default=0)


class Binding(NamedTuple):
    """A plan for arrays of one kind: the exchange of each stage, and the staging memory that each run takes for itself."""

    exchanges: tuple[Exchange, ...]
    element_order: int
    item_bytes: int
    private_bytes: int


class Plan:
    """A redistribution inside the engine: its stages of moves, and what is cached from use to use.

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

    Attributes
    ----------
    moves : tuple of Move
        The moves of all stages.
    may_ask_dtypes : bool
        Whether ranks may have to exchange the dtypes of their arrays.
    is_batch : bool
        Whether arrays come as lists.
    direct_stage : Stage or None
        With layouts in between: a stage without them, for the report.
    planning : dict
        Seconds of each part of planning.
    seconds : float or None
        Seconds of the last use.
    call : Call or Transfer or None
        The fast path of a use without factors. None before the first use, with layouts in between, with tiles, and if
        messages go both between nodes and through a ring.
    cache : dict
        Cache entries, by alpha and beta.
    needs_finishing : bool
        Whether work remains after the fast path: a rest of B to fill, or a rank without a local array of B.
    has_tiles : bool
        Whether a layout consists of tiles.
    terms : Terms or None
        The terms that the first call binds, with agree="first".
    series : Series or None
        The calls after the first, if they need no votes.
    disjoint_arrays : Arrays or None
        With tiles: the arrays of the last use, known not to overlap.
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
    ) -> None:
        self.group, self.pairs, self.stages, self.reason = group, tuple(pairs), tuple(stages), reason
        self.layouts_between, self.identity, self.paper_exchange = dict(layouts_between), identity, paper_exchange
        self.is_batch, self.parts = parts is not None, tuple(parts or ())
        self.may_ask_dtypes = len(self.pairs) > 1 or bool(self.layouts_between)
        self.moves = tuple([move for stage in stages for move in stage.moves])
        self.memory_limit = stages[0].options.memory_limit
        self.cache: dict[Key | None, CacheEntry] = {}
        self.call: Call | Transfer[Any] | None = None
        self.needs_finishing = True in [pair.fill == "zero" or not pair.desc_b._has_local for pair in self.pairs]
        self.has_tiles = False in [desc.is_product for pair in self.pairs for desc in pair[:2]]
        self.direct_stage: Stage | None = None
        self.planning: dict[str, float] = {}
        self.seconds: float | None = None
        self._bindings: OrderedDict[Any, Binding] = OrderedDict()
        self._dtypes: OrderedDict[Any, tuple[int, Any]] = OrderedDict()
        self.disjoint_arrays: Arrays | None = None
        self.terms: Terms | None = None
        self.series: Series | None = None

    @functools.cached_property
    def pair_of(self) -> dict[int, int]:
        """The pair that an array belongs to, by the number of the array."""
        return {move.target: move.pair for move in self.moves}

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
        copy.terms = Terms()
        return copy

    def _copy(self) -> Plan:
        """Return a copy with an empty cache."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.cache, copy.call = {}, None
        return copy

    def known_dtypes(self, operands: Operands) -> Sequence[np.dtype[Any] | None] | None:
        """Return the dtypes of all pairs; None if ranks must exchange them first."""
        if not self.may_ask_dtypes:
            return operands.dtypes
        entry = self._dtypes.get(self._kind_of(operands))
        return None if entry is None else entry[1]

    def _kind_of(self, operands: Operands) -> Any:
        return operands.kind.strides, operands.dtypes, operands.kind.unchanged

    def dtype_in_vote(self, operands: Operands) -> tuple[int | None, int]:
        """Return the vote's fields `dtype` and `pending`: a digest of the dtypes, and ASKS_DTYPES if they are not known."""
        if self.may_ask_dtypes:
            entry = self._dtypes.get(self._kind_of(operands))
            return (None, ASKS_DTYPES) if entry is None else (entry[0], 0)
        return None if operands.dtypes[0] is None else dtype_digest(operands.dtypes[0]), 0

    def forget_dtypes(self, operands: Operands) -> None:
        """Forget other ranks' dtypes: their arrays may have changed."""
        self._dtypes.pop(self._kind_of(operands), None)

    def remember_dtypes(self, operands: Operands, dtypes: Sequence[np.dtype[Any] | None], element_order: int) -> None:
        """Remember the dtypes of all ranks for arrays of this kind."""
        number = digest(([None if dtype is None else dtype_digest(dtype) for dtype in dtypes], element_order))
        self._dtypes[self._kind_of(operands)] = number, tuple(dtypes)
        while len(self._dtypes) > MOST_BINDINGS:
            self._dtypes.popitem(last=False)

    def element_order_of(self, operands: Operands) -> int:
        """Return the order of elements in messages that this rank expects."""
        if len(self.stages) > 1:
            return BY_COLUMNS
        entry = cached_entry(self, operands)
        if entry is not None and entry.operands.kind.strides == operands.kind.strides:
            return entry.element_order
        return operands.element_order or BY_COLUMNS

    def binding(
        self,
        operands: Operands,
        kind: ArrayKind,
        element_order: int,
        item_bytes: int,
        exchange_type: type[Exchange] | None = None,
    ) -> Binding:
        """Return the cached or a new binding for arrays of this kind; `exchange_type` replaces the stages' own exchanges."""
        blends = [(k, op, blend.key) for k, by_op in enumerate(kind.blends) for op, blend in by_op.items() if blend]
        key = kind.strides, kind.items, tuple(blends), kind.unchanged, element_order, item_bytes, exchange_type
        binding = self._bindings.get(key)
        if binding is None:
            binding = bind_stages(
                self.stages, kind, element_order, item_bytes, self.memory_limit, operands.factors, exchange_type
            )
            while len(self._bindings) >= MOST_BINDINGS:
                self._bindings.popitem(last=False)
            self._bindings[key] = binding
        else:
            self._bindings.move_to_end(key)
        return binding

    @property
    def uses_begun(self) -> int:
        """How many votes and calls of the series this rank has begun."""
        voted = 0 if self.group is None else self.group.tickets.drawn
        return voted if self.series is None else voted + self.series.calls

    def small_message_exchange(self, operands: Operands, element_order: int, item_bytes: int) -> Exchange | None:
        """Return an exchange for messages that are few and small enough to go before the vote, else None; equal on all."""
        stage, group = self.stages[0], self.group
        if not item_bytes or len(self.stages) > 1 or group is None or group.voting_ring is not None:
            return None
        exchange = stage.bind(operands.kind, element_order, item_bytes, Nonblocking)
        return exchange if exchange.sends_early else None

    def bind_terms(self, operands: Operands, element_order: int, item_bytes: int) -> None:
        """Bind the terms of a plan with agree="first" to its first use."""
        terms = self.terms
        if terms is None or terms.is_bound or self.group is None or not item_bytes:
            return
        terms.bind(operands.factors[0], element_order, item_bytes)
        self.pairs = (self.pairs[0]._replace(dtype=operands.dtypes[0]),)
        exchange = self.small_message_exchange(operands, element_order, item_bytes)
        if exchange is not None:
            terms.begin_series(self.group, exchange)
            self.series = terms.series

    def record_failure(self, reason: str) -> None:
        """Record that a call has failed: a plan with bound terms cannot be used any more."""
        if self.terms is not None and self.terms.is_bound:
            self.terms.record_failure(reason)
            self.cache.clear()
            self.call = None

    def vote_fields(self, operands: Operands) -> dict[str, Any]:
        """Return the fields of a vote for these arrays."""
        dtype, pending = self.dtype_in_vote(operands)
        call = self.identity if operands.plain else digest((self.identity, operands.factors))
        return {
            "call": call,
            "dtype": dtype,
            "pending": pending,
            "item": operands.item_bytes,
            "order": operands.element_order or 0,
        }

    def store(self, key: Key, entry: CacheEntry) -> None:
        """Cache an entry for the next uses with these factors."""
        while len(self.cache) >= MOST_BINDINGS:
            self.discard(next(iter(self.cache)))
        self.cache[key] = entry
        if key == PLAIN:
            self.call = entry.call

    def discard(self, key: Key | None) -> None:
        """Discard the cache entry for these factors."""
        self.cache.pop(key, None)
        if key == PLAIN:
            self.call = None

    def record_planning_times(self, moments: Sequence[float]) -> None:
        """Record the seconds of each part of planning, from their start times and the end of the last."""
        self.planning = {part: end - begin for part, (begin, end) in zip(PLANNING, pairwise(moments), strict=True)}


class CacheEntry:
    """The arrays' kind, binding and fast path of the last use with one pair of factors.

    A first compiled call has no binding until a `Transfer` continues it.
    """

    def __init__(
        self,
        kinds: Kinds,
        operands: Operands,
        element_order: int,
        call: Call | Transfer[Any] | None,
        binding: Binding | None,
    ) -> None:
        self.kinds, self.operands, self.element_order, self.call = kinds, operands, element_order, call
        self._binding = binding

    def binding(self, plan: Plan) -> Binding:
        """Return the binding, which a transfer needs; a compiled call does without."""
        if self._binding is None:
            operands = self.operands
            binding = bind_stages(
                plan.stages, operands.kind, self.element_order, operands.item_bytes, plan.memory_limit, operands.factors
            )
            (exchange,) = binding.exchanges
            assert isinstance(exchange, Shared)
            assert isinstance(self.call, Call)
            exchange.traffic = self.call.traffic  # the call may have packed some of its chunks
            self._binding = binding
        return self._binding


def factors_key(alpha: Any, beta: Any) -> Key | None:
    """Return the cache's key for these factors; None if they are of unusual types."""
    if alpha is ONE and beta is ZERO:
        return PLAIN
    return (alpha, beta) if type(alpha) in NUMBERS and type(beta) in NUMBERS else None


def cached_entry(plan: Plan, operands: Operands) -> CacheEntry | None:
    """Return the cache entry for the factors of these arrays."""
    key = key_of(operands)
    return None if key is None else plan.cache.get(key)


def key_of(operands: Operands) -> Key | None:
    """Return the cache's key for these arrays; None if the factors of a batch differ."""
    alpha, beta, _ = operands.factors[0]
    are_equal = len(operands.factors) == 1 or all(factors[:2] == (alpha, beta) for factors in operands.factors)
    return (alpha, beta) if are_equal else None


def factors_of(factors: Factors, move: Move) -> Factors:
    """Return the factors of one move of a pair: alpha and beta apply in the pair's last move."""
    conjugate = conjugates(move.op)
    if not move.last:
        return Factors(1, 0, conjugate)
    return factors if factors.conjugate == conjugate else factors._replace(conjugate=conjugate)


def bind_stages(
    stages: Sequence[Stage],
    kind: ArrayKind,
    element_order: int,
    item_bytes: int,
    memory_limit: int,
    factors: Sequence[Factors],
    exchange_type: type[Exchange] | None = None,
) -> Binding:
    """Bind stages to arrays of one kind, with their own exchanges or with `exchange_type`.

    Raises
    ------
    ArrayError
        The memory limit is too small for an element.
    ScheduleError
        MPI's datatypes cannot multiply or conjugate elements.
    """
    exchanges = tuple([stage.bind(kind, element_order, item_bytes, exchange_type) for stage in stages])
    private = 0
    for exchange in exchanges:
        if exchange.buffers.name == "datatypes" and any(any(by_op.values()) for by_op in kind.blends):
            ops = [op for by_op in kind.blends for (op, _), blend in by_op.items() if blend]
            raise ScheduleError(
                f"{factors[0]}, op = {ops[0]}: with buffers = 'datatypes' MPI moves elements as they are; "
                "use buffers='packed'"
            )
        needed = exchange.staging_bytes
        if needed > memory_limit:
            subject = f"elements of {item_bytes} bytes"
            if len(kind.items) > 1:
                subject = f"a batch of {len(kind.items)} plans with such elements"
            raise ArrayError(
                f"memory_limit = {memory_limit} bytes is too small for {subject}: at least {needed} are needed"
            )
        private = max(private, exchange.private_bytes)
    return Binding(exchanges, element_order, item_bytes, private)
