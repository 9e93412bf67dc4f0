"""Plan: the stages of a redistribution, what it keeps from use to use, and the fast path.

Distributed arrays, and those of other libraries, in a use of a plan: NumPy's go in, and what comes out is as they are.

Plan: what a redistribution consists of and keeps from use to use, as the modules of the engine see it.

The user has a `Redistribution`, which has one of these. The fast path is here too: the next use with arrays of the same kind
as the last ones' and the same factors goes in one compiled call or a `DirectCall`.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .._kernels.call import Call, Kinds
from ..comm.group import Group
from ..comm.transfer import Transfer
from ..comm.vote import digest
from ..errors import ArrayError
from ..exchanges.shared import Shared
from ..layout.arrays import host_array
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed
from ..layout.tiles import Layout
from ..schedules.orders import CombinedOrder, Order
from .arrays import BY_COLUMNS, Arrays, dtype_digest
from .operands import BINDINGS_KEPT, Binding, Operands, bound, listed, operands
from .operation import Factors, scale_rest
from .stages import Forms, Pair, Stage

__all__ = [
    "ASKS",
    "ONE",
    "ZERO",
    "Key",
    "Plan",
    "Remembered",
    "any_wrapped",
    "factors_key",
    "key_of",
    "remembered_of",
    "unwrapped",
    "wrapped",
]

NUMPYS = frozenset({np.ndarray, type(None)})


def any_wrapped(arrays: Iterable[object]) -> bool:
    """Whether one of these is neither None nor an array of NumPy's own class. Not collective."""
    return not NUMPYS.issuperset(map(type, arrays))


def unwrapped(
    pairs: Sequence[Pair], arrays: Sequence[Any], outs: Sequence[Any]
) -> tuple[list[Any], list[Any], list[Pair]]:
    """The local arrays of both sides, and the pairs with the dtypes that distributed arrays tell. Not collective.

    Raises
    ------
    ArrayError
        A distributed array is not of the plan's layout, or one of another library is not in the host's memory.
    """
    given, into, told = [], [], []
    for k, (a, out, pair) in enumerate(zip(arrays, outs, pairs, strict=True)):
        plan = f"plan {k}: " if len(pairs) > 1 else ""
        given.append(_local_of(f"{plan}a", a, pair.desc_a))
        into.append(
            given[-1] if out is a and not isinstance(a, Distributed) else _local_of(f"{plan}out", out, pair.desc_b)
        )
        told.append(pair._replace(dtype=a.dtype) if pair.dtype is None and isinstance(a, Distributed) else pair)
    return given, into, told


def _local_of(name: str, array: Any, desc: Layout) -> Any:
    if not isinstance(array, Distributed):
        return host_array(name, array) if isinstance(desc, Descriptor) else array
    if not isinstance(desc, Descriptor):
        raise ArrayError(f"{name} is {array!r}, but the plan is for {desc!r}: pass a list of its tiles")
    theirs = array.desc
    if desc.grid.comm is not None and theirs.grid.comm is not None:
        theirs = theirs.on(desc.grid.comm)
    if theirs != desc:
        raise ArrayError(
            f"{name} has the layout {array.desc!r}, but the plan is for {desc!r}: make a plan of its layout"
        )
    return array.local


def wrapped(pairs: Sequence[Pair], arrays: Sequence[Any], outs: Sequence[Any], results: list[Any]) -> list[Any]:
    """The results of a use, as what was given to write into, or as distributed arrays where A was. Not collective."""
    made = list(results)
    for k, (a, out, pair) in enumerate(zip(arrays, outs, pairs, strict=True)):
        if isinstance(out, Distributed):
            made[k] = out
        elif isinstance(a, Distributed) and out is None and isinstance(pair.desc_b, Descriptor):
            made[k] = type(a)._made(pair.desc_b, made[k], a.dtype)
        elif out is not None and made[k] is not None:
            made[k] = out
    return made


PLANNING = ("processes", "schedule", "messages")
ASKS = 1  # the note of a rank that has still to be told of arrays, or to tell

# Compared by identity: small integers are single objects, and anything else is looked at by `Factors`.
ONE: Any = 1
ZERO: Any = 0

