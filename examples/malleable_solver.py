"""Conjugate gradients on a matrix whose processes change between iterations: the job grows, shrinks, and moves elsewhere.

    mpiexec -n 6 python -m mpi4py examples/malleable_solver.py
    mpiexec -n 6 python -m mpi4py examples/malleable_solver.py --phases 0-3 0-5 3-5 --points 2000
    mpiexec -n 2 python -m mpi4py examples/malleable_solver.py --phases 0 0-1 1

The system is that of kriging: the weights of measurements at points on a line, whose covariance falls off with the
distance. All that a process holds is one array: its rows of the matrix, and with each row that element of the iterate,
of the residual and of the search direction. So a change of the processes is one redistribution, and the solver goes on
where it was. A rank outside the phase's processes holds nothing. At the end the matrix is compared with the one that
was assembled, bit by bit, and the weights with those of numpy.linalg.solve.

Each phase after the first is put on its ranks by `relabel`, which finds the order of them that moves least.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from phases import Refusal, on_all_ranks, options_parser, read_words, start, timed

import pyscalapack_redist as psr

DISTANCE, NOISE = 20.0, 0.3  # over which the covariance falls by e; variance of the measurements
ACCURATE = 1e-9
ITERATE, RESIDUAL, DIRECTION = 0, 1, 2  # the columns after the matrix

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    phases: tuple[tuple[int, ...], ...]
    points: int
    block: int | None
    iterations: int
    tolerance: float
    relabel: bool


def element(i: NDArray[np.int64], j: NDArray[np.int64]) -> Array:
    """The covariance of two points."""
    covariance: Array = np.exp(-np.abs(i - j) / DISTANCE) + NOISE * (i == j)
    return covariance


def measurement(i: NDArray[np.int64]) -> Array:
    """What was measured at a point: the right-hand side."""
    measured: Array = np.sin(i / 7.0) + np.cos(i * i / 300.0)
    return measured


# -- the solver


class Solver:
    """Conjugate gradients on the processes of one grid. Collective over `comm`, where ranks outside the grid do nothing.

    `state` is this rank's part of the array of n rows and n + 3 columns that `desc` describes, None outside.
    """

    def __init__(self, comm: MPI.Intracomm, desc: psr.Descriptor, state: Array | None, squared: float) -> None:
        self.desc, self.state, self.squared = desc, state, squared
        self.rows = desc.global_indices(0)
        self.members = comm.Split(0 if state is not None else MPI.UNDEFINED, comm.rank)

    def close(self) -> None:
        """Give the communicator of the members back."""
        if self.state is not None:
            self.members.Free()

    def iterate(self, most: int, target: float) -> int:
        """Go on until the residual's square is `target` or less, or for so many iterations; how many it took."""
        if self.state is None:
            return 0
        n = self.desc.shape[0]
        matrix, vectors = self.state[:, :n], self.state[:, n:]
        for done in range(most):
            if self.squared <= target:
                return done
            direction = vectors[:, DIRECTION]
            image = matrix @ self.everywhere(direction)
            step = self.squared / self.total(float(direction @ image))
            vectors[:, ITERATE] += step * direction
            vectors[:, RESIDUAL] -= step * image
            before, self.squared = self.squared, self.total(float(vectors[:, RESIDUAL] @ vectors[:, RESIDUAL]))
            direction *= self.squared / before
            direction += vectors[:, RESIDUAL]
        return most

    def everywhere(self, mine: Array) -> Array:
        """The whole vector of which every member has some elements."""
        whole = np.zeros(self.desc.shape[0])
        whole[self.rows] = mine
        self.members.Allreduce(MPI.IN_PLACE, whole)
        return whole

    def total(self, mine: float) -> float:
        """The sum over the members."""
        return float(self.members.allreduce(mine))


# -- the processes change


class Change(NamedTuple):
    """What a change of the processes cost: the same on all ranks."""

    desc: psr.Descriptor
    state: Array | None
    plan_seconds: float
    seconds: float
    sent: int
    kept: int
    sent_without_relabelling: int


