"""LogSteps: maxima and blocks of all ranks, for several radices, with and without blocks on each rank, used several times."""

from __future__ import annotations

import itertools

import numpy as np
from mpi4py import MPI

from pyscalapack_redist.comm.channel import MPIChannel
from pyscalapack_redist.comm.log_steps import LogSteps, Rows, work_of
from pyscalapack_redist.comm.progress import until


def content(source: int, target: int, nbytes: int) -> np.ndarray:
    return np.random.default_rng([source, target]).integers(0, 256, nbytes).astype(np.uint8)


def check(channel: MPIChannel, radix: int, block: int, without: tuple[int, ...], tag: int | None) -> None:
    rank, size = channel.rank, channel.size
    steps = LogSteps(channel, radix, 3, tag=tag)
    for use in range(3):
        steps.largest[:] = rank, -rank, use * (rank == size // 2)
        rows = None
        if rank not in without:
            blocks = np.zeros((size, block), np.uint8)
            lengths = [0] + [block - use] * (size - 1)
            for j, length in enumerate(lengths):
                blocks[j, :length] = content(rank, (rank + j) % size, length)
            rows = Rows(blocks, lengths)
        steps.start(rows, use)
        until(steps.advance)
        assert steps.largest.tolist() == [size - 1, 0, use], (radix, steps.largest)
        if rows is None:
            continue
        for j in range(1, size):
            source = (rank - j) % size
            if source not in without:
                came = rows.blocks[j, : block - use]
                assert np.array_equal(came, content(source, rank, block - use)), (radix, block, source)
    steps.free()


def main() -> None:
    comm = MPI.COMM_WORLD.Dup()
    channel, size = MPIChannel(comm), comm.Get_size()
    ranks = tuple(range(size))
    for radix, block in itertools.product((2, 3, 4, size, size + 3), (8, 1000)):
        for without in ((), (size - 1,), ranks[1:], ranks[::2], ranks):
            for tag in (None, 7):
                check(channel, max(2, radix), block, without, tag)
    for radix in (2, 3, 4, size):
        work = work_of(size, max(2, radix))
        assert (work.messages == 0) == (size == 1)
        assert radix < size or work.messages == work.blocks == size - 1
    comm.Free()
    if channel.rank == 0:
        print("OK")


main()
