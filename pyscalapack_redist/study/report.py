"""The report of a plan's messages and cost.

It is of this rank; of all ranks, gathered from them; or of all ranks, counted on paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._kernels.bundle import dense_strides
from ..comm.agreement import agreement
from ..comm.guard import holding_interrupts
from ..engine.choose import predicted_seconds
from ..engine.local_arrays import BY_COLUMNS
from ..engine.operands import check_list
from ..engine.panels import PANELS
from ..engine.plan import Plan
from ..engine.stages import ArrayKind, Stage
from ..errors import CollectiveError
from ..exchanges import Exchange
from ..reports import ONE_SUMMAND, Report
from ..schedules.layout_orders import fewest_steps
from .traffic import count_traffic

Dtypes = DTypeLike | Sequence[DTypeLike] | None
Ints = NDArray[np.int64]


def leg_report(plan: Plan, stage: Stage, dtype: DTypeLike | None) -> Report:
    """Report one stage of a plan for this rank."""
    return _report(plan, [stage], _items(_dtypes(plan, dtype)))


def report_of(plan: Plan, dtype: Dtypes, last_seconds: Sequence[float | None] = ()) -> Report:
    """Report a plan for this rank, or on paper for all ranks.

    `last_seconds` are of its last use, and after these of the last uses of a batch's plans.
    """
    dtypes = _dtypes(plan, dtype)
    items, direct, between = _items(dtypes), None, 0
    if plan.is_batch:
        parts = enumerate(zip(plan.parts, dtypes, strict=True), start=1)
        legs = [
            replace(report_of(part, kind, last_seconds[k : k + 1]), name=f"plan {k - 1}") for k, (part, kind) in parts
        ]
    elif plan.direct_stage is None:
        legs = _report_moves(plan, plan.legs[0], items)
    else:
        leg, without = ("summand", ONE_SUMMAND) if plan.is_sum else ("leg", "direct")
        legs = [
            _report(plan, [stage], items, name=f"{leg} {k}", legs=tuple(_report_moves(plan, stage, items)))
            for k, stage in enumerate(plan.legs)
        ]
        direct = _report(plan, [plan.direct_stage], items, name=without)
        between = sum(_local_size(plan, desc) for desc in plan.layouts_between.values()) * items[0]
    return _report(
        plan,
        plan.legs,
        items,
        legs=tuple(legs),
        direct=direct,
        between_bytes=between,
        peak_bytes=_peak_bytes(plan, items),
        last_seconds=last_seconds[0] if last_seconds else None,
    )


@holding_interrupts
def report_of_all(plan: Plan, dtype: Dtypes, last_seconds: Sequence[float | None] = ()) -> Report | None:
    """Report a plan for all ranks; None on a rank that takes no part in it. Collective over the plan's ranks."""
    group = plan.group
    if group is None:
        return None

    def report() -> Report:
        common_dtypes: list[Any] = []
        for k, dtypes in enumerate(zip(*dtypes_by_rank, strict=True)):
            first_rank: dict[np.dtype[Any], int] = {}
            for rank, kind in enumerate(dtypes):
                if kind is not None:
                    first_rank.setdefault(kind, rank)
            if len(first_rank) > 1:
                differences = ", ".join(f"{group.names[rank]} {kind}" for kind, rank in first_rank.items())
                raise CollectiveError(f"ranks ask for a report of plan {k} in different dtypes: {differences}")
            common_dtypes.append(next(iter(first_rank), None))
        return report_of(plan, common_dtypes if plan.is_batch else common_dtypes[0], last_seconds)

    with agreement(group, "report", combine=list) as agreed:
        agreed.give(_dtypes(plan, dtype))
    dtypes_by_rank = agreed.result
    with agreement(group, "the parts of a report", combine=list) as agreed:
        agreed.give(report())
    return _combine_reports(agreed.result)


COLUMNS = ("sends", "receives", "bytes_sent", "bytes_received", "bytes_copied")


def _combine_reports(reports: Sequence[Report]) -> Report:
    """Combine the reports of all ranks; some take no part in a plan of a batch."""
    reports = [report for report in reports if report.predicted_seconds is not None]
    first = reports[0]
    columns = [np.array([getattr(report, name) for report in reports]) for name in COLUMNS]

    def most(name: str) -> Any:
        return max((value for report in reports if (value := getattr(report, name)) is not None), default=None)

    return replace(
        first,
        ranks=len(reports),
        steps=first.steps_of_all,
        legs=tuple(_combine_reports(legs) for legs in zip(*(report.legs for report in reports), strict=True)),
        direct=None
        if first.direct is None
        else _combine_reports([report.direct for report in reports if report.direct]),
        **{name: most(name) for name in ("peak_bytes", "extra_bytes", "between_bytes", "predicted_seconds", "last_seconds")},
        **_figures(columns),
    )


def _figures(columns: Iterable[Ints], item: int = 1) -> dict[str, Any]:
    """Combine the figures of ranks: each of `COLUMNS` has an entry for each rank, in elements of `item` bytes."""
    sends, receives, sent, received, copied = columns
    loads = np.maximum(sent, received)
    numbers = [
        int(sends.sum()),
        int(receives.sum()),
        *(item * sum(sizes.tolist()) for sizes in (sent, received, copied)),
    ]
    return {
        **dict(zip(COLUMNS, numbers, strict=True)),
        "most_messages": int(np.maximum(sends, receives).max(initial=0)),
        "most_sent": item * int(sent.max(initial=0)),
        "most_received": item * int(received.max(initial=0)),
        "imbalance": float(loads.max() / loads.mean()) if loads.any() else 1.0,
    }


