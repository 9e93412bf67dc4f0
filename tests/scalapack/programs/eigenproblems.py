"""pxsyevd against numpy.linalg.eigh: every type, both triangles, many blocks and grids; and what it refuses."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist import blacs, scalapack

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
GRIDS: dict[int, list[tuple[int, int]]] = {1: [(1, 1)], 2: [(2, 1)], 4: [(2, 2), (1, 3)], 6: [(2, 3), (3, 2)]}


def hermitian(n: int, dtype: str, seed: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if dtype in "FD" else 0)
    return ((half + half.conj().T) / 2).astype(dtype)


def put_together(desc: psr.Descriptor, local: NDArray[Any] | None, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The whole matrix on every rank, without the package's own gather."""
    whole = np.zeros(desc.shape, dtype)
    if local is not None:
        whole[np.ix_(desc.global_indices(0), desc.global_indices(1))] = local
    WORLD.Allreduce(MPI.IN_PLACE, whole)
    return whole


def check(grid: psr.ProcessGrid, n: int, block: int, dtype: str, uplo: str) -> None:
    """Values are NumPy's on every rank, and the vectors are orthonormal and belong to them; only one triangle is read."""
    matrix = hermitian(n, dtype, n)
    given = (np.tril if uplo == "L" else np.triu)(matrix) + (np.triu if uplo == "L" else np.tril)(
        np.full((n, n), 1e3, dtype), 1 if uplo == "L" else -1
    )
    desc = psr.Descriptor((n, n), (block, block), grid)
    a = None if grid.coords is None else desc.from_function(lambda i, j: given[i, j], dtype)
    values, vectors = scalapack.pxsyevd(a, desc, uplo)
    assert (values is None) == (vectors is None) == (grid.coords is None)
    expected = np.linalg.eigvalsh(matrix)
    tolerance = 30 * max(n, 1) * np.finfo(dtype).eps
    case = f"{grid.shape}, n = {n}, blocks of {block}, {dtype}, {uplo}"
    if values is not None:
        assert values.dtype == expected.dtype, case
        assert np.abs(values - expected).max(initial=0) < tolerance, case
    whole = put_together(desc, vectors, np.dtype(dtype))
    residual = np.abs(matrix @ whole - whole * expected.astype(dtype)).max(initial=0)
    assert residual < tolerance, f"{case}: {residual}"
    assert np.abs(whole.conj().T @ whole - np.eye(n)).max(initial=0) < tolerance, case


def refused(grid: psr.ProcessGrid) -> None:
    """On every rank, those outside the grid too, before the library is called."""
    fine = psr.Descriptor((12, 12), (2, 2), grid)
    cases: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (ValueError, r"uplo = 'X' must be one of 'U' \(upper\), 'L'", lambda: scalapack.pxsyevd(None, fine, "X")),
    ]
    wrong = [
        (psr.Descriptor((12, 10), (2, 2), grid), "a square one is needed"),
        (psr.Descriptor((12, 12), (2, 3), grid), "only with square ones"),
        (fine[2:8, 2:8], "desc is of a sub-array"),
    ]
    if grid.size > 1:
        wrong += [
            (
                psr.Descriptor((12, 12), (12, 12), grid),
                r"one block of 12 x 12 on . processes, .* only for a matrix of several blocks",
            ),
            (psr.Descriptor((12, 12), (2, 2), grid, source=[n - 1 for n in grid.shape]), "is right only for 0"),
        ]
    cases += [(psr.DescriptorError, text, lambda desc=desc: scalapack.pxsyevd(None, desc)) for desc, text in wrong]
    if grid.coords is not None:
        cases += [
            (psr.ArrayError, "a is None", lambda: scalapack.pxsyevd(None, fine)),
            (psr.ArrayError, "dtype int32; this routine is for", lambda: scalapack.pxsyevd(fine.zeros("i"), fine)),
        ]
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()


def main() -> None:
    mkl = blacs.load().vendor == "MKL"
    for shape in GRIDS[SIZE]:
        places = np.arange(SIZE)[::-1][: shape[0] * shape[1]].reshape(shape)
        if mkl:
            if SIZE > 1:
                backwards = psr.Descriptor((40, 40), (3, 3), psr.ProcessGrid(shape, WORLD, ranks=places))
                with pytest.raises(psr.DescriptorError, match=r"MKL's p.syevd does not return from every such order"):
                    scalapack.pxsyevd(None, backwards)
            places = np.sort(places, axis=None).reshape(shape)
        with psr.ProcessGrid(shape, WORLD, ranks=places) as grid:
            if grid.coords is not None:
                grid.make_context()
            for n, block in ((0, 2), (1, 3), (2, 1), (7, 2), (20, 19), (30, 4), (33, 1)):
                for dtype in "fdFD":
                    check(grid, n, block, dtype, "LU"[n % 2])
                check(grid, n, block, "d", "UL"[n % 2])
            if grid.size == 1:
                check(grid, 9, 9, "d", "L")
                check(grid, 5, 40, "D", "U")
            refused(grid)
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
