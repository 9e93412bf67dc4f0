"""Routines of ScaLAPACK with orthogonal matrices: QR, singular values, least squares. Checked as in `linear_algebra`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..comm.mpi import MPI
from ..errors import ArrayError, DescriptorError
from ..layout.descriptor import Descriptor
from .calls import call_with_workspace, dtype_of, over_grid
from .operands import (
    beyond_gesvd,
    check_aligned,
    check_separate,
    check_shape,
    factored_kind,
    operand,
)
from .together import ConvergenceError, routine

__all__ = ["SingularTriplets", "pxgels", "pxgeqrf", "pxgesvd", "pxorgqr"]

Local = NDArray[Any] | None


@routine
def pxgeqrf(a: Local, desc: Descriptor, *, comm: MPI.Intracomm | None = None) -> Local:
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
    check_aligned(desc=desc)
    if desc.grid.coords is None:
        return None
    matrix = operand("a", a, desc, written=True)
    kind = factored_kind(matrix)
    tau = np.zeros(max(1, desc.local_shape[1]), dtype_of(kind))
    if 0 not in desc.shape:
        call_with_workspace(f"p{kind}geqrf", kind, *desc.shape, matrix, tau)
    return tau


@routine
def pxorgqr(
    a: Local, desc: Descriptor, tau: Local, columns: int, reflectors: int, *, comm: MPI.Intracomm | None = None
) -> None:
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
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

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
        call_with_workspace(name, kind, desc.shape[0], columns, reflectors, matrix, factors)


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


@routine
def pxgesvd(a: Local, desc: Descriptor, vectors: bool = True, *, comm: MPI.Intracomm | None = None) -> SingularTriplets:
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
        A singular value did not converge.
    DescriptorError, ArrayError
        As for `pxgetrs`.
    """
    check_aligned(desc=desc)
    what = beyond_gesvd(desc)
    if what:
        raise DescriptorError(f"desc = {desc!r} is {what}: use one column of processes")
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
    if 0 < info <= few:
        raise ConvergenceError(f"p{kind}gesvd: {info} singular values did not converge")
    if info > few:  # it compares the values of the processes, which may differ by rounding where some hold nothing
        low[:] = high[:] = values
        for extreme in extremes:
            extreme()
        values[:] = high
    if info > few and (high - low).max() > 10 * max(m, n) * np.finfo(high.dtype).eps * high.max():
        raise ConvergenceError(f"p{kind}gesvd: the ranks found different singular values (INFO = {info})")
    return made


@routine
def pxgels(a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, *, comm: MPI.Intracomm | None = None) -> None:
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
    check_aligned(desc=desc, desc_b=desc_b)
    sides_count = desc_b.shape[1]
    check_shape("desc_b", desc_b, (max(desc.shape), sides_count), "as many rows as the larger side of A")
    if desc.grid.coords is None:
        return
    matrix, sides = operand("a", a, desc, written=True), operand("b", b, desc_b, written=True)
    kind = factored_kind(matrix, sides)
    check_separate(matrix, sides)
    if 0 not in (*desc.shape, sides_count):
        call_with_workspace(f"p{kind}gels", kind, "N", *desc.shape, sides_count, matrix, sides)
