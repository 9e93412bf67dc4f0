"""How much faster does a rank pack, unpack and copy with several threads (PYSCALAPACK_REDIST_THREADS)?

On each rank by itself: half of the rows of a matrix, in blocks, packed into a buffer and unpacked out of one. By plans: a
matrix moved between block sizes, on the grid of all ranks; with beta = 1, and with alpha and beta; and its transpose. All
numbers of threads take turns. Each time is the slowest rank's, after a call of the same and a barrier; --sleep lets the
threads fall asleep in between, so that waking them is in the time.
Run: mpiexec -n 1 --bind-to none python -m mpi4py benchmarks/threads.py --threads 1 2
and for comparison: mpiexec -n 2 python -m mpi4py benchmarks/threads.py --threads 1
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist._kernels import threads as pool
from pyscalapack_redist._kernels.boxes import Box
from pyscalapack_redist._kernels.bundle import Bundle, Origins
from pyscalapack_redist._kernels.runs import Runs
from pyscalapack_redist.comm.node import usable_cores
from pyscalapack_redist.exchanges.exchange import prepare
from pyscalapack_redist.tools.text import console, new_table, print_table, ratio_text, time_text

ITEM = 8  # bytes of float64
Calls = dict[str, Callable[[], Any]]


def packing(order: int, block: int) -> Calls:
    """Every second block of rows out of an array, into a buffer; and back."""
    array, half = np.asfortranarray(np.random.default_rng(0).random((order, order))), order // 2
    buffer, strides, dense = np.zeros(half * order), (ITEM, ITEM * order), (ITEM, ITEM * half)
    columns = Runs(*np.array([[0], [0], [order]]), order, order, order)
    calls: Calls = {}
    for name, (x, y), (source, target), side in (
        ("pack", (2 * block, block), (array, buffer), "target"),
        ("unpack", (block, 2 * block), (buffer, array), "source"),
    ):
        box, origins = Box([Runs(*np.array([[0], [0], [block]]), x, y, half), columns]), Origins(1)
        origins.put(0, *((source.ctypes.data, 0) if side == "target" else (0, target.ctypes.data)))
        both = (strides, dense) if side == "target" else (dense, strides)
        bundle = Bundle([(0, box, *both, (0, 1), ITEM, None)], side)
        kept = array, buffer
        calls[name] = lambda bundle=bundle, origins=origins, kept=kept: bundle.move(
            origins, kept[1].ctypes.data, 0, bundle.size
        )
    return calls


def plans(order: int, block: int, other: int, threads: Sequence[int]) -> dict[int, Calls]:
    """Moves of one matrix between layouts of all ranks, by a plan for each number of threads. Collective."""
    comm = MPI.COMM_WORLD
    calls: dict[int, Calls] = {}
    arrays: list[NDArray[Any]] = []
    for number in threads:
        pool.use(number)
        own = comm.Dup()  # a communicator keeps its plans, and a plan that has been used is one for as many threads
        grid = psr.ProcessGrid((comm.size, 1), own)
        a, b = psr.Descriptor((order, order), block, grid), psr.Descriptor((order, order), other, grid)
        if not arrays:  # of all plans: how far two arrays are apart makes a difference
            rng = np.random.default_rng(comm.rank)
            arrays = [desc.empty(float) for desc in (a, b)]
            for array in arrays:
                array[...] = rng.random(array.shape)
        found: Calls = {}
        calls[number] = found
        for op, what in (("N", "move"), ("T", "transpose")):
            plan = psr.redistribute(a, b, dtype=float, op=op)
            for name, (alpha, beta) in {"": (1, 0), ", beta = 1": (1, 1), ", alpha and beta": (1.5, -0.5)}.items():
                found[what + name] = functools.partial(plan, *arrays, alpha=alpha, beta=beta)
        for run in found.values():
            run()
    return calls


def measure(options: argparse.Namespace, order: int) -> dict[tuple[str, int], list[float]]:
    """Seconds of each case and number of threads. Collective."""
    comm, alone = MPI.COMM_WORLD, packing(order, options.block)
    made = plans(order, options.block, options.other, options.threads)
    prepared = {number: {**alone, **calls} for number, calls in made.items()}
    seconds: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.repeat):
        for name in prepared[options.threads[0]]:
            for threads in options.threads:
                pool.use(threads)
                run = prepared[threads][name]
                run()
                if options.sleep:
                    time.sleep(options.sleep)
                comm.Barrier()
                start = time.perf_counter()
                run()
                elapsed = comm.allreduce(time.perf_counter() - start, MPI.MAX)
                seconds.setdefault((name, threads), []).append(elapsed)
    return seconds


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of each rank")
    parser.add_argument("--order", type=int, nargs="+", default=[4096, 1024, 512], help="of the matrices")
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--other", type=int, default=100, help="block size of the other layout")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds before each call")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    prepare()  # the environment is not asked again
    table = new_table(("order", "what", "threads"), ("minimum", "median", "speedup, min", "median"))
    before = os.getloadavg()[0]
    for order in options.order:
        seconds = measure(options, order)
        for (name, threads), times in seconds.items():
            alone = seconds[name, options.threads[0]]
            table.add_row(
                *(str(order), name, str(threads), time_text(min(times)), time_text(statistics.median(times))),
                ratio_text(min(alone) / min(times)),
                ratio_text(statistics.median(alone) / statistics.median(times)),
            )
    if comm.rank == 0:
        print(
            f"{comm.size} ranks of {len(usable_cores())} cores, blocks of {options.block} and {options.other}, float64"
        )
        print(f"load of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}")
        print(f"speedup: how many times as fast as with {options.threads[0]} threads")
        print_table(console(), table)


if __name__ == "__main__":
    main()
