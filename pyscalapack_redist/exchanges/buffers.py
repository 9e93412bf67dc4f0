"""Where the bytes of a message are while MPI has them: packed in staging memory, or in the user's arrays, which MPI reads
and writes by derived datatypes.
"""

from __future__ import annotations

import functools
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from .._kernels.bundle import address_of
from ..comm.mpi import MPI
from .datatypes import box_type
from .message import ByteMessage, Piece, pieces_of

if TYPE_CHECKING:
    from .exchange import Run

__all__ = ["BUFFERS", "Buffers", "Datatypes", "Packed", "Slot", "Specification", "memory_at", "slots"]

Specification = tuple[Any, int, Any]


class Slot(NamedTuple):
    """A part of the staging memory, and its address."""

    memory: memoryview
    address: int


def slots(staging: np.ndarray, sizes: Iterable[int]) -> list[Slot]:
    """Staging memory cut into slots of the given sizes in bytes."""
    memory, at = memoryview(staging), 0  # type: ignore[arg-type]
    base = address_of(staging)
    made = []
    for size in sizes:
        made.append(Slot(memory[at : at + size], base + at))
        at += size
    return made


class Buffers(ABC):
    """How a piece of a message is given to MPI."""

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
        pieces = pieces_of(messages, most)
        return pieces, max((piece.nbytes for piece in pieces), default=0)

    def outgoing(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """Gather a piece out of the local A. Not collective."""
        began = time.perf_counter()
        piece.message.bundle.move(run.origins, slot.address, piece.first, piece.last)
        run.note("packed", began)
        return slot.memory, piece.nbytes, self.byte

    def incoming(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """Staging memory for a piece. Not collective."""
        return slot.memory, piece.nbytes, self.byte

    def arrived(self, run: Run, piece: Piece, slot: Slot) -> None:
        """Scatter a piece into the local B. Not collective."""
        began = time.perf_counter()
        piece.message.bundle.move(run.origins, slot.address, piece.first, piece.last)
        run.note("unpacked", began)

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
