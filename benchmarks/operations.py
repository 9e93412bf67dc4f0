"""What do op, alpha and beta cost beside a plain redistribution, and beside ScaLAPACK's own p?geadd and p?tran?

A matrix of A's layout goes into one of the same layout (the rows "N"), and into its transpose's ("T", and "C" where the
dtype is complex): as it is, with alpha and beta, and with beta = 1 alone. All are timed in turn, with the routine that does
the same: p?geadd adds in one layout, p?tran and p?tranu, p?tranc transpose. Each time is the slowest rank's, after a barrier.
Run: mpiexec -n 2 python -m mpi4py benchmarks/operations.py --order 4096 512
"""

from __future__ import annotations

import argparse
import ctypes
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist.scalapack.operands import KIND_OF_DTYPE, operand
from pyscalapack_redist.tools.text import console, new_table, print_table, ratio_text, time_text

FACTORS = {"alone": (1, 0), "beta = 1": (1, 1), "alpha and beta": (1.5, -0.5)}
PLAIN = "N", "alone", "psr"  # what the others are compared with
Case = tuple[str, str, str]  # op, factors, by whom


def routine(
    op: str,
    alpha: complex,
    beta: complex,
    pair: tuple[psr.Descriptor, psr.Descriptor],
    a: NDArray[Any],
    c: NDArray[Any],
) -> Callable[[], Any]:
    """ScaLAPACK's routine, on local arrays."""
    kind = KIND_OF_DTYPE[a.dtype]
    last = "" if kind in "sd" else "u" if op == "T" else "c"
    library = ctypes.CDLL(psr.blacs.load().path)
    entry = library[f"p{kind}geadd_" if op == "N" else f"p{kind}tran{last}_"]
    numbers = [np.array([factor], a.dtype) for factor in (alpha, beta)]
    operands = operand("a", a, pair[0]), operand("c", c, pair[1], written=True)
    arguments: list[Any] = [ctypes.c_char_p(b"N")] if op == "N" else []
    arguments += [ctypes.byref(ctypes.c_int(n)) for n in pair[1].shape]
    for number, (address, row, column, nine) in zip(numbers, (each.where for each in operands), strict=True):
        arguments += [ctypes.c_void_p(number.ctypes.data), ctypes.c_void_p(address)]
        arguments += [
            ctypes.byref(ctypes.c_int(row)),
            ctypes.byref(ctypes.c_int(column)),
            ctypes.c_void_p(nine.ctypes.data),
        ]
    kept = numbers, operands  # what the arguments point to
    return lambda kept=kept: entry(*arguments)


def measure(desc: psr.Descriptor, dtype: str, repeat: int) -> dict[Case, list[float]]:
    """Seconds of each case. Collective."""
    comm = MPI.COMM_WORLD
    turned = psr.Descriptor(desc.shape[::-1], desc.block[::-1], desc.grid)
    rng = np.random.default_rng(comm.rank)
    calls: dict[Case, Callable[[], Any]] = {}
    for op in "NTC" if np.dtype(dtype).kind == "c" else "NT":
        pair = desc, desc if op == "N" else turned
        a, out = (layout.empty(dtype) for layout in pair)
        for array in (a, out):
            array[...] = rng.random(array.shape)
        plan = psr.redistribute(*pair, dtype=dtype, op=op)
        for name, (alpha, beta) in FACTORS.items():
            calls[op, name, "psr"] = lambda plan=plan, a=a, out=out, alpha=alpha, beta=beta: plan(
                a, out, alpha=alpha, beta=beta
            )
            calls[op, name, "ScaLAPACK"] = routine(op, alpha, beta, pair, a, out)
    seconds: dict[Case, list[float]] = {case: [] for case in calls}
    for round_ in range(repeat + 1):
        for case, run in calls.items():
            comm.Barrier()
            start = time.perf_counter()
            run()
            elapsed = comm.allreduce(time.perf_counter() - start, MPI.MAX)
            if round_:
                seconds[case].append(elapsed)
    return seconds


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", type=int, nargs="+", default=[4096, 512], help="of the matrices")
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--dtypes", nargs="+", default=["float64"], help="float32, float64, complex64 or complex128")
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    rows = max(p for p in range(1, math.isqrt(comm.size) + 1) if comm.size % p == 0)
    grid = psr.ProcessGrid((rows, comm.size // rows), comm)
    grid.make_context()
    table = new_table(
        ("order", "dtype", "op", "factors"), ("minimum", "median", "of plain N", "ScaLAPACK's", "of ours")
    )
    for order in options.order:
        for dtype in options.dtypes:
            seconds = measure(psr.Descriptor((order, order), options.block, grid), dtype, options.repeat)
            for (op, factors, by), times in seconds.items():
                if by != "psr":
                    continue
                theirs = seconds[op, factors, "ScaLAPACK"]
                table.add_row(
                    *(str(order), dtype, op, factors, time_text(min(times)), time_text(statistics.median(times))),
                    *(ratio_text(min(times) / min(seconds[PLAIN])), time_text(min(theirs))),
                    ratio_text(min(theirs) / min(times)),
                )
    if comm.rank == 0:
        print(f"{comm.size} ranks, grid {rows}x{comm.size // rows}, blocks of {options.block}; ratios are of minima")
        print_table(console(), table)


if __name__ == "__main__":
    main()
