"""Descriptors made by scalapack4py go through redistribute, and ours are good for its routines."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from mpi4py import MPI
from scalapack4py import ScaLAPACK4py

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


def main() -> None:
    # the same file, so that both mean the same contexts; MKL is several, all visible in the process once they are loaded
    loaded = blacs.load()
    sl = ScaLAPACK4py(ctypes.CDLL(None if loaded.vendor == "MKL" else loaded.path, mode=ctypes.RTLD_GLOBAL))
    for dtype in "fdFD":
        check_moves(sl, dtype)
    check_our_descriptor(sl)
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
