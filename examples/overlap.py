"""Assemble a matrix block by block while the blocks before are on their way to the layout of a solver.

    mpiexec -n 4 python -m mpi4py examples/overlap.py
    mpiexec -n 4 python -m mpi4py examples/overlap.py --order 1500 --columns 300 --points 6

A boundary element matrix: entry (i, j) is the potential at point i of a square plate of charge on cell j, by quadrature with
`--points` along each side. Every process assembles whole rows; the solver wants blocks of 64 x 64 on a grid of
processes. The matrix is made in blocks of columns. When one is ready, its redistribution is started, and while the next
is assembled `test()` lets all that are on their way go on. The result is the same in every bit, which is verified.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from phases import Refusal, on_all_ranks, timed

import pyscalapack_redist as psr
from pyscalapack_redist.engine.transfer import Transfer

REPEAT, ROWS = 3, 16  # times, of which the least counts; rows assembled between two calls of test()


class Problem:
    """The matrix, its layouts, and the plan of each block of columns. Collective over `comm`."""

    def __init__(self, comm: MPI.Intracomm, order: int, columns: int, points: int) -> None:
        self.side, self.points = int(np.ceil(np.sqrt(order))), points
        rows = next(p for p in range(int(comm.size**0.5), 0, -1) if comm.size % p == 0)
        assembling = psr.ProcessGrid((comm.size, 1), comm)
        self.solver = psr.Descriptor((order, order), 64, psr.ProcessGrid((rows, comm.size // rows), comm))
        self.matrix = self.solver.empty(np.float64)
        self.blocks: list[tuple[int, psr.Descriptor, psr.Redistribution]] = []
        for first in range(0, order, columns):
            last = min(first + columns, order)
            block = psr.Descriptor((order, last - first), (None, None), assembling)
            self.blocks.append((first, block, psr.redistribute(block, self.solver[:, first:last], comm=comm)))

    def entry(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.float64]:
        """The potential of cell j at the centre of cell i; broadcasts."""
        dx, dy = i % self.side - j % self.side, i // self.side - j // self.side
        offsets = (np.arange(self.points) + 0.5) / self.points - 0.5
        potential = np.zeros(dx.shape)
        for x in offsets:
            for y in offsets:
                potential += 1 / np.sqrt((dx + x) ** 2 + (dy + y) ** 2 + 0.01)
        return potential

    def assemble(self, first: int, block: psr.Descriptor, meanwhile: Callable[[], None]) -> NDArray[np.float64]:
        """This process's rows of a block of columns; `meanwhile` is called after every few rows."""
        local = block.empty(np.float64)
        i, j = np.ix_(block.global_indices(0), first + block.global_indices(1))
        for row in range(0, len(i), ROWS):
            local[row : row + ROWS] = self.entry(i[row : row + ROWS], j)
            meanwhile()
        return local

    def one_after_the_other(self) -> None:
        """Assemble a block, move it, assemble the next."""
        for first, block, plan in self.blocks:
            plan(self.assemble(first, block, lambda: None), self.matrix)

    def overlapped(self) -> None:
        """Assemble while the blocks before are on their way, as many as there are."""
        under_way: list[Transfer] = []

        def test() -> None:
            while under_way and under_way[0].test():  # the others go on with it
                under_way.pop(0)

        for first, block, plan in self.blocks:
            under_way.append(plan.start(self.assemble(first, block, test), self.matrix))
        for transfer in under_way:
            transfer.wait()

    def only_assemble(self) -> None:
        """Assemble, and keep nothing."""
        for first, block, _ in self.blocks:
            self.assemble(first, block, lambda: None)

    def only_move(self) -> None:
        """Move blocks of zeros, one after the other."""
        for _, block, plan in self.blocks:
            plan(block.zeros(np.float64), self.matrix)


def read_options(words: list[str]) -> argparse.Namespace:
    """The command line; raises a Refusal where it is wrong. Not collective."""
    parser = argparse.ArgumentParser(prog="overlap.py", add_help=False, exit_on_error=False)
    for name, default in (("--order", 1024), ("--columns", 128), ("--points", 10)):
        parser.add_argument(name, type=int, default=default)
    try:
        options, unknown = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise Refusal(str(error)) from None
    if unknown or min(vars(options).values()) < 1:
        raise Refusal(f"{' '.join(words)}: there are --order, --columns and --points, each at least 1")
    return options


def hidden_text(moving: float, assembling: float, serial: float, overlapped: float) -> str:
    """How much of the redistribution overlap hides: never more than it takes. Not collective."""
    gained = serial - overlapped
    if gained <= 0:
        return "hidden: nothing; on one node the cores that compute have to copy too (docs/overlap.md)"
    if gained > min(moving, assembling):
        return (
            f"hidden: unknown; {1e3 * gained:.1f} ms gained are more than overlap can hide, so ranks waited for each other or "
            "for a core: take fewer ranks than cores, or a larger --order"
        )
    return f"hidden: {1e3 * gained:.1f} ms, {gained / moving:.0%} of the redistribution's time"


def run(comm: MPI.Intracomm, options: argparse.Namespace) -> bool:
    """Take the four times and check the matrix; whether it is right. Collective."""
    problem = Problem(comm, options.order, options.columns, options.points)
    ways = {
        "redistribution alone": problem.only_move,
        "assembly alone": problem.only_assemble,
        "one after the other": problem.one_after_the_other,
        "overlapped": problem.overlapped,
    }
    expected = problem.solver.from_function(problem.entry)
    seconds, right = dict.fromkeys(ways, float("inf")), True
    for _ in range(REPEAT):
        for name, way in ways.items():
            problem.matrix.fill(np.nan)
            seconds[name] = min(seconds[name], timed(comm, way)[0])
            if not name.endswith("alone"):
                right = right and all(comm.allgather(np.array_equal(problem.matrix, expected)))
    if comm.rank == 0:
        print(f"{options.order} x {options.order}, {len(problem.blocks)} blocks of columns, {comm.size} ranks")
        for name, time in seconds.items():
            print(f"  {name:24}{1e3 * time:9.1f} ms")
        print(hidden_text(*seconds.values()))
        print("the matrix is right in every bit" if right else "WRONG: the matrix is not what it must be", flush=True)
    return right


def main() -> int:
    comm = MPI.COMM_WORLD
    try:
        options = on_all_ranks(comm, lambda: read_options(sys.argv[1:]))
        return 0 if run(comm, options) else 1
    except Refusal as refusal:
        if comm.rank == 0:
            print(f"overlap.py: error: {refusal}", file=sys.stderr, flush=True)
        return 2


if __name__ == "__main__":
    exit_status = main()
    # all ranks got here: had they not finalized when they end with a status other than 0, `python -m mpi4py` would abort them
    if exit_status:
        MPI.Finalize()
    sys.exit(exit_status)
