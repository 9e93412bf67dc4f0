"""Messages in elements and in bytes, their pieces, and the buffers and datatypes that MPI gets."""

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
    """One use of an exchange: its arrays, tag and staging buffer.

    `collectives` is a communicator for runs that go one after another, in the same order on all ranks. `addresses` are those of
    A and B if there is one pair of arrays. `spent`, if not None, gets the seconds "packed", "copied" and "unpacked".
    `other_order` returns the same exchange for the other order of elements.
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
        """`collectives`, which a plan makes for a `collective` exchange."""
        if self.collectives is None:
            raise RuntimeError(
                "an exchange makes collective calls but is not declared `collective`: its plan has no communicator for them"
            )
        return self.collectives

    def add_time(self, part: str, start: float) -> None:
        """Add the time since `start` to a part of `spent`, if that is not None."""
        if self.spent is not None:
            self.spent[part] += time.perf_counter() - start


class Boxes(NamedTuple):
    """Boxes of several local arrays, concatenated.

    Attributes
    ----------
    parts : tuple of (int, Box)
        The number of the arrays of each box among those of its move (`Move.arrays`), and the box.
    size : int
        Number of elements.
    """

    parts: tuple[tuple[int, Box], ...]
    size: int


class Message(NamedTuple):
    """The elements that one process owes another in one step: all of them, in most schedules.

    Attributes
    ----------
    peer : int
        Rank of the other process in the group.
    box : Box or Boxes
        All elements that the two share: a move from the local array to a dense buffer in a message to send, from the buffer in
        one to receive, between local arrays in a copy.
    key : tuple of int
        Place in the schedule, the same for sender and receiver.
    first, last : int
        The range of the box's elements in this step.
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
        Place in the schedule, the same for sender and receiver.
    bundle : Bundle
        All elements that the two processes share, numbered by bytes.
    first, last : int
        The range of the bundle's bytes in this step.
    form : Form or None
        The elements as one box, if they belong to one array.
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
    """Bytes `first` to `last` of a message's bundle, with `nbytes` of staging buffer; `number` counts the message's pieces."""

    message: ByteMessage
    first: int
    last: int
    nbytes: int
    number: int


def cut_pieces(messages: Iterable[ByteMessage], most: int) -> list[Piece]:
    """Cut messages between elements, in order, into pieces of at most `most` bytes (but at least an element)."""
    pieces = []
    for message in messages:
        first, number = message.first, 0
        while first < message.last:
            last = min(message.bundle.end_of_piece(first, most), message.last)
            pieces.append(Piece(message, first, last, last - first, number))
            first, number = last, number + 1
    return pieces


def box_type(box: Box, target: bool, strides: Sequence[int], item: int, order: Sequence[int]) -> MPI.Datatype:
    """The committed datatype of a box in its source or target array; the caller frees it.

    Dimensions are nested: vectors of vectors (Walker & Otto, Figs 2 and 3). The size of a type is proportional to the runs of
    one period, not to its elements. Sender and receiver list elements in the same order.

    Parameters
    ----------
    target : bool
        Whether it is the target's side of the box.
    strides : sequence of int
        Strides of that side's array, in bytes; displacements count from its element (0, 0, ...).
    item : int
        Bytes of an element.
    order : sequence of int
        Dimensions from the fastest to the slowest.
    """
    builder = _TypeBuilder()
    try:
        datatype = builder.element(item)
        for k in order:
            datatype = builder.dimension(datatype, box.runs[k], target, strides[k])
        return builder.take(datatype).Commit()
    finally:
        builder.free()


