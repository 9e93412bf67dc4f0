"""Problem: a call of a routine of linalg on all ranks: agreement on its arguments, moves of operands, checks, the result."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import blacs, tracing
from ..blacs.library import fitting_kernels, kernel_name, warn_of_kernels
from ..comm.guard import Block, Guard
from ..comm.mpi import MPI
from ..comm.vote import Statement, Vote, digest
from ..distributed_array import DistributedArray
from ..engine.make import plan
from ..engine.spec import communicator_of, group_of_all
from ..errors import ArrayError, DescriptorError, shown
from ..layout.arrays import new_array
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed, descriptor_of
from ..layout.grid import ProcessGrid, same_ranks
from ..scalapack.calls import ConvergenceError, run_together
from ..scalapack.matrix_operands import FACTORED_KINDS, KIND_OF_DTYPE
from .matrix_parts import COMPLEMENT, clear_outside, local_elements, magnitude
from .working_layouts import (
    another_layout,
    as_column,
    check_counts,
    check_work_layout,
    current_call,
    layout_for,
    result_order,
    stays,
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


# Beyond these, squares and products of squares might overflow in float64, or vanish.
SMALL, LARGE = 1e-50, 1e50
MAY_DIFFER = ("overwrite_a", "overwrite_b", "lu_and_piv", "c_and_lower")  # arguments that may differ from rank to rank
DTYPES = [dtype for dtype, kind in KIND_OF_DTYPE.items() if kind in FACTORED_KINDS]


class WrongResultError(Exception):
    """The library returned a wrong result. Raised on all ranks."""


class Problem:
    """A call of a routine on all ranks of its operands' communicator.

    Collective, as are the methods that move operands or run work. The ranks agree on all arguments of the routine except
    those of `MAY_DIFFER`, and on `options`.

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
        Whether the routine calls ScaLAPACK, for which the grid needs a BLACS context.
    """

    dtype: np.dtype[Any]  # of all operands
    operands: dict[str, Any]  # as the user gave them
    parts: dict[str, str]  # what is read of each operand
    magnitudes: dict[str, float]  # of each operand's part, as `magnitude`
    is_checked: bool  # whether results are
    is_layout_forced: bool  # whether the layout to work in is an argument, or that of a second attempt
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
        **options: Any,
    ) -> None:
        self._routine, self._arguments, self._warnings = current_call.get()
        checked = bool(self._arguments["check"])
        check_finite = bool(self._arguments.get("check_finite", check_finite))
        arguments = self._arguments | dict(operands) | options | {"check": checked, "check_finite": check_finite}
        arrays = [operand for operand in operands.values() if isinstance(operand, Distributed)]
        if not arrays:
            self._check_operands(operands, vectors)
        self._comm, self._group = communicator_of(arrays[0].desc), group_of_all(arrays[0].desc)
        self.operands = dict(operands)
        self.parts = dict.fromkeys(operands, "")
        self._uses_library = uses_library
        self.is_layout_forced = arguments["layout"] is not None
        self._overwritten: list[str] = []
        self._guard = Guard()
        self._is_raised_on_all = False
        magnitudes: dict[str, float] = {}
        values: dict[str, Any] = {}
        with self.collect_errors():
            self._check_operands(operands, vectors)
            if uses_library:
                warn_of_kernels(blacs.load(), self._comm.Get_rank())
            shape, default_target = check_arguments(*operands.values())
            self.parts |= parts()
            magnitudes = {name: magnitude(operand, self.parts[name]) for name, operand in operands.items()}
            self._work_layout, self.target = (
                self._layout(arguments["layout"], shape),
                self._target(arguments.get("like"), default_target),
            )
            values = {name: canonical_form(argument) for name, argument in arguments.items() if name not in MAY_DIFFER}
        call = digest(("linalg", self._routine, *values.values()))

        def statements() -> list[Statement]:
            options = [Statement(name, value, describe(arguments[name])) for name, value in values.items()]
            return [Statement("the routine", self._routine, self._routine), *options]

        with tracing.phase("agree"):
            error = self._guard.take_interrupts()
            vote = Vote(failed=self._group.failure_code(error), call=call)
            self._group.agree(vote, error, statements, lambda outcome: True)
            self.dtype, self.magnitudes = self._agree_dtype_and_magnitudes(magnitudes)
            for name, size in self.magnitudes.items():
                if check_finite and not math.isfinite(size):
                    raise ValueError(f"{name} must not contain infs or NaNs")
            self._block, self._grid = self._work_layout.block, self._work_layout.grid
            self._grid = self._grid_with_context(self._grid)
            self.is_checked = checked and all(map(math.isfinite, self.magnitudes.values()))

    # -- what the ranks agree on

    def _check_operands(self, operands: Mapping[str, Any], vectors: tuple[str, ...]) -> None:
        first: tuple[str, np.dtype[Any]] | None = None
        for name, operand in operands.items():
            if not isinstance(operand, Distributed):
                raise ArrayError(
                    f"{name} is a {type(operand).__name__}: it must be a DistributedArray; distribute() makes one of an array "
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
                raise ArrayError(_dtype_difference(*first, name, operand.dtype))

    def _target(self, like: LayoutOption, default_target: Descriptor) -> Descriptor:
        if like is None:
            return default_target
        desc = self._read_layout("like", like)
        if desc.shape != default_target.shape or desc.parent is not None:
            raise DescriptorError(
                f"like = {desc!r} must be the layout of a whole array of shape {default_target.shape}, that of the result"
            )
        return desc

    def _layout(self, layout: LayoutOption, shape: tuple[int, ...]) -> Descriptor:
        """The layout to work in: the argument, else the first operand's layout that fits, else that of `layout_for`."""
        if layout is not None:
            chosen = self._read_layout("layout", layout)
            check_work_layout(self._routine, chosen, shape)
            return chosen
        own = (operand.desc for operand in self.operands.values() if stays(self._routine, operand.desc))
        return next(own, None) or layout_for(self._routine, shape, self._comm)

    def _read_layout(self, name: str, layout: LayoutOption) -> Descriptor:
        desc = descriptor_of(layout)
        if not isinstance(desc, Descriptor):
            raise DescriptorError(f"{name} = {shown(layout)} must be a Descriptor or a DistributedArray")
        if not same_ranks(communicator_of(desc), self._comm):
            raise DescriptorError(f"{name} = {desc!r} is on another communicator than the operands: make it on theirs")
        return desc

    def _agree_dtype_and_magnitudes(self, magnitudes: dict[str, float]) -> tuple[np.dtype[Any], dict[str, float]]:
        """The dtype of all operands, which some ranks may not know, and the largest magnitude of each on any rank."""
        local_values = [(name, operand.dtype, magnitudes[name]) for name, operand in self.operands.items()]
        replies: list[list[tuple[str, np.dtype[Any] | None, float]]] = self.run(lambda: local_values, list)
        dtypes = [(name, dtype) for reply in replies for name, dtype, _ in reply if dtype is not None]
        if not dtypes:
            raise ArrayError("no rank knows the dtype: each local array is None; pass empty ones of the dtype")
        for name, dtype in dtypes:
            if dtype != dtypes[0][1]:
                raise ArrayError(_dtype_difference(*dtypes[0], name, dtype))
        return dtypes[0][1], {
            name: float(np.max([reply[k][2] for reply in replies])) for k, name in enumerate(self.operands)
        }

    def _grid_with_context(self, grid: ProcessGrid) -> ProcessGrid:
        """An equal grid with a BLACS context, if the routine calls ScaLAPACK. Collective over the grid.

        There is one for each communicator, whose context is freed with the communicator.
        """
        if not self._uses_library:
            return grid
        key = ProcessGrid, grid.shape, grid.ranks.tobytes()
        own: ProcessGrid | None = self._group.attachments.get(key)
        if own is None:
            own = self._group.attachments[key] = ProcessGrid(grid.shape, self._comm, ranks=grid.ranks)
        own.make_context()
        return own

    @property
    def comm(self) -> MPI.Intracomm:
        """The communicator of all operands."""
        return self._comm

    def keep(self, name: str, kind: Callable[[], K]) -> K:
        """An object that the communicator keeps between calls, made at first use; equal on all ranks."""
        attachment: K = self._group.attachments.setdefault(("linalg", name), kind())
        return attachment

    # -- arrays

    def layout(self, shape: tuple[int, int]) -> Descriptor:
        """The layout of an array of this shape, in the blocks and on the grid of the call."""
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
            self._redistribute(name, desc, target[:m, :n], local, matrix.local)
        else:
            if desc != target:
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
            if may_stay and self._arguments.get(f"overwrite_{name}") and self._may_overwrite(name, local):
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
        """The conjugate transpose, in the layout of the call."""
        target = self.layout((matrix.shape[1], matrix.shape[0]))
        local = self._redistribute("transpose", matrix.desc, target, matrix.local, op="C")
        return DistributedArray._from_result(target, local, self.dtype)

    def _redistribute(self, name: str, source: Descriptor, target: Descriptor, *arrays: Any, op: str = "N") -> Any:
        with tracing.phase(f"redistribute {name}", source, target):
            return plan(source, target, dtype=self.dtype, comm=self._comm, op=op)(*arrays)

    def _may_overwrite(self, name: str, local: NDArray[Any]) -> bool:
        """Whether a local array can be written, and no other operand is in the same memory."""
        others = [
            operand.local for other, operand in self.operands.items() if other != name and operand.local is not None
        ]
        return local.flags.writeable and not any(np.shares_memory(local, array) for array in others)

    def to_result(self, matrix: DistributedArray, target: Descriptor | None = None) -> DistributedArray:
        """Bring a result into a layout; by default `target`."""
        wanted = target or self.target
        desc, local = as_column(wanted), matrix.local
        if desc != matrix.desc:
            out: NDArray[Any] | None = None
            if result_order.get() == "C" and desc.coords is not None:
                with contextlib.suppress(MemoryError):  # the plan reports it to all ranks
                    out = new_array(desc.local_shape, self.dtype, "C")
            local = self._redistribute("result", matrix.desc, desc, local, out)
        if wanted.ndim == 1 and local is not None:
            local = local[:, 0]
        return DistributedArray._from_result(wanted, local, self.dtype)

    def collect_errors(self, is_open: bool = True) -> Block:
        """Keep an error of the block for `run`, which raises it on all ranks. An error that all ranks have raised passes.

        The block does not wait for other ranks, if `is_open`: then interrupts end it.
        """
        return self._guard.block(lambda caught: self._is_raised_on_all or isinstance(caught, WrongResultError), is_open)

    # -- the call

    def exponent(self, name: str) -> int:
        """The exponent of 2 by which an operand is divided: not 0 only if squares or sums could overflow or vanish."""
        size = self.magnitudes[name]
        low, high = (1e-12, 1e12) if self.dtype.name in ("float32", "complex64") else (SMALL, LARGE)
        return 0 if not size or low < size < high or not math.isfinite(size) else math.frexp(size)[1]

    def attempt(self, work: Callable[[], R], routine_names: str) -> R:
        """Compute a result. If it is refused, compute it once more, in another layout. Collective.

        The work moves operands, calls ScaLAPACK and checks the result (`Check.require`). `routine_names` tells the error which
        routines it called, without the first one's "p" and letter of the dtype: "getrf and p?getrs". If the second result is
        refused, or the operand has been overwritten, there is a LinAlgError.
        """
        try:
            return self._once(work)
        except (WrongResultError, ConvergenceError) as caught:
            refusal = f"{caught}, in the layout {tracing.in_short(self._layout_in_use())}"
        other = another_layout(self._routine, self._layout_in_use(), self._comm)
        if self.run(lambda: self._overwritten, any):
            then = "; there was no second try, as the operand has been overwritten"
        else:
            self._block, self._grid, self.is_layout_forced = other.block, self._grid_with_context(other.grid), True
            try:
                result = self._once(work)
            except (WrongResultError, ConvergenceError) as caught:
                then = f"; {caught}, in {tracing.in_short(other)}"
            else:
                blame = self._blame(routine_names)
                self.warn(f"{blame}: {refusal}; the result is that of another layout, {tracing.in_short(other)}")
                return result
        raise np.linalg.LinAlgError(f"{self._blame(routine_names)}: {refusal}{then}; {self._remedy()}")

    def _once(self, work: Callable[[], R]) -> R:
        """Make an attempt. An error of this rank alone is raised on all ranks. Collective."""
        has_failed = True
        with self.collect_errors(is_open=False):
            result = work()
            has_failed = False
        if has_failed:
            self.run(lambda: None)
        return result

    def _layout_in_use(self) -> Descriptor:
        return Descriptor(self._work_layout.shape, self._block, self._grid)

    def _blame(self, routine_names: str) -> str:
        if not self._uses_library:
            return f"{self._routine}: {routine_names} returned no result"
        library = blacs.load()
        kernels = kernel_name(library)
        beneath = f" with OpenBLAS's kernels for {kernels}" if kernels else ""
        kind = KIND_OF_DTYPE[self.dtype]
        return (
            f"{self._routine}: p{kind}{routine_names} of {library.vendor}, {library.path}{beneath}, returned no result"
        )

    def _remedy(self) -> str:
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
        """Warn at the end of the call, on the first rank only."""
        if self._comm.Get_rank() == 0:
            self._warnings.append(text)

    def run(self, work: Callable[[], Any], combined: Callable[[list[Any]], Any] | None = None) -> Any:
        """As `run_together`: combine the results of all ranks; raise an error of one rank on all. Collective."""
        self._is_raised_on_all = True
        result = run_together(self._group, work, combined, self._guard.take_interrupts())
        self._is_raised_on_all = False
        return result


