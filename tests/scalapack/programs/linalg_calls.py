"""Errors of linalg on one rank or all, layouts, memory, contexts and traces. Run on at least two ranks."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from linalg_cases import COLUMNS, LAST, RANK, ROWS, SIZE, SQUARE, WORLD, put, random, slabs, untouched, whole_of
from mpi4py import MPI
from scipy.linalg import LinAlgWarning

import pyscalapack_redist as psr
from pyscalapack_redist import blacs, linalg, scalapack
from pyscalapack_redist.comm import free_memory
from pyscalapack_redist.linalg import bidiagonal, eigenpairs, solver_rules, systems, tridiagonal
from pyscalapack_redist.scalapack.calls import ConvergenceError

N = 10
MATRIX, SIDES = random((N, N), "d") + 4 * np.eye(N), random((N, 3), "d")
FITS = psr.Descriptor((N, N), 2, SQUARE)
A, B = put(MATRIX, FITS), put(SIDES, slabs((N, 3)))
BAD = SIZE - 1  # the rank that is wrong
NAMESAKE = type("DistributedArray", (), {"__module__": "pylops"})()
ArrayError, DescriptorError, CollectiveError = psr.ArrayError, psr.DescriptorError, psr.CollectiveError


def on_bad(wrong: Any, right: Any) -> Any:
    return wrong if RANK == BAD else right


def fails(words: str, kind: type[Exception], call: Callable[[], object], culprit: int | None = None) -> None:
    """The culprit raises an error of the kind with the words, the others a CollectiveError that has them; all, without one."""
    expected = kind if culprit in (None, RANK) else CollectiveError
    with pytest.raises(expected) as caught, untouched(A, B):
        call()
    assert caught.type is expected, caught.value
    assert words in str(caught.value), str(caught.value)


def still_good() -> None:
    for sides in (SIDES, SIDES[:, 0], SIDES.astype(">f8"), np.asfortranarray(SIDES)):  # that all ranks have
        assert np.allclose(whole_of(linalg.solve(A, sides)), np.linalg.solve(MATRIX, sides))
    assert np.allclose(whole_of(linalg.cho_solve(linalg.cho_factor(A @ A.T), SIDES)), np.linalg.solve(MATRIX @ MATRIX.T, SIDES))
    assert np.allclose(whole_of(linalg.solve(A, B)), np.linalg.solve(MATRIX, SIDES))


def arguments() -> None:
    """Wrong on all ranks."""
    wide, narrow = put(SIDES.T, psr.Descriptor((3, N), 2, ROWS)), psr.Descriptor((3, 3), 2, ROWS)
    single, whole = put(SIDES.astype("f"), slabs((N, 3))), put(MATRIX.astype("i"), FITS)
    cube = psr.DistributedArray(d := psr.Descriptor((2, 2, 2), 1, COLUMNS, axes=(0, None, 1)), d.zeros())
    factors = linalg.lu_factor(A)
    routines = linalg.solve, linalg.lstsq, linalg.eigh
    solve, lstsq, eigh = (lambda *a, call=call, **options: lambda: call(*a, **options) for call in routines)
    nothing = put(np.zeros((2**16, 0)), slabs((2**16, 0))), put(np.zeros((0, 2**15)), slabs((0, 2**15)))
    huge = psr.Descriptor((2**16, 2**15), 64, LAST)
    cases: list[tuple[str, type[Exception], Callable[[], object]]] = [
        ("a has shape (3, 10): it must be square", ArrayError, solve(wide, B)),
        ("b must have 10 rows, as many as a", ArrayError, solve(A, wide)),
        ("b must have 3 rows, as many as a", ArrayError, lstsq(wide, B)),
        ("b has shape (10, 3): it must have (10, 10), that of a", ArrayError, eigh(A, B)),
        ("b must have 10 rows, as a has columns", ArrayError, lambda: linalg.matmul(A, wide)),
        ("a is a numpy.ndarray: the layout of a local array is not known", ArrayError, lambda: linalg.matmul(MATRIX, MATRIX)),
        ("b must have 10 rows, as a has columns", ArrayError, lambda: linalg.matmul(A, MATRIX[:3])),
        ("a has dtype float64 and b has float32", ArrayError, solve(A, single)),
        ("a has dtype int32, which ScaLAPACK does not have", ArrayError, lambda: linalg.inv(whole)),
        ("a has shape (2, 2, 2): it must have 2 dimensions", ArrayError, lambda: linalg.cond(cube)),
        ("b has shape (2, 2, 2): it must have 1 or 2 dimensions", ArrayError, lstsq(A, cube)),
        ("b is a numpy.ma.MaskedArray", ArrayError, solve(A, np.ma.masked_array(MATRIX))),
        ("a is a tuple: of factors and what is with them", ArrayError, lambda: linalg.slogdet(factors)),
        ("a is a list: give psr.DistributedArray", ArrayError, lambda: linalg.inv([[1.0]])),
        ("a is a pylops.DistributedArray: give psr.DistributedArray", ArrayError, lambda: linalg.inv(NAMESAKE)),
        ("== with a pylops.DistributedArray", TypeError, lambda: NAMESAKE == A),
        ("trans = 3 must be 0, 1 or 2", ValueError, lambda: linalg.lu_solve(factors, B, 3)),
        ("trans = 1.0 must be 0, 1 or 2", ValueError, lambda: linalg.lu_solve(factors, B, 1.0)),
        ("piv = array([0., 0.]) must be", ArrayError, lambda: linalg.lu_solve((A, np.zeros(2)), B)),
        ("piv has 0 to 10: it must have rows", ArrayError, lambda: linalg.lu_solve((A, np.arange(N) * 10 // 9), B)),
        ("piv has -1 to 8: it must have rows", ArrayError, lambda: linalg.lu_solve((A, np.arange(N) - 1), B)),
        ("lu_and_piv", ArrayError, lambda: linalg.lu_solve(A, B)),
        ("ord = 'two' must be one of None, 'fro'", ValueError, lambda: linalg.norm(A, "two")),
        ("axis = 2 must be None, or an integer from -2 to 1", ValueError, lambda: linalg.norm(A, axis=2)),
        ("axis = (0, 0) must be None", ValueError, lambda: linalg.norm(A, axis=(0, 0))),
        ("axis = ([0], 1) must be None", ValueError, lambda: linalg.norm(A, axis=([0], 1))),  # type: ignore[call-overload]
        ("ord = 'fro' must be one of None, 1, 2, inf", ValueError, lambda: linalg.norm(A, "fro", axis=0)),
        ("ord = [1] must be one of None, 'fro'", ValueError, lambda: linalg.norm(A, [1])),
        ("UPLO = 'M' must be one of 'U'", DescriptorError, lambda: linalg.eigvalsh(A, "M")),
        ("a has shape (3, 10): it must be square", ArrayError, lambda: linalg.eigvalsh(wide)),
        ("a has shape (3, 10): it must be square", ArrayError, lambda: linalg.cond(wide, "fro")),
        ("p = 'nuc' must be one of None, 2, -2, 'fro'", ValueError, lambda: linalg.cond(A, "nuc")),
        ("an array without elements has no condition", np.linalg.LinAlgError, lambda: linalg.cond(nothing[0])),
        ("tol = 1 and rtol = 2: give one of them", ValueError, lambda: linalg.matrix_rank(A, 1, rtol=2)),
        ("driver = 'gesvdx' must be one of gesdd, gesvd", ValueError, lambda: linalg.svd(A, driver="gesvdx")),  # type: ignore[call-overload]
        ("driver = 1 must be one of gesdd, gesvd", ValueError, lambda: linalg.svdvals(A, driver=1)),  # type: ignore[arg-type]
        ("tol = nan must be a finite number", ValueError, lambda: linalg.matrix_rank(A, np.nan)),
        ("rcond = 'x' must be a finite number", ValueError, lambda: linalg.pinv(A, "x")),
        ("like = Descriptor(3 x 3", DescriptorError, lambda: linalg.pinv(A, like=narrow)),
        ("mode = 'raw' must be one of reduced", ValueError, lambda: linalg.qr(A, "raw")),
        ("mode = ['r'] must be one of reduced", ValueError, lambda: linalg.qr(A, ["r"])),
        ("type = 4 must be 1, 2 or 3", ValueError, eigh(A, type=4)),
        ("subset_by_index = (2, 10) must be", ValueError, eigh(A, subset_by_index=(2, N))),
        ("subset_by_index = (3, 2) must be", ValueError, eigh(A, subset_by_index=(3, 2))),
        ("subset_by_index = 3 must be two integers", ValueError, eigh(A, subset_by_index=3)),
        ("subset_by_value = (2, 1) must be (low, high)", ValueError, eigh(A, subset_by_value=(2, 1))),
        ("subset_by_value = (0, nan) must be (low, high)", ValueError, eigh(A, subset_by_value=(0, np.nan))),
        ("subset_by_value = 'ab' must be two numbers", ValueError, eigh(A, subset_by_value="ab")),
        ("give one of them", ValueError, eigh(A, subset_by_index=(0, 1), subset_by_value=(0, 1))),
        ("method = 'lu' must be one of qr, svd", ValueError, lstsq(A, A, method="lu")),
        ('pass method="svd" with it', ValueError, lstsq(A, A, 0.1)),
        ("rcond = nan must be a finite number", ValueError, lstsq(A, A, np.nan, method="svd")),
        ("like = Descriptor(3 x 3", DescriptorError, solve(A, B, like=narrow)),
        ("like = 5 must be a Descriptor", DescriptorError, solve(A, B, like=5)),
        ("layout has shape (3, 3)", DescriptorError, solve(A, B, layout=narrow)),
        ("ScaLAPACK counts in 32 bits", DescriptorError, lambda: linalg.matmul(*nothing, layout=huge)),
    ]
    if SIZE > 1:
        large, pair = psr.Descriptor((N, N), N, SQUARE), put(np.ones((1, 2)), psr.Descriptor((1, 2), 1, COLUMNS))
        cases += [
            ("is of one block of 10 x 10 on ", DescriptorError, eigh(A, layout=large)),
            ("1 x 2 elements on several columns", DescriptorError, lambda: linalg.svd(pair, layout=pair.desc)),
        ]
    for desc, words in (
        (psr.Descriptor((N, N), "balanced", SQUARE), "of irregular blocks"),
        (psr.Descriptor((N, N), (2, 3), SQUARE), "of blocks of 2 x 3, which are not square"),
        (psr.Descriptor((N, N), 2, SQUARE, source=(1, 0)), "which is not 0"),
        (psr.Descriptor((N + 2, N + 2), 2, SQUARE)[2:, 2:], "of a sub-array"),
        (FITS.T, "not of two dimensions over a two-dimensional grid, in order"),
    ):
        cases.append((words, DescriptorError, solve(A, B, layout=desc)))
    for words, kind, call in cases:
        fails(words, kind, call)


def one_rank() -> None:
    """Wrong on one rank, or not the same on all."""
    few = put(SIDES[:4], psr.Descriptor((4, 3), None, ROWS))
    fails("b must have 10 rows", ArrayError, lambda: linalg.solve(A, on_bad(few, B)), BAD)
    fails("trans = 7", ValueError, lambda: linalg.lu_solve((A, np.arange(N)), B, on_bad(7, 0)), BAD)
    fails("the call must be the same on every rank", CollectiveError, lambda: A @ on_bad(3, B))
    fails("b is a NoneType", ArrayError, lambda: linalg.solve(A, on_bad(None, B)), BAD)
    fails("axis = 5", ValueError, lambda: linalg.norm(A, axis=on_bad(5, 0)), BAD)
    fails("p = 0 must", ValueError, lambda: linalg.cond(A, on_bad(0, 1)), BAD)
    fails("the ranks ask for different things: axis must", CollectiveError, lambda: linalg.norm(A, axis=on_bad(1, 0)))
    fails("the ranks ask for different things: rcond must", CollectiveError, lambda: linalg.pinv(A, on_bad(1e-3, None)))
    unsendable = threading.Lock()
    fails("ord = <unlocked", ValueError, lambda: linalg.norm(A, on_bad(unsendable, 1)), BAD)
    fails("method = <unlocked", ValueError, lambda: linalg.lstsq(A, B, method=unsendable))
    own = MPI.COMM_WORLD.Split(RANK)
    desc = psr.Descriptor((N, 3), 2, psr.ProcessGrid((1, 1), own))
    elsewhere = psr.DistributedArray(desc, desc.zeros())
    fails("b is on another communicator than a", ArrayError, lambda: linalg.solve(A, elsewhere))
    fails("is on another communicator than the operands", DescriptorError, lambda: linalg.solve(A, B, like=desc))
    own.Free()
    asked = "the ranks ask for different things: "
    fails(f"{asked}lower must be the same", CollectiveError, lambda: linalg.cholesky(A, on_bad(True, False)))
    fails(f"{asked}the routine must", CollectiveError, lambda: on_bad(linalg.inv, linalg.lu_factor)(A))
    other = np.arange(N)
    other[0] = on_bad(1, 0)
    fails(f"{asked}piv must be the same", CollectiveError, lambda: linalg.lu_solve((A, other), B))
    layout = psr.Descriptor((N, N), on_bad(3, 2), SQUARE)
    fails(f"{asked}layout must be the same", CollectiveError, lambda: linalg.solve(A, B, layout=layout))
    for wrong, right in (([0, 1], [0, 2]), ([0, 2], (0, 1)), (np.arange(2), (0, 2))):
        subset = on_bad(wrong, right)
        fails("subset_by_index must be", CollectiveError, lambda subset=subset: linalg.eigh(A, subset_by_index=subset))
    fails(asked, CollectiveError, lambda: linalg.eigh(A, on_bad(A, None)))
    for kind in (1.0, np.float64(1), np.int32(1)):  # numbers that are equal are the same
        assert linalg.norm(A, on_bad(kind, 1)) == linalg.norm(A, 1)
    assert len(linalg.eigh(A, type=on_bad(1.0, np.int64(1))).eigenvalues) == N
    kinds = on_bad("f", "d")
    words = f"a has dtype float64 on rank 0 and float32 on rank {BAD}: make them equal by a.astype"
    fails(words, ArrayError, lambda: linalg.solve(A.astype(kinds), B.astype(kinds)))


def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ScaLAPACK returns wrong once is computed once more, with a warning on one rank; twice is an error on all."""
    original, by_scalapack = systems.pxgetrs, eigenpairs.pxsyevd

    def spoiled(*arguments: Any) -> None:
        nonlocal wrong
        original(*arguments)
        wrong -= 1
        if wrong >= 0 and arguments[2].local is not None:
            arguments[2].local[...] += 1

    monkeypatch.setattr(systems, "pxgetrs", spoiled)
    b = put(SIDES, psr.Descriptor((N, 3), 2, SQUARE))
    wrong = 1
    with warnings.catch_warnings(record=True, action="always") as warned, untouched(A, b):
        x = linalg.solve(A, b, layout=FITS)
    assert np.allclose(whole_of(x), np.linalg.solve(MATRIX, SIDES))
    text = "".join(str(warning.message) for warning in warned)
    assert [warning.category for warning in warned] == [LinAlgWarning]
    assert re.match(
        r"solve: pdgetrf and p\?getrs of .*, returned no result: \(A\^H y\)\^H x = y\^H b is off by [0-9.e+]+ times what "
        r"rounding comes to, in the layout \dx\d:2x2; the result is that of another layout, \dx\d:\d+x\d+$",
        text,
    ), text
    wrong = 2
    fails("; (A^H y)^H x = y^H b is off by", np.linalg.LinAlgError, lambda: linalg.solve(A, b, layout=FITS))
    wrong = 1
    copy = put(MATRIX, FITS)
    last = "there was no second try, as the operand has been overwritten; "
    fails(last, np.linalg.LinAlgError, lambda: linalg.solve(copy, b, overwrite_a=True))
    wrong = 1
    x = linalg.solve(A, b, check=False, layout=FITS)
    assert not np.allclose(whole_of(x), np.linalg.solve(MATRIX, SIDES))

    def not_converged(*arguments: Any) -> Any:
        nonlocal wrong
        wrong -= 1
        if wrong >= 0:
            raise ConvergenceError("pdsyevd: eigenvalue 1 (counted from 1) did not converge")
        return by_scalapack(*arguments)

    monkeypatch.setattr(eigenpairs, "pxsyevd", not_converged)
    wrong = 1
    symmetric = put(MATRIX + MATRIX.T, FITS)
    with warnings.catch_warnings(record=True, action="always") as warned:
        values = linalg.eigh(symmetric).eigenvalues
    assert np.allclose(values, np.linalg.eigvalsh(MATRIX + MATRIX.T))
    assert len(warned) == 1
    wrong = 2
    fails("; pdsyevd: eigenvalue 1 ", np.linalg.LinAlgError, lambda: linalg.eigh(symmetric))
    singular_values_again(monkeypatch)
    # Near Wilkinson's matrix: its last column nearly doubles in each step
    n = 60
    matrix = np.eye(n) - 0.9 * np.tril(np.ones((n, n)), -1)
    matrix[:, -1:] = 1 + random((n, 1), "d")
    with warnings.catch_warnings(record=True, action="always") as warned:
        factors = linalg.lu_factor(put(matrix, psr.Descriptor((n, n), 8, SQUARE)))
        linalg.lu_solve(factors, put(np.ones((n, 1)), slabs((n, 1))))
    assert len(warned) in (1, 2)
    assert "elements grow by a factor of " in str(warned[0].message)


