"""A plan in figures of all ranks together: gathered from them, or counted on paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .layouts import descriptors
from .stages import Move
from .tabled import Tabled, counted
from .traffic import traffic_of

if TYPE_CHECKING:
    from .report import BatchReport, Report

__all__ = ["Totals"]


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
