"""Matrices and descriptors made by scalapack4py go through redistribute, and ours are good for its routines."""

from __future__ import annotations

import ctypes
import re
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from scalapack4py import ScaLAPACK4py
from scalapack4py.npscal import BLACSGrid, NPScal, NPScalWarning

import pyscalapack_redist as psr
from pyscalapack_redist import blacs

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()


def empty(desc: Any, dtype: str) -> Any:
    """An array for one of its descriptors; None on a rank outside."""
    return None if desc.ctxt < 0 else desc.alloc_zeros(np.dtype(dtype))


def check_moves(sl: Any, dtype: str) -> None:
    """What p?gemr2d, called by scalapack4py, and redistribute make of one matrix is the same, and gathers whole."""
    whole = np.arange(17 * 11).reshape(17, 11).astype(dtype) * (1 + (2j if dtype in "FD" else 0))
    system = sl.get_default_system_context()
    all_ranks = sl.make_blacs_context(system, 1, SIZE)
    backwards = np.arange(SIZE, dtype=np.int32)[::-1][: max(1, SIZE - 1)].reshape(-1, 1)
    fewer = sl.make_blacs_context_from_map(system, backwards, len(backwards), 1)
    source = sl.make_blacs_desc(all_ranks, 17, 11, 3, 2)
    target = sl.make_blacs_desc(fewer, 17, 11, 4, 5)
    a, b = empty(source, dtype), empty(target, dtype)
    sl.scatter(np.asfortranarray(whole) if RANK == 0 else None, source, a)

    psr.redistribute(source, target, comm=WORLD, dtype=dtype)(a, b)
    routine = getattr(sl, {"f": "ps", "d": "pd", "F": "pc", "D": "pz"}[dtype] + "gemr2d")
    theirs = empty(target, dtype)
    routine(17, 11, a, 1, 1, source, theirs, 1, 1, target, all_ranks)
    assert (b is None) == (theirs is None)
    assert b is None or np.array_equal(b, theirs)

    back = psr.redistribute(target, source, comm=WORLD)(b, empty(source, dtype))
    gathered = np.zeros((17, 11), dtype, order="F") if RANK == 0 else None
    sl.gather(source, back, gathered)
    assert gathered is None or np.array_equal(gathered, whole)
    for context in (fewer, all_ranks):
        sl.close_blacs_context(context)


