"""The layout that a routine works in: an operand's own if it fits, else a rule chooses grid and block."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .. import tracing
from ..comm.agreement import meet
from ..comm.group import Group
from ..comm.guard import holding_interrupts
from ..comm.mpi import MPI
from ..comm.progress import hold_interrupts
from ..engine.spec import group_of_all
from ..errors import ArrayError, DescriptorError, RedistributionError, callers_level, shown
from ..layout.array_arithmetic import Distributed
from ..layout.axis import Blocks, whole_number
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid, checked_communicator
from ..tracebacks import brief
from . import solver_rules
from .operand_kinds import ConvertedOperands, need_reading

P = ParamSpec("P")
R = TypeVar("R")
ROUTINES: dict[str, Callable[..., Any]] = {}  # the functions that are decorated by `routine`, by name
LEAST_BLOCK, MOST_BLOCK = 16, 256
LIMIT = 2**31


@dataclass
class RoutineCall:
    """A call of a routine of `linalg` on this rank."""

    name: str
    arguments: dict[str, Any]  # with defaults
    outer: RoutineCall | None  # that of the routine which calls this one
    warnings: list[str] = field(default_factory=list)  # at its end
    # Called with this rank's error, or None, as the routine ends: all ranks then leave the call, or raise. Collective.
    leave: Callable[[BaseException | None], object] | None = None
    error_of_all: BaseException | None = None  # the last one that all ranks have raised

    def note_error_of_all(self, error: BaseException) -> None:
        """Note an error that all ranks have raised."""
        self.error_of_all = error
        if self.outer is not None:
            self.outer.note_error_of_all(error)


current_call: ContextVar[RoutineCall] = ContextVar("current_call")
result_order: ContextVar[str] = ContextVar("result_order", default="F")  # of elements in local arrays


@contextlib.contextmanager
def one_step(group: Group) -> Iterator[None]:
    """A context for one step of a routine, which begins with a vote of the group.

    An error in it is one of all ranks, unless it comes before the vote: then the others still wait for this rank.
    """
    drawn, call = group.tickets.drawn, current_call.get(None)
    try:
        yield
    except BaseException as caught:
        if call is not None and group.tickets.drawn != drawn:
            call.note_error_of_all(caught)
        raise


def routine(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function a routine of `linalg`: `Problem` reads its arguments, and `timings` notes its name with each phase.

    What overflows or is no number is seen by the checks, and not left to the user's `numpy.seterr`.
    """
    name, parameters = function.__name__, inspect.signature(function).parameters
    defaults = {parameter.name: parameter.default for parameter in parameters.values()}

    @holding_interrupts
    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        if need_reading(arguments, keywords):
            operands = ConvertedOperands(name, [*parameters], layout_for)
            positional, named = operands.read(arguments, keywords)
            order = result_order.set(operands.order)
            try:
                result = call(*positional, **named)
            finally:
                result_order.reset(order)
            return operands.converted(result)  # type: ignore[no-any-return]
        arguments_by_name = defaults | dict(zip(defaults, arguments, strict=False)) | keywords
        own = RoutineCall(name, arguments_by_name, current_call.get(None))
        token = current_call.set(own)
        try:
            with tracing.in_routine(name) if tracing.active else contextlib.nullcontext(), np.errstate(all="ignore"):
                result = _call_together(own, lambda: function(*arguments, **keywords))
        finally:
            own.error_of_all = None
            current_call.reset(token)
        for text in own.warnings:  # where a warning is an error, no other rank waits any more
            from scipy.linalg import LinAlgWarning

            warnings.warn(text, LinAlgWarning, stacklevel=callers_level())
        return result

    ROUTINES[name] = call
    return brief(call)


def _call_together(own: RoutineCall, function: Callable[[], R]) -> R:
    """The result of a routine, on all ranks; an error of one is raised on all."""
    try:
        result = function()
    except BaseException as caught:
        leave = own.leave or functools.partial(_refuse_together, own)
        leave(caught)
        raise
    if own.leave is not None:
        own.leave(None)
    return result


def _refuse_together(own: RoutineCall, error: BaseException) -> None:
    """Let all ranks of the operands know of an error before the first vote. Collective, unless all ranks have raised it."""
    array = next((each for each in own.arguments.values() if isinstance(each, Distributed)), None)
    if error is own.error_of_all or error is hold_interrupts.forced or array is None:
        return
    try:
        group = group_of_all(array.desc)
    except RedistributionError:  # the array is consumed, or on no communicator
        return
    if group.abort_reason is None:
        with one_step(group):
            meet(group, f"linalg.{own.name}", error)


