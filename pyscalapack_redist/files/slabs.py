"""A distributed array moved to or from one file in slabs: a redistribution, and each rank reads or writes one contiguous part.

This is what MPI-IO does inside a collective call on a view, but through this package's own exchange, and with each rank's
reading and writing apart: one that fails says so to the others, where a collective call of MPI-IO may wait for ever.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import math
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..comm.group import Group
from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..comm.node import machine
from ..comm.progress import call_blocking
from ..engine.make import plan
from ..errors import FileError
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .contents import FileArray, FilePart, Region, check_ordinary, is_npy, npy_header
from .progress_bar import Advance, progress_bar

T = TypeVar("T")
SLAB_BYTES = 16 * 2**20  # of each rank that reads or writes
NUMBERS, CONTENTS = ("device", "inode"), ("size", "modified")  # of a file; hosts that share one number it as they like


# -- what all ranks of a call do together


def on_all(group: Group, action: Callable[[], T]) -> T:
    """Do something on every rank; if it fails on one, raise on all. Collective."""
    result, error = outcome_of(action)
    group.combine(error=error)
    return result  # type: ignore[return-value]


def on_first(group: Group, action: Callable[[], T]) -> T:
    """Do something on the first rank, and return the result, or raise the error, on all. Collective."""
    outcome = outcome_of(action) if group.rank == 0 else None
    result, error = group.combine(outcome, lambda outcomes: outcomes[0])
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def outcome_of(action: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """What an action returns, and what it raises, for all to be told: an error of the system or of MPI as a FileError."""
    try:
        return action(), None
    except Exception as error:
        if isinstance(error, FileError) or not isinstance(error, OSError | MPI.Exception):
            return None, error
        own = FileError(f"MPI: {error}" if isinstance(error, MPI.Exception) else str(error))
        own.__cause__ = error
        return None, own


def _identity(path: str, mode: str) -> dict[str, Any]:
    """What tells a file, which is opened, as a network file system may know only then what it is by now."""
    check_ordinary(path)
    with open(path, mode) as file:
        status = os.fstat(file.fileno())
    figures = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return {"host": machine(), **dict(zip((*NUMBERS, *CONTENTS), figures, strict=True))}


@contextlib.contextmanager
def one_file(
    group: Group, path: str, ranks: int, writes: bool = False, elsewhere: tuple[str, ...] = CONTENTS
) -> Iterator[None]:
    """See to it that the name is that of the same file on the first `ranks`, before and after what is done with it. Collective.

    A FileError on all ranks where it is not, or one of them cannot open it. What of it is `elsewhere`, on other hosts, must be
    alike before, and where nobody writes also afterwards.
    """
    mode, here = ("r+b", NUMBERS) if writes else ("rb", (*NUMBERS, *CONTENTS))
    first = on_first(group, lambda: _identity(path, mode))

    def difference(elsewhere: tuple[str, ...]) -> str | None:
        own, error = outcome_of(lambda: _identity(path, mode))
        if own is None:
            return f"cannot be opened as on the first rank ({error})"
        for name in here if own["host"] == first["host"] else elsewhere:
            if own[name] != first[name]:
                return f"is not the file that the first rank has seen: {name} {own[name]}, not {first[name]}"
        return None

    def compare(elsewhere: tuple[str, ...]) -> None:
        problems = group.combine(difference(elsewhere) if group.rank < ranks else None)
        for name, text in zip(group.names, problems, strict=True):
            if text is not None:
                raise FileError(
                    f"{path} on {name} {text}: all ranks must see the same file, by an absolute path where their working "
                    "directories differ, and nobody may replace or change it meanwhile"
                )

    compare(elsewhere)
    yield
    compare(() if writes else elsewhere)


# -- slabs


class Slab(NamedTuple):
    """A slab: what it is of the array, and its layout over the ranks that read or write it.

    Attributes
    ----------
    part : tuple of slice
        Of the array.
    layout : Descriptor
        One contiguous part for each of these ranks, in the order in which they are in the file.
    """

    part: Region
    layout: Descriptor

    @property
    def own(self) -> Region:
        """This rank's part, in the whole array; empty slices where it has none."""
        coords = self.layout.coords
        if coords is None:
            return tuple(slice(0, 0) for _ in self.part)
        starts = [whole.start + p * block for whole, block, p in zip(self.part, self.layout.block, coords, strict=True)]
        return tuple(slice(low, low + n) for low, n in zip(starts, self.layout.local_shape, strict=True))


