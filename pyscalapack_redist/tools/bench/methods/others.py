"""What others do: plain mpi4py and NumPy, and what moves as many bytes and changes no layout.

Through one rank: each rank sends its local array to rank 0, which puts it into the whole array by its global indices; then
back the same way. Or by whole messages packed side by side, one call that moves them all, then unpacked: packing is this
package's own, which few programs have, so that only the moving differs; nothing is overlapped, and buffers hold all.

memcpy says what reading and writing these bytes once costs; MPI's collectives (Walker & Otto, Table 1), what the machine
takes for bulk messages of that size.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...._kernels.boxes import Box
from ...._kernels.bundle import address_of, dense_strides
from ....comm.mpi import MPI
from ....engine.planner import messages_of
from ....errors import ArrayError
from ....exchanges import Message
from ....schedules.orders import Natural
from ...cases import Case
from ..stage import Part, Stage, bytes_of, poison
from .method import Method, Prepared

__all__ = ["OTHERS", "Alltoallv", "Whole", "WholeMessages"]

ROOT = 0  # through which all goes
LIMIT = 2**31  # of what MPI counts
Place = tuple[int, tuple[int, ...]]  # address and strides in bytes of a local array


# -- through one rank


class GatherScatter(Prepared):
    """The indices, and rank 0's memory for the whole array, are made once and reused.

    All arrays are seen transposed: local arrays in Fortran order are sent and received as they lie in memory.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        case, comm = stage.case, stage.comm
        self._element = MPI.BYTE.Create_contiguous(case.dtype.itemsize).Commit()
        self._mine, self._wanted = (
            None if part is None or not part.size else part.T for part in (stage.part_of_a, stage.part_of_b)
        )
        self._whole: NDArray[Any] | None = None
        if comm.Get_rank() == ROOT:
            self._places = [
                [
                    (rank, np.ix_(*reversed(part.indices)))  # where its elements are in the whole array, transposed
                    for rank in range(comm.Get_size())
                    if (part := Part(case, side, rank)).elements
                ]
                for side in (case.before, case.after)
            ]
            self._whole = np.empty(case.shape[::-1], case.dtype)
            pieces = (math.prod(index.size for index in place) for side in self._places for _, place in side)
            self.extra_bytes = self._whole.nbytes + self._whole.dtype.itemsize * max(pieces, default=0)
        else:
            both = (self._mine, self._wanted)
            copied = [array.nbytes for array in both if array is not None and not array.flags.c_contiguous]
            self.extra_bytes = max(copied, default=0)

    def __call__(self) -> None:
        if self._whole is not None:
            self._through_here(self._whole)
            return
        if self._mine is not None:
            self._send(self._mine, ROOT)
        if self._wanted is not None:
            room = self._wanted if self._wanted.flags.c_contiguous else np.empty_like(self._wanted, order="C")
            self._receive(room, ROOT)
            if room is not self._wanted:
                self._wanted[...] = room

    def _through_here(self, whole: NDArray[Any]) -> None:
        senders, receivers = self._places
        for rank, place in senders:
            if rank == ROOT:
                whole[place] = self._mine
                continue
            came = np.empty([index.size for index in place], whole.dtype)
            self._receive(came, rank)
            whole[place] = came
        for rank, place in receivers:
            if rank != ROOT:
                self._send(whole[place], rank)
            elif self._wanted is not None:
                self._wanted[...] = whole[place]

    def _send(self, array: NDArray[Any], rank: int) -> None:
        array = np.ascontiguousarray(array)
        self.stage.comm.Send([bytes_of(array), array.size, self._element], rank)

    def _receive(self, array: NDArray[Any], rank: int) -> None:
        self.stage.comm.Recv([bytes_of(array), array.size, self._element], rank)

    def close(self) -> None:
        self._element.Free()
        self._whole = None


# -- whole messages


