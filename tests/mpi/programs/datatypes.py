"""Derived datatypes of random boxes, in arrays of any strides, list the elements that the packing loops list, in order.

Arguments: number of cases, seed.
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

from pyscalapack_redist._kernels.boxes import Box
from pyscalapack_redist._kernels.runs import Runs
from pyscalapack_redist.exchanges import datatypes
from pyscalapack_redist.exchanges.buffers import memory_at


def random_runs(rng: np.random.Generator) -> Runs:
    """Runs of equal or of different lengths and distances, over whole periods or not."""
    n = int(rng.integers(1, 6))
    length = rng.integers(1, 5, n) if rng.random() < 0.6 else np.full(n, rng.integers(1, 4))
    gaps = rng.integers(0, 4, (2, n)) if rng.random() < 0.6 else np.repeat(rng.integers(0, 4, (2, 1)), n, axis=1)
    x, y = (rng.integers(0, 4) + np.cumsum(length + gap) - length - gap for gap in gaps)
    periods = [int(side[-1] + length[-1] + rng.integers(0, 3)) for side in (x, y)]
    return Runs(x, y, length, *periods, int(rng.integers(1, 3 * length.sum() + 1)))


def check_case(rng: np.random.Generator) -> None:
    dimensions = int(rng.integers(1, 5))
    box = Box([random_runs(rng) for _ in range(dimensions)])
    item, order = int(rng.integers(1, 30)), tuple(rng.permutation(dimensions).tolist())
    for target in (False, True):
        extent = tuple(int(runs.expand()[:, int(target)].max()) + 1 for runs in box.runs)
        room = tuple(n * int(rng.integers(1, 3)) for n in extent)
        layout = rng.permutation(dimensions)
        whole = rng.integers(0, 256, (*np.array(room)[layout], item), np.uint8).view(f"V{item}")[..., 0]
        whole = whole.transpose(np.argsort(layout))
        array = whole[tuple(slice(None, None, sign) for sign in rng.choice([1, -1], dimensions))]
        address = array.__array_interface__["data"][0]
        packed = np.empty(box.size * item, np.uint8)
        made = datatypes.box_type(box, target, array.strides, item, order)
        assert made.Get_size() == packed.size
        MPI.COMM_SELF.Sendrecv((memory_at(address), 1, made), 0, 0, (packed, packed.size, MPI.BYTE), 0, 0)
        made.Free()
        places = [runs.expand()[:, int(target)] for runs in box.runs]
        expected = array[np.ix_(*places)].transpose(order[::-1]).tobytes()
        assert packed.tobytes() == expected, (box.shape(), item, order, array.strides, target)


def check_without_gaps() -> None:
    """Elements side by side are a contiguous type: MPICH copies the elements of a vector singly, bytes 15 times slower."""
    array = np.empty((7, 4), np.uint8, order="F")
    every = [Runs(np.array([0]), np.array([0]), np.array([n]), n, n, n) for n in array.shape]
    column = datatypes.box_type(
        Box([every[0], Runs(*np.zeros((2, 1), int), np.array([1]), 1, 1, 1)]), False, (1, 7), 1, (0, 1)
    )
    assert column.combiner == MPI.COMBINER_CONTIGUOUS
    column.Free()
    whole = datatypes.box_type(Box(every), False, array.strides, 1, (0, 1))
    assert whole.combiner == MPI.COMBINER_CONTIGUOUS
    whole.Free()
    gaps = datatypes.box_type(Box(every), False, (2, 14), 1, (0, 1))
    assert gaps.combiner == MPI.COMBINER_HVECTOR
    gaps.Free()


def main() -> None:
    check_without_gaps()
    cases, seed = int(sys.argv[1]), int(sys.argv[2])
    for largest in (datatypes.LARGEST_COUNT, 3):  # the second as if counts ended there
        datatypes.LARGEST_COUNT = largest
        for case in range(cases):
            check_case(np.random.default_rng([seed, case]))
    print("OK", flush=True)


if __name__ == "__main__":
    main()
