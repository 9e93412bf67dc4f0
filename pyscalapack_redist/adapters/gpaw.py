"""GPAW's BLACS matrices: a `BlacsDescriptor` and its array, in C order, which is the transposed matrix to ScaLAPACK."""

from __future__ import annotations

import importlib
from typing import Any

from ..comm.mpi import MPI
from ..errors import DescriptorError
from ..layout.tiles import Layout, read_layout
from .adapter import Adapter, Blueprint, View, check_one_mpi


class GPAWMatrices(Adapter):
    """Pairs (BlacsDescriptor, array); a `BlacsDescriptor` alone is a layout. GPAW does not tell its communicator."""

    def takes(self, x: Any) -> bool:
        kind = importlib.import_module("gpaw.blacs").BlacsDescriptor
        return isinstance(x, kind) or (isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], kind))

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        check_one_mpi("GPAW")
        descriptor, local = x if isinstance(x, tuple) else (x, ...)
        return View(_layout(descriptor, comm), local)

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        descriptor = like[0] if isinstance(like, tuple) else like
        if len(shape) != 2 or 0 in shape:
            raise DescriptorError(
                f"GPAW has no BLACS matrix of shape {shape}, only of two dimensions of 1 or more: give like=, a layout"
            )
        if shape != descriptor.gshape:
            blocks_and_source = descriptor.mb, descriptor.nb, descriptor.rsrc, descriptor.csrc
            descriptor = descriptor.blacsgrid.new_descriptor(*shape, *blocks_and_source)
        return Blueprint([_layout(descriptor, comm)], "C", lambda local, dtype: (descriptor, local))


def _layout(descriptor: Any, comm: MPI.Intracomm) -> Layout | None:
    """The layout of the array as GPAW shows it; None on a rank outside the grid."""
    layout = read_layout("the nine integers of a BlacsDescriptor", descriptor.asarray(), comm, True)
    return None if layout is None else layout.T
