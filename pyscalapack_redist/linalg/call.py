"""A call of a routine of `linalg` on all ranks: how it reads its arguments, goes on in steps, and ends.

`routine` makes a public function of one whose first argument is the `RoutineCall`. Keywords that many routines have are the
fields of a record, which the function takes as `**options`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypedDict, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from .. import tracing
from ..adapters.adapter import adapter_of
from ..adapters.pairs import Pairs
from ..arguments import Needs, in_rows, in_slabs, move, read_argument
from ..comm.agreement import agreement, meet
from ..comm.groups import MPIGroup
from ..comm.guard import Guard, GuardedWork, holding_interrupts
from ..comm.mpi import MPI
from ..comm.progress import hold_interrupts
from ..conversion import convert
from ..distributed_array import DistributedArray
from ..engine.spec import communicator_of, group_of_all
from ..errors import ArrayError, DescriptorError, callers_level
from ..layout.array_arithmetic import Distributed
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from ..layout.tiles import LAYOUTS
from ..reductions import state_numbers
from ..scalapack.calls import run_together
from ..tracebacks import brief
from .solver_rules import prefer

P = ParamSpec("P")
R = TypeVar("R")
LayoutOption = Descriptor | Distributed | None
ROUTINES: dict[str, Callable[..., Any]] = {}  # the public functions that are decorated by `routine`, by name
OF_STACKS: dict[str, Callable[[RoutineCall], Any]] = {}  # what `stacks` does for operands of more than two dimensions
OPERANDS = "a", "b"  # names of arguments that may be stacks
FACTORIZATIONS = ("lu_factor", "cho_factor")  # their results are for other routines, and stay distributed arrays


class WorkOptions(TypedDict, total=False):
    """Keyword arguments of all routines."""

    check: bool
    layout: LayoutOption


class ProductOptions(WorkOptions, total=False):
    """Those of a product."""

    like: LayoutOption


class FactorOptions(WorkOptions, total=False):
    """Those of routines of one matrix that accept infs and NaNs."""

    overwrite_a: bool


class ReadOptions(WorkOptions, total=False):
    """Those of routines that refuse infs and NaNs."""

    check_finite: bool


class MatrixOptions(ReadOptions, total=False):
    """Those of routines of one matrix."""

    overwrite_a: bool


class ResultOptions(MatrixOptions, total=False):
    """Those of routines with a matrix as the result."""

    like: LayoutOption


class SidesOptions(ReadOptions, total=False):
    """Those of routines that solve for right-hand sides."""

    overwrite_b: bool
    like: LayoutOption


class PairOptions(ResultOptions, total=False):
    """Those of routines of two matrices."""

    overwrite_b: bool


DEFAULTS = {  # of all these, in the order in which signatures show them
    "overwrite_a": False,
    "overwrite_b": False,
    "check_finite": True,
    "check": True,
    "layout": None,
    "like": None,
}


class WrongResultError(Exception):
    """The library returned a wrong result. Raised on all ranks."""


class RoutineCall:
    """A call of a routine on this rank, which goes on in steps.

    Each step is collective, and begins with a vote of all ranks of the operands' communicator. So an error of one rank between
    two of them, whatever it is, ends the routine there: as it leaves, the rank votes that it has failed (`leave`). That meets
    the vote of any step in which other ranks are, or the one with which they leave.

    Attributes
    ----------
    name : str
        Of the routine.
    comm : MPI.Intracomm
        The operands' communicator.
    arguments : dict
        With defaults.
    order : {"F", "C"}
        Of elements in local arrays of results.
    error_of_all : BaseException or None
        The last one that all ranks have raised.
    """

    comm: MPI.Intracomm
    error_of_all: BaseException | None = None
    _group: MPIGroup | None = None

    def __init__(self, name: str, arguments: dict[str, Any], order: str) -> None:
        self.name, self.arguments, self.order = name, arguments, order
        self._outer, self._guard, self._warnings = current_call.get(None), Guard(), list[str]()

    def join(self) -> None:
        """Find the ranks of the call, those of its first distributed array. Not collective."""
        listed = [each for value in self.arguments.values() for each in (value if isinstance(value, tuple) else (value,))]
        array = next((each for each in listed if isinstance(each, Distributed)), None)
        if array is not None:
            with contextlib.suppress(ArrayError, DescriptorError):  # consumed, or on no communicator: the routine says so
                self._group, self.comm = group_of_all(array.desc), communicator_of(array.desc)

    @property
    def group(self) -> MPIGroup:
        """The ranks of the operands."""
        assert self._group is not None
        return self._group

    @property
    def has_ranks(self) -> bool:
        """Whether it has operands on a communicator."""
        return self._group is not None

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """A context for one step. If this rank has an error, it is raised, and the step does not begin.

        An error in it is one of all ranks, unless it comes before the vote: then the others still wait for this rank.
        """
        if self._guard.error is not None:
            raise self._guard.error
        assert self._group is not None
        tickets = self._group.tickets
        drawn = tickets.drawn
        try:
            yield
        except BaseException as caught:
            if tickets.drawn != drawn:
                self._note_error_of_all(caught)
            raise

    def _note_error_of_all(self, error: BaseException) -> None:
        self.error_of_all = error
        if self._outer is not None:
            self._outer._note_error_of_all(error)

    def collect_errors(self) -> GuardedWork:
        """Keep an error of the block, in which this rank waits for no other: `run` raises it on all ranks, another step here.

        One that all ranks have raised passes. Interrupts end the block.
        """
        return self._guard.block(lambda caught: caught is self.error_of_all or isinstance(caught, WrongResultError))

    def take_error(self) -> BaseException | None:
        """This rank's error, or what an interrupt has made one, for a step that reports it."""
        error, self._guard = self._guard.take_interrupts(), Guard()
        return error

    def raise_error(self) -> None:
        """Raise this rank's error, if it has one."""
        if self._guard.error is not None:
            raise self._guard.error

    def run(self, work: Callable[[], Any], combined: Callable[[list[Any]], Any] | None = None) -> Any:
        """As `run_together`: combine the results of all ranks; raise an error of one rank on all. Collective."""
        error = self.take_error()
        with self.step():
            return run_together(self.group, work, combined, error)

    def warn(self, text: str) -> None:
        """Warn at the end of the call. Called on all ranks."""
        self._warnings.append(text)

    @contextlib.contextmanager
    def other_warnings(self) -> Iterator[list[str]]:
        """A context in which warnings go into a list of their own."""
        before, self._warnings = self._warnings, list[str]()
        try:
            yield self._warnings
        finally:
            self._warnings = before

    def end(self, function: Callable[[], R]) -> R:
        """The result of the routine, on all ranks; an error of one is raised on all. Collective."""
        try:
            result = function()
        except BaseException as caught:
            self.leave(caught)
            raise
        self.leave(None)
        return result

    def leave(self, error: BaseException | None) -> None:
        """Leave the routine together with all ranks, or raise an error that one of them has on all. Collective.

        Parameters
        ----------
        error : BaseException or None
            What the routine raises on this rank.
        """
        if self._group is None or (error is not None and (error is self.error_of_all or error is hold_interrupts.forced)):
            return
        error = self.take_error() or error
        if self._group.abort_reason is not None and error is not None:
            raise error
        with self.step():
            meet(self._group, f"the end of linalg.{self.name}", error)

    def show_warnings(self) -> None:
        """Show what the routine warns of, on each rank."""
        for text in self._warnings:
            from scipy.linalg import LinAlgWarning

            warnings.warn(text, LinAlgWarning, stacklevel=callers_level())


