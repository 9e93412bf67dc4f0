"""What every exchange is: messages turned into a transfer that can be advanced until it is done."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from .._bundle import Origins
from .._copy import Blend
from .._traffic import Traffic
from ..errors import ScheduleError
from ..node import Node
from ..patience import LOOKS
from .buffers import BUFFERS
from .message import Message, pieces_of
from .repeat import Repeat

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["COPY_PIECE", "Exchange", "Extents", "LocalArray", "Progress", "Run"]

COPY_PIECE = 512 * 1024  # bytes of a local copy between two looks at the messages


class LocalArray(NamedTuple):
    """A local array as the kernels see it: address of element (0, 0, ...) and strides in bytes."""

    address: int
    strides: tuple[int, ...]


@dataclass
class Run:
    """One use of a plan: arrays, bytes of an element, order of dimensions in messages, tag and staging memory.

    `collectives` is a communicator on which runs come one after another, in the same order on all ranks; `mark` is for
    `Traffic.begin`; `spent` is to have the seconds "packed", "copied" and "unpacked", if anybody wants to know; `blend`
    is what becomes of elements on the way into the target; `several` says where arrays begin where there are several pairs.
    """

    comm: MPI.Intracomm
    collectives: MPI.Intracomm | None
    tag: int
    source: LocalArray
    target: LocalArray
    item: int
    order: tuple[int, ...]
    staging: np.ndarray
    mark: int = 0
    spent: dict[str, float] | None = None
    blend: Blend | None = None
    several: Origins | None = None

    @property
    def origins(self) -> Origins:
        """Where the arrays begin. Not collective."""
        if self.several is not None:
            return self.several
        made = Origins(1)
        made.put(0, self.source.address, self.target.address)
        return made

    def note(self, part: str, start: float) -> None:
        """Add the time since `start` to a part, where somebody asked for it. Not collective."""
        if self.spent is not None:
            self.spent[part] += time.perf_counter() - start


class Extents(NamedTuple):
    """What the messages of one rank come to; all ranks learn the largest of each number.

    Attributes
    ----------
    messages : int
        Messages to send or to receive, whichever are more.
    elements : int
        Elements of the longest message.
    partial : int
        1 if a message is only a part of what two processes share.
    unbalanced : int
        1 if there are more messages to send than to receive, or fewer.
    between : int
        Elements that go out of a node or into it, whichever are more: this rank's times the ranks of the node.
    """

    messages: int
    elements: int
    partial: int
    unbalanced: int
    between: int


class Exchange(ABC):
    """The messages of one rank, and a way of moving them.

    Parameters
    ----------
    sends, receives, copies : sequence of Message
        What this rank sends, receives, and copies from its own A to its own B.
    memory_limit : int
        Most bytes of staging memory on this rank.
    buffers : str
        A name in `BUFFERS`.
    node : Node, optional
        The ranks of this node, for an exchange that treats them in another way.

    Attributes
    ----------
    needs_one_port : bool
        Whether no process may send or receive twice in a step of the schedule.
    scheduled : bool
        Whether a schedule means anything to it.
    collective : bool
        Whether it makes collective calls, on `Run.collectives`, in which all participants take part.
    in_turn : bool
        Whether its runs come one after another.
    understands : tuple of str
        The buffers that it can use.
    """

    name: ClassVar[str]
    needs_one_port: ClassVar[bool] = False
    scheduled: ClassVar[bool] = True
    collective: ClassVar[bool] = False
    in_turn: ClassVar[bool] = False
    understands: ClassVar[tuple[str, ...]] = tuple(BUFFERS)

    def __init__(
        self,
        sends: Sequence[Message],
        receives: Sequence[Message],
        copies: Sequence[Message],
        memory_limit: int,
        buffers: str = "packed",
        node: Node | None = None,
    ) -> None:
        # Sender and receiver sort alike, by (key, sender, receiver): the one global order that the proofs rest on.
        self.sends, self.receives = (
            tuple(sorted(some, key=lambda one: (one.key, one.peer))) for some in (sends, receives)
        )
        self.copies = tuple(copies)
        self.memory_limit = memory_limit
        self.buffers = BUFFERS[buffers]()
        both = (*self.sends, *self.receives)
        self.extents = Extents(
            messages=max(len(self.sends), len(self.receives)),
            elements=max((one.size for one in both), default=0),
            partial=any(one.size != one.box.size for one in both),
            unbalanced=len(self.sends) != len(self.receives),
            between=0 if node is None else node.size * max(_away(self.sends, node), _away(self.receives, node)),
        )
        self._made: dict[int, Any] = {}

    def tune(self, piece: int, window: int) -> None:  # noqa: B027 (most have no window)
        """Send at most so many pieces at a time, of so many bytes, between nodes; before the first run. Not collective."""

    def settle(self, extents: Extents) -> None:
        """Take the largest extents of all ranks; before the first run. Not collective: equal on all ranks.

        Raises
        ------
        ScheduleError
            These buffers cannot hold such messages.
        """
        if extents.partial and self.buffers.name == "datatypes":
            raise ScheduleError(
                "buffers = 'datatypes' describes all that two processes share as one datatype, but this schedule has the pair "
                "in several steps, with a part in each: use buffers='packed', or a schedule that has each pair once, "
                "such as 'caterpillar'"
            )
        self.extents = extents

    @abstractmethod
    def staging_bytes(self, item: int) -> int:
        """Staging memory of one run with elements of `item` bytes. Not collective."""

    def private_bytes(self, item: int) -> int:
        """The part of it that each run takes for itself. Not collective."""
        return self.staging_bytes(item)

    def compiled(self, run: Run) -> Traffic | None:
        """All of the run as one compiled piece, where it is one. Not collective."""
        return None

    def repeat(self, run: Run, tag: int) -> Repeat | None:
        """Runs with such arrays, kept ready under a tag of their own; None where that is not for all ranks. Not collective."""
        return None

    @abstractmethod
    def begin(self, run: Run) -> Progress:
        """Start moving. Collective over the participants, as far as they have messages for one another."""


def _away(messages: Sequence[Message], node: Node) -> int:
    """Elements of messages to or from other nodes."""
    return sum(one.size for one in messages if one.peer not in node.number)


class Progress(ABC):
    """A transfer under way. The local copies are done here, between the messages."""

    def __init__(self, exchange: Exchange, run: Run) -> None:
        self.run = run
        self.buffers = exchange.buffers
        self._copies = pieces_of(exchange.copies, run.item, COPY_PIECE)[::-1]

    @abstractmethod
    def advance(self, block: bool) -> bool:
        """Do what can be done now, or all of it if `block`; True when the transfer is complete."""

    def next_finished(self, requests: list[MPI.Request], block: bool) -> int | None:
        """Number of a request that has finished; local copies are made meanwhile. None if it has to wait and may not."""
        from mpi4py import MPI

        looks = 0
        while True:
            number, done = MPI.Request.Testany(requests)
            if done:
                return number
            copied = self.copy_piece()
            if not block:
                return None
            looks += not copied
            if looks > LOOKS:
                os.sched_yield()

    def copy_piece(self) -> bool:
        """Copy one piece from the local A to the local B; False when none is left."""
        if not self._copies:
            return False
        piece, run = self._copies.pop(), self.run
        start = time.perf_counter()
        box = piece.message.box
        box.move(*run.source, *run.target, run.item, run.order, piece.first, piece.last, blend=run.blend)
        run.note("copied", start)
        return True

    def copy_all(self) -> bool:
        """Copy what is left; True, for the end of `advance`."""
        while self.copy_piece():
            pass
        return True
