"""Reading and writing of a distributed array in slabs: each slab is redistributed, and each rank reads or writes a part.

Each rank reads and writes independently, so a rank that fails can report it to the others; in a collective call of MPI-IO
they may wait forever.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..comm.agreement import agreement
from ..comm.agreement import on_first as first_for_all
from ..comm.group import Group
from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..comm.node import machine
from ..errors import FileError
from ..layout.axis import Blocks
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from ..redistribution import plan_between
from .contents import FileArray, FilePart, Region, check_ordinary
from .progress_bar import Advance, progress_bar

T = TypeVar("T")
STEP = "a step with a file"  # in errors
SLAB_BYTES = 16 * 2**20  # bytes of a slab for each rank that reads or writes
UNIT_SHARE = 4  # with units, a slab has SLAB_BYTES / UNIT_SHARE: a library that compresses has several copies of them
# Facts that identify a file on one host, and facts that are equal on all hosts.
NUMBERS, CONTENTS = ("device", "inode"), ("size", "modified")


# -- actions on all ranks


def on_all(group: Group, action: Callable[[], T]) -> T:
    """Call a function on every rank; if it fails on one, raise on all. Collective."""
    with agreement(group, STEP):
        result = as_file_error(action)
    return result


def on_first(group: Group, action: Callable[[], T]) -> T:
    """Call a function on the first rank, and return its result, or raise its error, on all ranks. Collective."""
    return first_for_all(group, STEP, functools.partial(as_file_error, action))


def as_file_error(action: Callable[[], T]) -> T:
    """The result of a function; errors of the system and of MPI become FileErrors."""
    try:
        return action()
    except FileError:
        raise
    except MPI.Exception as error:
        raise FileError(f"MPI: {error}") from error
    except OSError as error:
        raise FileError(str(error)) from error


def identity_of(path: str, mode: str = "rb") -> dict[str, Any]:
    """Facts that identify a file. The file is opened, because a network file system may have stale facts before."""
    check_ordinary(path)
    with open(path, mode) as file:
        status = os.fstat(file.fileno())
    figures = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return {"host": machine(), **dict(zip((*NUMBERS, *CONTENTS), figures, strict=True))}


@contextlib.contextmanager
def one_file(group: Group, path: str, writes: bool = False, elsewhere: tuple[str, ...] = CONTENTS) -> Iterator[None]:
    """Check that `path` is the same file on all ranks, before and after the body of the `with`. Collective.

    Raises a FileError on all ranks if it is not, or if one of them cannot open it. The facts `elsewhere` are compared between
    hosts: before the body, and if it does not write, also after it.
    """
    mode, on_host = ("r+b", NUMBERS) if writes else ("rb", (*NUMBERS, *CONTENTS))
    first = on_first(group, lambda: identity_of(path, mode))

    def difference(elsewhere: tuple[str, ...]) -> str | None:
        try:
            own = as_file_error(lambda: identity_of(path, mode))
        except FileError as error:
            return f"cannot be opened as on the first rank ({error})"
        for name in on_host if own["host"] == first["host"] else elsewhere:
            if own[name] != first[name]:
                return f"is not the file of the first rank: {name} {own[name]}, not {first[name]}"
        return None

    def compare(elsewhere: tuple[str, ...]) -> None:
        with agreement(group, STEP, combine=list) as agreed:
            agreed.give(difference(elsewhere))
        problems = agreed.result
        for name, text in zip(group.names, problems, strict=True):
            if text is not None:
                raise FileError(
                    f"{path} on {name} {text}: all ranks must see the same file (use an absolute path if their working "
                    "directories differ), and no program may replace or change it during the call"
                )

    compare(elsewhere)
    yield
    compare(() if writes else elsewhere)


# -- slabs


class Slab(NamedTuple):
    """A slab: a part of the array, and its layout over the ranks that read or write it.

    Attributes
    ----------
    part : tuple of slice
        The part of the array.
    layout : Descriptor
        One contiguous part for each of these ranks, in file order.
    """

    part: Region
    layout: Descriptor

    @property
    def own(self) -> Region:
        """This rank's part as slices of the whole array; empty slices if it has none."""
        coords = self.layout.coords
        if coords is None:
            return tuple(slice(0, 0) for _ in self.part)
        edges = [self.layout.block_edges(k)[p : p + 2].tolist() for k, p in enumerate(coords)]
        return tuple(
            slice(part.start + low, part.start + high) for part, (low, high) in zip(self.part, edges, strict=True)
        )


