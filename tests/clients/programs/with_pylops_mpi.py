"""Arrays of pylops-mpi of any partition, axis, local shapes and mask: redistribute does what theirs does. Argument: "few"."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any
from unittest.mock import patch

os.environ["JAX_PYLOPS"] = "0"  # JAX is imported in vain

import numpy as np
from conversions import check_conversions, check_linalg, check_refused, value
from mpi4py import MPI
from pylops_mpi import DistributedArray, Partition, StackedDistributedArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
SIZE, RANK = WORLD.Get_size(), WORLD.Get_rank()
REPLICAS = (Partition.BROADCAST, Partition.UNSAFE_BROADCAST)
GROUPS = [rank % 2 for rank in range(SIZE)]


def local_of(x: Any) -> Any:
    return x.local_array


def indices_of(x: Any) -> list[Any]:
    """The indices of this process along each dimension, by the local shapes that pylops-mpi gathers."""
    if x.partition in REPLICAS:
        return [range(n) for n in x.global_shape]
    counts = [shape[x.axis] for shape in x.local_shapes]
    first = sum(counts[: x.rank])
    axis = x.axis % x.ndim
    return [range(first, first + counts[x.rank]) if k == axis else range(n) for k, n in enumerate(x.global_shape)]


def unbalanced(shape: tuple[int, ...], axis: int, comm: MPI.Intracomm = WORLD, **options: Any) -> DistributedArray:
    """An array of zeros of which the last process has most, and those between the first and the last nothing."""
    n, size = shape[axis], comm.Get_size()
    counts = [n] if size == 1 else [1, *[0] * (size - 2), n - 1]
    local_shapes = [(*shape[:axis], count, *shape[axis + 1 :]) for count in counts]
    x = DistributedArray(shape, comm, axis=axis, local_shapes=local_shapes, **options)
    x[:] = 0
    return x


def check_arrays() -> None:
    for shape in [(7, 5)] if "few" in sys.argv else [(7, 5), (4, 5, 3), (11,)]:
        for dtype in ("F",) if "few" in sys.argv else ("f8", "F", "i4"):
            for axis in (*range(len(shape)), -1):
                check_conversions(DistributedArray(shape, axis=axis, dtype=dtype), local_of, indices_of, dtype)
            for partition in REPLICAS:
                x = DistributedArray(shape, partition=partition, dtype=dtype)
                check_conversions(x, local_of, indices_of, dtype)
        for axis in range(len(shape)):
            check_conversions(unbalanced(shape, axis), local_of, indices_of, "f8")
    turned = DistributedArray((7, 5), local_array=np.zeros((5, -(-(7 - RANK) // SIZE))).T)  # in Fortran order
    check_conversions(turned, local_of, indices_of, "f8")


def check_redistribute() -> None:
    """What pylops-mpi's own `redistribute` does: the same elements, local shapes and mask, for any axis to any other."""
    shape = (5, 4, 7)
    whole = np.fromfunction(value, shape)
    for mask in (None, GROUPS):
        for before in range(3):
            x = DistributedArray.to_dist(whole, axis=before, mask=mask)
            for after in range(3):
                y, theirs = (
                    psr.redistribute(x, like=DistributedArray(shape, axis=after, mask=mask)),
                    x.redistribute(after),
                )
                assert (y.axis, y.partition, y.mask, y.dtype) == (after, Partition.SCATTER, mask, whole.dtype)
                assert y.local_shapes == theirs.local_shapes
                assert np.array_equal(y.local_array, theirs.local_array)
                assert y.local_array.flags.c_contiguous
                assert np.isclose((y * 2).norm(), 2 * theirs.norm())  # pylops-mpi goes on with it, in the mask's groups
                again = DistributedArray(shape, axis=after)
                psr.copy_to(x, again)
                assert np.array_equal(again.local_array, theirs.local_array)
                again[:] = 0
                psr.plan(x, y)(x.local_array, again.local_array)
                assert np.array_equal(again.local_array, theirs.local_array)


