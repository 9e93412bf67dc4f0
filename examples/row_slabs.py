"""A linear system whose matrix lies in slabs of rows, or in the chunks of a dask array: into ScaLAPACK, solved, and back.

    mpiexec -n 4 python -m mpi4py examples/row_slabs.py --order 800
    mpiexec -n 4 python -m mpi4py examples/row_slabs.py --rows 310 0 205 285
    mpiexec -n 4 python -m mpi4py examples/row_slabs.py --order 800 --chunk 150

Slabs of any heights are one layout, with irregular blocks of rows, and one plan moves them. Square chunks on any rank are
not: each is a matrix on one process and goes into its part of ScaLAPACK's matrix, which is a sub-array of the layout. All
are on their way at once.

With --chunk the matrix is a dask array in square chunks of that size. The ranks compute the chunks in turn, none computes two
times, and the solution is handed back to dask, which verifies it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, pairwise, product
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from phases import Phases, Refusal, on_all_ranks, options_parser, read_words, start

import pyscalapack_redist as psr
from pyscalapack_redist.scalapack.routines import pxgetrf, pxgetrs

Array = NDArray[np.float64]


def element(i: NDArray[np.int64], j: NDArray[np.int64]) -> Array:
    """The matrix, as a function of the global indices."""
    values: Array = 3.0 * (i == j) + np.cos(0.7 * i * i + 1.3 * j) / (1 + np.abs(i - j))
    return values


def right_side(i: NDArray[np.int64]) -> Array:
    """The right-hand side."""
    values: Array = np.sin(1.0 + i)
    return values


class Rows(NamedTuple):
    """Rows of the solution that this rank has."""

    first: int
    values: Array


# -- slabs: one layout


@dataclass(frozen=True)
class Slabs:
    """Slabs of ordinary arrays, of any number of rows on each rank: the layout of irregular blocks."""

    desc: psr.Descriptor
    array: Array
    way = "one plan"

    @classmethod
    def of(cls, comm: MPI.Intracomm, heights: Sequence[int]) -> Slabs:
        """The matrix of so many rows on each rank. Not collective."""
        desc = psr.Descriptor((sum(heights),) * 2, (psr.Blocks(heights), None), psr.ProcessGrid((comm.size, 1), comm))
        return cls(desc, desc.from_function(element))

    @property
    def title(self) -> str:
        """What it is, in words."""
        heights = [self.desc.local_shape_of((rank, 0))[0] for rank in range(self.desc.grid.size)]
        return f"slabs of {' '.join(map(str, heights))} rows"

    def matrix_in(self, desc: psr.Descriptor) -> Array | None:
        """This rank's part of the matrix in ScaLAPACK's layout. Collective."""
        local: Array | None = psr.redistribute(self.desc, desc)(self.array)
        return local

    def sides_in(self, desc: psr.Descriptor) -> Array | None:
        """This rank's part of the right-hand side in ScaLAPACK's layout. Collective."""
        local: Array | None = psr.redistribute(self._column, desc)(right_side(self._rows)[:, np.newaxis])
        return local

    def solution(self, desc: psr.Descriptor, local: Array | None) -> list[Rows]:
        """The rows of the solution that this rank's slab has. Collective."""
        x = psr.redistribute(desc, self._column, dtype=np.float64)(local)
        return [Rows(int(self._rows[0]), x[:, 0])] if x is not None and x.size else []

    def residual(self, comm: MPI.Intracomm, x: Array) -> float:
        """max |A x - b|. Collective."""
        wrong = np.abs(self.array @ x - right_side(self._rows)).max(initial=0)
        return float(comm.allreduce(float(wrong), MPI.MAX))

    @property
    def _rows(self) -> NDArray[np.int64]:
        return self.desc.global_indices(0)

    @property
    def _column(self) -> psr.Descriptor:
        return psr.Descriptor((self.desc.shape[0], 1), (self.desc.block[0], None), self.desc.grid)


# -- chunks: each a part of the matrix that lies whole on one rank


class Piece(NamedTuple):
    """Rows and columns of the matrix, and the rank that has them as an ordinary array."""

    rows: slice
    columns: slice
    rank: int