def check_our_descriptor(sl: Any) -> None:
    """Its pdtran on descriptors and arrays of ours."""
    columns = max(n for n in (1, 2) if SIZE % n == 0)
    with psr.ProcessGrid((SIZE // columns, columns), WORLD) as grid:
        grid.make_context()
        desc_a, desc_b = psr.Descriptor((13, 8), (3, 2), grid), psr.Descriptor((8, 13), (2, 3), grid)
        a, b = desc_a.from_function(lambda i, j: 100.0 * i + j), desc_b.zeros()
        nine_a, nine_b = (sl.wrap_blacs_desc(np.asarray(desc)) for desc in (desc_a, desc_b))
        sl.pdtran(8, 13, 1.0, a, 1, 1, nine_a, 0.0, b, 1, 1, nine_b)
        assert np.array_equal(b, desc_b.from_function(lambda i, j: 100.0 * j + i))
        assert psr.Descriptor.from_array(nine_a, WORLD) == desc_a


def by_rows(shape: tuple[int, int]) -> psr.Descriptor:
    return psr.Descriptor(shape, (2, None), psr.ProcessGrid((SIZE, 1), WORLD))


def check_npscal(sl: Any, dtype: str) -> None:
    """NPScal both ways, also its lazy transpose, in its own memory; of any dtype."""
    whole = (np.arange(17 * 11).reshape(17, 11) % 7).astype(dtype) * np.array(1 + (2j if dtype in "FD" else 0), dtype)
    with BLACSGrid(sl, comm=WORLD) as grid:
        x = NPScal(gl_array=whole, grid=grid, dmb=3, dnb=2)
        for matrix, expected in ((x, whole), (x.T, whole.T)):
            array = psr.as_distributed(matrix)
            assert array.shape == expected.shape
            assert np.shares_memory(array.local, x.loc_array) or not x.loc_array.size
            moved = psr.redistribute(matrix, by_rows(expected.shape))
            assert np.array_equal(moved.local, by_rows(expected.shape).from_function(lambda i, j, e=expected: e[i, j]))
            y = psr.redistribute(moved, like=matrix)
            assert (type(y), y.shape, y.dtype) == (NPScal, expected.shape, expected.dtype)
            assert (y.descr.mb, y.descr.nb, y.grid) == (3, 2, grid)
            assert np.array_equal(y.gather_to_global(), expected)
            y.loc_array[...] = 0
            psr.copy_to(moved, y)
            assert np.array_equal(y.gather_to_global(), expected)
        small = psr.DistributedArray.from_function(by_rows((2, 9)), lambda i, j: (i + j).astype(dtype))
        z = psr.redistribute(small, like=x)
        assert (z.descr.mb, z.descr.nb) == (2, 2)  # a block is not larger than the matrix
        assert np.array_equal(z.gather_to_global(), np.add.outer(np.arange(2), np.arange(9)).astype(dtype))
        if dtype in "FD":
            with pytest.raises(psr.ArrayError, match=re.escape("pass x.conj()")):
                psr.as_distributed(x.H)
        else:
            assert psr.layout_of(x.H) == psr.layout_of(x.T)
        empty = psr.DistributedArray(by_rows((0, 3)), by_rows((0, 3)).empty(dtype))
        with pytest.raises(psr.ArrayError, match="is no NPScal, which is a matrix with elements"):
            psr.redistribute(empty, like=x)


def check_eigenvectors(sl: Any) -> None:
    """The library's eigh, in place of NPScal's own."""
    with BLACSGrid(sl, comm=WORLD) as grid:
        whole = np.add.outer(np.arange(30.0), np.arange(30.0)) % 7 + np.diag(np.arange(30.0))
        x = NPScal(gl_array=whole, grid=grid, dmb=4, dnb=4)
        values, vectors = psr.linalg.eigh(x)
        assert type(vectors) is NPScal
        v = vectors.gather_to_global()
        assert np.allclose(whole @ v, v * values)


def check_errors(loaded: Any) -> None:
    """A context of another file of ScaLAPACK, and one that has been freed."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(loaded.path, Path(folder, "libscalapack_copy.so"))
        own, other = (ScaLAPACK4py(ctypes.CDLL(path)) for path in (loaded.path, str(copy)))
        with BLACSGrid(other, comm=WORLD) as strange, BLACSGrid(own, comm=WORLD) as grid:
            x = NPScal(gl_m=6, gl_n=6, grid=grid, dmb=2, dnb=2)
            y = NPScal(gl_m=6, gl_n=6, grid=strange, dmb=2, dnb=2)
            for call in (lambda: psr.as_distributed(y), lambda: psr.redistribute(x, like=y)):
                with pytest.raises(psr.DescriptorError, match=r"libscalapack_copy\.so, but contexts are read of"):
                    call()
            WORLD.Barrier()
    with pytest.raises(psr.DescriptorError, match="is not a live BLACS context"):
        psr.as_distributed(x)


def main() -> None:
    # the same file, so that both mean the same contexts; MKL is several, all visible in the process once they are loaded
    loaded = blacs.load()
    sl = ScaLAPACK4py(ctypes.CDLL(None if loaded.vendor == "MKL" else loaded.path, mode=ctypes.RTLD_GLOBAL))
    warnings.simplefilter("ignore", NPScalWarning)  # blocks that are not the best for small matrices
    is_short = len(sys.argv) > 1
    for dtype in sys.argv[1:] or "fdFD":
        check_moves(sl, dtype)
    for dtype in sys.argv[1:] or "fdFDiq?":
        check_npscal(sl, dtype)
    check_eigenvectors(sl)
    if not is_short:
        check_our_descriptor(sl)
        if loaded.vendor != "MKL":
            check_errors(loaded)
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
