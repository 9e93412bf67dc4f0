"""linalg beside SciPy: generalized eigenproblems, subsets, least squares of any rank; what it records and what it keeps."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from linalg_cases import COLUMNS, LAST, RANK, ROWS, SIZE, SQUARE, WORLD, near, put, random, untouched, whole_of
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist import blacs, linalg, scalapack

BAD = SIZE - 1  # the rank that is wrong


def layouts(m: int, n: int) -> list[psr.Descriptor]:
    return [
        psr.Descriptor((m, n), 3, SQUARE),
        psr.Descriptor((m + 4, n + 2), None, COLUMNS)[1 : m + 1, 2 : n + 2],
        psr.Descriptor((m, n), "balanced", ROWS),
        psr.Descriptor((m, n), 7, LAST),
    ]


def generalized(n: int, dtype: str) -> None:
    half, other = random((n, n), dtype), random((n, n), dtype)
    matrix = (half + half.conj().T) / 2
    positive = (other @ other.conj().T + n * np.eye(n)).astype(dtype)
    for number, desc in enumerate(layouts(n, n)):
        lower = bool(number % 2)
        unread = np.tril(np.full((n, n), 99), -1)
        keep, rest = (np.tril, unread.T) if lower else (np.triu, unread)
        a = put((keep(matrix) + rest).astype(dtype), desc)
        b = put((keep(positive) + rest).astype(dtype), layouts(n, n)[::-1][number])
        for kind, subset in ((1, None), (2, (1, n - 2)), (3, (n - 1, n - 1)), (1, (0, 0))):
            case = f"n = {n}, {dtype}, layouts {number}, type {kind}, subset {subset}"
            expected = scipy.linalg.eigvalsh(matrix, positive, type=kind, subset_by_index=subset)
            asked: dict[str, Any] = {"type": kind, "subset_by_index": subset, "lower": lower}
            with untouched(a, b):
                values, vectors = linalg.eigh(a, b, **asked)
                alone = linalg.eigh(a, b, eigvals_only=True, **asked)
            near(values, expected, case)
            near(alone, expected, case)
            x = whole_of(vectors)
            assert x.shape == (n, values.size), case
            left, right = {1: (matrix @ x, positive @ x), 2: (matrix @ positive @ x, x), 3: (positive @ matrix @ x, x)}[
                kind
            ]
            near(left, (right * values).astype(dtype), case)
            unit = np.linalg.inv(positive).astype(dtype) if kind == 3 else positive
            near(x.conj().T @ unit @ x, np.eye(values.size, dtype=dtype), case)
    with pytest.raises(np.linalg.LinAlgError, match=r"b: .*leading minor of order 1 is not"):
        linalg.eigh(a, put((-positive).astype(dtype), layouts(n, n)[0]))


def refused() -> None:
    a = put(np.eye(6), layouts(6, 6)[0])
    for keywords, words in (
        ({"type": 4}, "type = 4 must be 1, 2 or 3"),
        ({"subset_by_index": (2, 6)}, r"subset_by_index = \(2, 6\) must be"),
        ({"subset_by_index": (3, 2)}, r"subset_by_index = \(3, 2\) must be"),
        ({"subset_by_index": 3}, "subset_by_index = 3 must be two integers"),
    ):
        with pytest.raises(ValueError, match=words):
            linalg.eigh(a, **keywords)  # type: ignore[arg-type]
    for arguments, options, words in (
        ((a, a), {"method": "lu"}, "method = 'lu' must be one of qr, svd"),
        ((a, a, 0.1), {}, 'pass method="svd" with it'),
        ((a, a, np.nan), {"method": "svd"}, "rcond = nan must be a finite number"),
    ):
        with pytest.raises(ValueError, match=words):
            linalg.lstsq(*arguments, **options)  # type: ignore[arg-type]
    if SIZE > 1:
        with pytest.raises(psr.CollectiveError, match="the ranks ask for different things"):
            linalg.eigh(a, a if RANK == BAD else None)


def least_squares(m: int, n: int, rank: int, dtype: str) -> None:
    """Against NumPy: nearly and exactly dependent columns, and the residuals that it returns."""
    exact = random((m, rank), dtype) @ random((rank, n), dtype)
    sides = random((m, 3), dtype)
    for matrix, rcond in ((exact, None), (exact, 1e-3), (exact * 0, None)):
        # NumPy takes float64's eps for float32 too
        cut = np.finfo(matrix.dtype).eps * max(m, n) if rcond is None else rcond
        x, residuals, found, values = np.linalg.lstsq(matrix, sides, cut)
        for number, desc in enumerate(layouts(m, n)):
            case = f"{m} x {n} of rank {rank}, {dtype}, rcond = {rcond}, layouts {number}"
            a, b = put(matrix, desc), put(sides, layouts(m, 3)[::-1][number])
            with untouched(a, b):
                result = linalg.lstsq(a, b, rcond, method="svd")
            near(whole_of(result.x), x, case)
            near(result.residuals, residuals, case)
            near(result.singular_values, values, case)
            assert result.rank == found, case
    if rank < min(m, n):
        with pytest.raises(np.linalg.LinAlgError, match=r'a is not of full rank .* method="svd" solves it'):
            linalg.lstsq(put(exact * 0, layouts(m, n)[0]), put(sides, layouts(m, 3)[0]))
    full = np.roll(np.eye(m, n, dtype=dtype), 1, axis=0)  # zeros on its diagonal tell nothing of its rank
    for matrix, columns in ((full, 3), (full, 0), (exact * 0, 0)):
        a, b = put(matrix, layouts(m, n)[0]), put(sides[:, :columns], layouts(m, columns)[0])
        if matrix is full:
            assert linalg.lstsq(a, b).x.shape == (n, columns)
        else:
            with pytest.raises(np.linalg.LinAlgError, match="a is not of full rank"):
                linalg.lstsq(a, b)


def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory on one rank, at each allocation in turn: all raise, none waits, and the next call is good."""
    n = 12
    matrix = random((n, n), "d") + 5 * np.eye(n)
    a, b = put(matrix + matrix.T, psr.Descriptor((n, n), 2, SQUARE)), put(matrix, psr.Descriptor((n, n), 2, SQUARE))
    wide = put(matrix[:4], psr.Descriptor((4, n), 2, SQUARE))
    right = put(matrix[:4, :2], psr.Descriptor((4, 2), 2, SQUARE))
    calls: list[Any] = [
        lambda: linalg.solve(a, b),
        lambda: linalg.inv(a),
        lambda: linalg.eigh(a),
        lambda: linalg.eigh(a, eigvals_only=True),
        lambda: linalg.qr(a),
        lambda: linalg.svd(wide),
        lambda: linalg.lstsq(wide, right),
        lambda: linalg.lstsq(a, b, method="svd"),
        lambda: linalg.lu_solve(linalg.lu_factor(a), b),
        lambda: linalg.norm(a, 1),
    ]
    for number, call in enumerate(calls):
        call()
        failures = 0
        for allowed in range(200):
            taken, allocate = 0, np.zeros

            def zeros(*arguments: Any, **keywords: Any) -> Any:
                nonlocal taken
                if np.prod(arguments[0]) == 0:
                    return allocate(*arguments, **keywords)  # noqa: B023
                if RANK == BAD and taken == allowed:  # noqa: B023
                    taken += 1
                    raise MemoryError("no memory for an array")
                taken += 1
                return allocate(*arguments, **keywords)  # noqa: B023

            with monkeypatch.context() as patch:
                patch.setattr(np, "zeros", zeros)
                try:
                    call()
                    raised = ""
                except (MemoryError, psr.CollectiveError) as caught:
                    raised = f"{type(caught).__name__} {caught}"
            everywhere = WORLD.allgather(raised)
            if not everywhere[BAD]:
                assert not any(everywhere), everywhere
                break
            failures += 1
            assert everywhere[BAD] == "MemoryError no memory for an array", everywhere
            for text in everywhere[:BAD]:
                assert text.startswith("CollectiveError"), everywhere
                assert text.endswith("no memory for an array"), everywhere
        assert failures, f"call {number} allocated nothing"
        call()


