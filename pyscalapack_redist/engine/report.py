"""What a plan moves and what it costs on one rank, for a person or a program to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..comm.group import Group
from ..comm.links import Links
from ..exchanges import Exchange
from .model import predicted_seconds
from .scheduling import fewest_steps
from .stages import Move
from .tabled import Tabled, counted, lined
from .totals import Totals

__all__ = ["PARTS", "BatchReport", "ChainReport", "FilledReport", "Profile", "Report"]


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
