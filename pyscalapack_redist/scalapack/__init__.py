"""Routines of the ScaLAPACK library that is installed, on local arrays and descriptors."""

from .eigenproblems import Eigenpairs, pxsyev, pxsyevd, pxsygst
from .linear_algebra import pxgetri, pxpotrf, pxpotrs, pxtrmm, pxtrsm
from .orthogonal import SingularTriplets, pxgels, pxgeqrf, pxgesvd, pxorgqr
from .products import pxgemm, pxlange
from .routines import pxgemr2d, pxgetrf, pxgetrs, pxtrmr2d

__all__ = [
    "Eigenpairs",
    "SingularTriplets",
    "pxgels",
    "pxgemm",
    "pxgemr2d",
    "pxgeqrf",
    "pxgesvd",
    "pxgetrf",
    "pxgetri",
    "pxgetrs",
    "pxlange",
    "pxorgqr",
    "pxpotrf",
    "pxpotrs",
    "pxsyev",
    "pxsyevd",
    "pxsygst",
    "pxtrmm",
    "pxtrmr2d",
    "pxtrsm",
]
