"""Tall matrices in slabs of rows: orthogonality, how the tree is cut, where it is taken, and results that are refused.

With rates of "slabs" in the environment. Run on at least two ranks.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any
from unittest import mock

import numpy as np
from linalg_cases import BACKWARDS, COLUMNS, RANK, ROWS, SIZE, SQUARE, WORLD, near, put, random, slabs, whole_of
from scipy.linalg import LinAlgWarning

import pyscalapack_redist as psr
from pyscalapack_redist import linalg
from pyscalapack_redist.linalg import place, tall
from pyscalapack_redist.linalg.rates import Rates, TallRates

ORTHOGONAL = 8  # times eps sqrt(n) that ||Q^H Q - I|| may be


def phases_of(call: Any) -> list[str]:
    with psr.timings() as phases:
        call()
    return [*itertools.chain(*WORLD.allgather([phase.name for phase in phases]))]


def ill_conditioned(m: int, n: int, dtype: str) -> Any:
    wide = "D" if dtype in "FD" else "d"
    left, right = (np.linalg.qr(random(shape, wide))[0] for shape in ((m, n), (n, n)))
    return ((left * np.logspace(0, -12, n)) @ right).astype(dtype)


def orthogonality() -> None:
    for dtype in "fdFD":
        for m, n in ((400, 97), (260, 65), (90, 7)):
            for desc in (slabs((m, n)), psr.Descriptor((m, n), 16, SQUARE)):
                matrix, eps = ill_conditioned(m, n, dtype), np.finfo(dtype).eps
                q, r = map(whole_of, linalg.qr(put(matrix, desc)))
                assert np.linalg.norm(q.conj().T @ q - np.eye(n)) <= ORTHOGONAL * eps * np.sqrt(n)
                assert np.linalg.norm(q @ r - matrix) <= 16 * eps * np.linalg.norm(matrix)
                assert not np.tril(r, -1).any()
                near(whole_of(linalg.qr(put(matrix, desc), "r")), r)


def trees() -> None:
    """Of all depths, and of slabs that are few, uneven, in any order, or with padding."""
    m, n = 24 * SIZE, 6
    matrix, backwards = random((m, n), "d"), psr.ProcessGrid((SIZE, 1), WORLD, ranks=[[rank] for rank in BACKWARDS])
    uneven = [n + 3, *[(m - n - 3) // (SIZE - 1)] * (SIZE - 1)]
    uneven[-1] += m - sum(uneven)
    descs = [
        slabs((m, n)),
        psr.Descriptor((m, n), (5, None), ROWS),
        psr.Descriptor((m, n), (psr.Blocks(uneven), None), backwards),
        psr.Descriptor((n, m), None, COLUMNS).T,
        psr.Descriptor((m, n), None, ROWS, lld=slabs((m, n)).local_shape[0] + RANK + 1),
    ]
    for squares in (1, 3 * n**2, 2**18):
        for desc in descs:
            with mock.patch.object(tall, "SQUARES", squares):
                a = put(matrix, desc)
                names = phases_of(lambda a=a: linalg.svd(a, False))
                assert "geqrf" in names
                u, s, vh = linalg.svd(a, False)
                assert u.desc == desc
                near((whole_of(u) * s) @ whole_of(vh), matrix)
                near(np.abs(whole_of(linalg.qr(a).R)), np.abs(np.linalg.qr(matrix)[1]))
    few = put(matrix[: 4 * n + 1], slabs((4 * n + 1, n)))  # not all ranks have enough rows
    near(whole_of(linalg.polar(few).U) @ whole_of(linalg.polar(few).P), matrix[: 4 * n + 1])


def choice() -> None:
    """Not with `layout=`, for complete factors, for matrices that are not tall, or if all is small; not if rates say so."""
    a, less = put(random((40, 10), "d"), slabs((40, 10))), put(random((39, 10), "d"), slabs((39, 10)))
    assert "geqrf" in phases_of(lambda: linalg.qr(a))
    for call in (
        lambda: linalg.qr(less),
        lambda: linalg.qr(a, "complete"),
        lambda: linalg.svd(a),
        lambda: linalg.svd(a, False, driver="gesvd"),
        lambda: linalg.qr(a, layout=psr.Descriptor((40, 10), 4, ROWS)),
        lambda: linalg.polar(a, "left"),
    ):
        assert "geqrf" not in phases_of(call)
    lapack, library = Rates(1e9, 0.0, 0.0), Rates(1e9, 9e8, 2e-5)
    for rates in (TallRates(lapack, lapack), TallRates(lapack, None), TallRates(library, library)):
        assert rates.seconds_in_slabs([3072, 3072], 1024, [2]) < rates.seconds((6144, 1024), 1)
    assert TallRates(lapack, None).seconds_in_slabs([80, 80], 4, [2]) > TallRates(lapack, None).seconds((160, 4), 1)
    assert place.SURE > 40 * 10


def refused() -> None:
    """What is wrong in slabs is computed once more by today's ways, with a warning that names the library."""
    matrix = random((60, 9), "d")
    a, original = put(matrix, slabs((60, 9))), tall.own_orgqr

    def spoiled(local: Any, tau: Any) -> None:
        original(local, tau)
        local[0, 0] += 1

    with mock.patch.object(tall, "own_orgqr", spoiled), warnings.catch_warnings(record=True, action="always") as warned:
        q, r = map(whole_of, linalg.qr(a))
    near(q @ r, matrix)
    assert [warning.category for warning in warned] == [LinAlgWarning]
    text = str(warned[0].message)
    assert text.startswith("qr: the QR factorisation of LAPACK of SciPy "), text
    assert "for the rows of each process, returned no result: " in text, text
    assert "; the result is that of other routines, in " in text, text


def main() -> None:
    orthogonality()
    trees()
    choice()
    refused()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
