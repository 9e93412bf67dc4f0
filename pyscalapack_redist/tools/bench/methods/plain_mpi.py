"""What a user writes with mpi4py alone: whole messages packed side by side, one call that moves them all, then unpacked.

Packing and unpacking are this package's own loops, which few programs have, so that only the moving differs. Nothing is
overlapped, and buffers hold all that is sent and all that is received.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ....engine.planner import messages_of
from ....exchanges import Message
from ....exchanges.message import dense_strides
from ....schedules.orders import Natural
from ..case import Case
from ..stage import Stage
from .method import Anew, Method, Prepared

__all__ = ["PlainAlltoallv", "PlainWaitall"]

LIMIT = 2**31


class _Buffer:
    """Messages side by side, by the other process's rank, and each one's bytes."""

    def __init__(self, messages: Sequence[Message], item: int) -> None:
        self.messages = sorted(messages, key=lambda one: one.peer)
        self.sizes = [one.size * item for one in self.messages]
        self.starts = np.cumsum([0, *self.sizes]).tolist()[:-1]
        self.memory: NDArray[np.uint8] = np.empty(max(1, sum(self.sizes)), np.uint8)

    def __iter__(self) -> Iterator[tuple[Message, int, NDArray[np.uint8]]]:
        """Each message, the address of its part of the memory, and this part."""
        base = self.memory.ctypes.data
        for message, start, size in zip(self.messages, self.starts, self.sizes, strict=True):
            yield message, base + start, self.memory[start : start + size]

    def table(self, ranks: int) -> tuple[list[int], list[int]]:
        """Counts and displacements for all ranks."""
        counts, displacements = [0] * ranks, [0] * ranks
        for message, start, size in zip(self.messages, self.starts, self.sizes, strict=True):
            counts[message.peer], displacements[message.peer] = size, start
        return counts, displacements


class _Whole(Prepared):
    """Packing and unpacking, which both ways have in common."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        case, comm = stage.case, stage.comm
        self._item = case.dtype.itemsize
        dims = range(len(case.shape))
        self._order = tuple(dims if case.before.order == "F" else reversed(dims))
        ranks = {rank: rank for rank in range(comm.Get_size())}
        sends, receives, copies = messages_of(stage.desc_a, stage.desc_b, comm.Get_rank(), ranks, Natural((), ()))
        self._out, self._in, self._copies = _Buffer(sends, self._item), _Buffer(receives, self._item), copies
        self._source, self._target = _place(stage.a), _place(stage.out)

    @property
    def extra_bytes(self) -> int | None:
        return sum(self._out.sizes) + sum(self._in.sizes)

    def _pack(self, message: Message, address: int) -> None:
        box = message.box
        dense = dense_strides(box.shape(), self._order, self._item)
        box.move(*self._source, address, dense, self._item, self._order, message.first, message.last)

    def _unpack_and_copy(self) -> None:
        for message, address, _ in self._in:
            box = message.box
            dense = dense_strides(box.shape(), self._order, self._item)
            box.move(address, dense, *self._target, self._item, self._order, message.first, message.last)
        for message in self._copies:
            message.box.move(*self._source, *self._target, self._item, self._order, message.first, message.last)


class _Waitall(_Whole):
    def __call__(self) -> None:
        from mpi4py import MPI

        comm = self.stage.comm
        requests = [comm.Irecv(memory, message.peer) for message, _, memory in self._in]
        for message, address, memory in self._out:
            self._pack(message, address)
            requests.append(comm.Isend(memory, message.peer))
        MPI.Request.Waitall(requests)
        self._unpack_and_copy()


class _Alltoallv(_Whole):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        size = stage.comm.Get_size()
        self._sent, self._received = self._out.table(size), self._in.table(size)

    def __call__(self) -> None:
        from mpi4py import MPI

        for message, address, _ in self._out:
            self._pack(message, address)
        sent, received = (self._out.memory, self._sent, MPI.BYTE), (self._in.memory, self._received, MPI.BYTE)
        self.stage.comm.Alltoallv(sent, received)
        self._unpack_and_copy()


class _PlainMpi(Method):
    prepared: ClassVar[type[_Whole]]

    def obstacle(self, case: Case) -> str | None:
        """Local arrays of 2 GiB and more, whose bytes 32 bits cannot count. Not collective."""
        if case.local_elements * case.dtype.itemsize >= LIMIT:
            return f"{self.name} counts bytes in 32 bits: the local arrays are too large for it"
        return None

    def anew(self) -> Method:
        """The same with messages worked out, and buffers made, in each call. Not collective."""
        return Anew(self)

    def prepare(self, stage: Stage) -> Prepared:
        """Work out the messages and make the buffers. Not collective."""
        return self.prepared(stage)


class PlainWaitall(_PlainMpi):
    """All Irecv and Isend at once, then Waitall."""

    name = "mpi-waitall"
    prepared = _Waitall


class PlainAlltoallv(_PlainMpi):
    """One blocking Alltoallv of bytes."""

    name = "mpi-alltoallv"
    prepared = _Alltoallv


def _place(array: NDArray[np.generic] | None) -> tuple[int, tuple[int, ...]]:
    """Address and strides in bytes of a local array."""
    return (0, ()) if array is None else (array.__array_interface__["data"][0], array.strides)
