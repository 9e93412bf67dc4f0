"""What is kept of a plan's uses, for the next one: a `Bound` for each kind of arrays, and the terms of agree="first"."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import replace
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
from .bound import MOST_BOUNDS, Bound, ExchangeCache, Key, Operands, StageExchanges, key_of
from .local_arrays import new_order
from .plan import Plan
from .room import checked_maker
from .terms import Terms

Proceed = Callable[["weakref.ref[Bounds]", "weakref.ref[Bound]", Call, Any, Any], Any]
ASKS_DTYPES = 1  # the field `pending` of a rank's vote: ranks must exchange the dtypes of their arrays


class Bounds:
    """What is kept of the uses of one plan, by one user of it. Transfers take from it, and give back.

    Parameters
    ----------
    plan : Plan
        The plan.
    terms : Terms, optional
        With agree="first": what the first call binds.

    Attributes
    ----------
    plan : Plan
        The plan; with bound terms, for arrays of their dtype.
    group : Group or None
        Its ranks.
    by_factors : dict
        For arrays of one kind what is kept, by alpha and beta; of several kinds the last used is the first.
    last_run : LastRun
        The time of the last use; of those by a compiled call, of the last that moved 64 KiB.
    """

    def __init__(self, plan: Plan, terms: Terms | None = None) -> None:
        self.plan, self.group, self.terms = plan, plan.group, terms
        self.by_factors: dict[Key | None, list[Bound]] = {}
        self.last_run = LastRun()

    def __repr__(self) -> str:
        return repr(self.plan)

    @property
    def series(self) -> Series | None:
        """The later calls of a plan with agree="first", if they need no votes."""
        return None if self.terms is None else self.terms.series

    def bound_for(self, operands: Operands) -> Bound:
        """Return the bound for arrays of this kind, from now on the first one with their factors."""
        plan, key = self.plan, key_of(operands)
        alike = self.by_factors.get(key, [])
        for number, bound in enumerate(alike):
            if bound.is_alike(operands):
                bound.take(operands)
                if number:
                    alike.insert(0, alike.pop(number))
                return bound
        exchange_type = None if self.series is None else Nonblocking
        exchanges = ExchangeCache(plan.stages, plan.memory_limit, operands.factors, exchange_type)
        bound = Bound(operands, exchanges, None if plan.may_ask_dtypes else operands.dtypes)
        if plan.may_ask_dtypes:  # which ranks know whatever the factors
            known = next(
                (each for others in self.by_factors.values() for each in others if each.is_alike(operands)), None
            )
            if known is not None:
                bound.dtypes, bound.dtypes_number = known.dtypes, known.dtypes_number
        while sum(map(len, self.by_factors.values())) >= MOST_BOUNDS:
            oldest = next(iter(self.by_factors))
            self.by_factors[oldest].pop()
            if not self.by_factors[oldest]:
                del self.by_factors[oldest]
        self.by_factors.setdefault(key, []).insert(0, bound)
        return bound

    def agree_on_terms(self, operands: Operands, element_order: int, item_bytes: int) -> None:
        """Bind the terms of a plan with agree="first" to its first use.

        Later calls need no vote where messages are few and small enough to go before one, which is the same on all ranks.
        """
        terms, plan, group = self.terms, self.plan, self.group
        if terms is None or terms.is_bound or group is None or not item_bytes:
            return
        terms.bind(operands.factors[0], element_order, item_bytes)
        self.plan = replace(plan, pairs=(plan.pairs[0]._replace(dtype=operands.dtypes[0]),))
        if len(plan.stages) > 1 or group.voting_ring is not None:
            return
        exchange = plan.stages[0].make_exchange(operands.kind, element_order, item_bytes, Nonblocking)
        if exchange.sends_early:
            terms.begin_series(group, exchange)
            self.by_factors.clear()

    def record_failure(self, reason: str) -> None:
        """Record that a call has failed: a plan with bound terms cannot be used any more."""
        if self.terms is not None and self.terms.is_bound:
            self.terms.record_failure(reason)
            self.by_factors.clear()

    def keep(
        self,
        bound: Bound,
        operands: Operands,
        stages: StageExchanges,
        proceed: Proceed,
        outcome: Outcome | None = None,
    ) -> None:
        """Keep what the next use of such arrays can do without: on one node checks and a vote in Python, elsewhere checks.

        Parameters
        ----------
        bound : Bound
            Where it is kept.
        operands : Operands
            Arrays of this use.
        stages : StageExchanges
            The exchanges that ranks have agreed on.
        proceed : callable
            proceed(weak references to these and to the bound, call, a, out) starts the transfer that continues a call.
        outcome : Outcome, optional
            The outcome of the vote; a call of a series has none.
        """
        bound.expected = outcome
        if bound.kinds is not None and bound.latest_exchanges() is stages:
            return
        bound.latest, bound.element_order, bound.call, bound.idle = stages, stages.element_order, None, None
        if not self._make_kinds(bound, operands):
            return
        traffic = stages.exchanges[0].compiled() if stages.item_bytes else None
        if traffic is None:
            bound.vote = Vote(**self.vote_fields(bound.operands, bound))
        else:
            bound.call = self._call(bound, traffic, stages.element_order, stages.item_bytes, proceed)

    def keep_first(
        self, bound: Bound, operands: Operands, element_order: int, item_bytes: int, proceed: Proceed
    ) -> None:
        """Keep a compiled call for arrays that no use had yet; it may have no exchange."""
        traffic = self.plan.stages[0].make_traffic(operands.kind, element_order, item_bytes)
        if traffic is None:
            stages = bound.exchanges.of(operands.kind, operands.dtypes, element_order, item_bytes)
            self.keep(bound, operands, stages, proceed)
        elif self._make_kinds(bound, operands):
            bound.element_order = element_order
            bound.call = self._call(bound, traffic, element_order, item_bytes, proceed)

    def _make_kinds(self, bound: Bound, operands: Operands) -> bool:
        """Make what recognizes arrays like these; False if all arrays must be checked in each use."""
        plan = self.plan
        if len(plan.stages) > 1 or plan.has_tiles or True in bound.operands.kind.unchanged:
            return False
        if bound.kinds is None:
            elements, makers = plan.new_elements, list[Any]()
            for k, (pair, out, target) in enumerate(zip(plan.pairs, operands.outs, operands.targets, strict=True)):
                if target is None or target is out:
                    makers.append(None)
                else:
                    assert isinstance(pair.desc_b, Descriptor)
                    sources = pair.desc_a.own_arrays(operands.arrays[k])
                    make = pair.desc_b._maker(new_order(pair, sources), zeroed=pair.part is not None)
                    makers.append(checked_maker(make, elements, plan.pairs, k))
            known = [array if isinstance(array, np.ndarray) else None for array in operands.arrays]
            try:
                bound.kinds = Kinds(known, list(operands.targets), makers)
            except (BufferError, ValueError):  # a dtype that the buffer protocol cannot describe
                return False
        return True

    def _call(self, bound: Bound, traffic: Traffic, element_order: int, item_bytes: int, proceed: Proceed) -> Call:
        """Make the compiled call for arrays of a kind."""
        group, kinds = self.group, bound.kinds
        assert group is not None
        assert kinds is not None
        vote = Vote(**self.vote_fields(bound.operands, bound), packed=element_order)
        return Call(
            traffic,
            kinds,
            vote,
            item_bytes,
            functools.partial(_check_peers, group, self.plan),
            group.tickets,
            self.plan.is_batch,
            functools.partial(proceed, weakref.ref(self), weakref.ref(bound)),  # which keep the call
            progress.hold_interrupts,
            self.last_run,
        )

    def vote_fields(self, operands: Operands, bound: Bound | None) -> dict[str, Any]:
        """Return the fields of a vote for these arrays."""
        plan, number, pending = self.plan, None, 0
        if plan.may_ask_dtypes:
            number = None if bound is None else bound.dtypes_number
            pending = ASKS_DTYPES if number is None else 0
        elif operands.dtypes[0] is not None:
            number = dtype_digest(operands.dtypes[0])
        return {
            "call": plan.identity if operands.plain else digest((plan.identity, operands.factors)),
            "dtype": number,
            "pending": pending,
            "item": operands.item_bytes,
            "order": operands.element_order or 0,
        }


def _check_peers(group: Group, plan: Plan) -> None:
    group.check_peers(plan)
    progress.force_interrupts()
