"""out = alpha * op(A) + beta * out for random layouts, against NumPy. Arguments: number of cases, seed.

Two more are for the ring, as in `random_layouts.py`: arrays go the way of large ones.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import random_layout, random_size
from random_layouts import descriptor, force, placed

import pyscalapack_redist as psr
from pyscalapack_redist.exchanges import EXCHANGES

WORLD = MPI.COMM_WORLD
WAYS: list[dict[str, Any]] = [
    {},
    *({"exchange": name, "memory_limit": "2kb"} for name in EXCHANGES),
    {"via": "dimensions"},
    {"via": "lcm", "exchange": "nonblocking"},
    {"via": "gcd"},
]


def whole_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Small whole numbers, so that no sum is rounded; some that are not numbers, where asked for, are the caller's."""
    array = rng.integers(-50, 50, shape).astype(dtype)
    return array + 1j * rng.integers(-50, 50, shape).astype(dtype) if dtype.kind == "c" else array


def check_case(rng: np.random.Generator, number: int) -> None:
    """Draw and check one case; every rank draws the same."""
    op = "NTCR"[rng.integers(4)]
    dtype = np.dtype("fdFD"[rng.integers(4)])
    size = random_size(rng)
    keywords = WAYS[number % len(WAYS)]
    irregular = keywords.get("via") not in ("lcm", "gcd")
    a = random_layout(rng, size, WORLD.Get_size(), irregular=irregular, copies=True)
    b = random_layout(rng, size[::-1] if op in "TC" else size, WORLD.Get_size(), irregular=irregular, copies=True)
    if op in "NR" and rng.random() < 0.1:
        b = replace(a)
    alpha, beta = (
        complex(*rng.choice((-2, 0, 1, 3), 2)) if dtype.kind == "c" else int(rng.integers(-1, 4)) for _ in range(2)
    )
    if rng.random() < 0.3:
        alpha = 1
    if rng.random() < 0.3:
        beta = 0
    whole_a, whole_b = (whole_numbers(rng, desc.shape, dtype) for desc in (a, b))
    if alpha == 0:
        whole_a[...] = np.nan  # is not read
    before = np.full_like(whole_b, np.nan) if beta == 0 else whole_b
    part = whole_a[a.window()]
    part = {"N": part, "T": part.T, "C": part.conj().T, "R": part.conj()}[op]
    expected = before.copy()
    expected[b.window()] = (alpha * part if alpha != 0 else 0) + (beta * before[b.window()] if beta != 0 else 0)
    me, own = WORLD.Get_rank(), np.random.default_rng([number, WORLD.Get_rank()])
    local_a, out, wanted = a.local(whole_a, me), b.local(before, me), b.local(expected, me)
    if local_a is not None:
        local_a = _as(own, local_a)
    if out is not None:
        out = _as(own, out)
    plan = psr.redistribute(
        descriptor(a, WORLD, 0), descriptor(b, WORLD, 0), dtype=dtype, op=_in_a_case(own, op), **keywords
    )
    repeated = 2 if beta == 0 else 1
    for _ in range(repeated):
        factors = (alpha, beta) if own.random() < 0.5 else map(np.array, (alpha, beta))
        result = plan(local_a, out, **dict(zip(("alpha", "beta"), factors, strict=True)))
        assert result is out
        assert wanted is None or np.array_equal(out, wanted, equal_nan=True), f"{a} -> {b} {op} {dtype} {alpha} {beta}"


def _in_a_case(rng: np.random.Generator, letter: str) -> str:
    """Ranks may write it differently."""
    return letter if rng.random() < 0.5 else letter.lower()


def _as(rng: np.random.Generator, array: NDArray[Any]) -> NDArray[Any]:
    made = placed(rng, array.shape, array.dtype)
    made[...] = array
    return made


def bad_input() -> None:
    """Every rank raises, and the arrays are as they were."""
    n = WORLD.Get_size()
    a = psr.Descriptor((8, 6), (2, 2), psr.ProcessGrid((n, 1), WORLD))
    b = psr.Descriptor((6, 8), (3, 3), psr.ProcessGrid((1, n), WORLD))
    with pytest.raises(psr.DescriptorError, match="op = 'X' must be one of 'N'"):
        psr.redistribute(a, b, op="X")
    for op, wanted, text in (
        ("T", a, r"op = 'T' exchanges rows and columns, so desc_b must have shape \(6, 8\)$"),
        ("c", a, r"op = 'C' exchanges rows and columns, so desc_b must have shape \(6, 8\)$"),
        ("R", b, r"keeps the global shape, so desc_b must have shape \(8, 6\)$"),
        ("N", a[:, :5], r"must have shape \(8, 6\); to move a part of A, give a sub-array desc_a\[i0:i1, ...\]$"),
        ("T", psr.Descriptor((7, 8), 2, b.grid), r"\(6, 8\); to write into a part of B, give a sub-array desc_b"),
    ):
        with pytest.raises(psr.DescriptorError, match=text):
            psr.redistribute(a, wanted, op=op)
    line = psr.Descriptor((5,), (1,), psr.ProcessGrid((n,), WORLD))
    with pytest.raises(psr.DescriptorError, match=r"op = 'C' is for matrices, but desc_a has shape \(5,\)"):
        psr.redistribute(line, line, op="C")
    plan = psr.redistribute(a, b, op="T")
    real, whole, out = a.zeros(np.float64), a.zeros(np.int32), b.zeros(np.float64)
    for factors, arrays, text in (
        ({"alpha": 1j}, (real, out), "a complex factor needs a complex array"),
        ({"alpha": 2}, (whole, None), "convert the array"),
        ({"beta": 1}, (real, None), "out is missing: with beta"),
        ({"alpha": "2"}, (real, out), "alpha = '2' must be a number"),
        ({"alpha": np.array("2")}, (real, out), "alpha = array.* must be a number"),
        ({"beta": np.array([2.0])}, (real, out), r"beta = array\(\[2.\]\) must be a number"),
    ):
        with pytest.raises(psr.RedistributionError, match=text):
            plan(*arrays, **factors)  # type: ignore[arg-type]
    if n > 1:
        with pytest.raises(psr.CollectiveError, match="the ranks ask for different things"):
            plan(real, out, alpha=2 + WORLD.Get_rank())
    conjugated = psr.redistribute(a, b, op="C", buffers="datatypes")
    with pytest.raises(psr.RedistributionError, match="MPI moves elements as they are"):
        conjugated(a.zeros(np.complex128))
    assert not out.any()
    assert plan(a.from_function(lambda i, j: i + 10 * j)) == pytest.approx(b.from_function(lambda i, j: j + 10 * i))


def in_place() -> None:
    """A matrix is multiplied where it is."""
    desc = psr.Descriptor((9, 7), (2, 3), psr.ProcessGrid((WORLD.Get_size(), 1), WORLD))
    a = desc.from_function(lambda i, j: i + 10.0 * j)
    plan = psr.redistribute(desc, desc)
    plan(a, a)
    plan(a, a, alpha=3)
    assert np.array_equal(a, desc.from_function(lambda i, j: 3 * (i + 10.0 * j)))


def main() -> None:
    cases, seed, *forced = map(int, sys.argv[1:])
    if forced:
        force(*forced)
    for number, case in enumerate(itertools.repeat(seed, cases)):
        check_case(np.random.default_rng([case, number]), number)
    bad_input()
    in_place()
    if WORLD.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
