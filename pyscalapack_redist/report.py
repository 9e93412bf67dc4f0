"""What a plan moves and what it costs on one rank, for a person or a program to read."""

from __future__ import annotations

from dataclasses import dataclass

from .exchanges import Exchange
from .links import Links
from .orders import Order

__all__ = ["PARTS", "Profile", "Report"]

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
    def of(
        cls,
        exchange: Exchange,
        schedule: Order,
        why: str,
        item: int,
        links: Links | None,
        predicted: float | None,
        last: float | None,
    ) -> Report:
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
            links=links,
            predicted_seconds=predicted,
            last_seconds=last,
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
