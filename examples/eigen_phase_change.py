"""A dense Hermitian eigenproblem that changes its layout between phases, so that each phase has the one that suits it.

    assemble            by whole rows               a rank computes its rows and asks nobody
    p?syevd             in blocks on a 2-D grid     of the size that is fastest, which is tried first
    look at the states  by whole columns            a rank has its states whole, and asks nobody

The matrix is the Hamiltonian of an electron on a square lattice with a random potential, in a magnetic field
(complex) or without one (real), or a matrix of your own. `linalg.eigh` redistributes it, calls p?syevd, and hands the
states out. Energies and states are verified: their residual, and that they are orthonormal. Then p?syevd runs where the
matrix was assembled, to show what redistributing is worth.

    mpiexec -n 4 python -m mpi4py examples/eigen_phase_change.py
    mpiexec -n 4 python -m mpi4py examples/eigen_phase_change.py --side 24 --flux 0.25 --grid 2x2 --blocks 32
    mpiexec -n 4 python -m mpi4py examples/eigen_phase_change.py --matrix mine.npy --blocks 16 32 64
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from lu_phase_change import in_short, square_blocks
from matrix_files import open_matrix
from mpi4py import MPI
from numpy.typing import NDArray
from phases import (
    Phases,
    Refusal,
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

import pyscalapack_redist as psr
from pyscalapack_redist import blacs

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


def assemble(comm: MPI.Intracomm, problem: Problem, phases: Phases) -> psr.DistributedArray:
    """The matrix by whole rows, which must be Hermitian. Collective."""
    rows = psr.Descriptor((problem.unknowns, problem.unknowns), (None, None), psr.ProcessGrid((comm.size, 1), comm))

    def fill() -> psr.DistributedArray:
        local = rows.empty(problem.dtype)
        for done in problem.fill(rows.global_indices(0), local):
            phases.show_progress(done)
        matrix = psr.DistributedArray(rows, local)
        mirrored: Any = matrix.redistribute(rows, op="C").local
        apart = comm.allreduce(float(np.abs(mirrored - local).max(initial=0)), MPI.MAX)
        if not apart <= 1e-6 * comm.allreduce(float(np.abs(local).max(initial=0)), MPI.MAX):
            raise ValueError(
                f"the matrix is not Hermitian: an element differs by {apart:.1e} from the mirrored one's conjugate"
            )
        return matrix

    return phases.run("assemble", in_short(rows), fill)


class Solved(NamedTuple):
    """What the phases leave behind: all energies, the states by whole columns, and how long it took."""

    energies: NDArray[Any]
    states: psr.DistributedArray
    seconds: float
    phases: psr.Phases  # with the seconds of the slowest rank


def solve(comm: MPI.Intracomm, matrix: psr.DistributedArray, blocks: psr.Descriptor) -> Solved:
    """Solve in blocks, and hand the states out by columns. Collective."""
    columns = psr.Descriptor(matrix.shape, (None, None), psr.ProcessGrid((1, comm.size), comm))
    with psr.timings() as phases:
        seconds, pairs = timed(
            comm, lambda: on_all_ranks(comm, lambda: psr.linalg.eigh(matrix, layout=blocks, like=columns))
        )
    return Solved(pairs.eigenvalues, pairs.eigenvectors, seconds, phases.max(comm))


def sites_per_state(solved: Solved) -> NDArray[np.float64]:
    """Over how many sites each of this rank's states is spread, 1 / sum |z|^4. Not collective: a state is whole here."""
    states: Any = solved.states.local
    spread: NDArray[np.float64] = 1 / (np.abs(states) ** 4).sum(axis=0)
    return spread


# -- the block size


def fastest_block(
    comm: MPI.Intracomm, matrix: psr.DistributedArray, grid: psr.ProcessGrid, candidates: list[int]
) -> tuple[int, str]:
    """The block size with which p?syevd is fastest on the leading part of the matrix, and the table of all. Collective."""
    n = min(TRIED, matrix.shape[0])
    lines = [f"\nblocks tried on order {n}"]
    best: dict[int, float] = {}
    for block in candidates:
        whole_matrix_in_one = grid.size > 1 and block >= n > 1
        if whole_matrix_in_one:
            continue
        part = matrix[:n, :n].redistribute(psr.Descriptor((n, n), block, grid))
        best[block] = min(time_in_place(comm, part) for _ in range(ROUNDS))
        lines.append(f"{block:6}{'':62}{best[block]:9.3f} s")
    if not best:
        raise Refusal(
            f"--blocks {' '.join(map(str, candidates))}: for a matrix of order {n} on {grid.size} ranks p?syevd needs blocks "
            f"smaller than that"
        )
    chosen = comm.bcast(min(best, key=lambda block: best[block]))
    return chosen, "\n".join(lines) + f"\nfastest: {chosen}\n"


def time_in_place(comm: MPI.Intracomm, matrix: psr.DistributedArray) -> float:
    """Seconds of p?syevd in the layout that a matrix is in. Collective."""
    again = matrix.copy()
    work = lambda: psr.linalg.eigh(again, layout=again, overwrite_a=True)  # noqa: E731
    return timed(comm, lambda: on_all_ranks(comm, work))[0]


