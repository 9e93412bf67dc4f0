"""A dense linear system that changes its layout between phases, so that each phase has the one that suits it.

    assemble         by whole rows               a rank computes its equations and asks nobody
    factor, solve    in blocks on a 2-D grid     every rank has work until the end
    read             all on rank 0               to print and to draw

The system gives the capacitance of a thin square plate, whose value is known (square_plate.py), or it is a matrix of
your own (matrix_files.py). ScaLAPACK factors it. Then the same factorisation runs in the layout of the assembly, and
ScaLAPACK's own p?gemr2d does the same redistribution, to show what redistributing is worth and what it costs.

    mpiexec -n 4 python -m mpi4py examples/lu_phase_change.py
    mpiexec -n 4 python -m mpi4py examples/lu_phase_change.py --panels 96 --plot charge.png
    mpiexec -n 4 python -m mpi4py examples/lu_phase_change.py --matrix mine.npy --grid 2x2 --block 32
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from matrix_files import open_matrix
from mpi4py import MPI
from numpy.typing import NDArray
from phases import Phases, Refusal, on_all_ranks, timed
from square_plate import LITERATURE_CAPACITANCE, SquarePlate, draw_charge

import pyscalapack_redist as psr
from pyscalapack_redist import blacs
from pyscalapack_redist.scalapack.routines import pxgemr2d, pxgetrf, pxgetrs

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
ROUNDS = 5  # of each way to redistribute, taken in turn; the fastest counts

LocalArray = NDArray[Any]


# -- what is solved, and how it is dealt out


class LinearSystem(Protocol):
    """A square matrix that can be had some rows at a time. The right-hand side is all ones."""

    title: str
    solution_name: str
    unknowns: int
    dtype: np.dtype[Any]

    def fill(self, rows: NDArray[np.int64], local: LocalArray) -> Iterator[float]:
        """Write these rows of the matrix into `local`, step by step; yield the fraction done."""


class Layout(NamedTuple):
    """How the matrix is dealt out, and the vectors that go with it."""

    matrix: psr.Descriptor
    vector: psr.Descriptor

    @classmethod
    def by_rows(cls, unknowns: int, grid: psr.ProcessGrid) -> Layout:
        """Whole rows, on a grid of one column; the block size None stands for one block per process."""
        return cls(
            psr.Descriptor((unknowns, unknowns), (None, None), grid),
            psr.Descriptor((unknowns, 1), (None, None), grid),
        )

    @classmethod
    def in_blocks(cls, unknowns: int, block: int, grid: psr.ProcessGrid) -> Layout:
        """Square blocks, dealt to the processes in turn along both dimensions."""
        return cls(
            psr.Descriptor((unknowns, unknowns), (block, block), grid),
            psr.Descriptor((unknowns, 1), (block, block), grid),
        )

    def with_square_blocks(self) -> Layout:
        """The layout by rows, as p?getrf accepts it: with square blocks.

        On a grid of one column the width of a block changes nothing about who holds what, so the local arrays are those
        of the layout by rows, and nothing has to move.
        """
        height = self.matrix.block[0]
        return Layout(psr.Descriptor(self.matrix.shape, (height, height), self.matrix.grid), self.vector)

    def __str__(self) -> str:
        grid, block = self.matrix.grid.shape, self.matrix.block
        return f"{grid[0]}x{grid[1]}:{block[0]}x{block[1]}"


# -- the phases


class Solved(NamedTuple):
    """What the phases leave behind: this rank's rows, the plan, and on rank 0 the whole solution."""

    matrix: LocalArray
    right_side: LocalArray
    plan: psr.Redistribution
    solution: LocalArray | None


