"""What a batch moves and what it costs on one rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..chain import ChainReport
from ..filled import FilledReport
from ..report import Report

__all__ = ["BatchReport"]

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
        moves = [move for one in plans for move in _moves(one)]
        return cls(
            exchange=exchange,
            why=why,
            plans=tuple(plans),
            sends=peers[0],
            receives=peers[1],
            sends_apart=sum(one.sends for one in moves),
            receives_apart=sum(one.receives for one in moves),
            bytes_sent=sum(one.bytes_sent for one in moves),
            bytes_received=sum(one.bytes_received for one in moves),
            bytes_copied=sum(one.bytes_copied for one in moves),
            extra_bytes=extra_bytes,
            memory_limit=memory_limit,
        )

    def __str__(self) -> str:
        rows = [
            ("exchange", f"{self.exchange} ({self.why})"),
            ("plans", f"{len(self.plans)}"),
            ("sent", f"{self.bytes_sent:,} bytes in {self.sends} messages ({self.sends_apart} one by one)"),
            (
                "received",
                f"{self.bytes_received:,} bytes in {self.receives} messages ({self.receives_apart} one by one)",
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
        for one in report.legs if isinstance(report, ChainReport) else report.moves:
            yield from _moves(one)
