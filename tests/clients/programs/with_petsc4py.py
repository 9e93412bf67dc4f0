"""PETSc's ScaLAPACK matrices: their rows and their own blocks go through redistribute, and PETSc works on what arrives.

petsc4py shows neither the nine integers of such a matrix nor its local array. Both are found here as PETSc's own header
petscscalapack.h lays them out, after the two pointers that the public MatGetLayouts returns.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from petsc4py import PETSc

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
SHAPE, BLOCK = (26, 17), (4, 3)
WORDS = 2000  # of 8 bytes, in PETSc's description of a matrix


class ScalapackMatrix(ctypes.Structure):
    """Mat_ScaLAPACK of petsc/private/petscscalapack.h."""

    _fields_ = (
        ("grid", ctypes.c_void_p),
        ("desc", ctypes.c_int * 9),
        ("shape", ctypes.c_int * 2),
        ("local_shape", ctypes.c_int * 2),
        ("block", ctypes.c_int * 2),
        ("source", ctypes.c_int * 2),
        ("local", ctypes.c_void_p),
        ("lld", ctypes.c_int),
    )


def nine_and_local(matrix: Any) -> tuple[list[int], NDArray[np.float64]]:
    """The nine integers of a matrix, and its local array, not a copy."""
    petsc = ctypes.CDLL(PETSc.__file__)
    handle, rows, columns = ctypes.c_void_p(matrix.handle), ctypes.c_void_p(), ctypes.c_void_p()
    assert petsc.MatGetLayouts(handle, ctypes.byref(rows), ctypes.byref(columns)) == 0
    words = ctypes.cast(handle, ctypes.POINTER(ctypes.c_size_t))
    at = next(k for k in range(WORDS) if (words[k], words[k + 1]) == (rows.value, columns.value))
    inside = ScalapackMatrix.from_address(words[at + 2])
    nine = list(inside.desc)
    # what PETSc tells of the matrix says whether this is the place
    assert nine[2:4] == list(matrix.getSize()) == list(inside.shape), nine
    assert nine[4:6] == list(inside.block), nine
    local_rows, local_columns = inside.local_shape
    assert local_rows <= inside.lld == nine[8], nine
    memory = (ctypes.c_double * (inside.lld * local_columns)).from_address(inside.local)
    return nine, np.frombuffer(memory).reshape((inside.lld, local_columns), order="F")[:local_rows]


def made(shape: tuple[int, int]) -> Any:
    """An empty matrix of PETSc. It wants as many rows on every rank, but fewer on the last: those of one block a rank."""
    even = [psr.Descriptor((n,), None, psr.ProcessGrid((SIZE,), WORLD)).local_shape[0] for n in shape]
    matrix = PETSc.Mat().create(comm=WORLD)
    matrix.setSizes([(even[0], shape[0]), (even[1], shape[1])])
    matrix.setType("scalapack")
    assert ctypes.CDLL(PETSc.__file__).MatScaLAPACKSetBlockSizes(ctypes.c_void_p(matrix.handle), *BLOCK) == 0
    matrix.setUp()
    return matrix


def value(i: Any, j: Any) -> Any:
    return 1000.0 * i + j


def check_rows() -> None:
    """By names that petsc4py has: out as rows by convert("dense"), in by setValues of what each rank holds."""
    matrix = made(SHAPE)
    rows, columns = (part.getIndices() for part in matrix.getOwnershipIS())
    matrix.setValues(rows, columns, value(*np.ix_(rows, columns)))
    matrix.assemble()
    slab = psr.Descriptor(SHAPE, (None, None), psr.ProcessGrid((SIZE, 1), WORLD))
    assert np.array_equal(matrix.convert("dense").getDenseArray(), slab.from_function(value))


def check_blocks() -> None:
    """The matrix's own blocks, by its own nine integers, filled by redistribute; PETSc multiplies with it."""
    matrix = made(SHAPE)
    nine, local = nine_and_local(matrix)
    rows = psr.Descriptor(SHAPE, (7, None), psr.ProcessGrid((SIZE, 1), WORLD))
    psr.redistribute(rows, nine, comm=WORLD)(rows.from_function(value), local)
    matrix.assemble()
    held, across = (part.getIndices() for part in matrix.getOwnershipIS())
    assert np.array_equal(local, value(*np.ix_(held, across)))

    x, y = matrix.createVecs()
    x.setArray(np.cos(np.arange(*x.getOwnershipRange())))
    matrix.mult(x, y)
    expected = value(*np.ix_(np.arange(SHAPE[0]), np.arange(SHAPE[1]))) @ np.cos(np.arange(SHAPE[1]))
    assert np.allclose(y.getArray(), expected[slice(*y.getOwnershipRange())], rtol=1e-13)

    other = made(SHAPE)
    nine_other, local_other = nine_and_local(other)
    psr.redistribute(nine, nine_other, comm=WORLD)(local, local_other)
    assert np.array_equal(local_other, local)
    back = psr.redistribute(nine, rows, comm=WORLD)(local)
    assert np.array_equal(back, rows.from_function(value))


if __name__ == "__main__":
    check_rows()
    check_blocks()
    if RANK == 0:
        sys.stdout.write("OK\n")
