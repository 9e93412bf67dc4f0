"""A matrix is moved into a relabelled grid, factored and solved there by the real library, and compared with NumPy."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.scalapack import routines as scalapack

N = 60


def main() -> None:
    world = MPI.COMM_WORLD
    size = world.Get_size()
    shape = {1: (1, 1), 2: (1, 2), 4: (2, 2), 6: (2, 3)}[size]
    rng = np.random.default_rng(5)
    whole, sides = rng.standard_normal((N, N)), rng.standard_normal((N, 2))
    column = psr.ProcessGrid(shape, world, order="column")
    row = psr.ProcessGrid(shape, world, ranks=np.roll(np.arange(size), 1).reshape(shape))
    before = psr.Descriptor((N, N), (4, 4), column)
    report = psr.relabel_report(before, psr.Descriptor((N, N), (8, 8), row, source=(0, shape[1] - 1)))
    desc = report.descriptor
    assert size == 1 or (report.saved > 0 and report.relabelled), str(report)
    with desc.grid:
        desc.grid.make_context()
        desc_b = psr.Descriptor((N, 2), (8, 1), desc.grid)
        a = psr.redistribute(before, desc)(before.from_function(lambda i, j: whole[i, j]))
        x = desc_b.from_function(lambda i, j: sides[i, j])
        assert psr.Descriptor.from_array(desc.to_array(), world) == desc
        pivots = scalapack.pxgetrf(a, desc)
        scalapack.pxgetrs(a, desc, pivots, x, desc_b)
        expected = np.linalg.solve(whole, sides)
        wanted = desc_b.from_function(lambda i, j: expected[i, j])
        assert np.abs(x - wanted).max(initial=0) < 1e-10 * np.abs(expected).max()
    if world.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
