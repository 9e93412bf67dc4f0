"""Linear algebra on distributed arrays, with names and results as NumPy's and SciPy's."""

from .decompositions import EighResult, QRResult, SVDResult, eigh, qr, svd
from .layouts import layout_for
from .least_squares import LstsqResult, lstsq
from .products import matmul, norm
from .systems import SlogdetResult, cho_factor, cho_solve, cholesky, det, inv, lu_factor, lu_solve, slogdet, solve

__all__ = [
    "EighResult",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "eigh",
    "inv",
    "layout_for",
    "lstsq",
    "lu_factor",
    "lu_solve",
    "matmul",
    "norm",
    "qr",
    "slogdet",
    "solve",
    "svd",
]
