"""The methods that are compared, by their names on the command line.

This package's own are plans, made once and reused or made anew in each call. Others are ScaLAPACK's p?gemr2d; what plain
mpi4py and NumPy do, through one rank or by whole messages packed side by side, with this package's packing, which few programs
have, so that only the moving differs; and what moves as many bytes and changes no layout: memcpy, which says what reading and
writing these bytes once costs, and MPI's collectives (Walker & Otto, Table 1).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import blacs
from ..._kernels.boxes import Box
from ..._kernels.bundle import address_of, dense_strides
from ...comm.mpi import MPI
from ...distributed_array import plan
from ...engine.messages import messages_of
from ...engine.options import AGREE
from ...errors import ArrayError, LibraryError
from ...exchanges import BUFFERS, EXCHANGES, Message
from ...exchanges.exchange import MEMORY_LIMIT
from ...layout.dimensions import BALANCED
from ...layout.notation import LayoutText
from ...scalapack.matrix_operands import KIND_OF_DTYPE
from ...schedules import NAMES
from ...schedules.orders import Natural
from ..cases import Case
from .rank_case import RankCase, bytes_of, parts_of, poison

DEFAULT_METHODS = ("auto", "pxgemr2d", "caterpillar/sendrecv", "memcpy")
OTHER_LIBRARY = re.compile(r"pxgemr2d(=(?P<path>.+?)(:(?P<prefix>\w+))?)?")
OPTIONS = ("schedule", "exchange", "buffers", "agree")  # of `redistribute`, in a method's name
ROOT = 0  # through which all goes
NOT_FOR_TILES = "{} is for a local array on each process, and the layout of {} is of tiles"
LIMIT = 2**31  # of what MPI and p?gemr2d count
# Plans are cached by all options. A memory limit of one byte less than the last time makes a new plan. The limits repeat after
# more plans than the cache holds.
LIMITS = 4096
_limits = itertools.cycle(range(MEMORY_LIMIT - 1, MEMORY_LIMIT - 1 - LIMITS, -1))


def _nothing() -> None:
    """Default of `forget` and `close`."""


class Prepared:
    """A method ready to run one case: a function for that, or a class derived from this one.

    `extra_bytes` is the memory that a run takes beside the two local arrays on this rank, None where only a measurement can
    tell. The result is in the case's output; or in `output`, and has the bytes that `expected` returns.
    """

    extra_bytes: int | None = None

    def __init__(
        self,
        rank_case: RankCase,
        run: Callable[[], object] = _nothing,
        extra_bytes: int | None = None,
        output: NDArray[Any] | None = None,
        expected: Callable[[], NDArray[np.uint8]] | None = None,
        forget: Callable[[], None] = _nothing,
        close: Callable[[], None] = _nothing,
    ) -> None:
        self.rank_case, self._run, self._output, self._expected = rank_case, run, output, expected
        # `forget` frees memory of earlier calls, so that the memory of a call can be measured. `close` frees all; collective.
        self.forget, self.close = forget, close
        if extra_bytes is not None:
            self.extra_bytes = extra_bytes

    def __call__(self) -> None:
        """Run once. Collective over the processes of the case."""
        self._run()

    def poison(self) -> None:
        """Overwrite the output."""
        if self._output is None:
            self.rank_case.poison()
        poison(self._output)

    def correct(self) -> bool:
        """Whether the output of the last run is right on this rank."""
        if self._output is None or self._expected is None:
            return self.rank_case.correct()
        return np.array_equal(bytes_of(self._output), self._expected())

    def profile(self) -> Mapping[str, float]:
        """Run once, and return this rank's seconds for each part, if the method knows them. Collective like a run."""
        return {}


@dataclass(frozen=True)
class Method:
    """A way to get from one layout to the other, by its name on the command line.

    `prepare` makes all that is made once and used often. It is collective over the case's communicator, and raises
    RedistributionError where the method does not apply; on every rank, if on any that has a part in the case.
    """

    name: str
    prepare: Callable[[RankCase], Prepared]
    obstacle: Callable[[Case], str | None] = lambda case: None  # why it cannot run on this rank, or None
    fresh: Callable[[RankCase], Prepared] | None = (
        None  # with nothing kept from earlier times, if a user has that to make
    )

    def anew(self) -> Method:
        """This method with everything it reuses made in each call, and timed."""
        return replace(self, prepare=functools.partial(_anew, fresh=self.fresh)) if self.fresh else self