Key = tuple[complex, complex]  # alpha and beta
PLAIN: Key = 1, 0
NUMBERS = frozenset({int, float, complex, np.float32, np.float64, np.complex64, np.complex128})


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
        The fast path of a use without factors.
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
        self.between, self.identity, self.by = dict(between), identity, by
        self.listed, self.parts = parts is not None, tuple(parts or ())
        self.asks = len(self.pairs) > 1 or bool(self.between)
        self.moves = tuple([move for stage in stages for move in stage.moves])
        self.memory_limit = stages[0].options.memory_limit
        self.remembered: dict[Key | None, Remembered] = {}
        self.call: Call | Transfer | None = None
        self.finishes = True in [pair.fill == "zero" or not pair.desc_b._held for pair in self.pairs]
        self.tiled = False in [desc.is_product for pair in self.pairs for desc in pair[:2]]
        self.direct: Stage | None = None
        self.planning: dict[str, float] = {}
        self.seconds: float | None = None
        self._bindings: OrderedDict[Any, Binding] = OrderedDict()
        self._numbers: OrderedDict[Any, tuple[int, Any]] = OrderedDict()
        self._apart: Arrays | None = None

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
    def how(self) -> str:
        """How the bytes move."""
        return self.by or self.stages[0].exchange.name

    def __repr__(self) -> str:
        if self.listed:
            return f"batch({', '.join(map(repr, self.parts))})"
        pair, name = self.pairs[0], "Redistribution" if self.by is None else "PaperPlan"
        return f"{name}({pair.desc_a!r} -> {pair.desc_b!r}, {self.schedule.name}/{self.how})"

    def with_layouts(self, a: Layout | None, b: Layout | None, dtype: np.dtype[Any] | None) -> Plan:
        """The same for what may differ from rank to rank: leading dimensions, offsets, and the dtype that was told."""
        pair = self.pairs[0]
        a, b = a or pair.desc_a, b or pair.desc_b
        same_dtype = (dtype is None) == (pair.dtype is None) and dtype == pair.dtype  # None == float64
        if same_dtype and (a._storage, b._storage) == (pair.desc_a._storage, pair.desc_b._storage):
            return self
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.pairs = (pair._replace(desc_a=a, desc_b=b, dtype=dtype),)
        other.remembered, other.call = {}, None
        return other

    def lists(self, a: Any, out: Any) -> tuple[list[Any], list[Any]]:
        """One array, or None, for each pair."""
        n = len(self.pairs)
        return (listed("arrays", a, n), listed("outs", out, n)) if self.listed else ([a], [out])

    def operands(self, a: Any, out: Any, alpha: object, beta: object) -> Operands:
        """This rank's arrays, checked, and what was left out made."""
        given, into = self.lists(a, out)
        pairs: Sequence[Pair] = self.pairs
        if any_wrapped((*given, *into)):
            given, into, pairs = unwrapped(pairs, given, into)
        remembered = self.remembered.get(factors_key(alpha, beta))
        if remembered is not None:
            found = remembered.kinds.match(given, into)
            if found is not None:
                kept = remembered.operands
                return Operands(given, into, found[0], found[1], kept.forms, kept.dtypes, kept.order, kept.factors)
        mine, checked = operands(pairs, self.moves, given, into, alpha, beta, self._apart)
        if self.tiled:
            self._apart = checked._replace(out=None)
        return mine

    def known(self, mine: Operands) -> Sequence[np.dtype[Any] | None] | None:
        """The dtypes of all pairs, where nobody has to be asked for them."""
        if not self.asks:
            return mine.dtypes
        found = self._numbers.get(self._kind_of(mine))
        return None if found is None else found[1]

    def _kind_of(self, mine: Operands) -> Any:
        return mine.forms.strides, mine.dtypes, mine.forms.stays

    def dtype_in_vote(self, mine: Operands) -> tuple[int | None, int]:
        """What a vote says of the dtypes, and whether this rank has to be told, or to tell."""
        if self.asks:
            found = self._numbers.get(self._kind_of(mine))
            return (None, ASKS) if found is None else (found[0], 0)
        return None if mine.dtypes[0] is None else dtype_digest(mine.dtypes[0]), 0

    def forget(self, mine: Operands) -> None:
        """What others told of their arrays may be true no longer."""
        self._numbers.pop(self._kind_of(mine), None)

    def learn(self, mine: Operands, dtypes: Sequence[np.dtype[Any] | None], order: int) -> None:
        """All ranks have told their dtypes."""
        number = digest(([None if dtype is None else dtype_digest(dtype) for dtype in dtypes], order))
        self._numbers[self._kind_of(mine)] = number, tuple(dtypes)
        while len(self._numbers) > BINDINGS_KEPT:
            self._numbers.popitem(last=False)

    def order_of(self, mine: Operands) -> int:
        """The order of elements in messages, as far as this rank can tell."""
        if len(self.stages) > 1:
            return BY_COLUMNS
        remembered = remembered_of(self, mine)
        if remembered is not None and remembered.operands.forms.strides == mine.forms.strides:
            return remembered.order
        return mine.order or BY_COLUMNS

    def binding(self, mine: Operands, forms: Forms, order: int, item: int) -> Binding:
        """What moves arrays of such a kind, an old one or a new one."""
        blends = [(k, way, blend.key) for k, some in enumerate(forms.blends) for way, blend in some.items() if blend]
        key = forms.strides, forms.items, tuple(blends), forms.stays, order, item
        kept = self._bindings.get(key)
        if kept is None:
            kept = bound(self.stages, forms, order, item, self.memory_limit, mine.factors)
            while len(self._bindings) >= BINDINGS_KEPT:
                self._bindings.popitem(last=False)
            self._bindings[key] = kept
        else:
            self._bindings.move_to_end(key)
        return kept

    def result_of(self, a: Any, out: Any, made: Any, alpha: Any, beta: Any) -> Any:
        """The result of a compiled call."""
        factors = () if beta is ZERO else [Factors.of(alpha, beta, pair.op) for pair in self.pairs]
        return self.finished(self.lists(a, out)[1], made if self.listed else [made], factors)

    def finished(self, outs: Sequence[Any], targets: Sequence[Any], factors: Sequence[Factors]) -> Any:
        """The result, once all has moved."""
        results = []
        for k, (pair, target) in enumerate(zip(self.pairs, targets, strict=True)):
            desc = pair.desc_b
            if pair.fill == "zero" and pair.part is not None and isinstance(outs[k], np.ndarray):
                assert isinstance(desc, Descriptor)
                edge = pair.part.moved(pair.op).edge(desc.shape)
                scale_rest(outs[k], desc, edge, factors[k].beta if factors else 0)
            results.append(target if desc._held else None)
        return results if self.listed else results[0]

    def to_wrap(self, a: Any, out: Any) -> tuple[list[Any], list[Any]] | None:
        """What was given, where any of it is no NumPy array; what is wrong is found again with the operands."""
        try:
            given, into = self.lists(a, out)
        except ArrayError:
            return None
        return (given, into) if any_wrapped((*given, *into)) else None

    def wrapped(self, given: Sequence[Any], outs: Sequence[Any], result: Any) -> Any:
        """The result, as what was given is."""
        made = wrapped(self.pairs, given, outs, result if self.listed else [result])
        return made if self.listed else made[0]

    def said_of(self, mine: Operands) -> dict[str, Any]:
        """What a ballot says of the plan and of these arrays."""
        dtype, note = self.dtype_in_vote(mine)
        call = self.identity if mine.plain else digest((self.identity, mine.factors))
        return {"call": call, "dtype": dtype, "note": note, "item": mine.item, "order": mine.order or 0}

    def keep(self, key: Key, remembered: Remembered) -> None:
        """Serve the next uses with these factors by it."""
        while len(self.remembered) >= BINDINGS_KEPT:
            self.drop(next(iter(self.remembered)))
        self.remembered[key] = remembered
        if key == PLAIN:
            self.call = remembered.call

    def drop(self, key: Key | None) -> None:
        """Serve uses with these factors as first ones."""
        self.remembered.pop(key, None)
        if key == PLAIN:
            self.call = None

    def planned_at(self, moments: Sequence[float]) -> None:
        """Note the seconds of each part of planning, from the times at which they began and the last one ended."""
        self.planning = {part: end - begin for part, (begin, end) in zip(PLANNING, pairwise(moments), strict=True)}


class Remembered:
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
            made = bound(plan.stages, kept.forms, self.order, kept.item, plan.memory_limit, kept.factors)
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


def remembered_of(plan: Plan, mine: Operands) -> Remembered | None:
    """What is known of earlier uses with the factors of these arrays."""
    key = key_of(mine)
    return None if key is None else plan.remembered.get(key)


def key_of(mine: Operands) -> Key | None:
    """As `factors_key`; None also where a batch has several."""
    alpha, beta, _ = mine.factors[0]
    alike = len(mine.factors) == 1 or all(other[:2] == (alpha, beta) for other in mine.factors)
    return (alpha, beta) if alike else None