def singular_directly() -> None:
    """pxgetrf by itself tells of every zero pivot, on every rank of the grid; also in a sub-array."""
    for n, at in ((1, 0), (9, 0), (9, 5), (9, 8)):
        matrix = np.eye(n)
        matrix[at, at] = 0
        for shape in {(1, SIZE), (SIZE, 1)}:
            with psr.ProcessGrid(shape, WORLD) as grid:
                grid.make_context()
                desc = psr.Descriptor((n, n), 2, grid)
                with pytest.raises(np.linalg.LinAlgError, match=rf"singular: pivot {at + 1} \(counted from 1\)"):
                    scalapack.pxgetrf(desc.from_function(lambda i, j: matrix[i, j]), desc)  # noqa: B023
                whole = psr.Descriptor((n + 4, n + 4), 2, grid)
                padded = np.pad(matrix, ((4, 0), (4, 0)))
                local = whole.from_function(lambda i, j: padded[i, j])  # noqa: B023
                with pytest.raises(np.linalg.LinAlgError, match=rf"singular: pivot {at + 1} "):
                    scalapack.pxgetrf(local, whole[4:, 4:])
    regular = psr.Descriptor((4, 4), 2, SQUARE)
    SQUARE.make_context()
    scalapack.pxgetrf(regular.from_function(lambda i, j: 1.0 * (i == j)), regular)


