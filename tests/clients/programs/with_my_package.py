"""Arrays of a package with an adapter of its own, which is found by its entry point."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
assert "my_package" not in sys.modules

import my_package  # noqa: E402

whole = 10.0 * np.arange(7)[:, None] + np.arange(7) + 50 * np.eye(7)
assert psr.adapters.find(my_package) is None
assert "my_package.redistribution" not in sys.modules
counts = [5, 2]
first = 5 * WORLD.rank
x = my_package.Rows(whole[first : first + counts[WORLD.rank]], counts)
blocks = psr.Descriptor((7, 7), 2, psr.ProcessGrid((1, 2), WORLD))
assert np.array_equal(psr.redistribute(x, blocks).local, whole[:, blocks.global_indices(1)])
y = psr.linalg.inv(x)
assert type(y) is my_package.Rows
assert y.counts == [5, 2]
assert np.allclose(psr.gather(y, None) @ whole, np.eye(7), atol=1e-12)
turned = psr.redistribute(psr.as_distributed(x)[:, 0:4], like=x, op="T")
assert turned.counts == [2, 2]
assert np.array_equal(turned.rows, whole.T[2 * WORLD.rank :][:2])
if WORLD.rank == 0:
    x.rows = x.rows.ravel()
with pytest.raises(psr.RedistributionError, match=r"the rows have shape \(35,\): only matrices are taken"):
    psr.save(x, "nothing.npy")
if WORLD.rank == 0:
    print("OK", flush=True)
