"""Layouts with copies on real ranks: what plans read, schedules that are refused, files, relabelling, arrays in place.

Arguments: folder for files, number of random cases, seed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from oracle import Layout, random_layout, random_shape
from random_layouts import descriptor

import pyscalapack_redist as psr
from pyscalapack_redist.schedules import NAMES

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()


def held(layout: Layout, rank: int) -> Any:
    """Which elements of the window a rank holds."""
    mask = np.zeros(layout.shape, bool)
    coords = layout.coords(rank)
    if coords is not None:
        mask[np.ix_(*(h[p] for h, p in zip(layout.held, coords, strict=True)))] = True
    return mask[layout.window()]


def what_is_read(rng: np.random.Generator) -> None:
    """What a rank holds it copies, the rest it receives once; copies of a part serve equally many, or one more."""
    size = random_shape(rng, int(rng.integers(1, 4)), 800)
    a, b = (random_layout(rng, size, SIZE, copies=True) for _ in range(2))
    desc_a, desc_b = descriptor(a, WORLD, 0), descriptor(b, WORLD, 0)
    plan = psr.redistribute(desc_a, desc_b, comm=WORLD)
    messages = plan.messages
    kept = np.count_nonzero(held(a, RANK) & held(b, RANK))
    needed = np.count_nonzero(held(b, RANK))
    assert sum(message.size for message in messages["copy"]) == kept, (a, b)
    assert sum(message.size for message in messages["receive"]) == needed - kept, (a, b)
    every = WORLD.allgather([(message.peer, message.size) for message in messages["receive"]])
    asked = sorted((receiver, size) for receiver, some in enumerate(every) for sender, size in some if sender == RANK)
    assert asked == sorted((message.peer, message.size) for message in messages["send"]), (a, b)
    served = np.array(WORLD.allgather(len(messages["send"])))
    if desc_a.copies > 1:
        assert (np.ptp(served[desc_a.places], axis=-1) <= 1).all(), (a, b, served)


def schedules_by_name() -> None:
    """Every name gives the right elements, or says on all ranks why it does not apply."""
    grid = psr.ProcessGrid((2, SIZE // 2), WORLD)
    a, b = (psr.Descriptor((13, 11), 2, grid, axes=axes) for axes in ((0, None), (None, 0)))
    for name in NAMES:
        if name in ("walker-otto", "phases", "classes"):
            with pytest.raises(psr.ScheduleError, match=f"{name}' is for layouts without copies.*use stepwise"):
                psr.redistribute(a, b, schedule=name)
            continue
        plan = psr.redistribute(a, b, schedule=name)
        assert plan.report().schedule == name
        result = plan(a.from_function(lambda i, j: 100 * i + j))
        assert np.array_equal(result, b.from_function(lambda i, j: 100 * i + j))


def in_place() -> None:
    """Between equal layouts nothing moves; scaled in place, each copy gets the same."""
    grid = psr.ProcessGrid((2, SIZE // 2), WORLD)
    desc = psr.Descriptor((9, 8), 2, grid, axes=(1, None))
    plan = psr.redistribute(desc, desc)
    assert not plan.messages["send"]
    assert not plan.messages["receive"]
    local = desc.from_function(lambda i, j: 10.0 * i + j)
    assert plan(local, local, alpha=3) is local
    assert np.array_equal(local, desc.from_function(lambda i, j: 3 * (10.0 * i + j)))


def arrays_that_know_their_layout() -> None:
    grid = psr.ProcessGrid((2, SIZE // 2), WORLD)
    whole = np.arange(35.0).reshape(5, 7)
    array = psr.distribute(whole if RANK == 0 else None, psr.Descriptor((5, 7), 2, grid, axes=(0, None)))
    assert (f", {SIZE // 2} copies" in repr(array)) == (SIZE > 2)
    assert np.array_equal(array.local, whole[array.desc.global_indices(0)])
    everywhere = array.T.redistribute(block=3, grid=grid, axes=(None, None))
    assert everywhere.desc.copies == grid.size
    assert np.array_equal(everywhere.local, whole.T)
    found = everywhere.gather(SIZE - 1)
    assert (found is None) == (RANK != SIZE - 1)
    assert found is None or np.array_equal(found, whole.T)


def files(folder: Path) -> None:
    """Each element is written once, with `view` that of the first copy; all copies are read."""
    grid = psr.ProcessGrid((2, SIZE // 2), WORLD)
    desc = psr.Descriptor((9, 6), 2, grid, axes=(0, None))
    whole = np.arange(54.0).reshape(9, 6)
    assert grid.coords is not None
    local = desc.from_function(lambda i, j: whole[i, j] + 1000 * grid.coords[1])  # to tell copies apart
    path = folder / "copies.npy"
    for through, part in (("view", desc), ("view", desc[2:7, 1:]), ("slabs", desc)):
        psr.save(part, local, path, through=through)
        WORLD.Barrier()
        wanted = whole if part is desc else whole[2:7, 1:]
        found = np.load(path)
        assert np.array_equal(found % 1000, wanted)
        assert through == "slabs" or found.max() < 1000
        back = part.zeros()
        psr.load(part, path, back, through=through)
        assert np.array_equal(back, part.from_function(lambda i, j, found=found: found[i, j]))
        WORLD.Barrier()


def relabelled() -> None:
    """Copies count as holders; with a node map it is refused."""
    turned = psr.ProcessGrid((SIZE // 2, 2), WORLD)
    grid = psr.ProcessGrid((2, SIZE // 2), WORLD)
    a = psr.Descriptor((8, 8), None, grid, axes=(0, None))
    b = psr.Descriptor((8, 8), None, turned, axes=(1, None))
    made = psr.relabel(a, b)
    assert made.copies == SIZE // 2
    plan = psr.redistribute(a, made)
    assert not plan.messages["send"]
    result = plan(a.from_function(lambda i, j: 10 * i + j))
    assert np.array_equal(result, made.from_function(lambda i, j: 10 * i + j))
    if SIZE > 2:
        with pytest.raises(psr.DescriptorError, match=r"which of its copies a rank reads .*omit nodes"):
            psr.relabel(a, b, nodes=[0] * SIZE)


def main() -> None:
    folder, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for case in range(cases):
        what_is_read(np.random.default_rng([seed, case]))
    if SIZE % 2 == 0:
        if SIZE > 2:
            schedules_by_name()
        in_place()
        arrays_that_know_their_layout()
        files(folder)
        relabelled()
    if RANK == 0:
        print(f"{cases} cases, seed {seed} OK", flush=True)


if __name__ == "__main__":
    main()
