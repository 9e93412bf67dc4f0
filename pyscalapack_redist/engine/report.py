"""What a plan says of itself in figures: of one rank, of all, of its legs.

Figures as names and values: lines of text, or a table of HTML.

What a plan moves and what it costs on one rank, for a person or a program to read.

A plan in figures of all ranks together: gathered from them, or counted on paper.

What a plan says of itself: its report, by what the plan is, and the legs of one with `via=`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from .._kernels.bundle import dense_strides
from ..comm.group import Group
from ..comm.links import Links
from ..drawing.svg import table
from ..errors import CollectiveError
from ..exchanges import Exchange, Message
from ..schedules.orders import Order
from .choose import predicted_seconds
from .layouts import Layout, descriptors, local_shapes
from .operands import BY_COLUMNS, Binding, listed
from .order import fewest_steps
from .plan import Plan
from .stages import Forms, Move, Stage

__all__ = [
    "PARTS",
    "BatchReport",
    "ChainReport",
    "FilledReport",
    "Leg",
    "Profile",
    "Report",
    "Tabled",
    "Totals",
    "counted",
    "leg_report",
    "lined",
    "messages_of",
    "report_of",
    "totals_of",
    "totals_on_paper",
]


def counted(number: int, noun: str) -> str:
    """So many of something: "1 message", "2 messages". Not collective."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def lined(rows: Sequence[tuple[str, str]], width: int = 20) -> str:
    """Names and values, one below the other."""
    return "\n".join(f"{name:{width}} {value}" for name, value in rows)


class Tabled(ABC):
    """Figures that are names and values, for a terminal and for a notebook."""

    @abstractmethod
    def _rows(self) -> list[tuple[str, str]]:
        """Names and values."""

    def __str__(self) -> str:
        return lined(self._rows())

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self._rows())


PARTS = ("planned", "agreed", "packed", "copied", "unpacked", "waited", "other")


@dataclass(frozen=True)
class Report(Tabled):
    """The plan of one rank in figures.

    Attributes
    ----------
    schedule, exchange, buffers, why : str
        What was chosen and the reason.
    sends, receives : int
        Messages to and from other ranks.
    steps : int
        Steps of the schedule in which this rank has a message.
    bytes_sent, bytes_received, bytes_copied : int
        What goes to others, comes from others, and stays on this rank.
    extra_bytes, memory_limit : int
        Staging memory of one run, and the most it may be.
    links : Links or None
        What messages between nodes cost; None on one node.
    predicted_seconds : float or None
        Of a run, by the model that chooses; None on a rank that takes no part.
    last_seconds : float or None
        Of this rank's last run, from its start; None before the first. Of runs through shared memory alone only the first
        with arrays of a kind is timed.
    steps_of_all : int or None
        Steps of the schedule, those of other ranks included; None where its order has none.
    fewest_steps : int or None
        The most messages of any rank: no one-port schedule has fewer steps, and one has no more. None where the order has no
        steps, where only a part of a matrix is moved, and where there are too many messages to count in no time.
    """

    schedule: str
    exchange: str
    buffers: str
    why: str
    sends: int
    receives: int
    steps: int
    bytes_sent: int
    bytes_received: int
    bytes_copied: int
    extra_bytes: int
    memory_limit: int
    links: Links | None
    predicted_seconds: float | None
    last_seconds: float | None
    steps_of_all: int | None = None
    fewest_steps: int | None = None

    @classmethod
    def of(cls, move: Move, exchange: Exchange, why: str, item: int, group: Group | None, last: float | None) -> Report:
        """The report of a move with elements of `item` bytes. Not collective."""
        sends, receives, copies = move.messages
        moved = [sum(message.size for message in some) * item for some in (sends, receives, copies)]
        links = group.links if group is not None else None
        predicted = None
        if group is not None:
            here = group.node.size if group.node is not None else 1
            predicted = predicted_seconds(sum(moved), exchange.between_nodes, links, group.size, here)
        return cls(
            schedule=move.order.name,
            exchange=exchange.name,
            buffers=exchange.buffers.name,
            why=why,
            sends=len(sends),
            receives=len(receives),
            steps=len({message.key for message in (*sends, *receives)}),
            bytes_sent=moved[0],
            bytes_received=moved[1],
            bytes_copied=moved[2],
            extra_bytes=exchange.staging_bytes,
            memory_limit=exchange.options.memory_limit,
            links=links,
            predicted_seconds=predicted,
            last_seconds=last,
            steps_of_all=move.order.number_of_steps,
            fewest_steps=_fewest_steps(move),
        )

    @property
    def _of_all(self) -> str:
        fewest = "" if self.fewest_steps is None else f", where {self.fewest_steps:,} are the fewest"
        return "" if self.steps_of_all is None else f" of {self.steps_of_all:,} of all ranks{fewest}"

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("schedule / exchange", f"{self.schedule} / {self.exchange} ({self.why})"),
            ("buffers", self.buffers),
            ("sent", f"{self.bytes_sent:,} bytes in {counted(self.sends, 'message')}"),
            ("received", f"{self.bytes_received:,} bytes in {counted(self.receives, 'message')}"),
            ("copied in place", f"{self.bytes_copied:,} bytes"),
            ("steps", f"{self.steps}{self._of_all}"),
            ("extra memory", f"{self.extra_bytes:,} of at most {self.memory_limit:,} bytes"),
        ]
        if self.links is not None:
            rows.append(("between nodes", str(self.links)))
        times = (("predicted", self.predicted_seconds), ("last run", self.last_seconds))
        return rows + [(name, f"{1e3 * seconds:.3g} ms") for name, seconds in times if seconds is not None]


