"""Pairs of a layout of this package, or of nine integers, and a local array."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..comm.mpi import MPI
from ..errors import DescriptorError
from ..layout.grid import is_nine_integers
from ..layout.tiles import LAYOUTS, read_layout
from .adapter import Adapter, Blueprint, View


class Pairs(Adapter):
    """(desc, local): a `Descriptor`, `Tiles` or the nine integers of a descriptor, and this rank's local array."""

    def takes(self, x: Any) -> bool:
        return isinstance(x, tuple) and len(x) == 2 and (isinstance(x[0], LAYOUTS) or is_nine_integers(x[0]))

    def communicator(self, x: Any) -> MPI.Intracomm | None:
        return x[0].comm if isinstance(x[0], LAYOUTS) else None

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        return View(read_layout("desc", x[0], comm, True), x[1])

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        layout, local = read_layout("desc", like[0], comm, True), like[1]
        if layout is not None and layout.shape != shape:
            raise DescriptorError(f"like has the layout {layout!r}: it must be that of an array of shape {shape}")
        by_rows = isinstance(local, np.ndarray) and local.flags.c_contiguous and not local.flags.f_contiguous
        return Blueprint([layout], "C" if by_rows else "F", lambda array, dtype: (like[0], array))
