"""Routines of the ScaLAPACK library that is installed, on local arrays and descriptors."""

from .linear_algebra import (
    SingularTriplets,
    pxgels,
    pxgeqrf,
    pxgesvd,
    pxgetri,
    pxorgqr,
    pxpotrf,
    pxpotrs,
)
from .products import pxgemm, pxlange
from .routines import Eigenpairs, pxgemr2d, pxgetrf, pxgetrs, pxsyevd, pxtrmr2d

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
    "pxsyevd",
    "pxtrmr2d",
]
