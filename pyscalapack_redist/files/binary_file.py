"""The .npy and raw files: each rank reads and writes bytes of its own by the system's calls.

A hole of Linux's NFS: a client may write a whole page of its cache where a program has written a part of it, and so put back
what another host has written there meanwhile. It does not while bytes of the file are locked. So ranks of several hosts lock
what they write on NFS, but not the file: they write at the same time.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..comm.agreement import agreement
from ..comm.groups import MPIGroup
from ..comm.node import machine
from ..errors import FileError
from ..layout.descriptor import Descriptor
from .contents import FileArray, FilePart, Region, is_npy, named_errors, npy_header
from .slabs import STEP, ArrayFile, Slab, on_all, on_first

# Other elements between two runs of a window are read as well if there are at most so many bytes: as fast as another call.
GAP_BYTES = 2**14
SPAN_BYTES = 4 * 2**20
CALL_BYTES = 2**30  # most bytes of a call of the system; Linux moves 4 KiB less than 2 GiB
NOT_OFFERED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
MOUNTS = "/proc/self/mountinfo"


class OpenFile(NamedTuple):
    """A file on the rank that has opened it.

    Attributes
    ----------
    number : int
        The file descriptor.
    locked : bool
        Whether bytes are locked while they are written.
    """

    number: int
    locked: bool = False


class BinaryFile(ArrayFile):
    """A .npy or raw file. Each rank opens it."""

    def __init__(self, group: MPIGroup, path: str, name: str) -> None:
        super().__init__(group, path, name, group.size)

    def locate(self, part: FilePart, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        return on_first(self.group, lambda: part.locate(self.path, desc, dtype))

    def create(self, target: str, array: FileArray) -> FileArray:
        """Make the file with its header, and allocate all its space, so that a full disk is detected first. Collective."""
        return on_first(self.group, lambda: self._begin(target, array))

    def _begin(self, target: str, array: FileArray) -> FileArray:
        header = npy_header(array.dtype, array.shape, array.order) if is_npy(self.name) else b""
        placed = replace(array, offset=len(header))
        with open(self.path, "xb", opener=_opener(target)) as file:
            file.write(header)
            file.flush()
            if placed.end > placed.offset:
                allocate(file, placed.end, self.name)
        return placed

    @contextlib.contextmanager
    def opened(self, mode: str) -> Iterator[OpenFile]:
        access = os.O_RDONLY if mode == "r" else os.O_WRONLY
        with contextlib.ExitStack() as undo:

            def open_file() -> OpenFile:
                number = os.open(self.path, access | os.O_CLOEXEC)
                undo.callback(os.close, number)  # also if another rank cannot open it
                return OpenFile(number)

            file = on_all(self.group, open_file)
            if mode == "r":
                yield file
            else:
                with agreement(self.group, STEP, combine=list) as agreed:
                    agreed.give((machine(), is_on_nfs(file.number)))
                places = agreed.result
                yield file._replace(locked=len({host for host, _ in places}) > 1 and places[self.group.rank][1])
                on_all(self.group, lambda: os.fsync(file.number))
            undo.pop_all()
        on_all(self.group, lambda: os.close(file.number))

    def read_part(self, file: OpenFile, array: FileArray, slab: Slab, dtype: np.dtype[Any]) -> NDArray[Any]:
        part = slab.layout.empty(array.dtype, order=array.order)
        with named_errors(self.name):
            read_region(file, array, slab.own, bytes_from_slowest(part, array))
        return part.astype(dtype, order="K", copy=False)

    def write_part(self, file: OpenFile, array: FileArray, slab: Slab, part: NDArray[Any]) -> None:
        with named_errors(self.name):
            write_region(file, array, slab.own, bytes_from_slowest(part, array))


_unlocked = contextlib.nullcontext()


def read_region(file: OpenFile, array: FileArray, region: Region, raw: NDArray[Any]) -> None:
    """Read a region of an array into `raw`, its elements as bytes, with dimensions from the slowest to the fastest."""
    item = array.dtype.itemsize
    for span in array.spans(region, GAP_BYTES // item, SPAN_BYTES // item):
        box = raw[span.part]
        is_run = span.length == box.size and box.flags.c_contiguous
        span_elements = box if is_run else np.empty(span.length, raw.dtype)
        read_bytes(file.number, _bytes_of(span_elements), span.start)
        if span_elements is not box:
            box[...] = np.ndarray(box.shape, raw.dtype, span_elements, strides=span.strides)


def write_region(file: OpenFile, array: FileArray, region: Region, raw: NDArray[Any]) -> None:
    """Write a region of an array from `raw`, as for `read_region`."""
    with locked_bytes(file.number, array, region) if file.locked else _unlocked:
        for span in array.spans(region, 0, raw.size):
            write_bytes(file.number, _bytes_of(np.ascontiguousarray(raw[span.part])), span.start)


def read_bytes(file: int, target: memoryview, start: int) -> None:
    """Fill `target` with the bytes of a file from `start` on; an OSError if the file ends before."""
    done = 0
    while done < target.nbytes:
        count = os.preadv(file, [target[done : done + CALL_BYTES]], start + done)
        if not count:
            raise OSError(f"it was truncated while it was read: {done} bytes of {target.nbytes} from byte {start} on")
        done += count


def write_bytes(file: int, source: memoryview, start: int) -> None:
    """Write all bytes of `source` into a file from `start` on."""
    done = 0
    while done < source.nbytes:
        done += os.pwrite(file, source[done : done + CALL_BYTES], start + done)


@contextlib.contextmanager
def locked_bytes(file: int, array: FileArray, region: Region) -> Iterator[None]:
    """Lock the bytes of a file from the first element of a region to its last one.

    Regions of several ranks may overlap in the file. Then they wait for one another, while each of them writes by itself.
    """
    last = tuple(slice(part.stop - 1, part.stop) for part in region)
    start, end = array.start_of(region), array.start_of(last) + array.dtype.itemsize
    try:
        fcntl.lockf(file, fcntl.LOCK_EX, end - start, start)
    except OSError as error:
        raise OSError(
            f"bytes cannot be locked on this NFS ({error}), and without locks hosts overwrite what others have written: have "
            "it mounted with locks, or use another directory, or ranks of one host"
        ) from error
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN, end - start, start)


def is_on_nfs(file: int) -> bool:
    """Whether a file is on NFS; False where the system does not tell."""
    device = os.fstat(file).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(MOUNTS, encoding="utf-8", errors="replace") as mounts:
            types = [line.partition(" - ")[2].split()[0] for line in mounts if line.split()[2] == number]
    except (OSError, IndexError):
        return False
    return any(name.startswith("nfs") for name in types)


def bytes_from_slowest(part: NDArray[Any], array: FileArray) -> NDArray[Any]:
    """The elements as bytes, with dimensions from the slowest to the fastest; a copy of records would drop padding."""
    raw = part.view((np.void, array.dtype.itemsize))
    return raw if array.order == "C" else raw.T


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """The memory of an array that is contiguous in C order."""
    return memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def _opener(target: str) -> Callable[[str, int], int]:
    """An opener for `open` that makes a file with the permissions of the file that it will replace."""
    mode = stat.S_IMODE(os.stat(target).st_mode) & 0o666 if os.path.exists(target) else 0o666
    return lambda path, flags: os.open(path, flags, mode | stat.S_IWUSR | stat.S_IRUSR)


def allocate(file: BinaryIO, nbytes: int, name: str) -> None:
    """Give the file its length, and allocate the space if the system can; a FileError if there is not enough."""
    if not hasattr(os, "posix_fallocate"):
        file.truncate(nbytes)
        return
    try:
        os.posix_fallocate(file.fileno(), 0, nbytes)
    except OSError as error:
        if error.errno not in NOT_OFFERED:
            raise FileError(f"{name}: no space for {nbytes} bytes: {error}") from error
        file.truncate(nbytes)
