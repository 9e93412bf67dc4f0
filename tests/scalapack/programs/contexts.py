"""BLACS contexts and nine-integer descriptors: made, read, those of others, and refused field by field. On four ranks.

Arguments: a folder, how often contexts are made.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linalg_cases import RANK, SIZE, WORLD
from memory import growth
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist import Descriptor, DescriptorError, ProcessGrid, blacs

SHAPE = (17, 23)
NO_CONTEXT = (-1, -1, -1, -1)
OUTSIDE: list[Any] = [np.array([99, -1, -5, -5, 0, 0, 77, 77, -9], np.intc), None]  # of ranks outside a grid
WHOLE = np.arange(1.0, SHAPE[0] * SHAPE[1] + 1).reshape(SHAPE)


def value(i: Any, j: Any) -> Any:
    return WHOLE[i, j]


def rows() -> Descriptor:
    return Descriptor(SHAPE, (2, 2), ProcessGrid((SIZE, 1), WORLD))


def raises(text: str, call: Callable[[], object]) -> None:
    with pytest.raises(DescriptorError, match=re.escape(text)):
        call()


def made_and_read(comm: MPI.Intracomm, places: NDArray[np.int64]) -> None:
    """A context with the given placement says so, to anybody who holds its processes."""
    rank, entries = comm.Get_rank(), blacs.load().entries
    flat = places.ravel().tolist()
    if rank not in places:
        raises("only the grid's ranks make its", lambda: blacs.make_context(comm, places.shape, flat))
    else:
        ctxt = blacs.make_context(comm, places.shape, flat)
        assert entries.gridinfo(ctxt) == (*places.shape, *np.argwhere(places == rank)[0])
        for other in (comm, MPI.COMM_WORLD):
            nprow, npcol, ranks = blacs.context_grid(ctxt, other)
            assert (nprow, npcol) == places.shape
            own, theirs = comm.Get_group(), other.Get_group()
            assert ranks.ravel().tolist() == own.Translate_ranks(flat, theirs)
            own.Free()
            theirs.Free()
        outsiders = [r for r in range(comm.Get_size()) if r not in places]
        assert blacs.missing_from_context(ctxt, comm, list(range(comm.Get_size()))) == outsiders
        if places.size > 1:
            raises("is not in comm, which has 1 ranks", lambda: blacs.context_grid(ctxt, MPI.COMM_SELF))
        blacs.free_context(ctxt)
        assert entries.gridinfo(ctxt) == NO_CONTEXT
        for use in (blacs.free_context, lambda dead: blacs.context_grid(dead, comm)):
            for dead in (ctxt, 2**31, -(2**40)):
                raises(f"CTXT = {dead} is not a live BLACS context", lambda use=use, dead=dead: use(dead))
    comm.Barrier()


def made_by_others(comm: MPI.Intracomm) -> None:
    """Contexts made through BLACS itself, whose processes are numbered in other ways; read, and used by their nine integers."""
    entries, turned = blacs.load().entries, comm.Get_rank() != RANK
    handle = entries.system_handle(comm.py2f())
    by_column = entries.gridinit(handle, "C", 2, 2)
    shuffled = entries.gridmap(handle, np.asfortranarray([[3, 1, 0]], dtype=np.intc))
    entries.free_system_handle(handle)
    assert blacs.context_grid(by_column, comm)[2].tolist() == [[0, 2], [1, 3]]
    if comm.Get_rank() in (0, 1, 3):
        assert blacs.context_grid(shuffled, comm)[2].tolist() == [[3, 1, 0]]
        entries.gridexit(shuffled)
    else:
        assert shuffled < 0, shuffled
    grid = ProcessGrid.from_context(by_column, WORLD)
    assert grid.ranks.tolist() == ([[3, 1], [2, 0]] if turned else [[0, 2], [1, 3]])
    there = psr.redistribute(rows(), [1, by_column, *SHAPE, 3, 4, 0, 1, 20], comm=WORLD)(rows().from_function(value))
    assert np.array_equal(there, Descriptor(SHAPE, (3, 4), grid, source=(0, 1)).from_function(value))
    entries.gridexit(by_column)


def kept_by_grids(comm: MPI.Intracomm) -> None:
    """A context stays with the grid that made it; the same grid on a duplicate of the communicator makes its own."""
    duplicate = comm.Dup()
    with ProcessGrid((1, 3), comm) as grid:
        ctxt = grid.make_context()
        assert grid.on(comm) is grid
        moved = grid.on(duplicate)
        assert moved.comm is duplicate
        if grid.coords is not None:
            raises("has no BLACS context yet", lambda: moved.context)
            raises("has no BLACS context yet", Descriptor((4, 4), 2, grid).on(duplicate).to_array)
        with moved:
            own = moved.make_context()
            assert (own == -1) if grid.coords is None else own not in (-1, ctxt)
            assert grid.context == ctxt
        assert grid.coords is None or blacs.context_grid(ctxt, comm)[:2] == (1, 3)
    if grid.coords is not None:
        raises("no BLACS context yet", lambda: grid.context)
    duplicate.Free()


def dropped() -> None:
    """The context of a grid that is dropped unclosed goes to the next equal one, once all ranks have dropped it."""
    comm, entries = WORLD.Dup(), blacs.load().entries

    def new(columns: int = SIZE) -> tuple[ProcessGrid, int]:
        grid = ProcessGrid((SIZE // columns, columns), comm)
        return grid, grid.make_context()

    kept, own = new()
    contexts = {new()[1] for _ in range(50)}
    assert len(contexts) == 1, "each grid that was dropped has left a context"
    assert own not in contexts, "two grids have one context"
    later, context = new()
    assert context in contexts
    late = later if RANK == 1 else None  # this rank still uses it
    del later
    again, other = new()
    assert other not in (own, context)
    again.close()
    assert entries.gridinfo(other) == NO_CONTEXT
    del late
    again, other = new()
    assert other == context
    blacs.free_context(context)  # behind its back
    del again
    fresh, number = new()
    assert entries.gridinfo(number)[:2] == (1, SIZE)
    turned, _ = new(1)
    assert blacs.context_grid(turned.context, comm)[:2] == (SIZE, 1)
    assert len({psr.linalg.layout_for("solve", (900, 900), comm).grid.make_context() for _ in range(50)}) == 1
    last = [own, number, turned.context]
    comm.Free()
    assert {entries.gridinfo(ctxt) for ctxt in last} == {NO_CONTEXT}
    for grid in (kept, fresh, turned):
        grid.close()


def nothing_grows(times: int) -> None:
    """Numbers and handles are used again, and memory stays, when contexts are made, read and freed many times."""
    places = list(range(SIZE))[::-1]
    contexts, communicators, groups = set(), set(), set()

    def cycles(times: int) -> None:
        for _ in range(times):
            ctxt = blacs.make_context(WORLD, (1, SIZE), places)
            contexts.add(ctxt)
            communicators.add(blacs.load().entries.context_communicator(ctxt))
            assert blacs.context_grid(ctxt, WORLD)[2].tolist() == [places]
            assert not blacs.missing_from_context(ctxt, WORLD, places)
            blacs.free_context(ctxt)
            group = WORLD.Get_group()
            groups.add(group.py2f())
            group.Free()

    cycles(times // 4)
    grown = growth(cycles, times)
    assert len(contexts) == 1, f"context numbers grow: {sorted(contexts)}"
    assert max(len(communicators), len(groups)) < 20, "handles grow"
    assert grown < 2**20, f"memory grows by {grown} bytes"


def round_trip(square: ProcessGrid) -> None:
    desc = Descriptor(SHAPE, (3, 4), square, source=(1, 0), lld=40)
    nine = np.asarray(desc)
    assert nine.dtype == np.intc
    assert nine.tolist() == [1, square.context, 17, 23, 3, 4, 1, 0, 40]
    assert desc[2:9, 1:].to_array().tolist() == nine.tolist()
    assert np.asarray(desc, dtype=np.int64).dtype == np.int64
    back = Descriptor.from_array(nine, WORLD)
    assert back == desc
    assert (back.lld, back.grid.context) == (40, square.context)
    read = ProcessGrid.from_context(square.context, WORLD)
    assert read == square
    read.close()
    assert blacs.load().entries.gridinfo(square.context)[:2] == (2, 2), "close() freed a context that it did not make"
    with ProcessGrid((2, 2), WORLD) as freed:
        freed.make_context()
        kept = Descriptor.from_array(Descriptor((8, 8), 2, freed).to_array(), WORLD)
        assert kept.grid.context == freed.context
    local = kept.zeros()
    for use in (kept.to_array, lambda: psr.scalapack.pxgetrf(local, kept), lambda: psr.scalapack.pxlange(local, kept)):
        with pytest.raises(DescriptorError, match=r"CTXT = \d+ is not a live BLACS context"):
            use()


def in_other_calls(pair: ProcessGrid, path: Path) -> None:
    """Nine integers are taken as by `redistribute`, with comm=; on ranks outside they mean nothing, or are None."""
    desc, inside = Descriptor(SHAPE, (3, 4), pair), pair.coords is not None
    given = [np.asarray(desc)] * 2 if inside else OUTSIDE
    back = Descriptor.from_array(given[0], WORLD)
    assert back == desc
    assert np.asarray(back)[1] == pair.context
    for nine in given:
        local = psr.redistribute(rows(), nine, comm=WORLD)(rows().from_function(value))
        again = psr.scatter(nine, WHOLE if RANK == 1 else None, 1, comm=WORLD)
        expected = desc.from_function(value) if inside else None
        for found in (local, again):
            assert found is None if expected is None else np.array_equal(found, expected)
        gathered = psr.gather(nine, local, 2, comm=WORLD)
        assert RANK != 2 or np.array_equal(gathered, WHOLE)
        psr.save(nine, local, path, comm=WORLD)
        again = psr.load(nine, path, comm=WORLD)
        assert again is None if local is None else np.array_equal(again, local)
        with pytest.raises(
            DescriptorError, match=r"desc = .* must be a Descriptor; nine integers, or None .* need comm="
        ):
            psr.gather(nine, local)
    if inside:
        assert psr.relabel(np.asarray(desc), rows(), comm=WORLD) == psr.relabel(desc, rows())
    else:
        with pytest.raises(DescriptorError, match=r"desc_a has CTXT = -1, .* the Descriptor that Descriptor.from_array"):
            psr.relabel(OUTSIDE[0], desc, comm=WORLD)


def refused(square: ProcessGrid) -> None:
    """Every field, on all ranks and on one; then the communicator is still good."""
    good, other = (np.asarray(Descriptor(SHAPE, block, square)) for block in ((3, 4), (5, 5)))
    with ProcessGrid((2, 2), WORLD) as short_lived:
        freed = short_lived.make_context()
    cases = [
        (0, 501, "DTYPE = 501 must be 1"),
        (1, freed, r"CTXT = \d is not a live BLACS context"),
        (1, 12345, "CTXT = 12345 is not a live BLACS context"),
        (2, -1, "M = -1 must be at least 0"),
        (3, -1, "N = -1 must be at least 0"),
        (4, 0, "MB = 0 must be at least 1"),
        (5, -3, "NB = -3 must be at least 1"),
        (6, 2, "RSRC = 2 is outside the 2 x 2 grid"),
        (7, -1, "CSRC = -1 is outside the 2 x 2 grid"),
        (8, 2, "LLD = 2 is too small: process row . holds . rows"),
    ]
    calls: list[Callable[[Any], object]] = [
        lambda nine: Descriptor.from_array(nine, WORLD),
        lambda nine: psr.redistribute(nine, other, comm=WORLD),
        lambda nine: psr.redistribute(other, nine, comm=WORLD),
    ]
    for call in calls:
        for field, wrong, words in cases:
            bad = good.copy()
            bad[field] = wrong
            with pytest.raises(DescriptorError, match=words):
                call(bad)
            culprit = RANK == 2
            told = words if culprit else f"rank 2 could not take part: .*{words}"
            with pytest.raises(DescriptorError if culprit else psr.CollectiveError, match=told):
                call(bad if culprit else good)
        raises("got 8; LLD is missing", lambda call=call: call(good[:8]))
        different = good.copy()
        different[4] += RANK == 1
        with pytest.raises(psr.CollectiveError, match="must be the same on every rank"):
            call(different)
        call(good)
    raises("no rank knows", lambda: Descriptor.from_array(OUTSIDE[0], WORLD))
    raises("no rank knows", lambda: ProcessGrid.from_context(-1, WORLD))
    half = WORLD.Split(RANK % 2, RANK)
    raises("is not in comm", lambda: ProcessGrid.from_context(square.context, half))
    half.Free()
    large, cube = Descriptor((3 * 10**9, 1), 64, square), Descriptor((4, 4, 4), 2, ProcessGrid((SIZE, 1, 1), WORLD))
    raises("M = 3000000000 does not fit into ScaLAPACK's 32-bit integer", lambda: np.asarray(large))
    raises("two dimensions over a two-dimensional grid", lambda: np.asarray(cube))
    raises("1 x 3 does not fit the 2 ranks", lambda: blacs.make_context(WORLD, (1, 3), [0, 1]))


def main() -> None:
    assert SIZE == 4, "run on four ranks"
    half, reordered = WORLD.Split(RANK % 2, RANK), WORLD.Split(0, -RANK)
    for comm in (WORLD, reordered):
        for places in ([[3, 0], [1, 2]], [[2], [0], [3]], [[3]]):
            made_and_read(comm, np.array(places))
        made_by_others(comm)
        kept_by_grids(comm)
    made_and_read(half, np.array([[1], [0]]))
    dropped()
    nothing_grows(int(sys.argv[2]))
    half.Free()
    reordered.Free()
    square, pair = ProcessGrid((2, 2), WORLD), ProcessGrid((1, 2), WORLD, ranks=[[2, 0]])
    raises("call make_context() on all of its ranks first", lambda: np.asarray(Descriptor(SHAPE, (2, 2), square)))
    with square, pair:
        square.make_context()
        pair.make_context()
        round_trip(square)
        in_other_calls(pair, Path(sys.argv[1]) / "a.npy")
        refused(square)
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
