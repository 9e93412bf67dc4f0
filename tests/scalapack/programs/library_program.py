"""Contexts and the routines of scalapack.py on the real library. Run on 4 ranks or more; prints OK."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from memory import growth
from mpi4py import MPI
from numpy.typing import NDArray

from pyscalapack_redist import ArrayError, Descriptor, DescriptorError, ProcessGrid, blacs
from pyscalapack_redist.scalapack import routines as scalapack

DTYPES = [np.dtype(letter) for letter in "fdFDi"]
NO_CONTEXT = (-1, -1, -1, -1)


def raises(kind: type[Exception], text: str, call: Callable[[], object]) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()


# -- contexts


def check_context(comm: MPI.Intracomm, places: NDArray[np.int64]) -> None:
    """A context with the given placement says so, to anybody who holds its processes."""
    rank, entries = comm.Get_rank(), blacs.load().entries
    if rank in places:
        ctxt = blacs.make_context(comm, places.shape, places.ravel().tolist())
        row, column = np.argwhere(places == rank)[0]
        assert entries.gridinfo(ctxt) == (*places.shape, row, column), entries.gridinfo(ctxt)
        nprow, npcol, ranks = blacs.context_grid(ctxt, comm)
        assert (nprow, npcol) == places.shape
        assert np.array_equal(ranks, places), (ranks, places)
        in_world = places_in(comm, places, MPI.COMM_WORLD)
        assert np.array_equal(blacs.context_grid(ctxt, MPI.COMM_WORLD)[2], in_world)
        outsiders = [r for r in range(comm.Get_size()) if r not in places]
        assert blacs.missing_from_context(ctxt, comm, list(range(comm.Get_size()))) == outsiders
        if places.size > 1:
            raises(
                DescriptorError, "is not in comm, which has 1 ranks", lambda: blacs.context_grid(ctxt, MPI.COMM_SELF)
            )
        blacs.free_context(ctxt)
        assert entries.gridinfo(ctxt) == NO_CONTEXT
        for use in (blacs.free_context, lambda dead: blacs.context_grid(dead, comm)):
            for dead in ctxt, 2**31, -(2**40):
                raises(
                    DescriptorError,
                    f"CTXT = {dead} is not a live BLACS context",
                    lambda use=use, dead=dead: use(dead),
                )
    else:
        raises(
            DescriptorError,
            "only the grid's ranks make its",
            lambda: blacs.make_context(comm, places.shape, places.ravel().tolist()),
        )
    comm.Barrier()


def places_in(comm: MPI.Intracomm, places: NDArray[np.int64], other: MPI.Intracomm) -> NDArray[np.int64]:
    own, theirs = comm.Get_group(), other.Get_group()
    found = np.reshape(own.Translate_ranks(places.ravel().tolist(), theirs), places.shape)
    own.Free()
    theirs.Free()
    return found


def check_duplicate(comm: MPI.Intracomm) -> None:
    """A context stays with the grid that made it; the same grid on a duplicate of the communicator makes its own."""
    duplicate = comm.Dup()
    with ProcessGrid((2, 2), comm) as grid:
        ctxt = grid.make_context()
        assert grid.on(comm) is grid
        moved = grid.on(duplicate)
        assert moved.comm is duplicate
        if grid.coords is not None:
            raises(DescriptorError, "has no BLACS context yet", lambda: moved.context)
            raises(DescriptorError, "has no BLACS context yet", Descriptor((4, 4), 2, grid).on(duplicate).to_array)
        with moved:
            own = moved.make_context()
            assert (own == -1) if grid.coords is None else own not in (-1, ctxt)
            assert grid.context == ctxt
        if grid.coords is not None:
            assert blacs.context_grid(ctxt, comm)[:2] == (2, 2)
    duplicate.Free()


def check_foreign_context(comm: MPI.Intracomm) -> None:
    """Contexts made through BLACS itself, whose processes are numbered in other ways, are read back right."""
    entries, rank = blacs.load().entries, comm.Get_rank()
    handle = entries.system_handle(comm.py2f())
    by_column = entries.gridinit(handle, "C", 2, 2)
    shuffled = entries.gridmap(handle, np.asfortranarray([[3, 1, 0]], dtype=np.intc))
    entries.free_system_handle(handle)
    if rank < 4:
        assert blacs.context_grid(by_column, comm)[2].tolist() == [[0, 2], [1, 3]]
    if rank in (0, 1, 3):
        assert blacs.context_grid(shuffled, comm)[2].tolist() == [[3, 1, 0]]
        entries.gridexit(shuffled)
    else:
        assert shuffled < 0, shuffled
    if rank < 4:
        entries.gridexit(by_column)


def check_no_growth(comm: MPI.Intracomm, times: int) -> None:
    """Numbers and handles are used again, and memory stays, when contexts are made, read and freed many times."""
    places = list(range(comm.Get_size()))[::-1]
    contexts, communicators, groups = set(), set(), set()

    def cycles(times: int) -> None:
        for _ in range(times):
            ctxt = blacs.make_context(comm, (1, len(places)), places)
            contexts.add(ctxt)
            communicators.add(blacs.load().entries.context_communicator(ctxt))
            assert blacs.context_grid(ctxt, comm)[2].tolist() == [places]
            assert not blacs.missing_from_context(ctxt, comm, places)
            blacs.free_context(ctxt)
            group = comm.Get_group()
            groups.add(group.py2f())
            group.Free()

    cycles(times // 4)
    grown = growth(cycles, times)
    assert len(contexts) == 1, f"context numbers grow: {sorted(contexts)}"
    assert len(communicators) < 20, f"handles of communicators grow: {sorted(communicators)}"
    assert len(groups) < 20, f"handles of groups grow: {sorted(groups)}"
    assert grown < 2**20, f"memory grows by {grown} bytes"


# -- routines, against index arithmetic in plain NumPy


def held(n: int, block: int, processes: int, source: int, coordinate: int) -> NDArray[np.int64]:
    everything = np.arange(n)
    return everything[(everything // block + source) % processes == coordinate]


def local_part(desc: Descriptor, whole: NDArray[Any], spare: int = 0) -> NDArray[Any] | None:
    """This rank's part of a matrix, Fortran-ordered, with `spare` rows too many in memory; None outside the grid."""
    coords = desc.grid.coords
    if coords is None:
        return None
    rows, columns = (held(whole.shape[k], desc.block[k], desc.grid.shape[k], desc.source[k], coords[k]) for k in (0, 1))
    part = np.empty((len(rows) + spare, len(columns)), whole.dtype, order="F")[: len(rows)]
    part[...] = whole[np.ix_(rows, columns)]
    return part


