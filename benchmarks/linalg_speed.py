"""Times of psr.linalg on the ranks of mpiexec over those of NumPy in one process, in turn.

    mpiexec -n 2 python -m mpi4py benchmarks/linalg_speed.py [--orders 64,256,512,1024,2048] [--routines matmul,eigh]
        [--repeat 5] [--limit 120] [--json FILE]

A cell is the time of a routine of psr.linalg, its check included, over that of NumPy (for a tenth of the eigenvectors
SciPy, since NumPy computes all): of the least times of calls in a loop, and of cold calls, the first ones after a pause.
Ours run on all ranks, on an array in rows, with one thread a rank unless OMP_NUM_THREADS says more. NumPy runs on rank 0,
with a thread on each core that a rank of its node may use, while the others sleep. OpenBLAS's idle threads spin for 2**28
cycles after a call, some 100 ms, so the next side waits for 200 ms. Each result is compared with NumPy's.

Of order n are: matmul, cholesky, qr, eigh and svd of n x n; solve with one side; eigh-tenth, the vectors of the n / 10 least
eigenvalues; svd-tall of 3n x n/2; lstsq of 2n x n with one side. A cell that has taken longer than the limit gets no further
turns, and larger orders of its routine are left out. For matrices of 4096:

    mpiexec -n 2 python -m mpi4py benchmarks/linalg_speed.py --orders 4096 --routines solve,eigh,svd --repeat 2
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before a BLAS is loaded

import argparse
import contextlib
import ctypes
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
import scipy.linalg
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist.tools.arguments import UsageError, argument, check_file, count, positive, write_text
from pyscalapack_redist.tools.bench.results import environment_lines
from pyscalapack_redist.tools.bench.timing import Clock, environment, nodes_of
from pyscalapack_redist.tools.info import blas_text

WORLD = MPI.COMM_WORLD
ORDERS = (64, 256, 512, 1024, 2048)
PAUSE = 0.2  # seconds before a side begins
BURST = 0.02  # seconds of short calls one after another
MOST_CALLS = 10
POLL = 0.001  # seconds between two looks of a rank that sleeps
SEED = 1
PREFIXES, SUFFIXES = ("openblas", "scipy_openblas"), ("", "64_", "_64")  # of OpenBLAS's functions

Whole = NDArray[Any]
# What a result is compared by, on every rank: an array
Values = Callable[[Any], NDArray[Any]]


class Routine(NamedTuple):
    """A column of the table: how operands of an order are made, both sides, and the part of results that both share."""

    operands: Callable[[int, np.random.Generator], tuple[Whole, ...]]
    ours: Callable[..., Any]
    numpys: Callable[..., Any]
    values: Values  # of either result; collective for ours
    numpys_name: str


def general(n: int, rng: np.random.Generator) -> tuple[Whole, ...]:
    return (rng.standard_normal((n, n)),)


def two(n: int, rng: np.random.Generator) -> tuple[Whole, ...]:
    return *general(n, rng), *general(n, rng)


def system(n: int, rng: np.random.Generator) -> tuple[Whole, ...]:
    return *general(n, rng), rng.standard_normal((n, 1))


def positive_definite(n: int, rng: np.random.Generator) -> tuple[Whole, ...]:
    (half,) = symmetric(n, rng)
    return (half + 4 * n**0.5 * np.eye(n),)


def symmetric(n: int, rng: np.random.Generator) -> tuple[Whole, ...]:
    (half,) = general(n, rng)
    return ((half + half.T) / 2,)


def tall(n: int, rng: np.random.Generator) -> tuple[Whole, ...]:
    return (rng.standard_normal((3 * n, max(1, n // 2))),)


def tall_system(n: int, rng: np.random.Generator) -> tuple[Whole, ...]:
    return rng.standard_normal((2 * n, n)), rng.standard_normal((2 * n, 1))


def whole(result: Any) -> NDArray[Any]:
    return result if isinstance(result, np.ndarray) else result.gather(None)


def sizes_of_r(result: Any) -> NDArray[Any]:
    return np.abs(np.diag(whole(result[1])))


def numbers(result: Any) -> NDArray[Any]:
    """Eigenvalues or singular values."""
    return next(np.asarray(part) for part in result if np.ndim(part) == 1)


def tenth(n: int) -> tuple[int, int]:
    return 0, max(1, n // 10) - 1


ROUTINES: dict[str, Routine] = {
    "matmul": Routine(two, psr.linalg.matmul, np.matmul, whole, "numpy.matmul"),
    "solve": Routine(system, psr.linalg.solve, np.linalg.solve, whole, "numpy.linalg.solve"),
    "cholesky": Routine(
        positive_definite,
        lambda a: psr.linalg.cholesky(a, lower=True),
        np.linalg.cholesky,
        whole,
        "numpy.linalg.cholesky",
    ),
    "qr": Routine(general, psr.linalg.qr, np.linalg.qr, sizes_of_r, "numpy.linalg.qr"),
    "eigh": Routine(symmetric, psr.linalg.eigh, np.linalg.eigh, numbers, "numpy.linalg.eigh"),
    "eigh-tenth": Routine(
        symmetric,
        lambda a: psr.linalg.eigh(a, subset_by_index=tenth(a.shape[0])),
        lambda a: scipy.linalg.eigh(a, subset_by_index=tenth(a.shape[0])),
        numbers,
        "scipy.linalg.eigh",
    ),
    "svd": Routine(
        general,
        lambda a: psr.linalg.svd(a, full_matrices=False),
        lambda a: np.linalg.svd(a, full_matrices=False),
        numbers,
        "numpy.linalg.svd",
    ),
    "svd-tall": Routine(
        tall,
        lambda a: psr.linalg.svd(a, full_matrices=False),
        lambda a: np.linalg.svd(a, full_matrices=False),
        numbers,
        "numpy.linalg.svd",
    ),
    "lstsq": Routine(
        tall_system,
        psr.linalg.lstsq,
        lambda a, b: np.linalg.lstsq(a, b, None),
        lambda result: whole(result[0]),
        "numpy.linalg.lstsq",
    ),
}


# -- threads of NumPy's side


def thread_counts() -> list[tuple[Callable[[], int], Callable[[int], None]]]:
    """Functions that read and set the number of threads, of each OpenBLAS in this process."""
    with open("/proc/self/maps") as maps:
        files = {line.split()[-1] for line in maps if "openblas" in line.split()[-1].rsplit("/", 1)[-1]}
    functions: list[tuple[Callable[[], int], Callable[[int], None]]] = []
    for file in sorted(files):
        library = ctypes.CDLL(file)
        for prefix in PREFIXES:
            for suffix in SUFFIXES:
                with contextlib.suppress(AttributeError):
                    pair = (getattr(library, f"{prefix}_{verb}_num_threads{suffix}") for verb in ("get", "set"))
                    functions.append(tuple(pair))
    return functions


@contextlib.contextmanager
def all_cores(cores: set[int]) -> Iterator[int]:
    """The number of cores that this process may use, with as many threads of OpenBLAS; what was before is restored."""
    before, functions = os.sched_getaffinity(0), thread_counts()
    counts = [read() for read, _ in functions]
    with contextlib.suppress(OSError):  # a cpuset without them
        os.sched_setaffinity(0, cores)
    threads = len(os.sched_getaffinity(0))
    for _, write in functions:
        write(threads)
    try:
        yield threads
    finally:
        for (_, write), number in zip(functions, counts, strict=True):
            write(number)
        os.sched_setaffinity(0, before)


def on_first_rank(work: Callable[[], Any]) -> Any:
    """The result of work on rank 0, on it alone, while the others sleep. Collective."""
    result = work() if WORLD.rank == 0 else None
    request = WORLD.Ibarrier()
    while not request.Test():
        time.sleep(POLL)
    return result


# -- times


class Cell(NamedTuple):
    """The seconds of all calls of both sides, on rank 0: of those in a loop, and of cold ones, which come after a pause."""

    ours: list[float]
    numpys: list[float]
    cold_ours: list[float]
    cold_numpys: list[float]

    @property
    def in_loop(self) -> tuple[float, float]:
        """The least times of calls in a loop; of cold ones where there are no others."""
        return min(self.ours or self.cold_ours), min(self.numpys or self.cold_numpys)

    @property
    def cold(self) -> tuple[float, float]:
        """The least times of cold calls."""
        return min(self.cold_ours), min(self.cold_numpys)

    @property
    def ratio(self) -> float:
        """Of the least times in a loop."""
        ours, numpys = self.in_loop
        return ours / numpys

    def to_dict(self, name: str, order: int) -> dict[str, Any]:
        """For JSON."""
        medians = [statistics.median(times) for times in (self.cold_ours, self.cold_numpys)]
        return {
            "routine": name,
            "order": order,
            "ours": self.ours,
            "numpy": self.numpys,
            "cold_ours": self.cold_ours,
            "cold_numpy": self.cold_numpys,
            "ratio": self.ratio,
            "cold_ratio": self.cold[0] / self.cold[1],
            "cold_ratio_of_medians": medians[0] / medians[1],
        }


def calls_for(seconds: float) -> int:
    """Calls in a row, so that a side takes some time."""
    return max(1, min(MOST_CALLS, int(BURST / max(seconds, 1e-9))))


def measure(routine: Routine, order: int, options: argparse.Namespace, cores: set[int], clock: Clock) -> Cell:
    """Times of a routine at an order, both sides in turn, and its result compared. Collective; as `Cell` on rank 0."""
    begin = time.perf_counter()
    operands = routine.operands(order, np.random.default_rng((SEED, order)))
    rows = psr.ProcessGrid((WORLD.size, 1), WORLD)
    arrays = [psr.DistributedArray(desc, part(desc, array)) for array in operands for desc in [in_rows(array, rows)]]
    if WORLD.rank:
        operands = ()
    cell = Cell([], [], [], [])

    def numpys(calls: int) -> Any:
        result = None
        with all_cores(cores):
            time.sleep(PAUSE)
            for number in range(calls):
                start = time.perf_counter()
                result = routine.numpys(*operands)
                (cell.numpys if number else cell.cold_numpys).append(time.perf_counter() - start)
        return result

    expected = on_first_rank(lambda: routine.values(numpys(1)))
    expected = WORLD.bcast(expected)
    time.sleep(PAUSE)
    results = []
    cell.cold_ours.append(clock.seconds(lambda: results.append(routine.ours(*arrays)), 1))
    values, scale = routine.values(results.pop()), max(1.0, float(np.abs(expected).max(initial=0)))
    if not np.allclose(values, expected, rtol=1e-6, atol=1e-8 * order * scale):
        raise AssertionError(f"the result of order {order} is not that of {routine.numpys_name}")
    for _ in range(options.repeat):
        on_first_rank(lambda: numpys(calls_for(min(cell.cold_numpys))))
        time.sleep(PAUSE)
        for number in range(calls_for(WORLD.bcast(min(cell.cold_ours)))):
            (cell.ours if number else cell.cold_ours).append(clock.seconds(lambda: routine.ours(*arrays), 1))
        if WORLD.bcast(time.perf_counter() - begin) > options.limit:
            break
    return cell


def in_rows(array: Whole, grid: psr.ProcessGrid) -> psr.Descriptor:
    return psr.Descriptor(array.shape, None, grid)


def part(desc: psr.Descriptor, array: Whole) -> NDArray[Any]:
    """This rank's rows, in Fortran order, as `empty` makes arrays."""
    local = desc.empty(array.dtype)
    local[...] = array[np.ix_(desc.global_indices(0), desc.global_indices(1))]
    return local


