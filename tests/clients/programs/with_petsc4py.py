"""PETSc's matrices and vectors. Those of type scalapack: by rows and by their own blocks; PETSc works on what arrives.

petsc4py shows neither the nine integers of such a matrix nor its local array. Both are found here as PETSc's own header
petscscalapack.h lays them out, after the two pointers that the public MatGetLayouts returns.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any
from unittest.mock import patch

import numpy as np
from conversions import check_conversions, check_linalg, check_refused
from mpi4py import MPI
from numpy.typing import NDArray
from petsc4py import PETSc

import pyscalapack_redist as psr
from pyscalapack_redist.adapters import petsc

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
    matrix.assemble()
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
    assert np.array_equal(matrix.convert("dense", PETSc.Mat()).getDenseArray(), slab.from_function(value))


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


def dense(shape: tuple[int, int], sizes: Any = (PETSc.DECIDE, PETSc.DECIDE), comm: MPI.Intracomm = WORLD) -> Any:
    matrix = PETSc.Mat().createDense(tuple(zip(sizes, shape, strict=True)), comm=comm)
    matrix.setUp()
    return matrix


def rows_of(x: Any) -> list[Any]:
    return (
        [range(*x.getOwnershipRange()), range(x.getSize()[1])]
        if isinstance(x, PETSc.Mat)
        else [range(*x.getOwnershipRange())]
    )


def local_of(x: Any) -> Any:
    return x.getDenseArray() if isinstance(x, PETSc.Mat) else x.getArray()


def check_adapter() -> None:
    """Dense matrices and vectors, in PETSc's memory and with the ownership of PETSc's rows and columns."""
    uneven = 5 if RANK == SIZE - 1 else 3 if RANK == 0 and SIZE > 1 else 0
    n = 8 if SIZE > 1 else 5
    matrix = dense((n, 7), (uneven, PETSc.DECIDE))
    vector = PETSc.Vec().createMPI((uneven, n), comm=WORLD)
    for x in (matrix, vector):
        check_conversions(x, local_of, rows_of, float)
    transpose = psr.redistribute(matrix, op="T", like=matrix)
    assert transpose.getSizes() == matrix.getSizes()[::-1]
    x = matrix.createVecRight()
    x.set(1)
    assert np.allclose((matrix * x).getArray(), local_of(matrix).sum(1), rtol=1e-14)
    doubled, norm = matrix.copy(), matrix.norm()
    doubled.scale(2)
    psr.copy_to(doubled, matrix)
    assert np.isclose(matrix.norm(), 2 * norm), "PETSc has the old norm"

    a = dense((9, 9))
    check_linalg(a)
    b, expected = a.createVecs()
    expected.setArray(np.cos(np.arange(*expected.getOwnershipRange())))
    a.mult(expected, b)
    solved = psr.linalg.solve(a, b)
    assert isinstance(solved, PETSc.Vec)
    assert np.allclose(solved.getArray(), expected.getArray(), rtol=1e-12)
    assert psr.redistribute(a, like=b).equal(a)

    view = psr.as_distributed(a)
    a.destroy()
    gc.collect()
    view.local[...] = 3  # PETSc frees the memory with the view
    check_refused(lambda: psr.as_distributed(PETSc.Mat()), "without a type")
    check_refused(
        lambda: psr.as_distributed(PETSc.Mat().createAIJ((5, 5), comm=WORLD)), "seqaij" if SIZE == 1 else "mpiaij"
    )
    check_refused(lambda: psr.redistribute(view.astype(complex), like=matrix), "astype")
    cube = psr.Descriptor((2, 3, 4), 2, psr.ProcessGrid((SIZE, 1, 1), WORLD))
    check_refused(lambda: psr.redistribute(psr.DistributedArray(cube, cube.empty()), like=vector), "(2, 3, 4)")
    if RANK == 0:
        matrix.setValues([0], [0], [1.0])
    check_refused(lambda: psr.as_distributed(matrix), "not assembled")
    matrix.assemble()


class Preconditioner:
    """The identity, which counts how often it is set up."""

    count = 0

    def setUp(self, _: Any) -> None:
        self.count += 1

    def apply(self, _: Any, x: Any, y: Any) -> None:
        x.copy(y)


def check_states() -> None:
    """What is read only is not new to PETSc, whose solvers keep what they have made of it; what is locked is not written."""
    a = dense((6, 6))
    a.shift(2)
    x, b = a.createVecs()
    b.set(1)
    solver, counter = PETSc.KSP().create(WORLD), Preconditioner()
    solver.setOperators(a)
    solver.getPC().setType("python")
    solver.getPC().setPythonContext(counter)
    states = set()
    for _ in range(3):
        solver.solve(b, x)
        states.add((a.stateGet(), b.stateGet()))
        assert np.isclose(psr.linalg.norm(a), 24**0.5)
        assert np.isclose(psr.linalg.norm(b), 6**0.5)
        assert psr.redistribute(a, like=a).equal(a)
        assert psr.redistribute(b, like=b).equal(b)
    assert counter.count == 1
    assert len(states) == 1
    assert np.isclose(x.norm(), 6**0.5 / 2)
    psr.copy_to(b, x)
    assert np.isclose(x.norm(), 6**0.5), "PETSc has the old norm"
    x.scale(2)
    assert np.isclose(x.norm(), 2 * 6**0.5)
    assert psr.plan(b, x)(b, x) is x
    assert np.isclose(x.norm(), 6**0.5), "PETSc has the old norm"
    other = a.duplicate(copy=True)
    other.scale(2)
    assert np.isclose(other.norm(), 2 * 24**0.5)
    psr.plan(a, other).start(a, other).wait()
    assert np.isclose(other.norm(), 24**0.5), "PETSc has the old norm"
    with patch.object(petsc, "_is_locked", lambda _: True):
        assert psr.redistribute(b, like=x).equal(b)
        check_refused(lambda: psr.copy_to(b, x), "read-only")
    solver.destroy()  # PETSc keeps it until it ends, and the preconditioner's class would be gone


def check_parts() -> None:
    """Matrices on communicators of some ranks only, which PETSc frees with the last object."""
    part = WORLD.Split(RANK % 2, key=-RANK)
    matrix = dense((6, 4), comm=part)
    check_conversions(matrix, local_of, rows_of, float, part)
    layout = psr.layout_of(matrix)
    matrix.destroy()
    part.Free()
    assert layout.comm.allreduce(1) == layout.grid.size


def check_scalapack() -> None:
    """A matrix of type scalapack is taken in its blocks and its memory, and made anew in such."""
    matrix = made(SHAPE)
    assert psr.layout_of(matrix).block == BLOCK
    check_conversions(
        matrix, lambda x: nine_and_local(x)[1], lambda x: [p.getIndices() for p in x.getOwnershipIS()], float
    )
    matrix.zeroEntries()
    rows, columns = (part.getIndices() for part in matrix.getOwnershipIS())
    matrix.setValues(rows, columns, value(*np.ix_(rows, columns)))
    matrix.assemble()
    blocks = psr.Descriptor(SHAPE, 3, psr.ProcessGrid((SIZE, 1), WORLD))
    array = psr.redistribute(matrix, blocks)
    assert np.array_equal(array.local, blocks.from_function(value))
    other = psr.redistribute(array, like=matrix)
    assert other.getType() == "scalapack"
    assert np.array_equal(nine_and_local(other)[1], nine_and_local(matrix)[1])
    transpose = psr.redistribute(array, op="T", like=matrix)
    assert transpose.getSize() == SHAPE[::-1]
    assert np.array_equal(psr.redistribute(transpose, blocks, op="T").local, array.local)
    norm = matrix.norm()
    psr.copy_to(2 * array, matrix)
    assert np.isclose(matrix.norm(), 2 * norm), "PETSc has the old norm"
    view = psr.as_distributed(matrix)
    matrix.destroy()
    gc.collect()
    view.local[...] = 3  # PETSc frees the memory with the view
    check_linalg(made((12, 12)))
    check_refused(lambda: psr.redistribute(view.astype(complex), like=other), "astype")
    if RANK == 0:
        other.setValues([0], [0], [1.0])
    check_refused(lambda: psr.redistribute(array, like=other), "not assembled")
    other.assemble()
    with patch.object(petsc, "WORDS", 8):
        check_refused(lambda: psr.as_distributed(other), "scalapack in a way that is not known")


if __name__ == "__main__":
    check_adapter()
    check_states()
    if sys.argv[1:] != ["adapter"]:
        check_parts()
        check_scalapack()
        check_rows()
        check_blocks()
    if RANK == 0:
        sys.stdout.write("OK\n")
