"""A linear system whose matrix lies in slabs of rows, or in the chunks of a dask array: into ScaLAPACK, solved, and back.

    mpiexec -n 4 python -m mpi4py examples/row_slabs.py --order 800
    mpiexec -n 4 python -m mpi4py examples/row_slabs.py --rows 310 0 205 285
    mpiexec -n 4 python -m mpi4py examples/row_slabs.py --order 800 --chunk 150

Slabs of any heights are a layout with irregular blocks of rows, in which `linalg.solve` takes the matrix and gives the
solution back. Chunks on any ranks are a layout of tiles, from which one redistribution leads into ScaLAPACK's, and one back.

With --chunk the matrix is a dask array in square chunks of that size, dealt to the ranks in turn, each of which computes
its own. The solution is handed back to dask, which verifies it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from phases import Refusal, grid_shape, on_all_ranks, options_parser, positive, read_words, say, start

import pyscalapack_redist as psr

Array = NDArray[np.float64]


def element(i: NDArray[np.int64], j: NDArray[np.int64]) -> Array:
    """The matrix, as a function of the global indices."""
    values: Array = 3.0 * (i == j) + np.cos(0.7 * i * i + 1.3 * j) / (1 + np.abs(i - j))
    return values


def right_side(i: NDArray[np.int64], j: NDArray[np.int64]) -> Array:
    """The right-hand side, a matrix of one column."""
    values: Array = np.sin(1.0 + i + j)
    return values


class Errors(NamedTuple):
    """max |A x - b|, and max |x|, on every rank."""

    residual: float
    scale: float


def solve_slabs(comm: MPI.Intracomm, heights: tuple[int, ...], layout: psr.Descriptor) -> Errors:
    """Solve a system of so many rows on each rank; x is in the same rows. Collective."""
    n, grid, slabs = sum(heights), psr.ProcessGrid((comm.size, 1), comm), psr.Blocks(heights)
    a = psr.DistributedArray.from_function(psr.Descriptor((n, n), (slabs, None), grid), element)
    b = psr.DistributedArray.from_function(psr.Descriptor((n, 1), (slabs, None), grid), right_side)
    x = psr.linalg.solve(a, b, layout=layout)
    whole: Any = np.concatenate(comm.allgather(x.local))
    wrong = float(np.abs(a.local @ whole - b.local).max(initial=0))
    return Errors(comm.allreduce(wrong, MPI.MAX), float(np.abs(whole).max()))


def solve_chunks(comm: MPI.Intracomm, chunk: int, layout: psr.Descriptor) -> Errors:
    """Solve a system in the chunks of a dask array, dealt to the ranks in turn; x is in chunks of as many rows. Collective."""
    import dask.array as da

    n = layout.shape[0]
    matrix = da.fromfunction(element, shape=(n, n), chunks=(chunk, chunk), dtype=np.float64)
    sides = da.fromfunction(right_side, shape=(n, 1), chunks=(chunk, 1), dtype=np.float64)
    owners = np.arange(matrix.npartitions).reshape(matrix.numblocks) % comm.size
    column = tiles_of(sides, owners[:, :1], comm)
    a = from_chunks(matrix, tiles_of(matrix, owners, comm), layout)
    b = from_chunks(sides, column, psr.Descriptor(sides.shape, layout.block, layout.grid))
    x = psr.linalg.solve(a, b, layout=layout)
    mine = psr.redistribute(x.desc, column, dtype=np.float64)(x.local)
    everywhere = comm.gather(list(zip(column.own[:, 0].tolist(), mine, strict=True)))
    errors = None
    if everywhere is not None:
        solution = da.concatenate([part for _, part in sorted(chain(*everywhere), key=lambda pair: pair[0])])
        largest = da.compute(abs(matrix @ solution - sides).max(), abs(solution).max(), scheduler="synchronous")
        errors = Errors(*map(float, largest))
    return comm.bcast(errors)  # type: ignore[no-any-return]


def tiles_of(array: Any, owners: NDArray[np.int64], comm: MPI.Intracomm) -> psr.Tiles:
    """The layout of a dask array whose chunks are on these ranks. Not collective."""
    row_edges, column_edges = ([0, *np.cumsum(sizes).tolist()] for sizes in array.chunks)
    return psr.Tiles(row_edges, column_edges, owners, comm)


def from_chunks(array: Any, tiles: psr.Tiles, desc: psr.Descriptor) -> psr.DistributedArray:
    """A dask array in ScaLAPACK's layout; each rank computes its own chunks. Collective."""
    chunks = [array.blocks[i, j].compute(scheduler="synchronous") for i, j in tiles.own.tolist()]
    return psr.DistributedArray(desc, psr.redistribute(tiles, desc, dtype=np.float64)(chunks))


