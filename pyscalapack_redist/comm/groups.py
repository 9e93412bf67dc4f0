"""The groups of a communicator, and the merged sides of an inter-communicator.

Both are made at their first use, cached as attributes of the communicator, and freed with it.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Protocol

from .._kernels.deletion import Deletion
from ..errors import CollectiveError, DescriptorError, shown
from ..tracebacks import print_causes_first
from . import progress
from .channel import MPIChannel
from .group import Group
from .mpi import MPI
from .node import forced_nodes
from .progress import call_blocking, hold_interrupts, wait_until
from .waiting import WaitInMPI, describe_absence, list_ranks

UNINITIALIZED = (
    "MPI has not been initialized, as mpi4py.rc.initialize = False or MPI4PY_RC_INITIALIZE=0 has it: call MPI.Init() first"
)
CREATION_TAG = 21_317  # of Create_group: this tag and the one before, which no concurrent creation may use


def check_running() -> None:
    """Check that MPI can be called. Loads MPI, and starts it unless mpi4py was told not to.

    Raises
    ------
    CollectiveError
        MPI has not been initialized, has been finalized, or this process was forked.
    """
    MPI.Is_initialized()
    reason = _without_mpi()
    if reason is not None:
        raise CollectiveError(f"nothing can be redistributed: {reason}")


def check_alive(comm: MPI.Intracomm) -> None:
    """Check that a communicator can be used.

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
    """An object that holds resources of MPI."""

    def close(self) -> None:
        """Release them; collective if the resources are."""


class MPIGroup(Group):
    """A group with a private communicator, so that messages of the program and of this package never mix.

    Attributes
    ----------
    comm : MPI.Intracomm
        The private communicator.
    resources : dict
        Objects of other modules, in the same order on all ranks, closed when the communicator is freed, all ranks being there.
    attachments : dict
        Objects of other modules, forgotten when the communicator is freed.
    """

    def __init__(self, comm: MPI.Intracomm, ranks: Sequence[int]) -> None:
        super().__init__(MPIChannel(comm), ranks)
        self.comm = comm
        self.resources: dict[Hashable, Closable] = {}
        self.attachments: dict[Hashable, Any] = {}
        self._freed = False

    def make_collectives(self) -> None:
        """Make the second communicator, once. Collective over the group."""
        if self.collectives is None:
            self.collectives = progress.call_blocking(self.comm.Dup, self.watch)

    def forced_node(self) -> int | None:
        """The node that the environment sets for this rank, or None."""
        nodes = forced_nodes(MPI.COMM_WORLD.Get_size())
        if nodes is None:
            return None
        own_group, world = self.comm.Get_group(), MPI.COMM_WORLD.Get_group()
        world_rank = MPI.Group.Translate_ranks(own_group, [self.rank], world)[0]
        own_group.Free()
        world.Free()
        return None if world_rank == MPI.UNDEFINED else nodes[world_rank]

    def communication_error(self) -> str | None:
        """The reason why these ranks cannot communicate any more, or None."""
        return _without_mpi() or ("its communicator has been freed" if self.comm == MPI.COMM_NULL else None)

    def check_usable(self) -> None:
        """Check that these ranks can still redistribute."""
        check_running()
        if self._freed and self.abort_reason is None:
            self.abort_reason = "their communicator has been freed"
        super().check_usable()

    def free(self) -> None:
        """Free the communicators and close `resources`. Collective over the group."""
        self._freed = True
        settled = self.abort_reason is None and self._waiting.settle(self.comm.Ibarrier)
        self.attachments.clear()
        while settled and self.resources:
            self.resources.popitem()[1].close()
        self.close()
        if not settled:
            _never_freed.append(self)  # MPI may still move messages on them
            return
        for comm in (self.comm, self.collectives):
            if comm is not None:
                comm.Free()


def _without_mpi() -> str | None:
    """The reason why MPI cannot be called, or None; None as well before MPI is loaded."""
    if _forked:
        return _forked
    module = sys.modules.get("mpi4py.MPI")
    if module is None:
        return None
    if module.Is_finalized():
        return "MPI has been finalized"
    return None if module.Is_initialized() else UNINITIALIZED


_keyval: int | None = None
_never_freed: list[MPIGroup] = []
_groups: weakref.WeakSet[MPIGroup] = weakref.WeakSet()
_forked: str | None = None  # the reason why a forked process may not use MPI


def _after_fork() -> None:
    """In a forked process: leave MPI and shared memory to the parent."""
    global _forked
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not module.Is_initialized() or module.Is_finalized():
        return
    _forked = (
        f"this process was forked (by os.fork or multiprocessing) from rank {module.COMM_WORLD.Get_rank()} of COMM_WORLD, "
        "which alone may use MPI: redistribute there, and hand forked processes arrays"
    )
    for group in _groups:
        group.detach(_forked)


os.register_at_fork(after_in_child=_after_fork)


def _close_at_the_end(_: object, __: object, ___: object) -> None:
    """End and close all groups, as MPI is finalized."""
    for group in _groups:
        group.end()
        group.close()


