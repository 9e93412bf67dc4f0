"""Layouts of arrays that are cut into boxes by edges along each dimension, each box on one or several processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..comm.mpi import MPI
from ..layout.axis import Blocks
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from ..layout.tiles import Layout, Tiles

Index = tuple[int, ...]


def layouts_of_boxes(
    edges: Sequence[Sequence[int]], holders: Mapping[Index, Sequence[int]], comm: MPI.Intracomm
) -> list[Layout]:
    """A `Descriptor` if each process holds one box at most; else tiles, several layouts if boxes are on several processes.

    Each of several layouts has one copy of the array; together they have all copies.

    Parameters
    ----------
    edges : sequence of sequence of int
        First index of each box along each dimension, then the size.
    holders : mapping of tuple of int to sequence of int
        For each box, by its position along the dimensions, the ranks that hold it, none twice.
    comm : MPI.Intracomm
        Communicator of the ranks.
    """
    counts = tuple([len(values) - 1 for values in edges])
    copies = {len(ranks) for ranks in holders.values()}
    all_holders = [rank for ranks in holders.values() for rank in ranks]
    if len(copies) == 1 and len(set(all_holders)) == len(all_holders):
        grid = np.empty((*counts, *copies), np.int64)
        for index, ranks in holders.items():
            grid[index] = ranks
        shape = grid.shape if copies != {1} else counts
        blocks = [_block(np.diff(values)) for values in edges]
        on_grid = ProcessGrid(shape, comm, ranks=grid.reshape(shape))
        return [Descriptor([values[-1] for values in edges], blocks, on_grid, axes=range(len(edges)))]
    layouts: list[Layout] = []
    for copy in range(max(copies)):
        owners = np.empty(counts, np.int64)
        for number, index in enumerate(np.ndindex(*counts)):  # the first copy is spread over the holders
            owners[index] = holders[index][(copy + number) % len(holders[index])]
        layouts.append(Tiles.from_edges(edges, owners, comm))
    return layouts


def _block(sizes: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int | Blocks:
    """One block for each process: a block size if only the last block is smaller, or none of its size."""
    first = int(sizes[0])
    is_uniform = bool((sizes[:-1] == first).all()) and first >= int(sizes[-1]) > 0
    return first if is_uniform else Blocks(sizes)
