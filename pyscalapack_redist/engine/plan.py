"""Plan: what a redistribution consists of, and keeps from use to use. The user has a `Redistribution`, which has one."""

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
from ..layout.letters import conjugates
from ..layout.tiles import Layout
from ..schedules.orders import CombinedOrder, Order
from .local_arrays import BY_COLUMNS, Arrays, dtype_digest
from .operation import Factors
from .stages import ArrayKind, Move, Pair, Stage
from .terms import Terms

MOST_BINDINGS = 8  # of a plan, one for each kind of arrays or pair of factors
PLANNING = ("processes", "schedule", "messages")
ASKS = 1  # the note of a rank that has still to be told of arrays, or to tell

# Compared by identity: small integers are single objects, and anything else is looked at by `Factors`.
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
        As they were given, one entry for each pair.
    targets : list of ndarray or None
        `outs`, and what was made where it was left out.
    origins : Origins
        Where they begin.
    kind : ArrayKind
        What arrays of this kind have in common, as far as this rank knows.
    dtypes : tuple of dtype or None
        Of each pair, None where this rank knows none.
    order : int or None
        The order of elements in messages that suits them; None where this rank has no arrays.
    factors : tuple of Factors
        Of each pair.
    """

    arrays: list[Any]
    outs: list[Any]
    targets: list[NDArray[Any] | None]
    origins: Origins
    kind: ArrayKind
    dtypes: tuple[np.dtype[Any] | None, ...]
    order: int | None
    factors: tuple[Factors, ...]

    @property
    def plain(self) -> bool:
        """Whether elements are neither multiplied nor added to what is there."""
        return False not in [factor.trivial for factor in self.factors]

    @property
    def item(self) -> int:
        """Bytes of the largest element that this rank knows of."""
        items = self.kind.items
        return items[0] if len(items) == 1 else max(items, default=0)


class Binding(NamedTuple):
    """What moves arrays of one kind: the exchange of each stage, and the staging memory that a run takes for itself."""

    exchanges: tuple[Exchange, ...]
    order: int
    item: int
    private_bytes: int


class Plan:
    """Stages of moves, and what is kept from one use of them to the next. Not collective.

    Parameters
    ----------
    group : Group or None
        The ranks; None on paper, and on a rank that has no part in the plan.
    pairs : sequence of Pair
        The user's arrays.
    stages : sequence of Stage
        What moves, one after another.
    between : mapping
        Layouts in between, by the number of their array.
    why : str
        Why this exchange and this schedule.
    identity : int
        Equal on all ranks.
    parts : sequence of Plan, optional
        Of a batch: what it was made of.
    by : str, optional
        How the bytes move, in words, where no exchange is chosen.

    Attributes
    ----------
    moves : tuple of Move
        Those of all stages.
    asks : bool
        Whether ranks tell one another the dtypes of their arrays.
    listed : bool
        Whether arrays come as lists, as those of a batch do.
    direct : Stage or None
        With layouts in between: what moves every element once, for the report.
    planning : dict
        Seconds of each part of planning.
    seconds : float or None
        Of the last use.
    call : Call or Transfer or None
        The fast path of a use without factors; None before the first one, with layouts in between, with tiles, and where
        messages go between nodes and through the ring of one at once.
    remembered : dict
        By alpha and beta: what is known of the arrays of the last use with them.
    needs_finishing : bool
        Whether the result of the fast path is not yet that of the use: there is a rest of B to fill, or no local array.
    tiled : bool
        Whether a layout is of tiles.
    terms : Terms or None
        What the first call binds, with agree="first".
    series : Series or None
        The calls after the first, where they are not voted on.
    apart : Arrays or None
        With tiles: where the arrays of the last use were, which did not overlap.
    """

    def __init__(
        self,
        group: Group | None,
        pairs: Sequence[Pair],
        stages: Sequence[Stage],
        between: Mapping[int, Layout],
        why: str,
        identity: int,
        parts: Sequence[Plan] | None = None,
        by: str | None = None,
    ) -> None:
        self.group, self.pairs, self.stages, self.why = group, tuple(pairs), tuple(stages), why
        self.between, self.identity, self.paper_exchange = dict(between), identity, by
        self.is_batch, self.parts = parts is not None, tuple(parts or ())
        self.may_ask_dtypes = len(self.pairs) > 1 or bool(self.between)
        self.moves = tuple([move for stage in stages for move in stage.moves])
        self.memory_limit = stages[0].options.memory_limit
        self.cache: dict[Key | None, CacheEntry] = {}
        self.call: Call | Transfer | None = None
        self.needs_finishing = True in [pair.fill == "zero" or not pair.desc_b._held for pair in self.pairs]
        self.has_tiles = False in [desc.is_product for pair in self.pairs for desc in pair[:2]]
        self.direct: Stage | None = None
        self.planning: dict[str, float] = {}
        self.seconds: float | None = None
        self._bindings: OrderedDict[Any, Binding] = OrderedDict()
        self._numbers: OrderedDict[Any, tuple[int, Any]] = OrderedDict()
        self.apart: Arrays | None = None
        self.terms: Terms | None = None
        self.series: Series | None = None

    @functools.cached_property
    def pair_of(self) -> dict[int, int]:
        """By the number of an array, the pair that it is moved for."""
        return {move.target: move.pair for move in self.moves}

    @property
    def schedule(self) -> Order:
        """Order of the messages; with several moves, those of all of them."""
        orders = [move.order for move in self.moves]
        return orders[0] if len(orders) == 1 else CombinedOrder(orders)

    @property
    def exchange_name(self) -> str:
        """How the bytes move."""
        return self.paper_exchange or self.stages[0].exchange.name

    def __repr__(self) -> str:
        if self.is_batch:
            return f"batch({', '.join(map(repr, self.parts))})"
        pair, name = self.pairs[0], "Redistribution" if self.paper_exchange is None else "PaperPlan"
        return f"{name}({pair.desc_a!r} -> {pair.desc_b!r}, {self.schedule.name}/{self.exchange_name})"

    def with_layouts(self, a: Layout | None, b: Layout | None, dtype: np.dtype[Any] | None) -> Plan:
        """The same for what may differ from rank to rank: leading dimensions, offsets, and the dtype that was told."""
        pair = self.pairs[0]
        a, b = a or pair.desc_a, b or pair.desc_b
        same_dtype = (dtype is None) == (pair.dtype is None) and dtype == pair.dtype  # None == float64
        if same_dtype and (a._storage, b._storage) == (pair.desc_a._storage, pair.desc_b._storage):
            return self
        other = self._copy()
        other.pairs = (pair._replace(desc_a=a, desc_b=b, dtype=dtype),)
        return other

    def with_terms(self) -> Plan:
        """The same as a plan of its own, to be bound by its first use."""
        other = self._copy()
        other.terms = Terms()
        return other

    def _copy(self) -> Plan:
        """The same without anything remembered of uses."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.cache, other.call = {}, None
        return other

    def known_dtypes(self, operands: Operands) -> Sequence[np.dtype[Any] | None] | None:
        """The dtypes of all pairs, where nobody has to be asked for them."""
        if not self.may_ask_dtypes:
            return operands.dtypes
        found = self._numbers.get(self._kind_of(operands))
        return None if found is None else found[1]

    def _kind_of(self, operands: Operands) -> Any:
        return operands.kind.strides, operands.dtypes, operands.kind.stays

    def dtype_in_vote(self, operands: Operands) -> tuple[int | None, int]:
        """What a vote says of the dtypes, and whether this rank has to be told, or to tell."""
        if self.may_ask_dtypes:
            found = self._numbers.get(self._kind_of(operands))
            return (None, ASKS) if found is None else (found[0], 0)
        return None if operands.dtypes[0] is None else dtype_digest(operands.dtypes[0]), 0

    def forget_dtypes(self, operands: Operands) -> None:
        """What others told of their arrays may be true no longer."""
        self._numbers.pop(self._kind_of(operands), None)

    def remember_dtypes(self, operands: Operands, dtypes: Sequence[np.dtype[Any] | None], order: int) -> None:
        """All ranks have told their dtypes."""
        number = digest(([None if dtype is None else dtype_digest(dtype) for dtype in dtypes], order))
        self._numbers[self._kind_of(operands)] = number, tuple(dtypes)
        while len(self._numbers) > MOST_BINDINGS:
            self._numbers.popitem(last=False)

    def order_of(self, operands: Operands) -> int:
        """The order of elements in messages, as far as this rank can tell."""
        if len(self.stages) > 1:
            return BY_COLUMNS
        remembered = cached_entry(self, operands)
        if remembered is not None and remembered.operands.kind.strides == operands.kind.strides:
            return remembered.order
        return operands.order or BY_COLUMNS

    def binding(
        self, operands: Operands, kind: ArrayKind, order: int, item: int, by: type[Exchange] | None = None
    ) -> Binding:
        """What moves arrays of such a kind, an old one or a new one; in place of the stages' own exchanges, `by`."""
        blends = [(k, way, blend.key) for k, some in enumerate(kind.blends) for way, blend in some.items() if blend]
        key = kind.strides, kind.items, tuple(blends), kind.stays, order, item, by
        kept = self._bindings.get(key)
        if kept is None:
            kept = bind_stages(self.stages, kind, order, item, self.memory_limit, operands.factors, by)
            while len(self._bindings) >= MOST_BINDINGS:
                self._bindings.popitem(last=False)
            self._bindings[key] = kept
        else:
            self._bindings.move_to_end(key)
        return kept

    @property
    def uses_begun(self) -> int:
        """How often this rank has voted or begun a call of the series."""
        voted = 0 if self.group is None else self.group.tickets.drawn
        return voted if self.series is None else voted + self.series.calls

    def small_message_exchange(self, operands: Operands, order: int, item: int) -> Exchange | None:
        """What moves such arrays in few small messages between nodes; None where they are not such. Alike on all ranks."""
        stage, group = self.stages[0], self.group
        if not item or len(self.stages) > 1 or group is None or group.voting_ring is not None:
            return None
        exchange = stage.bind(operands.kind, order, item, Nonblocking)
        return exchange if exchange.goes_ahead else None

    def bind_terms(self, operands: Operands, order: int, item: int) -> None:
        """Bind the plan to what all have agreed on for these arrays, if it is one to be bound and this is its first use."""
        terms = self.terms
        if terms is None or terms.is_bound or self.group is None or not item:
            return
        terms.bind(operands.factors[0], order, item)
        self.pairs = (self.pairs[0]._replace(dtype=operands.dtypes[0]),)
        exchange = self.small_message_exchange(operands, order, item)
        if exchange is not None:
            terms.begin_series(self.group, exchange)
            self.series = terms.series

    def record_failure(self, why: str) -> None:
        """A call has failed: where the first one has bound the plan, it can be used no more."""
        if self.terms is not None and self.terms.is_bound:
            self.terms.record_failure(why)
            self.cache.clear()
            self.call = None

    def ballot_fields(self, operands: Operands) -> dict[str, Any]:
        """What a ballot says of the plan and of these arrays."""
        dtype, note = self.dtype_in_vote(operands)
        call = self.identity if operands.plain else digest((self.identity, operands.factors))
        return {"call": call, "dtype": dtype, "note": note, "item": operands.item, "order": operands.order or 0}

    def store(self, key: Key, remembered: CacheEntry) -> None:
        """Serve the next uses with these factors by it."""
        while len(self.cache) >= MOST_BINDINGS:
            self.discard(next(iter(self.cache)))
        self.cache[key] = remembered
        if key == PLAIN:
            self.call = remembered.call

    def discard(self, key: Key | None) -> None:
        """Serve uses with these factors as first ones."""
        self.cache.pop(key, None)
        if key == PLAIN:
            self.call = None

    def record_planning_times(self, moments: Sequence[float]) -> None:
        """Note the seconds of each part of planning, from the times at which they began and the last one ended."""
        self.planning = {part: end - begin for part, (begin, end) in zip(PLANNING, pairwise(moments), strict=True)}


