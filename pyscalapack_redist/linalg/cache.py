"""What `linalg` keeps with a communicator, freed with it: plans, grids with contexts, rates of routines."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from .. import blacs, tracing
from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..comm.vote import digest
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from . import rates
from .call import RoutineCall
from .rates import Rates
from .solver_rules import check_counts, layout_for

MOST_PLANS = 64  # and layouts
BLOCK = 64  # of a layout of one process, where it does not matter


class Cache:
    """The cache of a group. All ranks use it in the same order, so its entries are the same on all of them.

    Attributes
    ----------
    has_library : bool
        Whether all ranks have loaded ScaLAPACK.
    grids : dict
        Grids with a BLACS context, by their shapes and ranks.
    kept : dict
        What routines keep, by name; each has a `version`, a tuple of what decides on their collective steps.
    texts : dict
        What all ranks have found together, by name.
    """

    def __init__(self) -> None:
        self._plans = OrderedDict[Hashable, Any]()
        self._rates: dict[str, Rates] | None = None
        self._of_file: frozenset[str] = frozenset()
        self._layouts: dict[Hashable, Descriptor] = {}
        self._grid_calls = OrderedDict[Hashable, None]()  # routines and shapes whose last call was on a grid
        self.has_library = False
        self.grids: dict[Hashable, ProcessGrid] = {}
        self.kept: dict[str, Any] = {}
        self.texts: dict[str, str] = {}

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

    # -- where calls work

    def was_on_one(self, routine: str, shape: tuple[int, int]) -> bool:
        """Whether the last call of a routine with this shape was on one process, a guess for the next; true at first."""
        return (routine, shape) not in self._grid_calls

    def note_place(self, routine: str, shape: tuple[int, int], is_on_one: bool) -> None:
        """Note where a call works."""
        self._grid_calls.pop((routine, shape), None)
        if not is_on_one:
            self._grid_calls[routine, shape] = None
            while len(self._grid_calls) > MOST_PLANS:
                self._grid_calls.popitem(last=False)

    @property
    def version(self) -> int:
        """A digest of all that saves collective steps. Ranks on which it differs, after a failure, forget all of it."""
        kept = tuple([(name, each.version) for name, each in self.kept.items()])
        known = self.has_library, None if self._rates is None else tuple(self._rates)
        return _digest_of((tuple(self._plans), tuple(self.grids), tuple(self.texts), kept, known))

    def forget(self) -> None:
        """Forget all that saves collective steps. All ranks do so."""
        self.has_library, self._rates = False, None
        for each in (self._plans, self.grids, self.texts, self.kept):
            each.clear()

    # -- plans

    def plan(self, source: Descriptor, target: Descriptor, dtype: Any, op: str, make: Callable[[], Any]) -> Any:
        """The plan between two layouts, for arrays of this rank; `make` makes it the first time. Collective then."""
        key = source.layout_digest, target.layout_digest, dtype.char, op
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = make()
            while len(self._plans) > MOST_PLANS:
                self._plans.popitem(last=False)
            return plan
        known = self._plans[key] = plan.for_arrays(source, target, dtype)
        return known

    # -- rates

    def rates(self, call: RoutineCall, family: str, routine: Callable[..., Any]) -> Rates:
        """The rates of a family of routines: of a file, or by a trial at first use. Collective over the group."""
        known = self._known_rates(call)
        if family not in known:
            if any(call.run(blacs.available, list)):  # where some ranks lack it, the trial says which
                with tracing.phase("trial"):
                    known[family] = rates.measured(call, family, routine)
            else:
                known[family] = Rates(1.0, 0.0, 0.0)
        return known[family]

    def has_file_of(self, call: RoutineCall, family: str) -> bool:
        """Whether a file has the rates of a family. Collective over the group the first time."""
        self._known_rates(call)
        return family in self._of_file

    def _known_rates(self, call: RoutineCall) -> dict[str, Rates]:
        if self._rates is None:
            self._rates = rates.read(call)
            self._of_file = frozenset(self._rates)
        return self._rates


@functools.lru_cache(maxsize=64)
def _digest_of(state: Hashable) -> int:
    """The digest of a state, which is the last one in most calls."""
    return digest(state)


def cache_of(group: MPIGroup) -> Cache:
    """The cache of a group."""
    cache: Cache | None = group.attachments.get(Cache)
    if cache is None:
        cache = group.attachments[Cache] = Cache()
    return cache
