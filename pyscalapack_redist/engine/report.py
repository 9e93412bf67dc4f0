"""What a plan moves and what it costs on one rank, for a person or a program to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..comm.group import Group
from ..comm.links import Links
from ..exchanges import Exchange
from .model import predicted_seconds
from .stages import Move

__all__ = ["PARTS", "BatchReport", "ChainReport", "FilledReport", "Profile", "Report"]


def counted(number: int, noun: str) -> str:
    """So many of something: "1 message", "2 messages". Not collective."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


PARTS = ("planned", "agreed", "packed", "copied", "unpacked", "waited", "other")


@dataclass(frozen=True)
class Report:
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

    @classmethod
    def of(cls, move: Move, exchange: Exchange, why: str, item: int, group: Group | None, last: float | None) -> Report:
        """The report of a move with elements of `item` bytes. Not collective."""
        sends, receives, copies = move.messages
        moved = [sum(message.size for message in some) * item for some in (sends, receives, copies)]
        links = group.links if group is not None else None
        predicted = None
        if group is not None:
            here = group.node.size if group.node is not None else 1
            between = exchange.options.extents.between * item
            predicted = predicted_seconds(sum(moved), between, links, group.size, here)
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
        )

    def __str__(self) -> str:
        rows = [
            ("schedule / exchange", f"{self.schedule} / {self.exchange} ({self.why})"),
            ("buffers", self.buffers),
            ("sent", f"{self.bytes_sent:,} bytes in {counted(self.sends, 'message')}"),
            ("received", f"{self.bytes_received:,} bytes in {counted(self.receives, 'message')}"),
            ("copied in place", f"{self.bytes_copied:,} bytes"),
            ("steps", f"{self.steps}"),
            ("extra memory", f"{self.extra_bytes:,} of at most {self.memory_limit:,} bytes"),
        ]
        if self.links is not None:
            rows.append(("between nodes", str(self.links)))
        times = (("predicted", self.predicted_seconds), ("last run", self.last_seconds))
        rows += [(name, f"{1e3 * seconds:.3g} ms") for name, seconds in times if seconds is not None]
        return "\n".join(f"{name:20} {value}" for name, value in rows)


@dataclass(frozen=True)
class Profile:
    """Where the time of one call went on one rank.

    Attributes
    ----------
    seconds : dict
        "planned": when the plan was made, before the call; "agreed": until all ranks had said that their arrays fit;
        "packed", "copied" and "unpacked": bytes moved by our loops; "waited": for other ranks and for MPI, and what MPI
        moves itself; "other": checks and the making of `out`.
    """

    seconds: dict[str, float]

    @property
    def total(self) -> float:
        """Seconds of the call, without the planning."""
        return sum(self.seconds.values()) - self.seconds["planned"]

    def __str__(self) -> str:
        rows = [f"{part:10}{1e3 * seconds:12.3f} ms" for part, seconds in self.seconds.items()]
        return "\n".join([*rows, f"{'the call':10}{1e3 * self.total:12.3f} ms"])


@dataclass(frozen=True)
class ChainReport:
    """The legs of one rank in figures, beside the direct way.

    Attributes
    ----------
    legs : tuple of Report
        One for each leg in which this rank takes part.
    direct : Report
        Moving every element once.
    between_bytes : int
        Local arrays of the layouts in between, beside the legs' own extra memory.
    """

    legs: tuple[Report, ...]
    direct: Report
    between_bytes: int

    @property
    def bytes_sent(self) -> int:
        """What goes to other ranks, in all legs."""
        return sum(leg.bytes_sent for leg in self.legs)

    @property
    def steps(self) -> int:
        """Steps in which this rank has a message, in all legs."""
        return sum(leg.steps for leg in self.legs)

    def __str__(self) -> str:
        lines = [f"{'':20}{'bytes sent':>16}{'messages sent':>16}{'steps':>8}"]
        for name, leg_report in [*((f"leg {k}", leg) for k, leg in enumerate(self.legs)), ("direct", self.direct)]:
            lines.append(f"{name:20}{leg_report.bytes_sent:16,}{leg_report.sends:16,}{leg_report.steps:8,}")
        lines.append(f"{'layouts in between':20}{self.between_bytes:16,} bytes")
        return "\n".join(lines)


@dataclass(frozen=True)
class FilledReport:
    """The moves of one rank in figures.

    Attributes
    ----------
    moves : tuple of Report or ChainReport
        That of the trapezoid; and that of its mirror image, where there is one.
    """

    moves: tuple[Report | ChainReport, ...]

    @property
    def bytes_sent(self) -> int:
        """What goes to other ranks, in all moves."""
        return sum(move.bytes_sent for move in self.moves)

    def __str__(self) -> str:
        return "\n\n".join(
            f"{name}\n{move}" for name, move in zip(("the part", "its mirror image"), self.moves, strict=False)
        )


PlanReport = Report | ChainReport | FilledReport


@dataclass(frozen=True)
class BatchReport:
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

    def __str__(self) -> str:
        rows = [
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
        return "\n".join(f"{name:20} {value}" for name, value in rows)


def _moves(report: PlanReport) -> Iterator[Report]:
    """The reports of the moves that a plan is made of."""
    if isinstance(report, Report):
        yield report
    else:
        for move in report.legs if isinstance(report, ChainReport) else report.moves:
            yield from _moves(move)
