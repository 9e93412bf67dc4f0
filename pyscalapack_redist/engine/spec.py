"""One rank's request to `redistribute`: layouts and options, checked locally. An error is stored for the vote."""

from __future__ import annotations

import copy
import functools
import math
import operator
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from ..comm.groups import MergedIntercomm, MPIGroup, check_alive, check_running, group_of, merge_intercomm
from ..comm.guard import Guard
from ..comm.mpi import MPI
from ..comm.vote import Outcome, Statement, digest
from ..errors import ArrayError, DescriptorError, ScheduleError, shown, unknown
from ..exchanges import BUFFERS, EXCHANGES, check_combination
from ..exchanges.exchange import MEMORY_LIMIT
from ..layout.axis import whole_number
from ..layout.descriptor import Descriptor
from ..layout.dtypes import dtype_digest
from ..layout.letters import OPERATIONS, letter_of, transposes
from ..layout.tiles import LAYOUTS, Layout, read_layout
from ..layout.waypoints import Via, read_via, readable_via
from ..schedules.catalogue import NAMES
from ..schedules.layout_orders import is_one_port
from .local_arrays import check_dtype
from .operation import MatrixPart, check_square, parse_fill, parse_part

WITH_UNIT = re.compile(r"(?P<value>\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*(?P<unit>[a-z]*)", re.IGNORECASE)
AGREE = ("always", "first")
RETURNS_PLAN, RETURNS_ARRAY = 1, 2  # what a call returns
VOTED_ON = ("ready", "bruck", "alltoallv", "alltoallw")  # exchanges whose messages cannot do without a vote
SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def checked_memory(limit: object) -> int:
    """Bytes, at least 1, from a number of them or a text.

    Raises
    ------
    DescriptorError
        It is neither.
    """
    if isinstance(limit, str):
        try:
            limit = read_size(limit)
        except ValueError:
            raise DescriptorError(
                f"memory_limit = {limit!r} must be a number of bytes of extra memory per rank, or a text such as '64MiB'"
            ) from None
    return whole_number("memory_limit", limit, 1, ": bytes of extra memory per rank, or a text such as '64MiB'")


def read_size(text: str) -> int:
    """Bytes, as 64kib, 1.5GB or 1000.

    Raises
    ------
    ValueError
        Quotes it and says what it must be.
    """
    value = number_with_unit(text, SIZES)
    if value is None or not (value < math.inf and value == int(value)):
        raise ValueError(f"{text!r} must be a whole number of bytes: 64kib, 1mb, 65536")
    return int(value)


def number_with_unit(text: str, units: dict[str, float] | dict[str, int]) -> float | None:
    """The value in the base unit; None if the text cannot be read."""
    match = WITH_UNIT.fullmatch(text.strip())
    scale = units.get(match["unit"].lower()) if match else None
    return None if match is None or scale is None else float(match["value"]) * scale


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class PlanOptions(NamedTuple):
    """The options of `redistribute` in one spelling, equal on all ranks for equal ones; `via` has layouts, and is no part."""

    schedule: str
    exchange: str
    buffers: str
    memory_limit: int = 0
    op: str = "N"
    part: MatrixPart | None = None
    fill: str | None = None
    agree: str = "always"

    def check(self, a: Layout, op: object, uplo: object) -> None:
        """Raise an error for options that an array of layout `a` cannot have. `op` and `uplo` are as the user wrote them.

        Raises
        ------
        DescriptorError
            An option is for matrices, or for square matrices.
        """
        if a.ndim != 2 and transposes(self.op):
            raise DescriptorError(f"op = {op!r} is for matrices, but desc_a has shape {a.shape}")
        if a.ndim != 2 and self.part is not None:
            raise DescriptorError(f"uplo = {uplo!r} is for matrices, but desc_a has shape {a.shape}")
        if self.fill is not None:
            check_square(self.fill, a.shape)


def _remembering(check: Callable[P, R]) -> Callable[P, R]:
    """Cache the results of a check for hashable arguments; errors are raised each time."""
    cached: Callable[P, R] = functools.lru_cache(maxsize=64, typed=True)(check)  # type: ignore[assignment]

    @functools.wraps(check)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            return cached(*arguments, **keywords)
        except TypeError:
            return check(*arguments, **keywords)

    return call


