"""Pencils and DistArrays of mpi4py-fft, of vectors and tensors too: redistribute does what Transfer does."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from conversions import check_conversions, check_linalg, check_refused
from mpi4py import MPI
from mpi4py_fft import DistArray
from mpi4py_fft.pencil import Pencil, Subcomm

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD


def values(*indices: Any) -> Any:
    return sum(10.0**k * i for k, i in enumerate(indices))


def check_transfer(comm: MPI.Intracomm, shape: tuple[int, ...], dims: list[int], axis: int) -> None:
    first = Pencil(Subcomm(comm, dims), shape, dims.index(1))
    second = first.pencil(axis)
    desc_a, desc_b = (psr.layout_of(pencil) for pencil in (first, second))
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
    u[...] = psr.layout_of(u).from_function(values)
    theirs = u.redistribute(axis)
    ours = DistArray(u.global_shape, theirs.pencil.subcomm, dtype=u.dtype, rank=rank, alignment=axis)
    psr.copy_to(u, ours)
    assert np.array_equal(ours, theirs), (rank, axis)


def slices_of(x: Any) -> list[Any]:
    if isinstance(x, tuple):
        return [range(start, start + n) for start, n in zip(x[0].substart, x[0].subshape, strict=True)]
    return [range(each.start, each.stop) for each in x.local_slice()] if x.pencil else [range(n) for n in x.shape]


def check_adapter(shape: tuple[int, ...], dtype: Any, **options: Any) -> None:
    """A DistArray; a pencil with an array; and a pencil, of which new arrays are."""
    u = DistArray(shape, dtype=dtype, **options)
    check_conversions(u, np.asarray, slices_of, dtype)
    if u.pencil is None or u.rank:
        return
    pencil = u.pencil.pencil(0)
    check_conversions((pencil, np.zeros(pencil.subshape, dtype)), lambda pair: pair[1], slices_of, dtype)
    moved = psr.redistribute(u, like=pencil)
    to_pencil = psr.plan(u, pencil)  # ranks may pass different objects
    assert np.array_equal(to_pencil(np.asarray(u) if WORLD.Get_rank() else (u.pencil, np.asarray(u))), moved)
    assert isinstance(moved, DistArray)
    assert np.array_equal(moved, u.redistribute(0))


def check_wrong() -> None:
    u = DistArray((8, 9), [0, 1])
    assert isinstance(psr.linalg.eigvalsh(DistArray((8, 8), [0, 1], val=1)), np.ndarray)
    check_linalg(DistArray((9, 9), [1, 0]))
    check_refused(lambda: psr.as_distributed(u.T if WORLD.Get_rank() == 0 else u), "a transposed view")
    square = DistArray((4 * WORLD.Get_size(), 4), [0, 1])  # whose parts have the shape of their transposes
    check_refused(lambda: psr.gather(square.T), "a transposed view")
    assert psr.as_distributed((square + 1j * square).real).shape == (4 * WORLD.Get_size(), 4)
    check_refused(lambda: psr.as_distributed(u.pencil), "without elements")
    check_refused(lambda: psr.as_distributed(u if WORLD.Get_rank() else u.pencil), "without elements")
    check_refused(lambda: psr.redistribute(u, like=DistArray((8, 8, 8))), "cannot be like")
    if WORLD.Get_size() > 1:
        check_refused(lambda: psr.as_distributed(u, MPI.COMM_SELF), "does not fit a communicator of 1")
        part = WORLD.Split(WORLD.Get_rank() % 2)
        few = DistArray((8, 9), Subcomm(part, [0, 1]))
        check_refused(lambda: psr.as_distributed(few), "pass comm=")
        assert psr.as_distributed(few, part).desc.local_shape == few.shape
        part.Free()


if __name__ == "__main__":
    check_adapter((8, 9), float)
    check_wrong()
    if sys.argv[1:] != ["adapter"]:
        for shape, dims in (((9, 6, 7), [0, 0, 1]), ((6, 9, 7, 8), [0, 1, 0, 1]), ((1, 8), [1, 0])):
            for dtype in ("f", "D"):
                check_adapter(shape, dtype, subcomm=dims)
        check_adapter((3, 8, 9), float, rank=1)
        check_adapter((5,), "F")
        backwards = WORLD.Split(0, key=-WORLD.Get_rank())
        check_transfer(backwards, (13, 9), [0, 1], 0)
        check_transfer(WORLD, (6, 9, 7, 8), [0, 0, 1, 0], 3)
        for rank in (0, 1, 2):
            check_array(rank, 0)
            check_array(rank, 1)
        backwards.Free()
    if WORLD.Get_rank() == 0:
        sys.stdout.write("OK\n")
