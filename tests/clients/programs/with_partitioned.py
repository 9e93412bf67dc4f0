"""Objects with __partitioned__ go through redistribute, both ways."""

from __future__ import annotations

import pickle
import re
import sys
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
LAST = SIZE - 1
# shape, edges along each dimension
CASES = [
    ((17, 11), [[0, 5, 6, 17], [0, 4, 11]]),
    ((1, 9), [[0, 1], [0, 3, 3, 9]]),
    ((8,), [[0, 1, 8]]),
    ((3, 4, 5), [[0, 3], [0, 2, 4], [0, 5]]),
]


class Partitions:
    def __init__(self, dictionary: dict[str, Any]) -> None:
        self.__partitioned__ = dictionary


class PartitionsByMethod(Partitions):
    def __init__(self, dictionary: dict[str, Any]) -> None:
        self.__partitioned__ = lambda: dictionary  # type: ignore[assignment]


def whole(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def rank_of(number: int) -> int:
    """Rank of a partition; the last rank has none."""
    return number % max(1, LAST)


def partitions_of(array: NDArray[Any], edges: list[list[int]]) -> dict[str, Any]:
    """The dictionary of the protocol; the data of a partition is a list with the array in it, which `get` opens."""
    tiling = tuple(len(values) - 1 for values in edges)
    partitions = {}
    for number, place in enumerate(np.ndindex(*tiling)):
        bounds = [(values[k], values[k + 1]) for values, k in zip(edges, place, strict=True)]
        data = array[tuple(slice(*bound) for bound in bounds)].copy(order="F")
        partitions[place] = {
            "start": tuple(begin for begin, _ in bounds),
            "shape": tuple(end - begin for begin, end in bounds),
            "location": [rank_of(number)],
            "data": [data] if rank_of(number) == RANK else None,
        }
    own = [place for place, part in partitions.items() if part["data"] is not None]
    return {
        "shape": array.shape,
        "partition_tiling": tiling,
        "partitions": partitions,
        "locals": own,
        "get": lambda handle: handle[0],
    }


def check_moves(kind: type, shape: tuple[int, ...], edges: list[list[int]], dtype: str) -> None:
    expected = whole(shape, dtype)
    x = kind(partitions_of(expected, edges))
    by_rows = psr.Descriptor(
        shape, (2,) + (None,) * (len(shape) - 1), psr.ProcessGrid((SIZE,) + (1,) * (len(shape) - 1), WORLD)
    )
    array = psr.as_distributed(x)
    dictionary = partitions_of(expected, edges)
    assert [tile.shape for tile in array.local] == [
        dictionary["partitions"][place]["shape"] for place in dictionary["locals"]
    ]
    moved = psr.redistribute(x, by_rows)
    assert np.array_equal(moved.local, by_rows.from_function(lambda *index: expected[index], dtype))

    y = psr.redistribute(moved, like=x)
    copy = y.__partitioned__
    pickle.dumps(copy)
    assert (copy["shape"], copy["partition_tiling"], copy["locals"]) == (
        shape,
        dictionary["partition_tiling"],
        dictionary["locals"],
    )
    for place, part in copy["partitions"].items():
        original = dictionary["partitions"][place]
        assert all(part[name] == original[name] for name in ("start", "shape", "location"))
        assert (part["data"] is None) == (original["data"] is None)
        assert part["data"] is None or np.array_equal(copy["get"](part["data"]), original["data"][0])

    if len(shape) == 2:
        upper = psr.redistribute(moved, like=x, uplo="U")
        assert np.array_equal(psr.gather(upper, None), np.triu(expected, min(0, shape[1] - shape[0])))

    psr.copy_to(-moved if dtype != "?" else moved, y)
    psr.copy_to(y, x)
    for tile, place in zip(array.local, dictionary["locals"], strict=True):  # the memory of x
        data = dictionary["partitions"][place]["data"][0]
        assert np.array_equal(tile, -data if dtype != "?" else data)


def check_other_shape() -> None:
    x = Partitions(partitions_of(whole((17, 11), "d"), CASES[0][1]))
    by_rows = psr.Descriptor((5, 4), (1, None), psr.ProcessGrid((SIZE, 1), WORLD))
    array = psr.DistributedArray.from_function(by_rows, lambda i, j: 10.0 * i + j)
    y = psr.redistribute(array, like=x)
    starts = {place: part["start"] for place, part in y.__partitioned__["partitions"].items()}
    assert starts == {(i, j): ((0, 2, 4)[i], (0, 2)[j]) for i in range(3) for j in range(2)}
    assert np.array_equal(psr.redistribute(y, by_rows).local, array.local)
    for shape in ((2, 1), (4,), (3, 0, 2)):  # fewer elements than partitions, other dimensions
        grid = psr.ProcessGrid((SIZE,) + (1,) * (len(shape) - 1), WORLD)
        few = psr.DistributedArray.from_function(psr.Descriptor(shape, 1, grid), lambda *index: 1.0 + sum(index))
        assert np.array_equal(psr.gather(psr.redistribute(few, like=x), None), psr.gather(few, None))


def check_communicator() -> None:
    """Locations are ranks of COMM_WORLD, whatever the order of the communicator is."""
    backwards = WORLD.Split(0, -RANK)
    dictionary = partitions_of(whole((6, 4), "d"), [[0, 2, 6], [0, 4]])
    layout = psr.layout_of(Partitions(dictionary), backwards)
    assert layout.owners.tolist() == [[LAST - rank_of(0)], [LAST - rank_of(1)]]
    backwards.Free()


def check_errors() -> None:
    last_only = psr.ArrayError if RANK == LAST else psr.CollectiveError

    def fails(kind: type[Exception], words: str, part: Any = (), dictionary: Any = ()) -> None:
        """With changes of the partition of the last rank, and of the dictionary."""
        wrong = partitions_of(whole((6, 4), "d"), [[0, 2, 6], [0, 4]])
        data = [np.ones((4, 4))] if RANK == LAST else None
        wrong["partitions"][1, 0] = {**wrong["partitions"][1, 0], "location": [LAST], "data": data, **dict(part)}
        wrong["locals"] = [place for place, rank in (((0, 0), 0), ((1, 0), LAST)) if rank == RANK]
        with pytest.raises(kind, match=re.escape(words)):
            psr.as_distributed(Partitions({**wrong, **dict(dictionary)}))

    all_ranks = psr.DescriptorError
    fails(all_ranks, "has the location ['10.0.0.1']: it must be [rank]", {"location": ["10.0.0.1"]})
    fails(all_ranks, "but the others leave (0, 0) and (3, 4)", {"start": (3, 0)})
    fails(all_ranks, "partition (1, 0) of __partitioned__ has start (2, 0) and shape (3, 4)", {"shape": (3, 4)})
    fails(all_ranks, f"owners[1, 0] = {SIZE}", {"location": [SIZE]})
    fails(all_ranks, "wants one for each position", dictionary={"partition_tiling": (1, 1)})
    fails(all_ranks, "has the locals [(5, 0)]", dictionary={"locals": [(5, 0)]})
    fails(last_only, "partition (1, 0) of __partitioned__ is on this rank and has no data", {"data": None})
    fails(last_only, "has shape (3, 4), but tile (1, 0)", {"data": [np.ones((3, 4))]})
    with pytest.raises(psr.DescriptorError, match="__partitioned__ has no 'partition_tiling'"):
        psr.as_distributed(Partitions({"shape": (3, 3)}))
    with pytest.raises(psr.DescriptorError, match=re.escape("has no 'start' in partition (0,)")):
        psr.as_distributed(Partitions({"shape": (3,), "partition_tiling": (1,), "partitions": {(0,): {}}}))
    x = Partitions(partitions_of(whole((6, 4), "d"), [[0, 2, 6], [0, 4]]))
    for kind, wrong in ((TypeError, {"like": None}), (all_ranks, {"op": "Q"}), (psr.ArrayError, {"dtype": "f44"})):
        with pytest.raises(kind if RANK == LAST else psr.CollectiveError):
            psr.redistribute(x, **({"like": x} | (wrong if RANK == LAST else {})))


def check_replicas() -> None:
    """Of two locations the first is read, and none is written."""
    dictionary = partitions_of(whole((6, 4), "d"), [[0, 6], [0, 4]])
    dictionary["partitions"][0, 0].update(location=[LAST, 0], data=[whole((6, 4), "d")])
    del dictionary["locals"]
    x = Partitions(dictionary)
    by_rows = psr.Descriptor((6, 4), (1, None), psr.ProcessGrid((SIZE, 1), WORLD))
    moved = psr.redistribute(x, by_rows)
    assert np.array_equal(moved.local, by_rows.from_function(lambda i, j: 4.0 * i + j))
    with pytest.raises(psr.ArrayError if RANK == LAST else psr.CollectiveError, match="read-only"):
        psr.copy_to(moved, x)


def main() -> None:
    for dtype in sys.argv[1:] or "dFi?":
        for kind in (Partitions, PartitionsByMethod):
            for shape, edges in CASES:
                check_moves(kind, shape, edges, dtype)
    check_other_shape()
    check_communicator()
    check_errors()
    check_replicas()
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