@_remembering
def checked_options(
    schedule: str,
    exchange: str,
    buffers: str,
    memory_limit: object,
    op: object,
    uplo: object,
    diag: object,
    fill: object,
    agree: object,
) -> PlanOptions:
    """Check the arguments, and return them as options.

    Raises
    ------
    DescriptorError, ScheduleError
        The message names the argument, its value and what is expected.
    """
    limit = checked_memory(memory_limit)
    known = (
        ("schedule", schedule, (*NAMES, "auto")),
        ("exchange", exchange, (*EXCHANGES, "auto")),
        ("buffers", buffers, BUFFERS),
    )
    for what, name, names in known:
        if not isinstance(name, str):
            raise unknown(what, name, names)
    check_combination(schedule, schedule == "auto" or is_one_port(schedule), exchange, buffers)
    letter, part = letter_of("op", op, OPERATIONS), parse_part(uplo, diag)
    if part is not None and buffers == "datatypes":
        raise ScheduleError(
            f"uplo = {uplo!r} with buffers = 'datatypes': no derived datatype is made for a trapezoid; "
            "use buffers='packed'"
        )
    return PlanOptions(
        schedule,
        exchange,
        buffers,
        limit,
        letter,
        part,
        parse_fill(fill, part),
        checked_agree(agree, exchange, buffers),
    )


def checked_agree(agree: object, exchange: str, buffers: str) -> str:
    """Check `agree`, one of AGREE, for an exchange.

    Raises
    ------
    ScheduleError
        The exchange needs a vote in each call.
    """
    if not isinstance(agree, str) or agree not in AGREE:
        raise unknown("agree", agree, AGREE)
    if agree == "first" and (buffers == "datatypes" or exchange in VOTED_ON):
        what = "buffers = 'datatypes'" if buffers == "datatypes" else f"exchange = {exchange!r}"
        others = ", ".join(repr(name) for name in ("auto", *EXCHANGES) if name not in VOTED_ON)
        raise ScheduleError(
            f"agree = 'first' with {what}: its messages have no place in which to say that their sender has failed; use "
            f"buffers='packed' and one of the exchanges {others}, or agree='always'"
        )
    return agree


class Asked(NamedTuple):
    """The request as numbers, by the names of a vote's fields; equal on all ranks. Plans are cached under this key."""

    call: int | None
    source: int | None
    target: int | None
    side: int | None = None
    dtype: int | None = None

    @classmethod
    def of(cls, outcome: Outcome) -> Asked:
        """The request of all ranks, from the outcome of the vote."""
        return cls(outcome.call, outcome.source, outcome.target, outcome.side, outcome.dtype)