def numbered(shape: tuple[int, int], dtype: np.dtype[Any], sign: int = 1) -> NDArray[Any]:
    values = sign * (1 + np.arange(shape[0] * shape[1]).reshape(shape))
    return (values * (1 + 2j)).astype(dtype) if dtype.kind == "c" else values.astype(dtype)


def check_copies(
    desc_a: Descriptor,
    desc_b: Descriptor,
    context: int | None = None,
    part: Callable[..., Any] | None = None,
    **routine: Any,
) -> None:
    """B's window becomes A's, or the part of it that `part` picks, and nothing else changes."""
    for spare, dtype in enumerate(DTYPES):
        shapes = [(desc.parent or desc).shape for desc in (desc_a, desc_b)]
        whole_a, whole_b = numbered(shapes[0], dtype), numbered(shapes[1], dtype, -1)
        windows = [
            tuple(slice(o, o + n) for o, n in zip(desc.offset, desc.shape, strict=True)) for desc in (desc_a, desc_b)
        ]
        expected = whole_b.copy()
        chosen = np.ones(desc_a.shape, bool) if part is None else part(np.ones(desc_a.shape, bool))
        expected[windows[1]] = np.where(chosen, whole_a[windows[0]], whole_b[windows[1]])
        a, b = local_part(desc_a, whole_a, spare % 3), local_part(desc_b, whole_b, spare % 2)
        if routine:
            scalapack.pxtrmr2d(a, desc_a, b, desc_b, context=context, **routine)
        else:
            scalapack.pxgemr2d(a, desc_a, b, desc_b, context)
        wanted = local_part(desc_b, expected)
        assert (b is None) == (wanted is None)
        assert b is None or np.array_equal(b, wanted), (
            f"{desc_a} -> {desc_b}, {dtype}, {routine}:\n{b}\nis not\n{wanted}"
        )