current_call: ContextVar[RoutineCall] = ContextVar("current_call")  # of which others are made


def routine(function: Callable[Concatenate[RoutineCall, P], R]) -> Callable[P, R]:
    """Make a function a routine of `linalg`, with the keywords of its record of options in its signature.

    `timings` notes its name with each phase. What overflows or is no number is seen by the checks, and not left to the user's
    `numpy.seterr`.
    """
    name, signature = function.__name__, _signature_of(function)
    defaults = {parameter.name: parameter.default for parameter in signature.parameters.values()}

    @holding_interrupts
    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        conversion, order = None, "F"
        positional, named = arguments, keywords
        if need_reading(arguments, keywords):
            conversion = ConvertedOperands(name, [*defaults])
            positional, named = conversion.read(arguments, keywords)  # type: ignore[assignment]
            order = conversion.order
        own = RoutineCall(name, defaults | dict(zip(defaults, positional, strict=False)) | named, order)
        own.join()

        def result_of_function() -> R:
            for keyword in named.keys() - defaults.keys():
                taken = ", ".join(defaults)
                raise TypeError(f"linalg.{name}() got an unexpected keyword argument {keyword!r}: it takes {taken}")
            if name in OF_STACKS and any(
                isinstance(each, Distributed) and each.ndim > 2 for each in map(own.arguments.get, OPERANDS)
            ):
                signature.bind(*positional, **named)
                of_stacks = OF_STACKS[name](own)
                if of_stacks is not NotImplemented:
                    return cast(R, of_stacks)
            return function(own, *positional, **named)

        token = current_call.set(own)
        try:
            with tracing.in_routine(name) if tracing.active else contextlib.nullcontext(), np.errstate(all="ignore"):
                result = own.end(result_of_function)
        finally:
            own.error_of_all = None
            current_call.reset(token)
        if conversion is not None:
            result = conversion.converted(result)
        own.show_warnings()  # where one is an error, no other rank waits any more
        return result

    call.__signature__ = signature  # type: ignore[attr-defined]
    ROUTINES[name] = call
    return brief(call)


