"""timings(): what a block of a program did on this rank, phase by phase: redistributions and calls of ScaLAPACK.

A phase is recorded once, by the outermost call with a name: "redistribute a" of `linalg.solve`, and not the plan's call inside.
The engine, `scalapack` and `linalg` give the names and the numbers of bytes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, overload

from .comm.agreement import agreement
from .comm.free_memory import peak_memory
from .comm.groups import group_of
from .comm.mpi import MPI
from .errors import CollectiveError
from .layout.descriptor import Descriptor
from .layout.tiles import Tiles

active = 0  # blocks that record in this process: a faster check than that of the thread's own


@dataclass(frozen=True)
class Phase:
    """One redistribution, or one call of ScaLAPACK, as a rank saw it.

    Attributes
    ----------
    name : str
        "redistribute a", "pdgetrf", ...
    routine : str
        Routine of `linalg` that it is part of; empty outside of them.
    before, after : str
        Layouts in short, grid and blocks: "4x1:75x300"; the same one twice where nothing moves, and empty where it is not
        known.
    seconds : float
        On this rank from the beginning to the end, with the time that it waited for others.
    bytes_sent : int
        Bytes of elements that this rank sent to other ranks.
    bytes_copied : int
        Bytes of elements that stayed on this rank, but moved from one array to the other.
    error : str
        What was raised in it; empty where nothing was.
    peak_bytes : int
        Most memory that was resident on this rank from the beginning of its process to the end of the phase; 0 if the system
        does not say. Where it grows from one phase to the next, that phase took more than any before.
    digests : tuple of int
        Of both layouts, as `layout_digest`: layouts that look alike in short may be on different ranks.
    """

    name: str
    routine: str
    before: str
    after: str
    seconds: float
    bytes_sent: int = 0
    bytes_copied: int = 0
    error: str = ""
    peak_bytes: int = 0
    digests: tuple[int, ...] = field(default=(), repr=False)

    @property
    def bytes_moved(self) -> int:
        """Bytes sent and copied; over all ranks, those of the array."""
        return self.bytes_sent + self.bytes_copied

    @property
    def layout(self) -> str:
        """Both layouts: "4x1:75x300 -> 2x2:64x64". Not collective."""
        return self.before if self.before == self.after else f"{self.before} -> {self.after}"


class Phases(Sequence[Phase]):
    """Phases that `timings` recorded, in the order in which phases ended; its `str` is a table."""

    def __init__(self, phases: Iterable[Phase] = ()) -> None:
        self._phases = list(phases)

    def __len__(self) -> int:
        return len(self._phases)

    @overload
    def __getitem__(self, key: int) -> Phase: ...

    @overload
    def __getitem__(self, key: slice) -> Phases: ...

    def __getitem__(self, key: int | slice) -> Phase | Phases:
        """A phase, or some of them. Not collective."""
        return Phases(self._phases[key]) if isinstance(key, slice) else self._phases[key]

    def max(self, comm: MPI.Intracomm) -> Phases:
        """The same phases with the seconds of the slowest rank, and the bytes of all ranks. Collective over `comm`.

        Of the memory it has the most that any rank had.

        A rank outside a grid records no calls of ScaLAPACK there. On all ranks the result is the same.

        Raises
        ------
        CollectiveError
            Two ranks recorded the same phases in another order. On all ranks. Or the communicator has been freed.
        DescriptorError
            `comm` is no intra-communicator.
        """
        group = group_of(comm)
        with agreement(group, "Phases.max", combine=list) as agreed:
            agreed.give(self._phases)
        everywhere: list[list[Phase]] = agreed.result
        same = _merged(everywhere, ("name", "routine", "digests")) or _merged(everywhere, ("name", "routine"))
        if same is None or any(map(_differ, same)):
            raise CollectiveError(
                "ranks recorded the same phases in different orders: record on all ranks a block in which all do the same"
            )
        return Phases(
            replace(
                some[0],
                seconds=max(its.seconds for its in some),
                bytes_sent=sum(its.bytes_sent for its in some),
                bytes_copied=sum(its.bytes_copied for its in some),
                error=next((its.error for its in some if its.error), ""),
                peak_bytes=max(its.peak_bytes for its in some),
            )
            for some in same
        )

    def __str__(self) -> str:
        rows = [
            (
                its.routine,
                its.name,
                its.layout,
                f"{its.seconds:.6f}",
                f"{its.bytes_moved / 1e6:,.3f}" if its.bytes_moved else "",
                _in_megabytes(its.peak_bytes),
                its.error,
            )
            for its in self
        ]
        total = (
            f"{sum(its.seconds for its in self):.6f}",
            f"{sum(its.bytes_moved for its in self) / 1e6:,.3f}",
            _in_megabytes(max((its.peak_bytes for its in self), default=0)),
        )
        table = [("routine", "phase", "layout", "seconds", "MB moved", "peak MB", ""), *rows, ("", "sum", "", *total, "")]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = (
            "  ".join(cell.rjust(width) if k in (3, 4, 5) else cell.ljust(width) for k, (cell, width) in enumerate(pairs))
            for pairs in (list(zip(row, widths, strict=True)) for row in table)
        )
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        return f"Phases({self._phases!r})"


def _in_megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f}" if size else ""


def _differ(some: Sequence[Phase]) -> bool:
    """Whether two ranks have different layouts for a phase."""
    return any(
        len({digest for digest in known if digest}) > 1 for known in zip(*(its.digests for its in some), strict=True)
    )


def _merged(everywhere: Sequence[Sequence[Phase]], fields: Sequence[str]) -> list[list[Phase]] | None:
    """The phases of all ranks in one order, equal phases together; None if there is no such order.

    What comes next is a phase that no rank has before another one, unless that rank has fewer of them.
    """
    keys = [[tuple(getattr(phase, field) for field in fields) for phase in phases] for phases in everywhere]
    left = [Counter(its) for its in keys]
    position, merged = [0] * len(keys), []
    while heads := {its[position[rank]]: None for rank, its in enumerate(keys) if position[rank] < len(its)}:
        for head in heads:
            there = [rank for rank, its in enumerate(keys) if position[rank] < len(its) and its[position[rank]] == head]
            most = max(left[rank][head] for rank in there)
            if all(left[rank][head] < most for rank in range(len(keys)) if rank not in there):
                break
        else:
            return None
        merged.append([everywhere[rank][position[rank]] for rank in there])
        for rank in there:
            position[rank] += 1
            left[rank][head] -= 1
    return merged


class _ThreadTraces(threading.local):
    def __init__(self) -> None:
        self.traces: list[Phases] = []
        self.open: _Measured | None = None  # the phase that has a name already
        self.routine = ""
        self.inside_call = False


_thread = _ThreadTraces()
_lock = threading.Lock()


@contextlib.contextmanager
def timings() -> Iterator[Phases]:
    """Record what the block does on this rank, in this thread. Not collective.

    `trace` is the old name of this function, and will go.

    Recorded are calls of plans and of `redistribute` (as "redistribute" and "plan"), transfers that were started and
    waited for (from the start to the end of the wait), and in `linalg` each operand's way into the layout of the call,
    each routine of ScaLAPACK, and the result's way back. Blocks may be nested: both record. A phase in which an error
    was raised is recorded with it.

    Returns
    -------
    Phases
        A sequence of `Phase`, which grows until the block ends. Seconds are this rank's, with the time that it waits
        for others; `Phases.max` has the slowest rank's.

    Examples
    --------
    >>> with timings() as phases:  # doctest: +SKIP
    ...     x = linalg.solve(a, b)
    >>> print(phases)  # doctest: +SKIP
    """
    global active
    recorded = Phases()
    with _lock:
        active += 1
    _thread.traces.append(recorded)
    try:
        yield recorded
    finally:
        _thread.traces[:] = [other for other in _thread.traces if other is not recorded]
        with _lock:
            active -= 1


trace = timings  # the old name


class _Measured:
    """A phase under way."""

    def __init__(self, name: str, before: Any, after: Any) -> None:
        self._name, self._routine, self._traces = name, _thread.routine, tuple(_thread.traces)
        layouts = [desc if isinstance(desc, Descriptor | Tiles) else None for desc in (before, after)]
        self._layouts = ["" if desc is None else in_short(desc) for desc in layouts]
        self._digests = tuple([0 if desc is None else desc.layout_digest for desc in layouts])
        self._ended = False
        self.bytes_sent = self.bytes_copied = 0
        self._start = time.perf_counter()

    def end(self, error: BaseException | None = None) -> None:
        """Record the phase, once, in each block that is still open."""
        if self._ended:
            return
        self._ended = True
        seconds = time.perf_counter() - self._start
        words = "" if error is None else f"{type(error).__name__}: {error}"
        before, after = self._layouts
        sizes = self.bytes_sent, self.bytes_copied
        memory = peak_memory()
        phase = Phase(self._name, self._routine, before, after, seconds, *sizes, words, memory, self._digests)
        for recorded in self._traces:
            if any(recorded is other for other in _thread.traces):
                recorded._phases.append(phase)

    def __enter__(self) -> None:
        _thread.open = self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _thread.open = None
        self.end(error)


_nothing = contextlib.nullcontext()


def phase(name: str, before: object = None, after: object = None) -> contextlib.AbstractContextManager[None]:
    """Record the block as a phase, unless it is part of one, or nothing is recorded."""
    if not active or not _thread.traces or _thread.open is not None:
        return _nothing
    return _Measured(name, before, after)


def start_phase(name: str, before: object, after: object) -> _Measured | None:
    """A phase that ends with a call of `end`; other phases may be open meanwhile."""
    return _Measured(name, before, after) if recording() else None


def recording() -> bool:
    """Whether this thread records calls of plans, and is not in one."""
    return bool(_thread.traces) and not _thread.inside_call


def moved(sent: int, copied: int) -> None:
    """Count bytes for the open phase."""
    if _thread.open is not None:
        _thread.open.bytes_sent += sent
        _thread.open.bytes_copied += copied


@contextlib.contextmanager
def moving(before: Descriptor, after: Descriptor) -> Iterator[None]:
    """A call of a plan: a phase, unless it is part of one."""
    with phase("redistribute", before, after):
        _thread.inside_call = True  # the measured call enters the same code
        try:
            yield
        finally:
            _thread.inside_call = False


@contextlib.contextmanager
def in_routine(name: str) -> Iterator[None]:
    """Attribute the phases of the block to this routine of `linalg`."""
    outer, _thread.routine = _thread.routine, name
    try:
        yield
    finally:
        _thread.routine = outer


def in_short(desc: Descriptor | Tiles) -> str:
    """Grid and blocks, as the command line writes them; of tiles, how many there are."""
    if isinstance(desc, Tiles):
        return f"{'x'.join(map(str, desc.owners.shape))} tiles"

    source = f"@{','.join(map(str, desc.source))}" if any(desc.source) else ""
    blocks = [str(size) if isinstance(size, int) else "irregular" for size in desc.block]
    blocks = blocks[:1] if {*blocks} == {"irregular"} else blocks
    return f"{'x'.join(map(str, desc.grid.shape))}:{'x'.join(blocks)}{source}"
