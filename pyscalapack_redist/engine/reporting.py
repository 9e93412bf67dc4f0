"""What a plan says of itself: its report, by what the plan is, and the legs of one with `via=`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ..exchanges import Message
from ..exchanges.message import dense_strides
from ..schedules.orders import Order
from .binding import BY_COLUMNS, Binding, listed
from .layouts import Layout, local_shapes
from .report import BatchReport, ChainReport, FilledReport, Report
from .stages import Forms, Move, Stage

if TYPE_CHECKING:
    from .plan import Redistribution

__all__ = ["Leg", "leg_report", "messages_of", "report_of"]


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
        return messages_of([self.move])

    @property
    def desc_a(self) -> Any:
        """Layout before."""
        return self.move.desc_a

    @property
    def desc_b(self) -> Any:
        """Layout after."""
        return self.move.desc_b

    def report(self, dtype: DTypeLike | None = None) -> Report:
        """What this rank moves in it and what it costs. Not collective."""
        item = np.dtype(dtype or self.plan._pairs[0].dtype or np.float64).itemsize
        return leg_report(self.plan, self.stage, self.move, item)


def messages_of(moves: Sequence[Move]) -> dict[str, tuple[Message, ...]]:
    """This rank's messages of some moves: "send", "receive" and "copy". Not collective."""
    names = enumerate(("send", "receive", "copy"))
    return {name: tuple(message for move in moves for message in move.messages[k]) for k, name in names}


def report_of(plan: Redistribution, dtype: DTypeLike | Sequence[DTypeLike] | None) -> Any:
    """The report of a plan, by what it is. Not collective."""
    if plan._listed:
        given = listed("dtypes", dtype, len(plan)) if isinstance(dtype, list) else [dtype] * len(plan)
        each: list[np.dtype[Any]] = [
            np.dtype(d or member._pairs[0].dtype or np.float64) for d, member in zip(given, plan.plans, strict=True)
        ]
        extra = _bound_for(plan, [kind.itemsize for kind in each])
        return BatchReport.of(
            [member.report(d) for d, member in zip(each, plan.plans, strict=True)],
            (_peers(plan, 0), _peers(plan, 1)),
            plan._stages[0].exchange.name,
            plan._why,
            max((exchange.staging_bytes for exchange in extra.exchanges), default=0),
            plan._memory_limit,
        )
    item = np.dtype(dtype or plan._pairs[0].dtype or np.float64).itemsize  # type: ignore[arg-type]
    chains: dict[tuple[int, int], list[tuple[int, Move]]] = {}
    for number, stage in enumerate(plan._stages):
        for k, move in enumerate(reversed(stage.moves)):
            chains.setdefault((move.pair, -k), []).append((number, move))
    reports = [_chain_report(plan, chain, item) for _, chain in sorted(chains.items())]
    return FilledReport(tuple(reports)) if plan._pairs[0].fill is not None else reports[0]


def _peers(plan: Redistribution, side: int) -> int:
    return len({m.peer for move in plan._moves for m in move.messages[side]})


def _chain_report(plan: Redistribution, chain: Sequence[tuple[int, Move]], item: int) -> Report | ChainReport:
    legs = [leg_report(plan, plan._stages[number], move, item) for number, move in chain]
    if plan._direct is None:
        return legs[0]
    held = sum(math.prod(shape) for _, move in chain[:-1] for shape in local_shapes(move.desc_b)) * item
    direct = plan._direct()
    return ChainReport(tuple(legs), leg_report(plan, direct, direct.moves[0], item), held)


def leg_report(plan: Redistribution, stage: Stage, move: Move, item: int) -> Report:
    alone = Stage([move._replace(pair=0, source=0, target=1)], stage.exchange, stage.options, plan._group)
    group = plan._group
    exchange = alone.bound(_contiguous(alone.moves, [(move.desc_a, move.desc_b)], [item]), BY_COLUMNS, item)
    return Report.of(move, exchange, plan._why, item, group, plan._seconds)


def _bound_for(plan: Redistribution, items: Sequence[int]) -> Binding:
    """For arrays in Fortran order."""
    forms = _contiguous(plan._moves, [(pair.desc_a, pair.desc_b) for pair in plan._pairs], items)
    exchanges = tuple(stage.bound(forms, BY_COLUMNS, max(items)) for stage in plan._stages)
    return Binding(exchanges, BY_COLUMNS, max(items), 0)


def _contiguous(moves: Sequence[Move], layouts: Sequence[tuple[Layout, Layout]], items: Sequence[int]) -> Forms:
    """The kind of arrays in Fortran order."""
    strides = []
    for (a, b), item in zip(layouts, items, strict=True):
        for shape in (*local_shapes(a), *local_shapes(b)):
            strides.append(dense_strides(shape, range(len(shape)), item))
    blends: list[dict[tuple[str, bool], Any]] = [{} for _ in items]
    for move in moves:
        blends[move.pair][move.op, move.last] = None
    return Forms(tuple(strides), tuple(items), tuple(blends), (False,) * len(items))