def _end_all() -> None:
    """End all groups, as the process ends. MPI_Finalize waits for the other ranks, which must not wait for this one."""
    for group in () if MPI.Is_finalized() else _groups:
        group.end()


class Groups(dict[tuple[int, ...], MPIGroup]):
    """The groups of a communicator, by their ranks.

    Attributes
    ----------
    abandoned : dict
        The reasons why some ranks have no group: a rank has given up waiting for the others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.abandoned: dict[tuple[int, ...], str] = {}


def _groups_of(comm: MPI.Intracomm) -> Groups:
    """The groups of a communicator, an attribute of it that is freed with it."""
    global _keyval
    if _keyval is None:

        def free(groups: Groups) -> None:
            if not MPI.Is_finalized():
                for group in groups.values():
                    group.free()

        _keyval = MPI.Comm.Create_keyval(delete_fn=Deletion(free, progress.hold_interrupts))
        # MPI_Finalize deletes the attributes of COMM_SELF first.
        MPI.COMM_SELF.Set_attr(MPI.Comm.Create_keyval(delete_fn=_close_at_the_end), True)
        atexit.register(_end_all)
        print_causes_first()
    attribute: Any = comm.Get_attr(_keyval)
    if attribute is None:
        attribute = Groups()
        comm.Set_attr(_keyval, attribute)
    groups: Groups = attribute
    return groups


def group_of(comm: MPI.Intracomm, ranks: tuple[int, ...] | None = None) -> MPIGroup:
    """The group of these ranks of `comm`, in ascending order; all by default. Collective over them the first time.

    Raises
    ------
    DescriptorError
        `comm` is not an intra-communicator.
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
        reason = groups.abandoned.get(ranks)
        if reason is not None:
            raise CollectiveError(f"these ranks cannot redistribute any more ({reason})")
        private = _private_communicator(comm, ranks, groups.abandoned)
        private.Set_errhandler(MPI.ERRORS_RETURN)
        group = MPIGroup(private, ranks)
        first = next(iter(groups.values()), None)
        if first is not None and set(ranks) <= set(first.ranks):
            numbers = [first.number[rank] for rank in ranks]
            group.names, group.watch = tuple(first.names[k] for k in numbers), first.watch
            group.remote_ranks = frozenset(new for new, k in enumerate(numbers) if k in first.remote_ranks)
        groups[ranks] = group
        _groups.add(group)
    return groups[ranks]


def _private_communicator(
    comm: MPI.Intracomm, ranks: tuple[int, ...], abandoned: dict[tuple[int, ...], str]
) -> MPI.Intracomm:
    """Make a communicator of some ranks of `comm`. Collective over these.

    With a limit of time it is made in another thread, where MPI allows that: MPI has no other way to give up. `abandoned` then
    gets the reason.

    Raises
    ------
    WaitTimeoutError
        Other ranks did not come within the limit.
    """
    creation = _Creation(comm, ranks)
    try:
        return call_blocking(creation.make, creation.wait.check if creation.wait.is_limited else None)
    except BaseException as caught:
        if not creation.failed:
            abandoned[ranks] = f"{type(caught).__name__}: {caught}"
            creation.abandon(abandoned[ranks])
        raise


class _Creation:
    """The private communicator of some ranks under way.

    MPI does not report the ranks that a call waits for. So communicators of two ranks are made first, then of four and so on:
    a rank knows that its own half has taken part, and waits for the other half.

    Attributes
    ----------
    wait : WaitInMPI
        The wait for other ranks.
    failed : bool
        Whether MPI could not make it.
    """

    def __init__(self, comm: MPI.Intracomm, ranks: Sequence[int]) -> None:
        self._comm, self._ranks, self._number = comm, ranks, ranks.index(comm.Get_rank())
        self.wait = WaitInMPI(f"rank {comm.Get_rank()}", list_ranks(ranks))
        self.failed = False
        self._lock = threading.Lock()
        self._result: MPI.Intracomm | None = None
        self._reason: str | None = None

    def make(self) -> MPI.Intracomm:
        """Make it; may be called in another thread."""
        try:
            private = self._make()
        except BaseException:
            self.failed = True
            raise
        with self._lock:
            self._result, reason = private, self._reason
        if reason is not None:
            self._tell_others(private, reason)
        return private

    def _make(self) -> MPI.Intracomm:
        ranks, half = self._ranks, 1
        while True:
            first, whole = self._number - self._number % (2 * half), 2 * half >= len(ranks)
            block, tag = ranks[first : first + 2 * half], CREATION_TAG - (not whole)
            if whole or len(block) > half:
                self.wait.absence, reports = describe_absence(ranks, self._number, half)
                with self.wait.reported() if reports else nullcontext():
                    new = _create(self._comm, block, tag)
                if whole:
                    return new
                new.Free()
            half *= 2

    def abandon(self, reason: str) -> None:
        """Give up. If the others come later, they hear of it."""
        with self._lock:
            self._reason, private = reason, self._result
        if private is not None:
            self._tell_others(private, reason)

    def _tell_others(self, private: MPI.Intracomm, reason: str) -> None:
        """Make the group, which the others have by now, and abort it."""
        with suppress(Exception):
            private.Set_errhandler(MPI.ERRORS_RETURN)
            group = MPIGroup(private, self._ranks)
            group.abort(reason)
            _never_freed.append(group)


