"""A plan's calls and transfers as `tracing` records them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tracing
from ..layout.distributed import Distributed

if TYPE_CHECKING:
    from .plan import Redistribution

__all__ = ["begun", "traced"]


def traced(plan: Redistribution, a: Any, out: Any, alpha: Any, beta: Any) -> Any:
    """A plan's call, recorded. Collective, as the call."""
    with tracing.moving(plan.desc_a, plan.desc_b):
        result = plan(a, out, alpha=alpha, beta=beta)
        tracing.moved(*_bytes(plan, a, result))
    return result


def begun(plan: Redistribution, a: Any, out: Any) -> Any:
    """The record of a transfer that is about to be started; None where nothing is traced. Not collective."""
    measured = tracing.begun("redistribute", plan.desc_a, plan.desc_b)
    if measured is not None:
        with contextlib.suppress(Exception):  # what is wrong with the arrays all ranks are told by the transfer
            measured.bytes_sent, measured.bytes_copied = _bytes(plan, a, out)
    return measured


def _bytes(plan: Redistribution, a: Any, b: Any) -> tuple[int, int]:
    """Bytes of elements that a call sends to others, and copies, on this rank."""
    before, after = (arrays if plan._listed and arrays is not None else [arrays] * len(plan) for arrays in (a, b))
    sent = copied = 0
    for move in plan._moves:
        arrays = [some[move.pair] for some in (before, after)]
        item = next(filter(None, map(_item, arrays)), 0) or np.dtype(plan._pairs[move.pair].dtype).itemsize
        sent += sum(message.size for message in move.messages[0]) * item
        copied += sum(message.size for message in move.messages[2]) * item
    return sent, copied


def _item(array: Any) -> int:
    """Bytes of an element; 0 where this rank cannot tell."""
    if isinstance(array, list | tuple):  # of tiles
        return next(filter(None, map(_item, array)), 0)
    local = array.local if isinstance(array, Distributed) else array
    return local.itemsize if isinstance(local, np.ndarray) else 0