def _fewest_steps(move: Move) -> int | None:
    if move.order.number_of_steps is None or move.part is not None:
        return None
    return fewest_steps(move.moved, move.desc_b)


@dataclass(frozen=True)
class Profile(Tabled):
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

    def __str__(self) -> str:
        return lined(self._rows(), 10)


@dataclass(frozen=True)
class ChainReport(Tabled):
    """The legs of one rank, or of all, in figures, beside the direct way.

    Attributes
    ----------
    legs : tuple of Report or Totals
        One for each leg.
    direct : Report or Totals
        Moving every element once.
    between_bytes : int
        Local arrays of the layouts in between, beside the legs' own extra memory: of this rank, or the most of any.
    """

    legs: tuple[Report | Totals, ...]
    direct: Report | Totals
    between_bytes: int

    @property
    def bytes_sent(self) -> int:
        """What goes to other ranks, in all legs."""
        return sum(leg.bytes_sent for leg in self.legs)

    @property
    def steps(self) -> int:
        """Steps in which this rank has a message, in all legs; of all ranks together, those of the schedules."""
        return sum(leg.steps or 0 for leg in self.legs)

    def _named(self) -> list[tuple[str, Report | Totals]]:
        return [*((f"leg {k}", leg) for k, leg in enumerate(self.legs)), ("direct", self.direct)]

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            (name, f"{leg.bytes_sent:,} bytes sent in {counted(leg.sends, 'message')}") for name, leg in self._named()
        ]
        return [*rows, ("layouts in between", f"{self.between_bytes:,} bytes")]

    def __str__(self) -> str:
        lines = [f"{'':20}{'bytes sent':>16}{'messages sent':>16}{'steps':>8}"]
        for name, leg in self._named():
            steps = "-" if leg.steps is None else f"{leg.steps:,}"
            lines.append(f"{name:20}{leg.bytes_sent:16,}{leg.sends:16,}{steps:>8}")
        lines.append(f"{'layouts in between':20}{self.between_bytes:16,} bytes")
        return "\n".join(lines)