# -- the program


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    heights: tuple[int, ...]
    chunk: int | None
    grid: tuple[int, int] | None
    block: int | None


def uneven(order: int, ranks: int) -> tuple[int, ...]:
    """Heights that grow from rank to rank."""
    edges = [order * (k * (k + 2)) // (ranks * (ranks + 2)) for k in range(ranks + 1)]
    return tuple(b - a for a, b in pairwise(edges))


def read_options(comm: MPI.Intracomm, words: list[str]) -> Options | None:
    """The command line, None where only help was wanted; raises a Refusal where it is wrong. Not collective."""
    parser = options_parser("row_slabs.py", __doc__)
    parser.add_argument("--order", type=positive, default=600, metavar="N", help="unknowns; default: 600")
    parser.add_argument("--rows", type=int, nargs="+", metavar="R", help="rows on each rank; default: uneven")
    parser.add_argument("--chunk", type=positive, metavar="C", help="a dask array instead, in chunks of C x C")
    parser.add_argument("--grid", type=grid_shape, metavar="PRxPC", help="of ScaLAPACK; default: linalg.layout_for's")
    parser.add_argument("--block", type=positive, metavar="NB", help="of ScaLAPACK; default: linalg.layout_for's")
    given = read_words(parser, comm, words, "there are --order, --rows, --chunk, --grid and --block")
    if given is None:
        return None
    heights = uneven(given.order, comm.size) if given.rows is None else tuple(given.rows)
    if len(heights) != comm.size or min(heights) < 0 or sum(heights) < 1:
        raise Refusal(f"--rows {' '.join(map(str, heights))}: give {comm.size} numbers, one for each rank, not all 0")
    if given.chunk is not None and find_spec("dask") is None:
        raise Refusal("--chunk needs dask: pip install 'dask[array]'")
    return Options(heights, given.chunk, given.grid, given.block)


def layout_of(comm: MPI.Intracomm, n: int, options: Options) -> psr.Descriptor:
    """ScaLAPACK's layout: what was asked for, and otherwise what suits a matrix of this order. Not collective."""
    usual = psr.linalg.layout_for("solve", (n, n), comm)
    grid = usual.grid if options.grid is None else psr.ProcessGrid(options.grid, comm)
    return psr.Descriptor((n, n), options.block or usual.block, grid)


def run(comm: MPI.Intracomm, options: Options) -> bool:
    """Solve and verify; whether all is right. Collective."""
    n, chunk = sum(options.heights), options.chunk
    layout = on_all_ranks(comm, lambda: layout_of(comm, n, options))
    if chunk is None:
        title = f"slabs of {' '.join(map(str, options.heights))} rows"
    else:
        title = f"a dask array in {(-(-n // chunk)) ** 2} chunks of {min(chunk, n)} x {min(chunk, n)}"
    say(comm, f"{n} unknowns on {comm.size} ranks, {title}\n")
    with psr.timings() as phases:
        found = on_all_ranks(
            comm,
            lambda: (
                solve_chunks(comm, chunk, layout) if chunk is not None else solve_slabs(comm, options.heights, layout)
            ),
        )
    say(comm, phases.max(comm))
    residual = found.residual / found.scale
    right = residual < 100 * n * float(np.finfo(np.float64).eps)
    where = "by dask " if chunk is not None else ""
    say(comm, f"\nresidual {where}{residual:.1e} = max |A x - b| / max |x|{'' if right else ': WRONG'}")
    return right


if __name__ == "__main__":
    start(read_options, run)