def solve(system: LinearSystem, rows: Layout, blocks: Layout, phases: Phases) -> Solved:
    """Assemble by rows, factor and solve in blocks, read the solution on rank 0. Collective."""
    letter = LETTERS[system.dtype.name]
    there = f"{rows} -> {blocks}"

    matrix = phases.run("assemble", rows, lambda: assemble(system, rows.matrix, phases.show_progress))
    right_side = rows.vector.from_function(lambda i, j: 1, system.dtype)

    plan = phases.run("plan the redistribution", there, lambda: psr.redistribute(rows.matrix, blocks.matrix))
    factors = phases.run("redistribute the matrix", there, lambda: plan(matrix))
    solution = phases.run(
        "redistribute the right-hand side", there, lambda: psr.redistribute(rows.vector, blocks.vector)(right_side)
    )

    pivots = phases.run(f"factor (p{letter}getrf)", blocks, lambda: pxgetrf(factors, blocks.matrix))
    phases.run(
        f"solve (p{letter}getrs)", blocks, lambda: pxgetrs(factors, blocks.matrix, pivots, solution, blocks.vector)
    )

    gathered = phases.run(
        f"gather the {system.solution_name}", f"{blocks} -> rank 0", lambda: psr.gather(blocks.vector, solution)
    )
    return Solved(matrix, right_side, plan, gathered)


def assemble(system: LinearSystem, desc: psr.Descriptor, show_progress: Callable[[float], None]) -> LocalArray:
    """This rank's rows of the matrix. Not collective."""
    local = desc.empty(system.dtype)
    for done in system.fill(desc.global_indices(0), local):
        show_progress(done)
    if not np.isfinite(local).all():
        raise ValueError("the matrix has elements that are infinite or not numbers")
    return local


def relative_residual(comm: MPI.Intracomm, solved: Solved) -> float:
    """norm(A x - b) / (norm(A) norm(x)), every rank with its own rows; norm(A) is Frobenius's. Collective."""
    solution = comm.bcast(solved.solution)
    difference = solved.matrix @ solution - solved.right_side
    squares = np.array([np.linalg.norm(part) ** 2 for part in (difference, solved.matrix)], np.float64)
    comm.Allreduce(MPI.IN_PLACE, squares)
    return float(np.sqrt(squares[0] / squares[1]) / np.linalg.norm(solution))


# -- is it worth it, and what does it cost


class RedistributionTimes(NamedTuple):
    """Seconds to redistribute the matrix, and whether both ways gave the same."""

    ours: float
    pxgemr2d: float
    identical: bool


def time_redistribution(comm: MPI.Intracomm, solved: Solved, rows: Layout, blocks: Layout) -> RedistributionTimes:
    """Redistribute the matrix by our plan and by ScaLAPACK's p?gemr2d, in turn. Collective."""
    ours, theirs = blocks.matrix.empty(solved.matrix.dtype), blocks.matrix.empty(solved.matrix.dtype)
    seconds = []
    for _ in range(ROUNDS):
        by_plan, _result = timed(comm, lambda: solved.plan(solved.matrix, ours))
        by_scalapack, _result = timed(comm, lambda: pxgemr2d(solved.matrix, rows.matrix, theirs, blocks.matrix))
        seconds.append((by_plan, by_scalapack))
    best_by_plan, best_by_scalapack = map(min, zip(*seconds, strict=True))
    identical = bool(comm.allreduce(np.array_equal(ours, theirs), MPI.LAND))
    return RedistributionTimes(best_by_plan, best_by_scalapack, identical)


def time_lu_by_rows(comm: MPI.Intracomm, solved: Solved, rows: Layout) -> float:
    """Seconds to factor and solve where the matrix was assembled. Collective."""
    square = rows.with_square_blocks()
    factors, solution = solved.matrix.copy(order="F"), solved.right_side.copy(order="F")

    def factor_and_solve() -> None:
        pivots = pxgetrf(factors, square.matrix)
        pxgetrs(factors, square.matrix, pivots, solution, square.vector)

    return timed(comm, factor_and_solve)[0]


