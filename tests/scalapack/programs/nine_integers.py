"""Every routine with nine integers and comm= does what it does with Descriptors, also where ranks are outside the grid.

What one rank finds wrong is raised on all ranks, none of which is left in the library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist import scalapack

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
N = 12
NONSENSE = [99, -1, -5, -5, 0, 0, 77, 77, -9]


def nine(desc: psr.Descriptor) -> Any:
    """What another program has of a layout on this rank."""
    if desc.grid.coords is not None:
        return np.asarray(desc)
    return None if RANK % 2 else NONSENSE


def symmetric(i: Any, j: Any) -> Any:
    return 1.0 / (1 + abs(i - j)) + N * (i == j)


def general(i: Any, j: Any) -> Any:
    return np.sin(1.0 + i * N + j) + 3 * (i == j)


class Operands:
    """A square matrix, right-hand sides, and a third matrix; the same each time."""

    def __init__(self, grid: psr.ProcessGrid) -> None:
        self.desc, self.sides = psr.Descriptor((N, N), (3, 3), grid), psr.Descriptor((N, 4), (3, 3), grid)
        inside = grid.coords is not None
        self.a = self.desc.from_function(general) if inside else None
        self.s = self.desc.from_function(symmetric) if inside else None
        self.b = self.sides.from_function(general) if inside else None
        self.c = self.desc.zeros() if inside else None


Told = Callable[[psr.Descriptor], Any]


def factored(x: Operands, of: Told, more: dict[str, Any]) -> list[Any]:
    pivots = scalapack.pxgetrf(x.a, of(x.desc), **more)
    scalapack.pxgetrs(x.a, of(x.desc), pivots, x.b, of(x.sides), **more)
    scalapack.pxgetri(x.a, of(x.desc), pivots, **more)
    return [pivots, x.a, x.b]


def cholesky(x: Operands, of: Told, more: dict[str, Any]) -> list[Any]:
    scalapack.pxpotrf(x.s, of(x.desc), **more)
    scalapack.pxpotrs(x.s, of(x.desc), x.b, of(x.sides), **more)
    scalapack.pxtrsm(x.s, of(x.desc), x.b, of(x.sides), **more)
    scalapack.pxtrmm(x.s, of(x.desc), x.b, of(x.sides), trans="T", **more)
    scale = scalapack.pxsygst(x.a, of(x.desc), x.s, of(x.desc), **more)
    return [x.s, x.b, x.a, scale]


def orthogonal(x: Operands, of: Told, more: dict[str, Any]) -> list[Any]:
    tau = scalapack.pxgeqrf(x.a, of(x.desc), **more)
    scalapack.pxorgqr(x.a, of(x.desc), tau, N, N, **more)
    scalapack.pxgemm(x.a, of(x.desc), x.s, of(x.desc), x.c, of(x.desc), **more)
    scalapack.pxgels(x.s, of(x.desc), x.b, of(x.sides), **more)
    return [tau, x.a, x.b, x.c, scalapack.pxlange(x.a, of(x.desc), "1", **more)]


def spectral(x: Operands, of: Told, more: dict[str, Any]) -> list[Any]:
    values = scalapack.pxsyev(None if x.s is None else x.s.copy("F"), of(x.desc), **more)
    return [values, *scalapack.pxsyevd(x.s, of(x.desc), **more), *scalapack.pxgesvd(x.a, of(x.desc), **more)]


def same(grid: psr.ProcessGrid) -> None:
    for calls in (factored, cholesky, orthogonal, spectral):
        wanted = calls(Operands(grid), lambda desc: desc, {})
        found = calls(Operands(grid), nine, {"comm": WORLD})
        for mine, theirs in zip(found, wanted, strict=True):
            assert (mine is None) == (theirs is None), calls
            assert mine is None or np.allclose(mine, theirs, rtol=1e-13, atol=1e-13), calls


def copies(whole: psr.ProcessGrid, part: psr.ProcessGrid) -> None:
    desc_a, desc_b = psr.Descriptor((9, 7), (2, 3), whole), psr.Descriptor((9, 7), (4, 1), part)
    a, b = desc_a.from_function(general), None if part.coords is None else desc_b.zeros()
    scalapack.pxgemr2d(a, nine(desc_a), b, nine(desc_b), comm=WORLD)
    assert b is None or np.array_equal(b, desc_b.from_function(general))
    if b is not None:
        b[:] = 0
    scalapack.pxtrmr2d(a, desc_a, b, nine(desc_b), uplo="U", comm=WORLD)
    assert b is None or np.array_equal(b, desc_b.from_function(lambda i, j: general(i, j) * (j >= i - 2)))


def refused(only: int, words: str, kind: type[Exception], call: Callable[[], object]) -> None:
    """`only` finds it, and all others are told."""
    with pytest.raises(kind if only == RANK else psr.CollectiveError) as caught:
        call()
    assert words in str(caught.value), str(caught.value)
    assert only == RANK or f"rank {only} could not take part" in str(caught.value)


def wrong(grid: psr.ProcessGrid) -> None:
    x = Operands(grid)
    culprit = int(grid.ranks.ravel()[-1])

    def but(field: int, value: int) -> Any:
        made = nine(x.desc)
        if culprit == RANK:
            made[field] = value
        return made

    calls: list[Callable[[Any], object]] = [
        lambda given: scalapack.pxgetrf(x.a, given, comm=WORLD),
        lambda given: scalapack.pxpotrs(x.s, nine(x.desc), x.b, given, comm=WORLD),
        lambda given: scalapack.pxgemr2d(x.a, given, x.c, nine(x.desc), comm=WORLD),
        lambda given: scalapack.pxlange(x.a, given, comm=WORLD),
    ]
    for call in calls:
        refused(culprit, "MB = 0 must be at least 1", psr.DescriptorError, lambda call=call: call(but(4, 0)))
        refused(culprit, "LLD = 1 is too small", psr.DescriptorError, lambda call=call: call(but(8, 1)))
        if grid.size > 1:
            with pytest.raises(psr.CollectiveError, match="must be the same on every rank"):
                call(but(5, 4))
        with pytest.raises(psr.DescriptorError, match="no rank knows the layout"):
            call(NONSENSE)
        for given in ([1, 2, 3], "layout", np.zeros((3, 3))):
            with pytest.raises(psr.DescriptorError, match=r"^desc\w* ?[:=]"):
                call(given)
    short = np.zeros((1, 1), order="F") if culprit == RANK else x.a
    text = "a has shape (1, 1), but this rank holds"
    refused(culprit, text, psr.ArrayError, lambda: scalapack.pxgetrf(short, nine(x.desc), comm=WORLD))
    listed: Any = [[1.0]] if culprit == RANK else x.a
    refused(culprit, "a is a list: it must be a", psr.ArrayError, lambda: scalapack.pxgetrf(listed, x.desc, comm=WORLD))
    copy = scalapack.pxgemr2d
    refused(culprit, text, psr.ArrayError, lambda: copy(short, nine(x.desc), x.c, nine(x.desc), comm=WORLD))
    with pytest.raises(np.linalg.LinAlgError, match="pivot 1"):  # on ranks outside the grid as well
        scalapack.pxgetrf(x.c, nine(x.desc), comm=WORLD)
    with pytest.raises(psr.DescriptorError, match="need comm="):
        scalapack.pxgetrf(x.a, nine(x.desc))
    whole = scalapack.pxlange(x.a, nine(x.desc), "M", comm=WORLD)
    assert (whole is None) == (grid.coords is None)


def unlike(grid: psr.ProcessGrid) -> None:
    """Ranks with other dtypes, letters, shapes or routines: ScaLAPACK would give garbage, or end the job."""
    x, culprit = Operands(grid), int(grid.ranks.ravel()[-1])
    single = None if x.a is None else x.a.astype(np.float32)
    mine, other = (single, psr.Descriptor((N, N), (3, 3), grid)) if culprit == RANK else (x.a, x.desc)
    empty = None if x.c is None else np.zeros_like(mine)  # type: ignore[arg-type]
    last = culprit == RANK
    calls: list[tuple[str, Callable[[], object]]] = [
        ("the dtype must be .* float", lambda: scalapack.pxgemr2d(mine, x.desc, empty, other, comm=WORLD)),
        ("the dtype must be .* float", lambda: scalapack.pxgetrf(mine, x.desc, comm=WORLD)),
        (r"p\?potrf\('L', 12\)", lambda: scalapack.pxpotrf(x.s, x.desc, "UL"[last], comm=WORLD)),
        (
            r"p\?potrf\('L', 12\)",
            lambda: (scalapack.pxpotrf if last else scalapack.pxgetrf)(x.s, x.desc, comm=WORLD),
        ),
    ]
    for words, call in calls:
        with pytest.raises(psr.CollectiveError, match=f"ask for different things.*{words}"):
            call()
    assert x.c is None or not x.c.any()
    factored(x, lambda desc: desc, {"comm": WORLD})


def main() -> None:
    ranks = [[1, SIZE - 1]] if SIZE > 2 else [[SIZE - 1]]  # ascending, as MKL's p?syevd needs them
    with (
        psr.ProcessGrid((SIZE // 2, 2), WORLD) as whole,
        psr.ProcessGrid((1, len(ranks[0])), WORLD, ranks=ranks) as part,
    ):
        whole.make_context()
        part.make_context()
        for grid in (whole, part):
            same(grid)
            if grid.size > 1:
                unlike(grid)
            wrong(grid)
        copies(whole, part)
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
