"""What is wrong on one rank or on all: an error on all, arrays untouched, and the communicator still good. Four ranks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import group as group_module
from pyscalapack_redist.engine import build as building
from pyscalapack_redist.engine import messages as planner
from pyscalapack_redist.engine import transfer as transfers
from pyscalapack_redist.engine.bound import Bound
from pyscalapack_redist.errors import RedistributionError
from pyscalapack_redist.exchanges import exchange as threads

WORLD = MPI.COMM_WORLD
RANK, SIZE, BAD = WORLD.rank, WORLD.size, 1
ONE_NODE = "PYSCALAPACK_REDIST_NODES" not in os.environ
SHAPE = (13, 11)
ROWS, COLUMNS = psr.ProcessGrid((SIZE, 1), WORLD), psr.ProcessGrid((1, SIZE), WORLD)
A, B = psr.Descriptor(SHAPE, 2, ROWS), psr.Descriptor(SHAPE, 3, COLUMNS)
FEW = psr.Descriptor(SHAPE, 2, psr.ProcessGrid((1, 2), WORLD))
D, S, W, C = psr.DescriptorError, psr.ScheduleError, psr.ArrayError, psr.CollectiveError


def numbers(desc: psr.Descriptor) -> Any:
    """A local array of a matrix whose elements are numbered; None outside the grid."""
    return None if desc.coords is None else desc.from_function(lambda i, j: 1000.0 * i + j)


def check(found: Any, desc: psr.Descriptor = B) -> None:
    assert np.array_equal(found, numbers(desc))


def on_bad(wrong: Any, right: Any) -> Any:
    return wrong if RANK == BAD else right


def fails(kind: type[BaseException], words: str, call: Callable[[], object], culprit: int | None = BAD) -> None:
    """The culprit raises the error, and the others say so; without one, all raise it."""
    if culprit in (None, RANK):
        with pytest.raises(kind, match=words):
            call()
    else:
        with pytest.raises(C, match=f"rank {culprit} could not take part: .*{words}"):
            call()
    check(psr.redistribute(A, B)(numbers(A)))


def all_fail(kind: type[BaseException], words: str, call: Callable[[], object]) -> None:
    fails(kind, words, call, None)


def arguments() -> None:
    """What `redistribute` refuses."""
    make, larger, matrix = psr.redistribute, psr.Descriptor((13, 12), 2, COLUMNS), np.zeros((30, 30))
    all_fail(D, r"desc_a has shape \(13, 11\) and desc_b \(13, 12\)", lambda: make(A, larger))
    fails(D, "keeps the global shape", lambda: make(A, on_bad(larger, B)))
    all_fail(S, "'caterpilar' is unknown; there are caterpillar", lambda: make(A, B, schedule="caterpilar"))
    all_fail(S, "'send' is unknown; there are sendrecv", lambda: make(A, B, exchange="send"))
    all_fail(S, "'datatype' is unknown; there are datatypes, packed", lambda: make(A, B, buffers="datatype"))
    for name in ("schedule", "exchange", "buffers"):
        for wrong in np.array([1, 2]), {}, 5:
            way = on_bad({name: wrong}, {})
            fails(S, f"{name} = .* is unknown", lambda way=way: make(A, B, **way))
    words = "several may send to one process at once: use a one-port schedule such as 'caterpillar'"
    all_fail(S, words, lambda: make(A, B, schedule="natural", exchange="sendrecv"))
    words = "alltoallv' takes one datatype for all processes, .* use exchange='alltoallw'"
    all_fail(S, words, lambda: make(A, B, exchange="alltoallv", buffers="datatypes"))
    for exchange in ("alltoallv", "alltoallw"):
        words = f"{exchange}' leaves it to MPI which message goes when, so schedule = 'caterpillar'"
        all_fail(S, words, lambda x=exchange: make(A, B, schedule="caterpillar", exchange=x))
    fails(D, "memory_limit = 0 must be at least 1", lambda: make(A, B, memory_limit=on_bad(0, 1000)))
    all_fail(W, "dtype = 'float65' is not a NumPy dtype", lambda: make(A, B, dtype="float65"))
    twice: Any = [("x", "f8"), ("x", "f8")]
    fails(ValueError, ".", lambda: make(A, B, dtype=on_bad(twice, None)))
    fails(W, ".", lambda: make(A, B, dtype=on_bad(Nameless(), float)))
    fails(D, "desc_a: a ScaLAPACK descriptor has nine integers .* got 1", lambda: make(on_bad([1], A), B, comm=WORLD))
    fails(D, "desc_a = 'A' must be 'rows', 'columns', or PRxPC:MBxNB", lambda: make(on_bad("A", A), B))
    fails(D, "desc_a = None needs comm=", lambda: make(on_bad(None, A), B))
    all_fail(D, "no rank knows the layout", lambda: make(A, None, comm=WORLD))
    all_fail(D, "no communicator is known; pass comm=", lambda: make(None, None))
    for others in None, WORLD:
        comm: Any = on_bad(5, others)
        fails(D, "comm = 5 must be an mpi4py", lambda comm=comm: make(A, B, comm=comm))
    all_fail(D, "comm = 5 must be an mpi4py", lambda: make(None, None, comm=5))  # type: ignore[call-overload]
    all_fail(D, "comm is MPI.COMM_NULL: only ranks", lambda: make(A, B, comm=MPI.COMM_NULL))
    name = r"<ndarray of shape \(30, 30\) and dtype float64>"
    all_fail(D, f"desc_a = {name} needs .*for the plan", lambda: make(matrix, A))  # type: ignore[call-overload]
    all_fail(D, f"desc_b = {name}.*is for the plan, redist", lambda: make(A, matrix, comm=WORLD))  # type: ignore[call-overload]
    all_fail(D, f"desc_a = {name}, desc_b = {name}", lambda: make(matrix, matrix))  # type: ignore[call-overload]
    for way, part, other in ((psr.gather, "desc", A), (psr.scatter, "desc", matrix), (psr.relabel, "desc_a", A)):
        words = f"{part} = {name} must be a Descriptor"
        all_fail(D, words, lambda way=way, other=other: way(matrix, other))  # type: ignore[operator]


class Nameless:
    def __repr__(self) -> str:
        raise ValueError("no words")


def differences() -> None:
    """Ranks that ask for different things."""
    make, last = psr.redistribute, RANK == SIZE - 1
    other = psr.Descriptor(SHAPE, 4, ROWS)
    words = "desc_a must be the same on every rank, but rank 0 has .*2 x 2.* rank"
    all_fail(C, words, lambda: make(other if last else A, B))
    turned = psr.Descriptor(SHAPE, 2, psr.ProcessGrid((SIZE, 1), WORLD, ranks=np.arange(SIZE)[::-1, None]))
    all_fail(C, "desc_b must be the same", lambda: make(A, turned if last else A))
    words = "the options must be the same .*schedule='caterpillar'"
    all_fail(C, words, lambda: make(A, B, schedule="natural" if last else "caterpillar"))
    words = "the options must be the same .*buffers='datatypes'"
    all_fail(C, words, lambda: make(A, B, buffers="packed" if last else "datatypes"))
    plan, back, a = make(A, B), make(B, A), numbers(A)
    for dtype in np.float32, np.int64:
        words, array = "the dtype must be the same .*float", a.astype(on_bad(dtype, np.float64))
        all_fail(C, words, lambda array=array: plan(array))
    words = "the plan must be the same on every rank"
    all_fail(C, words, lambda: plan.start(a).wait() if RANK else back.start(numbers(B)).wait())


def communicators() -> None:
    half, paper = WORLD.Split(RANK % 2, RANK), psr.Descriptor(SHAPE, 2, psr.ProcessGrid((2, 1)))
    on_half = psr.Descriptor(SHAPE, 2, psr.ProcessGrid((half.size, 1), half))
    words = "desc_b .* is on another communicator than the other grid: pass comm="
    all_fail(D, words, lambda: psr.redistribute(A, on_half))
    all_fail(D, "desc_b .* is on paper", lambda: psr.redistribute(A, paper))
    all_fail(C, "desc_a must be the same", lambda: psr.redistribute(on_half, on_half, comm=WORLD))
    all_fail(D, r"rank \d of .* is not in comm", lambda: psr.redistribute(A, on_half, comm=half))
    half.Free()
    words = rf"needs {SIZE + 1} processes, but its communicator has {SIZE}"
    all_fail(D, words, lambda: psr.ProcessGrid((SIZE + 1, 1), WORLD))
    words = "every rank must be at least 0 and below"
    all_fail(D, words, lambda: psr.ProcessGrid((1, 2), WORLD, ranks=[[0, SIZE]]))
    all_fail(D, "MPI.COMM_NULL", lambda: psr.ProcessGrid((1, 1), MPI.COMM_NULL))
    all_fail(D, r"lld = 1 is too small: this rank holds \d rows", lambda: psr.Descriptor(SHAPE, 2, ROWS, lld=1))
    if RANK < 2:  # the others stay away
        with pytest.raises(RedistributionError, match="desc_a = None needs comm="):
            psr.redistribute(None if RANK else FEW, psr.Descriptor(SHAPE, 3, psr.ProcessGrid((2, 1), WORLD)))
    freed = WORLD.Dup()
    plan, out = psr.redistribute(A.on(freed), B.on(freed)), B.zeros()
    plan(numbers(A))
    freed.Free()
    for call in (
        lambda: plan(numbers(A), out),
        lambda: plan.start(numbers(A), out).wait(),
        lambda: psr.redistribute(plan.desc_a, plan.desc_b),  # a request that is kept, and another
        lambda: psr.redistribute(plan.desc_a, plan.desc_b, op="T"),
    ):
        all_fail(RedistributionError, ".", call)
    assert not out.any()


def arrays() -> None:
    """What a plan refuses; nothing is written."""
    plan, good, out = psr.redistribute(A, B), numbers(A), B.zeros()
    part, square = psr.redistribute(A[1:5, 2:7], B[1:5, 2:7]), psr.Descriptor(SHAPE, (2, 3), ROWS)
    frozen, shared = B.zeros(), np.zeros(good.size + out.size)
    frozen.flags.writeable = False
    folded = np.lib.stride_tricks.as_strided(np.zeros(99), out.shape, (8, 16))
    ends = shared[: good.size].reshape(good.shape), shared[good.size - 1 :][: out.size].reshape(out.shape)
    for words, bad_a, bad_out in (
        (r"a has shape \(\d+, 11\), but this rank's local array .* has shape", good[1:], out),
        ("a is None, but this rank holds a local array of shape", None, out),
        ("a is a list: it must be a NumPy array", good.tolist(), out),
        ("a is a Odd: it must be a NumPy array", Odd(good.shape), out),
        ("out is a Odd: it must be a NumPy array", good, Odd(out.shape)),
        ("a is a masked array; the mask would be lost", np.ma.masked_equal(good, good.flat[0]), out),
        (r"out is a masked array; .*: pass out.filled", good, np.ma.masked_array(out)),
        ("a is a Tensor in the memory of a device", Tensor(good, 2), out),
        ("dtype object cannot be redistributed", good.astype(object), out.astype(object)),
        ("out has shape", good, out[:, :-1]),
        ("out has dtype float32, but a has dtype float64", good, out.astype(np.float32)),
        ("out is read-only", good, frozen),
        ("several of its elements share memory", good, folded),
        ("out shares memory with a", *ends),
    ):
        fails(W, words, lambda a=bad_a, b=bad_out: plan(on_bad(a, good), on_bad(b, out)))
        assert not any(array.any() for array in (out, frozen, folded, shared))
        check(good, A)
    words = "a has shape .*, but the local arrays of a sub-array are those of the whole Descriptor"
    fails(W, words, lambda: part(on_bad(good[1:], good), out))
    fails(W, "a is a Descriptor: it must be", lambda: plan(on_bad(B, good), out))
    all_fail(W, "out is missing: B is a sub-array", lambda: part(good))
    all_fail(W, "out is a: .* identical layouts only", lambda: psr.redistribute(A, square)(good, good))
    words = "a has dtype float64, but the plan is for dtype = float32"
    all_fail(W, words, lambda: psr.redistribute(A, B, dtype=np.float32)(good))
    for options in (
        {"exchange": "nonblocking"},
        {"buffers": "datatypes"},
        {"exchange": "bruck"},
        {"exchange": "node-packed"},
        {"via": "dimensions"},
    ):
        other = psr.redistribute(A, B, **options)
        fails(W, "a has shape", lambda other=other: other.start(on_bad(good[1:], good), out).wait())
    both = psr.batch(plan, plan)
    for traced in False, True:
        for call in both, lambda *given: both.start(*given).wait():
            with psr.timings() if traced else contextlib.nullcontext():
                fails(W, "arrays ", lambda call=call: call(on_bad([good], [good, good])))
    grow, mine = psr.redistribute(FEW, B), numbers(FEW)
    words, given = "a has shape .* but this rank is outside the grid: pass None", np.zeros((2, 2))
    fails(W, words, lambda: grow(given if RANK == 3 else mine, out), culprit=3)
    with pytest.raises(C if RANK < 2 else W, match="rank 2 could not" if RANK < 2 else "pass out, or redistribute"):
        grow(mine)
    assert not out.any()
    check(psr.redistribute(FEW, B, dtype=float)(mine))


class Odd:
    """It has the names that a NumPy array has, and other things behind them."""

    dtype = "float64 of another library"

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.size = shape, int(np.prod(shape))


class Tensor:
    """An array of another library that speaks DLPack, in the memory of a device of that type."""

    def __init__(self, array: Any, device: int = 1) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


def tensors() -> None:
    """Arrays of other libraries go in and out without a copy, beside NumPy's own, in any call."""
    a = numbers(A)
    for options in ({}, {"exchange": "nonblocking"}, {"via": "dimensions"}):
        plan = psr.redistribute(A, B, **options)
        for given in Tensor(a), on_bad(a, Tensor(a)):
            tensor = Tensor(B.zeros())
            assert plan(given, tensor) is tensor
            check(tensor.array)
            check(plan.start(given).wait())
    results = psr.batch(*[psr.redistribute(A, B)] * 2)([Tensor(a), a], [None, tensor])
    assert results[1] is tensor
    check(results[0])
    same = Tensor(a.copy(order="F"))
    assert psr.redistribute(A, A)(same, same, alpha=2) is same
    assert np.array_equal(same.array, 2 * a)
    whole = psr.gather(A, Tensor(a))  # type: ignore[arg-type]
    check(psr.scatter(B, Tensor(whole) if RANK == 0 else None))  # type: ignore[arg-type]
    assert np.shares_memory(psr.DistributedArray(A, Tensor(a)).local, a)  # type: ignore[arg-type]