class WholeMessages:
    """Messages side by side, by the other process's rank: of each rank its bytes, and where they start.

    `parts` has each message, the address of its part of the memory, and this part.
    """

    def __init__(self, messages: Sequence[Message], item: int, ranks: int) -> None:
        self.counts = [0] * ranks
        for message in messages:
            self.counts[message.peer] = message.size * item
        self.starts = np.cumsum([0, *self.counts]).tolist()[:-1]
        self.memory: NDArray[np.uint8] = np.empty(max(1, sum(self.counts)), np.uint8)
        parts = [self.memory[self.starts[message.peer] :][: self.counts[message.peer]] for message in messages]
        self.parts = [(message, part.ctypes.data, part) for message, part in zip(messages, parts, strict=True)]


def _box(message: Message) -> Box:
    """What two processes share between descriptors, which is always one box."""
    assert isinstance(message.box, Box)
    return message.box


class Whole(Prepared):
    """Packing and unpacking, which all ways with whole messages have in common.

    Attributes
    ----------
    outgoing, incoming : WholeMessages
        What this rank sends, and what it receives.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        case, comm = stage.case, stage.comm
        self._item = case.dtype.itemsize
        dims = range(len(case.shape))
        self._order = tuple(dims if case.before.order == "F" else reversed(dims))
        ranks = {rank: rank for rank in range(comm.Get_size())}
        sends, receives, copies = messages_of(stage.desc_a, stage.desc_b, comm.Get_rank(), ranks, Natural((), ()))
        self.outgoing, self.incoming = (
            WholeMessages(messages, self._item, len(ranks)) for messages in (sends, receives)
        )
        self._copies = copies
        self._source, self._target = _place(stage.a), _place(stage.out)
        self.extra_bytes = sum(self.outgoing.counts) + sum(self.incoming.counts)

    def _move(self, message: Message, source: Place, target: Place) -> None:
        _box(message).move(*source, *target, self._item, self._order, message.first, message.last)

    def _dense(self, message: Message, address: int) -> Place:
        return address, dense_strides(_box(message).shape(), self._order, self._item)

    def _pack(self, message: Message, address: int) -> None:
        self._move(message, self._source, self._dense(message, address))

    def pack(self) -> None:
        """Pack every message. Not collective."""
        for message, address, _ in self.outgoing.parts:
            self._pack(message, address)

    def unpack_and_copy(self) -> None:
        """Unpack every message, and copy what the rank owes itself. Not collective."""
        for message, address, _ in self.incoming.parts:
            self._move(message, self._dense(message, address), self._target)
        for message in self._copies:
            self._move(message, self._source, self._target)


class Waitall(Whole):
    """All Irecv and Isend at once, then Waitall."""

    def __call__(self) -> None:
        comm = self.stage.comm
        requests = [comm.Irecv(memory, message.peer) for message, _, memory in self.incoming.parts]
        for message, address, memory in self.outgoing.parts:
            self._pack(message, address)
            requests.append(comm.Isend(memory, message.peer))
        MPI.Request.Waitall(requests)
        self.unpack_and_copy()


class Alltoallv(Whole):
    """One blocking Alltoallv of bytes."""

    def __call__(self) -> None:
        self.pack()
        self.exchange()
        self.unpack_and_copy()

    def exchange(self) -> None:
        """Move the packed messages. Collective."""
        sent, received = (
            (side.memory, (side.counts, side.starts), MPI.BYTE) for side in (self.outgoing, self.incoming)
        )
        self.stage.comm.Alltoallv(sent, received)


def _place(array: NDArray[np.generic] | None) -> Place:
    return (0, ()) if array is None else (address_of(array), array.strides)


# -- as many bytes


class Memcpy(Prepared):
    """The C library's memcpy of what moves of each rank's local A: all ranks at once, a sub-array as one piece."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        part = np.empty(0) if stage.part_of_a is None else stage.part_of_a
        self._source: NDArray[Any] = part if part.flags.c_contiguous else np.asfortranarray(part)
        self._copy = np.empty_like(self._source)
        where = (ctypes.c_void_p(array.ctypes.data) for array in (self._copy, self._source))
        self.extra_bytes = 0
        self._memcpy = functools.partial(ctypes.CDLL(None).memcpy, *where, ctypes.c_size_t(part.nbytes))
        self.poison()

    def __call__(self) -> None:
        self._memcpy()

    def poison(self) -> None:
        poison(self._copy)

    def correct(self) -> bool:
        return np.array_equal(bytes_of(self._source), bytes_of(self._copy))


