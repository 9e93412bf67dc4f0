"""What this installation consists of, what will be used and why, and what is missing and how to get it."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from .. import __version__, blacs
from ..errors import LibraryError

__all__ = ["EXTRA", "describe", "missing_extras", "mpi_path", "mpi_version"]

EXTRA = "pip install 'pyscalapack_redist[cli]'"
SHARED_BYTES = 4096
MPI_FILE = re.compile(r"/lib(mpi|mpich|mpi_abi)\.so[.\d]*$")


def describe() -> Iterator[tuple[str, list[str]]]:
    """Headings, each with lines of text. Not collective; starts MPI where there is one."""
    python = f"Python {platform.python_version()}, {sys.executable}"
    yield "versions", [f"pyscalapack_redist {__version__}", python, f"numpy {np.__version__}"]
    # before MPI, since it starts a process
    memory = [_memfd(), _posix_memory()]
    mpi = list(_mpi())
    yield "MPI", mpi
    yield "ScaLAPACK", _scalapack()
    yield "memory shared by the ranks of a node", memory
    yield "cores", [_cores()]
    yield "command line", [_extras()]


def mpi_version() -> str:
    """The MPI library's name and version, in one line. Not collective; starts MPI."""
    from mpi4py import MPI

    text = " ".join(MPI.Get_library_version().replace("\0", "").split())
    return re.split(r", | MPICH Release date| ABI", text)[0].replace("Version: ", "")


def mpi_path() -> str | None:
    """The file of the MPI library that this process runs on. Not collective; starts MPI."""
    from mpi4py import MPI  # noqa: F401

    try:
        with open("/proc/self/maps") as maps:
            files = [line.split(maxsplit=5)[-1].strip() for line in maps]
    except OSError:
        return None
    return next(filter(MPI_FILE.search, files), None)


def missing_extras(names: tuple[str, ...]) -> list[str]:
    """Those of the given modules, of the extra `cli`, that are not installed. Not collective."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    return missing


def _mpi() -> Iterator[str]:
    yield f"mpi4py {importlib.metadata.version('mpi4py')}"
    try:
        yield mpi_version()
        yield mpi_path() or "its file is not known"
        yield f"mpiexec on PATH: {shutil.which('mpiexec') or 'none'}"
    except (ImportError, RuntimeError) as error:
        yield f"missing: mpi4py cannot start an MPI ({' '.join(str(error).split())})"
        yield "get one: the Debian package openmpi-bin, or `pip install mpich`"


def _scalapack() -> list[str]:
    try:
        return blacs.load().describe()
    except LibraryError as error:
        return [
            "missing: needed for pxgemr2d and for BLACS contexts, not for redistributions",
            *str(error).splitlines(),
        ]


def _memfd() -> str:
    """Whether another process may open an anonymous file of this one, as ranks do with each other's."""
    try:
        number = os.memfd_create("pyscalapack_redist")
    except (OSError, AttributeError) as error:
        return f"memfd: not permitted ({error})"
    try:
        os.ftruncate(number, SHARED_BYTES)
        path = f"/proc/{os.getpid()}/fd/{number}"
        code = f"import os; os.pread(os.open({path!r}, os.O_RDWR), 1, 0)"
        opened = subprocess.run(
            [sys.executable, "-S", "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    finally:
        os.close(number)
    if opened.returncode:
        return f"memfd through /proc/PID/fd: not permitted ({(opened.stderr.strip() or 'killed').splitlines()[-1]})"
    return "memfd through /proc/PID/fd: permitted"


def _posix_memory() -> str:
    """Whether /dev/shm, where POSIX shared memory is, can be written, and how much fits."""
    folder = "/dev/shm"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(SHARED_BYTES))
        size = os.statvfs(folder)
    except OSError as error:
        return f"POSIX shared memory in {folder}: not permitted ({error})"
    whole, free = (blocks * size.f_frsize / 2**20 for blocks in (size.f_blocks, size.f_bavail))
    text = f"POSIX shared memory in {folder}: permitted, {free:,.0f} MiB free of {whole:,.0f}"
    return text + (" (little: start the container with a larger one, --shm-size=1g)" if whole < 128 else "")


def _cores() -> str:
    usable, all_ = len(os.sched_getaffinity(0)), os.cpu_count()
    return f"{all_}" + (f", of which this process is bound to {usable}" if usable != all_ else "")


def _extras() -> str:
    names = ("rich", "matplotlib")
    missing = missing_extras(names)
    if missing:
        return f"missing: {' and '.join(missing)}, for tables and plots; get them: {EXTRA}"
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
