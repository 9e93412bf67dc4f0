"""dask arrays go through redistribute: each rank computes its own blocks, and gets those of a new array."""

from __future__ import annotations

import re
import sys
from typing import Any

import dask
import dask.array
import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
SHAPES = {
    (17, 11): ((5, 5, 5, 2), (4, 4, 3)),
    (3, 2): ((3,), (2,)),
    (9,): ((4, 5),),
    (4, 6, 5): ((2, 2), (1, 5), (5,)),
    (5, 0): ((2, 3), (0,)),
}


def whole(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def rows(shape: tuple[int, ...]) -> psr.Descriptor:
    grid = psr.ProcessGrid((SIZE,) + (1,) * (len(shape) - 1), WORLD)
    return psr.Descriptor(shape, (2,) + (None,) * (len(shape) - 1), grid)


def own_blocks(x: Any, owners: NDArray[Any]) -> list[NDArray[Any]]:
    """What dask computes of the blocks of this rank."""
    return [x.blocks[tuple(place)].compute(scheduler="synchronous") for place in np.argwhere(owners == RANK)]


def check_moves(shape: tuple[int, ...], chunks: Any, dtype: str) -> None:
    expected, computed = whole(shape, dtype), []

    def block(start: Any) -> NDArray[Any]:
        computed.append(start)
        return expected[tuple(slice(i, i + n) for i, n in start)]

    starts = [[(sum(sizes[:k]), n) for k, n in enumerate(sizes)] for sizes in chunks]
    graph = {
        ("x", *place): (block, [starts[k][i] for k, i in enumerate(place)]) for place in np.ndindex(*map(len, chunks))
    }
    x = dask.array.Array(graph, "x", chunks, dtype=expected.dtype)
    default = np.array_split(np.arange(np.prod(x.numblocks)), SIZE)
    dealt = np.concatenate([np.full(len(run), rank) for rank, run in enumerate(default)]).reshape(x.numblocks)
    chosen = (np.arange(dealt.size).reshape(x.numblocks) * 3 + 1) % SIZE
    for argument, owners in ((x, dealt), ((x, chosen), chosen), ((x, chosen.tolist()), chosen)):
        layout = psr.layout_of(argument)
        assert layout.shape == shape
        assert np.array_equal(layout.owners, owners)
        assert not computed  # for the layout nothing is
        array = psr.as_distributed(argument)
        assert len(computed) == np.count_nonzero(owners == RANK)
        assert array.dtype == expected.dtype
        computed.clear()
        moved = psr.redistribute(argument, rows(shape))
        assert np.array_equal(moved.local, rows(shape).from_function(lambda *index: expected[index], dtype))
        computed.clear()

        back = psr.redistribute(moved, like=argument)
        assert not computed
        y = back[0] if isinstance(argument, tuple) else back
        assert (y.chunks, y.dtype) == (x.chunks, x.dtype)
        for block_of_y, block_of_x in zip(own_blocks(y, owners), own_blocks(x, owners), strict=True):
            assert np.array_equal(block_of_y, block_of_x)
        computed.clear()
        number = expected.dtype.type(1)
        again = psr.as_distributed((y + number, back[1]) if isinstance(argument, tuple) else y + number)
        assert all(
            np.array_equal(tile, expected[window] + number)
            for tile, window in zip(again.local, again.desc.windows, strict=True)
        )
        missing = np.argwhere(owners != RANK)
        if len(missing):
            place = tuple(missing[0].tolist())
            with pytest.raises(psr.ArrayError, match=f"is on rank {owners[place]}, and this is rank {RANK}"):
                y.blocks[place].compute(scheduler="synchronous")


def check_other_shape() -> None:
    """An array of another shape has a block of rows for each rank."""
    x = dask.array.zeros((4, 4), chunks=2)
    array = psr.DistributedArray.from_function(rows((7, 3)), lambda i, j: 10.0 * i + j)
    y = psr.redistribute(array, like=x)
    assert y.numblocks == (min(SIZE, 7), 1)
    assert np.array_equal(psr.redistribute(y, rows((7, 3))).local, array.local)


def check_errors() -> None:
    x = dask.array.from_array(whole((6, 4), "d"), chunks=(2, 4))
    last = SIZE - 1

    def fail(block: NDArray[Any], block_info: Any = None) -> NDArray[Any]:
        if last == RANK:
            raise OSError("no such file")
        return block

    owners = np.full((3, 1), last)
    broken = dask.array.map_blocks(fail, x, dtype="d", meta=np.empty((0, 0)))
    kind = OSError if last == RANK else psr.CollectiveError
    with pytest.raises(kind, match=re.escape("no such file")):
        psr.as_distributed((broken, owners))
    with pytest.raises(psr.ArrayError, match="has no dimensions"):
        psr.layout_of(dask.array.ones(()))
    with pytest.raises(psr.ArrayError, match=re.escape("x.compute_chunk_sizes()")):
        psr.as_distributed(x[x > 3])
    with pytest.raises(psr.DescriptorError, match=re.escape("owners has shape (2,)")):
        psr.as_distributed((x, [0, 0]))
    with pytest.raises(psr.DescriptorError, match=re.escape(f"owners[1, 0] = {SIZE}")):
        psr.as_distributed((x, [[0], [SIZE], [0]]))
    masked = dask.array.ma.masked_array(x, x > 3)
    with pytest.raises(psr.ArrayError, match=re.escape("blocks of numpy.ma.MaskedArray")):
        psr.as_distributed(masked)
    wrong = dask.array.map_blocks(lambda block: block.astype("f"), x, dtype="d", meta=np.empty((0, 0)))
    kind = psr.ArrayError if last == RANK else psr.CollectiveError
    with pytest.raises(kind, match=re.escape("is an array of float32")):
        psr.as_distributed((wrong, owners))
    if SIZE > 1:
        chunks = x.rechunk((3, 4)) if last == RANK else x
        with pytest.raises(psr.CollectiveError, match=re.escape("the layout of x must be the same")):
            psr.as_distributed(chunks)
    array = psr.redistribute(x, rows((6, 4)))
    kind = psr.ArrayError if last == RANK else psr.CollectiveError
    with pytest.raises(kind, match=re.escape("read-only")):
        psr.copy_to(array, (x, owners))


def main() -> None:
    for dtype in sys.argv[1:] or "dFi?":
        for shape, chunks in SHAPES.items():
            check_moves(shape, chunks, dtype)
    check_other_shape()
    check_errors()
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
