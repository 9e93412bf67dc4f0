"""What moves as many bytes as a redistribution and changes no layout: memcpy, and MPI's collectives (Walker & Otto, Table 1).

They say what reading and writing these bytes once costs, and what the machine takes for bulk messages of that size.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ArrayError
from ..stage import Part, Stage, bytes_of, poison
from .method import Prepared

__all__ = ["AllToAll", "Broadcast", "Memcpy"]


class Memcpy(Prepared):
    """The C library's memcpy of what moves of each rank's local A: all ranks at once, a sub-array as one piece."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        part = np.empty(0) if stage.part_of_a is None else stage.part_of_a
        one_piece = part.flags.f_contiguous or part.flags.c_contiguous
        self._source: NDArray[Any] = part if one_piece else np.asfortranarray(part)
        self._copy = np.empty_like(self._source)
        where = (ctypes.c_void_p(array.ctypes.data) for array in (self._copy, self._source))
        self._memcpy = functools.partial(ctypes.CDLL(None).memcpy, *where, ctypes.c_size_t(part.nbytes))
        self.poison()

    @property
    def extra_bytes(self) -> int | None:
        return 0

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

    @property
    def extra_bytes(self) -> int | None:
        return self._buffer.size

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

    @property
    def extra_bytes(self) -> int | None:
        return 2 * self._send.size

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
