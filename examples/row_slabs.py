"""A linear system whose matrix lies in slabs of rows, or in the chunks of a dask array: into ScaLAPACK, solved, and back.

    mpiexec -n 4 python -m mpi4py examples/row_slabs.py --order 800
    mpiexec -n 4 python -m mpi4py examples/row_slabs.py --rows 310 0 205 285
    mpiexec -n 4 python -m mpi4py examples/row_slabs.py --order 800 --chunk 150

A block-cyclic layout has one size of blocks, so slabs of uneven heights are no such layout, but for one case: as many rows on
every rank, fewer on the last that has any. Then the slabs are the layout with one block a rank, and one plan moves them.
Slabs of any other heights, and chunks of any shape on any rank, are each a matrix on one process and go each into its part of
ScaLAPACK's matrix, which is a sub-array of the layout. All are on their way at once.

With --chunk the matrix is a dask array in square chunks of that size. The ranks compute the chunks in turn, none computes two
times, and the solution is handed back to dask, which verifies it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
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


# -- pieces: each a part of the matrix that lies whole on one rank


class Piece(NamedTuple):
    """Rows and columns of the matrix, and the rank that has them as an ordinary array."""

    rows: slice
    columns: slice
    rank: int


def slabs(heights: Sequence[int], columns: int) -> list[Piece]:
    """Consecutive rows on rank 0, 1, ...; a rank may have none."""
    ends = np.cumsum(heights)
    return [
        Piece(slice(int(end) - height, int(end)), slice(0, columns), rank)
        for rank, (height, end) in enumerate(zip(heights, ends, strict=True))
    ]


def chunk_pieces(chunks: tuple[tuple[int, ...], ...], ranks: int) -> list[Piece]:
    """A dask array's chunks, row after row, dealt to the ranks in turn."""
    edges = [np.concatenate([[0], np.cumsum(one)]) for one in chunks]
    spans = [[slice(int(a), int(b)) for a, b in pairwise(one)] for one in edges]
    return [
        Piece(rows, columns, (k * len(spans[1]) + l) % ranks)
        for k, rows in enumerate(spans[0])
        for l, columns in enumerate(spans[1])  # noqa: E741
    ]


