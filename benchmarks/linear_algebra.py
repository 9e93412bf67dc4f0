"""What is the layout that linalg chooses worth, and what does changing to it cost?

A matrix is assembled by rows, and a routine of psr.linalg is called on it. Four ways are timed, in turn:

    chosen         in the layout that the model chooses
    sweep          on each grid of all ranks, and for each block size, told by layout=
    as assembled   in the layout of the assembly: the same rows, in square blocks as high as a process's part
    gathered       on rank 0 by SciPy, and the result distributed again

Redistributing, in the first of them, is timed apart: the operand's way there and the result's way back. Each time is the
slowest rank's, after a barrier. Run: mpiexec -n 4 python -m mpi4py benchmarks/linear_algebra.py
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.tools.text import console, new_table, print_table, ratio_text, time_text

Array = psr.DistributedArray
BLOCKS = (16, 32, 64, 128, 256)
COLUMNS = 64  # of the right-hand sides

CHOSEN, ASSEMBLED, GATHERED = "chosen", "as assembled", "gathered"


class Routine(NamedTuple):
    """How it is called on distributed arrays, and by SciPy on the whole ones."""

    call: Callable[..., Any]
    whole: Callable[..., Any]
    operands: int
    blocks: tuple[int, ...] = BLOCKS


ROUTINES = {
    "solve": Routine(psr.linalg.solve, scipy.linalg.solve, 2),
    "cholesky": Routine(psr.linalg.cholesky, lambda a: scipy.linalg.cholesky(a, lower=True), 1),
    "inv": Routine(psr.linalg.inv, scipy.linalg.inv, 1),
    "qr": Routine(psr.linalg.qr, lambda a: scipy.linalg.qr(a, mode="economic"), 1),
    "eigh": Routine(psr.linalg.eigh, scipy.linalg.eigh, 1, (32, 64, 128)),
    "svd": Routine(psr.linalg.svd, scipy.linalg.svd, 1, (32, 64)),
}
SMALLER = {"eigh", "svd"}


def element(i: Any, j: Any) -> Any:
    """Of a symmetric positive definite matrix."""
    return np.where(i == j, 40.0, 0.0) + np.cos(0.3 * (i + j)) / (1 + np.abs(i - j))


def seconds(comm: MPI.Intracomm, call: Callable[[], Any]) -> float:
    """Of the slowest rank. Collective."""
    comm.Barrier()
    start = time.perf_counter()
    call()
    return float(comm.allreduce(time.perf_counter() - start, MPI.MAX))


def layouts(comm: MPI.Intracomm, n: int, routine: str) -> dict[str, psr.Descriptor]:
    """Those of the sweep, by name."""
    ranks = comm.size
    grids = [psr.ProcessGrid((p, ranks // p), comm) for p in range(1, ranks + 1) if ranks % p == 0]
    return {
        f"{grid.shape[0]}x{grid.shape[1]}:{block}": psr.Descriptor((n, n), block, grid)
        for grid in grids
        for block in ROUTINES[routine].blocks
    }


def there_and_back(comm: MPI.Intracomm, rows: Sequence[Array], name: str) -> None:
    """What the routine moves when it works in the layout that is chosen, with new plans."""
    chosen = psr.linalg.layout_for(name, rows[0].shape, comm)
    moved = [array.redistribute(psr.Descriptor(array.shape, chosen.block, chosen.grid)) for array in rows]
    moved[-1].redistribute(rows[-1].desc)


def gathered(rows: Sequence[Array], whole: Callable[..., Any]) -> None:
    """Solve on rank 0, and distribute the first array that is found."""
    arrays = [array.gather(root=0) for array in rows]
    found = None
    if arrays[0] is not None:
        result = whole(*arrays)
        found = max(result, key=np.size) if isinstance(result, tuple) else result
    psr.distribute(found, rows[-1].desc, root=0)


def measure(comm: MPI.Intracomm, name: str, n: int, repeat: int) -> dict[str, Any]:
    """All times of a routine. Collective."""
    routine = ROUTINES[name]
    grid = psr.ProcessGrid((comm.size, 1), comm)
    shapes = [(n, n), (n, COLUMNS)][: routine.operands]
    rows = [Array.from_function(psr.Descriptor(shape, None, grid), element) for shape in shapes]
    square = psr.Descriptor((n, n), -(-n // comm.size), grid)
    ways = {name_: (lambda d=desc: routine.call(*rows, layout=d)) for name_, desc in layouts(comm, n, name).items()}
    ways[CHOSEN] = lambda: routine.call(*rows)
    ways[ASSEMBLED] = lambda: routine.call(*rows, layout=square)
    ways[GATHERED] = lambda: gathered(rows, routine.whole)
    ways["redistributing"] = lambda: there_and_back(comm, rows, name)
    ways[CHOSEN]()  # contexts are made, and the library is warm
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repeat):
        for way, call in ways.items():
            times[way].append(seconds(comm, call))
    chosen = _text(comm, name, n)
    times[CHOSEN] += times.pop(chosen, [])  # one layout, told or not: what differs is noise
    return {"routine": name, "order": n, "ranks": comm.size, "seconds": times, "chosen": chosen}


def _text(comm: MPI.Intracomm, name: str, n: int) -> str:
    chosen = psr.linalg.layout_for(name, (n, n), comm)
    return f"{chosen.grid.shape[0]}x{chosen.grid.shape[1]}:{chosen.block[0]}"


def shown(results: Sequence[dict[str, Any]]) -> None:
    """The table: minimum times."""
    print("minimum times; the others as multiples of the chosen layout's, of minimum times / of medians")
    figures = ("order", "chosen", "time", "best of sweep", "x", "as assembled", "gathered", "share of redistributing")
    table = new_table(("routine",), figures)
    for result in results:
        times = result["seconds"]
        best, chosen = best_of_sweep(times), times[CHOSEN]

        def ratio(way: str, times: Any = times, chosen: Any = chosen) -> str:
            pairs = (min(times[way]) / min(chosen), statistics.median(times[way]) / statistics.median(chosen))
            return " / ".join(map(ratio_text, pairs))

        table.add_row(
            *(result["routine"], str(result["order"]), result["chosen"], time_text(min(chosen))),
            *(result["chosen"] if best == CHOSEN else best, ratio(best), ratio(ASSEMBLED), ratio(GATHERED)),
            f"{min(times['redistributing']) / min(chosen):.1%}",
        )
    print_table(console(), table)


def best_of_sweep(times: dict[str, list[float]]) -> str:
    """The layout with the least time."""
    return min((way for way in times if ":" in way or way == CHOSEN), key=lambda way: min(times[way]))


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--routines", default=",".join(ROUTINES), help="names, with commas")
    parser.add_argument("--order", type=int, default=4096, help="of the matrix; half of it for eigh and svd")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    results = []
    for name in options.routines.split(","):
        n = options.order // 2 if name in SMALLER else options.order
        results.append(measure(comm, name, n, options.repeat))
        if comm.rank == 0:
            shown(results[-1:])
    if comm.rank == 0:
        shown(results)


if __name__ == "__main__":
    main()
