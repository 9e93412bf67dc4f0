"""The few ScaLAPACK routines that the package calls: pxgemr2d, pxtrmr2d, pxgetrf, pxgetrs, pxsyevd, on NumPy local arrays.

ScaLAPACK ends the process on bad input, so everything is checked first, by `operands`; on this rank only, without
communication. The letter of a routine comes from the dtype: float32 s, float64 d, complex64 c, complex128 z, int32 i.
In place of a local array and its descriptor every routine takes a `DistributedArray`: `pxgetrs(a, pivots, b)`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from .. import blacs
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed, takes_distributed
from .calls import dtype_of, norm_of, size_told
from .operands import (
    FACTORED_KINDS,
    KIND_OF_DTYPE,
    Operand,
    check_info,
    check_same_shape,
    check_separate,
    checked_pivots,
    eigenproblem_size,
    enclosing_context,
    factorable_size,
    kind_of,
    letter_of,
    operand,
    sides_count_of,
)

__all__ = ["Eigenpairs", "pxgemr2d", "pxgetrf", "pxgetrs", "pxsyevd", "pxtrmr2d"]


@overload
def pxgemr2d(a: Distributed, b: Distributed, /, context: int | None = None) -> None: ...


@overload
def pxgemr2d(
    a: NDArray[Any] | None, desc_a: Descriptor, b: NDArray[Any] | None, desc_b: Descriptor, context: int | None = None
) -> None: ...


@takes_distributed("local", "desc")
def pxgemr2d(
    a: NDArray[Any] | None,
    desc_a: Descriptor,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    context: int | None = None,
) -> None:
    """Copy a matrix from one layout to another with ScaLAPACK's p?gemr2d. Collective over the context.

    Parameters
    ----------
    a, b : ndarray or None
        Local arrays, Fortran-ordered, the whole array's where a descriptor is of a sub-array; None on a rank outside
        that grid. `b` is written.
    desc_a, desc_b : Descriptor
        Layouts, of equal shape; the grids' contexts must have been made.
    context : int, optional
        BLACS context that holds both grids, -1 on ranks outside it. Default: that of one of the two grids where its
        ranks include the other's. Ranks outside it have nothing to do.

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
        blacs.load().entries.gemr2d(kind, m, n, *source.where, *target.where, ctxt)


@overload
def pxtrmr2d(a: Distributed, b: Distributed, /, *, uplo: str, diag: str = "N", context: int | None = None) -> None: ...


@overload
def pxtrmr2d(
    a: NDArray[Any] | None,
    desc_a: Descriptor,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    *,
    uplo: str,
    diag: str = "N",
    context: int | None = None,
) -> None: ...