def one_block_a_rank(heights: Sequence[int]) -> bool:
    """Are the slabs those of the layout with one block a rank?"""
    most, left = -(-sum(heights) // len(heights)), sum(heights)
    for height in heights:
        if height != min(most, left):
            return False
        left -= height
    return True


def plans(
    comm: MPI.Intracomm, desc: psr.Descriptor, pieces: Sequence[Piece], *, back: bool
) -> Iterator[psr.Redistribution]:
    """A plan for each piece, into its part of the matrix or out of it. Collective."""
    for piece in pieces:
        part = desc[piece.rows, piece.columns]
        alone = psr.Descriptor(part.shape, part.shape, psr.ProcessGrid((1, 1), comm, ranks=[[piece.rank]]))
        ends = (part, alone) if back else (alone, part)
        yield psr.redistribute(*ends, comm=comm, dtype=np.float64)


def from_pieces(
    comm: MPI.Intracomm, desc: psr.Descriptor, pieces: Sequence[Piece], arrays: Sequence[Array | None]
) -> Array | None:
    """This rank's part of the matrix in ScaLAPACK's layout; `arrays` has None for other ranks' pieces. Collective."""
    local = None if desc.coords is None else desc.empty(np.float64)
    kept = [(piece, array) for piece, array in zip(pieces, arrays, strict=True) if extent(piece)]
    moving = list(plans(comm, desc, [piece for piece, _ in kept], back=False))
    transfers = [plan.start(array, local) for plan, (_, array) in zip(moving, kept, strict=True)]
    for one in transfers:
        one.wait()
    return local


def to_pieces(
    comm: MPI.Intracomm, desc: psr.Descriptor, pieces: Sequence[Piece], local: Array | None
) -> list[Array | None]:
    """The pieces of a matrix in ScaLAPACK's layout, each on its rank and None elsewhere. Collective."""
    kept = [piece for piece in pieces if extent(piece)]
    transfers = [plan.start(local) for plan in list(plans(comm, desc, kept, back=True))]
    found = iter([one.wait() for one in transfers])
    return [next(found) if extent(piece) else None for piece in pieces]


def extent(piece: Piece) -> int:
    """Elements of a piece."""
    return int(piece.rows.stop - piece.rows.start) * int(piece.columns.stop - piece.columns.start)


# -- the two sources


class Source(NamedTuple):
    """The pieces of the matrix and of the right-hand side, and this rank's arrays of them."""

    title: str
    matrix: list[Piece]
    arrays: list[Array | None]
    sides: list[Piece]
    dask: Any = None


def plain_slabs(comm: MPI.Intracomm, heights: Sequence[int]) -> Source:
    """Slabs of ordinary arrays, of so many rows on each rank. Not collective."""
    n = sum(heights)
    pieces = slabs(heights, n)
    arrays = [
        element(*np.ix_(np.arange(one.rows.start, one.rows.stop), np.arange(n))) if one.rank == comm.rank else None
        for one in pieces
    ]
    return Source(f"slabs of {' '.join(map(str, heights))} rows", pieces, arrays, slabs(heights, 1))


def dask_chunks(comm: MPI.Intracomm, n: int, chunk: int) -> Source:
    """A dask array, of which this rank computes its chunks. Not collective."""
    import dask.array as da

    matrix = da.fromfunction(element, shape=(n, n), chunks=(chunk, chunk), dtype=np.float64)
    pieces = chunk_pieces(matrix.chunks, comm.size)
    numbers = np.ndindex(*matrix.numblocks)
    arrays = [
        matrix.blocks[at].compute(scheduler="synchronous") if piece.rank == comm.rank else None
        for at, piece in zip(numbers, pieces, strict=True)
    ]
    sides = [Piece(one.rows, slice(0, 1), one.rank) for one in pieces if one.columns.start == 0]
    return Source(f"a dask array in chunks of {chunk} x {chunk}", pieces, arrays, sides, matrix)


# -- solve and verify


class Solved(NamedTuple):
    """The solution as its pieces, and how ScaLAPACK's matrix was filled."""

    pieces: list[Array | None]
    way: str


def solve(comm: MPI.Intracomm, source: Source, grid: psr.ProcessGrid, block: int, phases: Phases) -> Solved:
    """Into ScaLAPACK, LU, and the solution back to the ranks that have those rows. Collective."""
    n = max(one.rows.stop for one in source.matrix)
    desc = psr.Descriptor((n, n), (block, block), grid)
    desc_sides = psr.Descriptor((n, 1), (block, block), grid)
    sides = [
        right_side(np.arange(one.rows.start, one.rows.stop))[:, np.newaxis] if one.rank == comm.rank else None
        for one in source.sides
    ]
    heights = [one.rows.stop - one.rows.start for one in source.matrix]
    one_plan = source.dask is None and one_block_a_rank(heights)
    way = "one plan" if one_plan else f"{sum(map(bool, map(extent, source.matrix)))} plans"

    def fill() -> Array | None:
        if one_plan:
            slab = psr.Descriptor((n, n), (None, None), psr.ProcessGrid((comm.size, 1), comm))
            local: Array | None = psr.redistribute(slab, desc)(source.arrays[comm.rank])
            return local
        return from_pieces(comm, desc, source.matrix, source.arrays)

    matrix = phases.run("into ScaLAPACK", way, fill)
    b = phases.run("the right-hand side", "", lambda: from_pieces(comm, desc_sides, source.sides, sides))
    pivots = phases.run("factor (pdgetrf)", "", lambda: pxgetrf(matrix, desc))
    phases.run("solve (pdgetrs)", "", lambda: pxgetrs(matrix, desc, pivots, b, desc_sides))
    back = phases.run("back to the slabs", "", lambda: to_pieces(comm, desc_sides, source.sides, b))
    return Solved(back, way)


def relative_residual(comm: MPI.Intracomm, source: Source, solved: Solved) -> float:
    """max |A x - b| / max |x|, from the solution's pieces; by dask where the matrix is dask's. Collective."""
    mine = [(piece, x) for piece, x in zip(source.sides, solved.pieces, strict=True) if x is not None]
    everything = [one for some in comm.allgather(mine) for one in some]
    n = max(one.rows.stop for one in source.matrix)
    x = np.full(n, np.nan)
    for piece, part in everything:
        x[piece.rows] = part[:, 0]
    if source.dask is not None:
        import dask.array as da

        residual = 0.0
        if comm.rank == 0:
            rows = source.dask.chunks[0]
            difference = source.dask @ da.from_array(x, chunks=(rows,)) - right_side(np.arange(n))
            residual = float(np.abs(difference).max().compute(scheduler="synchronous"))
        return float(comm.bcast(residual)) / float(np.abs(x).max())
    wrong = [
        float(np.abs(array @ x - right_side(np.arange(piece.rows.start, piece.rows.stop))).max(initial=0))
        for piece, array in zip(source.matrix, source.arrays, strict=True)
        if array is not None
    ]
    return float(comm.allreduce(max(wrong, default=0.0), MPI.MAX)) / float(np.abs(x).max())


# -- the program


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    heights: tuple[int, ...]
    chunk: int | None
    grid: tuple[int, int]
    block: int


def uneven(order: int, ranks: int) -> tuple[int, ...]:
    """Heights that grow from rank to rank, and are those of no block-cyclic layout."""
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
    source = on_all_ranks(
        comm,
        lambda: dask_chunks(comm, n, options.chunk) if options.chunk else plain_slabs(comm, options.heights),
    )
    phases = Phases(comm)
    phases.say(f"{n} unknowns on {comm.size} ranks, {source.title}")
    with on_all_ranks(comm, lambda: psr.ProcessGrid(options.grid, comm)) as grid:
        on_all_ranks(comm, grid.make_context)
        solved = solve(comm, source, grid, options.block, phases)
    residual = relative_residual(comm, source, solved)
    right = residual < 100 * n * float(np.finfo(np.float64).eps)
    where = "by dask " if source.dask is not None else ""
    phases.say(f"residual {where}{residual:.1e} = max |A x - b| / max |x|{'' if right else ': WRONG'}")
    return right


if __name__ == "__main__":
    start(read_options, run)