def roots() -> None:
    whole, part, local = np.zeros(SHAPE), A[2:9, 3:], A.zeros()
    corner = np.arange(1.0, 57).reshape(part.shape)
    all_fail(D, f"root = {SIZE} is not a rank", lambda: psr.scatter(A, whole, root=SIZE))
    words = "the array is None on every rank that should hold it: pass it on rank 0"
    all_fail(W, words, lambda: psr.scatter(A, None))
    all_fail(W, "out is missing: B is a sub-array", lambda: psr.scatter(part, corner))
    assert psr.scatter(part, corner, out=local) is local
    whole[2:9, 3:] = corner
    assert np.array_equal(psr.gather(A, local), whole) or RANK
    all_fail(C, "root must be the same on every rank", lambda: psr.scatter(A, whole, root=RANK % 2))
    fails(W, r"a has shape \(12, 11\)", lambda: psr.scatter(A, whole[1:]), culprit=0)
    array, plan = psr.DistributedArray(A, local), psr.redistribute(A, B)
    fails(D, "root = DistributedArray.* must be an integer", lambda: psr.scatter(A, whole, root=on_bad(array, 0)))
    for wrong in np.array([1, 2]), array:
        words, way = "exchange of a batch = .* is unknown", on_bad(wrong, "auto")
        fails(S, words, lambda way=way: psr.batch(plan, exchange=way))