def table(names: Sequence[str], orders: Sequence[int], cells: dict[tuple[str, int], Cell]) -> Iterator[str]:
    """Lines of the table of ratios, and of that of times."""

    def lines(text: Callable[[tuple[float, float]], str]) -> Iterator[str]:
        yield f"| n | {' | '.join(f'{name}, loop | cold' for name in names)} |"
        yield "|---" * (2 * len(names) + 1) + "|"
        for order in orders:
            row = []
            for name in names:
                cell = cells.get((name, order))
                row += ["", ""] if cell is None else [text(cell.in_loop), text(cell.cold)]
            yield f"| {order} | {' | '.join(row)} |"

    yield "time of ours over NumPy's, of calls in a loop and of cold ones:"
    yield from lines(lambda pair: f"{pair[0] / pair[1]:.2g}" if pair[0] < 10 * pair[1] else f"{pair[0] / pair[1]:.0f}")
    yield "milliseconds of ours / NumPy's:"
    yield from lines(lambda pair: f"{pair[0] * 1e3:.3g} / {pair[1] * 1e3:.3g}")


def software() -> Iterator[str]:
    """Lines on the BLAS of each side, and on what chooses its kernels."""
    with contextlib.suppress(psr.LibraryError):
        yield f"BLAS of ScaLAPACK: {blas_text(psr.blacs.load())}"
    for package in (np, scipy):
        blas = package.show_config(mode="dicts")["Build Dependencies"]["blas"]
        yield f"BLAS of {package.__name__} {package.__version__}: {blas['name']} {blas['version']}"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "MKL_NUM_THREADS"):
        if name in os.environ:
            yield f"{name}={os.environ[name]}"


