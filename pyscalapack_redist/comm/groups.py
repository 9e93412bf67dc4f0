"""The groups of a communicator, and both sides of an inter-communicator as one communicator.

Either is made when it is first asked for, kept as an attribute of the communicator, and freed with it.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from .._kernels.deletion import Deletion
from ..errors import CollectiveError, DescriptorError, shown
from . import progress
from .channel import MPIChannel
from .group import Group
from .mpi import MPI
from .node import forced_nodes
from .progress import call_blocking, hold_interrupts
from .waiting import reported

CREATION_TAG = 21_317  # of Create_group, which needs one that concurrent creations do not share; and the one before


def check_running() -> None:
    """See whether MPI can be called. Not collective.

    Raises
    ------
    CollectiveError
        It has been finalized, or is that of the process from which this one was forked.
    """
    why = _without_mpi()
    if why is not None:
        raise CollectiveError(f"nothing can be redistributed: {why}")


def check_alive(comm: MPI.Intracomm) -> None:
    """See whether a communicator can be used. Not collective.

    Raises
    ------
    CollectiveError
        It has been freed, or MPI finalized.
    """
    check_running()
    if comm == MPI.COMM_NULL:
        raise CollectiveError(
            "a communicator has been freed, and layouts and plans on it are of no use: make them on one that is not"
        )


class Closable(Protocol):
    """What holds something of MPI that must be given back."""

    def close(self) -> None:
        """Give it back; as collective as what it holds."""


class MPIGroup(Group):
    """A group with a private communicator, so that no message of the user's is ever mixed with ours.

    Attributes
    ----------
    comm : MPI.Intracomm
        The private communicator.
    held : dict
        What other packages keep for these ranks, in the same order on all of them: closed when the communicator is freed.
    """

    def __init__(self, comm: MPI.Intracomm, ranks: Sequence[int]) -> None:
        super().__init__(MPIChannel(comm), ranks)
        self.comm = comm
        self.held: dict[Hashable, Closable] = {}
        self._freed = False

    def make_collectives(self) -> None:
        """Make the second communicator, if it is not there. Collective over the group."""
        if self.collectives is None:
            self.collectives = progress.call_blocking(self.comm.Dup, self.watch)

    def forced_node(self) -> int | None:
        """The node on which this rank counts as being, if the environment says so."""
        nodes = forced_nodes(MPI.COMM_WORLD.Get_size())
        if nodes is None:
            return None
        mine, world = self.comm.Get_group(), MPI.COMM_WORLD.Get_group()
        place = MPI.Group.Translate_ranks(mine, [self.rank], world)[0]
        mine.Free()
        world.Free()
        return None if place == MPI.UNDEFINED else nodes[place]

    def communication_error(self) -> str | None:
        """Why these ranks cannot communicate any more; None if they can."""
        return _without_mpi() or ("its communicator has been freed" if self.comm == MPI.COMM_NULL else None)

    def check_usable(self) -> None:
        """See whether these ranks can still redistribute."""
        check_running()
        if self._freed and self.abort_reason is None:
            self.abort_reason = "their communicator has been freed"
        super().check_usable()

    def free(self) -> None:
        """Free the communicators, and what is held with them. Collective over the group."""
        self._freed = True
        while self.held:
            self.held.popitem()[1].close()
        settled = self.abort_reason is None and self._waiting.settle(self.comm.Ibarrier)
        self.close()
        if not settled:
            _never_freed.append(self)  # MPI may still move messages on them
            return
        for comm in (self.comm, self.collectives):
            if comm is not None:
                comm.Free()


def _without_mpi() -> str | None:
    """Why MPI cannot be called; None if it can."""
    module = sys.modules.get("mpi4py.MPI")
    return _forked or ("MPI has been finalized" if module is not None and module.Is_finalized() else None)


_keyval: int | None = None
_never_freed: list[MPIGroup] = []
_every: weakref.WeakSet[MPIGroup] = weakref.WeakSet()
_forked: str | None = None  # why a forked process may not use MPI


def _after_fork() -> None:
    """In a forked process: MPI, and the memory shared with other ranks, are its parent's."""
    global _forked
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not module.Is_initialized() or module.Is_finalized():
        return
    _forked = (
        f"this process was forked (by os.fork or multiprocessing) from rank {module.COMM_WORLD.Get_rank()} of COMM_WORLD, "
        "which alone may use MPI: redistribute there, and hand forked processes arrays"
    )
    for group in _every:
        group.disown(_forked)


os.register_at_fork(after_in_child=_after_fork)


def _close_at_the_end(_: object, __: object, ___: object) -> None:
    """MPI is being finalized."""
    for group in _every:
        group.end()
        group.close()


def _end_all() -> None:
    """The process ends, whatever for. Its end of MPI waits for the others, so these must not wait for this rank."""
    for group in _every:
        group.end()


