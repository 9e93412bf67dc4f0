"""Dtypes as ranks compare them: NumPy's own, and types that other modules add to NumPy, such as those of ml_dtypes.

NumPy writes foreign types of one size alike ("<V1" for most of those of a byte), so `dtype.str` does not identify them.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..comm.vote import digest

OWN_TYPES = range(256)  # numbers of NumPy's own types; NPY_USERDEF of <numpy/ndarraytypes.h> is the first other one


@functools.lru_cache(maxsize=256)
def dtype_digest(dtype: np.dtype[Any]) -> int:
    """A number equal on all ranks for equal dtypes, and only for these."""
    plain = _plain(dtype)
    return digest((dtype.itemsize, plain))


def _plain(dtype: np.dtype[Any]) -> object:
    """The dtype without its alignment flag and its metadata, in which equal dtypes may differ."""
    if dtype.subdtype is not None:
        return (_plain(dtype.subdtype[0]), dtype.subdtype[1])
    if dtype.names is not None and dtype.fields is not None:
        return (dtype.itemsize, [(name, _plain(dtype.fields[name][0]), dtype.fields[name][1]) for name in dtype.names])
    return (dtype.str, dtype.type.__module__, dtype.type.__qualname__) if _is_foreign(dtype) else dtype.str


def _is_foreign(dtype: np.dtype[Any]) -> bool:
    return dtype.num not in OWN_TYPES


def _elementary_dtypes(dtype: np.dtype[Any]) -> set[np.dtype[Any]]:
    """The dtypes that a dtype consists of: those of its fields and of the elements of its sub-arrays, or itself."""
    if dtype.subdtype is not None:
        return _elementary_dtypes(dtype.subdtype[0])
    if dtype.names is None or dtype.fields is None:
        return {dtype}
    return set().union(*(_elementary_dtypes(dtype.fields[name][0]) for name in dtype.names))


@functools.lru_cache(maxsize=256)
def foreign_dtypes(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
    """The foreign types that a dtype consists of."""
    return tuple(filter(_is_foreign, _elementary_dtypes(dtype)))


def is_complex(dtype: np.dtype[Any]) -> bool:
    """Whether conjugation may change elements: they are complex, or of a foreign type that NumPy does not know to be real."""
    return dtype.kind == "c" or (_is_foreign(dtype) and not np.can_cast(dtype, np.longdouble, "same_kind"))
