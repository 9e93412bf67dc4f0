"""A simulation streams its frames to an analysis job while it runs, each on its own processes and in its own layout.

The simulation solves the heat equation u_t = u_xx + u_yy on the unit square, u = 0 on the edge, by explicit steps on slabs
of rows. The analysis has the frames in blocks over a grid of two dimensions; it computes the energy of each, draws every
k-th, and compares all with the solution of the discrete equation, which for these initial values is known. At the end the
analysis sends the last frame back, and the simulation sees that not a bit of it has changed.

In one job, split in two:     mpiexec -n 5 python -m mpi4py examples/producer_consumer.py --producers 2
As two jobs:                  mkdir -p -m 700 ~/.meetings
                              mpiexec -n 2 python -m mpi4py examples/producer_consumer.py --accept ~/.meetings/heat
                              mpiexec -n 3 python -m mpi4py examples/producer_consumer.py --connect ~/.meetings/heat
(With Open MPI two jobs need its name server; see docs/two-jobs.md.)
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Heat equation on one job, analysis on another.")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--producers", type=int, help="one job: this many ranks simulate, the others analyse (half of them)"
    )
    how.add_argument("--accept", metavar="PATH", help="simulate in this job, analyse in the one that connects at PATH")
    how.add_argument("--connect", metavar="PATH", help="analyse in this job, simulate in the one that accepts at PATH")
    parser.add_argument("--points", type=int, default=200, help="points along each side, without the edge")
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--steps", type=int, default=10, help="time steps from frame to frame")
    parser.add_argument("--block", type=int, default=32, help="block size of the analysis")
    parser.add_argument("--timeout", type=float, default=60, help="seconds to wait for the other job")
    parser.add_argument("--picture", metavar="NAME", help="write NAME-0000.png and so on")
    parser.add_argument("--every", type=int, default=20, metavar="K", help="a picture for every K frames")
    return parser.parse_args()


def sides(given: argparse.Namespace) -> tuple[MPI.Intracomm, MPI.Intercomm, bool]:
    """The processes of this side, the way to the other, and whether this one simulates."""
    if given.accept:
        return WORLD, psr.accept(given.accept, WORLD, timeout=given.timeout), True
    if given.connect:
        return WORLD, psr.connect(given.connect, WORLD, timeout=given.timeout), False
    producers = given.producers or WORLD.Get_size() // 2
    if not 0 < producers < WORLD.Get_size():
        raise SystemExit(
            f"{producers} of {WORLD.Get_size()} ranks cannot simulate: leave at least one for the analysis"
        )
    simulates = WORLD.Get_rank() < producers
    comm = WORLD.Split(int(simulates), WORLD.Get_rank())
    return comm, comm.Create_intercomm(0, WORLD, producers if simulates else 0), simulates


def initial(points: int, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.float64]:
    """One wave along x, two along y: a solution keeps this form, and only shrinks."""
    h = 1 / (points + 1)
    return np.sin(math.pi * h * (i + 1)) * np.sin(2 * math.pi * h * (j + 1))


def shrinking(points: int) -> float:
    """By how much each time step shrinks it, with time steps of h^2 / 5."""
    h = 1 / (points + 1)
    return 1 - 4 / 5 * (math.sin(math.pi * h / 2) ** 2 + math.sin(math.pi * h) ** 2)


def time_step(u: NDArray[np.float64], comm: MPI.Intracomm, above: int, below: int) -> None:
    """u += (sum of the four neighbours - 4 u) / 5, with rows from the slabs above and below."""
    upper, lower = np.zeros((2, u.shape[1]))
    comm.Sendrecv(np.ascontiguousarray(u[0]), above, recvbuf=lower, source=below)
    comm.Sendrecv(np.ascontiguousarray(u[-1]), below, recvbuf=upper, source=above)
    around = np.pad(u, 1)
    around[0, 1:-1], around[-1, 1:-1] = upper, lower
    u += (around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:] - 4 * u) / 5


def simulate(given: argparse.Namespace, comm: MPI.Intracomm, other: MPI.Intercomm) -> None:
    n, size = given.points, comm.Get_size()
    slabs = psr.Descriptor((n, n), (None, None), psr.ProcessGrid((size, 1), comm))
    stream = psr.redistribute(slabs, None, comm=other, dtype=np.float64)
    reply = psr.redistribute(None, slabs, comm=other)
    u = slabs.from_function(lambda i, j: initial(n, i, j))
    holders = -(-n // slabs.block[0])  # the last slabs may be empty
    rank = comm.Get_rank()
    above = rank - 1 if 0 < rank < holders else MPI.PROC_NULL
    below = rank + 1 if rank < holders - 1 else MPI.PROC_NULL
    for _ in range(given.frames):
        stream(u)
        for _ in range(given.steps if rank < holders else 0):
            time_step(u, comm, above, below)
    stream(u)
    back = reply()
    assert back is not None
    assert comm.allreduce(np.array_equal(back, u), MPI.LAND), "the last frame came back changed"
    if rank == 0:
        print(f"{given.frames + 1} frames from {size} ranks; the last came back as it went", flush=True)


def analyse(given: argparse.Namespace, comm: MPI.Intracomm, other: MPI.Intercomm) -> None:
    n, size, rank = given.points, comm.Get_size(), comm.Get_rank()
    rows = max(p for p in range(1, math.isqrt(size) + 1) if size % p == 0)
    blocks = psr.Descriptor((n, n), (given.block, given.block), psr.ProcessGrid((rows, size // rows), comm))
    stream = psr.redistribute(None, blocks, comm=other)
    reply = psr.redistribute(blocks, None, comm=other, dtype=np.float64)
    first = blocks.from_function(lambda i, j: initial(n, i, j))
    u, energies, worst = blocks.empty(np.float64), [], 0.0
    for frame in range(given.frames + 1):
        stream(None, u)
        energies.append(comm.allreduce(float((u * u).sum())) / (n + 1) ** 2)
        expected = first * shrinking(n) ** (frame * given.steps)
        worst = max(worst, comm.allreduce(float(np.abs(u - expected).max(initial=0)), MPI.MAX))
        if given.picture and frame % given.every == 0:
            picture(f"{given.picture}-{frame:04}.png", psr.gather(blocks, u))
    reply(u)
    assert worst < 1e-10, f"frames differ by {worst} from the solution of the discrete equation"
    if rank == 0:
        print(
            f"energy {energies[0]:.6f} -> {energies[-1]:.6f} on {size} ranks; largest difference {worst:.1e}",
            flush=True,
        )


def picture(name: str, whole: NDArray[np.float64] | None) -> None:
    if whole is not None:
        from matplotlib import image

        image.imsave(name, whole, vmin=-1, vmax=1, cmap="coolwarm")


def main() -> None:
    given = arguments()
    comm, other, simulates = sides(given)
    (simulate if simulates else analyse)(given, comm, other)
    other.Disconnect()


if __name__ == "__main__":
    main()
