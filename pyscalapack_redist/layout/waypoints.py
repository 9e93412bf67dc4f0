"""Intermediate layouts between A and B, for redistributions in several legs: `via=` of `redistribute`."""

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
    """The intermediate layouts, in order; empty if A and B need none.

    Parameters
    ----------
    a, b : Descriptor
        Layouts before and after, on one communicator; sub-arrays are allowed at the ends.
    via : "dimensions", "lcm", "gcd", or descriptors
        "dimensions": one dimension after another (Walker & Otto, section 4). If A and B are distributed over one grid of
        processes, a leg moves one dimension of that grid, and messages stay within groups of processes that differ in that
        coordinate only (Birkeland & Sorevik, section 3). "lcm": to blocks of the least common multiple of both block sizes,
        then to those of B: an expansion, then a shrinkage (Walker & Otto, section 4). "gcd": to blocks of the greatest common
        divisor. "lcm" and "gcd" are not for irregular blocks. If the multiple is as large as the array, one process of the
        dimension holds all of it in between.
        Descriptors: these, in order.

    Raises
    ------
    ScheduleError
        `via` is invalid, a descriptor has another shape, there is no grid for "dimensions", or blocks are irregular with "lcm"
        or "gcd".
    """
    if isinstance(via, str):
        if via not in VIAS:
            raise ScheduleError(f"via = {via!r} must be None, {', '.join(map(repr, VIAS))}, or a list of Descriptors")
        return _by_dimension(a, b) if via == "dimensions" else _by_block_size(a, b, via)
    stops = list(via)
    for k, stop in enumerate(stops):
        if not isinstance(stop, Descriptor) or stop.parent is not None:
            raise ScheduleError(f"via[{k}] = {stop!r} must be the Descriptor of a whole array")
        if stop.shape != a.shape:
            raise ScheduleError(f"via[{k}] has shape {stop.shape}, but the array has shape {a.shape}")
    return stops


def _by_block_size(a: Descriptor, b: Descriptor, via: str) -> list[Descriptor]:
    for name, desc in (("desc_a", a), ("desc_b", b)):
        for k, axis in enumerate(desc.distributions):
            if isinstance(axis, Irregular):
                raise ScheduleError(
                    f"via = {via!r} is for blocks of one size, but dimension {k} of {name} has irregular blocks; use via = "
                    "None, 'dimensions', or give the intermediate descriptors"
                )
    blocks = [_common_block(via, r, s, n) for r, s, n in zip(a.block, b.block, a.shape, strict=True)]
    if tuple(blocks) in (a.block, b.block):
        return []
    return [Descriptor(a.shape, blocks, a.grid, source=a.source, axes=a.axes)]


def _common_block(via: str, r: int, s: int, n: int) -> int:
    """The block size between `r` and `s`; above 2^62, one block for a dimension of `n` elements."""
    if via == "gcd":
        return math.gcd(r, s)
    multiple = math.lcm(r, s)
    return multiple if multiple <= LARGEST else max(r, s, n)


def _by_dimension(a: Descriptor, b: Descriptor) -> list[Descriptor]:
    before = _GridAxes.of(a)
    after = before.same_grid(_GridAxes.of(b))
    return _by_dimension_of_array(a, b) if after is None else _by_dimension_of_grid(a, b, before, after)


# -- both layouts over one grid of processes


@dataclass(frozen=True)
class _GridAxes:
    """A descriptor's grid without dimensions of size 1, and the grid dimension of each array dimension."""

    ranks: NDArray[np.int64]
    axes: Axes

    @classmethod
    def of(cls, desc: Descriptor) -> _GridAxes:
        shape = desc.grid.shape
        dimensions = [axis for axis, size in enumerate(shape) if size > 1]
        axes = tuple(dimensions.index(axis) if axis in dimensions else None for axis in desc.axes)
        return cls(desc.grid.ranks.reshape([shape[axis] for axis in dimensions]), axes)

    def same_grid(self, other: _GridAxes) -> _GridAxes | None:
        """The other's axes in this one's numbers of grid dimensions; None if the grids are different."""
        for order in itertools.permutations(range(self.ranks.ndim)):
            transposed = self.ranks.transpose(order)
            if np.array_equal(transposed, other.ranks):
                return _GridAxes(self.ranks, tuple(None if axis is None else order[axis] for axis in other.axes))
        return None


def _by_dimension_of_grid(a: Descriptor, b: Descriptor, before: _GridAxes, after: _GridAxes) -> list[Descriptor]:
    """Intermediate layouts on the common grid; all processes hold a part in each."""
    states = _states(before.axes, after.axes)
    layouts = [tuple(_axis(k, a, b, before, after, axes) for k in range(a.ndim)) for axes in states]
    route: list[tuple[Axes, tuple[Distribution, ...]]] = list(zip(states, layouts, strict=True))[1:]
    # then dimensions that keep their grid dimension but have other blocks, one in each leg
    axes, last = states[-1], list(layouts[-1])
    for k, axis in enumerate(axes):
        if axis is not None and last[k] != b.distributions[k]:
            last[k] = b.distributions[k]
            route.append((axes, tuple(last)))
    if len(route) < 2:
        return []
    grid = ProcessGrid(before.ranks.shape, a.grid.comm, ranks=before.ranks)
    return [
        Descriptor(a.shape, [part.block for part in parts], grid, source=[_first(part) for part in parts], axes=axes)
        for axes, parts in route[:-1]
    ]


