"""Linear algebra on distributed arrays, with names and results as NumPy's and SciPy's.

Routines are collective over the communicator of their operands, which are in any layouts. They have in common:

- `overwrite_a`, `overwrite_b`: whether the operand's own memory may be used, which saves a copy where its layout fits; what it
  then holds is undefined. Otherwise no operand is changed.
- `check_finite`: whether infs and NaNs are refused, by a ValueError; where there are any, no result is checked.
- `check`: whether the result is checked, by products with random vectors. Where it is none, it is computed once more in another
  layout, with a warning.
- `layout`: a Descriptor, or a DistributedArray that has it. The layout of the first operand to work in; by default an operand's
  own where it fits, or that of `layout_for`.
- `like`: the same, of the result.

What is wrong is an error on all ranks. Of any routine that may be

- a `numpy.linalg.LinAlgError`: what ScaLAPACK returned is no result;
- an `ArrayError`, a `DescriptorError` or a `LibraryError`: an argument is wrong on this rank, or there is no ScaLAPACK;
- a `CollectiveError`: so it is on another rank, or ranks ask for different things.
"""

from .conditioning import cond, matrix_rank, pinv
from .decompositions import EighResult, QRResult, SVDResult, eigh, eigvalsh, qr, svd
from .least_squares import LstsqResult, lstsq
from .products import matmul, norm
from .systems import SlogdetResult, cho_factor, cho_solve, cholesky, det, inv, lu_factor, lu_solve, slogdet, solve
from .working_layouts import layout_for

__all__ = [
    "EighResult",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "cond",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "layout_for",
    "lstsq",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_rank",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
]


def __dir__() -> list[str]:
    return __all__
