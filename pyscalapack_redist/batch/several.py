"""A batch: several plans called as one."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._call import DISSENT, Call, Kinds
from ..agreement import Ballot, Participants
from ..direct import ONE, ZERO, Redistribution
from ..exchanges.bundled import Bundled
from ..exchanges.exchange import Run
from ..exchanges.message import dense_strides
from ..filled import Filled
from .moves import Moves, Pair, moves_of
from .report import BatchReport
from .taken import Taken, listed
from .transfer import QUESTIONS, BatchTransfer

__all__ = ["Batch", "Kind"]

KINDS_KEPT = 8

Numbers = complex | Sequence[complex]


class Kind(NamedTuple):
    """Arrays that this rank has had, and what moves them.

    Attributes
    ----------
    key : tuple
        What arrays of this kind have in common.
    number : int
        The same on all ranks that have had arrays of their kinds together; 0 before they have agreed.
    exchange : Bundled
        The bundles.
    pairs : tuple of Pair
        The arrays of each plan, with the order of elements that the bundles have.
    dtypes : tuple of dtype or None
        The dtype of each plan, as far as this rank knows it.
    own_order : tuple of bool
        Whether the first dimension runs fastest, as this rank would have it.
    """

    key: Any
    number: int
    exchange: Bundled
    pairs: tuple[Pair, ...]
    dtypes: tuple[np.dtype[Any] | None, ...]
    own_order: tuple[bool, ...]


class Batch:
    """Several plans as one: `batch(arrays)` gives a list of the local arrays of B. Made by `batch`.

    It holds its plans, bundles for the last kinds of arrays that it was called with, and nothing of the arrays.
    """

    def __init__(
        self,
        plans: Sequence[Redistribution],
        everyone: Participants | None,
        exchange: str,
        why: str,
        memory_limit: int,
        identity: int,
    ) -> None:
        self._plans = tuple(plans)
        self._everyone = everyone
        self._exchange, self._why, self._memory_limit = exchange, why, memory_limit
        self._failures: list[str] = []
        self._moves = None if everyone is None else Moves(self._plans, everyone)
        self._node = everyone.node if everyone is not None and exchange == "shared" else None
        self._kinds: OrderedDict[Any, Kind] = OrderedDict()
        self._last: tuple[Kinds, Kind] | None = None
        self._call: Call | None = None
        self._nothing: list[Any] = [None] * len(self._plans)
        self._outside = [k for k, one in enumerate(self._plans) if one.desc_b.coords is None]
        self._zeroed = [k for k, one in enumerate(self._plans) if isinstance(one, Filled) and len(one.legs) == 1]
        self._identity = identity  # equal on all ranks for what they all mean

    @property
    def plans(self) -> tuple[Redistribution, ...]:
        """The plans, in order."""
        return self._plans

    def __len__(self) -> int:
        return len(self._plans)

    def __call__(
        self,
        arrays: Sequence[NDArray[Any] | None] | None = None,
        outs: Sequence[NDArray[Any] | None] | None = None,
        *,
        alpha: Numbers = ONE,
        beta: Numbers = ZERO,
    ) -> list[NDArray[Any] | None]:
        """Redistribute all: out = alpha * op(A) + beta * out for each plan. Collective over all processes of the plans.

        Parameters
        ----------
        arrays : list or tuple of ndarray or None, optional
            For each plan what it takes as `a`. Left out where this rank holds nothing of any A.
        outs : list or tuple of ndarray or None, optional
            For each plan what it takes as `out`. What one plan writes no other may read or write; windows of one array, or
            triangles on different sides of a diagonal, are fine.
        alpha, beta : number or sequence of numbers
            For all plans, or one for each; as for a plan.

        Returns
        -------
        list of ndarray or None
            For each plan what a call of it returns.

        Raises
        ------
        ArrayError
            An array does not fit, on this rank.
        CollectiveError
            One does not fit on another rank, or dtypes differ between ranks. Every rank raises, and no array is touched.
        """
        everyone = self._everyone
        if (
            self._call is not None
            and alpha is ONE
            and beta is ZERO
            and everyone is not None
            and not everyone.in_flight
            and isinstance(arrays, (list, tuple, type(None)))
            and isinstance(outs, (list, tuple, type(None)))
        ):
            given = self._nothing if outs is None else list(outs)
            result = self._call.many(self._nothing if arrays is None else list(arrays), given)
            if result is DISSENT:
                return BatchTransfer(self, arrays, outs, outcome=self._call.outcome).results()
            if result is not NotImplemented:
                everyone.next_tag()  # other ranks may have come the long way, and took one
                return self._finished(given, result)
        return self.start(arrays, outs, alpha=alpha, beta=beta).results()

    def start(
        self,
        arrays: Sequence[NDArray[Any] | None] | None = None,
        outs: Sequence[NDArray[Any] | None] | None = None,
        *,
        alpha: Numbers = ONE,
        beta: Numbers = ZERO,
    ) -> BatchTransfer:
        """Start all and return at once; parameters as in a call. Collective, in the same order on all ranks.

        Until `wait()` has returned or `test()` was true, the elements that move may not be written in `arrays` nor touched
        in `outs`. Batches on one communicator move one after another.
        """
        return BatchTransfer(self, arrays, outs, alpha, beta)

    def report(self, dtypes: DTypeLike | Sequence[DTypeLike] | None = None) -> BatchReport:
        """What this rank moves and what it costs. Not collective.

        Parameters
        ----------
        dtypes : dtype or list of dtype, optional
            Of the elements, for all plans or for each; by default the plan's own, else float64.

        Raises
        ------
        ArrayError
            The list is not of one dtype for each plan.
        """
        given: list[Any] = listed("dtypes", dtypes, len(self)) if isinstance(dtypes, list) else [dtypes] * len(self)
        each = [np.dtype(d or one._dtype or np.float64) for d, one in zip(given, self._plans, strict=True)]
        items = [one.itemsize for one in each]
        extra = 0
        if self._moves is not None:
            pairs = [_any_pair(one, item) for one, item in zip(self._plans, items, strict=True)]
            extra = self._moves.bundled(pairs, self._memory_limit, self._node).staging_bytes()
        return BatchReport.of(
            [one.report(d) for one, d in zip(self._plans, each, strict=True)],
            (0, 0) if self._moves is None else self._moves.peers,
            self._exchange,
            self._why,
            extra,
            self._memory_limit,
        )

    def _kind_of(self, taken: Taken) -> Kind:
        """The kind of checked arrays, old or new. Not collective."""
        assert self._moves is not None
        pairs = tuple(pair for _, pair in taken.arrays_checked)
        dtypes = tuple(one.dtype for one, _ in taken.arrays_checked)
        key = (tuple((one.source, one.target, one.stays) for one in pairs), dtypes, tuple(taken.factors))
        kept = self._kinds.get(key)
        if kept is None:
            exchange = self._moves.bundled(pairs, self._memory_limit, self._node)
            kept = Kind(key, 0, exchange, pairs, dtypes, tuple(one.by_columns for one in pairs))
        self._keep(kept)
        return kept

    def _agreed(self, kind: Kind, by_columns: Sequence[int], number: int) -> Kind:
        """The kind, with the order and the number that all ranks agreed on. Not collective."""
        assert self._moves is not None
        pairs = tuple(one._replace(by_columns=bool(own)) for one, own in zip(kind.pairs, by_columns, strict=True))
        kept = self._kinds.get(kind.key, kind)
        if kept.pairs != pairs:
            kept = kind._replace(pairs=pairs, exchange=self._moves.bundled(pairs, self._memory_limit, self._node))
        kept = kept._replace(number=number)
        self._keep(kept)
        return kept

    def _keep(self, kind: Kind) -> None:
        self._kinds[kind.key] = kind
        self._kinds.move_to_end(kind.key)
        while len(self._kinds) > KINDS_KEPT:
            self._kinds.popitem(last=False)

    def _remember(self, taken: Taken, kind: Kind, run: Run) -> None:
        """Serve the next arrays of this kind without checking each, and on one node in a compiled call. Not collective."""
        self._last = self._call = None
        if any(one.stays and one.item for one in kind.pairs):
            return
        makes = [
            (plan.desc_b.empty if plan.part is None else plan.desc_b.zeros)
            if out is None and one.out is not None
            else None
            for plan, out, (one, _) in zip(self._plans, taken.outs, taken.arrays_checked, strict=True)
        ]
        arrays = [one if isinstance(one, np.ndarray) else None for one in taken.arrays]
        with contextlib.suppress(BufferError, ValueError):  # dtypes that buffers cannot describe are checked each time
            kinds = Kinds(arrays, taken.targets, makes)
            self._last = (kinds, kind)
            traffic = kind.exchange.compiled(run)
            if traffic is not None:
                assert self._everyone is not None
                vote = Ballot(QUESTIONS)
                vote.fill(0, [self._identity, kind.number])
                self._call = Call(traffic, kinds, vote.mine, vote.mine, self._everyone.look_around)

    def _finished(
        self, outs: Sequence[Any], targets: list[NDArray[Any] | None], factors: Sequence[tuple[complex, complex]] = ()
    ) -> list[NDArray[Any] | None]:
        """The results, after the moves: a fill with 0 is still to be written, and nothing is returned outside B."""
        for k in self._zeroed:
            plan = self._plans[k]
            assert isinstance(plan, Filled)
            plan._scale_rest(outs[k], factors[k][1] if factors else 0)
        for k in self._outside:
            targets[k] = None
        return targets

    def __repr__(self) -> str:
        return f"Batch({', '.join(map(repr, self._plans))})"


def _any_pair(plan: Redistribution, item: int) -> Pair:
    """Arrays in Fortran order, as far as sizes go."""
    source, target = (
        tuple(dense_strides(desc.local_shape, range(desc.ndim), item)) for desc in (plan.desc_a, plan.desc_b)
    )
    return Pair(source, target, item, True, (None,) * len(moves_of(plan)), False)
