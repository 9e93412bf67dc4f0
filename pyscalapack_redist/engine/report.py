"""Figures of a plan: the report of its messages and cost, and the profile of a call.

A report is of this rank; of all ranks, gathered from them; or of all ranks, counted on paper.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._kernels.bundle import dense_strides
from ..comm.guard import holding_interrupts
from ..comm.links import Links
from ..comm.meeting import meet
from ..errors import CollectiveError
from ..exchanges import Exchange
from ..schedules.layout_orders import fewest_steps
from .choose import predicted_seconds
from .local_arrays import BY_COLUMNS
from .operands import check_list
from .plan import Plan
from .stages import ArrayKind, Stage

Dtypes = DTypeLike | Sequence[DTypeLike] | None
Ints = NDArray[np.int64]


def count_text(number: int, noun: str) -> str:
    """Format a count: "1 message", "2 messages"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class _FigureTable(ABC):
    """A table of names and values, for a terminal and for a notebook."""

    _width: ClassVar[int] = 20  # of the names

    @abstractmethod
    def _rows(self) -> list[tuple[str, str]]:
        """Names and values."""

    def __str__(self) -> str:
        return "\n".join(f"{name:{self._width}} {value}" for name, value in self._rows())

    def _repr_html_(self) -> str:
        from ..drawing.svg import table

        return table(type(self).__name__, self._rows())


PARTS = ("planned", "agreed", "packed", "copied", "unpacked", "waited", "other")


@dataclass(frozen=True)
class Profile(_FigureTable):
    """Seconds of each part of one call on one rank.

    Attributes
    ----------
    seconds : dict
        "planned": making the plan before the call, the sum of `planning`; "agreed": the vote; "packed", "copied" and
        "unpacked": moving bytes in memory; "waited": waiting for other ranks and for MPI, and the bytes that MPI moves
        itself; "other": checks, and making `out`.
    planning : dict
        The parts of "planned", once for all calls of the plan. "processes": finding the ranks of a node and, for the first
        plan between nodes, measuring the links, until all ranks are there; "schedule": searching for the steps of an order
        without a formula; "messages": making this rank's messages, until all ranks have theirs. For a batch, without its
        plans. For a plan used before, the figures of its first time.
    """

    seconds: dict[str, float]
    planning: dict[str, float] = field(default_factory=dict)
    _width = 10

    @property
    def total(self) -> float:
        """Seconds of the call, without the planning."""
        return sum(self.seconds.values()) - self.seconds["planned"]

    def _rows(self) -> list[tuple[str, str]]:
        rows = [(part, f"{1e3 * seconds:12.3f} ms") for part, seconds in self.seconds.items()]
        parts = ", ".join(f"{part} {1e3 * seconds:.3f}" for part, seconds in self.planning.items())
        if parts:
            rows[0] = ("planned", f"{rows[0][1]} ({parts})")
        return [*rows, ("the call", f"{1e3 * self.total:12.3f} ms")]