class CacheEntry:
    """What the next use with arrays like the last ones' goes by: their kind, what moves them, and the compiled call if any.

    A first compiled call needs no exchange. One is made of what the call moves when a `Transfer` comes that goes on with it.
    """

    def __init__(
        self, kinds: Kinds, operands: Operands, order: int, call: Call | Transfer | None, binding: Binding | None
    ) -> None:
        self.kinds, self.operands, self.order, self.call = kinds, operands, order, call
        self._binding = binding

    def binding(self, plan: Plan) -> Binding:
        """What moves the arrays, as the states of a transfer need it. Not collective."""
        if self._binding is None:
            kept = self.operands
            made = bind_stages(plan.stages, kept.kind, self.order, kept.item, plan.memory_limit, kept.factors)
            (exchange,) = made.exchanges
            assert isinstance(exchange, Shared)
            assert isinstance(self.call, Call)
            exchange.traffic = self.call.traffic  # chunks of which the call may have packed
            self._binding = made
        return self._binding


def factors_key(alpha: Any, beta: Any) -> Key | None:
    """What uses with equal factors have in common; None where these are of other types than most."""
    if alpha is ONE and beta is ZERO:
        return PLAIN
    return (alpha, beta) if type(alpha) in NUMBERS and type(beta) in NUMBERS else None


