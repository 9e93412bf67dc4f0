"""Messages as planned in elements and as sent in bytes, their pieces, and their bytes as MPI has them."""

from __future__ import annotations

import functools
import itertools
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.boxes import Box
from .._kernels.bundle import Bundle, Origins, address_of
from .._kernels.runs import Runs
from ..comm.channel import Channel
from ..comm.mpi import MPI

# Bytes in one message, or in one round of a collective: counts and displacements are 32-bit in MPI 3.
LARGEST_COUNT = 2**30
Specification = tuple[Any, int, Any]


@dataclass
class Run:
    """One use of an exchange: where the arrays begin, the tag of its messages and staging memory.

    `collectives` is a communicator on which runs come one after another, in the same order on all ranks; `addresses` are
    those of A and B, where there is one pair of arrays; `spent` is to have the seconds "packed", "copied" and "unpacked", if
    anybody wants to know; `other_order` gives the same exchange for elements in the other order.
    """

    channel: Channel
    collectives: MPI.Intracomm | None
    tag: int
    origins: Origins
    addresses: tuple[int, int]
    staging: np.ndarray
    spent: dict[str, float] | None
    other_order: Callable[[], Any]

    @property
    def comm(self) -> MPI.Intracomm:
        """`collectives`, which a plan makes for an exchange that is `collective`. Not collective."""
        if self.collectives is None:
            raise RuntimeError(
                "collective calls of an exchange that does not say so: its plan has no communicator for them"
            )
        return self.collectives

    def add_time(self, part: str, start: float) -> None:
        """Add the time since `start` to a part, where somebody asked for it. Not collective."""
        if self.spent is not None:
            self.spent[part] += time.perf_counter() - start


class Boxes(NamedTuple):
    """Boxes of several local arrays, one behind another, as one.

    Attributes
    ----------
    parts : tuple of (int, Box)
        Each box, and the number of its arrays among those of its move (`Move.arrays`).
    size : int
        Number of elements.
    """

    parts: tuple[tuple[int, Box], ...]
    size: int


class Message(NamedTuple):
    """What one process owes another in one step: all of it, in most schedules.

    Attributes
    ----------
    peer : int
        Rank of the other process in the group.
    box : Box or Boxes
        All elements that the two share: from the local array to a dense buffer in a message to send, the other way in
        one to receive, between local arrays in a copy.
    key : tuple of int
        Place in the schedule; the same for sender and receiver.
    first, last : int
        The part of the box's elements that goes in this step.
    """

    peer: int
    box: Box | Boxes
    key: tuple[int, ...]
    first: int
    last: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.last - self.first


class Form(NamedTuple):
    """The elements of a message in the user's array, for a derived datatype."""

    box: Box
    strides: tuple[int, ...]
    item: int
    order: tuple[int, ...]


class ByteMessage(NamedTuple):
    """A message for arrays of one kind.

    Attributes
    ----------
    peer : int
        Rank of the other process in the group.
    key : tuple of int
        Place in the schedule; the same for sender and receiver.
    bundle : Bundle
        All that the two processes share, numbered by bytes.
    first, last : int
        The part of the bundle's bytes that goes in this step.
    form : Form or None
        The same elements as one box, where they are of one array.
    """

    peer: int
    key: tuple[int, ...]
    bundle: Bundle
    first: int
    last: int
    form: Form | None

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.last - self.first


class Piece(NamedTuple):
    """Bytes `first` to `last` of a message's bundle, and the staging memory for them; `number` counts the message's pieces."""

    message: ByteMessage
    first: int
    last: int
    nbytes: int
    number: int


def cut_pieces(messages: Iterable[ByteMessage], most: int) -> list[Piece]:
    """Messages, in their order, cut between elements into pieces of at most `most` bytes (but at least an element)."""
    made = []
    for message in messages:
        first, number = message.first, 0
        while first < message.last:
            last = min(message.bundle.end_of_piece(first, most), message.last)
            made.append(Piece(message, first, last, last - first, number))
            first, number = last, number + 1
    return made


def box_type(box: Box, target: bool, strides: Sequence[int], item: int, order: Sequence[int]) -> MPI.Datatype:
    """The elements of a box in its source or in its target array, committed; the caller frees it. Not collective.

    One dimension is inside the other: vectors of vectors (Walker & Otto, Figs 2 and 3). A type is as large as the runs of one
    period, not as its elements. Sender and receiver list elements in the same order.

    Parameters
    ----------
    target : bool
        Which side of the box.
    strides : sequence of int
        Of that side's array, in bytes; displacements are from its element (0, 0, ...).
    item : int
        Bytes of an element.
    order : sequence of int
        Dimensions from the fastest running to the slowest.
    """
    steps = _TypeBuilder()
    try:
        made = steps.element(item)
        for k in order:
            made = steps.dimension(made, box.runs[k], target, strides[k])
        return steps.take(made).Commit()
    finally:
        steps.free()


