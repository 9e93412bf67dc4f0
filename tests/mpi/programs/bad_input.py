"""Bad input on one rank or on all: a named error on every rank, at once, arrays untouched, and the communicator still
good for the next redistribution. Run on at least four ranks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist.engine import planner as messages
from pyscalapack_redist.engine import redistribute as redistribution
from pyscalapack_redist.exchanges import EXCHANGES

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
SHAPE = (13, 11)
ROWS = psr.ProcessGrid((SIZE, 1), WORLD)
COLUMNS = psr.ProcessGrid((1, SIZE), WORLD)
PAIR = psr.ProcessGrid((1, 2), WORLD)
A = psr.Descriptor(SHAPE, (2, 2), ROWS)
B = psr.Descriptor(SHAPE, (3, 3), COLUMNS)

Expected = tuple[type[Exception], str]


def value(i: Any, j: Any) -> Any:
    return 1000.0 * i + j


def expect(
    call: Callable[[], object], mine: Expected, others: Expected | None = None, culprit: int | None = None
) -> None:
    """`mine` is raised on the culprit (on all ranks without one), `others` elsewhere."""
    kind, words = mine if culprit is None or culprit == RANK else others or mine
    assert issubclass(kind, psr.RedistributionError)
    with pytest.raises(kind, match=words):
        call()
    still_good()


def still_good() -> None:
    result = psr.redistribute(A, B)(A.from_function(value))
    assert result is not None
    assert np.array_equal(result, B.from_function(value))


def elsewhere(words: str, culprit: int = 1) -> Expected:
    return (psr.CollectiveError, f"rank {culprit} could not take part: .*{words}")


def layouts() -> None:
    """What redistribute itself refuses."""
    last = RANK == SIZE - 1
    different = psr.Descriptor(SHAPE, (4, 4) if last else (2, 2), ROWS)
    expect(
        lambda: psr.redistribute(different, B),
        (psr.CollectiveError, "desc_a must be the same on every rank, but rank 0 has .*2 x 2.* rank"),
    )
    placed = psr.Descriptor(
        SHAPE, (2, 2), psr.ProcessGrid((SIZE, 1), WORLD, ranks=np.arange(SIZE)[::-1, None]) if last else ROWS
    )
    expect(lambda: psr.redistribute(A, placed), (psr.CollectiveError, "desc_b must be the same"))
    expect(
        lambda: psr.redistribute(A, B, schedule="natural" if last else "caterpillar"),
        (psr.CollectiveError, "the options must be the same .*schedule='caterpillar'"),
    )
    larger = psr.Descriptor((13, 12), (2, 2), COLUMNS)
    expect(
        lambda: psr.redistribute(A, larger), (psr.DescriptorError, r"desc_a has shape \(13, 11\) and desc_b \(13, 12\)")
    )
    expect(
        lambda: psr.redistribute(A, larger if RANK == 1 else B),
        (psr.DescriptorError, r"keeps the global shape"),
        elsewhere("keeps the global shape"),
        culprit=1,
    )
    expect(
        lambda: psr.redistribute(A, B, schedule="caterpilar"),
        (psr.ScheduleError, "'caterpilar' is unknown; there are caterpillar"),
    )
    expect(
        lambda: psr.redistribute(A, B, exchange="send"), (psr.ScheduleError, "'send' is unknown; there are sendrecv")
    )
    expect(
        lambda: psr.redistribute(A, B, schedule="natural", exchange="sendrecv"),
        (psr.ScheduleError, "several may send to one process at once: use a one-port schedule such as 'caterpillar'"),
    )
    expect(
        lambda: psr.redistribute(A, B, exchange="sendrecv", buffers="datatype"),
        (psr.ScheduleError, "buffers = 'datatype' is unknown; there are datatypes, packed"),
    )
    expect(
        lambda: psr.redistribute(A, B, exchange="alltoallv", buffers="datatypes"),
        (psr.ScheduleError, "alltoallv' takes one datatype for all processes, .* use exchange='alltoallw'"),
    )
    for name in ("schedule", "exchange", "buffers"):
        for wrong in np.array([1, 2]), [1], {}, 5:
            expect(
                lambda name=name, wrong=wrong: psr.redistribute(A, B, **({name: wrong} if RANK == 1 else {})),
                (psr.ScheduleError, f"{name} = .* is unknown; there are "),
                elsewhere(f"{name} = .* is unknown"),
                culprit=1,
            )
    for exchange in ("alltoallv", "alltoallw"):
        expect(
            lambda exchange=exchange: psr.redistribute(A, B, schedule="caterpillar", exchange=exchange),
            (psr.ScheduleError, f"{exchange}' leaves it to MPI which message goes when, so schedule = 'caterpillar'"),
        )
    expect(
        lambda: psr.redistribute(A, B, buffers="packed" if last else "datatypes"),
        (psr.CollectiveError, "the options must be the same .*buffers='datatypes'"),
    )
    expect(
        lambda: psr.redistribute(A, B, memory_limit=0 if RANK == 1 else 1000),
        (psr.DescriptorError, "memory_limit = 0 must be at least 1"),
        elsewhere("memory_limit = 0"),
        culprit=1,
    )
    expect(lambda: psr.redistribute(A, B, dtype="float65"), (psr.ArrayError, "dtype = 'float65' is not a NumPy dtype"))
    expect(
        lambda: psr.redistribute("A" if RANK == 1 else A, B, comm=WORLD),  # type: ignore[arg-type]
        (psr.DescriptorError, "desc_a: a ScaLAPACK descriptor has nine integers .* got 1"),
        elsewhere("desc_a"),
        culprit=1,
    )
    expect(
        lambda: psr.redistribute(A if RANK != 1 else None, B),
        (psr.DescriptorError, "desc_a = None: pass comm="),
        elsewhere("desc_a = None"),
        culprit=1,
    )
    expect(lambda: psr.redistribute(A, None, comm=WORLD), (psr.DescriptorError, "no rank knows the layout"))
    expect(lambda: psr.redistribute(None, None), (psr.DescriptorError, "no communicator is known; pass comm="))
    expect(lambda: psr.redistribute(A, B, comm="world"), (psr.DescriptorError, "comm = 'world' must be an mpi4py"))  # type: ignore[arg-type]
    words = "comm = 5 must be an mpi4py"
    for others in None, WORLD:
        comm: Any = 5 if RANK == 1 else others
        expect(
            lambda comm=comm: psr.redistribute(A, B, comm=comm),
            (psr.DescriptorError, words),
            elsewhere(words),
            culprit=1,
        )
    expect(lambda: psr.redistribute(A, None, comm=5), (psr.DescriptorError, words))  # type: ignore[call-overload]
    expect(lambda: psr.redistribute(None, None, comm=5), (psr.DescriptorError, words))  # type: ignore[call-overload]
    expect(
        lambda: psr.redistribute(A, B, comm=MPI.COMM_NULL), (psr.DescriptorError, "comm is MPI.COMM_NULL: only ranks")
    )  # type: ignore[arg-type]


def planning() -> None:
    """A rank that cannot make its part of a plan; where it can the second time, all plan a second time."""

    def planned(failures: int, limit: int) -> psr.Redistribution:
        left = [failures if RANK == 1 else 0]

        def messages_of(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] >= 0:
                raise psr.ScheduleError("no part of it")
            return messages.messages_of(*arguments)

        with mock.patch.object(redistribution, "messages_of", messages_of):
            return psr.redistribute(A, B, memory_limit=limit)

    still_good()
    expect(lambda: planned(2, 2**20), (psr.ScheduleError, "no part of it"), elsewhere("no part of it"), culprit=1)
    result = planned(1, 2**20)(A.from_function(value))
    assert result is not None
    assert np.array_equal(result, B.from_function(value))


def communicators() -> None:
    half = WORLD.Split(RANK % 2, RANK)
    on_half = psr.Descriptor(SHAPE, (2, 2), psr.ProcessGrid((half.Get_size(), 1), half))
    paper = psr.Descriptor(SHAPE, (2, 2), psr.ProcessGrid((2, 1)))
    expect(
        lambda: psr.redistribute(A, on_half),
        (psr.DescriptorError, "desc_b .* is on another communicator than the other grid: pass comm="),
    )
    expect(lambda: psr.redistribute(A, paper), (psr.DescriptorError, "desc_b .* is on paper"))
    expect(lambda: psr.redistribute(on_half, on_half, comm=WORLD), (psr.CollectiveError, "desc_a must be the same"))
    expect(lambda: psr.redistribute(A, on_half, comm=half), (psr.DescriptorError, r"rank \d of .* is not in comm"))
    expect(
        lambda: psr.ProcessGrid((SIZE + 1, 1), WORLD),
        (psr.DescriptorError, rf"needs {SIZE + 1} processes, but its communicator has {SIZE}"),
    )
    expect(
        lambda: psr.ProcessGrid((1, 2), WORLD, ranks=[[0, SIZE]]),
        (psr.DescriptorError, "every rank must be at least 0 and below"),
    )
    expect(lambda: psr.ProcessGrid((1, 1), MPI.COMM_NULL), (psr.DescriptorError, "MPI.COMM_NULL"))
    expect(
        lambda: psr.Descriptor(SHAPE, (2, 2), ROWS, lld=1 if RANK == 0 else 9),
        (psr.DescriptorError, r"lld = 1 is too small: this rank holds \d rows"),
    ) if RANK == 0 else still_good()
    half.Free()
    matrix = np.zeros((30, 30))
    for swapped, words in (
        (
            lambda: psr.redistribute(matrix, A),
            r"desc_a = <ndarray of shape \(30, 30\) and dtype float64>: .*for the plan",
        ),
        (
            lambda: psr.redistribute(A, matrix, comm=WORLD),
            r"desc_b = <ndarray of shape \(30, 30\) .*is for the plan, redist",
        ),
        (
            lambda: psr.redistribute(matrix, matrix),
            r"desc_a = <ndarray of shape \(30, 30\) and dtype float64>, desc_b = <n",
        ),
        (
            lambda: psr.gather(matrix, A),
            r"desc = <ndarray of shape \(30, 30\) .* must be a Descriptor; nine integers",
        ),
        (
            lambda: psr.scatter(matrix, A),
            r"desc = <ndarray of shape \(30, 30\) and dtype float64> must be a Descriptor",
        ),
        (lambda: psr.DistributedArray(matrix, A), r"desc = <ndarray of shape \(30, 30\) and dtype float64> must be a"),
        (
            lambda: psr.relabel(matrix, A),
            r"desc_a = <ndarray of shape \(30, 30\) and dtype float64> must be a Descriptor",
        ),
    ):
        expect(swapped, (psr.DescriptorError, words))
    expect(lambda: psr.redistribute(A, B)(B), (psr.ArrayError, "a is a Descriptor: it must be a NumPy array of shape"))


def pickled() -> None:
    """A layout goes to other ranks: on COMM_WORLD as it is, from any other communicator as ranks of COMM_WORLD."""
    half = WORLD.Split(RANK % 2, RANK)
    turned = WORLD.Split(0, -RANK)
    for comm in (WORLD, turned):
        desc = psr.Descriptor(SHAPE, (2, 2), psr.ProcessGrid((comm.Get_size(), 1), comm))
        told = WORLD.bcast(desc if RANK == 0 else None)
        assert told.grid.comm == WORLD
        assert told.on(comm) == desc
        assert told.coords == desc.coords
    desc = psr.Descriptor(SHAPE, (2, 2), psr.ProcessGrid((half.Get_size(), 1), half))
    told = WORLD.bcast(desc if RANK == 0 else None)
    assert told.grid.ranks.ravel().tolist() == list(range(0, SIZE, 2))
    whole = psr.gather(told, told.from_function(value))
    assert RANK or np.array_equal(whole, np.fromfunction(value, SHAPE))
    half.Free()
    turned.Free()


def arrays() -> None:
    """What a plan refuses: on one rank an ArrayError, on the others a CollectiveError, and nothing is written."""
    plan = psr.redistribute(A, B)
    good = A.from_function(value)
    out = B.zeros()
    before = good.copy()

    def refused(bad_a: Any, bad_out: Any, words: str) -> None:
        expect(
            lambda: plan(bad_a if RANK == 1 else good, bad_out if RANK == 1 else out),
            (psr.ArrayError, words),
            elsewhere(words.split("|")[0]),
            culprit=1,
        )
        assert not out.any(), "a failed call wrote into out"
        assert np.array_equal(good, before), "a failed call wrote into a"

    frozen = B.zeros()
    frozen.flags.writeable = False
    shared = np.zeros(good.size + out.size)
    part = A[1:5, 2:7]
    expect(
        lambda: psr.redistribute(part, B[1:5, 2:7])(good[1:] if RANK == 1 else good, out),
        (
            psr.ArrayError,
            r"a has shape .*, but goes with a sub-array, whose local arrays are those of the whole Descriptor",
        ),
        elsewhere("goes with a sub-array"),
        culprit=1,
    )
    refused(good[1:], out, r"a has shape \(\d+, 11\), but this rank's local array .* has shape")
    refused(None, out, "a is None, but this rank holds a local array of shape")
    refused(good.tolist(), out, "a is a list: it must be a NumPy array")
    refused(np.ma.masked_equal(good, good.flat[0]), out, "a is a masked array, whose mask would not move with it")
    refused(good, np.ma.masked_array(out), r"out is a masked array, .*: pass out.filled")
    refused(
        Tensor(good, 2), out, r"a is a Tensor in the memory of a device \(CUDA\), and only the host's memory is moved"
    )
    refused(good, Tensor(out, 2), "out is a Tensor in the memory of a device")
    refused(good.astype(object), out.astype(object), "dtype object cannot be redistributed")
    refused(good, out[:, :-1], "out has shape")
    refused(good, out.astype(np.float32), "out has dtype float32, but a has dtype float64")
    refused(good, frozen, "out is read-only")
    refused(good, np.broadcast_to(np.zeros(1), out.shape), "out is read-only|share memory")
    refused(
        good, np.lib.stride_tricks.as_strided(np.zeros(1), out.shape, (0, 0)), "several of its elements share memory"
    )
    refused(
        shared[: good.size].reshape(good.shape),
        shared[good.size - 1 :][: out.size].reshape(out.shape),
        "out shares memory with a",
    )
    expect(
        lambda: plan(good.astype(np.float32 if RANK == 1 else np.float64)),
        (psr.CollectiveError, "the dtype must be the same .*float"),
    )
    expect(
        lambda: plan(good.astype(np.int64 if RANK == 1 else np.float64)),
        (psr.CollectiveError, "the dtype must be the same .*int64"),
    )
    in_place = A.from_function(value)
    square = psr.Descriptor(SHAPE, (2, 3), ROWS)
    expect(
        lambda: psr.redistribute(A, square)(in_place, in_place), (psr.ArrayError, "out is a: .* identical layouts only")
    )
    assert psr.redistribute(A, A)(in_place, in_place) is in_place
    assert np.array_equal(in_place, before)
    part = B[1:5, 2:7]
    expect(lambda: psr.redistribute(A[1:5, 2:7], part)(good), (psr.ArrayError, "out is missing: B is a sub-array"))
    expect(lambda: plan(good, memory_hog), (psr.ArrayError, "out has shape"))
    typed = psr.redistribute(A, B, dtype=np.float32)
    expect(lambda: typed(good), (psr.ArrayError, "a has dtype float64, but redistribute was told dtype = float32"))
    for exchange, understands in [(name, kind.understands) for name, kind in EXCHANGES.items()]:
        small = psr.redistribute(A, B, exchange=exchange, memory_limit=9)
        expect(
            lambda small=small: small(good),
            (psr.RedistributionError, "memory_limit = 9 bytes is too small for elements of 8 bytes"),
        )
        for buffers in understands:
            other = psr.redistribute(A, B, exchange=exchange, buffers=buffers)
            expect(
                lambda other=other: other.start(good[1:] if RANK == 1 else good, out).wait(),
                (psr.ArrayError, "a has shape"),
                elsewhere("a has shape"),
                culprit=1,
            )
            assert not out.any(), "a failed call wrote into out"
            assert np.array_equal(other(good), B.from_function(value))


memory_hog = np.zeros((100, 100))


class Tensor:
    """An array of another library that speaks DLPack, in the memory of a device of that type."""

    def __init__(self, array: NDArray[Any], device: int = 1) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return self.array


def arrays_of_other_libraries() -> None:
    """They go in and out without a copy, on some ranks or on all, beside NumPy's own, in any call."""
    a, expected = A.from_function(value), B.from_function(value)
    for options in ({}, {"exchange": "nonblocking"}, {"via": "dimensions"}):
        plan = psr.redistribute(A, B, **options)  # type: ignore[arg-type]
        for given in (a, Tensor(a), a, Tensor(a) if RANK else a):
            out = B.zeros()
            tensor = Tensor(out)
            assert plan(given, tensor) is tensor
            assert np.array_equal(out, expected)
            result = plan.start(given).wait()
            assert type(result) is np.ndarray
            assert np.array_equal(result, expected)
    both = psr.batch(psr.redistribute(A, B), psr.redistribute(A, B))
    results = both([Tensor(a), a], [None, tensor])
    assert results[1] is tensor
    assert np.array_equal(results[0], expected)
    assert np.array_equal(tensor.array, expected)
    for traced in False, True:
        for call in both, lambda *arrays: both.start(*arrays).wait():
            with psr.trace() if traced else contextlib.nullcontext():
                expect(
                    lambda call=call: call([a] if RANK == 1 else [a, a]),
                    (psr.ArrayError, "arrays "),
                    elsewhere("arrays "),
                    culprit=1,
                )
    same = Tensor(a.copy(order="F"))
    assert psr.redistribute(A, A)(same, same, alpha=2) is same
    assert np.array_equal(same.array, 2 * a)
    whole = psr.gather(A, Tensor(a))  # type: ignore[arg-type]
    assert np.array_equal(psr.scatter(B, Tensor(whole) if RANK == 0 else None), expected)  # type: ignore[arg-type]
    held = psr.DistributedArray(A, Tensor(a))  # type: ignore[arg-type]
    assert np.shares_memory(held.local, a)


