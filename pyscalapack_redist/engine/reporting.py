"""What a plan says of itself: its report, by what the plan is, and the legs of one with `via=`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from .._kernels.bundle import dense_strides
from ..comm.group import Group
from ..errors import CollectiveError
from ..exchanges import Message
from ..schedules.orders import Order
from .binding import BY_COLUMNS, Binding, listed
from .layouts import Layout, local_shapes
from .plan import Plan
from .report import BatchReport, ChainReport, FilledReport, Report
from .stages import Forms, Move, Stage
from .totals import Totals

__all__ = ["Leg", "leg_report", "messages_of", "report_of", "totals_of", "totals_on_paper"]


class Leg(NamedTuple):
    """A stage of a plan with `via=`."""

    plan: Plan
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
        item = np.dtype(dtype or self.plan.pairs[0].dtype or np.float64).itemsize
        return leg_report(self.plan, self.stage, self.move, item)


def messages_of(moves: Sequence[Move]) -> dict[str, tuple[Message, ...]]:
    """This rank's messages of some moves: "send", "receive" and "copy". Not collective."""
    names = enumerate(("send", "receive", "copy"))
    return {name: tuple(message for move in moves for message in move.messages[k]) for k, name in names}


def report_of(plan: Plan, dtype: DTypeLike | Sequence[DTypeLike] | None) -> Any:
    """The report of a plan, by what it is. Not collective."""
    if plan.listed:
        given = listed("dtypes", dtype, len(plan.pairs)) if isinstance(dtype, list) else [dtype] * len(plan.pairs)
        each: list[np.dtype[Any]] = [
            np.dtype(d or member.pairs[0].dtype or np.float64) for d, member in zip(given, plan.parts, strict=True)
        ]
        extra = _bound_for(plan, [kind.itemsize for kind in each])
        return BatchReport.of(
            [report_of(member, d) for d, member in zip(each, plan.parts, strict=True)],
            (_peers(plan, 0), _peers(plan, 1)),
            plan.stages[0].exchange.name,
            plan.why,
            max((exchange.staging_bytes for exchange in extra.exchanges), default=0),
            plan.memory_limit,
        )
    item = np.dtype(dtype or plan.pairs[0].dtype or np.float64).itemsize  # type: ignore[arg-type]
    reports = [_chain_report(plan, chain, item) for chain in _chains(plan)]
    return FilledReport(tuple(reports)) if plan.pairs[0].fill is not None else reports[0]


def totals_of(plan: Plan, dtype: DTypeLike | Sequence[DTypeLike] | None) -> Any:
    """The report of a plan for all ranks; None on a rank that has no part in it. Collective over the plan's ranks."""
    group = plan.group
    if group is None:
        return None
    pairs = plan.pairs

    def known() -> list[np.dtype[Any] | None]:
        given = listed("dtypes", dtype, len(pairs)) if isinstance(dtype, list) else [dtype] * len(pairs)
        return [pair.dtype if d is None else np.dtype(d) for d, pair in zip(given, pairs, strict=True)]

    def reports() -> Any:
        kinds: list[Any] = []
        for k, said in enumerate(zip(*told, strict=True)):
            differ = {kind: rank for rank, kind in reversed(list(enumerate(said))) if kind is not None}
            if len(differ) > 1:
                words = ", ".join(
                    f"{group.names[rank]} {kind}" for kind, rank in sorted(differ.items(), key=lambda item: item[1])
                )
                raise CollectiveError(f"ranks ask for a report of plan {k} in different dtypes: {words}")
            kinds.append(next(iter(differ), None))
        return report_of(plan, kinds if plan.listed else kinds[0])

    told = _from_all(group, known)
    return _together(_from_all(group, reports))


def _from_all(group: Group, make: Callable[[], Any]) -> list[Any]:
    """What all ranks make, by rank; an error of one is raised on all. Collective over the group."""
    made, error = None, None
    try:
        made = make()
    except Exception as caught:
        error = caught
    group.raise_on_all(error)
    told: list[Any] = group.combine(made)
    return told


def _together(reports: Sequence[Any]) -> Any:
    """One report of those of all ranks, which are of one kind."""
    first = reports[0]
    if isinstance(first, ChainReport):
        legs = tuple(_together(legs) for legs in zip(*(report.legs for report in reports), strict=True))
        between = max(report.between_bytes for report in reports)
        return ChainReport(legs, _together([report.direct for report in reports]), between)
    if isinstance(first, FilledReport):
        return FilledReport(
            tuple(_together(moves) for moves in zip(*(report.moves for report in reports), strict=True))
        )
    return Totals.gathered(reports)


def totals_on_paper(plan: Plan, dtype: DTypeLike | None) -> Any:
    """The report of a plan on paper, of all ranks. Not collective."""
    item = np.dtype(dtype or plan.pairs[0].dtype or np.float64).itemsize

    def totals(move: Move) -> Totals:
        return Totals.on_paper(move, plan.how, plan.why, item)

    reports: list[Any] = []
    for chain in _chains(plan):
        legs = [totals(move) for _, move in chain]
        if plan.direct is None:
            reports.append(legs[0])
            continue
        most = [math.prod(max(map(axis.local_size, range(axis.processes))) for axis in move.desc_b.distributions)
                for _, move in chain[:-1]]  # fmt: skip
        reports.append(ChainReport(tuple(legs), totals(plan.direct.moves[0]), sum(most) * item))
    return FilledReport(tuple(reports)) if plan.pairs[0].fill is not None else reports[0]


def _chains(plan: Plan) -> list[list[tuple[int, Move]]]:
    """The moves that follow one another, with the numbers of their stages: of the part, and of its mirror image."""
    chains: dict[tuple[int, int], list[tuple[int, Move]]] = {}
    for number, stage in enumerate(plan.stages):
        for k, move in enumerate(reversed(stage.moves)):
            chains.setdefault((move.pair, -k), []).append((number, move))
    return [chain for _, chain in sorted(chains.items())]


def _peers(plan: Plan, side: int) -> int:
    return len({m.peer for move in plan.moves for m in move.messages[side]})


def _chain_report(plan: Plan, chain: Sequence[tuple[int, Move]], item: int) -> Report | ChainReport:
    legs = [leg_report(plan, plan.stages[number], move, item) for number, move in chain]
    if plan.direct is None:
        return legs[0]
    held = sum(math.prod(shape) for _, move in chain[:-1] for shape in local_shapes(move.desc_b)) * item
    return ChainReport(tuple(legs), leg_report(plan, plan.direct, plan.direct.moves[0], item), held)


def leg_report(plan: Plan, stage: Stage, move: Move, item: int) -> Report:
    alone = Stage([move._replace(pair=0, source=0, target=1)], stage.exchange, stage.options, plan.group)
    group = plan.group
    exchange = alone.bound(_contiguous(alone.moves, [(move.desc_a, move.desc_b)], [item]), BY_COLUMNS, item)
    return Report.of(move, exchange, plan.why, item, group, plan.seconds)


def _bound_for(plan: Plan, items: Sequence[int]) -> Binding:
    """For arrays in Fortran order."""
    forms = _contiguous(plan.moves, [(pair.desc_a, pair.desc_b) for pair in plan.pairs], items)
    exchanges = tuple(stage.bound(forms, BY_COLUMNS, max(items)) for stage in plan.stages)
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