# -- the check


class Errors(NamedTuple):
    """How wrong the result is, relative to the largest energy and to 1."""

    residual: float
    orthogonality: float


def errors(comm: MPI.Intracomm, matrix: psr.DistributedArray, solved: Solved) -> Errors:
    """max |A Z - Z E| / max |E|, and max |Z^H Z - 1|; every rank looks at its own columns. Collective."""
    states, energies = solved.states, solved.energies
    mine = states.desc.global_indices(1)
    here: Any = states.local
    images: Any = psr.linalg.matmul(matrix, states, like=states).local
    products: Any = psr.linalg.matmul(states.H, states, like=states).local
    residual = float(np.abs(images - here * energies[mine]).max(initial=0))
    orthogonality = float(np.abs(products - (np.arange(len(energies))[:, np.newaxis] == mine)).max(initial=0))
    scale = float(np.abs(energies).max()) or 1.0
    return Errors(comm.allreduce(residual, MPI.MAX) / scale, comm.allreduce(orthogonality, MPI.MAX))


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


def read_options(comm: MPI.Intracomm, words: list[str]) -> Options | None:
    """The command line, None where only help was wanted; raises a Refusal where it is wrong. Not collective."""
    parser = options_parser("eigen_phase_change.py", __doc__)
    parser.add_argument("--side", type=positive, default=24, metavar="N", help="sites on a side: order N * N (24)")
    parser.add_argument("--disorder", type=float, default=2.0, metavar="W", help="width of the random energies (2)")
    parser.add_argument(
        "--flux", type=float, default=0.0, metavar="F", help="flux through a cell, in quanta; 0 is real (0)"
    )
    parser.add_argument(
        "--matrix", type=Path, metavar="FILE", help="a Hermitian matrix instead, .npy or Matrix Market .mtx"
    )
    parser.add_argument(
        "--grid",
        type=grid_shape,
        default=most_square(comm.size),
        metavar="PRxPC",
        help="rows x columns of processes for p?syevd (the most square grid of all ranks)",
    )
    parser.add_argument(
        "--blocks",
        type=positive,
        nargs="+",
        default=[16, 32, 64],
        metavar="NB",
        help="sizes of blocks to try (16 32 64)",
    )
    parser.add_argument("--no-comparison", dest="comparison", action="store_false", help="solve, and leave it at that")
    there_are = "there are --side, --disorder, --flux, --matrix, --grid, --blocks and --no-comparison"
    given = read_words(parser, comm, words, there_are)
    if given is None:
        return None
    return Options(given.side, given.disorder, given.flux, given.matrix, given.grid, given.blocks, given.comparison)


def run(comm: MPI.Intracomm, options: Options) -> bool:
    """Solve, verify, compare, print; true if all is as it must be. Collective."""
    problem: Problem = on_all_ranks(
        comm,
        lambda: (
            open_matrix(options.matrix) if options.matrix else Lattice(options.side, options.disorder, options.flux)
        ),
    )
    n, size = problem.unknowns, comm.size
    grid = on_all_ranks(comm, lambda: psr.ProcessGrid(options.grid, comm))
    vendor = on_all_ranks(comm, blacs.load).vendor
    say(comm, f"order {n}, {problem.dtype}, {size} ranks, ScaLAPACK of {vendor}\n")
    phases = Phases(comm)
    matrix = assemble(comm, problem, phases)
    block, table = fastest_block(comm, matrix, grid, options.blocks)
    say(comm, table)
    solved = solve(comm, matrix, psr.Descriptor((n, n), block, grid))
    say(comm, f"{solved.phases}\n")
    spread = phases.run("look at the states", in_short(solved.states.desc), lambda: sites_per_state(solved))
    largest = comm.allreduce(float(spread.max(initial=0)), MPI.MAX)
    wrong = on_all_ranks(comm, lambda: errors(comm, matrix, solved))
    right = max(wrong) < 10 * n * float(np.finfo(problem.dtype).eps)
    say(
        comm,
        f"\nlowest energy  {solved.energies[0]:.6f}, highest {solved.energies[-1]:.6f}; "
        f"the widest state covers {largest:.1f} of {n} sites\n"
        f"residual       {wrong.residual:.1e}, orthogonality {wrong.orthogonality:.1e}{'' if right else ': WRONG'}",
    )
    square = square_blocks(matrix.desc)
    if options.comparison and (size == 1 or square.block[0] < n):
        by_rows = time_in_place(comm, psr.DistributedArray(square, matrix.local))
        moved = sum(phase.seconds for phase in solved.phases if phase.name.startswith("redistribute"))
        say(
            comm,
            f"worth          {by_rows:.3f} s where it was assembled, {solved.seconds:.3f} s with redistribution, of which "
            f"{moved:.3f} s for redistributing: {by_rows / solved.seconds:.2f} times as fast",
        )
    return right


if __name__ == "__main__":
    start(read_options, run)
