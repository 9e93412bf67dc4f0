"""Routines of ScaLAPACK for symmetric and Hermitian eigenproblems: pxsyev, pxsyevd, pxsygst.

p?syevr (some of the eigenvectors) is left out: netlib's returns wrong vectors without an error (real matrices, blocks of 32 and
64), and MKL's does not return from some matrices with equal eigenvalues.

Everything is checked first, on this rank only, without communication, as in `routines`. Layouts are those of p?syevd, which
is right for fewer than it takes: see `operands.eigenproblem_size`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from .. import blacs
from ..blacs.kernels import without_avx2
from ..comm.mpi import MPI
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed
from ..layout.given import LayoutArgument
from ..layout.letters import TRIANGLES, letter_of
from .calls import call, call_with_info, call_with_workspace, dtype_of, entering, over_grid
from .operands import (
    Operand,
    check_aligned,
    check_same_shape,
    check_separate,
    eigenproblem_size,
    factorable_size,
    factored_kind,
    operand,
)
from .together import ConvergenceError, routine

__all__ = ["Eigenpairs", "pxsyev", "pxsyevd", "pxsygst"]


class Eigenpairs(NamedTuple):
    """What `pxsyevd` returns; None twice on a rank outside the grid.

    Attributes
    ----------
    values : ndarray of a real dtype, or None
        All eigenvalues, ascending, on every rank of the grid.
    vectors : ndarray or None
        Local array of the eigenvectors, in the blocks and on the grid of the matrix: column k belongs to value k.
    """

    values: NDArray[Any] | None
    vectors: NDArray[Any] | None


@overload
def pxsyevd(a: Distributed, /, uplo: str = "L", *, comm: MPI.Intracomm | None = None) -> Eigenpairs: ...


@overload
def pxsyevd(
    a: NDArray[Any] | None, desc: LayoutArgument, uplo: str = "L", *, comm: MPI.Intracomm | None = None
) -> Eigenpairs: ...


@routine
def pxsyevd(
    a: NDArray[Any] | None, desc: Descriptor, uplo: str = "L", *, comm: MPI.Intracomm | None = None
) -> Eigenpairs:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian matrix, by ScaLAPACK's p?syevd or p?heevd (divide and
    conquer). Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten; ranks outside the grid may pass None.
    desc : Descriptor, or nine integers
        Its layout: square, with square blocks, smaller than the matrix unless the grid is of one process, and source 0;
        with MKL, on a grid whose ranks ascend by rows or by columns.
        A sub-array is not taken: redistribute it to a layout of its own.
    uplo : {"L", "U"}
        Triangle that is read; the other one is taken to mirror it.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

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
    triangle = letter_of("uplo", uplo, TRIANGLES)
    n = eigenproblem_size(desc, blacs.load().vendor)
    if desc.grid.coords is None:
        return Eigenpairs(None, None)
    matrix = operand("a", a, desc, written=True)
    kind = factored_kind(matrix)
    values, vectors = _real_zeros(n, kind), desc.zeros(dtype_of(kind))
    if n == 0:
        return Eigenpairs(values, vectors)
    triangle, matrix = _with_sound_triangle(kind, triangle, matrix)
    target = operand("vectors", vectors, desc, written=True)
    name, missing = _named(kind, "evd"), _missing(desc)
    info = call_with_workspace(name, _workspaces(kind), "V", triangle, n, matrix, values, target, missing=missing)
    if info:
        raise ConvergenceError(f"{name}: eigenvalue {info // (n + 1)} (counted from 1) did not converge")
    return Eigenpairs(values, vectors)


def _named(kind: str, last: str) -> str:
    return f"p{kind}{'he' if kind in 'cz' else 'sy'}{last}"


def _missing(desc: Descriptor) -> int:
    """What p?syevd may ask for too little: what p?ormtr needs, and p?lasrt in it. It is much where blocks are large."""
    rows, columns = desc.local_shape_of((0, 0))
    block = int(desc.block[0])
    return max(block * (block - 1) // 2, (rows + columns) * block) + block * block


def _with_sound_triangle(kind: str, triangle: str, matrix: Operand) -> tuple[str, Operand]:
    """The upper triangle of the transpose in place of the lower one, where that is not safe. Collective over the grid.

    OpenBLAS's ssymv of the lower triangle, in kernels for processors without AVX2, multiplies what earlier calls have left in
    its buffer by zero: after NaNs anywhere, or other numbers that read as such, there are NaNs, or ranks wait for ever.
    """
    if (kind, triangle) != ("s", "L"):
        return triangle, matrix
    n, desc, sound = matrix.desc.shape[0], matrix.desc, np.zeros(1, np.intc)
    least = over_grid("igamn2d", sound, desc)
    with entering("igamn2d", desc):
        sound[0] = not without_avx2(blacs.load())
        least()
    if sound[0]:
        return triangle, matrix
    transpose = operand("a", desc.zeros(dtype_of(kind)), desc, written=True)
    one, zero = np.ones(1, dtype_of(kind)), np.zeros(1, dtype_of(kind))
    call("pstran", n, n, one, matrix, zero, transpose)
    return "U", transpose


def _workspaces(kind: str) -> str:
    return {"c": "csi", "z": "zdi"}.get(kind, f"{kind}i")


def _real_zeros(n: int, kind: str) -> NDArray[Any]:
    return np.zeros(n, np.zeros(0, dtype_of(kind)).real.dtype)


@routine
def pxsyev(
    a: NDArray[Any] | None, desc: Descriptor, uplo: str = "L", *, comm: MPI.Intracomm | None = None
) -> NDArray[Any] | None:
    """Eigenvalues alone of a symmetric or Hermitian matrix, by ScaLAPACK's p?syev or p?heev (QR iteration). Collective
    over the grid.

    Parameters and errors are those of `pxsyevd`.

    Returns
    -------
    ndarray of a real dtype, or None
        All eigenvalues, ascending, on every rank of the grid; None outside.
    """
    triangle = letter_of("uplo", uplo, TRIANGLES)
    n = eigenproblem_size(desc, blacs.load().vendor)
    if desc.grid.coords is None:
        return None
    matrix = operand("a", a, desc, written=True)
    kind = factored_kind(matrix)
    values = _real_zeros(n, kind)
    if n:
        triangle, matrix = _with_sound_triangle(kind, triangle, matrix)
        name = _named(kind, "ev")
        kinds = _workspaces(kind).removesuffix("i")
        info = call_with_workspace(name, kinds, "N", triangle, n, matrix, values, matrix, missing=_missing(desc))
        if info:
            raise ConvergenceError(f"{name}: not all eigenvalues were found (INFO = {info})")
    return values


@routine
def pxsygst(
    a: NDArray[Any] | None,
    desc: Descriptor,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    uplo: str = "L",
    *,
    problem: int = 1,
    comm: MPI.Intracomm | None = None,
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
        By which the eigenvalues of the standard problem are to be multiplied; 1 outside the grid.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`; or `problem` is none of these.
    """
    triangle = letter_of("uplo", uplo, TRIANGLES)
    if problem not in (1, 2, 3):
        raise ValueError(f"problem = {problem!r} must be 1, 2 or 3")
    n = factorable_size(desc)
    check_aligned(desc=desc, desc_b=desc_b)
    check_same_shape(desc, desc_b)
    if desc.grid.coords is None:
        return 1.0
    matrix, factor = operand("a", a, desc, written=True), operand("b", b, desc_b)
    kind = factored_kind(matrix, factor)
    check_separate(matrix, factor)
    scale = np.ones(1, _real_zeros(0, kind).dtype)
    if n:
        call_with_info(_named(kind, "gst"), problem, triangle, n, matrix, factor, scale)
    return float(scale[0])
