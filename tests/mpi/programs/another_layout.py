"""Each public collective call with an array that has another layout on one rank: an error on all. Arguments: a folder."""

from __future__ import annotations

import contextlib
import io
import sys

import pytest
from collective_calls import ORDER, TABLE, Scene, folder_of
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size


class OtherArray(Scene):
    """A scene whose array has other blocks on the last rank, and that notes whether the array is read."""

    is_read = False

    @property
    def a(self) -> psr.DistributedArray:
        self.is_read = True
        return self._a

    @a.setter
    def a(self, array: psr.DistributedArray) -> None:
        self._a = array

    def change(self) -> None:
        desc = psr.Descriptor((ORDER, ORDER), 4, self.grid)
        if RANK == SIZE - 1:
            self._a = psr.DistributedArray(desc, desc.from_function(lambda i, j: 20.0 * (i == j)))
        self.is_read = False


def main() -> None:
    comm, read = WORLD.Dup(), []
    for number, (name, row) in enumerate(TABLE.items()):
        scene = OtherArray(comm, folder_of(sys.argv), number)
        value = row.before(scene)
        scene.change()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                row.call(scene, value)
            error: Exception | None = None
        except Exception as caught:
            error = caught
        if scene.is_read:
            read.append(name)
            assert isinstance(error, psr.RedistributionError), (name, error)
    assert len(read) > 40, read
    with pytest.raises(psr.CollectiveError, match="the array's layout must be the same on every rank, but rank 0 has Desc"):
        scene.a.sum()
    comm.Free()
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