def run(options: argparse.Namespace) -> None:
    """Measure, print and write. Collective."""
    names, orders = options.routines, options.orders
    nodes = nodes_of(WORLD)
    affinities = WORLD.allgather(os.sched_getaffinity(0))
    cores = set().union(*(own for own, node in zip(affinities, nodes, strict=True) if node == nodes[0]))
    clock = Clock(WORLD, one_node=len(set(nodes)) == 1)
    where = environment(WORLD, nodes, clock.meaning, "as psr.linalg keeps them")
    where["software"] = [*software()]
    with all_cores(cores) if WORLD.rank == 0 else contextlib.nullcontext(0) as threads:
        where["threads_of_numpy"] = threads
    say(*list(environment_lines(where))[:-1], *where["software"], f"threads of NumPy: {threads}")
    cells: dict[tuple[str, int], Cell] = {}
    for name in names:
        for order in sorted(orders):
            begin = time.perf_counter()
            cell = measure(ROUTINES[name], order, options, cores, clock)
            cells[name, order] = cell
            taken = WORLD.bcast(time.perf_counter() - begin)
            if WORLD.rank == 0:
                ours, numpys = cell.in_loop
                say(f"{name} {order}: {ours * 1e3:.3g} / {numpys * 1e3:.3g} ms, {cell.ratio:.2f} times")
            if taken > options.limit and order < max(orders):
                say(f"{name}: larger orders than {order} are left out, since it took {taken:.0f} s")
                break
    if WORLD.rank == 0:
        say(*table(names, sorted(orders), cells))
        if options.json:
            listed = [cell.to_dict(name, order) for (name, order), cell in cells.items()]
            write_text("--json", options.json, json.dumps({"environment": where, "cells": listed}, indent=1))