def limits() -> None:
    """No element fits into the memory, with legs or a fill; legs cannot do it; ways that are none."""
    a, out = numbers(A), B.zeros()
    datatypes = {"via": [A], "buffers": "datatypes", "exchange": "nonblocking"}
    words = "memory_limit = 7 bytes is too small for elements of 8 bytes"
    for options in ({}, {"exchange": "nonblocking"}, {"via": [A]}, {"uplo": "U", "fill": "zero"}):
        plan = psr.redistribute(A, B, memory_limit=7, **options)
        all_fail(RedistributionError, words, lambda plan=plan: plan(a, out))
        found = plan((a % 120).astype(np.int8), B.zeros(np.int8))
        whole = (1000 * np.arange(13)[:, None] + np.arange(11)) % 120
        assert np.array_equal(found, (np.triu(whole, -2) if "fill" in options else whole)[:, B.global_indices(1)])
    plan = psr.redistribute(A, B, **datatypes)
    all_fail(RedistributionError, ".", lambda: plan(a, out, alpha=2))
    check(plan(a, B.zeros()))
    plan = psr.redistribute(A, B.T, op="C", **{**datatypes, "via": [A.T]})
    all_fail(RedistributionError, ".", lambda: plan(a + 0j, B.T.zeros(complex)))
    assert not out.any()
    line = [psr.Descriptor((96,), block, psr.ProcessGrid((SIZE,), WORLD)) for block in (4, 6, 12)]
    all_fail(S, ".", lambda: psr.redistribute(line[0], line[1], schedule="walker-otto"))
    all_fail(S, ".", lambda: psr.redistribute(line[0], line[2], schedule="walker-otto", via=[line[1]]))
    for options in ({"via": "lcm"}, {"via": [line[2]]}):  # 12 is a multiple of both
        plan = psr.redistribute(line[0], line[1], schedule="walker-otto", **options)
        numbered = [desc.from_function(lambda i: 1.0 * i) for desc in line]
        assert np.array_equal(plan(numbered[0]), numbered[1])
    for wrong in ("sideways", 5, [5]):
        words = r"via = .* must be None, 'dimensions', 'lcm', 'gcd', or a list"
        all_fail(S, words, lambda via=wrong: psr.redistribute(A, B, via=via))
    for wrong in [A, None], [A, 3], iter([A, "x"]):
        via = on_bad(wrong, [A])
        fails(S, ".", lambda via=via: psr.redistribute(A, B, via=via))
    check(psr.redistribute(A, B, via=on_bad(iter([A]), [A]))(a))


