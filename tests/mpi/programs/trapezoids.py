"""Trapezoids of random layouts against np.triu and np.tril. Arguments: number of cases, seed."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray
from operations import WAYS, whole_numbers
from oracle import random_layout, random_size
from random_layouts import DTYPES, descriptor, numbered, placed, same

import pyscalapack_redist as psr
from pyscalapack_redist.schedules import NAMES

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
SCHEDULES = [name for name in NAMES if name not in ("walker-otto", "phases", "classes")]  # those have conditions
OPTIONS: list[dict[str, Any]] = [*WAYS, *({"schedule": name, "memory_limit": 4000} for name in SCHEDULES)]


def inside(shape: tuple[int, int], uplo: str, diag: str) -> NDArray[np.bool_]:
    """Where the trapezoid of an m x n matrix is: its last diagonal ends in the corner (of the longer side)."""
    m, n = shape
    if uplo == "U":
        return np.triu(np.ones(shape, bool), (diag == "U") - max(m - n, 0))
    return np.tril(np.ones(shape, bool), max(n - m, 0) - (diag == "U"))


def check_case(rng: np.random.Generator, number: int) -> None:
    """Draw and check one case; every rank draws the same."""
    op, uplo, diag = "NTCR"[rng.integers(4)], "UL"[rng.integers(2)], "NU"[rng.integers(2)]
    multiplied = rng.random() < 0.5
    dtype = np.dtype("fdFD"[rng.integers(4)]) if multiplied else DTYPES[rng.integers(len(DTYPES))]
    if op in "CR" and dtype.kind == "c" and dtype.char not in "FD":
        op = "T"
    size = random_size(rng)
    fill = (None, None, "zero", "symmetric", "hermitian")[rng.integers(5)]
    if fill in ("symmetric", "hermitian"):
        size = (max(size) % 97,) * 2
        if dtype.char == "G":
            dtype = np.dtype("f8")
    options = OPTIONS[number % len(OPTIONS)]
    irregular = options.get("via") not in ("lcm", "gcd")
    a = random_layout(rng, size, WORLD.Get_size(), irregular=irregular, copies=True)
    b = random_layout(rng, size[::-1] if op in "TC" else size, WORLD.Get_size(), irregular=irregular, copies=True)
    if op in "NR" and rng.random() < 0.1:
        b = replace(a)
    alpha, beta = (int(rng.integers(-1, 4)), int(rng.integers(0, 4))) if multiplied else (1, 0)
    if multiplied or dtype.kind == "c":
        whole_a, whole_b = (whole_numbers(rng, desc.shape, dtype) for desc in (a, b))
    else:
        whole_a, whole_b = (numbered(desc.shape, dtype, number + k) for k, desc in enumerate((a, b)))
    part = whole_a[a.window()]
    if op in "TC":
        part = part.T
    if op in "CR" and dtype.kind == "c":
        part = part.conj()
    kept = inside(size, uplo, diag)
    kept = kept.T if op in "TC" else kept
    given = np.count_nonzero(kept)
    if fill == "zero":
        part, kept = np.where(kept, part, np.zeros((), dtype)), np.full(kept.shape, True)
    elif fill is not None:
        mirror = part.T.conj() if fill == "hermitian" and dtype.kind == "c" else part.T
        above = np.triu(np.full(kept.shape, True), 1)
        off = above if kept[above].all() else above.T
        part, kept = np.where(off.T, mirror, part), kept | off.T
    new = b.size == b.shape and beta == 0 and rng.random() < 0.3
    expected = np.zeros_like(whole_b) if new else whole_b.copy()
    window = expected[b.window()]
    moved = alpha * part + beta * window if multiplied else part
    window[kept] = moved[kept]
    own = np.random.default_rng([number, RANK])
    local_a, out, wanted = a.local(whole_a, RANK), None if new else b.local(whole_b, RANK), b.local(expected, RANK)
    local_a, out = (None if array is None else _as(own, array) for array in (local_a, out))
    plan = psr.redistribute(
        descriptor(a, WORLD, 0), descriptor(b, WORLD, 0), dtype=dtype, op=op, uplo=uplo, diag=diag, fill=fill, **options
    )
    for _ in range(1 if beta else 3):
        result = plan(local_a, out, alpha=alpha, beta=beta)
        assert new or result is out
        what = f"{a} -> {b} {op} {uplo} {diag} {fill} {dtype} {alpha} {beta} {options}"
        if wanted is None:
            assert result is None, what
        else:
            assert result is not None
            equal = np.array_equal if multiplied or dtype.kind == "c" else same  # 0 times -1 may be -0
            assert equal(result, wanted), what
    moved_here = plan.report() if "via" not in options and fill is None else None
    if moved_here is not None:
        total = WORLD.allreduce(moved_here.bytes_sent + moved_here.bytes_copied)  # type: ignore[attr-defined]
        assert total == given * dtype.itemsize * b.copies


def _as(rng: np.random.Generator, array: NDArray[Any]) -> NDArray[Any]:
    made = placed(rng, array.shape, array.dtype)
    made[...] = array
    return made


def half_the_bytes() -> None:
    """What goes between ranks is that of the triangle, not of the matrix."""
    n = WORLD.Get_size()
    a = psr.Descriptor((512, 512), (16, 16), psr.ProcessGrid((n, 1), WORLD))
    b = psr.Descriptor((512, 512), (32, 32), psr.ProcessGrid((1, n), WORLD))
    all_of_it = WORLD.allreduce(psr.redistribute(a, b).report().bytes_sent)
    triangle = WORLD.allreduce(psr.redistribute(a, b, uplo="L").report().bytes_sent)
    assert triangle <= 0.55 * all_of_it
    assert (triangle > 0) == (n > 1)


def large() -> None:
    """Messages of many pieces, values and all."""
    n, shape = WORLD.Get_size(), (1300, 1100)
    a = psr.Descriptor(shape, (16, 32), psr.ProcessGrid((n, 1), WORLD))
    for uplo, op in itertools.product("UL", "NT"):
        b = psr.Descriptor(shape if op == "N" else shape[::-1], (50, 7), psr.ProcessGrid((1, n), WORLD))
        kept = inside(shape, uplo, "N")
        result = psr.redistribute(a, b, uplo=uplo, op=op)(a.from_function(lambda i, j: 1.0 + i + 2000 * j))
        if op == "N":
            wanted = b.from_function(lambda i, j, kept=kept: np.where(kept[i, j], 1.0 + i + 2000 * j, 0))
        else:
            wanted = b.from_function(lambda i, j, kept=kept: np.where(kept[j, i], 1.0 + j + 2000 * i, 0))
        assert np.array_equal(result, wanted)


def leading_dimensions() -> None:
    """Plans that are kept serve arrays of other leading dimensions."""
    grid = psr.ProcessGrid((WORLD.Get_size(), 1), WORLD)
    for lld, options in itertools.product((20, 25), ({"via": "lcm"}, {"uplo": "U", "fill": "symmetric"})):
        a = psr.Descriptor((20, 20), (2, 2), grid, lld=lld)
        b = psr.Descriptor((20, 20), (3, 3), grid, lld=lld + 1)
        values = [desc.from_function(lambda i, j: 1.0 + np.minimum(i, j) + 50 * np.maximum(i, j)) for desc in (a, b)]
        local = np.zeros((lld, 20), order="F")
        local[: a.local_shape[0]] = values[0]
        out = np.zeros((lld + 1, 20), order="F")
        psr.redistribute(a, b, **options)(local, out)  # type: ignore[arg-type]
        assert np.array_equal(out[: b.local_shape[0]], values[1])


def bad_input() -> None:
    """Every rank raises."""
    n = WORLD.Get_size()
    a = psr.Descriptor((8, 6), (2, 2), psr.ProcessGrid((n, 1), WORLD))
    line = psr.Descriptor((5,), (1,), psr.ProcessGrid((n,), WORLD))
    for error, text, desc, options in (
        (psr.DescriptorError, "uplo = 'upper' must be one of 'U'", a, {"uplo": "upper"}),
        (psr.DescriptorError, "diag = 'X' must be one of 'N'", a, {"uplo": "U", "diag": "X"}),
        (psr.DescriptorError, "diag = 'U' without uplo", a, {"diag": "U"}),
        (psr.DescriptorError, r"uplo = 'L' is for matrices, but desc_a has shape \(5,\)", line, {"uplo": "L"}),
        (psr.DescriptorError, "fill = 'nan': what is written", a, {"uplo": "L", "fill": "nan"}),
        (psr.DescriptorError, "fill = 'zero' without uplo", a, {"fill": "zero"}),
        (psr.DescriptorError, r"is for square matrices, but desc_a has", a, {"uplo": "L", "fill": "hermitian"}),
        (psr.ScheduleError, "no derived datatype is made for a trapezoid", a, {"uplo": "L", "buffers": "datatypes"}),
    ):
        with pytest.raises(error, match=text):
            psr.redistribute(desc, desc, **options)  # type: ignore[arg-type]
    if n > 1:
        with pytest.raises(psr.CollectiveError, match="the ranks ask for different things"):
            psr.redistribute(a, a, uplo="UL"[RANK % 2])
    mixed = psr.redistribute(a, a, op="N" if RANK else "n", uplo="L" if RANK else "l", diag="U" if RANK else "u")
    assert mixed.part == ("L", "U")


def in_place() -> None:
    """The triangle is multiplied where it is, the rest stays."""
    desc = psr.Descriptor((9, 7), (2, 3), psr.ProcessGrid((WORLD.Get_size(), 1), WORLD))
    a = desc.from_function(lambda i, j: i + 10.0 * j)
    psr.redistribute(desc, desc, uplo="L")(a, a, alpha=3)
    assert np.array_equal(a, desc.from_function(lambda i, j: np.where(i >= j, 3, 1) * (i + 10.0 * j)))


def main() -> None:
    cases, seed = int(sys.argv[1]), int(sys.argv[2])
    for number, case in enumerate(itertools.repeat(seed, cases)):
        check_case(np.random.default_rng([case, number]), number)
    half_the_bytes()
    large()
    leading_dimensions()
    bad_input()
    in_place()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
