"""The public collective calls, of the table of operations: what all ranks do before, and the call that one rank makes alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr

sys.path.insert(0, str(Path(__file__).parent / "hostile"))
from operands import SHAPES, Setting, drawn, made
from operations import OPERATIONS, Operation, Scene

ORDER, BLOCK = 12, 2
OTHERS = ("DistributedArray.__add__ of another layout",)
TABLE: dict[str, Operation] = {
    name: row for name, row in OPERATIONS.items() if not row.is_local and (" " not in name or name in OTHERS)
}


def scene_of(row: Operation, comm: MPI.Intracomm, folder: Path, number: int) -> Scene:
    """What a call finds, with ordinary operands; all is done that comes before it. Collective."""
    rng = np.random.default_rng(number)
    operands = {
        name: made(Setting(layout="columns" if kind == "target" else LAYOUT_OF.get(kind, "blocks")), whole, comm)
        for name, kind in zip("abc", row.kinds.split(), strict=False)
        for whole in [drawn(kind, SHAPES["usual"][2], Setting(), rng)]
    }
    scene = Scene(comm, folder, number, **operands)
    scene.value = row.before(scene)
    return scene


LAYOUT_OF = {"rows": "balanced blocks"}


class Row(NamedTuple):
    """A call that is the first one over its ranks: with the communicator, after what is done before."""

    call: Callable[[Path, Any], object]
    before: Callable[[MPI.Intracomm], Any]


def make_two_sides(comm: MPI.Intracomm) -> tuple[MPI.Intercomm, psr.Descriptor]:
    """An inter-communicator of two sides of equal size, and a layout on the own one."""
    size = comm.Get_size()
    half, side = size // 2, comm.Get_rank() * 2 // size
    own = comm.Split(side, comm.Get_rank())
    return own.Create_intercomm(0, comm, 0 if side else half, 7), psr.Descriptor(
        (ORDER, ORDER), BLOCK, psr.ProcessGrid((own.Get_size(), 1), own)
    )


def call_on(comm: MPI.Intracomm) -> object:
    grids = psr.ProcessGrid((comm.Get_size(), 1), comm), psr.ProcessGrid((1, comm.Get_size()), comm)
    return psr.redistribute(*(psr.Descriptor((ORDER, ORDER), BLOCK, grid) for grid in grids))


def call_between(sides: tuple[MPI.Intercomm, psr.Descriptor]) -> object:
    comm, desc = sides
    first = MPI.Group.Translate_ranks(comm.Get_group(), [0], MPI.COMM_WORLD.Get_group())[0] == 0
    return psr.redistribute(desc if first else None, None if first else desc, comm=comm)


# Calls that are the first over their ranks, so MPI makes a communicator, and does not tell for whom it waits.
FIRST: dict[str, Row] = {
    "redistribute": Row(lambda _, comm: call_on(comm), MPI.Intracomm.Dup),
    "ProcessGrid.make_context": Row(
        lambda _, comm: psr.ProcessGrid((1, comm.Get_size()), comm).make_context(), MPI.Intracomm.Dup
    ),
    "connect": Row(lambda path, comm: psr.connect(path, comm, timeout=1), MPI.Intracomm.Dup),
    "shape_of": Row(lambda path, comm: psr.shape_of(path, comm=comm), MPI.Intracomm.Dup),
    "blacs.free_context": Row(
        lambda _, ctxt: psr.blacs.free_context(ctxt),
        lambda comm: psr.blacs.make_context(comm, (1, comm.Get_size()), range(comm.Get_size())),
    ),
}


ALWAYS_FIRST = ("blacs.free_context",)  # over the ranks of a communicator of BLACS's, which it frees


def folder_of(arguments: list[str]) -> Path:
    """The folder for files, which all ranks see."""
    folder = Path(arguments[1])
    os.makedirs(folder, exist_ok=True)
    return folder
