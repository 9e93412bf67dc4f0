"""The two sides of an inter-communicator as one communicator, on which the engine plans and runs as on any other.

Each side knows its own layout only. Merged, both sides' processes have ranks in one communicator, a descriptor can be put
on it by either side and told to the other, and nothing else in the engine needs to know of sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from .._kernels.deletion import Deletion
from .group import Group
from .groups import group_of
from .mpi import MPI
from .progress import blocking, interrupts_held

__all__ = ["Joint", "end", "joined"]


class Joint:
    """Both sides of an inter-communicator. Made collectively over both; everything else is not collective.

    Attributes
    ----------
    comm : MPI.Intracomm
        All ranks of one side, then all of the other; private to this package.
    side : int
        0 or 1: which half of `comm` this rank is in.
    group : Group
        All ranks of `comm`.
    """

    def __init__(self, intercomm: MPI.Intercomm, watch: Callable[[], None] | None) -> None:
        if watch is not None:
            _meet(intercomm, watch)
        self.comm = blocking(lambda: intercomm.Merge(False))  # equal on both sides: MPI chooses which comes first
        self.comm.Set_errhandler(MPI.ERRORS_RETURN)
        here, merged = intercomm.Get_group(), self.comm.Get_group()
        places = MPI.Group.Translate_ranks(here, list(range(here.Get_size())), merged)
        here.Free()
        merged.Free()
        self.side = int(0 not in places)
        self.group: Group = group_of(self.comm, tuple(range(self.comm.Get_size())))
        self.group.watch = watch
        number = {place: k for k, place in enumerate(places)}
        first_of_other = 0 if self.side else len(places)
        if watch is not None:
            self.group.others = frozenset(range(self.comm.Get_size())) - frozenset(places)
        self.group.names = tuple(
            f"rank {number[k]}" if k in number else f"rank {k - first_of_other} of the other side"
            for k in range(self.comm.Get_size())
        )

    def free(self) -> None:
        """Free the merged communicator. Collective over both sides, unless one has gone."""
        if not MPI.Is_finalized():
            with suppress(MPI.Exception):
                self.comm.Free()


def _meet(intercomm: MPI.Intercomm, watch: Callable[[], None]) -> None:
    """Wait until both sides are here: what comes next blocks inside MPI."""
    here = intercomm.Ibarrier()
    while not here.Test():
        watch()
        time.sleep(0.001)


class Ending(Protocol):
    """What is freed when a connection ends."""

    def free(self) -> None:
        """Free it; collective over both sides."""


def end(joint: Ending, let_go: Callable[[], None] | None) -> None:
    """Free what both sides have, and then only let go: to the other side this one has gone after that, so its ranks would not
    free theirs. Collective over both sides.
    """
    try:
        joint.free()
    finally:
        if let_go is not None:
            let_go()


_keyval: int | None = None


def joined(
    intercomm: MPI.Intercomm,
    watch: Callable[[], None] | None = None,
    release: Callable[[], None] | None = None,
) -> Joint:
    """Both sides as one, made once and kept with the inter-communicator. Collective over both sides the first time.

    Parameters
    ----------
    intercomm : MPI.Intercomm
        The inter-communicator.
    watch : callable, optional
        Raises CollectiveError once the other side has gone; where its processes may end without those of this one.
    release : callable, optional
        Called when the inter-communicator is freed or disconnected.
    """
    global _keyval
    if _keyval is None:
        _keyval = MPI.Comm.Create_keyval(delete_fn=Deletion(lambda kept: end(*kept), interrupts_held))
    kept: Any = intercomm.Get_attr(_keyval)
    if kept is None:
        kept = (Joint(intercomm, watch), release)
        intercomm.Set_attr(_keyval, kept)
    joint: Joint = kept[0]
    return joint
