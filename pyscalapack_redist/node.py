"""The ranks of one node: who they are, the memory that they share, and whether they live.

`PYSCALAPACK_REDIST_NODES=0,0,1,1` says on which node each rank of COMM_WORLD counts as being, so that what happens
between nodes can be tested on one. It says nothing of ranks outside COMM_WORLD, so where there are any the real nodes count.
"""

from __future__ import annotations

import mmap
import os
import secrets
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from ._ring import Ring, bytes_needed
from .errors import CollectiveError, RedistributionError

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["AREA", "Node", "forced_nodes"]

AREA = 2 * 2**20  # bytes of chunks on the way from one rank
VARIABLE = "PYSCALAPACK_REDIST_NODES"
SPINS = 2000  # looks for a change before a core is given to others, where each rank has one of its own
CHECK_SECONDS = 0.05


class Node:
    """What a rank knows of its node. Made collectively over `comm`; everything else is not collective.

    Parameters
    ----------
    comm : MPI.Intracomm
        Private communicator of the participants.
    names : sequence of str
        What each of its ranks is called in messages: "rank 3".
    others : collection of int
        Ranks of `comm` that may end in good order while this one goes on: whether they live is seen to elsewhere.

    Attributes
    ----------
    ring : Ring or None
        Shared memory with the other ranks of the node; None if there are none, or they cannot share memory.
    number : dict
        Rank in the ring for each rank of `comm` on this node.
    size : int
        Ranks of `comm` on this node.
    whole : bool
        Whether the ring holds all ranks of `comm`.
    anywhere : bool
        Whether any rank of `comm` has a ring.
    leaders : ndarray of int64
        For each rank of `comm`, the lowest rank of its node.
    why : str
        What was found, in words.
    """

    def __init__(self, comm: MPI.Intracomm, names: Sequence[str], others: Collection[int] = ()) -> None:
        self.comm = comm
        self.ring: Ring | None = None
        self.broken: str | None = None
        here = _ranks_here(comm)
        try:
            rank, size = here.Get_rank(), here.Get_size()
            self.number = {int(one): k for k, one in enumerate(here.allgather(comm.Get_rank()))}
            self._processes = here.allgather(_process(os.getpid()))
            self.why = "no other rank on this node"
            if size > 1:
                memory, self.why = _shared_memory(here, bytes_needed(size, AREA))
                if memory is not None:
                    cores: set[int] = set().union(*here.allgather(os.sched_getaffinity(0)))
                    self.ring = Ring(memory, rank, size, AREA, SPINS if size <= len(cores) else 0)
        finally:
            here.Free()
        self.size = len(self.number)
        self._names = [names[one] for one in self.number]
        seen = (k for k, one in enumerate(self._processes) if one and _process(one[0]) == one)
        self._watched = [k for k in seen if list(self.number)[k] not in others]
        self._checked = 0.0
        self.whole = self.ring is not None and len(self.number) == comm.Get_size()
        found = np.empty((comm.Get_size(), 2), np.int64)
        comm.Allgather(np.array([min(self.number), self.ring is not None]), found)
        self.leaders = found[:, 0].copy()
        self.anywhere = bool(found[:, 1].any())

    def look_around(self) -> None:
        """While waiting: let MPI make progress, and see whether the others still live. Not collective.

        Raises
        ------
        CollectiveError
            A rank of this node has died, or has left a run in the middle.
        """
        self.comm.Iprobe()
        moment = time.monotonic()
        if moment - self._checked < CHECK_SECONDS or self.ring is None:
            return
        self._checked = moment
        left = self.ring.broken_by()
        dead = next((k for k in self._watched if _process(self._processes[k][0]) != self._processes[k]), left)
        if dead is not None:
            what = "has left a redistribution in the middle" if dead == left else "has died"
            self.break_off(f"{self._names[dead]} {what}")
            raise CollectiveError(f"{self.broken}: what it owed will not come; use another communicator without it")

    def break_off(self, why: str) -> None:
        """Note that the ring cannot be used any more, and let the others see it. Not collective."""
        self.broken = self.broken or why
        if self.ring is not None:
            self.ring.break_off()