def _anew(rank_case: RankCase, fresh: Callable[[RankCase], Prepared]) -> Prepared:
    """Prepare the method once as a trial, then anew in each call."""

    def run() -> None:
        with contextlib.closing(fresh(rank_case)) as method:
            method()

    with contextlib.closing(fresh(rank_case)) as trial:
        return Prepared(rank_case, run, trial.extra_bytes)


def read_method(name: str) -> Method:
    """The method of that name.

    Raises
    ------
    ValueError
        There is none; lists those that there are.
    """
    if name in OTHERS:
        return OTHERS[name]
    library = OTHER_LIBRARY.fullmatch(name)
    if library:
        load = functools.partial(blacs.load, library["path"], prefix=library["prefix"] or "")
        obstacle = functools.partial(_gemr2d_obstacle, load=load)
        return Method(name, lambda rank_case: _gemr2d(rank_case, load()), obstacle)
    parts = name.split("/")
    if len(parts) in (2, 3, 4):
        known = (("auto", *NAMES), ("auto", *EXCHANGES), tuple(BUFFERS), AGREE)
        for option, part, names in zip(OPTIONS, parts, known, strict=False):
            if part not in names:
                raise ValueError(
                    f"unknown {option} {part!r} of a method SCHEDULE/EXCHANGE[/BUFFERS[/AGREE]]: there are {', '.join(names)}"
                )
    elif name != "auto":
        raise ValueError(
            f"unknown method {name!r}: there are auto, SCHEDULE/EXCHANGE[/BUFFERS[/AGREE]] (as caterpillar/sendrecv), "
            f"pxgemr2d, pxgemr2d=PATH[:PREFIX], {', '.join(OTHERS)}"
        )
    asked = () if name == "auto" else parts
    return Method(
        name,
        lambda rank_case: _Planned(rank_case, asked),
        fresh=lambda rank_case: _Planned(rank_case, asked, next(_limits)),
    )


def named_methods(*names: str) -> tuple[Method, ...]:
    """The methods of a suite."""
    return tuple(map(read_method, names))


class _Planned(Prepared):
    """A plan of `redistribute` with the options in the method's name."""

    def __init__(self, rank_case: RankCase, asked: Sequence[str], memory_limit: int = MEMORY_LIMIT) -> None:
        super().__init__(rank_case)
        options: dict[str, Any] = dict(zip(OPTIONS, asked, strict=False))
        options |= {"dtype": rank_case.case.dtype, "memory_limit": memory_limit}
        self.plan = plan(rank_case.desc_a, rank_case.desc_b, **options)

    @functools.cached_property
    def extra_bytes(self) -> int | None:  # type: ignore[override]  # a property: a report takes as long as a plan
        """Staging memory of a run, on this rank."""
        staging: int | None = self.plan.report(self.rank_case.case.dtype).extra_bytes
        return staging

    def __call__(self) -> None:
        self.plan(self.rank_case.a, self.rank_case.out)

    def profile(self) -> Mapping[str, float]:
        seconds: Mapping[str, float] = self.plan.profile(self.rank_case.a, self.rank_case.out).seconds
        return seconds


# -- p?gemr2d, with descriptors made beforehand: nothing of this package is timed


def _gemr2d_obstacle(case: Case, load: Callable[[], blacs.Library]) -> str | None:
    """Why p?gemr2d does not apply: the dtype, dimensions, order or size of the case, or a missing library."""
    if len(case.shape) != 2:
        return f"pxgemr2d is for two dimensions, not {len(case.shape)}"
    if case.tiled:
        return NOT_FOR_TILES.format("pxgemr2d", case.tiled)
    if case.dtype not in KIND_OF_DTYPE:
        return f"pxgemr2d is for {', '.join(map(str, KIND_OF_DTYPE))}, not {case.dtype}"
    sizes = [case.local_elements]
    for name, layout in (("A", case.before), ("B", case.after)):
        if not all(isinstance(size, int) for size in layout.block):
            kind = "balanced" if BALANCED in layout.block else "irregular"
            return f"pxgemr2d is for blocks of one size, and those of {name} are {kind}"
        if layout.copied:
            return f"pxgemr2d is for layouts without replicas, and several processes hold each element of {name}"
        if layout.order != "F":
            return f"pxgemr2d is for Fortran order, and the local arrays of {name} are in C order"
        sizes += [*layout.whole_shape(case.shape), *layout.block]
    if max(sizes) >= LIMIT:
        return "p?gemr2d counts in 32 bits: this array is too large for it"
    try:
        load()
    except LibraryError as error:
        return str(error)
    return None


