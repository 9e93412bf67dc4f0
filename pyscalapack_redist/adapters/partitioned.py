"""The protocol __partitioned__: arrays that say where each of their parts is.

https://github.com/IntelPython/DPPY-Spec/blob/draft/partitioned/Partitioned.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..comm.mpi import MPI
from ..errors import ArrayError, DescriptorError
from ..layout.arrays import host_array
from ..layout.tiles import Tiles
from .adapter import Adapter, Blueprint, View

FIELDS = ("shape", "partition_tiling", "partitions")
FIELDS_OF_PARTS = ("start", "shape", "data", "location")


class Partitioned:
    """An array by the protocol: `__partitioned__` is its dictionary."""

    def __init__(self, dictionary: dict[str, Any]) -> None:
        self.__partitioned__ = dictionary


class PartitionedArrays(Adapter):
    """Objects with a dictionary `__partitioned__`, or a method of that name that returns one.

    The location of a partition is its rank in COMM_WORLD. If there are several, the data of the first is taken, and is not
    written. The data of own partitions is what `get` makes of it: an array in host memory. A new array, `Partitioned`, has the
    partitions of another one of its shape; else as many, of sizes that differ by one at most, on the same ranks, and of
    another number of dimensions along the first.
    """

    def takes(self, x: Any) -> bool:
        return hasattr(x, "__partitioned__")

    def layout(self, x: Any, comm: MPI.Intracomm) -> Tiles:
        return _tiles(_dictionary(x)).on(comm)

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        dictionary = _dictionary(x)
        layout, get = _tiles(dictionary).on(comm), dictionary.get("get", _get)
        own = dictionary.get("locals", layout.own_places)
        if sorted(map(tuple, own)) != layout.own_places:
            raise DescriptorError(
                f"__partitioned__ has the locals {own}, but by their locations rank {comm.Get_rank()} of comm has "
                f"{layout.own_places}: a location must be the rank in COMM_WORLD"
            )
        return View(layout, [_data(place, dictionary["partitions"][place], get) for place in layout.own_places])

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        layout = self.layout(like, comm)
        if shape != layout.shape:
            owners = layout.owners
            if len(shape) != layout.ndim:
                owners = owners.reshape(-1, *(1,) * (len(shape) - 1))
            edges = [-(-np.arange(parts + 1) * n // parts) for n, parts in zip(shape, owners.shape, strict=True)]
            layout = Tiles.from_edges(edges, owners, comm)

        def build(local: Any, dtype: np.dtype[Any]) -> Any:
            data = dict(zip(layout.own_places, local, strict=True))
            partitions = {}
            for place, rank in np.ndenumerate(layout.on(MPI.COMM_WORLD).owners):
                starts, shape_of = _box(layout.edges, place)
                partitions[place] = {
                    "start": starts, "shape": shape_of, "data": data.get(place), "location": [int(rank)]
                }  # fmt: skip
            return Partitioned(
                {
                    "shape": shape, "partition_tiling": layout.owners.shape, "partitions": partitions,
                    "locals": layout.own_places, "get": _get,
                }
            )  # fmt: skip

        return Blueprint([layout], "C", build)


def _get(handle: Any) -> Any:
    """The data for a handle, or for a sequence of them: itself."""
    return handle


def _dictionary(x: Any) -> Mapping[str, Any]:
    dictionary = x.__partitioned__() if callable(x.__partitioned__) else x.__partitioned__
    missing = [repr(name) for name in FIELDS if name not in dictionary]
    for place, part in dictionary.get("partitions", {}).items():
        missing += [f"{name!r} in partition {place}" for name in FIELDS_OF_PARTS if name not in part]
    if missing:
        raise DescriptorError(
            f"__partitioned__ has no {missing[0]}: it must have {', '.join(FIELDS)}, and each partition "
            f"{', '.join(FIELDS_OF_PARTS)}"
        )
    return dictionary  # type: ignore[no-any-return]


def _tiles(dictionary: Mapping[str, Any]) -> Tiles:
    """The layout of the partitions, with ranks of COMM_WORLD as owners."""
    shape, tiling, partitions = (dictionary[name] for name in FIELDS)
    places = list(np.ndindex(*tiling))
    if len(shape) != len(tiling) or set(places) != partitions.keys():
        raise DescriptorError(
            f"__partitioned__ has the partitions {list(partitions)}: partition_tiling = {tuple(tiling)} wants one for each "
            f"position, of as many dimensions as shape = {tuple(shape)}"
        )
    first = [[np.where(np.arange(len(tiling)) == k, i, 0) for i in range(count)] for k, count in enumerate(tiling)]
    edges = [
        [*(int(partitions[tuple(place.tolist())]["start"][k]) for place in line), int(n)]
        for k, (line, n) in enumerate(zip(first, shape, strict=True))
    ]
    owners = np.empty(tiling, np.int64)
    for place in places:
        part = partitions[place]
        box = tuple(part["start"]), tuple(part["shape"])
        if box != _box(edges, place):
            raise DescriptorError(
                f"partition {place} of __partitioned__ has start {box[0]} and shape {box[1]}, but the others leave "
                f"{' and '.join(map(str, _box(edges, place)))}: the partitions must be a grid that covers the array"
            )
        location = part["location"]
        if not len(location) or not all(isinstance(rank, int | np.integer) for rank in location):
            raise DescriptorError(
                f"partition {place} of __partitioned__ has the location {location!r}: it must be [rank], as programs with MPI "
                "have it; of Ray or dask, whose locations are addresses, take the arrays themselves"
            )
        owners[place] = location[0]
    return Tiles.from_edges(edges, owners, MPI.COMM_WORLD)


def _box(edges: Sequence[Any], place: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The start and the shape of a partition."""
    spans = [(int(values[k]), int(values[k + 1])) for values, k in zip(edges, place, strict=True)]
    return tuple([begin for begin, _ in spans]), tuple([end - begin for begin, end in spans])


def _data(place: tuple[int, ...], part: Mapping[str, Any], get: Any) -> Any:
    """The array of an own partition."""
    if part["data"] is None:
        raise ArrayError(f"partition {place} of __partitioned__ is on this rank and has no data: it must have an array")
    array = host_array(f"partition {place}", get(part["data"]))
    if isinstance(array, np.ndarray) and len(part["location"]) > 1:
        array = array.view()
        array.flags.writeable = False
    return array