def outside() -> None:
    """Ranks that hold nothing of one side."""
    desc = psr.Descriptor(SHAPE, (2, 2), PAIR)
    grow, mine = psr.redistribute(desc, B), desc.from_function(value)
    culprit = SIZE - 1
    expect(
        lambda: grow(mine if RANK < 2 else np.zeros((2, 2)) if culprit == RANK else None, B.zeros()),
        (psr.ArrayError, "a has shape .* but this rank is outside the grid: pass None"),
        elsewhere("outside the grid", culprit),
        culprit=culprit,
    )
    kind, words = (
        (psr.CollectiveError, "rank 2 could not take part")
        if RANK < 2
        else (psr.ArrayError, "pass out, or redistribute")
    )
    expect(lambda: grow(mine if RANK < 2 else None), (kind, words))
    result = psr.redistribute(desc, B, dtype=float)(mine if RANK < 2 else None)
    assert result is not None
    assert np.array_equal(result, B.from_function(value))


def some_ranks() -> None:
    """Two ranks redistribute between themselves, and one has a bad descriptor; the others stay away."""
    a, b = psr.Descriptor(SHAPE, (2, 2), PAIR), psr.Descriptor(SHAPE, (3, 3), psr.ProcessGrid((2, 1), WORLD))
    if RANK < 2:
        with pytest.raises(psr.RedistributionError, match="desc_a = None: pass comm="):
            psr.redistribute(a if RANK == 0 else None, b)
        result = psr.redistribute(a, b)(a.from_function(value))
        assert result is not None
        assert np.array_equal(result, b.from_function(value))
    still_good()


