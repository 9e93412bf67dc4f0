"""Where a routine works: on a grid by ScaLAPACK, whose moves are plans, or on one process by LAPACK, which has all operands.

A routine's work is written once, for a `Place`. On a grid all ranks do it together; on one process that rank does it alone.
"""

from __future__ import annotations

import functools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import blacs, tracing
from ..blacs.library import warn_of_kernels
from ..comm.agreement import meet
from ..comm.free_memory import NEGLIGIBLE, free_memory
from ..comm.group import first_known
from ..comm.guard import GuardedWork
from ..distributed_array import DistributedArray
from ..errors import ArrayError
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from ..redistribution import Redistribution, plan_between
from ..scalapack.scaling import times_power
from .cache import cache_of
from .call import ROUTINES, RoutineCall
from .matrix_parts import COMPLEMENT, clear_outside, diagonal_elements, local_elements, magnitude
from .operands import Operands
from .rates import family_name, shape_of_work
from .solver_rules import FAMILY, LIMIT, OF_ONE_PROCESS, check_counts, is_good_layout

K = TypeVar("K")
COPY_RATE = 1e9  # bytes that a process sends or receives in a second
SURE = 192 * 192  # elements up to which one process is faster everywhere


def choose_layout(call: RoutineCall, operands: Operands, uses_library: bool) -> Descriptor:
    """The layout in which the routine takes the least time, as far as rates tell. Collective where they are measured.

    That may be the operand's own, which costs no move; the grid of `layout_for`; or one process, the first one of the first
    operand's grid.
    """
    cache, shape, driver = cache_of(call.group), operands.shape, call.arguments.get("driver")
    library = "elpa" if driver == "elpa" and 0 not in shape else "scalapack"
    layouts = [array.desc for array in operands.arrays.values()]
    own: list[Descriptor] = [layout for layout in layouts if is_good_layout(call.name, layout, library)][:1]
    # without the library the routine finds a grid by itself, on all processes
    rules = cache.layout(call.name, shape, call.comm, library) if uses_library else None
    rule = rules or cache.layout_on_all(shape, call.comm)
    if driver in ("elpa", "scalapack"):
        return (own or [rule])[0]
    alone = cache.layout_on(int(layouts[0].grid.ranks.flat[0]), shape, call.comm)
    if call.comm.Get_size() == 1:
        return alone
    if not operands.room:
        return rule
    return _fastest(call, [array.shape for array in operands.arrays.values()], own, [rule], alone)


def choose_process(call: RoutineCall, operands: Operands, copies: int) -> Descriptor:
    """The layout of a process that has room for so many complex matrices of the first operand's shape. Collective.

    That is the process of the asked layout, else the first one of the operand's grid, or another one if only that has room.

    Raises
    ------
    ArrayError
        None has room, or LAPACK cannot count the elements.
    """
    shape, desc = operands.shape, next(iter(operands.arrays.values())).desc
    other = "eigh" if call.name in OF_ONE_PROCESS else 'assume_a="her"'
    remedy = f"for a Hermitian matrix take {other}, which works on all processes"
    if math.prod(shape) >= LIMIT:
        raise ArrayError(
            f"{call.name} of {shape[0]} x {shape[1]} elements works on one process, and LAPACK counts them in 32 bits: fewer "
            f"than 2^31 are possible; {remedy}"
        )
    wanted = operands.layout
    rank = int((wanted or desc).grid.ranks.flat[0])
    needed = copies * 16 * math.prod(shape)
    if needed > NEGLIGIBLE:
        free: list[float] = call.run(lambda: free_memory() or math.inf, list)  # 0 where the system does not say
        ranks = [rank] if wanted is not None else [rank, *range(len(free))]
        rank = next((each for each in ranks if free[each] >= needed), max(ranks, key=free.__getitem__))
        if free[rank] < needed:
            raise ArrayError(
                f"{call.name} of {shape[0]} x {shape[1]} elements works on one process, where it takes {needed / 2**30:.3g} "
                f"GiB, and {'that of layout=' if wanted is not None else 'the one with the most, rank'} {rank} has "
                f"{free[rank] / 2**30:.3g} GiB free: start fewer processes on a node, or one on a larger node; {remedy}"
            )
    return cache_of(call.group).layout_on(rank, shape, call.comm)


def _fastest(
    call: RoutineCall,
    shapes: Sequence[tuple[int, ...]],
    own: Sequence[Descriptor],
    others: Sequence[Descriptor],
    alone: Descriptor,
) -> Descriptor:
    """The layout with the least predicted time, of those of operands, of others, and that of one process."""
    family, cache, elements = FAMILY[call.name], cache_of(call.group), max(map(math.prod, shapes))
    if elements <= SURE and not cache.has_file_of(call, family):
        return alone
    shape, rates = shape_of_work(call.name, shapes), cache.rates(call, family, ROUTINES[family_name(family)])
    # nothing moves to an operand's own layout, and the rate on one process has its moves in it
    seconds = [(rates.seconds(shape, layout.grid.size), layout) for layout in (*own, alone)]
    seconds += [
        (rates.seconds(shape, layout.grid.size) + move_seconds(elements, layout.grid.size), layout) for layout in others
    ]
    return min(seconds, key=operator.itemgetter(0))[1]


