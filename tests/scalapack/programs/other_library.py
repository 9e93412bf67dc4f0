"""A context that a second copy of the library made is refused, and the message says what to do. Argument: a folder."""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path

import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist import blacs

WORLD = MPI.COMM_WORLD


def main() -> None:
    loaded = blacs.load()
    if loaded.vendor == "MKL":
        print("MKL\n" * (WORLD.Get_rank() == 0), end="")
        return
    copy = Path(sys.argv[1], "libscalapack_copy.so")
    if WORLD.Get_rank() == 0:
        shutil.copy(loaded.path, copy)
    WORLD.Barrier()
    other = ctypes.CDLL(str(copy))
    context, everything, zero = ctypes.c_int(), ctypes.c_int(-1), ctypes.c_int(0)
    other.blacs_get_(ctypes.byref(everything), ctypes.byref(zero), ctypes.byref(context))
    shape = ctypes.c_int(WORLD.Get_size()), ctypes.c_int(1)
    other.blacs_gridinit_(ctypes.byref(context), b"R", *map(ctypes.byref, shape))
    nine = [1, context.value, 9, 9, 2, 2, 0, 0, 9]
    rows = psr.Descriptor((9, 9), None, psr.ProcessGrid((WORLD.Get_size(), 1), WORLD))
    with pytest.raises(psr.DescriptorError) as caught:
        psr.redistribute(rows, nine, comm=WORLD)
    assert f"is not a live BLACS context (freed, or never made) of {loaded.path}" in str(caught.value)
    assert "set PYSCALAPACK_REDIST_LIBRARY to that file" in str(caught.value)
    print("OK\n" * (WORLD.Get_rank() == 0), end="")


if __name__ == "__main__":
    main()
