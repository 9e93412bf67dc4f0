"""A dense Hermitian eigenproblem that changes its layout between phases, so that each phase has the one that suits it.

    assemble            by whole rows               a rank computes its rows and asks nobody
    p?syevd             in blocks on a 2-D grid     of the size that is fastest, which is tried first
    look at the states  by whole columns            a rank has its states whole, and asks nobody

The matrix is the Hamiltonian of an electron on a square lattice with a random potential, in a magnetic field
(complex) or without one (real), or a matrix of your own. The energies and states are verified: their residual, and that
they are orthonormal. Then p?syevd runs where the matrix was assembled, to show what redistributing is worth.

    mpiexec -n 4 python -m mpi4py examples/eigen_phase_change.py
    mpiexec -n 4 python -m mpi4py examples/eigen_phase_change.py --side 24 --flux 0.25 --grid 2x2 --blocks 32
    mpiexec -n 4 python -m mpi4py examples/eigen_phase_change.py --matrix mine.npy --blocks 16 32 64
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from lu_phase_change import LETTERS, grid_shape, positive
from matrix_files import open_matrix
from mpi4py import MPI
from numpy.typing import NDArray
from phases import Phases, Refusal, on_all_ranks, timed

import pyscalapack_redist as psr
from pyscalapack_redist import blacs
from pyscalapack_redist.scalapack import pxsyevd

TRIED = 320  # order of the leading part of the matrix on which block sizes are tried
ROUNDS = 2  # of each, of which the fastest counts

LocalArray = NDArray[Any]


# -- what is solved


class Problem(Protocol):
    """A Hermitian matrix that can be had some rows at a time."""

    unknowns: int
    dtype: np.dtype[Any]

    def fill(self, rows: NDArray[np.int64], local: LocalArray) -> Iterator[float]:
        """Write these rows of the matrix into `local`, step by step; yield the fraction done."""


class Lattice:
    """An electron on a square lattice: it hops to the four neighbours, and every site has a random energy.

    Site k is the one in column k // side and row k % side. A hop to the next column turns the phase by the field's flux
    through the cells below it (Harper, Proc. Phys. Soc. A 68 (1955) 874; Peierls' substitution).
    """

    def __init__(self, side: int, disorder: float, flux: float) -> None:
        self.side, self.flux = side, flux
        self.unknowns = side * side
        self.dtype = np.dtype(np.complex128 if flux else np.float64)
        self.energies = disorder * (np.random.default_rng(1).random(self.unknowns) - 0.5)

    def fill(self, rows: NDArray[np.int64], local: LocalArray) -> Iterator[float]:
        """Write these rows of the Hamiltonian into `local`, in one step."""
        local[...] = 0
        here = np.arange(len(rows))
        local[here, rows] = self.energies[rows]
        column, row = np.divmod(rows, self.side)
        turn = np.exp(2j * np.pi * self.flux * row) if self.flux else np.ones(len(rows))
        for towards, hop, inside in (
            (self.side, -turn, column + 1 < self.side),
            (-self.side, -turn.conj(), column > 0),
            (1, -np.ones(len(rows)), row + 1 < self.side),
            (-1, -np.ones(len(rows)), row > 0),
        ):
            local[here[inside], rows[inside] + towards] = hop[inside]
        yield 1.0


# -- the phases


class Layouts(NamedTuple):
    """How the matrix is dealt out in each phase."""

    rows: psr.Descriptor
    blocks: psr.Descriptor
    columns: psr.Descriptor


class Solved(NamedTuple):
    """What the phases leave behind: this rank's rows of the matrix, all energies, and this rank's states."""

    matrix: LocalArray
    energies: NDArray[Any]
    states: LocalArray


def solve(comm: MPI.Intracomm, problem: Problem, layouts: Layouts, phases: Phases) -> Solved:
    """Assemble by rows, solve in blocks, look at the states by columns. Collective."""
    rows, blocks, columns = layouts
    matrix = phases.run("assemble", shown(rows), lambda: assemble(comm, problem, rows, phases.show_progress))
    there, back = f"{shown(rows)} -> {shown(blocks)}", f"{shown(blocks)} -> {shown(columns)}"
    to_blocks = phases.run("plan", there, lambda: psr.redistribute(rows, blocks, comm=comm, dtype=problem.dtype))
    to_columns = phases.run("plan for the way back", back, lambda: psr.redistribute(blocks, columns, comm=comm))
    dealt = phases.run("redistribute the matrix", there, lambda: to_blocks(matrix))
    letter = LETTERS[problem.dtype.name]
    routine = f"p{letter}{'he' if letter in 'cz' else 'sy'}evd"
    pairs = phases.run(f"solve ({routine})", shown(blocks), lambda: pxsyevd(dealt, blocks))
    energies: NDArray[Any] = comm.bcast(pairs.values, root=int(blocks.grid.ranks[0, 0]))
    states: Any = phases.run(
        "redistribute the states", back, lambda: to_columns(pairs.vectors, columns.empty(problem.dtype))
    )
    return Solved(matrix, energies, states)


def assemble(
    comm: MPI.Intracomm, problem: Problem, desc: psr.Descriptor, show_progress: Callable[[float], None]
) -> LocalArray:
    """This rank's rows of the matrix, which must be Hermitian. Collective."""
    local = desc.empty(problem.dtype)
    for done in problem.fill(desc.global_indices(0), local):
        show_progress(done)
    mirrored = psr.redistribute(desc, desc, op="C")(local)
    apart = comm.allreduce(float(np.abs(mirrored - local).max(initial=0)), MPI.MAX)
    if not apart <= 1e-6 * comm.allreduce(float(np.abs(local).max(initial=0)), MPI.MAX):
        raise ValueError(
            f"the matrix is not Hermitian: an element differs by {apart:.1e} from the mirrored one's conjugate"
        )
    return local


def sites_per_state(solved: Solved) -> NDArray[np.float64]:
    """Over how many sites each of this rank's states is spread, 1 / sum |z|^4. Not collective: a state is whole here."""
    spread: NDArray[np.float64] = 1 / (np.abs(solved.states) ** 4).sum(axis=0)
    return spread


# -- the block size


def fastest_block(
    comm: MPI.Intracomm, problem: Problem, grid: psr.ProcessGrid, candidates: list[int]
) -> tuple[int, str]:
    """The block size with which p?syevd is fastest on the leading part of the matrix, and the table of all. Collective."""
    n = min(TRIED, problem.unknowns)
    lines = [f"{'blocks tried on order ' + str(n):34}{'':34}{'seconds':>9}"]
    best: dict[int, float] = {}
    for block in candidates:
        whole_matrix_in_one = grid.size > 1 and block >= n > 1
        if whole_matrix_in_one:
            continue
        desc = psr.Descriptor((n, n), (block, block), grid)
        local = np.zeros((len(desc.global_indices(0)), problem.unknowns), problem.dtype)
        if desc.coords is not None:
            for _ in problem.fill(desc.global_indices(0), local):
                pass
        part = None if desc.coords is None else np.asfortranarray(local[:, desc.global_indices(1)])
        for _ in range(ROUNDS):
            again = None if part is None else part.copy(order="F")
            seconds, _ = timed(comm, lambda desc=desc, again=again: pxsyevd(again, desc))  # type: ignore[misc]
            best[block] = min(seconds, best.get(block, seconds))
        lines.append(f"{block:6}{'':62}{best[block]:9.3f}")
    if not best:
        raise Refusal(
            f"--blocks {' '.join(map(str, candidates))}: for a matrix of order {n} on {grid.size} ranks p?syevd needs blocks "
            f"smaller than that"
        )
    chosen = comm.bcast(min(best, key=lambda block: best[block]))
    return chosen, "\n".join(lines) + f"\nfastest: {chosen}\n"


# -- the check


class Errors(NamedTuple):
    """How wrong the result is, relative to the largest energy and to 1."""

    residual: float
    orthogonality: float


def errors(comm: MPI.Intracomm, solved: Solved, layouts: Layouts) -> Errors:
    """max |A Z - Z E| / max |E|, and max |Z^H Z - 1|; every rank with its own states, to which all others' come. Collective."""
    mine = layouts.columns.global_indices(1)
    energies = solved.energies
    residual = orthogonality = 0.0
    for rank in range(comm.size):
        held, matrix = comm.bcast((layouts.rows.global_indices(0), solved.matrix), root=rank)
        difference = matrix @ solved.states - solved.states[held] * energies[mine]
        residual = max(residual, float(np.abs(difference).max(initial=0)))
        theirs, states = comm.bcast((mine, solved.states), root=rank)
        product = states.conj().T @ solved.states - (theirs[:, np.newaxis] == mine)
        orthogonality = max(orthogonality, float(np.abs(product).max(initial=0)))
    scale = float(np.abs(energies).max()) or 1.0
    return Errors(comm.allreduce(residual, MPI.MAX) / scale, comm.allreduce(orthogonality, MPI.MAX))


def time_by_rows(comm: MPI.Intracomm, solved: Solved, rows: psr.Descriptor) -> float:
    """Seconds of p?syevd where the matrix was assembled; on one column of ranks, the width of a block moves nothing."""
    height = rows.block[0]
    square = psr.Descriptor(rows.shape, (height, height), rows.grid)
    again = solved.matrix.copy(order="F")
    return timed(comm, lambda: pxsyevd(again, square))[0]


# -- the program


@dataclass(frozen=True)
class Options:
    """The command line."""

    side: int
    disorder: float
    flux: float
    matrix: Path | None
    grid: tuple[int, int]
    blocks: list[int]
    comparison: bool


def shown(desc: psr.Descriptor) -> str:
    """A layout in a few letters."""
    return f"{desc.grid.shape[0]}x{desc.grid.shape[1]}:{desc.block[0]}x{desc.block[1]}"


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
    most_square = max(rows for rows in range(1, int(ranks**0.5) + 1) if ranks % rows == 0)
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--side", type=positive, default=24, metavar="N", help="sites on a side: order N * N (24)")
    made.add_argument("--disorder", type=float, default=2.0, metavar="W", help="width of the random energies (2)")
    made.add_argument(
        "--flux", type=float, default=0.0, metavar="F", help="flux through a cell, in quanta; 0 is real (0)"
    )
    made.add_argument(
        "--matrix", type=Path, metavar="FILE", help="a Hermitian matrix instead, .npy or Matrix Market .mtx"
    )
    made.add_argument(
        "--grid",
        type=grid_shape,
        default=(most_square, ranks // most_square),
        metavar="PRxPC",
        help="rows x columns of processes for p?syevd (the most square grid of all ranks)",
    )
    made.add_argument(
        "--blocks",
        type=positive,
        nargs="+",
        default=[16, 32, 64],
        metavar="NB",
        help="sizes of blocks to try (16 32 64)",
    )
    made.add_argument("--no-comparison", dest="comparison", action="store_false", help="solve, and leave it at that")
    return made


def run(comm: MPI.Intracomm, options: Options) -> bool:
    """Solve, verify, compare, print; true if all is as it must be. Collective."""
    problem: Problem = on_all_ranks(
        comm,
        lambda: (
            open_matrix(options.matrix) if options.matrix else Lattice(options.side, options.disorder, options.flux)
        ),
    )
    n, size = problem.unknowns, comm.size
    with (
        psr.ProcessGrid((size, 1), comm) as column,
        on_all_ranks(comm, lambda: psr.ProcessGrid(options.grid, comm)) as grid,
    ):
        on_all_ranks(comm, lambda: (column.make_context(), grid.make_context()))
        phases = Phases(comm)
        phases.say(f"order {n}, {problem.dtype}, {size} ranks, ScaLAPACK of {blacs.load().vendor}\n")
        block, table = fastest_block(comm, problem, grid, options.blocks)
        phases.say(table)
        layouts = Layouts(
            psr.Descriptor((n, n), (None, None), column),
            psr.Descriptor((n, n), (block, block), grid),
            psr.Descriptor((n, n), (None, None), psr.ProcessGrid((1, size), comm)),
        )
        phases.say(f"{'phase':34}{'layout':34}{'seconds':>9}")
        solved = solve(comm, problem, layouts, phases)
        spread = phases.run("look at the states", shown(layouts.columns), lambda: sites_per_state(solved))
        largest = comm.allreduce(float(spread.max(initial=0)), MPI.MAX)
        wrong = errors(comm, solved, layouts)
        limit = 10 * n * float(np.finfo(problem.dtype).eps)
        right = max(wrong) < limit
        phases.say(
            f"\nlowest energy  {solved.energies[0]:.6f}, highest {solved.energies[-1]:.6f}; "
            f"the widest state covers {largest:.1f} of {n} sites\n"
            f"residual       {wrong.residual:.1e}, orthogonality {wrong.orthogonality:.1e}{'' if right else ': WRONG'}"
        )
        if options.comparison and (size == 1 or layouts.rows.block[0] < n):
            by_rows = time_by_rows(comm, solved, layouts.rows)
            ours = sum(phases.seconds[name] for name in phases.seconds if name.startswith(("plan", "redis", "solve")))
            moved = sum(phases.seconds[name] for name in phases.seconds if name.startswith(("plan", "redis")))
            phases.say(
                f"worth          {by_rows:.3f} s where it was assembled, {ours:.3f} s with redistribution, of which "
                f"{moved:.3f} s for redistributing: {by_rows / ours:.2f} times as fast"
            )
        return right


def main() -> int:
    comm = MPI.COMM_WORLD
    options = read_options(comm)
    if not isinstance(options, Options):
        return options
    try:
        return 0 if run(comm, options) else 1
    except Refusal as refusal:
        if comm.rank == 0:
            print(f"eigen_phase_change.py: error: {refusal}", file=sys.stderr, flush=True)
        return 2


if __name__ == "__main__":
    exit_status = main()
    # all ranks got here: had they not finalized when they end with a status, `python -m mpi4py` would abort them
    MPI.Finalize()
    sys.exit(exit_status)