def layout_for(name: str, shape: Sequence[int], comm: MPI.Intracomm, library: str = "scalapack") -> Descriptor:
    """The layout of a grid that a routine of `linalg` works in, if no operand has one that fits. Not collective.

    Beside it, a routine may work on one process, where that is predicted to take less time (docs/linalg.md).

    `matmul` works on a grid of its own choice, by the layouts of its operands.

    The rule is close to that of the ScaLAPACK Users' Guide: square blocks of 64, and a nearly square grid, with the longer
    side along the longer side of the matrix. It takes at most one process for each 256 x 256 elements, rounded up, and of P
    such processes isqrt(P) by P // isqrt(P). If a process had no block, blocks are smaller.

    For ELPA the layout passes `check_layout`, and blocks are a power of two. It wants a communicator of the grid's ranks alone,
    in their order.

    Parameters
    ----------
    name : str
        Of the routine: "solve", "eigh", ...
    shape : (int, int)
        Of its first operand; for "matmul" of the product.
    comm : MPI.Intracomm
        The operands' communicator.
    library : {"scalapack", "elpa"}
        That computes. `linalg` itself calls ScaLAPACK.

    Raises
    ------
    ValueError
        There is no such routine or library, or the library does not have the routine.
    DescriptorError
        The shape is not of a matrix, or of one that the library does not take.
    """
    _check_names(library, name)
    if not hasattr(shape, "__len__") or len(shape) != 2:
        raise DescriptorError(f"shape = {shown(shape)} must be that of a matrix: two numbers")
    m, n = (whole_number(f"shape[{k}]", size, 0) for k, size in enumerate(shape))
    if checked_communicator(comm) is None:
        raise DescriptorError(
            "comm = None: layout_for needs the operands' communicator, whose size decides on the grid"
        )
    block, sides = solver_rules.prefer(library, (m, n), comm.Get_size())
    desc = Descriptor((m, n), block, ProcessGrid(sides, comm))
    if library != "scalapack":
        check_layout(desc, library, name)
    return desc


def check_layout(desc: Descriptor, library: str, name: str | None = None) -> None:
    """Check that a layout follows the rules of a library. Not collective.

    Parameters
    ----------
    desc : Descriptor
        The layout of the first operand.
    library : {"scalapack", "elpa"}
        That is to compute. It need not be installed, but for "scalapack", whose rules depend on its vendor.
    name : str, optional
        Of the routine: "solve", "eigh", ... None: the rules for all routines that the library has.

    Raises
    ------
    ValueError
        There is no such routine or library, or the library does not have the routine.
    DescriptorError
        The layout breaks a rule, which the message names, with its source.
    """
    _check_names(library, name)
    if not isinstance(desc, Descriptor):
        raise DescriptorError(f"desc = {shown(desc)} must be a Descriptor")
    broken = solver_rules.find_broken_rule(library, desc, name)
    if broken is None:
        return
    (condition, source, routines), obstacle = broken
    title = solver_rules.SOLVERS[library].title
    purpose = f" for {', '.join(routines)}" if routines else ""
    raise DescriptorError(
        f"desc = {desc!r} is {obstacle}, and {title} needs {condition.name}{purpose}: {condition.remedy}, or take "
        f"linalg.layout_for(..., library={library!r}). The rule is from {source}"
    )


def _check_names(library: str, name: str | None) -> None:
    """Refuse unknown libraries and routines."""
    if library not in solver_rules.SOLVERS:
        raise ValueError(f"library = {library!r} must be one of {', '.join(solver_rules.SOLVERS)}")
    title, _, routines, *_ = solver_rules.SOLVERS[library]
    if name is not None and name not in ROUTINES:
        raise ValueError(f"name = {name!r} is no routine of linalg: it must be one of {', '.join(sorted(ROUTINES))}")
    if name is not None and routines is not None and name not in routines:
        raise ValueError(f"name = {name!r} is no routine of {title}, which has {', '.join(sorted(routines))}")


def _unfit(name: str, desc: Descriptor) -> str | None:
    """Why a layout does not fit a routine; None if it does."""
    if desc.grid.size == 1 and desc.ndim == 2 and desc.parent is None:  # LAPACK takes it
        return None
    broken = solver_rules.find_broken_rule("scalapack", desc, name)
    return broken and broken[1]


