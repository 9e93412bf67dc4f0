"""Layouts on the way from A to B, for redistributions in several legs: `via=` of `redistribute`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.mpi import MPI
from ..errors import ScheduleError
from .axis import LARGEST, BlockCyclic, Irregular
from .descriptor import Descriptor
from .dimensions import Distribution
from .grid import ProcessGrid

VIAS = ("dimensions", "lcm", "gcd")
Via = str | Sequence[Descriptor] | None
Axes = tuple[int | None, ...]


def waypoints(a: Any, b: Any, via: str | Iterable[Descriptor]) -> list[Descriptor]:
    """The intermediate layouts, in order; none where A and B need none. Not collective.

    Parameters
    ----------
    a, b : Descriptor
        Layouts before and after, on one communicator; sub-arrays are allowed at the ends.
    via : "dimensions", "lcm", "gcd", or descriptors
        "dimensions": one dimension after another (Walker & Otto, section 4). Where A and B are spread over one grid of
        processes, a leg is one dimension of that grid, and messages stay inside groups of processes that differ in that
        coordinate alone (Birkeland & Sorevik, section 3). "lcm": to blocks of the least common multiple of both block
        sizes, then to those of B: an expansion, then a shrinkage (Walker & Otto, section 4). "gcd": to blocks of the
        greatest common divisor, "vice versa". Neither is for irregular blocks. Where the multiple is as large as the
        array, the first process of the dimension has all of it in between.
        Descriptors: these, in their order.

    Raises
    ------
    ScheduleError
        `via` is none of these, a descriptor has another shape, "dimensions" finds no grid for a layout in between, or
        "lcm" and "gcd" irregular blocks.
    """
    if isinstance(via, str):
        if via not in VIAS:
            raise ScheduleError(f"via = {via!r} must be None, {', '.join(map(repr, VIAS))}, or a list of Descriptors")
        return _by_dimension(a, b) if via == "dimensions" else _by_block_size(a, b, via)
    chosen = list(via)
    for k, stop in enumerate(chosen):
        if not isinstance(stop, Descriptor) or stop.parent is not None:
            raise ScheduleError(f"via[{k}] = {stop!r} must be the Descriptor of a whole array")
        if stop.shape != a.shape:
            raise ScheduleError(f"via[{k}] has shape {stop.shape}, but the array has shape {a.shape}")
    return chosen


def _by_block_size(a: Descriptor, b: Descriptor, via: str) -> list[Descriptor]:
    for name, desc in (("desc_a", a), ("desc_b", b)):
        for k, axis in enumerate(desc.distributions):
            if isinstance(axis, Irregular):
                raise ScheduleError(
                    f"via = {via!r} is for blocks of one size, but dimension {k} of {name} has {axis.blocks!r}; use via = "
                    "None, 'dimensions', or give the intermediate descriptors"
                )
    blocks = [_common_block(via, r, s, n) for r, s, n in zip(a.block, b.block, a.shape, strict=True)]
    if tuple(blocks) in (a.block, b.block):
        return []
    return [Descriptor(a.shape, blocks, a.grid, source=a.source, axes=a.axes)]


def _common_block(via: str, r: int, s: int, n: int) -> int:
    """The block size between `r` and `s`; beyond 2^62 one block for the whole of a dimension of `n` elements."""
    if via == "gcd":
        return math.gcd(r, s)
    multiple = math.lcm(r, s)
    return multiple if multiple <= LARGEST else max(r, s, n)


def _by_dimension(a: Descriptor, b: Descriptor) -> list[Descriptor]:
    before = _Spread.of(a)
    after = before.same_grid(_Spread.of(b))
    return _by_dimension_of_array(a, b) if after is None else _by_dimension_of_grid(a, b, before, after)


# -- both layouts over one grid of processes


@dataclass(frozen=True)
class _Spread:
    """A descriptor's grid without dimensions of one process, and its dimension for each array dimension."""

    ranks: NDArray[np.int64]
    axes: Axes

    @classmethod
    def of(cls, desc: Descriptor) -> _Spread:
        shape = desc.grid.shape
        kept = [axis for axis, size in enumerate(shape) if size > 1]
        axes = tuple(kept.index(axis) if axis in kept else None for axis in desc.axes)
        return cls(desc.grid.ranks.reshape([shape[axis] for axis in kept]), axes)

    def same_grid(self, other: _Spread) -> _Spread | None:
        """The other spread with this one's numbers for the grid dimensions; None where it is over another grid."""
        for order in itertools.permutations(range(self.ranks.ndim)):
            turned = self.ranks.transpose(order)
            if np.array_equal(turned, other.ranks):
                return _Spread(self.ranks, tuple(None if axis is None else order[axis] for axis in other.axes))
        return None


def _by_dimension_of_grid(a: Descriptor, b: Descriptor, before: _Spread, after: _Spread) -> list[Descriptor]:
    """All processes hold a part in every layout in between."""
    states = _states(before.axes, after.axes)
    layouts = [tuple(_axis(k, a, b, before, after, axes) for k in range(a.ndim)) for axes in states]
    way: list[tuple[Axes, tuple[Distribution, ...]]] = list(zip(states, layouts, strict=True))[1:]
    # dimensions that stay where they are but are cut otherwise follow, one in each leg
    axes, last = states[-1], list(layouts[-1])
    for k, axis in enumerate(axes):
        if axis is not None and last[k] != b.distributions[k]:
            last[k] = b.distributions[k]
            way.append((axes, tuple(last)))
    if len(way) < 2:
        return []
    grid = ProcessGrid(before.ranks.shape, a.grid.comm, ranks=before.ranks)
    return [
        Descriptor(a.shape, [part.block for part in parts], grid, source=[_first(part) for part in parts], axes=axes)
        for axes, parts in way[:-1]
    ]


