"""What a constant costs that is wrong by a factor of two: plans made with half, once and twice its value, called in turn.

    mpiexec -n 2 python -m mpi4py benchmarks/constants.py [--rounds 20] [--only AREA SLOTS]

Those of compiled modules are changed in their source. A ratio is that of the least times, as of the value that is used.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import node
from pyscalapack_redist.exchanges import exchange as stores
from pyscalapack_redist.exchanges import pipeline as nonblocking
from pyscalapack_redist.exchanges import shared

WORLD = MPI.COMM_WORLD


@dataclass(frozen=True)
class Constant:
    """A number of a module or class, and the exchange for which it counts."""

    where: ModuleType | type
    name: str
    exchange: str = "auto"


CONSTANTS = [
    Constant(node, "AREA"),
    Constant(node, "SPINS"),
    Constant(shared, "SLOTS"),
    Constant(shared, "WOVEN_FROM"),
    Constant(shared, "SHORTEST"),
    Constant(stores, "STREAM_FROM"),
    Constant(nonblocking, "SMALL", "nonblocking"),
    Constant(nonblocking.Nonblocking, "piece", "nonblocking"),
    Constant(nonblocking.Nonblocking, "window", "nonblocking"),
    Constant(nonblocking.Nonblocking, "posted_receives", "nonblocking"),
]


@dataclass(frozen=True)
class Case:
    """A matrix, and blocks before and after, from rows of processes to columns."""

    order: int
    before: int
    after: int
    op: str = "N"

    def __str__(self) -> str:
        return f"{self.order}² {self.before}->{self.after}" + (f" {self.op}" if self.op != "N" else "")


CASES = [
    Case(64, 16, 16),
    Case(512, 64, 64),
    Case(1024, 64, 64),
    Case(2048, 64, 30),
    Case(4096, 64, 64),
    Case(4096, 1, 64),
    Case(4096, 4, 5),
    Case(2048, 64, 64, "T"),
]


@contextmanager
def changed(constant: Constant, factor: float) -> Iterator[None]:
    """The constant times a factor."""
    value = getattr(constant.where, constant.name)
    setattr(constant.where, constant.name, type(value)(value * factor))
    try:
        yield
    finally:
        setattr(constant.where, constant.name, value)


class Use:
    """A plan on a communicator of its own, and arrays, of another use where there is one: times depend on where they lie."""

    def __init__(self, case: Case, exchange: str, other: Use | None = None) -> None:
        comm, size = WORLD.Dup(), WORLD.size
        rows, columns = psr.ProcessGrid((1, size), comm), psr.ProcessGrid((size, 1), comm)
        shape = (case.order, case.order)
        desc_a, desc_b = psr.Descriptor(shape, case.before, rows), psr.Descriptor(shape, case.after, columns)
        self.plan = psr.redistribute(desc_a, desc_b, exchange=exchange, op=case.op)
        self.a: Any = desc_a.from_function(lambda i, j: i + 1.0 * j) if other is None else other.a
        self.out: Any = desc_b.empty() if other is None else other.out
        self.plan(self.a, self.out)

    def time(self, calls: int) -> float:
        """Seconds of the fastest call."""
        least = np.inf
        for _ in range(calls):
            WORLD.Barrier()
            start = time.perf_counter()
            self.plan(self.a, self.out)
            least = min(least, time.perf_counter() - start)
        return float(least)


def ratios(constant: Constant, case: Case, rounds: int) -> tuple[float, float]:
    """Times with half and with twice the value, as of the time with the value."""
    uses: list[Use] = []
    for factor in (1, 0.5, 2):
        with changed(constant, factor):
            uses.append(Use(case, constant.exchange, uses[0] if uses else None))
    calls = 30 if case.order <= 1024 else 3
    least = np.full(3, np.inf)
    for number in range(rounds):
        for k in np.roll(range(3), number):
            least[k] = min(least[k], uses[k].time(calls))
    WORLD.Allreduce(MPI.IN_PLACE, least, MPI.MAX)
    return least[1] / least[0], least[2] / least[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", nargs="*", help="names of constants")
    options = parser.parse_args()
    for constant in CONSTANTS:
        if options.only and constant.name not in options.only:
            continue
        cells = []
        for case in CASES:
            half, twice = ratios(constant, case, options.rounds)
            cells.append(f"{half:.2f} {twice:.2f}")
        if WORLD.rank == 0:
            print(f"| {constant.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    if WORLD.rank == 0:
        print("| | " + " | ".join(map(str, CASES)) + " |", flush=True)
    main()
