"""The groups of a communicator: made when their ranks are first asked for, kept as an attribute of it, and freed with it."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from ..errors import CollectiveError
from . import progress
from .channel import MPIChannel
from .group import Group, ended
from .mpi import MPI

__all__ = ["check_running", "group_of"]

CREATION_TAG = 21_317  # of Create_group, which needs one that concurrent creations do not share


def check_running() -> None:
    """See whether MPI can be called. Not collective.

    Raises
    ------
    CollectiveError
        It has been finalized.
    """
    module = sys.modules.get("mpi4py.MPI")
    if module is not None and module.Is_finalized():
        raise CollectiveError("nothing can be redistributed: MPI has been finalized")


_keyval: int | None = None
_every: weakref.WeakSet[Group] = weakref.WeakSet()


def _close_at_the_end(_: object, __: object, ___: object) -> None:
    """MPI is being finalized."""
    for one in _every:
        one.close()


def _groups_of(comm: MPI.Intracomm) -> dict[tuple[int, ...], Group]:
    """The groups of a communicator, kept as an attribute of it and freed with it."""
    global _keyval
    if _keyval is None:

        def free(_: object, __: object, groups: dict[tuple[int, ...], Group]) -> None:
            if not MPI.Is_finalized():
                for one in groups.values():
                    one.free()

        _keyval = MPI.Comm.Create_keyval(delete_fn=free)
        # Attributes of COMM_SELF are deleted first of all by MPI_Finalize.
        MPI.COMM_SELF.Set_attr(MPI.Comm.Create_keyval(delete_fn=_close_at_the_end), True)
    kept: Any = comm.Get_attr(_keyval)
    if kept is None:
        kept = {}
        comm.Set_attr(_keyval, kept)
    groups: dict[tuple[int, ...], Group] = kept
    return groups


def group_of(comm: MPI.Intracomm, ranks: tuple[int, ...]) -> Group:
    """The group of these ranks of `comm`, ascending. Collective over these ranks the first time."""
    gone = ended(comm)
    if gone is not None:
        raise CollectiveError(f"nothing can be redistributed: {gone}")
    groups = _groups_of(comm)
    if ranks not in groups:

        def create() -> MPI.Intracomm:
            all_, some = comm.Get_group(), None
            try:
                some = all_.Incl(ranks)
                return comm.Create_group(some, CREATION_TAG)
            finally:
                all_.Free()
                if some is not None:
                    some.Free()

        private = progress.blocking(create)
        private.Set_errhandler(MPI.ERRORS_RETURN)
        made = Group(MPIChannel(private), ranks, private)
        first = next(iter(groups.values()), None)
        if first is not None and set(ranks) <= set(first.ranks):
            same = [first.number[rank] for rank in ranks]
            made.names, made.watch = tuple(first.names[k] for k in same), first.watch
            made.others = frozenset(new for new, k in enumerate(same) if k in first.others)
        groups[ranks] = made
        _every.add(made)
    return groups[ranks]
