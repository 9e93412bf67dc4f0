"""What do op, alpha and beta cost beside a plain redistribution, and beside ScaLAPACK's own p?geadd and p?tran?

A matrix goes into one of the same layout ("same"), to a column of processes ("column"), and into its transpose on the first
grid ("T", and "C" where the dtype is complex): as it is, with beta = 1, and with alpha and beta. All are timed in turn, with
the routine that does the same: p?geadd adds in one layout, p?tran, p?tranu and p?tranc transpose. Each time is the slowest
rank's, after a call of the same and a barrier.
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
SAME, OTHER = "same", "column"
Case = tuple[str, str, str]  # what is done, factors, by whom


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
    other = psr.Descriptor(desc.shape, desc.block, psr.ProcessGrid((comm.size, 1), comm))
    rng = np.random.default_rng(comm.rank)
    calls: dict[Case, Callable[[], Any]] = {}
    targets = {SAME: ("N", desc), OTHER: ("N", other), "T": ("T", turned), "C": ("C", turned)}
    if np.dtype(dtype).kind != "c":
        del targets["C"]
    for what, (op, target) in targets.items():
        a, out = (layout.empty(dtype) for layout in (desc, target))
        for array in (a, out):
            array[...] = rng.random(array.shape)
        plan = psr.redistribute(desc, target, dtype=dtype, op=op)
        for name, (alpha, beta) in FACTORS.items():
            calls[what, name, "psr"] = lambda plan=plan, a=a, out=out, alpha=alpha, beta=beta: plan(
                a, out, alpha=alpha, beta=beta
            )
            if what != OTHER:
                calls[what, name, "ScaLAPACK"] = routine(op, alpha, beta, (desc, target), a, out)
    seconds: dict[Case, list[float]] = {case: [] for case in calls}
    for round_ in range(repeat + 1):
        for case, run in calls.items():
            run()
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
    figures = ("minimum", "median", "of plain", "ScaLAPACK's", "of ours")
    table = new_table(("order", "dtype", "what", "factors"), figures)
    for order in options.order:
        for dtype in options.dtypes:
            seconds = measure(psr.Descriptor((order, order), options.block, grid), dtype, options.repeat)
            for (what, factors, by), times in seconds.items():
                if by != "psr":
                    continue
                plain = seconds[SAME if what == SAME else OTHER, "alone", "psr"]
                theirs = seconds.get((what, factors, "ScaLAPACK"))
                table.add_row(
                    *(str(order), dtype, what, factors, time_text(min(times)), time_text(statistics.median(times))),
                    ratio_text(min(times) / min(plain)),
                    *(("", "") if theirs is None else (time_text(min(theirs)), ratio_text(min(theirs) / min(times)))),
                )
    if comm.rank == 0:
        print(f"{comm.size} ranks, grid {rows}x{comm.size // rows}, blocks of {options.block}; ratios are of minima,")
        print("of plain: to the plain move in one layout, or to a column; of ours: how many times as long")
        print_table(console(), table)


if __name__ == "__main__":
    main()