def slabs(desc: Descriptor, array: FileArray, unit: tuple[int, ...] | None, ranks: int) -> Iterator[Slab]:
    """The slabs of an array in file order, equal on all ranks.

    A slab has at most `ranks` times SLAB_BYTES (with `unit`, over UNIT_SHARE), or one unit for each rank. Each rank's part is
    whole units, less than twice the average number, or one. Units are cut at the edges of the array and of a window.

    Parameters
    ----------
    desc : Descriptor
        Layout of the array, or of its window.
    array : FileArray
        The array in the file.
    unit : tuple of int, optional
        Shape of a unit, the smallest part that a rank reads or writes: units tile the whole array. By default one element.
    ranks : int
        Number of ranks that read or write: the first ones of the communicator.
    """
    most = SLAB_BYTES * ranks if unit is None else SLAB_BYTES * ranks // UNIT_SHARE
    order, unit = array.order, unit or (1,) * desc.ndim
    starts = [0] * desc.ndim if array.window is None else [part.start for part in array.window]
    cut = [start % u for start, u in zip(starts, unit, strict=True)]  # elements of the first unit before the window
    counts = [n and -(-(skipped + n) // u) for n, u, skipped in zip(desc.shape, unit, cut, strict=True)]
    limit = max(ranks, most // (array.dtype.itemsize * math.prod(unit)))
    grids: dict[tuple[int, ...], ProcessGrid] = {}
    for box in _boxes(counts, limit, order, ranks):
        lengths = [extent.stop - extent.start for extent in box]
        processes = _processes_along(lengths, ranks) if order == "C" else _processes_along(lengths[::-1], ranks)[::-1]
        if processes not in grids:
            grids[processes] = ProcessGrid(processes, desc.grid.comm, order="row" if order == "C" else "column")
        edges = [
            np.clip(np.minimum(np.arange(p + 1) * -(-length // p) + extent.start, extent.stop) * u - skipped, 0, n)
            for extent, length, p, u, skipped, n in zip(box, lengths, processes, unit, cut, desc.shape, strict=True)
        ]
        part = tuple(slice(int(along[0]), int(along[-1])) for along in edges)
        sizes = [np.diff(along) for along in edges]
        blocks = [Blocks(each) if (each[1:] > each[0]).any() else int(each[0]) for each in sizes]
        yield Slab(part, Descriptor([int(each.sum()) for each in sizes], blocks, grids[processes]))


def _boxes(shape: Sequence[int], limit: int, order: str, ranks: int) -> Iterator[Region]:
    """Boxes of at most `limit` elements that are contiguous in the file, in file order."""
    if 0 in shape:
        return
    from_slowest = list(range(len(shape)))[:: 1 if order == "C" else -1]
    inner, position = 1, len(shape) - 1
    while position and inner * shape[from_slowest[position]] <= limit:
        inner *= shape[from_slowest[position]]
        position -= 1
    cut, outer = from_slowest[position], from_slowest[:position]
    length = _length(shape[cut], limit // inner, ranks)
    for fixed in itertools.product(*(range(shape[k]) for k in outer)):
        extents = {k: slice(i, i + 1) for k, i in zip(outer, fixed, strict=True)}
        for low in range(0, shape[cut], length):
            extents[cut] = slice(low, min(low + length, shape[cut]))
            yield tuple(extents.get(k, slice(0, n)) for k, n in enumerate(shape))


def _length(n: int, most: int, ranks: int) -> int:
    """Number of indices of a slab along the dimension that is cut: at most `most`, so that few ranks are idle.

    Either all ranks have equally many indices, or equally many ranks share each index.
    """
    if n <= most:
        return n
    return most - most % ranks if most >= ranks else ranks // -(-ranks // most)


def _processes_along(shape: Sequence[int], ranks: int) -> tuple[int, ...]:
    """Number of processes along each dimension, the slowest first, so that each process has one contiguous part.

    The slowest dimension is distributed first. If it has fewer indices than processes, several processes share an index, and
    the next dimension is distributed over them.
    """
    processes = []
    for n in shape:
        block = -(-n // ranks)
        processes.append(-(-n // block))
        ranks = ranks // n if block == 1 else 1
    return tuple(processes)


# -- arrays that are read, and files that are written, in slabs


class StoredArray(ABC):
    """An array that ranks read in slabs.

    Parameters
    ----------
    group : MPIGroup
        The ranks.
    name : str
        The array's file in messages.
    callers : int
        Number of ranks that open it: the first ones.
    """

    def __init__(self, group: MPIGroup, name: str, callers: int) -> None:
        self.group, self.name, self.callers = group, name, callers

    @abstractmethod
    def locate(self, part: FilePart, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        """The array or window, checked against the layout; a raw file has elements of `dtype`. Collective."""

    @abstractmethod
    def opened(self, mode: str) -> AbstractContextManager[Any]:
        """Open the file to read ("r") or to write ("r+"); at the end close it, after bringing it to the disk. Collective."""

    @abstractmethod
    def read_part(self, file: Any, array: FileArray, slab: Slab, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Read this rank's part of a slab, as an array of `dtype`."""

    def read(
        self, array: FileArray, desc: Descriptor, out: NDArray[Any] | None, dtype: np.dtype[Any], progress: bool = False
    ) -> None:
        """Read an array into `out`, this rank's local array, of `dtype`. The first rank reports the progress. Collective."""

        def read_part(slab: Slab) -> NDArray[Any] | None:
            return None if slab.layout.coords is None else self.read_part(file, array, slab, dtype)

        with self.opened("r") as file, self._progress("load", array, desc, progress) as advance:
            for slab in slabs(desc, array, array.read_unit, self.callers):
                part = on_all(self.group, functools.partial(read_part, slab))
                # On the whole communicator, here and below: some ranks may have no part of a slab.
                plan_between(slab.layout, desc[slab.part], dtype=dtype, comm=desc.grid.comm)(part, out)
                advance(math.prod(slab.layout.shape) * array.dtype.itemsize)

    def _progress(self, call: str, array: FileArray, desc: Descriptor, shown: bool) -> AbstractContextManager[Advance]:
        """The progress of a call, on the first rank if it asks for that."""
        total = math.prod(desc.shape) * array.dtype.itemsize
        return progress_bar(call, str(self.name), total, bool(shown) and self.group.rank == 0)


class ArrayFile(StoredArray):
    """A file of one format, whose array is read and written in slabs.

    Parameters
    ----------
    group : MPIGroup
        The ranks.
    path : str
        The file.
    name : str
        The file in messages.
    callers : int
        Number of ranks that read and write elements: the first ones.

    Attributes
    ----------
    origin : dict, optional
        On the first rank, facts about the file whose contents `create` has copied; none for a file that did not exist.
    """

    def __init__(self, group: MPIGroup, path: str, name: str, callers: int) -> None:
        super().__init__(group, name, callers)
        self.path = path
        self.origin: dict[str, Any] | None = None

    def identity(self) -> str:
        """The file that identifies the array; for a format of one file, that file. Collective."""
        return self.path

    @abstractmethod
    def create(self, target: str, array: FileArray) -> FileArray:
        """Make the file for an array, to replace `target`; returns the array in the file. Collective."""

    def check_target(self, target: str) -> None:
        """Raise a FileError if `create` has copied the contents of `target`, and these have changed. On the first rank."""
        if self.origin is not None and self.origin != (identity_of(target) if os.path.exists(target) else {}):
            raise FileError(
                f"{self.name} was changed by another program during the call, and what it wrote would be lost: save again"
            )

    @abstractmethod
    def write_part(self, file: Any, array: FileArray, slab: Slab, part: NDArray[Any]) -> None:
        """Write this rank's part of a slab, which is contiguous in the array's order."""

    def write(self, array: FileArray, desc: Descriptor, local: NDArray[Any] | None, progress: bool = False) -> None:
        """Write this rank's local array into the file, which is there, and see it on the disk. Collective.

        The first rank reports the progress.
        """

        with self.opened("r+") as file, self._progress("save", array, desc, progress) as advance:
            for slab in slabs(desc, array, array.write_unit, self.callers):
                part = on_all(self.group, functools.partial(slab.layout.empty, array.dtype, order=array.order))
                plan_between(desc[slab.part], slab.layout, dtype=array.dtype, comm=desc.grid.comm)(local, part)
                self.write_slab(file, array, slab, part)
                advance(math.prod(slab.layout.shape) * array.dtype.itemsize)

    def write_slab(self, file: Any, array: FileArray, slab: Slab, part: NDArray[Any]) -> None:
        """Write a slab, of which this rank has `part`. Collective."""

        def write() -> None:
            if part.size:
                self.write_part(file, array, slab, part)

        on_all(self.group, write)
