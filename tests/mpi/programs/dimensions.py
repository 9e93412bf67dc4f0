"""Redistribution of one dimension within groups of processes, of several in turn, and of merged dimensions.

Birkeland & Sorevik (2007), sections 3 and 4.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist.exchanges import EXCHANGES
from pyscalapack_redist.layout.blockcyclic import MOST_DIMENSIONS

Axes = tuple[int | None, ...]


def value(shape: Sequence[int]) -> NDArray[np.int64]:
    return np.arange(math.prod(shape)).reshape(shape)


def part(desc: psr.Descriptor, whole: NDArray[Any]) -> NDArray[Any]:
    return np.asfortranarray(whole[np.ix_(*(desc.global_indices(k) for k in range(desc.ndim)))])


def peers(plan: psr.Redistribution) -> set[int]:
    """Ranks that this rank sends to or receives from; all ranks of the communicator take part here."""
    return {message.peer for way in ("send", "receive") for message in plan.messages[way]}


def differing(grid: psr.ProcessGrid, rank: int, other: int) -> list[int]:
    """Grid dimensions in which two ranks stand apart."""
    here, there = grid.coords_of(rank), grid.coords_of(other)
    assert here is not None
    assert there is not None
    return [k for k, (p, q) in enumerate(zip(here, there, strict=True)) if p != q]


def check_way(comm: MPI.Intracomm, a: psr.Descriptor, b: psr.Descriptor, legs: int | None) -> None:
    """In turn each leg stays in groups along one grid dimension; in turn and at once give the same."""
    whole = value(a.shape)
    at_once = psr.redistribute(a, b)
    in_turn = psr.redistribute(a, b, via="dimensions")
    steps = in_turn.legs  # type: ignore[attr-defined]
    assert legs is None or len(steps) == legs, (a, b, [leg.desc_b for leg in steps])
    for leg in steps:
        assert leg.desc_a.placement.size == leg.desc_b.placement.size == a.grid.size, "processes idle on the way"
        moved = {k for peer in peers(leg) for k in differing(a.grid, comm.rank, peer)}
        assert len(set().union(*comm.allgather(moved))) <= 1, (leg.desc_a, leg.desc_b, moved)
    for plan in (at_once, in_turn):
        result = plan(part(a, whole))
        assert result is not None
        assert np.array_equal(result, part(b, whole)), (a, b)


def single_dimension(comm: MPI.Intracomm, grid: psr.ProcessGrid, shape: tuple[int, ...]) -> None:
    """Each pair of layouts of which one array dimension is gathered and another spread over the same grid dimension."""
    dims = range(len(shape))
    for axes in itertools.permutations([*range(grid.ndim), *[None] * (len(shape) - grid.ndim)]):
        for k, to in itertools.product(dims, dims):
            if axes[k] is None or axes[to] is not None:
                continue
            moved = list(axes)
            moved[k], moved[to] = None, axes[k]
            a, b = (psr.Descriptor(shape, None, grid, axes=order) for order in (axes, moved))
            plan = psr.redistribute(a, b)
            groups = {tuple(differing(grid, comm.rank, peer)) for peer in peers(plan)}
            assert groups <= {(axes[k],)}, (a, b, groups)
            if all(n % grid.shape[axes[k]] == 0 and n > 0 for n in (shape[k], shape[to])):
                assert len(peers(plan)) == grid.shape[axes[k]] - 1
            check_way(comm, a, b, 1)


def two_dimensions(comm: MPI.Intracomm) -> None:
    """Two grid dimensions of 2 x P/2 move over arrays of 3 and 4 dimensions; they may have to wait for one another."""
    grid = psr.ProcessGrid((2, comm.size // 2), comm)
    cases: list[tuple[tuple[int, ...], Axes, Axes, int]] = [
        ((6, 8, 4, 12), (0, 1, None, None), (None, None, 0, 1), 2),
        ((7, 5, 3, 9), (0, 1, None, None), (None, None, 1, 0), 2),
        ((7, 5, 9), (0, 1, None), (None, 0, 1), 2),
        ((7, 5, 9), (0, 1, None), (1, 0, None), 3),
    ]
    for shape, before, after, legs in cases:
        if 1 in grid.shape:
            legs = 1
        check_way(
            comm,
            psr.Descriptor(shape, None, grid, axes=before),
            psr.Descriptor(shape, (2, 1, 3, 2)[: len(shape)], grid, axes=after, source=0),
            None if 1 in grid.shape else legs,
        )


def all_at_once(comm: MPI.Intracomm) -> None:
    """Where no array dimension is free both grid dimensions move in one leg."""
    grid = psr.ProcessGrid((2, comm.size // 2), comm)
    a, b = (psr.Descriptor((6, 9), 2, grid, axes=axes) for axes in ((0, 1), (1, 0)))
    plan = psr.redistribute(a, b, via="dimensions")
    assert [leg.desc_b for leg in plan.legs] == [b]  # type: ignore[attr-defined]
    whole = value(a.shape)
    result = plan(part(a, whole))
    assert result is not None
    assert np.array_equal(result, part(b, whole))


def other_dimensions(comm: MPI.Intracomm) -> None:
    """Arrays of different numbers of dimensions are refused on every rank."""
    grid = psr.ProcessGrid((comm.size,), comm)
    with pytest.raises(psr.DescriptorError, match=r"desc_a has .* and desc_b"):
        psr.redistribute(psr.Descriptor((6, 4), None, grid), psr.Descriptor((6, 4, 1), None, grid))


def merged(comm: MPI.Intracomm) -> None:
    """The same redistribution in two dimensions instead of three or four, sizes that do not divide included."""
    grid = psr.ProcessGrid((comm.size,), comm)
    for shape, spread, dims in (
        ((8, 6, 10), (0, 2), (1, 2)),
        ((7, 3, 11), (0, 2), (1, 2)),
        ((5, 3, 2, 9), (0, 3), (1, 2, 3)),
        ((3, 7, 13), (2, 1), (0, 1)),
    ):
        descs = []
        for dim in spread:
            axes: list[int | None] = [None] * len(shape)
            axes[dim] = 0
            descs.append(psr.Descriptor(shape, None, grid, axes=axes))
        flat = [desc.merge(*dims) for desc in descs]
        whole = value(shape)
        local = part(descs[0], whole)
        plan = psr.redistribute(*flat)
        result = plan(local.reshape(flat[0].local_shape, order="F"))
        assert result is not None
        assert np.array_equal(result.reshape(descs[1].local_shape, order="F"), part(descs[1], whole)), (shape, spread)
        assert np.shares_memory(local, local.reshape(flat[0].local_shape, order="F")) or not local.size


def as_many_as_an_array_can_have(comm: MPI.Intracomm) -> None:
    """Most of them of one element; by each exchange, and again with arrays that are known by then."""

    def number(*indices: NDArray[np.int64]) -> Any:
        large = (0, 3, len(indices) // 2, -3, -1)
        return sum(5**k * indices[place] for k, place in enumerate(large)) + 0 * sum(indices)

    grid = psr.ProcessGrid((comm.size,), comm)
    for dimensions in (32, MOST_DIMENSIONS):
        shape = [1] * dimensions
        shape[0], shape[3], shape[dimensions // 2], shape[-3], shape[-1] = 5, 2, 3, 3, 4
        last: list[int | None] = [None] * (dimensions - 1) + [0]
        a, b = psr.Descriptor(shape, 2, grid), psr.Descriptor(shape, 1, grid, axes=last)
        for exchange in EXCHANGES:
            plan = psr.redistribute(a, b, exchange=exchange)
            for _ in range(3):
                result = plan(a.from_function(number))
                assert result is not None
                assert np.array_equal(result, b.from_function(number)), (dimensions, exchange)


def main() -> None:
    comm = MPI.COMM_WORLD
    single_dimension(comm, psr.ProcessGrid((comm.size,), comm), (5, 8, 7))
    if comm.size % 2 == 0:
        single_dimension(comm, psr.ProcessGrid((2, comm.size // 2), comm), (2 * comm.size, 5, 12, 3))
        two_dimensions(comm)
        all_at_once(comm)
    merged(comm)
    other_dimensions(comm)
    as_many_as_an_array_can_have(comm)
    if comm.rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
