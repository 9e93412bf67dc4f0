"""The beginning of a use of a plan: its ticket and its turn. A `Transfer` (engine/transfer.py) does the rest.

Before that there is what plans keep: a compiled call for the first use (`first_bound`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..comm import progress
from ..comm.group import DATA
from ..comm.guard import Guard
from ..comm.progress import hold_interrupts
from ..exchanges.shared import Shared
from .bound import Bound, Key
from .bounds import Bounds
from .operands import find_wrapped, finish_result, prepare_operands
from .transfer import Marking, Transfer, continue_call


def start_use(
    bounds: Bounds,
    a: Any,
    out: Any,
    alpha: object = 1,
    beta: object = 0,
    spent: dict[str, float] | None = None,
    error: BaseException | None = None,
    measured: Any = None,
    convert_result: Callable[[Any], Any] | None = None,
    consume: Marking | None = None,
) -> Transfer[Any]:
    """Start a transfer of these local arrays, and vote. Collective over the plan's ranks, in the same order on all.

    The vote reports an error of this rank; all ranks raise it when they wait for the transfer.

    Parameters
    ----------
    spent : dict, optional
        Receives the seconds of each part of the work.
    error : BaseException, optional
        An earlier error of this rank.
    measured : object, optional
        The record of a trace.
    convert_result : callable, optional
        Gives the result the class of the user's arrays.
    consume : Marking, optional
        Marks the user's array of A as consumed, from now on.
    """
    group, terms = bounds.group, bounds.terms
    if group is None:
        alone: Transfer[Any] = Transfer(bounds, measured=measured, convert_result=convert_result)
        alone.move_alone(a, out, alpha, beta)
        return alone
    group.check_usable()
    with Guard(error) as guard:
        if terms is not None and terms.series is not None:
            terms.check_usable()
        with group.lock:
            transfer: Transfer[Any] = Transfer(bounds, spent, measured, convert_result, consume)
            transfer.start(guard, a, out, alpha, beta)
        return transfer


def call_again(bounds: Bounds, bound: Bound, a: Any, out: Any) -> Any:
    """The result of a use of arrays like the last ones, with the memory of the last use, by MPI. Collective.

    As a compiled call in a ring: the first lines of a transfer, which takes over where it would wait for long, where the vote
    has another outcome than the last one, and at an interrupt. NotImplemented if the arrays are of another kind; then
    nothing has begun. Nothing else may be in flight in the group: nothing goes before it.
    """
    group, kinds, series, lent = bounds.group, bound.kinds, bounds.series, bound.idle
    try:
        match = None if kinds is None else kinds.match([a], [out])
    except Exception:
        return NotImplemented  # the slow path raises it again, collectively
    if match is None or lent is None or (series is not None and series.culprit is not None):
        return NotImplemented
    assert group is not None
    start, (targets, origins), voting, rows = time.perf_counter(), match, None, None
    ticket, bound.idle = group.coming_ticket, None
    lent.renew(origins, ticket + DATA if series is None else None, None)
    if series is None and bound.operands.item_bytes:  # a rank that knows no size has no blocks, and sends on those of others
        rows = lent.progress.pack_for_vote()
    with hold_interrupts() as held:
        try:
            if series is None:
                assert bound.vote is not None
                group.take_ticket()
                voting = group.start_voting(bound.vote, rows)
            lent.send_early()
            if voting is None or (_is_soon(voting.test) and bound.expects(voting.outcome, lent)):
                voting = None
                lent.start()
                if _is_soon(lent.advance) and (series is None or not series.ended):
                    if series is None:
                        bounds.last_run.seconds = time.perf_counter() - start
                    bound.take_back(lent, group.staging)
                    plan, factors = bounds.plan, bound.operands.factors
                    return finish_result(plan, [out], targets, factors) if plan.needs_finishing else targets[0]
            operands = bound.operands._replace(arrays=[a], outs=[out], targets=targets, origins=origins)
            transfer: Transfer[Any] = Transfer(bounds)
            transfer.take_over(bound, operands, lent, ticket, voting)
        except BaseException as caught:  # other ranks depend on it
            group.abort_use(caught, lent, a, targets)
            raise
        return transfer.finish(held)


def _is_soon(done: Callable[[], object]) -> bool:
    """Poll for a short while; whether it is done."""
    for polls in range(progress.POLLS_PER_CHECK):
        if done():
            return True
        if polls > progress.POLLS:
            progress.pause()
    return False


def first_bound(bounds: Bounds, key: Key | None, a: Any, out: Any, alpha: Any, beta: Any) -> Bound | None:
    """Return what is kept for arrays of this kind before their first use, if that can be compiled; or None.

    Errors are ignored: a transfer reports them.
    """
    group, plan = bounds.group, bounds.plan
    if (
        key is None
        or group is None
        or group.abort_reason is not None
        or bounds.terms is not None
        or plan.may_ask_dtypes
        or plan.has_tiles
        or plan.has_panels
        or plan.is_sum
        or plan.stages[0].exchange is not Shared
        or find_wrapped(plan, a, out) is not None
    ):
        return None
    try:
        operands = prepare_operands(bounds, a, out, alpha, beta)
        order, item_bytes = operands.element_order, operands.item_bytes
        if order is None or not item_bytes:
            return None
        bound = bounds.bound_for(operands)
        bounds.keep_first(bound, operands, order, item_bytes, continue_call)
        return bound
    except Exception:
        return None
