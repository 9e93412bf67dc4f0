"""MPI's own collectives moving as many bytes as a redistribution does (Walker & Otto, Table 1): no layout changes.

They say what the machine takes for bulk messages of that size; they do not redistribute.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ArrayError
from ..arithmetic import Part
from ..case import Case
from ..poison import poison
from ..stage import Stage
from .method import Method, Prepared

__all__ = ["AllToAll", "Broadcast"]

LIMIT = 2**31


class _Collective(Method):
    def obstacle(self, case: Case) -> str | None:
        """Local arrays of 2 GiB and more, whose bytes 32 bits cannot count. Not collective."""
        if case.local_elements * case.dtype.itemsize >= LIMIT:
            return f"{self.name} counts bytes in 32 bits: the local arrays are too large for it"
        return None


class Broadcast(_Collective):
    """MPI_Bcast of the first process's local A to all."""

    name = "bcast"

    def prepare(self, stage: Stage) -> Prepared:
        """Make room for what comes. Collective."""
        return _Broadcast(stage)


class AllToAll(_Collective):
    """MPI_Alltoall in which each process deals out its local A in equal parts to all."""

    name = "alltoall"

    def prepare(self, stage: Stage) -> Prepared:
        """Make room for what comes. Collective.

        Raises
        ------
        ArrayError
            A rank has fewer elements than there are ranks.
        """
        return _AllToAll(stage)


class _Broadcast(Prepared):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._root = stage.case.before.first
        size = stage.comm.bcast(0 if stage.a is None else stage.a.nbytes, root=self._root)
        self._is_root = stage.comm.Get_rank() == self._root
        self._buffer = _bytes(stage.a).copy() if self._is_root else np.empty(size, np.uint8)

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
        return np.array_equal(self._buffer, _bytes(Part(case, case.before, self._root).filled()))


class _AllToAll(Prepared):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        size, item = stage.comm.Get_size(), stage.case.dtype.itemsize
        least = min(stage.comm.allgather(0 if stage.a is None else stage.a.size))
        if least < size:
            raise ArrayError(f"alltoall: a rank has {least} elements of A, fewer than one for each of the {size} ranks")
        self._part = least // size * item
        self._send = _bytes(stage.a)[: size * self._part].copy()
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
        return all(
            np.array_equal(
                self._received[other * part : (other + 1) * part],
                _bytes(Part(case, case.before, other).filled())[mine],
            )
            for other in range(comm.Get_size())
        )


def _bytes(array: NDArray[Any] | None) -> NDArray[np.uint8]:
    """The bytes of a local array, column by column."""
    return np.empty(0, np.uint8) if array is None or not array.size else array.T.reshape(-1).view(np.uint8)
