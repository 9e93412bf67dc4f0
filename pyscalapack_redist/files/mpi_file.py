"""A file as MPI-IO sees it: opened by each rank for itself, brought to the disk, and closed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..comm.progress import blocking
from ..errors import FileError
from .agreed import all_must

__all__ = ["bytes_of", "check_openable", "opened"]

LONGEST_NAME = 244  # bytes: Open MPI 4.1 adds a suffix in a buffer of 256
DESCRIPTORS = 8  # of files, free on a rank before MPI opens one; Open MPI 4.1 needs two at a time


@contextlib.contextmanager
def opened(everyone: MPIGroup, path: str, mode: int) -> Iterator[MPI.File]:
    """The file, closed in the end; one that was written is on the disk then, or every rank raises. Collective.

    By each rank on COMM_SELF, so that one which cannot open it can say so.
    """
    all_must(everyone, lambda: check_openable(path))
    file = all_must(everyone, lambda: _open(path, mode))
    try:
        yield file
        if mode == MPI.MODE_WRONLY:
            all_must(everyone, lambda: blocking(file.Sync))
    except BaseException:
        blocking(file.Close)
        raise
    if mode == MPI.MODE_WRONLY:
        all_must(everyone, lambda: blocking(file.Close))
    else:
        blocking(file.Close)


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


def _open(path: str, mode: int) -> MPI.File:
    """The file, whose errors are exceptions. Not collective."""
    file = blocking(lambda: MPI.File.Open(MPI.COMM_SELF, path, mode))
    file.Set_errhandler(MPI.ERRORS_RETURN)
    return file


def bytes_of(array: NDArray[Any], order: str) -> NDArray[np.uint8]:
    """The memory of an array that is contiguous in this order."""
    flat = array.reshape(-1, order=order)  # type: ignore[call-overload]
    made: NDArray[np.uint8] = flat.view(np.uint8)
    return made
