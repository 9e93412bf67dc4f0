"""Routines of the ScaLAPACK library that is installed, on local arrays and descriptors."""

from .routines import Eigenpairs, pxgemr2d, pxgetrf, pxgetrs, pxsyevd, pxtrmr2d

__all__ = ["Eigenpairs", "pxgemr2d", "pxgetrf", "pxgetrs", "pxsyevd", "pxtrmr2d"]
