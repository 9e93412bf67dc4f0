"""Layouts on the way from A to B, for redistributions in several legs: `via=` of `redistribute`."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from .blockcyclic import BlockCyclic
from .descriptor import Descriptor
from .errors import ScheduleError
from .grid import ProcessGrid

__all__ = ["waypoints"]


def waypoints(a: Descriptor, b: Descriptor, via: str | Iterable[Descriptor]) -> list[Descriptor]:
    """The intermediate layouts, in order; none where A and B need none. Not collective.

    Parameters
    ----------
    a, b : Descriptor
        Layouts before and after, on one communicator; sub-arrays are allowed at the ends.
    via : "dimensions", "lcm", or descriptors
        "dimensions": one dimension after another (Walker & Otto, section 4; Birkeland & Sorevik, section 3). "lcm": to
        blocks of the least common multiple of both block sizes, then to those of B: an expansion, then a shrinkage
        (Walker & Otto, section 4). Descriptors: these, in their order.

    Raises
    ------
    ScheduleError
        `via` is none of these, a descriptor has another shape, or "dimensions" finds no grid for a layout in between.
    """
    if isinstance(via, str):
        if via not in ("dimensions", "lcm"):
            raise ScheduleError(f"via = {via!r} must be 'dimensions', 'lcm', a list of descriptors, or None")
        return _by_dimension(a, b) if via == "dimensions" else _by_common_multiple(a, b)
    chosen = list(via)
    for k, one in enumerate(chosen):
        if not isinstance(one, Descriptor) or one.parent is not None:
            raise ScheduleError(f"via[{k}] = {one!r} must be the Descriptor of a whole array")
        if one.shape != a.shape:
            raise ScheduleError(f"via[{k}] has shape {one.shape}, but the array has shape {a.shape}")
    return chosen


def _by_common_multiple(a: Descriptor, b: Descriptor) -> list[Descriptor]:
    blocks = [min(math.lcm(r, s), max(1, n)) for r, s, n in zip(a.block, b.block, a.shape, strict=True)]
    if tuple(blocks) in (a.block, b.block):
        return []
    return [Descriptor(a.shape, blocks, a.grid, source=a.source, axes=a.axes)]


def _by_dimension(a: Descriptor, b: Descriptor) -> list[Descriptor]:
    """Dimensions 0 to k - 1 as in B, the others as in A, for k = 1, 2, ..., or from the last dimension on.

    A layout in between needs a grid of as many processes along each dimension as A or B has there; the way is taken
    whose smallest grid is the largest that the processes at hand can fill.
    """
    ranks = np.unique(np.concatenate([a.placement.ravel(), b.placement.ravel()]))
    ways = []
    for dims in (range(a.ndim), range(a.ndim - 1, -1, -1)):
        done: set[int] = set()
        way = []
        for k in list(dims)[:-1]:
            done.add(k)
            way.append([(b if dim in done else a).distributions[dim] for dim in range(a.ndim)])
        sizes = [math.prod(axis.processes for axis in axes) for axes in way]
        if all(size <= len(ranks) for size in sizes):
            ways.append((min(sizes, default=0), way))
    if not ways:
        raise ScheduleError(
            f"via = 'dimensions': no layout between a grid of {a.placement.shape} and one of {b.placement.shape} fits "
            f"the {len(ranks)} processes at hand; use via = None, or give the intermediate descriptors"
        )
    best = max(ways, key=lambda one: one[0])[1]
    return [_between(a, b, axes, ranks) for axes in best if axes not in (list(a.distributions), list(b.distributions))]


def _between(a: Descriptor, b: Descriptor, axes: list[BlockCyclic], ranks: np.ndarray) -> Descriptor:
    """A layout of the given axes, on A's or B's own places where the grid has their shape."""
    shape = tuple(axis.processes for axis in axes)
    places = next((one.placement for one in (a, b) if one.placement.shape == shape), None)
    if places is None:
        places = ranks[: math.prod(shape)].reshape(shape)
    grid = ProcessGrid(shape, a.grid.comm, ranks=places)
    sources = [axis.owner(0) if axis.n else 0 for axis in axes]
    blocks = [axis.block for axis in axes]
    return Descriptor([axis.n for axis in axes], blocks, grid, source=sources)
