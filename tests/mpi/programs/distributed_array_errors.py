"""Distributed arrays with wrong arguments on one rank or on all: an error on every rank, arrays untouched, and the next call
is good. Run on at least two ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
SHAPE = (13, 11)
ROWS, COLUMNS = psr.ProcessGrid((SIZE, 1), WORLD), psr.ProcessGrid((1, SIZE), WORLD)
A, B = psr.Descriptor(SHAPE, 2, ROWS), psr.Descriptor(SHAPE, 3, COLUMNS)
WHOLE = np.arange(143.0).reshape(SHAPE)
BAD = 1  # the rank that is wrong


def array(desc: psr.Descriptor = A) -> psr.DistributedArray:
    return psr.DistributedArray.from_function(desc, lambda i, j: 11.0 * i + j)


def fails(words: str, call: Callable[[], object], kind: type = psr.ArrayError, culprit: int | None = BAD) -> None:
    """The culprit raises an error of the kind with the words, the others a CollectiveError that has them; all, without one."""
    expected = kind if culprit in (None, RANK) else psr.CollectiveError
    with pytest.raises(expected) as caught:
        call()
    assert caught.type is expected, caught.value
    assert words in str(caught.value), str(caught.value)
    if culprit not in (None, RANK):
        assert f"rank {culprit} could not take part: {kind.__name__}" in str(caught.value)


def on_bad(wrong: Any, right: Any) -> Any:
    return wrong if RANK == BAD else right


def layouts_to_reach() -> None:
    x, y = array(), psr.DistributedArray(B, B.zeros())
    once = "give the layout to reach in one way: a Descriptor; or block=, grid=; or out="
    for keywords in ({}, {"desc": B, "block": 2}, {"desc": B, "out": y}, {"out": y, "source": 1}):
        fails(once, lambda keywords=keywords: x.redistribute(**on_bad(keywords, {"desc": B})), psr.DescriptorError)
    wrong = psr.DescriptorError
    fails("desc = 'B' must be a Descriptor or a D", lambda: x.redistribute(on_bad("B", B)), wrong)
    fails("block[0] = 0 must be at least 1", lambda: x.redistribute(block=on_bad(0, 2)), wrong)
    fails(
        "has shape (13, 11) and desc_b (13, 12)", lambda: x.redistribute(psr.Descriptor((13, 12), 2, ROWS)), wrong, None
    )
    fails("is on paper", lambda: x.redistribute(grid=psr.ProcessGrid((1, 1))), wrong, None)
    fails("op = 'X' must be one of", lambda: x.redistribute(block=2, op=on_bad("X", "T")), wrong)
    fails("memory_limit = 0", lambda: x.redistribute(B, memory_limit=on_bad(0, 99999)), wrong)
    fails("out is a ndarray: it must be", lambda: x.redistribute(out=on_bad(B.zeros(), y)))
    fails("out is missing: B is a sub-array", lambda: x[:3].redistribute(B[:3]), culprit=None)
    differ = "the layout to reach must be the same on every rank, but rank 0 has"
    fails(differ, lambda: x.redistribute(block=RANK + 1), psr.CollectiveError, None)
    fails("the dtype must be the same", lambda: x.astype("ifdD"[RANK % 4]).redistribute(B), psr.CollectiveError, None)
    narrow = psr.DistributedArray(B, B.zeros(on_bad(np.float32, np.float64)))
    fails("out has dtype float32, but a has dtype float64", lambda: x.redistribute(out=narrow))
    frozen = B.zeros()
    frozen.flags.writeable = RANK != BAD
    fails("out is read-only", lambda: x.redistribute(out=psr.DistributedArray(B, frozen)))
    assert not frozen.any()
    assert y.local is not None
    assert not y.local.any()


def plans() -> None:
    x, target = array(), psr.DistributedArray(B, B.zeros())
    plan = psr.redistribute(x, B)
    other = array(psr.Descriptor(SHAPE, 4, ROWS))
    layout = "a has the layout Descriptor(13 x 11, blocks 4 x 4"
    fails(layout, lambda: plan(on_bad(other, x)))
    fails(layout, lambda: plan.start(on_bad(other, x), target).wait())
    fails("out has the layout Descriptor(13 x 11, blocks 2 x 2", lambda: plan(x, on_bad(x, target)))
    fails("but the plan is for Descriptor(13 x 11, blocks 2 x 2", lambda: plan(on_bad(x[1:], x)))
    batch = psr.batch(plan, plan)
    fails(f"plan 1: {layout}", lambda: batch([x, on_bad(other, x)]))
    fails("arrays has 1 entries", lambda: batch(on_bad([x], [x, x])))
    fails("arrays is a DistributedArray: it must be a list", lambda: batch(on_bad(x, [x, x])))
    assert target.local is not None
    assert not target.local.any()


def one_process() -> None:
    last = SIZE - 1
    x = array()
    where = f"root = {SIZE} is not a rank of the communicator"
    fails(where, lambda: x.gather(on_bad(SIZE, 0)), psr.DescriptorError)
    fails(where, lambda: psr.distribute(WHOLE, A, root=on_bad(SIZE, 0)), psr.DescriptorError)
    fails("root must be the same on every rank", lambda: x.gather(RANK % 2), psr.CollectiveError, None)
    assert np.array_equal(x.gather(on_bad(np.int32(0), 0)), WHOLE if RANK == 0 else None)  # type: ignore[arg-type]
    fails("desc must be the same", lambda: on_bad(array(B), x).gather(), psr.CollectiveError, None)
    calls = "the call must be the same on every rank, but rank 0 has"
    other = on_bad(lambda: psr.distribute(WHOLE, A), lambda: x.gather())
    fails(calls, other, psr.CollectiveError, None)
    masked = np.ma.masked_array(WHOLE, WHOLE > 5)
    mask = "is a masked array, whose mask would not move with it: pass array.filled(value)"
    for given in (masked, [*masked], [[*masked[0]], *WHOLE[1:].tolist()]):
        fails(mask, lambda given=given: psr.distribute(given, A, last), culprit=last)
    assert np.array_equal(masked.mask, WHOLE > 5)
    fails("the array has shape (12, 11), but desc has shape (13, 11)", lambda: psr.distribute(WHOLE[1:], A), culprit=0)
    fails("the array has shape (), but", lambda: psr.distribute(1.0, A), culprit=0)
    fails("NumPy cannot make an array of this list", lambda: psr.distribute([[1, 2], [3]], A), culprit=0)
    fails("is not all on this rank: .local is", lambda: psr.distribute(x, A), culprit=0)
    fails(
        "the array is None on every rank that should hold it: pass it on rank 0",
        lambda: psr.distribute(None, A),
        culprit=None,
    )
    fails("dtype object cannot be redistributed", lambda: psr.distribute(WHOLE.astype(object), A), culprit=None)
    fails("out is missing: B is a sub-array", lambda: psr.distribute(WHOLE[1:], A[1:]), culprit=None)
    assert np.array_equal(psr.distribute(WHOLE if last == RANK else masked, A, last).local, x.local)


def files(folder: Path) -> None:
    x, path = array(), folder / "array.npy"
    fails("order = 'A' must be", lambda: x.save(path, order=on_bad("A", "C")), psr.FileError)
    fails("path = 7 must be", lambda: psr.save(x, on_bad(7, path)), psr.FileError)
    fails("No such file", lambda: psr.DistributedArray.load(A, folder / "missing.npy"), psr.FileError, None)
    psr.save(x, path)
    fails("through = 'pipe' must be", lambda: psr.load(x, path, through=on_bad("pipe", "view")), psr.FileError)
    small = x.astype(np.float32)
    fails("cannot hold without loss", lambda: psr.load(small, path), psr.FileError, None)
    with pytest.raises(TypeError, match="give out= with a Descriptor only"):
        psr.load(x, path, x.local)  # type: ignore[call-overload]


def no_rank_knows() -> None:
    """Nothing tells the dtype: all local arrays are empty and left out."""
    empty = psr.Descriptor((0, 4), 2, ROWS)
    x = psr.DistributedArray(empty, None)
    assert x.dtype is None
    fails("its dtype is not known on this rank", lambda: x.redistribute(grid=COLUMNS), culprit=None)
    assert psr.DistributedArray(empty, on_bad(np.empty(0, "f4"), None)).redistribute(grid=COLUMNS).dtype == np.float32


def main() -> None:
    assert SIZE > 1, "run on at least two ranks"
    for group in (layouts_to_reach, plans, one_process, no_rank_knows, lambda: files(Path(sys.argv[1]))):
        group()
        found = array().redistribute(B)
        assert np.array_equal(found.local, B.from_function(lambda i, j: 11.0 * i + j))
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
