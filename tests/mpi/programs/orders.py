"""The order of elements in new local arrays: what each call takes by default, what is asked for, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
ERRORS = psr.ArrayError, psr.DescriptorError, psr.CollectiveError
CUBE = np.arange(8.0 * 9 * 10).reshape(8, 9, 10)
MATRIX = np.arange(120.0).reshape(10, 12)


def slabs(shape: tuple[int, ...], axis: int, ranks: int = SIZE) -> psr.Descriptor:
    """Balanced blocks along one dimension on the first ranks."""
    grid = psr.ProcessGrid([ranks if k == axis else 1 for k in range(len(shape))], WORLD)
    return psr.Descriptor(shape, "balanced", grid)


def made(whole: NDArray[Any], order: str, axis: int = 0, ranks: int = SIZE) -> psr.DistributedArray:
    """A whole array that all ranks have, with local arrays in an order."""
    desc = slabs(whole.shape, axis, ranks)
    local = desc.empty(whole.dtype, order)
    local[...] = desc.from_function(lambda *index: whole[index])
    return psr.DistributedArray(desc, local)


def check(array: Any, order: str, whole: NDArray[Any]) -> None:
    """All ranks have the array, in that order."""
    assert np.array_equal(array.gather(None), whole)
    check_order(array.local, order)


def check_order(local: Any, order: str) -> None:
    if local is not None and min(local.shape) > 1:
        assert local.flags.c_contiguous == (order == "C"), (RANK, local.strides, order)
        assert local.flags.f_contiguous == (order == "F"), (RANK, local.strides, order)


def by_default() -> None:
    for order in "CF":
        for axis in (0, 1, 2):
            target = slabs(CUBE.shape, axis)
            source = made(CUBE, order)
            for overwrite in (False, True):
                check(psr.redistribute(source, target, overwrite=overwrite), order, CUBE)
                source = made(CUBE, order)
            check(source.redistribute(target), order, CUBE)
            check(psr.redistribute(source, like=made(CUBE, "F", axis)), order, CUBE)
            plan = psr.plan(source.desc, target)
            for _ in range(3):  # also by what the first call keeps
                check(plan(source), order, CUBE)
                check_order(plan(source.local), order)
                check_order(plan.start(source.local).wait(), order)
            check_order(psr.batch(plan, plan)([source.local] * 2)[1], order)
            first = psr.plan(source.desc, target, agree="first", exchange="nonblocking")
            for _ in range(3):
                check_order(first(source.local), order)
            check(source + made(CUBE, order, axis), order, CUBE + CUBE)
            check(np.zeros_like(source), order, np.zeros_like(CUBE))
            check(np.full_like(source, 3, order="C"), "C", np.full_like(CUBE, 3))
            check(psr.ones(source.desc, order=order), order, np.ones_like(CUBE))
            check(psr.DistributedArray.from_function(source.desc, lambda i, j, k: i, order=order), order, CUBE // 90)
            check(psr.ones(source), order, np.ones_like(CUBE))
            check(np.concatenate([source, source]), order, np.concatenate([CUBE, CUBE]))
        matrix = made(MATRIX, order)
        check(psr.redistribute(matrix, slabs(MATRIX.shape, 1)), "F", MATRIX)
        check(matrix.redistribute(slabs(MATRIX.shape, 1)), "F", MATRIX)
        check_order(psr.plan(matrix.desc, slabs(MATRIX.shape, 1))(matrix.local), "F")
        whole = np.asarray(CUBE, order=order)  # type: ignore[call-overload]
        for root in {0, SIZE - 1}:
            check(psr.distribute(whole if root == RANK else None, slabs(CUBE.shape, 1), root), order, CUBE)
            check_order(psr.scatter(slabs(CUBE.shape, 1), whole if root == RANK else None, root), order)
        check_order(psr.distribute(np.asarray(MATRIX, order=order), slabs(MATRIX.shape, 1)).local, "F")  # type: ignore[call-overload]
        check_order(made(CUBE, order).gather(None), "F")
    for whole in (
        np.arange(9.0),
        np.zeros((3, 0, 4)),
        np.arange(24.0).reshape(1, 4, 1, 6),
        np.arange(48.0).reshape(2, 4, 1, 6),
    ):
        for order in "CF":
            source = made(whole, order)
            assert np.array_equal(source.redistribute(slabs(whole.shape, whole.ndim - 1)).gather(None), whole)


def as_asked() -> None:
    for whole in (CUBE, MATRIX):
        for order in "CF":
            source, target = made(whole, order), slabs(whole.shape, 1)
            for asked, wanted in (("C", "C"), ("F", "F"), ("K", order), ("c", "C"), ("k", order)):
                check(psr.redistribute(source, target, order=asked), wanted, whole)
                check(source.redistribute(target, order=asked), wanted, whole)
                check(psr.plan(source.desc, target, order=asked)(source), wanted, whole)
                check(psr.distribute(np.asarray(whole, order=order), target, order=asked), wanted, whole)  # type: ignore[call-overload]
                plan = psr.plan(source.desc, target, order=asked)
                result = plan(source.local)
                check_order(result, wanted)
                assert plan(source.local, result) is result  # a new array the first time, and that one again
                tiles = psr.Tiles.from_edges(
                    [[0, 3, n] for n in whole.shape], np.arange(2**whole.ndim).reshape((2,) * whole.ndim) % SIZE, WORLD
                )
                for tile in psr.redistribute(source, tiles, order=asked).local:
                    check_order(tile, wanted)
    for order, turned in ("CF", "FC"):  # of the transpose
        matrix = made(MATRIX, order)
        check(matrix.redistribute(slabs(MATRIX.shape[::-1], 0), op="T", order="K"), turned, MATRIX.T)
        check(matrix.T.redistribute(slabs(MATRIX.shape[::-1], 0), order="K"), turned, MATRIX.T)
        check(matrix.redistribute(slabs(MATRIX.shape, 1), uplo="U", order="K"), order, np.triu(MATRIX))
        check(psr.redistribute(matrix, slabs(MATRIX.shape, 1), op="R", order="K"), order, MATRIX)


def of_views() -> None:
    """Of arrays in neither order the nearer one is taken."""
    desc, target = slabs(CUBE.shape, 0), slabs(CUBE.shape, 1)
    own = desc.from_function(lambda *index: CUBE[index])
    wide = np.zeros((2 * own.shape[0], own.shape[1] + 1, 3 * own.shape[2]))
    gaps = wide[::2, :-1, ::3]
    gaps[...] = own
    backwards = np.ascontiguousarray(own[:, ::-1])[:, ::-1]
    swapped = np.moveaxis(np.ascontiguousarray(np.moveaxis(own, 0, 2)), 2, 0)  # the first dimension runs fastest
    for local, order in ((gaps, "C"), (backwards, "C"), (swapped, "F"), (np.asfortranarray(own)[:], "F")):
        check(psr.DistributedArray(desc, local).redistribute(target), order, CUBE)
        check_order(psr.plan(desc, target)(local), order)
    own.setflags(write=False)
    check(psr.DistributedArray(desc, np.ascontiguousarray(own)).redistribute(target), "C", CUBE)
    part = made(CUBE, "C")[1:, 2:5]
    check(part.redistribute(slabs(part.shape, 1)), "C", CUBE[1:, 2:5])


def of_some_ranks() -> None:
    """Ranks that have nothing of A: the array has one order, and a plan is called with what this rank has."""
    for order in "CF":
        source, target = made(CUBE, order, ranks=1), slabs(CUBE.shape, 1)
        assert not RANK or not source.local.size
        check(source.redistribute(target), order, CUBE)
        check(psr.redistribute(source, target), order, CUBE)
        check(psr.redistribute(source, target, order="K"), order, CUBE)
        plan = psr.plan(source.desc, target, dtype="f8")
        check_order(plan(source.local if RANK == 0 else None), order if RANK == 0 else "F")
        check(psr.plan(source.desc, target, order="C")(source), "C", CUBE)
        back = made(CUBE, order).redistribute(slabs(CUBE.shape, 1, 1))
        assert np.array_equal(back.gather(None), CUBE)  # type: ignore[arg-type]
        check_order(back.local if RANK == 0 else None, order)
    if SIZE > 1:  # orders that differ from rank to rank
        desc, target = slabs(CUBE.shape, 0), slabs(CUBE.shape, 1)
        local = desc.from_function(lambda *index: CUBE[index])
        mixed = psr.DistributedArray(desc, np.ascontiguousarray(local) if RANK else local)
        check(mixed.redistribute(target), "F", CUBE)
        check_order(psr.plan(desc, target)(mixed.local), "C" if RANK else "F")


def of_files(folder: Path) -> None:
    path = folder / "cube.npy"
    for order in "CF":
        made(CUBE, "F").save(path, order=order)
        check(psr.load(path, WORLD), order, CUBE)
        check_order(psr.load(slabs(CUBE.shape, 1), path), order)
        check(psr.load(psr.zeros(CUBE.shape, WORLD), path), "F", CUBE)  # into an array
        made(MATRIX, "C").save(folder / "matrix.npy", order=order)
        check(psr.load(folder / "matrix.npy", WORLD), "F", MATRIX)
        raw = folder / "cube.bin"
        made(CUBE, "F").save(raw, order=order)
        check_order(psr.load(slabs(CUBE.shape, 1), raw, dtype="f8", order=order), order)


def refused() -> None:
    source, target = made(CUBE, "C"), slabs(CUBE.shape, 1)
    before, into, bad = source.local.copy(), psr.zeros(target), SIZE - 1
    calls: list[tuple[Callable[[dict[str, Any]], Any], dict[str, Any], str]] = []
    for wrong in ("Q", 1, ["C"]):
        for call in (
            lambda own: source.redistribute(target, **own),
            lambda own: psr.redistribute(source, target, **own),
            lambda own: psr.plan(source.desc, target, **own),
            lambda own: psr.distribute(CUBE, target, **own),
            lambda own: psr.scatter(target, CUBE, **own),
        ):
            calls.append((call, {"order": wrong}, "order = .* must be one of 'C'"))
    calls += [
        (
            lambda own: source.redistribute(out=into, **own),
            {"order": "C"},
            "order = 'C' is for a new array, and out is given",
        ),
        (
            lambda own: psr.scatter(target, CUBE, out=into.local, **own),
            {"order": "K"},
            "order = 'K' is for a new array",
        ),
        (
            lambda own: psr.redistribute(source, like=(target, into.local), **own),
            {"order": "F"},
            "order = 'F' with like=, a tuple: its library",
        ),
    ]
    for call, options, words in calls:
        for own in (options, options if bad == RANK else {}):
            with pytest.raises(ERRORS, match=words):
                call(own)
    if SIZE > 1:
        for own in ("C" if RANK else "F", "C" if RANK else None, "K" if RANK else None):
            for call in (
                lambda own: source.redistribute(target, order=own),
                lambda own: psr.plan(source.desc, target, order=own),
                lambda own: psr.distribute(CUBE, target, order=own),
            ):
                with pytest.raises(psr.CollectiveError, match="the options must be the same on every rank"):
                    call(own)
    stored = psr.Tiles([0, 7, 10], [0, 12], [[0], [bad]], WORLD, offsets=[84 * k for k in range([0, bad].count(RANK))])
    matrix = made(MATRIX, "C")
    with pytest.raises(ERRORS, match="order = 'C': the tiles of desc_b are in one array"):
        psr.redistribute(matrix, stored, order="C")
    assert np.array_equal(psr.redistribute(matrix, stored, order="K").gather(None), MATRIX)  # type: ignore[arg-type]
    assert np.array_equal(source.local, before)
    assert not into.local.any()
    assert np.array_equal(source.redistribute(target).gather(None), CUBE)  # type: ignore[arg-type]


if __name__ == "__main__":
    by_default()
    as_asked()
    of_views()
    of_some_ranks()
    of_files(Path(sys.argv[1]))
    refused()
    if RANK == 0:
        print("OK", flush=True)
