"""Redistribution: a plan, made once and used often."""

from __future__ import annotations

import functools
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._kernels.bundle import Origins
from .._kernels.call import DISSENT, Call, Kinds
from .._kernels.ring import Ballot
from ..comm import progress
from ..comm.group import Group
from ..comm.vote import MPIVote, digest
from ..errors import ArrayError
from ..exchanges import Exchange, Message
from ..exchanges.nonblocking import Nonblocking
from ..exchanges.shared import Shared
from ..layout.descriptor import Descriptor
from ..schedules.orders import Order, Several
from .arrays import dtype_digest
from .binding import BY_COLUMNS, BY_ROWS, Binding, Operands, bound, operands
from .fill import scale_rest
from .operation import Factors, Part
from .report import PARTS, BatchReport, ChainReport, FilledReport, Profile, Report
from .small import SmallCall
from .stages import Forms, Move, Pair, Stage
from .transfer import ASKS, Transfer

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Leg", "Redistribution"]

# Compared by identity: small integers are single objects, and anything else is looked at by `Factors`.
ONE: Any = 1
ZERO: Any = 0
Array = NDArray[Any]
BINDINGS_KEPT = 8  # one for each kind of arrays


class Remembered(NamedTuple):
    """What the next use with arrays like the last ones' goes by: their kind, and what moves them."""

    kinds: Kinds
    operands: Operands
    binding: Binding


