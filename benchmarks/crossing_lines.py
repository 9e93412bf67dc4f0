"""Copies from C to Fortran order in one process, in copies of the same bytes in one order: NumPy's, one by hand, and ours.

    python benchmarks/crossing_lines.py --order 4096 --rounds 15

`numpy.copyto` in one order is the unit, in arrays that begin with a cache line. By hand: `transposition.c`, blocks of whole
cache lines on both sides, compiled for this processor. Ours: a plan on one process, of whole arrays and from whole rows to
blocks of 64. All take turns in each round; what is shown are ratios of the least times. The hand-written one wants an x86
processor and `cc`.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr

SOURCE = Path(__file__).with_name("transposition.c")
DTYPES = ("int8", "int16", "float32", "float64", "complex128")
Copy = Callable[[], object]


def aligned(n: int, dtype: str, order: str) -> Any:
    """An array of zeros whose memory begins with a cache line."""
    memory = np.zeros(n * n * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + n * n * np.dtype(dtype).itemsize].view(dtype).reshape((n, n), order=order)  # type: ignore[call-overload]


def by_hand(folder: str) -> ctypes.CDLL | None:
    """The compiled transpositions; None where they cannot be."""
    compiler, library = shutil.which("cc"), Path(folder) / "transposition.so"
    if compiler is None:
        return None
    line = [compiler, "-O3", "-march=native", "-shared", "-fPIC", str(SOURCE), "-o", str(library)]
    return None if subprocess.run(line, capture_output=True).returncode else ctypes.CDLL(str(library))


def copies(n: int, dtype: str, library: ctypes.CDLL | None) -> dict[str, Copy]:
    """What is timed, by its name; each has been seen to be right."""
    a, c_order, fortran_order = aligned(n, dtype, "C"), aligned(n, dtype, "C"), aligned(n, dtype, "F")
    a[...] = np.random.default_rng(0).integers(0, 100, (n, n))
    grid = psr.ProcessGrid((1, 1), MPI.COMM_SELF)
    whole, blocks = psr.Descriptor((n, n), None, grid), psr.Descriptor((n, n), 64, grid)
    found: dict[str, Copy] = {
        "one order": lambda: np.copyto(c_order, a),
        "numpy.copyto": lambda: np.copyto(fortran_order, a),
    }
    if library is not None:
        turn = getattr(library, f"transpose_{a.itemsize}")
        turn.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)
        found["by hand"] = lambda: turn(fortran_order.ctypes.data, a.ctypes.data, n)
    for name, other in (("ours", whole), ("ours, blocks of 64", blocks)):
        plan = psr.redistribute(whole, other)
        found[name] = lambda plan=plan: plan(a, out=fortran_order)  # type: ignore[misc]
    for name, copy in found.items():
        fortran_order[...] = c_order[...] = 0
        copy()
        assert np.array_equal(c_order if name == "one order" else fortran_order, a), name
    return found


def least_times(found: dict[str, Copy], rounds: int) -> dict[str, float]:
    """Seconds, the least of the rounds."""
    times = dict.fromkeys(found, float("inf"))
    for _ in range(rounds):
        for name, copy in found.items():
            start = time.perf_counter()
            copy()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", type=int, default=4096, metavar="N", help="a multiple of 64")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if options.order < 64 or options.order % 64:
        parser.error(f"--order {options.order} must be a multiple of 64")
    with tempfile.TemporaryDirectory() as folder:
        library = by_hand(folder)
        names = ["numpy.copyto", *(["by hand"] if library is not None else []), "ours", "ours, blocks of 64"]
        print(f"| dtype | one order, ms | {' | '.join(names)} |\n{'|---' * (2 + len(names))}|")
        for dtype in DTYPES:
            times = least_times(copies(options.order, dtype, library), options.rounds)
            unit = times["one order"]
            ratios = " | ".join(f"{times[name] / unit:.2f}" for name in names)
            print(f"| {dtype} | {1000 * unit:.2f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
