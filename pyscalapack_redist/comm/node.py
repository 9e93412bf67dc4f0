"""Nodes: the ranks of a node, their shared memory, and the cores and the last cache that a process may use."""

from __future__ import annotations

import errno
import functools
import os
import secrets
import socket
import stat
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels import packing
from .._kernels.packing import Packing
from .._kernels.ring import Ring, SharedMemory, bytes_needed
from ..errors import CollectiveError, RedistributionError
from .guard import Guard

CORES = Path("/sys/devices/system/cpu")
LAST_CACHE = "PYSCALAPACK_REDIST_LAST_CACHE"
AREA = 2 * 2**20  # bytes of a rank's slots in the ring
PACKED_AREA = 128 * 2**10  # bytes in which a rank packs what goes to other nodes
VARIABLE = "PYSCALAPACK_REDIST_NODES"
SPINS = 2000  # polls before a wait yields its core, if each rank has a core of its own
SHARED_FOLDER = "/dev/shm"  # of POSIX shared memory
SHARED_REMEDY = f"mount a tmpfs at {SHARED_FOLDER}, in a container by --shm-size=1g"
MARK = 16  # random bytes at the end, which show that ranks have mapped the same memory


def usable_cores() -> frozenset[int]:
    """Numbers of the cores on which this process may run; all cores where the system does not tell, as macOS."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


class LastCache(NamedTuple):
    """The last cache before main memory: its bytes, and the most cores that share it."""

    nbytes: int
    sharing: int

    def share(self, ranks: int) -> int:
        """Bytes for each of `ranks` ranks of a node, if they run close together."""
        return self.nbytes // max(1, min(ranks, self.sharing))


UNKNOWN = LastCache(32 * 2**20, 2**20)


@functools.cache
def last_cache() -> LastCache:
    """The last cache of a core that this process may use; UNKNOWN where the system does not tell.

    Only Linux describes caches in files. The environment variable PYSCALAPACK_REDIST_LAST_CACHE sets the size, for tests.

    Raises
    ------
    RedistributionError
        The variable is not a number of bytes.
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
    caches = []
    try:
        for folder in (CORES / f"cpu{min(usable_cores())}" / "cache").glob("index*"):
            level, size, cores = [(folder / name).read_text().strip() for name in ("level", "size", "shared_cpu_list")]
            nbytes = int(size[:-1]) * {"K": 2**10, "M": 2**20}[size[-1]]
            ends = [part.split("-") for part in cores.split(",")]
            caches.append((int(level), LastCache(nbytes, sum(int(end[-1]) - int(end[0]) + 1 for end in ends))))
    except (OSError, ValueError, LookupError):
        return UNKNOWN
    return max(caches)[1] if caches else UNKNOWN


class Identity(NamedTuple):
    """Where a rank runs, for the other ranks."""

    machine: tuple[str, ...]
    forced: int | None
    process: tuple[int, str] | None
    cores: frozenset[int]


class Places(NamedTuple):
    """The ranks of a group node by node; the place of a rank is its index in this order.

    Attributes
    ----------
    ranks : ndarray of int64
        The ranks, by place.
    of : ndarray of int64
        The place of each rank.
    firsts : ndarray of int64
        The first place of each node, and at last the number of all ranks.
    sizes : tuple of int
        Ranks of each node.
    """

    ranks: NDArray[np.int64]
    of: NDArray[np.int64]
    firsts: NDArray[np.int64]
    sizes: tuple[int, ...]

    @classmethod
    def by(cls, leaders: NDArray[np.int64]) -> Places:
        """Number ranks by their nodes, whose lowest ranks these are."""
        ranks = np.argsort(leaders, kind="stable")
        counts = np.unique(leaders, return_counts=True)[1]
        return cls(ranks, np.argsort(ranks), np.concatenate([[0], np.cumsum(counts)]), tuple(counts.tolist()))

    def node_of(self, place: int) -> int:
        """The number of a place's node."""
        return int(np.searchsorted(self.firsts, place, "right")) - 1

    def carrier(self, node: int, other: int) -> int:
        """The rank of a node that exchanges messages with another node for all of them, the last of them for the next node."""
        distance = (other - node - 1) % len(self.sizes)
        return int(self.ranks[self.firsts[node + 1] - 1 - distance % self.sizes[node]])