def _gemr2d(rank_case: RankCase, library: blacs.Library) -> Prepared:
    """A call with three BLACS contexts: of each grid, and of all ranks of both."""
    case, contexts = rank_case.case, list[int]()

    def context(shape: tuple[int, int], ranks: list[int]) -> int:
        if rank_case.comm.Get_rank() not in ranks:
            return -1
        contexts.append(blacs.make_context(rank_case.comm, shape, ranks, library))
        return contexts[-1]

    def operand(layout: LayoutText, array: NDArray[Any] | None) -> tuple[int, int, int, NDArray[np.intc]]:
        """Address, IA, JA and the nine integers; outside the grid CTXT is -1, and the address is 0."""
        of_grid = context((layout.grid[0], layout.grid[1]), list(range(layout.first, layout.end)))
        rows = 1 if array is None else max(1, array.shape[0])
        integers = [1, of_grid, *layout.whole_shape(case.shape), *layout.block, *layout.source, rows]
        i, j = layout.offset or (0, 0)
        return 0 if array is None else array.ctypes.data, i + 1, j + 1, np.array(integers, np.intc)

    def forget() -> None:
        for file in (library.path, None):  # BLACS keeps its largest buffer for later calls
            free = getattr(ctypes.CDLL(file), "blacs_freebuff_", None)
            if free is not None:
                free(ctypes.byref(ctypes.c_int(of_all)), ctypes.byref(ctypes.c_int(1)))
                return

    def close() -> None:
        for number in reversed(contexts):
            blacs.free_context(number, library)

    a, b = operand(case.before, rank_case.a), operand(case.after, rank_case.out)
    involved = sorted({*range(case.before.first, case.before.end), *range(case.after.first, case.after.end)})
    of_all = context((1, len(involved)), involved)
    if of_all < 0:
        return Prepared(rank_case)
    m, n = case.shape
    run = functools.partial(library.entries.gemr2d, KIND_OF_DTYPE[case.dtype], m, n, *a, *b, of_all)
    return Prepared(rank_case, run, forget=forget, close=close)


# -- through one rank


def _gather_scatter(rank_case: RankCase) -> Prepared:
    """Each rank sends its local array to rank 0, which assembles the whole array by global indices; then the reverse.

    The indices, and rank 0's memory for the whole array, are made once and reused. All arrays are seen transposed: local
    arrays in Fortran order are sent and received as they lie in memory.
    """
    case, comm = rank_case.case, rank_case.comm
    element = MPI.BYTE.Create_contiguous(case.dtype.itemsize).Commit()
    source, target = (
        None if part is None or not part.size else part.T for part in (rank_case.part_of_a, rank_case.part_of_b)
    )

    def send(array: NDArray[Any], rank: int) -> None:
        array = np.ascontiguousarray(array)
        comm.Send([bytes_of(array), array.size, element], rank)

    def receive(rank: int, shape: Sequence[int], into: NDArray[Any] | None = None) -> NDArray[Any]:
        array = np.empty(shape, case.dtype) if into is None else into
        comm.Recv([bytes_of(array), array.size, element], rank)
        return array

    def run() -> None:
        if source is not None:
            send(source, ROOT)
        if target is not None and target.flags.c_contiguous:
            receive(ROOT, target.shape, target)
        elif target is not None:
            target[...] = receive(ROOT, target.shape)

    if comm.Get_rank() != ROOT:
        copied = [array.nbytes for array in (source, target) if array is not None and not array.flags.c_contiguous]
        return Prepared(rank_case, run, max(copied, default=0), close=element.Free)

    senders, receivers = (
        [
            (rank, np.ix_(*reversed(part.indices)))  # where its elements are in the whole array, transposed
            for rank in range(comm.Get_size())
            for part in parts_of(case, side, rank)
            if part.elements
        ]
        for side in (case.before, case.after)
    )
    whole = np.empty(case.shape[::-1], case.dtype)

    def run_all() -> None:
        for rank, place in senders:
            whole[place] = source if rank == ROOT else receive(rank, [index.size for index in place])
        for rank, place in receivers:
            if rank != ROOT:
                send(whole[place], rank)
            elif target is not None:
                target[...] = whole[place]

    largest = max((math.prod(index.size for index in place) for _, place in senders + receivers), default=0)
    return Prepared(rank_case, run_all, whole.nbytes + largest * case.dtype.itemsize, close=element.Free)


