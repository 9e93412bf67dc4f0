"""Problem: a call of a routine of linalg on all ranks: agreement on its arguments, moves of operands, checks, the result."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from .. import blacs, tracing
from ..blacs.library import fitting_kernels, kernel_name, warn_of_kernels
from ..comm.agreement import agreement, meet
from ..comm.free_memory import free_memory, room_beside
from ..comm.group import first_known
from ..comm.guard import Guard, GuardedWork
from ..comm.mpi import MPI
from ..comm.progress import hold_interrupts
from ..distributed_array import DistributedArray
from ..engine.ownership import why_not_written
from ..engine.spec import communicator_of, group_of_all
from ..errors import ArrayError, DescriptorError, kind_of, shown
from ..layout.array_arithmetic import Distributed, descriptor_of
from ..layout.arrays import new_array
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid, same_ranks
from ..redistribution import Redistribution, plan_between
from ..scalapack.calls import ConvergenceError, NotFiniteError, run_together
from ..scalapack.matrix_operands import FACTORED_KINDS, KIND_OF_DTYPE
from ..scalapack.scaling import exponent_of, times_power
from .cache import cache_of
from .choice import fastest_layout
from .cores import blas_on_all_cores
from .facts import LEAST_EXPONENT, CombinedFacts, Facts, Forms, OperandFacts, canonical_form, describe
from .kernels import fits_one_process
from .matrix_parts import COMPLEMENT, clear_outside, local_elements, magnitude
from .one_process import Answer, WholeArray, copy_whole, is_whole_on
from .working_layouts import (
    another_layout,
    as_column,
    check_counts,
    check_work_layout,
    current_call,
    is_good_layout,
    one_step,
    result_order,
)

LayoutOption = Descriptor | Distributed | None
# The shape for which a layout is chosen, and the default layout of the result.
ShapeAndLayout = tuple[tuple[int, ...], Descriptor]

R = TypeVar("R")
K = TypeVar("K")


class RoutineOptions(TypedDict, total=False):
    """Keyword arguments of most routines, for their overloads."""

    overwrite_a: bool
    check_finite: bool
    check: bool
    layout: LayoutOption


EAGER = 2**20  # elements up to which bilinear forms are computed before it is known whether they are wanted
MOVED = 64.0
WORKSPACES = 4  # arrays of the size of the operands on one process: as they came, copies, results, workspace
LONG = 768  # order from which other ranks sleep while one process computes
THREADED = 2048  # order from which that has a thread on each core: OpenBLAS's poll for 100 ms after a call, on cores of ranks
CONSUMING = ("cholesky", "cho_factor", "lu_factor", "solve")  # read an operand that may be overwritten once, after its sums
CONSUMED = 2**28  # bytes of doubles from which such an operand makes room for its copy
MAY_DIFFER = ("overwrite_a", "overwrite_b", "lu_and_piv", "c_and_lower")  # arguments that may differ from rank to rank
DTYPES = [dtype for dtype, kind in KIND_OF_DTYPE.items() if kind in FACTORED_KINDS]


class WrongResultError(Exception):
    """The library returned a wrong result. Raised on all ranks."""


class Problem:
    """A call of a routine on all ranks of its operands' communicator.

    Collective, as are the methods that move operands or run work. The ranks agree on all arguments of the routine except
    those of `MAY_DIFFER`, and on `options`.

    Each collective step begins with a vote of all these ranks. So an error of one rank between two of them, whatever it is,
    ends the routine there: as it leaves, the rank votes that it has failed (`leave`). That meets the vote of any step in which
    other ranks are, or the one with which they leave.

    Parameters
    ----------
    operands : mapping of str to DistributedArray
        In the order of the arguments.
    check_arguments : callable
        Called with the operands. Raises an error if their shapes do not fit; returns `ShapeAndLayout`.
    parts : callable, optional
        Returns the part of each operand that the routine reads, in the letters of `matrix_parts`; of those left out, and by
        default, all elements are read.
    vectors : sequence of str
        Operands that may have one dimension.
    check_finite : bool, optional
        Whether infs and NaNs are refused, for a routine without this keyword.
    uses_library : bool, optional
        Whether the routine calls ScaLAPACK on a grid, which needs a BLACS context.
    has_layout : bool, optional
        Whether the routine works in a layout of its own, and not where the operands are.
    """

    dtype: np.dtype[Any]  # of all operands
    operands: dict[str, Any]  # as the user gave them
    parts: dict[str, str]  # what is read of each operand
    _overwritable: frozenset[str]  # operands in whose memory on this rank the routine may work
    _consumable: frozenset[str]  # operands whose memory is given back as they move
    _has_consumed = False  # whether that of any has
    magnitudes: dict[str, float]  # of each operand's part, as `magnitude`
    is_checked: bool  # whether results are
    is_on_one: bool  # whether one process works, by LAPACK
    is_alone: bool  # whether this process computes all, and others wait for that
    is_layout_forced: bool  # whether the layout to work in is an argument, or that of a second attempt
    is_refused = False  # whether an attempt has been; all ranks know, also where one alone makes it
    target: Descriptor  # layout of the result

    def __init__(
        self,
        operands: Mapping[str, Any],
        check_arguments: Callable[..., ShapeAndLayout],
        *,
        parts: Callable[[], Mapping[str, str]] = dict,
        vectors: tuple[str, ...] = ("b",),
        check_finite: bool = False,
        uses_library: bool = True,
        has_layout: bool = True,
        **options: Any,
    ) -> None:
        self._call = call = current_call.get()
        self._routine, self._arguments, self._warnings = call.name, call.arguments, call.warnings
        checked = bool(self._arguments["check"])
        check_finite = bool(self._arguments.get("check_finite", check_finite))
        arguments = self._arguments | dict(operands) | options | {"check": checked, "check_finite": check_finite}
        arrays = [operand for operand in operands.values() if isinstance(operand, Distributed)]
        if not arrays:
            self._check_operands(operands, vectors)
        self._comm, self._group = communicator_of(arrays[0].desc), group_of_all(arrays[0].desc)
        self._guard = Guard()
        call.leave = self.leave
        self.operands = dict(operands)
        self.parts = dict.fromkeys(operands, "")
        self._uses_library = uses_library
        self.is_layout_forced = arguments["layout"] is not None
        self._overwritten: list[str] = []
        self.is_alone = False
        self._cache = cache_of(self._group)
        with tracing.phase("agree"):
            with one_step(self._group), agreement(self._group, "linalg", combine=CombinedFacts.of) as agreed:
                agreed.same("the routine", self._routine, functools.partial(str, self._routine))
                self._check_operands(operands, vectors)
                if uses_library and self._cache.has_library:
                    blacs.load()
                (m, n), default_target = check_arguments(*operands.values())
                self.parts |= parts()
                wanted = self._read_work_layout(arguments["layout"], (m, n))
                self.target = self._target(arguments.get("like"), default_target)
                self._overwritable = self._overwritable_here()
                for name, argument in arguments.items():
                    if name not in MAY_DIFFER:
                        agreed.same(name, canonical_form(argument), functools.partial(describe, argument))
                agreed.give(self._facts())
            room = self._read_facts(agreed.result)
            for name, size in self.magnitudes.items():
                if check_finite and not math.isfinite(size):
                    raise ValueError(f"{name} must not contain infs or NaNs")
            self.is_checked = checked and all(map(math.isfinite, self.magnitudes.values()))
        if has_layout:
            self._work_in(wanted or self._chosen_layout((m, n), room))

    # -- what the ranks agree on

    def _check_operands(self, operands: Mapping[str, Any], vectors: tuple[str, ...]) -> None:
        first: tuple[str, np.dtype[Any]] | None = None
        for name, operand in operands.items():
            if not isinstance(operand, Distributed):
                raise ArrayError(
                    f"{name} is a {kind_of(operand)}: it must be a DistributedArray; distribute() makes one of an array "
                    "on one rank"
                )
            if operand.ndim != 2 and not (name in vectors and operand.ndim == 1):
                right = "1 or 2 dimensions" if name in vectors else "2 dimensions"
                raise ArrayError(f"{name} has shape {operand.shape}: it must have {right}")
            if not same_ranks(communicator_of(operand.desc), self._comm):
                raise ArrayError(
                    f"{name} is on another communicator than {next(iter(operands))}: put both on one, by "
                    "redistribute(desc_a, desc_b, comm=) with a communicator that holds both"
                )
            if operand.dtype is None:
                continue
            if operand.dtype not in DTYPES:
                raise ArrayError(
                    f"{name} has dtype {operand.dtype}, which ScaLAPACK does not have: it must be one of "
                    f"{', '.join(map(str, DTYPES))}; {name}.astype(numpy.float64) converts it"
                )
            first = first or (name, operand.dtype)
            if operand.dtype != first[1]:
                raise ArrayError(_dtype_difference(first, (name, operand.dtype)))

    def _target(self, like: LayoutOption, default_target: Descriptor) -> Descriptor:
        if like is None:
            return default_target
        desc = self._read_layout("like", like)
        if desc.shape != default_target.shape or desc.parent is not None:
            raise DescriptorError(
                f"like = {desc!r} must be the layout of a whole array of shape {default_target.shape}, that of the result"
            )
        return desc

    def _read_work_layout(self, layout: LayoutOption, shape: tuple[int, int]) -> Descriptor | None:
        """The layout that the user wants, if any."""
        if layout is None:
            return None
        wanted = self._read_layout("layout", layout)
        check_work_layout(self._routine, wanted, shape)
        check_counts(wanted)
        return wanted

    def _chosen_layout(self, shape: tuple[int, int], room: float) -> Descriptor:
        """The layout in which the routine takes the least time, as far as rates tell. Collective where they are measured.

        That may be the operand's own, which costs no move; the grid of `layout_for`; or one process.
        """
        driver = self._arguments.get("driver")
        library = "elpa" if driver == "elpa" and 0 not in shape else "scalapack"
        layouts = [operand.desc for operand in self.operands.values()]
        own: list[Descriptor] = [layout for layout in layouts if is_good_layout(self._routine, layout, library)]
        if self._uses_library:
            rule = self._cache.layout(self._routine, shape, self._comm, library)
        else:  # the routine finds a grid by itself, on all processes
            rule = self._cache.layout_on_all(shape, self._comm)
        if driver in ("elpa", "scalapack"):
            return own[0] if own else rule
        if self._comm.Get_size() == 1:
            return self._alone(shape)
        if not room:
            return rule
        shapes = [operand.shape for operand in self.operands.values()]
        return fastest_layout(self._routine, shapes, [*own[:1], rule, self._alone(shape)], self._cache, self._comm)

    def _alone(self, shape: tuple[int, int]) -> Descriptor:
        """The layout on one process: the first one of the first operand's grid."""
        rank = int(next(iter(self.operands.values())).desc.grid.ranks.flat[0])
        return self._cache.layout_on(rank, shape, self._comm)

    def _work_in(self, layout: Descriptor) -> None:
        """Work in this layout from now on. Collective."""
        self.is_on_one = layout.grid.size == 1 and self._arguments.get("driver") != "elpa"
        if self.is_on_one:  # where blocks do not matter
            layout = self._cache.layout_on(int(layout.grid.ranks.flat[0]), (layout.shape[0], layout.shape[1]), self._comm)
        self._work_layout, self._block, self._grid = layout, layout.block, layout.grid
        if self._uses_library and not self.is_on_one:
            if not self._cache.has_library:
                self.run(lambda: warn_of_kernels(blacs.load(), self._comm.Get_rank()))
                self._cache.has_library = True
            self._grid = self._grid_with_context(layout.grid)

    def _read_layout(self, name: str, layout: LayoutOption) -> Descriptor:
        desc = descriptor_of(layout)
        if not isinstance(desc, Descriptor):
            raise DescriptorError(f"{name} = {shown(layout)} must be a Descriptor or a DistributedArray")
        if not same_ranks(communicator_of(desc), self._comm):
            raise DescriptorError(f"{name} = {desc!r} is on another communicator than the operands: make it on theirs")
        return desc

    def _facts(self) -> Facts:
        """What this rank knows of the operands."""
        operands = [self._facts_of(name) for name in self.operands]
        sizes = [math.prod(operand.shape) for operand in self.operands.values()]
        needed = WORKSPACES * 16 * max(sum(sizes), math.prod(self.target.shape))
        shapes = [*(operand.shape for operand in self.operands.values()), self.target.shape]
        if not fits_one_process(self._routine, shapes, self._arguments):
            needed = sys.maxsize
        return Facts(operands, room_beside(needed, free_memory), self._cache.version, self._consumable_here())

    def _overwritable_here(self) -> frozenset[str]:
        """The operands that this rank's call lets the routine overwrite: they can be written, and no other has their memory."""
        locals_ = {name: operand.local for name, operand in self.operands.items()}
        return frozenset(
            name
            for name, local in locals_.items()
            if self._arguments.get(f"overwrite_{name}")
            and (local is None or not why_not_written(local, [locals_[other] for other in locals_ if other != name]))
        )

    def _consumable_here(self) -> frozenset[str]:
        """The operands that may be overwritten, of those so large that their memory matters."""
        if self._routine not in CONSUMING:
            return frozenset()
        return frozenset(
            name for name in self._overwritable if 8 * math.prod(self.operands[name].shape) >= CONSUMED
        )

    def _facts_of(self, name: str) -> OperandFacts:
        operand = self.operands[name]
        size = magnitude(operand, self.parts[name])
        is_wanted = bool(self._arguments["check"]) and math.prod(operand.shape) <= EAGER
        exponent = math.frexp(size)[1] if size else LEAST_EXPONENT  # of zeros, which say nothing of the scale
        return OperandFacts(
            None if operand.dtype is None else operand.dtype.char,
            size,
            Forms.of(operand, self.parts[name], exponent) if is_wanted and math.isfinite(size) else None,
        )

    def _read_facts(self, facts: CombinedFacts) -> float:
        """Take over what all ranks know together; returns the room for all operands on one process, 0 if there is none."""
        known = [
            (rank, name, np.dtype(letter))
            for name, letters in zip(self.operands, facts.letters, strict=True)
            for letter, rank in letters.items()
        ]
        if not known:
            raise ArrayError("no rank knows the dtype: each local array is None; pass empty ones of the dtype")
        first = min(known)
        for rank, name, dtype in sorted(known):
            if dtype != first[2]:
                raise ArrayError(_dtype_difference(first[1:], (name, dtype), (first[0], rank)))
        self.dtype, self.magnitudes = first[2], dict(zip(self.operands, facts.magnitudes, strict=True))
        self._forms = dict(zip(self.operands, facts.forms, strict=True))
        self._consumable = facts.consumable
        if not facts.have_same_caches:
            self._cache.forget()
        return max(0.0, facts.room)

    def _grid_with_context(self, grid: ProcessGrid) -> ProcessGrid:
        """An equal grid with a BLACS context, if the routine calls ScaLAPACK. Collective over the grid.

        There is one for each communicator, whose context is freed with the communicator.
        """
        if not self._uses_library:
            return grid
        key = grid.shape, grid.ranks.tobytes()
        own = self._cache.grids.get(key)
        if own is None:
            own = ProcessGrid(grid.shape, self._comm, ranks=grid.ranks)
            with self.in_step():
                meet(self._group, f"make_context{grid.shape}")  # ranks of the grid then wait for these alone
            with self.in_step():
                own.make_context()
            self._cache.grids[key] = own
        return own

    @property
    def largest(self) -> str:
        """The largest number of the dtype, in words."""
        return f"the largest number of {self.dtype}, {np.finfo(self.dtype).max:.3g}"

    @property
    def comm(self) -> MPI.Intracomm:
        """The communicator of all operands."""
        return self._comm

    def keep(self, name: str, kind: Callable[[], K]) -> K:
        """An object that the communicator keeps between calls, made at first use; equal on all ranks."""
        kept: K = self._cache.kept.setdefault(name, kind())
        return kept

    # -- arrays

    def layout(self, shape: tuple[int, int]) -> Descriptor:
        """The layout of an array of this shape, in the blocks and on the grid of the call."""
        if self.is_on_one:
            return self._cache.layout_on(int(self._grid.ranks.flat[0]), shape, self._comm)
        desc = Descriptor(shape, self._block, self._grid)
        check_counts(desc)
        return desc

    def zeros(self, shape: tuple[int, int]) -> DistributedArray:
        """A new array in the layout of the call. If memory is short, `run` raises."""
        desc, local = self.layout(shape), None
        with self.collect_errors():
            local = desc.zeros(self.dtype) if desc.coords is not None else None
        return DistributedArray._from_result(desc, local, self.dtype)

    def move(
        self,
        name: str,
        *,
        read_only: bool = False,
        rows: int | None = None,
        columns: int | None = None,
        exponent: int = 0,
    ) -> DistributedArray:
        """Bring an operand into the layout of the call.

        The result is a copy, unless the operand has that layout and may be overwritten, or is only read. Rows and columns
        beyond the operand's are zero, and so are elements that are not read; those that are read are divided by
        2**exponent.
        """
        operand = self.operands[name]
        desc, local = as_column(operand.desc), operand.local
        if local is not None and local.ndim == 1:
            local = local[:, None] if operand.desc.coords is not None else None
        m, n = desc.shape
        shape = (m if rows is None else rows, n if columns is None else columns)
        target = self.layout(shape)
        if shape != (m, n):
            matrix = self.zeros(shape)
            self.run(lambda: None)
            if self.is_alone:
                copy_whole(local, cast(NDArray[Any], matrix.local)[:m, :n])
            else:
                self._redistribute(name, desc, target[:m, :n], local, matrix.local)
        else:
            if desc != target and name in self._consumable and not self.is_alone:
                self._overwritten.append(name)
                self._has_consumed = True
                local = self._redistribute(name, desc, target, local, overwrite=True)
            elif desc != target:
                local = self._redistribute(name, desc, target, local)
            else:
                local = self._own(name, local, read_only and not exponent)
            matrix = DistributedArray._from_result(target, local, self.dtype)
        if matrix.local is not operand.local or name in self._overwritten:
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
            if may_stay and name in self._overwritable:
                self._overwritten.append(name)
            elif not (may_stay and read_only and self._is_finite_outside(name)):
                local = np.array(local, order="F")
        return local

    def _is_finite_outside(self, name: str) -> bool:
        """Whether what is not read of an operand may stay: a kernel may multiply it by zero."""
        part = self.parts[name]
        return not part or math.isfinite(magnitude(self.operands[name], COMPLEMENT[part]))

    def columns(self, name: str) -> int:
        """The number of columns of an operand, 1 for a vector."""
        shape: tuple[int, ...] = self.operands[name].shape
        return (*shape, 1)[1]

    def transpose(self, matrix: DistributedArray) -> DistributedArray:
        """The conjugate transpose, in the layout of the call. An error of one rank before it is raised on all."""
        self.run(lambda: None)
        target = self.layout((matrix.shape[1], matrix.shape[0]))
        local = self._redistribute("transpose", matrix.desc, target, matrix.local, op="C")
        return DistributedArray._from_result(target, local, self.dtype)

    @property
    def work_layout(self) -> Descriptor:
        """The layout of the first operand in the first attempt."""
        return self._work_layout

    @property
    def is_first_rank(self) -> bool:
        """Whether this is the rank that computes what one rank computes for all."""
        return self._comm.Get_rank() == self.ranks[0]

    def from_first_rank(
        self, name: str, local: NDArray[Any] | None, shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> DistributedArray:
        """A matrix that the first rank has, in the layout of the call. Collective."""
        source, target = Descriptor(shape, None, ProcessGrid((1, 1), self._comm)), self.layout(shape)
        return DistributedArray._from_result(
            target, self._redistribute(name, source, target, local, dtype=dtype), dtype
        )

    def columns_of(self, name: str, matrix: DistributedArray, first: int, last: int) -> DistributedArray:
        """Some columns of a matrix, in the layout of the call. Collective."""
        target = self.layout((matrix.shape[0], last - first))
        columns = matrix[:, first:last]
        local = columns.local[:, first:last] if self.is_alone else columns.local
        local = self._redistribute(name, columns.desc, target, local, dtype=matrix.dtype)
        return DistributedArray._from_result(target, local, matrix.dtype)

    def _redistribute(
        self,
        name: str,
        source: Descriptor,
        target: Descriptor,
        *arrays: Any,
        op: str = "N",
        dtype: np.dtype[Any] | None = None,
        overwrite: bool = False,
    ) -> Any:
        dtype = dtype or self.dtype
        if self.is_alone:
            return copy_whole(arrays[0], op=op)
        with tracing.phase(f"redistribute {name}", source, target):
            make = functools.partial(self.plan, source, target, dtype=dtype, op=op)
            move = self._cache.plan(source, target, dtype, op, make)
            with self.in_step():
                return move(*arrays, overwrite=overwrite)

    def plan(self, source: Descriptor, target: Descriptor, **options: Any) -> Redistribution:
        """A plan on the communicator of all operands. Collective."""
        with self.in_step():
            return plan_between(source, target, comm=self._comm, **options)

    def to_result(self, matrix: DistributedArray, target: Descriptor | None = None) -> DistributedArray:
        """Bring a result into a layout; by default `target`."""
        wanted = target or self.target
        desc, local = as_column(wanted), matrix.local
        rank = matrix.desc.grid.ranks.flat[0]
        if desc != matrix.desc and not (is_whole_on(matrix.desc, rank) and is_whole_on(desc, rank)):
            out: NDArray[Any] | None = None
            if result_order.get() == "C" and desc.coords is not None:
                with contextlib.suppress(MemoryError):  # the plan reports it to all ranks
                    out = new_array(desc.local_shape, self.dtype, "C")
            # where A has made room, the result is in memory of its own
            local = self._redistribute("result", matrix.desc, desc, local, out, overwrite=self._has_consumed)
        if wanted.ndim == 1 and local is not None:
            local = local[:, 0] if wanted.coords is not None else None
        return DistributedArray._from_result(wanted, local, self.dtype)

    def collect_errors(self, is_open: bool = True) -> GuardedWork:
        """Keep an error of the block for the next step, which raises it on all ranks. One that all ranks have raised passes.

        The block does not wait for other ranks, if `is_open`: then interrupts end it.
        """
        return self._guard.block(
            lambda caught: caught is self._call.error_of_all or isinstance(caught, WrongResultError), is_open
        )

    @contextlib.contextmanager
    def in_step(self) -> Iterator[None]:
        """As `one_step`. If this rank has an error, it is raised, and the step does not begin."""
        if self._guard.error is not None:
            raise self._guard.error
        with one_step(self._group):
            yield

    def leave(self, error: BaseException | None) -> None:
        """Leave the routine together with all ranks, or raise an error that one of them has on all. Collective.

        Parameters
        ----------
        error : BaseException or None
            What the routine raises on this rank.
        """
        if error is not None and (error is self._call.error_of_all or error is hold_interrupts.forced):
            return
        error, self._guard = self._guard.take_interrupts() or error, Guard()
        if self._group.abort_reason is not None and error is not None:
            raise error
        with self.in_step():
            meet(self._group, f"the end of linalg.{self._routine}", error)

    # -- the call

    def exponent(self, name: str) -> int:
        """The exponent of 2 by which an operand is divided."""
        return exponent_of(self.magnitudes[name], self.dtype)

    def once(self, name: str, find: Callable[[], str]) -> str:
        """A text that all ranks find together, once for each communicator. Collective, if `find` is."""
        texts = self._cache.texts
        if name not in texts:
            texts[name] = find()
        return texts[name]

    def attempt(
        self,
        work: Callable[[], R],
        routine_names: str,
        *,
        library: str = "",
        other_work: Callable[[], R] | None = None,
    ) -> R:
        """Compute a result. If it is refused, compute it once more, in another layout. Collective.

        The work moves operands, calls ScaLAPACK and checks the result (`Check.require`). `other_work` computes it by other
        routines: it comes second, in the same layout, and last in another one. `routine_names` tells the error which routines
        the work called, without the first one's "p" and letter of the dtype: "getrf and p?getrs"; `library` names another
        library than ScaLAPACK. If the last result is refused, or the operand has been overwritten, there is a LinAlgError; so
        there is at once, if an operand has infs or NaNs.
        """
        refusals: list[str] = []
        then, blame, overflows = "", "", False
        ways = [(work, False), *([] if other_work is None else [(other_work, False)]), (other_work or work, True)]
        for compute, elsewhere in ways:
            self.is_refused = bool(refusals)
            if refusals and self.has_overwritten():
                then = "; there was no second try, as the operand has been overwritten"
                break
            if elsewhere:
                self.is_layout_forced = True
                self._work_in(another_layout(self._routine, self._layout_in_use(), self._comm))
            try:
                result = self._once(compute)
            except (WrongResultError, ConvergenceError) as caught:
                if not all(map(math.isfinite, self.magnitudes.values())):
                    raise np.linalg.LinAlgError(f"{self._routine}: {caught}") from caught
                overflows = isinstance(caught, NotFiniteError)
                in_short = tracing.in_short(self._layout_in_use())
                blame = blame or self._blame(routine_names, library)
                refusals.append(f"{caught}, in {'' if refusals else 'the layout '}{in_short}")
                continue
            if refusals:
                in_short = tracing.in_short(self._layout_in_use())
                means = f"another layout, {in_short}" if elsewhere else f"other routines, in {in_short}"
                self.warn(f"{blame}: {'; '.join(refusals)}; the result is that of {means}")
            return result
        remedy = f"{'divide operands by powers of 2, ' if overflows else ''}{self._remedy()}"
        raise np.linalg.LinAlgError(f"{blame}: {'; '.join(refusals)}{then}; {remedy}")

    def has_overwritten(self) -> bool:
        """Whether an operand of any rank has been overwritten. Collective."""
        return bool(self.run(lambda: self._overwritten, any))

    def _once(self, work: Callable[[], R]) -> R:
        """Make an attempt. Collective."""
        return self._once_on_one(work) if self.is_on_one else work()

    def _once_on_one(self, work: Callable[[], R]) -> R:
        """Make an attempt on the process of the grid, which alone has all elements of all operands. Collective.

        That computes, checks and warns by itself; other ranks sleep until it says how that ended.
        """
        operands, gathered = self.operands, {name: self._gathered(name) for name in self.operands}
        if self.is_checked:
            self._forms |= {name: self._forms_of_all(name) for name, forms in self._forms.items() if forms is None}
        reply = None
        rank, others = int(self._grid.ranks.flat[0]), list[str]()
        if self._comm.Get_rank() == rank:
            warnings, self._warnings = self._warnings, others
            self.is_alone, self.operands = True, gathered
            try:
                with (
                    self.collect_errors(),
                    self._group.at_work(announces=True),
                    tracing.phase("lapack", self._work_layout, self._work_layout),
                ):
                    reply = self._answered(work)
            finally:
                self.is_alone, self.operands, self._warnings = False, operands, warnings
        error = self._guard.take_interrupts()
        self._guard = Guard()
        # the reply of the process itself is not sent to it and back
        result_of_one, dozes = "the result of one process", self._order >= LONG
        with (
            self.in_step(),
            agreement(self._group, result_of_one, combine=first_known, open=False, dozes=dozes) as agreed,
        ):
            if error is not None:
                raise error
            agreed.give(None if reply is None else reply.for_others())
        answer = agreed.result if reply is None else reply
        for text in answer.warnings:
            self.warn(text)
        if answer.error is not None:
            raise answer.error
        return cast(R, self._placed(answer.result))

    def _answered(self, work: Callable[[], Any]) -> Answer:
        """The result of the work on this process, or its error, which is one of all ranks."""
        try:
            for name in self.operands if self.is_checked else ():
                self._require_moved(name)
            with blas_on_all_cores() if self._order >= THREADED else contextlib.nullcontext():
                return Answer(work(), self._warnings, None)
        except (WrongResultError, np.linalg.LinAlgError) as caught:
            return Answer(None, self._warnings, caught)

    @property
    def ranks(self) -> Sequence[int]:
        """The ranks whose results `run` combines, in their order."""
        return [int(self._grid.ranks.flat[0])] if self.is_alone else range(self._comm.Get_size())

    @property
    def _order(self) -> int:
        """The least extent of the largest operand: whether threads, and sleep of the other ranks, are worth while."""
        order: int = max(min(operand.shape) for operand in self.operands.values())
        return order

    def _gathered(self, name: str) -> DistributedArray:
        """An operand with all its elements on the process of the grid, as the user gave them. Collective."""
        operand = self.operands[name]
        desc, local = as_column(operand.desc), operand.local
        if local is not None and local.ndim == 1:
            local = local[:, None] if operand.desc.coords is not None else None
        m, n = desc.shape
        target = self.layout((m, n))
        if not is_whole_on(desc, int(self._grid.ranks.flat[0])):
            local = self._redistribute(name, desc, target, local)
        return DistributedArray._from_result(target, local, self.dtype)

    def _forms_of_all(self, name: str) -> Forms | None:
        """The forms of an operand as the user gave it. Collective."""
        operand, part = self.operands[name], self.parts[name]
        size = self.magnitudes[name]
        forms: Forms | None = self.run(lambda: Forms.of(operand, part, math.frexp(size)[1]), Forms.sum)
        return forms

    def _require_moved(self, name: str) -> None:
        """Refuse the attempt unless an operand has come as the user gave it, as far as sums of its elements tell."""
        operand, size, forms = self.operands[name], self.magnitudes[name], self._forms[name]
        assert forms is not None
        moved = Forms.of(operand, self.parts[name], forms.exponent)
        m, n = as_column(operand.desc).shape
        bound = MOVED * np.finfo(np.float64).eps * math.sqrt(m * n) * math.ldexp(size, -forms.exponent)
        error = float(np.abs(moved.values - forms.values).max(initial=0))
        if not error <= bound:
            excess = error / bound if bound else math.inf
            raise WrongResultError(
                f"{name}, brought to one process, is off by {excess:.2g} times what rounding comes to"
            )

    def _placed(self, result: Any) -> Any:
        """A result whose arrays are whole ones, in layouts of one process that all ranks know."""
        if isinstance(result, WholeArray | DistributedArray):
            m, n = result.shape
            desc, local = self.layout((m, n)), None
            if isinstance(result, DistributedArray):
                local = result.local if result.desc == desc else np.array(local_elements(result)[2], order="F")
            return DistributedArray._from_result(desc, local, self.dtype)
        if isinstance(result, tuple):
            items = map(self._placed, result)
            return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
        return result

    def _layout_in_use(self) -> Descriptor:
        return Descriptor(self._work_layout.shape, self._block, self._grid)

    def _blame(self, routine_names: str, other: str) -> str:
        if other:
            return f"{self._routine}: {routine_names} of {other}, returned no result"
        if not self._uses_library:
            return f"{self._routine}: {routine_names} returned no result"
        if self.is_on_one:
            return f"{self._routine}: LAPACK of SciPy {scipy.__version__} on one process returned no result"
        library = blacs.load()
        kernels = kernel_name(library)
        beneath = f" with OpenBLAS's kernels for {kernels}" if kernels else ""
        kind = KIND_OF_DTYPE[self.dtype]
        return (
            f"{self._routine}: p{kind}{routine_names} of {library.vendor}, {library.path}{beneath}, returned no result"
        )

    def _remedy(self) -> str:
        if self.is_on_one:
            return f"pass layout= on more processes, or use another {'SciPy' if self._uses_library else 'NumPy'}"
        if not self._uses_library:
            return "pass another layout=, or use another NumPy"
        fitting = fitting_kernels(blacs.load())
        kernels = f"set OPENBLAS_CORETYPE={fitting}, " if fitting else ""
        return f"{kernels}pass another layout=, or use another ScaLAPACK or BLAS (PYSCALAPACK_REDIST_LIBRARY names the file)"

    def bound_growth(self, factors: DistributedArray, norm: float) -> float:
        """Upper bound of the largest element of U divided by that of the matrix, whose Frobenius norm is given. Collective."""

        def largest() -> float:
            rows, columns, local = local_elements(factors)
            return float(np.max(np.abs(local), where=rows[:, None] <= columns, initial=0))

        pivot: float = self.run(largest, max)
        return max(1.0, pivot * factors.shape[0] / norm) if norm else 1.0

    def warn(self, text: str) -> None:
        """Warn at the end of the call, on the first rank only; one process alone leaves it to that one, in its answer."""
        if self.is_alone or self._comm.Get_rank() == 0:
            self._warnings.append(text)

    def run(self, work: Callable[[], Any], combined: Callable[[list[Any]], Any] | None = None) -> Any:
        """As `run_together`: combine the results of all ranks; raise an error of one rank on all. Collective.

        On one process alone nobody else takes part.
        """
        if self.is_alone:
            if self._guard.error is not None:
                raise self._guard.error
            value = work()
            return (combined or first_known)([value])
        error, self._guard = self._guard.take_interrupts(), Guard()
        with self.in_step():
            return run_together(self._group, work, combined, error)


def _dtype_difference(
    first: tuple[str, np.dtype[Any]], second: tuple[str, np.dtype[Any]], ranks: tuple[int, int] | None = None
) -> str:
    (name, dtype), (other, other_dtype) = first, second
    on, on_other = ("", "") if ranks is None or ranks[0] == ranks[1] else (f" on rank {ranks[0]}", f" on rank {ranks[1]}")
    if name == other:
        return f"{name} has dtype {dtype}{on} and {other_dtype}{on_other}: make them equal by {name}.astype"
    return (
        f"{name} has dtype {dtype}{on} and {other} has {other_dtype}{on_other}: ScaLAPACK converts nothing, so make them "
        f"equal by .astype({str(np.result_type(dtype, other_dtype))!r})"
    )


def assemble(
    size: int, dtype: Any, combine: Callable[..., NDArray[Any]] = np.add
) -> Callable[[Iterable[Any]], NDArray[Any]]:
    """For `Problem.run`: an array of zeros, combined with the indices and values of each rank; a rank may have None."""

    def of_all(replies: Iterable[Any]) -> NDArray[Any]:
        whole = np.zeros(size, dtype)
        for indices, values in filter(None, replies):
            whole[indices] = combine(whole[indices], values)
        return whole

    return of_all