def check_routines(comm: MPI.Intracomm) -> None:
    with (
        ProcessGrid((2, 2), comm, ranks=[[2, 0], [1, 3]]) as square,
        ProcessGrid((1, 3), comm, ranks=[[3, 1, 2]]) as flat,
        ProcessGrid((2, 1), comm, ranks=[[0], [2]]) as tall,
        ProcessGrid((1, comm.Get_size()), comm) as whole,
    ):
        for grid in (square, flat, tall, whole):
            grid.make_context()
        first, second = (
            Descriptor((13, 17), (3, 2), square, source=(1, 0)),
            Descriptor((13, 17), (4, 5), flat, source=(0, 2)),
        )
        check_copies(first, second)
        check_copies(second, first)
        check_copies(first, Descriptor((13, 17), (1, 40), square))
        check_copies(first, first)
        check_copies(first[2:11, 3:16], Descriptor((30, 20), (7, 2), flat)[5:14, 1:14])
        check_copies(Descriptor((30, 20), (7, 2), tall, source=(1, 0))[5:14, 1:14], first[0:9, 4:17])
        check_copies(first[3:3, :], second[0:0, :])
        check_copies(Descriptor((2, 2), (2, 2), square), Descriptor((2, 2), (1, 1), square))
        third = Descriptor((13, 17), (2, 3), tall)
        raises(DescriptorError, "pass context=", lambda: scalapack.pxgemr2d(None, second, None, third))
        check_copies(second, third, whole.context)
        check_copies(third, second, whole.context)
        check_copies(first, second, uplo="U", part=np.triu)
        check_copies(second, first, uplo="l", diag="U", part=lambda m: np.tril(m, 17 - 13 - 1))
        check_copies(second[:, :6], first[:, 5:11], uplo="U", part=lambda m: np.triu(m, 6 - 13))
        check_copies(second[:9, 1:10], first[2:11, 5:14], uplo="L", diag="U", part=lambda m: np.tril(m, -1))
        check_copies(first[2:11, 3:16], second[1:10, 0:13], uplo="L", part=lambda m: np.tril(m, 13 - 9))
        check_rejections(first, second, third, whole)
        for dtype in DTYPES[:4]:
            check_solution(square, dtype)
        check_singular(square)
    if first.grid.coords is not None:
        raises(DescriptorError, "has no BLACS context yet", lambda: scalapack.pxgemr2d(None, first, None, first))


def check_rejections(first: Descriptor, second: Descriptor, third: Descriptor, whole: ProcessGrid) -> None:
    """Each is found before the library is called, which would end the process."""
    a, b = (None if desc.grid.coords is None else desc.zeros() for desc in (first, second))
    copy = scalapack.pxgemr2d
    raises(DescriptorError, "they must be equal", lambda: copy(a, first, b, Descriptor((13, 16), (4, 5), second.grid)))
    raises(
        DescriptorError,
        "uplo = 'X' must be one of 'U' (upper), 'L'",
        lambda: scalapack.pxtrmr2d(a, first, b, second, uplo="X"),
    )
    for shape in ((13,), (3, 4, 5)):
        other: Any = Descriptor(shape, 2, ProcessGrid((1,) * len(shape), first.grid.comm))
        words = f"is of {len(shape)} dimensions, {other!r}: ScaLAPACK's arrays are matrices"
        raises(DescriptorError, f"desc_a {words}", lambda other=other: copy(a, other, b, second))
        raises(DescriptorError, f"desc_b {words}", lambda other=other: copy(a, first, b, other))
        raises(DescriptorError, f"desc {words}", lambda other=other: scalapack.pxgetrf(a, other))
        raises(DescriptorError, f"desc {words}", lambda other=other: scalapack.pxgetrs(a, other, None, a, other))
    nine: Any = [1, 0, 4, 4, 2, 2, 0, 0, 4]
    words = (
        "= [1, 0, 4, 4, 2, 2, 0, 0, 4] must be a Descriptor; nine integers, or None on a rank that does not know them"
    )
    raises(DescriptorError, f"desc_a {words}", lambda: copy(a, nine, b, second))
    raises(DescriptorError, f"desc {words}", lambda: scalapack.pxgetrf(a, nine))
    if first.grid.coords is None:
        return
    assert a is not None
    raises(ArrayError, "a is None, but this rank is in the grid", lambda: copy(None, first, b, second))
    raises(ArrayError, "needs whole columns", lambda: copy(np.ascontiguousarray(a), first, b, second))
    raises(ArrayError, "holds", lambda: copy(np.zeros((40, 40)), first, b, second))
    raises(
        ArrayError,
        "a has dtype float16; this routine is for float32",
        lambda: copy(a.astype("e"), first, first.zeros("e"), first),
    )
    raises(ArrayError, "a has dtype >f8", lambda: copy(a.astype(">f8"), first, first.zeros(">f8"), first))
    raises(ArrayError, "a has dtype float32 and b has dtype float64", lambda: copy(a.astype("f"), first, a, first))
    raises(ArrayError, "a and b overlap", lambda: copy(a, first, a, first))
    raises(
        ArrayError, "this routine is for float32, float64, complex64, complex128", lambda: factor_integers(first.grid)
    )
    raises(DescriptorError, "CTXT = 99 is not a live", lambda: copy(a, first, a, first, 99))
    raises(DescriptorError, "this rank is outside", lambda: copy(a, first, a, first, -1))
    raises(DescriptorError, "13 x 17: a square one", lambda: scalapack.pxgetrf(a, first))
    uneven = Descriptor((8, 8), (2, 4), first.grid)
    raises(DescriptorError, "only with square ones", lambda: scalapack.pxgetrf(uneven.zeros(), uneven))
    even = Descriptor((8, 8), (2, 2), first.grid)
    raises(DescriptorError, "start it at multiples of 2", lambda: scalapack.pxgetrf(even.zeros(), even[1:5, 1:5]))
    pivots = np.zeros(20, np.intc)
    for sides, text in (
        (Descriptor((7, 1), (2, 2), first.grid), "desc_b has 7 rows"),
        (Descriptor((8, 1), (4, 2), first.grid), "desc_b has blocks of 4 rows"),
        (Descriptor((8, 1), (2, 2), first.grid, source=(1, 0)), "give both the same source"),
        (Descriptor((8, 1), (2, 2), whole), "use one grid for both"),
    ):
        raises(
            DescriptorError,
            text,
            lambda sides=sides: scalapack.pxgetrs(even.zeros(), even, pivots, sides.zeros(), sides),
        )
    sides = Descriptor((8, 1), (2, 2), first.grid)
    raises(ArrayError, "pivots is None", lambda: scalapack.pxgetrs(even.zeros(), even, None, sides.zeros(), sides))
    if first.grid.coords == (0, 0) and third.grid.coords is not None:
        frozen = first.zeros()
        frozen.flags.writeable = False
        raises(ArrayError, "b is read-only", lambda: copy(a, first, frozen, first))