def move_seconds(elements: int, processes: int) -> float:
    """How long it takes to bring doubles to a grid and back."""
    return 2 * 8 * elements / (COPY_RATE * processes)


def place_in(call: RoutineCall, operands: Operands, layout: Descriptor, uses_library: bool, is_asked: bool) -> Place:
    """The place with this layout of the first operand. Collective.

    Parameters
    ----------
    uses_library : bool
        Whether the routine calls ScaLAPACK on a grid, which needs a BLACS context.
    is_asked : bool
        Whether the layout is an argument, or that of a second attempt.
    """
    cache = cache_of(call.group)
    if layout.grid.size == 1 and call.arguments.get("driver") != "elpa":  # where blocks do not matter
        rank, (m, n) = int(layout.grid.ranks.flat[0]), layout.shape
        return OneProcess(call, operands, cache.layout_on(rank, (m, n), call.comm), is_asked)
    if uses_library:
        if not cache.has_library:
            call.run(lambda: warn_of_kernels(blacs.load(), call.comm.Get_rank()))
            cache.has_library = True
        layout = Descriptor(layout.shape, layout.block, _with_context(call, layout.grid))
    return Grid(call, operands, layout, is_asked)


def _with_context(call: RoutineCall, grid: ProcessGrid) -> ProcessGrid:
    """An equal grid with a BLACS context. Collective over the grid.

    There is one for each communicator, whose context is freed with the communicator.
    """
    grids = cache_of(call.group).grids
    key = grid.shape, grid.ranks.tobytes()
    own = grids.get(key)
    if own is None:
        own = ProcessGrid(grid.shape, call.comm, ranks=grid.ranks)
        with call.step():
            meet(call.group, f"make_context{grid.shape}")  # ranks of the grid then wait for these alone
        with call.step():
            own.make_context()
        grids[key] = own
    return own