def busiest_share(desc: psr.Descriptor) -> float:
    """Arithmetic of an LU that falls to the busiest process, as a multiple of an even share. Not collective.

    Step k of an LU changes the elements below and to the right of element (k, k), each where it is held.
    """
    held_beyond = []
    for axis in desc.distributions:
        owner = axis.owner(np.arange(axis.n))
        held = (owner[:, np.newaxis] == np.arange(axis.processes)).astype(np.float64)
        held_beyond.append(held.sum(axis=0) - held.cumsum(axis=0))
    work = held_beyond[0].T @ held_beyond[1]
    return float(work.max() / work.mean()) if work.any() else 1.0


# -- what rank 0 prints


def heading(system: LinearSystem, ranks: int) -> str:
    """What is about to be solved, and the head of the table of phases."""
    megabytes = system.unknowns**2 * system.dtype.itemsize / 1e6
    library = blacs.load()
    return (
        f"{system.title}\n"
        f"{system.unknowns} unknowns, {system.dtype}, {megabytes:,.1f} MB, {ranks} ranks, "
        f"ScaLAPACK of {library.vendor} ({Path(library.path).name})\n\n"
        f"{'phase':34}{'layout':34}{'seconds':>9}"
    )


def show_answer(system: LinearSystem, solution: LocalArray | None, residual: float, plot: Path | None) -> None:
    """Print and draw the answer, where it is known: on rank 0."""
    if solution is None:
        return
    if isinstance(system, SquarePlate):
        capacitance = solution.sum()
        difference = capacitance - LITERATURE_CAPACITANCE
        literature = f"literature {LITERATURE_CAPACITANCE}, difference {difference:+.5f}"
        print(f"\ncapacitance    {capacitance:.5f} x 4 pi eps0 a ({literature})")
        if plot is not None:
            draw_charge(plot, system, solution.ravel())
            print(f"charge         drawn in {plot}")
    else:
        print(f"\nnorm of x      {np.linalg.norm(solution):.6g}")
    print(f"residual       {residual:.1e} = norm(A x - b) / (norm(A) norm(x))", flush=True)


def worth(phases: Phases, lu_by_rows: float, rows: Layout, blocks: Layout) -> str:
    """What was won by redistributing before the LU."""
    with_redistribution = sum(seconds for name, seconds in phases.seconds.items() if name != "assemble")
    square = rows.with_square_blocks()
    lines = ["", f"{'Is it worth it?':34}{'layout':18}{'busiest rank':>16}{'seconds':>9}"]
    for name, layout, seconds in (
        ("LU where it was assembled", square, lu_by_rows),
        ("redistribute, LU, gather", blocks, with_redistribution),
    ):
        lines.append(f"{name:34}{layout!s:18}{busiest_share(layout.matrix):15.2f}x{seconds:9.3f}")
    lines.append(
        f"{lu_by_rows / with_redistribution:.2f} times as fast. (Busiest rank: its arithmetic against an even share.)"
    )
    return "\n".join(lines)


def cost(phases: Phases, times: RedistributionTimes, letter: str) -> str:
    """What part of the time the redistribution of the matrix takes."""
    lu = sum(seconds for name, seconds in phases.seconds.items() if name.startswith(("factor", "solve")))
    lines = ["", f"{'What does it cost?':34}{'share of redistribution + LU':>34}{'seconds':>9}"]
    for name, seconds in (("pyscalapack_redist", times.ours), (f"p{letter}gemr2d", times.pxgemr2d)):
        lines.append(f"{name:34}{seconds / (seconds + lu):34.1%}{seconds:9.3f}")
    lines.append(
        f"{times.pxgemr2d / times.ours:.1f} times as fast (best of {ROUNDS} each), and the matrices "
        f"{'are identical' if times.identical else 'DIFFER'}."
    )
    return "\n".join(lines)


# -- the program


@dataclass(frozen=True)
class Options:
    """The command line."""

    panels: int
    matrix: Path | None
    grid: tuple[int, int]
    block: int
    plot: Path | None
    comparison: bool