def _create(comm: MPI.Intracomm, ranks: Sequence[int], tag: int) -> MPI.Intracomm:
    all_ranks, members = comm.Get_group(), None
    try:
        members = all_ranks.Incl(ranks)
        return comm.Create_group(members, tag)
    finally:
        all_ranks.Free()
        if members is not None:
            members.Free()


class MergedIntercomm:
    """Both sides of an inter-communicator as one intra-communicator. The constructor is collective over both.

    The engine plans on `comm` as on any other communicator. Each side knows its own layout only, and sends it to the other side
    as a descriptor on `comm`.

    Attributes
    ----------
    comm : MPI.Intracomm
        All ranks of one side, then all of the other; private to this package.
    side : int
        The half of `comm` that this rank is in, 0 or 1.
    group : Group
        All ranks of `comm`.
    """

    def __init__(self, intercomm: MPI.Intercomm, watch: Callable[[], None] | None) -> None:
        wait = WaitInMPI(f"rank {intercomm.Get_rank()}", "both sides of an inter-communicator")
        with wait.reported():
            _wait_for_both_sides(intercomm, wait, watch)
            # the same argument on both sides: MPI chooses the order
            self.comm = call_blocking(lambda: intercomm.Merge(False), wait.check if wait.is_limited else None)
        self.comm.Set_errhandler(MPI.ERRORS_RETURN)
        own_side, merged = intercomm.Get_group(), self.comm.Get_group()
        own_ranks = MPI.Group.Translate_ranks(own_side, list(range(own_side.Get_size())), merged)
        own_side.Free()
        merged.Free()
        self.side = int(0 not in own_ranks)
        self.group: Group = group_of(self.comm, tuple(range(self.comm.Get_size())))
        self.group.watch = watch
        number = {rank: k for k, rank in enumerate(own_ranks)}
        first_remote = 0 if self.side else len(own_ranks)
        if watch is not None:
            self.group.remote_ranks = frozenset(range(self.comm.Get_size())) - frozenset(own_ranks)
        self.group.names = tuple(
            f"rank {number[k]}" if k in number else f"remote rank {k - first_remote}"
            for k in range(self.comm.Get_size())
        )

    def free(self) -> None:
        """Free the merged communicator. Collective over both sides, unless one has ended."""
        if not MPI.Is_finalized():
            with suppress(MPI.Exception):
                self.comm.Free()


def _wait_for_both_sides(intercomm: MPI.Intercomm, wait: WaitInMPI, watch: Callable[[], None] | None) -> None:
    """Wait until both sides take part, because the next call blocks inside MPI."""
    request = intercomm.Ibarrier()

    def check() -> None:
        wait.check()
        if watch is not None:
            watch()

    wait_until(request.Test, check)


class AbandonedMerge:
    """In place of the merged sides, where a rank has given up waiting for others.

    Attributes
    ----------
    reason : str
        Why it has.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def free(self) -> None:
        """Free nothing."""


class Freeable(Protocol):
    """An object that is freed when a connection ends."""

    def free(self) -> None:
        """Free it; collective over both sides."""


def end(merged: Freeable, release: Callable[[], None] | None) -> None:
    """Free the merged communicator, then release the connection. Collective over both sides.

    The release comes last: after it the other side regards this one as ended, and would free nothing.
    """
    try:
        merged.free()
    finally:
        if release is not None:
            release()


_merged_keyval: int | None = None


def merge_intercomm(
    intercomm: MPI.Intercomm,
    watch: Callable[[], None] | None = None,
    release: Callable[[], None] | None = None,
) -> MergedIntercomm:
    """Merge both sides, once; the result is an attribute of the inter-communicator. Collective over both the first time.

    Parameters
    ----------
    intercomm : MPI.Intercomm
        The inter-communicator.
    watch : callable, optional
        Raises CollectiveError when the other side has ended; for two jobs.
    release : callable, optional
        Called when the inter-communicator is freed or disconnected.

    Raises
    ------
    WaitTimeoutError
        Ranks did not come within the limit.
    CollectiveError
        That was so in an earlier call.
    """
    global _merged_keyval
    if _merged_keyval is None:
        _merged_keyval = MPI.Comm.Create_keyval(delete_fn=Deletion(lambda attribute: end(*attribute), hold_interrupts))
    attribute: Any = intercomm.Get_attr(_merged_keyval)
    if attribute is None:
        try:
            attribute = (MergedIntercomm(intercomm, watch), release)
        except BaseException as caught:
            intercomm.Set_attr(_merged_keyval, (AbandonedMerge(f"{type(caught).__name__}: {caught}"), None))
            raise
        intercomm.Set_attr(_merged_keyval, attribute)
    merged: MergedIntercomm | AbandonedMerge = attribute[0]
    if isinstance(merged, AbandonedMerge):
        raise CollectiveError(f"these two sides cannot redistribute any more ({merged.reason})")
    return merged
