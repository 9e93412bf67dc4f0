"""scalapack4py and PyScalapack: matrices with the nine integers of a BLACS context that the library made."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ..blacs.library import ENVIRONMENT, address_of, file_of, load
from ..comm.mpi import MPI
from ..errors import ArrayError, DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .adapter import Adapter, Blueprint, View

SYMBOL = "blacs_gridinfo_"


class NPScalArrays(Adapter):
    """`NPScal` of scalapack4py; also its transpose `x.T`, which has the same memory.

    A new array has the grid and the blocks of another one; a block that is larger than the matrix is made smaller, as NPScal
    wants it. NPScal does not exist on ranks outside its grid.
    """

    def takes(self, x: Any) -> bool:
        return all(hasattr(x, name) for name in ("descr", "loc_array", "grid"))

    def communicator(self, x: Any) -> MPI.Intracomm | None:
        return x.comm  # type: ignore[no-any-return]

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        check_library(x, [x.sl.blacs])
        local = x.loc_array
        if x._conjugated and local.dtype.kind == "c":
            raise ArrayError(
                "the NPScal is conjugated when it is read, which its memory does not show: pass x.conj(), whose memory is that "
                'of the array, and conjugate with op="R" of redistribute'
            )
        desc = Descriptor._read_array(x.descr, comm)
        return View(desc.T, local.T) if desc is not None and x._transposed else View(desc, local)

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        check_library(like, [like.sl.blacs])
        if len(shape) != 2 or 0 in shape:
            raise ArrayError(f"an array of shape {shape} is no NPScal, which is a matrix with elements")
        is_transposed, nine = like._transposed, like.descr
        rows, columns = shape[::-1] if is_transposed else shape
        desc = _layout(nine, (rows, columns), (min(nine.mb, rows), min(nine.nb, columns)), comm)
        if desc is None:
            raise DescriptorError("CTXT = -1 in the NPScal: a rank outside its grid cannot make one")
        mb, nb = desc.block

        def build(local: Any, dtype: Any) -> Any:
            array = import_module("scalapack4py.npscal").NPScal(
                loc_array=local.T if is_transposed else local, grid=like.grid, lib=like.sl, gl_m=rows, gl_n=columns, dmb=mb,
                dnb=nb, drsrc=nine.rsrc, dcsrc=nine.csrc
            )  # fmt: skip
            return array.T if is_transposed else array

        return Blueprint([desc.T if is_transposed else desc], "C" if is_transposed else "F", build)


class PyScalapackArrays(Adapter):
    """`Array` of PyScalapack, as an array: in place of a layout its nine integers are one.

    A new array has the context and the blocks of another one. On a rank outside the grid PyScalapack's array of 1 x 1
    elements is no part of the matrix.
    """

    def takes(self, x: Any) -> bool:
        return isinstance(x, ctypes.Structure) and all(hasattr(x, name) for name in ("data", "context"))

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        check_library(x, x.context.scalapack.libs)
        desc = Descriptor._read_array(x, comm)
        return View(desc, None if desc is None else x.data, x.data.dtype)

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        check_library(like, like.context.scalapack.libs)
        if len(shape) != 2:
            raise ArrayError(f"an array of shape {shape} is no Array of PyScalapack, which is a matrix")
        desc = _layout(like, shape, (like.mb, like.nb), comm)

        def build(local: Any, dtype: Any) -> Any:
            elements = {"dtype": dtype} if desc is None else {"data": local}
            return like.context.array(*shape, like.mb, like.nb, **elements)

        return Blueprint([desc], "F" if like.context.layout.value == b"C" else "C", build)


def _layout(nine: Any, shape: Sequence[int], block: Sequence[int], comm: MPI.Intracomm) -> Descriptor | None:
    """The layout of a matrix of this shape and block size on the grid of nine integers; None on a rank outside."""
    grid = ProcessGrid._read_context(nine.ctxt, comm)
    return None if grid is None else Descriptor(shape, block, grid, source=(nine.rsrc, nine.csrc))


def check_library(x: object, libraries: Sequence[ctypes.CDLL]) -> None:
    """Raise a DescriptorError for contexts of another ScaLAPACK than ours: each file numbers its own from 0."""
    library = load()
    addresses = {address_of(each, SYMBOL) for each in libraries} - {0}
    if addresses and library.addresses[SYMBOL] not in addresses:
        files = ", ".join(sorted({str(file_of(each, SYMBOL)) for each in libraries if address_of(each, SYMBOL)}))
        raise DescriptorError(
            f"the {type(x).__name__} has a BLACS context of {files}, but contexts are read of {library.path}: open that file "
            f"for it, pyscalapack_redist.blacs.load().path, or set {ENVIRONMENT} to the other one"
        )
