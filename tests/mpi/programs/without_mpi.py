"""MPI is not initialized, or has been finalized: public calls raise, and say what to do.

One process, without mpiexec, and with MPI4PY_RC_INITIALIZE=0. Argument: a folder.
"""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from collective_calls import TABLE, folder_of, scene_of
from mpi4py import MPI
from operations import OPERATIONS, Scene

import pyscalapack_redist as psr
from pyscalapack_redist.tools import cli

WORLD, SELF = MPI.COMM_WORLD, MPI.COMM_SELF
NINE = [1, 0, 12, 12, 2, 2, 0, 0, 12]
# What takes a communicator, by itself or as a default.
BEFORE: dict[str, Callable[[Path], object]] = {
    "ProcessGrid": lambda _: psr.ProcessGrid((1, 1), WORLD),
    "ProcessGrid.from_context": lambda _: psr.ProcessGrid.from_context(0, WORLD),
    "Descriptor.from_array": lambda _: psr.Descriptor.from_array(NINE, WORLD),
    "Tiles": lambda _: psr.Tiles([0, 4], [0, 4], [[0]], WORLD),
    "redistribute": lambda _: psr.redistribute(NINE, None, comm=WORLD),
    "redistribute an array": lambda _: psr.redistribute(np.zeros(3), NINE, comm=WORLD),
    "plan": lambda _: psr.plan(None, NINE, comm=WORLD),
    "scatter": lambda _: psr.scatter(NINE, None, comm=WORLD),
    "gather": lambda _: psr.gather(NINE, None, comm=WORLD),
    "as_distributed": lambda _: psr.as_distributed(object()),
    "layout_of": lambda _: psr.layout_of(object()),
    "copy_to": lambda _: psr.copy_to(object(), object()),
    "load": lambda folder: psr.load(NINE, folder / "a.npy", comm=WORLD),
    "save": lambda folder: psr.save(NINE, np.zeros(3), folder / "a.npy", comm=WORLD),
    "shape_of": lambda folder: psr.shape_of(folder / "a.npy", comm=WORLD),
    "dtype_of": lambda folder: psr.dtype_of(folder / "a.npy", comm=WORLD),
    "accept": lambda folder: psr.accept(folder / "meet", WORLD, timeout=1),
    "connect": lambda folder: psr.connect(folder / "meet", WORLD, timeout=1),
    "linalg.layout_for": lambda _: psr.linalg.layout_for("solve", (9, 9), WORLD),
    "scalapack.pxgetrf": lambda _: psr.scalapack.pxgetrf(None, NINE, comm=WORLD),
    "blacs.make_context": lambda _: psr.blacs.make_context(WORLD, (1, 1), [0]),
    "blacs.free_context": lambda _: psr.blacs.free_context(0),
    "blacs.context_grid": lambda _: psr.blacs.context_grid(0, WORLD),
    "blacs.missing_from_context": lambda _: psr.blacs.missing_from_context(0, WORLD, [0]),
    "Phases.max": lambda _: psr.Phases().max(WORLD),
    "relabel": lambda _: psr.relabel(NINE, NINE, comm=WORLD),
}
# Calls that are not collective, on layouts and arrays that were made while MPI ran.
AFTER: dict[str, Callable[[Scene], object]] = {
    "Descriptor.on": lambda s: s.desc.on(SELF),
    "ProcessGrid.context": lambda s: s.grid.context,
    "Descriptor.to_array": lambda s: s.desc.to_array(),
    "pickle": lambda s: pickle.loads(pickle.dumps(s.desc)),
    "relabel": lambda s: psr.relabel(s.desc, s.target),
    "relabel_report": lambda s: psr.relabel_report(s.desc, s.target),
    "array @ array": lambda s: s.a @ s.a,
    "linalg.layout_for": lambda s: psr.linalg.layout_for("solve", (9, 9), s.comm),
}
LOCAL: dict[str, Callable[[Scene], object]] = {
    "repr": lambda s: (repr(s.desc), repr(s.plan), repr(s.a), str(s.plan.report())),
    "new arrays": lambda s: (s.desc.empty(), s.desc.zeros(), s.desc.from_function(np.add)),
    "operators": lambda s: 2 * s.a + s.a / 2 - s.a.T.T,
    "equal": lambda s: s.desc == s.desc,
    "messages": lambda s: s.plan.messages,
    "close": lambda s: s.grid.close(),
}


def refused(name: str, words: str, call: Callable[[], object]) -> None:
    with pytest.raises(psr.RedistributionError) as caught:
        print(name, call())
    assert words in str(caught.value), (name, caught.value)


def before_init(folder: Path) -> None:
    for name, call in BEFORE.items():
        words = "MPI has not been initialized, as mpi4py.rc.initialize = False or MPI4PY_RC_INITIALIZE=0 has it: call"
        refused(name, words, lambda call=call: call(folder))  # type: ignore[misc]
    paper = psr.redistribute(*(psr.Descriptor((9, 9), 2, psr.ProcessGrid(shape)) for shape in ((2, 2), (4, 1))))
    assert paper.report()
    assert psr.shape_of(folder / "a.npy") == (12, 12)
    assert cli.run(["bench", "--shape", "8", "8", "--from", "1x1:2x2", "--to", "1x1:2x2"]) == cli.BAD_USAGE
    assert cli.run(["info"]) == 0


def after_finalize(folder: Path) -> None:
    """Calls of each row of the table, for which all had been prepared."""
    scenes = [scene_of(row, SELF.Dup(), folder, number) for number, row in enumerate(TABLE.values())]
    other = scene_of(OPERATIONS["scalapack.pxgemm"], WORLD, folder, len(TABLE))
    assert other.grid.has_context
    assert other.plan
    MPI.Finalize()
    words = "MPI has been finalized"
    for (name, row), scene in zip(TABLE.items(), scenes, strict=True):
        if name == "ProcessGrid.close":
            row.call(scene)  # nothing is left to free
        elif name == "tools.cli.run":
            assert row.call(scene) == cli.BAD_USAGE
        else:
            refused(name, words, lambda row=row, scene=scene: row.call(scene))  # type: ignore[misc]
    for name, call in AFTER.items():
        refused(name, words, lambda call=call: call(other))  # type: ignore[misc]
    for call in LOCAL.values():
        call(other)
    with pytest.raises(psr.ArrayError, match="has shape"):
        psr.DistributedArray(other.desc, np.zeros((3, 3)))


def main() -> None:
    folder = folder_of(sys.argv)
    np.save(folder / "a.npy", np.ones((12, 12)))
    before_init(folder)
    MPI.Init()
    after_finalize(folder)
    gc.collect()
    print("OK", flush=True)


if __name__ == "__main__":
    main()