class Spec:
    """The arguments of one rank. An error is stored until the vote. Immutable."""

    def __init__(
        self,
        desc_a: object,
        desc_b: object,
        dtype: DTypeLike | None,
        comm: MPI.Intracomm | MPI.Intercomm | None,
        schedule: str,
        exchange: str,
        buffers: str,
        via: Via,
        memory_limit: int | str,
        op: str = "N",
        uplo: str | None = None,
        diag: str = "N",
        fill: str | None = None,
        agree: str = "always",
        returns: int | None = RETURNS_PLAN,
        error: BaseException | None = None,
    ) -> None:
        self.error: BaseException | None = error
        self.returns = returns
        self.on_paper = on_paper(desc_a, desc_b, comm)
        if not self.on_paper:
            check_running()
        self.merged = _merged(comm)
        if comm is not None and not hasattr(comm, "Get_size"):
            # the vote reports it, if the layouts have a communicator
            self.error = error or DescriptorError(f"comm = {comm!r} must be an mpi4py Intracomm or Intercomm")
            comm = None
        if self.on_paper:
            self._comm = None
        else:
            self._comm = (
                self.merged.comm if self.merged is not None else _communicator(desc_a, desc_b, comm, self.error)
            )
            check_alive(self._comm)
        self.dtype = None if dtype is None else self._check(functools.partial(checked_dtype, dtype))
        if self.merged is not None and (desc_a is None) == (desc_b is None):
            which = "neither desc_a nor desc_b is" if desc_a is None else "both desc_a and desc_b are"
            self.error = self.error or DescriptorError(
                f"comm is an inter-communicator, and {which} given: give desc_a alone on the side that has the array, "
                "desc_b alone on the side that gets it"
            )
        self._sends, explicit = desc_b is None, comm is not None
        a, b = (
            self._check(functools.partial(read_layout, name, desc, self._comm, explicit))
            for name, desc in (("desc_a", desc_a), ("desc_b", desc_b))
        )
        self.descriptors: tuple[Layout | None, Layout | None] = a, b
        self.knows_both = a is not None and b is not None

        def checked() -> PlanOptions:
            options = checked_options(schedule, exchange, buffers, memory_limit, op, uplo, diag, fill, agree)
            _check_layouts(options, a, b, op, uplo, via)
            return options

        options = self._check(checked) or PlanOptions(schedule, exchange, buffers)
        self.via: str | tuple[Descriptor, ...] | None = None
        self._between: tuple[Descriptor, ...] = ()
        if via is not None:
            way = self._check(lambda: via if isinstance(via, str) or not isinstance(via, Iterable) else [*via])
            self._between = readable_via(way, self._comm)
            self.via = None if way is None else self._check(lambda: read_via(way, self._comm, self.merged is not None))
        self._options = options
        self.schedule, self.exchange, self.buffers, self.memory_limit, self.op, self.part, self.fill, self.agree = (
            options
        )
        self.call = self._check(lambda: _options_digest(options, self._via_on_all_ranks)) or 0
        self.ranks: tuple[int, ...] = ()
        self.idle = False
        if self.on_paper:
            return
        known = [desc.ranks for desc in (a, b, *self._between) if desc is not None]
        if comm is None and known:  # with one bad descriptor, the other's processes are the best guess
            alike = known.count(known[0]) == len(known)
            self.ranks = known[0] if alike else tuple(sorted(set().union(*known)))
        else:
            self.ranks = tuple(range(self.comm.Get_size()))
        self.idle = self.comm.Get_rank() not in self.ranks

    def _check(self, check: Callable[[], T]) -> T | None:
        """The result of a check; None if it fails. The first error is stored."""
        guard = Guard(self.error)
        checked = guard.attempt(check)
        self.error = guard.error
        return checked

    def known(self) -> tuple[Any, ...]:
        """This rank's layouts and dtype, None for unknown ones, as they are sent to other ranks."""
        return (
            *(None if layout is None else (type(layout), layout._pack()) for layout in self.descriptors),
            self.dtype,
        )

    @property
    def lacks_data(self) -> bool:
        """Whether this rank needs a layout, or the dtype of the requested array, from other ranks."""
        return not self.knows_both or (self.returns == RETURNS_ARRAY and self.dtype is None)

    def completed(self, a: Any, b: Any, dtype: np.dtype[Any] | None) -> Spec:
        """A copy with the layouts and the dtype that other ranks know. Equal on all ranks.

        Raises
        ------
        DescriptorError, ScheduleError
            No rank knows a layout, or the layouts do not fit each other or the options.
        """
        if a is None or b is None:
            raise DescriptorError("no rank knows the layout: CTXT is -1, or the descriptor None, on all of them")
        spec = copy.copy(self)
        a, b = (
            kind._unpack(packed, self.comm) if layout is None else layout
            for layout, (kind, packed) in zip(self.descriptors, (a, b), strict=True)
        )
        spec.descriptors = a, b
        spec.knows_both = True
        if self.merged is not None:
            spec.dtype = dtype
        _check_layouts(self._options, a, b, self.op, None if self.part is None else self.part.uplo, self.via)
        return spec

    @property
    def comm(self) -> MPI.Intracomm:
        """The communicator of the ranks. RuntimeError on paper."""
        if self._comm is None:
            raise RuntimeError("a plan on paper has no communicator")
        return self._comm

    def asked(self) -> Asked:
        """The request of this rank."""
        a, b = self.descriptors
        source, target = None if a is None else a.layout_digest, None if b is None else b.layout_digest
        if self.merged is None:
            return Asked(self.call, source, target)
        dtype = None if self.dtype is None else dtype_digest(self.dtype)
        return Asked(self.call, source, target, self._sender(self.merged), dtype)

    def _sender(self, merged: MergedIntercomm) -> int:
        """The side that sends."""
        return merged.side if self._sends else 1 - merged.side

    @property
    def _via_on_all_ranks(self) -> str | tuple[int, ...] | None:
        """`via` as numbers that are equal on all ranks for equal layouts."""
        via = self.via
        return via if via is None or isinstance(via, str) else tuple([stop.layout_digest for stop in via])

    @property
    def layouts(self) -> tuple[Layout, Layout]:
        """Both layouts.

        Raises
        ------
        Exception
            The stored error, if this rank has one.
        """
        a, b = self.descriptors
        if self.error is not None or a is None or b is None:
            raise self.error or DescriptorError("desc_a or desc_b is None, and comm is not given: pass both, or comm=")
        return a, b

    def statements(self) -> list[Statement]:
        """This rank's request in words, for the error of ranks that differ."""
        options = dict(self._options._asdict(), via=self.via)
        usual = dict(
            checked_options("auto", "auto", "packed", MEMORY_LIMIT, "N", None, "N", None, "always")._asdict(), via=None
        )
        unusual = [f"{name}={value!r}" for name, value in options.items() if repr(value) != repr(usual[name])]
        returned = (
            "a plan: desc_a and desc_b are layouts" if self.returns == RETURNS_PLAN else "an array: desc_a is one"
        )
        statements = [Statement("what the call returns", self.returns, returned)]
        if self.merged is not None:
            role = "desc_a alone, so its side sends" if self._sends else "desc_b alone, so its side receives"
            dtype = None if self.dtype is None else dtype_digest(self.dtype)
            statements += [
                Statement("the direction", self._sender(self.merged), role),
                Statement("dtype", dtype, f"{self.dtype}"),
            ]
        for name, desc in zip(("desc_a", "desc_b"), self.descriptors, strict=True):
            statements.append(Statement(name, None if desc is None else desc.layout_digest, repr(desc)))
        words = ", ".join(unusual) or "those that redistribute has by default"
        return [*statements, Statement("the options", (self._options, self._via_on_all_ranks), words)]


