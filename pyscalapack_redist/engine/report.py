"""What a plan says of itself in figures, for a person or a program to read: a report with legs, and a profile of a call.

The figures are of this rank; of all ranks, gathered from them; or of all ranks, counted on paper.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._kernels.bundle import dense_strides
from ..comm.group import Group
from ..comm.links import Links
from ..errors import CollectiveError
from ..exchanges import Exchange
from ..schedules.layout_orders import fewest_steps
from .choose import predicted_seconds
from .local_arrays import BY_COLUMNS
from .operands import listed
from .plan import Plan
from .stages import ArrayKind, Stage

Dtypes = DTypeLike | Sequence[DTypeLike] | None
Ints = NDArray[np.int64]


def counted(number: int, noun: str) -> str:
    """So many of something: "1 message", "2 messages". Not collective."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class _Tabled(ABC):
    """Figures that are names and values, for a terminal and for a notebook."""

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
class Profile(_Tabled):
    """Where the time of one call went on one rank.

    Attributes
    ----------
    seconds : dict
        "planned": when the plan was made, before the call, the sum of `planning`; "agreed": until all ranks had said that
        their arrays fit; "packed", "copied" and "unpacked": bytes moved by our loops; "waited": for other ranks and for MPI,
        and what MPI moves itself; "other": checks and the making of `out`.
    planning : dict
        What is in "planned", once for all calls of the plan: "processes", finding which ranks share a node and, for the first
        plan between nodes, measuring the links, until all have come; "schedule", the search for the steps of an order
        that no formula tells; "messages", this rank's messages, and until all have theirs. Of a batch, what it took beside its
        plans. A plan that the ranks had already has the figures of its first time.
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
class Report(_Tabled):
    """A plan in figures, of one rank or of all together. What ranks copy to themselves is not counted as messages.

    Attributes
    ----------
    name : str
        Of a leg, what it is; "" of a plan.
    schedule, exchange, buffers, why : str
        What was chosen and the reason.
    ranks : int or None
        Ranks that the figures are of, together; None: of this rank.
    sends, receives : int
        Messages to and from other ranks: one for each of them where several moves go at once.
    bytes_sent, bytes_received, bytes_copied : int
        What goes to other ranks, comes from them, and stays where it is.
    most_messages : int
        That one rank sends or receives, whichever are more: no one-port schedule has fewer steps.
    most_sent, most_received : int
        Bytes of the rank that sends, or receives, most.
    imbalance : float
        Bytes that the busiest rank sends or receives, whichever are more, over the mean of all that take part; 1 is balanced,
        and 1 where nothing moves.
    steps : int or None
        Steps of the schedule in which this rank has a message; of all ranks, `steps_of_all`. None where several moves go
        at once.
    steps_of_all : int or None
        Steps of the schedule, those of other ranks and those without messages included; None where its order has none.
    fewest_steps : int or None
        The most messages of any rank: no one-port schedule has fewer steps, and one has no more. None where the order has no
        steps, where only a part of a matrix is moved, and where there are too many messages to count in no time.
    extra_bytes : int or None
        Staging memory of one run, of all ranks the most; None on paper.
    memory_limit : int
        The most that it may be.
    links : Links or None
        What messages between nodes cost; None on one node.
    predicted_seconds : float or None
        Of a run, by the model that chooses, of all ranks the most; None on paper, and on a rank that takes no part.
    last_seconds : float or None
        Of this rank's last run, from its start, of all ranks the most; None before the first, and of a leg. Of runs through
        shared memory alone only the first with arrays of a kind is timed.
    between_bytes : int
        With `via=`, local arrays of the layouts in between, beside `extra_bytes`; of all ranks the most.
    legs : tuple of Report
        With `via=` "leg 0", "leg 1" and so on; with a mirror image "the trapezoid" and "its mirror image", each as if it went
        alone; of a batch "plan 0", "plan 1" and so on, each as if it were called by itself.
    direct : Report or None
        With `via=`: moving every element once; with a mirror image as well, the trapezoid alone.
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
        """Messages to other ranks, if the legs were called one by one."""
        return sum(leg.sends for leg in self.legs) if self.legs else self.sends

    @property
    def receives_apart(self) -> int:
        """Messages from other ranks, if the legs were called one by one."""
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
            rows.append((name, f"{size:,} bytes in {counted(messages, 'message')}{one_by_one}"))
        rows.append(("copied in place", f"{self.bytes_copied:,} bytes"))
        if self.steps is not None:
            of_all = "" if self.ranks or self.steps_of_all is None else f" of {self.steps_of_all:,} of all ranks"
            fewest = "" if self.fewest_steps is None else f", where {self.fewest_steps:,} are the fewest"
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
            steps = "" if leg.steps is None else f", {counted(leg.steps, 'step')}"
            yield f"{indent}{leg.name}", f"{leg.bytes_sent:14,} bytes sent in {counted(leg.sends, 'message')}{steps}"
            yield from leg._rows_of_legs(f"{indent}  ")