def read_options(comm: MPI.Intracomm) -> Options | int:
    """Rank 0 reads the command line for all, so that a mistake is told once; an exit status if it told one. Collective."""
    read: Options | int = 0
    if comm.rank == 0:
        try:
            read = Options(**vars(parser(comm.size).parse_args()))
        except SystemExit as stop:
            read = int(stop.code or 0)
    everywhere: Options | int = comm.bcast(read)
    return everywhere


def parser(ranks: int) -> argparse.ArgumentParser:
    most_square = max(rows for rows in range(1, math.isqrt(ranks) + 1) if ranks % rows == 0)
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    system = made.add_mutually_exclusive_group()
    system.add_argument(
        "--panels", type=positive, default=64, metavar="N", help="panels on a side of the plate: N * N unknowns (64)"
    )
    system.add_argument(
        "--matrix", type=Path, metavar="FILE", help="a square matrix instead, .npy or Matrix Market .mtx; b is all ones"
    )
    made.add_argument(
        "--grid",
        type=grid_shape,
        default=(most_square, ranks // most_square),
        metavar="PRxPC",
        help="rows x columns of processes for the LU (the most square grid of all ranks)",
    )
    made.add_argument("--block", type=positive, default=64, metavar="NB", help="size of the blocks for the LU (64)")
    made.add_argument("--plot", type=Path, metavar="FILE", help="draw the charge of the plate, as charge.png")
    made.add_argument("--no-comparison", dest="comparison", action="store_false", help="solve, and leave it at that")
    return made


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


def grid_shape(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} must be rows x columns of processes, such as 2x2")
    return int(found[1]), int(found[2])


def chosen_system(options: Options) -> LinearSystem:
    if options.plot is not None:
        if options.matrix is not None:
            raise ValueError("--plot draws the charge of the plate: leave it out with --matrix")
        if options.plot.suffix not in (".png", ".pdf", ".svg"):
            raise ValueError(f"--plot {options.plot}: the name must end in .png, .pdf or .svg")
        if not options.plot.absolute().parent.is_dir():
            raise ValueError(f"--plot {options.plot}: there is no such folder")
        if find_spec("matplotlib") is None:
            raise ImportError("--plot needs matplotlib: pip install matplotlib")
    return SquarePlate(options.panels) if options.matrix is None else open_matrix(options.matrix)


def run(comm: MPI.Intracomm, options: Options) -> bool:
    """Solve, compare, print and draw; true if all is as it must be. Collective."""
    system = on_all_ranks(comm, lambda: chosen_system(options))
    with (
        on_all_ranks(comm, lambda: psr.ProcessGrid((comm.size, 1), comm)) as column,
        on_all_ranks(comm, lambda: psr.ProcessGrid(options.grid, comm)) as grid,
    ):
        on_all_ranks(comm, lambda: (column.make_context(), grid.make_context()))
        rows = Layout.by_rows(system.unknowns, column)
        blocks = Layout.in_blocks(system.unknowns, options.block, grid)

        phases = Phases(comm)
        phases.say(heading(system, comm.size))
        solved = solve(system, rows, blocks, phases)
        residual = relative_residual(comm, solved)
        on_all_ranks(comm, lambda: show_answer(system, solved.solution, residual, options.plot))

        good = residual < system.unknowns * float(np.finfo(system.dtype).eps)
        if options.comparison:
            phases.say(worth(phases, time_lu_by_rows(comm, solved, rows), rows, blocks))
            times = time_redistribution(comm, solved, rows, blocks)
            phases.say(cost(phases, times, LETTERS[system.dtype.name]))
            good = good and times.identical
        return good


def main() -> int:
    comm = MPI.COMM_WORLD
    options = read_options(comm)
    if not isinstance(options, Options):
        return options
    try:
        return 0 if run(comm, options) else 1
    except Refusal as refusal:
        if comm.rank == 0:
            print(f"lu_phase_change.py: error: {refusal}", file=sys.stderr, flush=True)
        return 2


if __name__ == "__main__":
    exit_status = main()
    # all ranks got here: had they not finalized when they end with a status, `python -m mpi4py` would abort them
    MPI.Finalize()
    sys.exit(exit_status)
