"""Routines of ScaLAPACK for whole matrices in aligned layouts: factorisations, and what is solved with them.

As in `routines`, everything is checked first, on this rank only, without communication, and in place of a local array and its
descriptor each takes a `DistributedArray`. Layouts are aligned: square blocks of one size, source 0, one grid, no sub-arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ArrayError, DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.distributed import takes_distributed
from .calls import call, call_with_workspace, dtype_of, over_grid
from .operands import (
    check_aligned,
    check_info,
    check_separate,
    check_shape,
    checked_pivots,
    factorable_size,
    factored_kind,
    letter_of,
    operand,
    sides_count_of,
)

__all__ = [
    "SingularTriplets",
    "pxgels",
    "pxgeqrf",
    "pxgesvd",
    "pxgetri",
    "pxorgqr",
    "pxpotrf",
    "pxpotrs",
    "pxtrmm",
    "pxtrsm",
]

Local = NDArray[Any] | None


@takes_distributed("local", "desc")
def pxpotrf(a: Local, desc: Descriptor, uplo: str = "L") -> None:
    """Cholesky factorisation in place, by ScaLAPACK's p?potrf. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered; the triangle is overwritten by the factor, the other one stays.
    desc : Descriptor
        Its layout: of a square matrix, in square blocks, source 0.
    uplo : {"L", "U"}
        Triangle that is read and written: A = L L^H or U^H U.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is not positive definite; says which leading minor.
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """
    triangle = letter_of("uplo", uplo, "LU")
    n = factorable_size(desc)
    check_aligned(desc=desc)
    if desc.grid.coords is None:
        return
    matrix = operand("a", a, desc, written=True)
    kind = factored_kind(matrix)
    if n == 0:
        return
    info = np.zeros(1, np.intc)
    call(f"p{kind}potrf", triangle, n, matrix, info)
    check_info(f"p{kind}potrf", int(info[0]))
    if info[0] > 0:
        raise np.linalg.LinAlgError(
            f"p{kind}potrf: the matrix is not positive definite: its leading minor of order {info[0]} is not"
        )


@takes_distributed("local", "desc")
def pxpotrs(a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str = "L") -> None:
    """Solve A X = B with the factor of `pxpotrf`, by ScaLAPACK's p?potrs. Collective over the grid.

    Parameters
    ----------
    a, desc, uplo
        As left by, and given to, `pxpotrf`.
    b : ndarray or None
        Local array of the right-hand sides, Fortran-ordered, overwritten by the solutions.
    desc_b : Descriptor
        Its layout, aligned with `desc`.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """
    triangle = letter_of("uplo", uplo, "LU")
    n = factorable_size(desc)
    check_aligned(desc=desc, desc_b=desc_b)
    sides_count = sides_count_of(desc, desc_b)
    if desc.grid.coords is None:
        return
    matrix, sides = operand("a", a, desc), operand("b", b, desc_b, written=True)
    kind = factored_kind(matrix, sides)
    check_separate(matrix, sides)
    if 0 not in desc_b.shape:
        info = np.zeros(1, np.intc)
        call(f"p{kind}potrs", triangle, n, sides_count, matrix, sides, info)
        check_info(f"p{kind}potrs", int(info[0]))


@takes_distributed("local", "desc")
def pxtrsm(a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str = "L", trans: str = "N") -> None:
    """Solve op(A) X = B with a triangle of A, in place of B, by PBLAS's p?trsm. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, of which the triangle is read.
    desc : Descriptor
        Its layout: of a square matrix, in square blocks, source 0.
    b, desc_b, uplo
        As for `pxpotrs`.
    trans : {"N", "T", "C"}
        Solve with the triangle, its transpose or its conjugate transpose.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """
    _triangular("trsm", a, desc, b, desc_b, uplo, trans)


@takes_distributed("local", "desc")
def pxtrmm(a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str = "L", trans: str = "N") -> None:
    """Multiply op(A) B with a triangle of A, in place of B, by PBLAS's p?trmm. Collective over the grid.

    Parameters and errors are those of `pxtrsm`.
    """
    _triangular("trmm", a, desc, b, desc_b, uplo, trans)


def _triangular(name: str, a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str, trans: str) -> None:
    triangle, form = letter_of("uplo", uplo, "LU"), letter_of("trans", trans, "NTC")
    n = factorable_size(desc)
    check_aligned(desc=desc, desc_b=desc_b)
    sides_count = sides_count_of(desc, desc_b)
    if desc.grid.coords is None:
        return
    matrix, sides = operand("a", a, desc), operand("b", b, desc_b, written=True)
    kind = factored_kind(matrix, sides)
    check_separate(matrix, sides)
    if 0 not in desc_b.shape:
        call(f"p{kind}{name}", "L", triangle, form, "N", n, sides_count, np.ones(1, dtype_of(kind)), matrix, sides)


@takes_distributed("local", "desc")
def pxgetri(a: Local, desc: Descriptor, pivots: NDArray[np.intc] | None) -> None:
    """Inverse from the factors of `pxgetrf`, in place, by ScaLAPACK's p?getri. Collective over the grid.

    Parameters
    ----------
    a, desc, pivots
        As left and returned by `pxgetrf`; source 0 and no sub-array.

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
    check_info(f"p{kind}getri", info)
    if info > 0:
        raise np.linalg.LinAlgError(
            f"p{kind}getri: the matrix is singular: pivot {info} (counted from 1) is exactly zero"
        )


