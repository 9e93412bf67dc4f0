"""Arrays and descriptors made by PyScalapack go through redistribute."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import PyScalapack
import pytest
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import deal

import pyscalapack_redist as psr
from pyscalapack_redist import blacs

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
SQUARE = (2, 2) if SIZE > 3 else (max(1, SIZE - 1), 1)


def local(array: Any, whole: NDArray[Any]) -> NDArray[Any]:
    """This rank's part of a matrix, by PyScalapack's own numbers."""
    context = array.context
    rows = deal(array.m, array.mb, context.nprow.value)[context.myrow.value]
    columns = deal(array.n, array.nb, context.npcol.value)[context.mycol.value]
    return whole[np.ix_(rows, columns)]


def check_moves(sca: Any, dtype: str, order: bytes) -> None:
    """From its array to its array, to ours and back: what a matrix dealt out by hand says."""
    whole = np.arange(17 * 11).reshape(17, 11).astype(dtype) * (1 + (2j if dtype in "FD" else 0))
    first, second = (SQUARE, (SIZE - 1, 1)) if SIZE > 1 else ((1, 1), (1, 1))  # of 5 ranks one is outside both
    with sca(order, *first) as here, sca(b"C", *second) as there:
        a = here.array(17, 11, 3, 2, dtype=np.dtype(dtype))
        b = there.array(17, 11, 4, 5, dtype=np.dtype(dtype))
        if here:
            a.data[...] = local(a, whole)
        # a rank outside the context holds a placeholder of 1 x 1 there: None says that it has nothing
        psr.redistribute(a, b, comm=WORLD, dtype=dtype)(a.data if here else None, b.data if there else None)
        assert not there or np.array_equal(b.data, local(b, whole))

        ours = psr.Descriptor((17, 11), (None, None), psr.ProcessGrid((SIZE, 1), WORLD))
        rows = psr.redistribute(b, ours, comm=WORLD)(b.data if there else None, ours.empty(dtype))
        assert np.array_equal(rows, ours.from_function(lambda i, j: whole[i, j], dtype))
        if here:
            a.data[...] = 0
        psr.redistribute(ours, a, comm=WORLD)(rows, a.data if here else None)
        assert not here or np.array_equal(a.data, local(a, whole))
        desc = psr.Descriptor.from_array(a, WORLD)
        assert (desc.shape, desc.block, desc.grid.shape) == ((17, 11), (3, 2), first)


def check_arrays(sca: Any, dtype: str, order: bytes) -> None:
    """Its arrays as arrays, in their own memory; their placeholders on ranks outside are no part of them."""
    whole = np.arange(17 * 11).reshape(17, 11).astype(dtype)
    first, second = SQUARE, (SIZE, 1)
    with sca(order, *first) as here, sca(b"C", *second) as there:
        a = here.array(17, 11, 3, 2, dtype=np.dtype(dtype))
        if here:
            a.data[...] = local(a, whole)
        array = psr.as_distributed(a)
        assert array.desc == psr.layout_of(a) == psr.Descriptor.from_array(a, WORLD)
        assert array.dtype == a.data.dtype
        assert not here or array.local is a.data
        assert np.array_equal(psr.gather(a, None), whole)
        by_rows = psr.Descriptor((17, 11), (None, None), psr.ProcessGrid((SIZE, 1), WORLD))
        rows = array.redistribute(by_rows)
        assert np.array_equal(rows.local, by_rows.from_function(lambda i, j: whole[i, j], dtype))

        like = there.array(5, 5, 4, 5, dtype=np.dtype("d"))
        b = psr.redistribute(a, like=like)
        assert (type(b), b.m, b.n, b.mb, b.nb, b.data.dtype) == (type(a), 17, 11, 4, 5, whole.dtype)
        assert np.array_equal(b.data, local(b, whole)) if there else b.data.shape == (1, 1)
        c = psr.redistribute(psr.as_distributed(b), like=a)
        assert not here or np.array_equal(c.data, local(c, whole))
        assert not here or (c.data.flags.c_contiguous if order == b"R" else c.data.flags.f_contiguous)
        a.data[...] = 0
        psr.copy_to(b, a)
        assert not here or np.array_equal(a.data, local(a, whole))
        assert here or not a.data.any()
    with pytest.raises(psr.DescriptorError, match="is not a live BLACS context"):
        psr.as_distributed(like)


def main() -> None:
    loaded = blacs.load()
    # MKL is several files, whose symbols are visible in the whole process once they are loaded
    sca = PyScalapack(loaded.path, loader=lambda file: ctypes.CDLL(None if loaded.vendor == "MKL" else file))
    for dtype in sys.argv[1:] or "fdFD":
        check_moves(sca, dtype, b"C")
    check_moves(sca, "d", b"R")  # its local arrays are then in C order
    for dtype in sys.argv[1:] or "fdFDiq?":
        check_arrays(sca, dtype, b"C")
    check_arrays(sca, "d", b"R")
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
