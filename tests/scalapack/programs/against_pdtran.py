"""op, alpha and beta against the real library's p?tran, p?tranu, p?tranc and p?geadd. Arguments: number of cases, seed."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist import blacs

WORLD = MPI.COMM_WORLD
SHAPES = {1: [(1, 1)], 2: [(1, 2), (2, 1)], 4: [(2, 2), (1, 4), (4, 1)], 6: [(2, 3), (3, 2), (6, 1)]}


def integers(*values: int) -> list[Any]:
    return [ctypes.byref(ctypes.c_int(value)) for value in values]


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def entry(name: str) -> Any:
    library = blacs.load()
    for path in (library.path, None):
        try:
            return getattr(ctypes.CDLL(path), name)
        except (AttributeError, OSError):
            continue
    raise AssertionError(f"{name} was not found in {library.path}")


def theirs(
    op: str, dtype: np.dtype[Any], m: int, n: int, factors: list[NDArray[Any]], a: Any, da: Any, c: Any, dc: Any
) -> None:
    """c = beta * c + alpha * op(a) by the library; c is m x n."""
    kind = {"f": "s", "d": "d", "F": "c", "D": "z"}[dtype.char]
    alpha, beta = (pointer(factor) for factor in factors)
    corner = integers(1, 1)
    operand_a, operand_c = [pointer(a), *corner, pointer(da)], [pointer(c), *corner, pointer(dc)]
    if op == "N":
        entry(f"p{kind}geadd_")(
            ctypes.c_char_p(b"N"), *integers(m, n), alpha, *operand_a, beta, *operand_c, ctypes.c_size_t(1)
        )
    else:
        suffix = "" if kind in "sd" else {"T": "u", "C": "c"}[op]
        entry(f"p{kind}tran{suffix}_")(*integers(m, n), alpha, *operand_a, beta, *operand_c)


def check_case(rng: np.random.Generator) -> None:
    """Layouts as those routines want them: one grid, and blocks that go with each other."""
    shapes = SHAPES[WORLD.Get_size()]
    dtype, op = np.dtype("fdFD"[rng.integers(4)]), "NTC"[rng.integers(3)]
    m, n, mb, nb = (int(k) for k in (*rng.integers(1, 50, 2), *rng.integers(1, 9, 2)))
    with psr.ProcessGrid(shapes[rng.integers(len(shapes))], WORLD) as grid:
        grid.make_context()
        desc_c = psr.Descriptor((m, n), (mb, nb), grid)
        desc_a = desc_c if op == "N" else psr.Descriptor((n, m), (nb, mb), grid)
        salt = int(rng.integers(2**31))

        def value(i: Any, j: Any, add: int) -> Any:
            real = (i * 31 + j * 17 + add + salt) % 101 - 50
            return real + 1j * ((i * 7 + j * 3 + add) % 89) if dtype.kind == "c" else real

        a = np.asfortranarray(desc_a.from_function(lambda i, j: value(i, j, 0), dtype))
        c = np.asfortranarray(desc_c.from_function(lambda i, j: value(i, j, 5), dtype))
        factors = [np.array([rng.choice((-1, 0, 1, 2))], dtype) for _ in range(2)]
        if dtype.kind == "c":
            factors[0] += 1j
        ours = c.copy(order="F")
        theirs(op, dtype, m, n, factors, a, np.asarray(desc_a), c, np.asarray(desc_c))
        psr.redistribute(desc_a, desc_c, op=op)(a, ours, alpha=factors[0].item(), beta=factors[1].item())
        assert np.array_equal(ours, c), f"{op} {dtype} {m} x {n} {factors}"


def main() -> None:
    cases, seed = int(sys.argv[1]), int(sys.argv[2])
    for number in range(cases):
        check_case(np.random.default_rng([seed, number]))
    if WORLD.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