def memory() -> None:
    """No memory for `out`, or an interrupt as it is made: in a first call, in a later one, by messages, in a batch."""
    wrong: list[BaseException] = []

    def guarded(make: Any) -> Callable[..., Any]:
        def method(*given: Any, **options: Any) -> Any:
            if wrong:
                raise wrong[0]
            return make(*given, **options)

        return method

    a = numbers(A)
    with contextlib.ExitStack() as patches:
        for name in ("empty", "zeros"):
            made = guarded(getattr(psr.Descriptor, name))
            patches.enter_context(mock.patch.object(psr.Descriptor, name, made))
        kept = psr.Descriptor._maker  # what a plan makes its arrays by
        patches.enter_context(mock.patch.object(psr.Descriptor, "_maker", lambda *given, **_: guarded(kept(*given, **_))))
        for number, options in enumerate([{}, {"exchange": "nonblocking"}]):
            plan = psr.redistribute(A, B, dtype=float, memory_limit=10_000 + number, **options)
            both = psr.batch(plan, plan)
            for use, given in ((plan, a), (plan, a), (both, [a, a])):
                for error in MemoryError("none left"), KeyboardInterrupt("none left"):
                    wrong[:] = [error] if RANK == BAD else []
                    with pytest.raises(type(error) if RANK == BAD else C, match="none left"):
                        use(given)
                    wrong.clear()
                    for found in (plan(a), *both([a, a])):
                        check(found)


