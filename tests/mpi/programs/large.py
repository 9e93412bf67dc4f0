"""More than 2^31 elements on a rank, and messages of more than 2^31 bytes. Two ranks; 9 GB in all.

Every element is compared with what its position says, line by line: nothing of an array's size is made for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

Bytes = NDArray[np.uint8]

MOST_32 = 2**31
POISON = 0xA5
COMM = MPI.COMM_WORLD
RANK = COMM.Get_rank()


def check_size(plan: psr.Redistribution, local: Bytes, messages: int) -> None:
    """`local` and, somewhere, that many messages are as large as this test is about."""
    sent = sum(message.size > MOST_32 for message in plan.messages["send"])
    assert COMM.allreduce(sent) == messages
    assert COMM.allreduce(local.size, MPI.MAX) > MOST_32


# Columns of A on two ranks, rows of B on two ranks, nearly all on rank 0 before and on rank 1 after.
ROWS, COLUMNS = 700_001, 3_173
LEFT, TOP = 3_121, 689_981  # columns of A on rank 0, rows of B on rank 1
ROW, COLUMN = (np.random.default_rng(k).integers(256, size=n, dtype=np.uint8) for k, n in enumerate((ROWS, COLUMNS)))


def columns_of(local: Bytes, rows: slice, columns: slice) -> Iterator[tuple[Bytes, Bytes]]:
    """Each column of a local array, and what it must be: element (i, j) is ROW[i] + COLUMN[j]."""
    along = ROW[rows]
    expected = np.empty_like(along)
    for column, value in zip(local.T, COLUMN[columns], strict=True):
        yield column, np.add(along, value, out=expected)


def matrix() -> None:
    a = psr.Descriptor((ROWS, COLUMNS), (ROWS, LEFT), psr.ProcessGrid((1, 2), COMM))
    b = psr.Descriptor((ROWS, COLUMNS), (TOP, COLUMNS), psr.ProcessGrid((2, 1), COMM), source=(1, 0))
    rows, columns = (slice(TOP, None), slice(0, TOP))[RANK], (slice(0, LEFT), slice(LEFT, None))[RANK]
    local_a: Bytes = np.empty(a.local_shape, np.uint8, order="F")
    out: Bytes = np.empty(b.local_shape, np.uint8, order="F")
    for line, value in columns_of(local_a, slice(None), columns):
        line[:] = value
    for exchange, buffers in (
        ("shared", "packed"),
        ("nonblocking", "packed"),
        ("alltoallv", "packed"),
        ("nonblocking", "datatypes"),
    ):
        out.fill(POISON)
        plan = psr.redistribute(a, b, exchange=exchange, buffers=buffers)
        assert plan(local_a, out) is out
        check_size(plan, local_a, 1)
        assert all(np.array_equal(line, value) for line, value in columns_of(out, rows, slice(None)))


# A vector in blocks, moved on by one element to blocks on the other rank: runs of all but one element of each block.
BLOCK = 163_819
BLOCKS = MOST_32 // (BLOCK - 1) + 2  # on each rank
PERIOD = 1_000_003  # of the values: a prime, so that no distance of a power of two goes unseen
VALUE = np.resize(np.random.default_rng(2).integers(256, size=PERIOD, dtype=np.uint8), PERIOD + BLOCK)


def blocks(local: Bytes, process: int, distance: int) -> Iterator[tuple[Bytes, Bytes]]:
    """Each block of a process, and what it must be when element i has come from i - distance."""
    for number, block in enumerate(local.reshape(BLOCKS, BLOCK)):
        first = ((2 * number + process) * BLOCK - distance) % PERIOD
        yield block, VALUE[first : first + BLOCK]


def vector() -> None:
    n = 2 * BLOCKS * BLOCK
    grids = (psr.ProcessGrid((2,), COMM, ranks=ranks) for ranks in ([0, 1], [1, 0]))
    a, b = (psr.Descriptor((n,), (BLOCK,), grid) for grid in grids)
    local_a, out = np.empty(a.local_shape, np.uint8), np.empty(b.local_shape, np.uint8)
    for block, value in blocks(local_a, RANK, 0):
        block[:] = value
    for exchange, buffers in (("shared", "packed"), ("nonblocking", "datatypes")):
        out.fill(POISON)
        plan: Any = psr.redistribute(a[: n - 1], b[1:], exchange=exchange, buffers=buffers)
        plan(local_a, out)
        check_size(plan, local_a, 2)
        if RANK == 1:
            assert out[0] == POISON, "element 0 was not to be written"
            out[0] = VALUE[PERIOD - 1]
        assert all(np.array_equal(block, value) for block, value in blocks(out, 1 - RANK, 1))


def main() -> None:
    matrix()
    vector()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