def assert_done_again(first: str, names: list[str]) -> None:
    """The second attempt is by p?syevd, or on one process by LAPACK."""
    assert first in names
    assert {"pdsyevd", "lapack"}.intersection(names), names


def some_eigenvectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong vectors of a part are refused, and computed by p?syevd; where dstemr fails or has no room, by p?stedc."""
    n, first, last = 30, 4, 8
    matrix = random((n, n), "d")
    a, expected = put(matrix + matrix.T, psr.Descriptor((n, n), 4, SQUARE)), np.linalg.eigvalsh(matrix + matrix.T)
    values_of, vectors_of, by_scalapack = tridiagonal.eigenvalues_of, tridiagonal.eigenvectors_of, scalapack.pxstedc

    def call(*operands: psr.DistributedArray, warnings_expected: int = 0, **options: Any) -> list[str]:
        """The names of the phases; the eigenpairs must be right."""
        options = {"subset_by_index": (first, last - 1), **options}
        with psr.timings() as phases, warnings.catch_warnings(record=True, action="always") as warned:
            values, vectors = linalg.eigh(*(operands or (a,)), **options)
        if len(operands) < 2:
            assert np.allclose(values, expected[first:last])
            x = whole_of(vectors)
            assert np.allclose((matrix + matrix.T) @ x, x * values)
        assert len(warned) == warnings_expected, warned
        assert RANK or not warned or "pdsytrd and p?ormtr of " in str(warned[0].message)
        return WORLD.bcast([phase.name for phase in phases])

    names = call()
    assert {"pdsytrd", "dsterf", "dstemr", "pdormtr"}.issubset(names)
    assert not {"pdstedc", "pdsyevd"}.intersection(names)
    interval = (expected[first - 1] + expected[first]) / 2, (expected[last - 1] + expected[last]) / 2
    by_value = {"subset_by_index": None, "subset_by_value": interval}
    assert "dstemr" in call(**by_value)
    wrong: list[tuple[str, Callable[..., Any]]] = [
        ("eigenvectors_of", lambda d, e, first, last: vectors_of(d, e, first + 1, last + 1)),
        ("eigenvectors_of", lambda d, e, first, last: np.roll(vectors_of(d, e, first, last), 1, axis=1)),
        ("eigenvectors_of", lambda d, e, first, last: vectors_of(d, e, first, last) * np.array([1, 1, 1, 1.001])),
    ]
    for name, spoiled in wrong:
        with monkeypatch.context() as patch:
            patch.setattr(tridiagonal, name, spoiled)
            names = call()
            assert "pdstedc" in names, "the first rank has seen it"
            assert "pdsyevd" not in names
            patch.setattr(tridiagonal, "are_eigenvectors", lambda *_: True)
            assert_done_again("pdsytrd", call(warnings_expected=1))
    # other eigenvalues, with their own vectors; a value twice; one that is not there
    for change in (
        lambda w: np.r_[w[1:], w[-1] + 1],
        lambda w: np.r_[w[:6], w[5], w[7:]],
        lambda w: np.r_[w[:6], 0, w[7:]],
    ):
        with monkeypatch.context() as patch:
            patch.setattr(tridiagonal, "eigenvalues_of", lambda d, e, change=change: np.sort(change(values_of(d, e))))
            for options in ({}, by_value):
                assert_done_again("pdsytrd", call(warnings_expected=1, **options))
    with monkeypatch.context() as patch:
        patch.setattr(tridiagonal, "are_eigenvectors", lambda *_: True)
        patch.setattr(tridiagonal, "eigenvectors_of", lambda *_: None)
        assert "pdstedc" in call()
        patch.setattr(tridiagonal, "pxstedc", lambda z, *rest: [by_scalapack(z, *rest), spoil(z)][0])
        assert_done_again("pdstedc", call(warnings_expected=1))
    with monkeypatch.context() as patch:
        patch.setattr(free_memory, "NEGLIGIBLE", 0)
        assert "dstemr" in call()
        patch.setattr(tridiagonal, "free_memory", lambda: 1000)
        assert {"pdstedc", "dsterf"}.issubset(names := call()), names
        assert "dstemr" not in names
    with monkeypatch.context() as patch:
        patch.setattr(tridiagonal, "FEW", 0.05)
        names = call()
        assert "pdstedc" in names
        assert "dstemr" not in names
    b = put(np.eye(n) * 2, a.desc)
    for kind in (1, 2, 3):
        assert "dstemr" in call(a, b, type=kind)
    monkeypatch.setattr(tridiagonal, "are_eigenvectors", lambda *_: True)
    monkeypatch.setattr(tridiagonal, *wrong[0])
    with pytest.raises(np.linalg.LinAlgError, match="there was no second try"):
        linalg.eigh(a.copy(), subset_by_index=(first, last - 1), overwrite_a=True, layout=a.desc)


def spoil(array: psr.DistributedArray) -> None:
    if array.local is not None:
        array.local[...] *= 1.001


def singular_values_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What divide and conquer does not find, or finds wrong, p?gesvd computes in the same layout, and then in another."""
    expected = np.linalg.svd(MATRIX, compute_uv=False)

    def by_which(call: Callable[[], Any]) -> tuple[list[str], str]:
        """The routines of ScaLAPACK and LAPACK that were called on this rank, and the warning."""
        with warnings.catch_warnings(record=True, action="always") as warned, psr.timings() as phases:
            result = call()
        assert np.allclose(result if isinstance(result, np.ndarray) else result.S, expected)
        assert len(warned) <= 1
        return [its.name for its in phases if its.name[:2] in ("pd", "db", "dl")], "".join(
            str(w.message) for w in warned
        )

    first = ["dbdsdc"] if RANK == 0 else []
    fine = ["pdgebrd", *first, "pdormbr", "pdormbr"]
    for a in (A, put(MATRIX, FITS)):
        assert by_which(lambda a=a: linalg.svd(a)) == (fine, "")
        assert by_which(lambda a=a: linalg.svd(a, driver="gesvd")) == (["pdgesvd"], "")
        assert by_which(lambda a=a: linalg.svdvals(a)) == (["pdgebrd", "dlasq1"] if RANK == 0 else ["pdgebrd"], "")
        assert by_which(lambda a=a: linalg.svdvals(a, driver="gesvd")) == (["pdgesvd"], "")
    tall = put(np.vstack([MATRIX, MATRIX]), psr.Descriptor((2 * N, N), 2, SQUARE))
    with psr.timings() as phases:
        linalg.pinv(tall)
    names = [its.name for its in phases if its.name[:2] in ("pd", "db")]
    assert names == ["pdgeqrf", *fine, "pdormqr", "pdgemm"]
    with monkeypatch.context() as patch:
        patch.setattr(free_memory, "NEGLIGIBLE", 0)
        assert by_which(lambda: linalg.svd(A)) == (fine, "")
        needed = 5 * N * N * 8
        for free, enough in ((4 * needed, True), (4 * needed - 1, False)):
            patch.setattr(bidiagonal, "free_memory", lambda free=free: free if RANK == SIZE - 1 else 2**40)
            assert by_which(lambda: linalg.svd(A)) == (fine if enough else ["pdgesvd"], "")
        patch.setattr(bidiagonal, "free_memory", lambda: 2**40)
        patch.setattr(bidiagonal, "MOST", N)
        assert by_which(lambda: linalg.svd(A)) == (["pdgesvd"], "")
    other = r"; the result is that of other routines, in \dx\d:2x2$"
    for place in ("decompose_bidiagonal", "bidiagonal_values"):
        with monkeypatch.context() as patch:
            patch.setattr(bidiagonal, place, lambda d, e: None)
            uv = place == "decompose_bidiagonal"
            names, text = by_which(lambda uv=uv: linalg.svd(A, compute_uv=uv, layout=FITS))
            assert names == ["pdgebrd", "pdgesvd"]
            assert RANK or re.match(
                r"svd: pdgebrd.* returned no result: the singular values of the bidiagonal matrix did not converge, in the "
                rf"layout \dx\d:2x2{other}",
                text,
            ), text

    def out_of_memory(*_: object) -> None:
        raise MemoryError("no memory for U and V^T")

    with monkeypatch.context() as patch:
        patch.setattr(bidiagonal, "decompose_bidiagonal", out_of_memory)
        fails("no memory for U and V^T", MemoryError, lambda: linalg.svd(A), 0)
    wrong, by_rotations = 1, bidiagonal.pxgesvd

    def spoiled(matrix: Any, *arguments: Any, **keywords: Any) -> Any:
        nonlocal wrong
        wrong -= 1
        result = by_rotations(matrix, *arguments, **keywords)
        return result if wrong < 0 or result.values is None else result._replace(values=result.values + 1)

    with monkeypatch.context() as patch:
        patch.setattr(bidiagonal, "pxormbr", lambda *arguments, **keywords: None)
        names, text = by_which(lambda: linalg.svd(A, layout=FITS))
        assert names == ["pdgebrd", *first, "pdgesvd"]
        assert RANK or re.match(
            rf"svd: pdgebrd and p\?ormbr of .* U \(s \* \(Vh y\)\) = A y is off by .*{other}", text
        ), text
        last = "there was no second try, as the operand has been overwritten; "
        fails(last, np.linalg.LinAlgError, lambda: linalg.svd(put(MATRIX, FITS), overwrite_a=True))
        patch.setattr(bidiagonal, "pxgesvd", spoiled)
        names, text = by_which(lambda: linalg.svd(A, layout=FITS))
        assert RANK or re.search(
            r"off by .*; .*off by .*; the result is that of another layout, \dx\d:\d+x\d+$", text
        ), text
        wrong = 2
        fails("svd: pdgebrd and p?ormbr of ", np.linalg.LinAlgError, lambda: linalg.svd(A, layout=FITS))