@takes_distributed("local", "desc")
def pxgeqrf(a: Local, desc: Descriptor) -> Local:
    """QR factorisation in place, by ScaLAPACK's p?geqrf. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten: R in its upper trapezoid, the reflectors of Q below.
    desc : Descriptor
        Its layout: square blocks, source 0, no sub-array.

    Returns
    -------
    tau : ndarray or None
        Factors of the reflectors, as `pxorgqr` takes them; None outside the grid.

    Raises
    ------
    DescriptorError, ArrayError
        As for `pxgetrs`.
    """
    check_aligned(desc=desc)
    if desc.grid.coords is None:
        return None
    matrix = operand("a", a, desc, written=True)
    kind = factored_kind(matrix)
    tau = np.zeros(max(1, desc.local_shape[1]), dtype_of(kind))
    if 0 not in desc.shape:
        check_info(f"p{kind}geqrf", call_with_workspace(f"p{kind}geqrf", kind, *desc.shape, matrix, tau))
    return tau


@takes_distributed("local", "desc")
def pxorgqr(a: Local, desc: Descriptor, tau: Local, columns: int, reflectors: int) -> None:
    """The first columns of Q from the reflectors of `pxgeqrf`, in place, by p?orgqr or p?ungqr. Collective over the grid.

    Parameters
    ----------
    a, desc
        Local array and layout as for `pxgeqrf`, with the reflectors in the first columns.
    tau : ndarray or None
        What `pxgeqrf` returned on this rank.
    columns : int
        How many columns of Q, from `reflectors` to as many as there are rows and columns.
    reflectors : int
        How many reflectors make Q.

    Raises
    ------
    DescriptorError, ArrayError
        As for `pxgetrs`; or the counts or `tau` do not fit.
    """
    check_aligned(desc=desc)
    if not 0 <= reflectors <= columns <= min(desc.shape):
        raise DescriptorError(
            f"columns = {columns} and reflectors = {reflectors}: they must be at most {min(desc.shape)}, and no fewer "
            "columns than reflectors"
        )
    if desc.grid.coords is None:
        return
    matrix = operand("a", a, desc, written=True)
    kind = factored_kind(matrix)
    held = int(np.count_nonzero(desc.global_indices(1) < reflectors))
    if tau is None or tau.dtype != dtype_of(kind) or tau.ndim != 1 or tau.size < max(1, held):
        got = None if tau is None else f"{tau.dtype} of shape {tau.shape}"
        raise ArrayError(f"tau is {got}: pass what pxgeqrf returned on this rank, at least {held} of {dtype_of(kind)}")
    # p?orgqr takes a factor for each local column of Q
    factors = np.zeros(max(1, desc.local_shape[1]), tau.dtype)
    factors[: min(tau.size, factors.size)] = tau[: factors.size]
    if columns:
        name = f"p{kind}{'un' if kind in 'cz' else 'or'}gqr"
        check_info(name, call_with_workspace(name, kind, desc.shape[0], columns, reflectors, matrix, factors))


