"""The benchmark's suites: that their cases are what they say, fit their ranks, and are the same for everybody."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from variations.suites import VARIATIONS

from pyscalapack_redist.tools.bench.broad import CASES, LEAST, MOST, MOST_IN_ALL, SEED, draw
from pyscalapack_redist.tools.bench.stage import Part
from pyscalapack_redist.tools.bench.suites import SUITES as INSTALLED
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.layouts import Layout

SUITES = INSTALLED | VARIATIONS
BROAD = SUITES["broad"].cases


def everything(suite: str) -> tuple[Case, ...]:
    return (*SUITES[suite].cases, *SUITES[suite].quick)


@pytest.mark.parametrize("name", SUITES)
def test_suites_are_well_formed(name: str) -> None:
    suite = SUITES[name]
    assert len(set(suite.cases)) == len(suite.cases) > 0
    assert len(set(suite.quick)) == len(suite.quick)
    assert {case.ranks for case in suite.quick} <= {case.ranks for case in suite.cases}
    for case in everything(name):
        for layout in (case.before, case.after):
            assert Layout.parse_operand(str(layout)) == layout
            assert layout.misfit(case.shape) is None
            descriptor = layout.descriptor(case.shape, None)
            assert descriptor.shape == case.shape
            assert max(Part(case, layout, layout.first).shape) <= max(layout.whole_shape(case.shape))


@pytest.mark.parametrize("name", [name for name in SUITES if SUITES[name].quick])
def test_quick_cases_are_small(name: str) -> None:
    assert all(case.elements * case.dtype.itemsize < 2**21 for case in SUITES[name].quick)


# -- broad


def test_broad_is_the_same_for_everybody() -> None:
    assert tuple(case for ranks, count in CASES.items() for case in draw(SEED, ranks, count)) == BROAD
    assert draw(SEED + 1, 2, 5) != draw(SEED, 2, 5)
    text = "\n".join(map(str, BROAD))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "b595de4e5192bfb7", text


def test_broad_has_cases_for_each_number_of_ranks() -> None:
    assert len(BROAD) == 60
    for ranks, count in CASES.items():
        mine = [case for case in BROAD if case.ranks == ranks]
        assert len(mine) == count
        assert all(case.before.size == case.after.size == ranks for case in mine)


def test_broad_is_broad() -> None:
    two = [case for case in BROAD if case.ranks == 2]
    assert {case.dtype for case in two} == set(map(np.dtype, ("float64", "float32", "complex128", "int8", "V24")))
    layouts = [layout for case in two for layout in (case.before, case.after)]
    sizes = {b for layout in layouts for b in layout.block}
    assert 1 in sizes
    assert max(sizes) > 500
    assert any(prime(b) for b in sizes if b > 100)
    assert any(not prime(b) and b % 2 for b in sizes if b > 8)
    ratios = [case.shape[0] / case.shape[1] for case in two]
    assert min(ratios) < 1 / 10
    assert max(ratios) > 10
    assert any(layout.whole for layout in layouts)
    assert any(any(layout.source) for layout in layouts)
    assert any(case.before.whole and case.after.whole for case in two)
    orders = [(case.before.order, case.after.order) for case in BROAD]
    assert {("F", "F"), ("C", "F"), ("F", "C")} == set(orders)
    assert sum(case.elements <= 200**2 for case in two) >= 3


def prime(n: int) -> bool:
    return n > 1 and all(n % k for k in range(2, math.isqrt(n) + 1))


def test_broad_fits_into_memory_and_leaves_no_rank_without_work() -> None:
    for case in BROAD:
        total = case.elements * case.dtype.itemsize
        if case.elements <= 200**2:
            continue
        assert LEAST * 0.95 <= total / case.ranks <= MOST
        assert total <= MOST_IN_ALL
        for layout in (case.before, case.after):
            most = max(Part(case, layout, rank).elements for rank in range(case.ranks))
            assert most <= 3 * case.elements / case.ranks
            assert layout.largest_part(case.shape) * case.dtype.itemsize <= 4 * MOST


# -- in which one number varies


def test_sizes_and_blocks_vary_one_number() -> None:
    for ranks in (2, 4, 8, 16):
        sizes = [case for case in SUITES["sizes"].cases if case.ranks == ranks]
        assert [case.shape for case in sizes] == [(2**k, 2**k) for k in range(6, 14)]
        assert len({(case.before, case.after) for case in sizes}) == 1
        blocks = [case for case in SUITES["blocks"].cases if case.ranks == ranks]
        assert [case.before.block for case in blocks] == [(2**k, 2**k) for k in range(11)]
        assert len({(case.shape, case.after) for case in blocks}) == 1


def test_ranks_has_cases_for_all_from_1_to_16() -> None:
    cases = SUITES["ranks"].cases
    assert sorted({case.ranks for case in cases}) == list(range(1, 17))
    assert {case.shape for case in cases} == {(512, 512), (4096, 4096)}


def test_dtypes_move_as_many_bytes_each() -> None:
    cases = [case for case in SUITES["dtypes"].cases if case.ranks == 4]
    assert len({case.dtype for case in cases}) == len(cases) == 9
    for case in cases:
        assert case.elements * case.dtype.itemsize == pytest.approx(2**26, rel=0.01)


def test_once_makes_plans_anew() -> None:
    assert "anew" in SUITES["once"].plans
    assert {case.shape for case in SUITES["once"].cases if case.ranks == 2} == {(64, 64), (512, 512), (4096, 4096)}
    for method in SUITES["once"].methods:
        made = SUITES["once"].variant(method)
        assert made.name == method.name
        assert (made is method) == (method.name in ("pxgemr2d", "memcpy"))
