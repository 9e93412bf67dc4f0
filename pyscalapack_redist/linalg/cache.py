"""What `linalg` keeps with a communicator, freed with it: plans of redistributions, rates of routines, the cores of nodes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from .. import tracing
from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..comm.node import usable_cores
from ..comm.vote import digest
from ..errors import LibraryError
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from . import rates
from .rates import Rates
from .working_layouts import check_counts, layout_for

MOST_PLANS = 64  # and layouts
BLOCK = 64  # of a layout of one process, where it does not matter


class Cache:
    """The cache of a group. All ranks use it in the same order, so its entries are the same on all of them.

    Attributes
    ----------
    version : int
        A digest of the plans. Ranks on which it differs, since an interrupt came to one of them, forget all plans.
    """

    def __init__(self, group: MPIGroup) -> None:
        self._group, self._plans = group, OrderedDict[Hashable, Any]()
        self._rates: dict[str, Rates] | None = None
        self._of_file: frozenset[str] = frozenset()
        self._cores: list[frozenset[int]] | None = None
        self._layouts: dict[Hashable, Descriptor] = {}
        self.has_library = False  # whether all ranks have loaded ScaLAPACK

    def layout(self, routine: str, shape: tuple[int, int], comm: MPI.Intracomm, library: str) -> Descriptor:
        """That of `layout_for`."""
        return self._layout((routine, shape, library), lambda: layout_for(routine, shape, comm, library))

    def layout_on_all(self, shape: tuple[int, int], comm: MPI.Intracomm) -> Descriptor:
        """A layout of all processes."""
        return self._layout((None, shape), lambda: Descriptor(shape, BLOCK, ProcessGrid((comm.Get_size(), 1), comm)))

    def layout_on(self, rank: int, shape: tuple[int, int], comm: MPI.Intracomm) -> Descriptor:
        """A layout of one process."""

        def make() -> Descriptor:
            desc = Descriptor(shape, BLOCK, ProcessGrid((1, 1), comm, ranks=[[rank]]))
            check_counts(desc)
            return desc

        return self._layout((rank, shape), make)

    def _layout(self, key: Hashable, make: Callable[[], Descriptor]) -> Descriptor:
        if key not in self._layouts:
            while len(self._layouts) >= MOST_PLANS:
                self._layouts.pop(next(iter(self._layouts)))
            self._layouts[key] = make()
        return self._layouts[key]

    # -- plans

    @property
    def version(self) -> int:
        return digest(tuple(self._plans)) if self._plans else 0

    def forget_plans(self) -> None:
        """Forget all plans. All ranks do so."""
        self._plans.clear()

    def plan(self, source: Descriptor, target: Descriptor, dtype: Any, op: str, make: Callable[[], Any]) -> Any:
        """The plan between two layouts, for arrays of this rank; `make` makes it the first time. Collective then."""
        key = source.layout_digest, target.layout_digest, dtype.char, op
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = make()
            while len(self._plans) > MOST_PLANS:
                self._plans.popitem(last=False)
            return plan
        inside = plan.inside.with_layouts(source, target, dtype)
        return plan if inside is plan.inside else type(plan)(inside)

    # -- rates and cores

    def rates(self, family: str, comm: MPI.Intracomm, routine: Callable[..., Any]) -> Rates:
        """The rates of a family of routines: of a file, or by a trial at first use. Collective over the group."""
        known = self._known_rates()
        if family not in known:
            try:
                with tracing.phase("trial"):
                    known[family] = rates.measured(self._group, comm, family, routine)
            except LibraryError:
                known[family] = Rates(1.0, 0.0, 0.0)
        return known[family]

    def has_file_of(self, family: str) -> bool:
        """Whether a file has the rates of a family. Collective over the group the first time."""
        self._known_rates()
        return family in self._of_file

    def _known_rates(self) -> dict[str, Rates]:
        if self._rates is None:
            self._rates = rates.read(self._group)
            self._of_file = frozenset(self._rates)
        return self._rates

    def cores(self) -> frozenset[int]:
        """The cores of all ranks on this rank's node. Collective over the group the first time."""
        if self._cores is None:
            leaders = self._group.make_node().leaders.tolist()
            everyone: list[frozenset[int]] = self._group.combine(usable_cores())
            union: dict[int, frozenset[int]] = {}
            for leader, cores in zip(leaders, everyone, strict=True):
                union[leader] = union.get(leader, frozenset()) | cores
            self._cores = [union[leader] for leader in leaders]
        return self._cores[self._group.rank]


def cache_of(group: MPIGroup) -> Cache:
    """The cache of a group."""
    cache: Cache | None = group.attachments.get(Cache)
    if cache is None:
        cache = group.attachments[Cache] = Cache(group)
    return cache
