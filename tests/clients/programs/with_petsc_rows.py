"""PETSc's dense matrices and vectors, by their ownership ranges: into blocks and back; systems solved there."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from mpi4py import MPI
from petsc4py import PETSc

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
ROWS = psr.ProcessGrid((SIZE, 1), WORLD)
SHAPES = [(26, 17), (5, 31), (1, 9), (40, 1), (2, 2)]


def value(i: Any, j: Any) -> Any:
    return 1000.0 * i + j


def own_rows(n: int, kind: str) -> int:
    """How many of n rows this rank is to have."""
    if kind == "PETSc's":
        return PETSc.DECIDE
    if kind == "last":
        return n if RANK == SIZE - 1 else 0
    edges = [0, *sorted(np.random.default_rng(n).integers(0, n + 1, SIZE - 1).tolist()), n]
    return edges[RANK + 1] - edges[RANK]


def made(shape: tuple[int, int], kind: str) -> Any:
    """A dense matrix of PETSc, of zeros."""
    matrix = PETSc.Mat().createDense(((own_rows(shape[0], kind), shape[0]), (PETSc.DECIDE, shape[1])), comm=WORLD)
    matrix.setUp()
    matrix.assemble()
    return matrix


def filled(matrix: Any, values: Any) -> Any:
    """The matrix, of which PETSc has set each element from a function of its indices."""
    held, columns = np.arange(*matrix.getOwnershipRange()), np.arange(matrix.getSize()[1])
    matrix.setValues(held.astype(PETSc.IntType), columns.astype(PETSc.IntType), values(*np.ix_(held, columns)))
    matrix.assemble()
    return matrix


def descriptor(matrix: Any) -> psr.Descriptor:
    return psr.Descriptor(matrix.getSize(), (psr.Blocks(np.diff(matrix.getOwnershipRanges())), None), ROWS)


def of_vector(vector: Any) -> psr.Descriptor:
    rows = psr.Blocks(np.diff(vector.getOwnershipRanges()))
    return psr.Descriptor((vector.getSize(),), rows, psr.ProcessGrid((SIZE,), WORLD))


def layouts(shape: tuple[int, int]) -> list[psr.Descriptor]:
    """Block-cyclic layouts: blocks of 1, larger than the matrix, on all ranks or on some, from any process on."""
    rows = max(k for k in (1, 2) if k <= SIZE)
    some = psr.ProcessGrid((rows, SIZE // rows), WORLD)
    only = psr.ProcessGrid((1, max(1, SIZE - 1)), WORLD, ranks=[list(range(SIZE - 1, 0, -1)) or [0]])
    return [
        psr.Descriptor(shape, (4, 3), some, source=(rows - 1, 0)),
        psr.Descriptor(shape, 1, some),
        psr.Descriptor(shape, (64, 5), only),
    ]


def check_matrix(shape: tuple[int, int], kind: str) -> None:
    """PETSc's elements arrive in blocks, and come back into its own memory."""
    matrix = filled(made(shape, kind), value)
    desc = descriptor(matrix)
    assert desc.local_shape == (matrix.getLocalSize()[0], shape[1])
    for blocks in layouts(shape):
        moved = psr.redistribute(desc, blocks)(matrix.getDenseArray(), blocks.zeros(float))
        assert moved is None or np.array_equal(moved, blocks.from_function(value)), (shape, kind, blocks)
        other = made(shape, "PETSc's")  # of other ownership ranges
        psr.redistribute(blocks, descriptor(other))(moved, other.getDenseArray())
        other.assemble()
        assert other.equal(filled(made(shape, "PETSc's"), value)), (shape, kind, blocks)


def check_solution(n: int, kind: str) -> None:
    """A matrix in PETSc's rows is solved in blocks by psr.linalg; PETSc finds the residual."""
    matrix = filled(made((n, n), kind), lambda i, j: n * (i == j) + 1 / (1 + abs(i - 2.0 * j)))
    x, b = matrix.createVecs()
    b.setArray(np.cos(np.arange(*b.getOwnershipRange())))
    desc_a, desc_b = descriptor(matrix), of_vector(b)
    assert desc_b.local_shape == (b.getLocalSize(),)
    a = psr.DistributedArray(desc_a, matrix.getDenseArray())
    solved = psr.linalg.solve(a, psr.DistributedArray(desc_b, b.getArray()))
    columns = psr.Descriptor((n,), psr.Blocks(np.diff(x.getOwnershipRanges())), desc_b.grid)
    x.setArray(solved.redistribute(columns).local)
    assert (matrix * x - b).norm() < 1e-12


def main() -> None:
    for kind in ("PETSc's", "any", "last"):
        for shape in SHAPES:
            check_matrix(shape, kind)
        for n in (1, 37, 90):
            check_solution(n, kind)
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