def _dtype_difference(name: str, dtype: np.dtype[Any], other: str, other_dtype: np.dtype[Any]) -> str:
    if name == other:
        return f"{name} has dtype {dtype} on one rank and {other_dtype} on another: make them equal by {name}.astype"
    return (
        f"{name} has dtype {dtype} and {other} has {other_dtype}: ScaLAPACK converts nothing, so make them equal by "
        f"{other}.astype({str(dtype)!r})"
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


def times_power(local: NDArray[Any], exponent: int) -> None:
    """Multiply by 2**exponent in place; the factor may be out of range of the dtype."""
    while exponent:
        step = max(-100, min(100, exponent))
        local *= local.real.dtype.type(2.0**step)
        exponent -= step


def canonical_form(argument: Any) -> Any:
    """The part of an argument that must be equal on all ranks.

    Of a distributed array that is the layout. Equal numbers have one form, and so have sequences and arrays of equal numbers.
    """
    desc = descriptor_of(argument)
    if isinstance(desc, Descriptor):
        return desc.layout_digest
    array = np.asarray(argument)
    return (
        (array.shape, digest(array.astype(np.complex128).tobytes())) if array.dtype.kind in "biufc" else repr(argument)
    )


def describe(argument: Any) -> str:
    """An argument in the words of an error message."""
    desc = descriptor_of(argument)
    return repr(desc) if isinstance(desc, Descriptor) else shown(argument)
