"""Linear algebra on distributed arrays, with names and results as NumPy's and SciPy's.

Routines are collective over the communicator of their operands, which may have any layouts. Common arguments:

- `overwrite_a`, `overwrite_b`: whether the operand's memory may be used, which saves a copy if its layout fits; it is undefined
  afterwards. A large operand that must move makes room for its copy, in `cholesky`, `cho_factor`, `lu_factor` and `solve`.
  Otherwise no operand is changed.
- `check_finite`: whether infs and NaNs are refused, by a ValueError. Results of operands with infs or NaNs are not checked.
- `check`: whether the result is checked, by products with random vectors. A wrong result is computed once more in another
  layout, singular values by p?gesvd, with a warning.
- `layout`: a Descriptor, or a DistributedArray that has it: the layout of the first operand to work in. By default an operand's
  own layout if it fits, else that of `layout_for`.
- `like`: a Descriptor, or a DistributedArray that has it: the layout of the result.

`solve`, `inv`, `det`, `slogdet`, `cholesky`, `eigh` of one matrix without a subset, `eigvalsh`, `qr`, `svd`, `svdvals`, `pinv`,
`matmul` and `norm` take stacks, operands of more than two dimensions, as NumPy: the last two are matrices, and the others
broadcast. Those are spread over the ranks, and NumPy computes the results of each rank's matrices; where an operand's
matrices are whole on ranks, nothing moves. Results are distributed arrays, also those that are numbers or NumPy arrays for one
matrix: in the layout of the operand if they have its shape, others over the leading dimensions. `layout` has whole matrices
then, and an error names the matrix by its index. Few large matrices are taken one after another.

An error is raised on all ranks. Any routine may raise

- a `numpy.linalg.LinAlgError`: the result of ScaLAPACK is wrong;
- an `ArrayError`, a `DescriptorError` or a `LibraryError`: an argument is wrong on this rank, or there is no ScaLAPACK;
- a `CollectiveError`: an argument is wrong on another rank, or ranks ask for different things.
"""

from . import stacks as stacks  # of more than two dimensions
from .conditioning import cond, matrix_rank, pinv
from .decompositions import QRResult, qr
from .eigenproblems import EighResult, eigh, eigvalsh
from .least_squares import LstsqResult, lstsq
from .products import matmul, norm
from .singular_values import SVDResult, svd, svdvals
from .solver_rules import check_layout, layout_for
from .systems import (
    SlogdetResult,
    cho_factor,
    cho_solve,
    cholesky,
    det,
    inv,
    lu_factor,
    lu_solve,
    slogdet,
    solve,
    solve_triangular,
)

__all__ = [
    "EighResult",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "check_layout",
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
    "solve_triangular",
    "svd",
    "svdvals",
]


def __dir__() -> list[str]:
    return __all__