# -- whole messages, packed, moved, then unpacked, without overlap; buffers hold all of them

Place = tuple[int, tuple[int, ...]]  # address and strides in bytes of a local array


class PackedMessages:
    """Packed messages side by side in memory, with the bytes and the start of each by rank.

    `parts` has each message, the place of its packed elements, and that part of the memory.
    """

    def __init__(self, messages: Sequence[Message], item: int, order: tuple[int, ...], ranks: int) -> None:
        self.counts = [0] * ranks
        for message in messages:
            self.counts[message.peer] = message.size * item
        self.starts = np.cumsum([0, *self.counts]).tolist()[:-1]
        self.memory: NDArray[np.uint8] = np.empty(max(1, sum(self.counts)), np.uint8)
        self.parts: list[tuple[Message, Place, NDArray[np.uint8]]] = []
        for message in messages:
            part = self.memory[self.starts[message.peer] :][: self.counts[message.peer]]
            place = part.ctypes.data, dense_strides(_box(message).shape(), order, item)
            self.parts.append((message, place, part))


def _box(message: Message) -> Box:
    """The box of a message between descriptors, which has one."""
    assert isinstance(message.box, Box)
    return message.box


class PackedMethod(Prepared):
    """Base class of methods with whole packed messages.

    Attributes
    ----------
    outgoing, incoming : PackedMessages
        What this rank sends, and what it receives.
    """

    def __init__(self, rank_case: RankCase) -> None:
        case, comm = rank_case.case, rank_case.comm
        dims = range(len(case.shape))
        self._item, self._order = case.dtype.itemsize, tuple(dims if case.before.order == "F" else reversed(dims))
        ranks = range(comm.Get_size())
        (*both, self._copies), _ = messages_of(
            rank_case.desc_a, rank_case.desc_b, comm.Get_rank(), ranks, Natural((), ())
        )
        self.outgoing, self.incoming = (PackedMessages(some, self._item, self._order, len(ranks)) for some in both)
        self._source, self._target = (
            (0, ()) if array is None else (address_of(array), array.strides) for array in (rank_case.a, rank_case.out)
        )
        super().__init__(rank_case, extra_bytes=sum(self.outgoing.counts) + sum(self.incoming.counts))

    def _move(self, message: Message, source: Place, target: Place) -> None:
        _box(message).move(*source, *target, self._item, self._order, message.first, message.last)

    def pack(self) -> None:
        """Pack every message."""
        for message, place, _ in self.outgoing.parts:
            self._move(message, self._source, place)

    def unpack_and_copy(self) -> None:
        """Unpack every message, and copy what the rank owes itself."""
        for message, place, _ in self.incoming.parts:
            self._move(message, place, self._target)
        for message in self._copies:
            self._move(message, self._source, self._target)

    def __call__(self) -> None:
        self.pack()
        self.exchange()
        self.unpack_and_copy()

    def exchange(self) -> None:
        """Move the packed messages. Collective."""
        raise NotImplementedError


class _Waitall(PackedMethod):
    """All Irecv and Isend at once, each as soon as its message is packed, then Waitall."""

    def __call__(self) -> None:
        comm = self.rank_case.comm
        requests = [comm.Irecv(memory, message.peer) for message, _, memory in self.incoming.parts]
        for message, place, memory in self.outgoing.parts:
            self._move(message, self._source, place)
            requests.append(comm.Isend(memory, message.peer))
        MPI.Request.Waitall(requests)
        self.unpack_and_copy()


