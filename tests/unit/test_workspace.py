"""Sizes of workspaces beyond 32 bits, on paper: what a library cannot count is refused, and what it can is named."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pyscalapack_redist import ArrayError, Descriptor, DescriptorError, ProcessGrid
from pyscalapack_redist.linalg.kernels import fits_one_process
from pyscalapack_redist.scalapack.workspace import Workspaces, checked_lapack_sizes, workspaces


def arguments(m: int, n: int, grid: tuple[int, int], block: int = 64, **more: Any) -> dict[str, Any]:
    return {"desc": Descriptor((m, n), block, ProcessGrid(grid)), "vectors": True, **more}


@pytest.mark.parametrize(
    ("name", "kind", "m", "n", "grid", "block", "work", "least", "remedy"),
    [
        ("syevd", "d", 33000, 33000, (1, 1), 64, "WORK", 2 * 33000**2 + 8 * 33000 + 1, "2 x 2"),
        ("syevd", "z", 27000, 27000, (1, 1), 64, "RWORK", 3 * 27000**2 + 9 * 27000 + 1, "2 x 2"),
        ("syevd", "c", 55000, 55000, (2, 2), 64, "RWORK", 3 * 27512**2 + 9 * 55000 + 1, "3 x 3"),
        ("stedc", "s", 33000, 33000, (1, 1), 64, "WORK", 2 * 33000**2 + 6 * 33000, "2 x 2"),
        ("gesvd", "d", 33000, 33000, (1, 1), 64, "WORK", 33000 * 66000, "2 x 2"),
        ("gesvd", "z", 60000, 30000, (1, 1), 64, "WORK", 30000 * 90000, "2 x 2"),
        ("gesvd", "d", 200000, 200000, (6, 6), 64, "WORK", 200000 * 2 * 5556, "7 x 7"),
        ("geqrf", "d", 30000, 30000, (1, 1), 30000, "WORK", 3 * 30000**2, "1 x 1"),
    ],
)
def test_sizes_beyond_32_bits_are_refused(
    name: str, kind: str, m: int, n: int, grid: tuple[int, int], block: int, work: str, least: int, remedy: str
) -> None:
    given = arguments(m, n, grid, block)
    sizes = Workspaces.of(name, kind, given)
    size, largest = sizes.largest
    assert (largest.upper(), size - sizes.beyond) == (work, sizes.documented[largest])
    assert least <= sizes.documented[largest] < 1.02 * least
    with pytest.raises(DescriptorError) as caught:
        workspaces(f"p{kind}{name}", name, kind, given)
    expected = rf"needs {work} of {size:,} elements .*: use {remedy} processes or more, in blocks of 64"
    assert re.search(expected, str(caught.value))
    assert ("subset_by_index" in str(caught.value)) == (name in ("syevd", "stedc"))
    side = int(remedy[0])
    assert workspaces("p", name, kind, arguments(m, n, (side, side))).largest[0] < 2**31


def test_where_no_grid_helps_none_is_named() -> None:
    with pytest.raises(DescriptorError, match="use another routine, or compute no vectors"):
        workspaces("pdgesvd", "gesvd", "d", arguments(2**29, 1, (1, 1)))


def test_sizes_within_32_bits_are_taken() -> None:
    for name in ("syevd", "stedc", "gesvd", "syev", "sytrd", "gebrd", "geqrf", "getri"):
        assert 0 < workspaces("p", name, "d", arguments(32000, 32000, (1, 1))).largest[0] < 2**31, name
    assert workspaces("p", "syevd", "d", arguments(80, 80, (2, 2))).size("iwork", -7) == 7 * 80 + 8 * 2 + 2
    assert workspaces("p", "geqrf", "d", arguments(80, 80, (2, 2))).size("work", 10**6) == 10**6
    assert workspaces("p", "potrf", "d", arguments(80, 80, (2, 2))).largest == (0, "")


@pytest.mark.parametrize(
    ("name", "kind", "shape", "refused"),
    [
        ("syevd", "d", (32767, 32767), "WORK of 2,147,549,181"),
        ("syevd", "z", (32767, 32767), "RWORK of 2,147,516,414"),
        ("gesdd", "d", (23170, 23170), "WORK of 2,147,557,790"),
        ("gesdd", "z", (20724, 20724), "RWORK of 2,147,565,948"),
        ("gesdd", "c", (2**27, 8), "RWORK of 2,147,483,784"),
        ("stedc", "s", (46340, 46340), "WORK of 2,147,580,961"),
    ],
)
def test_lapack_counts_in_32_bits(name: str, kind: str, shape: tuple[int, int], refused: str) -> None:
    with pytest.raises(ArrayError, match=f"^{name} of LAPACK needs {refused} elements .*: use more processes"):
        checked_lapack_sizes(name, shape, kind)
    checked_lapack_sizes(name, (shape[0] - 2**10, shape[1]), kind)
    routine = {"syevd": "eigh", "gesdd": "svd"}.get(name)
    if routine is not None:
        assert not fits_one_process(routine, [shape], {})
        assert fits_one_process(routine, [(20000, 20000)], {})
    assert fits_one_process("solve", [(30000, 30000), (30000,)], {})
    assert not fits_one_process("solve", [(30000, 2), (2**31,)], {})
