"""Sums over replicas, reduce="sum": elements to the last bit, the order of summands, and what is refused.

Arguments: a seed, the number of random cases, and in which bytes messages of any size go between nodes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist.engine import choose as model
from pyscalapack_redist.exchanges import pipeline

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
DTYPES = ["f4", "f8", "c8", "c16", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
WAYS: list[dict[str, Any]] = [
    {},
    {"memory_limit": 3000},
    {"schedule": "stepwise"},
    {"schedule": "natural", "exchange": "nonblocking"},
    *({"exchange": name} for name in ("shared", "windowed", "synchronized", "ready", "sendrecv", "bruck", "alltoallv")),
    {"exchange": "node-packed"},
    {"agree": "first"},
]
GRID = psr.ProcessGrid((SIZE,), WORLD)
OWN = random.Random(RANK)  # of this rank alone
WHOLE = psr.Descriptor((13, 7), None, GRID, axes=(None, None))  # a replica on each rank
ROWS = psr.Descriptor((13, 7), (2, 7), GRID, axes=(0, None))


def drawn_layout(rng: random.Random, shape: tuple[int, int], copies: int) -> tuple[psr.Descriptor, psr.Descriptor]:
    """A layout with so many replicas on some ranks in any order, and a part of it of this shape, perhaps all."""
    size = rng.randint(1, SIZE // copies)
    rows = rng.choice([d for d in range(1, size + 1) if size % d == 0])
    ranks = np.array(rng.sample(range(SIZE), size * copies)).reshape(rows, -1, copies)
    axes = [0, 1, 2]
    rng.shuffle(axes)  # the place of each dimension in the grid
    grid = psr.ProcessGrid(np.array(ranks.shape)[np.argsort(axes)], WORLD, ranks=ranks.transpose(np.argsort(axes)))
    block: Any = rng.choice([None, "balanced", (rng.randint(1, 12), rng.randint(1, 12)), (1, 1), (100, 100)])
    layout: Callable[..., psr.Descriptor] = lambda shape: psr.Descriptor(shape, block, grid, axes=axes[:2])  # noqa: E731
    if rng.random() < 0.6:
        return (layout(shape),) * 2
    begin = rng.randint(0, 9), rng.randint(0, 9)
    whole = layout(tuple(b + n + rng.randint(0, 9) for b, n in zip(begin, shape, strict=True)))
    return whole, whole[begin[0] : begin[0] + shape[0], begin[1] : begin[1] + shape[1]]


def summand(number: int, shape: tuple[int, ...], dtype: Any, seed: int = 0) -> NDArray[Any]:
    """Values of different sizes, so that the order in which they are added shows in the last bits."""
    rng = np.random.default_rng([seed, number])
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 2**63, shape, dtype=np.uint64).astype(dtype)
    return values.astype(dtype)


def local_part(desc: psr.Descriptor, array: NDArray[Any], order: Any) -> NDArray[Any] | None:
    """This rank's elements of a global array."""
    if desc.coords is None:
        return None
    return np.array(array[np.ix_(*(desc.global_indices(k) for k in range(2)))], order=order)


def in_order(summands: list[NDArray[Any]], alpha: Any, beta: Any, before: NDArray[Any]) -> NDArray[Any]:
    """alpha * the first + beta * what was there, then alpha * each of the others, in their order."""
    alpha, beta = (before.dtype.type(factor) for factor in (alpha, beta))
    with np.errstate(over="ignore"):
        first, *others = (summand if alpha == 1 else alpha * summand for summand in summands)
        total = first if beta == 0 else first + beta * before
        for each in others:
            total = total + each
    return total.astype(before.dtype)


