"""Routines of ScaLAPACK for whole matrices in aligned layouts: Cholesky factors, triangles and inverses.

As in `routines`, everything is checked first, on this rank only, without communication, and in place of a local array and its
descriptor each takes a `DistributedArray`. Layouts are aligned: square blocks of one size, source 0, one grid, no sub-arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.mpi import MPI
from ..layout.descriptor import Descriptor
from ..layout.letters import TRANSPOSES, TRIANGLES, letter_of
from .calls import call, call_with_info, call_with_workspace, dtype_of
from .operands import (
    Operand,
    check_aligned,
    check_separate,
    checked_pivots,
    factorable_size,
    factored_kind,
    operand,
    sides_count_of,
)
from .together import routine

__all__ = [
    "pxgetri",
    "pxpotrf",
    "pxpotrs",
    "pxtrmm",
    "pxtrsm",
]

Local = NDArray[Any] | None


@routine
def pxpotrf(a: Local, desc: Descriptor, uplo: str = "L", *, comm: MPI.Intracomm | None = None) -> None:
    """Cholesky factorisation in place, by ScaLAPACK's p?potrf. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered; the triangle is overwritten by the factor, the other one stays.
    desc : Descriptor, or nine integers
        Its layout: of a square matrix, in square blocks, source 0.
    uplo : {"L", "U"}
        Triangle that is read and written: A = L L^H or U^H U.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is not positive definite; says which leading minor.
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """
    triangle = letter_of("uplo", uplo, TRIANGLES)
    n = factorable_size(desc)
    check_aligned(desc=desc)
    if desc.grid.coords is None:
        return
    matrix = operand("a", a, desc, written=True)
    kind = factored_kind(matrix)
    if n == 0:
        return
    info = call_with_info(f"p{kind}potrf", triangle, n, matrix)
    if info:
        raise np.linalg.LinAlgError(
            f"p{kind}potrf: the matrix is not positive definite: its leading minor of order {info} is not"
        )


@routine
def pxpotrs(
    a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str = "L", *, comm: MPI.Intracomm | None = None
) -> None:
    """Solve A X = B with the factor of `pxpotrf`, by ScaLAPACK's p?potrs. Collective over the grid.

    Parameters
    ----------
    a, desc, uplo
        As left by, and given to, `pxpotrf`.
    b : ndarray or None
        Local array of the right-hand sides, Fortran-ordered, overwritten by the solutions.
    desc_b : Descriptor, or nine integers
        Its layout, aligned with `desc`.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """
    triangle = letter_of("uplo", uplo, TRIANGLES)
    found = _matrix_and_sides(a, desc, b, desc_b)
    if found is not None:
        kind, matrix, sides = found
        call_with_info(f"p{kind}potrs", triangle, *desc_b.shape, matrix, sides)


def _matrix_and_sides(a: Local, desc: Descriptor, b: Local, desc_b: Descriptor) -> tuple[str, Operand, Operand] | None:
    """The letter of a square matrix and of right-hand sides aligned with it, and both; None where there is nothing to do."""
    factorable_size(desc)
    check_aligned(desc=desc, desc_b=desc_b)
    sides_count_of(desc, desc_b)
    if desc.grid.coords is None:
        return None
    matrix, sides = operand("a", a, desc), operand("b", b, desc_b, written=True)
    kind = factored_kind(matrix, sides)
    check_separate(matrix, sides)
    return None if 0 in desc_b.shape else (kind, matrix, sides)


@routine
def pxtrsm(
    a: Local,
    desc: Descriptor,
    b: Local,
    desc_b: Descriptor,
    uplo: str = "L",
    trans: str = "N",
    *,
    comm: MPI.Intracomm | None = None,
) -> None:
    """Solve op(A) X = B with a triangle of A, in place of B, by PBLAS's p?trsm. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, of which the triangle is read.
    desc : Descriptor, or nine integers
        Its layout: of a square matrix, in square blocks, source 0.
    b, desc_b, uplo
        As for `pxpotrs`.
    trans : {"N", "T", "C"}
        Solve with the triangle, its transpose or its conjugate transpose.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """
    _triangular("trsm", a, desc, b, desc_b, uplo, trans)


@routine
def pxtrmm(
    a: Local,
    desc: Descriptor,
    b: Local,
    desc_b: Descriptor,
    uplo: str = "L",
    trans: str = "N",
    *,
    comm: MPI.Intracomm | None = None,
) -> None:
    """Multiply op(A) B with a triangle of A, in place of B, by PBLAS's p?trmm. Collective over the grid.

    Parameters and errors are those of `pxtrsm`.
    """
    _triangular("trmm", a, desc, b, desc_b, uplo, trans)


def _triangular(name: str, a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str, trans: str) -> None:
    triangle, form = letter_of("uplo", uplo, TRIANGLES), letter_of("trans", trans, TRANSPOSES)
    found = _matrix_and_sides(a, desc, b, desc_b)
    if found is not None:
        kind, matrix, sides = found
        call(f"p{kind}{name}", "L", triangle, form, "N", *desc_b.shape, np.ones(1, dtype_of(kind)), matrix, sides)


@routine
def pxgetri(a: Local, desc: Descriptor, pivots: NDArray[np.intc] | None, *, comm: MPI.Intracomm | None = None) -> None:
    """Inverse from the factors of `pxgetrf`, in place, by ScaLAPACK's p?getri. Collective over the grid.

    Parameters
    ----------
    a, desc, pivots
        As left and returned by `pxgetrf`; source 0 and no sub-array.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    numpy.linalg.LinAlgError, DescriptorError, ArrayError
        As for `pxgetrf`.
    """
    n = factorable_size(desc)
    check_aligned(desc=desc)
    if desc.grid.coords is None:
        return
    matrix = operand("a", a, desc, written=True)
    kind = factored_kind(matrix)
    exchanged = checked_pivots(pivots, desc.local_shape[0] + desc.block[0])
    if n == 0:
        return
    info = call_with_workspace(f"p{kind}getri", f"{kind}i", n, matrix, exchanged)
    if info:
        raise np.linalg.LinAlgError(
            f"p{kind}getri: the matrix is singular: pivot {info} (counted from 1) is exactly zero"
        )
