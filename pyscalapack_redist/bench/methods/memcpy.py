"""The C library's memcpy of each rank's local A: what reading and writing those bytes once costs, with no layout change."""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from ..stage import Stage, poison
from .method import Method, Prepared

__all__ = ["Memcpy"]


class Memcpy(Method):
    """All ranks copy at once, between private arrays."""

    name = "memcpy"

    def prepare(self, stage: Stage) -> Prepared:
        """Make the array to copy to. Not collective."""
        return _Copy(stage)


class _Copy(Prepared):
    extra_bytes = 0

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        a = stage.a
        self._copy = None if a is None else np.empty(a.shape, a.dtype, order="F")
        self._memcpy = None
        if a is not None and self._copy is not None:
            where = (ctypes.c_void_p(one.ctypes.data) for one in (self._copy, a))
            self._memcpy = functools.partial(ctypes.CDLL(None).memcpy, *where, ctypes.c_size_t(a.nbytes))
        self.poison()

    def __call__(self) -> None:
        if self._memcpy is not None:
            self._memcpy()

    def poison(self) -> None:
        poison(self._copy)

    def correct(self) -> bool:
        a, copy = self.stage.a, self._copy
        return a is None or copy is None or np.array_equal(a.T.view(np.uint8), copy.T.view(np.uint8))
