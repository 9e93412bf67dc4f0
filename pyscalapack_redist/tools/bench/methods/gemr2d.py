"""ScaLAPACK's own p?gemr2d, of the library in use or of another one.

The entry point is called with descriptors made beforehand, so that nothing of this package is timed with it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .... import blacs
from ....errors import LibraryError
from ....scalapack.operands import KIND_OF_DTYPE
from ...cases import Case
from ...layouts import BALANCED, Layout
from ..stage import Stage
from .method import Method, Prepared

__all__ = ["gemr2d"]


def gemr2d(name: str, path: str | None = None, prefix: str = "") -> Method:
    """The redistribution of the library that `blacs.load()` finds, or of a file whose entry points begin with `prefix`."""
    load = functools.partial(blacs.load, path, prefix=prefix)
    return Method(name, lambda stage: _Called(stage, load()), functools.partial(_obstacle, load=load))


def _obstacle(case: Case, load: Callable[[], blacs.Library]) -> str | None:
    """A dtype, a number of dimensions, an order or a size that it is not for, or no library."""
    if len(case.shape) != 2:
        return f"p?gemr2d is for two dimensions, not {len(case.shape)}"
    if case.tiled:
        return f"p?gemr2d is for a local array on each process, and the layout of {case.tiled} is of tiles"
    if case.dtype not in KIND_OF_DTYPE:
        return f"p?gemr2d is for {', '.join(map(str, KIND_OF_DTYPE))}, not {case.dtype}"
    for name, layout in (("A", case.before), ("B", case.after)):
        if not all(isinstance(size, int) for size in layout.block):
            what = "balanced" if BALANCED in layout.block else "irregular"
            return f"p?gemr2d is for blocks of one size, and those of {name} are {what}"
        if layout.copied:
            return f"p?gemr2d is for layouts without copies, and several processes hold each element of {name}"
        if layout.order != "F":
            return f"p?gemr2d is for Fortran order, and the local arrays of {name} are in C order"
    shapes = (*case.before.whole_shape(case.shape), *case.after.whole_shape(case.shape))
    if max(*shapes, *case.before.block, *case.after.block, case.local_elements) >= 2**31:
        return "p?gemr2d counts in 32 bits: this array is too large for it"
    try:
        load()
    except LibraryError as error:
        return str(error)
    return None


class _Called(Prepared):
    """Three BLACS contexts: of each grid, and of all ranks of both."""

    def __init__(self, stage: Stage, library: blacs.Library) -> None:
        super().__init__(stage)
        case = stage.case
        self._library = library
        self._contexts: list[int] = []
        a = self._operand(case.before, stage.a)
        b = self._operand(case.after, stage.out)
        involved = sorted({*range(case.before.first, case.before.end), *range(case.after.first, case.after.end)})
        context = self._context((1, len(involved)), involved)
        m, n = case.shape
        self._takes_part = context >= 0
        self._call = functools.partial(library.entries.gemr2d, KIND_OF_DTYPE[case.dtype], m, n, *a, *b, context)

    def __call__(self) -> None:
        if self._takes_part:
            self._call()

    def forget(self) -> None:
        if not self._takes_part:
            return
        for file in (self._library.path, None):  # BLACS keeps its largest buffer for later calls
            free = getattr(ctypes.CDLL(file), "blacs_freebuff_", None)
            if free is not None:
                free(ctypes.byref(ctypes.c_int(self._contexts[-1])), ctypes.byref(ctypes.c_int(1)))
                return

    def close(self) -> None:
        for context in reversed(self._contexts):
            blacs.free_context(context, self._library)
        self._contexts.clear()

    def _context(self, shape: tuple[int, int], ranks: list[int]) -> int:
        if self.stage.comm.Get_rank() not in ranks:
            return -1
        self._contexts.append(blacs.make_context(self.stage.comm, shape, ranks, self._library))
        return self._contexts[-1]

    def _operand(self, layout: Layout, array: NDArray[np.generic] | None) -> tuple[int, int, int, NDArray[np.intc]]:
        """Address, IA, JA and the nine integers; outside the grid, where CTXT is -1, no address."""
        context = self._context((layout.grid[0], layout.grid[1]), list(range(layout.first, layout.end)))
        rows = 1 if array is None else max(1, array.shape[0])
        shape = layout.whole_shape(self.stage.case.shape)
        nine = np.array([1, context, *shape, *layout.block, *layout.source, rows], dtype=np.intc)
        i, j = layout.offset or (0, 0)
        return (0 if array is None else array.ctypes.data), i + 1, j + 1, nine