class WholeByAlltoallv(PackedMethod):
    """One blocking Alltoallv of bytes."""

    def exchange(self) -> None:
        """Move the packed messages. Collective."""
        sides = self.outgoing, self.incoming
        sent, received = ((side.memory, (side.counts, side.starts), MPI.BYTE) for side in sides)
        self.rank_case.comm.Alltoallv(sent, received)


# -- as many bytes


def _memcpy(rank_case: RankCase) -> Prepared:
    """The C library's memcpy of the elements of each rank's local A that move, on all ranks at once."""
    part = np.empty(0) if rank_case.part_of_a is None else rank_case.part_of_a
    source: NDArray[Any] = part if part.flags.c_contiguous else np.asfortranarray(part)
    copy = np.empty_like(source)
    where = (ctypes.c_void_p(array.ctypes.data) for array in (copy, source))
    run = functools.partial(ctypes.CDLL(None).memcpy, *where, ctypes.c_size_t(part.nbytes))
    poison(copy)
    return Prepared(rank_case, run, 0, copy, lambda: bytes_of(source))


def _broadcast(rank_case: RankCase) -> Prepared:
    """MPI_Bcast of the first process's local A to all."""
    case, comm, root = rank_case.case, rank_case.comm, rank_case.case.before.first
    size = comm.bcast(0 if rank_case.a is None else rank_case.a.nbytes, root=root)
    is_root = comm.Get_rank() == root
    buffer = _by_columns(rank_case.a).copy() if is_root else np.empty(size, np.uint8)
    received = buffer[:0] if is_root else buffer
    return Prepared(
        rank_case,
        lambda: comm.Bcast(buffer, root=root),
        buffer.size,
        received,
        lambda: _by_columns(parts_of(case, case.before, root)[0].filled())[: received.size],
    )


def _all_to_all(rank_case: RankCase) -> Prepared:
    """MPI_Alltoall in which each process sends equal parts of its local A to all."""
    case, comm, size = rank_case.case, rank_case.comm, rank_case.comm.Get_size()
    least = min(comm.allgather(0 if rank_case.a is None else rank_case.a.size))
    if least < size:
        raise ArrayError(f"alltoall: a rank has {least} elements of A, fewer than one for each of the {size} ranks")
    part = least // size * case.dtype.itemsize
    sent = _by_columns(rank_case.a)[: size * part].copy()
    received = np.empty_like(sent)

    def expected() -> NDArray[np.uint8]:
        place = slice(comm.Get_rank() * part, (comm.Get_rank() + 1) * part)
        arrays = (parts_of(case, case.before, rank)[0].filled() for rank in range(size))
        return np.concatenate([_by_columns(array)[place] for array in arrays])

    return Prepared(rank_case, lambda: comm.Alltoall(sent, received), 2 * sent.size, received, expected)


def _by_columns(array: NDArray[Any] | None) -> NDArray[np.uint8]:
    """The bytes of a local array, column by column."""
    return np.empty(0, np.uint8) if array is None or not array.size else array.T.reshape(-1).view(np.uint8)


def _counted(name: str, prepare: Callable[[RankCase], Prepared], unit: str = "bytes", keeps: bool = True) -> Method:
    """A method with one local array on each process, whose bytes or elements fit into 32 bits."""

    def obstacle(case: Case) -> str | None:
        if case.tiled:
            return NOT_FOR_TILES.format(name, case.tiled)
        size = case.local_elements * (case.dtype.itemsize if unit == "bytes" else 1)
        too_large = f"{name} counts {unit} in 32 bits: the local arrays are too large for it"
        return too_large if size >= LIMIT else None

    return Method(name, prepare, obstacle, prepare if keeps else None)


OTHERS = {
    method.name: method
    for method in (
        _counted("gather-scatter", _gather_scatter, "elements"),
        _counted("mpi-waitall", _Waitall),
        _counted("mpi-alltoallv", WholeByAlltoallv),
        Method("memcpy", _memcpy),
        _counted("bcast", _broadcast, keeps=False),
        _counted("alltoall", _all_to_all, keeps=False),
    )
}
