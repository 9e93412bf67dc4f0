"""Pencils and DistArrays of mpi4py-fft: redistribute does what Transfer does."""

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
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
# Shapes, and over which axes mpi4py-fft is to distribute them (0); sizes are at least the number of ranks, as it demands.
CASES = [
    ((13, 9), [0, 1]),
    ((1, 11), [1, 0]),
    ((8, 7, 11), [0, 0, 1]),
    ((7, 16, 9), [1, 0, 0]),
    ((6, 1, 10), [0, 1, 0]),
    ((6, 9, 7, 8), [0, 0, 1, 0]),
    ((9, 6, 5, 7), [0, 1, 1, 1]),
]


def descriptor(shape: Sequence[int], subcomm: Sequence[Any]) -> psr.Descriptor:
    """As docs/clients.md has it."""
    coords = WORLD.allgather([axis.Get_rank() for axis in subcomm])
    ranks = np.empty([axis.Get_size() for axis in subcomm], int)
    ranks[tuple(np.transpose(coords))] = range(SIZE)
    return psr.Descriptor(shape, "balanced", psr.ProcessGrid(ranks.shape, WORLD, ranks=ranks))


def of_pencil(pencil: Any) -> psr.Descriptor:
    """The descriptor of a pencil, compared with what the pencil says of this rank."""
    desc = descriptor(pencil.shape, pencil.subcomm)
    assert desc.local_shape == pencil.subshape
    for dimension, (start, count) in enumerate(zip(pencil.substart, pencil.subshape, strict=True)):
        assert np.array_equal(desc.global_indices(dimension), np.arange(start, start + count))
    return desc


def values(shape: Sequence[int], dtype: Any) -> Any:
    """A function of global indices with another value for each element."""
    weights = np.cumprod([1, *shape[:0:-1]])[::-1]
    return lambda *indices: (
        sum(w * i for w, i in zip(weights, indices, strict=True)) * (1 - 3j if np.dtype(dtype).kind == "c" else 1)
    )


def check_transfers(shape: tuple[int, ...], dims: list[int], comm: MPI.Intracomm, dtype: Any) -> None:
    """Each pencil that can be reached from the first one by a Transfer."""
    first = Pencil(Subcomm(comm, dims), shape, dims.index(1))
    desc_a = of_pencil(first)
    a = np.ascontiguousarray(desc_a.from_function(values(shape, dtype), dtype))
    for axis in range(len(shape)):
        if axis == first.axis or shape[first.axis] < first.subcomm[axis].size:
            continue
        second = first.pencil(axis)
        transfer = first.transfer(second, dtype)
        theirs = np.empty(second.subshape, dtype)
        transfer.forward(a, theirs)
        desc_b = of_pencil(second)
        ours = psr.redistribute(desc_a, desc_b)(a)
        assert np.array_equal(ours, theirs), (shape, dims, axis)
        back = np.empty_like(a)
        transfer.backward(ours.copy("C"), back)
        assert np.array_equal(back, psr.redistribute(desc_b, desc_a)(theirs)), (shape, dims, axis)
        assert np.array_equal(back, a)
        transfer.destroy()


def check_arrays(rank: int) -> None:
    """A DistArray whose elements are numbers, vectors or tensors."""
    u = DistArray((3,) * rank + (9, 6, 7), [0, 0, 1], dtype=np.float64, rank=rank)
    desc = descriptor(u.global_shape, u.subcomm)
    u[...] = desc.from_function(values(u.global_shape, u.dtype))
    for axis in (0, 1):
        theirs = u.redistribute(axis)
        ours = DistArray(u.global_shape, theirs.pencil.subcomm, dtype=u.dtype, rank=rank, alignment=axis)
        psr.redistribute(desc, descriptor(ours.global_shape, ours.subcomm))(u, ours)
        assert np.array_equal(ours, theirs), (rank, axis)
        assert np.array_equal(
            ours, descriptor(ours.global_shape, ours.subcomm).from_function(values(u.global_shape, float))
        )


def main() -> None:
    backwards = WORLD.Split(0, key=-RANK)
    for (shape, dims), dtype in zip(CASES, "dDfFdil", strict=True):
        for comm in (WORLD, backwards):
            check_transfers(shape, dims, comm, np.dtype(dtype))
    for rank in (0, 1, 2):
        check_arrays(rank)
    backwards.Free()
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