def forced_nodes(ranks: int) -> list[int] | None:
    """The node of each rank of COMM_WORLD, where the environment says so. Not collective.

    Raises
    ------
    RedistributionError
        The variable is not a list of `ranks` whole numbers.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    try:
        nodes = [int(one) for one in text.split(",")]
    except ValueError:
        nodes = []
    if len(nodes) != ranks:
        raise RedistributionError(
            f"{VARIABLE}={text!r} must be a node number for each of the {ranks} ranks of COMM_WORLD, such as 0,0,1,1; unset "
            "it to go by the real nodes"
        )
    return nodes


def _ranks_here(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Communicator of the ranks on this node. Collective over `comm`."""
    from mpi4py import MPI

    problem, color = None, 0
    try:
        nodes = forced_nodes(MPI.COMM_WORLD.Get_size())
        if nodes is not None:
            group, world = comm.Get_group(), MPI.COMM_WORLD.Get_group()
            places = MPI.Group.Translate_ranks(group, list(range(comm.Get_size())), world)
            color = nodes[places[comm.Get_rank()]] if MPI.UNDEFINED not in places else 0
            group.Free()
            world.Free()
    except Exception as caught:
        problem = caught
    problems = comm.allgather(None if problem is None else str(problem))
    if any(problems):
        raise problem or CollectiveError(next(filter(None, problems)))
    together = comm.Split_type(MPI.COMM_TYPE_SHARED, comm.Get_rank())
    here: MPI.Intracomm = together.Split(color, together.Get_rank())  # type: ignore[assignment]
    together.Free()
    return here


def _process(number: int) -> tuple[int, str] | None:
    """A process and when it began, which tells it from a later one of the same number; None if it does not run."""
    try:
        with open(f"/proc/{number}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (number, fields[19])


def _shared_memory(here: MPI.Intracomm, size: int) -> tuple[mmap.mmap | None, str]:
    """Memory that all of `here` share, zero at first, and what it is; None and why not. Collective over `here`.

    It has no name that outlives this call, so nothing is left behind whatever happens later.
    """
    reasons = []
    for way, name in ((_memory_file, "memfd"), (_shm_file, "/dev/shm")):
        memory, problem = None, None
        mark = here.bcast(secrets.token_bytes(16), root=0)
        opened: Any = None
        if here.Get_rank() == 0:
            try:
                opened = way(size)
                memory = mmap.mmap(opened[0], size)
                memory[:16] = mark
            except (OSError, AttributeError, ValueError) as caught:
                problem = str(caught)
        path = here.bcast(opened[1] if memory is not None else None, root=0)
        if path is not None and memory is None:
            try:
                descriptor = os.open(path, os.O_RDWR)
                try:
                    memory = mmap.mmap(descriptor, size)
                finally:
                    os.close(descriptor)
                if memory[:16] != mark:
                    raise OSError(f"{path} is not the memory of the others: processes do not see one another")
            except (OSError, ValueError) as caught:
                problem = str(caught)
        problems = here.allgather(problem)
        if opened is not None:
            os.close(opened[0])
            if opened[2]:
                with suppress(OSError):
                    os.unlink(opened[1])
        if not any(problems):
            assert memory is not None
            if here.Get_rank() == 0:
                memory[:16] = bytes(16)
            here.Barrier()
            return memory, f"memory shared by {here.Get_size()} ranks ({name})"
        reasons.append(next(filter(None, problems)))
    return None, "no shared memory: " + "; ".join(reasons)


def _memory_file(size: int) -> tuple[int, str, bool]:
    """An anonymous file: its number, the path by which others open it, and that it has no name."""
    descriptor = os.memfd_create("pyscalapack_redist")
    os.ftruncate(descriptor, size)
    return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}", False


def _shm_file(size: int) -> tuple[int, str, bool]:
    """POSIX shared memory for this user only, the same of it; its name is removed once all have it."""
    path = f"/dev/shm/pyscalapack_redist-{secrets.token_hex(8)}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)  # a full /dev/shm is an error now, not a signal later
    except OSError:
        os.close(descriptor)
        os.unlink(path)
        raise
    return descriptor, path, True
