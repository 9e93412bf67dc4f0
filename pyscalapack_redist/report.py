"""What a plan moves and what it costs on one rank, for a person or a program to read."""

from __future__ import annotations

from dataclasses import dataclass

from .exchanges import Exchange
from .orders import Order

__all__ = ["Report"]


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

    @classmethod
    def of(cls, exchange: Exchange, schedule: Order, why: str, item: int, ranks: tuple[int, ...] | None) -> Report:
        """The report of an exchange's messages with elements of `item` bytes. Not collective."""
        moved = [sum(one.size for one in some) * item for some in (exchange.sends, exchange.receives, exchange.copies)]
        return cls(
            schedule=schedule.name,
            exchange=exchange.name,
            buffers=exchange.buffers.name,
            why=why,
            sends=len(exchange.sends),
            receives=len(exchange.receives),
            steps=len({one.key for one in (*exchange.sends, *exchange.receives)}),
            bytes_sent=moved[0],
            bytes_received=moved[1],
            bytes_copied=moved[2],
            extra_bytes=exchange.staging_bytes(item),
            memory_limit=exchange.memory_limit,
        )

    def __str__(self) -> str:
        rows = [
            ("schedule / exchange", f"{self.schedule} / {self.exchange} ({self.why})"),
            ("buffers", self.buffers),
            ("sent", f"{self.bytes_sent:,} bytes in {self.sends} messages"),
            ("received", f"{self.bytes_received:,} bytes in {self.receives} messages"),
            ("copied in place", f"{self.bytes_copied:,} bytes"),
            ("steps", f"{self.steps}"),
            ("extra memory", f"{self.extra_bytes:,} of at most {self.memory_limit:,} bytes"),
        ]
        return "\n".join(f"{name:20} {value}" for name, value in rows)
