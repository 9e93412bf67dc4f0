"""What a user writes with mpi4py alone: whole messages packed side by side, one call that moves them all, then unpacked.

Packing and unpacking are this package's own loops, which few programs have, so that only the moving differs. Nothing is
overlapped, and buffers hold all that is sent and all that is received.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ....engine.planner import messages_of
from ....exchanges import Message
from ....exchanges.message import dense_strides
from ....schedules.orders import Natural
from ..stage import Stage
from .method import Prepared

__all__ = ["Alltoallv", "Waitall"]

Place = tuple[int, tuple[int, ...]]  # address and strides in bytes of a local array


class _Buffer:
    """Messages side by side, by the other process's rank, and each one's bytes."""

    def __init__(self, messages: Sequence[Message], item: int) -> None:
        self.messages = sorted(messages, key=lambda message: message.peer)
        self.sizes = [message.size * item for message in self.messages]
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

    def _move(self, message: Message, source: Place, target: Place) -> None:
        message.box.move(*source, *target, self._item, self._order, message.first, message.last)

    def _dense(self, message: Message, address: int) -> Place:
        return address, dense_strides(message.box.shape(), self._order, self._item)

    def _pack(self, message: Message, address: int) -> None:
        self._move(message, self._source, self._dense(message, address))

    def _unpack_and_copy(self) -> None:
        for message, address, _ in self._in:
            self._move(message, self._dense(message, address), self._target)
        for message in self._copies:
            self._move(message, self._source, self._target)


class Waitall(_Whole):
    """All Irecv and Isend at once, then Waitall."""

    def __call__(self) -> None:
        from mpi4py import MPI

        comm = self.stage.comm
        requests = [comm.Irecv(memory, message.peer) for message, _, memory in self._in]
        for message, address, memory in self._out:
            self._pack(message, address)
            requests.append(comm.Isend(memory, message.peer))
        MPI.Request.Waitall(requests)
        self._unpack_and_copy()


class Alltoallv(_Whole):
    """One blocking Alltoallv of bytes."""

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


def _place(array: NDArray[np.generic] | None) -> Place:
    return (0, ()) if array is None else (array.__array_interface__["data"][0], array.strides)
