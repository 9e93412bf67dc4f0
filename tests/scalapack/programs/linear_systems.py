"""linalg's linear systems against NumPy and SciPy: odd layouts, part of the ranks, all dtypes; singular and empty matrices."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from linalg_cases import (
    COLUMNS,
    LAST,
    RANK,
    ROWS,
    SIZE,
    SQUARE,
    copied,
    in_turn,
    near,
    put,
    random,
    slabs,
    untouched,
    whole_of,
)

import pyscalapack_redist as psr
from pyscalapack_redist import linalg


def layouts(n: int, k: int) -> list[tuple[psr.Descriptor, psr.Descriptor]]:
    """Of A and B: one that fits, and others that do not."""
    last = [side - 1 for side in SQUARE.shape]
    return [
        (psr.Descriptor((n, n), 3, SQUARE), psr.Descriptor((n, k), 3, SQUARE)),
        (psr.Descriptor((n, n), (3, 2), ROWS), psr.Descriptor((n, k), None, COLUMNS)),
        (psr.Descriptor((n, n), None, LAST), psr.Descriptor((n, k), 2, SQUARE, source=last)),
        (copied((n, n)), psr.Descriptor((n, k), 2, SQUARE, axes=(None, 0))),
        (psr.Descriptor((n, n), 4, SQUARE).T, psr.Descriptor((n + 5, k + 3), 3, ROWS)[2 : n + 2, 1 : k + 1]),
    ]


def check(n: int, k: int, dtype: str) -> None:
    matrix = random((n, n), dtype) + 3 * np.eye(n, dtype=dtype)
    sides = random((n, k), dtype)
    for number, (desc_a, desc_b) in enumerate(layouts(n, k)):
        a, b = put(matrix, desc_a, "CF"[number % 2]), put(sides, desc_b)
        given_layouts = (None, psr.Descriptor((n, n), 2, SQUARE), psr.Descriptor((n, n), 5, COLUMNS))
        for given in in_turn(given_layouts, dtype, number):
            case = f"n = {n}, k = {k}, {dtype}, layouts {number}, layout = {given}"
            with untouched(a, b):
                lu(matrix, sides, a, b, given, case)
                cholesky(matrix, sides, desc_a, b, given, case)


def lu(matrix: Any, sides: Any, a: psr.DistributedArray, b: psr.DistributedArray, given: Any, case: str) -> None:
    x = linalg.solve(a, b, layout=given)
    near(whole_of(x), np.linalg.solve(matrix, sides), case)
    assert x.desc == b.desc or b.desc.parent is not None
    factors = linalg.lu_factor(a, layout=given, like=slabs(a.shape) if case[-1] == ")" else None)
    expected = scipy.linalg.lu_factor(matrix) if a.shape[0] else (matrix, np.zeros(0, int))
    near(whole_of(factors[0]), expected[0], f"lu, {case}")
    assert np.array_equal(factors[1], expected[1]), case
    for trans, turned in enumerate((matrix, matrix.T, matrix.conj().T)):
        x = linalg.lu_solve(factors, b, trans, layout=given)
        near(whole_of(x), np.linalg.solve(turned, sides), f"lu_solve, trans {trans}, {case}")
    near(whole_of(linalg.inv(a, layout=given)), np.linalg.inv(matrix), f"inv, {case}")
    for found, expected_number in zip(linalg.slogdet(a, layout=given), np.linalg.slogdet(matrix), strict=True):
        near(found, expected_number, f"slogdet, {case}")
    near(linalg.det(a, layout=given), np.linalg.det(matrix), f"det, {case}")


def cholesky(matrix: Any, sides: Any, desc_a: psr.Descriptor, b: psr.DistributedArray, given: Any, case: str) -> None:
    positive = (matrix @ matrix.conj().T + np.eye(*matrix.shape)).astype(matrix.dtype)
    factor = np.linalg.cholesky(positive)
    for lower in (False, True):
        unread = np.triu(np.full_like(positive, 99), 1)
        a = put((np.tril if lower else np.triu)(positive) + (unread if lower else unread.T), desc_a)
        with untouched(a):
            found = linalg.cholesky(a, lower, layout=given)
            near(whole_of(found), factor if lower else factor.conj().T, f"cholesky, {case}")
            pair = linalg.cho_factor(a, lower, layout=given)
        with untouched(pair[0]):
            x = linalg.cho_solve(pair, b, layout=given, like=copied(b.shape))
        assert x.desc == copied(b.shape)
        near(whole_of(x), np.linalg.solve(positive, sides), f"cho_solve, {case}")


def vectors_and_memory() -> None:
    """A vector of one dimension; what fits is not copied where it may be overwritten, nor changed otherwise."""
    n = 17
    matrix, side = random((n, n), "d"), random((n,), "d")
    line = psr.ProcessGrid((SIZE,), COLUMNS.comm)
    a = put(matrix, psr.Descriptor((n, n), 4, SQUARE))
    for desc in (
        psr.Descriptor(n_shape := (n,), 3, line),
        psr.Descriptor((n + 3,), 2, line, source=SIZE - 1)[2 : n + 2],
    ):
        x = linalg.solve(a, put(side, desc))
        assert x.shape == n_shape
        near(whole_of(x), np.linalg.solve(matrix, side), "a vector")
    b = put(random((n, 2), "d"), psr.Descriptor((n, 2), 4, SQUARE))
    expected = np.linalg.solve(matrix, whole_of(b))
    x = linalg.solve(a, b, overwrite_a=True, overwrite_b=True)
    assert x.local is None or x.local.size == 0 or np.shares_memory(x.local, b.local)
    near(whole_of(x), expected, "overwritten")
    a = put(matrix, psr.Descriptor((n, n), 4, SQUARE))
    near(whole_of(linalg.solve(a, a, overwrite_a=True, overwrite_b=True)), np.eye(n), "one array two times")


def singular() -> None:
    for n, at in ((1, 0), (12, 0), (12, 7)):
        matrix = np.eye(n)
        matrix[at, at] = 0
        for grid in (SQUARE, LAST, COLUMNS):
            a = put(matrix, psr.Descriptor((n, n), 2, grid))
            for call in (linalg.inv, linalg.lu_factor, lambda a: linalg.solve(a, a)):
                with pytest.raises(np.linalg.LinAlgError, match=f"singular: pivot {at + 1} "):
                    call(a)
            assert linalg.det(a) == 0
            assert linalg.slogdet(a) == (0, -np.inf)
            matrix[at, at] = -1
            bad = put(matrix, psr.Descriptor((n, n), 2, grid))
            matrix[at, at] = 0
            for lower in (False, True):
                with pytest.raises(np.linalg.LinAlgError, match=f"its leading minor of order {at + 1} is not"):
                    linalg.cholesky(bad, lower)


def main() -> None:
    warnings.simplefilter("error")
    for dtype in "fdFD":
        check(19, 4, dtype)
    for n, k in ((1, 1), (2, 3), (0, 2), (3, 0), (30, 30)):
        check(n, k, "d")
    check(2, 1, "F")
    vectors_and_memory()
    singular()
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