@dataclass(frozen=True)
class Chunks:
    """A dask array, of which each rank computes its chunks, dealt to the ranks in turn."""

    comm: MPI.Intracomm
    matrix: Any
    pieces: list[Piece]
    arrays: list[Array | None]

    @classmethod
    def of(cls, comm: MPI.Intracomm, n: int, chunk: int) -> Chunks:
        """The matrix in square chunks. Not collective."""
        import dask.array as da

        matrix = da.fromfunction(element, shape=(n, n), chunks=(chunk, chunk), dtype=np.float64)
        edges = [np.concatenate([[0], np.cumsum(sizes)]) for sizes in matrix.chunks]
        rows, columns = ([slice(int(a), int(b)) for a, b in pairwise(bounds)] for bounds in edges)
        pieces = [Piece(*ranges, rank=k % comm.size) for k, ranges in enumerate(product(rows, columns))]
        arrays = [
            matrix.blocks[at].compute(scheduler="synchronous") if piece.rank == comm.rank else None
            for at, piece in zip(np.ndindex(*matrix.numblocks), pieces, strict=True)
        ]
        return cls(comm, matrix, pieces, arrays)

    @property
    def way(self) -> str:
        """How ScaLAPACK's matrix is filled."""
        return f"{len(self.pieces)} plans"

    @property
    def title(self) -> str:
        """What it is, in words."""
        return f"a dask array in chunks of {' x '.join(map(str, self.matrix.chunksize))}"

    def matrix_in(self, desc: psr.Descriptor) -> Array | None:
        """This rank's part of the matrix in ScaLAPACK's layout. Collective."""
        return self._filled(desc, self.pieces, self.arrays)

    def sides_in(self, desc: psr.Descriptor) -> Array | None:
        """This rank's part of the right-hand side in ScaLAPACK's layout. Collective."""
        arrays = [
            right_side(np.arange(piece.rows.start, piece.rows.stop))[:, np.newaxis]
            if piece.rank == self.comm.rank
            else None
            for piece in self._sides
        ]
        return self._filled(desc, self._sides, arrays)

    def solution(self, desc: psr.Descriptor, local: Array | None) -> list[Rows]:
        """The rows of the solution that this rank's chunks have. Collective."""
        transfers = [plan.start(local) for plan in list(self._plans(desc, self._sides, back=True))]
        found = zip(self._sides, [transfer.wait() for transfer in transfers], strict=True)
        return [Rows(piece.rows.start, x[:, 0]) for piece, x in found if x is not None]

    def residual(self, comm: MPI.Intracomm, x: Array) -> float:
        """max |A x - b|, by dask. Collective."""
        import dask.array as da

        found = 0.0
        if comm.rank == 0:
            difference = self.matrix @ da.from_array(x, chunks=(self.matrix.chunks[0],)) - right_side(np.arange(len(x)))
            found = float(np.abs(difference).max().compute(scheduler="synchronous"))
        return float(comm.bcast(found))

    @property
    def _sides(self) -> list[Piece]:
        """The right-hand side beside the first chunk of each row of chunks."""
        return [Piece(piece.rows, slice(0, 1), piece.rank) for piece in self.pieces if piece.columns.start == 0]

    def _plans(self, desc: psr.Descriptor, pieces: Sequence[Piece], *, back: bool) -> Iterator[psr.Redistribution]:
        """A plan for each piece, into its part of the matrix or out of it. Collective."""
        for piece in pieces:
            part = desc[piece.rows, piece.columns]
            alone = psr.Descriptor(part.shape, part.shape, psr.ProcessGrid((1, 1), self.comm, ranks=[[piece.rank]]))
            ends = (part, alone) if back else (alone, part)
            yield psr.redistribute(*ends, comm=self.comm, dtype=np.float64)

    def _filled(self, desc: psr.Descriptor, pieces: Sequence[Piece], arrays: Sequence[Array | None]) -> Array | None:
        """This rank's part of a matrix that is made of pieces. Collective."""
        local = None if desc.coords is None else desc.empty(np.float64)
        moving = list(self._plans(desc, pieces, back=False))
        transfers = [plan.start(array, local) for plan, array in zip(moving, arrays, strict=True)]
        for transfer in transfers:
            transfer.wait()
        return local


# -- solve and verify


