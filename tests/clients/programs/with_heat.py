"""Arrays of Heat, balanced or not, split or whole: conversions, linalg, and what is refused. Argument: "few"."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import heat as ht
import numpy as np
import torch
from conversions import check_conversions, check_linalg, check_refused, value
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
SIZE, RANK = WORLD.size, WORLD.rank
DTYPES = {ht.float64: "f8", ht.float32: "f4", ht.int32: "i4", ht.complex64: "F", ht.float16: "f2", ht.uint8: "u1"}


def local_of(x: Any) -> Any:
    return x.larray.numpy()


def indices_of(x: Any) -> list[Any]:
    """The indices of this process along each dimension, as Heat counts them."""
    counts = x.create_lshape_map(force_check=True)[:, x.split].tolist() if x.split is not None else []
    first = sum(counts[: x.comm.rank])
    return [range(first, first + counts[x.comm.rank]) if k == x.split else range(n) for k, n in enumerate(x.shape)]


def unbalanced(shape: Sequence[int], split: int, comm: Any = None) -> Any:
    """An array of zeros of which the last process has most, and those between the first and the last nothing."""
    size, rank = (SIZE, RANK) if comm is None else (comm.size, comm.rank)
    n = shape[split]
    own = list(shape)
    own[split] = n if size == 1 else 1 if rank == 0 else n - 1 if rank == size - 1 else 0
    return ht.array(torch.zeros(own, dtype=torch.float64), is_split=split, comm=comm)


def check_arrays() -> None:
    for kind, dtype in DTYPES.items():
        x = ht.arange(35, dtype=kind, split=0)
        y = psr.redistribute(x, like=ht.zeros((1,)))
        assert (y.dtype, y.split) == (kind, None)
        assert np.array_equal(local_of(y), np.arange(35, dtype=dtype))
    for shape in [(7, 5)] if "few" in sys.argv else [(7, 5), (4, 5, 3), (11,)]:
        for split in (None, *range(len(shape))):
            for kind, dtype in ((ht.float64, "f8"), (ht.complex64, "F")):
                check_conversions(ht.zeros(shape, split=split, dtype=kind), local_of, indices_of, dtype)
            if split is not None:
                x = unbalanced(shape, split)
                check_conversions(x, local_of, indices_of, "f8")
                assert psr.redistribute(x, like=x).balanced == (SIZE == 1)


def check_resplit() -> None:
    """What Heat's own `resplit` does; an array of another shape is balanced."""
    whole = np.fromfunction(value, (9, 8))
    x = ht.array(torch.from_numpy(whole.copy()), split=0)
    for split in (1, None):
        y = psr.redistribute(x, like=ht.zeros((9, 8), split=split))
        assert (y.split, y.gshape, y.dtype, y.balanced) == (split, (9, 8), ht.float64, True)
        assert np.array_equal(local_of(y), local_of(ht.resplit(x, split)))
    turned = psr.redistribute(x, like=unbalanced((9, 8), 1), op="T")
    assert (turned.shape, turned.split, turned.balanced) == ((8, 9), 1, True)
    assert np.array_equal(turned.numpy(), whole.T)
    kept = psr.redistribute(x, like=unbalanced((4, 8), 1))  # as many columns
    assert np.array_equal(indices_of(kept)[1], indices_of(unbalanced((4, 8), 1))[1])
    vector = ht.arange(8, split=0, dtype=ht.float64)
    assert psr.redistribute(vector, like=ht.zeros((3, 8), split=1)).split is None
    assert float(ht.sum(psr.redistribute(vector, like=vector) * 2)) == 56  # Heat goes on with it


def check_communicators() -> None:
    """An array is on its own communicator, whichever that is."""
    part = WORLD.Split(RANK % 2, key=-RANK)
    comm = ht.communication.MPICommunication(part)
    check_conversions(unbalanced((6, 4), 0, comm), local_of, indices_of, "f8", part)
    if SIZE > 1:
        alone = ht.ones((4, 4), comm=ht.communication.MPI_SELF)
        assert psr.layout_of(alone).grid.size == 1
        assert psr.as_distributed(alone).desc.comm.size == 1


def check_solvers() -> None:
    for x in (ht.zeros((9, 9), split=0, dtype=ht.float64), unbalanced((9, 9), 1), ht.zeros((9, 9), dtype=ht.float64)):
        check_linalg(x, lambda w: w.larray.numpy())
    w, v = psr.linalg.eigh(ht.eye(6, split=1, dtype=ht.float64) + 1)
    assert (w.split, v.split) == (None, 1)
    assert isinstance(w, ht.DNDarray)
    b = psr.linalg.solve(ht.eye(6, split=1, dtype=ht.float64) * 2, ht.arange(6, split=0, dtype=ht.float64))
    assert (b.shape, b.split) == ((6,), 0)
    assert np.allclose(b.numpy(), np.arange(6) / 2)


def check_errors() -> None:
    x = ht.ones((6, 4), split=0, dtype=ht.float64)
    view = psr.as_distributed(x)
    check_refused(lambda: psr.as_distributed(ht.array(3.0)), "no dimensions")
    check_refused(lambda: psr.redistribute(view.astype(np.longdouble), like=x), "PyTorch has no elements")
    check_refused(lambda: psr.redistribute(view.astype(np.uint32), like=x), "Heat has no elements")
    slope = ht.ones((6, 4), split=0)
    slope.larray.requires_grad_(RANK == 0)
    check_refused(lambda: psr.as_distributed(slope), "requires a gradient")
    if SIZE > 1:
        other = ht.ones((6, 4), split=RANK % 2)
        check_refused(lambda: psr.as_distributed(other), "split=")
        short = ht.DNDarray(torch.ones(2 + RANK, 4), (6, 4), ht.float32, 0, x.device, x.comm, True)
        check_refused(lambda: psr.as_distributed(short), "in all")
        narrow = ht.DNDarray(torch.ones(3, 4 - RANK % 2), (3 * SIZE, 4), ht.float32, 0, x.device, x.comm, True)
        check_refused(lambda: psr.as_distributed(narrow), "a local tensor of shape (3, 3) on rank 1")
        check_refused(lambda: psr.as_distributed(x if RANK else view.local), "the layout of a local array is not known")


if __name__ == "__main__":
    for step in (check_arrays, check_resplit, check_communicators, check_solvers, check_errors):
        step()
    if RANK == 0:
        print("OK", flush=True)