def check_work_layout(name: str, desc: Descriptor, shape: tuple[int, ...]) -> None:
    """Raise an error if a layout to work in does not fit."""
    if desc.shape != shape:
        raise DescriptorError(f"layout has shape {desc.shape}: it must have {shape}, that of the matrix")
    wrong = _unfit(name, desc)
    if wrong is not None:
        raise DescriptorError(
            f"layout = {desc!r} is {wrong}: {name} needs square blocks from process (0, 0) on; "
            f"linalg.layout_for({name!r}, {shape}, comm) has one that fits"
        )


def is_good_layout(name: str, desc: Descriptor, library: str = "scalapack") -> bool:
    """Whether a routine works in an operand's own layout: it fits, and its blocks are not slow.

    On one process there is no use for blocks, which may be irregular there.
    """
    if library != "scalapack" and solver_rules.find_broken_rule(library, desc, name) is not None:
        return False
    if _unfit(name, desc) is not None:
        return False
    return desc.grid.size == 1 or max(desc.shape) <= MOST_BLOCK or LEAST_BLOCK <= desc.block[0] <= MOST_BLOCK


def another_layout(name: str, desc: Descriptor, comm: MPI.Intracomm) -> Descriptor:
    """A layout for a second attempt: on half as many processes, in smaller blocks; after one process on two, if any."""
    few = max(1, desc.grid.size // 2) if desc.grid.size > 1 else min(2, comm.Get_size())
    for processes in (few, 1):
        rows = math.isqrt(processes)
        grid = ProcessGrid((rows, processes // rows), comm)
        for block in (48, 32, 16, 8, 4, 2, 1):
            other = Descriptor(desc.shape, block, grid)
            if block != desc.block[0] and 2 * block <= max(2, *desc.shape) and _unfit(name, other) is None:
                return other
    return Descriptor(desc.shape, 1, grid)


def check_rows(a: Distributed, b: Distributed) -> None:
    """Raise an error if right-hand sides do not fit a matrix."""
    if b.shape[0] != a.shape[0]:
        raise ArrayError(f"b has shape {b.shape} and a {a.shape}: b must have {a.shape[0]} rows, as many as a")


def check_counts(desc: Descriptor) -> None:
    """Raise an error if ScaLAPACK cannot count the elements of a process in 32 bits."""
    rows, columns = desc.local_shape_of((0, 0))
    if max(desc.shape) >= LIMIT or max(1, rows) * columns >= LIMIT:
        raise DescriptorError(
            f"an array of {desc.shape[0]} x {desc.shape[1]} would have {rows} x {columns} elements on one process, and "
            "ScaLAPACK counts in 32 bits: fewer than 2^31 are possible; use more processes, or layout= with a larger grid"
        )


def shaped_like(desc: Descriptor, shape: tuple[int, ...]) -> Descriptor:
    """The layout itself if it is that of a whole array of this shape; else as `in_order`."""
    return desc if desc.parent is None and desc.shape == shape else in_order(desc, shape)


def in_order(desc: Descriptor, shape: tuple[int, ...]) -> Descriptor:
    """A whole array of this shape in the blocks, on the grid and from the source of a layout.

    Where that is of a transposed view, the dimensions are over those of the grid in order, as ScaLAPACK has them. Along a
    dimension of another size, or over other processes, blocks are those of `spread`.
    """
    whole = desc.parent or desc
    step = -1 if whole.axes == (1, 0) else 1
    axes, sources = whole.axes[::step], whole.source[::step]
    processes = [1 if axis is None else desc.grid.shape[axis] for axis in axes]
    blocks = [
        size if (n, along) == (axis.n, axis.processes) else spread(size, n, along)
        for size, n, along, axis in zip(whole.block, shape, processes, whole.distributions, strict=True)
    ]
    sources = tuple(0 if isinstance(size, Blocks) else source for source, size in zip(sources, blocks, strict=True))
    return Descriptor(shape, blocks, desc.grid, source=sources, axes=axes)


def spread(block: object, n: int, processes: int) -> int | None:
    """A block size if each process then has a part of n indices; otherwise None, for one block for each process."""
    return block if isinstance(block, int) and block * (processes - 1) < n else None


def as_column(desc: Descriptor) -> Descriptor:
    """A vector's layout as that of a matrix of one column; its local array is `local[:, None]`."""
    if desc.ndim == 2:
        return desc
    whole = desc.parent or desc
    column = Descriptor(
        (*whole.shape, 1), (*whole.block, 1), whole.grid, source=(*whole.source, 0), axes=(*whole.axes, None)
    )
    return column if desc.parent is None else column[desc.offset[0] : desc.offset[0] + desc.shape[0], 0:1]