def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of the public function: without the call, and with the fields of the record in place of `**options`."""
    signature = inspect.signature(function)
    _, *parameters = signature.parameters.values()
    if parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
        (record,) = get_args(inspect.get_annotations(function, eval_str=True)[parameters.pop().name])
        types = {name: getattr(kind, "__forward_arg__", kind) for name, kind in record.__annotations__.items()}
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=types[name])
            for name, value in DEFAULTS.items()
            if name in types
        ]
    return signature.replace(parameters=parameters)


class ConvertedOperand(NamedTuple):
    """An operand as the user gave it, and as the routine gets it."""

    argument: Any
    array: Distributed


class ConvertedOperands:
    """The operands of a call that has arrays of other libraries or of tiles. Reading them is collective.

    Parameters
    ----------
    routine : str
        Its name.
    names : sequence of str
        Names of its arguments.
    """

    def __init__(self, routine: str, names: Sequence[str]) -> None:
        self._routine, self._names = routine, names
        self._operands: list[ConvertedOperand] = []
        self._like: Any = None

    def read(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with distributed arrays in place of others, and layouts in place of arrays for `like` and `layout`."""
        layouts = (each for each in _listed(arguments, keywords) if isinstance(each, (Distributed, *LAYOUTS)))
        other = next((array.desc if isinstance(array, Distributed) else array for array in layouts), None)
        positional = [self._read(name, argument, other) for name, argument in zip(self._names, arguments, strict=False)]
        return positional, {name: self._read(name, argument, other) for name, argument in keywords.items()}

    def _read(self, name: str, argument: Any, other: Any, is_factor: bool = False) -> Any:
        if name in ("like", "layout"):
            if name == "like" and argument is not None:
                self._like = argument
                if adapter_of(argument) is not None or _is_of_tiles(argument):
                    return None
            return read_argument(name, argument, None, other, Needs.LAYOUT).content
        if (
            isinstance(argument, tuple) and adapter_of(argument) is None
        ):  # factors with pivots, or whether they are lower
            return tuple([self._read(name, item, other, True) for item in argument])
        if name in OPERANDS and _is_whole(argument) and other is not None and not is_factor:
            return self._in_rows(name, argument, other)
        array = read_argument(name, argument, None, other).content
        if not isinstance(array, Distributed):
            return array
        if not isinstance(array.desc, Descriptor):
            array = self._in_blocks(array)
        if not isinstance(array, DistributedArray):
            array = DistributedArray._from_result(array.desc, array.local, array.dtype)
        if array is not argument or not is_factor:  # factors of lu_factor are of no kind
            self._operands.append(ConvertedOperand(argument, array))
        return array

    def _in_rows(self, name: str, argument: NDArray[Any], other: Any) -> Any:
        """A NumPy array that all ranks have whole, as a distributed one beside another operand. Collective over its ranks."""
        with agreement(group_of_all(other), f"linalg.{self._routine}, {name} a NumPy array") as agreed:
            state_numbers(agreed, name, argument)
            own = in_rows(argument, other)
        array = DistributedArray._from_result(*own)
        self._operands.append(ConvertedOperand(array, array))
        return array

    def _in_blocks(self, array: Distributed) -> Distributed:
        """An array of tiles in a layout for the routine."""
        if array.ndim != 2:
            return in_slabs(array)
        block, sides = prefer("scalapack", (array.shape[0], array.shape[1]), array.desc.comm.Get_size())
        return move(array, Descriptor(array.shape, block, ProcessGrid(sides, array.desc.comm)))

    @property
    def order(self) -> str:
        """The order of elements in which results are best made: that of the first operand."""
        local = self._operands[0].array.local if self._operands else None
        return "C" if local is not None and local.flags.c_contiguous and not local.flags.f_contiguous else "F"

    def converted(self, result: Any) -> Any:
        """A result in the kind and the layout of the first operand, or of `like`. Collective."""
        if self._routine in FACTORIZATIONS or not self._operands:
            return result
        if isinstance(result, tuple):
            items = list(result)
            for k in sorted(range(len(items)), key=lambda k: isinstance(items[k], np.ndarray)):  # collective ones first
                items[k] = self.converted(items[k])
            return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
        first = self._operands[0].argument
        if isinstance(result, np.ndarray):
            adapter = adapter_of(first)
            return result if adapter is None else adapter.replicated(first, result)
        if not isinstance(result, Distributed):
            return result
        like = self._like
        if like is None:
            model = self._model(result)
            like = model.argument
            if (
                isinstance(adapter_of(like), Pairs) and model.array.shape != result.shape
            ):  # a pair has no layout for other shapes
                return result.desc, result.local
        if adapter_of(like) is not None:
            return convert(result, like, may_keep=True)
        if _is_of_tiles(like) and like.shape == result.shape:
            layout = like.desc if isinstance(like, Distributed) else like
            return move(result, layout)
        return result

    def _model(self, result: Distributed) -> ConvertedOperand:
        """The operand of the first one's kind that has the layout of a result, or its shape, or as many dimensions."""
        adapter = adapter_of(self._operands[0].argument)
        operands = [operand for operand in self._operands if adapter_of(operand.argument) is adapter]
        exact = [each for each in operands if each.array.desc == result.desc]
        alike = [each for each in operands if each.array.shape == result.shape]
        of_dimension = [each for each in operands if each.array.ndim == result.ndim]
        return (exact or alike or of_dimension or operands)[0]


def _is_whole(argument: Any) -> bool:
    """Whether it is a NumPy array, which all ranks are to have, as in `a @ x`."""
    return isinstance(argument, np.ndarray) and argument.ndim > 0 and not isinstance(argument, np.ma.MaskedArray)


def _is_of_tiles(argument: Any) -> bool:
    layout = argument.desc if isinstance(argument, Distributed) else argument
    return isinstance(layout, LAYOUTS) and not isinstance(layout, Descriptor)


def need_reading(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether arguments of a routine are arrays of NumPy or of other libraries, or of tiles."""
    listed = _listed(arguments, keywords)
    return any(_is_whole(each) or adapter_of(each) is not None or _is_of_tiles(each) for each in listed)


def _listed(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
    """The arguments, and then the items of tuples among them."""
    listed = [*arguments, *keywords.values()]
    return listed + [item for argument in listed if isinstance(argument, tuple) for item in argument]