def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> object:
        raise psr.LibraryError("no ScaLAPACK found")

    for everywhere in (True, False):
        with monkeypatch.context() as patch:
            if everywhere or RANK == BAD:
                patch.setattr(blacs, "load", missing)
            fails("no ScaLAPACK found", psr.LibraryError, lambda: linalg.solve(A, B), None if everywhere else BAD)
            fails("no ScaLAPACK found", psr.LibraryError, lambda: linalg.norm(A, 2), None if everywhere else BAD)
            assert np.allclose(linalg.norm(A, axis=0), np.linalg.norm(MATRIX, axis=0))
            for axes in ((0, 1), (-1, 0)):
                assert np.isclose(linalg.norm(A, 1, axes), np.linalg.norm(MATRIX, 1, axes))
    library = blacs.load()
    with pytest.raises(psr.LibraryError, match="has no entry point pdnone_"):
        library.routine("pdnone")


def chosen_layouts() -> None:
    """Those of the model, which may be on part of the ranks."""
    for name in linalg.__all__:
        if name[0].islower() and name not in ("check_layout", "layout_for"):
            desc = linalg.layout_for(name, (1024, 512), WORLD)
            assert desc.block == (64, 64)
            assert desc.grid.size <= SIZE
    for shape in (10, (10,), (1, 2, 3)):
        with pytest.raises(psr.DescriptorError, match=r"shape = .* must be that of a matrix: two numbers"):
            linalg.layout_for("solve", shape, WORLD)  # type: ignore[arg-type]
    assert linalg.layout_for("solve", (N, N), WORLD).grid.size == 1
    assert linalg.layout_for("solve", (0, 0), WORLD).block == (1, 1)
    assert linalg.layout_for("solve", (256, 257), WORLD).grid.size == 2
    assert linalg.layout_for("solve", (2048, 2048), WORLD).grid.shape == {2: (1, 2), 3: (1, 3), 4: (2, 2)}[SIZE]
    assert linalg.layout_for("qr", (8192, 32), WORLD).grid.shape == {2: (2, 1), 3: (3, 1), 4: (2, 2)}[SIZE]
    with pytest.raises(ValueError, match="name = 'sovle' is no routine of linalg"):
        linalg.layout_for("sovle", (N, N), WORLD)
    for library, solver in solver_rules.SOLVERS.items():
        for name in solver.routines or ("eigh", "solve", "svd"):
            linalg.check_layout(linalg.layout_for(name, (1024, 1024), WORLD, library), library, name)
    with pytest.raises(psr.DescriptorError, match="of 5 x 3 elements, and ELPA needs a square matrix"):
        linalg.layout_for("eigh", (5, 3), WORLD, library="elpa")
    for n, block, stays in ((300, 8, False), (300, 16, True), (300, 256, True), (300, 257, False), (200, 8, True)):
        a = put(np.eye(n), psr.Descriptor((n, n), block, ROWS))
        with psr.timings() as phases:
            linalg.inv(a)
        assert any("redistribute" in phase.name for phase in phases) != stays, (n, block)


