"""A communicator as one of its ranks sees it, for tests that need no MPI."""

from __future__ import annotations


class OneRank:
    """As much of a communicator as grids and plans look at."""

    def __init__(self, size: int, rank: int = 0) -> None:
        self.size, self.rank = size, rank

    def Get_size(self) -> int:  # noqa: N802 - as mpi4py's
        return self.size

    def Get_rank(self) -> int:  # noqa: N802 - as mpi4py's
        return self.rank

    def Create_group(self) -> None:  # noqa: N802 - a communicator is known by it
        raise NotImplementedError
