"""Irregular blocks in every operation, against NumPy on the whole array. Argument: a folder."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist.schedules import NAMES

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
COLUMN, ROW = psr.ProcessGrid((SIZE, 1), WORLD), psr.ProcessGrid((1, SIZE), WORLD)
SHAPE = 37, 11
WITHOUT_CONDITIONS = [name for name in NAMES if name not in ("walker-otto", "phases", "classes")]


def whole(shape: tuple[int, ...]) -> NDArray[np.float64]:
    return 1.0 + np.arange(float(np.prod(shape))).reshape(shape)


def local(desc: psr.Descriptor, array: NDArray[Any]) -> NDArray[Any] | None:
    """This rank's part; of a sub-array, in the whole array's local array with zeros around."""
    if desc.coords is None:
        return None
    made = desc.zeros(array.dtype)
    first = [axis.local_start(p) for axis, p in zip(desc.distributions, desc.coords, strict=True)]
    part = array[np.ix_(*(desc.global_indices(k) for k in range(desc.ndim)))]
    made[tuple(slice(start, start + n) for start, n in zip(first, part.shape, strict=True))] = part
    return made


def check(a: psr.Descriptor, b: psr.Descriptor, **keywords: Any) -> None:
    """Values and, where they are known, the matrix op(A)."""
    array = whole(a.shape)
    moved = array if keywords.get("op", "N") == "N" else array.T
    expected = local(b, moved)
    out = None if b.coords is None else b.zeros()
    result = psr.redistribute(a, b, comm=WORLD, dtype=float, **keywords)(local(a, array), out)
    assert (result is None) == (expected is None)
    assert expected is None or np.array_equal(result, expected), (a, b, keywords)


def layouts(shape: tuple[int, int]) -> list[psr.Descriptor]:
    """Empty ranks, empty blocks, several blocks for each process in any order, all on one process, balanced, regular."""
    m, n = shape
    cuts = [0, m // 7, m // 7, m // 3, m // 2, m // 2 + m // 9, m]
    some = psr.Blocks(np.diff(cuts), [SIZE - 1, 0, 0, SIZE // 2, 0, SIZE - 1])
    return [
        psr.Descriptor(shape, "balanced", COLUMN),
        psr.Descriptor(shape, (some, None), COLUMN),
        psr.Descriptor(shape, (psr.Blocks([m], [SIZE // 2]), 3), COLUMN),
        psr.Descriptor(shape, (2, psr.Blocks([1] * n, np.arange(n)[::-1] % SIZE)), ROW),
        psr.Descriptor(shape, (3, 2), COLUMN),
        psr.Descriptor((m + 5, n + 2), (psr.Blocks([4, m - 4, 5], [0, SIZE - 1, 0]), "balanced"), COLUMN)[
            3 : m + 3, 2:
        ],
    ]


def every_pair() -> None:
    for a, b in itertools.product(layouts(SHAPE), layouts(SHAPE)):
        check(a, b)
    for a, b in itertools.product(layouts(SHAPE), layouts(SHAPE[::-1])):
        check(a, b, op="T")
    for shape in ((1, 11), (0, 5), (1, 1)):
        for a, b in itertools.product(layouts((9, 4)), layouts((9, 4))):
            rows, columns = min(9, shape[0]), min(4, shape[1])
            check(a[:rows, :columns], b[:rows, :columns])
        check(psr.Descriptor(shape, "balanced", COLUMN), psr.Descriptor(shape, (None, "balanced"), ROW))


def every_schedule() -> None:
    a, b = layouts(SHAPE)[1], layouts(SHAPE)[3]
    for schedule, exchange in itertools.product(WITHOUT_CONDITIONS, ("sendrecv", "windowed")):
        if schedule not in ("natural", "random") or exchange != "sendrecv":
            check(a, b, schedule=schedule, exchange=exchange)
    check(a, b, via="dimensions")
    check(a, b, via=[layouts(SHAPE)[0], layouts(SHAPE)[4]])
    for keywords in ({"schedule": "classes"}, {"schedule": "walker-otto"}, {"via": "lcm"}, {"via": "gcd"}):
        with pytest.raises(psr.ScheduleError, match="use "):
            psr.redistribute(a, b, **keywords)  # type: ignore[arg-type]


def triangles() -> None:
    array = whole((20, 20))
    for a, b in itertools.product(layouts((20, 20))[:4], layouts((20, 20))[:4]):
        result = psr.redistribute(a, b, uplo="L")(local(a, array))
        assert np.array_equal(result, local(b, np.tril(array)))
        filled = psr.redistribute(a, b, uplo="U", fill="symmetric")(local(a, array))
        assert np.array_equal(filled, local(b, np.triu(array) + np.triu(array, 1).T))


def batches() -> None:
    a, b, c = layouts(SHAPE)[:3]
    arrays = whole(SHAPE), -whole(SHAPE)
    plan = psr.batch(psr.redistribute(a, b), psr.redistribute(b, c))
    out = plan([local(a, arrays[0]), local(b, arrays[1])])
    assert np.array_equal(out[0], local(b, arrays[0]))
    assert np.array_equal(out[1], local(c, arrays[1]))


def files(folder: Path) -> None:
    array = whole(SHAPE)
    for number, desc in enumerate(layouts(SHAPE)):
        for through, order in itertools.product(("slabs", "view"), "CF"):
            path = folder / f"{number}{through}{order}.npy"
            psr.save(desc, local(desc, array), path, order=order, through=through)
            WORLD.Barrier()
            assert np.array_equal(np.load(path), array)
            out = desc.zeros()
            psr.load(desc, path, out, through=through)
            assert np.array_equal(out, local(desc, array))


def scatters_and_gathers() -> None:
    array = whole(SHAPE)
    for desc in layouts(SHAPE)[:5]:
        mine = psr.scatter(desc, array if RANK == 0 else None)
        assert np.array_equal(mine, local(desc, array))
        back = psr.gather(desc, mine)
        assert back is None if RANK else np.array_equal(back, array)


def relabelled() -> None:
    """The ranks in the places of their own blocks: nothing moves."""
    sizes = np.arange(1, SIZE + 1)
    shape = int(sizes.sum()), 4
    a = psr.Descriptor(shape, (psr.Blocks(sizes), None), COLUMN)
    turned = psr.ProcessGrid((SIZE, 1), WORLD, ranks=np.roll(np.arange(SIZE), 1)[:, None])
    b = psr.Descriptor(shape, (psr.Blocks(sizes), None), turned)
    made = psr.relabel(a, b)
    assert made.grid.ranks.tolist() == COLUMN.ranks.tolist()
    assert psr.redistribute(a, made).report().bytes_sent == 0
    check(a, made)


def disjoint_processes() -> None:
    half = max(1, SIZE // 2)
    if SIZE == 1:
        return
    first = psr.ProcessGrid((half, 1), WORLD)
    rest = psr.ProcessGrid((SIZE - half, 1), WORLD, ranks=np.arange(half, SIZE)[:, None])
    sizes = [30, *[0] * (half - 1), 7]
    a = psr.Descriptor(SHAPE, (psr.Blocks(sizes, [half - 1, *range(half - 1), 0]), 4), first)
    b = psr.Descriptor(SHAPE, ("balanced", "balanced"), rest)
    check(a, b)
    check(b, a)
    # each rank knows the layouts of its own part only
    given = (a, None) if half > RANK else (None, b)
    result = psr.redistribute(*given, comm=WORLD, dtype=float)(local(a, whole(SHAPE)))
    assert result is None if half > RANK else np.array_equal(result, local(b, whole(SHAPE)))  # type: ignore[arg-type]


def ranks_that_differ() -> None:
    """Many blocks, of which one rank has one otherwise: all ranks say so."""
    if SIZE == 1:
        return
    sizes = np.full(100, 2)
    sizes[:2] += [1, -1] if RANK == SIZE - 1 else [0, 0]
    a = psr.Descriptor((200, 2), (psr.Blocks(sizes, np.arange(100) % SIZE), None), COLUMN)
    with pytest.raises(psr.RedistributionError, match="desc_a"):
        psr.redistribute(a, psr.Descriptor((200, 2), "balanced", COLUMN))


def refused_by_scalapack() -> None:
    desc = psr.Descriptor((8, 8), "balanced", COLUMN)
    for call in (
        lambda: np.asarray(desc),
        lambda: psr.scalapack.pxgemr2d(desc.zeros(), desc, desc.zeros(), desc),
        lambda: psr.scalapack.pxgetrf(desc.zeros(), desc),
    ):
        with pytest.raises(
            psr.DescriptorError, match=r"irregular blocks.*redistribute to a Descriptor with a block size"
        ):
            call()


def main() -> None:
    every_pair()
    every_schedule()
    triangles()
    batches()
    files(Path(sys.argv[1]))
    scatters_and_gathers()
    relabelled()
    disjoint_processes()
    ranks_that_differ()
    refused_by_scalapack()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