def factor_integers(grid: ProcessGrid) -> None:
    desc = Descriptor((8, 8), (2, 2), grid)
    scalapack.pxgetrf(desc.zeros("i"), desc)


def random_matrix(shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    rng = np.random.default_rng(7)
    return (rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype.kind == "c" else 0)).astype(dtype)


def check_solution(grid: ProcessGrid, dtype: np.dtype[Any]) -> None:
    """Factors and solves a sub-matrix, and its transposes; compared with numpy.linalg.solve."""
    n, at, block = 30, (8, 4), 4
    whole, sides = random_matrix((40, 44), dtype), random_matrix((n, 3), dtype)
    inner = np.s_[at[0] : at[0] + n, at[1] : at[1] + n]
    desc = Descriptor(whole.shape, (block, block), grid, source=(1, 0))
    desc_b = Descriptor(sides.shape, (block, 2), grid, source=(1, 1))
    a = local_part(desc, whole, 2)
    pivots = scalapack.pxgetrf(a, desc[inner])
    for trans, op in {"N": lambda m: m, "T": lambda m: m.T, "c": lambda m: m.conj().T}.items():
        x = local_part(desc_b, sides, 1)
        scalapack.pxgetrs(a, desc[inner], pivots, x, desc_b, trans)
        expected = np.linalg.solve(op(whole[inner].astype("D")), sides)
        wanted = local_part(desc_b, expected)
        if x is None or wanted is None:
            assert x is None
            assert pivots is None
        else:
            error = np.abs(x - wanted).max(initial=0) / np.abs(expected).max()
            assert error < 1e4 * np.finfo(dtype).eps, f"{dtype}, {trans}: {error}"


def check_singular(grid: ProcessGrid) -> None:
    desc = Descriptor((10, 10), (3, 3), grid)
    whole = random_matrix((10, 10), np.dtype("d"))
    whole[:, 6] = 0
    a = local_part(desc, whole)
    if a is None:
        assert scalapack.pxgetrf(None, desc) is None
    else:
        raises(np.linalg.LinAlgError, "pivot 7 (counted from 1) is exactly zero", lambda: scalapack.pxgetrf(a, desc))


def main() -> None:
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    half = world.Split(rank % 2, rank)
    reordered = world.Split(0, -rank)
    for comm in (world, reordered):
        for places in ([[0, 1], [2, 3]], [[3, 0], [1, 2]], [[2], [0], [3]], [[1, 3]], [[size - 1]]):
            check_context(comm, np.array(places))
        check_foreign_context(comm)
        check_duplicate(comm)
    for places in ([[1], [0]], [[0]]):
        check_context(half, np.array(places))
    raises(DescriptorError, "1 x 3 does not fit the 2 ranks", lambda: blacs.make_context(world, (1, 3), [0, 1]))
    check_no_growth(world, 2000)
    for comm in (world, reordered):
        check_routines(comm)
    half.Free()
    reordered.Free()
    if rank == 0:
        print("\n".join(blacs.load().describe()))
        print("OK", flush=True)


if __name__ == "__main__":
    main()
