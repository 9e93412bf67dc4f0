"""The node: its ranks, the memory that they share, and the cores and the last cache that a process may use."""

from __future__ import annotations

import functools
import os
import secrets
import socket
import stat
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._kernels.ring import Ring, SharedMemory, bytes_needed
from ..errors import CollectiveError, RedistributionError

CORES = Path("/sys/devices/system/cpu")
LAST_CACHE = "PYSCALAPACK_REDIST_LAST_CACHE"
AREA = 2 * 2**20  # bytes of chunks on the way from one rank
VARIABLE = "PYSCALAPACK_REDIST_NODES"
SPINS = 2000  # looks for a change before a core is given to others, where each rank has one of its own
MARK = 16  # bytes behind the ring by which ranks see that they have the same memory

# How a process gives its core to others; not every system has sched_yield.
give_way: Callable[[], object] = getattr(os, "sched_yield", functools.partial(time.sleep, 0))


def usable_cores() -> frozenset[int]:
    """Numbers of the cores on which this process may run; all, where it cannot tell, as on macOS. Not collective."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


class LastCache(NamedTuple):
    """The cache in front of main memory: its bytes, and the most cores that share it."""

    nbytes: int
    sharing: int

    def share(self, ranks: int) -> int:
        """Bytes of it for each of so many ranks of a node, as if they were together. Not collective."""
        return self.nbytes // max(1, min(ranks, self.sharing))


UNKNOWN = LastCache(32 * 2**20, 2**20)


@functools.cache
def last_cache() -> LastCache:
    """The last cache of a core that this process may use; a usual one, where the system does not tell. Not collective.

    Only Linux tells of caches in files. The size is that of the environment's PYSCALAPACK_REDIST_LAST_CACHE, where that is
    set; for tests.

    Raises
    ------
    RedistributionError
        The variable is no number of bytes.
    """
    cache = _last_cache_of_system()
    text = os.environ.get(LAST_CACHE)
    if not text:
        return cache
    if not text.isdecimal():
        raise RedistributionError(
            f"{LAST_CACHE}={text!r} must be the bytes of the last cache, such as {32 * 2**20}; unset it to ask the system"
        )
    return cache._replace(nbytes=int(text))


def _last_cache_of_system() -> LastCache:
    found = []
    try:
        for place in (CORES / f"cpu{min(usable_cores())}" / "cache").glob("index*"):
            level, size, cores = [(place / name).read_text().strip() for name in ("level", "size", "shared_cpu_list")]
            nbytes = int(size[:-1]) * {"K": 2**10, "M": 2**20}[size[-1]]
            ends = [part.split("-") for part in cores.split(",")]
            found.append((int(level), LastCache(nbytes, sum(int(end[-1]) - int(end[0]) + 1 for end in ends))))
    except (OSError, ValueError, LookupError):
        return UNKNOWN
    return max(found)[1] if found else UNKNOWN


class Identity(NamedTuple):
    """What a rank tells the others of where it runs."""

    machine: tuple[str, ...]
    forced: int | None
    process: tuple[int, str] | None
    cores: frozenset[int]
    problem: str | None


class Node:
    """What a rank knows of its node. Made collectively over the group; everything else is not collective.

    Parameters
    ----------
    rank : int
        This rank in the group.
    tell : callable
        Gives what all ranks of the group tell, by rank. Collective.
    names : sequence of str
        What each of them is called in messages: "rank 3".
    others : collection of int
        Ranks of the group that may end in good order while this one goes on: whether they live is seen to elsewhere.
    forced : callable
        The number of the node on which this rank counts as being; None where the real nodes count.

    Attributes
    ----------
    ring : Ring or None
        Shared memory with the other ranks of the node; None where all others are elsewhere, or memory cannot be shared. A rank
        that is the whole group has one too: its votes and copies are the compiled ones.
    number : dict
        Rank in the ring for each rank of the group on this node.
    size : int
        Ranks of the group on this node.
    whole : bool
        Whether the ring holds all ranks of the group.
    anywhere : bool
        Whether any rank of the group has a ring.
    leaders : ndarray of int64
        For each rank of the group, the lowest rank of its node.
    why : str
        What was found, in words.
    """

    def __init__(
        self,
        rank: int,
        tell: Callable[[Any], list[Any]],
        names: Sequence[str],
        others: Collection[int] = (),
        forced: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.ring: Ring | None = None
        told: list[Identity] = tell(_identity(forced))
        problems = [(k, identity.problem) for k, identity in enumerate(told) if identity.problem is not None]
        if problems:
            first, problem = problems[0]
            if told[rank].problem is not None:
                raise RedistributionError(told[rank].problem)
            raise CollectiveError(f"{names[first]} could not take part: {problem}")
        known = all(identity.forced is not None for identity in told)
        places = [identity.forced if known else identity.machine for identity in told]
        here = [k for k, place in enumerate(places) if place == places[rank]]
        self.number = {peer: k for k, peer in enumerate(here)}
        self.size = len(here)
        self.leaders = np.array([places.index(place) for place in places], np.int64)
        memory, self.why = self._shared(here, len(told) == 1, rank, tell)
        if memory is not None:
            cores = set().union(*(told[k].cores for k in here))
            self.ring = Ring(memory, self.number[rank], self.size, AREA, SPINS if self.size <= len(cores) else 0)
        self.whole = self.ring is not None and self.size == len(told)
        self.anywhere = any(tell(self.ring is not None))
        self._watched = []
        for peer in here:
            process = told[peer].process
            if peer != rank and peer not in others and process is not None and _process(process[0]) == process:
                self._watched.append((names[peer], process))
        self._names = [names[peer] for peer in here]

    def _shared(
        self, here: list[int], alone: bool, rank: int, tell: Callable[[Any], list[Any]]
    ) -> tuple[SharedMemory | None, str]:
        """Memory that the ranks of this node share, zero at first, and what it is; None and why not. Collective."""
        size, reasons = bytes_needed(len(here), AREA) + MARK, []
        kept: SharedMemory | None = None
        what = "one rank, which copies" if alone else "no other rank on this node"
        for way, name in ((_memory_file, "memfd"), (_shm_file, "/dev/shm")):
            wanted, memory, problem, opened = (len(here) > 1 or alone) and kept is None, None, None, None
            mark = secrets.token_bytes(MARK)
            if wanted and rank == here[0]:
                try:
                    opened = way(size)
                    memory = SharedMemory(opened[0], size)
                    memoryview(memory)[-MARK:] = mark
                except Exception as caught:
                    memory, problem = None, str(caught)
            told = tell((None if opened is None else opened[1], mark))
            path, mark = told[here[0]]
            if wanted and memory is None and path is not None:
                try:
                    memory = _mapped(path, size, mark)
                except Exception as caught:
                    problem = str(caught)
            found = tell(problem)
            if opened is not None:
                os.close(opened[0])
                if opened[2]:
                    with suppress(OSError):
                        os.unlink(opened[1])
            failed = [found[k] for k in here if found[k] is not None]
            if wanted and not failed:
                kept, what = memory, what if alone else f"memory shared by {len(here)} ranks ({name})"
            reasons += failed[:1]
            if not any(failure is not None for failure in found):
                break
        if kept is None and len(here) > 1:
            what = "no shared memory: " + "; ".join(reasons)
        return kept, what

    def check(self, ticket: int) -> None:
        """See whether the other ranks of the node still live, and come to what has that ticket. Not collective.

        Raises
        ------
        CollectiveError
            One has died, has left a transfer in the middle, or has ended.
        """
        if self.ring is not None:
            # who has left may have done so because of one that has died or ended, so those are told first
            left, ended = self.ring.aborted_by(), self.ring.ended_before(ticket)
            if ended is not None:
                raise CollectiveError(
                    f"{self._names[ended]} has ended, or has freed the communicator, before this call"
                )
        for name, process in self._watched:
            if _is_dead(process):
                raise CollectiveError(f"{name} has died")
        if self.ring is not None and left is not None and left != self.ring.rank:
            raise CollectiveError(f"{self._names[left]} has left a redistribution in the middle")


def forced_nodes(ranks: int) -> list[int] | None:
    """The node of each rank of COMM_WORLD, where the environment says so. Not collective.

    `PYSCALAPACK_REDIST_NODES=0,0,1,1` says on which node each rank counts as being, so that transfers between nodes can be
    tested on one. It says nothing of ranks outside COMM_WORLD, so where there are any the real nodes count.

    Raises
    ------
    RedistributionError
        The variable is not a list of `ranks` whole numbers.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    try:
        nodes = [int(number) for number in text.split(",")]
    except ValueError:
        nodes = []
    if len(nodes) != ranks:
        raise RedistributionError(
            f"{VARIABLE}={text!r} must be a node number for each of the {ranks} ranks of COMM_WORLD, such as 0,0,1,1; unset "
            "it to go by the real nodes"
        )
    return nodes


