"""The beginning of a use of a plan: its ticket and its turn. A `Transfer` (engine/transfer.py) does the rest.

Before that there is what plans keep: a compiled call for the first use (`first_binding`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..comm.guard import Guard
from ..exchanges.shared import Shared
from .binding import Binding, Key
from .bindings import Bindings
from .operands import find_wrapped, prepare_operands
from .transfer import Marking, Transfer, continue_call


def start_use(
    bindings: Bindings,
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
    group, terms = bindings.group, bindings.terms
    if group is None:
        alone: Transfer[Any] = Transfer(bindings, measured=measured, convert_result=convert_result)
        alone.move_alone(a, out, alpha, beta)
        return alone
    group.check_usable()
    with Guard(error) as guard:
        if terms is not None and terms.series is not None:
            terms.check_usable()
        with group.lock:
            transfer: Transfer[Any] = Transfer(bindings, spent, measured, convert_result, consume)
            transfer.start(guard, a, out, alpha, beta)
        return transfer


def first_binding(bindings: Bindings, key: Key | None, a: Any, out: Any, alpha: Any, beta: Any) -> Binding | None:
    """Return what is kept for arrays of this kind before their first use, if that can be compiled; or None.

    Errors are ignored: a transfer reports them.
    """
    group, plan = bindings.group, bindings.plan
    if (
        key is None
        or group is None
        or group.abort_reason is not None
        or bindings.terms is not None
        or plan.may_ask_dtypes
        or plan.has_tiles
        or plan.has_panels
        or plan.is_sum
        or plan.stages[0].exchange is not Shared
        or find_wrapped(plan, a, out) is not None
    ):
        return None
    try:
        operands = prepare_operands(bindings, a, out, alpha, beta)
        order, item_bytes = operands.element_order, operands.item_bytes
        if order is None or not item_bytes:
            return None
        binding = bindings.binding_of(operands)
        bindings.keep_first(binding, operands, order, item_bytes, continue_call)
        return binding
    except Exception:
        return None
