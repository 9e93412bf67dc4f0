"""On slow links all messages are under way at once, in short pieces and in synchronous mode. Each rank is a node."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm.channel import MPIChannel
from pyscalapack_redist.engine.model import SHORTEST_PIECE
from pyscalapack_redist.exchanges.nonblocking import FEW

WORLD = MPI.COMM_WORLD
PEERS = WORLD.size - 1


def pieces_sent(a: psr.Descriptor, b: psr.Descriptor) -> list[tuple[int, int]]:
    """The peer and the bytes of each piece, in the order of sending."""
    plan = psr.redistribute(a, b, dtype=np.float64)
    assert plan.report().exchange in ("windowed", "shared"), plan.report()
    assert plan._group is not None
    channel: Any = plan._group.channel
    assert isinstance(channel, MPIChannel)
    sent: list[tuple[int, int]] = []
    synchronous = channel.send_synchronously

    def send(buffer: Any, peer: int, tag: int) -> MPI.Request:
        sent.append((peer, buffer[1]))
        return synchronous(buffer, peer, tag)

    channel.send_synchronously = send
    try:
        out = plan(a.from_function(lambda i, j: 1000.0 * i + j))
    finally:
        channel.send_synchronously = synchronous
    assert np.array_equal(out, b.from_function(lambda i, j: 1000.0 * i + j))
    return sent


def main() -> None:
    n = 512
    rows = psr.Descriptor((n, n), (1, n), psr.ProcessGrid((WORLD.size, 1), WORLD))
    columns = psr.Descriptor((n, n), (n, 1), psr.ProcessGrid((1, WORLD.size), WORLD))
    sent = pieces_sent(rows, columns)
    message = (n // WORLD.size) ** 2 * 8
    assert Counter(peer for peer, _ in sent) == dict.fromkeys(
        (peer for peer in range(WORLD.size) if peer != WORLD.rank), -(-message // SHORTEST_PIECE)
    )
    assert sum(nbytes for _, nbytes in sent) == PEERS * message
    assert max(nbytes for _, nbytes in sent) <= SHORTEST_PIECE
    at_first = Counter(peer for peer, _ in sent[: FEW * PEERS])  # before any is through
    assert set(at_first.values()) == {FEW}, sent
    WORLD.Barrier()
    if WORLD.rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
