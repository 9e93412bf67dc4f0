"""The installation: versions, the MPI and the ScaLAPACK in use and why, and missing parts with the way to get them."""

from __future__ import annotations

import ctypes
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
from ..blacs import library as kernels
from ..blacs.library import file_of
from ..comm.mpi import mpi_files
from ..comm.node import SHARED_FOLDER, SHARED_REMEDY, usable_cores
from ..errors import LibraryError, RedistributionError
from ..exchanges.exchange import VARIABLE, read_thread_count
from ..linalg import elpa

EXTRA = "pip install rich matplotlib"
SHARED_BYTES = 4096
START_SECONDS = 60
MOST_LINES = 8  # of the output of an MPI that does not start
# variables that mpiexec, srun and other launchers set
LAUNCHERS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_FD", "PALS_RANKID", "SLURM_STEP_ID")


def describe() -> Iterator[tuple[str, list[str]]]:
    """Headings, each with lines of text. Starts MPI under mpiexec; otherwise only a subprocess starts it."""
    python = f"Python {platform.python_version()}, {sys.executable}"
    yield "versions", [f"pyscalapack_redist {__version__}", python, f"numpy {np.__version__}"]
    # before MPI, since it starts a process
    memory = [_memfd(), _posix_memory()]
    mpi = list(_mpi())
    yield "MPI", mpi
    yield "ScaLAPACK", _scalapack()
    yield "ELPA", _elpa()
    yield "memory shared by the ranks of a node", memory
    yield "cores", [_cores(), _threads()]
    yield "command line", [_extras()]
    yield "HDF5 files", [_of_package("h5py", "files of HDF5")]
    yield "Zarr stores", [_of_package("zarr", "stores of Zarr")]


def launched() -> bool:
    """Whether mpiexec or another launcher of MPI programs has started this process."""
    return any(name in os.environ for name in LAUNCHERS)


def mpi_version() -> str:
    """The MPI library's name and version, in one line. Imports mpi4py.MPI."""
    from mpi4py import MPI

    text = " ".join(MPI.Get_library_version().replace("\0", "").split())
    return re.split(r", | MPICH Release date| ABI", text)[0].replace("Version: ", "")


def mpi_path() -> str | None:
    """The file of the MPI library that this process runs on. Imports mpi4py.MPI."""
    from mpi4py import MPI  # noqa: F401

    return next(iter(mpi_files()), None)


def missing_extras(names: tuple[str, ...]) -> list[str]:
    """The modules among `names` that are not installed."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    return missing


def _mpi() -> Iterator[str]:
    yield f"mpi4py {importlib.metadata.version('mpi4py')}"
    alone = not launched()
    if alone and "mpi4py.MPI" not in sys.modules:  # an MPI that cannot start ends the process
        import mpi4py

        mpi4py.rc.initialize = False
    try:
        yield mpi_version()
    except (ImportError, RuntimeError) as error:
        yield f"missing: mpi4py cannot start an MPI ({' '.join(str(error).split())})"
        yield "get one: the Debian package openmpi-bin, or `pip install mpich`"
        return
    yield mpi_path() or "its file is not known"
    yield f"mpiexec on PATH: {shutil.which('mpiexec') or 'none'}"
    if alone:
        yield from _start()


def _start() -> Iterator[str]:
    """The problem of starting MPI outside mpiexec, tried in a subprocess."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from mpi4py import MPI"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=START_SECONDS,
        )
    except subprocess.TimeoutExpired:
        yield f"does not start outside mpiexec: not within {START_SECONDS} s; try it under mpiexec -n 1"
        return
    if not done.returncode:
        return
    yield f"does not start outside mpiexec: it ends the process, with status {done.returncode}, and says:"
    words = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip("- \t")]
    yield from (f"  {line}" for line in words[:MOST_LINES])
    missing = [" or ".join(names) for names in (("orted",), ("ssh", "rsh")) if not any(map(shutil.which, names))]
    if missing and mpi_version().startswith("Open MPI v4"):
        yield f"outside mpiexec Open MPI 4 needs {' and '.join(missing)} on PATH: install it, or add its folder"
    else:
        yield "programs may still run under mpiexec: try mpiexec -n 1 python -m pyscalapack_redist info"


def _scalapack() -> list[str]:
    try:
        library = blacs.load()
    except LibraryError as error:
        return [
            "missing: needed for pxgemr2d and for BLACS contexts, not for redistributions",
            *str(error).splitlines(),
        ]
    return [*library.describe(), f"BLAS: {blas_text(library)}", *filter(None, [kernels.kernel_advice(library)])]


def _elpa() -> list[str]:
    try:
        return [f"{elpa.load()}: linalg.eigh may use it"]
    except LibraryError as error:
        return ["missing: linalg.eigh may use it where it is faster than ScaLAPACK", *str(error).splitlines()]


def blas_text(library: blacs.Library) -> str:
    """The file of the dgemm that ScaLAPACK calls; for OpenBLAS also its version and kernels."""
    places = (file_of(handle, "dgemm_") for handle in (ctypes.CDLL(library.path), ctypes.CDLL(None)))
    file = next(filter(None, places), "not known")
    config = kernels.openblas(library, "openblas_get_config")
    if config is not None:
        return f"{' '.join(config.split()[:2])}, {file}, kernels for {kernels.kernel_name(library)}"
    reference = "/blas/libblas." in file
    return file + (" (the reference: slow; Debian's libopenblas0-pthread takes its place)" if reference else "")


def _memfd() -> str:
    """Whether another process may open a memfd of this one, as ranks of a node do."""
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
    """Whether /dev/shm, of POSIX shared memory, can be written, and its size."""
    folder = SHARED_FOLDER
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(SHARED_BYTES))
        size = os.statvfs(folder)
    except OSError as error:
        return f"POSIX shared memory in {folder}: not permitted ({error}): {SHARED_REMEDY}"
    whole, free = (blocks * size.f_frsize / 2**20 for blocks in (size.f_blocks, size.f_bavail))
    text = f"POSIX shared memory in {folder}: permitted, {free:,.0f} MiB free of {whole:,.0f}"
    return text + (" (little: start the container with a larger one, --shm-size=1g)" if whole < 128 else "")


def _cores() -> str:
    usable, all_ = len(usable_cores()), os.cpu_count()
    return f"{all_}" + (f", of which this process is bound to {usable}" if usable != all_ else "")


def _threads() -> str:
    """The number of threads that share a rank's large moves."""
    try:
        threads, usable = read_thread_count(), len(usable_cores())
    except RedistributionError as error:
        return f"not usable: {error}"
    text = f"threads of a rank's large moves: {threads}"
    if threads == 1:
        return f"{text} (set {VARIABLE} where each rank has several cores to itself)"
    return f"{text} ({VARIABLE})" + (f", but this process may use {usable} of the cores" if usable < threads else "")


def _extras() -> str:
    names = ("rich", "matplotlib")
    missing = missing_extras(names)
    if missing:
        return f"missing: {' and '.join(missing)}, for tables and plots; get them: {EXTRA}"
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def _of_package(name: str, use: str) -> str:
    if missing_extras((name,)):
        return f"missing: {name}, for {use}; get it: pip install {name}"
    return f"{name} {importlib.metadata.version(name)}"
