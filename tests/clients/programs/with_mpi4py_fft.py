"""Pencils and DistArrays of mpi4py-fft, of vectors and tensors too: redistribute does what Transfer does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from mpi4py import MPI
from mpi4py_fft import DistArray
from mpi4py_fft.pencil import Pencil, Subcomm

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD


def descriptor(shape: Sequence[int], subcomm: Sequence[Any]) -> psr.Descriptor:
    """As docs/clients.md has it."""
    coords = WORLD.allgather([axis.Get_rank() for axis in subcomm])
    ranks = np.empty([axis.Get_size() for axis in subcomm], int)
    ranks[tuple(np.transpose(coords))] = range(WORLD.Get_size())
    return psr.Descriptor(shape, "balanced", psr.ProcessGrid(ranks.shape, WORLD, ranks=ranks))


def values(*indices: Any) -> Any:
    return sum(10.0**k * i for k, i in enumerate(indices))


def check_transfer(comm: MPI.Intracomm, shape: tuple[int, ...], dims: list[int], axis: int) -> None:
    first = Pencil(Subcomm(comm, dims), shape, dims.index(1))
    second = first.pencil(axis)
    desc_a, desc_b = (descriptor(shape, pencil.subcomm) for pencil in (first, second))
    assert (desc_a.local_shape, desc_b.local_shape) == (first.subshape, second.subshape)
    a, theirs = np.ascontiguousarray(desc_a.from_function(values)), np.empty(second.subshape)
    transfer = first.transfer(second, float)
    transfer.forward(a, theirs)
    assert np.array_equal(psr.redistribute(desc_a, desc_b)(a), theirs)
    assert np.array_equal(psr.redistribute(desc_b, desc_a)(theirs), a)
    transfer.destroy()


def check_array(rank: int, axis: int) -> None:
    """A DistArray whose elements are numbers, vectors or tensors."""
    u = DistArray((3,) * rank + (9, 6, 7), [0, 0, 1], dtype=float, rank=rank)
    desc = descriptor(u.global_shape, u.subcomm)
    u[...] = desc.from_function(values)
    theirs = u.redistribute(axis)
    ours = DistArray(u.global_shape, theirs.pencil.subcomm, dtype=u.dtype, rank=rank, alignment=axis)
    psr.redistribute(desc, descriptor(ours.global_shape, ours.subcomm))(u, ours)
    assert np.array_equal(ours, theirs), (rank, axis)


if __name__ == "__main__":
    backwards = WORLD.Split(0, key=-WORLD.Get_rank())
    check_transfer(backwards, (13, 9), [0, 1], 0)
    check_transfer(WORLD, (6, 9, 7, 8), [0, 0, 1, 0], 3)
    for rank in (0, 1, 2):
        check_array(rank, 0)
        check_array(rank, 1)
    backwards.Free()
    if WORLD.Get_rank() == 0:
        sys.stdout.write("OK\n")
