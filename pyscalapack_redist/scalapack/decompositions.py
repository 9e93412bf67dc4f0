"""Signatures of the routines that decompose a matrix orthogonally, as in `routines`: QR, singular values and eigenvalues."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import overload

from ..layout.array_arithmetic import Distributed
from ..layout.descriptor import Descriptor
from ..layout.tiles import LayoutArgument
from .routines import Comm, Local, routine_of_table
from .table import Bidiagonal, Eigenpairs, SingularTriplets, Tridiagonal


@routine_of_table
def pxgeqrf(a: Local, desc: Descriptor, *, comm: Comm = None) -> Local:
    """QR factorisation in place, by ScaLAPACK's p?geqrf. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten: R in its upper trapezoid, the reflectors of Q below.
    desc : Descriptor, or nine integers
        Its layout: square blocks, source 0, no sub-array.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Returns
    -------
    tau : ndarray or None
        Factors of the reflectors, as `pxorgqr` takes them; None outside the grid.

    Raises
    ------
    DescriptorError, ArrayError
        As for `pxgetrs`.
    """


@routine_of_table
def pxorgqr(a: Local, desc: Descriptor, tau: Local, columns: int, reflectors: int, *, comm: Comm = None) -> None:
    """The first columns of Q from the reflectors of `pxgeqrf`, in place, by p?orgqr or p?ungqr. Collective over the grid.

    Parameters
    ----------
    a, desc
        Local array and layout as for `pxgeqrf`, with the reflectors in the first columns.
    tau : ndarray or None
        Result of `pxgeqrf` on this rank.
    columns : int
        Number of columns of Q, at least `reflectors` and at most the number of rows and of columns.
    reflectors : int
        Number of reflectors that make Q.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    DescriptorError, ArrayError
        As for `pxgetrs`; or the counts or `tau` do not fit.
    """


@routine_of_table
def pxormqr(
    a: Local,
    desc: Descriptor,
    tau: Local,
    c: Local,
    desc_c: Descriptor,
    *,
    side: str = "L",
    trans: str = "N",
    comm: Comm = None,
) -> None:
    """Multiply a matrix by Q of `pxgeqrf`, in place, by ScaLAPACK's p?ormqr or p?unmqr. Collective over the grid.

    Parameters
    ----------
    a, desc
        As left by, and given to, `pxgeqrf`: min(m, n) reflectors of a square Q of order m.
    tau : ndarray or None
        Result of `pxgeqrf` on this rank.
    c : ndarray or None
        Local array, Fortran-ordered, overwritten by op(Q) C or C op(Q).
    desc_c : Descriptor, or nine integers
        Its layout, aligned with `desc`.
    side : {"L", "R"}
        Whether Q is on the left or on the right.
    trans : {"N", "C"}
        Whether op(Q) is Q or its conjugate transpose.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    DescriptorError, ArrayError
        As for `pxgetrs`; or a letter is none of these, or `tau` does not fit.
    """


@routine_of_table
def pxgebrd(a: Local, desc: Descriptor, *, comm: Comm = None) -> Bidiagonal:
    """Reduce a matrix to bidiagonal form, A = Q B P^H, in place, by ScaLAPACK's p?gebrd. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten: B on the diagonal and above it, or below it where there are more columns
        than rows; the reflectors of Q below B, and those of P above.
    desc : Descriptor, or nine integers
        Its layout: square blocks, source 0, no sub-array.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Returns
    -------
    Bidiagonal
        This rank's part of B and the factors of the reflectors.

    Raises
    ------
    DescriptorError, ArrayError
        As for `pxgetrs`.
    """


@routine_of_table
def pxormbr(
    a: Local,
    desc: Descriptor,
    tau: Local,
    c: Local,
    desc_c: Descriptor,
    *,
    vect: str = "Q",
    side: str = "L",
    trans: str = "N",
    comm: Comm = None,
) -> None:
    """Multiply a matrix by Q or P of `pxgebrd`, in place, by ScaLAPACK's p?ormbr or p?unmbr. Collective over the grid.

    Parameters
    ----------
    a, desc
        As left by, and given to, `pxgebrd`.
    tau : ndarray or None
        `tau_q` or `tau_p` of the result of `pxgebrd` on this rank.
    c, desc_c, side, trans, comm
        As for `pxormqr`.
    vect : {"Q", "P"}
        Which matrix. Q is of order m and P of order n. Netlib's routine refuses P from the left where m >= n, and Q from
        the right where m < n.

    Raises
    ------
    DescriptorError, ArrayError
        As for `pxormqr`.
    """


@routine_of_table
def pxgesvd(a: Local, desc: Descriptor, vectors: bool = True, *, comm: Comm = None) -> SingularTriplets:
    """Singular value decomposition, by ScaLAPACK's p?gesvd. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten; ranks outside the grid may pass None.
    desc : Descriptor, or nine integers
        Its layout, of m x n: square blocks, source 0, no sub-array.
    vectors : bool
        Whether the vectors are computed too.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Returns
    -------
    SingularTriplets
        U of m x min(m, n) and V^H of min(m, n) x n, in the same blocks on the same grid, and the values.

    Raises
    ------
    numpy.linalg.LinAlgError
        A singular value did not converge, or the matrix has infs or NaNs, with which the routine might not return.
    DescriptorError, ArrayError
        As for `pxgetrs`.
    """


@routine_of_table
def pxgels(a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, *, comm: Comm = None) -> None:
    """Least squares, or the solution of least norm, of A X = B by ScaLAPACK's p?gels. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, of full rank; overwritten by its QR factors, or LQ factors where it is wide.
    desc : Descriptor, or nine integers
        Its layout, of m x n: square blocks, source 0, no sub-array.
    b : ndarray or None
        Local array of max(m, n) rows, the first m of them the right-hand sides; overwritten by the solutions in the first
        n rows.
    desc_b : Descriptor, or nine integers
        Its layout, aligned with `desc`.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    DescriptorError, ArrayError
        As for `pxgetrs`.
    """


@routine_of_table
def pxsyev(a: Local, desc: Descriptor, uplo: str = "L", *, comm: Comm = None) -> Local:
    """Eigenvalues alone of a symmetric or Hermitian matrix, by ScaLAPACK's p?syev or p?heev (QR iteration). Collective
    over the grid.

    Parameters and errors are those of `pxsyevd`.

    Returns
    -------
    ndarray of a real dtype, or None
        All eigenvalues, ascending, on every rank of the grid; None outside.
    """


@overload
def pxsyevd(a: Distributed, /, uplo: str = "L", *, comm: Comm = None) -> Eigenpairs: ...


@overload
def pxsyevd(a: Local, desc: LayoutArgument, uplo: str = "L", *, comm: Comm = None) -> Eigenpairs: ...


@routine_of_table
def pxsyevd(a: Local, desc: Descriptor, uplo: str = "L", *, comm: Comm = None) -> Eigenpairs:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian matrix, by ScaLAPACK's p?syevd or p?heevd (divide and
    conquer). Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten; ranks outside the grid may pass None.
    desc : Descriptor, or nine integers
        Its layout: square, with square blocks, smaller than the matrix unless the grid is of one process, and source 0;
        with MKL, on a grid whose ranks ascend by rows or by columns.
        No sub-array: redistribute it to a layout of its own.
    uplo : {"L", "U"}
        Triangle that is read; the other is assumed to mirror it.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Returns
    -------
    Eigenpairs
        `values` and `vectors`.

    Raises
    ------
    numpy.linalg.LinAlgError
        An eigenvalue did not converge, or the triangle has infs or NaNs, with which the routine might not return.
    ValueError
        `uplo` is none of these letters.
    DescriptorError
        The layout does not suit the routine.
    ArrayError
        The local array does not fit it.
    """


