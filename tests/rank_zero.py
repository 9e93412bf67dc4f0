"""A communicator for tests that need no MPI."""

from __future__ import annotations


class RankZero:
    """As much of a communicator as a grid looks at: this rank is number 0 of a few."""

    def __init__(self, size: int) -> None:
        self._size = size

    def Get_size(self) -> int:  # noqa: N802 - as mpi4py's
        return self._size

    def Get_rank(self) -> int:  # noqa: N802 - as mpi4py's
        return 0

    def Create_group(self) -> None:  # noqa: N802 - as mpi4py's
        raise NotImplementedError
