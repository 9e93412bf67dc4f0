"""A dense linear system that changes its layout between phases, so that each phase has the one that suits it.

    assemble         by whole rows               a rank computes its equations and asks nobody
    factor, solve    in blocks on a 2-D grid     every rank has work until the end
    read             all on rank 0               to print and to draw

The system gives the capacitance of a thin square plate, whose value is known (square_plate.py), or it is a matrix of
your own (matrix_files.py). `linalg.solve` redistributes it, has ScaLAPACK factor it, and brings the solution to rank 0.
Then the same factorisation runs in the layout of the assembly, and ScaLAPACK's own p?gemr2d does the same redistribution,
to show what redistributing is worth and what it costs.

    mpiexec -n 4 python -m mpi4py examples/lu_phase_change.py
    mpiexec -n 4 python -m mpi4py examples/lu_phase_change.py --panels 96 --plot charge.png
    mpiexec -n 4 python -m mpi4py examples/lu_phase_change.py --matrix mine.npy --grid 2x2 --block 32
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from matrix_files import open_matrix
from mpi4py import MPI
from numpy.typing import NDArray
from phases import (
    Phases,
    grid_shape,
    most_square,
    on_all_ranks,
    options_parser,
    positive,
    read_words,
    say,
    start,
    timed,
)
from square_plate import LITERATURE_CAPACITANCE, SquarePlate, draw_charge

import pyscalapack_redist as psr
from pyscalapack_redist import blacs
from pyscalapack_redist.scalapack import pxgemr2d

ROUNDS = 5  # of each way to redistribute, taken in turn; the fastest counts

LocalArray = NDArray[Any]


# -- what is solved


class LinearSystem(Protocol):
    """A square matrix that can be had some rows at a time. The right-hand side is all ones."""

    title: str
    solution_name: str
    unknowns: int
    dtype: np.dtype[Any]

    def fill(self, rows: NDArray[np.int64], local: LocalArray) -> Iterator[float]:
        """Write these rows of the matrix into `local`, step by step; yield the fraction done."""


# -- the phases


class Solved(NamedTuple):
    """What the phases leave behind: the system by rows, on every rank the solution, and how long it took."""

    a: psr.DistributedArray
    b: psr.DistributedArray
    solution: LocalArray
    seconds: float
    phases: psr.Phases  # with the seconds of the slowest rank


def assemble(comm: MPI.Intracomm, system: LinearSystem, phases: Phases) -> tuple[psr.DistributedArray, ...]:
    """The matrix by whole rows, and the right-hand side. Collective."""
    column = psr.ProcessGrid((comm.size, 1), comm)
    rows, sides = (psr.Descriptor((system.unknowns, n), (None, None), column) for n in (system.unknowns, 1))

    def fill() -> LocalArray:
        local = rows.empty(system.dtype)
        for done in system.fill(rows.global_indices(0), local):
            phases.show_progress(done)
        if not np.isfinite(local).all():
            raise ValueError("the matrix has elements that are infinite or not numbers")
        return local

    local = phases.run("assemble", in_short(rows), fill)
    return psr.DistributedArray(rows, local), psr.DistributedArray.from_function(sides, lambda i, j: 1, system.dtype)


def solve(comm: MPI.Intracomm, a: psr.DistributedArray, b: psr.DistributedArray, blocks: psr.Descriptor) -> Solved:
    """Factor and solve in blocks, and read the solution on rank 0. Collective."""
    rank_0 = psr.Descriptor(b.shape, None, psr.ProcessGrid((1, 1), comm))
    with psr.timings() as phases:
        seconds, x = timed(comm, lambda: on_all_ranks(comm, lambda: psr.linalg.solve(a, b, layout=blocks, like=rank_0)))
    return Solved(a, b, comm.bcast(x.local), seconds, phases.max(comm))


def relative_residual(comm: MPI.Intracomm, solved: Solved) -> float:
    """norm(A x - b) / (norm(A) norm(x)), every rank with its own rows; norm(A) is Frobenius's. Collective."""
    matrix: Any = solved.a.local
    squares = np.array(
        [np.linalg.norm(part) ** 2 for part in (matrix @ solved.solution - solved.b.local, matrix)], float
    )
    comm.Allreduce(MPI.IN_PLACE, squares)
    return float(np.sqrt(squares[0] / squares[1]) / np.linalg.norm(solved.solution))


# -- is it worth it, and what does it cost


class RedistributionTimes(NamedTuple):
    """Seconds to redistribute the matrix, and whether both ways gave the same."""

    ours: float
    pxgemr2d: float
    identical: bool


def time_redistribution(comm: MPI.Intracomm, a: psr.DistributedArray, blocks: psr.Descriptor) -> RedistributionTimes:
    """Redistribute the matrix by our plan and by ScaLAPACK's p?gemr2d, in turn. Collective."""
    with a.desc.grid, blocks.grid:
        on_all_ranks(comm, lambda: (a.desc.grid.make_context(), blocks.grid.make_context()))
        plan = psr.redistribute(a.desc, blocks)
        ours, theirs = (psr.DistributedArray(blocks, blocks.empty(a.local.dtype)) for _ in range(2))  # type: ignore[union-attr]
        seconds = []
        for _ in range(ROUNDS):
            by_plan, _result = timed(comm, lambda: plan(a, ours))
            by_scalapack, _result = timed(comm, lambda: pxgemr2d(a, theirs))
            seconds.append((by_plan, by_scalapack))
    identical = bool(comm.allreduce(np.array_equal(ours.local, theirs.local), MPI.LAND))
    return RedistributionTimes(*map(min, zip(*seconds, strict=True)), identical=identical)


