"""A second MPI library in the process, a copy of the first one's file, is an error of every adapter that needs the same MPI."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from pathlib import Path

import pytest
from mpi4py import MPI
from petsc4py import PETSc

import pyscalapack_redist as psr
from pyscalapack_redist.comm.mpi import mpi_files

WORLD = MPI.COMM_WORLD
matrix = PETSc.Mat().createDense((5, 4), comm=WORLD)
matrix.setUp()
(own,) = mpi_files()
with tempfile.TemporaryDirectory() as folder:
    copy = Path(folder, Path(own).name)
    shutil.copy(own, copy)
    ctypes.CDLL(str(copy))
    with pytest.raises(
        psr.ArrayError, match=r"petsc4py and mpi4py must use one MPI, but .* and .* are in this process"
    ):
        psr.as_distributed(matrix)
if WORLD.rank == 0:
    print("OK", flush=True)