def change(comm: MPI.Intracomm, solver: Solver, wanted: psr.Descriptor, relabel: bool) -> Change:
    """Move the solver's array to other processes, in the order of them that moves least. Collective."""
    report = psr.relabel_report(solver.desc, wanted, np.float64)
    desc = report.descriptor if relabel else wanted
    plan_seconds, plan = timed(comm, lambda: psr.redistribute(solver.desc, desc, comm=comm, dtype=np.float64))
    seconds, state = timed(comm, lambda: plan(solver.state))
    mine = plan.report()
    sent, kept = (int(comm.allreduce(number)) for number in (mine.bytes_sent, mine.bytes_copied))
    return Change(desc, state, plan_seconds, seconds, sent, kept, report.moved_before)


def layout(comm: MPI.Intracomm, options: Options, ranks: tuple[int, ...]) -> psr.Descriptor:
    """Whole rows of the matrix and of the three vectors: one block for each of these ranks, or blocks dealt in turn."""
    grid = psr.ProcessGrid((len(ranks), 1), comm, ranks=[[rank] for rank in ranks])
    return psr.Descriptor((options.points, options.points + 3), (options.block, None), grid)


def first_state(desc: psr.Descriptor) -> Array | None:
    """The matrix, an iterate of zeros, and the residual and the direction that go with it. Not collective."""
    if desc.coords is None:
        return None
    n = desc.shape[0]
    rows = desc.global_indices(0)
    state = desc.zeros(np.float64)
    state[:, :n] = element(*np.ix_(rows, np.arange(n)))
    state[:, n + RESIDUAL] = state[:, n + DIRECTION] = measurement(rows)
    return state


# -- the check


def largest_error(comm: MPI.Intracomm, solver: Solver) -> tuple[bool, float]:
    """Is the matrix what it was, in every bit; and how far is the iterate from numpy.linalg.solve's? Collective."""
    n = solver.desc.shape[0]
    untouched = solver.state is None or np.array_equal(solver.state[:, :n], element(*np.ix_(solver.rows, np.arange(n))))
    iterate = psr.gather(solver.desc[:, n + ITERATE : n + ITERATE + 1], solver.state)
    wrong = 0.0
    if iterate is not None:
        everything = np.arange(n)
        expected = np.linalg.solve(element(*np.ix_(everything, everything)), measurement(everything))
        wrong = float(np.abs(iterate[:, 0] - expected).max() / np.abs(expected).max())
    return bool(comm.allreduce(untouched, MPI.LAND)), float(comm.bcast(wrong))


# -- the program


def run(comm: MPI.Intracomm, options: Options) -> bool:
    """Solve on the processes of one phase after the other; whether the result is right. Collective."""
    n = options.points
    say = print if comm.rank == 0 else lambda *_, **__: None
    megabytes = n * (n + 3) * 8 / 1e6
    blocks = f"blocks of {options.block} rows" if options.block else "one block of rows a rank"
    say(f"{n} points, {megabytes:.1f} MB of matrix and vectors, {blocks}, {comm.size} ranks")
    first = layout(comm, options, options.phases[0])
    squared = float(np.square(measurement(np.arange(n))).sum())
    target = options.tolerance**2 * squared
    solver = Solver(comm, first, on_all_ranks(comm, lambda: first_state(first)), squared)
    total = 0
    for number, ranks in enumerate(options.phases):
        if number:
            cost = change(comm, solver, layout(comm, options, ranks), options.relabel)
            squared = comm.bcast(solver.squared, root=int(solver.desc.grid.ranks[0, 0]))
            solver.close()
            solver = Solver(comm, cost.desc, cost.state, squared)
            say(
                f"  to ranks {written(solver.desc)}: {cost.sent / 1e6:.2f} MB sent"
                f" ({cost.sent_without_relabelling / 1e6:.2f} without relabelling), {cost.kept / 1e6:.2f} MB stay;"
                f" {1e3 * cost.seconds:.2f} ms, and {1e3 * cost.plan_seconds:.2f} ms for the plan"
            )
        last = number == len(options.phases) - 1
        most = 10 * n if last else options.iterations
        seconds, mine = timed(comm, lambda solver=solver, most=most: solver.iterate(most, target))  # type: ignore[misc]
        done = comm.bcast(mine, root=ranks[0])
        total += done
        each = f"{1e3 * seconds / done:.2f} ms each" if done else "it had converged before"
        say(f"ranks {written(solver.desc):16} {done:4} iterations, {each}")
    squared = comm.bcast(solver.squared, root=options.phases[-1][0])
    untouched, wrong = largest_error(comm, solver)
    solver.close()
    right = untouched and wrong < ACCURATE and squared <= target
    say(
        f"{total} iterations, residual {math.sqrt(squared / target) * options.tolerance:.1e} of the first; the matrix is "
        f"{'what it was' if untouched else 'NOT what it was'}, the weights differ from NumPy's by {wrong:.1e}"
        f"{'' if right else ': WRONG'}"
    )
    return right


