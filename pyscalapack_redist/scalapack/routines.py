"""Routines of ScaLAPACK on NumPy local arrays, in any layouts that it takes: pxgemr2d, pxtrmr2d, pxgetrf, pxgetrs.

ScaLAPACK ends the process on bad input, so everything is checked first, by `operands`; on this rank only, without
communication. The letter of a routine comes from the dtype: float32 s, float64 d, complex64 c, complex128 z, int32 i.
In place of a local array and its descriptor every routine takes a `DistributedArray`: `pxgetrs(a, pivots, b)`.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from .. import blacs
from ..comm.mpi import MPI
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed
from ..layout.given import LayoutArgument
from ..layout.letters import DIAGONALS, TRANSPOSES, TRIANGLES, letter_of
from .calls import entering, over_grid, ready
from .operands import (
    FACTORED_KINDS,
    check_info,
    check_same_shape,
    check_separate,
    checked_pivots,
    diagonal_places,
    enclosing_context,
    factorable_size,
    kind_of,
    operand,
    sides_count_of,
)
from .together import SingularError, routine

__all__ = ["pxgemr2d", "pxgetrf", "pxgetrs", "pxtrmr2d"]


@overload
def pxgemr2d(
    a: Distributed, b: Distributed, /, context: int | None = None, *, comm: MPI.Intracomm | None = None
) -> None: ...


@overload
def pxgemr2d(
    a: NDArray[Any] | None,
    desc_a: LayoutArgument,
    b: NDArray[Any] | None,
    desc_b: LayoutArgument,
    context: int | None = None,
    *,
    comm: MPI.Intracomm | None = None,
) -> None: ...


@routine
def pxgemr2d(
    a: NDArray[Any] | None,
    desc_a: Descriptor,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    context: int | None = None,
    *,
    comm: MPI.Intracomm | None = None,
) -> None:
    """Copy a matrix from one layout to another with ScaLAPACK's p?gemr2d. Collective over the context.

    Parameters
    ----------
    a, b : ndarray or None
        Local arrays, Fortran-ordered, the whole array's where a descriptor is of a sub-array; None on a rank outside
        that grid. `b` is written.
    desc_a, desc_b : Descriptor, or nine integers
        Layouts, of equal shape; the grids' contexts must have been made.
    context : int, optional
        BLACS context that holds both grids, -1 on ranks outside it. Default: that of one of the two grids where its
        ranks include the other's. Ranks outside it have nothing to do.
    comm : MPI.Intracomm, optional
        Communicator that holds all processes: needed where a layout is given as nine integers, or as None on a rank that
        does not know it, as for `redistribute`. All of its ranks take part then, and what one of them finds wrong is raised
        on all, or where dtypes, letters and sizes differ. Without it nothing is sent before ScaLAPACK is entered, and where one
        rank raises the others wait for it there.

    Raises
    ------
    DescriptorError
        The shapes differ, no context holds both grids, or a number exceeds 32 bits.
    ArrayError
        A local array does not fit its descriptor, or the dtypes differ or are none of the five.
    """
    check_same_shape(desc_a, desc_b)
    ctxt = enclosing_context(desc_a, desc_b, context)
    if ctxt < 0:
        return
    source, target = operand("a", a, desc_a), operand("b", b, desc_b, written=True)
    kind = kind_of(source, target)
    check_separate(source, target)
    if 0 not in desc_a.shape:
        m, n = desc_a.shape
        entry = blacs.load().entries.gemr2d
        ready(f"p{kind}gemr2d", m, n, source, target)
        entry(kind, m, n, *source.where, *target.where, ctxt)


@overload
def pxtrmr2d(
    a: Distributed,
    b: Distributed,
    /,
    *,
    uplo: str,
    diag: str = "N",
    context: int | None = None,
    comm: MPI.Intracomm | None = None,
) -> None: ...


@overload
def pxtrmr2d(
    a: NDArray[Any] | None,
    desc_a: LayoutArgument,
    b: NDArray[Any] | None,
    desc_b: LayoutArgument,
    *,
    uplo: str,
    diag: str = "N",
    context: int | None = None,
    comm: MPI.Intracomm | None = None,
) -> None: ...


@routine
def pxtrmr2d(
    a: NDArray[Any] | None,
    desc_a: Descriptor,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    *,
    uplo: str,
    diag: str = "N",
    context: int | None = None,
    comm: MPI.Intracomm | None = None,
) -> None:
    """Copy one triangle, or trapezoid, of a matrix with ScaLAPACK's p?trmr2d. Collective over the context.

    Parameters
    ----------
    a, b, desc_a, desc_b, context
        As for `pxgemr2d`.
    uplo : {"U", "L"}
        Upper or lower triangle; the rest of `b` stays. Of m x n, what ScaLAPACK calls the diagonal starts below the
        corner by m - n for "U" of a tall matrix, and right of it by n - m for "L" of a wide one.
    diag : {"N", "U"}
        "U": the diagonal is taken to be of ones and is not copied.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    ValueError
        `uplo` or `diag` is none of these letters.
    DescriptorError, ArrayError
        As for `pxgemr2d`.
    """
    triangle, diagonal = letter_of("uplo", uplo, TRIANGLES), letter_of("diag", diag, DIAGONALS)
    check_same_shape(desc_a, desc_b)
    ctxt = enclosing_context(desc_a, desc_b, context)
    if ctxt < 0:
        return
    source, target = operand("a", a, desc_a), operand("b", b, desc_b, written=True)
    kind = kind_of(source, target)
    check_separate(source, target)
    if 0 not in desc_a.shape:
        m, n = desc_a.shape
        entry = blacs.load().entries.trmr2d
        ready(f"p{kind}trmr2d", triangle, diagonal, m, n, source, target)
        entry(kind, triangle, diagonal, m, n, *source.where, *target.where, ctxt)


@overload
def pxgetrf(a: Distributed, /, *, comm: MPI.Intracomm | None = None) -> NDArray[np.intc] | None: ...


@overload
def pxgetrf(
    a: NDArray[Any] | None, desc: LayoutArgument, *, comm: MPI.Intracomm | None = None
) -> NDArray[np.intc] | None: ...


@routine
def pxgetrf(a: NDArray[Any] | None, desc: Descriptor, *, comm: MPI.Intracomm | None = None) -> NDArray[np.intc] | None:
    """LU factorisation with row exchanges, in place, by ScaLAPACK's p?getrf. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten by the factors; ranks outside the grid may pass None.
    desc : Descriptor, or nine integers
        Its layout: square, with square blocks; a sub-array must start at a block's edge.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Returns
    -------
    pivots : ndarray of int32, or None outside the grid
        Global row exchanged with each local row, counted from 1 in the whole array, as `pxgetrs` takes them.

    Raises
    ------
    numpy.linalg.LinAlgError
        A pivot is exactly zero: the matrix is singular.
    DescriptorError
        The layout cannot be factored.
    ArrayError
        The local array does not fit it.
    """
    n = factorable_size(desc)
    if desc.grid.coords is None:
        return None
    matrix = operand("a", a, desc, written=True)
    kind = kind_of(matrix, allowed=FACTORED_KINDS)
    pivots = np.zeros(desc.local_shape[0] + desc.block[0], dtype=np.intc)
    if n == 0:
        return pivots
    places, first = diagonal_places(desc), np.zeros(2, np.intc)
    least = over_grid("igamn2d", first, desc)
    with entering(f"p{kind}getrf", desc, n, matrix):
        info = blacs.load().entries.getrf(kind, n, n, *matrix.where, pivots)
        # MKL's does not tell of each zero pivot, and netlib's returns from a matrix of one row without a look at it
        first[:] = _first_small(matrix.array, *places, n)
        least()
    check_info(f"p{kind}getrf", info, matrix)
    zero, subnormal = (int(number) for number in first)
    if subnormal < min(zero, n):
        raise np.linalg.LinAlgError(
            f"p{kind}getrf: pivot {subnormal} (counted from 1) is so small that ScaLAPACK cannot divide by it: multiply the "
            "matrix by a power of 2, or call qr or lstsq"
        )
    if info > 0 and zero > n:
        raise np.linalg.LinAlgError(
            f"p{kind}getrf: pivot {info} (counted from 1) was not found: the matrix has infs, NaNs or subnormal numbers"
        )
    if zero <= n:
        raise SingularError(
            f"p{kind}getrf: the matrix is singular: pivot {info or zero} (counted from 1) is exactly zero"
        )
    return pivots


def _first_small(
    local: NDArray[Any] | None, indices: NDArray[np.int64], rows: NDArray[np.int64], columns: NDArray[np.int64], n: int
) -> tuple[int, int]:
    """On this rank's part of the diagonal the first zero, and the first number of which the reciprocal overflows.

    Counted from 1; n + 1 where there is none.
    """
    if local is None:
        return n + 1, n + 1
    sizes = np.abs(local[rows, columns])
    least = 1 / np.finfo(sizes.dtype).max
    zeros, subnormal = indices[sizes == 0], indices[(sizes > 0) & (sizes < least)]
    return tuple(int(some[0]) + 1 if some.size else n + 1 for some in (zeros, subnormal))  # type: ignore[return-value]


@overload
def pxgetrs(
    a: Distributed,
    pivots: NDArray[np.intc] | None,
    b: Distributed,
    /,
    trans: str = "N",
    *,
    comm: MPI.Intracomm | None = None,
) -> None: ...


@overload
def pxgetrs(
    a: NDArray[Any] | None,
    desc: LayoutArgument,
    pivots: NDArray[np.intc] | None,
    b: NDArray[Any] | None,
    desc_b: LayoutArgument,
    trans: str = "N",
    *,
    comm: MPI.Intracomm | None = None,
) -> None: ...


@routine
def pxgetrs(
    a: NDArray[Any] | None,
    desc: Descriptor,
    pivots: NDArray[np.intc] | None,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    trans: str = "N",
    *,
    comm: MPI.Intracomm | None = None,
) -> None:
    """Solve A X = B with the factors of `pxgetrf`, by ScaLAPACK's p?getrs. Collective over the grid.

    Parameters
    ----------
    a, desc, pivots
        As left and returned by `pxgetrf`; ranks outside the grid may pass None for arrays.
    b : ndarray or None
        Local array of the right-hand sides, Fortran-ordered, overwritten by the solutions.
    desc_b : Descriptor, or nine integers
        Its layout, on the same grid: as many rows as A, in the same blocks, on the same process rows.
    trans : {"N", "T", "C"}
        Solve with A, its transpose or its conjugate transpose.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    ValueError
        `trans` is none of these letters.
    DescriptorError
        The layouts do not fit each other.
    ArrayError
        A local array does not fit its layout.
    """
    form = letter_of("trans", trans, TRANSPOSES)
    n = factorable_size(desc)
    sides_count = sides_count_of(desc, desc_b)
    if desc.grid.coords is None:
        return
    matrix, sides = operand("a", a, desc), operand("b", b, desc_b, written=True)
    kind = kind_of(matrix, sides, allowed=FACTORED_KINDS)
    check_separate(matrix, sides)
    exchanged = checked_pivots(pivots, desc.local_shape[0] + desc.block[0])
    if 0 in desc_b.shape:
        return
    with entering(f"p{kind}getrs", desc, form, n, sides_count, matrix, sides):
        info = blacs.load().entries.getrs(kind, form, n, sides_count, *matrix.where, exchanged, *sides.where)
    check_info(f"p{kind}getrs", info, matrix, sides)