@dataclass(frozen=True)
class Report(_FigureTable):
    """Messages and cost of a plan, for one rank or for all together. Local copies are not counted as messages.

    Attributes
    ----------
    name : str
        Name of a leg; "" for a plan.
    schedule, exchange, buffers, why : str
        The choices and their reason.
    ranks : int or None
        Number of ranks in the report; None for this rank alone.
    sends, receives : int
        Messages to and from other ranks; one for each peer if several moves go together.
    bytes_sent, bytes_received, bytes_copied : int
        Bytes to other ranks, from other ranks, and from a rank to itself.
    most_messages : int
        Messages that one rank sends or receives at most: no one-port schedule has fewer steps.
    most_sent, most_received : int
        Bytes that one rank sends, or receives, at most.
    imbalance : float
        Bytes that the busiest rank sends or receives, whichever is more, over the mean of all ranks that take part; 1 if
        balanced, and if nothing moves.
    steps : int or None
        Steps of the schedule in which this rank has a message; for all ranks, `steps_of_all`. None if several moves go
        together.
    steps_of_all : int or None
        All steps of the schedule, also those without a message of this rank or of any; None if the order has no steps.
    fewest_steps : int or None
        The most messages of any rank: the fewest steps of a one-port schedule. None if the order has no steps, if only a
        trapezoid moves, and if there are too many messages to count quickly.
    extra_bytes : int or None
        Staging memory of one run, the largest of all ranks; None on paper.
    memory_limit : int
        Limit of `extra_bytes`.
    links : Links or None
        Latency and bandwidth between nodes; None on one node.
    predicted_seconds : float or None
        Predicted time of a run, the largest of all ranks; None on paper, and on a rank that takes no part.
    last_seconds : float or None
        Time of the last run, the largest of all ranks; None before the first run, and for a leg. Of the runs through shared
        memory alone, only the first with each kind of arrays is timed.
    between_bytes : int
        With `via=`, bytes of the local arrays in between, which add to `extra_bytes`; the largest of all ranks.
    legs : tuple of Report
        With `via=`, "leg 0", "leg 1" and so on; with a mirror image, "the trapezoid" and "its mirror image", each as if it
        went alone; for a batch, "plan 0", "plan 1" and so on, each as if it were called alone.
    direct : Report or None
        With `via=`, a report of the plan without it; with a mirror image as well, of the trapezoid alone.
    """

    schedule: str
    exchange: str
    buffers: str
    why: str
    steps: int | None
    steps_of_all: int | None
    fewest_steps: int | None
    memory_limit: int
    links: Links | None
    name: str = ""
    ranks: int | None = None
    sends: int = 0
    receives: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    bytes_copied: int = 0
    most_messages: int = 0
    most_sent: int = 0
    most_received: int = 0
    imbalance: float = 1.0
    extra_bytes: int | None = None
    predicted_seconds: float | None = None
    last_seconds: float | None = None
    between_bytes: int = 0
    legs: tuple[Report, ...] = ()
    direct: Report | None = None

    @property
    def sends_apart(self) -> int:
        """Messages to other ranks if the legs were called one by one."""
        return sum(leg.sends for leg in self.legs) if self.legs else self.sends

    @property
    def receives_apart(self) -> int:
        """Messages from other ranks if the legs were called one by one."""
        return sum(leg.receives for leg in self.legs) if self.legs else self.receives

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("schedule / exchange", f"{self.schedule} / {self.exchange} ({self.why})"), ("buffers", self.buffers)]
        sides = [("sent", self.bytes_sent, self.sends, self.sends_apart)]
        if self.ranks is None:
            sides.append(("received", self.bytes_received, self.receives, self.receives_apart))
        else:
            rows.append(("ranks", f"{self.ranks:,}"))
            sides[0] = ("between ranks", *sides[0][1:])
        for name, size, messages, apart in sides:
            one_by_one = "" if messages == apart else f" ({apart:,} one by one)"
            rows.append((name, f"{size:,} bytes in {count_text(messages, 'message')}{one_by_one}"))
        rows.append(("copied in place", f"{self.bytes_copied:,} bytes"))
        if self.steps is not None:
            of_all = "" if self.ranks or self.steps_of_all is None else f" of {self.steps_of_all:,} of all ranks"
            fewest = "" if self.fewest_steps is None else f"; the fewest possible are {self.fewest_steps:,}"
            rows.append(("steps", f"{self.steps:,}{of_all}{fewest}"))
        if self.ranks is not None:
            rows += [
                ("busiest rank", f"sends {self.most_sent:,} bytes or receives {self.most_received:,}"),
                ("most messages", f"{self.most_messages:,} on a rank: no one-port schedule has fewer steps"),
                ("imbalance", f"{self.imbalance:.3g} times the mean of all ranks on the busiest"),
            ]
        if self.extra_bytes is not None:
            most = "" if self.ranks is None else " on the rank that needs most"
            rows.append(("extra memory", f"{self.extra_bytes:,} of at most {self.memory_limit:,} bytes{most}"))
        if self.direct is not None:
            rows.append(("layouts in between", f"{self.between_bytes:,} bytes"))
        if self.links is not None:
            rows.append(("between nodes", str(self.links)))
        times = (("predicted", self.predicted_seconds), ("last run", self.last_seconds))
        rows += [(name, f"{1e3 * seconds:.3g} ms") for name, seconds in times if seconds is not None]
        return [*rows, *self._rows_of_legs("")]

    def _rows_of_legs(self, indent: str) -> Iterator[tuple[str, str]]:
        for leg in (*self.legs, *([] if self.direct is None else [self.direct])):
            steps = "" if leg.steps is None else f", {count_text(leg.steps, 'step')}"
            yield (
                f"{indent}{leg.name}",
                f"{leg.bytes_sent:14,} bytes sent in {count_text(leg.sends, 'message')}{steps}",
            )
            yield from leg._rows_of_legs(f"{indent}  ")