CACHED_SPECS = 8
_cache: OrderedDict[tuple[int, int], tuple[tuple[object, ...], Spec]] = OrderedDict()


def resolve(desc_a: object, desc_b: object, *options: Any) -> Spec:
    """The spec for these arguments; a recent one if all arguments are the same objects.

    Parameters as for `Spec`, all of them and by position.
    """
    if type(desc_a) is not Descriptor or type(desc_b) is not Descriptor:
        return Spec(desc_a, desc_b, *options)
    key = id(desc_a), id(desc_b)  # unique while the cache holds the spec
    cached = _cache.get(key)
    if cached is not None and all(map(operator.is_, options, cached[0])):
        check_running()
        return cached[1]
    spec = Spec(desc_a, desc_b, *options)
    fixed = isinstance(options[0], type | str | np.dtype | None) and spec.via is None  # immutable
    if spec.error is None and not spec.on_paper and spec.merged is None and fixed:
        _cache[key] = options, spec
        while len(_cache) > CACHED_SPECS:
            _cache.popitem(last=False)
    return spec


@functools.lru_cache(maxsize=64)
def _options_digest(options: PlanOptions, via: object) -> int:
    """A number equal on all ranks for equal options."""
    return digest((options, via))


def check_shapes(a: Layout, b: Layout, op: str) -> None:
    """Raise a DescriptorError if B cannot hold op(A)."""
    wanted = a.shape[::-1] if transposes(op) else a.shape
    if b.shape == wanted:
        return
    message = f"desc_a has shape {a.shape} and desc_b {b.shape}: "
    if a.ndim != b.ndim:
        raise DescriptorError(
            f"{message}both must have as many dimensions; desc.merge(k, ...) makes one of several neighbours"
        )
    if transposes(op):
        message += f"op = {op!r} exchanges rows and columns, so desc_b must have shape {wanted}"
    else:
        message += f"a redistribution keeps the global shape, so desc_b must have shape {wanted}"
    pairs = list(zip(wanted, b.shape, strict=True))
    if all(m <= n for m, n in pairs):
        message += "; to write into a part of B, give a sub-array desc_b[i0:i1, ...] of that shape"
    elif all(m >= n for m, n in pairs):
        message += "; to move a part of A, give a sub-array desc_a[i0:i1, ...]"
    raise DescriptorError(message)