@dataclass(frozen=True)
class FilledReport(Tabled):
    """The moves of one rank, or of all, in figures.

    Attributes
    ----------
    moves : tuple of Report, Totals or ChainReport
        That of the trapezoid; and that of its mirror image, where there is one.
    """

    moves: tuple[Report | Totals | ChainReport, ...]

    @property
    def bytes_sent(self) -> int:
        """What goes to other ranks, in all moves."""
        return sum(move.bytes_sent for move in self.moves)

    def _named(self) -> list[tuple[str, Report | Totals | ChainReport]]:
        return list(zip(("the part", "its mirror image"), self.moves, strict=False))

    def _rows(self) -> list[tuple[str, str]]:
        return [(f"{name}: {what}", value) for name, move in self._named() for what, value in move._rows()]

    def __str__(self) -> str:
        return "\n\n".join(f"{name}\n{move}" for name, move in self._named())


PlanReport = Report | ChainReport | FilledReport


@dataclass(frozen=True)
class BatchReport(Tabled):
    """A batch of one rank in figures.

    Attributes
    ----------
    exchange, why : str
        How the bytes move, and the reason.
    plans : tuple
        The report of each plan, as if it were called by itself.
    sends, receives : int
        Messages to and from other ranks: one for each of them.
    sends_apart, receives_apart : int
        Messages of the same plans called one by one.
    bytes_sent, bytes_received, bytes_copied : int
        What goes to others, comes from others, and stays on this rank.
    extra_bytes, memory_limit : int
        Staging memory of one run, and the most it may be.
    """

    exchange: str
    why: str
    plans: tuple[PlanReport, ...]
    sends: int
    receives: int
    sends_apart: int
    receives_apart: int
    bytes_sent: int
    bytes_received: int
    bytes_copied: int
    extra_bytes: int
    memory_limit: int

    @classmethod
    def of(
        cls,
        plans: Sequence[PlanReport],
        peers: tuple[int, int],
        exchange: str,
        why: str,
        extra_bytes: int,
        memory_limit: int,
    ) -> BatchReport:
        """The report of plans whose messages go to and come from so many ranks. Not collective."""
        moves = [move for plan in plans for move in _moves(plan)]
        return cls(
            exchange=exchange,
            why=why,
            plans=tuple(plans),
            sends=peers[0],
            receives=peers[1],
            sends_apart=sum(move.sends for move in moves),
            receives_apart=sum(move.receives for move in moves),
            bytes_sent=sum(move.bytes_sent for move in moves),
            bytes_received=sum(move.bytes_received for move in moves),
            bytes_copied=sum(move.bytes_copied for move in moves),
            extra_bytes=extra_bytes,
            memory_limit=memory_limit,
        )

    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("exchange", f"{self.exchange} ({self.why})"),
            ("plans", f"{len(self.plans)}"),
            ("sent", f"{self.bytes_sent:,} bytes in {counted(self.sends, 'message')} ({self.sends_apart} one by one)"),
            (
                "received",
                f"{self.bytes_received:,} bytes in {counted(self.receives, 'message')} ({self.receives_apart} one by one)",
            ),
            ("copied in place", f"{self.bytes_copied:,} bytes"),
            ("extra memory", f"{self.extra_bytes:,} of at most {self.memory_limit:,} bytes"),
        ]


def _moves(report: Any) -> Iterator[Report]:
    """The reports of the moves that a plan is made of."""
    if isinstance(report, Report):
        yield report
    else:
        for move in report.legs if isinstance(report, ChainReport) else report.moves:
            yield from _moves(move)