@contextlib.contextmanager
def lost(where: Any, name: str, rank: int) -> Any:
    """A rank that has no memory for a part of the package."""
    failing = mock.patch.object(where, name, side_effect=MemoryError("none left"))
    with failing if rank == RANK else contextlib.nullcontext():
        yield


def planning() -> None:
    """A rank that cannot make its part of a plan; where it can the second time, all plan a second time."""
    real = planner.messages_of

    def planned(failures: int) -> psr.Redistribution:
        left = [failures if RANK == BAD else 0]

        def messages_of(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] >= 0:
                raise psr.ScheduleError("no part of it")
            return real(*arguments)

        with mock.patch.object(building, "messages_of", messages_of):
            return psr.redistribute(A, B, memory_limit=2**20)

    fails(S, "no part of it", lambda: planned(2))
    if ONE_NODE:  # where a part is made ahead
        check(planned(1)(numbers(A)))


def conversations() -> None:
    """No memory to tell the others something, or to answer them, or to go on after a vote."""
    a, out, move = numbers(A), B.zeros(), psr.redistribute(A, B)
    group, none_left = move.plan.group, MemoryError("none left")
    assert group is not None

    class Large:
        def __reduce__(self) -> tuple[Any, ...]:
            raise none_left

    def answer(told: list[Any]) -> Any:
        raise none_left

    for bad, ask in (
        *((rank, lambda rank=rank: group.combine(Large() if rank == RANK else 0)) for rank in (0, SIZE - 1)),
        (0, lambda: group.combine(RANK, answer)),
        (0, lambda: group.combine(RANK, lambda told: Large())),
    ):
        with pytest.raises(MemoryError if bad == RANK else C, match="none left"):
            ask()
        assert group.combine(RANK) == list(range(SIZE))
    one = psr.Descriptor(SHAPE, SHAPE, psr.ProcessGrid((1, 1), WORLD))
    both = psr.batch(move, psr.redistribute(one, one, comm=WORLD))
    sources, outs = [a, numbers(one)], [out, None if RANK else one.zeros()]
    with lost(transfers, "dtype_digest", 0), pytest.raises(C if RANK else MemoryError):
        both(sources, outs)
    assert not out.any()
    for found, desc in zip(both(sources, outs), (B, one), strict=True):
        assert found is None or np.array_equal(found, numbers(desc))
    for where, name, error in (
        (group_module, "find_verdict", (W, C)),  # the first rank cannot say why nothing may move
        (Bound, "latest_exchanges", MemoryError if RANK == 0 else C),
    )[: 2 if ONE_NODE else 1]:
        comm = WORLD.Dup()
        plan, out = psr.redistribute(A.on(comm), B.on(comm)), B.zeros()
        wrong = on_bad(a.astype(np.float32), a), on_bad(out.astype(np.float32), out)
        with lost(where, name, 0), pytest.raises(error):
            plan(*(wrong if name == "latest_exchanges" else (a, on_bad(3, out))))
        assert not out.any()
        with pytest.raises(C, match=r"cannot redistribute any more.*use another communicator"):
            plan(a, out)