def _states(start: Axes, end: Axes) -> list[Axes]:
    """Grid dimension for each array dimension, from `start` to `end`, one grid dimension moving at a time.

    A grid dimension can move once its new array dimension is free; one that holds copies moves as the others do. One that is
    to hold copies leaves when it is in the way, else at the end: until then nothing is moved twice. Where all wait for one
    another, the first moves out of the way if an array dimension is free in both layouts, else they all move at once.
    """
    now, states = list(start), [start]
    while tuple(now) != end:
        waiting = [k for k, axis in enumerate(end) if axis is not None and now[k] != axis]
        free = [k for k in waiting if now[k] is None]
        leaving = [k for k, axis in enumerate(now) if axis is not None and axis not in end]
        in_the_way = [k for k in leaving if k in waiting]
        spare = [k for k, axis in enumerate(now) if axis is None and end[k] is None]
        if free or (waiting and not in_the_way and spare):
            to = free[0] if free else spare[0]
            moving = end[to] if free else now[waiting[0]]
            if moving in now:
                now[now.index(moving)] = None
            now[to] = moving
        elif in_the_way or not waiting:
            now[(in_the_way or leaving)[0]] = None
        else:
            now = list(end)
        states.append(tuple(now))
    return states


def _axis(k: int, a: Descriptor, b: Descriptor, before: _Spread, after: _Spread, axes: Axes) -> Distribution:
    """Dimension k as A or B has it where it is spread over the same processes as there, else in one block for each."""
    if axes[k] == before.axes[k]:
        return a.distributions[k]
    if axes[k] == after.axes[k]:
        return b.distributions[k]
    axis, n = axes[k], a.shape[k]
    processes = 1 if axis is None else before.ranks.shape[axis]
    return BlockCyclic(n, max(1, -(-n // processes)), processes)


# -- grids of different shapes


def _by_dimension_of_array(a: Descriptor, b: Descriptor) -> list[Descriptor]:
    """Dimensions 0 to k - 1 as in B, the others as in A, for k = 1, 2, ..., or from the last dimension on.

    A layout in between needs a grid of as many processes along each dimension as A or B has there; the way is taken
    whose smallest grid is the largest that the processes at hand can fill.
    """
    ranks = np.unique(np.concatenate([a.places.ravel(), b.places.ravel()]))
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
    best = max(ways, key=lambda way: way[0])[1]
    return [_between(a, b, axes, ranks) for axes in best if axes not in (list(a.distributions), list(b.distributions))]


def _between(a: Descriptor, b: Descriptor, axes: Sequence[Distribution], ranks: NDArray[np.int64]) -> Descriptor:
    """A layout of the given axes, on A's or B's own places where the grid has their shape."""
    shape = tuple(axis.processes for axis in axes)
    places = next((desc.placement for desc in (a, b) if desc.placement.shape == shape), None)
    if places is None:
        places = ranks[: math.prod(shape)].reshape(shape)
    grid = ProcessGrid(shape, a.grid.comm, ranks=places)
    blocks = [axis.block for axis in axes]
    return Descriptor([axis.n for axis in axes], blocks, grid, source=[_first(axis) for axis in axes])


def _first(axis: Distribution) -> int:
    """The process that owns element 0, where the blocks do not name it."""
    return axis.owner(0) if axis.n and isinstance(axis, BlockCyclic) else 0


# -- as callers give it


def readable_via(via: object, comm: MPI.Intracomm | None) -> tuple[Descriptor, ...]:
    """The descriptors of a list that can be read, also of one that is wrong elsewhere: their ranks wait too. Not collective."""
    found = []
    for stop in via if isinstance(via, list | tuple) else ():
        with suppress(Exception):
            if isinstance(stop, Descriptor):
                found.append(stop if comm is None else stop.on(comm))
    return tuple(found)


def read_via(via: object, comm: MPI.Intracomm | None, two_sides: bool) -> str | tuple[Descriptor, ...]:
    """A way by name, or descriptors on `comm`. Not collective.

    Raises
    ------
    ScheduleError
        It is neither, or of descriptors between two sides, of which each knows its own layout alone.
    DescriptorError
        A process of one is not in `comm`.
    """
    if isinstance(via, str) and via in VIAS:
        return via
    if isinstance(via, str) or not isinstance(via, Iterable) or not all(isinstance(stop, Descriptor) for stop in via):
        raise ScheduleError(f"via = {via!r} must be None, {', '.join(map(repr, VIAS))}, or a list of Descriptors")
    if two_sides:
        raise ScheduleError(
            "via is a list of Descriptors, and comm an inter-communicator, whose sides know only their own layouts: "
            "give via by name, or make the legs one by one"
        )
    return tuple(stop if comm is None else stop.on(comm) for stop in via)