def cached_entry(plan: Plan, operands: Operands) -> CacheEntry | None:
    """What is known of earlier uses with the factors of these arrays."""
    key = key_of(operands)
    return None if key is None else plan.cache.get(key)


def key_of(operands: Operands) -> Key | None:
    """As `factors_key`; None also where a batch has several."""
    alpha, beta, _ = operands.factors[0]
    alike = len(operands.factors) == 1 or all(other[:2] == (alpha, beta) for other in operands.factors)
    return (alpha, beta) if alike else None


def factors_of(both: Factors, move: Move) -> Factors:
    """What becomes of elements in one move of a pair: alpha and beta apply in its last. Not collective."""
    conjugate = conjugates(move.op)
    if not move.last:
        return Factors(1, 0, conjugate)
    return both if both.conjugate == conjugate else both._replace(conjugate=conjugate)


def bind_stages(
    stages: Sequence[Stage],
    kind: ArrayKind,
    order: int,
    item: int,
    memory_limit: int,
    factors: Sequence[Factors],
    by: type[Exchange] | None = None,
) -> Binding:
    """What moves such arrays: the stages' own exchanges, or `by`. Not collective.

    Raises
    ------
    ArrayError
        The memory limit is too small for their elements.
    ScheduleError
        MPI's datatypes cannot do what is asked on the way.
    """
    exchanges = tuple([stage.bind(kind, order, item, by) for stage in stages])
    private = 0
    for exchange in exchanges:
        if exchange.buffers.name == "datatypes" and any(any(some.values()) for some in kind.blends):
            ways = [key[0] for some in kind.blends for key, blend in some.items() if blend]
            raise ScheduleError(
                f"{factors[0]}, op = {ways[0]}: with buffers = 'datatypes' MPI moves elements as they are; "
                "use buffers='packed'"
            )
        needed = exchange.staging_bytes
        if needed > memory_limit:
            what = (
                f"elements of {item} bytes"
                if len(kind.items) == 1
                else (f"a batch of {len(kind.items)} plans with such elements")
            )
            raise ArrayError(
                f"memory_limit = {memory_limit} bytes is too small for {what}: at least {needed} are needed"
            )
        private = max(private, exchange.private_bytes)
    return Binding(exchanges, order, item, private)