def distributed(desc: psr.Descriptor = A) -> psr.DistributedArray:
    return psr.DistributedArray(desc, numbers(desc))


def distributed_arrays() -> None:
    """Where they go, what plans are for others, what is on one rank, and what the files' names say."""
    x, y, other = distributed(), psr.DistributedArray(B, B.zeros()), distributed(psr.Descriptor(SHAPE, 4, ROWS))
    words = "give the layout to reach in one way: a Descriptor; or block=, grid=; or out="
    for keywords in ({}, {"desc": B, "block": 2}, {"desc": B, "out": y}, {"out": y, "source": 1}):
        fails(D, words, lambda keywords=keywords: x.redistribute(**on_bad(keywords, {"desc": B})))
    fails(D, "desc = 5 must be a Descriptor, Tiles, a DistributedArray or a text", lambda: x.redistribute(on_bad(5, B)))
    fails(D, "desc = 'B' must be 'rows', 'columns', or", lambda: x.redistribute(on_bad("B", B)))
    fails(D, r"block\[0\] = 0 must be at least 1", lambda: x.redistribute(block=on_bad(0, 2)))
    fails(D, "op = 'X' must be one of", lambda: x.redistribute(block=2, op=on_bad("X", "T")))
    fails(W, "out is a numpy.ndarray: the layout of a local array", lambda: x.redistribute(out=on_bad(B.zeros(), y)))
    words = "the layout to reach must be the same on every rank, but rank 0 has"
    all_fail(C, words, lambda: x.redistribute(block=RANK + 1))
    plan, words = psr.plan(x, B), r"a has the layout Descriptor\(13 x 11, blocks 4 x 4"
    fails(W, words, lambda: plan(on_bad(other, x)))
    fails(W, words, lambda: plan.start(on_bad(other, x), y).wait())
    fails(W, f"plan 1: {words}", lambda: psr.batch(plan, plan)([x, on_bad(other, x)]))
    fails(W, r"out has the layout Descriptor\(13 x 11, blocks 2 x 2", lambda: plan(x, on_bad(x, y)))
    fails(W, r"but the plan is for Descriptor\(13 x 11, blocks 2 x 2", lambda: plan(on_bad(x[1:], x)))
    assert y.local is not None
    assert not y.local.any()
    fails(psr.FileError, "order = 'A' must be", lambda: x.save("array.npy", order=on_bad("A", "C")))
    all_fail(psr.FileError, "No such file", lambda: psr.DistributedArray.load(A, "missing.npy"))
    all_fail(TypeError, "use out= with a Descriptor only", lambda: psr.load(x, "missing.npy", x.local))  # type: ignore[call-overload]
    empty = psr.Descriptor((0, 4), 2, ROWS)
    unknown = psr.DistributedArray(empty, None)
    all_fail(W, "its dtype is not known on this rank", lambda: unknown.redistribute(grid=COLUMNS))
    known = psr.DistributedArray(empty, on_bad(np.empty(0, "f4"), None))
    assert known.redistribute(grid=COLUMNS).dtype == np.float32