def leg_report(plan: Plan, stage: Stage, dtype: DTypeLike | None) -> Report:
    """Report one stage of a plan for this rank."""
    return _report(plan, [stage], _items(_dtypes(plan, dtype)))


def report_of(plan: Plan, dtype: Dtypes) -> Report:
    """Report a plan for this rank, or on paper for all ranks."""
    dtypes = _dtypes(plan, dtype)
    items, direct, between = _items(dtypes), None, 0
    if plan.is_batch:
        parts = enumerate(zip(plan.parts, dtypes, strict=True))
        legs = [replace(report_of(part, kind), name=f"plan {k}") for k, (part, kind) in parts]
    elif plan.direct_stage is None:
        legs = _report_moves(plan, plan.stages[0], items)
    else:
        legs = [
            _report(plan, [stage], items, name=f"leg {k}", legs=tuple(_report_moves(plan, stage, items)))
            for k, stage in enumerate(plan.stages)
        ]
        direct = _report(plan, [plan.direct_stage], items, name="direct")
        between = sum(_local_size(plan, desc) for desc in plan.layouts_between.values()) * items[0]
    seconds = plan.seconds
    return _report(
        plan, plan.stages, items, legs=tuple(legs), direct=direct, between_bytes=between, last_seconds=seconds
    )


@holding_interrupts
def report_of_all(plan: Plan, dtype: Dtypes) -> Report | None:
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
        return report_of(plan, common_dtypes if plan.is_batch else common_dtypes[0])

    meet(group, "report")
    dtypes_by_rank = group.call_on_all(lambda: _dtypes(plan, dtype))
    return _combine_reports(group.call_on_all(report))


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
        **{name: most(name) for name in ("extra_bytes", "between_bytes", "predicted_seconds", "last_seconds")},
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
    from .pictures import count_traffic

    ranks, *columns = count_traffic(plan, stages)
    return replace(report, ranks=len(ranks), **_figures(columns, item))


def _fill_on_this_rank(report: Report, plan: Plan, stages: Sequence[Stage], items: Sequence[int]) -> Report:
    """Fill in a report for this rank. Moves that go together have one message for each peer."""
    group, keys, columns, seconds = plan.group, [], [], []
    exchanges = [_exchange(plan, stage, items) for stage in stages]
    for stage, exchange in zip(stages, exchanges, strict=True):
        sides = [[(m, items[move.pair]) for move in stage.moves for m in move.messages[k]] for k in range(3)]
        several = len(stage.moves) > 1
        numbers = [len({m.peer for m, _ in side} if several else side) for side in sides[:2]]
        sizes = [sum(m.size * item for m, item in side) for side in sides]
        columns.append([*numbers, *sizes])
        keys.append(None if several else len({m.key for side in sides[:2] for m, _ in side}))
        if group is not None:
            node_ranks = group.node.size if group.node is not None else 1
            seconds.append(predicted_seconds(sum(sizes), exchange.between_nodes, group.links, group.size, node_ranks))
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
    return stage.bind(ArrayKind(tuple(strides), tuple(items), blends, (False,) * len(items)), BY_COLUMNS, max(items))


def _local_size(plan: Plan, desc: Any) -> int:
    """Elements of a layout in between on this rank, or on paper the most of any rank."""
    if plan.paper_exchange is None:
        return sum(map(math.prod, desc.local_shapes))
    return math.prod(max(map(axis.local_size, range(axis.processes))) for axis in desc.distributions)