def solve(source: Slabs | Chunks, n: int, grid: psr.ProcessGrid, block: int, phases: Phases) -> list[Rows]:
    """Into ScaLAPACK, LU, and the solution back to the ranks that have those rows. Collective."""
    desc = psr.Descriptor((n, n), (block, block), grid)
    desc_sides = psr.Descriptor((n, 1), (block, block), grid)
    matrix = phases.run("into ScaLAPACK", source.way, lambda: source.matrix_in(desc))
    b = phases.run("the right-hand side", "", lambda: source.sides_in(desc_sides))
    pivots = phases.run("factor (pdgetrf)", "", lambda: pxgetrf(matrix, desc))
    phases.run("solve (pdgetrs)", "", lambda: pxgetrs(matrix, desc, pivots, b, desc_sides))
    return phases.run("back to the slabs", "", lambda: source.solution(desc_sides, b))


def relative_residual(comm: MPI.Intracomm, source: Slabs | Chunks, n: int, solution: list[Rows]) -> float:
    """max |A x - b| / max |x|. Collective."""
    x = np.full(n, np.nan)
    for first, values in chain.from_iterable(comm.allgather(solution)):
        x[first : first + len(values)] = values
    return source.residual(comm, x) / float(np.abs(x).max())


# -- the program


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    heights: tuple[int, ...]
    chunk: int | None
    grid: tuple[int, int]
    block: int


def uneven(order: int, ranks: int) -> tuple[int, ...]:
    """Heights that grow from rank to rank."""
    edges = [order * (k * (k + 2)) // (ranks * (ranks + 2)) for k in range(ranks + 1)]
    return tuple(b - a for a, b in pairwise(edges))


def read_options(comm: MPI.Intracomm, words: list[str]) -> Options | None:
    """The command line, None where only help was wanted; raises a Refusal where it is wrong. Not collective."""
    parser = options_parser("row_slabs.py", __doc__)
    parser.add_argument("--order", type=int, default=600, metavar="N", help="unknowns; default: 600")
    parser.add_argument("--rows", type=int, nargs="+", metavar="R", help="rows on each rank; default: uneven")
    parser.add_argument("--chunk", type=int, metavar="C", help="a dask array instead, in chunks of C x C")
    parser.add_argument("--grid", metavar="PRxPC", help="of ScaLAPACK; default: the most even one of all ranks")
    parser.add_argument("--block", type=int, default=32, metavar="NB", help="of ScaLAPACK; default: 32")
    given = read_words(parser, comm, words, "there are --order, --rows, --chunk, --grid and --block")
    if given is None:
        return None
    rows = next(p for p in range(int(comm.size**0.5), 0, -1) if comm.size % p == 0)
    sizes = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", given.grid or f"{rows}x{comm.size // rows}")
    if sizes is None:
        raise Refusal(f"--grid {given.grid}: it must be rows x columns of processes, such as 2x2")
    if given.order < 1 or given.block < 1 or (given.chunk is not None and given.chunk < 1):
        raise Refusal(f"--order {given.order}, --block {given.block}, --chunk {given.chunk}: all must be at least 1")
    heights = uneven(given.order, comm.size) if given.rows is None else tuple(given.rows)
    if len(heights) != comm.size or min(heights) < 0 or sum(heights) < 1:
        raise Refusal(f"--rows {' '.join(map(str, heights))}: give {comm.size} numbers, one for each rank, not all 0")
    if given.chunk is not None and find_spec("dask") is None:
        raise Refusal("--chunk needs dask: pip install 'dask[array]'")
    return Options(heights, given.chunk, (int(sizes[1]), int(sizes[2])), given.block)


def run(comm: MPI.Intracomm, options: Options) -> bool:
    """Solve and verify; whether all is right. Collective."""
    n = sum(options.heights)
    source: Slabs | Chunks = on_all_ranks(
        comm,
        lambda: Chunks.of(comm, n, options.chunk) if options.chunk else Slabs.of(comm, options.heights),
    )
    phases = Phases(comm)
    phases.say(f"{n} unknowns on {comm.size} ranks, {source.title}")
    with on_all_ranks(comm, lambda: psr.ProcessGrid(options.grid, comm)) as grid:
        on_all_ranks(comm, grid.make_context)
        solution = solve(source, n, grid, options.block, phases)
    residual = relative_residual(comm, source, n, solution)
    right = residual < 100 * n * float(np.finfo(np.float64).eps)
    where = "by dask " if isinstance(source, Chunks) else ""
    phases.say(f"residual {where}{residual:.1e} = max |A x - b| / max |x|{'' if right else ': WRONG'}")
    return right


if __name__ == "__main__":
    start(read_options, run)
