"""Linear algebra on distributed arrays, with names and results as NumPy's and SciPy's."""

from .layouts import layout_for
from .systems import SlogdetResult, cho_factor, cho_solve, cholesky, det, inv, lu_factor, lu_solve, slogdet, solve

__all__ = [
    "SlogdetResult",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "inv",
    "layout_for",
    "lu_factor",
    "lu_solve",
    "slogdet",
    "solve",
]
