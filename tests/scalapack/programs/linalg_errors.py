"""linalg with wrong arguments on one rank or on all: an error on every rank, arrays untouched, and the next call is good.

Run on at least two ranks.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from linalg_cases import COLUMNS, LAST, RANK, ROWS, SIZE, SQUARE, put, random, slabs, whole_of
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist import blacs, linalg

N = 10
MATRIX, SIDES = random((N, N), "d") + 4 * np.eye(N), random((N, 3), "d")
FITS = psr.Descriptor((N, N), 2, SQUARE)
BAD = 1  # the rank that is wrong
ArrayError, DescriptorError, CollectiveError = psr.ArrayError, psr.DescriptorError, psr.CollectiveError


def operands() -> tuple[psr.DistributedArray, psr.DistributedArray]:
    return put(MATRIX, FITS), put(SIDES, slabs((N, 3)))


def on_bad(wrong: Any, right: Any) -> Any:
    return wrong if RANK == BAD else right


def fails(words: str, kind: type[Exception], call: Callable[..., object], culprit: int | None = None) -> None:
    """The culprit raises an error of the kind with the words, the others a CollectiveError that has them; all, without one."""
    a, b = operands()
    expected = kind if culprit in (None, RANK) else CollectiveError
    with pytest.raises(expected) as caught:
        call(a, b)
    assert caught.type is expected, caught.value
    assert words in str(caught.value), str(caught.value)
    assert np.array_equal(whole_of(a), MATRIX)
    assert np.array_equal(whole_of(b), SIDES)
    assert np.allclose(whole_of(linalg.solve(a, b)), np.linalg.solve(MATRIX, SIDES))


def arguments() -> None:
    wide, narrow = put(SIDES.T, psr.Descriptor((3, N), 2, ROWS)), psr.Descriptor((3, 3), 2, ROWS)
    single = put(SIDES.astype("f"), slabs((N, 3)))
    whole = put(MATRIX.astype("i"), FITS)
    cube = psr.DistributedArray(d := psr.Descriptor((2, 2, 2), 1, COLUMNS, axes=(0, None, 1)), d.zeros())
    fails("a has shape (3, 10): it must be square", ArrayError, lambda a, b: linalg.solve(wide, b))
    fails("b must have 10 rows, as many as a", ArrayError, lambda a, b: linalg.solve(a, wide))
    fails("b must have 3 rows, as many as a", ArrayError, lambda a, b: linalg.lstsq(wide, b))
    fails("b must have 10 rows, as a has columns", ArrayError, lambda a, b: linalg.matmul(a, wide))
    fails("a has dtype float64 and b has float32", ArrayError, lambda a, b: linalg.solve(a, single))
    fails("a has dtype int32, which ScaLAPACK does not have", ArrayError, lambda a, b: linalg.inv(whole))
    fails("a has shape (2, 2, 2): it must have 2 dimensions", ArrayError, lambda a, b: linalg.det(cube))
    fails("b is a ndarray: it must be a DistributedArray", ArrayError, lambda a, b: linalg.solve(a, MATRIX))
    fails("a is a list: it must be a DistributedArray", ArrayError, lambda a, b: linalg.inv([[1.0]]))
    fails("trans = 3 must be 0, 1 or 2", ValueError, lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, 3))
    fails("trans = 1.0 must be 0, 1 or 2", ValueError, lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, 1.0))
    fails("piv = array([0., 0.]) must be", ArrayError, lambda a, b: linalg.lu_solve((a, np.zeros(2)), b))
    fails(
        "piv has 0 to 10: it must have rows", ArrayError, lambda a, b: linalg.lu_solve((a, np.arange(N) * 10 // 9), b)
    )
    fails("lu_and_piv", ArrayError, lambda a, b: linalg.lu_solve(a, b))
    fails("ord = 'two' must be one of None, 'fro'", ValueError, lambda a, b: linalg.norm(a, "two"))
    fails("mode = 'raw' must be one of reduced", ValueError, lambda a, b: linalg.qr(a, "raw"))
    fails("mode = ['r'] must be one of reduced", ValueError, lambda a, b: linalg.qr(a, ["r"]))
    fails("like = Descriptor(3 x 3", DescriptorError, lambda a, b: linalg.solve(a, b, like=narrow))
    fails("like = 5 must be a Descriptor", DescriptorError, lambda a, b: linalg.solve(a, b, like=5))
    fails("layout has shape (3, 3)", DescriptorError, lambda a, b: linalg.solve(a, b, layout=narrow))
    for desc, what in (
        (psr.Descriptor((N, N), "balanced", SQUARE), "of irregular blocks"),
        (psr.Descriptor((N, N), (2, 3), SQUARE), "of blocks of 2 x 3, which are not square"),
        (psr.Descriptor((N, N), 2, SQUARE, source=(1, 0)), "which is not 0"),
        (psr.Descriptor((N + 2, N + 2), 2, SQUARE)[2:, 2:], "of a sub-array"),
        (FITS.T, "not of two dimensions over a two-dimensional grid, in order"),
    ):
        fails(what, DescriptorError, lambda a, b, desc=desc: linalg.solve(a, b, layout=desc))
    large = psr.Descriptor((N, N), N, SQUARE)
    fails("is of one block of 10 x 10 on ", DescriptorError, lambda a, b: linalg.eigh(a, layout=large))
    huge = psr.Descriptor((2**16, 2**16), 64, LAST)
    fails(
        "ScaLAPACK counts in 32 bits",
        DescriptorError,
        lambda a, b: linalg.matmul(
            put(np.zeros((2**16, 0)), slabs((2**16, 0))), put(np.zeros((0, 2**16)), slabs((0, 2**16))), layout=huge
        ),
    )


def one_rank() -> None:
    fails("b must have 10 rows", ArrayError, lambda a, b: linalg.solve(a, on_bad(put_here(4), b)), BAD)
    fails("trans = 7", ValueError, lambda a, b: linalg.lu_solve((a, np.arange(N)), b, on_bad(7, 0)), BAD)
    fails("b is a NoneType", ArrayError, lambda a, b: linalg.solve(a, on_bad(None, b)), BAD)
    mine = MPI.COMM_WORLD.Split(RANK)
    elsewhere = psr.DistributedArray(d := psr.Descriptor((N, 3), 2, psr.ProcessGrid((1, 1), mine)), d.zeros())
    fails("b is on another communicator than a", ArrayError, lambda a, b: linalg.solve(a, elsewhere))
    mine.Free()
    fails(
        "the ranks ask for different things: the routine must be the same on every rank, but ",
        CollectiveError,
        lambda a, b: linalg.cholesky(a, on_bad(True, False)),
    )
    fails(
        "the ranks ask for different things: layout must be the same on every rank",
        CollectiveError,
        lambda a, b: linalg.solve(a, b, layout=psr.Descriptor((N, N), on_bad(3, 2), SQUARE)),
    )
    for mine, theirs in (([0, 1], [0, 2]), ([0, 2], (0, 1)), (np.arange(2), (0, 2))):
        fails(
            "the routine must be the same on every rank, but ",
            CollectiveError,
            lambda a, b, mine=mine, theirs=theirs: linalg.eigh(a, subset_by_index=on_bad(mine, theirs)),
        )
    for kind in 1.0, np.float64(1):  # equal, but not told alike: then they are named
        fails("('norm', 'ord', ", CollectiveError, lambda a, b, kind=kind: linalg.norm(a, on_bad(kind, 1)))
    unsendable = threading.Lock()
    fails("ord = <unlocked", ValueError, lambda a, b: linalg.norm(a, on_bad(unsendable, 1)), BAD)
    fails("method = <unlocked", ValueError, lambda a, b: linalg.lstsq(a, b, method=unsendable))
    kinds = on_bad("f", "d")
    fails("on one rank and float", ArrayError, lambda a, b: linalg.solve(a.astype(kinds), b.astype(kinds)))


def put_here(n: int) -> psr.DistributedArray:
    desc = psr.Descriptor((n, 3), None, ROWS)
    return psr.DistributedArray(desc, desc.zeros())


def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> object:
        raise psr.LibraryError("no ScaLAPACK found")

    with monkeypatch.context() as patch:
        patch.setattr(blacs, "load", missing)
        a, b = operands()
        with pytest.raises(psr.LibraryError, match="no ScaLAPACK found"):
            linalg.solve(a, b)
    if RANK == BAD:
        monkeypatch.setattr(blacs, "load", missing)
    with pytest.raises((psr.LibraryError, CollectiveError), match="no ScaLAPACK found"):
        linalg.solve(a, b)
    monkeypatch.undo()
    library = blacs.load()
    with pytest.raises(psr.LibraryError, match="has no entry point pdnone_"):
        library.routine("pdnone")


def chosen_layouts() -> None:
    """Those of the model, which may be on part of the ranks."""
    comm = ROWS.comm
    assert comm is not None
    for name in linalg.__all__:
        if name[0].islower() and name != "layout_for":
            desc = linalg.layout_for(name, (1024, 512), comm)
            assert desc.block == (64, 64)
            assert desc.grid.size <= SIZE
    for shape in 10, (10,), (1, 2, 3):
        with pytest.raises(psr.DescriptorError, match=r"shape = .* must be that of a matrix: two numbers"):
            linalg.layout_for("solve", shape, comm)  # type: ignore[arg-type]
    assert linalg.layout_for("solve", (N, N), comm).grid.size == 1
    assert linalg.layout_for("solve", (0, 0), comm).block == (1, 1)
    assert linalg.layout_for("solve", (2048, 2048), comm).grid.shape == {2: (1, 2), 3: (1, 3), 4: (2, 2)}[SIZE]
    assert linalg.layout_for("qr", (8192, 32), comm).grid.shape == {2: (2, 1), 3: (3, 1), 4: (2, 2)}[SIZE]
    with pytest.raises(ValueError, match="name = 'sovle' is no routine of linalg"):
        linalg.layout_for("sovle", (N, N), comm)
    with pytest.raises(DescriptorError, match=r"shape = \(3,\) must be that of a matrix"):
        linalg.layout_for("solve", (3,), comm)


def main() -> None:
    arguments()
    one_rank()
    with pytest.MonkeyPatch.context() as monkeypatch:
        no_library(monkeypatch)
    chosen_layouts()
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
