"""PETSc's dense matrices and vectors: whole rows on each rank. A matrix of type scalapack is read by a dense copy."""

from __future__ import annotations

import copy
import ctypes
import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.mpi import MPI
from ..errors import ArrayError
from ..layout.axis import Blocks
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid, same_ranks
from .adapter import Adapter, Blueprint, View, check_one_mpi

DENSE, SCALAPACK = ("seqdense", "mpidense"), "scalapack"
VECTORS = ("seq", "mpi", "shared")


class PetscComm(MPI.Intracomm):
    """A communicator of PETSc's, which PETSc frees with the last reference to it."""

    reference: Any = None


class PetscObjects(Adapter):
    """`Mat` and `Vec` in PETSc's own memory, on their communicator. Who writes it by other means calls `stateIncrease`."""

    def takes(self, x: Any) -> bool:
        petsc = _petsc()
        return isinstance(x, petsc.Mat | petsc.Vec)

    def communicator(self, x: Any) -> MPI.Intracomm | None:
        if not x:
            return None
        check_one_mpi("petsc4py")
        reference = x.getComm().duplicate()
        comm = reference.tompi4py()
        for predefined in (MPI.COMM_WORLD, MPI.COMM_SELF):
            if same_ranks(comm, predefined):
                return predefined
        own = PetscComm(comm)
        own.reference = reference
        return own

    def layout(self, x: Any, comm: MPI.Intracomm) -> Descriptor:
        _check(x)
        return _layout((x.getSize(),) if _is_vector(x) else x.getSize(), x.getOwnershipRanges(), comm)

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        layout = self.layout(x, comm)
        is_copy = x.getType() == SCALAPACK
        owner = x.convert("dense", _petsc().Mat()) if is_copy else copy.copy(x)  # a reference: x may be destroyed
        # Access to write would change the state, by which preconditioners know that they are to be made anew.
        array = owner.getArray(readonly=True) if _is_vector(x) else owner.getDenseArray(readonly=True)
        interface = array.__array_interface__
        interface["data"] = interface["data"][0], is_copy or _is_locked(x)
        memory = SimpleNamespace(__array_interface__=interface, array=array, owner=owner)
        return View(layout, np.asarray(memory))  # has a reference to the owner, which the array of a matrix has not

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        _check(like)
        if not 1 <= len(shape) <= 2:
            raise ArrayError(
                f"PETSc has matrices and vectors only: no array of shape {shape} can be like a {_kind(like)}"
            )
        petsc, ranges = _petsc(), [like.getOwnershipRanges()]
        if not _is_vector(like):
            ranges.append(like.getOwnershipRangesColumn())
        is_scalapack = like.getType() == SCALAPACK
        edges = [_edges(n, each, comm, is_scalapack) for n, each in zip(shape, (ranges, ranges[::-1]), strict=False)]
        sizes = [(int(np.diff(each)[comm.Get_rank()]), int(each[-1])) for each in edges]

        def build(local: NDArray[Any], dtype: np.dtype[Any]) -> Any:
            if local.dtype != petsc.ScalarType:
                raise ArrayError(
                    f"the elements of PETSc are {np.dtype(petsc.ScalarType)} here, not {local.dtype}: convert the array with "
                    "astype before, or use a PETSc built for them"
                )
            own = like.getComm()
            if len(shape) == 1:
                return petsc.Vec().createWithArray(local, size=sizes[0], comm=own)
            matrix = petsc.Mat().createDense(sizes, array=local, comm=own)
            if not is_scalapack:
                return matrix
            return matrix.convert(SCALAPACK, like.duplicate() if shape == like.getSize() else petsc.Mat())

        return Blueprint([_layout(shape, edges[0], comm)], "F", build)

    def written(self, x: Any) -> None:
        x.stateIncrease()


def _petsc() -> Any:
    return importlib.import_module("petsc4py.PETSc")


def _is_vector(x: Any) -> bool:
    return isinstance(x, _petsc().Vec)


def _is_locked(x: Any) -> bool:
    """Whether PETSc lets nobody write a vector now, as in the multiplication with a matrix of one's own.

    petsc4py does not tell, and a PETSc that does not lock has no such function.
    """
    lock = ctypes.CDLL(_petsc().__file__)
    if not _is_vector(x) or not hasattr(lock, "VecLockGet"):
        return False
    state = np.zeros(1, _petsc().IntType)
    lock.VecLockGet(ctypes.c_void_p(x.handle), ctypes.c_void_p(state.ctypes.data))
    return bool(state[0])


def _kind(x: Any) -> str:
    return f"{type(x).__name__} of type {x.getType() if x else None}"


def _check(x: Any) -> None:
    """Raise an ArrayError for an object without elements in the memory of the host."""
    name, kind = type(x).__name__, x.getType() if x else None
    if kind is None:
        raise ArrayError(f"a {name} without a type has no elements: create it, and call setUp()")
    if _is_vector(x):
        if kind not in VECTORS:
            raise ArrayError(f"a Vec of type {kind} is not taken: copy it into one of type standard")
    elif kind not in (*DENSE, SCALAPACK):
        raise ArrayError(
            f"a Mat of type {kind} is not taken, it must be dense: matrix.convert('dense', PETSc.Mat()) is a dense copy"
        )
    elif not x.isAssembled():
        raise ArrayError(f"a Mat of type {kind} is not assembled: call setUp(), and assemble() after setValues")


def _layout(shape: tuple[int, ...], edges: NDArray[Any], comm: MPI.Intracomm) -> Descriptor:
    """Rows in blocks of these edges, one on each rank."""
    rows = Blocks(np.diff(edges))
    return Descriptor(shape, [rows, None][: len(shape)], ProcessGrid((comm.Get_size(), 1)[: len(shape)], comm))


def _edges(n: int, ranges: list[NDArray[Any]], comm: MPI.Intracomm, is_scalapack: bool) -> NDArray[Any]:
    """The first of these ownership ranges that is of `n` elements, or new ones as PETSc makes them."""
    for each in ranges:
        if each[-1] == n:
            return each
    ranks = np.arange(comm.Get_size() + 1)
    size, longer = divmod(n, comm.Get_size())
    if is_scalapack:  # PETSc wants equal sizes there, the last may be smaller
        return np.minimum(ranks * (size + (longer > 0)), n)
    return ranks * size + np.minimum(ranks, longer)
