"""Nine-integer descriptors: read, built, refused field by field; contexts made by others. Argument: folder. On four ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist import blacs

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
SHAPE = (17, 23)


def value(i: Any, j: Any) -> Any:
    return 1000.0 * i + j


def round_trip(square: psr.ProcessGrid) -> None:
    desc = psr.Descriptor(SHAPE, (3, 4), square, source=(1, 0), lld=40)
    nine = np.asarray(desc)
    assert nine.dtype == np.intc
    assert nine.tolist() == [1, square.context, 17, 23, 3, 4, 1, 0, 40]
    assert desc[2:9, 1:].to_array().tolist() == nine.tolist()
    assert np.asarray(desc, dtype=np.int64).dtype == np.int64
    back = psr.Descriptor.from_array(nine, WORLD)
    assert back == desc
    assert (back.lld, back.grid.context) == (40, square.context)
    read = psr.ProcessGrid.from_context(square.context, WORLD)
    assert read == square
    read.close()
    assert blacs.load().entries.gridinfo(square.context)[:2] == (2, 2), "close() freed a context that it did not make"
    with psr.ProcessGrid((2, 2), WORLD) as freed:
        freed.make_context()
        kept = psr.Descriptor.from_array(psr.Descriptor((8, 8), 2, freed).to_array(), WORLD)
        assert kept.grid.context == freed.context
    local = kept.zeros()
    for use in kept.to_array, lambda: psr.scalapack.pxgetrf(local, kept), lambda: psr.scalapack.pxlange(local, kept):
        with pytest.raises(psr.DescriptorError, match=r"CTXT = \d+ is not a live BLACS context"):
            use()


def ranks_outside(pair: psr.ProcessGrid) -> None:
    """Outside the grid CTXT is -1 and the other fields mean nothing."""
    desc = psr.Descriptor(SHAPE, (3, 4), pair)
    nine = np.asarray(desc) if pair.coords is not None else np.array([99, -1, -5, -5, 0, 0, 77, 77, -9], np.intc)
    back = psr.Descriptor.from_array(nine, WORLD)
    assert back == desc
    assert np.asarray(back)[1] == pair.context
    rows = psr.Descriptor(SHAPE, (2, 2), psr.ProcessGrid((SIZE, 1), WORLD))
    result = psr.redistribute(rows, nine, comm=WORLD)(rows.from_function(value))
    if pair.coords is None:
        assert result is None
    else:
        assert result is not None
        assert np.array_equal(result, desc.from_function(value))


def in_other_calls(pair: psr.ProcessGrid, path: Path) -> None:
    """Nine integers are taken as by `redistribute`, with comm=; on ranks outside they mean nothing, or are None."""
    desc = psr.Descriptor(SHAPE, (3, 4), pair)
    whole = np.arange(1.0, SHAPE[0] * SHAPE[1] + 1).reshape(SHAPE)
    outside: list[Any] = [np.array([99, -1, -5, -5, 0, 0, 77, 77, -9], np.intc), None]
    for nine in [np.asarray(desc)] * 2 if pair.coords is not None else outside:
        local = psr.scatter(nine, whole if RANK == 1 else None, 1, comm=WORLD)
        assert (
            local is None
            if pair.coords is None
            else np.array_equal(local, whole[np.ix_(*map(desc.global_indices, (0, 1)))])
        )
        found = psr.gather(nine, local, 2, comm=WORLD)
        assert RANK != 2 or np.array_equal(found, whole)
        psr.save(nine, local, path, comm=WORLD)
        again = psr.load(nine, path, comm=WORLD)
        assert again is None if local is None else np.array_equal(again, local)
        with pytest.raises(
            psr.DescriptorError, match=r"desc = .* must be a Descriptor; nine integers, or None .* need comm="
        ):
            psr.gather(nine, local)
    if pair.coords is not None:
        rows = psr.Descriptor(SHAPE, (2, 2), psr.ProcessGrid((SIZE, 1), WORLD))
        assert psr.relabel(np.asarray(desc), rows, comm=WORLD) == psr.relabel(desc, rows)
    else:
        with pytest.raises(
            psr.DescriptorError, match=r"desc_a has CTXT = -1 .* give the Descriptor that Descriptor.from_array"
        ):
            psr.relabel(outside[0], desc, comm=WORLD)


def made_by_others() -> None:
    """A context on a communicator of another order, made with BLACS itself, and read back to ranks of the world."""
    turned = WORLD.Split(0, -RANK)
    entries = blacs.load().entries
    handle = entries.system_handle(turned.py2f())
    context = entries.gridinit(handle, "C", 2, 2)
    entries.free_system_handle(handle)
    grid = psr.ProcessGrid.from_context(context, WORLD)
    assert grid.ranks.tolist() == [[SIZE - 1, SIZE - 3], [SIZE - 2, SIZE - 4]]
    nine = [1, context if grid.coords else -1, *SHAPE, 3, 4, 0, 1, 20]
    rows = psr.Descriptor(SHAPE, (2, 2), psr.ProcessGrid((SIZE, 1), WORLD))
    there = psr.redistribute(rows, nine, comm=WORLD)(rows.from_function(value))
    assert there is not None
    assert np.array_equal(there, psr.Descriptor(SHAPE, (3, 4), grid, source=(0, 1)).from_function(value))
    entries.gridexit(context)
    turned.Free()


def refused(square: psr.ProcessGrid) -> None:
    """Every field, on all ranks and on one; then the communicator is still good."""
    good = np.asarray(psr.Descriptor(SHAPE, (3, 4), square))
    other = np.asarray(psr.Descriptor(SHAPE, (5, 5), square))
    with psr.ProcessGrid((2, 2), WORLD) as short_lived:
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
        lambda nine: psr.Descriptor.from_array(nine, WORLD),
        lambda nine: psr.redistribute(nine, other, comm=WORLD),
        lambda nine: psr.redistribute(other, nine, comm=WORLD),
    ]
    for call in calls:
        for field, wrong, words in cases:
            bad = good.copy()
            bad[field] = wrong
            with pytest.raises(psr.DescriptorError, match=words):
                call(bad)
            culprit = RANK == 2
            told = words if culprit else f"rank 2 could not take part: .*{words}"
            with pytest.raises(psr.DescriptorError if culprit else psr.CollectiveError, match=told):
                call(bad if RANK == 2 else good)
        with pytest.raises(psr.DescriptorError, match="got 8; LLD is missing"):
            call(good[:8])
        different = good.copy()
        different[4] += RANK == 1
        with pytest.raises(psr.CollectiveError, match="must be the same on every rank"):
            call(different)
        call(good)
    with pytest.raises(psr.DescriptorError, match="no rank knows"):
        psr.Descriptor.from_array([1, -1, 0, 0, 0, 0, 0, 0, 0], WORLD)
    with pytest.raises(psr.DescriptorError, match="no rank knows"):
        psr.ProcessGrid.from_context(-1, WORLD)
    half = WORLD.Split(RANK % 2, RANK)
    with pytest.raises(psr.DescriptorError, match="is not in comm"):
        psr.ProcessGrid.from_context(square.context, half)
    half.Free()
    with pytest.raises(psr.DescriptorError, match="M = 3000000000 does not fit into ScaLAPACK's 32-bit integer"):
        np.asarray(psr.Descriptor((3 * 10**9, 1), (64, 64), square))
    with pytest.raises(psr.DescriptorError, match="two dimensions over a two-dimensional grid"):
        np.asarray(psr.Descriptor((4, 4, 4), 2, psr.ProcessGrid((SIZE, 1, 1), WORLD)))


def main() -> None:
    assert SIZE == 4, "run on four ranks"
    square, pair = psr.ProcessGrid((2, 2), WORLD), psr.ProcessGrid((1, 2), WORLD, ranks=[[2, 0]])
    with pytest.raises(psr.DescriptorError, match=r"call make_context\(\) on all of its ranks first"):
        np.asarray(psr.Descriptor(SHAPE, (2, 2), square))
    with square, pair:
        square.make_context()
        pair.make_context()
        round_trip(square)
        ranks_outside(pair)
        in_other_calls(pair, Path(sys.argv[1]) / "a.npy")
        made_by_others()
        refused(square)
    with pytest.raises(psr.DescriptorError, match="no BLACS context yet"):
        _ = square.context
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