def random_case(rng: random.Random, number: int) -> None:
    shape = rng.randint(0, 60), rng.randint(0, 60)
    copies = rng.randint(1, min(4, SIZE))
    op, uplo = rng.choice("NNNTCR"), rng.choice([None, None, None, "U", "L"])
    dtype = np.dtype(DTYPES[number % len(DTYPES)])
    alpha: Any = rng.choice([1, 1, 2, 1 / 3]) if dtype.kind in "fc" else 1
    beta: Any = rng.choice([0, 0, 1, -0.5]) if dtype.kind in "fc" else 0
    way = WAYS[number % len(WAYS)] if number < 2 * len(WAYS) else rng.choice(WAYS)
    orders = rng.choice("FC"), rng.choice("FC")
    whole_a, a = drawn_layout(rng, shape, copies)
    whole_b, b = drawn_layout(rng, shape[::-1] if op in "TC" else shape, rng.choice([1, 1, *range(1, SIZE + 1)]))
    case = f"{number}: {a} -> {b}, {dtype}, {copies} summands, {op}, {uplo}, {alpha}, {beta}, {orders}, {way}"

    wholes = [summand(k, whole_a.shape, dtype, number) for k in range(copies)]
    before = summand(97, whole_b.shape, dtype, number)
    corner = a.offset
    window = tuple(slice(first, first + n) for first, n in zip(corner, shape, strict=True))
    parts = [each[window] for each in wholes]
    if op in "CR":
        parts = [each.conj() for each in parts]
    if uplo is not None:
        m, n = shape
        i, j = np.indices(shape)
        chosen = i <= j + max(m - n, 0) if uplo == "U" else i >= j - max(n - m, 0)
    else:
        chosen = np.ones(shape, bool)
    if op in "TC":
        parts, chosen = [each.T for each in parts], chosen.T
    target = tuple(slice(first, first + n) for first, n in zip(b.offset, b.shape, strict=True))
    wanted = before.copy()
    wanted[target] = np.where(chosen, in_order(parts, alpha, beta, before[target]), before[target])

    place = whole_a.place
    replica = 0 if place is None or copies == 1 else place[-1]
    local = local_part(whole_a, wholes[replica], orders[0])
    plan = psr.redistribute(a, b, op=op, uplo=uplo, dtype=dtype, reduce="sum", **way)
    results = []
    for turn in range(2):
        out = local_part(whole_b, before, orders[1])
        if turn:
            transfer = plan.start(local, out, alpha=alpha, beta=beta)
            while OWN.random() < 0.3 and not transfer.test():
                pass
            transfer.wait()
        else:
            plan(local, out, alpha=alpha, beta=beta)
        results.append(out)
    expected = local_part(whole_b, wanted, orders[1])
    bytes_of = [None if out is None else out.tobytes("A") for out in results]
    assert bytes_of[0] == bytes_of[1], f"another sum in the second run: {case}"
    exact = alpha == 1 or dtype.kind == "f"  # NumPy multiplies complex numbers in another way
    assert same(results[0], expected, exact), case
    if beta == 0 and whole_b is b:
        zeros = np.zeros_like(before)
        zeros[target] = np.where(chosen, in_order(parts, alpha, beta, before[target]), 0)
        assert same(plan(local, alpha=alpha), local_part(whole_b, zeros, "F"), exact), case


def same(array: NDArray[Any] | None, expected: NDArray[Any] | None, exact: bool) -> bool:
    """Whether an array has these elements: to the last bit, or nearly."""
    if array is None or expected is None:
        return array is expected
    return np.array_equal(array, expected) if exact else np.allclose(array, expected, rtol=1e-5, atol=1e-2)


# -- what follows from the order


def replicas_have_the_same_bits() -> None:
    """Every replica of B gets the same sum, to the last bit, from run to run and whatever the layout of B."""
    values = summand(RANK, WHOLE.shape, np.float32)
    everywhere = psr.redistribute(WHOLE, WHOLE, reduce="sum")(values)
    assert everywhere is not None
    assert len({sum_of.tobytes() for sum_of in WORLD.allgather(everywhere)}) == 1
    rows = psr.redistribute(WHOLE, ROWS, reduce="sum")(values)
    assert np.array_equal(rows, everywhere[ROWS.global_indices(0)])
    backwards = in_order([summand(k, WHOLE.shape, np.float32) for k in range(SIZE)][::-1], 1, 0, everywhere)
    assert SIZE < 3 or not np.array_equal(everywhere, backwards), "the order does not show"


def methods_and_arrays() -> None:
    x = psr.DistributedArray(WHOLE, summand(RANK, WHOLE.shape, np.float64))
    wanted = in_order([summand(k, WHOLE.shape, np.float64) for k in range(SIZE)], 1, 0, x.local)[ROWS.global_indices(0)]
    for result in (x.redistribute(ROWS, reduce="sum"), psr.redistribute(x, ROWS, reduce="sum")):
        assert np.array_equal(result.local, wanted)
    mean = psr.plan(x, ROWS, reduce="sum")(x, alpha=1 / SIZE)
    assert np.allclose(mean.local, wanted / SIZE)


def one_summand_is_an_ordinary_move() -> None:
    plan = psr.redistribute(ROWS, WHOLE, reduce="sum")
    assert len(plan.plan.stages) == 1
    values = summand(0, ROWS.shape, np.int16)
    assert np.array_equal(plan(local_part(ROWS, values, "F")), values)


