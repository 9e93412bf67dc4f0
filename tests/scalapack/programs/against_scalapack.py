"""Random cases beside the real library, byte by byte: p?gemr2d, p?trmr2d, p?tran and p?geadd. Arguments: cases, seed.

Cases take turns at the routines, their letters and their dtypes. Descriptors are passed as objects or as nine integers.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from typing import Any

import numpy as np
from layouts import descriptor
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import Layout, random_layout, random_size

import pyscalapack_redist as psr
from pyscalapack_redist import blacs

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
DTYPES = "fdFDi"
TRIANGLES = list(itertools.product("UL", "NU"))
SHAPES = {1: [(1, 1)], 2: [(1, 2), (2, 1)], 4: [(2, 2), (1, 4), (4, 1)], 6: [(2, 3), (3, 2), (6, 1)]}


# -- copies, between any two layouts


def given(desc: psr.Descriptor, form: int) -> Any:
    """A descriptor as an object, as an array of nine integers, or as nothing on ranks outside its grid."""
    if form == 0:
        return desc
    whole = np.asarray(desc)
    if form == 2 and desc.coords is None:
        return None
    return whole if form == 1 else whole.astype(np.int64).tolist()


def local_of(layout: Layout, desc: psr.Descriptor, whole: NDArray[Any]) -> NDArray[Any] | None:
    """The local array with its leading dimension, in Fortran order."""
    mine = layout.local(whole, RANK)
    if mine is None:
        return None
    local = np.asfortranarray(np.full((desc.lld, mine.shape[1]), -7, whole.dtype))
    local[: mine.shape[0]] = mine
    return local


def check_copy(rng: np.random.Generator, number: int, context: int) -> str:
    """Of whole matrices and parts, or of trapezoids of them."""
    size = random_size(rng)
    a, b = (random_layout(rng, size, SIZE, irregular=False) for _ in range(2))
    dtype = DTYPES[number % 5]
    uplo, diag = TRIANGLES[number // 4 % 4] if number % 2 else (None, "N")
    whole_a, whole_b = (rng.integers(-(2**20), 2**20, layout.shape).astype(dtype) for layout in (a, b))
    desc_a, desc_b = (descriptor(layout, WORLD) for layout in (a, b))
    for desc in (desc_a, desc_b):
        desc.grid.make_context()
    local_a, theirs, ours = (
        local_of(*operand) for operand in ((a, desc_a, whole_a), (b, desc_b, whole_b), (b, desc_b, whole_b))
    )
    whole = a.size == a.shape and b.size == b.shape
    form_a, form_b = (int(rng.integers(4)) if whole else 0 for _ in range(2))
    if uplo is None:
        psr.scalapack.pxgemr2d(local_a, desc_a, theirs, desc_b, context)
    else:
        psr.scalapack.pxtrmr2d(local_a, desc_a, theirs, desc_b, uplo=uplo, diag=diag, context=context)
    plan = psr.redistribute(given(desc_a, form_a), given(desc_b, form_b), comm=WORLD, dtype=dtype, uplo=uplo, diag=diag)
    plan(local_a, ours)
    what = f"{a} -> {b}, {dtype}, {uplo} {diag}, forms {form_a} {form_b}"
    assert theirs is None or ours is None or ours.tobytes() == theirs.tobytes(), what
    for desc in (desc_a, desc_b):
        desc.grid.close()
    return f"{dtype} {uplo} {diag}"


# -- operations, on one grid with blocks that go with each other, as those routines want them


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


def by_pblas(op: str, m: int, n: int, factors: list[NDArray[Any]], a: Any, nine_a: Any, c: Any, nine_c: Any) -> None:
    """c = beta * c + alpha * op(a) by the library; c is m x n."""
    kind = dict(zip("fdFD", "sdcz", strict=True))[a.dtype.char]
    alpha, beta = (pointer(factor) for factor in factors)
    operand_a, operand_c = ([pointer(array), *integers(1, 1), pointer(of)] for array, of in ((a, nine_a), (c, nine_c)))
    if op == "N":
        letter, length = ctypes.c_char_p(b"N"), ctypes.c_size_t(1)
        entry(f"p{kind}geadd_")(letter, *integers(m, n), alpha, *operand_a, beta, *operand_c, length)
    else:
        suffix = "" if kind in "sd" else {"T": "u", "C": "c"}[op]
        entry(f"p{kind}tran{suffix}_")(*integers(m, n), alpha, *operand_a, beta, *operand_c)


def check_operation(rng: np.random.Generator, number: int) -> str:
    dtype, op = np.dtype(DTYPES[number % 4]), "NTC"[number % 3]
    m, n, mb, nb = (int(k) for k in (*rng.integers(1, 50, 2), *rng.integers(1, 9, 2)))
    shape = SHAPES[SIZE][rng.integers(len(SHAPES[SIZE]))]
    with psr.ProcessGrid(shape, WORLD) as grid:
        grid.make_context()
        desc_c = psr.Descriptor((m, n), (mb, nb), grid)
        desc_a = desc_c if op == "N" else psr.Descriptor((n, m), (nb, mb), grid)
        wholes = [rng.integers(-50, 50, desc.shape) for desc in (desc_a, desc_c)]
        if dtype.kind == "c":
            wholes = [whole + 1j * rng.integers(-50, 50, whole.shape) for whole in wholes]
        a, c = (
            np.asfortranarray(desc.from_function(lambda i, j, whole=whole: whole[i, j], dtype))
            for desc, whole in zip((desc_a, desc_c), wholes, strict=True)
        )
        factors = [np.array([rng.choice((-1, 0, 1, 2))], dtype) for _ in range(2)]
        if dtype.kind == "c":
            factors[0] += 1j
        ours = c.copy(order="F")
        by_pblas(op, m, n, factors, a, np.asarray(desc_a), c, np.asarray(desc_c))
        psr.redistribute(desc_a, desc_c, op=op)(a, ours, alpha=factors[0].item(), beta=factors[1].item())
        assert np.array_equal(ours, c), f"{op} {dtype} {m} x {n} {factors}"
    return f"{dtype} {op}"


def main() -> None:
    cases, seed = int(sys.argv[1]), int(sys.argv[2])
    met: set[str] = set()
    with psr.ProcessGrid((1, SIZE), WORLD) as grid:
        context = grid.make_context()
        for case in range(cases):
            rng = np.random.default_rng([seed, case])
            try:
                met.add(check_operation(rng, case // 4) if case % 4 == 3 else check_copy(rng, case, context))
            except BaseException as error:
                error.add_note(f"case {case} of seed {seed}")
                raise
    assert cases < 120 or len(met) == 5 * 5 + 4 * 3, (
        f"of the routines, letters and dtypes only {sorted(met)} were drawn"
    )
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