class Redistribution:
    """A plan: `plan(a)` gives the local array of B. Made by `redistribute`, immutable, and may be in flight several times.

    One made by `batch` takes and gives a list of arrays, one for each of its `plans`.

    Attributes
    ----------
    desc_a, desc_b : Descriptor
        Layouts before and after.
    op : str
        What becomes of A on the way.
    part : Part or None
        The trapezoid of A that is moved; None for all of it.
    plans : tuple of Redistribution
        Of a batch: the plans that it was made of.
    """

    plans: tuple[Redistribution, ...] = ()

    def __init__(
        self,
        group: Group | None,
        pairs: Sequence[Pair],
        stages: Sequence[Stage],
        descriptors: Mapping[int, Descriptor],
        why: str,
        identity: int,
        listed: bool = False,
    ) -> None:
        self._group, self._pairs, self._stages, self._why = group, tuple(pairs), tuple(stages), why
        self._intermediate = dict(descriptors)
        self._identity, self._listed = identity, listed
        self._asks = len(self._pairs) > 1 or bool(self._intermediate)
        self._moves = tuple(move for stage in stages for move in stage.moves)
        self._memory_limit = stages[0].options.memory_limit
        self._bindings: OrderedDict[Any, Binding] = OrderedDict()
        self._numbers: OrderedDict[Any, tuple[int, Any]] = OrderedDict()
        self._remembered: Remembered | None = None
        self._call: Call | SmallCall | None = None
        self._finishes = any(pair.fill == "zero" or pair.desc_b.coords is None for pair in self._pairs)
        self._planned = 0.0
        self._seconds: float | None = None

    # -- what it is

    @property
    def desc_a(self) -> Descriptor:
        """Layout before; of a batch, that of its first plan."""
        return self._pairs[0].desc_a

    @property
    def desc_b(self) -> Descriptor:
        """Layout after; of a batch, that of its first plan."""
        return self._pairs[0].desc_b

    @property
    def op(self) -> str:
        """What becomes of A on the way."""
        return self._pairs[0].op

    @property
    def part(self) -> Part | None:
        """The trapezoid of A that is moved."""
        return self._pairs[0].part

    @property
    def schedule(self) -> Order:
        """Order of the messages; with several moves, those of all of them."""
        orders = [move.order for move in self._moves]
        return orders[0] if len(orders) == 1 else Several(orders)

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """This rank's messages: "send", "receive" and "copy" (from its own A to its own B), stage by stage. Not collective."""
        return _messages(self._moves)

    @property
    def legs(self) -> tuple[Leg, ...]:
        """The stages of a plan with `via=`, in order."""
        return tuple(Leg(self, stage, stage.moves[0]) for stage in self._stages)

    def __len__(self) -> int:
        return len(self._pairs)

    def __bool__(self) -> bool:
        return True

    def report(self, dtype: DTypeLike | Sequence[DTypeLike] | None = None) -> Any:
        """What this rank moves and what it costs. Not collective.

        Parameters
        ----------
        dtype : dtype or list of dtype, optional
            Of the elements; by default the plan's own, else float64. Of a batch, for all plans or for each.

        Returns
        -------
        Report, ChainReport, FilledReport or BatchReport
            Of a plan; of one with `via=`; of one with `fill=`; of a batch.

        Raises
        ------
        ArrayError
            The list is not of one dtype for each plan.
        """
        if self._listed:
            given = listed("dtypes", dtype, len(self)) if isinstance(dtype, list) else [dtype] * len(self)
            each: list[np.dtype[Any]] = [
                np.dtype(d or one._pairs[0].dtype or np.float64) for d, one in zip(given, self.plans, strict=True)
            ]
            extra = self._bound_for([one.itemsize for one in each])
            return BatchReport.of(
                [one.report(d) for d, one in zip(each, self.plans, strict=True)],
                (self._peers(0), self._peers(1)),
                self._stages[0].exchange.name,
                self._why,
                max((one.staging_bytes for one in extra.exchanges), default=0),
                self._memory_limit,
            )
        item = np.dtype(dtype or self._pairs[0].dtype or np.float64).itemsize  # type: ignore[arg-type]
        chains: dict[tuple[int, int], list[tuple[int, Move]]] = {}
        for number, stage in enumerate(self._stages):
            for k, move in enumerate(reversed(stage.moves)):
                chains.setdefault((move.pair, -k), []).append((number, move))
        reports = [self._chain_report(chain, item) for _, chain in sorted(chains.items())]
        return FilledReport(tuple(reports)) if self._pairs[0].fill is not None else reports[0]

    def _peers(self, side: int) -> int:
        return len({m.peer for move in self._moves for m in move.messages[side]})

    def _chain_report(self, chain: Sequence[tuple[int, Move]], item: int) -> Report | ChainReport:
        legs = [self._report_of(self._stages[number], move, item) for number, move in chain]
        if len(self._stages) == 1 and not self._via:
            return legs[0]
        held = sum(int(np.prod(move.desc_b.local_shape)) for _, move in chain[:-1]) * item
        return ChainReport(tuple(legs), self._direct_report(item), held)

    _via = False
    _direct: Callable[[], Stage] | None = None

    def _direct_report(self, item: int) -> Report:
        """Of moving every element once."""
        assert self._direct is not None
        stage = self._direct()
        return self._report_of(stage, stage.moves[0], item)

    def _report_of(self, stage: Stage, move: Move, item: int) -> Report:
        alone = Stage([move._replace(pair=0, source=0, target=1)], stage.exchange, stage.options, self._group)
        group = self._group
        exchange = alone.bound(_contiguous(alone.moves, [(move.desc_a, move.desc_b)], [item]), BY_COLUMNS, item)
        return Report.of(move, exchange, self._why, item, group, self._seconds)

    def _bound_for(self, items: Sequence[int]) -> Binding:
        """For arrays in Fortran order."""
        forms = _contiguous(self._moves, [(one.desc_a, one.desc_b) for one in self._pairs], items)
        exchanges = tuple(one.bound(forms, BY_COLUMNS, max(items)) for one in self._stages)
        return Binding(exchanges, BY_COLUMNS, max(items), 0)

    # -- what it does

    @overload
    def __call__(
        self, a: Array | None = None, out: Array | None = None, *, alpha: complex = ..., beta: complex = ...
    ) -> Array | None: ...

    @overload
    def __call__(
        self,
        a: Sequence[Array | None],
        out: Sequence[Array | None] | None = None,
        *,
        alpha: complex | Sequence[complex] = ...,
        beta: complex | Sequence[complex] = ...,
    ) -> list[Array | None]: ...

    def __call__(self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO) -> Any:
        """Redistribute: out = alpha * op(A) + beta * out. Collective over the processes of the two grids.

        Parameters
        ----------
        a : ndarray or None
            Local array of A: of its local shape, or (LLD, columns); any fixed-size dtype, any strides; only read. None
            (or anything empty) where this rank holds nothing of A. Of a batch, a list or tuple with one for each plan.
        out : ndarray, optional
            Local array of B, of the dtype of `a`, any strides. It must be given where B is a sub-array, and where this
            rank is in B but not in A and `redistribute` was told no dtype. `out is a` for identical layouts only. Of a batch,
            a list or tuple; what one plan writes no other may read or write, but windows of one array, or triangles on
            different sides of a diagonal, are fine.
        alpha, beta : number
            Equal on all ranks; complex ones for complex arrays only. Other values than 1 and 0 are for float32, float64,
            complex64 and complex128. `out` must be given where beta is not 0, and is not read where it is. Of a batch, for
            all plans, or a list with one for each.

        Returns
        -------
        ndarray or None
            `out`, or a new array in Fortran order, 0 outside of what is moved; None on a rank outside B. Of a batch, a list.

        Raises
        ------
        ArrayError
            An array does not fit, on this rank.
        CollectiveError
            One does not fit on another rank, or dtypes differ between ranks. Every rank raises, and no array is touched.
        """
        if alpha is ONE and beta is ZERO and not progress._here.tasks:
            call = None
            try:
                call = self._call or self._first_call(a, out)
                result = NotImplemented if call is None else call(a, out)
            except BaseException as caught:
                if call is None or not call.begun:
                    return Transfer(self, a, out, error=caught).wait()
                Transfer(self, a, out, call=call)  # it goes on when this rank calls anything again
                raise
            if result is DISSENT:
                return Transfer(self, a, out, call=call).wait()
            if result is not NotImplemented:
                return self._result_of(a, out, result) if self._finishes else result
        return Transfer(self, a, out, alpha, beta).wait()

    def start(self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO) -> Transfer:
        """Start a redistribution and return at once; parameters as in a call. Collective, in the same order on all ranks.

        Until `wait()` has returned or `test()` was true, the elements that move may not be written in `a` nor touched in
        `out`; those around a sub-array may, also by other transfers.
        """
        return Transfer(self, a, out, alpha, beta)

    def profile(self, a: Any = None, out: Any = None) -> Profile:
        """Redistribute, and say where the time went on this rank. Collective; arrays and errors as in a call."""
        spent = dict.fromkeys(PARTS, 0.0)
        start = time.perf_counter()
        transfer = Transfer(self, a, out, spent=spent)
        voted = time.perf_counter()
        transfer.wait()
        end = time.perf_counter()
        agreed = transfer.agreed_at or end
        moved = spent["packed"] + spent["copied"] + spent["unpacked"]
        spent["planned"], spent["other"] = self._planned, voted - start
        spent["agreed"] = max(0.0, agreed - voted)
        spent["waited"] = max(0.0, end - start - spent["other"] - spent["agreed"] - moved)
        return Profile(spent)

    # -- for transfers

    def _lists(self, a: Any, out: Any) -> tuple[list[Any], list[Any]]:
        """One array, or None, for each pair."""
        n = len(self._pairs)
        return (listed("arrays", a, n), listed("outs", out, n)) if self._listed else ([a], [out])

    def _operands(self, a: Any, out: Any, alpha: object, beta: object) -> Operands:
        """This rank's arrays, checked, and what was left out made."""
        given, into = self._lists(a, out)
        remembered = self._remembered
        if remembered is not None and alpha is ONE and beta is ZERO:
            found = remembered.kinds.match(given, into)
            if found is not None:
                kept = remembered.operands
                return Operands(given, into, found[0], found[1], kept.forms, kept.dtypes, kept.order, kept.factors)
        return operands(self._pairs, self._moves, given, into, alpha, beta)

    def _known(self, mine: Operands) -> Sequence[np.dtype[Any] | None] | None:
        """The dtypes of all pairs, where nobody has to be asked for them."""
        if not self._asks:
            return mine.dtypes
        found = self._numbers.get(self._kind_of(mine))
        return None if found is None else found[1]

    def _kind_of(self, mine: Operands) -> Any:
        return mine.forms.strides, mine.dtypes, mine.forms.stays

    def _dtype_in_vote(self, mine: Operands) -> tuple[int | None, int]:
        """What a vote says of the dtypes, and whether this rank has to be told, or to tell."""
        if self._asks:
            found = self._numbers.get(self._kind_of(mine))
            return (None, ASKS) if found is None else (found[0], 0)
        return None if mine.dtypes[0] is None else dtype_digest(mine.dtypes[0]), 0

    def _forget(self, mine: Operands) -> None:
        """What others told of their arrays may be true no longer."""
        self._numbers.pop(self._kind_of(mine), None)

    def _learn(self, mine: Operands, dtypes: Sequence[np.dtype[Any] | None], order: int) -> None:
        """All ranks have told their dtypes."""
        number = digest(([None if one is None else dtype_digest(one) for one in dtypes], order))
        self._numbers[self._kind_of(mine)] = number, tuple(dtypes)
        while len(self._numbers) > BINDINGS_KEPT:
            self._numbers.popitem(last=False)

    def _order_of(self, mine: Operands) -> int:
        """The order of elements in messages, as far as this rank can tell."""
        if len(self._stages) > 1:
            return BY_COLUMNS
        remembered = self._remembered
        if remembered is not None and remembered.operands.forms.strides == mine.forms.strides:
            return remembered.binding.order
        return mine.order or BY_COLUMNS

    def _with_between(
        self, mine: Operands, dtypes: Sequence[np.dtype[Any] | None]
    ) -> tuple[Forms, list[NDArray[Any] | None]]:
        """The kind with all dtypes, and with the arrays of layouts in between, which are made."""
        forms = mine.forms._replace(items=tuple(0 if one is None else one.itemsize for one in dtypes))
        made: list[NDArray[Any] | None] = []
        for slot in sorted(self._intermediate):
            desc, pair = self._intermediate[slot], self._pair_of(slot)
            dtype = dtypes[pair]
            made.append(desc.empty(dtype) if desc.coords is not None and dtype is not None else None)
        return self._forms_between(mine._replace(forms=forms), made), made

    @functools.cached_property
    def _pairs_of(self) -> dict[int, int]:
        return {move.target: move.pair for move in self._moves}

    def _pair_of(self, slot: int) -> int:
        return self._pairs_of[slot]

    def _forms_between(self, mine: Operands, between: Sequence[NDArray[Any] | None]) -> Forms:
        """The kind with the arrays of layouts in between."""
        strides = mine.forms.strides + tuple(() if one is None else one.strides for one in between)
        items, blends = list(mine.forms.items), list(mine.forms.blends)
        for slot, one in zip(sorted(self._intermediate), between, strict=True):
            pair = self._pair_of(slot)
            if one is not None:
                items[pair] = one.itemsize
                for move in self._moves:
                    if move.pair == pair and (move.op, move.last) not in blends[pair]:
                        blends[pair] = {
                            **blends[pair],
                            (move.op, move.last): self._factors_of(mine, move).blend(one.dtype),
                        }
        return mine.forms._replace(strides=strides, items=tuple(items), blends=tuple(blends))

    @staticmethod
    def _factors_of(mine: Operands, move: Move) -> Factors:
        both = mine.factors[move.pair]
        return Factors.of(both.alpha, both.beta, move.op) if move.last else Factors.of(1, 0, move.op)

    def _binding(self, mine: Operands, forms: Forms, order: int, item: int) -> Binding:
        """What moves arrays of such a kind, an old one or a new one."""
        blends = tuple(tuple((key, blend and blend.key) for key, blend in some.items()) for some in forms.blends)
        key = forms.strides, forms.items, blends, forms.stays, order, item
        kept = self._bindings.get(key)
        if kept is None:
            kept = bound(self._stages, forms, order, item, self._memory_limit, mine.factors)
            while len(self._bindings) >= BINDINGS_KEPT:
                self._bindings.popitem(last=False)
            self._bindings[key] = kept
        else:
            self._bindings.move_to_end(key)
        return kept

    def _origins(
        self, stage: int, mine: Operands, between: Sequence[NDArray[Any] | None]
    ) -> tuple[Origins, tuple[int, int]]:
        """Where the arrays of a stage begin; and, for derived datatypes, those of its first move."""
        if not self._intermediate:
            return mine.origins, mine.origins.pair(0)
        slots = sorted(self._intermediate)

        def address(slot: int) -> int:
            if slot < 2 * len(self._pairs):
                return mine.origins.pair(slot // 2)[slot % 2]
            one = between[slots.index(slot)]
            return 0 if one is None else int(one.__array_interface__["data"][0])

        moves = self._stages[stage].moves
        made = Origins(len(moves))
        for k, move in enumerate(moves):
            made.put(k, address(move.source), address(move.target))
        return made, made.pair(0)

    def _first_call(self, a: Any, out: Any) -> Call | SmallCall | None:
        """The compiled call for arrays like these, where there is none yet; what is wrong is found again by a transfer."""
        group = self._group
        first = self._remembered is None and not self._asks and self._stages[0].exchange is Shared
        if group is None or group.broken is not None or not first:
            return None
        try:
            mine = self._operands(a, out, ONE, ZERO)
            if mine.order is None:
                return None
            binding = self._binding(mine, mine.forms, mine.order, mine.item)
            return self._remember_as(mine, binding, mine.item)
        except Exception:
            return None

    def _remember(self, mine: Operands, binding: Binding, vote: Any) -> None:
        """Serve the next arrays of this kind without checking each; on one node in a compiled call."""
        if not mine.plain or self._intermediate:
            return
        remembered, outcome = self._remembered, vote.outcome
        if isinstance(self._call, SmallCall) and isinstance(vote, MPIVote):
            self._call.expected = vote.largest.tobytes()
        if remembered is not None and remembered.binding is binding and remembered.operands.forms is mine.forms:
            return
        self._remember_as(mine, binding, int(outcome.item), vote)

    def _remember_as(self, mine: Operands, binding: Binding, item: int, vote: Any = None) -> Call | SmallCall | None:
        self._remembered = self._call = None
        group = self._group
        assert group is not None
        if any(mine.forms.stays):
            return None
        makes = [
            (pair.desc_b.empty if pair.part is None else pair.desc_b.zeros)
            if target is not None and not isinstance(out, np.ndarray)
            else None
            for pair, out, target in zip(self._pairs, mine.outs, mine.targets, strict=True)
        ]
        arrays = [one if isinstance(one, np.ndarray) else None for one in mine.given]
        try:
            kinds = Kinds(arrays, mine.targets, makes)
        except (BufferError, ValueError):  # dtypes that buffers cannot describe are checked each time
            return None
        call: Call | SmallCall | None = None
        exchange = binding.exchanges[0]
        look_around = functools.partial(group.look_around, self)
        if isinstance(vote, MPIVote) and isinstance(exchange, Nonblocking) and exchange.goes_ahead and not self._asks:

            def turned() -> Exchange:
                other = BY_ROWS + BY_COLUMNS - binding.order
                return self._binding(kept, kept.forms, other, item).exchanges[0]

            call = SmallCall(group, exchange, kinds, vote, look_around, turned) if item else None
        traffic = binding.exchanges[0].compiled() if item else None
        if traffic is not None:
            dtype, note = self._dtype_in_vote(mine)
            ballot = Ballot(
                call=self._identity,
                dtype=dtype,
                note=note,
                item=mine.item,
                order=mine.order or 0,
                packed=binding.order,
            )
            call = Call(traffic, kinds, ballot, item, look_around, group.tickets, self._listed)
        kept = mine._replace(given=[], outs=[], targets=[])
        self._remembered, self._call = Remembered(kinds, kept, binding), call
        return call

    def _result_of(self, a: Any, out: Any, made: Any) -> Any:
        """The result of a compiled call."""
        return self._finished(self._lists(a, out)[1], made if self._listed else [made], ())

    def _finished(self, outs: Sequence[Any], targets: Sequence[Any], factors: Sequence[Factors]) -> Any:
        """The result, once all has moved."""
        results = []
        for k, (pair, target) in enumerate(zip(self._pairs, targets, strict=True)):
            if pair.fill == "zero" and pair.part is not None and isinstance(outs[k], np.ndarray):
                edge = pair.part.moved(pair.op).edge(pair.desc_b.shape)
                scale_rest(outs[k], pair.desc_b, edge, factors[k].beta if factors else 0)
            results.append(target if pair.desc_b.coords is not None else None)
        return results if self._listed else results[0]

    @staticmethod
    def _factors_in_words(factors: Iterable[Factors]) -> str:
        return ", ".join(sorted({str(one) for one in factors}))

    def _with(self, a: Descriptor | None, b: Descriptor | None, dtype: np.dtype[Any] | None) -> Redistribution:
        """This plan for what may differ from rank to rank: leading dimensions and the dtype that was told."""
        pair = self._pairs[0]
        a, b = a or pair.desc_a, b or pair.desc_b
        same_dtype = (dtype is None) == (pair.dtype is None) and dtype == pair.dtype  # None == float64
        if same_dtype and (a.lld, b.lld) == (pair.desc_a.lld, pair.desc_b.lld):
            return self
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._pairs = (pair._replace(desc_a=a, desc_b=b, dtype=dtype),)
        other._remembered = other._call = None
        return other

    def __repr__(self) -> str:
        if self._listed:
            return f"batch({', '.join(map(repr, self.plans))})"
        how = f"{self.schedule.name}/{self._stages[0].exchange.name}"
        return f"Redistribution({self.desc_a!r} -> {self.desc_b!r}, {how})"


class Leg(NamedTuple):
    """A stage of a plan with `via=`."""

    plan: Redistribution
    stage: Stage
    move: Move

    @property
    def schedule(self) -> Order:
        """Order of its messages."""
        return self.move.order

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """This rank's, as those of a plan. Not collective."""
        return _messages([self.move])

    @property
    def desc_a(self) -> Descriptor:
        """Layout before."""
        return self.move.desc_a

    @property
    def desc_b(self) -> Descriptor:
        """Layout after."""
        return self.move.desc_b

    def report(self, dtype: DTypeLike | None = None) -> Report:
        """What this rank moves in it and what it costs. Not collective."""
        item = np.dtype(dtype or self.plan._pairs[0].dtype or np.float64).itemsize
        return self.plan._report_of(self.stage, self.move, item)


def _messages(moves: Sequence[Move]) -> dict[str, tuple[Message, ...]]:
    names = enumerate(("send", "receive", "copy"))
    return {name: tuple(message for move in moves for message in move.messages[k]) for k, name in names}


def listed(name: str, arrays: object, n: int) -> list[Any]:
    """One array, or None, for each of `n` plans. Not collective.

    Raises
    ------
    ArrayError
        It is not a list of so many.
    """
    if arrays is None:
        return [None] * n
    if not isinstance(arrays, list | tuple):
        raise ArrayError(
            f"{name} is a {type(arrays).__name__}: it must be a list, with an array or None for each of {n} plans"
        )
    if len(arrays) != n:
        raise ArrayError(
            f"{name} has {len(arrays)} entries: it must have one for each of {n} plans, None where there is none"
        )
    return list(arrays)


def _contiguous(moves: Sequence[Move], layouts: Sequence[tuple[Descriptor, Descriptor]], items: Sequence[int]) -> Forms:
    """The kind of arrays in Fortran order."""
    strides = []
    for (a, b), item in zip(layouts, items, strict=True):
        for desc in (a, b):
            step, some = item, []
            for n in desc.local_shape:
                some.append(step)
                step *= n
            strides.append(tuple(some))
    blends: list[dict[tuple[str, bool], Any]] = [{} for _ in items]
    for move in moves:
        blends[move.pair][move.op, move.last] = None
    return Forms(tuple(strides), tuple(items), tuple(blends), (False,) * len(items))