def reports() -> None:
    """Beside the messages of the sum there are those of an ordinary move, which reads one replica."""
    plan = psr.redistribute(WHOLE, ROWS, reduce="sum")
    report = plan.report(np.float32, all_ranks=True)
    size = 4 * int(np.prod(WHOLE.shape))
    if SIZE == 1:
        assert report.direct is None
        return
    assert (report.bytes_sent, report.bytes_copied) == ((SIZE - 1) * size, size)
    assert [leg.name for leg in report.legs] == [f"summand {k}" for k in range(SIZE)]
    assert (report.direct.name, report.direct.bytes_sent) == ("one summand", 0), report
    assert sum(leg.bytes_sent for leg in report.legs) == report.bytes_sent
    assert report.extra_bytes <= report.memory_limit
    assert report.predicted_seconds > 0
    assert "one summand" in str(report)
    assert "layouts in between" not in str(report)
    assert "summands" in plan._repr_html_()


def from_one_side_to_the_other() -> None:
    """On an inter-communicator the side that has the summands knows of them alone."""
    if SIZE == 1:
        return
    first = SIZE - SIZE // 2
    has_a = first > RANK
    own = WORLD.Split(int(has_a), RANK)
    inter = own.Create_intercomm(0, WORLD, first if has_a else 0, 7)
    grid = psr.ProcessGrid((own.size,), own)
    options: dict[str, Any] = {"comm": inter, "reduce": "sum", "dtype": np.float32}
    parts = [summand(k, (9, 5), np.float32) for k in range(first)]
    if has_a:
        a = psr.Descriptor((9, 5), None, grid, axes=(None, None))
        assert psr.redistribute(a, None, **options)(parts[RANK]) is None
    else:
        b = psr.Descriptor((9, 5), (2, 5), grid, axes=(0, None))
        expected = in_order(parts, 1, 0, parts[0])[b.global_indices(0)]
        assert same(psr.redistribute(None, b, **options)(None), expected, True)
    inter.Free()
    own.Free()


# -- what is refused


def refused(words: str, call: Callable[[], Any]) -> None:
    with pytest.raises(psr.RedistributionError) as caught:
        call()
    assert words in str(caught.value), caught.value


def refusals() -> None:
    plan: Any = psr.redistribute
    for dtype, remedy in (
        ("?", "a.astype(np.int64)"),
        ("f2", "a.astype(np.float32)"),
        ("M8[s]", "float32, float64, complex64, complex128 and integers"),
        ("g", "a.astype(np.float32)"),
        (">f8", "a.astype('float64')"),
    ):
        refused(remedy, lambda dtype=dtype: plan(WHOLE, ROWS, reduce="sum")(np.zeros(WHOLE.shape, dtype)))
        refused(remedy, lambda dtype=dtype: plan(WHOLE, ROWS, reduce="sum", dtype=dtype))
    values = np.zeros(WHOLE.shape)
    refused(
        "reduce = 'max' must be 'sum', which adds the replicas of A, or None", lambda: plan(WHOLE, ROWS, reduce="max")
    )
    refused("leave reduce out", lambda: plan(WHOLE, ROWS, reduce="sum", overwrite=True))
    refused("leave reduce out", lambda: plan(WHOLE, ROWS, reduce="sum")(values, overwrite=True))
    refused("with fill = 'zero'", lambda: plan(WHOLE, ROWS, reduce="sum", uplo="U", fill="zero"))
    refused("with via = 'dimensions'", lambda: plan(WHOLE, ROWS, reduce="sum", via="dimensions"))
    refused("adds none; use buffers='packed'", lambda: plan(WHOLE, ROWS, reduce="sum", buffers="datatypes"))
    refused("adds none", lambda: plan(WHOLE, ROWS, reduce="sum", exchange="alltoallw", buffers="datatypes"))
    refused("out is a, with reduce = 'sum'", lambda: plan(WHOLE, WHOLE, reduce="sum")(values, values))
    if SIZE > 1:
        refused("which a batch does not", lambda: psr.batch(plan(WHOLE, ROWS, reduce="sum")))
        tiles = psr.Tiles([0, 13], [0, 7], [[0]], WORLD)
        refused("reduce = 'sum' with tiles", lambda: plan(WHOLE, tiles, reduce="sum"))
        refused("reduce='sum'", lambda: plan(WHOLE, ROWS, reduce="sum" if RANK else None))
        refused("the dtype", lambda: plan(WHOLE, ROWS, reduce="sum")(values.astype(np.float32 if RANK else np.float64)))
    assert np.array_equal(plan(WHOLE, ROWS, reduce="sum")(values + 1), SIZE * np.ones(ROWS.local_shape))


def main() -> None:
    rng = random.Random(f"{sys.argv[1]} {SIZE}")
    if len(sys.argv) > 3:
        model.SHORTEST_PIECE, pipeline.SMALL = int(sys.argv[3]), 0
    for number in range(int(sys.argv[2])):
        random_case(rng, number)
    for check in (
        replicas_have_the_same_bits, methods_and_arrays, one_summand_is_an_ordinary_move, reports,
        from_one_side_to_the_other, refusals,
    ):  # fmt: skip
        check()


if __name__ == "__main__":
    main()