class _TypeBuilder:
    """The types from an element to a box, each made of those before; they may be freed once the last is made."""

    def __init__(self) -> None:
        self._made: list[MPI.Datatype] = []

    def _keep(self, datatype: MPI.Datatype) -> MPI.Datatype:
        self._made.append(datatype)
        return datatype

    def take(self, datatype: MPI.Datatype) -> MPI.Datatype:
        """Leave this one to the caller."""
        self._made.remove(datatype)
        return datatype

    def free(self) -> None:
        """Free all others."""
        for datatype in self._made:
            datatype.Free()

    def element(self, item: int) -> MPI.Datatype:
        return self._keep(MPI.BYTE.Create_contiguous(item))

    def dimension(self, oldtype: MPI.Datatype, runs: Runs, target: bool, stride: int) -> MPI.Datatype:
        """`oldtype` at every position of `runs`: whole periods, and what is left of the last."""
        table = runs.side(target)
        period = (runs.period_y if target else runs.period_x) * stride
        whole, rest = divmod(runs.total, runs.per_period)
        parts = []
        if whole:
            parts.append((0, self.repeated(self.period(oldtype, table, stride), whole, period)))
        if rest:
            before = np.cumsum(table[:, 2]) - table[:, 2]
            some = table[before < rest]
            some[-1, 2] = rest - before[len(some) - 1]
            parts.append((whole * period, self.period(oldtype, some, stride)))
        return self.placed(parts)

    def period(self, oldtype: MPI.Datatype, table: NDArray[np.int64], stride: int) -> MPI.Datatype:
        """Runs given as rows start, step, count."""
        kinds: dict[tuple[int, int], MPI.Datatype] = {}
        parts = []
        for start, step, count in table.tolist():
            if (step, count) not in kinds:
                kinds[step, count] = self.repeated(oldtype, count, step * stride)
            parts.append((start * stride, kinds[step, count]))
        return self.placed(parts)

    def repeated(self, oldtype: MPI.Datatype, count: int, stride: int) -> MPI.Datatype:
        """A vector: `oldtype` at equal distances in bytes."""
        if count == 1:
            return oldtype
        if stride == -1:  # single bytes, which Open MPI 4.1 would read forwards
            pair = self._keep(oldtype.Create_hindexed_block(1, [0, -1]))
            pairs = [(0, self.repeated(pair, count // 2, -2))]
            return self.placed([*pairs, (1 - count, oldtype)] if count % 2 else pairs)
        if count <= LARGEST_COUNT:
            if stride == oldtype.extent:  # said so: MPICH copies a vector element by element, even one without gaps
                return self._keep(oldtype.Create_contiguous(count))
            return self._keep(oldtype.Create_hvector(count, 1, stride))
        many, rest = divmod(count, LARGEST_COUNT)
        part = self.repeated(oldtype, LARGEST_COUNT, stride)
        parts = [(0, self.repeated(part, many, LARGEST_COUNT * stride))]
        if rest:
            parts.append((many * LARGEST_COUNT * stride, self.repeated(oldtype, rest, stride)))
        return self.placed(parts)

    def placed(self, parts: Sequence[tuple[int, MPI.Datatype]]) -> MPI.Datatype:
        """Types at displacements in bytes: a vector where they are alike at equal distances."""
        first, datatype = parts[0]
        if len(parts) == 1:
            return datatype if first == 0 else self._keep(datatype.Create_hindexed_block(1, [first]))
        places = [place for place, _ in parts]
        if any(other is not datatype for _, other in parts):
            return self._keep(MPI.Datatype.Create_struct([1] * len(parts), places, [other for _, other in parts]))
        step = places[1] - first
        if all(b - a == step for a, b in itertools.pairwise(places)):
            return self.placed([(first, self.repeated(datatype, len(parts), step))])
        return self._keep(datatype.Create_hindexed_block(1, places))


class Slot(NamedTuple):
    """A part of the staging memory, and its address."""

    memory: memoryview
    address: int


def cut_slots(staging: np.ndarray, sizes: Iterable[int]) -> list[Slot]:
    """Staging memory cut into slots of the given sizes in bytes."""
    memory, at = memoryview(staging), 0  # type: ignore[arg-type]
    base = address_of(staging)
    made = []
    for size in sizes:
        made.append(Slot(memory[at : at + size], base + at))
        at += size
    return made


class Buffers(ABC):
    """How a piece of a message is given to MPI: packed in staging memory, or as derived datatypes of the users' arrays."""

    name: ClassVar[str]

    @functools.cached_property
    def byte(self) -> Any:
        """The type of packed elements."""
        return MPI.BYTE

    @abstractmethod
    def cut(self, messages: Sequence[ByteMessage], most: int) -> tuple[list[Piece], int]:
        """Pieces of at most `most` bytes of staging memory, and the bytes that the largest needs. Not collective."""

    @abstractmethod
    def outgoing(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """What to send, made ready. Not collective."""

    @abstractmethod
    def incoming(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """What to receive into. Not collective."""

    @abstractmethod
    def arrived(self, run: Run, piece: Piece, slot: Slot) -> None:
        """Bring what was received to where it belongs. Not collective."""

    @abstractmethod
    def origin(self, run: Run, target: bool, first: Slot) -> int:
        """Address from which a collective call counts, given the first of the slots. Not collective."""


class Packed(Buffers):
    """Elements are gathered into staging memory and scattered out of it by our own loops."""

    name: ClassVar[str] = "packed"

    def cut(self, messages: Sequence[ByteMessage], most: int) -> tuple[list[Piece], int]:
        """Pieces of at most `most` bytes (but at least an element), and the bytes of the largest. Not collective."""
        pieces = cut_pieces(messages, most)
        return pieces, max((piece.nbytes for piece in pieces), default=0)

    def outgoing(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """Gather a piece out of the local A. Not collective."""
        began = time.perf_counter()
        piece.message.bundle.move(run.origins, slot.address, piece.first, piece.last)
        run.add_time("packed", began)
        return slot.memory, piece.nbytes, self.byte

    def incoming(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """Staging memory for a piece. Not collective."""
        return slot.memory, piece.nbytes, self.byte

    def arrived(self, run: Run, piece: Piece, slot: Slot) -> None:
        """Scatter a piece into the local B. Not collective."""
        began = time.perf_counter()
        piece.message.bundle.move(run.origins, slot.address, piece.first, piece.last)
        run.add_time("unpacked", began)

    def origin(self, run: Run, target: bool, first: Slot) -> int:
        """That of the first slot. Not collective."""
        return first.address


class Datatypes(Buffers):
    """MPI itself gathers and scatters, by derived datatypes: no staging memory of ours, and a message goes whole.

    Types are committed when first needed and freed with this object, which is a local operation.
    """

    name: ClassVar[str] = "datatypes"

    def __init__(self) -> None:
        self._types: dict[tuple[Any, ...], MPI.Datatype] = {}
        weakref.finalize(self, _free, self._types)

    def cut(self, messages: Sequence[ByteMessage], most: int) -> tuple[list[Piece], int]:
        """Whole messages, which need no staging memory. Not collective."""
        return [Piece(message, message.first, message.last, 0, 0) for message in messages], 0

    def outgoing(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """The message in the local A. Not collective."""
        return memory_at(run.addresses[0]), 1, self.datatype(piece.message, target=False)

    def incoming(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """The message in the local B. Not collective."""
        return memory_at(run.addresses[1]), 1, self.datatype(piece.message, target=True)

    def arrived(self, run: Run, piece: Piece, slot: Slot) -> None:
        """It is where it belongs. Not collective."""

    def origin(self, run: Run, target: bool, first: Slot) -> int:
        """That of the local A or the local B. Not collective."""
        return run.addresses[target]

    def datatype(self, message: ByteMessage, target: bool) -> MPI.Datatype:
        """The datatype of a message in the local A, or in the local B. Not collective."""
        if message.form is None:
            raise RuntimeError("a datatype of several boxes: such plans are refused buffers='datatypes'")
        box, strides, item, order = message.form
        # a run may begin in one order and go in the other
        key = message.peer, message.key, target, strides, item, order
        if key not in self._types:
            self._types[key] = box_type(box, target, strides, item, order)
        return self._types[key]


def memory_at(address: int) -> MPI.buffer:
    """Memory that starts there; how far it goes is for counts and datatypes to say. Not collective."""
    return MPI.buffer.fromaddress(address, 0)


def _free(types: dict[tuple[Any, ...], MPI.Datatype]) -> None:
    """Free datatypes: a local operation, and what is under way with them goes on."""
    if not MPI.Is_finalized():
        for datatype in types.values():
            datatype.Free()


BUFFERS: dict[str, type[Buffers]] = {buffers.name: buffers for buffers in (Packed, Datatypes)}