def _groups_of(comm: MPI.Intracomm) -> dict[tuple[int, ...], MPIGroup]:
    """The groups of a communicator, kept as an attribute of it and freed with it."""
    global _keyval
    if _keyval is None:

        def free(groups: dict[tuple[int, ...], MPIGroup]) -> None:
            if not MPI.Is_finalized():
                for group in groups.values():
                    group.free()

        _keyval = MPI.Comm.Create_keyval(delete_fn=Deletion(free, progress.hold_interrupts))
        # Attributes of COMM_SELF are deleted first of all by MPI_Finalize.
        MPI.COMM_SELF.Set_attr(MPI.Comm.Create_keyval(delete_fn=_close_at_the_end), True)
        atexit.register(_end_all)
    kept: Any = comm.Get_attr(_keyval)
    if kept is None:
        kept = {}
        comm.Set_attr(_keyval, kept)
    groups: dict[tuple[int, ...], MPIGroup] = kept
    return groups


def group_of(comm: MPI.Intracomm, ranks: tuple[int, ...] | None = None) -> MPIGroup:
    """The group of these ranks of `comm`, ascending; by default of all. Collective over these ranks the first time.

    Raises
    ------
    DescriptorError
        It is no communicator.
    CollectiveError
        It has been freed, or MPI finalized.
    """
    if not hasattr(comm, "Create_group"):
        raise DescriptorError(f"comm = {shown(comm)} must be an mpi4py Intracomm")
    check_alive(comm)
    if ranks is None:
        ranks = tuple(range(comm.Get_size()))
    groups = _groups_of(comm)
    if ranks not in groups:
        private = _private_communicator(comm, ranks)
        private.Set_errhandler(MPI.ERRORS_RETURN)
        made = MPIGroup(private, ranks)
        first = next(iter(groups.values()), None)
        if first is not None and set(ranks) <= set(first.ranks):
            same = [first.number[rank] for rank in ranks]
            made.names, made.watch = tuple(first.names[k] for k in same), first.watch
            made.others = frozenset(new for new, k in enumerate(same) if k in first.others)
        groups[ranks] = made
        _every.add(made)
    return groups[ranks]


def _private_communicator(comm: MPI.Intracomm, ranks: Sequence[int]) -> MPI.Intracomm:
    """A communicator of some ranks of `comm`. Collective over these.

    MPI does not tell a rank for whom it waits. So communicators of two ranks are made first, then of four and so on: all of
    a rank's own half have come, and it waits for the other one.
    """
    number, half = ranks.index(comm.Get_rank()), 1
    while True:
        first, whole = number - number % (2 * half), 2 * half >= len(ranks)
        block, tag = ranks[first : first + 2 * half], CREATION_TAG - (not whole)
        if whole or len(block) > half:
            with reported(ranks, number, half):
                made = progress.call_blocking(functools.partial(_created, comm, block, tag))
            if whole:
                return made
            made.Free()
        half *= 2


def _created(comm: MPI.Intracomm, ranks: Sequence[int], tag: int) -> MPI.Intracomm:
    everyone, some = comm.Get_group(), None
    try:
        some = everyone.Incl(ranks)
        return comm.Create_group(some, tag)
    finally:
        everyone.Free()
        if some is not None:
            some.Free()


class MergedIntercomm:
    """Both sides of an inter-communicator. Made collectively over both; everything else is not collective.

    The engine plans and runs on `comm` as on any other communicator. Each side knows its own layout only. Merged, both sides'
    processes have ranks in one communicator, either side can put a descriptor on it and tell it to the other, and nothing else
    in the engine needs to know of sides.

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
        self.comm = call_blocking(lambda: intercomm.Merge(False))  # equal on both sides: MPI chooses which comes first
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


def end(merged: Ending, let_go: Callable[[], None] | None) -> None:
    """Free what both sides have, and then only let go: to the other side this one has gone after that, so its ranks would not
    free theirs. Collective over both sides.
    """
    try:
        merged.free()
    finally:
        if let_go is not None:
            let_go()


_joint_keyval: int | None = None


def merge_intercomm(
    intercomm: MPI.Intercomm,
    watch: Callable[[], None] | None = None,
    release: Callable[[], None] | None = None,
) -> MergedIntercomm:
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
    global _joint_keyval
    if _joint_keyval is None:
        _joint_keyval = MPI.Comm.Create_keyval(delete_fn=Deletion(lambda kept: end(*kept), hold_interrupts))
    kept: Any = intercomm.Get_attr(_joint_keyval)
    if kept is None:
        kept = (MergedIntercomm(intercomm, watch), release)
        intercomm.Set_attr(_joint_keyval, kept)
    merged: MergedIntercomm = kept[0]
    return merged
