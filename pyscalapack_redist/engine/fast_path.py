"""The fast path: the next use with arrays of the same kind as the last ones', in one compiled call or a `SmallCall`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._kernels.call import Call, Kinds
from .._kernels.ring import Ballot
from ..comm.group import Group
from ..comm.vote import MPIVote, Outcome
from ..exchanges import Exchange
from ..exchanges.nonblocking import Nonblocking
from ..exchanges.shared import Shared
from .binding import BY_COLUMNS, BY_ROWS, Binding, Operands
from .small import SmallCall

if TYPE_CHECKING:
    from .plan import Redistribution

__all__ = ["ONE", "ZERO", "Remembered", "first_call", "remember"]

# Compared by identity: small integers are single objects, and anything else is looked at by `Factors`.
ONE: Any = 1
ZERO: Any = 0


class Remembered(NamedTuple):
    """What the next use with arrays like the last ones' goes by: their kind, and what moves them."""

    kinds: Kinds
    operands: Operands
    binding: Binding


def first_call(plan: Redistribution, a: Any, out: Any) -> Call | SmallCall | None:
    """The compiled call for arrays like these, where there is none yet; what is wrong is found again by a transfer."""
    group = plan._group
    first = plan._remembered is None and not plan._asks and plan._stages[0].exchange is Shared
    if group is None or group.broken is not None or not first or plan._tiled:
        return None
    try:
        mine = plan._operands(a, out, ONE, ZERO)
        if mine.order is None:
            return None
        binding = plan._binding(mine, mine.forms, mine.order, mine.item)
        return _remember_as(plan, group, mine, binding, mine.item)
    except Exception:
        return None


def remember(
    plan: Redistribution, group: Group, mine: Operands, binding: Binding, vote: object, outcome: Outcome
) -> None:
    """Serve the next arrays of this kind without checking each; on one node in a compiled call."""
    if not mine.plain or plan._intermediate or plan._tiled:
        return
    remembered = plan._remembered
    if isinstance(plan._call, SmallCall) and isinstance(vote, MPIVote):
        plan._call.expected = vote.largest.tobytes()
    if remembered is not None and remembered.binding is binding and remembered.operands.forms is mine.forms:
        return
    _remember_as(plan, group, mine, binding, int(outcome.item), vote)


def _remember_as(
    plan: Redistribution, group: Group, mine: Operands, binding: Binding, item: int, vote: object = None
) -> Call | SmallCall | None:
    plan._remembered = plan._call = None
    if any(mine.forms.stays):
        return None
    makes = [
        (pair.desc_b.empty if pair.part is None else pair.desc_b.zeros)
        if target is not None and not isinstance(out, np.ndarray)
        else None
        for pair, out, target in zip(plan._pairs, mine.outs, mine.targets, strict=True)
    ]
    arrays = [array if isinstance(array, np.ndarray) else None for array in mine.given]
    try:
        kinds = Kinds(arrays, mine.targets, makes)
    except (BufferError, ValueError):  # dtypes that buffers cannot describe are checked each time
        return None
    call: Call | SmallCall | None = None
    exchange = binding.exchanges[0]
    look_around = functools.partial(group.look_around, plan)
    if isinstance(vote, MPIVote) and isinstance(exchange, Nonblocking) and exchange.goes_ahead and not plan._asks:

        def turned() -> Exchange:
            other = BY_ROWS + BY_COLUMNS - binding.order
            return plan._binding(kept, kept.forms, other, item).exchanges[0]

        call = SmallCall(group, exchange, kinds, vote, look_around, turned) if item else None
    traffic = binding.exchanges[0].compiled() if item else None
    if traffic is not None:
        dtype, note = plan._dtype_in_vote(mine)
        ballot = Ballot(
            call=plan._identity,
            dtype=dtype,
            note=note,
            item=mine.item,
            order=mine.order or 0,
            packed=binding.order,
        )
        call = Call(traffic, kinds, ballot, item, look_around, group.tickets, plan._listed)
    kept = mine._replace(given=[], outs=[], targets=[])
    plan._remembered, plan._call = Remembered(kinds, kept, binding), call
    return call