def _dtypes(plan: Plan, dtype: Dtypes) -> list[np.dtype[Any] | None]:
    """Return the dtype of each pair: the user's, else the plan's."""
    n = len(plan.pairs)
    kinds = check_list("dtypes", dtype, n) if plan.is_batch and isinstance(dtype, list) else [dtype] * n
    return [pair.dtype if kind is None else np.dtype(kind) for kind, pair in zip(kinds, plan.pairs, strict=True)]


def _items(dtypes: Sequence[np.dtype[Any] | None]) -> list[int]:
    return [8 if dtype is None else dtype.itemsize for dtype in dtypes]


def _report_moves(plan: Plan, stage: Stage, items: Sequence[int]) -> list[Report]:
    """Report a trapezoid and its mirror image, each as if it went alone; nothing for a single move."""
    if len(stage.moves) == 1:
        return []
    alone = [Stage([move], stage.exchange, stage.options, plan.group) for move in stage.moves]
    names = ("the trapezoid", "its mirror image")
    return [_report(plan, [part], items, name=name) for part, name in zip(alone, names, strict=True)]


def _report(plan: Plan, stages: Sequence[Stage], items: Sequence[int], **more: Any) -> Report:
    """Report stages that go one after another."""
    moves = [stage.moves[0] for stage in stages]
    alone = max(len(stage.moves) for stage in stages) == 1
    names = [move.order.name for move in moves] if alone or not plan.is_batch else ["by distance"]
    steps = _sum([move.order.number_of_steps for move in moves]) if alone else None
    whole = steps is not None and all(move.part is None for move in moves)
    report = Report(
        schedule=", ".join(dict.fromkeys(names)),
        exchange=plan.exchange_name,
        buffers=stages[0].options.buffers,
        why=plan.reason,
        steps=steps,
        steps_of_all=steps,
        fewest_steps=_sum([fewest_steps(move.op_layout, move.desc_b) for move in moves]) if whole else None,
        memory_limit=stages[0].options.memory_limit,
        links=None if plan.group is None else plan.group.links,
        **more,
    )
    return (
        _fill_on_paper(report, plan, stages, items[0])
        if plan.paper_exchange is not None
        else _fill_on_this_rank(report, plan, stages, items)
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    """Sum numbers; None if any is None."""
    counts = [number for number in numbers if number is not None]
    return sum(counts) if len(counts) == len(numbers) else None


def _fill_on_paper(report: Report, plan: Plan, stages: Sequence[Stage], item: int) -> Report:
    ranks, *columns = count_traffic(plan, stages)
    return replace(report, ranks=len(ranks), **_figures(columns, item))


def _fill_on_this_rank(report: Report, plan: Plan, stages: Sequence[Stage], items: Sequence[int]) -> Report:
    """Fill in a report for this rank. Moves that go together have one message for each peer."""
    group, keys, columns, seconds = plan.group, [], [], []
    for stage in stages:
        sides = [[(m, items[move.pair]) for move in stage.moves for m in move.messages[k]] for k in range(3)]
        several = len(stage.moves) > 1
        numbers = [len({m.peer for m, _ in side} if several else side) for side in sides[:2]]
        sizes = [sum(m.size * item for m, item in side) for side in sides]
        columns.append([*numbers, *sizes])
        keys.append(None if several else len({m.key for side in sides[:2] for m, _ in side}))
    one_by_one = plan.stages if plan.is_sum and stages is plan.legs else stages
    exchanges = [_exchange(plan, stage, items) for stage in one_by_one]
    for stage, exchange in zip(one_by_one, exchanges, strict=True):
        moved = sum(m.size * items[move.pair] for move in stage.moves for side in move.messages for m in side)
        if group is not None:
            node_ranks = group.node.size if group.node is not None else 1
            seconds.append(predicted_seconds(moved, exchange.between_nodes, group.links, len(group.voters), node_ranks))
    return replace(
        report,
        steps=_sum(keys),
        extra_bytes=max(exchange.staging_bytes for exchange in exchanges),
        predicted_seconds=sum(seconds) if seconds else None,
        **_figures(np.sum(columns, axis=0)[:, np.newaxis]),
    )


def _exchange(plan: Plan, stage: Stage, items: Sequence[int]) -> Exchange:
    """Return the exchange for arrays in Fortran order."""
    arrays = [(desc, item) for pair, item in zip(plan.pairs, items, strict=True) for desc in pair[:2]]
    arrays += [(plan.layouts_between[k], items[0]) for k in sorted(plan.layouts_between)]
    strides = [dense_strides(s, range(len(s)), item) for desc, item in arrays for s in desc.local_shapes]
    blends: tuple[dict[Any, Any], ...] = ({},) * len(items)
    return stage.make_exchange(ArrayKind(tuple(strides), tuple(items), blends, (False,) * len(items)), BY_COLUMNS, max(items))


def _peak_bytes(plan: Plan, items: Sequence[int]) -> int:
    """Bytes of all A and B of a use on this rank, or on paper at most on any rank."""
    nbytes = 0
    for pair, item in zip(plan.pairs, items, strict=True):
        a, b = (_local_size(plan, desc) * item for desc in pair[:2])
        nbytes += max(a, b) * (PANELS + 1) // PANELS if plan.has_panels else a + b
    return nbytes


def _local_size(plan: Plan, desc: Any) -> int:
    """Elements of a layout in between on this rank, or on paper the most of any rank."""
    if plan.paper_exchange is None:
        return sum(map(math.prod, desc.local_shapes))
    return math.prod(max(map(axis.local_size, range(axis.processes))) for axis in desc.distributions)