def communicator_of(desc: Layout) -> MPI.Intracomm:
    """The communicator of a layout.

    Raises
    ------
    DescriptorError
        The argument is no layout, or is on paper.
    CollectiveError
        The communicator has been freed.
    """
    if not isinstance(desc, LAYOUTS):
        raise DescriptorError(f"desc = {shown(desc)} must be a Descriptor or Tiles")
    if desc.comm is None:
        raise DescriptorError(f"desc = {desc!r} is on paper: give its grid a communicator")
    check_alive(desc.comm)
    return desc.comm


def group_of_all(desc: Layout) -> MPIGroup:
    """All ranks of the communicator of a layout. Collective over it the first time."""
    comm = communicator_of(desc)
    return group_of(comm)


def on_paper(desc_a: object, desc_b: object, comm: object) -> bool:
    """Whether no communicator is known: both grids are without one, and `comm` is None."""
    return (
        comm is None
        and isinstance(desc_a, Descriptor)
        and isinstance(desc_b, Descriptor)
        and desc_a.comm is None
        and desc_b.comm is None
    )


def checked_dtype(dtype: object) -> np.dtype[Any]:
    """The dtype, if its elements can be moved."""
    try:
        checked = np.dtype(dtype)  # type: ignore[call-overload]
    except MemoryError:
        raise
    except Exception as caught:
        raise ArrayError(f"dtype = {shown(dtype)} is not a NumPy dtype: {caught}") from caught
    check_dtype(checked)
    return checked  # type: ignore[no-any-return]


def _merged(comm: object) -> MergedIntercomm | None:
    """Both sides of an inter-communicator as one; None for anything else. Collective over both sides, once."""
    return merge_intercomm(comm) if comm is not None and hasattr(comm, "Get_remote_size") and comm else None  # type: ignore[arg-type]


def _communicator(
    desc_a: object, desc_b: object, comm: MPI.Intracomm | MPI.Intercomm | None, error: BaseException | None
) -> MPI.Intracomm:
    """The communicator through which the ranks can communicate; raises `error` if none is known."""
    if comm is not None:
        if not hasattr(comm, "Create_group"):  # that of no process is of another type
            raise DescriptorError("comm is MPI.COMM_NULL: only ranks that are in a communicator can redistribute on it")
        return comm  # type: ignore[return-value]
    for desc in desc_a, desc_b:
        known = desc.comm if isinstance(desc, LAYOUTS) else None
        if known is not None:
            return known
    raise error or DescriptorError(
        f"desc_a = {shown(desc_a)}, desc_b = {shown(desc_b)}: no communicator is known; "
        "pass comm=, the communicator that holds both grids, with nine integers or None in place of a Descriptor"
    )


def _check_layouts(
    options: PlanOptions, a: Layout | None, b: Layout | None, op: object, uplo: object, via: object
) -> None:
    """Raise an error for options that do not fit the known layouts. `op`, `uplo` and `via` are as the user wrote them."""
    if a is not None:
        options.check(a, op, uplo)
    _check_tiles(options.fill, options.buffers, via, (a, b))
    if a is not None and b is not None:
        check_shapes(a, b, options.op)


def _check_tiles(fill: object, buffers: str, via: object, layouts: Sequence[Layout | None]) -> None:
    """Raise an error for options that tiles do not have."""
    if not any(layout is not None and not layout.is_product for layout in layouts):
        return
    if fill is not None:
        raise DescriptorError(f"fill = {fill!r} is not for tiles: leave it out, and fill B in its own layout")
    if buffers == "datatypes":
        raise ScheduleError(
            "buffers = 'datatypes' with tiles: no derived datatype is made of several local arrays; use buffers='packed'"
        )
    if via is not None:
        raise ScheduleError(f"via = {via!r} is not for tiles: make the legs one by one")