def check_new_arrays() -> None:
    """A new array has as many indices on each process as another one, where that has as many in all; else it is balanced."""
    x = DistributedArray.to_dist(np.fromfunction(value, (9, 8)))
    kept = psr.redistribute(x, like=unbalanced((4, 8), 1))
    assert kept.local_shapes == [(9, n) for _, n in unbalanced((4, 8), 1).local_shapes]
    turned = psr.redistribute(x, like=unbalanced((9, 7), 1), op="T")
    assert turned.local_shapes == DistributedArray((8, 9), axis=1).local_shapes
    vector = DistributedArray.to_dist(np.arange(8.0))
    for like, partition in ((unbalanced((3, 8), 1), Partition.BROADCAST), (vector, Partition.SCATTER)):
        y = psr.redistribute(vector, like=like)
        assert (y.partition, y.global_shape) == (partition, (8,))
        assert np.array_equal(y.asarray(), np.arange(8))
    whole = DistributedArray((3,), partition=Partition.UNSAFE_BROADCAST)
    assert psr.redistribute(vector, like=whole).partition is Partition.UNSAFE_BROADCAST
    assert np.array_equal(psr.redistribute(vector, like=whole).local_array, np.arange(8))


def check_communicators() -> None:
    """An array is on its own communicator, whichever that is."""
    part = WORLD.Split(RANK % 2, key=-RANK)
    check_conversions(unbalanced((6, 4), 0, part), local_of, indices_of, "f8", part)
    y = psr.redistribute(unbalanced((6, 4), 0, part), like=DistributedArray((6, 4), part, axis=1))
    assert y.base_comm == part
    part.Free()
    check_refused(lambda: psr.as_distributed(y), "has been freed")
    assert psr.as_distributed(DistributedArray((4, 4), MPI.COMM_SELF)).desc.comm.size == 1


def check_solvers() -> None:
    for x in (DistributedArray((9, 9), axis=1), unbalanced((9, 9), 0), DistributedArray((9, 9), partition=REPLICAS[0])):
        check_linalg(x)
    x = DistributedArray.to_dist(np.eye(6) * 2)
    b = psr.linalg.solve(x, DistributedArray.to_dist(np.arange(6.0)))
    assert isinstance(b, DistributedArray)
    assert np.allclose(b.asarray(), np.arange(6) / 2)


def check_errors() -> None:
    x = DistributedArray.to_dist(np.ones((6, 4)))
    check_refused(lambda: psr.as_distributed(StackedDistributedArray([x, x])), "each of its distarrays")
    check_refused(lambda: psr.redistribute(x, like=StackedDistributedArray([x, x])), "each of its distarrays")
    device = x.copy()
    device._engine = "cupy"
    check_refused(lambda: psr.as_distributed(device if RANK == 0 else x), "local_array.get()")
    if SIZE > 1:
        groups = DistributedArray((3,), partition=Partition.UNSAFE_BROADCAST, mask=GROUPS)
        check_refused(lambda: psr.as_distributed(groups), f"mask={GROUPS}")
        locked = x.copy()
        locked.local_array.setflags(write=RANK != 0)
        check_refused(lambda: psr.copy_to(x, locked), "read-only")
        columns = x.redistribute(1)
        check_refused(lambda: psr.as_distributed(columns if RANK else x), "axis")
        whole = DistributedArray((6, 4), partition=Partition.BROADCAST)
        check_refused(lambda: psr.as_distributed(whole if RANK else x), "partition")
        masked = DistributedArray((6, 4), mask=GROUPS)
        check_refused(lambda: psr.as_distributed(masked if RANK else x), "mask")
        wide = DistributedArray((6, 5))
        check_refused(lambda: psr.as_distributed(wide if RANK else x), "(6, 5)")
        check_refused(
            lambda: psr.as_distributed(x if RANK else x.local_array), "the layout of a local array is not known"
        )
    assert np.array_equal(x.asarray(), np.ones((6, 4)))


def check_interrupt() -> None:
    """An interrupt of one rank before the constructor communicates comes after that, and is an error on all ranks."""
    x, like, check = (
        DistributedArray.to_dist(np.ones((6, 4))),
        unbalanced((6, 4), 1),
        DistributedArray._check_local_shapes,
    )

    def interrupted(array: Any, local_shapes: Any) -> None:
        if RANK == 0:
            os.kill(os.getpid(), signal.SIGINT)
        check(array, local_shapes)

    error: BaseException | None = None
    try:
        with patch.object(DistributedArray, "_check_local_shapes", interrupted):
            psr.redistribute(x, like=like)
    except (KeyboardInterrupt, psr.CollectiveError) as caught:
        error = caught
    assert isinstance(error, KeyboardInterrupt if RANK == 0 else psr.CollectiveError), error
    assert np.array_equal(psr.redistribute(x, like=like).asarray(), x.asarray())


if __name__ == "__main__":
    steps = (check_arrays, check_redistribute, check_new_arrays, check_communicators, check_solvers, check_errors)
    for step in (*steps, check_interrupt):
        step()
    if RANK == 0:
        sys.stdout.write("OK\n")
