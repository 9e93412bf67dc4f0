"""The fast path: the next use with arrays of the same kind as the last ones' and the same factors, in one compiled call or a
`DirectCall`."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from .._kernels.call import Call, Kinds
from .._kernels.ring import Ballot
from .._kernels.transport import Traffic
from ..comm.group import Group
from ..comm.vote import Outcome
from ..exchanges import Exchange
from ..exchanges.shared import Shared
from .binding import BINDINGS_KEPT, BY_COLUMNS, BY_ROWS, Binding, Operands, bound
from .direct import DirectCall

if TYPE_CHECKING:
    from .plan import Redistribution

__all__ = ["ONE", "ZERO", "Key", "Remembered", "call_with", "factors_key", "first_call", "remember", "remembered_of"]

# Compared by identity: small integers are single objects, and anything else is looked at by `Factors`.
ONE: Any = 1
ZERO: Any = 0

Key = tuple[complex, complex]  # alpha and beta
PLAIN: Key = 1, 0
NUMBERS = frozenset({int, float, complex, np.float32, np.float64, np.complex64, np.complex128})


class Remembered:
    """What the next use with arrays like the last ones' goes by: their kind, what moves them, and the compiled call if any.

    A first compiled call needs no exchange. One is made of what the call moves when a `Transfer` comes that goes on with it.
    """

    def __init__(
        self, kinds: Kinds, operands: Operands, order: int, call: Call | DirectCall | None, binding: Binding | None
    ) -> None:
        self.kinds, self.operands, self.order, self.call = kinds, operands, order, call
        self._binding = binding

    def binding(self, plan: Redistribution) -> Binding:
        """What moves the arrays, as the states of a transfer need it. Not collective."""
        if self._binding is None:
            kept = self.operands
            made = bound(plan._stages, kept.forms, self.order, kept.item, plan._memory_limit, kept.factors)
            (exchange,) = made.exchanges
            assert isinstance(exchange, Shared)
            assert self.call is not None
            assert not isinstance(self.call, DirectCall)
            exchange.traffic = self.call.traffic  # chunks of which the call may have packed
            self._binding = made
        return self._binding


def factors_key(alpha: Any, beta: Any) -> Key | None:
    """What uses with equal factors have in common; None where these are of other types than most."""
    if alpha is ONE and beta is ZERO:
        return PLAIN
    return (alpha, beta) if type(alpha) in NUMBERS and type(beta) in NUMBERS else None


def remembered_of(plan: Redistribution, mine: Operands) -> Remembered | None:
    """What is known of earlier uses with the factors of these arrays."""
    key = _key_of(mine)
    return None if key is None else plan._remembered.get(key)


def _key_of(mine: Operands) -> Key | None:
    """As `factors_key`; None also where a batch has several."""
    alpha, beta, _ = mine.factors[0]
    alike = len(mine.factors) == 1 or all(other[:2] == (alpha, beta) for other in mine.factors)
    return (alpha, beta) if alike else None


def call_with(plan: Redistribution, a: Any, out: Any, alpha: Any, beta: Any) -> Call | DirectCall | None:
    """The compiled call with these factors, if there can be one."""
    key = factors_key(alpha, beta)
    if key is None:
        return None
    remembered = plan._remembered.get(key)
    return first_call(plan, a, out, alpha, beta) if remembered is None else remembered.call


def first_call(plan: Redistribution, a: Any, out: Any, alpha: Any = ONE, beta: Any = ZERO) -> Call | DirectCall | None:
    """The compiled call for arrays like these, where there is none yet; what is wrong is found again by a transfer."""
    group = plan._group
    first = not plan._asks and plan._stages[0].exchange is Shared and factors_key(alpha, beta) not in plan._remembered
    if group is None or group.broken is not None or not first or plan._tiled:
        return None
    try:
        mine = plan._operands(a, out, alpha, beta)
        if mine.order is None:
            return None
        traffic = plan._stages[0].straight(mine.forms, mine.order, mine.item) if mine.item else None
        binding = None if traffic is not None else plan._binding(mine, mine.forms, mine.order, mine.item)
        return _remember_as(plan, group, mine, binding, mine.item, traffic=traffic)
    except Exception:
        return None


def remember(plan: Redistribution, group: Group, mine: Operands, binding: Binding, outcome: Outcome) -> None:
    """Serve the next arrays of this kind without checking each; on one node in a compiled call."""
    if plan._intermediate or plan._tiled:
        return
    remembered = remembered_of(plan, mine)
    if remembered is not None and isinstance(remembered.call, DirectCall):
        remembered.call.expected = outcome
    if remembered is not None and remembered.operands.forms is mine.forms and remembered.binding(plan) is binding:
        return
    _remember_as(plan, group, mine, binding, int(outcome.item), outcome)


def _remember_as(
    plan: Redistribution,
    group: Group,
    mine: Operands,
    binding: Binding | None,
    item: int,
    outcome: Outcome | None = None,
    traffic: Traffic | None = None,
) -> Call | DirectCall | None:
    """Remember arrays of this kind, by what moves them: `traffic` alone, or `binding`."""
    key = _key_of(mine)
    _forget(plan, key)
    if key is None or True in mine.forms.stays:
        return None
    makes = [
        None if target is None or target is out else (pair.desc_b.empty if pair.part is None else pair.desc_b.zeros)
        for pair, out, target in zip(plan._pairs, mine.outs, mine.targets, strict=True)
    ]
    arrays = [array if isinstance(array, np.ndarray) else None for array in mine.given]
    try:
        kinds = Kinds(arrays, mine.targets, makes)
    except (BufferError, ValueError):  # dtypes that buffers cannot describe are checked each time
        return None
    call: Call | DirectCall | None = None
    # A plan has its call; the call does not have its plan, so that both end with the plan's last reference.
    its_plan = weakref.ref(plan)
    look_around = functools.partial(_look_around, group, its_plan)
    dtype, note = plan._dtype_in_vote(mine)
    said = {"call": plan._call_number(mine), "dtype": dtype, "note": note, "item": mine.item, "order": mine.order or 0}
    order = mine.order or 0 if binding is None else binding.order
    exchange = None if binding is None else binding.exchanges[0]
    if exchange is not None and item:
        traffic = exchange.compiled()
    if traffic is not None:
        ballot = Ballot(**said, packed=order)
        call = Call(traffic, kinds, ballot, item, look_around, group.tickets, plan._listed)
    elif exchange is not None and outcome is not None and item and not plan._asks and DirectCall.suits(exchange):

        def turned() -> Exchange:
            alive, other = its_plan(), BY_ROWS + BY_COLUMNS - order
            assert alive is not None
            return alive._binding(kept, kept.forms, other, item).exchanges[0]

        call = DirectCall(group, exchange, kinds, Ballot(**said), outcome, look_around, turned)
    kept = Operands([], [], [], *mine[3:])
    while len(plan._remembered) >= BINDINGS_KEPT:
        _forget(plan, next(iter(plan._remembered)))
    plan._remembered[key] = Remembered(kinds, kept, order, call, binding)
    if key == PLAIN:
        plan._call = call
    return call


def _look_around(group: Group, plan: weakref.ref[Redistribution]) -> None:
    group.look_around(plan())


def _forget(plan: Redistribution, key: Key | None) -> None:
    plan._remembered.pop(key, None)
    if key == PLAIN:
        plan._call = None
