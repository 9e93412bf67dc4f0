"""Arrays of pylops-mpi from each axis to each other: redistribute(x, like=y) beside three other ways, in turn. On Linux.

    mpiexec -n 2 python -m mpi4py benchmarks/pylops_mpi_redistribute.py [--sizes 256 512] [--rounds 7] [--reused]

The ways: pylops-mpi's own `redistribute`; one `Alltoallw` of subarray types; and a `Sendrecv` with each rank in turn, in lock
step, of contiguous copies, as most programs do it by hand. Each makes a new array, as a first line of code does; with --reused
each but pylops-mpi's, which cannot, writes into one that has been written before. Prints tables in Markdown: minimum / median
times from the first rank's start to the last one's end, medians of the ratios of the rounds, and the most MiB of a rank
beyond its parts of both arrays.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["JAX_PYLOPS"] = "0"  # which pylops would import

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from pylops_mpi import DistributedArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
OURS, THEIRS, ALLTOALLW, SENDRECV = "psr.redistribute", "pylops-mpi", "Alltoallw", "Sendrecv"

Local = NDArray[np.float64]
Way = Callable[[DistributedArray, DistributedArray, bool], Local]


def ours(x: DistributedArray, y: DistributedArray, is_reused: bool) -> Local:
    if is_reused:
        psr.copy_to(x, y)
        return y.local_array
    return psr.redistribute(x, like=y).local_array


def theirs(x: DistributedArray, y: DistributedArray, is_reused: bool) -> Local:
    return x.redistribute(y.axis).local_array


def boxes(local: Local, axis: int, n: int) -> list[tuple[slice, ...]]:
    """The part of a local array that each rank's indices along an axis cut out."""
    edges = np.cumsum([0, *(n // SIZE + (k < n % SIZE) for k in range(SIZE))]).tolist()
    return [(slice(None),) * axis + (slice(*edges[k : k + 2]),) for k in range(SIZE)]


def alltoallw(x: DistributedArray, y: DistributedArray, is_reused: bool) -> Local:
    a = x.local_array
    b = y.local_array if is_reused else np.empty(y.local_shape)
    buffers, types = [], []
    for local, axis in ((a, y.axis), (b, x.axis)):
        parts = [[range(m)[s] for m, s in itertools.zip_longest(local.shape, box, fillvalue=slice(None))]
                 for box in boxes(local, axis, x.global_shape[axis])]  # fmt: skip
        types.append([
            MPI.DOUBLE.Create_subarray(local.shape, [len(r) for r in part], [r.start for r in part]).Commit() for part in parts
        ])  # fmt: skip
        buffers.append([local, ([1] * SIZE, [0] * SIZE), types[-1]])
    WORLD.Alltoallw(*buffers)
    for each in itertools.chain(*types):
        each.Free()
    return b


def sendrecv(x: DistributedArray, y: DistributedArray, is_reused: bool) -> Local:
    a = x.local_array
    b = y.local_array if is_reused else np.empty(y.local_shape)
    out, into = boxes(a, y.axis, x.global_shape[y.axis]), boxes(b, x.axis, x.global_shape[x.axis])
    b[into[RANK]] = a[out[RANK]]
    for step in range(1, SIZE):
        to, source = (RANK + step) % SIZE, (RANK - step) % SIZE
        received = np.empty(b[into[source]].shape)
        WORLD.Sendrecv(np.ascontiguousarray(a[out[to]]), to, recvbuf=received, source=source)
        b[into[source]] = received
    return b


WAYS: dict[str, Way] = {OURS: ours, THEIRS: theirs, ALLTOALLW: alltoallw, SENDRECV: sendrecv}


def seconds(way: Way, x: DistributedArray, y: DistributedArray, is_reused: bool) -> float:
    """From the first rank's start to the last one's end, by a clock that the ranks of a node share."""
    gc.collect()
    WORLD.Barrier()
    start = MPI.Wtime()
    way(x, y, is_reused)
    end = MPI.Wtime()
    return WORLD.allreduce(end, MPI.MAX) - WORLD.allreduce(start, MPI.MIN)


def status(name: str) -> int:
    """Bytes, of a line in /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def extra_memory(way: Way, x: DistributedArray, y: DistributedArray, is_reused: bool) -> tuple[float, Local]:
    """The most MiB of a rank beyond its parts of both arrays, and the result."""
    gc.collect()
    WORLD.Barrier()
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is forgotten
    result = way(x, y, is_reused)
    peak = status("VmHWM")
    new = 0 if is_reused and way is not theirs else result.nbytes
    return max(0, WORLD.allreduce(peak - before - new, MPI.MAX) / 2**20), result


def planes(local: Local, axis: int) -> Iterator[tuple[Local, Local]]:
    """The planes of a local array, and what is in them: each element has its index."""
    starts = [0, 0, 0]
    starts[axis] = WORLD.exscan(local.shape[axis]) or 0
    rows, columns = np.ogrid[: local.shape[1], : local.shape[2]]
    values = 1e3 * (rows + starts[1]) + columns + starts[2]
    for k, plane in enumerate(local):
        yield plane, values + 1e6 * (k + starts[0])


def check(result: Local, axis: int, name: str) -> None:
    if not all(np.array_equal(plane, values) for plane, values in planes(result, axis)):
        raise SystemExit(f"{name}: wrong elements on rank {RANK}")


def compare(n: int, before: int, after: int, rounds: int, is_reused: bool) -> None:
    """Print a row: the times, the ratios, and the memory."""
    x, y = (DistributedArray((n, n, n), axis=axis) for axis in (before, after))
    for plane, values in planes(x.local_array, before):
        plane[...] = values
    if is_reused:
        y[:] = 0
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    memory = []
    for name, way in WAYS.items():
        extra, result = extra_memory(way, x, y, is_reused)
        memory.append(f"{extra:.0f}")
        check(result, after, name)
        del result
    for _ in range(rounds):
        for name, way in WAYS.items():
            times[name].append(seconds(way, x, y, is_reused))
    shown = [f"{1e3 * min(each):.1f} / {1e3 * statistics.median(each):.1f}" for each in times.values()]
    ratios = [
        statistics.median([other / own for other, own in zip(times[name], times[OURS], strict=True)])
        for name in WAYS if name != OURS
    ]  # fmt: skip
    if RANK == 0:
        cells = [SIZE, f"{n}³", f"{before} → {after}", *shown, *(f"{ratio:.2f}" for ratio in ratios),
                 " / ".join(memory)]  # fmt: skip
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[256, 512], help="indices along each axis")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--reused", action="store_true", help="write into an array that is there")
    options = parser.parse_args()
    if RANK == 0:
        others = [name for name in WAYS if name != OURS]
        titles = ["ranks", "array", "axis", *(f"{name}, ms" for name in WAYS), *(f"{name} / ours" for name in others)]
        print(f"| {' | '.join([*titles, 'extra MiB'])} |\n{'|---' * (len(titles) + 1)}|", flush=True)
    for n in options.sizes:
        for before, after in itertools.permutations(range(3), 2):
            compare(n, before, after, options.rounds, options.reused)


if __name__ == "__main__":
    main()
