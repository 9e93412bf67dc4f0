"""Adapter: the conversion of arrays of one library; and the one for an object, by the module of its type."""

from __future__ import annotations

import functools
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..comm.guard import Guard
from ..comm.mpi import MPI, mpi_files
from ..errors import ArrayError
from ..layout.array_arithmetic import Distributed
from ..layout.descriptor import Descriptor
from ..layout.tiles import Layout, Tiles


class Summands(NamedTuple):
    """The summands of an array: their layout, each a replica, and the factor of their sum."""

    layout: Descriptor
    factor: float


class View(NamedTuple):
    """The layout and the memory of an array of another library.

    Attributes
    ----------
    layout : Descriptor, Tiles or None
        The layout; None on a rank that cannot know it.
    local : ndarray, list of ndarray, or None
        This rank's local array, as of a `DistributedArray`; `...` if the object is a layout without elements.
    dtype : dtype, optional
        Of the elements, for ranks without any.
    summands : Summands, optional
        If each replica of the array is a summand: these are added when the array is taken, into new local arrays.
    """

    layout: Layout | None
    local: Any = ...
    dtype: np.dtype[Any] | None = None
    summands: Summands | None = None


class Blueprint(NamedTuple):
    """A new array of another library, to be filled.

    Attributes
    ----------
    layouts : sequence of Descriptor, Tiles, or None on a rank that cannot know it
        Of the new array. Several layouts together, if some elements are on several processes and tiles cannot say that.
    order : {"F", "C"}
        Order of elements in the local arrays.
    build : callable
        Makes the object of the local arrays of this rank: one argument for each layout, an array, or a list of arrays for
        `Tiles`, and the keyword `dtype`, equal on all ranks. The object may keep their memory. On a rank outside a grid the
        array is empty.
    allocate : callable, optional
        Makes the local arrays of this rank, one for each layout: parts of memory of which the object is made. Arguments: the
        dtype, and whether all elements are 0 first. By default each is an array of its own, of `Tiles` a list of such.
    """

    layouts: Sequence[Any]
    order: str
    build: Callable[..., Any]
    allocate: Callable[[np.dtype[Any], bool], Sequence[Any]] | None = None


class Adapter(ABC):
    """The arrays of one library. `view` and `make` raise a RedistributionError, on any rank, for what they do not take."""

    communicates = False  # whether `view` and `make` do: then all ranks agree first that they have such an array

    @abstractmethod
    def takes(self, x: Any) -> bool:
        """Whether an object of the library's is an array, or one with a layout."""

    @abstractmethod
    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        """The layout on `comm`, and this rank's local arrays; not copies if the library gives its memory.

        All ranks of `comm` call it, and none waits for another that raises an error.
        """

    @abstractmethod
    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        """The blueprint of an array of this shape in the layout of another, as far as that fits. All ranks call it."""

    def layout(self, x: Any, comm: MPI.Intracomm) -> Layout | None:
        """The layout of `view`, for uses that need no elements."""
        return self.view(x, comm).layout

    def communicator(self, x: Any) -> MPI.Intracomm | None:
        """The communicator of the array, if the library has one."""
        return None

    def replicated(self, like: Any, values: NDArray[Any]) -> Any:
        """An array that each rank has whole, in the library's form; by default NumPy's."""
        return values

    def written(self, x: Any) -> None:  # noqa: B027 - most libraries need not know
        """Tell the library that the memory of an array has been written. All ranks call it."""


@functools.cache
def check_one_mpi(library: str) -> None:
    """Raise an ArrayError if two MPI libraries are in this process: the communicators of one mean nothing to the other."""
    files = mpi_files()
    if len(files) > 1:
        raise ArrayError(
            f"{library} and mpi4py must use one MPI, but {' and '.join(files)} are in this process: install {library} for the "
            "MPI of mpi4py, or the other way round"
        )


# The adapter, MODULE:CLASS, for the top-level modules in which types are defined.
ADAPTERS = {
    "PyScalapack": "scalapack4py:PyScalapackArrays",
    "dask": "dask:DaskArrays",
    "gpaw": "gpaw:GPAWMatrices",
    "heat": "heat:HeatArrays",
    "jax": "jax:JaxArrays",
    "jaxlib": "jax:JaxArrays",
    "mpi4py_fft": "mpi4py_fft:Pencils",
    "petsc4py": "petsc:PetscObjects",
    "pylops_mpi": "pylops_mpi:PylopsArrays",
    "scalapack4py": "scalapack4py:NPScalArrays",
    "torch": "torch:DTensors",
}
OWN_TYPES = frozenset(
    {np.ndarray, type(None), Descriptor, Tiles, int, str, bool}
)  # common, and no arrays of other libraries


@functools.cache
def _entry_points() -> dict[str, Any]:
    """Entry points of other packages' adapters by the module that they are for."""
    from importlib.metadata import entry_points  # takes as long as the package itself

    return {entry.name: entry for entry in entry_points(group=__package__)}


@functools.cache
def _loaded(name: str) -> Adapter:
    module, _, kind = name.partition(":")
    adapter: Adapter = getattr(importlib.import_module(f"{__package__}.{module}"), kind)()
    return adapter


@functools.cache
def _of_type(kind: type) -> Adapter | None:
    """The adapter for a type, by the top-level modules of the type and of its base classes."""
    if issubclass(kind, Distributed | Descriptor | Tiles):
        return None
    modules = [base.__module__.partition(".")[0] for base in kind.__mro__]
    for module in modules:
        if module in ADAPTERS:
            return _loaded(ADAPTERS[module])
    for module in modules:
        if module not in ("builtins", "numpy") and module in _entry_points():
            adapter: Adapter = _entry_points()[module].load()()
            return adapter
    return None


def find(x: object) -> Adapter | None:
    """The adapter that takes an object; None for what is no array of another library. Not collective.

    Of a pair of a layout and a local array, the layout's library is asked first.
    """
    if type(x) in OWN_TYPES or isinstance(x, Distributed):
        return None
    is_pair = isinstance(x, tuple) and len(x) == 2
    adapter = _of_type(type(x[0] if is_pair else x))  # type: ignore[index, arg-type]
    if adapter is not None and adapter.takes(x):
        return adapter
    pairs = _loaded("pairs:Pairs") if is_pair else None
    return pairs if pairs is not None and pairs.takes(x) else None


def tell_written(x: object) -> None:
    """Tell the library of an array that its memory has been written. All ranks call it."""
    adapter = find(x)
    if adapter is not None:
        adapter.written(x)


class Unreadable(Adapter):
    """In place of the adapter of an object for which `find` fails: what is needed before a vote raises that error."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def takes(self, x: Any) -> bool:
        return True

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        raise self._error

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        raise self._error

    def communicator(self, x: Any) -> MPI.Intracomm | None:
        kind: Any = type(x)
        adapter = _of_type(kind)
        return None if adapter is None else adapter.communicator(x)


def adapter_of(x: object) -> Adapter | None:
    """The adapter as of `find`, which may fail on this rank alone; then one that raises the error where a vote reports it."""
    guard = Guard()
    adapter = guard.attempt(lambda: find(x), is_open=False)
    return adapter if guard.error is None else Unreadable(guard.error)
