"""The products of what processes share along each dimension, against itertools and NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pyscalapack_redist._kernels.products import number_of, products, runs_of_all
from pyscalapack_redist.intersections.by_process import by_process
from pyscalapack_redist.layout.blockcyclic import BlockCyclic

A = BlockCyclic(23, 3, 2), BlockCyclic(17, 2, 3, 1), BlockCyclic(5, 2, 1)
B = BlockCyclic(23, 4, 3, 2), BlockCyclic(17, 5, 2), BlockCyclic(5, 1, 4)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_every_combination_comes_once_in_order(d: int) -> None:
    dims = [by_process(a, b, 0) for a, b in zip(A[:d], B[:d], strict=True)]
    found = products(dims)
    expected = list(itertools.product(*dims))
    assert [shared for _, _, shared in found] == expected
    assert [remote for remote, _, _ in found] == [tuple(one.remote for one in some) for some in expected]
    assert [first for _, first, _ in found] == [tuple(one.first for one in some) for some in expected]


def test_a_process_without_elements_in_one_dimension_shares_nothing() -> None:
    dims = [by_process(A[0], B[0], 0), by_process(BlockCyclic(1, 1, 2), BlockCyclic(1, 1, 1), 1)]
    assert dims[0]
    assert products(dims) == []


@pytest.mark.parametrize("kind", ["packed", "unpacked", "copied"])
def test_runs_are_of_the_kind_that_is_asked_for(kind: str) -> None:
    dims = [by_process(a, b, 0)[0] for a, b in zip(A, B, strict=True)]
    assert runs_of_all(dims, kind) == [getattr(shared, kind) for shared in dims]


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="packt"):
        runs_of_all([], "packt")


def test_processes_are_numbered_row_by_row() -> None:
    shape = (3, 1, 4)
    for coords in np.ndindex(shape):
        assert number_of(coords, shape) == np.ravel_multi_index(coords, shape)
    with pytest.raises(ValueError, match="no coordinates"):
        number_of((1, 2), shape)