def written(desc: psr.Descriptor) -> str:
    """The ranks of a grid, in the order of their places."""
    return ",".join(str(rank) for rank in desc.grid.ranks.ravel())


def default_phases(size: int) -> list[str]:
    """Two thirds of the ranks, all, the second half, the first: larger, smaller, and elsewhere; 4, 6, 3 and 3 of six."""
    half = max(1, size // 2)
    return [f"0-{-(-2 * size // 3) - 1}", f"0-{size - 1}", f"{size - half}-{size - 1}", f"0-{half - 1}"]


def ranks_of(text: str, size: int) -> tuple[int, ...]:
    """Ranks written as 0-3, or 0-1,5; raises a Refusal."""
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if ends is None:
            raise Refusal(f"--phases {text}: ranks are written as 0-3, or 2, or 0-1,4")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        found.extend(range(first, last + 1))
        if last < first or last >= size:
            raise Refusal(f"--phases {text}: {part} must be ascending and below {size}, the number of ranks")
    if len(set(found)) < len(found):
        raise Refusal(f"--phases {text}: a rank comes twice")
    return tuple(found)


def read_options(comm: MPI.Intracomm, words: list[str]) -> Options | None:
    """The command line, None where only help was wanted; raises a Refusal where it is wrong. Not collective."""
    parser = options_parser("malleable_solver.py", __doc__)
    parser.add_argument(
        "--phases", nargs="+", metavar="RANKS", help="ranks of each phase; default: " + " ".join(default_phases(6))
    )
    parser.add_argument("--points", type=int, default=1200, metavar="N", help="order of the matrix; default: 1200")
    parser.add_argument("--block", type=int, metavar="NB", help="rows in a block; default: one block a rank")
    parser.add_argument("--iterations", type=int, default=15, metavar="K", help="in a phase but the last; default: 15")
    parser.add_argument("--tolerance", type=float, default=1e-12, help="of the residual; default: 1e-12 of the first")
    parser.add_argument("--no-relabel", dest="relabel", action="store_false", help="ranks in the order given")
    given = read_words(parser, comm, words, "see --help")
    if given is None:
        return None
    for name in ("points", "block", "iterations"):
        if getattr(given, name) is not None and getattr(given, name) < 1:
            raise Refusal(f"--{name} {getattr(given, name)}: it must be at least 1")
    if not 1e-14 <= given.tolerance < 1:
        raise Refusal(f"--tolerance {given.tolerance}: it must be at least 1e-14 and below 1")
    phases = tuple(ranks_of(text, comm.size) for text in given.phases or default_phases(comm.size))
    return Options(phases, given.points, given.block, given.iterations, given.tolerance, given.relabel)


if __name__ == "__main__":
    start(read_options, run)
