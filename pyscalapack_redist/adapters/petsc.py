"""PETSc's dense matrices and vectors, whole rows on each rank, and its matrices of type scalapack, which are block-cyclic."""

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
WORDS = (
    512  # of PETSc's description of a matrix: its layouts are among them, and the pointer to what its type adds follows
)


class PetscComm(MPI.Intracomm):
    """A communicator of PETSc's, which PETSc frees with the last reference to it."""

    reference: Any = None


class ScalapackGrid(ctypes.Structure):
    """The first numbers of Mat_ScaLAPACK_Grid in PETSc's private header petscscalapack.h."""

    _fields_ = tuple((name, ctypes.c_int) for name in ("context", "rows", "columns", "row", "column"))


class ScalapackMatrix(ctypes.Structure):
    """Mat_ScaLAPACK of that header, whose first fields are these in all versions that have such matrices, from 3.14 on."""

    _fields_ = (
        ("grid", ctypes.POINTER(ScalapackGrid)),
        ("desc", ctypes.c_int * 9),
        ("shape", ctypes.c_int * 2),
        ("local_shape", ctypes.c_int * 2),
        ("block", ctypes.c_int * 2),
        ("source", ctypes.c_int * 2),
        ("local", ctypes.c_void_p),
        ("lld", ctypes.c_int),
    )


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
        if x.getType() == SCALAPACK:
            return _blocks_of(x, comm)[0]
        return _layout((x.getSize(),) if _is_vector(x) else x.getSize(), x.getOwnershipRanges(), comm)

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        _check(x)
        if x.getType() == SCALAPACK:
            return View(*_blocks_of(x, comm))
        layout = self.layout(x, comm)
        owner = copy.copy(x)  # a reference: x may be destroyed
        # Access to write would change the state, by which preconditioners know that they are to be made anew.
        array = owner.getArray(readonly=True) if _is_vector(x) else owner.getDenseArray(readonly=True)
        interface = array.__array_interface__
        interface["data"] = interface["data"][0], _is_locked(x)
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
        layout = _layout(shape, edges[0], comm)
        if is_scalapack and len(shape) == 2:
            blocks = _blocks_of(like, comm)[0]
            layout = Descriptor(shape, blocks.block, blocks.grid)

        def build(local: NDArray[Any], dtype: np.dtype[Any]) -> Any:
            _check_elements(local.dtype)
            own = like.getComm()
            if len(shape) == 1:
                return petsc.Vec().createWithArray(local, size=sizes[0], comm=own)
            if is_scalapack:
                return _new_scalapack(like, sizes, local, comm)
            return petsc.Mat().createDense(sizes, array=local, comm=own)

        return Blueprint([layout], "F", build)

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


def _check_elements(dtype: np.dtype[Any]) -> None:
    """Raise an ArrayError for elements that this PETSc does not have."""
    own = np.dtype(_petsc().ScalarType)
    if dtype != own:
        raise ArrayError(
            f"the elements of PETSc are {own} here, not {dtype}: convert the array with astype before, or use a PETSc built "
            "for them"
        )


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


# -- matrices of type scalapack, of which petsc4py shows neither the blocks nor the memory


def _blocks_of(x: Any, comm: MPI.Intracomm) -> tuple[Descriptor, NDArray[Any]]:
    """The layout and the local array, as PETSc's private header has them, where they fit all that PETSc itself tells."""
    (m, n), block, inside = x.getSize(), _block_sizes(x), _description(x)
    nine = [] if inside is None else list(inside.desc)
    if inside is not None and [*nine[:1], *nine[2:]] == [1, m, n, *block, *inside.source, inside.lld]:
        grid = inside.grid.contents
        if grid.rows * grid.columns == comm.Get_size():
            on_grid = ProcessGrid((grid.rows, grid.columns), comm)
            layout = Descriptor((m, n), block, on_grid, source=tuple(inside.source))
            if (layout.coords, layout.local_shape) == ((grid.row, grid.column), tuple(inside.local_shape)):
                return layout, _local_array(x, inside)
    version = ".".join(map(str, _petsc().Sys.getVersion()))
    raise ArrayError(
        f"PETSc {version} describes its matrices of type scalapack in a way that is not known: "
        "matrix.convert('dense', PETSc.Mat()) is a dense copy, which is taken"
    )


def _block_sizes(x: Any) -> tuple[int, int]:
    rows, columns = (np.zeros(1, _petsc().IntType) for _ in range(2))
    _call("MatScaLAPACKGetBlockSizes", x, *(ctypes.c_void_p(each.ctypes.data) for each in (rows, columns)))
    return int(rows[0]), int(columns[0])


def _description(x: Any) -> ScalapackMatrix | None:
    """What PETSc's type scalapack adds to a matrix: the pointer to it follows those that the public MatGetLayouts returns."""
    rows, columns = ctypes.c_void_p(), ctypes.c_void_p()
    _call("MatGetLayouts", x, ctypes.byref(rows), ctypes.byref(columns))
    words = ctypes.cast(ctypes.c_void_p(x.handle), ctypes.POINTER(ctypes.c_size_t))
    for k in range(WORDS):
        if (words[k], words[k + 1]) == (rows.value, columns.value):
            return ScalapackMatrix.from_address(words[k + 2])
    return None


def _local_array(x: Any, inside: ScalapackMatrix) -> NDArray[Any]:
    """The local array in PETSc's memory, which it keeps for as long as the array is there."""
    shape, dtype = tuple(inside.local_shape), np.dtype(_petsc().ScalarType)
    if 0 in shape:
        return np.empty(shape, dtype, "F")
    strides = dtype.itemsize, dtype.itemsize * inside.lld
    interface = {"version": 3, "shape": shape, "strides": strides, "typestr": dtype.str, "data": (inside.local, False)}
    return np.asarray(SimpleNamespace(__array_interface__=interface, owner=copy.copy(x)))


def _new_scalapack(like: Any, sizes: list[tuple[int, int]], local: NDArray[Any], comm: MPI.Intracomm) -> Any:
    """A matrix in blocks as of another one, with these elements: PETSc allocates its memory. Collective over `comm`."""
    matrix = _petsc().Mat().create(comm=like.getComm())
    matrix.setSizes(sizes)
    matrix.setType(SCALAPACK)
    _call("MatScaLAPACKSetBlockSizes", matrix, *map(np.ctypeslib.as_ctypes_type(_petsc().IntType), _block_sizes(like)))
    matrix.setUp()
    matrix.assemble()
    _blocks_of(matrix, comm)[1][...] = local
    matrix.stateIncrease()
    return matrix


def _call(name: str, x: Any, *arguments: Any) -> None:
    """Call a function of PETSc's C interface that petsc4py does not have."""
    error = getattr(ctypes.CDLL(_petsc().__file__), name)(ctypes.c_void_p(x.handle), *arguments)
    if error:
        raise ArrayError(f"PETSc's {name} of a {_kind(x)} has failed with error {error}")