def machine() -> tuple[str, ...]:
    """The host on which this process runs, and its boot, which tells hosts of one name apart. Not collective."""
    name = socket.gethostname()
    with suppress(OSError):
        return name, Path("/proc/sys/kernel/random/boot_id").read_text()
    return (name,)


def _identity(forced: Callable[[], int | None]) -> Identity:
    """Where this rank runs."""
    node, problem = None, None
    try:
        node = forced()
    except Exception as caught:
        problem = str(caught)
    return Identity(machine(), node, _process(os.getpid()), usable_cores(), problem)


def _process(number: int) -> tuple[int, str] | None:
    """A process and when it began, which tells it from a later one of the same number; None if that cannot be seen."""
    try:
        with open(f"/proc/{number}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (number, fields[19])


def _is_dead(process: tuple[int, str]) -> bool:
    """Whether a process has ended. Where that cannot be seen, for want of a file descriptor, it has not."""
    try:
        with open(f"/proc/{process[0]}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    return fields[0] in "ZX" or fields[19] != process[1]


def _mapped(path: str, size: int, mark: bytes) -> SharedMemory:
    """The memory at a path that another rank has told, if it is the one that it has marked."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_size < size:
            raise OSError(f"{path} has {found.st_size} bytes, not {size}: processes do not see one another")
        memory = SharedMemory(descriptor, size)
    finally:
        os.close(descriptor)
    if bytes(memoryview(memory)[-MARK:]) != mark:
        raise OSError(f"{path} is not the memory of the others: processes do not see one another")
    return memory


def _memory_file(size: int) -> tuple[int, str, bool]:
    """An anonymous file: its number, the path by which others open it, and that it has no name."""
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no memfd_create")
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
