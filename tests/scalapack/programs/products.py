"""Products without a ScaLAPACK, on every grid: layouts of all kinds, several panels, halves, errors, second attempts."""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from linalg_cases import RANK, ROWS, SIZE, SQUARE, WORLD, layouts, near, put, random, slabs, untouched, whole_of
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist import blacs, linalg
from pyscalapack_redist.linalg import multiplication, product_grids, products

SHAPES = [(11, 7, 9), (1, 1, 1), (0, 3, 2), (3, 0, 2), (2, 3, 0), (5, 40, 1), (1, 6, 17), (30, 2, 30)]
BAD = SIZE - 1


def grids(a: psr.Descriptor, b: psr.Descriptor, c: psr.Descriptor, halves: bool) -> Iterator[product_grids.Arrangement]:
    sizes = product_grids.Sizes(a.shape[0], b.shape[1], a.shape[1], np.dtype(float))
    yield from product_grids.arrangements(SIZE, *map(product_grids.Plane.of, (a, b, c)))
    if halves:
        yield from product_grids.halves(SIZE, sizes)


def on_every_grid(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[], psr.DistributedArray], expected: NDArray[Any]
) -> None:
    """A product on each grid that could be chosen for it."""
    number, possible, is_on_one = 0, 1, False
    on_one = products._product_on_one

    def product_on_one(problem: Any) -> psr.DistributedArray:
        nonlocal is_on_one
        is_on_one = True
        return on_one(problem)

    def choose(sizes: Any, size: int, *layouts: psr.Descriptor) -> product_grids.Arrangement:
        nonlocal possible
        *descs, may_be_half = layouts
        listed = [*grids(*descs, may_be_half)]  # type: ignore[arg-type]
        possible = len(listed)
        return listed[number]

    with monkeypatch.context() as patch:
        patch.setattr(multiplication, "PLANS_KEPT", 0)
        patch.setattr(multiplication, "best_arrangement", choose)
        patch.setattr(products, "_product_on_one", product_on_one)
        while number < possible:
            near(whole_of(call()), expected, f"grid {number}")
            number += 1
    assert possible > 1 or WORLD.allreduce(is_on_one, MPI.LOR)