def say(*lines: str) -> None:
    if WORLD.rank == 0:
        print(*lines, sep="\n", flush=True)


def listed_names(text: str) -> list[str]:
    """Names of routines."""
    names = text.split(",")
    unknown = [name for name in names if name not in ROUTINES]
    if unknown:
        raise ValueError(f"{unknown[0]!r} must be one of {', '.join(ROUTINES)}")
    return names


def listed_orders(text: str) -> list[int]:
    """Orders of matrices."""
    return [count(word) for word in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> None:
    about = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about, allow_abbrev=False)
    add = parser.add_argument
    add("--routines", type=argument(listed_names), default=[*ROUTINES], help=f"among {','.join(ROUTINES)}")
    add("--orders", type=argument(listed_orders), default=[*ORDERS], help="default: 64,256,512,1024,2048")
    add("--repeat", type=argument(count), default=5, help="turns of both sides (default: 5)")
    limit = argument(lambda text: positive(text, 1e9, "a number of seconds above 0"))
    add("--limit", type=limit, default=120.0, metavar="SECONDS", help="of a cell (default: 120)")
    add("--json", metavar="FILE", help="write all times as JSON")
    options = parser.parse_args(arguments)
    try:
        if options.json and WORLD.rank == 0:
            check_file("--json", options.json)
        run(options)
    except UsageError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
