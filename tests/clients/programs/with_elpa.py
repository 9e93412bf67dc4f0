"""ELPA solves eigenproblems whose matrices arrive by redistribute; its vectors leave by redistribute."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
API_VERSION = 20200417
NAMES = {"d": "double", "D": "double_complex"}  # Debian's is compiled without single precision
SOLVERS = {"one stage": 1, "two stages": 2}
ELPA = ctypes.CDLL(ctypes.util.find_library("elpa"))
ELPA.elpa_allocate.restype = ctypes.c_void_p


def call(name: str, *arguments: Any) -> None:
    """A function of ELPA's C interface whose last argument is the error."""
    error = ctypes.c_int()
    getattr(ELPA, name)(*arguments, ctypes.byref(error))
    assert error.value == 0, f"{name}{arguments}: error {error.value} of ELPA"


def solved(desc: psr.Descriptor, a: NDArray[Any], solver: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """All eigenvalues and this rank's part of the vectors. `a` is overwritten. Collective over the descriptor's grid."""
    n = desc.shape[0]
    inside = WORLD.Create_group(WORLD.group.Incl(desc.grid.ranks.ravel().tolist()))
    error = ctypes.c_int()
    handle = ctypes.c_void_p(ELPA.elpa_allocate(ctypes.byref(error)))
    assert error.value == 0, error
    values, vectors = np.empty(n, a.real.dtype), desc.empty(a.dtype)
    settings = {
        "na": n,
        "nev": n,
        "nblk": desc.block[0],
        "local_nrows": desc.local_shape[0],
        "local_ncols": desc.local_shape[1],
        "mpi_comm_parent": inside.py2f(),
        "process_row": desc.coords[0],
        "process_col": desc.coords[1],
    }
    for name, value in settings.items():
        call("elpa_set_integer", handle, name.encode(), int(value))
    assert ELPA.elpa_setup(handle) == 0
    call("elpa_set_integer", handle, b"solver", solver)
    parts = [ctypes.c_void_p(array.ctypes.data) for array in (a, values, vectors)]
    call(f"elpa_eigenvectors_{NAMES[a.dtype.char]}", handle, *parts)
    call("elpa_deallocate", handle)
    inside.Free()
    return values, vectors


def matrix(n: int, dtype: str) -> NDArray[Any]:
    """A Hermitian matrix, the same on all ranks."""
    rng = np.random.default_rng(n)
    drawn = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if dtype == "D" else 0)
    return (drawn + drawn.conj().T).astype(dtype)


def check(n: int, theirs: psr.Descriptor, dtype: str, solver: int) -> None:
    """Slabs of rows to ELPA's layout, solved, and the vectors in slabs of columns: against NumPy."""
    whole = matrix(n, dtype)
    rows = psr.Descriptor((n, n), ("balanced", None), psr.ProcessGrid((SIZE, 1), WORLD))
    columns = psr.Descriptor((n, n), (None, "balanced"), psr.ProcessGrid((1, SIZE), WORLD))
    a = psr.redistribute(rows, theirs, dtype=dtype)(rows.from_function(lambda i, j: whole[i, j], dtype))
    values = vectors = None
    if theirs.coords is not None:
        values, vectors = solved(theirs, a, solver)
    states = psr.redistribute(theirs, columns, dtype=dtype)(vectors)
    values = WORLD.bcast(values, root=int(theirs.grid.ranks.flat[0]))
    expected, basis = np.linalg.eigh(whole)
    close = 1e-13 * np.abs(expected).max()
    assert np.allclose(values, expected, rtol=0, atol=close), (n, theirs, dtype)
    mine = columns.global_indices(1)
    assert np.allclose(whole @ states, states * values[mine], rtol=0, atol=close), (n, theirs, dtype)
    # Eigenvalues are apart, so that a vector is NumPy's but for a factor of modulus 1.
    assert np.allclose(np.abs((basis[:, mine].conj() * states).sum(0)), 1, rtol=0, atol=1e-10)


def main() -> None:
    assert ELPA.elpa_init(API_VERSION) == 0
    rows = 2 if SIZE > 1 else 1
    square = psr.ProcessGrid((rows, SIZE // rows), WORLD)  # of 5 ranks, 4
    backwards = psr.ProcessGrid(
        (SIZE // rows, rows), WORLD, ranks=np.arange(SIZE)[::-1][: square.size].reshape(-1, rows)
    )
    for n, block in ((60, 16), (37, 5), (33, 1)):
        for grid in (square, backwards):
            for dtype in NAMES:
                check(n, psr.Descriptor((n, n), block, grid), dtype, SOLVERS["one stage"])
    check(70, psr.Descriptor((70, 70), 8, square), "d", SOLVERS["two stages"])
    check(70, psr.Descriptor((70, 70), 8, backwards), "D", SOLVERS["two stages"])
    call("elpa_uninit")
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