@takes_distributed("local", "desc")
def pxtrmr2d(
    a: NDArray[Any] | None,
    desc_a: Descriptor,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    *,
    uplo: str,
    diag: str = "N",
    context: int | None = None,
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

    Raises
    ------
    ValueError
        `uplo` or `diag` is none of these letters.
    DescriptorError, ArrayError
        As for `pxgemr2d`.
    """
    triangle, diagonal = letter_of("uplo", uplo, "UL"), letter_of("diag", diag, "NU")
    check_same_shape(desc_a, desc_b)
    ctxt = enclosing_context(desc_a, desc_b, context)
    if ctxt < 0:
        return
    source, target = operand("a", a, desc_a), operand("b", b, desc_b, written=True)
    kind = kind_of(source, target)
    check_separate(source, target)
    if 0 not in desc_a.shape:
        m, n = desc_a.shape
        blacs.load().entries.trmr2d(kind, triangle, diagonal, m, n, *source.where, *target.where, ctxt)


@overload
def pxgetrf(a: Distributed, /) -> NDArray[np.intc] | None: ...


@overload
def pxgetrf(a: NDArray[Any] | None, desc: Descriptor) -> NDArray[np.intc] | None: ...


@takes_distributed("local", "desc")
def pxgetrf(a: NDArray[Any] | None, desc: Descriptor) -> NDArray[np.intc] | None:
    """LU factorisation with row exchanges, in place, by ScaLAPACK's p?getrf. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten by the factors; ranks outside the grid may pass None.
    desc : Descriptor
        Its layout: square, with square blocks; a sub-array must start at a block's edge.

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
    info = blacs.load().entries.getrf(kind, n, n, *matrix.where, pivots)
    check_info(f"p{kind}getrf", info)
    # netlib's returns at once from a matrix of one row, without a look at it
    if n == 1 and info == 0 and desc.parent is None and norm_of("M", kind, desc, matrix) == 0:
        info = 1
    if info > 0:
        raise np.linalg.LinAlgError(
            f"p{kind}getrf: the matrix is singular: pivot {info} (counted from 1) is exactly zero"
        )
    return pivots


@overload
def pxgetrs(a: Distributed, pivots: NDArray[np.intc] | None, b: Distributed, /, trans: str = "N") -> None: ...


@overload
def pxgetrs(
    a: NDArray[Any] | None,
    desc: Descriptor,
    pivots: NDArray[np.intc] | None,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    trans: str = "N",
) -> None: ...


@takes_distributed("local", "desc")
def pxgetrs(
    a: NDArray[Any] | None,
    desc: Descriptor,
    pivots: NDArray[np.intc] | None,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    trans: str = "N",
) -> None:
    """Solve A X = B with the factors of `pxgetrf`, by ScaLAPACK's p?getrs. Collective over the grid.

    Parameters
    ----------
    a, desc, pivots
        As left and returned by `pxgetrf`; ranks outside the grid may pass None for arrays.
    b : ndarray or None
        Local array of the right-hand sides, Fortran-ordered, overwritten by the solutions.
    desc_b : Descriptor
        Its layout, on the same grid: as many rows as A, in the same blocks, on the same process rows.
    trans : {"N", "T", "C"}
        Solve with A, its transpose or its conjugate transpose.

    Raises
    ------
    ValueError
        `trans` is none of these letters.
    DescriptorError
        The layouts do not fit each other.
    ArrayError
        A local array does not fit its layout.
    """
    form = letter_of("trans", trans, "NTC")
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
    info = blacs.load().entries.getrs(kind, form, n, sides_count, *matrix.where, exchanged, *sides.where)
    check_info(f"p{kind}getrs", info)


class Eigenpairs(NamedTuple):
    """What `pxsyevd` returns; None twice on a rank outside the grid.

    Attributes
    ----------
    values : ndarray of a real dtype, or None
        All eigenvalues, ascending, on every rank of the grid.
    vectors : ndarray or None
        Local array of the eigenvectors, in the layout of the matrix: column k belongs to value k.
    """

    values: NDArray[Any] | None
    vectors: NDArray[Any] | None


@overload
def pxsyevd(a: Distributed, /, uplo: str = "L") -> Eigenpairs: ...


@overload
def pxsyevd(a: NDArray[Any] | None, desc: Descriptor, uplo: str = "L") -> Eigenpairs: ...


@takes_distributed("local", "desc")
def pxsyevd(a: NDArray[Any] | None, desc: Descriptor, uplo: str = "L") -> Eigenpairs:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian matrix, by ScaLAPACK's p?syevd or p?heevd (divide and
    conquer). Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten; ranks outside the grid may pass None.
    desc : Descriptor
        Its layout: square, with square blocks, smaller than the matrix unless the grid is of one process, and source 0;
        with MKL, on a grid whose ranks ascend by rows or by columns.
        A sub-array is not taken: redistribute it to a layout of its own.
    uplo : {"L", "U"}
        Triangle that is read; the other one is taken to mirror it.

    Returns
    -------
    Eigenpairs
        `values` and `vectors`.

    Raises
    ------
    numpy.linalg.LinAlgError
        An eigenvalue did not converge.
    ValueError
        `uplo` is none of these letters.
    DescriptorError
        The layout cannot be taken.
    ArrayError
        The local array does not fit it.
    """
    triangle = letter_of("uplo", uplo, "LU")
    n = eigenproblem_size(desc, blacs.load().vendor)
    if desc.grid.coords is None:
        return Eigenpairs(None, None)
    matrix = operand("a", a, desc, written=True)
    kind = kind_of(matrix, allowed=FACTORED_KINDS)
    dtype = dtype_of(kind)
    values = np.zeros(n, np.zeros(0, dtype).real.dtype)
    vectors = desc.zeros(dtype)
    if n == 0:
        return Eigenpairs(values, vectors)
    target = operand("vectors", vectors, desc, written=True)
    # p?syevd asks for less than p?ormtr and p?lasrt need, which it calls, where a block is not small beside the matrix
    rows, columns = desc.local_shape_of((0, 0))
    missing = (2 * rows + columns + desc.block[0]) * desc.block[0]
    info = _solve_eigenproblem(dtype, triangle, n, matrix, values, target, missing)
    routine = f"p{kind}{'he' if kind in 'cz' else 'sy'}evd"
    check_info(routine, info)
    if info > 0:
        raise np.linalg.LinAlgError(f"{routine}: eigenvalue {info // (n + 1)} (counted from 1) did not converge")
    return Eigenpairs(values, vectors)


def _solve_eigenproblem(
    dtype: np.dtype[Any], triangle: str, n: int, matrix: Operand, values: NDArray[Any], vectors: Operand, missing: int
) -> int:
    """Ask p?syevd what workspace it needs, and call it with that and the `missing` elements; INFO."""
    entries, kind = blacs.load().entries, KIND_OF_DTYPE[dtype]
    work, real_work = np.zeros(1, dtype), np.zeros(1, values.dtype)
    integers = np.zeros(1, np.intc)
    sizes = [-1, -1, -1]
    for _ in range(2):
        info = entries.syevd(
            kind,
            triangle,
            n,
            *matrix.where,
            values.ctypes.data,
            *vectors.where,
            work.ctypes.data,
            sizes[0],
            real_work.ctypes.data,
            sizes[1],
            integers,
            sizes[2],
        )
        if info or sizes[0] > 0:
            return info
        sizes = [*(size_told(array) + missing for array in (work, real_work)), int(integers[0])]
        work, real_work = np.zeros(sizes[0], work.dtype), np.zeros(sizes[1], real_work.dtype)
        integers = np.zeros(sizes[2], np.intc)
    return info