def _states(start: Axes, end: Axes) -> list[Axes]:
    """Grid dimension of each array dimension, from `start` to `end`; each state moves one grid dimension.

    A grid dimension can move when its new array dimension is free; so can one that holds replicas at the start. One that holds
    replicas at the end leaves when its array dimension is needed, else last, so that nothing is moved twice. If the moves form
    a cycle, the first one goes to an array dimension that is free in both layouts, if there is one; else all move at once.
    """
    current, states = list(start), [start]
    while tuple(current) != end:
        pending = [k for k, axis in enumerate(end) if axis is not None and current[k] != axis]
        free = [k for k in pending if current[k] is None]
        leaving = [k for k, axis in enumerate(current) if axis is not None and axis not in end]
        blocking = [k for k in leaving if k in pending]
        unused = [k for k, axis in enumerate(current) if axis is None and end[k] is None]
        if free or (pending and not blocking and unused):
            target = free[0] if free else unused[0]
            grid_dimension = end[target] if free else current[pending[0]]
            if grid_dimension in current:
                current[current.index(grid_dimension)] = None
            current[target] = grid_dimension
        elif blocking or not pending:
            current[(blocking or leaving)[0]] = None
        else:
            current = list(end)
        states.append(tuple(current))
    return states


def _axis(k: int, a: Descriptor, b: Descriptor, before: _GridAxes, after: _GridAxes, axes: Axes) -> Distribution:
    """Dimension k as in A or B if it has the same grid dimension there, else in one block for each process."""
    if axes[k] == before.axes[k]:
        return a.distributions[k]
    if axes[k] == after.axes[k]:
        return b.distributions[k]
    axis, n = axes[k], a.shape[k]
    processes = 1 if axis is None else before.ranks.shape[axis]
    return BlockCyclic(n, max(1, -(-n // processes)), processes)


# -- grids of different shapes


def _by_dimension_of_array(a: Descriptor, b: Descriptor) -> list[Descriptor]:
    """Dimensions 0 to k - 1 as in B, the others as in A, for k = 1, 2, ...; or from the last dimension on.

    An intermediate layout needs a grid with as many processes along each dimension as A or B has. Of the two routes that fit
    the available processes, the one with the larger smallest grid is used.
    """
    ranks = np.unique(np.concatenate([a.places.ravel(), b.places.ravel()]))
    routes = []
    for dims in (range(a.ndim), range(a.ndim - 1, -1, -1)):
        as_in_b: set[int] = set()
        route = []
        for k in list(dims)[:-1]:
            as_in_b.add(k)
            route.append([(b if dim in as_in_b else a).distributions[dim] for dim in range(a.ndim)])
        sizes = [math.prod(axis.processes for axis in axes) for axes in route]
        if all(size <= len(ranks) for size in sizes):
            routes.append((min(sizes, default=0), route))
    if not routes:
        raise ScheduleError(
            f"via = 'dimensions': no layout between a grid of {a.placement.shape} and one of {b.placement.shape} fits "
            f"the {len(ranks)} processes; use via = None, or give the intermediate descriptors"
        )
    best = max(routes, key=lambda route: route[0])[1]
    return [_between(a, b, axes, ranks) for axes in best if axes not in (list(a.distributions), list(b.distributions))]


def _between(a: Descriptor, b: Descriptor, axes: Sequence[Distribution], ranks: NDArray[np.int64]) -> Descriptor:
    """A layout of these axes; on A's or B's ranks in their order if the grid has that shape."""
    shape = tuple(axis.processes for axis in axes)
    grid_ranks = next((desc.placement for desc in (a, b) if desc.placement.shape == shape), None)
    if grid_ranks is None:
        grid_ranks = ranks[: math.prod(shape)].reshape(shape)
    grid = ProcessGrid(shape, a.grid.comm, ranks=grid_ranks)
    blocks = [axis.block for axis in axes]
    return Descriptor([axis.n for axis in axes], blocks, grid, source=[_first(axis) for axis in axes])


def _first(axis: Distribution) -> int:
    """The process that owns element 0; 0 for irregular blocks, which have explicit owners."""
    return axis.owner(0) if axis.n and isinstance(axis, BlockCyclic) else 0


# -- the argument via=


def readable_via(via: object, comm: MPI.Intracomm | None) -> tuple[Descriptor, ...]:
    """The valid descriptors of a list, even if others are invalid: ranks of all of them take part in the error."""
    descriptors = []
    for stop in via if isinstance(via, list | tuple) else ():
        with suppress(Exception):
            if isinstance(stop, Descriptor):
                descriptors.append(stop if comm is None else stop.on(comm))
    return tuple(descriptors)


def read_via(via: object, comm: MPI.Intracomm | None, two_sides: bool) -> str | tuple[Descriptor, ...]:
    """Check `via`: a name, or descriptors, which are put on `comm`.

    Raises
    ------
    ScheduleError
        `via` is invalid, or a list of descriptors for an inter-communicator.
    DescriptorError
        A process of a descriptor is not in `comm`.
    """
    if isinstance(via, str) and via in VIAS:
        return via
    if isinstance(via, str) or not isinstance(via, Iterable) or not all(isinstance(stop, Descriptor) for stop in via):
        raise ScheduleError(f"via = {via!r} must be None, {', '.join(map(repr, VIAS))}, or a list of Descriptors")
    if two_sides:
        raise ScheduleError(
            "via is a list of Descriptors, but comm is an inter-communicator, whose sides know only their own layouts: "
            "give via by name, or redistribute leg by leg"
        )
    return tuple(stop if comm is None else stop.on(comm) for stop in via)