class Place(ABC):
    """Where a work is done: what the work sees of the call.

    Attributes
    ----------
    call : RoutineCall
        The call.
    facts : Operands
        What all ranks know of the operands.
    operands : mapping of str to DistributedArray
        The operands; on one process with all elements there.
    work_layout : Descriptor
        That of the first operand.
    is_asked : bool
        Whether that is an argument, or of a second attempt, and not the choice of this package.
    is_refused : bool
        Whether the result of an earlier attempt has been refused.
    is_alone : bool
        Whether this process computes all, and others wait for that.
    ranks : sequence of int
        The ranks whose results `run` combines, in their order.
    """

    is_alone: bool
    is_refused = False

    def __init__(self, call: RoutineCall, facts: Operands, layout: Descriptor, is_asked: bool) -> None:
        self.call, self.facts, self.work_layout, self.is_asked = call, facts, layout, is_asked
        self.operands: Mapping[str, Any] = facts.matrices
        self.dtype, self.parts = facts.dtype, facts.parts
        self.ranks: Sequence[int] = range(call.comm.Get_size())

    # -- steps

    def run(self, work: Callable[[], Any], combined: Callable[[list[Any]], Any] | None = None) -> Any:
        """As `RoutineCall.run`."""
        return self.call.run(work, combined)

    def collect_errors(self) -> GuardedWork:
        """As `RoutineCall.collect_errors`."""
        return self.call.collect_errors()

    def has_overwritten(self) -> bool:
        """Whether an operand of any rank has been overwritten."""
        return bool(self.run(lambda: self.facts.overwritten, any))

    @property
    def is_first_rank(self) -> bool:
        """Whether this is the rank that computes what one rank computes for all."""
        return self.call.comm.Get_rank() == self.ranks[0]

    # -- arrays

    @abstractmethod
    def layout(self, shape: tuple[int, int]) -> Descriptor:
        """The layout of an array of this shape, in the blocks and on the grid of the place."""

    def array(self, desc: Descriptor, local: NDArray[Any] | None, dtype: np.dtype[Any] | None = None) -> DistributedArray:
        """A distributed array; by default of the operands' dtype."""
        return DistributedArray._from_result(desc, local, dtype or self.dtype)

    def zeros(self, shape: tuple[int, int]) -> DistributedArray:
        """A new array. If memory is short, `run` raises."""
        desc, local = self.layout(shape), None
        with self.collect_errors():
            local = desc.zeros(self.dtype) if desc.coords is not None else None
        return self.array(desc, local)

    def move(
        self,
        name: str,
        *,
        read_only: bool = False,
        rows: int | None = None,
        columns: int | None = None,
        exponent: int = 0,
    ) -> DistributedArray:
        """Bring an operand here.

        The result is a copy, unless the operand has that layout and may be overwritten, or is only read. Rows and columns
        beyond the operand's are zero, and so are elements that are not read; those that are read are divided by
        2**exponent.
        """
        operand = self.operands[name]
        desc, local = operand.desc, operand.local
        m, n = desc.shape
        shape = (m if rows is None else rows, n if columns is None else columns)
        target = self.layout(shape)
        if shape != (m, n):
            matrix = self.zeros(shape)
            self.run(lambda: None)
            self._bring(name, desc, target[:m, :n], local, matrix.local)
        elif desc == target:
            matrix = self.array(target, self._own(name, local, read_only and not exponent))
        else:
            matrix = self.array(target, self._bring(name, desc, target, local))
        if matrix.local is not operand.local or name in self.facts.overwritten:
            with self.collect_errors():
                elements = local_elements(matrix)
                clear_outside(elements, self.parts[name])
                times_power(elements[2], -exponent)
        return matrix

    def _own(self, name: str, local: NDArray[Any] | None, read_only: bool) -> NDArray[Any] | None:
        """The local array of an operand, or a copy."""
        with self.collect_errors():
            if local is None:
                return None
            may_stay = local.flags.aligned and local.flags.f_contiguous
            if may_stay and name in self.facts.overwritable:
                self.facts.overwritten.append(name)
            elif not (may_stay and read_only and self._is_finite_outside(name)):
                local = np.array(local, order="F")
        return local

    def _is_finite_outside(self, name: str) -> bool:
        """Whether what is not read of an operand may stay: a kernel may multiply it by zero."""
        part = self.parts[name]
        return not part or math.isfinite(magnitude(self.operands[name], COMPLEMENT[part]))

    @abstractmethod
    def _bring(self, name: str, source: Descriptor, target: Descriptor, local: Any, out: Any = None) -> Any:
        """The local array of an operand in another layout; with `out` in a part of that array."""

    @abstractmethod
    def transpose(self, matrix: DistributedArray, op: str = "C") -> DistributedArray:
        """The conjugate transpose, or the transpose. An error of one rank before it is raised on all."""

    def complete(self, matrix: DistributedArray, triangle: str, op: str = "C") -> None:
        """Write the triangle that is not read, from the one that is, of a matrix that is its own transpose."""
        with self.collect_errors():
            clear_outside(local_elements(matrix), f"H{triangle}" if op == "C" else triangle)
        turned = self.transpose(matrix, op)
        with self.collect_errors():
            if matrix.local is not None and turned.local is not None:
                rows, columns, local = local_elements(turned)
                clear_outside((rows, columns, local), "U" if triangle == "L" else "L")
                _, *diagonal = diagonal_elements(rows, columns)
                local[tuple(diagonal)] = 0
                matrix.local[...] += turned.local

    @abstractmethod
    def from_first_rank(
        self, name: str, local: NDArray[Any] | None, shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> DistributedArray:
        """A matrix that the first rank has, here."""

    @abstractmethod
    def columns_of(self, name: str, matrix: DistributedArray, first: int, last: int) -> DistributedArray:
        """Some columns of a matrix, as a matrix."""


class Grid(Place):
    """A grid of processes, on which all ranks work together: all methods are collective, also for ranks outside."""

    is_alone = False

    def layout(self, shape: tuple[int, int]) -> Descriptor:
        desc = Descriptor(shape, self.work_layout.block, self.work_layout.grid)
        check_counts(desc)
        return desc

    def _bring(self, name: str, source: Descriptor, target: Descriptor, local: Any, out: Any = None) -> Any:
        consumes = out is None and name in self.facts.consumable
        if consumes:
            self.facts.overwritten.append(name)
            self.facts.has_consumed = True
        return self.redistribute(name, source, target, local, out, overwrite=consumes)

    def transpose(self, matrix: DistributedArray, op: str = "C") -> DistributedArray:
        self.run(lambda: None)
        target = self.layout((matrix.shape[1], matrix.shape[0]))
        return self.array(target, self.redistribute("transpose", matrix.desc, target, matrix.local, op=op))

    def from_first_rank(
        self, name: str, local: NDArray[Any] | None, shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> DistributedArray:
        source, target = Descriptor(shape, None, ProcessGrid((1, 1), self.call.comm)), self.layout(shape)
        return self.array(target, self.redistribute(name, source, target, local, dtype=dtype), dtype)

    def columns_of(self, name: str, matrix: DistributedArray, first: int, last: int) -> DistributedArray:
        target, columns = self.layout((matrix.shape[0], last - first)), matrix[:, first:last]
        local = self.redistribute(name, columns.desc, target, columns.local, dtype=matrix.dtype)
        return self.array(target, local, matrix.dtype)

    def redistribute(
        self,
        name: str,
        source: Descriptor,
        target: Descriptor,
        *arrays: Any,
        op: str = "N",
        dtype: np.dtype[Any] | None = None,
        overwrite: bool = False,
    ) -> Any:
        """The local array of a matrix in another layout."""
        return redistribute(
            self.call, name, source, target, *arrays, dtype=dtype or self.dtype, op=op, overwrite=overwrite
        )

    def plan(self, source: Descriptor, target: Descriptor, **options: Any) -> Redistribution:
        """A plan on the communicator of all operands."""
        return make_plan(self.call, source, target, **options)

    def keep(self, name: str, kind: Callable[[], K]) -> K:
        """An object that the communicator keeps between calls, made at first use; equal on all ranks."""
        kept: K = cache_of(self.call.group).kept.setdefault(name, kind())
        return kept


class OneProcess(Place):
    """One process, whose rank has all elements of all operands and works alone: no method communicates but `gather`.

    By that other ranks bring their elements there; then they wait for the result.
    """

    is_alone = True

    def __init__(self, call: RoutineCall, facts: Operands, layout: Descriptor, is_asked: bool) -> None:
        super().__init__(call, facts, layout, is_asked)
        self.rank = int(layout.grid.ranks.flat[0])
        self.ranks = [self.rank]

    def gather(self) -> None:
        """Bring all elements of the operands to the process, as the user gave them. Collective."""
        self.operands = {name: self._gathered(name) for name in self.facts.matrices}

    def _gathered(self, name: str) -> DistributedArray:
        matrix = self.facts.matrices[name]
        desc, local = matrix.desc, matrix.local
        target = self.layout((desc.shape[0], desc.shape[1]))
        if not is_whole_on(desc, self.rank):
            local = redistribute(self.call, name, desc, target, local, dtype=self.dtype)
        return self.array(target, local)

    def run(self, work: Callable[[], Any], combined: Callable[[list[Any]], Any] | None = None) -> Any:
        """The result of the work, combined as that of one rank."""
        self.call.raise_error()
        return (combined or first_known)([work()])

    def layout(self, shape: tuple[int, int]) -> Descriptor:
        return cache_of(self.call.group).layout_on(self.rank, shape, self.call.comm)

    def _bring(self, name: str, source: Descriptor, target: Descriptor, local: Any, out: Any = None) -> Any:
        if out is None:
            return copy_whole(local)
        m, n = source.shape
        out[:m, :n] = local
        return out

    def transpose(self, matrix: DistributedArray, op: str = "C") -> DistributedArray:
        self.run(lambda: None)
        return self.array(self.layout((matrix.shape[1], matrix.shape[0])), copy_whole(matrix.local, op))

    def from_first_rank(
        self, name: str, local: NDArray[Any] | None, shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> DistributedArray:
        return self.array(self.layout(shape), copy_whole(local), dtype)

    def columns_of(self, name: str, matrix: DistributedArray, first: int, last: int) -> DistributedArray:
        assert matrix.local is not None
        columns = copy_whole(matrix.local[:, first:last])
        return self.array(self.layout((matrix.shape[0], last - first)), columns, matrix.dtype)


def redistribute(
    call: RoutineCall,
    name: str,
    source: Descriptor,
    target: Descriptor,
    *arrays: Any,
    dtype: np.dtype[Any],
    op: str = "N",
    overwrite: bool = False,
) -> Any:
    """The local array of a matrix in another layout, by a plan that the communicator keeps. Collective."""
    with tracing.phase(f"redistribute {name}", source, target):
        make = functools.partial(make_plan, call, source, target, dtype=dtype, op=op)
        move = cache_of(call.group).plan(source, target, dtype, op, make)
        with call.step():
            return move(*arrays, overwrite=overwrite)


def make_plan(call: RoutineCall, source: Descriptor, target: Descriptor, **options: Any) -> Redistribution:
    """A plan on the communicator of all operands. Collective."""
    with call.step():
        return plan_between(source, target, comm=call.comm, **options)


def is_whole_on(desc: Descriptor, rank: int) -> bool:
    """Whether the local array of a rank is the array, and other ranks have none."""
    return bool(desc.parent is None and desc.grid.size == 1 and desc.grid.ranks.flat[0] == rank)


def copy_whole(array: NDArray[Any] | None, op: str = "N") -> NDArray[Any]:
    """A copy of a whole array, or of its transpose or conjugate transpose."""
    assert array is not None
    turned = array if op == "N" else array.T
    return np.array(turned.conj() if op == "C" else turned, order="F")