def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory on one rank, at each allocation in turn: all raise, none waits, and the next call is good."""
    wide, right = put(MATRIX[:4], psr.Descriptor((4, N), 2, SQUARE)), put(SIDES[:4], psr.Descriptor((4, 3), 2, SQUARE))
    a, unit = put(MATRIX + MATRIX.T, FITS), put(np.eye(N), FITS)
    calls: list[Any] = [
        lambda: linalg.solve(a, A),
        lambda: linalg.inv(a),
        lambda: linalg.cholesky(unit),
        lambda: linalg.eigh(a),
        lambda: linalg.eigh(a, eigvals_only=True),
        lambda: linalg.eigh(a, subset_by_index=(2, 3)),
        lambda: linalg.eigh(a, unit, subset_by_value=(0, 9)),
        lambda: linalg.qr(a),
        lambda: linalg.svd(wide),
        lambda: linalg.lstsq(wide, right),
        lambda: linalg.lstsq(a, A, method="svd"),
        lambda: linalg.lu_solve(linalg.lu_factor(a), A),
        lambda: linalg.norm(a, 1),
        lambda: linalg.norm(a, axis=0),
        lambda: linalg.pinv(wide),
        lambda: linalg.cond(unit, 1),
    ]
    allocate, room = np.zeros, 0

    def zeros(*arguments: Any, **keywords: Any) -> Any:
        nonlocal room
        if np.prod(arguments[0]) and RANK == BAD:
            room -= 1
            if room == -1:
                raise MemoryError("no memory for an array")
        return allocate(*arguments, **keywords)

    for number, call in enumerate(calls):
        for allowed in range(200):
            with monkeypatch.context() as patch:
                patch.setattr(np, "zeros", zeros)
                room = allowed
                try:
                    call()
                    raised = ""
                except (MemoryError, psr.CollectiveError) as caught:
                    raised = f"{type(caught).__name__} {caught}"
            everywhere = WORLD.allgather(raised)
            if not everywhere[BAD]:
                assert not any(everywhere), everywhere
                break
            assert everywhere[BAD] == "MemoryError no memory for an array", everywhere
            for text in everywhere[:BAD]:
                assert text.startswith("CollectiveError"), everywhere
                assert text.endswith("no memory for an array"), everywhere
        assert allowed, f"call {number} allocated nothing"
        call()


def contexts() -> None:
    """Calls make one context for each grid and communicator, which is freed with the communicator."""
    one_row = psr.Descriptor((8, 8), 2, psr.ProcessGrid((1, SIZE), WORLD))
    linalg.det(put(np.eye(8), one_row))

    def free() -> int:
        ctxt = blacs.make_context(WORLD, (1, SIZE), list(range(SIZE)))
        blacs.free_context(ctxt)
        return ctxt

    blacs.free_context(one_row.grid.make_context())
    for call in (lambda: scalapack.pxlange(one_row.zeros(), one_row, "M"), lambda: np.asarray(one_row)):
        with pytest.raises(psr.DescriptorError, match=r"CTXT = \d+ is not a live BLACS context"):
            call()
    before, handles = free(), next_handles()
    for _ in range(5):
        assert linalg.norm(put(np.eye(8), psr.Descriptor((8, 8), 2, psr.ProcessGrid((1, SIZE), WORLD))), 2) == 1
    assert free() == before
    for _ in range(3):
        comm = WORLD.Dup()
        for grid in (psr.ProcessGrid((1, SIZE), comm), psr.ProcessGrid((1, 1), comm, ranks=[[BAD]])):
            a = put(np.eye(8), psr.Descriptor((8, 8), 2, grid))
            assert linalg.norm(a, 2) == 1
        comm.Free()
        with pytest.raises(psr.CollectiveError, match="communicator has been freed"):
            linalg.det(a)
    assert free() == before, "contexts are freed with the communicator of their grid"
    assert next_handles() == handles, "and so are communicators"


def next_handles() -> list[int]:
    """Those that MPI gives to the next communicators; Open MPI gives the lowest that are free."""
    if not MPI.Get_library_version().startswith("Open MPI"):
        return []
    comms = [MPI.COMM_SELF.Dup() for _ in range(8)]
    handles = [comm.py2f() for comm in comms]
    for comm in comms:
        comm.Free()
    return handles


def traces() -> None:
    rows, square = psr.Descriptor((N, N), (3, 2), ROWS), psr.Descriptor((N, N), 4, SQUARE)
    a, b = put(MATRIX, rows), put(SIDES, psr.Descriptor((N, 3), 3, ROWS))
    with psr.timings() as outer:
        with psr.timings() as phases:
            linalg.solve(a, b, layout=square, check=False)
        plan = psr.redistribute(rows, square)
        local = plan(a.local)
        plan.start(a.local, local).wait()
    names = ["agree", "redistribute a", "redistribute b", "pdgetrf", "pdgetrs", "redistribute result"]
    assert [phase.name for phase in phases] == names
    assert {phase.routine for phase in phases} == {"solve"}
    assert [phase.name for phase in outer] == [*names, "plan", "redistribute", "redistribute"]
    assert outer[-1].routine == ""
    assert outer[:6][0] is phases[0]
    assert all(phase.seconds > 0 and phase.error == "" for phase in outer)
    height, width = SQUARE.shape
    assert phases[1].layout == f"{SIZE}x1:3x2 -> {height}x{width}:4x4"
    assert phases[3].layout == f"{height}x{width}:4x4"
    for phase in (phases[1], *outer[-2:]):
        assert phase.bytes_moved == (0 if a.local is None else a.local.nbytes)
    slowest = outer.max(WORLD)
    assert slowest[1].bytes_moved == 8 * N * N
    assert slowest[3].seconds == WORLD.allreduce(phases[3].seconds, MPI.MAX)
    lines = str(slowest).splitlines()
    assert lines[0].split() == ["routine", "phase", "layout", "seconds", "MB", "moved", "peak", "MB"]
    peaks = [phase.peak_bytes for phase in outer]
    assert peaks == sorted(peaks)
    assert peaks[0] > 2**24
    assert slowest[3].peak_bytes == WORLD.allreduce(phases[3].peak_bytes, MPI.MAX)
    assert lines[-1].split()[-1] == f"{max(its.peak_bytes for its in slowest) / 1e6:,.0f}"
    assert lines[2].split()[:2] == ["solve", "redistribute"]
    assert "->" in lines[2]
    assert len(lines) == 11
    with psr.timings() as failed, pytest.raises(np.linalg.LinAlgError):
        linalg.cholesky(put(-np.eye(N), square))
    assert [phase.name for phase in failed] == ["agree", "check", "pdpotrf"]
    linalg.det(a)
    assert len(failed) == 3, "nothing is recorded afterwards"
    with psr.timings() as refused, pytest.raises((psr.ArrayError, psr.CollectiveError)):
        plan(None if RANK == 0 else a.local)
    assert "Error: " in refused[0].error


def traces_of_some_ranks() -> None:
    """Phases on part of the ranks, some of which have the names of others; phases in different orders."""
    own = psr.Descriptor((1, 1), 1, psr.ProcessGrid((1, 1), MPI.COMM_SELF))
    with psr.timings() as uneven:
        plan = psr.redistribute(own, own)
        if RANK == 0:
            plan(own.zeros())
    assert [phase.name for phase in uneven.max(WORLD)] == ["plan", "redistribute"]
    with psr.timings() as uneven:
        for first in (True, False) if RANK == 0 else (False, True):
            plan(own.zeros()) if first else psr.redistribute(own, own)
    with pytest.raises(psr.CollectiveError, match="ranks recorded the same phases in different orders"):
        uneven.max(WORLD)
    with psr.timings() as apart:
        for rank in range(SIZE):
            linalg.inv(A, layout=psr.Descriptor((N, N), 4, psr.ProcessGrid((1, 1), WORLD, ranks=[[rank]])))
        linalg.inv(A, layout=psr.Descriptor((N, N), 4, SQUARE))
    height, width = SQUARE.shape
    own_seconds = [phase.seconds for phase in apart if phase.name == "lapack"]
    factored = [phase for phase in apart.max(WORLD) if phase.name in ("lapack", "pdgetrf")]
    assert [phase.layout for phase in factored] == ["1x1:64x64"] * SIZE + [f"{height}x{width}:4x4"]
    assert max(phase.seconds for phase in factored[:-1]) >= max(own_seconds)
    last = [phase.seconds for phase in apart if phase.name == "pdgetrf"][-1]
    assert factored[-1].seconds == WORLD.allreduce(last, MPI.MAX)


def warnings_of_one_rank() -> None:
    """A rank on which the warning is an error raises it; the others have the result, of any kind of operand."""
    nilpotent = np.diag(np.ones(N - 1), 1)
    for kind in (lambda a: a, lambda a: (a.desc, a.local)):
        with warnings.catch_warnings(action="error" if RANK == 1 else "ignore"):
            if RANK == 1:
                with pytest.raises(LinAlgWarning):
                    linalg.sqrtm(kind(put(nilpotent, FITS)))
            else:
                linalg.sqrtm(kind(put(nilpotent, FITS)))


def numbers_far_from_one() -> None:
    """SciPy's sums overflow or vanish where the result is an ordinary one."""
    matrix = (MATRIX + N * np.eye(N)) / N
    for scale in (1e150, 1e-150):
        a = put(matrix * scale, FITS)
        for t in (0.2, -0.5):
            power = whole_of(linalg.fractional_matrix_power(a, t))
            expected = scipy.linalg.fractional_matrix_power(matrix, t) * scale**t
            assert np.allclose(power / scale**t, expected / scale**t)
        logarithm = whole_of(linalg.logm(a))
        assert np.allclose(logarithm, scipy.linalg.logm(matrix) + np.log(scale) * np.eye(N))


def factors_that_are_none() -> None:
    """In place of b a pair that cho_factor has not made."""
    factor, _ = linalg.cho_factor(put(MATRIX @ MATRIX.T + N * np.eye(N), FITS))
    for b in ((factor, None), (factor, "upper"), (factor, 1), (None, True), linalg.lu_factor(A)):
        with pytest.raises(ArrayError, match="b is a "):
            linalg.eigh(A, b)


def main() -> None:
    assert SIZE > 1, "run on at least two ranks"
    warnings.simplefilter("error", LinAlgWarning)
    new = warnings_of_one_rank, numbers_far_from_one, factors_that_are_none
    for group in (arguments, one_rank, chosen_layouts, contexts, traces, traces_of_some_ranks, *new):
        group()
        still_good()
    with pytest.MonkeyPatch.context() as monkeypatch:
        checked(monkeypatch)
    with pytest.MonkeyPatch.context() as monkeypatch:
        some_eigenvectors(monkeypatch)
    with pytest.MonkeyPatch.context() as monkeypatch:
        no_library(monkeypatch)
        memory(monkeypatch)
    still_good()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