def leg_report(plan: Plan, stage: Stage, dtype: DTypeLike | None) -> Report:
    """What this rank moves in one stage of a plan, and what it costs. Not collective."""
    return _report(plan, [stage], _items(_dtypes(plan, dtype)))


def report_of(plan: Plan, dtype: Dtypes) -> Report:
    """The report of a plan: of this rank, or on paper of all. Not collective."""
    dtypes = _dtypes(plan, dtype)
    items, direct, between = _items(dtypes), None, 0
    if plan.is_batch:
        parts = enumerate(zip(plan.parts, dtypes, strict=True))
        legs = [replace(report_of(part, kind), name=f"plan {k}") for k, (part, kind) in parts]
    elif plan.direct is None:
        legs = _apart(plan, plan.stages[0], items)
    else:
        legs = [
            _report(plan, [stage], items, name=f"leg {k}", legs=tuple(_apart(plan, stage, items)))
            for k, stage in enumerate(plan.stages)
        ]
        direct = _report(plan, [plan.direct], items, name="direct")
        between = sum(_local_size(plan, desc) for desc in plan.between.values()) * items[0]
    seconds = plan.seconds
    return _report(
        plan, plan.stages, items, legs=tuple(legs), direct=direct, between_bytes=between, last_seconds=seconds
    )


def report_of_all(plan: Plan, dtype: Dtypes) -> Report | None:
    """The report of a plan for all ranks; None on a rank that has no part in it. Collective over the plan's ranks."""
    group = plan.group
    if group is None:
        return None

    def report() -> Report:
        agreed: list[Any] = []
        for k, dtypes in enumerate(zip(*dtypes_by_rank, strict=True)):
            first_rank: dict[np.dtype[Any], int] = {}
            for rank, kind in enumerate(dtypes):
                if kind is not None:
                    first_rank.setdefault(kind, rank)
            if len(first_rank) > 1:
                words = ", ".join(f"{group.names[rank]} {kind}" for kind, rank in first_rank.items())
                raise CollectiveError(f"ranks ask for a report of plan {k} in different dtypes: {words}")
            agreed.append(next(iter(first_rank), None))
        return report_of(plan, agreed if plan.is_batch else agreed[0])

    dtypes_by_rank = _from_all(group, lambda: _dtypes(plan, dtype))
    return _together(_from_all(group, report))


def _from_all(group: Group, make: Callable[[], Any]) -> list[Any]:
    """What all ranks make, by rank; an error of one is raised on all. Collective over the group."""
    value, error = None, None
    try:
        value = make()
    except Exception as caught:
        error = caught
    values: list[Any] = group.combine(value, error=error)
    return values


COLUMNS = ("sends", "receives", "bytes_sent", "bytes_received", "bytes_copied")


def _together(reports: Sequence[Report]) -> Report:
    """One report of those of all ranks; some have no part in a plan of a batch."""
    reports = [report for report in reports if report.predicted_seconds is not None]
    first = reports[0]
    columns = [np.array([getattr(report, name) for report in reports]) for name in COLUMNS]

    def most(name: str) -> Any:
        return max((value for report in reports if (value := getattr(report, name)) is not None), default=None)

    return replace(
        first,
        ranks=len(reports),
        steps=first.steps_of_all,
        legs=tuple(_together(legs) for legs in zip(*(report.legs for report in reports), strict=True)),
        direct=None if first.direct is None else _together([report.direct for report in reports if report.direct]),
        **{name: most(name) for name in ("extra_bytes", "between_bytes", "predicted_seconds", "last_seconds")},
        **_figures(columns),
    )


def _figures(columns: Iterable[Ints], item: int = 1) -> dict[str, Any]:
    """The figures of ranks together, of which each has an entry in each of `COLUMNS`, in elements of `item` bytes."""
    sends, receives, sent, received, copied = columns
    loads = np.maximum(sent, received)
    numbers = [int(sends.sum()), int(receives.sum()), *(item * sum(some.tolist()) for some in (sent, received, copied))]
    return {
        **dict(zip(COLUMNS, numbers, strict=True)),
        "most_messages": int(np.maximum(sends, receives).max(initial=0)),
        "most_sent": item * int(sent.max(initial=0)),
        "most_received": item * int(received.max(initial=0)),
        "imbalance": float(loads.max() / loads.mean()) if loads.any() else 1.0,
    }