@dataclass(frozen=True)
class Totals(Tabled):
    """A plan in figures of all ranks together; messages of ranks to themselves are copies, and not counted as messages.

    Attributes
    ----------
    schedule, exchange, why : str
        What was chosen and the reason.
    ranks : int
        That take part.
    sends : int
        Messages from one rank to another.
    most_messages : int
        That one rank sends or receives, whichever are more: no one-port schedule has fewer steps.
    steps : int or None
        Of the schedule, those without messages included; None where its order has no steps, and of a batch.
    bytes_sent, bytes_copied : int
        What goes from one rank to another, and what stays.
    most_sent, most_received : int
        Bytes of the rank that sends, or receives, most.
    imbalance : float
        Bytes that the busiest rank sends or receives, whichever are more, over the mean of all that take part; 1 is balanced,
        and 1 where nothing moves.
    extra_bytes : int or None
        The most staging memory of a rank; None on paper, as are the two below.
    predicted_seconds, last_seconds : float or None
        Of the slowest rank.
    """

    schedule: str
    exchange: str
    why: str
    ranks: int
    sends: int
    most_messages: int
    steps: int | None
    bytes_sent: int
    bytes_copied: int
    most_sent: int
    most_received: int
    imbalance: float
    extra_bytes: int | None = None
    predicted_seconds: float | None = None
    last_seconds: float | None = None

    @classmethod
    def on_paper(cls, move: Move, exchange: str, why: str, item: int) -> Totals:
        """Those of a move with elements of `item` bytes. Not collective."""
        before, after = descriptors(move.moved, move.desc_b, "a plan on paper")
        from .pictures import traffic_of

        traffic = traffic_of(before, after, move.edge)
        return cls(
            schedule=move.order.name,
            exchange=exchange,
            why=why,
            ranks=len(traffic.ranks),
            sends=traffic.messages,
            most_messages=traffic.degree,
            steps=move.order.number_of_steps,
            bytes_sent=traffic.elements * item,
            bytes_copied=int(traffic.kept.sum()) * item,
            most_sent=int(traffic.sent.max(initial=0)) * item,
            most_received=int(traffic.received.max(initial=0)) * item,
            imbalance=_imbalance(traffic.sent, traffic.received),
        )

    @classmethod
    def gathered(cls, reports: Sequence[Report] | Sequence[BatchReport]) -> Totals:
        """Those of the reports of all ranks. Not collective."""
        first: Any = reports[0]
        sent, received = ([getattr(report, name) for report in reports] for name in ("bytes_sent", "bytes_received"))
        times = {
            name: max(
                (seconds for report in reports if (seconds := getattr(report, name, None)) is not None), default=None
            )
            for name in ("predicted_seconds", "last_seconds")
        }
        return cls(
            schedule=getattr(first, "schedule", "by distance"),
            exchange=first.exchange,
            why=first.why,
            ranks=len(reports),
            sends=sum(report.sends for report in reports),
            most_messages=max(max(report.sends, report.receives) for report in reports),
            steps=getattr(first, "steps_of_all", None),
            bytes_sent=sum(sent),
            bytes_copied=sum(report.bytes_copied for report in reports),
            most_sent=max(sent),
            most_received=max(received),
            imbalance=_imbalance(sent, received),
            extra_bytes=max(report.extra_bytes for report in reports),
            **times,
        )

    def _rows(self) -> list[tuple[str, str]]:
        steps = "" if self.steps is None else f", of {counted(self.steps, 'step')}"
        rows = [
            ("schedule / exchange", f"{self.schedule} / {self.exchange} ({self.why})"),
            ("ranks", f"{self.ranks:,}"),
            ("between ranks", f"{self.bytes_sent:,} bytes in {counted(self.sends, 'message')}{steps}"),
            ("copied in place", f"{self.bytes_copied:,} bytes"),
            ("busiest rank", f"sends {self.most_sent:,} bytes or receives {self.most_received:,}"),
            ("most messages", f"{self.most_messages:,} on a rank: no one-port schedule has fewer steps"),
            ("imbalance", f"{self.imbalance:.3g} times the mean of all ranks on the busiest"),
        ]
        if self.extra_bytes is not None:
            rows.append(("extra memory", f"{self.extra_bytes:,} bytes on the rank that needs most"))
        times = (("predicted", self.predicted_seconds), ("last run", self.last_seconds))
        return rows + [(name, f"{1e3 * seconds:.3g} ms") for name, seconds in times if seconds is not None]


def _imbalance(sent: Any, received: Any) -> float:
    loads = np.maximum(sent, received)
    return float(loads.max() / loads.mean()) if loads.any() else 1.0


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
    told: list[Any] = group.combine(made, error=error)
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