def order_of_starts() -> None:
    there, back = psr.redistribute(A, B), psr.redistribute(B, A)
    a, b = A.from_function(value), B.from_function(value)
    expect(
        lambda: there.start(a).wait() if RANK else back.start(b).wait(),
        (psr.CollectiveError, "the plan must be the same on every rank"),
    )


def root_of_scatter() -> None:
    whole = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    expect(lambda: psr.scatter(A, whole, root=SIZE), (psr.DescriptorError, rf"root = {SIZE} is not a rank"))
    expect(
        lambda: psr.scatter(A, None),
        (psr.ArrayError, "the array is None on every rank that should hold it: pass it on rank 0"),
    )
    part, local = A[2:9, 3:], A.zeros()
    corner = np.arange(1.0, part.shape[0] * part.shape[1] + 1).reshape(part.shape)
    expect(lambda: psr.scatter(part, corner), (psr.ArrayError, "out is missing: B is a sub-array"))
    assert psr.scatter(part, corner, out=local) is local
    found = psr.gather(A, local)
    wanted = np.zeros(SHAPE)
    wanted[2:9, 3:] = corner
    assert RANK or np.array_equal(found, wanted)
    expect(lambda: psr.scatter(A, whole, root=RANK % 2), (psr.CollectiveError, "root must be the same on every rank"))
    expect(
        lambda: psr.scatter(A, whole[1:]),
        (psr.ArrayError, r"a has shape \(12, 11\)"),
        elsewhere("a has shape", 0),
        culprit=0,
    )


def main() -> None:
    assert SIZE >= 4, "run on at least four ranks"
    for group in (
        layouts,
        planning,
        communicators,
        pickled,
        arrays,
        arrays_of_other_libraries,
        outside,
        some_ranks,
        order_of_starts,
        root_of_scatter,
    ):
        group()
        WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
