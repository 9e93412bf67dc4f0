"""Methods that go through the 2 r + 1 redistributions which Birkeland & Sorevik time (2007, section 6).

A case is the first of them: from S_0, with the grid's dimensions on the first dimensions of the array, to S_1. A method
goes S_0 -> S_1 -> ... -> S_r, back to S_0, and to S_1 again, each time along one dimension of the grid; a wrong
element on the way is still wrong at the end.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyscalapack_redist import redistribute
from pyscalapack_redist.errors import ScheduleError
from pyscalapack_redist.layout.descriptor import Descriptor
from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.tools.bench.methods import Method, Prepared
from pyscalapack_redist.tools.bench.rank_case import RankCase
from pyscalapack_redist.tools.cases import Case

from .birkeland_model import places, route

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[Any]
Transfer = Callable[[Array, Array], object]


def grid_of(case: Case) -> tuple[int, ...]:
    """Processes along each dimension of a case's grid. Not collective."""
    sizes = case.before.grid
    return sizes[: max(1, sum(p > 1 for p in sizes))]


def layout(shape: tuple[int, ...], grid: tuple[int, ...], moved: int) -> LayoutText:
    """The layout S_moved: one block for each process along the dimensions that are distributed. Not collective."""
    where = places(len(grid), moved)
    sizes = [grid[where.index(k)] if k in where else 1 for k in range(len(shape))]
    blocks = tuple(max(1, -(-n // p)) for n, p in zip(shape, sizes, strict=True))
    return LayoutText(tuple(sizes), blocks, (0,) * len(shape))


def _obstacle(case: Case, name: str) -> str | None:
    """A case that is not the first redistribution of a sweep."""
    grid = grid_of(case)
    if len(grid) >= len(case.shape):
        return f"{name}: the grid must have fewer dimensions than the array"
    expected = [layout(case.shape, grid, k) for k in (0, 1)]
    given = [replace(side, first=0) for side in (case.before, case.after)]
    if given != expected or case.before.first != case.after.first:
        return f"{name}: it is for {expected[0]} -> {expected[1]}, the first redistribution of a sweep"
    return None


class _PreparedSweep(Prepared):
    """Local arrays of every layout on the way, and what moves between two of them."""

    def __init__(self, rank_case: RankCase) -> None:
        super().__init__(rank_case)
        case = rank_case.case
        self.grid = grid_of(case)
        first = case.before.first
        layouts = [replace(layout(case.shape, self.grid, k), first=first) for k in range(len(self.grid) + 1)]
        self.descs = [layout.descriptor(case.shape, rank_case.comm) for layout in layouts]
        scratch = {k: desc.empty(case.dtype) for k, desc in enumerate(self.descs) if k != 1 and desc.coords is not None}
        self.extra_bytes = sum(array.nbytes for array in scratch.values())

        def array(number: int, k: int) -> Array | None:
            """Where a stop's array is: S_0 in A at the start only, S_1 in B, others in arrays of their own."""
            return rank_case.out if k == 1 else rank_case.a if number == 0 else scratch.get(k)

        stops = list(itertools.pairwise(route(len(self.grid))))
        made = {stop: self.transfer(*stop) for stop in dict.fromkeys(stops)}
        legs = [(made[k, to], array(number, k), array(number + 1, to)) for number, (k, to) in enumerate(stops)]
        self._legs = [(move, a, b) for move, a, b in legs if a is not None and b is not None]

    @abstractmethod
    def transfer(self, k: int, to: int) -> Transfer:
        """What moves local arrays from S_k to S_to, its neighbour. Collective."""

    def __call__(self) -> None:
        for move, a, b in self._legs:
            move(a, b)


class _Plans(_PreparedSweep):
    """This package: one plan for each redistribution, made once; exchange and buffers as `redistribute` takes them."""

    def __init__(self, rank_case: RankCase, exchange: str, buffers: str) -> None:
        self._options = {"exchange": exchange, "buffers": buffers}
        self._staging = 0
        super().__init__(rank_case)
        self.extra_bytes = (self.extra_bytes or 0) + self._staging

    def transfer(self, k: int, to: int) -> Transfer:
        dtype = self.rank_case.case.dtype
        plan = redistribute(self.descs[k], self.descs[to], dtype=dtype, **self._options)
        self._staging = max(self._staging, plan.report(dtype).extra_bytes)
        return plan


class _InGroups(_PreparedSweep):
    """MPI_Alltoallw on subarray datatypes within each group: no packing of ours (what mpi4py-fft does).

    Raises
    ------
    ScheduleError
        A rank has no place in the grid.
    """

    name: ClassVar[str] = "subarrays/alltoallw"

    def __init__(self, rank_case: RankCase) -> None:
        ranks = rank_case.comm.Get_size()
        if ranks != rank_case.case.ranks or rank_case.case.before.first:
            raise ScheduleError(
                f"{self.name}: its groups are of all {ranks} ranks, but the grid has {rank_case.case.before.size}"
            )
        self._types: list[MPI.Datatype] = []
        self._groups: dict[int, MPI.Comm] = {}
        super().__init__(rank_case)

    def group(self, j: int) -> MPI.Comm:
        """The processes that differ from this one in grid dimension `j` alone. Collective."""
        if j not in self._groups:
            coords = np.unravel_index(self.rank_case.comm.Get_rank() - self.rank_case.case.before.first, self.grid)
            others = [c for dim, c in enumerate(coords) if dim != j]
            colour = (
                int(np.ravel_multi_index(others, [p for dim, p in enumerate(self.grid) if dim != j])) if others else 0
            )
            self._groups[j] = self.rank_case.comm.Split(colour, int(coords[j]))
        return self._groups[j]

    def transfer(self, k: int, to: int) -> Transfer:
        j = len(self.grid) - max(k, to)
        group = self.group(j)
        # S_k to S_to gathers array dimension `gathered`, which was spread over the group, and spreads `spread`
        gathered, spread = (j, j + 1) if to > k else (j + 1, j)
        return self.between(group, self.descs[k], spread, self.descs[to], gathered)

    def between(self, group: MPI.Comm, a: Descriptor, spread: int, b: Descriptor, gathered: int) -> Transfer:
        """A transfer within a group: A has all of dimension `spread`, B all of `gathered`. Collective over the group."""
        sends = self._parts(group, a.local_shape, spread, b.distributions[spread].block)
        receives = self._parts(group, b.local_shape, gathered, a.distributions[gathered].block)

        def run(local_a: Array, local_b: Array) -> None:
            group.Alltoallw([local_a, *sends], [local_b, *receives])

        return run

    def _parts(self, group: MPI.Comm, shape: tuple[int, ...], dim: int, block: int) -> tuple[Any, Any]:
        """Counts with displacements, and a datatype for each process's share of dimension `dim`."""
        from mpi4py import MPI

        element = MPI.BYTE.Create_contiguous(self.rank_case.case.dtype.itemsize)
        counts, types = [], []
        for q in range(group.Get_size()):
            start, stop = (min(shape[dim], end * block) for end in (q, q + 1))
            part, starts = list(shape), [0] * len(shape)
            part[dim], starts[dim] = stop - start, start
            empty = 0 in part
            made = MPI.BYTE.Dup() if empty else element.Create_subarray(shape, part, starts, MPI.ORDER_FORTRAN)
            types.append(made.Commit())
            counts.append(0 if empty else 1)
        element.Free()
        self._types += types
        return (counts, [0] * len(counts)), types

    def close(self) -> None:
        for datatype in self._types:
            datatype.Free()
        for group in self._groups.values():
            group.Free()


class _InRing(_InGroups):
    """Section 3.1 in plain mpi4py: within each group a receive, a send and a wait for both, in the order of the ring."""

    name: ClassVar[str] = "ring/irecv-isend-wait"

    def between(self, group: MPI.Comm, a: Descriptor, spread: int, b: Descriptor, gathered: int) -> Transfer:
        """A transfer within a group, as that of `_InGroups`. Collective over the group."""
        from mpi4py import MPI

        (sends, _), out = self._parts(group, a.local_shape, spread, b.distributions[spread].block)
        (receives, _), into = self._parts(group, b.local_shape, gathered, a.distributions[gathered].block)
        rank, size = group.Get_rank(), group.Get_size()
        ring = [((rank + k) % size, (rank - k) % size) for k in range(size)]

        def run(local_a: Array, local_b: Array) -> None:
            for target, source in ring:
                received = group.Irecv([local_b, receives[source], into[source]], source)
                sent = group.Isend([local_a, sends[target], out[target]], target)
                MPI.Request.Waitall([received, sent])

        return run


class _Transfers(_InGroups):
    """mpi4py-fft's own transfers, where it is installed."""

    name: ClassVar[str] = "mpi4py-fft"

    def __init__(self, rank_case: RankCase) -> None:
        self._made: list[Any] = []
        super().__init__(rank_case)

    def between(self, group: MPI.Comm, a: Descriptor, spread: int, b: Descriptor, gathered: int) -> Transfer:
        """Its arrays are in C order: those of ours, transposed, so that dimensions count from the end."""
        transfer = importlib.import_module("mpi4py_fft.pencil").Transfer
        last = a.ndim - 1
        shape = list(a.local_shape)
        shape[gathered] = b.local_shape[gathered]
        made = transfer(
            group,
            shape[::-1],
            self.rank_case.case.dtype,
            a.local_shape[::-1],
            last - spread,
            b.local_shape[::-1],
            last - gathered,
        )
        self._made.append(made)
        return lambda local_a, local_b: made.forward(local_a.T, local_b.T)

    def close(self) -> None:
        for transfer in self._made:
            transfer.destroy()
        super().close()


def _not_for_transfers(case: Case) -> str | None:
    """mpi4py-fft is not installed, or cuts the array otherwise."""
    if find_spec("mpi4py_fft") is None:
        return "mpi4py-fft is not installed: pip install mpi4py-fft (it needs FFTW: libfftw3-dev)"
    if any(n % p for n in case.shape for p in grid_of(case)):
        return "mpi4py-fft cuts sizes that do not divide into other parts than blocks of one size"
    return _obstacle(case, _Transfers.name)


def sweep(name: str, exchange: str = "auto", buffers: str = "packed") -> Method:
    """A sweep by plans of this package, with the exchange and buffers that `redistribute` is asked for. Not collective."""
    made = functools.partial(_Plans, exchange=exchange, buffers=buffers)
    return Method(name, made, functools.partial(_obstacle, name=name))


SUBARRAYS = Method(_InGroups.name, _InGroups, functools.partial(_obstacle, name=_InGroups.name))
IN_RING = Method(_InRing.name, _InRing, functools.partial(_obstacle, name=_InRing.name))
MPI4PY_FFT = Method(_Transfers.name, _Transfers, _not_for_transfers)