def _dtypes(plan: Plan, dtype: Dtypes) -> list[np.dtype[Any] | None]:
    """Of each pair, as it is asked for or known."""
    n = len(plan.pairs)
    kinds = listed("dtypes", dtype, n) if plan.is_batch and isinstance(dtype, list) else [dtype] * n
    return [pair.dtype if kind is None else np.dtype(kind) for kind, pair in zip(kinds, plan.pairs, strict=True)]


def _items(dtypes: Sequence[np.dtype[Any] | None]) -> list[int]:
    return [8 if dtype is None else dtype.itemsize for dtype in dtypes]


def _apart(plan: Plan, stage: Stage, items: Sequence[int]) -> list[Report]:
    """The reports of a trapezoid and its mirror image, each as if it went alone; none of a single move."""
    if len(stage.moves) == 1:
        return []
    alone = [Stage([move], stage.exchange, stage.options, plan.group) for move in stage.moves]
    names = ("the trapezoid", "its mirror image")
    return [_report(plan, [each], items, name=name) for each, name in zip(alone, names, strict=True)]


def _report(plan: Plan, stages: Sequence[Stage], items: Sequence[int], **more: Any) -> Report:
    """The report of stages that go one after another."""
    moves = [stage.moves[0] for stage in stages]
    alone = max(len(stage.moves) for stage in stages) == 1
    names = [move.order.name for move in moves] if alone or not plan.is_batch else ["by distance"]
    steps = _sum([move.order.number_of_steps for move in moves]) if alone else None
    whole = steps is not None and all(move.part is None for move in moves)
    report = Report(
        schedule=", ".join(dict.fromkeys(names)),
        exchange=plan.exchange_name,
        buffers=stages[0].options.buffers,
        why=plan.why,
        steps=steps,
        steps_of_all=steps,
        fewest_steps=_sum([fewest_steps(move.op_layout, move.desc_b) for move in moves]) if whole else None,
        memory_limit=stages[0].options.memory_limit,
        links=None if plan.group is None else plan.group.links,
        **more,
    )
    return (
        _on_paper(report, plan, stages, items[0])
        if plan.paper_exchange is not None
        else _on_this_rank(report, plan, stages, items)
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    """None where one is None."""
    counts = [number for number in numbers if number is not None]
    return sum(counts) if len(counts) == len(numbers) else None


def _on_paper(report: Report, plan: Plan, stages: Sequence[Stage], item: int) -> Report:
    from .pictures import traffic_of

    ranks, *columns = traffic_of(plan, stages)
    return replace(report, ranks=len(ranks), **_figures(columns, item))


def _on_this_rank(report: Report, plan: Plan, stages: Sequence[Stage], items: Sequence[int]) -> Report:
    """Moves that go at once have one message for each peer."""
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
            here = group.node.size if group.node is not None else 1
            seconds.append(predicted_seconds(sum(sizes), exchange.between_nodes, group.links, group.size, here))
    return replace(
        report,
        steps=_sum(keys),
        extra_bytes=max(exchange.staging_bytes for exchange in exchanges),
        predicted_seconds=sum(seconds) if seconds else None,
        **_figures(np.sum(columns, axis=0)[:, np.newaxis]),
    )


def _exchange(plan: Plan, stage: Stage, items: Sequence[int]) -> Exchange:
    """What moves arrays in Fortran order."""
    arrays = [(desc, item) for pair, item in zip(plan.pairs, items, strict=True) for desc in pair[:2]]
    arrays += [(plan.between[k], items[0]) for k in sorted(plan.between)]
    strides = [dense_strides(s, range(len(s)), item) for desc, item in arrays for s in desc.local_shapes]
    blends: tuple[dict[Any, Any], ...] = ({},) * len(items)
    return stage.bind(ArrayKind(tuple(strides), tuple(items), blends, (False,) * len(items)), BY_COLUMNS, max(items))


def _local_size(plan: Plan, desc: Any) -> int:
    """Elements of a layout in between on this rank, or on paper the most of any."""
    if plan.paper_exchange is None:
        return sum(map(math.prod, desc.local_shapes))
    return math.prod(max(map(axis.local_size, range(axis.processes))) for axis in desc.distributions)