def contexts() -> None:
    """Calls make one context for each grid and communicator."""
    a = put(np.eye(8), psr.Descriptor((8, 8), 2, psr.ProcessGrid((1, SIZE), WORLD)))
    linalg.det(a)

    def free() -> int:
        ctxt = blacs.make_context(WORLD, (1, SIZE), list(range(SIZE)))
        blacs.free_context(ctxt)
        return ctxt

    grid = psr.ProcessGrid((1, SIZE), WORLD)
    desc = psr.Descriptor((8, 8), 2, grid)
    blacs.free_context(grid.make_context())
    for call in (lambda: scalapack.pxlange(desc.zeros(), desc, "M"), lambda: np.asarray(desc)):
        with pytest.raises(psr.DescriptorError, match=r"CTXT = \d+ is not a live BLACS context"):
            call()
    before = free()
    for k in range(1000 // SIZE):
        a = put(np.eye(8), psr.Descriptor((8, 8), 2, psr.ProcessGrid((1, SIZE), WORLD)))
        assert linalg.norm(a, 1) == 1, k
    assert free() == before
    handles = next_handles()
    for k in range(6):
        comm = WORLD.Dup()
        for grid in (psr.ProcessGrid((1, SIZE), comm), psr.ProcessGrid((1, 1), comm, ranks=[[BAD]])):
            a = put(np.eye(8), psr.Descriptor((8, 8), 2, grid))
            assert linalg.norm(a, 1) == 1, k
        comm.Free()
        with pytest.raises(psr.CollectiveError, match="communicator has been freed"):
            linalg.det(a)
    assert free() == before, "contexts are freed with the communicator for which they were made"
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


def no_numbers() -> None:
    """NaNs and infs, which confuse the search for pivots: what NumPy has, or an error that does not speak of a zero."""
    for rows in ([[np.nan, 1], [2, 3]], [[np.inf, np.inf], [2, 3]], [[-np.inf, np.inf], [np.inf, 1]]):
        matrix = np.array(rows)
        for desc in (psr.Descriptor((2, 2), block, SQUARE) for block in (1, 2, 64)):
            a = put(matrix, desc)
            assert np.isnan(linalg.det(a)), (matrix, desc)
            assert np.isnan(linalg.slogdet(a)).all(), (matrix, desc)
            try:
                assert np.isnan(whole_of(linalg.inv(a))).any()
            except np.linalg.LinAlgError as caught:
                assert "was not found: the matrix has infs, NaNs" in str(caught)  # noqa: PT017 (no error is fine too)
            for method in "qr", "svd":
                with pytest.raises((ValueError, psr.CollectiveError), match="a must not contain infs or NaNs"):
                    linalg.lstsq(a, put(np.eye(2), desc), method=method)
    assert linalg.slogdet(put(np.diag([0, np.nan]), psr.Descriptor((2, 2), 1, SQUARE))) == (0, -np.inf)


def traces() -> None:
    n = 20
    matrix = random((n, n), "d") + 5 * np.eye(n)
    rows, square = psr.Descriptor((n, n), (3, 2), ROWS), psr.Descriptor((n, n), 4, SQUARE)
    a, b = put(matrix, rows), put(matrix[:, :2], psr.Descriptor((n, 2), 3, ROWS))
    with psr.trace() as outer:
        with psr.trace() as phases:
            linalg.solve(a, b, layout=square)
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
        assert WORLD.allreduce(phase.bytes_moved) == 8 * n * n
        mine = 0 if a.local is None else a.local.nbytes
        assert phase.bytes_moved == mine
    slowest = outer.max(WORLD)
    assert slowest[1].bytes_moved == 8 * n * n
    assert slowest[3].seconds == WORLD.allreduce(phases[3].seconds, MPI.MAX)
    lines = str(slowest).splitlines()
    assert lines[0].split() == ["routine", "phase", "layout", "seconds", "MB", "moved"]
    assert lines[2].split()[:2] == ["solve", "redistribute"]
    assert "->" in lines[2]
    assert len(lines) == 11
    with psr.trace() as failed, pytest.raises(np.linalg.LinAlgError):
        linalg.cholesky(put(-np.eye(n), square))
    assert failed[-1].name == "pdpotrf"
    linalg.det(a)
    assert len(failed) == 2
    with psr.trace() as refused, pytest.raises((psr.ArrayError, psr.CollectiveError)):
        plan(None if RANK == 0 else a.local)
    assert "Error: " in refused[0].error
    own = psr.Descriptor((1, 1), 1, psr.ProcessGrid((1, 1), MPI.COMM_SELF))
    with psr.trace() as uneven:
        plan = psr.redistribute(own, own)
        if RANK == 0:
            plan(own.zeros())
    assert [phase.name for phase in uneven.max(WORLD)] == ["plan", "redistribute"]
    with psr.trace() as uneven:
        for first in (True, False) if RANK == 0 else (False, True):
            plan(own.zeros()) if first else psr.redistribute(own, own)
    if SIZE > 1:
        with pytest.raises(psr.CollectiveError, match="ranks recorded the same phases in different orders"):
            uneven.max(WORLD)
    traces_of_some_ranks(a)


def traces_of_some_ranks(a: psr.DistributedArray) -> None:
    """Phases on part of the ranks, some of which have the names of others."""
    n = a.shape[0]
    with psr.trace() as apart:
        for rank in range(SIZE):
            linalg.inv(a, layout=psr.Descriptor((n, n), 4, psr.ProcessGrid((1, 1), WORLD, ranks=[[rank]])))
        linalg.inv(a, layout=psr.Descriptor((n, n), 4, SQUARE))
    found, layouts = apart.max(WORLD), []
    for phase in found:
        if phase.name == "pdgetrf":
            layouts.append(phase.layout)
            mine = [its.seconds for its in apart if (its.name, its.layout) == ("pdgetrf", phase.layout)]
            if phase.layout != "1x1:4x4":
                assert phase.seconds == WORLD.allreduce(max(mine), MPI.MAX)
    height, width = SQUARE.shape
    assert layouts[-1] == f"{height}x{width}:4x4"
    assert layouts[:-1] == ["1x1:4x4"] * SIZE


def main() -> None:
    warnings.simplefilter("error")
    for dtype in "fdFD":
        generalized(13, dtype)
        least_squares(11, 6, 4, dtype)
        least_squares(5, 9, 3, dtype)
    generalized(3, "d")
    for m, n, rank in ((4, 4, 2), (8, 3, 3), (3, 8, 3), (1, 1, 1), (1, 5, 1), (5, 1, 1)):
        least_squares(m, n, rank, "d")
    refused()
    singular_directly()
    no_numbers()
    traces()
    with pytest.MonkeyPatch.context() as monkeypatch:
        memory(monkeypatch)
    contexts()
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