@routine_of_table
def pxsygst(
    a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str = "L", *, problem: int = 1, comm: Comm = None
) -> float:
    """Reduce a generalized eigenproblem to a standard one, in place, by ScaLAPACK's p?sygst or p?hegst. Collective over
    the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered; its triangle is overwritten by that of inv(L) A inv(L^H) or inv(U^H) A inv(U); for
        problems 2 and 3 by that of L^H A L or U A U^H.
    desc : Descriptor, or nine integers
        Its layout: square, with square blocks, source 0, no sub-array.
    b, desc_b
        The factor that `pxpotrf` made of B, in the same triangle, and its layout, aligned with `desc`.
    uplo : {"L", "U"}
        Triangle of both.
    problem : {1, 2, 3}
        A x = w B x, A B x = w x, or B A x = w x.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Returns
    -------
    float
        Factor for the eigenvalues of the standard problem; 1 outside the grid.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`; or `problem` is none of these.
    """


@overload
def pxsytrd(a: Distributed, /, uplo: str = "L", *, comm: Comm = None) -> Tridiagonal: ...


@overload
def pxsytrd(a: Local, desc: LayoutArgument, uplo: str = "L", *, comm: Comm = None) -> Tridiagonal: ...


@routine_of_table
def pxsytrd(a: Local, desc: Descriptor, uplo: str = "L", *, comm: Comm = None) -> Tridiagonal:
    """Reduce a symmetric or Hermitian matrix to a real tridiagonal one, A = Q T Q^H, by ScaLAPACK's p?sytrd or p?hetrd.
    Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten; ranks outside the grid may pass None.
    desc : Descriptor, or nine integers
        Its layout: square, with square blocks, source 0, no sub-array.
    uplo : {"L", "U"}
        Triangle that is read.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Returns
    -------
    Tridiagonal
        T, by columns; each process row has all of them. And the reflectors of Q, with the letter that `pxormtr` takes.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """


@routine_of_table
def pxormtr(
    a: Local,
    desc: Descriptor,
    tau: Local,
    b: Local,
    desc_b: Descriptor,
    uplo: str = "L",
    trans: str = "N",
    *,
    comm: Comm = None,
) -> None:
    """Multiply op(Q) B with Q of `pxsytrd`, in place of B, by ScaLAPACK's p?ormtr or p?unmtr. Collective over the grid.

    Parameters
    ----------
    a, desc, tau, uplo
        `reflectors` that `pxsytrd` returned, in the layout of its matrix, and `tau` and `uplo`.
    b : ndarray or None
        Local array, Fortran-ordered, overwritten; ranks outside the grid may pass None for arrays.
    desc_b : Descriptor, or nine integers
        Its layout, aligned with `desc`.
    trans : {"N", "C"}
        Whether op(Q) is Q or its conjugate transpose.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """


@routine_of_table
def pxstedc(a: Local, desc: Descriptor, diagonal: Local, off_diagonal: Local, *, comm: Comm = None) -> Local:
    """Eigenvalues and eigenvectors of a real tridiagonal matrix, by ScaLAPACK's p?stedc (divide and conquer). Collective
    over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array of float32 or float64, Fortran-ordered, overwritten by the vectors: column k belongs to value k.
    desc : Descriptor, or nine integers
        Its layout, as for `pxsyevd`.
    diagonal, off_diagonal : ndarray or None
        The whole tridiagonal matrix on each rank of the grid, of n and n - 1 elements; ranks outside may pass None.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Returns
    -------
    ndarray of a real dtype, or None
        All eigenvalues, ascending, on every rank of the grid; None outside.

    Raises
    ------
    numpy.linalg.LinAlgError, DescriptorError, ArrayError
        As for `pxsyevd`.
    """