def on_one_process() -> None:
    x, whole, last = distributed(), 1000.0 * np.arange(13)[:, None] + np.arange(11), SIZE - 1
    fails(D, f"root = {SIZE} is not a rank of the communicator", lambda: x.gather(on_bad(SIZE, 0)))
    assert np.array_equal(x.gather(on_bad(np.int32(0), 0)), whole if RANK == 0 else None)  # type: ignore[arg-type]
    all_fail(C, "desc must be the same", lambda: on_bad(distributed(B), x).gather())
    other = on_bad(lambda: psr.distribute(whole, A), lambda: x.gather())
    all_fail(C, "the call must be the same on every rank, but rank 0 has", other)
    masked = np.ma.masked_array(whole, whole > 5)
    words = r"is a masked array, whose mask would not move with it: pass array.filled\(value\)"
    for given in (masked, [*masked], [[*masked[0]], *whole[1:].tolist()]):
        fails(W, words, lambda given=given: psr.distribute(given, A, last), culprit=last)
    assert np.array_equal(masked.mask, whole > 5)
    for words, wrong in (
        (r"the array has shape \(12, 11\), but desc has shape \(13, 11\)", whole[1:]),
        (r"the array has shape \(\), but", 1.0),
        ("NumPy cannot make an array of this list", [[1, 2], [3]]),
        (r"numpy.asarray does not take .*: .*a\.gather\(None\) is the whole array on all ranks", x),
    ):
        fails(W, words, lambda wrong=wrong: psr.distribute(wrong, A), culprit=0)
    assert np.array_equal(psr.distribute(whole if last == RANK else masked, A, last).local, x.local)