class Node:
    """The ranks of this node and their shared memory. The constructor is collective over the group.

    Parameters
    ----------
    rank : int
        This rank in the group, also an attribute.
    call_on_all : callable
        Calls a function, and returns the list of its results on all ranks; an error on one is raised on all. Collective
        over the group.
    names : sequence of str
        Names of the ranks in error texts: "rank 3".
    remote_ranks : collection of int
        Ranks of another job, whose end is detected elsewhere.
    forced : callable
        Returns the number of the node that the environment sets for this rank; None for the real node.

    Attributes
    ----------
    ring : Ring or None
        Memory shared with the other ranks of the node; None if there are none, or memory cannot be shared. A group of one rank
        has one too, for the compiled fast path.
    number : dict
        Rank in the ring, by rank in the group, of the ranks of this node.
    size : int
        Ranks of the group on this node.
    whole : bool
        Whether the ring holds all ranks of the group.
    anywhere : bool
        Whether any rank of the group has a ring.
    leaders : ndarray of int64
        For each rank of the group, the lowest rank of its node.
    voters : sequence of int
        The ranks among which votes go by messages: the lowest one of each ring, and those without.
    places : Places
        The ranks by node.
    packing : Packing or None
        Memory for what goes between nodes, if a node has several ranks and all such nodes share memory.
    description : str
        The shared memory, or the reason why there is none.
    """

    _working: NDArray[np.uint8] | None = None  # in shared memory: whether each rank of the node works while others wait for it

    def __init__(
        self,
        rank: int,
        call_on_all: Callable[[Callable[[], Any]], list[Any]],
        names: Sequence[str],
        remote_ranks: Collection[int] = (),
        forced: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.ring: Ring | None = None
        identities: list[Identity] = call_on_all(lambda: _identify(forced))
        is_forced = all(identity.forced is not None for identity in identities)
        machines = [identity.forced if is_forced else identity.machine for identity in identities]
        node_ranks = [k for k, machine in enumerate(machines) if machine == machines[rank]]
        self.number = {peer: k for k, peer in enumerate(node_ranks)}
        self.size = len(node_ranks)
        self.leaders = np.array([machines.index(machine) for machine in machines], np.int64)
        self.rank, self.places = rank, Places.by(self.leaders)
        memory, self.description = self._share_memory(node_ranks, len(identities) == 1, rank, call_on_all)

        def make_ring() -> bool:
            if memory is None:
                return False
            self._working = np.frombuffer(memoryview(memory), np.uint8)[-MARK - self.size : -MARK]
            cores = set().union(*(identities[k].cores for k in node_ranks))
            self.ring = Ring(memory, self.number[rank], self.size, AREA, SPINS if self.size <= len(cores) else 0)
            return True

        has_ring = call_on_all(make_ring)
        self.anywhere = any(has_ring)
        self.voters = sorted({int(self.leaders[k]) if has_ring[k] else k for k in range(len(machines))})
        self.packing: Packing | None = None
        if self.anywhere and 1 < len(self.voters) == len(self.places.sizes):
            start, nbytes = bytes_needed(self.size, AREA), self._packing_bytes()
            packed = np.zeros(nbytes, np.uint8) if memory is None else memoryview(memory)[start : start + nbytes]
            self.packing = self.make_packing(packed, PACKED_AREA)
        self.whole = memory is not None and self.size == len(identities)
        self._watched = []
        for peer in node_ranks:
            process = identities[peer].process
            if (
                peer != rank
                and peer not in remote_ranks
                and process is not None
                and _read_process(process[0]) == process
            ):
                self._watched.append((names[peer], process))
        self._names = [names[peer] for peer in node_ranks]

    def _packing_bytes(self) -> int:
        """Bytes for what goes between nodes."""
        sizes = self.places.sizes
        return packing.bytes_needed(self.size, len(sizes), sum(sizes), PACKED_AREA) if len(sizes) > 1 else 0

    def make_packing(self, memory: Any, area: int) -> Packing:
        """Make this rank's view of memory for what goes between nodes."""
        own = self.places.node_of(int(self.places.of[self.rank]))
        return Packing(memory, self.ring, self.number[self.rank], self.size, own, self.places.firsts, area)

    def _share_memory(
        self, node_ranks: list[int], alone: bool, rank: int, call_on_all: Callable[[Callable[[], Any]], list[Any]]
    ) -> tuple[SharedMemory | None, str]:
        """Make memory shared by the ranks of this node, zero at first, and describe it; None and the reason without it.

        Collective over the group.
        """
        size, reasons = bytes_needed(len(node_ranks), AREA) + self._packing_bytes() + len(node_ranks) + MARK, []
        shared: SharedMemory | None = None
        description = "one rank, which copies" if alone else "no other rank on this node"
        for make_file, name in ((_memory_file, "memfd"), (_shm_file, "/dev/shm")):
            needed, is_first = (len(node_ranks) > 1 or alone) and shared is None, rank == node_ranks[0]
            mark = secrets.token_bytes(MARK)
            guard = Guard()  # without memory the ranks go on
            with ExitStack() as at_end:
                make = functools.partial(_marked_file, make_file, size, mark, at_end)
                memory, path = (guard.attempt(make) if needed and is_first else None) or (None, None)
                files = call_on_all(functools.partial(_pair, path, mark))
                path, mark = files[node_ranks[0]]
                if needed and not is_first and path is not None:
                    memory = guard.attempt(functools.partial(_map_file, path, size, mark))
                failures = call_on_all(functools.partial(_text_of, guard.error))
            node_failures = [failures[k] for k in node_ranks if failures[k] is not None]
            if needed and not node_failures:
                shared = memory
                description = description if alone else f"memory shared by {len(node_ranks)} ranks ({name})"
            reasons += node_failures[:1]
            if not any(failure is not None for failure in failures):
                break
        if shared is None and len(node_ranks) > 1:
            description = "no shared memory: " + "; ".join(reasons)
        return shared, description

    def set_working(self, rank: int, is_working: bool) -> bool:
        """Say to the other ranks of the node whether this one works; returns what it has said before."""
        if self._working is None:
            return False
        own = self.number[rank]
        before = bool(self._working[own])
        self._working[own] = is_working
        return before

    def has_others_at_work(self, rank: int) -> bool:
        """Whether another rank of the node has said that it works."""
        return self._working is not None and self._working.sum() > self._working[self.number[rank]]

    def check(self, ticket: int) -> None:
        """Check that the other ranks of the node are alive and will make the call with that ticket.

        Raises
        ------
        CollectiveError
            A rank has died, has aborted a transfer, or has ended.
        """
        if self.ring is not None:
            # a rank may abort because another has died or ended: report that one first
            aborted, ended = self.ring.aborted_by(), self.ring.ended_before(ticket)
            if ended is not None:
                raise CollectiveError(
                    f"{self._names[ended]} ended without this call, which all ranks must make, or has freed the communicator "
                    "before it"
                )
        for name, process in self._watched:
            if _is_dead(process):
                raise CollectiveError(f"{name} has died")
        if self.ring is not None and aborted is not None and aborted != self.ring.rank:
            raise CollectiveError(f"{self._names[aborted]} has aborted a redistribution")


def forced_nodes(ranks: int) -> list[int] | None:
    """The node of each rank of COMM_WORLD that the environment sets, or None.

    `PYSCALAPACK_REDIST_NODES=0,0,1,1` assigns each rank to a node, so that transfers between nodes can be tested on one. With
    ranks outside COMM_WORLD the real nodes count.

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
            "it to use the real nodes"
        )
    return nodes


def machine() -> tuple[str, ...]:
    """The name of this host and the ID of its boot, which distinguishes hosts of one name."""
    name = os.fsencode(socket.gethostname()).decode(errors="backslashreplace")  # it may be any bytes
    with suppress(OSError):
        return name, Path("/proc/sys/kernel/random/boot_id").read_text()
    return (name,)


def _identify(forced: Callable[[], int | None]) -> Identity:
    """Find the place of this rank."""
    return Identity(machine(), forced(), _read_process(os.getpid()), usable_cores())


def _pair(path: str | None, mark: bytes) -> tuple[str | None, bytes]:
    return path, mark


def _text_of(error: BaseException | None) -> str | None:
    """The text of an error without which the ranks can do; others are raised."""
    if error is not None and not isinstance(error, Exception):
        raise error
    return None if error is None else str(error)


def _marked_file(
    make_file: Callable[[int, ExitStack], tuple[int, str]], size: int, mark: bytes, at_end: ExitStack
) -> tuple[SharedMemory, str]:
    """Make a file and map it, with a mark; its memory and its path. At the end it is closed, and has no name."""
    descriptor, path = make_file(size, at_end)
    memory = SharedMemory(descriptor, size)
    memoryview(memory)[-MARK:] = mark
    return memory, path


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _read_process(number: int) -> tuple[int, str] | None:
    """A process ID with its start time, which a later process of the same ID does not share; None if it cannot be read."""
    try:
        with open(f"/proc/{number}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (number, fields[19])


def _is_dead(process: tuple[int, str]) -> bool:
    """Whether a process has ended; False if that cannot be read, for lack of a file descriptor."""
    try:
        with open(f"/proc/{process[0]}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    return fields[0] in "ZX" or fields[19] != process[1]


def _map_file(path: str, size: int, mark: bytes) -> SharedMemory:
    """Map a file that another rank has made and marked."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size < size:
            raise OSError(f"{path} has {status.st_size} bytes, not {size}: the processes do not share a file system")
        memory = SharedMemory(descriptor, size)
    finally:
        os.close(descriptor)
    if bytes(memoryview(memory)[-MARK:]) != mark:
        raise OSError(f"{path} is not the memory of the other ranks: the processes do not share a file system")
    return memory


def _memory_file(size: int, at_end: ExitStack) -> tuple[int, str]:
    """Make an anonymous file: its descriptor, and the path for other ranks."""
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no memfd_create")
    try:
        descriptor = os.memfd_create("pyscalapack_redist")
        at_end.callback(os.close, descriptor)
        os.ftruncate(descriptor, size)
    except OSError as error:
        raise OSError(f"memfd_create: {error.strerror}") from error
    return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}"


def _shm_file(size: int, at_end: ExitStack) -> tuple[int, str]:
    """Make POSIX shared memory of this user: its descriptor and its path."""
    path = f"{SHARED_FOLDER}/pyscalapack_redist-{secrets.token_hex(8)}"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        at_end.callback(os.close, descriptor)
        at_end.callback(_unlink, path)
        os.posix_fallocate(descriptor, 0, size)  # full shared memory raises here, instead of a signal later
    except OSError as error:
        remedy = "raise the limit of file sizes (ulimit -f)" if error.errno == errno.EFBIG else SHARED_REMEDY
        raise OSError(f"{path}: {error.strerror}: {remedy}") from error
    return descriptor, path
