"""Redistribution: a plan, made once and used often."""

from __future__ import annotations

import functools
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from .. import tracing
from .._kernels.call import DISSENT, Call
from ..comm import progress
from ..comm.group import Group
from ..comm.vote import digest
from ..errors import ArrayError, CollectiveError
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed
from .arrays import dtype_digest
from .binding import BINDINGS_KEPT, BY_COLUMNS, Binding, Operands, bound, listed, operands
from .described import Described
from .direct import DirectCall
from .fast_path import ONE, ZERO, Key, Remembered, call_with, factors_key, first_call, remembered_of
from .fill import scale_rest
from .layouts import Layout, has_tiles
from .operation import Factors
from .report import PARTS, PLANNING, Profile
from .reporting import Leg
from .stages import Forms, Pair, Stage
from .tile_arrays import Kept, operands_of_tiles
from .traced import begun, traced
from .transfer import ASKS, Transfer
from .wrapping import any_wrapped, unwrapped, wrapped

if TYPE_CHECKING:
    pass

__all__ = ["Leg", "Redistribution"]

Array = NDArray[Any]
D = TypeVar("D", bound=Distributed)


class Redistribution(Described):
    """A plan: `plan(a)` gives the local array of B. Made by `redistribute`, immutable, and may be in flight several times.

    One made by `batch` takes and gives a list of arrays, one for each of its `plans`.

    Attributes
    ----------
    desc_a, desc_b : Descriptor or Tiles
        Layouts before and after.
    op : str
        Operation on A.
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
        descriptors: Mapping[int, Layout],
        why: str,
        identity: int,
        listed: bool = False,
    ) -> None:
        self._group, self._pairs, self._stages, self._why = group, tuple(pairs), tuple(stages), why
        self._intermediate = dict(descriptors)
        self._identity, self._listed = identity, listed
        self._asks = len(self._pairs) > 1 or bool(self._intermediate)
        self._moves = tuple([move for stage in stages for move in stage.moves])
        self._memory_limit = stages[0].options.memory_limit
        self._bindings: OrderedDict[Any, Binding] = OrderedDict()
        self._numbers: OrderedDict[Any, tuple[int, Any]] = OrderedDict()
        self._remembered: dict[Key | None, Remembered] = {}
        self._call: Call | DirectCall | None = None  # of that without factors
        self._finishes = True in [pair.fill == "zero" or not pair.desc_b._held for pair in self._pairs]
        self._tiled = has_tiles(*[desc for pair in self._pairs for desc in pair[:2]])
        self._kept: Kept | None = None
        self._planning: dict[str, float] = {}
        self._seconds: float | None = None

    @functools.cached_property
    def _pair_of(self) -> dict[int, int]:
        """By the number of an array, the pair that it is moved for."""
        return {move.target: move.pair for move in self._moves}

    def __len__(self) -> int:
        return len(self._pairs)

    def __bool__(self) -> bool:
        return True

    # -- what it does

    @overload
    def __call__(self, a: D, out: D | None = None, *, alpha: complex = ..., beta: complex = ...) -> D: ...

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

    @overload
    def __call__(
        self,
        a: Sequence[D],
        out: Sequence[D] | None = None,
        *,
        alpha: complex | Sequence[complex] = ...,
        beta: complex | Sequence[complex] = ...,
    ) -> list[D]: ...

    def __call__(self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO) -> Any:
        """Redistribute: out = alpha * op(A) + beta * out. Collective over the processes of the two grids.

        Parameters
        ----------
        a : ndarray, DistributedArray, list of ndarray or None
            Local array of A: of its local shape, or (LLD, columns); any fixed-size dtype, any strides; only read. None
            (or anything empty) where this rank holds nothing of A. Of a batch, a list or tuple with one for each plan; of
            `Tiles`, with one for each own tile, or one array of one dimension where they have `offsets`.
            A `DistributedArray`, here or as `out`, must be of the plan's layout.
        out : ndarray or DistributedArray, optional
            Local array of B, of the dtype of `a`, any strides. It must be given where B is a sub-array, and where this
            rank is in B but not in A and `redistribute` got no dtype. `out is a` for identical layouts only. Of a batch,
            a list or tuple; what one plan writes no other may read or write, but windows of one array, or triangles on
            different sides of a diagonal, are fine.
        alpha, beta : number
            Equal on all ranks; complex ones for complex arrays only. Other values than 1 and 0 are for float32, float64,
            complex64 and complex128. `out` must be given where beta is not 0, and is not read where it is. Of a batch, for
            all plans, or a list with one for each.

        Returns
        -------
        ndarray, DistributedArray or None
            `out`, or a new array in Fortran order, 0 outside of what is moved; None on a rank outside B. Of a batch, a list;
            of `Tiles`, what their `empty` gives.
            Where `a` is a `DistributedArray`, so is a new one, on every rank, in the layout `desc_b`.

        Raises
        ------
        ArrayError
            An array does not fit, on this rank.
        CollectiveError
            One does not fit on another rank, or dtypes differ between ranks. Every rank raises, and no array is touched.
        """
        if tracing.active and tracing.recording():
            return traced(self, a, out, alpha, beta)
        group = self._group
        call: Call | DirectCall | None = None
        transfer: Transfer | None = None
        drawn = 0 if group is None else group.tickets.drawn
        try:
            result: Any = NotImplemented
            if not progress._here.tasks:
                if alpha is ONE and beta is ZERO:
                    call = self._call or first_call(self, a, out)
                else:
                    call = call_with(self, a, out, alpha, beta)
                if call is not None:
                    result = call(a, out)
            if result is DISSENT:
                transfer = Transfer(self, a, out, call=call)
            elif result is NotImplemented:
                transfer = Transfer(self, a, out, alpha, beta)
        except BaseException as caught:
            if call is not None and call.begun:
                Transfer(self, a, out, call=call)  # it goes on when this rank calls anything again
            elif group is not None and group.tickets.drawn == drawn:  # the others wait for this rank's vote
                return Transfer(self, a, out, alpha, beta, error=caught).wait()
            raise
        if transfer is not None:
            return transfer.wait()
        return self._result_of(a, out, result, alpha, beta) if self._finishes else result

    def start(self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO) -> Transfer:
        """Start a redistribution and return at once; parameters as in a call. Collective, in the same order on all ranks.

        Until `wait()` has returned or `test()` was true, the elements that move may not be written in `a` nor touched in
        `out`; those around a sub-array may, also by other transfers.
        """
        measured = begun(self, a, out) if tracing.active else None
        transfer = Transfer(self, a, out, alpha, beta)
        transfer._measured = measured
        return transfer

    def profile(self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO) -> Profile:
        """Redistribute, and say where the time went on this rank. Collective; parameters and errors as in a call."""
        spent = dict.fromkeys(PARTS, 0.0)
        start = time.perf_counter()
        transfer = Transfer(self, a, out, alpha, beta, spent)
        voted = time.perf_counter()
        transfer.wait()
        end = time.perf_counter()
        moved = spent["packed"] + spent["copied"] + spent["unpacked"]
        spent["planned"], spent["other"] = sum(self._planning.values()), voted - start
        spent["agreed"] = max(0.0, spent["agreed"] - spent["other"])
        spent["waited"] = max(0.0, end - start - spent["other"] - spent["agreed"] - moved)
        return Profile(spent, dict(self._planning))

    def __copy__(self) -> Redistribution:
        return self

    def __deepcopy__(self, memo: object) -> Redistribution:
        """Itself: it does not change, and what its ranks share is not copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise CollectiveError(
            f"{self!r} cannot be pickled: its ranks made it together; pickle its layouts, desc_a and desc_b, and call "
            "redistribute with them on all ranks"
        )

    # -- for transfers

    def _lists(self, a: Any, out: Any) -> tuple[list[Any], list[Any]]:
        """One array, or None, for each pair."""
        n = len(self._pairs)
        return (listed("arrays", a, n), listed("outs", out, n)) if self._listed else ([a], [out])

    def _operands(self, a: Any, out: Any, alpha: object, beta: object) -> Operands:
        """This rank's arrays, checked, and what was left out made."""
        given, into = self._lists(a, out)
        pairs: Sequence[Pair] = self._pairs
        if any_wrapped((*given, *into)):
            given, into, pairs = unwrapped(pairs, given, into)
        if self._tiled:
            mine, self._kept = operands_of_tiles(pairs[0], self._moves[0], given[0], into[0], alpha, beta, self._kept)
            return mine
        remembered = self._remembered.get(factors_key(alpha, beta))
        if remembered is not None:
            found = remembered.kinds.match(given, into)
            if found is not None:
                kept = remembered.operands
                return Operands(given, into, found[0], found[1], kept.forms, kept.dtypes, kept.order, kept.factors)
        return operands(pairs, self._moves, given, into, alpha, beta)

    def _call_number(self, mine: Operands) -> int:
        """What a vote says of the plan and the factors."""
        return self._identity if mine.plain else digest((self._identity, mine.factors))

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
        number = digest(([None if dtype is None else dtype_digest(dtype) for dtype in dtypes], order))
        self._numbers[self._kind_of(mine)] = number, tuple(dtypes)
        while len(self._numbers) > BINDINGS_KEPT:
            self._numbers.popitem(last=False)

    def _order_of(self, mine: Operands) -> int:
        """The order of elements in messages, as far as this rank can tell."""
        if len(self._stages) > 1:
            return BY_COLUMNS
        remembered = remembered_of(self, mine)
        if remembered is not None and remembered.operands.forms.strides == mine.forms.strides:
            return remembered.order
        return mine.order or BY_COLUMNS

    def _binding(self, mine: Operands, forms: Forms, order: int, item: int) -> Binding:
        """What moves arrays of such a kind, an old one or a new one."""
        blends = [(k, way, blend.key) for k, some in enumerate(forms.blends) for way, blend in some.items() if blend]
        key = forms.strides, forms.items, tuple(blends), forms.stays, order, item
        kept = self._bindings.get(key)
        if kept is None:
            kept = bound(self._stages, forms, order, item, self._memory_limit, mine.factors)
            while len(self._bindings) >= BINDINGS_KEPT:
                self._bindings.popitem(last=False)
            self._bindings[key] = kept
        else:
            self._bindings.move_to_end(key)
        return kept

    def _result_of(self, a: Any, out: Any, made: Any, alpha: Any, beta: Any) -> Any:
        """The result of a compiled call."""
        factors = () if beta is ZERO else [Factors.of(alpha, beta, pair.op) for pair in self._pairs]
        return self._finished(self._lists(a, out)[1], made if self._listed else [made], factors)

    def _finished(self, outs: Sequence[Any], targets: Sequence[Any], factors: Sequence[Factors]) -> Any:
        """The result, once all has moved."""
        results = []
        for k, (pair, target) in enumerate(zip(self._pairs, targets, strict=True)):
            desc = pair.desc_b
            if pair.fill == "zero" and pair.part is not None and isinstance(outs[k], np.ndarray):
                assert isinstance(desc, Descriptor)
                edge = pair.part.moved(pair.op).edge(desc.shape)
                scale_rest(outs[k], desc, edge, factors[k].beta if factors else 0)
            results.append(target if desc._held else None)
        return results if self._listed else results[0]

    def _to_wrap(self, a: Any, out: Any) -> tuple[list[Any], list[Any]] | None:
        """What was given, where any of it is no NumPy array; what is wrong is found again with the operands."""
        try:
            given, into = self._lists(a, out)
        except ArrayError:
            return None
        return (given, into) if any_wrapped((*given, *into)) else None

    def _wrapped(self, given: Sequence[Any], outs: Sequence[Any], result: Any) -> Any:
        """The result, as what was given is."""
        made = wrapped(self._pairs, given, outs, result if self._listed else [result])
        return made if self._listed else made[0]

    @staticmethod
    def _factors_in_words(factors: Iterable[Factors]) -> str:
        return ", ".join(sorted({str(factor) for factor in factors}))

    def _planned_at(self, moments: Sequence[float]) -> None:
        """Note the seconds of each part of planning, from the times at which they began and the last one ended."""
        self._planning = {part: end - begin for part, (begin, end) in zip(PLANNING, pairwise(moments), strict=True)}

    def _with(self, a: Layout | None, b: Layout | None, dtype: np.dtype[Any] | None) -> Redistribution:
        """This plan for what may differ from rank to rank: leading dimensions, offsets, and the dtype that was told."""
        pair = self._pairs[0]
        a, b = a or pair.desc_a, b or pair.desc_b
        same_dtype = (dtype is None) == (pair.dtype is None) and dtype == pair.dtype  # None == float64
        if same_dtype and (a._storage, b._storage) == (pair.desc_a._storage, pair.desc_b._storage):
            return self
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._pairs = (pair._replace(desc_a=a, desc_b=b, dtype=dtype),)
        other._remembered, other._call = {}, None
        return other
