"""ScaLAPACK's routines on distributed arrays do what they do on local arrays and descriptors, and agree with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.scalapack import pxgemr2d, pxgetrf, pxgetrs, pxsyevd, pxtrmr2d

WORLD = MPI.COMM_WORLD
N = 40


def main() -> None:
    size = WORLD.Get_size()
    rng = np.random.default_rng(7)
    whole, sides = rng.standard_normal((N, N)), rng.standard_normal((N, 3))
    flat = psr.ProcessGrid((1, size), WORLD)
    with psr.ProcessGrid((size // 2, 2), WORLD) as square, psr.ProcessGrid((2, size // 2), WORLD) as other:
        square.make_context()
        other.make_context()
        desc = psr.Descriptor((N, N), (6, 6), square)
        before = psr.distribute(whole, psr.Descriptor((N, N), None, flat), root=size - 1)
        a = before.redistribute(desc)
        b = psr.distribute(sides, psr.Descriptor((N, 3), (6, 2), square))
        pivots = pxgetrf(a)
        pxgetrs(a, pivots, b)
        solved = b.gather()
        assert solved is None or np.allclose(solved, np.linalg.solve(whole, sides))
        transposed = psr.distribute(sides, b.desc)
        pxgetrs(a, pivots, transposed, trans="T")
        solved = transposed.gather()
        assert solved is None or np.allclose(solved, np.linalg.solve(whole.T, sides))

        source = before.redistribute(desc)
        target = psr.DistributedArray.from_function(psr.Descriptor((N, N), (5, 7), other), lambda i, j: 0.0 * i)
        pxgemr2d(source[:9, 3:], target[:9, 3:])
        pxtrmr2d(source[20:, 20:], target[20:, 20:], uplo="L")
        expected = np.zeros((N, N))
        expected[:9, 3:] = whole[:9, 3:]
        expected[20:, 20:] = np.tril(whole[20:, 20:])
        found = target.gather()
        assert found is None or np.array_equal(found, expected)

        values, vectors = pxsyevd(before.redistribute(desc))
        assert np.allclose(values, np.linalg.eigvalsh(whole, "L"))
        columns = psr.DistributedArray(desc, vectors).gather()
        assert columns is None or np.allclose(columns.T @ columns, np.eye(N))
        with pytest.raises(psr.DescriptorError, match="has no ScaLAPACK descriptor"):
            pxgetrf(a.T)
        if size > 2:
            with pytest.raises(psr.ArrayError, match="which ScaLAPACK cannot take"):
                pxgetrf(psr.DistributedArray(desc, desc.zeros(order="C")))
    if WORLD.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