def environment() -> None:
    """A map of nodes that is none; a number that no 32 bits hold is one."""
    for text in "0,0,one,1", "0,1", "0,0,0,2147483648":
        os.environ["PYSCALAPACK_REDIST_NODES"] = text
        comm = WORLD.Dup()
        a, b = A.on(comm), B.on(comm)
        if len(text) > 9:
            check(psr.redistribute(a, b)(numbers(A)))
            continue
        words = f"PYSCALAPACK_REDIST_NODES='{text}' must be a node number for each of the {SIZE} ranks"
        all_fail(RedistributionError, words, lambda a=a, b=b: psr.redistribute(a, b))


def number_of_threads() -> None:
    """One that is none, on the last rank, which holds nothing of some arrays; all goes on once it is right."""
    comm, last = WORLD.Dup(), SIZE - 1
    few = psr.Descriptor(SHAPE, 3, psr.ProcessGrid((last, 1), comm))
    used = [(psr.redistribute(A.on(comm), B.on(comm)), numbers(A))]
    used += [(psr.redistribute(few, few, comm=comm, exchange=x), numbers(few)) for x in ("auto", "bruck")]
    os.environ[threads.VARIABLE] = "all" if last == RANK else "1"
    words = f"{threads.VARIABLE}='all' must be the number of threads"
    with mock.patch.object(threads, "_prepared", False):  # it is read once
        for plan, array in used * 2:
            with pytest.raises(RedistributionError if last == RANK else C, match=words):
                plan(array)
    del os.environ[threads.VARIABLE]
    check(used[0][0](numbers(A)))


def shapes_alike() -> None:
    """A local array of the wrong shape: what it looks like, and what to do about it."""
    plan, right = psr.redistribute(A, B), numbers(A)
    for shape, words in (
        (SHAPE, r"is the shape of the whole array: distribute and scatter take a whole array"),
        ((11, 4), r"has shape \(4, 11\); a.T fits"),
        (
            (3, 11),
            r"numpy.array_split .* 'balanced' has these sizes: .*\('balanced', None\), ProcessGrid\(\(4, 1\), comm\)",
        ),
    ):
        fails(W, words, lambda shape=shape: plan(on_bad(np.zeros(shape), right)))
        fails(W, words, lambda shape=shape: plan.start(on_bad(np.zeros(shape), right)).wait())
    integers = [1, 0, *SHAPE, 2, 2, 0, 0, 9]
    all_fail(D, "no communicator is known; pass comm=.*nine integers", lambda: psr.redistribute(integers, integers))
    all_fail(D, "desc_a = .* needs comm=, the communicator that holds", lambda: psr.redistribute(integers, B))
    all_fail(D, "nine integers, .* need comm=, the communicator of their grid", lambda: psr.gather(integers, right))
    all_fail(D, r"must be a ProcessGrid: ProcessGrid\(\(2, 2\), comm\)", lambda: psr.Descriptor(SHAPE, 2, (2, 2)))  # type: ignore[arg-type]


def main() -> None:
    assert SIZE == 4
    for part in (
        arguments, differences, communicators, arrays, shapes_alike, tensors, roots, distributed_arrays,
        on_one_process, limits, memory,
        planning, conversations, number_of_threads, environment,
    ):  # fmt: skip
        part()
        WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
