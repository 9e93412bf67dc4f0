"""ELPA solves eigenproblems in layouts that `check_layout` accepts. With the name of a condition: in one that it refuses."""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import sys
from typing import Any

import numpy as np
import pytest
from launch import SEED
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
API_VERSION = 20200417
NAMES = {"d": "double", "D": "double_complex"}  # Debian's is compiled without single precision
ONE_STAGE, TWO_STAGES = 1, 2
ELPA = ctypes.CDLL(ctypes.util.find_library("elpa"))
ELPA.elpa_allocate.restype = ctypes.c_void_p


def call(name: str, *arguments: Any) -> None:
    """Call a function of ELPA's C interface. The error is its last argument."""
    error = ctypes.c_int()
    getattr(ELPA, name)(*arguments, ctypes.byref(error))
    assert error.value == 0, f"{name}{arguments}: error {error.value} of ELPA"


def solve(desc: psr.Descriptor, a: NDArray[Any], solver: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """All eigenvalues, and this rank's part of the vectors. `a` is overwritten. Collective over the grid."""
    n = desc.shape[0]
    inside = WORLD.Create_group(WORLD.group.Incl(desc.grid.ranks.ravel().tolist()))
    handle = ctypes.c_void_p(ELPA.elpa_allocate(ctypes.byref(ctypes.c_int())))
    rows, columns = (max(1, size) for size in desc.local_shape)  # as LLD: ELPA takes no 0
    values, vectors = np.empty(n, a.real.dtype), np.empty((rows, columns), a.dtype, "F")
    settings = {"na": n, "nev": n, "nblk": desc.block[1], "mpi_comm_parent": inside.py2f()}
    settings |= dict(zip(("process_row", "process_col"), desc.coords or (), strict=True))
    settings |= {"local_nrows": rows, "local_ncols": columns}
    for name, value in settings.items():
        call("elpa_set_integer", handle, name.encode(), int(value))
    assert ELPA.elpa_setup(handle) == 0
    call("elpa_set_integer", handle, b"solver", solver)
    addresses = [ctypes.c_void_p(array.ctypes.data) for array in (a if a.size else vectors.copy(), values, vectors)]
    call(f"elpa_eigenvectors_{NAMES[a.dtype.char]}", handle, *addresses)
    call("elpa_deallocate", handle)
    inside.Free()
    return values, vectors[: desc.local_shape[0], : desc.local_shape[1]]


def compare(desc: psr.Descriptor, dtype: str, solver: int) -> None:
    """Rows of a matrix to a layout, solved there, and whole vectors back, beside NumPy's."""
    n = desc.shape[0]
    rng = np.random.default_rng(SEED + n)
    drawn = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if dtype == "D" else 0)
    whole = (drawn + drawn.conj().T).astype(dtype)
    rows = psr.Descriptor((n, n), ("balanced", None), psr.ProcessGrid((SIZE, 1), WORLD))
    columns = psr.Descriptor((n, n), (None, "balanced"), psr.ProcessGrid((1, SIZE), WORLD))
    a = psr.redistribute(rows, desc, dtype=dtype)(rows.from_function(lambda i, j: whole[i, j], dtype))
    values = vectors = None
    if desc.coords is not None:
        values, vectors = solve(desc, a, solver)
    states = psr.redistribute(desc, columns, dtype=dtype)(vectors)
    values = WORLD.bcast(values, root=int(desc.grid.ranks.flat[0]))
    expected, own = np.linalg.eigvalsh(whole), columns.global_indices(1)
    close = 1e-13 * max(1, n / 100) * np.abs(expected).max()
    assert np.allclose(values, expected, rtol=0, atol=close), (desc, dtype)
    assert np.allclose(whole @ states, states * values[own], rtol=0, atol=close), (desc, dtype)
    assert np.allclose((np.abs(states) ** 2).sum(0), 1, rtol=0, atol=1e-12), (desc, dtype)


def accepted() -> None:
    """Grids of all ranks and of some, in any order; process rows without rows, and blocks of all sizes."""
    shapes = [
        (rows, size // rows) for size in {SIZE, max(1, SIZE - 1)} for rows in range(1, size + 1) if size % rows == 0
    ]
    for (rows, columns), (n, block) in itertools.product(shapes, ((60, 16), (37, 5), (33, 1), (9, 4), (1, 2))):
        for ranks in (np.arange(rows * columns), np.arange(SIZE)[::-1][: rows * columns]):
            desc = psr.Descriptor(
                (n, n), block, psr.ProcessGrid((rows, columns), WORLD, ranks=ranks.reshape(rows, columns))
            )
            if block * (columns - 1) >= n:
                with pytest.raises(psr.DescriptorError, match="ELPA needs columns on each process column"):
                    psr.linalg.check_layout(desc, "elpa")
                continue
            psr.linalg.check_layout(desc, "elpa")
            compare(desc, "d" if block != 5 else "D", TWO_STAGES if n == 60 else ONE_STAGE)
    for n in (20, 300, 520):
        compare(psr.linalg.layout_for("eigh", (n, n), WORLD, library="elpa"), "d", TWO_STAGES)


def refused(name: str) -> None:
    """Solve in a layout that breaks one rule. Whatever ELPA does then, the result is not right."""
    line, square = psr.ProcessGrid((1, 4), WORLD), psr.ProcessGrid((2, 2), WORLD)
    layouts = {
        "columns on each process column": psr.Descriptor((16, 16), 6, line),
        # with local arrays as large as in the layout that ELPA assumes, which therefore finds no error
        "square blocks": psr.Descriptor((16, 16), (2, 4), square),
        "source (0, 0)": psr.Descriptor((16, 16), 4, square, source=(1, 0)),
        "a matrix that is not empty": psr.Descriptor((0, 0), 4, square),
    }
    with pytest.raises(psr.DescriptorError) as caught:
        psr.linalg.check_layout(layouts[name], "elpa")
    assert f"ELPA needs {name}" in str(caught.value)
    sys.stderr.write("check_layout refuses\n")
    compare(layouts[name], "d", ONE_STAGE)


def main() -> None:
    assert ELPA.elpa_init(API_VERSION) == 0
    if sys.argv[1:]:
        refused(sys.argv[1])
    else:
        accepted()
    call("elpa_uninit")
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
