"""Several producer jobs redistribute into one consumer (ASPEN, section 5, future work), beside one job of as many ranks.

Every producer holds some rows of a matrix, the consumer all of it in blocks on its own grid: producer k's part is a sub-array
of the consumer's descriptor. Each producer has a connection of its own, and a plan on it. The consumer calls the plans in
turn, or starts all of them and waits. Every element is verified in every round. Ranks of one program, the first ones consume:

    mpiexec -n 6 python -m mpi4py benchmarks/many_producers.py --producers 4 2,2 1,1,1,1

Jobs of their own, which meet in a directory (with Open MPI by its name server, see docs/two-jobs.md), started at the same time:

    mpiexec -n 2 python -m mpi4py benchmarks/many_producers.py --producers 2,2 --meet DIRECTORY --job consumer
    mpiexec -n 2 python -m mpi4py benchmarks/many_producers.py --producers 2,2 --meet DIRECTORY --job 0
    mpiexec -n 2 python -m mpi4py benchmarks/many_producers.py --producers 2,2 --meet DIRECTORY --job 1
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
WAYS = ("in turn", "together")
BLOCK = 64


class Job(NamedTuple):
    """This rank's job, and whom it is connected with.

    Attributes
    ----------
    comm : MPI.Intracomm
        Its ranks.
    others : list of MPI.Intercomm
        On the consumer its connections to all producers, on a producer the one to the consumer.
    number : int or None
        The producer's; None on the consumer.
    producers : int
        How many there are.
    """

    comm: MPI.Intracomm
    others: list[MPI.Intercomm]
    number: int | None
    producers: int


class Setting:
    """A matrix of so many rows and columns: this rank's plans and array. Collective over all jobs."""

    def __init__(self, job: Job, order: int) -> None:
        self.job, self.order = job, order
        rows = [order * k // job.producers for k in range(job.producers + 1)]
        size = job.comm.Get_size()
        if job.number is None:
            side = max(p for p in range(1, math.isqrt(size) + 1) if size % p == 0)
            self.desc = psr.Descriptor((order, order), BLOCK, psr.ProcessGrid((side, size // side), job.comm))
            parts = [self.desc[a:b, :] for a, b in itertools.pairwise(rows)]
            self.plans = [
                psr.redistribute(None, part, comm=other) for part, other in zip(parts, job.others, strict=True)
            ]
            self.first = 0
        else:
            self.first = rows[job.number]
            shape = (rows[job.number + 1] - self.first, order)
            self.desc = psr.Descriptor(shape, None, psr.ProcessGrid((size, 1), job.comm))
            self.plans = [psr.redistribute(self.desc, None, comm=job.others[0], dtype=np.float64)]
        self.array = self.desc.empty(np.float64)

    def expected(self, step: int) -> NDArray[Any]:
        """What the local array holds in a step: every element of every step is another number."""
        n = self.order
        return self.desc.from_function(lambda i, j: (step * n + self.first + i) * float(n) + j)

    def seconds(self, way: str, step: int) -> float:
        """Move the matrix of a step and verify it; the longest time of the consumer's ranks. Collective over all jobs."""
        self.array[...] = np.nan if self.job.number is None else self.expected(step)
        for other in self.job.others:
            other.Barrier()
        start = time.perf_counter()
        if self.job.number is not None:
            self.plans[0](self.array)
        elif way == "together":
            for transfer in [plan.start(None, self.array) for plan in self.plans]:
                transfer.wait()
        else:
            for plan in self.plans:
                plan(None, self.array)
        took: float = self.job.comm.allreduce(time.perf_counter() - start, MPI.MAX)
        right = self.job.number is not None or np.array_equal(self.array, self.expected(step))
        if not self.job.comm.allreduce(right, MPI.LAND):
            raise SystemExit(f"{way}: the matrix of step {step} is wrong")
        return took


def in_one_program(sizes: Sequence[int], consumers: int) -> Job:
    """Ranks of this program: the first consume, the others are producers of the given sizes. Collective."""
    ends = list(itertools.accumulate((consumers, *sizes)))
    job = next(k for k, end in enumerate(ends) if WORLD.Get_rank() < end)
    comm = MPI.Intracomm(WORLD.Split(job, WORLD.Get_rank()))
    if job == 0:
        return Job(comm, [comm.Create_intercomm(0, WORLD, first, tag=first) for first in ends[:-1]], None, len(sizes))
    return Job(comm, [comm.Create_intercomm(0, WORLD, 0, tag=ends[job - 1])], job - 1, len(sizes))


def in_jobs(producers: int, job: str, meet: Path, timeout: float) -> Job:
    """This job and the others, which meet at files of their own in a directory. Collective over all jobs."""
    if job == "consumer":
        others = [psr.connect(str(meet / f"producer-{k}"), WORLD, timeout=timeout) for k in range(producers)]
        return Job(WORLD, others, None, producers)
    return Job(WORLD, [psr.accept(str(meet / f"producer-{job}"), WORLD, timeout=timeout)], int(job), producers)


def measure(settings: Sequence[Setting], repeat: int) -> list[list[float]]:
    """Times of each setting and way, round by round. Collective over all jobs."""
    runs = [(setting, way) for setting in settings for way in WAYS]
    for step, (setting, way) in enumerate(runs):
        setting.seconds(way, step)
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(repeat):
        for k, (setting, way) in enumerate(runs):
            times[k].append(setting.seconds(way, len(runs) * (1 + turn) + k))
    return times


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--producers", nargs="+", default=["2,2"], help="ranks of each producer, as 2,2; several divisions"
    )
    parser.add_argument("--orders", type=int, nargs="+", default=[64, 512, 2048], help="rows and columns of the matrix")
    parser.add_argument("--repeat", type=int, default=9, help="rounds (default: 9)")
    parser.add_argument("--meet", type=Path, metavar="DIRECTORY", help="jobs of their own meet here")
    parser.add_argument("--job", help="this job: consumer, or the number of a producer, counted from 0")
    parser.add_argument("--timeout", type=float, default=60, help="seconds to wait for another job (default: 60)")
    given = parser.parse_args()
    given.divisions = [[int(size) for size in text.split(",")] for text in given.producers]
    sums = {sum(sizes) for sizes in given.divisions}
    if (given.meet is None) != (given.job is None):
        parser.error("--meet and --job go together")
    if given.meet is not None and len(given.divisions) != 1:
        parser.error(f"--producers {' '.join(given.producers)}: jobs of their own are one division")
    if given.meet is None and (len(sums) != 1 or max(sums) >= WORLD.Get_size()):
        parser.error(
            f"--producers {' '.join(given.producers)} on {WORLD.Get_size()} ranks: each division must have the same number of "
            "ranks, and leave some for the consumer"
        )
    return given


def main() -> None:
    given = arguments()
    consumers = WORLD.Get_size() - sum(given.divisions[0])  # in one program
    prints = WORLD.Get_rank() == 0 and given.job in (None, "consumer")
    if prints:
        print("| matrix | producers | in turn, ms | together, ms |\n|---|---|---|---|", flush=True)
    if given.meet is None:
        jobs = [in_one_program(sizes, consumers) for sizes in given.divisions]
    else:
        jobs = [in_jobs(len(given.divisions[0]), given.job, given.meet, given.timeout)]
    for order in given.orders:
        times = measure([Setting(job, order) for job in jobs], given.repeat)
        for k, text in enumerate(given.producers if prints else ()):
            each = times[len(WAYS) * k : len(WAYS) * (k + 1)]
            told = [f"{1e3 * min(some):.3g} / {1e3 * statistics.median(some):.3g}" for some in each]
            print(f"| {order} x {order} | {text} | {' | '.join(told)} |", flush=True)
    for other in itertools.chain.from_iterable(job.others for job in jobs):
        other.Disconnect()


if __name__ == "__main__":
    main()