class _TypeBuilder:
    """Builds the datatype of a box from that of an element; intermediate types are freed at the end."""

    def __init__(self) -> None:
        self._intermediate: list[MPI.Datatype] = []

    def _keep(self, datatype: MPI.Datatype) -> MPI.Datatype:
        self._intermediate.append(datatype)
        return datatype

    def take(self, datatype: MPI.Datatype) -> MPI.Datatype:
        """Leave a type to the caller."""
        self._intermediate.remove(datatype)
        return datatype

    def free(self) -> None:
        """Free all other types."""
        for datatype in self._intermediate:
            datatype.Free()

    def element(self, item: int) -> MPI.Datatype:
        return self._keep(MPI.BYTE.Create_contiguous(item))

    def dimension(self, oldtype: MPI.Datatype, runs: Runs, target: bool, stride: int) -> MPI.Datatype:
        """`oldtype` at every position of `runs`: whole periods and a rest."""
        table = runs.side(target)
        period = (runs.period_y if target else runs.period_x) * stride
        whole, rest = divmod(runs.total, runs.per_period)
        parts = []
        if whole:
            parts.append((0, self.repeated(self.period(oldtype, table, stride), whole, period)))
        if rest:
            before = np.cumsum(table[:, 2]) - table[:, 2]
            rows = table[before < rest]
            rows[-1, 2] = rest - before[len(rows) - 1]
            parts.append((whole * period, self.period(oldtype, rows, stride)))
        return self.placed(parts)

    def period(self, oldtype: MPI.Datatype, table: NDArray[np.int64], stride: int) -> MPI.Datatype:
        """`oldtype` at the runs of a table with rows start, step, count."""
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
        if stride == -1:  # single bytes: Open MPI 4.1 would read them forwards
            pair = self._keep(oldtype.Create_hindexed_block(1, [0, -1]))
            pairs = [(0, self.repeated(pair, count // 2, -2))]
            return self.placed([*pairs, (1 - count, oldtype)] if count % 2 else pairs)
        if count <= LARGEST_COUNT:
            if stride == oldtype.extent:  # MPICH copies a vector element by element, even without gaps
                return self._keep(oldtype.Create_contiguous(count))
            return self._keep(oldtype.Create_hvector(count, 1, stride))
        many, rest = divmod(count, LARGEST_COUNT)
        part = self.repeated(oldtype, LARGEST_COUNT, stride)
        parts = [(0, self.repeated(part, many, LARGEST_COUNT * stride))]
        if rest:
            parts.append((many * LARGEST_COUNT * stride, self.repeated(oldtype, rest, stride)))
        return self.placed(parts)

    def placed(self, parts: Sequence[tuple[int, MPI.Datatype]]) -> MPI.Datatype:
        """Types at displacements in bytes: a vector if they are equal and equidistant."""
        first, datatype = parts[0]
        if len(parts) == 1:
            return datatype if first == 0 else self._keep(datatype.Create_hindexed_block(1, [first]))
        displacements = [displacement for displacement, _ in parts]
        if any(other is not datatype for _, other in parts):
            return self._keep(MPI.Datatype.Create_struct([1] * len(parts), displacements, [other for _, other in parts]))
        step = displacements[1] - first
        if all(b - a == step for a, b in itertools.pairwise(displacements)):
            return self.placed([(first, self.repeated(datatype, len(parts), step))])
        return self._keep(datatype.Create_hindexed_block(1, displacements))


class Slot(NamedTuple):
    """A part of the staging buffer, and its address."""

    memory: memoryview
    address: int


def cut_slots(staging: np.ndarray, sizes: Iterable[int]) -> list[Slot]:
    """Cut the staging buffer into slots of the given sizes in bytes."""
    memory, offset = memoryview(staging), 0  # type: ignore[arg-type]
    base = address_of(staging)
    slots = []
    for size in sizes:
        slots.append(Slot(memory[offset : offset + size], base + offset))
        offset += size
    return slots


class Buffers(ABC):
    """The form in which MPI gets a piece: packed in a staging buffer, or as a derived datatype of the user's array."""

    name: ClassVar[str]

    @functools.cached_property
    def byte(self) -> Any:
        """The type of packed elements."""
        return MPI.BYTE

    @abstractmethod
    def cut(self, messages: Sequence[ByteMessage], most: int) -> tuple[list[Piece], int]:
        """Cut messages into pieces of at most `most` bytes of staging buffer; also the bytes of the largest."""

    @abstractmethod
    def outgoing(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """Prepare a piece for sending."""

    @abstractmethod
    def incoming(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """The buffer for receiving a piece."""

    @abstractmethod
    def arrived(self, run: Run, piece: Piece, slot: Slot) -> None:
        """Move a received piece to its place in B."""

    @abstractmethod
    def origin(self, run: Run, target: bool, first: Slot) -> int:
        """The address from which a collective call counts displacements; `first` is the first slot."""


class Packed(Buffers):
    """Elements are packed into staging buffers and unpacked from them by our own loops."""

    name: ClassVar[str] = "packed"

    def cut(self, messages: Sequence[ByteMessage], most: int) -> tuple[list[Piece], int]:
        """Cut messages into pieces of at most `most` bytes (but at least an element); also the bytes of the largest."""
        pieces = cut_pieces(messages, most)
        return pieces, max((piece.nbytes for piece in pieces), default=0)

    def outgoing(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """Pack a piece from the local A."""
        start = time.perf_counter()
        piece.message.bundle.move(run.origins, slot.address, piece.first, piece.last)
        run.add_time("packed", start)
        return slot.memory, piece.nbytes, self.byte

    def incoming(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """The slot of a piece."""
        return slot.memory, piece.nbytes, self.byte

    def arrived(self, run: Run, piece: Piece, slot: Slot) -> None:
        """Unpack a piece into the local B."""
        start = time.perf_counter()
        piece.message.bundle.move(run.origins, slot.address, piece.first, piece.last)
        run.add_time("unpacked", start)

    def origin(self, run: Run, target: bool, first: Slot) -> int:
        """The address of the first slot."""
        return first.address


class Datatypes(Buffers):
    """MPI packs and unpacks by derived datatypes: without staging buffers, each message in one piece.

    Types are committed at their first use and freed with this object, a local operation.
    """

    name: ClassVar[str] = "datatypes"

    def __init__(self) -> None:
        self._types: dict[tuple[Any, ...], MPI.Datatype] = {}
        weakref.finalize(self, _free, self._types)

    def cut(self, messages: Sequence[ByteMessage], most: int) -> tuple[list[Piece], int]:
        """One piece for each message, without staging buffer."""
        return [Piece(message, message.first, message.last, 0, 0) for message in messages], 0

    def outgoing(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """The message in the local A."""
        return memory_at(run.addresses[0]), 1, self.datatype(piece.message, target=False)

    def incoming(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """The message in the local B."""
        return memory_at(run.addresses[1]), 1, self.datatype(piece.message, target=True)

    def arrived(self, run: Run, piece: Piece, slot: Slot) -> None:
        """Nothing: MPI has moved the piece to its place."""

    def origin(self, run: Run, target: bool, first: Slot) -> int:
        """The address of the local A or the local B."""
        return run.addresses[target]

    def datatype(self, message: ByteMessage, target: bool) -> MPI.Datatype:
        """The datatype of a message in the local A or the local B."""
        if message.form is None:
            raise RuntimeError("a message of several boxes has no datatype: such plans refuse buffers='datatypes'")
        box, strides, item, order = message.form
        # the agreed order may differ from the one that a run began with
        key = message.peer, message.key, target, strides, item, order
        if key not in self._types:
            self._types[key] = box_type(box, target, strides, item, order)
        return self._types[key]


def memory_at(address: int) -> MPI.buffer:
    """A buffer at an address; counts and datatypes determine its extent."""
    return MPI.buffer.fromaddress(address, 0)


def _free(types: dict[tuple[Any, ...], MPI.Datatype]) -> None:
    """Free datatypes, a local operation; operations in flight with them continue."""
    if not MPI.Is_finalized():
        for datatype in types.values():
            datatype.Free()


BUFFERS: dict[str, type[Buffers]] = {buffers.name: buffers for buffers in (Packed, Datatypes)}