def square_blocks(rows: psr.Descriptor) -> psr.Descriptor:
    """The layout by rows, as p?getrf accepts it: with square blocks.

    On a grid of one column the width of a block changes nothing about who holds what, so the local arrays are those
    of the layout by rows, and nothing has to move.
    """
    height = rows.block[0]
    return psr.Descriptor(rows.shape, (height, height), rows.grid)


def time_lu_by_rows(comm: MPI.Intracomm, solved: Solved) -> float:
    """Seconds to factor and solve where the matrix was assembled. Collective."""
    square = square_blocks(solved.a.desc)
    a, b = psr.DistributedArray(square, solved.a.local).copy(), solved.b.copy()
    work = lambda: psr.linalg.solve(a, b, layout=square, overwrite_a=True, overwrite_b=True)  # noqa: E731
    return timed(comm, lambda: on_all_ranks(comm, work))[0]


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


def in_short(desc: psr.Descriptor) -> str:
    """Grid and blocks, as psr.timings writes them."""
    grid, block = desc.grid.shape, desc.block
    return f"{grid[0]}x{grid[1]}:{block[0]}x{block[1]}"


def heading(system: LinearSystem, ranks: int) -> str:
    """What is about to be solved."""
    megabytes = system.unknowns**2 * system.dtype.itemsize / 1e6
    library = blacs.load()
    return (
        f"{system.title}\n"
        f"{system.unknowns} unknowns, {system.dtype}, {megabytes:,.1f} MB, {ranks} ranks, "
        f"ScaLAPACK of {library.vendor} ({Path(library.path).name})\n"
    )


def show_answer(system: LinearSystem, solution: LocalArray, residual: float, plot: Path | None) -> None:
    """Print and draw the answer: on rank 0."""
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


def worth(solved: Solved, blocks: psr.Descriptor, lu_by_rows: float) -> str:
    """What was won by redistributing before the LU."""
    lines = ["", f"{'Is it worth it?':34}{'layout':18}{'busiest rank':>16}{'seconds':>9}"]
    for name, layout, seconds in (
        ("LU where it was assembled", square_blocks(solved.a.desc), lu_by_rows),
        ("redistribute, LU, gather", blocks, solved.seconds),
    ):
        lines.append(f"{name:34}{in_short(layout):18}{busiest_share(layout):15.2f}x{seconds:9.3f}")
    lines.append(
        f"{lu_by_rows / solved.seconds:.2f} times as fast. (Busiest rank: its arithmetic against an even share.)"
    )
    return "\n".join(lines)


def cost(solved: Solved, times: RedistributionTimes) -> str:
    """What part of the time the redistribution of the matrix takes."""
    routines = [phase for phase in solved.phases if phase.name.endswith(("getrf", "getrs"))]
    lu = sum(phase.seconds for phase in routines)
    lines = ["", f"{'What does it cost?':34}{'share of redistribution + LU':>34}{'seconds':>9}"]
    for name, seconds in (("pyscalapack_redist", times.ours), ("pxgemr2d", times.pxgemr2d)):
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


def read_options(comm: MPI.Intracomm, words: list[str]) -> Options | None:
    """The command line, None where only help was wanted; raises a Refusal where it is wrong. Not collective."""
    parser = options_parser("lu_phase_change.py", __doc__)
    system = parser.add_mutually_exclusive_group()
    system.add_argument(
        "--panels", type=positive, default=64, metavar="N", help="panels on a side of the plate: N * N unknowns (64)"
    )
    system.add_argument(
        "--matrix", type=Path, metavar="FILE", help="a square matrix instead, .npy or Matrix Market .mtx; b is all ones"
    )
    parser.add_argument(
        "--grid",
        type=grid_shape,
        default=most_square(comm.size),
        metavar="PRxPC",
        help="rows x columns of processes for the LU (the most square grid of all ranks)",
    )
    parser.add_argument("--block", type=positive, default=64, metavar="NB", help="size of the blocks for the LU (64)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the charge of the plate, as charge.png")
    parser.add_argument("--no-comparison", dest="comparison", action="store_false", help="solve, and leave it at that")
    given = read_words(parser, comm, words, "there are --panels, --matrix, --grid, --block, --plot and --no-comparison")
    if given is None:
        return None
    return Options(given.panels, given.matrix, given.grid, given.block, given.plot, given.comparison)


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
    grid = on_all_ranks(comm, lambda: psr.ProcessGrid(options.grid, comm))
    blocks = psr.Descriptor((system.unknowns, system.unknowns), options.block, grid)
    say(comm, on_all_ranks(comm, lambda: heading(system, comm.size)))

    a, b = assemble(comm, system, Phases(comm))
    solved = solve(comm, a, b, blocks)
    say(comm, f"\n{solved.phases}")
    residual = relative_residual(comm, solved)
    on_all_ranks(comm, lambda: show_answer(system, solved.solution, residual, options.plot) if comm.rank == 0 else None)

    good = residual < system.unknowns * float(np.finfo(system.dtype).eps)
    if options.comparison:
        say(comm, worth(solved, blocks, time_lu_by_rows(comm, solved)))
        times = time_redistribution(comm, a, blocks)
        say(comm, cost(solved, times))
        good = good and times.identical
    return good


if __name__ == "__main__":
    start(read_options, run)
