"""A table of the public collective calls: what all ranks do before, and the call, which one rank makes alone.

`tests/unit/test_rules.py` sees that it has all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist import blacs, linalg, scalapack
from pyscalapack_redist.tools import cli

ORDER, BLOCK = 12, 2


class Scene:
    """Layouts and arrays on a communicator, whose ranks have redistributed on it. The constructor is collective."""

    def __init__(self, comm: MPI.Intracomm, folder: Path, number: int) -> None:
        self.comm, self.size = comm, comm.Get_size()
        self.path = folder / f"{number}.npy"
        self.grid, other = psr.ProcessGrid((self.size, 1), comm), psr.ProcessGrid((1, self.size), comm)
        self.grid.make_context()
        self.desc = psr.Descriptor((ORDER, ORDER), BLOCK, self.grid)
        self.columns = psr.Descriptor((ORDER, ORDER), BLOCK, other)
        self.local = self.desc.from_function(lambda i, j: np.where(i == j, 20.0, 1 / (1 + i + j)))
        self.a = psr.DistributedArray(self.desc, self.local)
        self.plan: Any = psr.redistribute(self.desc, self.columns)
        self.plan(self.local)
        if comm.Get_rank() == 0:
            np.save(self.path, np.ones((ORDER, ORDER)))

    def copy(self) -> psr.DistributedArray:
        """An array for a routine that overwrites it."""
        return self.a.copy()


def nothing(scene: Scene) -> None:
    """Nothing is done before."""


class Row(NamedTuple):
    """A call. `words` is what a report calls it, by default its name with brackets."""

    call: Callable[[Scene, Any], object]
    before: Callable[[Scene], Any] = nothing
    words: str = ""


PLAN = "Redistribution(Descriptor(12 x 12"


def bench(scene: Scene) -> object:
    """The command line on the communicator in place of COMM_WORLD."""
    case = ["--shape", "8", "8", "--from", "1x1:2x2", "--to", "1x1:2x2", "--methods", "memcpy"]
    with mock.patch.object(MPI, "COMM_WORLD", scene.comm):
        return cli.run(["bench", *case])


def bound(scene: Scene) -> Any:
    """A grid with a context of its own."""
    grid = psr.ProcessGrid((1, scene.size), scene.comm)
    grid.make_context()
    return grid


def contexts(scene: Scene) -> int:
    return blacs.make_context(scene.comm, (1, scene.size), range(scene.size))


def phases(scene: Scene) -> psr.Phases:
    with psr.timings() as recorded:
        scene.plan(scene.local)
    return recorded


def factored(scene: Scene) -> tuple[psr.DistributedArray, Any]:
    a = scene.copy()
    return a, scalapack.pxgetrf(a)


def reflected(scene: Scene) -> tuple[psr.DistributedArray, Any]:
    a = scene.copy()
    return a, scalapack.pxgeqrf(a)


def bidiagonalized(scene: Scene) -> tuple[psr.DistributedArray, Any]:
    a = scene.copy()
    return a, scalapack.pxgebrd(a).tau_q


def tridiagonalized(scene: Scene) -> tuple[psr.DistributedArray, Any]:
    a = scene.copy()
    return a, scalapack.pxsytrd(a).tau


TABLE: dict[str, Row] = {
    "Descriptor.from_array": Row(lambda s, nine: psr.Descriptor.from_array(nine, s.comm), lambda s: np.asarray(s.desc)),
    "DistributedArray.__add__": Row(
        lambda s, b: s.a + b, lambda s: s.a.redistribute(block=3), words="Distributed.__add__()"
    ),
    "DistributedArray.__getitem__": Row(lambda s, _: s.a[0, 1]),
    "DistributedArray.__setitem__": Row(lambda s, b: s.a.copy().__setitem__(..., b), lambda s: s.a.redistribute(s.columns)),
    "DistributedArray.all": Row(lambda s, _: s.a.all()),
    "DistributedArray.any": Row(lambda s, _: s.a.any()),
    "DistributedArray.argmax": Row(lambda s, _: s.a.argmax()),
    "DistributedArray.argmin": Row(lambda s, _: s.a.argmin()),
    "DistributedArray.diagonal": Row(lambda s, _: s.a.diagonal()),
    "DistributedArray.gather": Row(lambda s, _: s.a.gather()),
    "DistributedArray.load": Row(lambda s, _: psr.DistributedArray.load(s.desc, s.path)),
    "DistributedArray.max": Row(lambda s, _: s.a.max()),
    "DistributedArray.mean": Row(lambda s, _: s.a.mean()),
    "DistributedArray.std": Row(lambda s, _: s.a.std()),
    "DistributedArray.var": Row(lambda s, _: s.a.var()),
    "DistributedArray.min": Row(lambda s, _: s.a.min()),
    "DistributedArray.redistribute": Row(lambda s, _: s.a.redistribute(s.columns)),
    "DistributedArray.save": Row(lambda s, _: s.a.save(s.path)),
    "DistributedArray.sum": Row(lambda s, _: s.a.sum()),
    "DistributedArray.trace": Row(lambda s, _: s.a.trace()),
    "Phases.max": Row(lambda s, recorded: recorded.max(s.comm), phases),
    "ProcessGrid.close": Row(lambda s, grid: grid.close(), bound),
    "ProcessGrid.from_context": Row(lambda s, _: psr.ProcessGrid.from_context(s.grid.context, s.comm)),
    "ProcessGrid.make_context": Row(lambda s, _: psr.ProcessGrid((1, s.size), s.comm).make_context()),
    "Redistribution.__call__": Row(lambda s, _: s.plan(s.local), words=PLAN),
    "Redistribution.profile": Row(lambda s, _: s.plan.profile(s.local), words=PLAN),
    "Redistribution.report": Row(lambda s, _: s.plan.report(all_ranks=True)),
    "Redistribution.start": Row(lambda s, _: s.plan.start(s.local).wait(), words=PLAN),
    "Transfer.wait": Row(lambda s, _: s.plan.start(s.local, s.columns.empty()).wait(), words=PLAN),
    "accept": Row(lambda s, _: psr.accept(s.path, s.comm, timeout=1)),
    "as_distributed": Row(lambda s, _: psr.as_distributed((s.desc, s.local), s.comm)),
    "batch": Row(lambda s, _: psr.batch(s.plan, s.plan)),
    "blacs.free_context": Row(lambda s, ctxt: blacs.free_context(ctxt), contexts),
    "blacs.make_context": Row(lambda s, _: contexts(s)),
    "connect": Row(lambda s, _: psr.connect(s.path, s.comm, timeout=1)),
    "copy_to": Row(lambda s, _: psr.copy_to(s.a, s.copy())),
    "distribute": Row(lambda s, _: psr.distribute(np.ones((ORDER, ORDER)), s.desc)),
    "dtype_of": Row(lambda s, _: psr.dtype_of(s.path, comm=s.comm)),
    "from_local": Row(lambda s, _: psr.from_local(s.local, s.comm)),
    "gather": Row(lambda s, _: psr.gather(s.desc, s.local)),
    "layout_of": Row(lambda s, _: psr.layout_of((s.desc, s.local), s.comm)),
    "load": Row(lambda s, _: psr.load(s.desc, s.path)),
    "plan": Row(lambda s, _: psr.plan(s.desc, s.columns, schedule="natural")),
    "redistribute": Row(lambda s, _: psr.redistribute(s.desc, s.columns, schedule="natural")),
    "save": Row(lambda s, _: psr.save(s.desc, s.local, s.path)),
    "scatter": Row(lambda s, _: psr.scatter(s.desc, np.ones((ORDER, ORDER)))),
    "shape_of": Row(lambda s, _: psr.shape_of(s.path, comm=s.comm)),
    "tools.cli.run": Row(lambda s, _: bench(s), words="pyscalapack-redist"),
    "linalg.cho_factor": Row(lambda s, _: linalg.cho_factor(s.a)),
    "linalg.cho_solve": Row(lambda s, c: linalg.cho_solve(c, s.a), lambda s: linalg.cho_factor(s.a)),
    "linalg.cholesky": Row(lambda s, _: linalg.cholesky(s.a)),
    "linalg.cond": Row(lambda s, _: linalg.cond(s.a)),
    "linalg.det": Row(lambda s, _: linalg.det(s.a)),
    "linalg.eigh": Row(lambda s, _: linalg.eigh(s.a)),
    "linalg.eigvalsh": Row(lambda s, _: linalg.eigvalsh(s.a)),
    "linalg.inv": Row(lambda s, _: linalg.inv(s.a)),
    "linalg.lstsq": Row(lambda s, _: linalg.lstsq(s.a, s.a)),
    "linalg.lu_factor": Row(lambda s, _: linalg.lu_factor(s.a)),
    "linalg.lu_solve": Row(lambda s, lu: linalg.lu_solve(lu, s.a), lambda s: linalg.lu_factor(s.a)),
    "linalg.matmul": Row(lambda s, _: linalg.matmul(s.a, s.a)),
    "linalg.matrix_rank": Row(lambda s, _: linalg.matrix_rank(s.a)),
    "linalg.norm": Row(lambda s, _: linalg.norm(s.a)),
    "linalg.pinv": Row(lambda s, _: linalg.pinv(s.a)),
    "linalg.qr": Row(lambda s, _: linalg.qr(s.a)),
    "linalg.slogdet": Row(lambda s, _: linalg.slogdet(s.a)),
    "linalg.solve": Row(lambda s, _: linalg.solve(s.a, s.a)),
    "linalg.solve_triangular": Row(lambda s, _: linalg.solve_triangular(s.a, s.a)),
    "linalg.svd": Row(lambda s, _: linalg.svd(s.a)),
    "linalg.svdvals": Row(lambda s, _: linalg.svdvals(s.a)),
    "scalapack.pxgebrd": Row(lambda s, _: scalapack.pxgebrd(s.copy())),
    "scalapack.pxgels": Row(lambda s, _: scalapack.pxgels(s.copy(), s.copy())),
    "scalapack.pxgemm": Row(lambda s, _: scalapack.pxgemm(s.a, s.a, s.copy())),
    "scalapack.pxgemr2d": Row(lambda s, _: scalapack.pxgemr2d(s.a, s.copy())),
    "scalapack.pxgeqrf": Row(lambda s, _: scalapack.pxgeqrf(s.copy())),
    "scalapack.pxgesvd": Row(lambda s, _: scalapack.pxgesvd(s.copy())),
    "scalapack.pxgetrf": Row(lambda s, _: scalapack.pxgetrf(s.copy())),
    "scalapack.pxgetri": Row(lambda s, lu: scalapack.pxgetri(*lu), factored),
    "scalapack.pxgetrs": Row(lambda s, lu: scalapack.pxgetrs(*lu, s.copy()), factored),
    "scalapack.pxlange": Row(lambda s, _: scalapack.pxlange(s.a)),
    "scalapack.pxorgqr": Row(lambda s, qr: scalapack.pxorgqr(*qr, ORDER, ORDER), reflected),
    "scalapack.pxormbr": Row(lambda s, q: scalapack.pxormbr(*q, s.copy()), bidiagonalized),
    "scalapack.pxormqr": Row(lambda s, qr: scalapack.pxormqr(*qr, s.copy()), reflected),
    "scalapack.pxormtr": Row(lambda s, q: scalapack.pxormtr(*q, s.copy(), "L"), tridiagonalized),
    "scalapack.pxpotrf": Row(lambda s, _: scalapack.pxpotrf(s.copy())),
    "scalapack.pxpotrs": Row(lambda s, _: scalapack.pxpotrs(s.a, s.copy())),
    "scalapack.pxstedc": Row(lambda s, _: scalapack.pxstedc(s.copy(), np.ones(ORDER), np.ones(ORDER - 1))),
    "scalapack.pxsyev": Row(lambda s, _: scalapack.pxsyev(s.copy())),
    "scalapack.pxsyevd": Row(lambda s, _: scalapack.pxsyevd(s.copy())),
    "scalapack.pxsygst": Row(lambda s, _: scalapack.pxsygst(s.copy(), s.a)),
    "scalapack.pxsytrd": Row(lambda s, _: scalapack.pxsytrd(s.copy())),
    "scalapack.pxtrmm": Row(lambda s, _: scalapack.pxtrmm(s.a, s.copy())),
    "scalapack.pxtrmr2d": Row(lambda s, _: scalapack.pxtrmr2d(s.a, s.copy(), uplo="U")),
    "scalapack.pxtrsm": Row(lambda s, _: scalapack.pxtrsm(s.a, s.copy())),
}


def make_first_call(scene: Scene) -> MPI.Intracomm:
    """A communicator on which there has been no call."""
    return scene.comm.Dup()


def make_two_sides(scene: Scene) -> tuple[MPI.Intercomm, psr.Descriptor]:
    """An inter-communicator of two sides of equal size, and a layout on the own one."""
    half, side = scene.size // 2, scene.comm.Get_rank() * 2 // scene.size
    own = scene.comm.Split(side, scene.comm.Get_rank())
    return own.Create_intercomm(0, scene.comm, 0 if side else half, 7), psr.Descriptor(
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
    "redistribute": Row(lambda s, comm: call_on(comm), make_first_call),
    "ProcessGrid.make_context": Row(lambda s, comm: psr.ProcessGrid((1, s.size), comm).make_context(), make_first_call),
    "connect": Row(lambda s, comm: psr.connect(s.path, comm, timeout=1), make_first_call),
    "shape_of": Row(lambda s, comm: psr.shape_of(s.path, comm=comm), make_first_call),
    "blacs.free_context": TABLE["blacs.free_context"],
}


ALWAYS_FIRST = ("blacs.free_context",)  # over the ranks of a communicator of BLACS's, which it frees


def folder_of(arguments: list[str]) -> Path:
    """The folder for files, which all ranks see."""
    folder = Path(arguments[1])
    os.makedirs(folder, exist_ok=True)
    return folder
