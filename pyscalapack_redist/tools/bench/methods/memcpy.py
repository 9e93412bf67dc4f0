"""The C library's memcpy of what moves of each rank's local A: what reading and writing those bytes once costs, with no
layout change.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from ..poison import bytes_of, poison
from ..stage import Stage
from .method import Method, Prepared

__all__ = ["Memcpy"]


class Memcpy(Method):
    """All ranks copy at once, between private arrays; a sub-array as one piece."""

    name = "memcpy"

    def prepare(self, stage: Stage) -> Prepared:
        """Make the array to copy to. Not collective."""
        return _Copy(stage)


class _Copy(Prepared):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        part = stage.part_of_a
        self._source = self._copy = None
        self._memcpy = None
        if part is not None:
            one_piece = part.flags.f_contiguous or part.flags.c_contiguous
            self._source = part if one_piece else np.asfortranarray(part)
            self._copy = np.empty_like(self._source)
            where = (ctypes.c_void_p(one.ctypes.data) for one in (self._copy, self._source))
            self._memcpy = functools.partial(ctypes.CDLL(None).memcpy, *where, ctypes.c_size_t(part.nbytes))
        self.poison()

    @property
    def extra_bytes(self) -> int | None:
        return 0

    def __call__(self) -> None:
        if self._memcpy is not None:
            self._memcpy()

    def poison(self) -> None:
        poison(self._copy)

    def correct(self) -> bool:
        source, copy = self._source, self._copy
        return source is None or copy is None or np.array_equal(bytes_of(source), bytes_of(copy))