def slabs(desc: Descriptor, item: int, order: str, ranks: int) -> Iterator[Slab]:
    """The slabs of an array, in the order in which they are in the file. Not collective; the same on all ranks.

    A slab has at most `ranks` times SLAB_BYTES, or one element for each rank. No part is as large as twice the slab's
    bytes by `ranks`, unless it is one element.

    Parameters
    ----------
    desc : Descriptor
        Layout of the array.
    item : int
        Bytes of an element.
    order : {"C", "F"}
        Which index runs fastest in the file.
    ranks : int
        How many ranks read or write: the first ones of the communicator.
    """
    grids: dict[tuple[int, ...], ProcessGrid] = {}
    for part in _boxes(desc.shape, max(ranks, SLAB_BYTES * ranks // item), order, ranks):
        shape = [extent.stop - extent.start for extent in part]
        processes = _dealt(shape, ranks) if order == "C" else _dealt(shape[::-1], ranks)[::-1]
        if processes not in grids:
            grids[processes] = ProcessGrid(processes, desc.grid.comm, order="row" if order == "C" else "column")
        yield Slab(part, Descriptor(shape, None, grids[processes]))


def _boxes(shape: Sequence[int], limit: int, order: str, ranks: int) -> Iterator[Region]:
    """Boxes of at most `limit` elements that are contiguous in the file, one after another."""
    if 0 in shape:
        return
    from_slowest = list(range(len(shape)))[:: 1 if order == "C" else -1]
    below, place = 1, len(shape) - 1
    while place and below * shape[from_slowest[place]] <= limit:
        below *= shape[from_slowest[place]]
        place -= 1
    cut, outer = from_slowest[place], from_slowest[:place]
    length = _length(shape[cut], limit // below, ranks)
    for fixed in itertools.product(*(range(shape[k]) for k in outer)):
        chosen = {k: slice(i, i + 1) for k, i in zip(outer, fixed, strict=True)}
        for low in range(0, shape[cut], length):
            chosen[cut] = slice(low, min(low + length, shape[cut]))
            yield tuple(chosen.get(k, slice(0, n)) for k, n in enumerate(shape))


def _length(n: int, most: int, ranks: int) -> int:
    """How many indices of the dimension that is cut a slab is to have: `most` or fewer, so that hardly a rank is idle.

    Either every rank gets as many of them as the others, or as many ranks share each.
    """
    if n <= most:
        return n
    return most - most % ranks if most >= ranks else ranks // -(-ranks // most)


def _dealt(shape: Sequence[int], ranks: int) -> tuple[int, ...]:
    """Processes along each dimension, the slowest first, so that each has one contiguous part.

    The slowest dimension is dealt out. While there are fewer indices than processes for them, each index has several,
    among which the next dimension is dealt out.
    """
    processes = []
    for n in shape:
        block = -(-n // ranks)
        processes.append(-(-n // block))
        ranks = ranks // n if block == 1 else 1
    return tuple(processes)


# -- files whose arrays move in slabs


class ArrayFile(ABC):
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
        How many ranks open it: the first ones.
    """

    def __init__(self, group: MPIGroup, path: str, name: str, callers: int) -> None:
        self.group, self.path, self.name, self.callers = group, path, name, callers

    @abstractmethod
    def locate(self, part: FilePart, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        """What of the file is meant, checked against the layout; elements of a raw one are of `dtype`. Collective."""

    @abstractmethod
    def create(self, target: str, array: FileArray) -> FileArray:
        """Make the file for an array, which is to replace `target`; where in it the elements go. Collective."""

    @abstractmethod
    def opened(self, mode: str) -> AbstractContextManager[Any]:
        """The file, opened to read ("r") or to write in it ("r+"); in the end it is closed, and on the disk. Collective."""

    @abstractmethod
    def read_part(self, file: Any, array: FileArray, slab: Slab, dtype: np.dtype[Any]) -> NDArray[Any]:
        """This rank's part of a slab, as an array of `dtype`. Not collective."""

    @abstractmethod
    def write_part(self, file: Any, array: FileArray, slab: Slab, part: NDArray[Any]) -> None:
        """Write this rank's part of a slab, which is contiguous in the array's order. Not collective."""

    def read(
        self, array: FileArray, desc: Descriptor, out: NDArray[Any] | None, dtype: np.dtype[Any], progress: bool = False
    ) -> None:
        """Read an array into `out`, this rank's local array, of `dtype`. The first rank reports the progress. Collective."""

        def read_part(slab: Slab) -> NDArray[Any] | None:
            return None if slab.layout.coords is None else self.read_part(file, array, slab, dtype)

        with self.opened("r") as file, self._progress("load", array, desc, progress) as advance:
            for slab in slabs(desc, array.dtype.itemsize, array.order, self.callers):
                part = on_all(self.group, functools.partial(read_part, slab))
                # On the whole communicator, here and below: not every slab has a part for every rank.
                plan(slab.layout, desc[slab.part], dtype=dtype, comm=desc.grid.comm)(part, out)
                advance(math.prod(slab.layout.shape) * array.dtype.itemsize)

    def write(self, array: FileArray, desc: Descriptor, local: NDArray[Any] | None, progress: bool = False) -> None:
        """Write this rank's local array into the file, which is there, and see it on the disk. Collective.

        The first rank reports the progress.
        """

        def write_part(slab: Slab, part: NDArray[Any]) -> None:
            if part.size:
                self.write_part(file, array, slab, part)

        with self.opened("r+") as file, self._progress("save", array, desc, progress) as advance:
            for slab in slabs(desc, array.dtype.itemsize, array.order, self.callers):
                part = slab.layout.empty(array.dtype, order=array.order)
                plan(desc[slab.part], slab.layout, dtype=array.dtype, comm=desc.grid.comm)(local, part)
                on_all(self.group, functools.partial(write_part, slab, part))
                advance(math.prod(slab.layout.shape) * array.dtype.itemsize)

    def _progress(self, call: str, array: FileArray, desc: Descriptor, shown: bool) -> AbstractContextManager[Advance]:
        """The progress of a call, on the first rank if it asks for that."""
        total = math.prod(desc.shape) * array.dtype.itemsize
        return progress_bar(f"{call} {self.name}", total, bool(shown) and self.group.rank == 0)


# -- .npy and raw files, by MPI-IO

# Of a window, what lies between two runs is read as well where that takes no longer than another call.
GAP_BYTES = 2**14
SPAN_BYTES = 4 * 2**20
LONGEST_NAME = 244  # bytes: Open MPI 4.1 adds a suffix in a buffer of 256
DESCRIPTORS = 8  # of files, free on a rank before MPI opens one; Open MPI 4.1 needs two at a time
NOT_OFFERED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class MPIFile(ArrayFile):
    """A .npy or raw file, which each rank opens on COMM_SELF, so that one that cannot may say so."""

    def __init__(self, group: MPIGroup, path: str, name: str) -> None:
        super().__init__(group, path, name, group.size)

    def locate(self, part: FilePart, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        return on_first(self.group, lambda: part.locate(self.path, desc, dtype))

    def create(self, target: str, array: FileArray) -> FileArray:
        """Make the file with its header and all its space, so that a full disk is known before ranks write. Collective."""
        return on_first(self.group, lambda: self._begin(target, array))

    def _begin(self, target: str, array: FileArray) -> FileArray:
        header = npy_header(array.dtype, array.shape, array.order) if is_npy(self.name) else b""
        placed = replace(array, offset=len(header))
        with open(self.path, "xb", opener=_opener(target)) as file:
            file.write(header)
            file.flush()
            if placed.end > placed.offset:
                _take_room(file, placed.end, self.name)
        return placed

    @contextlib.contextmanager
    def opened(self, mode: str) -> Iterator[MPI.File]:
        on_all(self.group, lambda: check_openable(self.path))
        access = MPI.MODE_RDONLY if mode == "r" else MPI.MODE_WRONLY
        file = on_all(self.group, lambda: call_blocking(lambda: MPI.File.Open(MPI.COMM_SELF, self.path, access)))
        file.Set_errhandler(MPI.ERRORS_RETURN)
        with contextlib.ExitStack() as undo:
            undo.callback(call_blocking, file.Close)
            yield file
            if mode != "r":
                on_all(self.group, lambda: call_blocking(file.Sync))
            undo.pop_all()
        on_all(self.group, lambda: call_blocking(file.Close))

    def read_part(self, file: MPI.File, array: FileArray, slab: Slab, dtype: np.dtype[Any]) -> NDArray[Any]:
        part, item = slab.layout.empty(array.dtype, order=array.order), array.dtype.itemsize
        raw = _from_slowest(part, array)
        for span in array.spans(slab.own, GAP_BYTES // item, SPAN_BYTES // item):
            box = raw[span.part]
            among = box if span.length == box.size else np.empty(span.length, raw.dtype)
            status = MPI.Status()
            file.Read_at(span.start, [_bytes_of(among), among.nbytes, MPI.BYTE], status)
            count = status.Get_count(MPI.BYTE)
            if count != among.nbytes:
                raise FileError(f"{self.name} ended while it was read: {count} bytes of {among.nbytes} came")
            if among is not box:
                box[...] = np.ndarray(box.shape, raw.dtype, among, strides=span.strides)
        return part.astype(dtype, order="K", copy=False)

    def write_part(self, file: MPI.File, array: FileArray, slab: Slab, part: NDArray[Any]) -> None:
        raw = _from_slowest(part, array)
        for span in array.spans(slab.own, 0, part.size):
            box, status = raw[span.part], MPI.Status()
            file.Write_at(span.start, [_bytes_of(box), box.nbytes, MPI.BYTE], status)
            count = status.Get_count(MPI.BYTE)
            if count != box.nbytes:
                raise FileError(f"only {count} bytes of {box.nbytes} could be written: is the disk full?")


def _from_slowest(part: NDArray[Any], array: FileArray) -> NDArray[Any]:
    """The same elements with dimensions from the slowest to the fastest, as bytes: a copy of records would leave gaps out."""
    raw = part.view((np.void, array.dtype.itemsize))
    return raw if array.order == "C" else raw.T


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The memory of an array that is contiguous in C order."""
    return array.reshape(-1).view(np.uint8)


def check_openable(path: str) -> None:
    """Refuse what MPI would end the program for, or wait for without end on the other ranks. Not collective."""
    length = len(os.fsencode(path))
    if length > LONGEST_NAME and MPI.get_vendor()[0] == "Open MPI":
        raise FileError(
            f"{path}: the name has {length} bytes, and Open MPI ends the program in MPI_File_open for one of more than "
            f"{LONGEST_NAME}: use a shorter one, such as one from the working directory on (a file that is written has more)"
        )
    with contextlib.ExitStack() as files:
        try:
            for _ in range(DESCRIPTORS):
                files.callback(os.close, os.open(os.sep, os.O_RDONLY))
        except OSError as error:
            raise FileError(
                f"{path}: MPI may need {DESCRIPTORS} file descriptors to open it, and this process has fewer left ({error}): "
                "close files, or allow more by ulimit -n"
            ) from error


def _opener(target: str) -> Callable[[str, int], int]:
    """Makes a file that nobody may read who may not read the one that it is to replace. Not collective."""
    mode = stat.S_IMODE(os.stat(target).st_mode) & 0o666 if os.path.exists(target) else 0o666
    return lambda path, flags: os.open(path, flags, mode | stat.S_IWUSR | stat.S_IRUSR)


def _take_room(file: BinaryIO, nbytes: int, name: str) -> None:
    """Make the file that long, on a system that can also see to it that the disk has room."""
    if not hasattr(os, "posix_fallocate"):
        file.truncate(nbytes)
        return
    try:
        os.posix_fallocate(file.fileno(), 0, nbytes)
    except OSError as error:
        if error.errno not in NOT_OFFERED:
            raise FileError(f"{name}: there is no room for {nbytes} bytes: {error}") from error
        file.truncate(nbytes)
