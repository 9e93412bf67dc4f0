"""linalg's products, norms, eigenproblems, QR and singular value decompositions and least squares, against NumPy and SciPy."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest
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


def layouts(m: int, n: int) -> list[psr.Descriptor]:
    last = [side - 1 for side in SQUARE.shape]
    return [
        psr.Descriptor((m, n), 3, SQUARE),
        psr.Descriptor((m, n), (2, 5), ROWS, source=(SIZE - 1, 0)),
        psr.Descriptor((m + 4, n + 2), None, COLUMNS)[1 : m + 1, 2 : n + 2],
        psr.Descriptor((n, m), 2, SQUARE, source=last).T,
        psr.Descriptor((m, n), 7, LAST),
        psr.Descriptor((m, n), "balanced", COLUMNS),
        psr.Descriptor((m + 3, n), "balanced", ROWS)[:m],
    ]


def given(m: int, n: int) -> list[psr.Descriptor | None]:
    return [None, psr.Descriptor((m, n), 2, SQUARE), psr.Descriptor((m, n), 4, ROWS)]


def products(m: int, k: int, n: int, dtype: str) -> None:
    left, right = random((m, k), dtype), random((k, n), dtype)
    expected = left @ right
    for number, (desc_a, desc_b) in enumerate(zip(layouts(m, k), layouts(k, n)[::-1], strict=True)):
        a, b = put(left, desc_a, "CF"[number % 2]), put(right, desc_b)
        for layout in in_turn(given(m, n), dtype, number):
            case = f"{m} x {k} x {n}, {dtype}, layouts {number}, layout = {layout}"
            with untouched(a, b):
                near(whole_of(linalg.matmul(a, b, layout=layout)), expected, case)
                found = linalg.matmul(a, b, layout=layout, like=slabs((m, n)))
                near(whole_of(found), expected, case)
                assert found.desc == slabs((m, n))
                near(whole_of(linalg.matmul(a.H, a)), left.conj().T @ left, case)
        for order in (None, "fro", 1, np.inf, 2, -2, "nuc"):
            with untouched(a):
                expected_norm = np.linalg.norm(left, order) if left.size else left.real.dtype.type(0)
                near(linalg.norm(a, order), expected_norm, f"{order}, {m} x {k}, {dtype}, layouts {number}")


def vectors() -> None:
    line = psr.ProcessGrid((SIZE,), COLUMNS.comm)
    left, right = random((9, 14), "F"), random((14,), "F")
    a, b = put(left, psr.Descriptor((9, 14), 2, SQUARE)), put(right, psr.Descriptor((14,), 3, line))
    near(whole_of(linalg.matmul(a, b)), left @ right, "a vector")
    for order in (None, 1, 2, np.inf):
        near(linalg.norm(b, order), np.linalg.norm(right, order), f"of a vector, {order}")


def eigenproblems(n: int, dtype: str) -> None:
    half = random((n, n), dtype)
    matrix = (half + half.conj().T) / 2
    expected = np.linalg.eigvalsh(matrix)
    for number, desc in enumerate(layouts(n, n)):
        a = put(matrix, desc, "CF"[number % 2])
        for layout in in_turn(given(n, n) if n > 4 else [None], dtype, number):
            case = f"eigh, n = {n}, {dtype}, layouts {number}, layout = {layout}"
            with untouched(a):
                values, vectors = linalg.eigh(a, lower=bool(number % 2), layout=layout)
                near(values, expected, case)
                whole = whole_of(vectors)
                near(whole.conj().T @ whole, np.eye(n, dtype=dtype), case)
                near(matrix @ whole, (whole * values).astype(dtype), case)
                near(linalg.eigh(a, lower=bool(number % 2), eigvals_only=True, layout=layout), expected, case)


def factorisations(m: int, n: int, dtype: str) -> None:
    matrix, few = random((m, n), dtype), min(m, n)
    singular = np.linalg.svd(matrix, compute_uv=False)
    for number, desc in enumerate(layouts(m, n)):
        a = put(matrix, desc, "CF"[number % 2])
        for layout in in_turn(given(m, n), dtype, number):
            case = f"{m} x {n}, {dtype}, layouts {number}, layout = {layout}"
            with untouched(a):
                for mode, columns in (("reduced", few), ("full", m)):
                    q, r = map(whole_of, linalg.qr(a, mode, layout=layout))
                    assert q.shape == (m, columns)
                    assert np.array_equal(r, np.triu(r)), case
                    near(q @ r, matrix, f"qr, {mode}, {case}")
                    near(q.conj().T @ q, np.eye(columns, dtype=dtype), f"qr, {mode}, {case}")
                near(whole_of(linalg.qr(a, "r", layout=layout)), r[:few], f"qr, {case}")
                near(linalg.svd(a, compute_uv=False, layout=layout), singular, f"svd, values, {case}")
                for full in (False, True):
                    u, s, vh = linalg.svd(a, full, layout=layout)
                    u, vh = whole_of(u), whole_of(vh)
                    near(s, singular, f"svd, {case}")
                    assert (u.shape, vh.shape) == (((m, m), (n, n)) if full else ((m, few), (few, n)))
                    near((u[:, :few] * s).astype(dtype) @ vh[:few], matrix, f"svd, {case}")
                    near(u.conj().T @ u, np.eye(u.shape[1], dtype=dtype), f"svd, u, {case}")
                    near(vh @ vh.conj().T, np.eye(vh.shape[0], dtype=dtype), f"svd, vh, {case}")


def one_by_two() -> None:
    """Over a row of processes, which p?gesvd is not right for."""
    for dtype, block in (("f", 1), ("d", 1), ("d", 2), ("F", 1)):
        matrix = random((1, 2), dtype)
        a = put(matrix, psr.Descriptor((1, 2), block, COLUMNS))
        u, s, vh = linalg.svd(a, False)
        near(s, np.linalg.svd(matrix, compute_uv=False), f"1 x 2, {dtype}")
        near((whole_of(u) * s).astype(dtype) @ whole_of(vh), matrix, f"1 x 2, {dtype}")
        near(linalg.norm(a, "nuc"), np.linalg.norm(matrix, "nuc"), f"1 x 2, {dtype}")
        if SIZE > 1:
            with pytest.raises(psr.DescriptorError, match="1 x 2 elements on several columns of processes"):
                linalg.svd(a, layout=a.desc)


def least_squares(m: int, n: int, k: int, dtype: str) -> None:
    matrix, sides = random((m, n), dtype), random((m, k), dtype)
    x, residuals, rank, _ = np.linalg.lstsq(matrix, sides)
    for number, (desc_a, desc_b) in enumerate(zip(layouts(m, n), layouts(m, k)[::-1], strict=True)):
        a, b = put(matrix, desc_a), put(sides, desc_b)
        for layout in in_turn(given(m, n), dtype, number):
            case = f"lstsq, {m} x {n}, {dtype}, layouts {number}, layout = {layout}"
            with untouched(a, b):
                found = linalg.lstsq(a, b, layout=layout)
            near(whole_of(found.x), x, case)
            near(found.residuals, residuals, case)
            assert found.rank == rank
    if min(m, n) > 1:
        matrix[:, 1] = matrix[:, 0] if m >= n else matrix[:, 1]
        matrix[1] = matrix[0] if m < n else matrix[1]
        with pytest.raises(np.linalg.LinAlgError, match="a is not of full rank"):
            linalg.lstsq(put(matrix, layouts(m, n)[0]), put(sides, layouts(m, k)[0]))


def copies() -> None:
    """Operands and results of which several processes hold each element."""
    matrix, right = random((9, 9), "d"), random((9,), "d")
    matrix += matrix.T
    a = put(matrix, copied((9, 9)))
    b = put(right, psr.Descriptor((9,), 2, SQUARE, axes=(0,)))
    product = linalg.matmul(a, a.T, like=copied((9, 9)))
    assert product.desc == copied((9, 9))
    near(whole_of(product), matrix @ matrix, "a product with copies")
    near(whole_of(linalg.matmul(a, b)), matrix @ right, "a vector with copies")
    near(linalg.norm(a, 1), np.linalg.norm(matrix, 1), "a norm with copies")
    values, vectors = linalg.eigh(a, like=copied((9, 9)))
    near(values, np.linalg.eigvalsh(matrix), "eigenvalues with copies")
    near(whole_of(vectors) * values @ whole_of(vectors).T, matrix, "eigenvectors with copies")
    q, r = linalg.qr(a)
    near(whole_of(q) @ whole_of(r), matrix, "qr with copies")
    for m, n in ((9, 4), (4, 9)):
        singular_and_least_squares_with_copies(m, n)


def singular_and_least_squares_with_copies(m: int, n: int) -> None:
    """Results in layouts with copies: all copies are right."""
    matrix, few, square = random((m, n), "d"), min(m, n), psr.Descriptor((m, n), 2, SQUARE)
    a = put(matrix, copied((m, n)))
    for full, layout in ((False, square), (True, None)):
        u, s, vh = linalg.svd(a, full, layout=layout)
        assert (u.desc, vh.desc) == (copied(u.shape), copied(vh.shape)), "they are laid out as the operand"
        near((whole_of(u)[:, :few] * s) @ whole_of(vh)[:few], matrix, f"svd with copies, {m} x {n}")
    right = random((m, 2), "d")
    expected = np.linalg.lstsq(matrix, right)
    b, line = put(right, copied((m, 2))), psr.Descriptor((m,), 2, SQUARE, axes=(0,))
    for method, layout in (("qr", square), ("svd", None)):
        case = f"lstsq by {method} with copies, {m} x {n}, layout = {layout}"
        for sides, like in ((b, None), (put(right, slabs((m, 2))), copied((n, 2)))):
            x, residuals, rank, _ = linalg.lstsq(a, sides, method=method, layout=layout, like=like)
            assert (x.desc, rank) == (copied((n, 2)), few), case
            near(whole_of(x), expected[0], case)
            near(residuals, expected[1], case)
        vector = linalg.lstsq(a, put(right[:, 0], line), method=method, layout=layout).x
        assert vector.desc.copies == line.copies, case
        near(whole_of(vector), expected[0][:, 0], case)


def not_finite() -> None:
    matrix = np.eye(8)
    matrix[6, 5] = matrix[5, 6] = np.nan
    a = put(matrix, psr.Descriptor((8, 8), 2, SQUARE))
    calls: list[Any] = [linalg.eigh, linalg.svd, lambda a: linalg.norm(a, 2)]
    for call in calls:
        with pytest.raises((ValueError, psr.CollectiveError), match="a must not contain infs or NaNs"):
            call(a)
    for row, column in (0, 0), (6, 5), (7, 7):
        for order in None, "fro", 1, np.inf:
            matrix = np.eye(8)
            matrix[row, column] = np.nan
            assert np.isnan(linalg.norm(put(matrix, psr.Descriptor((8, 8), 2, SQUARE)), order)), (row, column, order)


def main() -> None:
    warnings.simplefilter("error")
    for dtype in "fdFD":
        products(11, 7, 9, dtype)
        eigenproblems(16, dtype)
        factorisations(13, 6, dtype)
        factorisations(5, 11, dtype)
        least_squares(14, 5, 3, dtype)
        least_squares(5, 12, 2, dtype)
    for m, k, n in ((1, 1, 1), (0, 3, 2), (3, 0, 2), (2, 3, 0)):
        products(m, k, n, "d")
    for n in (0, 1, 2, 3):
        eigenproblems(n, "d")
    for m, n in ((1, 1), (0, 3), (3, 0), (2, 2), (20, 20), (1, 9), (9, 1)):
        factorisations(m, n, "d")
    for m, n in ((1, 1), (2, 2), (18, 18), (30, 1), (1, 7)):
        least_squares(m, n, 2, "d")
    vectors()
    copies()
    one_by_two()
    not_finite()
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
