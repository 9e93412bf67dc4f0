"""Products and norms of whole matrices in aligned layouts, checked as in `linear_algebra`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.mpi import MPI
from ..errors import DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.letters import NORMS, TRANSPOSES, letter_of
from .calls import call, dtype_of, norm_of
from .operands import check_aligned, check_separate, check_shape, factored_kind, operand
from .together import routine

__all__ = ["pxgemm", "pxlange"]

Local = NDArray[Any] | None


@routine
def pxgemm(
    a: Local,
    desc_a: Descriptor,
    b: Local,
    desc_b: Descriptor,
    c: Local,
    desc_c: Descriptor,
    *,
    trans_a: str = "N",
    trans_b: str = "N",
    alpha: complex = 1,
    beta: complex = 0,
    comm: MPI.Intracomm | None = None,
) -> None:
    """C = alpha op(A) op(B) + beta C, by ScaLAPACK's p?gemm. Collective over the grid.

    Parameters
    ----------
    a, b, c : ndarray or None
        Local arrays, Fortran-ordered; `c` is overwritten. Ranks outside the grid may pass None.
    desc_a, desc_b, desc_c : Descriptor, or nine integers
        Their layouts, aligned.
    trans_a, trans_b : {"N", "T", "C"}
        As it is, transposed, or transposed and conjugated.
    alpha, beta : number
        Factors.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    ValueError
        A letter is none of these.
    DescriptorError, ArrayError
        The layouts do not fit each other, or a local array its layout.
    """
    forms = letter_of("trans_a", trans_a, TRANSPOSES), letter_of("trans_b", trans_b, TRANSPOSES)
    check_aligned(desc_a=desc_a, desc_b=desc_b, desc_c=desc_c)
    m, k = desc_a.shape if forms[0] == "N" else desc_a.shape[::-1]
    inner, n = desc_b.shape if forms[1] == "N" else desc_b.shape[::-1]
    if inner != k:
        raise DescriptorError(f"op(A) has {k} columns and op(B) {inner} rows: they must be equal")
    check_shape("desc_c", desc_c, (m, n), "that of op(A) op(B)")
    if desc_a.grid.coords is None:
        return
    left, right = operand("a", a, desc_a), operand("b", b, desc_b)
    target = operand("c", c, desc_c, written=True)
    kind = factored_kind(left, right, target)
    check_separate(left, target)
    check_separate(right, target)
    factors = [np.array([factor], dtype_of(kind)) for factor in (alpha, beta)]
    if 0 not in (m, n):
        call(f"p{kind}gemm", *forms, m, n, k, factors[0], left, right, factors[1], target)


@routine
def pxlange(a: Local, desc: Descriptor, norm: str = "F", *, comm: MPI.Intracomm | None = None) -> float | None:
    """A norm of a matrix, by ScaLAPACK's p?lange. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered; ranks outside the grid may pass None.
    desc : Descriptor, or nine integers
        Its layout: square blocks, source 0, no sub-array.
    norm : {"M", "1", "I", "F"}
        The largest absolute value, the largest sum of a column's, the largest of a row's, or Frobenius's norm.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Returns
    -------
    float or None
        The norm on all ranks of the grid; None outside.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgemm`.
    """
    which = letter_of("norm", norm, NORMS)
    check_aligned(desc=desc)
    if desc.grid.coords is None:
        return None
    matrix = operand("a", a, desc)
    kind = factored_kind(matrix)
    return 0.0 if 0 in desc.shape else norm_of(which, kind, desc, matrix)
