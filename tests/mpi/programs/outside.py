"""A rank outside the grids: what calls give it, as the notes of `Descriptor` say. One rank more than the grids have."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
OUTSIDE = WORLD.rank == WORLD.size - 1
SHAPE = (12, 12)


def is_right(local: Any, desc: psr.Descriptor, dtype: str = "f4") -> None:
    """A new local array, with the dtype, and outside without elements."""
    assert isinstance(local, np.ndarray)
    assert (local.shape, local.dtype) == (desc.local_shape, np.dtype(dtype))
    assert not OUTSIDE or local.size == 0


def moved(local: Any, desc: psr.Descriptor) -> None:
    """The result of a call."""
    assert local is None if OUTSIDE else np.array_equal(local, desc.from_function(np.add, "f4"))


def main() -> None:
    grids = psr.ProcessGrid((WORLD.size - 1, 1), WORLD), psr.ProcessGrid((1, WORLD.size - 1), WORLD)
    rows, columns = (psr.Descriptor(SHAPE, 2, grid) for grid in grids)
    for new in (rows.empty("f4"), rows.zeros("f4"), rows.from_function(np.add, "f4")):
        is_right(new, rows)
    a = rows.from_function(lambda i, j: np.float32(i + j))
    is_right(a, rows)
    is_right(np.abs(a), rows)
    plan: Any = psr.redistribute(rows, columns)
    for given in (a, None if OUTSIDE else a):
        moved(plan(given), columns)
        moved(plan.start(given).wait(), columns)
        for local in psr.batch(plan, plan)([given, given]):
            moved(local, columns)
    whole = np.add.outer(np.arange(12), np.arange(12)).astype("f4") if WORLD.rank == 0 else None
    moved(psr.scatter(columns, whole), columns)
    gathered = psr.gather(rows, a)
    assert np.array_equal(gathered, whole) if WORLD.rank == 0 else gathered is None
    path = WORLD.bcast(tempfile.mkdtemp() if WORLD.rank == 0 else None)
    psr.save(rows, a, Path(path, "a.npy"))
    moved(psr.load(columns, Path(path, "a.npy")), columns)
    array = psr.DistributedArray(rows, a)
    for other in (
        array,
        psr.DistributedArray.from_function(rows, np.add, "f4"),
        psr.distribute(whole, rows),
        array.redistribute(columns),
        psr.redistribute(array, columns),
        2 * array,
        array.copy(),
    ):
        is_right(other.local, other.desc)
        assert other.dtype == np.float32
    assert not OUTSIDE or psr.DistributedArray(rows, None).local is None
    grown = psr.Descriptor(SHAPE, 2, psr.ProcessGrid((WORLD.size, 1), WORLD))
    with pytest.raises(psr.ArrayError if OUTSIDE else psr.CollectiveError, match=r"redistribute\(..., dtype=\)"):
        psr.redistribute(rows, grown)(a)  # a plan does not look at an array without elements
    result = psr.redistribute(rows, grown, dtype="f4")(a)
    assert np.array_equal(result, grown.from_function(np.add, "f4"))
    assert result is not None
    assert result.dtype == np.float32
    WORLD.Barrier()
    if WORLD.rank == 0:
        Path(path, "a.npy").unlink()
        Path(path).rmdir()
        print("OK", flush=True)


if __name__ == "__main__":
    main()