class SingularTriplets(NamedTuple):
    """What `pxgesvd` returns; None on a rank outside the grid.

    Attributes
    ----------
    left : ndarray or None
        Local array of the left singular vectors, the columns of U.
    values : ndarray of a real dtype, or None
        All singular values, descending, on every rank of the grid.
    right : ndarray or None
        Local array of V^H, whose rows are the right singular vectors.
    """

    left: Local
    values: Local
    right: Local


@takes_distributed("local", "desc")
def pxgesvd(a: Local, desc: Descriptor, vectors: bool = True) -> SingularTriplets:
    """Singular value decomposition, by ScaLAPACK's p?gesvd. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten; ranks outside the grid may pass None.
    desc : Descriptor
        Its layout, of m x n: square blocks, source 0, no sub-array.
    vectors : bool
        Whether the vectors are computed too.

    Returns
    -------
    SingularTriplets
        U of m x min(m, n) and V^H of min(m, n) x n, in the same blocks on the same grid, and the values.

    Raises
    ------
    numpy.linalg.LinAlgError
        A singular value did not converge.
    DescriptorError, ArrayError
        As for `pxgetrs`.
    """
    check_aligned(desc=desc)
    m, n = desc.shape
    few = min(m, n)
    if desc.grid.coords is None:
        return SingularTriplets(None, None, None)
    matrix = operand("a", a, desc, written=True)
    kind = factored_kind(matrix)
    layouts = [Descriptor(shape, desc.block, desc.grid) for shape in ((m, few), (few, n))]
    left, right = (layout.zeros(dtype_of(kind)) for layout in layouts)
    values = np.zeros(few, np.zeros(0, dtype_of(kind)).real.dtype)
    made = SingularTriplets(left if vectors else None, values, right if vectors else None)
    if few == 0:
        return made
    u, vh = operand("left", left, layouts[0]), operand("right", right, layouts[1])
    real_work = (np.zeros(4 * max(m, n) + 1, values.dtype),) if kind in "cz" else ()
    job = "V" if vectors else "N"
    low, high = np.zeros((2, few), values.dtype)
    letter = {"c": "s", "z": "d"}.get(kind, kind)
    extremes = over_grid(f"{letter}gamn2d", low, desc), over_grid(f"{letter}gamx2d", high, desc)
    info = call_with_workspace(f"p{kind}gesvd", kind, job, job, m, n, matrix, values, u, vh, more=real_work)
    check_info(f"p{kind}gesvd", info)
    if 0 < info <= few:
        raise np.linalg.LinAlgError(f"p{kind}gesvd: {info} singular values did not converge")
    if info > few:  # it compares the values of the processes, which may differ by rounding where some hold nothing
        low[:] = high[:] = values
        for extreme in extremes:
            extreme()
        values[:] = high
    if info > few and (high - low).max() > max(m, n) * np.finfo(high.dtype).eps * high.max():
        raise np.linalg.LinAlgError(f"p{kind}gesvd: the ranks found different singular values (INFO = {info})")
    return made


@takes_distributed("local", "desc")
def pxgels(a: Local, desc: Descriptor, b: Local, desc_b: Descriptor) -> None:
    """Least squares, or the solution of least norm, of A X = B by ScaLAPACK's p?gels. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, of full rank; overwritten by its QR factors, or LQ factors where it is wide.
    desc : Descriptor
        Its layout, of m x n: square blocks, source 0, no sub-array.
    b : ndarray or None
        Local array of max(m, n) rows, the first m of them the right-hand sides; overwritten by the solutions in the first
        n rows.
    desc_b : Descriptor
        Its layout, aligned with `desc`.

    Raises
    ------
    DescriptorError, ArrayError
        As for `pxgetrs`.
    """
    check_aligned(desc=desc, desc_b=desc_b)
    sides_count = desc_b.shape[1]
    check_shape("desc_b", desc_b, (max(desc.shape), sides_count), "as many rows as the larger side of A")
    if desc.grid.coords is None:
        return
    matrix, sides = operand("a", a, desc, written=True), operand("b", b, desc_b, written=True)
    kind = factored_kind(matrix, sides)
    check_separate(matrix, sides)
    if 0 not in (*desc.shape, sides_count):
        name = f"p{kind}gels"
        check_info(name, call_with_workspace(name, kind, "N", *desc.shape, sides_count, matrix, sides))
