"""ELPA, where it is found at run time: eigenpairs of symmetric and Hermitian matrices in double precision.

It must use the MPI that mpi4py runs on. It takes whole matrices, so the triangle that is not read is filled from the other one.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import tracing
from ..blacs.library import open_beside, places_of
from ..comm.mpi import MPI
from ..distributed_array import DistributedArray
from ..engine.spec import communicator_of
from ..errors import LibraryError
from ..layout.descriptor import Descriptor
from ..scalapack import Eigenpairs
from ..scalapack.calls import ConvergenceError, Entry, agree_to_enter, at_work, require_finite
from ..scalapack.matrix_operands import is_finite
from .cache import cache_of
from .call import RoutineCall

ENVIRONMENT = "PYSCALAPACK_REDIST_ELPA"
INTERFACE = 20200417  # the oldest version of ELPA's interface that has what is called here
ONE_STAGE = 1
LEAST_ORDER = 1024  # from which on ELPA takes less time than p?syevd, on 2 ranks; at order 512 they take the same
NAMES = {np.dtype(np.float64): "double", np.dtype(np.complex128): "double_complex"}
REMEDY = (
    f"install the Debian package libelpa19 or conda's elpa, or set {ENVIRONMENT} to the file of an ELPA for this MPI"
)


class Elpa(NamedTuple):
    """ELPA, loaded and initialised."""

    functions: ctypes.CDLL
    path: str  # with the version, as in libelpa.so.19.0.0

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function, whose last argument is an error."""
        error = ctypes.c_int()
        getattr(self.functions, name)(*arguments, ctypes.byref(error))
        if error.value:
            raise ConvergenceError(f"{name} of ELPA: error {error.value}")

    def __str__(self) -> str:
        return f"ELPA, {self.path}"


# -- on this rank


def load() -> Elpa:
    """Find and load ELPA. Not collective.

    The environment variable PYSCALAPACK_REDIST_ELPA names its file. Otherwise it is searched where ScaLAPACK is.

    Raises
    ------
    LibraryError
        There is none, or it is for another MPI; the text lists each attempt.
    """
    library = _load()
    if isinstance(library, str):
        raise LibraryError(library)
    return library


@functools.cache
def _load() -> Elpa | str:
    """ELPA, or why there is none."""
    path = os.environ.get(ENVIRONMENT)
    files = [path] if path else [file for place in places_of("libelpa.so*") for file in sorted(glob.glob(place))]
    failures = []
    for file in dict.fromkeys(map(os.path.realpath, files)):
        try:
            return _open(file)
        except (LibraryError, AttributeError) as error:
            failures.append(f"  {file}: {error}")
    if not failures:
        return f"no ELPA found: {REMEDY}"
    return "\n".join(["no ELPA can be used. Tried:", *failures, f"Remedy: {REMEDY}"])


def _open(path: str) -> Elpa:
    functions = open_beside(path)
    functions.elpa_allocate.restype = ctypes.c_void_p
    if functions.elpa_init(INTERFACE) != 0:
        raise LibraryError(f"its interface is older than {INTERFACE}")
    return Elpa(functions, path)


# -- on all ranks


def find_obstacle(call: RoutineCall) -> str:
    """Why the ranks cannot use ELPA; "" if they can. Collective, once for each communicator."""

    def described() -> tuple[str, str]:
        try:
            library = load()
        except LibraryError as error:
            return "", str(error)
        return os.path.basename(library.path), ""

    def compared(replies: list[tuple[str, str]]) -> str:
        for rank, (_, error) in enumerate(replies):
            if error:
                return f"rank {rank}: {error}"
        names = [name for name, _ in replies]
        rank = next((rank for rank, name in enumerate(names) if name != names[0]), 0)
        return f"rank 0 has {names[0]}, and rank {rank} has {names[rank]}: they must be the same" if rank else ""

    texts = cache_of(call.group).texts
    if "elpa" not in texts:
        texts["elpa"] = call.run(described, compared)
    return texts["elpa"]


def eigenpairs(matrix: DistributedArray, count: int) -> Eigenpairs:
    """All eigenvalues, and the first `count` eigenvectors, of a whole matrix. Collective inside `Problem.run`.

    The matrix is overwritten. The array of the vectors is as large as the matrix.
    """
    desc, local = matrix.desc, matrix.local
    if desc.coords is None or local is None:
        return Eigenpairs(None, None)
    require_finite("ELPA", is_finite(desc, local))
    library, (n, _), (rows, columns) = load(), desc.shape, desc.local_shape
    place = max(1, rows), max(1, columns)  # of the local arrays; ELPA takes no 0
    values, vectors = np.zeros(n, local.real.dtype), np.zeros(place, local.dtype, "F")
    whole = local if local.shape == place else np.zeros(place, local.dtype, "F")
    name = f"elpa_eigenvectors_{NAMES[local.dtype]}"
    agree_to_enter(lambda: Entry(name, (n, count), None))
    comm = communicator_of(desc)
    inside = comm.Create_group(comm.group.Incl(desc.grid.ranks.ravel().tolist()))
    try:
        with tracing.phase(name, desc, desc), at_work(desc):
            _solve(library, name, desc, count, inside, [whole, values, vectors])
    finally:
        inside.Free()
    return Eigenpairs(values, vectors[:rows, :columns])


def _solve(
    library: Elpa, name: str, desc: Descriptor, count: int, comm: MPI.Intracomm, arrays: list[NDArray[Any]]
) -> None:
    handle = ctypes.c_void_p(library.functions.elpa_allocate(ctypes.byref(ctypes.c_int())))
    rows, columns = arrays[2].shape
    row, column = desc.coords or (0, 0)
    settings = {"na": desc.shape[0], "nev": count, "nblk": desc.block[0], "mpi_comm_parent": comm.py2f()}
    settings |= {"process_row": row, "process_col": column, "local_nrows": rows, "local_ncols": columns}
    try:
        for setting, value in settings.items():
            library.call("elpa_set_integer", handle, setting.encode(), int(value))
        if library.functions.elpa_setup(handle):
            raise ConvergenceError(f"elpa_setup of ELPA refused {settings}")
        library.call("elpa_set_integer", handle, b"solver", ONE_STAGE)
        library.call(name, handle, *(ctypes.c_void_p(array.ctypes.data) for array in arrays))
    finally:
        library.call("elpa_deallocate", handle)