def every_grid(monkeypatch: pytest.MonkeyPatch, stride: int) -> None:
    drawn = itertools.count()
    for (m, k, n), dtype in zip(SHAPES, itertools.cycle("fdFD"[SIZE % 4 :] + "fdFD"[: SIZE % 4])):
        left, right = random((m, k), dtype), random((k, n), dtype)
        pairs = itertools.product(layouts((m, k)), layouts((k, n)))
        for (desc_a, desc_b), order in zip(pairs, itertools.cycle("CFF")):
            if next(drawn) % stride == 0:
                a, b = put(left, desc_a, order), put(right, desc_b)
                with untouched(a, b):
                    on_every_grid(monkeypatch, lambda: linalg.matmul(a, b), left @ right)  # noqa: B023
        for desc_a in layouts((m, k)):
            if next(drawn) % max(1, stride // 8) == 0:
                a = put(left, desc_a)
                on_every_grid(monkeypatch, lambda: a.T @ a, left.T @ left)  # noqa: B023
                on_every_grid(monkeypatch, lambda: a @ a.H, left @ left.conj().T)  # noqa: B023


def several_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some the plans are not kept; on each grid, of both orders, and twice with plans that are kept."""
    left, right = random((9, 50), "D"), random((50, 8), "D")
    with monkeypatch.context() as patch:
        for module in (multiplication, product_grids):
            patch.setattr(module, "PANEL_BYTES", 1)
            patch.setattr(module, "LEAST_WIDTH", 20)
        patch.setattr(multiplication, "COLUMNS", 3)
        patch.setattr(multiplication, "PANELS_KEPT", 2)
        for desc_a, desc_b in zip(layouts(left.shape), layouts(right.shape)[::-1], strict=True):
            a, b = put(left, desc_a), put(right, desc_b)
            if desc_a.parent is None:
                on_every_grid(patch, lambda: a @ b, left @ right)  # noqa: B023
                on_every_grid(patch, lambda: a @ a.H, left @ left.conj().T)  # noqa: B023
            for _ in range(2):
                near(whole_of(a @ b), left @ right)
        rows = psr.Descriptor(left.shape, None, ROWS)
        pair = (rows, np.ascontiguousarray(put(left, rows).local))
        for desc_b in layouts(right.shape):
            product, local = linalg.matmul(pair, put(right, desc_b))  # type: ignore[arg-type]
            near(whole_of(psr.DistributedArray(product, local)), left @ right)


def vectors() -> None:
    """Also where both are on some of the ranks, or on one."""
    grids = [psr.ProcessGrid(shape, WORLD) for shape in ((1, 1), (max(1, SIZE - 1), 1), (1, max(1, SIZE - 1)))]
    for desc_a, desc_b in [
        *itertools.product(layouts((12, 17)), layouts((17,))),
        *(
            (psr.Descriptor((12, 17), 2, grid), psr.Descriptor((17,), 3, grid, axes=(int(grid.shape[0] == 1),)))
            for grid in grids
        ),
    ]:
        left, right = random((12, 17), "F"), random((17,), "F")
        product = linalg.matmul(put(left, desc_a), put(right, desc_b))
        assert product.shape == (12,)
        near(whole_of(product), left @ right)


def not_finite() -> None:
    """NaN where NumPy's is, and both halves equal."""
    for value in (np.nan, np.inf):
        matrix = random((10, 6), "d")
        matrix[3, 2] = value
        for desc in layouts(matrix.shape):
            a = put(matrix, desc)
            with np.errstate(all="ignore"):
                assert np.allclose(whole_of(a @ a.T), matrix @ matrix.T, equal_nan=True)
                assert np.allclose(whole_of(a.T @ a), matrix.T @ matrix, equal_nan=True)
                other = np.where(np.isfinite(matrix), matrix, 1)
                b = put(other.T.copy(), desc.T)
                assert np.allclose(whole_of(a @ b), matrix @ other.T, equal_nan=True)


def nearly_transposes() -> None:
    """Layouts alike and one element another, on one rank: no half is mirrored."""
    matrix = random((40, 30), "D")
    for other in (matrix.T.copy(), matrix.conj().T.copy()):
        for place in ((0, 0), (29, 39)):
            other[place] += 1
            for desc in layouts(matrix.shape):
                near(whole_of(put(matrix, desc) @ put(other, desc.T)), matrix @ other)


def errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory on one rank: all raise, and the next call is good."""
    left, raised = random((20, 30), "d"), 0
    for desc in layouts(left.shape):
        a = put(left, desc)
        for check, right in itertools.product((True, False), (put(left.T.copy(), slabs((30, 20))), a.T)):
            calls = 0

            def no_memory(*arguments: object) -> None:
                nonlocal calls
                calls += 1
                raise MemoryError

            with monkeypatch.context() as patch:
                if RANK == BAD:
                    patch.setattr(multiplication, "for_blas", no_memory)
                    patch.setattr(products, "_product_on_one", no_memory)
                outcome = error_of(lambda: linalg.matmul(a, right, check=check))  # noqa: B023
            if WORLD.bcast(calls, root=BAD):  # otherwise that rank has nothing to compute
                assert outcome is (MemoryError if RANK == BAD else psr.CollectiveError)
                raised += 1
            else:
                assert outcome is None
            near(whole_of(linalg.matmul(a, right, check=check)), left @ left.T)
    assert raised > 10


def error_of(call: Callable[[], object]) -> type[Exception] | None:
    try:
        call()
    except Exception as error:
        return type(error)
    return None


def second_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong product is computed once more, in blocks on another grid, and a second one refused."""
    wrong = 0

    on_grid, on_one = products.multiply, products._product_on_one

    def spoiled(product: psr.DistributedArray) -> psr.DistributedArray:
        nonlocal wrong
        wrong -= 1
        if wrong >= 0 and product.local is not None and product.local.size:
            product.local[0, 0] += 1
        return product

    monkeypatch.setattr(products, "multiply", lambda *arguments: spoiled(on_grid(*arguments)))
    monkeypatch.setattr(products, "_product_on_one", lambda problem: spoiled(on_one(problem)))
    left, right = random((20, 30), "d"), random((30, 9), "d")
    a, b = put(left, psr.Descriptor((20, 30), 2, SQUARE)), put(right, slabs((30, 9)))
    for layout in (None, psr.Descriptor((20, 9), 3, ROWS)):
        wrong = 1
        with warnings.catch_warnings(record=True, action="always") as warned:
            near(whole_of(linalg.matmul(a, b, layout=layout)), left @ right)
        text = "".join(str(warning.message) for warning in warned)
        assert re.match(
            r"matmul: NumPy's matmul returned no result: C y = A \(B y\) is off by .* times what rounding comes to, in "
            r"the layout .*; the result is that of another layout, ",
            text,
        ), text
        wrong = 2
        with pytest.raises(np.linalg.LinAlgError, match=r"pass another layout=, or use another|pass layout= on more"):
            linalg.matmul(a, b, layout=layout)
        wrong = 1
        spoils = WORLD.allreduce(bool(a.local.size))
        assert spoils
        assert not np.allclose(whole_of(linalg.matmul(a, b, check=False, layout=layout)), left @ right)


def without_library() -> None:
    with pytest.raises(psr.LibraryError):
        blacs.load()
    a, b = put(np.eye(4), slabs((4, 4))), put(np.ones((4, 1)), slabs((4, 1)))
    on_one = psr.Descriptor((4, 4), 4, psr.ProcessGrid((1, 1), WORLD))
    assert np.array_equal(whole_of(linalg.solve(a, b, layout=on_one)), np.ones((4, 1)))
    if SIZE > 1:
        with pytest.raises((psr.LibraryError, psr.CollectiveError)):
            linalg.solve(a, b, layout=psr.Descriptor((4, 4), 2, SQUARE))


def main() -> None:
    monkeypatch = pytest.MonkeyPatch()
    without_library()
    every_grid(monkeypatch, int(sys.argv[1]))
    several_panels(monkeypatch)
    vectors()
    not_finite()
    nearly_transposes()
    errors(monkeypatch)
    second_attempts(monkeypatch)
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
