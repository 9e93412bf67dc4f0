"""torch.distributed on the processes of MPI, with their ranks."""

from __future__ import annotations

import torch.distributed as dist
from mpi4py import MPI

WORLD = MPI.COMM_WORLD


def start(rank: int | None = None) -> None:
    """Make the process group, with the ranks of COMM_WORLD or with others. Rank 0 takes a port that is free."""
    master = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False) if WORLD.rank == 0 else None
    port = WORLD.bcast(master.port if master else None)
    store = master or dist.TCPStore("localhost", port)
    dist.init_process_group("gloo", store=store, rank=WORLD.rank if rank is None else rank, world_size=WORLD.size)