class Broadcast(Prepared):
    """MPI_Bcast of the first process's local A to all."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._root = stage.case.before.first
        size = stage.comm.bcast(0 if stage.a is None else stage.a.nbytes, root=self._root)
        self._is_root = stage.comm.Get_rank() == self._root
        self._buffer = _by_columns(stage.a).copy() if self._is_root else np.empty(size, np.uint8)
        self.extra_bytes = self._buffer.size

    def __call__(self) -> None:
        self.stage.comm.Bcast(self._buffer, root=self._root)

    def poison(self) -> None:
        if not self._is_root:
            poison(self._buffer)

    def correct(self) -> bool:
        case = self.stage.case
        return np.array_equal(self._buffer, _by_columns(Part(case, case.before, self._root).filled()))


class AllToAll(Prepared):
    """MPI_Alltoall in which each process deals out its local A in equal parts to all.

    Raises
    ------
    ArrayError
        A rank has fewer elements than there are ranks.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        size, item = stage.comm.Get_size(), stage.case.dtype.itemsize
        least = min(stage.comm.allgather(0 if stage.a is None else stage.a.size))
        if least < size:
            raise ArrayError(f"alltoall: a rank has {least} elements of A, fewer than one for each of the {size} ranks")
        self._part = least // size * item
        self._send = _by_columns(stage.a)[: size * self._part].copy()
        self._received = np.empty_like(self._send)
        self.extra_bytes = 2 * self._send.size

    def __call__(self) -> None:
        self.stage.comm.Alltoall(self._send, self._received)

    def poison(self) -> None:
        poison(self._received)

    def correct(self) -> bool:
        case, comm, part = self.stage.case, self.stage.comm, self._part
        mine = slice(comm.Get_rank() * part, (comm.Get_rank() + 1) * part)
        sent = [_by_columns(Part(case, case.before, rank).filled())[mine] for rank in range(comm.Get_size())]
        return np.array_equal(self._received, np.concatenate(sent))


def _by_columns(array: NDArray[Any] | None) -> NDArray[np.uint8]:
    """The bytes of a local array, column by column."""
    return np.empty(0, np.uint8) if array is None or not array.size else array.T.reshape(-1).view(np.uint8)


def _counted(made: Callable[[Stage], Prepared], what: Literal["bytes", "elements"], name: str, keeps: bool) -> Method:
    """A method for a local array on each process, whose bytes or elements it counts in 32 bits."""

    def obstacle(case: Case) -> str | None:
        if case.tiled:
            return f"{name} is for a local array on each process, and the layout of {case.tiled} is of tiles"
        size = case.local_elements * (case.dtype.itemsize if what == "bytes" else 1)
        too_large = f"{name} counts {what} in 32 bits: the local arrays are too large for it"
        return too_large if size >= LIMIT else None

    return Method(name, made, obstacle, made if keeps else None)


OTHERS = {
    method.name: method
    for method in (
        _counted(GatherScatter, "elements", "gather-scatter", keeps=True),
        _counted(Waitall, "bytes", "mpi-waitall", keeps=True),
        _counted(Alltoallv, "bytes", "mpi-alltoallv", keeps=True),
        Method("memcpy", Memcpy),
        _counted(Broadcast, "bytes", "bcast", keeps=False),
        _counted(AllToAll, "bytes", "alltoall", keeps=False),
    )
}
