"""What users get back of a plan's figures: `Report` and `Profile`, records that show themselves as tables.

`study/` fills them in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from .comm.links import Links


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
        from .drawing.svg import table

        return table(type(self).__name__, self._rows())


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


ONE_SUMMAND = "one summand"


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
    peak_bytes : int
        Bytes of A and of a new B together, the largest of all ranks: their sum, or with overwrite=True the larger one and a
        panel, where B fills as A empties.
    extra_bytes : int or None
        Staging memory of one run, the largest of all ranks; None on paper.
    memory_limit : int
        Limit of `extra_bytes`.
    links : Links or None
        Latency and bandwidth between nodes; None on one node.
    predicted_seconds : float or None
        Predicted time of a run, the largest of all ranks; None on paper, and on a rank that takes no part.
    last_seconds : float or None
        Time of the last run, the largest of all ranks; None before the first run, and for a leg. Only the first run is timed of
        those through shared memory alone that write less than 64 KiB on this rank, and of those of agree="first".
    between_bytes : int
        With `via=`, bytes of the local arrays in between, which add to `extra_bytes`; the largest of all ranks.
    legs : tuple of Report
        With `via=`, "leg 0", "leg 1" and so on; with reduce="sum", "summand 0", "summand 1" and so on; with a mirror image,
        "the trapezoid" and "its mirror image", each as if it went alone; for a batch, "plan 0", "plan 1" and so on, each as
        if it were called alone.
    direct : Report or None
        With `via=`, a report of the plan without it; with a mirror image as well, of the trapezoid alone. With reduce="sum",
        "one summand": of an ordinary move, which reads one replica.
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
    peak_bytes: int = 0
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
        if self.peak_bytes:
            rows.append(("A and B", f"{self.peak_bytes:,} bytes"))
        if self.extra_bytes is not None:
            most = "" if self.ranks is None else " on the rank that needs most"
            rows.append(("extra memory", f"{self.extra_bytes:,} of at most {self.memory_limit:,} bytes{most}"))
        if self.direct is not None and self.direct.name != ONE_SUMMAND:
            rows.append(("layouts in between", f"{self.between_bytes:,} bytes"))
        if self.links is not None:
            rows.append(("between nodes", str(self.links)))
        new = "; a new array's pages take longer: give one that has been used as `out`"
        times = [("predicted", self.predicted_seconds, new), ("last run", self.last_seconds, "")]
        if self.direct is not None and self.direct.name == ONE_SUMMAND:
            times.insert(1, (f"predicted for {ONE_SUMMAND}", self.direct.predicted_seconds, ""))
        rows += [(name, f"{1e3 * seconds:.3g} ms{more}") for name, seconds, more in times if seconds is not None]
        return [*rows, *self._rows_of_legs("")]

    def _rows_of_legs(self, indent: str) -> Iterator[tuple[str, str]]:
        for leg in (*self.legs, *([] if self.direct is None else [self.direct])):
            steps = "" if leg.steps is None else f", {count_text(leg.steps, 'step')}"
            yield (
                f"{indent}{leg.name}",
                f"{leg.bytes_sent:14,} bytes sent in {count_text(leg.sends, 'message')}{steps}",
            )
            yield from leg._rows_of_legs(f"{indent}  ")
