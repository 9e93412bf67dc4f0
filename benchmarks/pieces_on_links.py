"""How a long message is best sent over a slow link, with mpi4py alone: whole or in pieces, in standard or in synchronous mode.

Between hosts, one rank on each; every byte is verified in every round:

    mpiexec -n 16 python -m mpi4py benchmarks/pieces_on_links.py --rate 50mbit --megabytes 2.1 4.9

In `pairs` rank 2 k and rank 2 k + 1 send to each other, in `ring` every rank to the next. Times are multiples of what the bytes
take at the links' rate, minimum / median of all rounds, in which the ways take turns.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from typing import NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from pyscalapack_redist.tools.units import bytes_per_second

WORLD = MPI.COMM_WORLD


class Way(NamedTuple):
    """How a message goes.

    Attributes
    ----------
    name : str
        In words.
    piece : int or None
        Bytes of a piece; None for the whole message.
    window : int
        Pieces being sent, and receives posted.
    synchronous : bool
        Whether a piece has been sent only when its receive has begun.
    """

    name: str
    piece: int | None
    window: int
    synchronous: bool


WAYS = (
    Way("whole", None, 1, False),
    Way("8 of 65 kB, standard mode", 65_000, 8, False),
    Way("8 of 65 kB, synchronous mode", 65_000, 8, True),
    Way("2 of 65 kB, synchronous mode", 65_000, 2, True),
    Way("8 of 16 kB, synchronous mode", 16_000, 8, True),
    Way("4 of 16 kB, synchronous mode", 16_000, 4, True),
)


def exchange(way: Way, out: NDArray[np.uint8], into: NDArray[np.uint8], to: int, source: int) -> None:
    """Send `out`, and receive as much."""
    piece = way.piece or len(out)
    sends, receives = (iter([array[at : at + piece] for at in range(0, len(out), piece)]) for array in (out, into))
    send = WORLD.Issend if way.synchronous else WORLD.Isend

    def started(slot: int) -> MPI.Request:
        part = next(sends if slot < way.window else receives, None)
        if part is None:
            return MPI.REQUEST_NULL
        return send(part, to) if slot < way.window else WORLD.Irecv(part, source)

    requests = [started(slot) for slot in range(2 * way.window)]
    while (slot := MPI.Request.Waitany(requests)) != MPI.UNDEFINED:
        requests[slot] = started(slot)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", required=True, type=bytes_per_second, help="of a link, each way: 50mbit")
    parser.add_argument("--megabytes", nargs="+", type=float, default=[2.1], help="that every rank sends")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    me, ranks = WORLD.rank, WORLD.size
    if ranks % 2:
        parser.error(f"{ranks} ranks: there must be an even number of them, for pairs")
    peers = {"pairs": (me ^ 1, me ^ 1), "ring": ((me + 1) % ranks, (me - 1) % ranks)}
    for megabytes in options.megabytes:
        length = int(1e6 * megabytes)
        out, into = (np.arange(length) % 251 + me).astype(np.uint8), np.empty(length, np.uint8)
        spent: dict[tuple[Way, str], list[float]] = {key: [] for key in itertools.product(WAYS, peers)}
        for _ in range(options.repeat):
            for (way, name), times in spent.items():
                to, source = peers[name]
                into[:] = 0
                WORLD.Barrier()
                start = time.perf_counter()
                exchange(way, out, into, to, source)
                WORLD.Barrier()
                times.append(time.perf_counter() - start)
                assert np.array_equal(into, (np.arange(length) % 251 + source).astype(np.uint8)), (way, name)
        if me == 0:
            limit = length / options.rate
            print(f"\n{ranks} ranks, {megabytes:g} MB each way, the links' limit {1e3 * limit:.3g} ms\n")
            print("| pieces under way | " + " | ".join(peers) + " |\n|---" + "|---" * len(peers) + "|")
            for way in WAYS:
                cells = [
                    f"{min(v) / limit:.2f} / {statistics.median(v) / limit:.2f}" for v in (spent[way, p] for p in peers)
                ]
                print(f"| {way.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
